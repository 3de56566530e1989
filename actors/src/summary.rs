//! What the model is asked for when a conversation is summarised, and what is made of its answer.

use portcullis_runtime::{AssistantMessage, Content, Finish};
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
