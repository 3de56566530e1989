//! What an answer means at its seam, and the words in which the model reads it.
//!
//! `N` in the texts is the event, or event and subject; `C` the command as configured.

use crate::{
    answer::{Answer, Heard, Mapped, Verdict},
    background::Said,
    definition::Definition,
    event::Event,
};
use portcullis_runtime::{
    Batched, Compact, Content, Continue, Frozen, Gate, Noted, Outcome, Permit, Proposal, Reason, Returned,
    Review, Started, Submit,
};

/// Cannot stop a start: blocks and halts are in the record only. Plain output counts for nothing in a subagent's.
pub(super) fn started(heard: Heard) -> Mapped<Started> {
    let (event, source) = (heard.event.name(), &heard.subject);
    let mut context = Vec::new();
    if heard.block().is_none() && heard.event == Event::SessionStart {
        let plain = heard.answer.plain.as_ref();
        context.extend(plain.map(|text| format!("SessionStart:{source} hook success: {text}")));
    }
    context.extend(additional(&heard, event));
    heard.reply(Started {}, context, None)
}

/// What a hook adds, with its name before it.
fn additional(heard: &Heard, name: &str) -> Option<String> {
    let context = heard.answer.context.as_ref();
    context.map(|text| format!("{name} hook additional context: {text}"))
}

pub(super) fn submit(heard: Heard) -> Mapped<Submit> {
    let halt = heard.halt();
    if let Some(reason) = heard.block() {
        let decision = Submit::block(reason);
        return heard.reply(decision, Vec::new(), halt);
    }
    let plain = heard.answer.plain.as_ref().map(|text| format!("UserPromptSubmit hook success: {text}"));
    let context = plain.into_iter().chain(additional(&heard, "UserPromptSubmit")).collect();
    heard.reply(Submit::allow(), context, halt)
}

/// `continue: false` does not keep this call from running; it ends the turn after it.
pub(super) fn proposal(mut heard: Heard) -> Mapped<Proposal> {
    let (name, halt) = (heard.name(), heard.halt());
    let carried = match &heard.answer.verdict {
        None => None,
        Some(Verdict::Allow) => Some(Gate::Allow),
        Some(Verdict::Ask(reason)) => {
            Some(ask(reason, || format!("Hook {name} wants a person to confirm this call")))
        }
        Some(Verdict::Defer(reason)) => Some(Gate::Defer { reason: reason.as_deref().map(Reason::from) }),
        Some(Verdict::Block(reason)) => Some(Gate::deny(format!("{name} hook error: {reason}"))),
    };
    let context = additional(&heard, &name).into_iter().collect();
    let proposal = Proposal { arguments: heard.answer.rewrite.take(), carried };
    heard.reply(proposal, context, halt)
}

/// Exit code 2 and `continue: false` are no answers here, as in the client. A hook that would have run something else in place
/// of this very call has it denied, as the call is sealed, with what to do instead.
pub(super) fn permit(heard: Heard) -> Mapped<Permit> {
    let (halt, tool) = (heard.halt(), &heard.subject);
    let decision = match (&heard.answer.verdict, &heard.answer.other) {
        (Some(Verdict::Block(reason)), _) => Permit::deny(&**reason),
        (Some(Verdict::Allow), Some(other)) => Permit::deny(format!(
            "A PermissionRequest hook allows this call with other arguments only, so it was not run. Call {tool} with \
             these: {}",
            other.text()
        )),
        (Some(Verdict::Allow), None) => Permit::Allow,
        _ => Permit::Abstain,
    };
    heard.reply(decision, Vec::new(), halt)
}

/// A block ends the turn here, as `continue: false` does.
pub(super) fn batched(heard: Heard) -> Mapped<Batched> {
    let halt = heard.halt().or_else(|| heard.block().map(Reason::from));
    let context = additional(&heard, "PostToolBatch").into_iter().collect();
    heard.reply(Batched {}, context, halt)
}

pub(super) fn review(mut heard: Heard) -> Mapped<Review> {
    let name = heard.name();
    match heard.event {
        // Nothing here undoes the denial. `retry` is told the model, in words of our own: what the client says is not known.
        Event::PermissionDenied => {
            let retry = heard.answer.retry;
            let retry = retry.then(|| format!("{name} hook says that this call may be tried again."));
            heard.reply(Review::accept(), retry.into_iter().collect(), None)
        }
        // Here the client ignores `continue: false`.
        Event::PostToolUseFailure => {
            let context = after(&heard, &name);
            heard.reply(Review::accept(), context, None)
        }
        // The client keeps the result and adds the feedback beside it.
        _ => {
            let (halt, context) = (heard.halt(), after(&heard, &name));
            let content = heard.answer.replaced.take();
            heard.reply(Review::Accept { content }, context, halt)
        }
    }
}

fn after(heard: &Heard, name: &str) -> Vec<String> {
    let command = &heard.command;
    let block = heard
        .block()
        .map(|reason| format!("{name} hook blocking error from command: \"{command}\": {reason}"));
    block.into_iter().chain(additional(heard, name)).collect()
}

/// A block leaves the conversation as it is; plain output is added to what the model is told about the summary. What would
/// stop it does not count.
pub(super) fn compact(heard: Heard) -> Mapped<Compact> {
    let prefix = format!("[{}]: ", heard.command);
    let decision = match heard.block() {
        Some(reason) => {
            let reason = reason.strip_prefix(&prefix).unwrap_or(reason);
            Compact::skip(format!("Compaction blocked by PreCompact hook: {prefix}{reason}"))
        }
        None => match heard.answer.plain.clone() {
            Some(instructions) => Compact::keeping(instructions),
            None => Compact::proceed(),
        },
    };
    heard.reply(decision, Vec::new(), None)
}

/// It is too late for anything.
pub(super) fn noted(heard: Heard) -> Mapped<Noted> {
    heard.reply(Noted {}, Vec::new(), None)
}

/// `continue: false` ends the turn, and wins over a block of the same answer. A subagent's stop reads the same, but for its
/// name beside context.
pub(super) fn again(heard: Heard) -> Mapped<Continue> {
    let halt = heard.halt();
    if halt.is_some() {
        return heard.reply(Continue::Abstain, Vec::new(), halt);
    }
    let feedback = heard.block().map(|reason| format!("Stop hook feedback:\n{reason}"));
    let said: Vec<String> = feedback.into_iter().chain(additional(&heard, heard.event.name())).collect();
    let decision = if said.is_empty() { Continue::Abstain } else { Continue::again(said.join("\n\n")) };
    heard.reply(decision, Vec::new(), None)
}

/// What is left to say of a hook that nobody waited for. One that asked for it wakes the model with what it blocks for.
pub(super) fn late(definition: &Definition, name: &str, answer: Answer) -> Said {
    match &answer.verdict {
        Some(Verdict::Block(reason)) if definition.rewakes => {
            let stderr = reason.strip_prefix(&*format!("[{}]: ", definition.written.name()));
            let reason = stderr.unwrap_or(reason);
            let context = vec![format!("Stop hook blocking error from command \"{name}\": {reason}")];
            Said { context, wakes: true }
        }
        _ => Said { context: answer.context.into_iter().collect(), wakes: false },
    }
}

fn ask(reason: &Option<String>, otherwise: impl FnOnce() -> String) -> Gate {
    Gate::ask(reason.clone().unwrap_or_else(otherwise))
}

/// What of the answer stands in the place of the result, and what of it does not count.
pub(super) fn replace(answer: &mut Answer, at: &Returned) {
    answer.replaced = replacement(super::canonical(&at.name), answer, &at.outcome);
    if answer.replaced.is_none() && answer.output.is_some() {
        answer.unused.push("updatedToolOutput");
    }
    if answer.replaced.is_none() && answer.mcp_output.is_some() {
        answer.unused.push("updatedMCPToolOutput");
    }
}

/// The text that a hook put in place of a result: only in the shape of that tool's own results, else it does not count.
fn replacement(tool: &str, answer: &Answer, outcome: &Outcome) -> Option<Content> {
    let mcp = tool.starts_with("mcp__");
    if mcp {
        let new = answer.mcp_output.as_ref().or(answer.output.as_ref())?;
        return blocks(new);
    }
    let new = answer.output.as_ref()?.root();
    let old = outcome.output.as_ref()?;
    match &old.value {
        // A tool that answers in text takes a text.
        None => new.as_str().map(|text| Content::text(&*text)),
        Some(_) if tool == "Bash" => {
            let text = |key| new.get(key).and_then(portcullis_runtime::View::as_str);
            let (stdout, stderr) = (text("stdout")?, text("stderr")?);
            new.get("interrupted")?.as_bool()?;
            let parts: Vec<&str> = [&*stdout, &*stderr].into_iter().filter(|part| !part.is_empty()).collect();
            Some(Content::text(parts.join("\n")))
        }
        Some(_) => None,
    }
}

/// An MCP result: a text, or a list of blocks of which the text counts.
fn blocks(new: &Frozen) -> Option<Content> {
    let root = new.root();
    if let Some(text) = root.as_str() {
        return Some(Content::text(&*text));
    }
    let texts: Option<Vec<String>> = root
        .items()
        .map(|block| {
            let text = block.get("type")?.as_str()? == "text";
            let text = text.then(|| block.get("text"))??;
            Some(text.as_str()?.into_owned())
        })
        .collect();
    Some(Content::text(texts.filter(|texts| !texts.is_empty())?.join("\n")))
}
