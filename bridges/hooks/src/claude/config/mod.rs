//! One hook file: which handlers it defines, and what is wrong with it.
//!
//! What the client would skip is skipped: a file that is no JSON; a file with one bad entry under PreToolUse or
//! PermissionRequest, as a whole; under any other event the bad group or handler alone (C-BRIDGE-5).

pub(super) mod environment;
mod handler;
pub(super) mod layers;
mod limits;
mod permissions;

use super::{
    Claude, SOURCES,
    matcher::{self, rule::Rule},
    payload::PERMISSION_PROMPT,
};
use crate::{
    definition::{Definition, LONGEST, Scope},
    event::{Event, Named, named, nearest},
    farewell::OTHER,
    json::{self, Entry, Lines, Node, Problem, Value},
    matcher::Matcher,
    notices::FAILURES,
    post::Bounds,
    report::{Report, Severity},
};
use portcullis_runtime::StartSource;
use std::{path::Path, sync::Arc};

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) definitions: Vec<Definition>,
    /// Variables for the hooks' environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) disable_all: Option<bool>,
    pub(crate) managed_only: bool,
    /// `permissions.deny` and `permissions.ask`, as far as they are understood.
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    /// What handlers of type `http` may do.
    pub(crate) bounds: Bounds,
}

/// Reads a settings file (`wrapped` or not makes no difference to a settings file; a plugin's must have the `hooks` key,
/// and there nothing else counts). Nothing of a file that is ignored as a whole.
pub(crate) fn read(path: &Path, bytes: &[u8], scope: Scope, reports: &mut Vec<Report>) -> Option<File> {
    let plugin = scope == Scope::Plugin;
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut reader = Reader { path, lines: Lines::of(text), reports, definitions: Vec::new() };
    let root = match json::parse(text) {
        Ok(root) => root,
        Err(fault) => {
            let hint = match fault.problem {
                Problem::Comment => "take the comment out",
                Problem::TrailingComma => "take the comma out",
                _ => "check the file with a JSON validator",
            };
            let message = format!("this file is not JSON and is ignored: {}", fault.problem);
            reader.say(Severity::Error, "hooks/not-json", fault.at, message, Some(hint));
            return None;
        }
    };
    let Some(entries) = root.entries() else {
        let message = format!("this file is ignored: it must hold an object, not {}", root.kind());
        let hint = "write {\"hooks\": { … }}";
        reader.say(Severity::Error, "hooks/not-an-object", root.at, message, Some(hint));
        return None;
    };
    let mut file = File::default();
    for entry in entries {
        if matches!(&*entry.key, "hooks" | "permissions") {
            reader.once(entry);
        }
        match &*entry.key {
            "hooks" => {
                if let Err(Rejected) = reader.events(&entry.value) {
                    return None;
                }
            }
            _ if plugin => {}
            "disableAllHooks" => file.disable_all = reader.switch(entry),
            "allowManagedHooksOnly" => {
                file.managed_only = reader.switch(entry) == Some(true);
                if file.managed_only && scope != Scope::Managed {
                    let message =
                        "`allowManagedHooksOnly` counts in the managed settings only, not in this file";
                    let hint = "to switch all hooks off here, set `disableAllHooks`";
                    reader.say(Severity::Warning, "hooks/not-here", entry.at, message, Some(hint));
                }
            }
            "env" => file.env = reader.env(&entry.value),
            "allowedHttpHookUrls" => file.bounds.urls = Some(reader.allowed(entry)),
            "httpHookAllowedEnvVars" => file.bounds.variables = Some(reader.allowed(entry)),
            "permissions" => {
                file.deny = reader.permissions(&entry.value, "deny");
                file.ask = reader.permissions(&entry.value, "ask");
                reader.other_permissions(&entry.value);
            }
            _ => {}
        }
    }
    if plugin && root.get("hooks").is_none() {
        let hint = "put the events into a \"hooks\" object";
        reader.say(
            Severity::Error,
            "hooks/no-hooks-key",
            root.at,
            "this plugin file has no `hooks` key, so none of it runs",
            Some(hint),
        );
    }
    file.definitions = reader.definitions;
    Some(file)
}

/// The whole file is out.
struct Rejected;

/// This entry is out; it was reported.
pub(super) struct Dropped;

pub(super) struct Reader<'r> {
    path: &'r Path,
    lines: Lines,
    reports: &'r mut Vec<Report>,
    definitions: Vec<Definition>,
}

impl Reader<'_> {
    /// A list of what is allowed. One that is none allows nothing.
    fn allowed(&mut self, entry: &Entry<'_>) -> Vec<String> {
        let items = entry.value.items();
        let texts = items.and_then(|items| items.iter().map(|item| item.str().map(Into::into)).collect());
        texts.unwrap_or_else(|| {
            let message = format!("`{}` must be a list of strings; it allows nothing", entry.key);
            let hint = "write [\"…\", \"…\"], or leave it out to allow all";
            self.say(Severity::Error, "hooks/bad-list", entry.at, message, Some(hint));
            Vec::new()
        })
    }

    pub(super) fn say(
        &mut self,
        severity: Severity,
        code: &'static str,
        at: usize,
        message: impl Into<String>,
        hint: Option<&str>,
    ) {
        let mut report = Report::new(severity, code, message).at(self.path, Some(self.lines.at(at)));
        report.hint = hint.map(Into::into);
        self.reports.push(report);
    }

    fn events(&mut self, hooks: &Node<'_>) -> Result<(), Rejected> {
        let Some(entries) = hooks.entries() else {
            let message =
                format!("this file is ignored: `hooks` must be an object of events, not {}", hooks.kind());
            let hint = "write {\"PreToolUse\": [ … ]}";
            self.say(Severity::Error, "hooks/bad-entry", hooks.at, message, Some(hint));
            return Err(Rejected);
        };
        for entry in entries {
            self.once(entry);
            // These two guard tool calls: a file that means to guard and is wrong about it counts as no file at all.
            let strict = matches!(&*entry.key, "PreToolUse" | "PermissionRequest");
            if self.event(entry).is_err() && strict {
                let message = format!(
                    "this file is ignored as a whole, because an entry under {} is malformed",
                    entry.key
                );
                self.say(
                    Severity::Error,
                    "hooks/file-rejected",
                    entry.at,
                    message,
                    Some("correct the entry; until then none of this file's hooks run"),
                );
                return Err(Rejected);
            }
        }
        Ok(())
    }

    /// One event's groups. An error says that something in it was malformed; what is sound is kept.
    fn event(&mut self, entry: &Entry<'_>) -> Result<(), Dropped> {
        let named = named(&Claude, &entry.key);
        if named == Named::Unknown {
            let hint = nearest(&Claude, &entry.key).map(|near| format!("did you mean {near}?"));
            let message = format!("there is no event `{}`; its hooks do not run", entry.key);
            self.say(Severity::Warning, "hooks/unknown-event", entry.at, message, hint.as_deref());
            return Ok(());
        }
        let Some(groups) = entry.value.items() else {
            let message =
                format!("{} must be a list of groups, not {}; it is ignored", entry.key, entry.value.kind());
            self.say(
                Severity::Error,
                "hooks/bad-entry",
                entry.value.at,
                message,
                Some("write [{\"matcher\": \"…\", \"hooks\": [ … ]}]"),
            );
            return Err(Dropped);
        };
        let mut sound = Ok(());
        let mut count = 0;
        for group in groups {
            match self.group(named, &entry.key, group) {
                Ok(handlers) => count += handlers,
                Err(Dropped) => sound = Err(Dropped),
            }
        }
        if let Named::Silent { event, why } = named
            && count > 0
        {
            let message = format!("{count} hook(s) on {event} do not run: {why}");
            self.say(Severity::Warning, "hooks/event-not-run", entry.at, message, None);
        }
        sound
    }

    fn group(&mut self, named: Named, event: &str, group: &Node<'_>) -> Result<usize, Dropped> {
        if group.entries().is_none() {
            let message =
                format!("a group under {event} must be an object, not {}; it is dropped", group.kind());
            let hint = "write {\"matcher\": \"…\", \"hooks\": [ … ]}";
            self.say(Severity::Error, "hooks/bad-entry", group.at, message, Some(hint));
            return Err(Dropped);
        }
        let matcher = match group.get("matcher") {
            None => None,
            Some(node) => match node.str() {
                Some(text) => Some((node.at, text)),
                None => {
                    let message = format!(
                        "`matcher` under {event} must be a string, not {}; the group is dropped",
                        node.kind()
                    );
                    self.say(
                        Severity::Error,
                        "hooks/bad-entry",
                        node.at,
                        message,
                        Some("leave it out to match everything"),
                    );
                    return Err(Dropped);
                }
            },
        };
        let Some(handlers) = group.get("hooks").and_then(Node::items) else {
            let hint = match group.get("command") {
                Some(_) => "put the handler into a \"hooks\" list inside its group",
                None => "give the group a \"hooks\" list",
            };
            let message = format!("a group under {event} has no `hooks` list; it is dropped");
            self.say(Severity::Error, "hooks/bad-entry", group.at, message, Some(hint));
            return Err(Dropped);
        };
        let compiled = Arc::new(match named {
            Named::Runs(event) if event.has_subject() => matcher::read(matcher.map(|(_, text)| text)),
            _ => Matcher::All,
        });
        if let (Matcher::Never(why), Some((at, text))) = (&*compiled, matcher) {
            let message =
                format!("the matcher `{text}` under {event} never matches, so its hooks never run: {why}");
            self.say(
                Severity::Warning,
                "hooks/bad-matcher",
                at,
                message,
                Some("names are separated by `|`; anything else is a regular expression"),
            );
        }
        let starts = StartSource::ALL.map(StartSource::name);
        if let (Named::Runs(Event::SessionStart), Some((at, text))) = (named, matcher)
            && !matches!(*compiled, Matcher::Never(_))
            && !starts.iter().any(|start| compiled.matches(start, &[]))
        {
            let message =
                format!("the matcher `{text}` under {event} matches no way in which a session starts here");
            let hint = format!("sessions start as {}", starts.join(", "));
            self.say(Severity::Warning, "hooks/no-such-start", at, message, Some(&hint));
        }
        let mut sound = Ok(handlers.len());
        let sources = SOURCES.map(|(_, source)| source);
        let told: &[&str] = match named {
            Named::Runs(Event::Notification) => &[PERMISSION_PROMPT],
            Named::Runs(Event::StopFailure) => &FAILURES,
            Named::Runs(Event::ConfigChange) => &sources,
            Named::Runs(Event::SessionEnd) => &[OTHER],
            _ => &[],
        };
        if let Some((at, text)) = matcher
            && !told.is_empty()
            && !matches!(*compiled, Matcher::Never(_))
            && !told.iter().any(|kind| compiled.matches(kind, &[]))
        {
            let message =
                format!("the matcher `{text}` under {event} matches nothing that it is told of here");
            let hint = format!("here that is {}", told.join(", "));
            self.say(Severity::Warning, "hooks/no-such-notice", at, message, Some(&hint));
        }
        for handler in handlers {
            match self.handler(event, handler) {
                Err(Dropped) => sound = Err(Dropped),
                Ok(None) => {}
                Ok(Some(mut found)) => {
                    if let Named::Runs(event) = named {
                        self.rule(event, handler, &mut found);
                        let limit = found.timeout.unwrap_or_else(|| limits::usual(&found.written, event));
                        self.definitions.push(Definition {
                            event,
                            line: self.lines.at(handler.at),
                            order: self.definitions.len(),
                            matcher_text: matcher.map(|(_, text)| text.into()),
                            matcher: if found.never {
                                Arc::new(Matcher::Never(String::new()))
                            } else {
                                compiled.clone()
                            },
                            written: found.written,
                            condition: found.rule.map(|rule| Arc::new(rule) as _),
                            condition_text: found.rule_text,
                            timeout: limit.min(LONGEST),
                            sets_timeout: found.timeout.is_some(),
                            blocks_on_failure: found.blocks_on_failure,
                            background: found.background,
                            rewakes: found.rewakes,
                            context_limit: None,
                        });
                    }
                }
            }
        }
        sound
    }

    /// Of equal keys the last one counts, which is hardly ever meant.
    fn once(&mut self, entry: &Entry<'_>) {
        let Some(earlier) = entry.earlier else { return };
        let line = self.lines.at(entry.at);
        let message =
            format!("`{}` is written again on line {line}, so what stands here does not count", entry.key);
        self.say(Severity::Warning, "hooks/repeated-key", earlier, message, Some("put both into one"));
    }

    fn switch(&mut self, entry: &Entry<'_>) -> Option<bool> {
        let value = entry.value.bool();
        if value.is_none() {
            let message =
                format!("`{}` must be true or false, not {}; it is ignored", entry.key, entry.value.kind());
            self.say(
                Severity::Warning,
                "hooks/bad-switch",
                entry.value.at,
                message,
                Some("write it without quotes"),
            );
        }
        value
    }

    /// What else stands under `permissions`. `allow` could only waive an ask of a default policy, and there is none here.
    fn other_permissions(&mut self, node: &Node<'_>) {
        let Some(entries) = node.entries() else {
            let message =
                format!("`permissions` must be an object, not {}; none of it is enforced", node.kind());
            return self.say(
                Severity::Error,
                "hooks/permissions",
                node.at,
                message,
                Some("write {\"deny\": [ … ]}"),
            );
        };
        for entry in entries.iter().filter(|entry| !matches!(&*entry.key, "deny" | "ask" | "allow")) {
            let message = format!("`permissions.{}` has no effect here", entry.key);
            self.say(
                Severity::Note,
                "hooks/permissions",
                entry.at,
                message,
                Some("`deny`, `ask` and `allow` count"),
            );
        }
        let allow = node.get("allow").and_then(Node::items).into_iter().flatten();
        for item in allow {
            let why = match item.str().map(Rule::parse) {
                Some(Ok(_)) => continue,
                Some(Err(why)) => why.to_string(),
                None => format!("it is {}, not a string", item.kind()),
            };
            let message = format!("a rule of `permissions.allow` is not understood: {why}");
            self.say(Severity::Note, "hooks/permissions", item.at, message, Some("it allows nothing"));
        }
    }

    fn env(&mut self, node: &Node<'_>) -> Vec<(String, String)> {
        let Some(entries) = node.entries() else {
            self.say(
                Severity::Warning,
                "hooks/bad-env",
                node.at,
                "`env` must be an object of strings; it is ignored",
                Some("write {\"NAME\": \"value\"}"),
            );
            return Vec::new();
        };
        let mut env = Vec::new();
        for entry in entries {
            let value = match &entry.value.value {
                Value::String(value) => Some(value.to_string()),
                Value::Number(literal) => Some((*literal).to_owned()),
                Value::Bool(value) => Some(value.to_string()),
                _ => None,
            };
            let value = value.filter(|value| !value.contains('\0'));
            match value.filter(|_| !entry.key.is_empty() && !entry.key.contains(['=', '\0'])) {
                Some(value) => env.push((entry.key.to_string(), value)),
                None => {
                    let message =
                        format!("the variable `{}` is ignored: no program can be given it", entry.key);
                    self.say(
                        Severity::Warning,
                        "hooks/bad-env",
                        entry.at,
                        message,
                        Some("the value must be a string"),
                    );
                }
            }
        }
        env
    }

    fn permissions(&mut self, node: &Node<'_>, list: &str) -> Vec<Rule> {
        let mut rules = Vec::new();
        let Some(found) = node.get(list) else { return rules };
        let Some(items) = found.items() else {
            let message = format!(
                "`permissions.{list}` must be a list of rules, not {}; it is not enforced",
                found.kind()
            );
            let hint = "write [\"Bash(rm:*)\", …]";
            self.say(Severity::Error, "hooks/permissions", found.at, message, Some(hint));
            return rules;
        };
        for item in items {
            let rule = item.str().ok_or_else(|| format!("it is {}, not a string", item.kind()));
            match rule.and_then(|text| Rule::parse(text).map_err(|why| why.to_string())) {
                Ok(rule) => rules.push(rule),
                Err(why) => {
                    let message = format!("a rule of `permissions.{list}` is not enforced: {why}");
                    self.say(
                        Severity::Error,
                        "hooks/permissions",
                        item.at,
                        message,
                        Some("register a guard with the runtime for what must never run"),
                    );
                }
            }
        }
        rules
    }
}
