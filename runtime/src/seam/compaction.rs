//! `agent/compaction`: a conversation has grown to the host's limit and is about to be summarised. Someone may say what the
//! summary must keep, or leave the conversation as it is.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    HandlerId, Reason,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a compaction handler sees.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Compacting {
    /// Where; the step is the last one that ended, 0 before the first of the turn.
    pub scene: Scene,
    /// How large the conversation is, in tokens as the model last counted them.
    pub tokens: u64,
    /// The size that the host set.
    pub limit: u64,
    /// How many messages the summary would stand for.
    pub messages: usize,
}

impl Compacting {
    /// Describes a compaction.
    pub fn new(scene: Scene, tokens: u64, limit: u64, messages: usize) -> Compacting {
        Compacting { scene, tokens, limit, messages }
    }
}

/// The decision about a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Compact {
    /// It may be done; with instructions, the model reads them when it is asked for the summary.
    Proceed {
        /// What the summary must keep.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<Arc<str>>,
    },
    /// The conversation stays as it is. It is asked about again when the model has answered once more.
    Skip {
        /// Why, for the log.
        reason: Reason,
    },
}

impl Compact {
    /// It may be done.
    pub fn proceed() -> Compact {
        Compact::Proceed { instructions: None }
    }

    /// It may be done, and the summary must keep this.
    pub fn keeping(instructions: impl Into<Arc<str>>) -> Compact {
        Compact::Proceed { instructions: Some(instructions.into()) }
    }

    /// The conversation stays as it is.
    pub fn skip(reason: impl Into<Reason>) -> Compact {
        Compact::Skip { reason: reason.into() }
    }
}

/// What the handlers came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compacted {
    /// Summarise, with these instructions in the order of their handlers.
    Go(Vec<Arc<str>>),
    /// Leave it: who said so first, and why.
    Left(HandlerId, Reason),
}

/// The seam. One that skips wins over any number that proceed.
#[derive(Debug)]
pub struct Compaction;

impl Seam for Compaction {
    const POINT: Point = Point::Compaction;
    type Input = Compacting;
    type Decision = Compact;
    type Folded = Compacted;

    /// Failing skips (C-PIPE-3): what a policy meant to protect must not be summarised away.
    fn failed(_: &Failure) -> Compact {
        Compact::skip("A policy check failed, so the conversation was not summarised.")
    }
    fn ends_chain(decision: &Compact) -> bool {
        matches!(decision, Compact::Skip { .. })
    }
    fn fold(decided: &[Decided<Compact>]) -> Compacted {
        let left = decided.iter().find_map(|d| match &d.decision {
            Compact::Skip { reason } => Some(Compacted::Left(d.by.clone(), reason.clone())),
            Compact::Proceed { .. } => None,
        });
        left.unwrap_or_else(|| {
            let said = decided.iter().filter_map(|d| match &d.decision {
                Compact::Proceed { instructions } => {
                    instructions.clone().filter(|text| !text.trim().is_empty())
                }
                Compact::Skip { .. } => None,
            });
            Compacted::Go(said.collect())
        })
    }
    fn scene(input: &Compacting) -> &Scene {
        &input.scene
    }
    fn record(decision: Compact) -> Decision {
        Decision::Compaction(decision)
    }
    fn recall(decision: &Decision) -> Option<&Compact> {
        match decision {
            Decision::Compaction(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Compact) -> bool {
        matches!(decision, Compact::Proceed { instructions: None })
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.compaction
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.compaction
    }
}
