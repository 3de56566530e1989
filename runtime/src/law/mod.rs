//! The law: one state machine for session, turn, step and call.
//!
//! [`State::apply`] is the only way state changes, [`State::next`] the only thing that decides what happens. A live turn
//! is `loop { next → carry it out → commit records }`; recovery is the same loop after a fold. Nothing here runs
//! anything: it is data to data.

mod apply;
mod call;
mod change;
mod close;
mod compact;
mod decides;
mod next;
mod query;
mod recovery;
mod snapshot;
mod transcript;

pub use call::CallOwes;
pub use compact::CompactionOwed;
pub use next::{Next, Passed};
pub use snapshot::{Kept, Mark, Snapshot, Unfit, Written};
pub use transcript::Transcript;

use crate::{
    AssistantMessage, CallPath, CommandId, Content, Decided, Draft, EndReason, Finish, Frozen,
    HandlerDecision, HandlerId, InputRequested, InputResolved, Limits, Message, Outcome, Point, QueueKind,
    Reason, Record, RequestHeader, RequestId, Seam, Seq, SessionCreated, SessionId, Source, StartSource,
    Subject, ToolCall, ToolResult, ToolRewrite, TurnCancelled,
};
use std::{collections::BTreeMap, sync::Arc};

/// A record that cannot stand where it was put. It does not exist: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} (`{kind}`) cannot stand here: {why}")]
pub struct Invalid {
    /// Where it would have stood.
    pub seq: Seq,
    /// Its type.
    pub kind: String,
    /// Which rule it breaks.
    pub why: &'static str,
}

/// Everything that a session's log says, folded. Small while no turn is open.
#[derive(Debug, Clone, Default)]
pub struct State {
    head: u64,
    created: Option<Arc<SessionCreated>>,
    closed: bool,
    config: Option<Arc<str>>,
    limits: Limits,
    header: Option<Arc<RequestHeader>>,
    /// The starts whose `agent/session-start` is not closed yet, oldest first: rarely more than one.
    starts: Vec<(Seq, StartSource)>,
    queue: BTreeMap<Seq, Queued>,
    /// The commands that have had an outcome.
    commands: BTreeMap<CommandId, Caused>,
    turns: u64,
    turn: Option<Box<Turn>>,
    /// How the last turn that is over ended.
    ended: Option<EndReason>,
    /// The last prompt that a turn which is over worked on.
    prompt: Option<Seq>,
    /// Sealed chunks, one a step.
    sealed: Transcript,
    /// Messages since the last `step/end`; a rewrite may still change the assistant message among them.
    tail: Vec<Message>,
    /// How large the conversation was when the model last answered, in tokens; 0 when that is not known.
    tokens: u64,
    /// The first record whose message still stands: 0, or the last summary's.
    first: Seq,
    /// Where the last step ended.
    sealed_at: Seq,
}

/// Something that was sent and not yet taken.
#[derive(Debug, Clone)]
pub(crate) struct Queued {
    pub(crate) kind: QueueKind,
    pub(crate) content: Content,
    pub(crate) source: Source,
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Caused {
    /// The first record that it queued; what became of that stands behind it.
    Queued(Seq),
    /// It settled this question.
    Answered(RequestId),
    /// It cancelled this turn, or found it cancelled.
    Cancelled(u64),
    /// It took this prompt back.
    Withdrew(Seq),
    /// There was nothing to do.
    Nothing,
}

/// Where something that was queued is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whereabouts {
    /// No turn has taken it.
    Waits,
    /// The open turn has.
    InTurn(u64),
    /// It is over, or was never there.
    Over,
}

/// The open turn.
#[derive(Debug, Clone)]
struct Turn {
    number: u64,
    takes: Vec<(Seq, Queued)>,
    /// Steering that joined it, allowed or blocked.
    joined: Vec<Seq>,
    /// How many of `takes` became a message or were blocked.
    settled: usize,
    allowed: bool,
    veto: Option<Reason>,
    prompt: Option<Seq>,
    decisions: Decisions,
    begun: Begun,
    steps: u32,
    step: Option<Step>,
    /// How the last step ended.
    last: Option<LastStep>,
    /// Steering stands after the last step: another one is owed.
    steered: bool,
    forced_in_a_row: u32,
    forced: u32,
    cancelled: Option<TurnCancelled>,
    /// Where that was recorded: what is queued behind it was not meant.
    cancelled_at: Seq,
    halt: Option<Halt>,
    /// Context that belongs right behind the last message.
    owed: Vec<Draft>,
    /// Where it began, and how many messages stood in the tail then.
    begun_at: Seq,
    tail_at: usize,
    compaction: Option<Compacting>,
    /// Where the summary stands that came of it, until the next step begins.
    summarised: Option<(Seq, Content)>,
    recovery: Recovery,
    /// One was tried in this turn since the model last answered, and came to nothing.
    compaction_tried: bool,
}

/// How often the turn was taken up since it last came on, with something of its own under way each time.
#[derive(Debug, Clone, Copy, Default)]
struct Recovery {
    taken_up: u32,
    /// The session has left memory on purpose: the next time it is taken up says nothing against the turn.
    left: bool,
    /// It is given up, whatever stands behind that.
    given_up: bool,
}

/// A compaction that has begun.
#[derive(Debug, Clone)]
struct Compacting {
    at: Seq,
    from: Seq,
    to: Seq,
}

/// The decisions of the open turn that may still matter, as the records that hold them: no copies, and a look at them
/// neither hashes nor clones a key.
#[derive(Debug, Clone, Default)]
struct Decisions(BTreeMap<Subject, BTreeMap<Point, Vec<Arc<Record>>>>);

/// The handlers that have begun and must not run twice: few have such.
type Begun = Vec<(Point, Subject, HandlerId)>;

impl Decisions {
    fn of(&self, point: Point, subject: &Subject) -> &[Arc<Record>] {
        self.0.get(subject).and_then(|points| points.get(&point)).map_or(&[], Vec::as_slice)
    }

    fn push(&mut self, decided: crate::Decisions<'_>, record: &Arc<Record>) {
        let points = match self.0.get_mut(decided.subject) {
            Some(points) => points,
            None => self.0.entry(decided.subject.clone()).or_default(),
        };
        points.entry(decided.point).or_default().push(record.clone());
    }
}

/// The first halt that was asked for.
#[derive(Debug, Clone)]
struct Halt {
    by: HandlerId,
    reason: Reason,
    /// What the decision was about: a point that is still open is finished first.
    subject: Subject,
}

impl Turn {
    /// The session's start ended the turn: no prompt of its batch is judged, nor does one reach the model.
    fn ended_at_start(&self) -> Option<&Halt> {
        self.halt.as_ref().filter(|halt| matches!(halt.subject, Subject::Session(_)))
    }
}

#[derive(Debug, Clone)]
struct LastStep {
    calls: bool,
    finish: Option<Finish>,
    text: Arc<str>,
}

/// The open step.
#[derive(Debug, Clone)]
struct Step {
    number: u32,
    request: Request,
    message: Option<Arc<AssistantMessage>>,
    /// Where the assistant message stands in the tail.
    message_at: Option<usize>,
    calls: BTreeMap<CallPath, Call>,
    /// How much of the context that its calls earned stands already.
    contexts: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Owed { attempt: u32 },
    InFlight { attempt: u32 },
    Answered,
}

/// One call of the open step.
#[derive(Debug, Clone)]
struct Call {
    id: Arc<str>,
    name: Arc<str>,
    raw: Arc<str>,
    rewrite: Option<Arc<ToolRewrite>>,
    sealed: Option<Arc<ToolCall>>,
    /// Which attempt at its gate this is, from 1: one more each time that it was deferred and is taken up again.
    attempt: u32,
    asked: Option<Arc<InputRequested>>,
    answered: Option<Arc<InputResolved>>,
    body: Body,
    outcome: Option<(Arc<Outcome>, u64)>,
    result: bool,
    /// What the body of its parent gets; kept for nested calls only, a call of the model has its message.
    given: Option<Arc<ToolResult>>,
    /// The subagents that its body has started, and whether they have ended.
    children: Vec<(SessionId, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    NotStarted,
    Running { attempt: u32 },
    Orphaned { attempt: u32 },
    Returned,
}

impl State {
    /// The state of an empty log.
    pub fn new() -> State {
        State::default()
    }

    /// The next record's number.
    pub fn head(&self) -> Seq {
        Seq(self.head)
    }

    /// How the session was created; `None` for an empty log.
    pub fn created(&self) -> Option<&Arc<SessionCreated>> {
        self.created.as_ref()
    }

    /// True for a fork that has no record of its own yet.
    pub fn is_fresh_fork(&self) -> bool {
        let seed = self.created.as_ref().and_then(|created| created.seed.as_ref());
        seed.is_some_and(|seed| seed.own == Seq(self.head))
    }

    /// True after `session/closed`.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The digest of the configuration in force.
    pub fn config(&self) -> Option<&Arc<str>> {
        self.config.as_ref()
    }

    /// The header that requests carry from here on.
    pub fn header(&self) -> Option<&Arc<RequestHeader>> {
        self.header.as_ref()
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The open turn's number.
    pub fn open_turn(&self) -> Option<u64> {
        self.turn.as_ref().map(|t| t.number)
    }

    /// How many turns have begun.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// How the last turn that is over ended; `None` before the first end.
    pub fn last_end(&self) -> Option<&EndReason> {
        self.ended.as_ref()
    }

    /// The open step's number; 0 before the first step of the open turn, the last one's between steps.
    pub fn step_number(&self) -> u32 {
        self.turn.as_ref().map_or(0, |t| t.steps)
    }

    /// True when a turn is open and nothing is done in it yet: none of what it took, and no step.
    pub fn is_turn_new(&self) -> bool {
        self.turn.as_ref().is_some_and(|t| t.settled == 0 && t.steps == 0 && t.cancelled.is_none())
    }

    /// The prompt that the open turn is working on.
    pub fn current_prompt(&self) -> Option<Seq> {
        self.turn.as_ref().and_then(|t| t.prompt)
    }

    /// The prompt that a turn worked on last: the open one, or one that is over.
    pub fn last_prompt(&self) -> Option<Seq> {
        self.current_prompt().or(self.prompt)
    }

    /// What started the session, while its `agent/session-start` is not closed yet: a resume, and a compaction before it,
    /// are two.
    pub fn starts_owed(&self) -> &[(Seq, StartSource)] {
        &self.starts
    }

    /// Where a start is judged: a subagent's has a point of its own.
    pub fn start_point(&self) -> Point {
        let child = self.created.as_ref().is_some_and(|c| c.parent.is_some());
        if child { Point::SubagentStart } else { Point::SessionStart }
    }

    /// The first cause of the open turn's cancel.
    pub fn cancelled(&self) -> Option<&TurnCancelled> {
        self.turn.as_ref().and_then(|t| t.cancelled.as_ref())
    }

    /// How often the open turn was forced on since its last tool call.
    pub fn forced_in_a_row(&self) -> u32 {
        self.turn.as_ref().map_or(0, |t| t.forced_in_a_row)
    }

    /// How often the open turn was forced on so far.
    pub fn forced_in_turn(&self) -> u32 {
        self.turn.as_ref().map_or(0, |t| t.forced)
    }

    /// The text of the last step's message.
    pub fn last_text(&self) -> Arc<str> {
        self.turn.as_ref().and_then(|t| t.last.as_ref()).map_or_else(|| "".into(), |last| last.text.clone())
    }

    /// Something queued: its content and source. Taken prompts of the open turn included.
    pub fn queued(&self, seq: Seq) -> Option<(&Content, &Source)> {
        let taken = || self.turn.as_ref()?.takes.iter().find(|(s, _)| *s == seq).map(|(_, q)| q);
        let queued = self.queue.get(&seq).or_else(taken)?;
        Some((&queued.content, &queued.source))
    }

    /// What a command came to; `None` for one that is not known.
    pub fn caused(&self, command: &CommandId) -> Option<&Caused> {
        self.commands.get(command)
    }

    /// Where something is that was queued there.
    pub fn whereabouts(&self, seq: Seq) -> Whereabouts {
        if let Some(turn) = self.turn.as_deref() {
            // Between two steps the first steering is being judged, or is about to be.
            let between = turn.step.is_none() && turn.steps > 0;
            let judged = between && self.steering().is_some_and(|(first, _)| *first == seq);
            if judged || turn.joined.contains(&seq) || turn.takes.iter().any(|(taken, _)| *taken == seq) {
                return Whereabouts::InTurn(turn.number);
            }
        }
        // What code injects is no prompt.
        match self.queue.get(&seq) {
            Some(queued) if queued.kind.opens_turn() => Whereabouts::Waits,
            _ => Whereabouts::Over,
        }
    }

    /// True when something that opens a turn waits.
    pub fn has_prompts(&self) -> bool {
        self.queue.values().any(|q| q.kind.opens_turn())
    }

    /// The prompts that wait for the next turn.
    pub fn waiting(&self) -> impl Iterator<Item = Seq> {
        self.queue.keys().copied()
    }

    /// The conversation so far, as a request would carry it. Costs the open step's messages, not the history.
    pub fn transcript(&self) -> Transcript {
        self.sealed.with(&self.tail)
    }

    /// The decisions recorded so far about a subject of the open turn that say something: what a fold needs to see.
    pub fn decided<S: Seam>(&self, subject: &Subject) -> Vec<Decided<S::Decision>> {
        self.recorded(S::POINT, subject)
            .filter_map(|made| {
                let decision = S::recall(&made.decision)?;
                if S::says_nothing(decision) {
                    return None;
                }
                let failure = made.failure.clone();
                Some(Decided { by: made.id.clone(), decision: decision.clone(), failure })
            })
            .collect()
    }

    /// True when some handler of this point has decided about this subject.
    pub fn has_decided(&self, point: Point, subject: &Subject) -> bool {
        self.turn.as_deref().is_some_and(|t| !t.decisions.of(point, subject).is_empty())
    }

    /// True when a handler that must not run twice has begun to decide about this subject.
    pub fn has_begun(&self, point: Point, subject: &Subject, id: &HandlerId) -> bool {
        let begun = self.turn.as_deref().map_or(&[][..], |t| &t.begun);
        begun.iter().any(|(p, s, by)| *p == point && s == subject && by == id)
    }

    /// True when some handler of this point has decided about this subject, or has begun to and must not run twice.
    fn is_entered(&self, point: Point, subject: &Subject) -> bool {
        let begun = |t: &Turn| t.begun.iter().any(|(p, s, _)| *p == point && s == subject);
        self.has_decided(point, subject) || self.turn.as_deref().is_some_and(begun)
    }

    /// The recorded decision of one handler, if it has decided.
    pub fn decision_of(&self, point: Point, subject: &Subject, id: &HandlerId) -> Option<&HandlerDecision> {
        self.recorded(point, subject).find(|made| made.id == *id)
    }

    fn recorded(&self, point: Point, subject: &Subject) -> impl Iterator<Item = &HandlerDecision> {
        let records = self.turn.as_deref().map_or(&[][..], |t| t.decisions.of(point, subject));
        records.iter().filter_map(|record| record.body.decisions()).flat_map(|decisions| decisions.made)
    }

    /// A call of the open step, as far as it has come.
    pub fn call_facts(&self, path: &CallPath) -> Option<CallFacts> {
        let call = self.turn.as_ref()?.step.as_ref()?.calls.get(path)?;
        let sealed = call.sealed.as_ref().and_then(|c| match &c.arguments {
            crate::Arguments::Sealed { text } => Some(text.clone()),
            crate::Arguments::Refused { .. } => None,
        });
        Some(CallFacts {
            id: call.id.clone(),
            name: call.name.clone(),
            raw: call.raw.clone(),
            requested: call.rewrite.as_ref().map(|r| r.requested.clone()).or_else(|| sealed.clone()),
            arguments: sealed,
            asked: call.asked.clone(),
            took_ms: call.outcome.as_ref().map_or(0, |(_, ms)| *ms),
        })
    }

    /// The waits that are open, questions to a person and deferred calls, with the call each belongs to.
    pub fn asks(&self) -> Vec<(CallPath, Arc<InputRequested>)> {
        let Some(step) = self.turn.as_ref().and_then(|t| t.step.as_ref()) else { return Vec::new() };
        step.calls
            .iter()
            .filter(|(_, c)| !c.result)
            .filter_map(|(path, c)| Some((path.clone(), c.waits()?.clone())))
            .collect()
    }
}

/// What is known of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallFacts {
    /// The model's own id.
    pub id: Arc<str>,
    /// The tool's name, as the model wrote it.
    pub name: Arc<str>,
    /// The arguments as the model wrote them.
    pub raw: Arc<str>,
    /// The model's arguments, once accepted.
    pub requested: Option<Frozen>,
    /// The arguments in force, once sealed.
    pub arguments: Option<Frozen>,
    /// The question asked about it.
    pub asked: Option<Arc<InputRequested>>,
    /// How long its body took, in milliseconds.
    pub took_ms: u64,
}
