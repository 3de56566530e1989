//! How things are put into words: handlers, arguments, times, numbers.

use crate::paint::clean;
use portcullis::{Frozen, HandlerId, OwnRecord, View};
use std::{collections::HashMap, ffi::OsStr, fmt::Display};

/// How much of a compact JSON text or of a command's name is worth reading on a line.
const READABLE: usize = 300;
const NAME: usize = 40;

/// Who is behind a handler: a hook by the command it runs, as far as the log has told, anyone else by owner and name.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<HandlerId, String>);

impl Names {
    /// Reads a `hook/invoked`; anything else tells nothing.
    pub(crate) fn learn(&mut self, own: &OwnRecord) {
        let root = own.data.root();
        let text = |key| root.get(key).and_then(View::as_str);
        if let ("hook/invoked", Some(owner), Some(handler), Some(command)) =
            (&*own.kind, text("dialect"), text("handler"), text("command"))
        {
            self.0.insert(HandlerId::new(&*owner, &*handler), short_command(&clean(&command)));
        }
    }

    pub(crate) fn who(&self, id: &HandlerId) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| clean(&id.to_string()))
    }
}

/// This command with these words after it, to be typed into a shell as it stands.
pub(crate) fn typed(words: &[&OsStr]) -> String {
    let program = std::env::args_os().next().unwrap_or_else(|| "portcullis".into());
    let all = [&*program].into_iter().chain(words.iter().copied());
    all.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = clean(&word.to_string_lossy());
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A command by the file it runs; by itself where that cannot be told.
fn short_command(command: &str) -> String {
    let command = command.lines().next().unwrap_or_default().trim();
    let unquoted: String = command.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    let path = unquoted.split_whitespace().find(|word| word.contains('/') && !word.starts_with("/bin/"));
    let name = path.and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty());
    let name = name.unwrap_or(command);
    if name.chars().count() <= NAME {
        name.to_owned()
    } else {
        name.chars().take(NAME - 1).chain(['…']).collect()
    }
}

/// What a call is given, as far as a person wants to read it on a timeline.
pub(crate) fn arguments(raw: &str) -> String {
    let Ok(sealed) = Frozen::parse(raw) else { return shorten(raw) };
    let root = sealed.root();
    let text = |key| root.get(key).and_then(View::as_str);
    if let Some(command) = text("command") {
        return command.into_owned();
    }
    match (text("file_path"), text("content")) {
        (Some(path), Some(content)) => {
            let lines = content.lines().count();
            format!("{path} ({})", names(lines, "line"))
        }
        (Some(path), None) => match (text("old_string"), text("new_string")) {
            (Some(old), Some(new)) => {
                format!("{path}: {} becomes {}", shorten(&format!("{old:?}")), shorten(&format!("{new:?}")))
            }
            _ => path.into_owned(),
        },
        _ => shorten(&sealed.compact()),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(READABLE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A time in milliseconds.
pub(crate) fn how_long(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// `1 step`, `2 steps`.
pub(crate) fn names<N: Display + PartialEq + From<u8>>(count: N, name: &str) -> String {
    let s = if count == N::from(1) { "" } else { "s" };
    format!("{count} {name}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_called_by_its_file() {
        assert_eq!(short_command("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh"), "guard.sh");
        assert_eq!(short_command("/bin/sh .claude/hooks/check.sh --fast"), "check.sh");
        assert_eq!(short_command("exit 2"), "exit 2");
        assert_eq!(short_command(&"x".repeat(50)).chars().count(), NAME);
    }

    #[test]
    fn arguments_show_what_a_person_looks_for() {
        assert_eq!(arguments(r#"{"command":"ls\n-l","timeout":5}"#), "ls\n-l");
        assert_eq!(arguments(r#"{"file_path":"a","content":"1\n2\n"}"#), "a (2 lines)");
        assert_eq!(arguments(r#"{"file_path":"a"}"#), "a");
        assert_eq!(
            arguments(r#"{"file_path":"a","old_string":"x","new_string":"y"}"#),
            r#"a: "x" becomes "y""#
        );
        assert_eq!(arguments(r#"{"b": 1}"#), r#"{"b":1}"#);
        assert_eq!(arguments("{no"), "{no");
    }

    #[test]
    fn a_hint_can_be_typed_as_it_stands() {
        assert_eq!(quoted(OsStr::new("examples/first-session")), "examples/first-session");
        assert_eq!(quoted(OsStr::new("it's mine")), r"'it'\''s mine'");
        assert_eq!(quoted(OsStr::new("")), "''");
    }

    #[test]
    fn times_and_numbers() {
        assert_eq!(
            (how_long(999), how_long(1250), how_long(61_000)),
            ("999 ms".into(), "1.2 s".into(), "1 min 1 s".into())
        );
        assert_eq!((names(1u64, "step"), names(0u64, "step")), ("1 step".into(), "0 steps".into()));
    }
}
