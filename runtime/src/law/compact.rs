//! Compaction: a conversation that has grown to the limit is summarised at a step boundary, before the next request. What
//! the summary stands for is what lay behind when it began: every step that has ended, and of a turn that has had none,
//! the turns before it. So the messages that the next request is about are never in it.

use super::{Compacting, State, Transcript, Turn};
use crate::{At, CompactionEnded, CompactionStarted, Content, Draft, Message, Reason, Seq, Source, Subject};

/// A compaction that is under way, for who asks its handlers and the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionOwed {
    /// What its handlers decide about.
    pub subject: Subject,
    /// What the summary will stand for.
    pub conversation: Transcript,
    /// How large the conversation is, in tokens.
    pub tokens: u64,
}

impl State {
    /// The compaction that is under way.
    pub fn compaction(&self) -> Option<CompactionOwed> {
        let turn = self.turn.as_deref()?;
        let open = turn.compaction.as_ref()?;
        let subject = Subject::Compaction(open.at);
        Some(CompactionOwed { subject, conversation: self.behind(turn), tokens: self.tokens })
    }

    /// The summary that is in force since the last step ended, and what its handlers are asked about.
    pub fn summarised(&self) -> Option<(Subject, &Content)> {
        let (at, summary) = self.turn.as_deref()?.summarised.as_ref()?;
        Some((Subject::Compaction(*at), summary))
    }

    /// Ends the compaction that is under way: with a summary, or with the reason why there is none.
    pub fn end_compaction(&self, summary: Result<Content, Reason>) -> Vec<Draft> {
        self.turn.as_deref().and_then(|turn| ended(turn, summary)).into_iter().collect()
    }

    /// What a summary would stand for at this step boundary.
    fn behind(&self, turn: &Turn) -> Transcript {
        if turn.steps > 0 { self.sealed.clone() } else { self.sealed.with(&self.tail[..turn.tail_at]) }
    }

    /// What has to begin before the next step may open.
    pub(super) fn compaction_due(&self, turn: &Turn) -> Option<CompactionStarted> {
        let limit = self.limits.compact_at?;
        if turn.compaction_tried || self.tokens == 0 || self.tokens < limit || self.behind(turn).is_empty() {
            return None;
        }
        let to = if turn.steps > 0 { self.sealed_at } else { Seq(turn.begun_at.0.saturating_sub(1)) };
        Some(CompactionStarted { from: self.first, to, tokens: self.tokens })
    }

    pub(super) fn begin_compaction(&mut self, at: Seq, started: &CompactionStarted) {
        if let Some(turn) = self.turn.as_deref_mut() {
            turn.compaction = Some(Compacting { at, from: started.from, to: started.to });
        }
    }

    /// True when there is a summary now.
    pub(super) fn finish_compaction(&mut self, at: Seq, ended: &CompactionEnded) -> bool {
        let Some(turn) = self.turn.as_deref_mut() else { return false };
        turn.compaction = None;
        // Without a summary it is due again when the model has counted anew, or in the next turn.
        turn.compaction_tried = true;
        let Some(summary) = &ended.summary else { return false };
        turn.summarised = Some((at, summary.clone()));
        self.tokens = 0;
        if turn.steps == 0 {
            self.tail.drain(..turn.tail_at);
            turn.tail_at = 0;
        }
        let message = Message::User { content: summary.clone(), source: Source::Runtime };
        self.sealed = Transcript::default().with(&[message]);
        self.first = at;
        true
    }
}

pub(super) fn ended(turn: &Turn, summary: Result<Content, Reason>) -> Option<Draft> {
    let Compacting { from, to, .. } = turn.compaction.clone()?;
    let (summary, skipped) = match summary {
        Ok(summary) => (Some(summary), None),
        Err(reason) => (None, Some(reason)),
    };
    Some(Draft::new(At::turn(turn.number), CompactionEnded { from, to, summary, skipped }))
}
