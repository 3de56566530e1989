//! What is owed next.

use super::{Body as CallBody, Call, CallOwes, Queued, Request, State, Step, Turn, compact};
use crate::{
    At, Body, CallPath, ContextMessage, Draft, EndReason, Finish, HandlerId, Point, PromptBlocked, QueueKind,
    Seam, Seq, Source, SteeringMessage, StepEnd, Subject, TurnEnd, TurnStart, TurnStop, UserMessage,
};

/// What is owed next. The driver carries it out and commits records; each of them discharges something owed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Nothing: no turn is open and nothing that opens one is queued.
    Idle,
    /// Something in flight will come back.
    Await,
    /// These records, with no outside help.
    Commit(Vec<Draft>),
    /// The handlers of a point that have not decided; then [`State::close`].
    Judge {
        /// The point.
        point: Point,
        /// About what.
        subject: Subject,
    },
    /// `step/start`, with a `request/header` in the same append if the header in force is another.
    OpenStep {
        /// The step's number.
        step: u32,
    },
    /// A summary of the conversation that [`State::compaction`] names, then [`State::end_compaction`].
    Summarise,
    /// A model request, then `assistant/message`.
    Model {
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Something of a call of the open step.
    Call {
        /// The call.
        path: CallPath,
        /// What.
        owes: CallOwes,
    },
}

/// A point that the driver knows to have no undecided handler left. The plan is not in the log, so the law cannot know.
pub type Passed = (Point, Subject);

impl State {
    /// What is owed next. `passed` is the point the driver has just finished, if closing it left no record.
    pub fn next(&self, passed: Option<&Passed>) -> Next {
        let Some(turn) = &self.turn else { return self.begin() };
        if turn.recovery.given_up {
            return Next::Commit(self.interrupt());
        }
        if !turn.owed.is_empty() {
            return Next::Commit(turn.owed.clone());
        }
        if turn.cancelled.is_some() {
            return self.wind_down(turn);
        }
        if let Some(open) = &turn.compaction {
            let (point, subject) = (Point::Compaction, Subject::Compaction(open.at));
            let asked = passed.is_some_and(|(p, s)| *p == point && *s == subject);
            return if asked { Next::Summarise } else { Next::Judge { point, subject } };
        }
        if let Some((at, _)) = &turn.summarised {
            let this = (Point::Compacted, Subject::Compaction(*at));
            // The boundary at which it was made is asked again behind it: whoever has passed that has passed this.
            let behind = (Point::Stop, Subject::Step(turn.steps));
            if ![Some(&this), Some(&behind)].contains(&passed) {
                return Next::Judge { point: this.0, subject: this.1 };
            }
        }
        if let Some(step) = &turn.step {
            return match step.request {
                Request::Owed { attempt } => Next::Model { attempt },
                Request::InFlight { .. } => Next::Await,
                Request::Answered => {
                    self.next_call(passed).unwrap_or_else(|| self.after_calls(turn, step, passed))
                }
            };
        }
        if turn.settled == 0 && turn.steps == 0 {
            // One after another: with the last one passed, all are.
            let point = self.start_point();
            let judged = passed.filter(|(p, _)| *p == point).and_then(|(_, subject)| {
                self.starts.iter().position(|(seq, _)| *subject == Subject::Session(*seq))
            });
            if let Some((seq, _)) = self.starts.get(judged.map_or(0, |place| place + 1)) {
                return Next::Judge { point, subject: Subject::Session(*seq) };
            }
        }
        if let Some((seq, queued)) = turn.takes.get(turn.settled) {
            return take(turn, *seq, queued);
        }
        if turn.steps == 0 {
            // To halt is more than to block: it says that the turn is over.
            return if let Some(end) = halted(turn) {
                self.end_turn(end)
            } else if !turn.allowed {
                let reason = turn.veto.clone().unwrap_or_else(|| "".into());
                self.end_turn(EndReason::Rejected { reason })
            } else if let Some(context) = self.injected(turn) {
                context
            } else {
                self.open_step(turn)
            };
        }
        self.between_steps(turn, passed)
    }

    fn begin(&self) -> Next {
        if !self.has_prompts() || self.closed {
            return Next::Idle;
        }
        let takes = self.queue.keys().copied().collect();
        Next::Commit(vec![Draft::new(At::turn(self.turns + 1), TurnStart { takes })])
    }

    fn between_steps(&self, turn: &Turn, passed: Option<&Passed>) -> Next {
        if let Some(end) = halted(turn) {
            // The point at which it was asked is finished first: the log does not depend on when the process went.
            return match turn.halt.as_ref().map(|h| &h.subject) {
                Some(subject @ Subject::Prompt(seq)) if self.queue.contains_key(seq) => {
                    Next::Judge { point: Point::PromptSubmit, subject: subject.clone() }
                }
                Some(subject @ Subject::Step(_)) if !turn.owes_step() => {
                    Next::Judge { point: Point::Continuation, subject: subject.clone() }
                }
                Some(subject @ Subject::Step(_)) if passed != Some(&(Point::Stop, subject.clone())) => {
                    Next::Judge { point: Point::Stop, subject: subject.clone() }
                }
                _ => self.end_turn(end),
            };
        }
        let finish = turn.last.as_ref().and_then(|last| last.finish.as_ref());
        match finish {
            Some(Finish::MaxTokens) => return self.end_turn(EndReason::MaxTokens),
            Some(Finish::Refused { reason }) => {
                let error = EndReason::Error { code: "model_refused".into(), message: reason.clone() };
                return self.end_turn(error);
            }
            // The step was closed by a failure and the log ends before the turn's own end.
            None | Some(Finish::Interrupted) => {
                let message = "The step ended without an answer of the model.".into();
                return self.end_turn(EndReason::Error { code: "model_failed".into(), message });
            }
            _ => {}
        }
        let stopping = (Point::Continuation, Subject::Step(turn.steps));
        // What has begun is finished first. So steering that comes while the turn's end is judged waits until that is
        // done; then it joins.
        let begun = |point, subject: &Subject| self.has_decided(point, subject);
        let going_on = (Point::Stop, Subject::Step(turn.steps));
        let at_boundary = if turn.owes_step() { &going_on } else { &stopping };
        let ending = begun(at_boundary.0, &at_boundary.1) && passed != Some(at_boundary);
        if let Some((seq, queued)) = self.steering()
            && (!ending || begun(Point::PromptSubmit, &Subject::Prompt(*seq)))
        {
            return steer(turn, *seq, queued);
        }
        if turn.owes_step() && !ending {
            return self.go_on(turn, passed);
        }
        let (point, subject) = at_boundary.clone();
        Next::Judge { point, subject }
    }

    /// The turn would go on with another step: what was injected meanwhile joins it, and someone may end the turn here.
    fn go_on(&self, turn: &Turn, passed: Option<&Passed>) -> Next {
        let stop = (Point::Stop, Subject::Step(turn.steps));
        if self.stopped_by(turn).is_none()
            && let Some(context) = self.injected(turn)
        {
            return context;
        }
        if passed == Some(&stop) {
            return self.open_step(turn);
        }
        Next::Judge { point: stop.0, subject: stop.1 }
    }

    /// The next step, with a conversation that leaves it room.
    fn open_step(&self, turn: &Turn) -> Next {
        match self.compaction_due(turn) {
            Some(started) => Next::Commit(vec![Draft::new(At::turn(turn.number), started)]),
            None => Next::OpenStep { step: turn.steps + 1 },
        }
    }

    /// Who ended the turn at this step boundary.
    pub(super) fn stopped_by(&self, turn: &Turn) -> Option<HandlerId> {
        TurnStop::fold(&self.decided::<TurnStop>(&Subject::Step(turn.steps)))
    }

    /// Context that was injected while the turn was open.
    pub(super) fn injected(&self, turn: &Turn) -> Option<Next> {
        let (seq, queued) = self.queue.iter().find(|(_, q)| !q.kind.opens_turn())?;
        Some(take(turn, *seq, queued))
    }

    /// The first queued steering.
    pub(super) fn steering(&self) -> Option<(&Seq, &Queued)> {
        self.queue.iter().find(|(_, q)| q.kind == QueueKind::Steering)
    }

    fn next_call(&self, passed: Option<&Passed>) -> Option<Next> {
        let step = self.turn.as_deref()?.step.as_ref()?;
        let path = step.open_call(false)?;
        let passed = passed.filter(|(_, s)| *s == self.subject_of(path)).map(|(p, _)| *p);
        Some(Next::Call { path: path.clone(), owes: self.call(path, passed) })
    }

    /// The step's calls have their results: someone may look at them together, then the step ends.
    fn after_calls(&self, turn: &Turn, step: &Step, passed: Option<&Passed>) -> Next {
        let subject = Subject::Batch(step.number);
        let asked = passed.is_some_and(|(p, s)| *p == Point::Batch && *s == subject);
        if asked || !self.batch_is_owed(turn, step) {
            return Next::Commit(self.end_step(turn));
        }
        Next::Judge { point: Point::Batch, subject }
    }

    /// The step made calls, each has its result, and what stands behind them does not stand yet.
    pub(super) fn batch_is_owed(&self, turn: &Turn, step: &Step) -> bool {
        turn.cancelled.is_none() && !step.calls.is_empty() && step.answered() && step.contexts == 0
    }

    /// C-TURN-6: context earned by the step's calls, in call order, after the last result; then the step's end.
    pub(super) fn end_step(&self, turn: &Turn) -> Vec<Draft> {
        let Some(step) = &turn.step else { return Vec::new() };
        let mut drafts = Vec::new();
        // Of calls in the model's order; a nested call's behind its parent's.
        for (path, call) in &step.calls {
            let at = At::call(turn.number, step.number, path.clone());
            for attempt in 1..=call.attempt {
                let subject = Subject::of_call(path.clone(), attempt);
                for point in [Point::Rewrite, Point::PreExecute, Point::Permission, Point::PostExecute] {
                    drafts.extend(self.contexts(point, &subject, &at));
                }
            }
        }
        let at = At::step(turn.number, step.number);
        drafts.extend(self.contexts(Point::Batch, &Subject::Batch(step.number), &at));
        drafts.drain(..step.contexts.min(drafts.len()));
        drafts.push(Draft::new(at, StepEnd {}));
        drafts
    }

    /// The context that came with the decisions of a point.
    pub(super) fn contexts(&self, point: Point, subject: &Subject, at: &At) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for decided in self.recorded(point, subject) {
            for text in decided.context.iter().filter(|text| !text.trim().is_empty()) {
                let source = Source::owner(decided.id.owner.clone());
                let message = ContextMessage { content: text.clone().into(), source, from: None };
                drafts.push(Draft::new(at.clone(), message));
            }
        }
        drafts
    }

    pub(super) fn end_turn(&self, reason: EndReason) -> Next {
        let Some(turn) = &self.turn else { return Next::Idle };
        Next::Commit(vec![Draft::new(At::turn(turn.number), TurnEnd { reason, dropped: Vec::new() })])
    }

    /// C-TURN-9: a cancelled turn answers every open call, keeps what was earned, and ends.
    fn wind_down(&self, turn: &Turn) -> Next {
        if let Some(step) = &turn.step {
            if let Some((path, call)) = step.open_call(true).and_then(|p| step.calls.get_key_value(p)) {
                return match self.cancel_call(turn, step.number, path, call) {
                    Some(drafts) => Next::Commit(drafts),
                    None => Next::Await,
                };
            }
            return Next::Commit(self.end_step(turn));
        }
        if let Some(ended) = compact::ended(turn, Err("The turn was cancelled.".into())) {
            return Next::Commit(vec![ended]);
        }
        let Some(cancelled) = &turn.cancelled else { return Next::Await };
        let dropped = self.dropped(turn).collect();
        let reason = EndReason::Aborted { by: cancelled.by.clone(), reason: cancelled.cause };
        Next::Commit(vec![Draft::new(At::turn(turn.number), TurnEnd { reason, dropped })])
    }

    /// The steering that goes with a cancelled turn. What was sent after the cancel was not meant by it: with this turn over
    /// it is a prompt.
    pub(super) fn dropped(&self, turn: &Turn) -> impl Iterator<Item = Seq> {
        let before = turn.cancelled_at;
        let meant = move |(s, q): &(&Seq, &Queued)| q.kind == QueueKind::Steering && **s < before;
        self.queue.iter().filter(meant).map(|(s, _)| *s)
    }

    /// Closes the open step and turn after a failure that no rule answers: the model's, or the runtime's own. Calls that
    /// are still open are answered first.
    pub fn fail(&self, code: &str, message: &str) -> Vec<Draft> {
        self.give_up(EndReason::Error { code: code.into(), message: message.into() })
    }

    /// Closes the open step and turn `interrupted`, with every open call answered: nobody goes on with it.
    pub fn interrupt(&self) -> Vec<Draft> {
        self.give_up(EndReason::Interrupted)
    }

    fn give_up(&self, reason: EndReason) -> Vec<Draft> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let mut drafts = turn.owed.clone();
        let why =
            if reason == EndReason::Interrupted { "The turn was given up." } else { "The turn failed." };
        drafts.extend(compact::ended(turn, Err(why.into())));
        if let Some(step) = &turn.step {
            for (path, call) in step.closing_order() {
                drafts.extend(self.give_up_call(turn, step.number, path, call));
            }
            drafts.extend(self.end_step(turn));
        }
        drafts.push(Draft::new(At::turn(turn.number), TurnEnd { reason, dropped: Vec::new() }));
        drafts
    }
}

impl Step {
    /// The call to go on with: the first of the model's without a result, but before it what its body started and left
    /// behind.
    pub(super) fn open_call(&self, cancelled: bool) -> Option<&CallPath> {
        let (top, call) = self.calls.iter().find(|(path, c)| path.is_top() && !c.result)?;
        // A body that has not started has started nothing.
        if matches!(call.body, CallBody::Running { .. } | CallBody::NotStarted) {
            return Some(top);
        }
        Some(self.left_behind(top, cancelled).unwrap_or(top))
    }

    /// A call within this one that has no result and whose parent's body is gone; innermost first.
    pub(super) fn left_behind(&self, outer: &CallPath, cancelled: bool) -> Option<&CallPath> {
        let mut within = self.calls.iter().rev().filter(|(path, c)| !c.result && path.is_within(outer));
        within.find(|(path, _)| self.is_left_behind(path, cancelled)).map(|(path, _)| path)
    }

    /// True for a nested call whose parent's body is gone for good.
    pub(super) fn is_left_behind(&self, path: &CallPath, cancelled: bool) -> bool {
        // Asked at each turn of the pipeline, and nearly always about one of the model's own.
        if path.is_top() {
            return false;
        }
        let Some((_, parent)) = self.calls.iter().find(|(p, _)| p.is_parent_of(path)) else { return false };
        match parent.body {
            CallBody::Running { .. } => false,
            CallBody::Orphaned { .. } => {
                cancelled || !parent.sealed.as_ref().is_some_and(|sealed| sealed.idempotent)
            }
            CallBody::NotStarted | CallBody::Returned => true,
        }
    }

    /// True for a call of the model that stands behind one which is deferred.
    pub(super) fn is_behind_deferred(&self, path: &CallPath) -> bool {
        let mut before = self.calls.iter().take_while(|(p, _)| *p < path).filter(|(p, _)| p.is_top());
        path.is_top() && before.any(|(_, c)| c.deferral().is_some())
    }

    /// The calls without a result, each behind what its body started.
    fn closing_order(&self) -> Vec<(&CallPath, &Call)> {
        let mut open: Vec<_> = self.calls.iter().filter(|(_, c)| !c.result).collect();
        open.sort_by(|(a, _), (b, _)| {
            let top = |path: &CallPath| path.positions().first().copied();
            top(a).cmp(&top(b)).then_with(|| b.cmp(a))
        });
        open
    }
}

fn take(turn: &Turn, seq: Seq, queued: &Queued) -> Next {
    if let Some(halt) = turn.ended_at_start().filter(|_| queued.kind.opens_turn()) {
        let (content, source) = (queued.content.clone(), queued.source.clone());
        let blocked = PromptBlocked { content, source, reason: halt.reason.clone(), from: seq };
        return Next::Commit(vec![Draft::new(At::turn(turn.number), blocked)]);
    }
    match queued.kind {
        // C-TURN-1: only what a user sends is judged; what code sends keeps its owner as source.
        QueueKind::Prompt | QueueKind::Steering if queued.source != Source::User => {
            let message =
                UserMessage { content: queued.content.clone(), source: queued.source.clone(), from: seq };
            Next::Commit(vec![Draft::new(At::turn(turn.number), message)])
        }
        QueueKind::Prompt | QueueKind::Steering => {
            Next::Judge { point: Point::PromptSubmit, subject: Subject::Prompt(seq) }
        }
        QueueKind::Inject | QueueKind::Child | QueueKind::Hook => {
            let message = ContextMessage {
                content: queued.content.clone(),
                source: queued.source.clone(),
                from: Some(seq),
            };
            Next::Commit(vec![Draft::new(At::turn(turn.number), message)])
        }
    }
}

fn steer(turn: &Turn, seq: Seq, queued: &Queued) -> Next {
    if queued.source == Source::User {
        return Next::Judge { point: Point::PromptSubmit, subject: Subject::Prompt(seq) };
    }
    let message =
        SteeringMessage { content: queued.content.clone(), source: queued.source.clone(), from: Some(seq) };
    Next::Commit(vec![Draft::new(At::turn(turn.number), message)])
}

fn halted(turn: &Turn) -> Option<EndReason> {
    let halt = turn.halt.clone()?;
    Some(EndReason::Halted { by: halt.by, reason: halt.reason })
}

impl Next {
    /// Would this record discharge what is owed? What any code may add at any time (queued prompts, cancels,
    /// configuration, an owner's own records) discharges nothing and is always welcome.
    pub fn is_discharged_by(&self, body: &Body) -> bool {
        // A failure that no rule answers ends a turn at any time (see `State::fail`).
        let failed = |reason: &EndReason| matches!(reason, EndReason::Error { .. } | EndReason::Interrupted);
        let anytime = matches!(body, Body::TurnEnd(end) if failed(&end.reason))
            || matches!(
                body,
                Body::PromptQueued(_)
                    | Body::TurnCancelled(_)
                    | Body::ConfigInForce(_)
                    | Body::HeaderChanged(_)
                    | Body::SessionCreated(_)
                    | Body::SessionResumed(_)
                    | Body::SubagentStarted(_)
                    | Body::SubagentEnded(_)
                    | Body::SessionCommand(_)
                    | Body::SessionLeft(_)
                    | Body::SessionWithdrawn(_)
                    | Body::SessionClosed(_)
                    | Body::Own(_)
            );
        // Steering and injected context may come while a handler at a step's boundary is still deciding.
        let at_boundary =
            body.decisions().is_some_and(|d| matches!(d.point, Point::Continuation | Point::Stop));
        let crossed = at_boundary
            && match self {
                Next::Judge { point, .. } => *point == Point::PromptSubmit,
                Next::Commit(drafts) => drafts.first().is_some_and(|d| match d.body() {
                    Body::SteeringMessage(_) => true,
                    Body::ContextMessage(m) => m.from.is_some(),
                    _ => false,
                }),
                _ => false,
            };
        anytime
            || crossed
            || match self {
                Next::Idle => false,
                Next::Await => matches!(
                    body,
                    Body::AssistantMessage(_)
                        | Body::ToolReturned(_)
                        | Body::ToolCall(_)
                        | Body::InputResolved(_)
                        | Body::StepEnd(_)
                ),
                // What a model had said crosses the cancel that interrupted it.
                Next::Commit(drafts) if matches!(body, Body::AssistantMessage(m) if m.finish == Finish::Interrupted) => {
                    drafts.last().is_some_and(|d| matches!(d.body(), Body::StepEnd(_)))
                }
                Next::Commit(drafts) => drafts.first().is_some_and(|d| d.body() == body),
                // With nobody to see it, what comes behind it does.
                Next::Judge { point: Point::Compacted, .. }
                    if matches!(
                        body,
                        Body::StepStart(_)
                            | Body::SteeringMessage(_)
                            | Body::ContextMessage(_)
                            | Body::PromptBlocked(_)
                            | Body::TurnEnd(_)
                    ) || body
                        .decisions()
                        .is_some_and(|d| matches!(d.point, Point::Stop | Point::PromptSubmit)) =>
                {
                    true
                }
                Next::Judge { point, subject } => match body {
                    Body::DecisionRecorded(_) | Body::DecisionsRecorded(_) | Body::DecisionBegun(_) => {
                        body.decisions().is_some_and(|d| d.point == *point && d.subject == subject)
                    }
                    Body::UserMessage(_) | Body::PromptBlocked(_) => {
                        matches!(point, Point::PromptSubmit | Point::SessionStart | Point::SubagentStart)
                    }
                    Body::ContextMessage(_) => {
                        matches!(point, Point::SessionStart | Point::SubagentStart | Point::Batch)
                    }
                    Body::StepEnd(_) => *point == Point::Batch,
                    Body::SteeringMessage(_) => {
                        matches!(point, Point::Continuation | Point::Stop | Point::PromptSubmit)
                    }
                    Body::TurnEnd(_) => matches!(point, Point::Continuation | Point::Stop),
                    Body::StepStart(_) => *point == Point::Stop,
                    Body::CompactionStarted(_) => *point == Point::Stop,
                    Body::CompactionEnded(_) => *point == Point::Compaction,
                    _ => false,
                },
                Next::OpenStep { .. } => matches!(body, Body::StepStart(_)),
                Next::Summarise => matches!(body, Body::CompactionEnded(_)),
                Next::Model { .. } => matches!(body, Body::ModelRequested(_) | Body::StepEnd(_)),
                Next::Call { path, owes } => owes.is_discharged_by(path, body),
            }
    }
}
