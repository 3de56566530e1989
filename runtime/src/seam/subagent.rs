//! `subagent/start` and `subagent/end`: a child session begins, and has ended. Each fires exactly once a child, in this
//! order.

use super::{Decided, Decision, Failure, Point, Scene, Seam, Started};
use crate::{
    Content, EndReason, SessionId,
    plan::{Entry, Table},
};
use std::sync::Arc;

/// What a subagent-start handler sees. Its context is in the child's first request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildStarting {
    /// Where: the scene is the child's own.
    pub scene: Scene,
    /// The model's name.
    pub model: Option<Arc<str>>,
}

impl ChildStarting {
    /// Describes a child's start.
    pub fn new(scene: Scene, model: Option<Arc<str>>) -> ChildStarting {
        ChildStarting { scene, model }
    }
}

/// The seam.
#[derive(Debug)]
pub struct SubagentStart;

impl Seam for SubagentStart {
    const POINT: Point = Point::SubagentStart;
    type Input = ChildStarting;
    type Decision = Started;
    type Folded = ();

    fn failed(_: &Failure) -> Started {
        Started {}
    }
    fn fold(_: &[Decided<Started>]) {}
    fn scene(input: &ChildStarting) -> &Scene {
        &input.scene
    }
    fn record(decision: Started) -> Decision {
        Decision::SubagentStart(decision)
    }
    fn recall(decision: &Decision) -> Option<&Started> {
        match decision {
            Decision::SubagentStart(d) => Some(d),
            _ => None,
        }
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.subagent_start
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.subagent_start
    }
}

/// A subagent that has ended, as its parent's log keeps it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildEnded {
    /// Where: the scene is the parent's.
    pub scene: Scene,
    /// The child.
    pub child: SessionId,
    /// The kind of agent.
    pub kind: Arc<str>,
    /// How its turn ended.
    pub end: EndReason,
    /// What it reports to its parent.
    pub report: Content,
}

impl ChildEnded {
    /// Describes a child's end.
    pub fn new(
        scene: Scene,
        child: SessionId,
        kind: Arc<str>,
        end: EndReason,
        report: Content,
    ) -> ChildEnded {
        ChildEnded { scene, child, kind, end, report }
    }
}

/// Sees each subagent's end once, after its commit. Synchronous and short; a panic is contained and reported.
pub trait ChildObserver: Send + Sync + 'static {
    /// Sees one end.
    fn observe(&self, ended: &ChildEnded);
}

impl<F: Fn(&ChildEnded) + Send + Sync + 'static> ChildObserver for F {
    fn observe(&self, ended: &ChildEnded) {
        self(ended);
    }
}
