//! `tools/permission`: the gate wants a person to agree. Someone may answer in the person's stead, before the question is
//! put.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    Execution, HandlerId, Reason,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};

/// What a permission handler sees.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Asking {
    /// The call.
    pub call: Execution,
    /// Who wants a person to agree.
    pub by: Vec<HandlerId>,
    /// Why, where it was said.
    pub reasons: Vec<Reason>,
    /// There is a person to ask. Without one, a question that nobody answers here denies.
    pub reachable: bool,
}

impl Asking {
    /// Describes a question that is about to be put.
    pub fn new(call: Execution, by: Vec<HandlerId>, reasons: Vec<Reason>, reachable: bool) -> Asking {
        Asking { call, by, reasons, reachable }
    }
}

/// The decision on a question, from least to most restrictive of those that answer it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Permit {
    /// No answer: the person is asked.
    Abstain,
    /// The call may go on to the guards, this once.
    Allow,
    /// It must not run.
    Deny {
        /// Why, shown to the model.
        reason: Reason,
    },
}

impl Permit {
    /// Denies the call.
    pub fn deny(reason: impl Into<Reason>) -> Permit {
        Permit::Deny { reason: reason.into() }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Permit::Abstain => "abstain",
            Permit::Allow => "allow",
            Permit::Deny { .. } => "deny",
        }
    }
}

/// What the answers come to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permitted {
    /// Nobody answered: a person is asked.
    Open,
    /// It was allowed, by the last one that said so.
    Allowed(HandlerId),
    /// It was denied.
    Denied {
        /// By whom: the last one that stated a reason, else the last one that failed.
        by: HandlerId,
        /// Why.
        reason: Reason,
        /// The failure that the denial stands for, if no one denied on purpose.
        failure: Option<Failure>,
    },
}

/// The seam. Deny beats allow beats no answer.
#[derive(Debug)]
pub struct Permission;

impl Seam for Permission {
    const POINT: Point = Point::Permission;
    type Input = Asking;
    type Decision = Permit;
    type Folded = Permitted;

    fn failed(_: &Failure) -> Permit {
        Permit::deny("A policy check failed, so this call was not run.")
    }
    fn ends_chain(decision: &Permit) -> bool {
        matches!(decision, Permit::Deny { .. })
    }
    fn fold(decided: &[Decided<Permit>]) -> Permitted {
        let mut folded = Permitted::Open;
        for d in decided {
            match (&d.decision, &folded) {
                (Permit::Abstain, _) | (Permit::Allow, Permitted::Denied { .. }) => {}
                (Permit::Allow, _) => folded = Permitted::Allowed(d.by.clone()),
                // A failure takes nothing back from a denial that was meant.
                (Permit::Deny { .. }, Permitted::Denied { failure: None, .. }) if d.failure.is_some() => {}
                (Permit::Deny { reason }, _) => {
                    folded = Permitted::Denied {
                        by: d.by.clone(),
                        reason: reason.clone(),
                        failure: d.failure.clone(),
                    };
                }
            }
        }
        folded
    }
    fn tool(input: &Asking) -> Option<&str> {
        Some(&input.call.tool.name)
    }
    fn scene(input: &Asking) -> &Scene {
        &input.call.scene
    }
    fn record(decision: Permit) -> Decision {
        Decision::Permission(decision)
    }
    fn recall(decision: &Decision) -> Option<&Permit> {
        match decision {
            Decision::Permission(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Permit) -> bool {
        matches!(decision, Permit::Abstain)
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.permission
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.permission
    }
}
