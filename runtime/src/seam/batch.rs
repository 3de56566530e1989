//! `tools/batch`: every call of a step has its result. Someone may look at them together before the model does.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    CallKey, Content, Ended, Frozen,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One call of a batch, as the log and the model's next request have it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BatchCall {
    /// The call's key.
    pub key: CallKey,
    /// The model's own id of the call; it may repeat.
    pub call_id: Arc<str>,
    /// The tool's name, as the model wrote it.
    pub name: Arc<str>,
    /// The arguments' text, as the model wrote it.
    pub raw: Arc<str>,
    /// The arguments in force; `None` where they were refused.
    pub arguments: Option<Frozen>,
    /// How it ended.
    pub ended: Ended,
    /// What the model reads.
    pub content: Content,
    /// Whether the model reads it as an error.
    pub error: bool,
}

impl BatchCall {
    /// Describes a call that has its result.
    pub fn new(
        key: CallKey,
        (call_id, name, raw): (Arc<str>, Arc<str>, Arc<str>),
        arguments: Option<Frozen>,
        ended: Ended,
        content: Content,
        error: bool,
    ) -> BatchCall {
        BatchCall { key, call_id, name, raw, arguments, ended, content, error }
    }
}

/// What a batch handler sees.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallBatch {
    /// Where.
    pub scene: Scene,
    /// The calls that the model made in this step, in its order; calls that bodies made are not among them.
    pub calls: Arc<[BatchCall]>,
}

impl CallBatch {
    /// Describes the calls of a step.
    pub fn new(scene: Scene, calls: impl Into<Arc<[BatchCall]>>) -> CallBatch {
        CallBatch { scene, calls: calls.into() }
    }
}

/// Decides nothing by itself: context and a halt ride along with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batched {}

/// The seam. Each result stands; what a handler adds comes behind the last one.
#[derive(Debug)]
pub struct ToolBatch;

impl Seam for ToolBatch {
    const POINT: Point = Point::Batch;
    type Input = CallBatch;
    type Decision = Batched;
    type Folded = ();

    fn failed(_: &Failure) -> Batched {
        Batched {}
    }
    fn fold(_: &[Decided<Batched>]) {}
    fn scene(input: &CallBatch) -> &Scene {
        &input.scene
    }
    fn record(decision: Batched) -> Decision {
        Decision::Batch(decision)
    }
    fn recall(decision: &Decision) -> Option<&Batched> {
        match decision {
            Decision::Batch(d) => Some(d),
            _ => None,
        }
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.batch
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.batch
    }
}
