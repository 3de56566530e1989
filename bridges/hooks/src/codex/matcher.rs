//! `matcher`: which tools, or which kinds of start, a group of hooks is for.
//!
//! Absent, empty and `*` match all. Only ASCII letters, digits, `_` and `|`: a list of exact names. Anything else is a regular
//! expression of Rust's `regex`, unanchored. Matching takes time in proportion to the subject, whatever the expression.

use crate::matcher::{Matcher, Pattern};
use regex::{Error, Regex, RegexBuilder};

/// How large an expression may become when it is compiled, in bytes: the client's limit, so that the same ones are valid.
const COMPILED: usize = 10 << 20;
/// How much a search may keep of what it found out about an expression, in bytes.
const KEPT: usize = 1 << 20;

/// An expression, compiled.
#[derive(Debug)]
struct Expression(Regex);

impl Pattern for Expression {
    fn finds(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// The error says why it is no valid expression: the client skips the group that it stands in.
pub(crate) fn compile(text: Option<&str>) -> Result<Matcher, String> {
    let text = match text {
        None | Some("" | "*") => return Ok(Matcher::All),
        Some(text) => text,
    };
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'|')) {
        return Ok(Matcher::Names(text.split('|').map(str::to_owned).collect()));
    }
    let compiled = RegexBuilder::new(text).size_limit(COMPILED).dfa_size_limit(KEPT).build();
    compiled.map(|regex| Matcher::Pattern(Box::new(Expression(regex)))).map_err(|error| match error {
        Error::CompiledTooBig(limit) => {
            format!("as a regular expression it needs more than {} MiB", limit >> 20)
        }
        // The first lines quote the expression and point into it.
        error => {
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default();
            format!("it is no regular expression: {}", why.strip_prefix("error: ").unwrap_or(why))
        }
    })
}

/// Tools of the client.
pub(super) const TOOLS: &[&str] = &[
    "Agent",
    "Bash",
    "apply_patch",
    "close_agent",
    "create_goal",
    "get_goal",
    "send_input",
    "spawn_agent",
    "update_goal",
    "update_plan",
    "view_image",
];

/// The name of a tool that a hook is told, and that a matcher is asked about first. Whatever runs commands is `Bash`; any other
/// tool has its own.
pub(crate) fn canonical(tool: &str) -> &str {
    match tool {
        "exec_command" | "shell" | "shell_command" | "local_shell" => "Bash",
        other => other,
    }
}

/// Other names by which matchers find a tool. The client changes files with `apply_patch` alone, and this runtime with `Write`
/// and `Edit`: a hook that guards one of them guards each.
pub(crate) fn aliases(tool: &str) -> &'static [&'static str] {
    match tool {
        "apply_patch" => &["Write", "Edit"],
        "Write" => &["apply_patch", "Edit"],
        "Edit" => &["apply_patch", "Write"],
        "spawn_agent" => &["Agent"],
        "Agent" => &["spawn_agent"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(matcher: &str, tool: &str) -> bool {
        compile(Some(matcher)).unwrap().matches(canonical(tool), aliases(tool))
    }

    // C-BRIDGE-1
    #[test]
    fn words_are_exact_and_the_rest_is_an_unanchored_expression() {
        for yes in [
            "Bash",
            "^Bash$",
            "*",
            "",
            "^Bas",
            "B.sh",
            "Bash|apply_patch",
            "(?i)bash",
            "Bash.*|x",
            ".*",
            "^(apply_patch|Bash)$",
            "Bash|",
            "|Bash",
            "(?-u:\\w)",
            "\\p{Lu}",
        ] {
            assert!(hit(yes, "Bash"), "{yes:?} should match");
        }
        for no in [
            "bash",
            "Bas",
            "Edit|Write",
            "apply_patch",
            " Bash",
            "Bash ",
            "exec_command",
            "shell",
            "local_shell",
            "Edit|",
            "|",
            "Bash-x",
            "Bash, apply_patch",
            "mcp__srv__.*",
            "Skill(plan.*)",
        ] {
            assert!(!hit(no, "Bash"), "{no:?} should not match");
        }
        assert!(compile(None).unwrap().matches("Bash", &[]));
        for (matcher, holds) in [("mcp__srv", false), ("mcp__srv__.*", true), ("mcp__srv__echo_it", true)] {
            assert_eq!(hit(matcher, "mcp__srv__echo_it"), holds, "{matcher}");
        }
        assert!(!hit("Skill(plan.*)", "Skill") && hit("Skill", "Skill"));
    }

    // C-BRIDGE-1
    #[test]
    fn a_start_is_matched_by_its_source() {
        for (matcher, holds) in [
            ("startup", true),
            ("startup|resume", true),
            ("^start", true),
            ("start", false),
            ("STARTUP", false),
            ("clear", false),
        ] {
            assert_eq!(compile(Some(matcher)).unwrap().matches("startup", &[]), holds, "{matcher}");
        }
    }

    // C-BRIDGE-1: whoever guards the client's tools guards those of this runtime.
    #[test]
    fn a_tool_is_found_by_each_of_its_names() {
        for tool in ["apply_patch", "Write", "Edit"] {
            assert_eq!(canonical(tool), tool);
            for yes in ["apply_patch", "Write", "Edit", "^Edit$", "Edit|Write", "Edit|", "Bash|apply_patch"] {
                assert!(hit(yes, tool), "{yes:?} should match {tool}");
            }
            assert!(!hit("Bash", tool) && !hit("^Wr$", tool));
        }
        for tool in ["Agent", "spawn_agent"] {
            assert!(hit("Agent", tool) && hit("spawn_agent", tool) && !hit("Task", tool), "{tool}");
        }
        for tool in ["exec_command", "shell", "local_shell"] {
            assert_eq!(canonical(tool), "Bash");
            assert!(hit("Bash", tool) && hit("*", tool) && !hit(tool, tool), "{tool}");
        }
        assert!(hit("Read", "Read") && !hit("Read", "Grep"));
    }

    // C-BRIDGE-5
    #[test]
    fn what_is_no_expression_is_an_error_with_its_reason() {
        for (bad, why) in [
            ("[", "it is no regular expression: unclosed character class"),
            ("Bash(", "it is no regular expression: unclosed group"),
            ("^(?!Read$).+", "look-around"),
            ("\\w{4000}", "more than 10 MiB"),
        ] {
            let error = compile(Some(bad)).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn an_expression_cannot_run_away() {
        let matcher = compile(Some("^(a+)+$")).unwrap();
        assert!(!matcher.matches(&format!("{}b", "a".repeat(100_000)), &[]));
    }
}
