//! Closing a point: the records that its decisions come to, once no handler is left undecided.

use super::{CallOwes, State, Turn};
use crate::{
    At, Compacted, Compaction, Content, Continue, Draft, EndReason, Judged, Point, PromptBlocked,
    PromptSubmit, QueueKind, Seam, Seq, Source, SteeringMessage, Subject, TurnContinuation, TurnEnd,
    UserMessage,
};

impl State {
    /// The records that close a point about a subject. None when nothing was decided that leaves a trace: the driver
    /// then goes on with [`State::next`], naming the point as passed.
    pub fn close(&self, point: Point, subject: &Subject) -> Vec<Draft> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let at = At::turn(turn.number);
        if turn.cancelled.is_some() && subject.call().is_none() {
            // The turn winds down instead; `next` says how.
            return Vec::new();
        }
        match (point, subject) {
            (Point::SessionStart | Point::SubagentStart, Subject::Session(_)) => {
                self.contexts(point, subject, &at)
            }
            (Point::PromptSubmit, Subject::Prompt(seq)) => self.close_prompt(*seq, subject, &at),
            (Point::Continuation, Subject::Step(_)) => self.close_continuation(subject, &at),
            (Point::Stop, Subject::Step(_)) if self.stopped_by(turn).is_some() => {
                // Terminal: steering that waits does not resurrect the turn, nor open another.
                let dropped =
                    self.queue.iter().filter(|(_, q)| q.kind == QueueKind::Steering).map(|(s, _)| *s);
                let end = TurnEnd { reason: EndReason::Completed, dropped: dropped.collect() };
                vec![Draft::new(at, end)]
            }
            // What the calls and this point earned, and the step's end.
            (Point::Batch, Subject::Batch(_)) => self.end_step(turn),
            (Point::Compaction, Subject::Compaction(_)) => self.close_compaction(turn, subject),
            (_, Subject::Call(path) | Subject::Again { call: path, .. }) => {
                match self.call(path, Some(point)) {
                    CallOwes::Commit(drafts) => drafts,
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    fn close_compaction(&self, turn: &Turn, subject: &Subject) -> Vec<Draft> {
        let skipped = match Compaction::fold(&self.decided::<Compaction>(subject)) {
            Compacted::Left(_, reason) => Some(reason),
            // A turn that is over when this is done needs no room.
            Compacted::Go(_) => turn.halt.as_ref().map(|halt| halt.reason.clone()),
        };
        skipped.map(|reason| self.end_compaction(Err(reason))).unwrap_or_default()
    }

    fn close_prompt(&self, seq: Seq, subject: &Subject, at: &At) -> Vec<Draft> {
        let Some((content, source)) = self.queued(seq) else { return Vec::new() };
        let (content, source) = (content.clone(), source.clone());
        match PromptSubmit::fold(&self.decided::<PromptSubmit>(subject)) {
            Judged::Blocked(reason) => {
                vec![Draft::new(at.clone(), PromptBlocked { content, source, reason, from: seq })]
            }
            Judged::Pass(replaced) => {
                let content = replaced.filter(|c| !c.is_empty()).unwrap_or(content);
                let steering = self.queue.get(&seq).is_some_and(|q| q.kind == QueueKind::Steering);
                let message = if steering {
                    Draft::new(at.clone(), SteeringMessage { content, source, from: Some(seq) })
                } else {
                    Draft::new(at.clone(), UserMessage { content, source, from: seq })
                };
                let mut drafts = vec![message];
                drafts.extend(self.contexts(Point::PromptSubmit, subject, at));
                drafts
            }
        }
    }

    fn close_continuation(&self, subject: &Subject, at: &At) -> Vec<Draft> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let end = |reason| vec![Draft::new(at.clone(), TurnEnd { reason, dropped: Vec::new() })];
        if let Some(halt) = turn.halt.clone() {
            return end(EndReason::Halted { by: halt.by, reason: halt.reason });
        }
        // C-TURN-4: steering joins and forces the next step; it is not left behind by a turn that would end.
        let end = |reason| if self.steering().is_some() { Vec::new() } else { end(reason) };
        let again = TurnContinuation::fold(&self.decided::<TurnContinuation>(subject));
        if again.is_empty() {
            return end(EndReason::Completed);
        }
        let limits = self.limits;
        if turn.forced_in_a_row >= limits.continuations_in_a_row {
            return end(EndReason::ContinuationCap { limit: limits.continuations_in_a_row });
        }
        if turn.forced >= limits.continuations_per_turn {
            return end(EndReason::ContinuationCap { limit: limits.continuations_per_turn });
        }
        // Every reason is one message's text, in order: a forced continuation counts once, however many ask for it.
        let owner = again[0].0.owner.clone();
        let reasons: Vec<&str> =
            again.iter().filter_map(|(_, reason)| Some(reason.as_ref()?.as_str())).collect();
        let text = if reasons.is_empty() { Continue::GENERIC.to_string() } else { reasons.join("\n") };
        let message =
            SteeringMessage { content: Content::text(text), source: Source::owner(owner), from: None };
        let mut drafts = vec![Draft::new(at.clone(), message)];
        drafts.extend(self.contexts(Point::Continuation, subject, at));
        drafts
    }
}
