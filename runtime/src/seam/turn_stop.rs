//! `agent/turn-stop`: at every step boundary at which the turn would go on, someone may end it. Terminal: no continuation
//! and no steering resurrects the turn.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    HandlerId,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};

/// What a turn-stop handler sees.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Boundary {
    /// Where; the step is the one that has just ended.
    pub scene: Scene,
}

impl Boundary {
    /// Describes a step boundary.
    pub fn new(scene: Scene) -> Boundary {
        Boundary { scene }
    }
}

/// The decision at a step boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopTurn {
    /// No opinion.
    Abstain,
    /// The turn ends `completed` here.
    Stop,
}

/// The seam. Folds to the first handler that stops the turn.
#[derive(Debug)]
pub struct TurnStop;

impl Seam for TurnStop {
    const POINT: Point = Point::Stop;
    type Input = Boundary;
    type Decision = StopTurn;
    type Folded = Option<HandlerId>;

    /// Failing stops (C-PIPE-3): a policy that was meant to end turns must not let them run on.
    fn failed(_: &Failure) -> StopTurn {
        StopTurn::Stop
    }
    fn ends_chain(decision: &StopTurn) -> bool {
        matches!(decision, StopTurn::Stop)
    }
    fn fold(decided: &[Decided<StopTurn>]) -> Option<HandlerId> {
        decided.iter().find(|d| d.decision == StopTurn::Stop).map(|d| d.by.clone())
    }
    fn scene(input: &Boundary) -> &Scene {
        &input.scene
    }
    fn record(decision: StopTurn) -> Decision {
        Decision::Stop(decision)
    }
    fn recall(decision: &Decision) -> Option<&StopTurn> {
        match decision {
            Decision::Stop(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &StopTurn) -> bool {
        matches!(decision, StopTurn::Abstain)
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.turn_stop
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.turn_stop
    }
}
