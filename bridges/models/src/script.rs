//! The script as the file says it. Everything that can be wrong with a script is found here, at load, where the place of
//! the mistake is known.

use crate::expect::Expect;
use crate::texts::Texts;
use portcullis_runtime::{Finish, Json, ModelError, Usage};
use serde::Deserialize;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    #[serde(default = "default_name")]
    pub(crate) name: String,
    #[serde(default, rename = "about")]
    _about: Option<String>,
    /// Checked on every request, before the step's own.
    #[serde(default)]
    pub(crate) expect: Expect,
    pub(crate) turns: Vec<ScriptTurn>,
    /// What is asked beside the conversation, each in a conversation of its own.
    #[serde(default)]
    pub(crate) asides: Vec<Aside>,
}

fn default_name() -> String {
    "scripted".to_owned()
}

fn once() -> u32 {
    1
}

/// Answers in a conversation whose first message has these texts.
#[derive(Debug, Deserialize)]
#[serde(try_from = "AsideText")]
pub(crate) struct Aside {
    pub(crate) contains: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AsideText {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    contains: Texts,
    steps: Vec<Step>,
}

impl TryFrom<AsideText> for Aside {
    type Error = &'static str;

    fn try_from(aside: AsideText) -> Result<Aside, &'static str> {
        if aside.contains.0.iter().all(String::is_empty) {
            return Err("`contains` says which conversations the aside is for; give it a text");
        }
        if aside.steps.is_empty() {
            return Err("`steps` is empty; an aside needs at least one answer");
        }
        Ok(Aside { contains: aside.contains.0, steps: aside.steps })
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "TurnText")]
pub(crate) struct ScriptTurn {
    pub(crate) prompt: Option<String>,
    pub(crate) repeat: u32,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnText {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    prompt: Option<String>,
    #[serde(default = "once")]
    repeat: u32,
    steps: Vec<Step>,
}

impl TryFrom<TurnText> for ScriptTurn {
    type Error = &'static str;

    fn try_from(turn: TurnText) -> Result<ScriptTurn, &'static str> {
        if turn.prompt.as_deref() == Some("") {
            return Err("an empty `prompt` occurs in every prompt; leave it out to match any");
        }
        if turn.repeat == 0 {
            return Err("`repeat` is how many prompts the turn is for, at least 1");
        }
        if turn.steps.is_empty() {
            return Err("`steps` is empty; a turn needs at least one answer");
        }
        Ok(ScriptTurn { prompt: turn.prompt, repeat: turn.repeat, steps: turn.steps })
    }
}

/// One answer.
#[derive(Debug, Deserialize)]
#[serde(try_from = "StepText")]
pub(crate) struct Step {
    pub(crate) expect: Expect,
    pub(crate) delay: Duration,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Finish,
    pub(crate) fault: Option<Fault>,
    pub(crate) repeat: u32,
}

/// How an answer goes wrong, and after how many of its events.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of this kind, in the first attempts at the request or in all.
    Fail { after: usize, attempts: Option<u32>, error: ModelError },
    /// The stream simply ends.
    Cut { after: usize },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    #[serde(default, rename = "about")]
    _about: Option<String>,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    delay_ms: u64,
    reasoning: Option<Texts>,
    text: Option<Texts>,
    calls: Option<Vec<Call>>,
    say: Option<Vec<Piece>>,
    usage: Option<UsageText>,
    finish: Option<FinishText>,
    refusal: Option<String>,
    fail: Option<Fail>,
    cut_after: Option<usize>,
    #[serde(default = "once")]
    repeat: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageText {
    input: u64,
    output: u64,
}

#[derive(Deserialize, PartialEq, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum FinishText {
    Stop,
    Calls,
    MaxTokens,
    Refused,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailKind {
    Busy,
    Fatal,
    Cut,
}

#[derive(Deserialize)]
#[serde(try_from = "FailText")]
struct Fail {
    after: usize,
    attempts: Option<u32>,
    error: ModelError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailText {
    kind: FailKind,
    message: Option<String>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    after: usize,
    attempts: Option<u32>,
}

impl TryFrom<FailText> for Fail {
    type Error = &'static str;

    fn try_from(fail: FailText) -> Result<Fail, &'static str> {
        let error = match (fail.kind, fail.message, fail.retry_after_ms) {
            (FailKind::Busy, None, retry) => {
                ModelError::Busy { retry_after: retry.map(Duration::from_millis) }
            }
            (FailKind::Fatal, Some(message), None) => ModelError::Fatal { message },
            (FailKind::Cut, None, None) => ModelError::Cut { events: fail.after },
            (FailKind::Fatal, None, _) => return Err("a `fatal` failure needs a `message`"),
            (_, Some(_), _) => return Err("only a `fatal` failure has a `message`"),
            (_, _, Some(_)) => return Err("only a `busy` failure has `retry_after_ms`"),
        };
        if fail.attempts == Some(0) {
            return Err("`attempts` is how many attempts fail, at least 1; leave it out for all");
        }
        Ok(Fail { after: fail.after, attempts: fail.attempts, error })
    }
}

/// A part of an answer.
#[derive(Debug, Deserialize)]
#[serde(try_from = "PieceText")]
pub(crate) enum Piece {
    Text(String),
    Reasoning(String),
    Call(Call),
    Wait(Duration),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PieceText {
    text: Option<String>,
    reasoning: Option<String>,
    call: Option<Call>,
    delay_ms: Option<u64>,
}

impl TryFrom<PieceText> for Piece {
    type Error = &'static str;

    fn try_from(piece: PieceText) -> Result<Piece, &'static str> {
        match (piece.text, piece.reasoning, piece.call, piece.delay_ms) {
            (Some(text), None, None, None) => Ok(Piece::Text(text)),
            (None, Some(text), None, None) => Ok(Piece::Reasoning(text)),
            (None, None, Some(call), None) => Ok(Piece::Call(call)),
            (None, None, None, Some(ms)) => Ok(Piece::Wait(Duration::from_millis(ms))),
            _ => Err("a piece of `say` has exactly one of `text`, `reasoning`, `call` and `delay_ms`"),
        }
    }
}

/// A call the model makes.
#[derive(Debug, Deserialize)]
#[serde(try_from = "CallText")]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The text of the arguments, exactly as it goes out.
    pub(crate) arguments: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallText {
    id: Option<String>,
    name: String,
    // `Json` and not a parsed tree: big integers, the order of keys and spelling go out as they stand in the file.
    input: Option<Json>,
    raw: Option<String>,
}

impl TryFrom<CallText> for Call {
    type Error = &'static str;

    fn try_from(call: CallText) -> Result<Call, &'static str> {
        let arguments = match (call.input, call.raw) {
            (Some(input), None) => input.root().text().to_owned(),
            (None, Some(raw)) => raw,
            _ => return Err("a call has exactly one of `input` (a JSON value) and `raw` (any text)"),
        };
        Ok(Call { id: call.id, name: call.name, arguments })
    }
}

impl TryFrom<StepText> for Step {
    type Error = String;

    fn try_from(step: StepText) -> Result<Step, String> {
        let short = step.reasoning.is_some() || step.text.is_some() || step.calls.is_some();
        let pieces = match step.say {
            Some(_) if short => {
                return Err("use either `say` or `reasoning`, `text` and `calls`, not both".into());
            }
            Some(pieces) => pieces,
            None => {
                let reasoning = step.reasoning.unwrap_or_default().0.into_iter().map(Piece::Reasoning);
                let text = step.text.unwrap_or_default().0.into_iter().map(Piece::Text);
                let calls = step.calls.unwrap_or_default().into_iter().map(Piece::Call);
                reasoning.chain(text).chain(calls).collect()
            }
        };
        let calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(_)));
        let finish = finish(step.finish, step.refusal, calls)?;
        let usage = step.usage.map(|u| Usage { input: u.input, output: u.output });
        let events = pieces.iter().map(Piece::events).sum::<usize>() + usize::from(usage.is_some());
        let fault = match (step.fail, step.cut_after) {
            (Some(_), Some(_)) => return Err("an answer has either `fail` or `cut_after`, not both".into()),
            (Some(Fail { after, attempts, error }), None) => Some(Fault::Fail { after, attempts, error }),
            (None, Some(after)) => Some(Fault::Cut { after }),
            (None, None) => None,
        };
        if let Some(Fault::Fail { after, .. } | Fault::Cut { after }) = &fault
            && *after > events
        {
            return Err(format!(
                "the answer has {events} events before its finish, so nothing fails after {after}"
            ));
        }
        if step.repeat == 0 {
            return Err("`repeat` is how many requests the step answers, at least 1".into());
        }
        let delay = Duration::from_millis(step.delay_ms);
        Ok(Step { expect: step.expect, delay, pieces, usage, finish, fault, repeat: step.repeat })
    }
}

fn finish(said: Option<FinishText>, refusal: Option<String>, calls: bool) -> Result<Finish, &'static str> {
    if refusal.is_some() && said != Some(FinishText::Refused) {
        return Err("`refusal` goes with `\"finish\": \"refused\"` only");
    }
    match said {
        Some(FinishText::Refused) => {
            let reason = refusal.unwrap_or_else(|| "The model declined.".to_owned());
            Ok(Finish::Refused { reason: reason.into() })
        }
        Some(FinishText::MaxTokens) => Ok(Finish::MaxTokens),
        Some(FinishText::Calls) if !calls => Err("`\"finish\": \"calls\"` needs a call"),
        Some(FinishText::Stop) => Ok(Finish::Stop),
        Some(FinishText::Calls) => Ok(Finish::Calls),
        None if calls => Ok(Finish::Calls),
        None => Ok(Finish::Stop),
    }
}

impl Piece {
    /// How many events it streams as.
    pub(crate) fn events(&self) -> usize {
        match self {
            Piece::Text(_) | Piece::Reasoning(_) => 1,
            Piece::Wait(_) => 0,
            Piece::Call(call) => 1 + fragments(&call.arguments).count(),
        }
    }
}

/// Arguments come in halves, as providers send them in fragments: none for an empty text, one for a single character.
pub(crate) fn fragments(text: &str) -> impl Iterator<Item = &str> {
    let starts = || text.char_indices().map(|(at, _)| at);
    let middle = starts().find(|at| 2 * at >= text.len()).or_else(|| starts().next_back()).unwrap_or(0);
    let (head, tail) = text.split_at(middle);
    [head, tail].into_iter().filter(|part| !part.is_empty())
}
