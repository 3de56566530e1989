//! The numbers of other records that a record holds: in one place, for whoever copies a log or holds two beside each other.

use super::{Body, CompactionEnded, CompactionStarted, Subject};
use crate::Seq;

impl Subject {
    fn with_seqs(&self, to: &dyn Fn(Seq) -> Seq) -> Subject {
        match self {
            Subject::Session(seq) => Subject::Session(to(*seq)),
            Subject::Prompt(seq) => Subject::Prompt(to(*seq)),
            Subject::Compaction(seq) => Subject::Compaction(to(*seq)),
            Subject::Call(_) | Subject::Again { .. } | Subject::Step(_) | Subject::Batch(_) => self.clone(),
        }
    }
}

impl Body {
    /// The same, with other numbers for the records of its own log that it names.
    pub fn with_seqs(&self, to: &dyn Fn(Seq) -> Seq) -> Body {
        let mut body = self.clone();
        match &mut body {
            Body::TurnStart(start) => start.takes.iter_mut().for_each(|seq| *seq = to(*seq)),
            Body::UserMessage(message) => message.from = to(message.from),
            Body::PromptBlocked(blocked) => blocked.from = to(blocked.from),
            Body::ContextMessage(message) => message.from = message.from.map(to),
            Body::SteeringMessage(message) => message.from = message.from.map(to),
            Body::TurnEnd(end) => end.dropped.iter_mut().for_each(|seq| *seq = to(*seq)),
            Body::DecisionRecorded(decided) => decided.subject = decided.subject.with_seqs(to),
            Body::DecisionBegun(begun) => begun.subject = begun.subject.with_seqs(to),
            Body::DecisionsRecorded(several) => several.subject = several.subject.with_seqs(to),
            Body::SessionWithdrawn(withdrawn) => withdrawn.prompt = to(withdrawn.prompt),
            Body::CompactionStarted(CompactionStarted { from, to: last, .. })
            | Body::CompactionEnded(CompactionEnded { from, to: last, .. }) => {
                (*from, *last) = (to(*from), to(*last));
            }
            // A fork's seed names a record of another log.
            Body::SessionCreated(_)
            | Body::SessionResumed(_)
            | Body::SessionLeft(_)
            | Body::SessionCommand(_)
            | Body::SessionClosed(_)
            | Body::ConfigInForce(_)
            | Body::PromptQueued(_)
            | Body::StepStart(_)
            | Body::StepEnd(_)
            | Body::HeaderChanged(_)
            | Body::ModelRequested(_)
            | Body::AssistantMessage(_)
            | Body::ToolCall(_)
            | Body::ToolRewrite(_)
            | Body::InputRequested(_)
            | Body::InputResolved(_)
            | Body::ToolDispatched(_)
            | Body::ToolReturned(_)
            | Body::ToolResult(_)
            | Body::TurnCancelled(_)
            | Body::SubagentStarted(_)
            | Body::SubagentEnded(_)
            | Body::Own(_) => {}
        }
        body
    }
}
