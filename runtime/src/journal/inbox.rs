//! What somebody wants of a session who does not have it: put into its inbox, and taken out by whoever has the session.
//!
//! A command has a name, which is the `key` of the record that it causes. So it is done once however often it is taken:
//! that it is out of the inbox is tidiness, that it is in the log is the fact.

use crate::{CauseName, CommandId, Content, Reason, RequestId, Seq, SessionId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One thing that can be wanted of a session. In a store it is JSON with a `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InboxCommand {
    /// A prompt, for the next turn.
    Prompt {
        /// What it says.
        content: Content,
    },
    /// Steering: for the next step of the open turn, or a prompt when none is open.
    Steer {
        /// What it says.
        content: Content,
    },
    /// Context in somebody's name. It wakes nobody.
    Inject {
        /// In whose name.
        owner: Arc<str>,
        /// What it says.
        content: Content,
    },
    /// An answer to a question of the session, or of one of its subagents.
    Answer {
        /// The question.
        request: RequestId,
        /// The arguments that it is about, as `input/requested` names them: an answer to others settles nothing.
        digest: Arc<str>,
        /// May the call run?
        allow: bool,
        /// Why not; the model reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// Takes up a call again that was deferred, of the session or of one of its subagents.
    Resume {
        /// Its wait, as its `input/requested` names it.
        request: RequestId,
    },
    /// Cancels the open turn, or what a prompt led to.
    Cancel {
        /// Why.
        cause: CauseName,
        /// The command that sent the prompt which is meant; otherwise whatever turn is open when this is taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<CommandId>,
    },
    /// Of a kind that only a newer version knows. It is refused.
    #[serde(other)]
    Unknown,
}

impl InboxCommand {
    /// The name of its kind, as a store spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            InboxCommand::Prompt { .. } => "prompt",
            InboxCommand::Steer { .. } => "steer",
            InboxCommand::Inject { .. } => "inject",
            InboxCommand::Answer { .. } => "answer",
            InboxCommand::Resume { .. } => "resume",
            InboxCommand::Cancel { .. } => "cancel",
            InboxCommand::Unknown => "unknown",
        }
    }

    /// The session in whose log its record stands: for an answer or a call that is resumed, the one whose call waits, which may
    /// be a subagent's; for everything else, that of the inbox.
    pub fn log(&self, inbox: &SessionId) -> SessionId {
        let asked = match self {
            InboxCommand::Answer { request, .. } | InboxCommand::Resume { request } => request.session(),
            _ => None,
        };
        asked.unwrap_or_else(|| inbox.clone())
    }

    /// As a store keeps it: one line of JSON.
    ///
    /// # Panics
    /// Never: its only keys are names of fields.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("its keys are text")
    }

    /// What a store kept.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn decode(text: &str) -> Result<InboxCommand, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// Where a command stands that was put into an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Posted {
    /// It waits, on disk, for whoever has the session or opens it next. What was put under this name first is what waits.
    Waits,
    /// It was taken, now or under this name before: this record is what it caused, in the [log](InboxCommand::log) that is
    /// the command's.
    Taken(Seq),
    /// It was taken, and could not be done: why. Nothing was done.
    Refused(Arc<str>),
}
