//! The interception seams: named points where code may act on a session.
//!
//! Every awaiting seam has the same shape, [`Seam`]: an input, a decision, what a failure means, and a fold whose winner
//! does not depend on the order of its handlers. One driver runs them all. Two points differ on purpose and have their
//! own traits: [`Guard`] (synchronous, only denies) and [`ResultObserver`] (sees the committed result, decides nothing).

mod asked;
mod batch;
mod compacted;
mod compaction;
mod continuation;
mod execute;
mod guard;
mod log;
mod permission;
mod post_execute;
mod pre_execute;
mod prompt_submit;
mod result;
mod rewrite;
pub(crate) mod session_end;
mod session_start;
mod subagent;
mod turn_end;
pub(crate) mod turn_start;
mod turn_stop;

pub use asked::{AskObserver, PutQuestion};
pub use batch::{BatchCall, Batched, CallBatch, ToolBatch};
pub use compacted::{AfterCompaction, Noted, Summarised};
pub use compaction::{Compact, Compacted, Compacting, Compaction};
pub use continuation::{Continue, Ending, TurnContinuation};
pub use execute::{Next, Rest, Wrapper};
pub use guard::{Guard, GuardVerdict};
pub use log::SessionLog;
pub use permission::{Asking, Permission, Permit, Permitted};
pub use post_execute::{PostExecute, Returned, ReturnedData, Review, Reviewed};
pub use pre_execute::{Gate, PreExecute, Verdict};
pub use prompt_submit::{Judged, PromptSubmit, Submit, Submitted};
pub use result::{Committed, ResultObserver};
pub use rewrite::{Proposal, Proposed, ProposedData, Rewrite, Rewritten};
pub use session_end::{EndObserver, PlannedEnd, SessionEnded};
pub use session_start::{SessionStart, StartSource, Started, Starting};
pub use subagent::{ChildEnded, ChildObserver, ChildStarting, SubagentStart};
pub use turn_end::{TurnEnded, TurnObserver};
pub use turn_start::{Ready, StartObserver, TurnStarting};
pub use turn_stop::{Boundary, StopTurn, TurnStop};

use crate::{Frozen, HandlerId, Journal, Reason, Seq, SessionId, plan::Table};
use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

/// The points that fire. `tools/guard` and `tools/result` are points, too, with traits of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Point {
    /// A turn begins.
    #[serde(rename = "agent/turn-start")]
    TurnStart,
    /// A session started or resumed; handlers may add context.
    #[serde(rename = "agent/session-start")]
    SessionStart,
    /// A subagent started; handlers may add context.
    #[serde(rename = "subagent/start")]
    SubagentStart,
    /// A user's prompt, before its message exists.
    #[serde(rename = "agent/prompt-submit")]
    PromptSubmit,
    /// A call's arguments, before its identity exists.
    #[serde(rename = "tools/rewrite")]
    Rewrite,
    /// May this call run?
    #[serde(rename = "tools/pre-execute")]
    PreExecute,
    /// A person is about to be asked about a call: who answers in that person's stead?
    #[serde(rename = "tools/permission")]
    Permission,
    /// A person is asked about a call.
    #[serde(rename = "tools/asked")]
    Asked,
    /// The last word on a call: deny or abstain.
    #[serde(rename = "tools/guard")]
    Guard,
    /// Around a body.
    #[serde(rename = "tools/execute")]
    Execute,
    /// A decided call, before its result is final.
    #[serde(rename = "tools/post-execute")]
    PostExecute,
    /// A committed result.
    #[serde(rename = "tools/result")]
    Result,
    /// Every call of a step has its result.
    #[serde(rename = "tools/batch")]
    Batch,
    /// The turn is about to stop.
    #[serde(rename = "agent/turn-continuation")]
    Continuation,
    /// The turn is about to go on with another step.
    #[serde(rename = "agent/turn-stop")]
    Stop,
    /// The conversation is about to be summarised.
    #[serde(rename = "agent/compaction")]
    Compaction,
    /// The conversation was summarised.
    #[serde(rename = "agent/compacted")]
    Compacted,
    /// A turn is over.
    #[serde(rename = "agent/turn-end")]
    TurnEnd,
    /// A subagent has ended.
    #[serde(rename = "subagent/end")]
    SubagentEnd,
    /// A session's host ends it.
    #[serde(rename = "agent/session-end")]
    SessionEnd,
}

impl Point {
    /// Every point, in the order in which a turn meets them.
    pub const ALL: [Point; 20] = [
        Point::TurnStart,
        Point::SessionStart,
        Point::SubagentStart,
        Point::PromptSubmit,
        Point::Rewrite,
        Point::PreExecute,
        Point::Permission,
        Point::Asked,
        Point::Guard,
        Point::Execute,
        Point::PostExecute,
        Point::Result,
        Point::Batch,
        Point::Continuation,
        Point::Stop,
        Point::Compaction,
        Point::Compacted,
        Point::TurnEnd,
        Point::SubagentEnd,
        Point::SessionEnd,
    ];

    /// The name, as the log and `introspect()` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Point::TurnStart => "agent/turn-start",
            Point::SessionStart => "agent/session-start",
            Point::SubagentStart => "subagent/start",
            Point::PromptSubmit => "agent/prompt-submit",
            Point::Rewrite => "tools/rewrite",
            Point::PreExecute => "tools/pre-execute",
            Point::Permission => "tools/permission",
            Point::Asked => "tools/asked",
            Point::Guard => "tools/guard",
            Point::Execute => "tools/execute",
            Point::PostExecute => "tools/post-execute",
            Point::Result => "tools/result",
            Point::Batch => "tools/batch",
            Point::Continuation => "agent/turn-continuation",
            Point::Stop => "agent/turn-stop",
            Point::Compaction => "agent/compaction",
            Point::Compacted => "agent/compacted",
            Point::TurnEnd => "agent/turn-end",
            Point::SubagentEnd => "subagent/end",
            Point::SessionEnd => "agent/session-end",
        }
    }

    /// True where a handler can change what happens; false where it observes, or adds context.
    pub fn decides(self) -> bool {
        !matches!(
            self,
            Point::TurnStart
                | Point::Asked
                | Point::Result
                | Point::TurnEnd
                | Point::SubagentEnd
                | Point::SessionEnd
        )
    }

    /// What a failure of a handler at this point means, in a word (C-PIPE-3).
    pub fn on_failure(self) -> &'static str {
        match self {
            Point::TurnStart
            | Point::SessionStart
            | Point::SubagentStart
            | Point::Asked
            | Point::Compacted
            | Point::TurnEnd
            | Point::SubagentEnd
            | Point::SessionEnd
            | Point::Result => "reported",
            Point::PromptSubmit => "blocks the prompt",
            Point::Rewrite | Point::PreExecute | Point::Permission | Point::Guard => "denies",
            Point::Execute => "error result",
            Point::PostExecute => "result stands, reported",
            Point::Batch => "results stand, reported",
            Point::Continuation | Point::Stop => "stops",
            Point::Compaction => "skips it",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the runtime knows about a session from the start; frozen and shared by every snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's name.
    pub id: SessionId,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// The kind of front door it was opened through: `cli`, `http`, `library`, …
    pub channel: Arc<str>,
    /// The session at the root of its tree: itself, unless it is a subagent's.
    pub root: SessionId,
    /// The session that it is a subagent of; `None` for the root.
    pub parent: Option<SessionId>,
    /// The kinds of the agents from the root's child down to this one; empty for the root.
    pub agents: Arc<[Arc<str>]>,
    /// The name of the model that answers in it, if whoever described it said so; the runtime does.
    pub model: Option<Arc<str>>,
    stored: log::Stored,
}

impl SessionInfo {
    /// Describes a session.
    pub fn new(id: SessionId, cwd: PathBuf, channel: impl Into<Arc<str>>) -> SessionInfo {
        SessionInfo {
            root: id.clone(),
            id,
            cwd,
            channel: channel.into(),
            parent: None,
            agents: Arc::from([]),
            model: None,
            stored: log::Stored::default(),
        }
    }

    /// Describes a subagent's session.
    pub fn child(&self, id: SessionId, cwd: PathBuf, kind: Arc<str>) -> SessionInfo {
        let agents = self.agents.iter().cloned().chain([kind]).collect();
        SessionInfo {
            id,
            cwd,
            channel: self.channel.clone(),
            root: self.root.clone(),
            parent: Some(self.id.clone()),
            agents,
            model: self.model.clone(),
            stored: self.stored.clone(),
        }
    }

    /// This model answers in it, and in its subagents.
    pub fn model(mut self, name: impl Into<Arc<str>>) -> SessionInfo {
        self.model = Some(name.into());
        self
    }

    /// Its log, and those of its subagents, are kept in this journal.
    pub fn stored(mut self, journal: Arc<dyn Journal>) -> SessionInfo {
        self.stored.0 = Some(journal);
        self
    }

    /// Its log; `None` where no session stands behind the description.
    pub fn log(&self) -> Option<SessionLog> {
        self.stored.log(&self.id)
    }

    /// The log of the session that it is a subagent of.
    pub fn parent_log(&self) -> Option<SessionLog> {
        self.stored.log(self.parent.as_ref()?)
    }

    /// The log of the session at the root of its tree.
    pub fn root_log(&self) -> Option<SessionLog> {
        self.stored.log(&self.root)
    }

    /// How deep it is: 0 for the root, 1 for its subagents, and so on.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.agents.len()).unwrap_or(u32::MAX)
    }

    /// The kind of agent, for a subagent.
    pub fn kind(&self) -> Option<&Arc<str>> {
        self.agents.last()
    }
}

/// Where a handler is called: the session, and how far the open turn has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scene {
    /// The session.
    pub session: Arc<SessionInfo>,
    /// The open turn, from 1.
    pub turn: u64,
    /// The step, from 1; 0 before the first.
    pub step: u32,
    /// The queued record of the prompt being worked on; `None` before any prompt was allowed.
    pub prompt: Option<Seq>,
}

impl Scene {
    /// Describes a place in a session.
    pub fn new(session: Arc<SessionInfo>, turn: u64, step: u32, prompt: Option<Seq>) -> Scene {
        Scene { session, turn, step, prompt }
    }
}

/// How foreign code failed. Named by owner wherever it is kept; details never reach the model (C-PIPE-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// It panicked; the payload, if it was text.
    #[error("panicked: {message}")]
    Panic {
        /// The panic's text.
        message: Arc<str>,
    },
    /// It returned an error.
    #[error("failed: {message}")]
    Error {
        /// The error's text.
        message: Arc<str>,
    },
    /// It did not answer within its time limit.
    #[error("did not answer within {limit_ms} ms")]
    Deadline {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// Its process ended before it had answered, and it is declared to run once.
    #[error("was cut off with its process, and must not run twice")]
    CutOff,
    /// What it returned makes no sense at its point.
    #[error("answered nonsense: {message}")]
    Nonsense {
        /// What was wrong.
        message: Arc<str>,
    },
}

/// Any error a handler or a tool may return.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What rides along with any decision: context for the model and a wish to halt the turn, beside the decision itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reply<D> {
    /// The decision.
    pub decision: D,
    /// Context for the model, in order. Empty texts are dropped.
    pub context: Vec<Arc<str>>,
    /// Ends the turn `halted` where the point allows it; inside a step, when that step's calls have their results.
    pub halt: Option<Reason>,
    /// Records of the handler's owner that belong to this decision (`hook/invoked`, `hook/result`): appended with it.
    pub records: Vec<OwnRecord>,
    /// A failure the handler contained itself; recorded beside the decision.
    pub failure: Option<Failure>,
}

/// A record that an owner adds to the log; readers without the owner skip it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRecord {
    /// The type, `owner/name` (such as `hook/result`); never one of the runtime's own.
    pub kind: Arc<str>,
    /// Its data, one JSON object.
    pub data: Frozen,
}

impl<D> Reply<D> {
    /// A bare decision.
    pub fn new(decision: D) -> Self {
        Reply { decision, context: Vec::new(), halt: None, records: Vec::new(), failure: None }
    }

    /// Adds context for the model.
    pub fn context(mut self, text: impl Into<Arc<str>>) -> Self {
        self.context.push(text.into());
        self
    }

    /// Asks for the turn to end `halted`.
    pub fn halt(mut self, reason: impl Into<Reason>) -> Self {
        self.halt = Some(reason.into());
        self
    }

    /// Adds a record of the handler's owner.
    pub fn record(mut self, record: OwnRecord) -> Self {
        self.records.push(record);
        self
    }

    /// Notes a failure that the handler turned into this decision itself.
    pub fn failed(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }
}

/// What a handler closure may return: a decision, a [`Reply`], or a `Result` of either.
pub trait IntoReply<D> {
    /// The reply, or the error that the seam's failure rule then answers.
    fn into_reply(self) -> Result<Reply<D>, BoxError>;
}

impl<D> IntoReply<D> for D {
    fn into_reply(self) -> Result<Reply<D>, BoxError> {
        Ok(Reply::new(self))
    }
}

impl<D> IntoReply<D> for Reply<D> {
    fn into_reply(self) -> Result<Reply<D>, BoxError> {
        Ok(self)
    }
}

impl<D, E: Into<BoxError>> IntoReply<D> for Result<D, E> {
    fn into_reply(self) -> Result<Reply<D>, BoxError> {
        self.map(Reply::new).map_err(Into::into)
    }
}

impl<D, E: Into<BoxError>> IntoReply<D> for Result<Reply<D>, E> {
    fn into_reply(self) -> Result<Reply<D>, BoxError> {
        self.map_err(Into::into)
    }
}

/// A decision with who took it, as the log keeps it. Folds read these, never live handlers.
#[derive(Debug, Clone)]
pub struct Decided<D> {
    /// Who decided.
    pub by: HandlerId,
    /// What.
    pub decision: D,
    /// The failure it stands for, if the handler failed.
    pub failure: Option<Failure>,
}

/// The shape every awaiting seam has. Containment, deadline, record and lookup are written once over it.
pub trait Seam: Sized + 'static {
    /// The point.
    const POINT: Point;
    /// What a handler sees: a frozen snapshot.
    type Input: Clone + Send + 'static;
    /// What a handler returns.
    type Decision: Clone + Send + Sync + 'static;
    /// What the decisions of a point come to.
    type Folded;

    /// The decision that a failure stands for: never more than the failed handler could have granted.
    fn failed(failure: &Failure) -> Self::Decision;
    /// True when no further *native* handler needs to be asked. Bridges run all their hooks regardless.
    fn ends_chain(_decision: &Self::Decision) -> bool {
        false
    }
    /// True where native handlers run first, and bridges see, and are planned on, what those left.
    const NATIVE_FIRST: bool = false;
    /// What the next handler sees after this one decided.
    fn advance(_input: &mut Self::Input, _by: &HandlerId, _decision: &Self::Decision, _native: bool) {}
    /// What the decisions come to. The winner does not depend on their order.
    fn fold(decided: &[Decided<Self::Decision>]) -> Self::Folded;
    /// Where the input is about.
    fn scene(input: &Self::Input) -> &Scene;
    /// The tool the input is about, for handlers that named tools.
    fn tool(_input: &Self::Input) -> Option<&str> {
        None
    }
    /// The decision as the log keeps it.
    fn record(decision: Self::Decision) -> Decision;
    /// The decision back from the log; `None` when it belongs to another point.
    fn recall(decision: &Decision) -> Option<&Self::Decision>;
    /// True for a decision without which [`fold`](Seam::fold) comes to the same.
    fn says_nothing(_decision: &Self::Decision) -> bool {
        false
    }
    /// This seam's part of the table.
    fn entries(table: &Table) -> &Vec<crate::plan::Entry<Self>>;
    /// This seam's part of the table, to register into.
    #[doc(hidden)]
    fn entries_mut(table: &mut Table) -> &mut Vec<crate::plan::Entry<Self>>;
}

/// A decision of any seam, as `decision/recorded` keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "seam", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Of `agent/session-start`.
    SessionStart(Started),
    /// Of `subagent/start`.
    SubagentStart(Started),
    /// Of `agent/prompt-submit`.
    PromptSubmit(Submit),
    /// Of `tools/rewrite`.
    Rewrite(Proposal),
    /// Of `tools/pre-execute`.
    PreExecute(Gate),
    /// Of `tools/permission`.
    Permission(Permit),
    /// Of a guard.
    Guard(GuardVerdict),
    /// Of `tools/post-execute`.
    PostExecute(Review),
    /// Of `tools/batch`.
    Batch(Batched),
    /// Of `agent/turn-continuation`.
    Continuation(Continue),
    /// Of `agent/turn-stop`.
    Stop(StopTurn),
    /// Of `agent/compaction`.
    Compaction(Compact),
    /// Of `agent/compacted`.
    Compacted(Noted),
}

impl Decision {
    /// True when this is a decision of that point.
    pub(crate) fn fits(&self, point: Point) -> bool {
        let own = match self {
            Decision::SessionStart(_) => Point::SessionStart,
            Decision::SubagentStart(_) => Point::SubagentStart,
            Decision::PromptSubmit(_) => Point::PromptSubmit,
            Decision::Rewrite(_) => Point::Rewrite,
            Decision::PreExecute(_) => Point::PreExecute,
            Decision::Permission(_) => Point::Permission,
            Decision::Guard(_) => Point::Guard,
            Decision::PostExecute(_) => Point::PostExecute,
            Decision::Batch(_) => Point::Batch,
            Decision::Continuation(_) => Point::Continuation,
            Decision::Stop(_) => Point::Stop,
            Decision::Compaction(_) => Point::Compaction,
            Decision::Compacted(_) => Point::Compacted,
        };
        own == point
    }

    /// The decision in a word, for people.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::SessionStart(_) | Decision::SubagentStart(_) => "started",
            Decision::PromptSubmit(Submit::Allow { content: None }) => "allow",
            Decision::PromptSubmit(Submit::Allow { content: Some(_) }) => "replace",
            Decision::PromptSubmit(Submit::Block { .. }) => "block",
            Decision::Rewrite(Proposal { carried: Some(gate), .. }) | Decision::PreExecute(gate) => {
                gate.word()
            }
            Decision::Rewrite(Proposal { arguments: Some(_), .. }) => "rewrite",
            Decision::Rewrite(_) => "pass",
            Decision::Permission(permit) => permit.word(),
            Decision::Guard(GuardVerdict::Abstain) => "abstain",
            Decision::Guard(GuardVerdict::Deny { .. }) => "deny",
            Decision::PostExecute(Review::Accept { content: None }) => "accept",
            Decision::PostExecute(Review::Accept { content: Some(_) }) => "replace",
            Decision::PostExecute(Review::Block { .. }) => "block",
            Decision::Batch(_) => "seen",
            Decision::Continuation(Continue::Abstain) => "abstain",
            Decision::Continuation(Continue::Again { .. }) => "continue",
            Decision::Stop(StopTurn::Abstain) => "abstain",
            Decision::Stop(StopTurn::Stop) => "stop",
            Decision::Compaction(Compact::Proceed { .. }) => "proceed",
            Decision::Compaction(Compact::Skip { .. }) => "skip",
            Decision::Compacted(_) => "noted",
        }
    }
}

/// A handler of a seam. The object is shared by all arbiters; its future stays on the session's and need not be `Send`.
///
/// `async |input| decision`, `|input| async move { decision }` and closures that return [`Reply`] or `Result` are
/// handlers; types implement it directly.
pub trait Handler<S: Seam>: Send + Sync + 'static {
    /// Decides. A panic, an error or running into the deadline is a failure and is answered by [`Seam::failed`].
    fn decide(&self, input: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>>;

    /// True for one that must not run twice for one decision, whatever happens to its process: that it begins is on disk
    /// before it does (`decision/begun`, a record and a wait), and if it was cut off, it counts as failed. Any other
    /// handler that was cut off runs again. See [`Registrar::once`](crate::Registrar::once).
    fn once(&self) -> bool {
        false
    }
}

impl<S: Seam, F, R> Handler<S> for F
where
    F: AsyncFn(S::Input) -> R + Send + Sync + 'static,
    R: IntoReply<S::Decision>,
{
    fn decide(&self, input: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>> {
        Box::pin(async move { self(input).await.into_reply() })
    }
}

/// A handler as the driver sees it, native or of a bridge. One hook command is one of these, with its own key, deadline
/// and record.
pub struct Planned<S: Seam> {
    /// Its durable name.
    pub id: HandlerId,
    /// Its time limit.
    pub deadline: Duration,
    /// The code.
    pub run: Arc<dyn Handler<S>>,
    /// True for in-process handlers: a native deny ends the native chain, and a process that must not start before the
    /// log is durable is never behind one.
    pub native: bool,
}

/// A bridge contributes handlers for each dispatch, by pure matching; never one opaque handler that hides many decisions.
pub trait HandlerSource<S: Seam>: Send + Sync + 'static {
    /// Adds the handlers that match this input, in order.
    fn plan(&self, input: &S::Input, out: &mut Vec<Planned<S>>);
    /// What could match, for `introspect()`.
    fn describe(&self) -> Vec<crate::plan::Registered>;
    /// True while nothing could match: then its point costs what it costs without it. What is true of one point may change
    /// from one moment to the next.
    fn is_idle(&self) -> bool {
        false
    }
}
