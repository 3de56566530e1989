//! What a hook said, before its event gives it a meaning: the same for every dialect.

use crate::{event::Event, options::Fidelity, records::Would};
use portcullis_runtime::{BoxError, Content, Failure, Frozen, OwnRecord, Reason, Reply};
use std::path::PathBuf;

/// What a hook's run comes to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// As the hook spoke it, for the record; empty for `none`.
    pub(crate) spoken: &'static str,
    pub(crate) verdict: Option<Verdict>,
    /// `continue: false`, with its reason.
    pub(crate) halt: Option<Option<String>>,
    /// Plain output of a successful run, trimmed.
    pub(crate) plain: Option<String>,
    /// `additionalContext`.
    pub(crate) context: Option<String>,
    /// `retry`: a denied call may be tried again.
    pub(crate) retry: bool,
    /// `updatedInput`.
    pub(crate) rewrite: Option<Frozen>,
    /// `updatedToolOutput`, `updatedMCPToolOutput`.
    pub(crate) output: Option<Frozen>,
    pub(crate) mcp_output: Option<Frozen>,
    /// What of these stands in the place of the result.
    pub(crate) replaced: Option<Content>,
    /// Arguments with which a question would be allowed, where the call has others.
    pub(crate) other: Option<Frozen>,
    /// Why the run decides nothing, if it failed.
    pub(crate) failure: Option<String>,
    /// `systemMessage`: for the user.
    pub(crate) message: Option<String>,
    /// What it asked for that nothing here acts on.
    pub(crate) unused: Vec<&'static str>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Allow,
    Ask(Option<String>),
    Defer(Option<String>),
    /// Deny or block, with the reason the model or the person reads.
    Block(String),
}

impl Answer {
    /// What is left of it where nothing a hook says counts: that it failed, if it did.
    pub(crate) fn in_shadow(self) -> Answer {
        Answer { failure: self.failure, ..Answer::default() }
    }

    /// What it would have come to, for the record.
    pub(crate) fn would(&self) -> Would<'_> {
        let (verdict, reason) = match &self.verdict {
            None => (None, None),
            Some(Verdict::Allow) => (Some("allow"), None),
            Some(Verdict::Ask(reason)) => (Some("ask"), reason.as_deref()),
            Some(Verdict::Defer(reason)) => (Some("defer"), reason.as_deref()),
            Some(Verdict::Block(reason)) => (Some("block"), Some(&**reason)),
        };
        let halt = self.halt.as_ref().map(|reason| reason.as_deref().unwrap_or_default());
        let (plain, context) = (self.plain.as_deref(), self.context.as_deref());
        Would {
            verdict,
            reason,
            halt,
            plain,
            context,
            input: self.rewrite.as_ref().map(|input| input.text()),
            output: self.output.as_ref().or(self.mcp_output.as_ref()).map(|output| output.text()),
        }
    }
}

/// What reading a run depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) event: Event,
    /// The command as configured, which reasons quote.
    pub(crate) command: &'a str,
    pub(crate) fidelity: Fidelity,
    /// The setting by whose name a failure blocks: the handler's own, or the host's.
    pub(crate) blocks_on_failure: Option<&'static str>,
}

impl Terms<'_> {
    /// A run that decides nothing, unless its failure blocks. `what` and `detail` are for a reason, should it block; `why` is
    /// for the record.
    pub(crate) fn failed(&self, what: &str, why: String, detail: &str) -> Answer {
        let mut answer = Answer { failure: Some(why), ..Answer::default() };
        if let Some(setting) = self.blocks_on_failure.filter(|_| self.event.blocks_on_failure()) {
            let mut reason = format!("[{}]: {what}; blocking because {setting} is \"block\"", self.command);
            if !detail.is_empty() {
                reason.push('\n');
                reason.push_str(detail);
            }
            answer.verdict = Some(Verdict::Block(reason));
        }
        answer
    }
}

/// A run with its records, ready to be given a meaning.
pub(crate) struct Heard {
    pub(crate) event: Event,
    /// What matchers were compared with.
    pub(crate) subject: String,
    /// The command as configured.
    pub(crate) command: String,
    /// The file that it stands in, and its place among the handlers.
    pub(crate) place: (PathBuf, usize),
    pub(crate) answer: Answer,
    pub(crate) records: Vec<OwnRecord>,
}

pub(crate) type Mapped<D> = Result<Reply<D>, BoxError>;

impl Heard {
    /// The reply with what every event has in common. Whatever the hook did, it is an answer: a failing hook must not fail
    /// its seam, whose rule is stricter than the client's.
    pub(crate) fn reply<D>(self, decision: D, context: Vec<String>, halt: Option<Reason>) -> Mapped<D> {
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

    /// Why the turn ends with it, if it does.
    pub(crate) fn halt(&self) -> Option<Reason> {
        let stated = self.answer.halt.as_ref()?;
        Some(match stated {
            Some(reason) => reason.as_str().into(),
            None => format!("Stopped by a {} hook.", self.event.name()).into(),
        })
    }

    pub(crate) fn block(&self) -> Option<&str> {
        match &self.answer.verdict {
            Some(Verdict::Block(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Event and subject, as one name.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.event.name(), self.subject)
    }
}
