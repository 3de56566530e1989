//! One handler of a file, as the client would have it.

use super::tree::{Entry, Node, Value};
use crate::{event::Event, matcher::Matcher};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, sync::Arc};

/// The time limit of a handler that sets none, in seconds.
const TIMEOUT: u64 = 600;
/// The same where the client is about to leave, and the most that may be set there.
const BRIEF: (u64, u64) = (1, 3);
/// The limit of a handler's context that sets none, in tokens.
const CONTEXT: u64 = 2500;

/// The client's events, in the order in which it lists the hooks of a file, whatever the order there.
pub(crate) const ORDER: [Event; 12] = [
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::PostToolUse,
    Event::PreCompact,
    Event::PostCompact,
    Event::SessionStart,
    Event::SessionEnd,
    Event::UserPromptSubmit,
    Event::SubagentStart,
    Event::SubagentStop,
    Event::Stop,
    Event::Interrupt,
];

/// Whether hooks on it may add context.
pub(super) fn has_context(event: Event) -> bool {
    use Event::*;
    matches!(event, PreToolUse | PostToolUse | SessionStart | UserPromptSubmit | SubagentStart)
}

/// The time limit in seconds of a handler that sets this one, or none; and whether that is less than it sets.
pub(super) fn timeout(event: Event, stated: Option<u64>) -> (u64, bool) {
    let is_brief = matches!(event, Event::SessionEnd | Event::Interrupt);
    let (default, most) = if is_brief { BRIEF } else { (TIMEOUT, u64::MAX) };
    (stated.unwrap_or(default).clamp(1, most), stated.is_some_and(|stated| stated > most))
}

/// Its name in keys and hashes: `pre_tool_use`.
fn key(event: Event) -> String {
    let mut out = String::new();
    for letter in event.name().chars() {
        out.extend((letter.is_uppercase() && !out.is_empty()).then_some('_'));
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// A handler that the client would run if it is trusted.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    pub(crate) event: Event,
    /// Its group's place under the event, and its own there, from 0.
    pub(crate) place: (usize, usize),
    /// Where it stands in its file, from 1.
    pub(crate) line: usize,
    /// As written, where the event has something to match.
    pub(crate) matcher_text: Option<Arc<str>>,
    pub(crate) matcher: Arc<Matcher>,
    pub(crate) work: Work,
    /// Its time limit in seconds, and what its file says about that.
    pub(crate) timeout: u64,
    pub(crate) stated: Option<u64>,
    pub(crate) status: Option<String>,
}

/// What a handler does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    Command {
        /// A line for the shell, as written.
        command: String,
        /// Its file says `async`.
        background: bool,
        /// From how many tokens on its context goes into a file; 0 is never.
        limit: Option<u64>,
    },
    Tool {
        server: String,
        tool: String,
        /// A table.
        input: Node,
    },
}

impl Handler {
    /// Nobody waits for it. At the end of a session everybody does.
    pub(crate) fn is_in_background(&self) -> bool {
        matches!(self.work, Work::Command { background: true, .. }) && self.event != Event::SessionEnd
    }

    /// What a person reads of it: the command, or the tool as `server/tool`.
    pub(crate) fn line_of_work(&self) -> String {
        match &self.work {
            Work::Command { command, .. } => command.clone(),
            Work::Tool { server, tool, .. } => format!("{server}/{tool}"),
        }
    }

    /// All that it runs: of a tool, its input as well.
    pub(super) fn in_full(&self) -> String {
        let mut out = self.line_of_work();
        if let Work::Tool { input, .. } = &self.work
            && input.entries().is_some_and(|entries| !entries.is_empty())
        {
            out.push(' ');
            input.write(&mut out, false);
        }
        out
    }

    /// What is trusted when it is trusted: compact JSON with sorted keys, the same from either kind of file.
    pub(crate) fn identity(&self) -> String {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut fields = vec![("timeout", Value::Integer(self.timeout.into()))];
        fields.extend(self.status.as_deref().map(|status| ("statusMessage", text(status))));
        match &self.work {
            Work::Command { command, background, limit } => {
                fields.extend([
                    ("type", text("command")),
                    ("command", text(command)),
                    ("async", Value::Bool(*background)),
                ]);
                let limit = limit.filter(|limit| *limit != CONTEXT);
                fields.extend(limit.map(|limit| ("additionalContextLimit", Value::Integer(limit.into()))));
            }
            Work::Tool { server, tool, input } => fields.extend([
                ("type", text("mcp_tool")),
                ("server", text(server)),
                ("tool", text(tool)),
                ("input", input.value.clone()),
            ]),
        }
        let hooks = Value::List(vec![Node { at: 0, value: table(fields) }]);
        let mut group = vec![("event_name", text(&key(self.event))), ("hooks", hooks)];
        group.extend(self.matcher_text.as_deref().map(|matcher| ("matcher", text(matcher))));
        let mut out = String::new();
        Node { at: 0, value: table(group) }.write(&mut out, true);
        out
    }

    /// The client's hash of it.
    pub(crate) fn hash(&self) -> String {
        sha256(self.identity().as_bytes())
    }

    /// What the client calls it in a file of this name.
    pub(crate) fn key(&self, source: &str) -> String {
        let (group, place) = self.place;
        format!("{source}:{}:{group}:{place}", key(self.event))
    }
}

fn table(fields: Vec<(&str, Value)>) -> Value {
    let entry = |(key, value): (&str, Value)| Entry {
        key: key.to_owned(),
        at: 0,
        twice: false,
        value: Node { at: 0, value },
    };
    Value::Table(fields.into_iter().map(entry).collect())
}

/// The hash of a text, as the client writes it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    shown(Sha256::digest(bytes))
}

/// `sha256:` and the digest in hexadecimal.
pub(crate) fn shown(digest: impl AsRef<[u8]>) -> String {
    let mut out = String::from("sha256:");
    for byte in digest.as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
