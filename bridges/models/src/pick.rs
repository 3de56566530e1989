//! Which answer is due: a function of the conversation and the script, and of nothing else.

use crate::script::{Aside, Script, Step};
use crate::texts::shorten;
use portcullis_runtime::{Message, law::Transcript};
use std::borrow::Cow;

/// A place in a script, with the counts from which call ids are made.
#[derive(Debug)]
pub(crate) struct Due<'s> {
    pub(crate) step: &'s Step,
    /// The turn or the aside of the script, as a person counts it.
    pub(crate) place: String,
    /// Index of the step in it.
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
    if let Some(due) = aside(script, messages) {
        return due;
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
    step(steps, format!("turn {}", turn + 1), batches.len() - 1, batch.answers)
}

/// The step for so many answers.
fn step(steps: &[Step], place: String, batch: usize, answer: usize) -> Result<Due<'_>, String> {
    let mut left = answer;
    for (at, step) in steps.iter().enumerate() {
        let repeat = usize::try_from(step.repeat).unwrap_or(usize::MAX);
        if left < repeat {
            return Ok(Due { step, place, at, batch, answer });
        }
        left -= repeat;
    }
    Err(format!("{place} of the script has no more steps: this is request {} since its prompt", answer + 1))
}

/// The answer in a conversation that an aside is for: it begins with a prompt in which all its texts occur.
fn aside<'s>(script: &'s Script, messages: &Transcript) -> Option<Result<Due<'s>, String>> {
    if script.asides.is_empty() {
        return None;
    }
    let first = messages.iter().find_map(|message| match message {
        Message::User { content, .. } => Some(content.to_text()),
        _ => None,
    })?;
    let fits = |aside: &Aside| aside.contains.iter().all(|text| first.contains(&**text));
    let (at, aside) = script.asides.iter().enumerate().find(|(_, aside)| fits(aside))?;
    let answers = messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
    Some(step(&aside.steps, format!("aside {}", at + 1), 0, answers))
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
