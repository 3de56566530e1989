//! Matchers and patterns of both clients: the first line is one, the rest is what it is asked about.

use crate::{
    claude::{self, Claude, Rule},
    codex::{self, Codex},
    definition::Condition,
    dialect::Dialect,
    glob::glob,
    matcher::Matcher,
    post,
};
use portcullis_runtime::Frozen;
use std::{collections::BTreeMap, path::Path};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, subject) = text.split_once('\n').unwrap_or((&*text, ""));
    asked(&Claude, &claude::matcher(Some(pattern)), pattern, subject);
    match codex::matcher(Some(pattern)) {
        Ok(matcher) => asked(&Codex, &matcher, pattern, subject),
        Err(why) => assert!(!why.is_empty() && !is_word(pattern)),
    }

    // Two ways to the same answer.
    assert_eq!(glob(pattern, subject, false), post::like(pattern, subject), "{pattern} on {subject}");
    // A run in a path is never more than any run.
    assert!(!glob(pattern, subject, true) || pattern.contains("**/") || glob(pattern, subject, false));
    assert!(pattern.contains('*') || glob(pattern, subject, true) == (pattern == subject));

    rule(pattern, subject);
}

fn is_word(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A word is an exact name; whatever it is, the answer is the same each time.
fn asked(dialect: &dyn Dialect, matcher: &Matcher, pattern: &str, subject: &str) {
    let matches = |subject: &str| matcher.matches(subject, dialect.aliases(subject));
    let found = matches(subject);
    assert_eq!(matches(subject), found);
    match matcher {
        Matcher::All => assert!(found),
        Matcher::Never(why) => assert!(!found && !why.is_empty()),
        Matcher::Names(_) | Matcher::Pattern(_) => {}
    }
    if is_word(pattern) {
        assert!(matches(pattern));
        assert_eq!(found, pattern == subject || dialect.aliases(subject).contains(&pattern));
    }
}

/// As a permission rule, of a call that has the subject for everything.
fn rule(text: &str, subject: &str) {
    let Ok(rule) = Rule::parse(text) else { return };
    assert_eq!(rule.text(), text);
    let input = BTreeMap::from([("command", subject), ("file_path", subject)]);
    let input = Frozen::of(&input).expect("texts can be frozen");
    let (project, cwd) = (Path::new("/p"), Path::new("/p/sub"));
    for tool in ["Bash", "Edit", "Write", "mcp__srv__echo"] {
        let holds = rule.holds(tool, input.root(), project, cwd);
        assert!(
            !holds
                || text.starts_with("Edit")
                || glob(text.split('(').next().unwrap_or(text), tool, false)
                || tool.starts_with(text)
        );
    }
}
