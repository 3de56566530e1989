//! What a hook said: exit code, stdout and stderr, read by the client's rules.
//!
//! - Output is UTF-8, bad bytes replaced; white space and a byte order mark around it do not count.
//! - A text from `{` to `}` must be JSON; any other text is plain, noise around an object included.
//! - JSON counts on every exit code. One value of a wrong type, `null` included, or another event's name voids all of it.
//! - Exit code 2 blocks, whatever JSON allows; the reason is the JSON's if it blocks too, else stderr.
//! - Any other failure decides nothing, unless the hook blocks on failure.

use super::{Fidelity, event::Event, said};
use crate::{json, records::Would};
use portcullis_process::{Ending, Finished, SpawnError};
use portcullis_runtime::Frozen;

/// What stands where a block gives no reason.
pub(crate) const NO_REASON: &str = "Blocked by hook";
/// What stands where the denial of a question gives no message.
const NO_MESSAGE: &str = "Permission denied by hook";
/// What stands where exit code 2 came without a text.
const NO_STDERR: &str = "No stderr output";

/// Why an answer may be half of one.
const HELD: &str = "a process it left behind held its output open";

/// What a hook's run comes to, before its event gives it a meaning.
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

/// Stdout, sorted.
enum Stdout {
    Plain(String),
    Json(Box<said::Said>),
    Broken(String),
}

impl Terms<'_> {
    pub(crate) fn read(&self, ran: &Result<Finished, SpawnError>) -> Answer {
        let finished = match ran {
            Err(error) => return self.failed("failed", error.to_string(), &error.to_string()),
            Ok(finished) => finished,
        };
        if finished.ending != Ending::Exited {
            return self.failed(
                "timed out",
                "it ran into its time limit; what it printed does not count".into(),
                "",
            );
        }
        let code = finished.status.shell_code();
        let stderr = finished.stderr.text();
        match (code, self.stdout(&finished.stdout.text(), finished.stdout.is_cut())) {
            (_, Stdout::Json(said)) if code != Some(2) || said.blocks(self.event) => {
                self.said(*said, finished.pipe_held)
            }
            (Some(2), stdout) => {
                let stderr = if stderr.trim().is_empty() { NO_STDERR } else { &stderr };
                // A question is answered by JSON alone: here the client goes on as if nothing had been said.
                let blocks = self.event != Event::PermissionRequest;
                let reason = || Verdict::Block(format!("[{}]: {stderr}", self.command));
                let mut answer =
                    Answer { spoken: "block", verdict: blocks.then(reason), ..Answer::default() };
                if let Stdout::Json(said) = stdout {
                    answer.halt = said.halt(self.event);
                    answer.message = said.message;
                }
                answer
            }
            (_, Stdout::Broken(why)) => {
                let detail = if stderr.trim().is_empty() { why.clone() } else { stderr.trim().to_owned() };
                self.failed("failed", why, &detail)
            }
            (Some(0), Stdout::Plain(text)) => {
                Answer { plain: Some(text).filter(|text| !text.is_empty()), ..Answer::default() }
            }
            (code, _) => {
                let code = code.map_or("an unknown status".into(), |code| format!("exit code {code}"));
                let line = stderr.trim().lines().next().unwrap_or_default();
                let why = if line.is_empty() { code } else { format!("{code}: {line}") };
                self.failed("failed", why, stderr.trim())
            }
        }
    }

    /// A text that stands for what a command prints before it ends well.
    pub(super) fn told(&self, text: &str, cut: bool) -> Answer {
        match self.stdout(text, cut) {
            Stdout::Json(said) => self.said(*said, false),
            Stdout::Broken(why) => self.failed("failed", why.clone(), &why),
            Stdout::Plain(text) => {
                Answer { plain: Some(text).filter(|text| !text.is_empty()), ..Answer::default() }
            }
        }
    }

    fn stdout(&self, text: &str, cut: bool) -> Stdout {
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
            Ok(node) => match said::Said::read(self.event, &node) {
                Ok(said) => Stdout::Json(Box::new(said)),
                Err(why) => Stdout::Broken(format!("its JSON output does not count: {why}")),
            },
        }
    }

    /// `held`: more may have been on its way.
    fn said(&self, said: said::Said, held: bool) -> Answer {
        let mut answer = Answer {
            spoken: said.spoken(),
            halt: said.halt(self.event),
            message: said.message.clone(),
            unused: said.unused.clone(),
            ..Answer::default()
        };
        if said.background {
            answer.unused.push("async");
            return answer;
        }
        if said.blocks(self.event) {
            let question = self.event == Event::PermissionRequest;
            let otherwise = if question { NO_MESSAGE } else { NO_REASON };
            let reason = said.block_reason().unwrap_or(otherwise);
            answer.verdict = Some(Verdict::Block(reason.into()));
        } else if self.event == Event::PreToolUse {
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
            match self.arguments(input) {
                Ok(arguments) => answer.rewrite = Some(arguments),
                // Running the call as it was could be just what the hook meant to prevent.
                Err(why) => {
                    answer.failure = Some(format!("its new arguments cannot be used: {why}"));
                    answer.verdict = Some(Verdict::Block(format!(
                        "[{}]: its new arguments cannot be used, so the call was not run: {why}",
                        self.command
                    )));
                }
            }
        }
        let grants = matches!(answer.verdict, Some(Verdict::Allow))
            || answer.rewrite.is_some()
            || answer.context.is_some();
        // More may have been on its way: an answer that could be half of one grants nothing.
        if held && self.event == Event::PermissionRequest && answer.verdict == Some(Verdict::Allow) {
            let failed = self.failed("failed", HELD.into(), HELD);
            return Answer { spoken: answer.spoken, halt: answer.halt, message: answer.message, ..failed };
        }
        if held && self.event == Event::PreToolUse && grants && !denied {
            let verdict = Verdict::Block(format!(
                "[{}]: a process it left behind still held its output open, so its answer may be incomplete and was not used",
                self.command
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

    fn arguments(&self, json: String) -> Result<Frozen, portcullis_runtime::Refused> {
        let frozen = Frozen::arguments(json)?;
        match self.fidelity {
            Fidelity::Strict => Ok(frozen),
            Fidelity::Exact => Frozen::arguments(frozen.javascript()),
        }
    }

    /// `what` and `detail` are for a reason, should it block; `why` is for the record.
    pub(super) fn failed(&self, what: &str, why: String, detail: &str) -> Answer {
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
