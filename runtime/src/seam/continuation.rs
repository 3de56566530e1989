//! `agent/turn-continuation`: the turn is about to stop. A handler may ask for another step of the same turn.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    HandlerId, Reason,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a continuation handler sees. Unhandled, the turn stops.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ending {
    /// Where.
    pub scene: Scene,
    /// How often this turn was forced on since the last tool call; a cap ends the turn.
    pub forced: u32,
    /// How often this turn was forced on so far, tool calls or not.
    pub forced_in_turn: u32,
    /// The text of the model's last message.
    pub last_text: Arc<str>,
    /// What the handlers before this one decided.
    pub decided: Vec<(HandlerId, Continue)>,
}

impl Ending {
    /// Describes a turn about to stop.
    pub fn new(scene: Scene, forced: u32, last_text: Arc<str>) -> Ending {
        Ending { scene, forced, forced_in_turn: forced, last_text, decided: Vec::new() }
    }

    /// How often the turn was forced on in all.
    pub fn forced_in_turn(mut self, times: u32) -> Ending {
        self.forced_in_turn = times;
        self
    }
}

/// The decision on a turn that is about to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Continue {
    /// No opinion.
    Abstain,
    /// Another step, with the reason, or a generic line, as steering.
    Again {
        /// What the model reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
}

impl Continue {
    /// What the model reads when no reason was given.
    pub const GENERIC: &'static str = "The work is not finished yet: go on.";

    /// Asks for another step.
    pub fn again(reason: impl Into<Reason>) -> Continue {
        Continue::Again { reason: Some(reason.into()) }
    }
}

/// The seam. Folds to the handlers that want another step, with their reasons.
#[derive(Debug)]
pub struct TurnContinuation;

impl Seam for TurnContinuation {
    const POINT: Point = Point::Continuation;
    type Input = Ending;
    type Decision = Continue;
    type Folded = Vec<(HandlerId, Option<Reason>)>;

    fn failed(_: &Failure) -> Continue {
        Continue::Abstain
    }
    fn advance(input: &mut Ending, by: &HandlerId, decision: &Continue, _: bool) {
        input.decided.push((by.clone(), decision.clone()));
    }
    fn fold(decided: &[Decided<Continue>]) -> Self::Folded {
        decided
            .iter()
            .filter_map(|d| match &d.decision {
                Continue::Abstain => None,
                Continue::Again { reason } => Some((d.by.clone(), reason.clone())),
            })
            .collect()
    }
    fn scene(input: &Ending) -> &Scene {
        &input.scene
    }
    fn record(decision: Continue) -> Decision {
        Decision::Continuation(decision)
    }
    fn recall(decision: &Decision) -> Option<&Continue> {
        match decision {
            Decision::Continuation(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Continue) -> bool {
        matches!(decision, Continue::Abstain)
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.continuation
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.continuation
    }
}
