//! How a call ended: one type for programs, one text for the model.

use crate::{Content, Failure, Frozen, HandlerId, Point, Reason};
use portcullis_identity::Cause;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a call ended (C-PIPE-8). Programs match on this; the model reads [`Outcome::for_model`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// The body ran and succeeded.
    Completed,
    /// The body ran and reported an error.
    ToolError,
    /// No tool of that name is registered. Nothing ran.
    UnknownTool,
    /// The arguments are not one JSON object, not lossless, or not of the tool's schema. Nothing ran.
    InvalidArguments {
        /// What is wrong, with its place.
        message: Arc<str>,
    },
    /// The body's output broke the tool's own contract.
    InvalidOutput {
        /// What is wrong, with its place.
        message: Arc<str>,
    },
    /// A handler of the gate denied it. Nothing ran.
    HookDeny {
        /// Who denied.
        by: HandlerId,
        /// The reason, which the model reads.
        reason: Reason,
    },
    /// A guard denied it. Nothing ran.
    GuardDeny {
        /// Who denied.
        by: HandlerId,
        /// The reason, which the model reads.
        reason: Reason,
    },
    /// A person refused it. Nothing ran.
    ApprovalRefused {
        /// What the person said, if anything.
        reason: Option<Reason>,
    },
    /// The question was withdrawn before an answer. Nothing ran.
    ApprovalCancelled,
    /// Approval was needed and no channel to a person exists. Nothing ran.
    ApprovalUnavailable {
        /// Why approval was needed.
        reason: Option<Reason>,
    },
    /// Nobody answered in time. Nothing ran.
    ApprovalExpired,
    /// It was deferred, and nobody took it up again in time. Nothing ran.
    DeferralExpired,
    /// A rewriter, gate or guard failed, which denies: nothing ran. Or the body itself failed without an answer.
    HandlerFailure {
        /// Who failed; a body by its tool, under the owner [`Ended::TOOLS`].
        by: HandlerId,
        /// At which point; `None` for a body.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<Point>,
        /// How; stays in the log, the model gets a generic text.
        failure: Failure,
    },
    /// The body did not finish within the tool's own limit.
    Timeout {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The call was cancelled before its body started.
    CancelledBeforeDispatch {
        /// The first cause.
        cause: CauseName,
    },
    /// The call was cancelled while its body ran.
    Cancelled {
        /// The first cause.
        cause: CauseName,
    },
    /// The body was started and the process died before it returned: it may or may not have had its effect.
    OutcomeUnknown,
}

/// A [`Cause`] as the log spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "std::borrow::Cow<'_, str>")]
pub struct CauseName(pub Cause);

impl From<CauseName> for &'static str {
    fn from(name: CauseName) -> &'static str {
        name.0.as_str()
    }
}

impl TryFrom<std::borrow::Cow<'_, str>> for CauseName {
    type Error = String;
    fn try_from(name: std::borrow::Cow<'_, str>) -> Result<CauseName, String> {
        name.parse().map(CauseName).map_err(|_| format!("`{name}` is no cause of a cancel"))
    }
}

impl Ended {
    /// The owner under which a failed body is named.
    pub const TOOLS: &'static str = "tools";

    /// The stable name of this kind of end, as the log spells it.
    pub fn name(&self) -> &'static str {
        match self {
            Ended::Completed => "completed",
            Ended::ToolError => "tool_error",
            Ended::UnknownTool => "unknown_tool",
            Ended::InvalidArguments { .. } => "invalid_arguments",
            Ended::InvalidOutput { .. } => "invalid_output",
            Ended::HookDeny { .. } => "hook_deny",
            Ended::GuardDeny { .. } => "guard_deny",
            Ended::ApprovalRefused { .. } => "approval_refused",
            Ended::ApprovalCancelled => "approval_cancelled",
            Ended::ApprovalUnavailable { .. } => "approval_unavailable",
            Ended::ApprovalExpired => "approval_expired",
            Ended::DeferralExpired => "deferral_expired",
            Ended::HandlerFailure { .. } => "handler_failure",
            Ended::Timeout { .. } => "timeout",
            Ended::CancelledBeforeDispatch { .. } => "cancelled_before_dispatch",
            Ended::Cancelled { .. } => "cancelled",
            Ended::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// True when the call did what it was asked to do.
    pub fn is_success(&self) -> bool {
        matches!(self, Ended::Completed)
    }

    /// True when a body was started.
    pub fn was_dispatched(&self) -> bool {
        matches!(
            self,
            Ended::Completed
                | Ended::ToolError
                | Ended::InvalidOutput { .. }
                | Ended::Timeout { .. }
                | Ended::Cancelled { .. }
                | Ended::OutcomeUnknown
                | Ended::HandlerFailure { point: None | Some(Point::Execute), .. }
        )
    }
}

/// What a body hands back: the text for the model and, where the tool has one, a structured value for programs and hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// What the model reads.
    pub content: Content,
    /// The same result as data, in the tool's own shape.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::frozen::exact_option")]
    pub value: Option<Frozen>,
}

impl Output {
    /// Text alone.
    pub fn text(text: impl Into<Arc<str>>) -> Output {
        Output { content: Content::text(text), value: None }
    }

    /// Adds the structured value.
    pub fn with_value(mut self, value: Frozen) -> Output {
        self.value = Some(value);
        self
    }
}

impl<T: Into<Arc<str>>> From<T> for Output {
    fn from(text: T) -> Output {
        Output::text(text)
    }
}

/// How a call ended together with what its body handed back, if one ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// What the body handed back; present for `completed` and `tool_error`, and for a `timeout` or `cancelled` body that
    /// had said something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

impl Outcome {
    /// The body succeeded.
    pub fn completed(output: impl Into<Output>) -> Outcome {
        Outcome { ended: Ended::Completed, output: Some(output.into()) }
    }

    /// The body reported an error.
    pub fn tool_error(output: impl Into<Output>) -> Outcome {
        Outcome { ended: Ended::ToolError, output: Some(output.into()) }
    }

    /// An end without output.
    pub fn ended(ended: Ended) -> Outcome {
        Outcome { ended, output: None }
    }

    /// What the model reads, and whether it is an error.
    pub fn for_model(&self) -> (Content, bool) {
        let error = !self.ended.is_success();
        if let Some(output) = &self.output
            && matches!(self.ended, Ended::Completed | Ended::ToolError)
        {
            return (output.content.clone(), error);
        }
        let text: Arc<str> = match &self.ended {
            Ended::Completed => "".into(),
            Ended::ToolError => "The tool failed without saying why.".into(),
            Ended::UnknownTool => {
                "There is no tool of this name. Use one of the tools you were given.".into()
            }
            Ended::InvalidArguments { message } => {
                format!("The arguments were not accepted and nothing ran: {message}").into()
            }
            Ended::InvalidOutput { message } => {
                format!("The tool ran, but its output broke its own contract: {message}").into()
            }
            Ended::HookDeny { reason, .. } | Ended::GuardDeny { reason, .. } => reason.to_shared(),
            Ended::ApprovalRefused { reason: Some(reason) } => {
                format!("A person refused this call: {reason}").into()
            }
            Ended::ApprovalRefused { reason: None } => "A person refused this call.".into(),
            Ended::ApprovalCancelled => {
                "The question for approval was withdrawn; the call did not run.".into()
            }
            Ended::ApprovalUnavailable { reason } => {
                let why = reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default();
                format!("This call needs a person's approval{why}, and there is no one to ask here; it did not run.")
                    .into()
            }
            Ended::ApprovalExpired => {
                "Nobody answered the question for approval in time; the call did not run.".into()
            }
            Ended::DeferralExpired => {
                "This call was put off, and nobody came back to it in time; it did not run.".into()
            }
            Ended::HandlerFailure { point: Some(Point::Execute) | None, .. } => {
                "The tool failed while it ran.".into()
            }
            Ended::HandlerFailure { point: Some(_), .. } => {
                "A policy check failed, so this call was not run.".into()
            }
            Ended::Timeout { limit_ms } => {
                format!("The tool did not finish within its limit of {limit_ms} ms and was stopped.").into()
            }
            Ended::CancelledBeforeDispatch { .. } => "Cancelled before it started; nothing ran.".into(),
            Ended::Cancelled { .. } => {
                "Cancelled while it was running; it may have had part of its effect.".into()
            }
            Ended::OutcomeUnknown => {
                "This call was started, then the process died before it returned. It may or may \
                                      not have had its effect: check before you do it again."
                    .into()
            }
        };
        match (&self.output, &self.ended) {
            (Some(output), Ended::Timeout { .. } | Ended::Cancelled { .. }) if !output.content.is_empty() => {
                (Content::text(format!("{text}\n{}", output.content.to_text())), error)
            }
            _ => (Content::text(text), error),
        }
    }
}
