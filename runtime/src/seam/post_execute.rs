//! `tools/post-execute`: a decided call, before its result is final. Feedback can replace what the model reads; a denial
//! never becomes a success.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    CallKey, Content, Frozen, Outcome, Reason, ToolSpec,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};
use std::{ops::Deref, sync::Arc, time::Duration};

/// What a post-execute handler sees: every decided outcome, denials, unknown tools and invalid arguments included.
/// A snapshot by value (one `Arc`), like an [`Execution`](crate::Execution).
#[derive(Debug, Clone)]
pub struct Returned(Arc<ReturnedData>);

/// What a [`Returned`] holds. Reached through it by `Deref`, read-only.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReturnedData {
    /// Where.
    pub scene: Scene,
    /// The call's key.
    pub key: CallKey,
    /// The model's own id of the call; it may repeat.
    pub call_id: Arc<str>,
    /// The name the model called.
    pub name: Arc<str>,
    /// The tool, unless there is none of that name.
    pub tool: Option<Arc<ToolSpec>>,
    /// The arguments that ran or would have run; `None` when they were no JSON object.
    pub arguments: Option<Frozen>,
    /// How it ended.
    pub outcome: Arc<Outcome>,
    /// How long the body took; zero when none ran.
    pub took: Duration,
}

impl Returned {
    /// Describes a decided call.
    #[expect(clippy::too_many_arguments, reason = "one snapshot, built in one place")]
    pub fn new(
        scene: Scene,
        key: CallKey,
        call_id: Arc<str>,
        name: Arc<str>,
        tool: Option<Arc<ToolSpec>>,
        arguments: Option<Frozen>,
        outcome: Arc<Outcome>,
        took: Duration,
    ) -> Returned {
        Returned(Arc::new(ReturnedData { scene, key, call_id, name, tool, arguments, outcome, took }))
    }
}

impl Deref for Returned {
    type Target = ReturnedData;
    fn deref(&self) -> &ReturnedData {
        &self.0
    }
}

/// The decision on a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Review {
    /// It stands; with `content` the model reads that instead.
    Accept {
        /// The replacement, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Content>,
    },
    /// The model reads the feedback instead, as an error.
    Block {
        /// The feedback.
        feedback: Reason,
    },
}

impl Review {
    /// Lets the result stand.
    pub fn accept() -> Review {
        Review::Accept { content: None }
    }
    /// Lets the model read something else.
    pub fn replace(content: impl Into<Content>) -> Review {
        Review::Accept { content: Some(content.into()) }
    }
    /// Replaces the result by feedback, marked as an error.
    pub fn block(feedback: impl Into<Reason>) -> Review {
        Review::Block { feedback: feedback.into() }
    }
}

/// What the reviews come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reviewed {
    /// It stands.
    Stands,
    /// It stands with other content.
    Replaced(Content),
    /// It is replaced by feedback, each handler's on a line of its own.
    Blocked(Reason),
}

/// The seam.
#[derive(Debug)]
pub struct PostExecute;

impl Seam for PostExecute {
    const POINT: Point = Point::PostExecute;
    type Input = Returned;
    type Decision = Review;
    type Folded = Reviewed;

    fn failed(_: &Failure) -> Review {
        Review::accept()
    }
    fn fold(decided: &[Decided<Review>]) -> Reviewed {
        let feedback: Vec<&str> = decided
            .iter()
            .filter_map(|d| match &d.decision {
                Review::Block { feedback } => Some(feedback.as_str()),
                Review::Accept { .. } => None,
            })
            .collect();
        if !feedback.is_empty() {
            return Reviewed::Blocked(feedback.join("\n").into());
        }
        let last = decided.iter().rev().find_map(|d| match &d.decision {
            Review::Accept { content } => content.clone(),
            Review::Block { .. } => None,
        });
        last.map_or(Reviewed::Stands, Reviewed::Replaced)
    }
    fn tool(input: &Returned) -> Option<&str> {
        Some(&input.name)
    }
    fn scene(input: &Returned) -> &Scene {
        &input.scene
    }
    fn record(decision: Review) -> Decision {
        Decision::PostExecute(decision)
    }
    fn recall(decision: &Decision) -> Option<&Review> {
        match decision {
            Decision::PostExecute(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Review) -> bool {
        matches!(decision, Review::Accept { content: None })
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.post_execute
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.post_execute
    }
}
