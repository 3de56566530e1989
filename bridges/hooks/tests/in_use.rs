//! Small hooks of the kinds that people use, over several events of one project.

mod support;

use portcullis_runtime::*;
use std::{fs, os::unix::fs::PermissionsExt};
use support::{Project, gate};

/// A project with scripts in `.claude/hooks`.
fn project(settings: &str, scripts: &[(&str, &str)]) -> Project {
    let project = Project::new(settings);
    let folder = project.path().join(".claude/hooks");
    fs::create_dir(&folder).unwrap();
    for (name, text) in scripts {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    project
}

#[test]
fn a_rule_file_on_four_events() {
    let settings = r#"{"hooks":{
        "UserPromptSubmit":[{"hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/rules.sh"}]}],
        "PreToolUse":[{"matcher":"Bash|Write|Edit","hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/rules.sh"}]}],
        "PostToolUse":[{"matcher":"","hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/rules.sh"}]}],
        "Stop":[{"hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/rules.sh"}]}]}}"#;
    let rules = "PreToolUse rm -rf\nUserPromptSubmit password\nPostToolUse panicked\nStop TODO\n";
    let script = r#"#!/bin/sh
payload=$(cat)
event=$(printf %s "$payload" | sed -n 's/.*"hook_event_name":"\([A-Za-z]*\)".*/\1/p')
while read -r on words; do
    [ "$on" = "$event" ] || continue
    case "$payload" in *"$words"*) echo "rule: $words" >&2; exit 2;; esac
done < "$CLAUDE_PROJECT_DIR/rules"
exit 0
"#;
    let project = project(settings, &[("rules.sh", script)]);
    fs::write(project.path().join("rules"), rules).unwrap();
    assert_eq!(gate(&project.pre("Bash", r#"{"command":"rm -rf build"}"#).decisions[0]).0, "deny");
    assert_eq!(gate(&project.pre("Bash", r#"{"command":"ls"}"#).decisions[0]).0, "none");
    assert!(project.pre("Read", r#"{"file_path":"rm -rf"}"#).decisions.is_empty());
    assert!(matches!(project.submit("my password is x").decisions[0], Submit::Block { .. }));
    assert_eq!(project.submit("hello").decisions, [Submit::allow()]);
    let seen = project.post("Bash", r#"{"command":"t"}"#, Outcome::completed("thread panicked"));
    assert!(seen.context[0].ends_with("rule: panicked\n"));
    assert!(matches!(project.stop(0, "left a TODO").decisions[0], Continue::Again { .. }));
    assert_eq!(project.stop(0, "all done").decisions, [Continue::Abstain]);
}

#[test]
fn a_loop_that_keeps_its_count_in_a_file() {
    let settings = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":".claude/hooks/loop.sh"}]}]}}"#;
    let script = r#"#!/bin/sh
count=$(($(cat count 2>/dev/null || echo 0) + 1))
[ "$count" -gt 3 ] && exit 0
echo "$count" > count
printf '{"decision":"block","reason":"round %s of 3"}' "$count"
"#;
    let project = project(settings, &[("loop.sh", script)]);
    for (forced, round) in [(0, Some(1)), (1, Some(2)), (2, Some(3)), (3, None)] {
        let expected = match round {
            Some(round) => Continue::again(format!("Stop hook feedback:\nround {round} of 3")),
            None => Continue::Abstain,
        };
        assert_eq!(project.stop(forced, "x").decisions, [expected]);
    }
}

#[test]
fn context_at_the_start_from_a_file_and_from_a_command() {
    let settings = r#"{"hooks":{"SessionStart":[
        {"matcher":"startup|clear","hooks":[{"type":"command","command":"cat NOTES.md"}]},
        {"hooks":[{"type":"command","command":"sh .claude/hooks/state.sh"}]}]}}"#;
    let script = r#"printf '{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"files: %s"}}' "$(ls *.md)""#;
    let project = project(settings, &[("state.sh", script)]);
    fs::write(project.path().join("NOTES.md"), "# Notes\nUse tabs.\n").unwrap();
    assert_eq!(
        project.start(StartSource::Startup).context,
        [
            "SessionStart:startup hook success: # Notes\nUse tabs.",
            "SessionStart hook additional context: files: NOTES.md"
        ]
    );
    assert_eq!(project.start(StartSource::Resume).context.len(), 1);
}

#[test]
fn a_formatter_after_a_write() {
    let settings = r#"{"hooks":{"PostToolUse":[{"matcher":"Write|Edit|MultiEdit","hooks":[
        {"type":"command","command":"sh","args":["${CLAUDE_PROJECT_DIR}/.claude/hooks/format.sh"],"timeout":20}]}]}}"#;
    let script = r#"file=$(sed -n 's/.*"tool_input":{"file_path":"\([^"]*\)".*/\1/p')
case "$file" in *.txt) ;; *) exit 0;; esac
tabs=$(printf '\t')
if grep -q "$tabs" "$file"; then
    expand "$file" > "$file.new" && mv "$file.new" "$file"
    printf '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"reformatted %s"}}' "$file"
fi
"#;
    let project = project(settings, &[("format.sh", script)]);
    let file = project.path().join("a b.txt");
    fs::write(&file, "x\ty\n").unwrap();
    // The model wrote a relative path with its arguments the other way round.
    let arguments = r#"{"content":"x\ty\n","file_path":"a b.txt"}"#;
    let seen = project.post("Write", arguments, Outcome::completed("ok"));
    assert_eq!(
        seen.context,
        [format!("PostToolUse:Write hook additional context: reformatted {}", file.display())]
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "x       y\n");
    assert!(project.post("Write", arguments, Outcome::completed("ok")).context.is_empty());
}

#[test]
fn a_secret_scanner_that_rewrites_and_asks() {
    let settings = r#"{"hooks":{"PreToolUse":[{"matcher":"Write","hooks":[{"type":"command","command":"sh .claude/hooks/scan.sh","onFailure":"block"}]}]}}"#;
    let script = r#"payload=$(cat)
case "$payload" in
    *AKIA*) printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"a key was taken out","updatedInput":%s}}' \
        "$(printf %s "$payload" | sed 's/.*"tool_input":\({.*}\),"tool_use_id".*/\1/; s/AKIA[A-Z0-9]*/REDACTED/g')";;
esac
"#;
    let project = project(settings, &[("scan.sh", script)]);
    let seen = project.pre("Write", r#"{"file_path":"/k","content":"id=AKIA0123 \"q\""}"#);
    assert_eq!(gate(&seen.decisions[0]), ("ask", Some("a key was taken out")));
    let arguments = seen.decisions[0].arguments.as_ref().unwrap();
    assert_eq!(arguments.text(), r#"{"file_path":"/k","content":"id=REDACTED \"q\""}"#);
    assert_eq!(gate(&project.pre("Write", r#"{"file_path":"/k","content":"plain"}"#).decisions[0]).0, "none");
    // A scanner that cannot run must not let anything pass.
    fs::remove_file(project.path().join(".claude/hooks/scan.sh")).unwrap();
    assert_eq!(gate(&project.pre("Write", r#"{"file_path":"/k","content":"plain"}"#).decisions[0]).0, "deny");
}
