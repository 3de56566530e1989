//! What an answer means at its seam, and the words in which the model reads it.
//!
//! Context is raw, without a word about where it came from.

use super::{
    matcher::canonical,
    payload::{APPLY_PATCH, BASH, alone, argument},
};
use crate::{
    answer::{Answer, Heard, Mapped, Verdict},
    background::Said,
    event::Event,
    explain::At,
    json::write_string,
};
use portcullis_runtime::{
    Compact, Continue, Frozen, Gate, Noted, Permit, Proposal, Proposed, Reason, Review, Started, Submit, View,
};

/// What stands in the place of a call whose new arguments have no command.
const NO_COMMAND: &str = "hook returned updatedInput without string field `command`";
/// The same where it cannot be told which argument the command is.
const NO_PLACE: &str =
    "hook returned updatedInput, and which argument of this call is its command cannot be told";

/// What PreToolUse says, about the call that it says it of: a denial in the model's words, new arguments in their place.
pub(super) fn consider(answer: &mut Answer, at: At<'_>) {
    let At::PreToolUse(call) = at else { return };
    if let Some(Verdict::Block(reason)) = &mut answer.verdict {
        *reason = refusal(call, reason);
    }
    if let Some(input) = answer.rewrite.take() {
        match arguments(call, &input) {
            Ok(arguments) => answer.rewrite = Some(arguments),
            // Nothing runs, neither what the model wanted nor what the hook did.
            Err(why) => answer.verdict = Some(Verdict::Block(why)),
        }
    }
}

/// What the model reads in the place of a result.
fn refusal(call: &Proposed, reason: &str) -> String {
    let tool = canonical(&call.tool.name);
    match alone(tool, Some(&call.tool), call.so_far.root()) {
        Some(command) => {
            format!("Command blocked by PreToolUse hook: {reason}. Command: {command}")
        }
        None => format!("Tool call blocked by PreToolUse hook: {reason}. Tool: {tool}"),
    }
}

/// The arguments that a hook wants: of a shell and of a patch it can change the command alone, of any other tool everything.
fn arguments(call: &Proposed, input: &Frozen) -> Result<Frozen, String> {
    let (tool, old) = (canonical(&call.tool.name), call.so_far.root());
    let refused = |why| format!("hook returned updatedInput that cannot be used: {why}");
    if !matches!(tool, BASH | APPLY_PATCH) {
        return Frozen::arguments(input.text()).map_err(refused);
    }
    let command = input.root().get("command").and_then(View::as_str);
    let command = command.ok_or(NO_COMMAND)?;
    let key = argument(tool, Some(&call.tool), old).ok_or(NO_PLACE)?;
    let mut new = String::from("{");
    let mut entry = |name: &str, write: &mut dyn FnMut(&mut String)| {
        if new.len() > 1 {
            new.push(',');
        }
        write_string(&mut new, name);
        new.push(':');
        write(&mut new);
    };
    let mut there = false;
    for (name, value) in old.entries() {
        if name == key {
            there = true;
            entry(&name, &mut |out| write_string(out, &command));
        } else {
            entry(&name, &mut |out| value.write_compact(out));
        }
    }
    if !there {
        entry(key, &mut |out| write_string(out, &command));
    }
    new.push('}');
    Frozen::arguments(new).map_err(refused)
}

fn context(heard: &Heard) -> Vec<String> {
    heard.answer.context.iter().cloned().collect()
}

/// To stop ends the turn that waits for the start. A subagent's is not stopped.
pub(super) fn started(heard: Heard) -> Mapped<Started> {
    let (context, halt) = (context(&heard), heard.halt());
    heard.reply(Started {}, context, halt)
}

/// To stop drops the prompt, too.
pub(super) fn submit(heard: Heard) -> Mapped<Submit> {
    let (context, halt) = (context(&heard), heard.halt());
    let decision = match heard.block().or(halt.as_ref().map(Reason::as_str)) {
        Some(reason) => Submit::block(reason),
        None => Submit::allow(),
    };
    heard.reply(decision, context, halt)
}

pub(super) fn proposal(mut heard: Heard) -> Mapped<Proposal> {
    let context = context(&heard);
    let carried = match &heard.answer.verdict {
        Some(Verdict::Block(reason)) => Some(Gate::deny(&**reason)),
        Some(Verdict::Ask(Some(reason))) => Some(Gate::ask(&**reason)),
        Some(Verdict::Ask(None)) => {
            Some(Gate::ask(format!("A {} hook wants a person to confirm this call", heard.name())))
        }
        Some(Verdict::Allow | Verdict::Defer(_)) | None => None,
    };
    let proposal = Proposal { arguments: heard.answer.rewrite.take(), carried };
    heard.reply(proposal, context, None)
}

pub(super) fn permit(heard: Heard) -> Mapped<Permit> {
    let decision = match &heard.answer.verdict {
        Some(Verdict::Block(message)) => Permit::deny(&**message),
        Some(Verdict::Allow) => Permit::Allow,
        _ => Permit::Abstain,
    };
    heard.reply(decision, Vec::new(), None)
}

/// Feedback stands in the place of the result.
pub(super) fn review(heard: Heard) -> Mapped<Review> {
    let context = context(&heard);
    let decision = heard.block().map_or_else(Review::accept, Review::block);
    heard.reply(decision, context, None)
}

/// Each hook's prompt is told apart by the run that it is of.
pub(super) fn again(heard: Heard) -> Mapped<Continue> {
    let halt = heard.halt();
    let prompt = heard.block().filter(|_| halt.is_none()).map(|text| prompt(&heard, text));
    heard.reply(prompt.map_or(Continue::Abstain, Continue::again), Vec::new(), halt)
}

fn prompt(heard: &Heard, text: &str) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let event = if heard.event == Event::SubagentStop { "subagent-stop" } else { "stop" };
    let (file, order) = &heard.place;
    let file = escaped(&file.to_string_lossy()).replace('"', "&quot;");
    format!("<hook_prompt hook_run_id=\"{event}:{order}:{file}\">{}</hook_prompt>", escaped(text))
}

/// To stop leaves the conversation as it is.
pub(super) fn compact(heard: Heard) -> Mapped<Compact> {
    let halt = heard.halt();
    let decision = match heard.block().or(halt.as_ref().map(Reason::as_str)) {
        Some(reason) => Compact::skip(reason),
        None => Compact::proceed(),
    };
    heard.reply(decision, Vec::new(), halt)
}

/// To stop leaves the summary in force.
pub(super) fn noted(heard: Heard) -> Mapped<Noted> {
    let halt = heard.halt();
    heard.reply(Noted {}, Vec::new(), halt)
}

/// Nothing that is said too late decides.
pub(super) fn late(answer: Answer) -> Said {
    Said { context: answer.context.into_iter().collect(), wakes: false }
}

#[cfg(test)]
mod tests;
