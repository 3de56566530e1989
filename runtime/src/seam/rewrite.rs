//! `tools/rewrite`: other arguments for a call, before its identity exists.
//!
//! A shell hook answers "new arguments" and "allow, ask or deny" in one process run. So a proposal may carry a gate
//! answer, which the pre-execute fold of the same call takes in as if it had been given there.

use super::{Decided, Decision, Failure, Gate, Point, PreExecute, Scene, Seam};
use crate::{
    CallKey, Frozen, HandlerId, ToolSpec,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};
use std::{ops::Deref, sync::Arc};

/// What a rewriter sees. Native rewriters run first, each on what the one before left; hooks all see what those left.
/// A snapshot by value (one `Arc`), like an [`Execution`](crate::Execution).
#[derive(Debug, Clone)]
pub struct Proposed(Arc<ProposedData>);

/// What a [`Proposed`] holds. Reached through it by `Deref`, read-only.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProposedData {
    /// Where.
    pub scene: Scene,
    /// The call's key.
    pub key: CallKey,
    /// The model's own id of the call; it may repeat.
    pub call_id: Arc<str>,
    /// The tool.
    pub tool: Arc<ToolSpec>,
    /// The arguments as the model wrote them.
    pub requested: Frozen,
    /// The arguments as the rewriters so far left them.
    pub so_far: Frozen,
}

impl Proposed {
    /// Describes a call before its identity exists.
    pub fn new(
        scene: Scene,
        key: CallKey,
        call_id: Arc<str>,
        tool: Arc<ToolSpec>,
        requested: Frozen,
    ) -> Proposed {
        let so_far = requested.clone();
        Proposed(Arc::new(ProposedData { scene, key, call_id, tool, requested, so_far }))
    }
}

impl Deref for Proposed {
    type Target = ProposedData;
    fn deref(&self) -> &ProposedData {
        &self.0
    }
}

/// New arguments, a gate answer, both or neither.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proposal {
    /// The whole new arguments.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::frozen::exact_option")]
    pub arguments: Option<Frozen>,
    /// A verdict that joins the fold of the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Gate>,
}

impl Proposal {
    /// Leaves the call alone.
    pub fn pass() -> Proposal {
        Proposal::default()
    }
    /// Replaces the arguments.
    pub fn arguments(arguments: Frozen) -> Proposal {
        Proposal { arguments: Some(arguments), carried: None }
    }
    /// Adds a verdict for the gate.
    pub fn carrying(mut self, gate: Gate) -> Proposal {
        self.carried = Some(gate);
        self
    }
}

/// What the proposals come to.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The last proposal, and whose it was; `None` when nobody proposed any, or when a carried deny makes it moot.
    pub effective: Option<(HandlerId, Frozen)>,
    /// The verdicts that join the gate.
    pub carried: Vec<Decided<Gate>>,
}

/// The seam.
#[derive(Debug)]
pub struct Rewrite;

impl Seam for Rewrite {
    const POINT: Point = Point::Rewrite;
    const NATIVE_FIRST: bool = true;
    type Input = Proposed;
    type Decision = Proposal;
    type Folded = Rewritten;

    fn failed(failure: &Failure) -> Proposal {
        Proposal { arguments: None, carried: Some(PreExecute::failed(failure)) }
    }
    fn advance(input: &mut Proposed, _: &HandlerId, decision: &Proposal, native: bool) {
        if let (true, Some(arguments)) = (native, &decision.arguments) {
            Arc::make_mut(&mut input.0).so_far = arguments.clone();
        }
    }
    fn fold(decided: &[Decided<Proposal>]) -> Rewritten {
        let carried: Vec<Decided<Gate>> = decided
            .iter()
            .filter_map(|d| {
                let gate = d.decision.carried.clone()?;
                Some(Decided { by: d.by.clone(), decision: gate, failure: d.failure.clone() })
            })
            .collect();
        let denied = carried.iter().any(|d| matches!(d.decision, Gate::Deny { .. }));
        let last = decided.iter().rev().find_map(|d| Some((d.by.clone(), d.decision.arguments.clone()?)));
        Rewritten { effective: last.filter(|_| !denied), carried }
    }
    fn tool(input: &Proposed) -> Option<&str> {
        Some(&input.tool.name)
    }
    fn scene(input: &Proposed) -> &Scene {
        &input.scene
    }
    fn record(decision: Proposal) -> Decision {
        Decision::Rewrite(decision)
    }
    fn recall(decision: &Decision) -> Option<&Proposal> {
        match decision {
            Decision::Rewrite(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Proposal) -> bool {
        decision.arguments.is_none() && decision.carried.as_ref().is_none_or(PreExecute::says_nothing)
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.rewrite
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.rewrite
    }
}
