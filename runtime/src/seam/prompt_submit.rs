//! `agent/prompt-submit`: a user's prompt, before its message exists. It may be replaced or blocked.

use super::{Decided, Decision, Failure, Point, Scene, Seam};
use crate::{
    Content, Reason, Seq, Source,
    plan::{Entry, Table},
};
use serde::{Deserialize, Serialize};

/// What a prompt-submit handler sees. All handlers of a prompt see the same content.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Submitted {
    /// Where.
    pub scene: Scene,
    /// The prompt's own record.
    pub from: Seq,
    /// What was sent.
    pub content: Content,
    /// Who sent it.
    pub source: Source,
}

impl Submitted {
    /// Describes a prompt.
    pub fn new(scene: Scene, from: Seq, content: Content, source: Source) -> Submitted {
        Submitted { scene, from, content, source }
    }
}

/// The decision on a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Submit {
    /// It becomes a message; with `content` another one than was sent. The source stays the user.
    Allow {
        /// The replacement, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Content>,
    },
    /// It does not reach the model.
    Block {
        /// Why, for whoever sent it.
        reason: Reason,
    },
}

impl Submit {
    /// Lets the prompt pass as it is.
    pub fn allow() -> Submit {
        Submit::Allow { content: None }
    }
    /// Lets the prompt pass with other content.
    pub fn replace(content: impl Into<Content>) -> Submit {
        Submit::Allow { content: Some(content.into()) }
    }
    /// Blocks the prompt.
    pub fn block(reason: impl Into<Reason>) -> Submit {
        Submit::Block { reason: reason.into() }
    }
}

/// What the decisions on a prompt come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It passes, with the last replacement if any handler gave one.
    Pass(Option<Content>),
    /// It is blocked, by the last one that said so.
    Blocked(Reason),
}

/// The seam.
#[derive(Debug)]
pub struct PromptSubmit;

impl Seam for PromptSubmit {
    const POINT: Point = Point::PromptSubmit;
    type Input = Submitted;
    type Decision = Submit;
    type Folded = Judged;

    fn failed(_: &Failure) -> Submit {
        Submit::block("A policy check on this prompt failed, so it was not sent.")
    }
    fn ends_chain(decision: &Submit) -> bool {
        matches!(decision, Submit::Block { .. })
    }
    fn fold(decided: &[Decided<Submit>]) -> Judged {
        let mut replaced = None;
        let mut blocked: Option<(bool, &Reason)> = None;
        for d in decided {
            match &d.decision {
                Submit::Allow { content: Some(content) } => replaced = Some(content.clone()),
                Submit::Allow { content: None } => {}
                // A stated reason says more than the generic line of a failure.
                Submit::Block { reason } => {
                    let stated = d.failure.is_none();
                    if stated || !blocked.is_some_and(|(s, _)| s) {
                        blocked = Some((stated, reason));
                    }
                }
            }
        }
        match blocked {
            Some((_, reason)) => Judged::Blocked(reason.clone()),
            None => Judged::Pass(replaced),
        }
    }
    fn scene(input: &Submitted) -> &Scene {
        &input.scene
    }
    fn record(decision: Submit) -> Decision {
        Decision::PromptSubmit(decision)
    }
    fn recall(decision: &Decision) -> Option<&Submit> {
        match decision {
            Decision::PromptSubmit(d) => Some(d),
            _ => None,
        }
    }
    fn says_nothing(decision: &Submit) -> bool {
        matches!(decision, Submit::Allow { content: None })
    }
    fn entries(table: &Table) -> &Vec<Entry<Self>> {
        &table.prompt_submit
    }
    fn entries_mut(table: &mut Table) -> &mut Vec<Entry<Self>> {
        &mut table.prompt_submit
    }
}
