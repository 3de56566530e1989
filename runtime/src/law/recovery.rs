//! C-DUR-8: a turn that takes its process down whenever it is taken up is given up, and its session lives.
//!
//! What is counted are records: a turn that is taken up (`session/resumed`) with work of its own under way, and has come no
//! further since the last time, may be what ended the process. One that waits for a person, or is deferred, runs nothing and is not to
//! blame, however often its process goes meanwhile; nor is one whose subagent is at work, which counts for itself; nor one that
//! was left on purpose (`session/left`).

use super::{Body as CallBody, State, Step, Turn};
use crate::{Body, CallPath, Point, Record, Subject};

/// How often a turn may end its process while it is being recovered. The next time, it is given up.
const KILLS: u32 = 3;

impl State {
    /// True when the next process that takes the session up has to count that: something of the open turn is under way.
    pub fn counts_as_killed(&self) -> bool {
        self.works_itself()
    }

    /// Something of the turn is under way that could end the process: not a person or a host that is waited for, and not a
    /// subagent, which has a log of its own.
    pub(super) fn works_itself(&self) -> bool {
        let Some(turn) = self.turn.as_deref() else { return false };
        match &turn.step {
            Some(step) if step.answered_by_model() => step.works_itself(|path| {
                step.is_behind_deferred(path) && self.outcome(path, Some(Point::Guard)).is_some()
            }),
            // A model is asked, or a handler: those leave no trace before they answer.
            _ => true,
        }
    }

    /// True for a turn that has ended its process as often as is allowed. What it owes is its end, `interrupted`.
    pub fn is_given_up(&self) -> bool {
        self.turn.as_deref().is_some_and(|turn| turn.recovery.given_up)
    }
}

impl Turn {
    /// Notes what a record says about whether the turn comes on.
    pub(super) fn note_progress(&mut self, record: &Record) {
        if is_progress(record) {
            self.recovery.taken_up = 0;
        }
    }

    /// The session was taken up. Asked before what was in flight is orphaned.
    pub(super) fn note_resumed(&mut self, at_work: bool) {
        let on_purpose = std::mem::take(&mut self.recovery.left);
        if !on_purpose && at_work {
            self.recovery.taken_up += 1;
            self.recovery.given_up |= self.recovery.taken_up > KILLS;
        }
    }
}

impl Step {
    fn answered_by_model(&self) -> bool {
        self.request == super::Request::Answered
    }

    /// `held` says which calls owe nothing but a result that stands behind a deferred call's.
    fn works_itself(&self, held: impl Fn(&CallPath) -> bool) -> bool {
        let (mut waits, mut deferred) = (false, false);
        for (path, call) in self.calls.iter().filter(|(_, call)| !call.result) {
            let asks = call.waits().is_some();
            let has_child = call.children.iter().any(|(_, over)| !over);
            let within = self.calls.iter().any(|(inner, call)| inner.is_within(path) && !call.result);
            match call.body {
                // Those behind it go on.
                _ if path.is_top() && call.deferral().is_some() => deferred = true,
                _ if deferred && held(path) => {}
                _ if asks || has_child => waits = true,
                // What it has called speaks for it.
                CallBody::Running { .. } | CallBody::Orphaned { .. } if within => {}
                CallBody::Running { .. } | CallBody::Orphaned { .. } | CallBody::Returned => return true,
                // It is its turn, unless it stands behind one that waits.
                CallBody::NotStarted if !waits => return true,
                CallBody::NotStarted => {}
            }
        }
        !waits && !deferred
    }
}

/// A record that a turn which is taken up over and over would not write again and again.
fn is_progress(record: &Record) -> bool {
    match &record.body {
        Body::UserMessage(_)
        | Body::PromptBlocked(_)
        | Body::SteeringMessage(_)
        | Body::StepStart(_)
        | Body::StepEnd(_)
        | Body::AssistantMessage(_)
        | Body::InputRequested(_)
        | Body::InputResolved(_)
        | Body::ToolReturned(_)
        | Body::ToolResult(_)
        | Body::SubagentEnded(_)
        | Body::CompactionStarted(_)
        | Body::CompactionEnded(_) => true,
        // Each start is judged anew.
        Body::DecisionRecorded(_) | Body::DecisionsRecorded(_) => {
            record.body.decisions().is_some_and(|decided| !matches!(decided.subject, Subject::Session(_)))
        }
        Body::ToolCall(_) | Body::ToolRewrite(_) => true,
        // The first time; any further one is another try.
        Body::ModelRequested(requested) => requested.attempt == 1,
        Body::ToolDispatched(dispatched) => dispatched.attempt == 1,
        _ => false,
    }
}
