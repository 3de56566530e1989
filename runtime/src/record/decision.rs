//! What handlers decided, as records hold it.

use super::Body;
use crate::{Decision, Failure, HandlerId, Point, Reason, Seq};
use serde::{Deserialize, Serialize};
use std::{ops::Deref, sync::Arc};

/// What a decision is about. With the record's turn and step it is half of the decision's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The start recorded there.
    Session(Seq),
    /// The prompt queued there.
    Prompt(Seq),
    /// A call of the record's step.
    Call(crate::CallPath),
    /// A call of the record's step that was deferred and taken up again: what was decided about it before counts no more.
    Again {
        /// The call.
        call: crate::CallPath,
        /// Which attempt at its gate, from 2.
        attempt: u32,
    },
    /// The end of a step.
    Step(u32),
    /// The calls of a step, all of which have their results.
    Batch(u32),
    /// The compaction that began there, or of which the summary stands there.
    Compaction(Seq),
}

impl Subject {
    /// A call, at this attempt at its gate.
    pub fn of_call(call: crate::CallPath, attempt: u32) -> Subject {
        if attempt < 2 { Subject::Call(call) } else { Subject::Again { call, attempt } }
    }

    /// The call that it is, at whichever attempt.
    pub fn call(&self) -> Option<&crate::CallPath> {
        match self {
            Subject::Call(call) | Subject::Again { call, .. } => Some(call),
            _ => None,
        }
    }
}

/// `decision/recorded`: one handler's decision. Several that were made without a pause are one [`DecisionsRecorded`];
/// [`Body::decisions`] reads both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecorded {
    /// The point.
    pub point: Point,
    /// What it is about.
    pub subject: Subject,
    /// Who decided what.
    #[serde(flatten)]
    pub made: HandlerDecision,
}

/// `decisions/recorded`: what several handlers of a point decided about one subject, in their order. It says what as many
/// `decision/recorded` would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionsRecorded {
    /// The point.
    pub point: Point,
    /// What they are about.
    pub subject: Subject,
    /// Who decided what; two or more.
    pub decisions: Vec<HandlerDecision>,
}

impl DecisionsRecorded {
    /// The record for what was decided: nothing for nothing, `decision/recorded` for one decision.
    pub fn of(point: Point, subject: &Subject, mut decisions: Vec<HandlerDecision>) -> Option<Body> {
        let subject = subject.clone();
        let last = decisions.pop()?;
        if decisions.is_empty() {
            return Some(DecisionRecorded { point, subject, made: last }.into());
        }
        decisions.push(last);
        Some(DecisionsRecorded { point, subject, decisions }.into())
    }
}

/// What one handler decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerDecision {
    /// Who decided.
    #[serde(flatten)]
    pub id: HandlerId,
    /// The place in the order of its point; beside the key, not in it.
    pub order: u32,
    /// What was decided.
    pub decision: Decision,
    /// Context that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Arc<str>>,
    /// The wish to halt the turn, if it came with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<Reason>,
    /// The failure that the decision stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How long the handler took, in milliseconds. Of several that answered without waiting, what each took is known to
    /// the tick of the system's coarse clock (1 to 10 ms), and what they took together is exact.
    #[serde(default)]
    pub ms: u64,
}

/// `decision/begun`: on disk before a handler runs that must not run twice for one decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionBegun {
    /// The point.
    pub point: Point,
    /// What it decides about.
    pub subject: Subject,
    /// Who.
    #[serde(flatten)]
    pub id: HandlerId,
}

/// The decisions that a record holds.
#[derive(Debug, Clone, Copy)]
pub struct Decisions<'r> {
    /// The point.
    pub point: Point,
    /// What they are about.
    pub subject: &'r Subject,
    /// Who decided what, in order; nobody in `decision/begun`, and in no other record of a log that the law accepts.
    pub made: &'r [HandlerDecision],
}

impl Decisions<'_> {
    /// Each decision as a record of its own would hold it.
    pub fn each(self) -> impl Iterator<Item = DecisionRecorded> {
        let Decisions { point, subject, made } = self;
        made.iter().map(move |made| DecisionRecorded { point, subject: subject.clone(), made: made.clone() })
    }
}

impl Deref for DecisionRecorded {
    type Target = HandlerDecision;
    fn deref(&self) -> &HandlerDecision {
        &self.made
    }
}

impl Body {
    /// The decisions that a record holds: one of `decision/recorded`, several of `decisions/recorded`, none yet of
    /// `decision/begun`.
    pub fn decisions(&self) -> Option<Decisions<'_>> {
        match self {
            Body::DecisionRecorded(DecisionRecorded { point, subject, made }) => {
                Some(Decisions { point: *point, subject, made: std::slice::from_ref(made) })
            }
            Body::DecisionsRecorded(DecisionsRecorded { point, subject, decisions }) => {
                Some(Decisions { point: *point, subject, made: decisions })
            }
            Body::DecisionBegun(DecisionBegun { point, subject, .. }) => {
                Some(Decisions { point: *point, subject, made: &[] })
            }
            _ => None,
        }
    }
}
