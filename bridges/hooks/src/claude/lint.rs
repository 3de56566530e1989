//! Likely mistakes in hooks that are sound as far as their files go.

use super::{ClaudeHooks, environment, event::Event, hook::Hook, written::Written};
use crate::report::{Report, Severity};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Programs whose first argument is a script.
const INTERPRETERS: [&str; 11] =
    ["sh", "bash", "dash", "zsh", "python", "python3", "node", "bun", "ruby", "perl", "php"];

/// Words that a shell itself understands.
const BUILT_IN: [&str; 36] = [
    ".", ":", "[", "alias", "case", "cd", "command", "echo", "eval", "exec", "exit", "export", "false",
    "for", "if", "kill", "local", "printf", "pwd", "read", "return", "set", "shift", "source", "test",
    "time", "trap", "true", "type", "ulimit", "umask", "unset", "until", "wait", "while", "{",
];

impl ClaudeHooks {
    /// Likely mistakes, by event, in configuration order. `tools` are the tools of this runtime; tools of the client that it
    /// does not have are known here. Reads the file system, starts nothing.
    pub fn lint(&self, tools: &[&str]) -> Vec<Report> {
        let mut reports = Vec::new();
        for hook in Event::ALL.into_iter().flat_map(|event| self.of(event)) {
            let mut say = |severity, code, message: String, hint: &str| {
                let mut report =
                    Report::new(severity, code, message).at(&hook.origin.path, Some(hook.definition.line));
                report.hint = (!hint.is_empty()).then(|| hint.into());
                reports.push(report);
            };
            matcher(hook, tools, &mut say);
            command(hook, &mut say);
        }
        reports
    }
}

type Say<'s> = dyn FnMut(Severity, &'static str, String, &str) + 's;

fn matcher(hook: &Hook, tools: &[&str], say: &mut Say<'_>) {
    let definition = &hook.definition;
    let Some(text) = definition.matcher_text.as_deref().filter(|_| definition.event.is_of_tool()) else {
        return;
    };
    // Which servers there will be, nobody knows yet; a matcher that never matches was reported when it was read.
    if text.contains("mcp__") || matches!(*definition.matcher, super::matcher::Matcher::Never(_)) {
        return;
    }
    if tools.iter().any(|tool| definition.matcher.matches(tool)) {
        return;
    }
    let event = definition.event.name();
    let elsewhere = CLIENT_TOOLS.iter().find(|tool| definition.matcher.matches(tool));
    if let Some(tool) = elsewhere {
        let message =
            format!("the matcher `{text}` under {event} matches {tool}, which this runtime does not have");
        return say(Severity::Note, "hooks/absent-tool", message, "");
    }
    let known = tools.iter().chain(CLIENT_TOOLS);
    let near = known.copied().find(|tool| tool.eq_ignore_ascii_case(text.trim()));
    let hint = near
        .map_or_else(|| format!("tools here: {}", tools.join(", ")), |near| format!("did you mean {near}?"));
    say(
        Severity::Warning,
        "hooks/no-such-tool",
        format!("the matcher `{text}` under {event} matches no known tool"),
        &hint,
    );
}

/// Tools of the client.
const CLIENT_TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillShell",
    "LSP",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// A word of a command line: its text with variables as they stand, and whether a variable in it stands outside of quotes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    bare_variable: bool,
}

fn command(hook: &Hook, say: &mut Say<'_>) {
    let Written::Command { command, args } = &hook.definition.written else { return };
    let words = match args {
        Some(args) => {
            let word = |text: &str| Word { text: text.into(), bare_variable: false };
            std::iter::once(command).chain(args).map(|text| word(text)).collect()
        }
        None => words(command),
    };
    let event = hook.definition.event.name();
    for word in words.iter().filter(|word| word.bare_variable) {
        if let Some(name) =
            ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"].into_iter().find(|name| word.text.contains(name))
        {
            let place = resolved(hook, &format!("${{{name}}}"));
            let broken = place.as_deref().is_some_and(|place| place.contains([' ', '\t', '*', '?', '[']));
            let message = match broken {
                true => format!(
                    "a hook on {event} uses ${name} without quotes, and its value has a space or a wildcard: it is torn apart"
                ),
                false => format!(
                    "a hook on {event} uses ${name} without quotes: it breaks in a folder whose name has a space"
                ),
            };
            let severity = if broken { Severity::Error } else { Severity::Warning };
            say(severity, "hooks/unquoted", message, &format!("write \"${name}\"/…"));
            break;
        }
    }
    // `NAME=value program` starts the program.
    let assigned =
        |word: &&Word| args.is_none() && word.text.split_once('=').is_some_and(|(n, _)| is_name(n));
    let mut rest = words.iter().skip_while(assigned);
    let Some(program) = rest.next() else { return };
    let in_shell = args.is_none();
    if in_shell && BUILT_IN.contains(&&*program.text) {
        return;
    }
    match resolved(hook, &program.text) {
        None => return,
        Some(path) if path.contains('/') => {
            let file = absolute(hook, &path);
            match fs::metadata(&file) {
                Err(error) => {
                    let message =
                        format!("a hook on {event} starts {}, which cannot be used: {error}", file.display());
                    return say(Severity::Error, "hooks/missing-script", message, "");
                }
                Ok(meta) if !meta.is_file() => {
                    let message = format!("a hook on {event} starts {}, which is no file", file.display());
                    return say(Severity::Error, "hooks/missing-script", message, "");
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
                Ok(_) => {}
            }
        }
        Some(name) if !on_path(&name) => {
            let message = format!("a hook on {event} starts `{name}`, which is not on PATH");
            return say(Severity::Error, "hooks/missing-program", message, "");
        }
        Some(_) => {}
    }
    let base = program.text.rsplit('/').next().unwrap_or_default();
    if !INTERPRETERS.contains(&base) {
        return;
    }
    let Some(script) = rest.next().filter(|word| !word.text.starts_with('-')) else { return };
    if let Some(path) = resolved(hook, &script.text) {
        let file = absolute(hook, &path);
        if !file.exists() {
            // Some interpreters end with code 2 then, which blocks.
            let message =
                format!("a hook on {event} has {base} run {}, which does not exist", file.display());
            say(Severity::Error, "hooks/missing-script", message, "");
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// A word with what is known filled in; nothing if it depends on more.
fn resolved(hook: &Hook, text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"] {
        text = text.replace(&format!("${name}"), &format!("${{{name}}}"));
    }
    let text = environment::fill(&text, &hook.house.project, hook.origin.plugin.as_ref());
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
