//! Permission rules, such as `Bash(git commit:*)` or `Edit(src/**)`: what `if` asks of a call, and what `permissions` says.
//!
//! A rule this reader does not understand holds for nothing, as in the client; it is reported at load.

use super::canonical;
use crate::{definition::Condition, dialect::resolve, glob::glob};
use portcullis_runtime::View;
use std::path::Path;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    text: String,
    tool: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// Any call of the tool.
    Any,
    /// A shell command that is this pattern, or has a part that is.
    Command(String),
    /// A file that this pattern names.
    File(String),
}

/// Why a rule does not hold for anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRule {
    #[error("`{0}` is no permission rule")]
    Shape(String),
    #[error("rules with a condition on the tool `{0}` are not understood")]
    Tool(String),
}

const FILE_TOOLS: [&str; 5] = ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit"];
const EDITORS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

impl Rule {
    /// Reads `Tool` or `Tool(condition)`.
    pub(crate) fn parse(text: &str) -> Result<Rule, BadRule> {
        let shape = || BadRule::Shape(text.into());
        let (tool, inside) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(shape)?)),
        };
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
        if tool.is_empty() || !tool.chars().all(name) {
            return Err(shape());
        }
        let tool = canonical(tool).to_owned();
        let what = match inside {
            None | Some("" | "*") => What::Any,
            Some(command) if tool == "Bash" => What::Command(command.into()),
            Some(file) if FILE_TOOLS.contains(&&*tool) => What::File(file.into()),
            Some(_) => return Err(BadRule::Tool(tool)),
        };
        Ok(Rule { text: text.into(), tool, what })
    }

    /// The rule as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Condition for Rule {
    fn holds(&self, tool: &str, input: View<'_>, project: &Path, cwd: &Path) -> bool {
        let tool = canonical(tool);
        let server = tool.strip_prefix(&*self.tool).is_some_and(|rest| rest.starts_with("__"));
        // A rule on which files may be edited is about every tool that edits files.
        let edits = self.tool == "Edit" && matches!(self.what, What::File(_)) && EDITORS.contains(&tool);
        if !(glob(&self.tool, tool, false) || edits || (self.tool.starts_with("mcp__") && server)) {
            return false;
        }
        let text = |key: &str| input.get(key).and_then(View::as_str);
        match &self.what {
            What::Any => true,
            What::Command(pattern) => {
                text("command").is_some_and(|command| parts(&command).any(|part| is_command(pattern, part)))
            }
            What::File(pattern) => text("file_path")
                .or_else(|| text("notebook_path"))
                .is_some_and(|file| is_file(pattern, &resolve(cwd, &file), project)),
        }
    }
}

/// The whole command and each simple command in it.
fn parts(command: &str) -> impl Iterator<Item = &str> {
    let mut found = vec![command.trim()];
    let (mut quote, mut escaped, mut from) = (None, false, 0);
    for (at, c) in command.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', None | Some('"')) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            (';' | '&' | '|' | '\n' | '(' | ')' | '`', None) => {
                found.push(command[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(command[from..].trim());
    found.into_iter().filter(|part| !part.is_empty())
}

/// `git:*` and `git *` are `git` alone or with anything after it; a `*` elsewhere is any run; the rest is literal.
fn is_command(pattern: &str, command: &str) -> bool {
    let prefix = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
    match prefix {
        Some(prefix) => glob(prefix, command, false) || glob(&format!("{prefix} *"), command, false),
        None => glob(pattern, command, false),
    }
}

/// `//` begins an absolute pattern and `~/` one in the home; one without `/` is about the file's name anywhere; others count
/// from the project.
fn is_file(pattern: &str, file: &Path, project: &Path) -> bool {
    let path = file.to_string_lossy();
    if let Some(absolute) = pattern.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
        return glob(absolute, &path, true);
    }
    if let Some(inside) = pattern.strip_prefix("~/") {
        let Some(home) = std::env::var_os("HOME") else { return false };
        return file.strip_prefix(home).is_ok_and(|file| glob(inside, &file.to_string_lossy(), true));
    }
    if !pattern.contains('/') {
        return file.file_name().is_some_and(|name| glob(pattern, &name.to_string_lossy(), true));
    }
    let pattern = pattern.strip_prefix("./").or_else(|| pattern.strip_prefix('/')).unwrap_or(pattern);
    let Ok(inside) = file.strip_prefix(project) else { return false };
    glob(pattern, &inside.to_string_lossy(), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_runtime::Frozen;

    fn bash(rule: &str, command: &str) -> bool {
        let input = Frozen::of(&std::collections::BTreeMap::from([("command", command)])).unwrap();
        Rule::parse(rule).unwrap().holds("Bash", input.root(), Path::new("/p"), Path::new("/p"))
    }

    #[test]
    fn commands() {
        for (rule, command) in [
            ("Bash", "anything"),
            ("Bash(echo *)", "echo hi"),
            ("Bash(echo:*)", "echo hi"),
            ("Bash(echo:*)", "echo"),
            ("Bash(git *)", "ls; git status || true"),
            ("Bash(git commit:*)", "cd x && git commit -m 'a; b'"),
            ("Bash(npm run *:prod)", "npm run build:prod"),
        ] {
            assert!(bash(rule, command), "{rule} on {command}");
        }
        for (rule, command) in [
            ("Bash(/echo/)", "echo hi"),
            ("Bash(git commit:*)", "npm test"),
            ("Bash(git:*)", "gitk"),
            ("Bash(git:*)", "echo 'x; git status'"),
            ("Write", "echo hi"),
        ] {
            assert!(!bash(rule, command), "{rule} on {command}");
        }
    }

    #[test]
    fn files() {
        let holds = |rule: &str, file: &str| {
            let input = Frozen::of(&std::collections::BTreeMap::from([("file_path", file)])).unwrap();
            Rule::parse(rule).unwrap().holds("Edit", input.root(), Path::new("/p"), Path::new("/p/sub"))
        };
        for (rule, file) in [
            ("Edit(*.ts)", "a.ts"),
            ("Edit(src/**)", "../src/a/b.rs"),
            ("Edit(/src/*.rs)", "/p/src/b.rs"),
            ("Edit(//etc/**)", "/etc/a/b"),
            ("Edit(**/*.rs)", "/p/x.rs"),
            ("Edit(**/*.rs)", "/p/a/b/x.rs"),
        ] {
            assert!(holds(rule, file), "{rule} on {file}");
        }
        for (rule, file) in [
            ("Edit(*.ts)", "a.rs"),
            ("Edit(src/*)", "/p/src/a/b"),
            ("Edit(src/**)", "/q/src/a"),
            ("Edit(src/**)", "src/a"),
        ] {
            assert!(!holds(rule, file), "{rule} on {file}");
        }
    }

    #[test]
    fn mcp_servers_and_unreadable_rules() {
        let input = Frozen::parse("{}").unwrap();
        let holds = |rule: &str| {
            Rule::parse(rule).unwrap().holds("mcp__srv__echo", input.root(), Path::new("/"), Path::new("/"))
        };
        assert!(holds("mcp__srv") && holds("mcp__srv__*") && holds("mcp__srv__echo"));
        assert!(!holds("mcp__sr") && !holds("mcp__other"));
        assert_eq!(Rule::parse("Bash("), Err(BadRule::Shape("Bash(".into())));
        assert_eq!(Rule::parse("WebFetch(domain:x)"), Err(BadRule::Tool("WebFetch".into())));
        assert!(Rule::parse("").is_err());
    }
}
