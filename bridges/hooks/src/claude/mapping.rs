//! What an answer means at its seam, and the words in which the model reads it.
//!
//! `N` in the texts is the event, or event and subject; `C` the command as configured.

use super::output::{Answer, Verdict};
use portcullis_runtime::{
    Batched, BoxError, Compact, Content, Continue, Failure, Frozen, Gate, Noted, Outcome, OwnRecord, Permit,
    Proposal, Reason, Reply, Review, Started, Submit,
};

/// A run with its records, ready to be given a meaning.
pub(crate) struct Heard {
    pub(crate) answer: Answer,
    pub(crate) records: Vec<OwnRecord>,
}

type Mapped<D> = Result<Reply<D>, BoxError>;

impl Heard {
    /// The reply with what every event has in common. Whatever the hook did, it is an answer: a failing hook must not fail
    /// its seam, whose rule is stricter than the client's.
    fn reply<D>(self, decision: D, context: Vec<String>, halt: Option<Reason>) -> Mapped<D> {
        let mut reply = Reply::new(decision);
        reply.context = context.into_iter().map(Into::into).collect();
        reply.halt = halt;
        reply.records = self.records;
        // A failure that blocks is a decision with a reason the model should read; one that does not is only noted.
        if !matches!(self.answer.verdict, Some(Verdict::Block(_))) {
            reply.failure = self.answer.failure.map(|why| Failure::Error { message: why.into() });
        }
        Ok(reply)
    }

    fn halt(&self, event: &str) -> Option<Reason> {
        let stated = self.answer.halt.as_ref()?;
        Some(match stated {
            Some(reason) => reason.as_str().into(),
            None => format!("Stopped by a {event} hook.").into(),
        })
    }

    fn block(&self) -> Option<&str> {
        match &self.answer.verdict {
            Some(Verdict::Block(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Cannot stop a start: blocks and halts are in the record only.
    pub(crate) fn session_start(self, source: &str) -> Mapped<Started> {
        let mut context = Vec::new();
        if self.block().is_none() {
            context.extend(
                self.answer.plain.as_ref().map(|text| format!("SessionStart:{source} hook success: {text}")),
            );
        }
        context.extend(
            self.answer.context.as_ref().map(|text| format!("SessionStart hook additional context: {text}")),
        );
        self.reply(Started {}, context, None)
    }

    /// Plain output counts for nothing here, and what would stop it does not.
    pub(crate) fn subagent_start(self) -> Mapped<Started> {
        let stated = self.answer.context.as_ref();
        let stated = stated.map(|text| format!("SubagentStart hook additional context: {text}"));
        let context = stated.into_iter().collect();
        self.reply(Started {}, context, None)
    }

    pub(crate) fn prompt_submit(self) -> Mapped<Submit> {
        let halt = self.halt("UserPromptSubmit");
        if let Some(reason) = self.block() {
            let decision = Submit::block(reason);
            return self.reply(decision, Vec::new(), halt);
        }
        let plain = self.answer.plain.as_ref().map(|text| format!("UserPromptSubmit hook success: {text}"));
        let stated = self.answer.context.as_ref();
        let stated = stated.map(|text| format!("UserPromptSubmit hook additional context: {text}"));
        let context = plain.into_iter().chain(stated).collect();
        self.reply(Submit::allow(), context, halt)
    }

    /// `continue: false` does not keep this call from running; it ends the turn after it.
    pub(crate) fn pre_tool_use(mut self, tool: &str) -> Mapped<Proposal> {
        let name = format!("PreToolUse:{tool}");
        let halt = self.halt("PreToolUse");
        let carried = match &self.answer.verdict {
            None => None,
            Some(Verdict::Allow) => Some(Gate::Allow),
            Some(Verdict::Ask(reason)) => {
                Some(ask(reason, || format!("Hook {name} wants a person to confirm this call")))
            }
            // A deferred call waits for someone outside, which an ask does here.
            Some(Verdict::Defer(reason)) => Some(ask(reason, || format!("Hook {name} deferred this call"))),
            Some(Verdict::Block(reason)) => Some(Gate::deny(format!("{name} hook error: {reason}"))),
        };
        let context = self.answer.context.as_ref();
        let context =
            context.map(|text| format!("{name} hook additional context: {text}")).into_iter().collect();
        let proposal = Proposal { arguments: self.answer.rewrite.take(), carried };
        self.reply(proposal, context, halt)
    }

    /// Exit code 2 and `continue: false` are no answers here, as in the client. `other` is what the hook would have run in
    /// place of this very call, if that is something else: the call is sealed, so it is denied, with what to do instead.
    pub(crate) fn permission_request(self, tool: &str, other: Option<&str>) -> Mapped<Permit> {
        let halt = self.halt("PermissionRequest");
        let decision = match (&self.answer.verdict, other) {
            (Some(Verdict::Block(reason)), _) => Permit::deny(&**reason),
            (Some(Verdict::Allow), Some(other)) => Permit::deny(format!(
                "A PermissionRequest hook allows this call with other arguments only, so it was not run. Call {tool} with \
                 these: {other}"
            )),
            (Some(Verdict::Allow), None) => Permit::Allow,
            _ => Permit::Abstain,
        };
        self.reply(decision, Vec::new(), halt)
    }

    /// Nothing here undoes the denial. `retry` is told the model, in words of our own: what the client says is not known.
    pub(crate) fn permission_denied(self, tool: &str) -> Mapped<Review> {
        let retry = self.answer.retry;
        let retry =
            retry.then(|| format!("PermissionDenied:{tool} hook says that this call may be tried again."));
        self.reply(Review::accept(), retry.into_iter().collect(), None)
    }

    /// A block ends the turn here, as `continue: false` does.
    pub(crate) fn post_tool_batch(self) -> Mapped<Batched> {
        let halt = self.halt("PostToolBatch").or_else(|| self.block().map(Reason::from));
        let stated = self.answer.context.as_ref();
        let stated = stated.map(|text| format!("PostToolBatch hook additional context: {text}"));
        let context = stated.into_iter().collect();
        self.reply(Batched {}, context, halt)
    }

    /// The client keeps the result and adds the feedback beside it.
    pub(crate) fn post_tool_use(
        self,
        tool: &str,
        command: &str,
        replaced: Option<Content>,
    ) -> Mapped<Review> {
        let halt = self.halt("PostToolUse");
        let context = self.after(&format!("PostToolUse:{tool}"), command);
        self.reply(Review::Accept { content: replaced }, context, halt)
    }

    /// Here the client ignores `continue: false`.
    pub(crate) fn post_tool_use_failure(self, tool: &str, command: &str) -> Mapped<Review> {
        let context = self.after(&format!("PostToolUseFailure:{tool}"), command);
        self.reply(Review::accept(), context, None)
    }

    fn after(&self, name: &str, command: &str) -> Vec<String> {
        let block = self
            .block()
            .map(|reason| format!("{name} hook blocking error from command: \"{command}\": {reason}"));
        let stated = self.answer.context.as_ref();
        let stated = stated.map(|text| format!("{name} hook additional context: {text}"));
        block.into_iter().chain(stated).collect()
    }

    /// A block leaves the conversation as it is; plain output is added to what the model is told about the summary. What would
    /// stop it does not count.
    pub(crate) fn pre_compact(self, command: &str) -> Mapped<Compact> {
        let prefix = format!("[{command}]: ");
        let decision = match self.block() {
            Some(reason) => {
                let reason = reason.strip_prefix(&prefix).unwrap_or(reason);
                Compact::skip(format!("Compaction blocked by PreCompact hook: {prefix}{reason}"))
            }
            None => match self.answer.plain.clone() {
                Some(instructions) => Compact::keeping(instructions),
                None => Compact::proceed(),
            },
        };
        self.reply(decision, Vec::new(), None)
    }

    /// It is too late for anything.
    pub(crate) fn post_compact(self) -> Mapped<Noted> {
        self.reply(Noted {}, Vec::new(), None)
    }

    /// `continue: false` ends the turn, and wins over a block of the same answer. A subagent's stop reads the same, but for its
    /// name beside context.
    pub(crate) fn stop(self, event: &str) -> Mapped<Continue> {
        let halt = self.halt(event);
        if halt.is_some() {
            return self.reply(Continue::Abstain, Vec::new(), halt);
        }
        let feedback = self.block().map(|reason| format!("Stop hook feedback:\n{reason}"));
        let stated = self.answer.context.as_ref();
        let stated = stated.map(|text| format!("{event} hook additional context: {text}"));
        let said: Vec<String> = feedback.into_iter().chain(stated).collect();
        let decision = if said.is_empty() { Continue::Abstain } else { Continue::again(said.join("\n\n")) };
        self.reply(decision, Vec::new(), None)
    }
}

fn ask(reason: &Option<String>, otherwise: impl FnOnce() -> String) -> Gate {
    Gate::ask(reason.clone().unwrap_or_else(otherwise))
}

/// The text that a hook put in place of a result: only in the shape of that tool's own results, else it does not count.
pub(crate) fn replacement(tool: &str, answer: &Answer, outcome: &Outcome) -> Option<Content> {
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
