//! The model's side: one request in, a stream of events out.

use crate::{AssistantBlock, Content, Frozen, Source, law::Transcript};
use futures::stream::BoxStream;
use portcullis_identity::Cancel;
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// A model. The stream is `Send + 'static`, so a bridge may drive it on a runtime of its own; dropping it cancels the
/// request.
pub trait Model: Send + Sync + 'static {
    /// Its name, for the log and for hooks.
    fn name(&self) -> Arc<str>;
    /// Starts one request.
    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// One request: a pure function of the log. Sharing the projection, it costs its own step's messages, not the history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelRequest {
    /// What does not change from step to step.
    pub header: Arc<RequestHeader>,
    /// The conversation. Never ends on an assistant message.
    pub messages: Transcript,
    /// Which attempt at this request this is, from 1.
    pub attempt: u32,
    /// Resolves when the turn is cancelled.
    pub cancel: Cancel,
}

impl ModelRequest {
    /// Builds a request.
    pub fn new(
        header: Arc<RequestHeader>,
        messages: Transcript,
        attempt: u32,
        cancel: Cancel,
    ) -> ModelRequest {
        ModelRequest { header, messages, attempt, cancel }
    }
}

/// The part of a request that seldom changes; logged only when it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeader {
    /// The model's name.
    pub model: Arc<str>,
    /// The system text; may be empty.
    pub system: Arc<str>,
    /// The tools, in registration order.
    pub tools: Vec<ToolHeader>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHeader {
    /// Its name.
    pub name: Arc<str>,
    /// What it is for.
    pub description: Arc<str>,
    /// JSON Schema of its arguments.
    #[serde(with = "crate::frozen::exact")]
    pub schema: Frozen,
}

/// A message of the conversation, as a model request carries it, and as snapshots keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// A user's prompt.
    User {
        /// What it says.
        content: Content,
        /// Who sent it.
        source: Source,
    },
    /// Context that code added.
    Context {
        /// What it says.
        content: Content,
        /// Whose it is.
        source: Source,
    },
    /// Steering between steps.
    Steering {
        /// What it says.
        content: Content,
        /// Whose it is.
        source: Source,
    },
    /// What the model said. Its calls show the arguments in force.
    Assistant {
        /// The blocks, in order.
        blocks: Arc<[AssistantBlock]>,
    },
    /// A call's result.
    Result {
        /// The model's own id of the call.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// What the model reads.
        content: Content,
        /// Whether it reads it as an error.
        error: bool,
    },
}

/// The two sides of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything that answers or asks the model: prompts, context, steering, results.
    User,
    /// The model.
    Assistant,
}

impl Message {
    /// As JSON, for a digest: nothing reads it back.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        let written = match self {
            Message::User { content, source } => serde_json::to_writer(out, &("user", content, source)),
            Message::Context { content, source } => serde_json::to_writer(out, &("context", content, source)),
            Message::Steering { content, source } => {
                serde_json::to_writer(out, &("steering", content, source))
            }
            Message::Assistant { blocks } => serde_json::to_writer(out, &("assistant", blocks)),
            Message::Result { id, name, content, error } => {
                serde_json::to_writer(out, &("result", id, name, content, error))
            }
        };
        written.expect("messages have text keys only, and memory takes what is written");
    }

    /// Whose side it is on.
    pub fn role(&self) -> Role {
        match self {
            Message::Assistant { .. } => Role::Assistant,
            _ => Role::User,
        }
    }
}

/// What a model says, piece by piece. `Usage` comes before `Finish`; nothing comes after `Finish`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A call begins.
    CallStart {
        /// The model's own id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of the arguments of the call begun last, exactly as the provider sent it.
    CallText(String),
    /// What the request used.
    Usage(Usage),
    /// The end of the message.
    Finish(Finish),
}

/// What a request used, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It wants its calls run.
    Calls,
    /// It ran into its output limit. Calls of such a message never run.
    MaxTokens,
    /// The turn was cancelled while it spoke: what had come by then. The runtime says this, never a model.
    Interrupted,
    /// The provider or the model declined.
    Refused {
        /// Why, if it said so.
        reason: Arc<str>,
    },
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The stream ended before `Finish`.
    #[error("the model's stream was cut after {events} events")]
    Cut {
        /// How many events had come.
        events: usize,
    },
    /// The provider is overloaded.
    #[error("the model is busy{}", .retry_after.map(|d| format!(", retry in {} s", d.as_secs())).unwrap_or_default())]
    Busy {
        /// What the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    #[error("{message}")]
    Fatal {
        /// What happened.
        message: String,
    },
}

impl ModelError {
    /// The stable code of a turn that ends by this error.
    pub fn code(&self) -> &'static str {
        match self {
            ModelError::Cut { .. } => "model_cut",
            ModelError::Busy { .. } => "model_busy",
            ModelError::Fatal { .. } => "model_failed",
        }
    }
}
