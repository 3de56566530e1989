//! Which answer is due: a function of the conversation and the script, and of nothing else.

use crate::script::{Script, Step};
use crate::texts::shorten;
use portcullis_runtime::{Message, law::Transcript};
use std::borrow::Cow;

/// A place in a script, with the counts from which call ids are made.
#[derive(Debug)]
pub(crate) struct Due<'s> {
    pub(crate) step: &'s Step,
    /// Index of the turn in the script.
    pub(crate) turn: usize,
    /// Index of the step in the turn.
    pub(crate) at: usize,
    /// Which batch of prompts of the conversation it is, from 0.
    pub(crate) batch: usize,
    /// Which answer to that batch, from 0.
    pub(crate) answer: usize,
}

/// Prompts with no answer between them, and how often the model has answered since.
#[derive(Default)]
struct Batch<'m> {
    prompts: Vec<Cow<'m, str>>,
    answers: usize,
}

/// The answer to give, or a sentence about why the script has none.
pub(crate) fn due<'s>(script: &'s Script, messages: &Transcript) -> Result<Due<'s>, String> {
    let mut batches: Vec<Batch<'_>> = Vec::new();
    for message in messages.iter() {
        match message {
            Message::User { content, .. } => {
                if batches.last().is_none_or(|batch| batch.answers > 0) {
                    batches.push(Batch::default());
                }
                if let Some(batch) = batches.last_mut() {
                    batch.prompts.push(content.to_text());
                }
            }
            Message::Assistant { .. } => match batches.last_mut() {
                Some(batch) => batch.answers += 1,
                // A conversation may begin with an answer after its prompt was summarised away.
                None => batches.push(Batch { prompts: Vec::new(), answers: 1 }),
            },
            _ => {}
        }
    }
    let mut used = vec![0u32; script.turns.len()];
    let mut chosen = None;
    for batch in &batches {
        chosen = choose(script, &used, batch);
        if let Some(turn) = chosen {
            used[turn] += 1;
        }
    }
    let Some(batch) = batches.last() else {
        return Err("the request has no prompt, so the script has no answer to it".to_owned());
    };
    let Some(turn) = chosen else {
        let prompt = batch.prompts.last().map(|text| shorten(text, 120)).unwrap_or_default();
        return Err(format!(
            "the script has no turn left for prompt {} of the conversation, {prompt:?}",
            batches.len()
        ));
    };
    let steps = &script.turns[turn].steps;
    let mut left = batch.answers;
    for (at, step) in steps.iter().enumerate() {
        let repeat = usize::try_from(step.repeat).unwrap_or(usize::MAX);
        if left < repeat {
            return Ok(Due { step, turn, at, batch: batches.len() - 1, answer: batch.answers });
        }
        left -= repeat;
    }
    Err(format!(
        "turn {} of the script has no more steps: this is request {} since its prompt",
        turn + 1,
        batch.answers + 1
    ))
}

/// The first turn left whose `prompt` occurs in one of the batch's prompts, newest prompt first; else the first one left
/// without a `prompt`. The newest comes first because a batch may begin with prompts whose turn failed unanswered.
fn choose(script: &Script, used: &[u32], batch: &Batch<'_>) -> Option<usize> {
    let left = || script.turns.iter().enumerate().filter(|(i, turn)| used[*i] < turn.repeat);
    let named = batch.prompts.iter().rev().find_map(|prompt| {
        left().find(|(_, turn)| turn.prompt.as_deref().is_some_and(|part| prompt.contains(part)))
    });
    named.or_else(|| left().find(|(_, turn)| turn.prompt.is_none())).map(|(i, _)| i)
}
