//! `matcher`: which tools, or which kinds of start, a group of hooks is for.
//!
//! Absent, empty and `*` match all. Only letters, digits, `_`, `-`, space, `,` and `|`: a list of exact names. Anything else
//! is a JavaScript regular expression, unanchored, over UTF-16; one that is no valid expression never matches.

mod pattern;
pub(super) mod rule;

use crate::matcher::{Matcher, Pattern};
use regress::Regex;

/// Longest subject that a regular expression looks at, in UTF-16 units. No provider takes longer names of tools.
const SUBJECT: usize = 128;

/// A JavaScript expression.
#[derive(Debug)]
struct Expression(Regex);

impl Pattern for Expression {
    fn finds(&self, name: &str) -> bool {
        let units: Vec<u16> = name.encode_utf16().collect();
        // A hook that sees too much is safer than a guard that sees too little.
        units.len() > SUBJECT || self.0.find_from_ucs2(&units, 0).next().is_some()
    }
}

/// Reads one.
pub(crate) fn read(text: Option<&str>) -> Matcher {
    let text = match text {
        None | Some("" | "*") => return Matcher::All,
        Some(text) => text,
    };
    let in_list = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ' | ',' | '|' | '-');
    if text.chars().all(in_list) {
        return Matcher::Names(text.split(['|', ',']).map(|name| name.trim().to_owned()).collect());
    }
    match Regex::from_unicode(text.encode_utf16().map(u32::from), "") {
        Err(error) => Matcher::Never(format!("it is no JavaScript regular expression: {error}")),
        Ok(regex) => match pattern::refuse(text) {
            Some(why) => Matcher::Never(why.into()),
            None => Matcher::Pattern(Box::new(Expression(regex))),
        },
    }
}

/// The name under which hooks know a tool.
pub(super) fn canonical(tool: &str) -> &str {
    if tool == "Task" { "Agent" } else { tool }
}

/// Tools of the client.
pub(super) const TOOLS: &[&str] = &[
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

#[cfg(test)]
mod tests {
    use super::{super::Claude, *};
    use crate::dialect::Dialect;

    fn hit(matcher: &str, subject: &str) -> bool {
        read(Some(matcher)).matches(subject, Claude.aliases(subject))
    }

    // C-BRIDGE-1
    #[test]
    fn lists_are_exact_and_the_rest_is_an_unanchored_expression() {
        for yes in [
            "Bash",
            "Edit|Write|Bash",
            "Edit | Bash",
            "Edit, Bash",
            "Edit,Bash",
            "Bash ",
            " Bash",
            "*",
            "",
            "^Ba",
            "Ba.*",
            "Ba*",
            "B.s",
            "^Bash$",
            ".*",
            ".",
            "(Read|Bash)",
            "^(?!Read$|Glob$).+",
            "[A-Z]ash",
            "\\bBash\\b",
            "B(?=ash)",
        ] {
            assert!(hit(yes, "Bash"), "{yes:?} should match");
        }
        for no in [
            "bash",
            "Bas",
            "Bas|Edit",
            "Bash-x",
            "Edit|",
            "Bash(",
            "[",
            "(?i)bash",
            "Bash(echo:*)",
            "^(?!Bash).*$",
            "mcp__.*",
            "ba.*",
            "Ba\\$",
            "Edit-Bash",
        ] {
            assert!(!hit(no, "Bash"), "{no:?} should not match");
        }
        assert!(read(None).matches("Bash", &[]));
        for yes in
            ["mcp__srv__echo", "mcp__srv__.*", "mcp__.*", "mcp__.*__echo", "echo$", "mcp__*", "mcp__srv__*"]
        {
            assert!(hit(yes, "mcp__srv__echo"), "{yes:?} should match");
        }
        for no in ["mcp__srv", "srv", "mcp__srv__ech"] {
            assert!(!hit(no, "mcp__srv__echo"), "{no:?} should not match");
        }
        assert!(hit("Edit.*", "NotebookEdit"));
    }

    #[test]
    fn the_old_name_of_a_tool_matches_the_new_one() {
        assert!(hit("Task", "Agent") && hit("^Task$", "Agent") && hit("Agent|Bash", "Agent"));
        assert!(!hit("Task", "Bash"));
        assert_eq!(canonical("Task"), "Agent");
    }

    #[test]
    fn subjects_are_utf16() {
        assert!(hit("^..$", "😀"));
        assert!(hit("é.", "né!"));
    }

    #[test]
    fn an_expression_that_can_run_away_is_refused() {
        for bad in ["(a+)+$", "(?i:bash).", "(?<n>a)|(?<n>b)."] {
            assert!(matches!(read(Some(bad)), Matcher::Never(_)), "{bad}");
        }
        assert!(hit("x.*y", &"z".repeat(300)));
    }
}
