//! What a hook starts: whether that is there, can be started, and is written so that a shell finds it.

use super::{Hook, Say, Severity};
use crate::{
    dialect::{Places, fill},
    written::Written,
};
use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Programs that take a script, with the options after which one still follows. After any other option nobody can say.
const INTERPRETERS: [(&str, &[&str]); 11] = [
    ("sh", SHELL),
    ("bash", SHELL),
    ("dash", SHELL),
    ("zsh", SHELL),
    ("python", PYTHON),
    ("python3", PYTHON),
    ("node", &[]),
    ("bun", &[]),
    ("ruby", &["-w"]),
    ("perl", &["-w", "-T"]),
    ("php", &[]),
];
const SHELL: &[&str] = &["-e", "-u", "-x", "-eu", "-ex", "-ux", "-eux"];
const PYTHON: &[&str] = &["-u", "-B", "-E", "-I", "-s", "-S", "-O", "-v"];

/// Words that a shell itself understands.
const BUILT_IN: [&str; 36] = [
    ".", ":", "[", "alias", "case", "cd", "command", "echo", "eval", "exec", "exit", "export", "false",
    "for", "if", "kill", "local", "printf", "pwd", "read", "return", "set", "shift", "source", "test",
    "time", "trap", "true", "type", "ulimit", "umask", "unset", "until", "wait", "while", "{",
];

/// A word of a command line: its text with variables as they stand, and whether a variable in it stands outside of quotes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    bare_variable: bool,
}

pub(super) fn check(hook: &Hook, say: &mut Say<'_>) {
    let Written::Command { command, args } = &hook.definition.written else { return };
    let in_shell = args.is_none();
    let words = match args {
        Some(args) => {
            let word = |text: &str| Word { text: text.into(), bare_variable: false };
            std::iter::once(command).chain(args).map(|text| word(text)).collect()
        }
        None => words(command),
    };
    let torn = unquoted_variable(hook, &words, say);
    // `NAME=value program` starts the program.
    let assigned = |word: &&Word| in_shell && word.text.split_once('=').is_some_and(|(n, _)| is_name(n));
    let rest: Vec<&Word> = words.iter().skip_while(assigned).collect();
    let [program, arguments @ ..] = &rest[..] else { return };
    if torn || (in_shell && BUILT_IN.contains(&&*program.text)) {
        return;
    }
    let event = hook.definition.event.name();
    let unquoted = |words: &[&Word]| if in_shell { torn_path(hook, words) } else { None };
    match resolved(hook, &program.text) {
        None => return,
        Some(path) if path.contains('/') => {
            let file = absolute(hook, &path);
            match fs::metadata(&file) {
                Err(_) if let Some(whole) = unquoted(&rest) => return say_unquoted(event, &whole, say),
                Err(error) => {
                    let message =
                        format!("a hook on {event} starts {}, which cannot be used: {error}", file.display());
                    return say(Severity::Error, "hooks/missing-script", message, &from(hook));
                }
                Ok(meta) if !meta.is_file() => {
                    let message = format!("a hook on {event} starts {}, which is no file", file.display());
                    return say(Severity::Error, "hooks/missing-script", message, &from(hook));
                }
                Ok(meta) if meta.permissions().mode() & 0o111 == 0 => {
                    let message =
                        format!("a hook on {event} starts {}, which is not executable", file.display());
                    return say(
                        Severity::Error,
                        "hooks/not-executable",
                        message,
                        "chmod +x it, or start it by its interpreter",
                    );
                }
                Ok(_) => {
                    if let Some((why, hint)) = first_line(&file) {
                        let message = format!("a hook on {event} starts {}, {why}", file.display());
                        return say(Severity::Error, "hooks/bad-first-line", message, &hint);
                    }
                }
            }
        }
        Some(name) if !on_path(&name) => {
            let message = format!("a hook on {event} starts `{name}`, which is not on PATH");
            let hint = match absolute(hook, &name).is_file() {
                true => format!("write ./{name} for the file in the project"),
                false => "install it, or write the path of the program".into(),
            };
            return say(Severity::Error, "hooks/missing-program", message, &hint);
        }
        Some(_) => {}
    }
    let base = program.text.rsplit('/').next().unwrap_or_default();
    let Some((_, options)) = INTERPRETERS.iter().find(|(name, _)| *name == base) else { return };
    let mut arguments = arguments;
    while let [option, rest @ ..] = arguments
        && options.contains(&&*option.text)
    {
        arguments = rest;
    }
    let Some(script) = arguments.first().filter(|word| !word.text.starts_with('-')) else { return };
    if let Some(path) = resolved(hook, &script.text) {
        let file = absolute(hook, &path);
        if file.exists() {
            return;
        }
        if let Some(whole) = unquoted(arguments) {
            return say_unquoted(event, &whole, say);
        }
        // Some interpreters end with code 2 then, which blocks.
        let message = format!("a hook on {event} has {base} run {}, which does not exist", file.display());
        say(Severity::Error, "hooks/missing-script", message, &from(hook));
    }
}

/// Where relative paths lead.
fn from(hook: &Hook) -> String {
    let instead = match places(hook).first() {
        Some((name, Some(_))) => format!("write \"${name}\"/… for the project's own files"),
        _ => "write an absolute path".into(),
    };
    format!("relative paths count from where the session works; {instead}")
}

fn places(hook: &Hook) -> Places<'_> {
    hook.house.dialect.places(&hook.house.project, hook.origin.plugin.as_ref())
}

/// Names a folder's variable that stands outside of quotes; says whether its value really is torn apart.
fn unquoted_variable(hook: &Hook, words: &[Word], say: &mut Say<'_>) -> bool {
    let event = hook.definition.event.name();
    let places = places(hook);
    let names = || places.iter().map(|(name, _)| *name);
    let bare = words.iter().filter(|word| word.bare_variable);
    let Some(name) = bare.filter_map(|word| names().find(|name| word.text.contains(name))).next() else {
        return false;
    };
    let variable = format!("${{{name}}}");
    let place = fill(&variable, &places);
    let torn = place != variable && place.contains([' ', '\t', '*', '?', '[']);
    let (severity, message) = match torn {
        true => (
            Severity::Error,
            format!(
                "a hook on {event} uses ${name} without quotes, and its value has a space or a wildcard: it is torn apart"
            ),
        ),
        false => (
            Severity::Warning,
            format!(
                "a hook on {event} uses ${name} without quotes: it breaks in a folder whose name has a space"
            ),
        ),
    };
    say(severity, "hooks/unquoted", message, &format!("write \"${name}\"/…"));
    torn
}

/// A file that the first words name only together: its path has spaces and no quotes.
fn torn_path(hook: &Hook, words: &[&Word]) -> Option<String> {
    (2..=words.len().min(8)).find_map(|count| {
        let texts: Vec<&str> = words[..count].iter().map(|word| &*word.text).collect();
        let whole = resolved(hook, &texts.join(" "))?;
        absolute(hook, &whole).is_file().then_some(whole)
    })
}

fn say_unquoted(event: &str, whole: &str, say: &mut Say<'_>) {
    let message =
        format!("a hook on {event} names {whole} without quotes: the shell tears it apart at the spaces");
    say(Severity::Error, "hooks/unquoted", message, &format!("write \"{whole}\""));
}

/// Why a script cannot be started for what its first line says, and what to do.
fn first_line(file: &Path) -> Option<(String, String)> {
    let mut head = Vec::new();
    fs::File::open(file).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    if line.ends_with('\r') {
        let why = "whose first line ends in a carriage return: the system looks for a program of that name";
        return Some((why.into(), "save it with Unix line ends".into()));
    }
    let mut words = line.split_ascii_whitespace();
    let program = words.next()?;
    if !Path::new(program).is_file() {
        return Some((
            format!("whose first line asks for {program}, which is not there"),
            "install it, or correct that line".into(),
        ));
    }
    let name = words
        .next()
        .filter(|word| program.ends_with("/env") && !word.starts_with('-') && !word.contains('='))?;
    (!on_path(name)).then(|| {
        (
            format!("whose first line asks for `{name}`, which is not on PATH"),
            "install it, or correct that line".into(),
        )
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// A word with what is known filled in; nothing if it depends on more.
fn resolved(hook: &Hook, text: &str) -> Option<String> {
    let mut text = text.to_owned();
    let places = places(hook);
    for (name, _) in &places {
        text = text.replace(&format!("${name}"), &format!("${{{name}}}"));
    }
    let text = fill(&text, &places);
    (!text.contains(['$', '`', '*', '?', '[', '~'])).then_some(text)
}

/// Relative paths count from the session's directory, which is the project's until someone changes it.
fn absolute(hook: &Hook, path: &str) -> PathBuf {
    hook.house.project.join(path)
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        let file: &Path = &folder.join(name);
        fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// The words of the first simple command of a line, as a shell splits them, with variables left as they stand.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    let mut chars = line.trim_start().chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().text.extend(chars.next()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (' ' | '\t', None) => words.extend(word.take()),
            ('\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')', None) => break,
            (c, quote) => {
                let word = word.get_or_insert_default();
                word.bare_variable |= c == '$' && quote.is_none();
                word.text.push(c);
            }
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let texts =
            |line| words(line).into_iter().map(|word| (word.text, word.bare_variable)).collect::<Vec<_>>();
        let word = |text: &str, bare| (text.to_owned(), bare);
        assert_eq!(
            texts("a  'b c' \"d\\\"e\" f\\ g; h"),
            [word("a", false), word("b c", false), word("d\"e", false), word("f g", false)]
        );
        assert_eq!(texts("\"$X\"/y $X/z '' | w"), [word("$X/y", false), word("$X/z", true), word("", false)]);
        assert!(texts("  ").is_empty());
    }
}
