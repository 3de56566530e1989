//! What the model is asked for when a conversation is summarised, and what is made of its answer.

use portcullis_runtime::{AssistantMessage, Content, Finish, ModelError, Reason};
use std::sync::Arc;

const ASKED: &str = "The conversation has grown too long to be carried on as it is. Write a summary that will stand in \
its place: whoever goes on has nothing but your text. Keep what the user asked for and every constraint they set, what was \
done and found out, with the names of files, commands and values, what failed and why, what is decided, and what remains to \
be done next. Answer with the summary alone.";

const HEADED: &str = "The conversation so far was summarised to save space.";

/// The request, with what the handlers want kept.
pub(crate) fn request(instructions: &[Arc<str>]) -> String {
    instructions.iter().fold(ASKED.to_owned(), |text, more| format!("{text}\n\n{more}"))
}

const FAILED: &str = "The model could not be asked for a summary: ";

/// Why there is no summary when the model failed.
pub(crate) fn failed(error: &ModelError) -> Reason {
    format!("{FAILED}{error}").into()
}

/// The model's failure behind such a reason.
pub(crate) fn failure(reason: &str) -> Option<&str> {
    reason.strip_prefix(FAILED)
}

/// What the model said, in a message that stands for the conversation.
pub(crate) fn said(message: &str) -> &str {
    message.strip_prefix(HEADED).map_or(message, str::trim_start)
}

/// The message that stands for the conversation; `None` when the model did not say one to its end: nothing is left of what
/// a summary stands for, so a refusal, a cut text or a call's first words are none.
pub(crate) fn of(message: &AssistantMessage) -> Option<Content> {
    if message.finish != Finish::Stop {
        return None;
    }
    let text = message.text();
    let text = text.trim();
    (!text.is_empty()).then(|| format!("{HEADED}\n\n{text}").into())
}
