//! What a hook said: exit code, stdout and stderr, read by the client's rules.
//!
//! - Output is UTF-8, bad bytes replaced; white space around it does not count, a byte order mark does.
//! - An object must fit its event in every field; any other text that begins with `{` or `[` voids the answer, too. The rest is
//!   plain: context for three events, a failure for three, nothing for the others.
//! - JSON counts with exit code 0 alone. Exit code 2 blocks with what stands on stderr, where the event can be blocked so.
//! - All else is a failure: it decides nothing, unless the hook blocks on failure.
//!
//! [`Fidelity::Strict`] takes the hook's word where the client loses it: a deny or block without a reason, exit code 2 without
//! a text, `permissionDecision: ask`.

mod oversize;
mod said;

pub(super) use oversize::{bound, folder};

use crate::{
    answer::{Answer, Terms, Verdict},
    event::Event,
    json::{self, Node},
    options::Fidelity,
};
use portcullis_process::{Captured, Ending, Finished, SpawnError, Status};
use portcullis_runtime::{Continue, Frozen};
use said::Said;

/// What stands where a block gives no reason.
const NO_REASON: &str = "Blocked by hook";
/// What the model reads where a denied question has no message.
const NO_MESSAGE: &str = "PermissionRequest hook denied approval";
/// What stands in the place of a result, where a hook stops and does not say why.
const STOPPED: &str = "PostToolUse hook stopped execution";

/// Reads what a process came to.
pub(super) fn read(terms: &Terms<'_>, ran: &Result<Finished, SpawnError>) -> Answer {
    let finished = match ran {
        Err(error) => return terms.failed("failed", error.to_string(), &error.to_string()),
        Ok(finished) => finished,
    };
    // It is complete when everyone who had its output has closed it (C-BRIDGE-7).
    if finished.ending != Ending::Exited || finished.pipe_held {
        let why = "it ran into its time limit; what it printed does not count";
        return terms.failed("timed out", why.into(), "");
    }
    ended(terms, finished.status, &finished.stdout, &finished.stderr)
}

fn ended(terms: &Terms<'_>, status: Status, stdout: &Captured, stderr: &Captured) -> Answer {
    let stderr = stderr.text();
    let stderr = stderr.trim();
    let what = match status {
        Status::Code(0) => return told(terms, &stdout.text(), stdout.is_cut()),
        Status::Code(2) if exit_blocks(terms.event) => {
            let reason = match stderr {
                "" if terms.fidelity == Fidelity::Strict => otherwise(terms.event),
                "" => {
                    let why = "exit code 2 without a reason on stderr";
                    return terms.failed("failed", why.into(), why);
                }
                stated => stated,
            };
            let verdict = Some(Verdict::Block(reason.into()));
            return Answer { spoken: "block", verdict, ..Answer::default() };
        }
        Status::Code(code) => format!("exit code {code}"),
        Status::Signal(signal) => format!("signal {signal} ended it"),
        Status::Unknown => "an unknown status".into(),
    };
    let line = stderr.lines().next().unwrap_or_default();
    let why = if line.is_empty() { what } else { format!("{what}: {line}") };
    terms.failed("failed", why, stderr)
}

/// Reads a text that stands for what a command prints before it ends well; `cut`: its end is missing.
pub(super) fn told(terms: &Terms<'_>, text: &str, cut: bool) -> Answer {
    let text = text.trim();
    if text.is_empty() || terms.event == Event::SessionEnd {
        return Answer::default();
    }
    let broken = |why: String| terms.failed("failed", why.clone(), &why);
    if text.starts_with(['{', '[']) {
        if cut {
            return broken("it said more than is kept".into());
        }
        let node = match json::parse(text) {
            Ok(node) => node,
            Err(fault) => {
                return broken(format!("what it printed looks like JSON and is not: {}", fault.problem));
            }
        };
        return match Said::read(terms.event, text, &node) {
            Ok(said) => Reading { terms, said }.answer(),
            Err(why) => broken(format!("its JSON output does not count: {why}")),
        };
    }
    match terms.event {
        Event::SessionStart | Event::SubagentStart | Event::UserPromptSubmit => {
            Answer { context: Some(text.into()), ..Answer::default() }
        }
        Event::Stop | Event::SubagentStop | Event::Interrupt => broken(format!(
            "what it printed is no JSON object, and {} takes nothing else",
            terms.event.name()
        )),
        _ => Answer::default(),
    }
}

/// Whether exit code 2 is more than a failure.
fn exit_blocks(event: Event) -> bool {
    matches!(
        event,
        Event::PreToolUse
            | Event::PermissionRequest
            | Event::PostToolUse
            | Event::UserPromptSubmit
            | Event::Stop
            | Event::SubagentStop
    )
}

/// What a block says that does not say why.
fn otherwise(event: Event) -> &'static str {
    match event {
        Event::Stop | Event::SubagentStop => Continue::GENERIC,
        Event::PermissionRequest => NO_MESSAGE,
        _ => NO_REASON,
    }
}

/// An object that fits its event, about to be given a meaning.
struct Reading<'r, 'n, 't> {
    terms: &'r Terms<'r>,
    said: Said<'n, 't>,
}

impl<'n> Reading<'_, 'n, '_> {
    fn answer(&self) -> Answer {
        let message = self.said.text("systemMessage").map(str::to_owned);
        let mut answer = Answer { message, ..Answer::default() };
        let read = match self.terms.event {
            Event::PreToolUse => self.pre_tool_use(&mut answer),
            Event::PermissionRequest => self.permission_request(&mut answer),
            Event::PostToolUse => self.post_tool_use(&mut answer),
            _ => self.turn(&mut answer),
        };
        if let Err(why) = read {
            let (spoken, message) = (answer.spoken, answer.message);
            return Answer { spoken, message, ..self.terms.failed("failed", why.clone(), &why) };
        }
        let specific = self.said.object("hookSpecificOutput");
        answer.context = specific.text("additionalContext").map(str::to_owned);
        answer
    }

    fn stops(&self) -> bool {
        self.said.flag("continue") == Some(false)
    }

    /// What the events of a call do not take, though it stands in their schema. Each voids the answer.
    fn nothing_of(&self, keys: &[&str]) -> Result<(), String> {
        for key in keys {
            let (found, value) = match *key {
                "continue" => (self.stops(), ": false"),
                "suppressOutput" => (self.said.flag(key) == Some(true), ": true"),
                _ => (self.said.any(key).is_some(), ""),
            };
            if found {
                return Err(void(&format!("{key}{value}"), self.terms.event));
            }
        }
        Ok(())
    }

    /// A block's reason. `what` it says, and `key`, where the reason should stand.
    fn reason(&self, stated: Option<&'n str>, what: &str, key: &str) -> Result<&'n str, String> {
        match stated.filter(|reason| !reason.trim().is_empty()) {
            Some(reason) => Ok(reason),
            None if self.terms.fidelity == Fidelity::Strict => Ok(otherwise(self.terms.event)),
            None => Err(format!("`{what}` does not count without `{key}`")),
        }
    }

    fn blocked(&self, stated: Option<&'n str>, what: &str, key: &str) -> Result<Verdict, String> {
        self.reason(stated, what, key).map(|reason| Verdict::Block(reason.trim().into()))
    }

    /// The new form, if any of it is there, else the old one.
    fn pre_tool_use(&self, answer: &mut Answer) -> Result<(), String> {
        let new = self.said.object("hookSpecificOutput");
        let (decision, reason) = (new.text("permissionDecision"), new.text("permissionDecisionReason"));
        let input = new.any("updatedInput");
        let is_new = decision.is_some() || reason.is_some() || input.is_some();
        answer.spoken = match (decision, self.said.text("decision").filter(|_| !is_new)) {
            (Some("allow"), _) => "allow",
            (Some("deny"), _) => "deny",
            (Some(_), _) => "ask",
            (None, Some("block")) => "block",
            (None, Some(_)) => "approve",
            (None, None) if self.stops() => "stop",
            (None, None) => "",
        };
        self.nothing_of(&["continue", "stopReason", "suppressOutput"])?;
        if !is_new {
            let reason = self.said.text("reason");
            answer.verdict = match (answer.spoken, reason) {
                ("block", _) => Some(self.blocked(reason, "decision: block", "reason")?),
                ("approve", _) => return Err(void("decision: approve", self.terms.event)),
                (_, Some(_)) => return Err("`reason` does not count without `decision`".into()),
                (_, None) => None,
            };
            return Ok(());
        }
        match (decision, input) {
            (Some("ask"), _) if self.terms.fidelity == Fidelity::Strict => {
                let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
                answer.verdict = Some(Verdict::Ask(reason.map(str::to_owned)));
                answer.unused.extend(input.map(|_| "updatedInput"));
            }
            // It changes what runs, and allows nothing: whoever is to be asked is asked about the new arguments.
            (Some("allow"), Some(input)) => self.rewrite(input, answer),
            (Some("allow"), None) => {
                return Err(
                    "`permissionDecision: allow` counts beside `updatedInput` alone; it allows nothing"
                        .into(),
                );
            }
            (_, Some(_)) => {
                return Err("`updatedInput` does not count without `permissionDecision: allow`".into());
            }
            (Some("deny"), None) => {
                let verdict = self.blocked(reason, "permissionDecision: deny", "permissionDecisionReason")?;
                answer.verdict = Some(verdict);
            }
            (Some(_), None) => return Err(void("permissionDecision: ask", self.terms.event)),
            (None, None) => {
                return Err("`permissionDecisionReason` does not count without `permissionDecision`".into());
            }
        }
        Ok(())
    }

    fn rewrite(&self, input: &Node<'_>, answer: &mut Answer) {
        let mut text = String::new();
        input.write(&mut text);
        match Frozen::parse(text) {
            Ok(input) => answer.rewrite = Some(input),
            // Running the call as it was could be just what the hook meant to prevent.
            Err(why) => {
                answer.failure = Some(format!("its new arguments cannot be used: {why}"));
                answer.verdict = Some(Verdict::Block(format!(
                    "[{}]: its new arguments cannot be used, so the call was not run: {why}",
                    self.terms.command
                )));
            }
        }
    }

    fn permission_request(&self, answer: &mut Answer) -> Result<(), String> {
        let decision = self.said.object("hookSpecificOutput").object("decision");
        let behavior = decision.text("behavior");
        answer.spoken = match behavior {
            Some("allow") => "allow",
            Some(_) => "deny",
            None if self.stops() => "stop",
            None => "",
        };
        self.nothing_of(&["continue", "stopReason", "suppressOutput"])?;
        for key in ["updatedInput", "updatedPermissions"] {
            if decision.any(key).is_some() {
                return Err(void(key, self.terms.event));
            }
        }
        if decision.flag("interrupt") == Some(true) {
            return Err(void("interrupt: true", self.terms.event));
        }
        answer.verdict = behavior.map(|behavior| match behavior {
            "allow" => Verdict::Allow,
            _ => {
                let message = decision.text("message").map(str::trim).filter(|message| !message.is_empty());
                Verdict::Block(message.unwrap_or(NO_MESSAGE).into())
            }
        });
        Ok(())
    }

    /// A text in the place of the result is all that comes of it: the turn goes on, `continue: false` or not.
    fn post_tool_use(&self, answer: &mut Answer) -> Result<(), String> {
        let (decision, reason) = (self.said.text("decision"), self.said.text("reason"));
        answer.spoken = if self.stops() { "stop" } else { decision.map_or("", |_| "block") };
        self.nothing_of(&["suppressOutput"])?;
        if self.said.object("hookSpecificOutput").any("updatedMCPToolOutput").is_some() {
            return Err(void("updatedMCPToolOutput", self.terms.event));
        }
        let feedback = if self.stops() {
            let mut stated = [reason.map(str::trim), self.said.text("stopReason")].into_iter().flatten();
            stated.find(|text| !text.trim().is_empty()).unwrap_or(STOPPED)
        } else if decision.is_some() {
            self.reason(reason, "decision: block", "reason")?
        } else if reason.is_some() {
            return Err("`reason` does not count without `decision`".into());
        } else {
            return Ok(());
        };
        answer.verdict = Some(Verdict::Block(feedback.into()));
        Ok(())
    }

    /// Events around a turn: to stop beats to block.
    fn turn(&self, answer: &mut Answer) -> Result<(), String> {
        if self.stops() {
            answer.spoken = "stop";
            if self.terms.event == Event::SubagentStart {
                answer.unused.push("continue");
                return Ok(());
            }
            let reason = self.said.text("stopReason").filter(|reason| !reason.trim().is_empty());
            answer.halt = Some(reason.map(str::to_owned));
        } else if self.said.text("decision").is_some() {
            answer.spoken = "block";
            answer.verdict = Some(self.blocked(self.said.text("reason"), "decision: block", "reason")?);
        }
        Ok(())
    }
}

fn void(what: &str, event: Event) -> String {
    format!("`{what}` does not count on {}, nor does what stands beside it", event.name())
}

#[cfg(test)]
mod tests;
