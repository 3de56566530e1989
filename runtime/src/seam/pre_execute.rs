//! `tools/pre-execute`: may this call run? Deny beats defer beats ask beats allow, whatever the order or the speed.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    Execution, HandlerId, Reason,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};

/// The decision on a call, from least to most restrictive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Gate {
    /// Nothing against it.
    Allow,
    /// A person must agree first.
    Ask {
        /// Why, shown to the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// Not now: the call waits, with its turn open, until its host takes it up again. Then all of its rewriters and gates are
    /// asked anew.
    Defer {
        /// Why, shown to the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// It must not run.
    Deny {
        /// Why, shown to the model.
        reason: Reason,
    },
}

impl Gate {
    /// Lets the call pass.
    pub fn allow() -> Gate {
        Gate::Allow
    }
    /// Asks a person.
    pub fn ask(reason: impl Into<Reason>) -> Gate {
        Gate::Ask { reason: Some(reason.into()) }
    }
    /// Leaves the call for later.
    pub fn defer(reason: impl Into<Reason>) -> Gate {
        Gate::Defer { reason: Some(reason.into()) }
    }
    /// Denies the call.
    pub fn deny(reason: impl Into<Reason>) -> Gate {
        Gate::Deny { reason: reason.into() }
    }
    pub(super) fn word(&self) -> &'static str {
        match self {
            Gate::Allow => "allow",
            Gate::Ask { .. } => "ask",
            Gate::Defer { .. } => "defer",
            Gate::Deny { .. } => "deny",
        }
    }
}

/// What the decisions on a call come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on to the guards.
    Open,
    /// A person must agree.
    Ask {
        /// Who asks.
        by: Vec<HandlerId>,
        /// Why, where it was said.
        reasons: Vec<Reason>,
    },
    /// It waits for its host, and nobody is asked meanwhile.
    Deferred {
        /// Who defers it.
        by: Vec<HandlerId>,
        /// Why, where it was said.
        reasons: Vec<Reason>,
    },
    /// It is denied.
    Closed {
        /// By whom: the last one that stated a reason, else the last one that failed.
        by: HandlerId,
        /// Why.
        reason: Reason,
        /// The failure that the denial stands for, if no one denied on purpose.
        failure: Option<Failure>,
    },
}

/// The seam.
#[derive(Debug)]
pub struct PreExecute;

impl Seam for PreExecute {
    const POINT: Point = Point::PreExecute;
    type Input = Execution;
    type Decision = Gate;
    type Folded = Verdict;

    fn failed(_: &Failure) -> Gate {
        Gate::deny("A policy check failed, so this call was not run.")
    }
    fn ends_chain(decision: &Gate) -> bool {
        matches!(decision, Gate::Deny { .. })
    }
    fn fold(decided: &[Decided<Gate>]) -> Verdict {
        let (mut by, mut reasons) = (Vec::new(), Vec::new());
        let (mut deferred_by, mut deferred) = (Vec::new(), Vec::new());
        let mut closed: Option<(&HandlerId, &Reason, Option<&Failure>)> = None;
        for d in decided {
            match &d.decision {
                Gate::Allow => {}
                Gate::Ask { reason } => {
                    by.push(d.by.clone());
                    reasons.extend(reason.clone());
                }
                Gate::Defer { reason } => {
                    deferred_by.push(d.by.clone());
                    deferred.extend(reason.clone());
                }
                Gate::Deny { reason } => {
                    if d.failure.is_none() || closed.is_none_or(|(_, _, failure)| failure.is_some()) {
                        closed = Some((&d.by, reason, d.failure.as_ref()));
                    }
                }
            }
        }
        match closed {
            Some((by, reason, failure)) => {
                Verdict::Closed { by: by.clone(), reason: reason.clone(), failure: failure.cloned() }
            }
            None if !deferred_by.is_empty() => Verdict::Deferred { by: deferred_by, reasons: deferred },
            None if !by.is_empty() => Verdict::Ask { by, reasons },
            None => Verdict::Open,
        }
    }
    fn tool(input: &Execution) -> Option<&str> {
        Some(&input.tool.name)
    }
    fn scene(input: &Execution) -> &Scene {
        &input.scene
    }
    fn record(decision: Gate) -> Decision {
        Decision::PreExecute(decision)
    }
    fn recall(decision: &Decision) -> Option<&Gate> {
        match decision {
            Decision::PreExecute(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Gate) -> bool {
        matches!(decision, Gate::Allow)
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.pre_execute
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.pre_execute
    }
}
