//! `agent/compacted`: a conversation was summarised. Handlers see the summary that stands for it from here on.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    Content,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};

/// What a handler sees of a summary that is in force.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Summarised {
    /// Where; the step is the last one that ended, 0 before the first of the turn.
    pub scene: Scene,
    /// What the model said in the conversation's stead.
    pub summary: Content,
}

impl Summarised {
    /// Describes a summary.
    pub fn new(scene: Scene, summary: Content) -> Summarised {
        Summarised { scene, summary }
    }
}

/// Seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Noted {}

/// The seam.
#[derive(Debug)]
pub struct AfterCompaction;

impl Seam for AfterCompaction {
    const POINT: Point = Point::Compacted;
    type Input = Summarised;
    type Decision = Noted;
    type Folded = ();

    fn failed(_: &Failure) -> Noted {
        Noted {}
    }
    fn fold(_: &[Decided<Noted>]) {}
    fn scene(input: &Summarised) -> &Scene {
        &input.scene
    }
    fn record(decision: Noted) -> Decision {
        Decision::Compacted(decision)
    }
    fn recall(decision: &Decision) -> Option<&Noted> {
        match decision {
            Decision::Compacted(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(_: &Noted) -> bool {
        true
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.compacted
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.compacted
    }
}
