//! Reads one `portcullis.toml`. Every mistake is named with its line, and nothing in the file is passed over.

use super::{Entry, File, Said, Which};
use crate::{
    definition::LONGEST,
    dialect,
    event::{Named, distance, named, nearest},
    json::{Lines, line},
    options::{Fidelity, OnFailure},
    report::{self, Report, Severity},
};
use std::{io, ops::Range, path::PathBuf, time::Duration};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;
type Node<'t> = Spanned<DeValue<'t>>;

const TOP: [&str; 2] = ["hook", "hooks"];
const ALL: [&str; 6] = ["fidelity", "on_failure", "default_timeout", "max_timeout", "processes", "shadow"];
const SOME: [&str; 9] =
    ["dialect", "event", "matcher", "command", "handler", "fidelity", "on_failure", "timeout", "shadow"];

/// The file, unless there is none. One with mistakes counts as far as it is sound.
pub(super) fn file(path: PathBuf, of_project: bool, reports: &mut Vec<Report>) -> Option<File> {
    let bytes = match report::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let message = format!("this file cannot be read: {error}");
            reports.push(Report::new(Severity::Error, "overlay/unreadable", message).at(path, None));
            return None;
        }
    };
    parse(&bytes, File { path, of_project, ..File::default() }, reports)
}

/// What a file says, which is so far known by its place.
pub(super) fn parse(bytes: &[u8], mut file: File, reports: &mut Vec<Report>) -> Option<File> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = line(&String::from_utf8_lossy(&bytes[..error.valid_up_to()]), usize::MAX);
            reports.push(
                Report::new(
                    Severity::Error,
                    "overlay/not-toml",
                    "this file is not UTF-8, and nothing in it counts",
                )
                .at(&file.path, Some(line)),
            );
            return None;
        }
    };
    let mut reader = Reader { text, lines: Lines::of(text), found: Vec::new() };
    match DeTable::parse(text) {
        Ok(root) => reader.root(root.get_ref(), &mut file),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let message = format!("this file is not TOML, and nothing in it counts: {}", error.message());
            reader.say(
                at,
                "overlay/not-toml",
                message,
                "values look like `shadow = true` or `fidelity = \"exact\"`",
            );
        }
    }
    // The parser hands keys out by name; a person reads from the top.
    reader.found.sort_by_key(|(at, _)| *at);
    let Reader { lines, found, .. } = reader;
    reports.extend(found.into_iter().map(|(at, report)| report.at(&file.path, Some(lines.at(at)))));
    Some(file)
}

struct Reader<'t> {
    text: &'t str,
    lines: Lines,
    found: Vec<(usize, Report)>,
}

impl Reader<'_> {
    fn say(&mut self, at: usize, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let mut report = Report::new(Severity::Error, code, message);
        report.hint = Some(hint.into());
        self.found.push((at, report));
    }

    fn bad(&mut self, key: &Key<'_>, value: &Node<'_>, wanted: &str) {
        let message = format!("`{}` must be {wanted}, not {}", key.get_ref(), self.shown(value));
        self.say(value.span().start, "overlay/bad-value", message, "until then it is not set");
    }

    /// A short value as it is written, a long one by its kind.
    fn shown(&self, value: &Node<'_>) -> String {
        let Range { start, end } = value.span();
        match self.text.get(start..end) {
            Some(text) if text.len() <= 40 && !text.contains('\n') => format!("`{text}`"),
            _ => format!("a value of the type {}", value.get_ref().type_str()),
        }
    }

    fn unknown(&mut self, key: &Key<'_>, place: &str, known: &[&str]) {
        let name = &**key.get_ref();
        let near = known.iter().min_by_key(|one| distance(one, name)).filter(|one| distance(one, name) <= 3);
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        let message = format!("there is no key `{name}` {place}, so it sets nothing");
        self.say(key.span().start, "overlay/unknown-key", message, hint);
    }

    fn root(&mut self, root: &DeTable<'_>, file: &mut File) {
        for (key, value) in root {
            match (&**key.get_ref(), value.get_ref()) {
                ("hooks", DeValue::Table(all)) => self.all(all, file),
                ("hooks", _) => self.bad(key, value, "a table: write `[hooks]` on a line of its own"),
                ("hook", DeValue::Array(entries)) => {
                    for entry in entries {
                        match entry.get_ref() {
                            DeValue::Table(table) => self.entry(table, entry.span().start, file),
                            _ => self.bad(key, entry, "a table: write `[[hook]]` on a line of its own"),
                        }
                    }
                }
                ("hook", DeValue::Table(_)) => self.say(
                    key.span().start,
                    "overlay/bad-value",
                    "`hook` must be a list of tables",
                    "write `[[hook]]` with two brackets on each side",
                ),
                ("hook", _) => {
                    self.bad(key, value, "a list of tables: write `[[hook]]` on a line of its own")
                }
                _ => self.unknown(key, "in this file", &TOP),
            }
        }
    }

    fn all(&mut self, table: &DeTable<'_>, file: &mut File) {
        for (key, value) in table {
            match &**key.get_ref() {
                "default_timeout" => file.all.default_timeout = self.seconds(key, value),
                "max_timeout" => file.all.max_timeout = self.seconds(key, value),
                "processes" => file.processes = self.count(key, value),
                "timeout" => self.say(
                    key.span().start,
                    "overlay/unknown-key",
                    "there is no key `timeout` for all hooks, so it sets nothing",
                    "`default_timeout` is for hooks whose file sets none, `max_timeout` for all of them",
                ),
                _ if self.shared(key, value, &mut file.all) => {}
                _ => self.unknown(key, "under `[hooks]`", &ALL),
            }
        }
    }

    fn entry(&mut self, table: &DeTable<'_>, at: usize, file: &mut File) {
        let (mut which, mut said, before) = (Which::default(), Said::default(), self.found.len());
        for (key, value) in table {
            match &**key.get_ref() {
                "dialect" => which.dialect = self.word(key, value, &dialect::NAMES.map(|name| (name, name))),
                "event" => which.event = self.event(key, value),
                "matcher" => which.matcher = self.string(key, value),
                "command" => which.command = self.string(key, value),
                "handler" => which.handler = self.string(key, value),
                "timeout" => said.timeout = self.seconds(key, value),
                "processes" => self.say(
                    key.span().start,
                    "overlay/unknown-key",
                    "`processes` is for all hooks together, so it sets nothing here",
                    "write it under `[hooks]`",
                ),
                _ if self.shared(key, value, &mut said) => {}
                _ => self.unknown(key, "under `[[hook]]`", &SOME),
            }
        }
        if self.found.len() > before {
            // Which hooks were meant is not sure any more: rather none than others.
            return;
        }
        if which.is_empty() {
            return self.say(
                at,
                "overlay/fits-everything",
                "this `[[hook]]` does not say which hooks it is about, so it sets nothing",
                "give it an `event`, `matcher`, `command` or `handler`; what is for all hooks stands under `[hooks]`",
            );
        }
        if said == Said::default() {
            return self.say(
                at,
                "overlay/sets-nothing",
                "this `[[hook]]` sets nothing",
                "give it `fidelity`, `on_failure`, `timeout` or `shadow`",
            );
        }
        file.entries.push(Entry { line: self.lines.at(at), which, said });
    }

    /// What may stand in both places; says whether the key is such a one.
    fn shared(&mut self, key: &Key<'_>, value: &Node<'_>, said: &mut Said) -> bool {
        match &**key.get_ref() {
            "fidelity" => {
                let known = [("strict", Fidelity::Strict), ("exact", Fidelity::Exact)];
                said.fidelity = self.word(key, value, &known);
            }
            "on_failure" => {
                let known = [("proceed", OnFailure::Proceed), ("block", OnFailure::Block)];
                said.on_failure = self.word(key, value, &known);
            }
            "shadow" => match value.get_ref() {
                DeValue::Boolean(shadow) => said.shadow = Some(*shadow),
                _ => self.bad(key, value, "true or false"),
            },
            _ => return false,
        }
        true
    }

    fn word<T: Copy>(&mut self, key: &Key<'_>, value: &Node<'_>, known: &[(&str, T)]) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(text) => known.iter().find(|(word, _)| word == text),
            _ => None,
        };
        if found.is_none() {
            let words: Vec<String> = known.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.bad(key, value, &words.join(" or "));
        }
        found.map(|(_, what)| *what)
    }

    fn string(&mut self, key: &Key<'_>, value: &Node<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.bad(key, value, "a text in quotes");
                None
            }
        }
    }

    fn event(&mut self, key: &Key<'_>, value: &Node<'_>) -> Option<&'static str> {
        let name = self.string(key, value)?;
        // Which client a hook is for, nobody says here: an event of any will do.
        let all = dialect::ALL.map(|dialect| named(dialect, &name));
        let runs = all.into_iter().find(|named| matches!(named, Named::Runs(_)));
        match runs.or_else(|| all.into_iter().find(|named| *named != Named::Unknown)).unwrap_or(all[0]) {
            Named::Runs(event) => return Some(event.name()),
            Named::Silent { event, why } => {
                let message = format!("hooks on {event} do not run: {why}; so this `[[hook]]` sets nothing");
                self.say(value.span().start, "overlay/bad-value", message, "take it out");
            }
            Named::Unknown => {
                let near = dialect::ALL.iter().find_map(|dialect| nearest(*dialect, &name)).map_or_else(
                    || "events are written as in the settings file, such as PreToolUse".into(),
                    |near| format!("did you mean {near}?"),
                );
                let message = format!("there is no event `{name}`, so this `[[hook]]` sets nothing");
                self.say(value.span().start, "overlay/bad-value", message, near);
            }
        }
        None
    }

    fn seconds(&mut self, key: &Key<'_>, value: &Node<'_>) -> Option<Duration> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let limit = number.filter(|seconds| *seconds > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
        match limit.filter(|limit| !limit.is_zero() && *limit <= LONGEST) {
            Some(limit) => Some(limit),
            None => {
                let wanted = format!("a number of seconds above 0, and at most {}", LONGEST.as_secs());
                self.bad(key, value, &wanted);
                None
            }
        }
    }

    fn count(&mut self, key: &Key<'_>, value: &Node<'_>) -> Option<usize> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number.filter(|number| (1..=MOST).contains(number)) {
            Some(number) => Some(number),
            None => {
                self.bad(key, value, &format!("a whole number from 1 to {MOST}"));
                None
            }
        }
    }
}

/// More processes than this no machine holds.
const MOST: usize = 100_000;
