//! What a hook said: exit code, stdout and stderr, read by the client's rules.
//!
//! - Output is UTF-8, bad bytes replaced; white space and a byte order mark around it do not count.
//! - A text from `{` to `}` must be JSON; any other text is plain, noise around an object included.
//! - JSON counts on every exit code. One value of a wrong type, `null` included, or another event's name voids all of it.
//! - Exit code 2 blocks, whatever JSON allows; the reason is the JSON's if it blocks too, else stderr.
//! - Any other failure decides nothing, unless the hook blocks on failure.

mod oversize;
mod said;

use crate::{
    answer::{Answer, Terms, Verdict},
    event::Event,
    json,
    options::Fidelity,
};
use portcullis_process::{Ending, Finished, SpawnError};
use portcullis_runtime::{Frozen, Scene};
use std::path::Path;

/// What stands where a block gives no reason.
const NO_REASON: &str = "Blocked by hook";
/// What stands where the denial of a question gives no message.
const NO_MESSAGE: &str = "Permission denied by hook";
/// What stands where exit code 2 came without a text.
const NO_STDERR: &str = "No stderr output";

/// Why an answer may be half of one.
const HELD: &str = "a process it left behind held its output open";

/// Stdout, sorted.
enum Stdout {
    Plain(String),
    Json(Box<said::Said>),
    Broken(String),
}

pub(super) fn read(terms: &Terms<'_>, ran: &Result<Finished, SpawnError>) -> Answer {
    let finished = match ran {
        Err(error) => return terms.failed("failed", error.to_string(), &error.to_string()),
        Ok(finished) => finished,
    };
    if finished.ending != Ending::Exited {
        return terms.failed(
            "timed out",
            "it ran into its time limit; what it printed does not count".into(),
            "",
        );
    }
    let code = finished.status.shell_code();
    let stderr = finished.stderr.text();
    match (code, stdout(terms, &finished.stdout.text(), finished.stdout.is_cut())) {
        (_, Stdout::Json(said)) if code != Some(2) || said.blocks(terms.event) => {
            answer(terms, *said, finished.pipe_held)
        }
        (Some(2), stdout) => {
            let stderr = if stderr.trim().is_empty() { NO_STDERR } else { &stderr };
            // A question is answered by JSON alone: here the client goes on as if nothing had been said.
            let blocks = terms.event != Event::PermissionRequest;
            let reason = || Verdict::Block(format!("[{}]: {stderr}", terms.command));
            let mut answer = Answer { spoken: "block", verdict: blocks.then(reason), ..Answer::default() };
            if let Stdout::Json(said) = stdout {
                answer.halt = said.halt(terms.event);
                answer.message = said.message;
            }
            answer
        }
        (_, Stdout::Broken(why)) => {
            let detail = if stderr.trim().is_empty() { why.clone() } else { stderr.trim().to_owned() };
            terms.failed("failed", why, &detail)
        }
        (Some(0), Stdout::Plain(text)) => {
            Answer { plain: Some(text).filter(|text| !text.is_empty()), ..Answer::default() }
        }
        (code, _) => {
            let code = code.map_or("an unknown status".into(), |code| format!("exit code {code}"));
            let line = stderr.trim().lines().next().unwrap_or_default();
            let why = if line.is_empty() { code } else { format!("{code}: {line}") };
            terms.failed("failed", why, stderr.trim())
        }
    }
}

/// A text that stands for what a command prints before it ends well.
pub(super) fn told(terms: &Terms<'_>, text: &str, cut: bool) -> Answer {
    match stdout(terms, text, cut) {
        Stdout::Json(said) => answer(terms, *said, false),
        Stdout::Broken(why) => terms.failed("failed", why.clone(), &why),
        Stdout::Plain(text) => {
            Answer { plain: Some(text).filter(|text| !text.is_empty()), ..Answer::default() }
        }
    }
}

fn stdout(terms: &Terms<'_>, text: &str, cut: bool) -> Stdout {
    let text = json::trim(text);
    if cut && text.starts_with('{') {
        return Stdout::Broken("it said more than is kept".into());
    }
    if !(text.starts_with('{') && text.ends_with('}')) {
        return Stdout::Plain(text.into());
    }
    match json::parse(text) {
        Err(fault) => {
            Stdout::Broken(format!("what it printed looks like JSON and is not: {}", fault.problem))
        }
        Ok(node) => match said::Said::read(terms.event, &node) {
            Ok(said) => Stdout::Json(Box::new(said)),
            Err(why) => Stdout::Broken(format!("its JSON output does not count: {why}")),
        },
    }
}

/// `held`: more may have been on its way.
fn answer(terms: &Terms<'_>, said: said::Said, held: bool) -> Answer {
    let mut answer = Answer {
        spoken: said.spoken(),
        halt: said.halt(terms.event),
        message: said.message.clone(),
        unused: said.unused.clone(),
        ..Answer::default()
    };
    if said.background {
        answer.unused.push("async");
        return answer;
    }
    if said.blocks(terms.event) {
        let question = terms.event == Event::PermissionRequest;
        let otherwise = if question { NO_MESSAGE } else { NO_REASON };
        let reason = said.block_reason().unwrap_or(otherwise);
        answer.verdict = Some(Verdict::Block(reason.into()));
    } else if terms.event == Event::PreToolUse {
        let reason = said.permission_reason.clone().filter(|reason| !reason.is_empty());
        answer.verdict = match (said.permission, said.decision) {
            (Some(said::Permission::Defer), _) => Some(Verdict::Defer(reason)),
            (Some(said::Permission::Ask), _) => Some(Verdict::Ask(reason)),
            (Some(_), _) | (None, Some(said::Decision::Approve)) => Some(Verdict::Allow),
            (None, _) => None,
        };
    }
    if said.permit == Some(said::Permit::Allow) {
        answer.verdict = Some(Verdict::Allow);
    }
    answer.retry = said.retry;
    answer.context = said.context.filter(|context| !context.is_empty());
    answer.output = said.output.and_then(|json| Frozen::parse(json).ok());
    answer.mcp_output = said.mcp_output.and_then(|json| Frozen::parse(json).ok());
    let denied = matches!(answer.verdict, Some(Verdict::Block(_)));
    if let Some(input) = said.input
        && !denied
    {
        match arguments(terms, input) {
            Ok(arguments) => answer.rewrite = Some(arguments),
            // Running the call as it was could be just what the hook meant to prevent.
            Err(why) => {
                answer.failure = Some(format!("its new arguments cannot be used: {why}"));
                answer.verdict = Some(Verdict::Block(format!(
                    "[{}]: its new arguments cannot be used, so the call was not run: {why}",
                    terms.command
                )));
            }
        }
    }
    let grants = matches!(answer.verdict, Some(Verdict::Allow))
        || answer.rewrite.is_some()
        || answer.context.is_some();
    // More may have been on its way: an answer that could be half of one grants nothing.
    if held && terms.event == Event::PermissionRequest && answer.verdict == Some(Verdict::Allow) {
        let failed = terms.failed("failed", HELD.into(), HELD);
        return Answer { spoken: answer.spoken, halt: answer.halt, message: answer.message, ..failed };
    }
    if held && terms.event == Event::PreToolUse && grants && !denied {
        let verdict = Verdict::Block(format!(
            "[{}]: a process it left behind still held its output open, so its answer may be incomplete and was not used",
            terms.command
        ));
        answer = Answer {
            spoken: answer.spoken,
            halt: answer.halt,
            message: answer.message,
            failure: Some(HELD.into()),
            ..Answer::default()
        };
        answer.verdict = Some(verdict);
    }
    answer
}

fn arguments(terms: &Terms<'_>, json: String) -> Result<Frozen, portcullis_runtime::Refused> {
    let frozen = Frozen::arguments(json)?;
    match terms.fidelity {
        Fidelity::Strict => Ok(frozen),
        Fidelity::Exact => Frozen::arguments(frozen.javascript()),
    }
}

/// Bounds what the model would read; plain output counts on three events only.
pub(super) async fn bound(answer: &mut Answer, event: Event, scene: &Scene, transcripts: &Path) {
    let folder = || transcripts.join(scene.session.root.as_str()).join("tool-results");
    answer.plain = match (answer.plain.take(), event) {
        (Some(text), Event::SessionStart | Event::UserPromptSubmit) => {
            Some(oversize::bound(text, folder(), "stdout").await)
        }
        (plain, Event::PreCompact) => plain,
        _ => None,
    };
    if let Some(text) = answer.context.take() {
        answer.context = Some(oversize::bound(text, folder(), "additionalContext").await);
    }
}
