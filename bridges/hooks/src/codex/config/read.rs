//! The events of one file: which handlers it defines, and what is wrong with it.
//!
//! A value of the wrong type, a key that stands twice or a kind of handler that the client does not know voids the file as a
//! whole; names that it does not know are passed over; a matcher that is no expression drops its group, a handler that
//! could do nothing drops alone (C-BRIDGE-5).

use super::{
    handler::{self, Handler, ORDER, Work},
    tree::{Entry, Node, Value},
};
use crate::{
    codex::{Codex, matcher::compile},
    dialect,
    event::{self, Event, Named, distance},
    json::Lines,
    report::{Report, Severity},
};
use std::{path::Path, sync::Arc};

const GROUP: [&str; 2] = ["matcher", "hooks"];
const COMMAND: [&str; 8] = [
    "type",
    "command",
    "timeout",
    "async",
    "statusMessage",
    "commandWindows",
    "command_windows",
    "additionalContextLimit",
];
const TOOL: [&str; 6] = ["type", "server", "tool", "input", "timeout", "statusMessage"];

/// None of the file's hooks count; it was reported.
#[derive(Debug)]
pub(super) struct Rejected;

/// A number that a file says, and where.
type Stated = Option<(usize, u64)>;

/// A group whose types are right.
struct Group<'n> {
    event: Event,
    place: usize,
    matcher: Option<(usize, &'n str)>,
    handlers: Vec<(usize, Written<'n>)>,
}

/// A handler whose types are right.
enum Written<'n> {
    Command {
        command: &'n str,
        timeout: Stated,
        background: Option<usize>,
        status: Option<&'n str>,
        limit: Stated,
    },
    Tool {
        server: &'n str,
        tool: &'n str,
        input: Node,
        timeout: Stated,
        status: Option<&'n str>,
    },
    /// `prompt` or `agent`.
    Asks(&'static str),
}

/// Reads one file.
pub(super) struct Reader<'r> {
    path: &'r Path,
    lines: Lines,
    /// What the file is, should it be rejected.
    what: &'static str,
    found: Vec<(usize, Report)>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(path: &'r Path, text: &'r str, what: &'static str) -> Reader<'r> {
        Reader { path, lines: Lines::of(text), what, found: Vec::new() }
    }

    /// What was found, from the top of the file on.
    pub(super) fn finish(mut self, reports: &mut Vec<Report>) {
        self.found.sort_by_key(|(at, _)| *at);
        reports.extend(self.found.into_iter().map(|(_, report)| report));
    }

    pub(super) fn say(
        &mut self,
        severity: Severity,
        code: &'static str,
        at: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let mut report = Report::new(severity, code, message).at(self.path, Some(self.lines.at(at)));
        report.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self.found.push((at, report));
    }

    /// The client takes none of the file; what else was found in it does not matter then.
    pub(super) fn reject(&mut self, at: usize, why: String, hint: impl Into<String>) -> Rejected {
        self.found.clear();
        let message = format!("{} ignored: {why}", self.what);
        self.say(Severity::Error, "hooks/file-rejected", at, message, hint);
        Rejected
    }

    /// The handlers of a table of events, in the client's order.
    pub(super) fn events(&mut self, hooks: &Node, beside: &[&str]) -> Result<Vec<Handler>, Rejected> {
        let Some(entries) = hooks.entries() else {
            let why = format!("`hooks` must be a table of events, not {}", hooks.kind());
            return Err(self.reject(hooks.at, why, "name an event in it, such as PreToolUse"));
        };
        let mut groups = Vec::new();
        for entry in entries.iter().filter(|entry| !beside.contains(&&*entry.key)) {
            match event::named(&Codex, &entry.key) {
                Named::Runs(event) => self.groups(event, entry, &mut groups)?,
                Named::Silent { event, why } => {
                    let message = format!("hooks on {event} do not run: {why}");
                    self.say(Severity::Warning, "hooks/event-not-run", entry.at, message, "");
                }
                Named::Unknown => self.unknown_event(entry),
            }
        }
        let place = |group: &Group<'_>| ORDER.iter().position(|event| *event == group.event);
        groups.sort_by_key(place);
        Ok(groups.into_iter().flat_map(|group| self.settle(group)).collect())
    }

    fn unknown_event(&mut self, entry: &Entry) {
        let name = &*entry.key;
        let hint = match event::nearest(&Codex, name) {
            Some(near) => format!("did you mean {near}?"),
            None if dialect::ALL.iter().any(|other| event::named(*other, name) != Named::Unknown) => {
                "another client has it, and Codex has none like it".into()
            }
            None => "the file's other hooks run".into(),
        };
        let message = format!("there is no event `{name}`; its hooks do not run");
        self.say(Severity::Warning, "hooks/unknown-event", entry.at, message, hint);
    }

    fn groups<'n>(
        &mut self,
        event: Event,
        entry: &'n Entry,
        groups: &mut Vec<Group<'n>>,
    ) -> Result<(), Rejected> {
        self.once(entry)?;
        let Some(items) = entry.value.items() else {
            let why = format!("{} must be a list of groups, not {}", event.name(), entry.value.kind());
            let hint = "write [{\"matcher\": \"…\", \"hooks\": [ … ]}], in TOML `[[hooks.EVENT]]`";
            return Err(self.reject(entry.value.at, why, hint));
        };
        for (place, item) in items.iter().enumerate() {
            let group = self.group(event, place, item)?;
            groups.push(group);
        }
        Ok(())
    }

    fn group<'n>(&mut self, event: Event, place: usize, node: &'n Node) -> Result<Group<'n>, Rejected> {
        let name = event.name();
        let Some(entries) = node.entries() else {
            let why = format!("a group under {name} must be a table of keys, not {}", node.kind());
            return Err(self.reject(node.at, why, "write {\"matcher\": \"…\", \"hooks\": [ … ]}"));
        };
        let matcher = self.field(entries, &["matcher"], "a string", Node::text)?;
        let mut handlers = Vec::new();
        if let Some(hooks) = self.entry(entries, &["hooks"])? {
            let Some(items) = hooks.value.items() else {
                let why =
                    format!("`hooks` of a group under {name} must be a list, not {}", hooks.value.kind());
                return Err(self.reject(
                    hooks.value.at,
                    why,
                    "write [{\"type\": \"command\", \"command\": \"…\"}]",
                ));
            };
            for item in items {
                handlers.push((item.at, self.handler(name, item)?));
            }
        }
        if handlers.is_empty() {
            let hint = match node.get("command") {
                Some(_) => "put the handler into a \"hooks\" list inside its group",
                None => "give it a \"hooks\" list",
            };
            let message = format!("a group under {name} has no handlers, so nothing of it runs");
            self.say(Severity::Warning, "hooks/empty-group", node.at, message, hint);
        } else {
            self.passed_over(entries, "a group", &GROUP);
        }
        Ok(Group { event, place, matcher, handlers })
    }

    fn handler<'n>(&mut self, event: &str, node: &'n Node) -> Result<Written<'n>, Rejected> {
        let Some(entries) = node.entries() else {
            let why = format!("a handler under {event} must be a table of keys, not {}", node.kind());
            return Err(self.reject(node.at, why, "write {\"type\": \"command\", \"command\": \"…\"}"));
        };
        let Some(kind) = self.entry(entries, &["type"])? else {
            let why = format!("a handler under {event} has no `type`");
            return Err(self.reject(node.at, why, "add \"type\": \"command\""));
        };
        match kind.value.text() {
            Some("command") => {
                let command = self.needed(node, entries, event, "command")?;
                let background = self.entry(entries, &["async"])?;
                let background = match background.map(|entry| (entry.value.at, entry.value.bool())) {
                    None | Some((_, Some(false))) => None,
                    Some((at, Some(true))) => Some(at),
                    Some((at, None)) => {
                        let why = "`async` must be true or false".into();
                        return Err(self.reject(at, why, "write it without quotes, or leave it out"));
                    }
                };
                self.field(entries, &["commandWindows", "command_windows"], "a string", Node::text)?;
                let whole = "a whole number of tokens, 0 or more";
                let written = Written::Command {
                    command,
                    timeout: self.seconds(entries)?,
                    background,
                    status: self
                        .field(entries, &["statusMessage"], "a string", Node::text)?
                        .map(|(_, text)| text),
                    limit: self.field(entries, &["additionalContextLimit"], whole, Node::unsigned)?,
                };
                self.passed_over(entries, "a handler of type `command`", &COMMAND);
                Ok(written)
            }
            Some("mcp_tool") => {
                let input = match self.entry(entries, &["input"])? {
                    None => Node { at: node.at, value: Value::Table(Vec::new()) },
                    Some(entry) if entry.value.entries().is_some() && entry.value.is_common() => {
                        entry.value.clone()
                    }
                    Some(entry) => {
                        let why =
                            "`input` must be a table of values that JSON and TOML have in common".into();
                        let hint = "null, dates and integers beyond 64 bits are not among them";
                        return Err(self.reject(entry.value.at, why, hint));
                    }
                };
                let written = Written::Tool {
                    server: self.needed(node, entries, event, "server")?,
                    tool: self.needed(node, entries, event, "tool")?,
                    input,
                    timeout: self.seconds(entries)?,
                    status: self
                        .field(entries, &["statusMessage"], "a string", Node::text)?
                        .map(|(_, text)| text),
                };
                self.passed_over(entries, "a handler of type `mcp_tool`", &TOOL);
                Ok(written)
            }
            Some("prompt") => Ok(Written::Asks("prompt")),
            Some("agent") => Ok(Written::Asks("agent")),
            Some(other) => {
                let why =
                    format!("a handler under {event} has the type `{other}`, which Codex does not know");
                Err(self.reject(kind.value.at, why, "known are command, mcp_tool, prompt and agent"))
            }
            None => {
                let why = format!("`type` must be a string, not {}", kind.value.kind());
                Err(self.reject(kind.value.at, why, "write \"command\""))
            }
        }
    }

    fn seconds(&mut self, entries: &[Entry]) -> Result<Stated, Rejected> {
        // What is hashed is an integer of TOML.
        let fits = |node: &Node| node.unsigned().filter(|seconds| i64::try_from(*seconds).is_ok());
        self.field(entries, &["timeout"], "a whole number of seconds, 0 or more", fits)
    }

    fn needed<'n>(
        &mut self,
        node: &Node,
        entries: &'n [Entry],
        event: &str,
        key: &'static str,
    ) -> Result<&'n str, Rejected> {
        let found = self.entry(entries, &[key])?;
        match found.map(|entry| (entry.value.text(), &entry.value)) {
            Some((Some(text), _)) => Ok(text),
            Some((None, value)) => {
                let why = format!("`{key}` must be a string, not {}", value.kind());
                Err(self.reject(value.at, why, "write it in quotes"))
            }
            None => {
                let why = format!("a handler under {event} has no `{key}`");
                Err(self.reject(node.at, why, format!("add \"{key}\": \"…\"")))
            }
        }
    }

    /// The value of a key that may be left out, or be null.
    fn field<'n, T>(
        &mut self,
        entries: &'n [Entry],
        names: &[&str],
        wanted: &str,
        read: impl Fn(&'n Node) -> Option<T>,
    ) -> Result<Option<(usize, T)>, Rejected> {
        let Some(entry) = self.entry(entries, names)?.filter(|entry| entry.value.value != Value::Null) else {
            return Ok(None);
        };
        match read(&entry.value) {
            Some(value) => Ok(Some((entry.value.at, value))),
            None => {
                let why = format!("`{}` must be {wanted}, not {}", entry.key, entry.value.kind());
                Err(self.reject(entry.value.at, why, "correct it, or leave it out"))
            }
        }
    }

    /// The entry that has one of these names. Two of them are one too many.
    fn entry<'n>(&mut self, entries: &'n [Entry], names: &[&str]) -> Result<Option<&'n Entry>, Rejected> {
        let mut found = entries.iter().filter(|entry| names.contains(&&*entry.key));
        let first = found.next();
        if let Some(second) = found.next() {
            let why = format!("`{}` is said twice, in two spellings", names[0]);
            return Err(self.reject(second.at, why, format!("keep `{}`", names[0])));
        }
        first.map(|entry| self.once(entry).map(|()| entry)).transpose()
    }

    fn once(&mut self, entry: &Entry) -> Result<(), Rejected> {
        if entry.twice {
            let why = format!("the key `{}` stands there twice", entry.key);
            return Err(self.reject(entry.at, why, "keep one of them"));
        }
        Ok(())
    }

    /// Names the keys that change nothing.
    fn passed_over(&mut self, entries: &[Entry], of: &str, known: &[&'static str]) {
        for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
            let hint = near(&entry.key, known).map_or_else(
                || format!("Codex knows {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            let message =
                format!("the key `{}` of {of} means nothing to Codex and changes nothing", entry.key);
            self.say(Severity::Warning, "hooks/unknown-key", entry.at, message, hint);
        }
    }

    /// What the client makes of a group.
    fn settle(&mut self, group: Group<'_>) -> Vec<Handler> {
        let Group { event, place, matcher, handlers } = group;
        let matcher = matcher.filter(|_| event.has_subject());
        let compiled = match compile(matcher.map(|(_, text)| text)) {
            Ok(compiled) => Arc::new(compiled),
            Err(why) => {
                let (at, text) = matcher.unwrap_or_default();
                let message = format!(
                    "the matcher `{text}` under {} is invalid, so its hooks never run: {why}",
                    event.name()
                );
                let hint = "names are separated by `|`; anything else is a regular expression";
                self.say(Severity::Warning, "hooks/bad-matcher", at, message, hint);
                return Vec::new();
            }
        };
        let text: Option<Arc<str>> = matcher.map(|(_, text)| text.into());
        let mut sound = Vec::new();
        for (number, (at, written)) in handlers.into_iter().enumerate() {
            let Some((work, stated, status)) = self.work(event, at, written) else { continue };
            let (timeout, less) = handler::timeout(event, stated.map(|(_, seconds)| seconds));
            if let (true, Some((at, _))) = (less, stated) {
                let message = format!(
                    "the timeout of this {} hook counts as {timeout} s, the most there is",
                    event.name()
                );
                self.say(Severity::Warning, "hooks/clamped", at, message, format!("write {timeout} or less"));
            }
            sound.push(Handler {
                event,
                place: (place, number),
                line: self.lines.at(at),
                matcher_text: text.clone(),
                matcher: compiled.clone(),
                work,
                timeout,
                stated: stated.map(|(_, seconds)| seconds),
                status: status.map(str::to_owned),
            });
        }
        sound
    }

    /// What a handler does, unless that is nothing.
    fn work<'n>(
        &mut self,
        event: Event,
        at: usize,
        written: Written<'n>,
    ) -> Option<(Work, Stated, Option<&'n str>)> {
        let name = event.name();
        match written {
            Written::Asks(kind) => {
                let message =
                    format!("this {name} hook does not run: Codex has no handlers of type `{kind}` yet");
                self.say(Severity::Warning, "hooks/not-supported", at, message, "use one of type `command`");
                None
            }
            Written::Command { command, .. } if command.trim().is_empty() => {
                let message = format!("this {name} hook does not run: its command is empty");
                self.say(Severity::Warning, "hooks/no-command", at, message, "say what to run");
                None
            }
            Written::Command { command, timeout, background, status, limit } => {
                if let Some(at) = background.filter(|_| event == Event::SessionEnd) {
                    let message = "this SessionEnd hook is waited for, although it says `async`";
                    self.say(Severity::Warning, "hooks/waited-for", at, message, "leave `async` out");
                }
                if let Some((at, _)) = limit.filter(|_| !handler::has_context(event)) {
                    let message =
                        format!("`additionalContextLimit` changes nothing: {name} hooks add no context");
                    self.say(Severity::Warning, "hooks/no-context", at, message, "leave it out");
                }
                let limit = limit.filter(|_| handler::has_context(event)).map(|(_, tokens)| tokens);
                let work =
                    Work::Command { command: command.to_owned(), background: background.is_some(), limit };
                Some((work, timeout, status))
            }
            Written::Tool { .. } if event == Event::SessionEnd => {
                let message =
                    "this SessionEnd hook does not run: at the end of a session Codex calls no MCP tools";
                self.say(Severity::Warning, "hooks/not-supported", at, message, "use one of type `command`");
                None
            }
            Written::Tool { server, tool, .. } if server.trim().is_empty() || tool.trim().is_empty() => {
                let message = format!("this {name} hook does not run: it names no server or no tool");
                self.say(Severity::Warning, "hooks/no-command", at, message, "give both");
                None
            }
            Written::Tool { server, tool, input, timeout, status } => {
                let work = Work::Tool { server: server.to_owned(), tool: tool.to_owned(), input };
                Some((work, timeout, status))
            }
        }
    }
}

/// The known key that a misspelt one is closest to, if any is close.
fn near(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let distance = |one: &str| distance(&one.to_lowercase(), &key.to_lowercase());
    known
        .iter()
        .map(|one| (distance(one), *one))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, one)| one)
}
