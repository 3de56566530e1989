//! Questions beside the conversation: what a handler asks a model, or an agent with tools, before it decides.
//!
//! A handler that needs judgement has no conversation of its own. It asks an [`Advisor`], which its host gives it. The answer
//! is worth what the handler makes of it: it is no decision, and stands in the log as part of the one it led to.

use crate::{Finish, HandlerId, ModelError, Scene, SessionId, Usage};
use futures::future::BoxFuture;
use std::sync::Arc;

/// Answers questions of handlers.
///
/// Dropping the future withdraws the question: a request is cancelled, an agent is, too.
pub trait Advisor: Send + Sync + 'static {
    /// Asks.
    fn advise(&self, question: Question) -> BoxFuture<'static, Result<Advice, NoAdvice>>;
}

/// A question of a handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Question {
    /// Where it is asked.
    pub scene: Scene,
    /// Who asks.
    pub by: HandlerId,
    /// Whom.
    pub of: Asked,
    /// What an answer must be like.
    pub system: Arc<str>,
    /// The question, whole: whoever is asked sees nothing of the conversation.
    pub text: Arc<str>,
}

impl Question {
    /// Puts a question.
    pub fn new(scene: Scene, by: HandlerId, of: Asked, system: Arc<str>, text: Arc<str>) -> Question {
        Question { scene, by, of, system, text }
    }
}

/// Whom a question is put to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// The session's model, in one request without tools.
    Model,
    /// An agent of this kind: a session of its own below the one that the handler is called in, with that one's tools and
    /// policies. The same question, asked again at the same place after the process died, is the same agent's.
    Agent(Arc<str>),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// What it says.
    pub text: String,
    /// The model that said it.
    pub model: Arc<str>,
    /// What the request used, if the model said so. An agent's requests are in its own log.
    pub usage: Option<Usage>,
    /// The agent's session.
    pub agent: Option<SessionId>,
}

impl Advice {
    /// What a model said.
    pub fn new(text: impl Into<String>, model: impl Into<Arc<str>>) -> Advice {
        Advice { text: text.into(), model: model.into(), usage: None, agent: None }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAdvice {
    /// The request failed.
    #[error("the model could not be asked: {0}")]
    Model(#[from] ModelError),
    /// The model did not come to the end of an answer.
    #[error("the model gave no whole answer: {}", said(.0))]
    Unfinished(Finish),
    /// The agent did not complete its turn.
    #[error("the agent did not answer: {0}")]
    Agent(String),
    /// The session is not where the question could be put to it.
    #[error("nobody could be asked: {0}")]
    Nobody(String),
}

fn said(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "it said nothing",
        Finish::Calls => "it asked for a tool, and has none",
        Finish::MaxTokens => "it ran into its output limit",
        Finish::Interrupted => "it was interrupted",
        Finish::Refused { reason } => reason,
    }
}
