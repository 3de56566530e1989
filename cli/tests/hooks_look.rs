//! `portcullis hooks check` and `portcullis hooks explain`.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::BTreeMap, fs, path::Path, process::Command};
use tempfile::TempDir;

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

fn hooks(what: &str, dir: &Path, args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["hooks", what]).arg(dir).args(args).env_remove("PORTCULLIS_LOG");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn project(settings: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join(".claude")).unwrap();
    fs::write(dir.path().join(".claude/settings.json"), settings).unwrap();
    dir
}

/// One command hook.
fn command(text: &str) -> String {
    format!(r#"{{"type":"command","command":{}}}"#, serde_json::to_string(text).unwrap())
}

#[test]
fn a_sound_project_is_shown_and_passes() {
    let dir = project(&format!(
        r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Bash","hooks":[{}]}}],"Stop":[{{"hooks":[{{"type":"command","command":"sh","args":["stop.sh"],"timeout":2.5,"async":true}}]}}]}}}}"#,
        command("\"$CLAUDE_PROJECT_DIR\"/gate.sh")
    ));
    fs::write(dir.path().join("gate.sh"), "").unwrap();
    fs::write(dir.path().join("stop.sh"), "").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path().join("gate.sh"), mode).unwrap();
    let done = hooks("check", dir.path(), &[]);
    assert_eq!(done.code, Some(0), "{}", done.out);
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(lines[0].starts_with("project ") && lines[0].ends_with("settings.json: 2 hooks"), "{}", done.out);
    assert!(lines[1].starts_with("local ") && lines[1].ends_with("settings.local.json: not there"));
    assert!(
        lines[2].starts_with("PreToolUse Bash: \"$CLAUDE_PROJECT_DIR\"/gate.sh (limit 10 min 0 s) "),
        "{}",
        lines[2]
    );
    assert!(
        lines[3].starts_with("Stop: sh stop.sh (limit 2.5 s, no shell, in the background) "),
        "{}",
        lines[3]
    );
    assert_eq!(lines[4..], ["2 hooks, 0 errors, 0 warnings"]);
}

/// An executable file.
fn script(dir: &Path, name: &str, text: &str) {
    let file = dir.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

// What is sound is not cried over.
#[test]
fn nothing_is_said_about_what_works() {
    for command in [
        r#"./well.sh"#,
        r#"\"$CLAUDE_PROJECT_DIR\"/well.sh --fast"#,
        r#"\"${CLAUDE_PROJECT_DIR}/my hooks/x y.sh\""#,
        r#"sh -eu './my hooks/x y.sh'"#,
        r#"sh my\\ hooks/x\\ y.sh"#,
        r#"sh -c 'exit 0'"#,
        r#"X=1 Y=2 ./well.sh"#,
        r#"cat > /dev/null; ./nowhere.sh"#,
        r#"[ -f x ] && echo y"#,
        r#"cd /tmp && ./elsewhere.sh"#,
        r#"env FOO=1 ./nowhere.sh"#,
        r#"$HOME/bin/x"#,
        r#"~/bin/x"#,
        r#"echo \"$CLAUDE_PROJECT_DIR\""#,
    ] {
        let dir = project(&format!(
            r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Bash|Write","hooks":[{{"type":"command","command":"{command}","timeout":300}}]}}]}}}}"#
        ));
        script(dir.path(), "well.sh", "#!/usr/bin/env sh\n");
        script(dir.path(), "my hooks/x y.sh", "echo hi\n");
        let done = hooks("check", dir.path(), &[]);
        assert!(done.out.ends_with("1 hook, 0 errors, 0 warnings\n"), "{command}: {}", done.out);
    }
}

#[test]
fn each_likely_mistake_is_named() {
    let table: [(&str, &str, i32); 26] = [
        (
            r#""PreToolUse":[{"matcher":"Bsh","hooks":[{"type":"command","command":"true"}]}]"#,
            "matches no known tool",
            0,
        ),
        (
            r#""PreToolUse":[{"matcher":"bash","hooks":[{"type":"command","command":"true"}]}]"#,
            "did you mean Bash?",
            0,
        ),
        (
            r#""PreToolUse":[{"matcher":"WebFetch","hooks":[{"type":"command","command":"true"}]}]"#,
            "note: the matcher `WebFetch`",
            0,
        ),
        (
            r#""PreToolUse":[{"matcher":"Bash(","hooks":[{"type":"command","command":"true"}]}]"#,
            "never matches",
            0,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"./gone.sh --fast"}]}]"#,
            "gone.sh, which cannot be used",
            1,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"python3 \"$CLAUDE_PROJECT_DIR/gone.py\""}]}]"#,
            "gone.py, which does not exist",
            1,
        ),
        (r#""PreToolUse":[{"hooks":[{"type":"command","command":"./plain.sh"}]}]"#, "not executable", 1),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"no-such-program-anywhere --x"}]}]"#,
            "is not on PATH",
            1,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"sh $CLAUDE_PROJECT_DIR/plain.sh"}]}]"#,
            "without quotes",
            0,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"true","timeout":30000}]}]"#,
            "warning: a timeout on PreToolUse is 30000 seconds (timeouts are in seconds, not milliseconds: is 30 meant?)",
            0,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"true","timeout":1800}]}]"#,
            "note: a timeout on PreToolUse is 1800 seconds",
            0,
        ),
        (
            r#""Stop":[{"matcher":"Bash","hooks":[{"type":"command","command":"true"}]}]"#,
            "note: the matcher `Bash` under Stop is ignored",
            0,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"./my hooks/x y.sh --fast"}]}]"#,
            "names ./my hooks/x y.sh without quotes",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"sh -eu my hooks/x y.sh"}]}]"#,
            "names my hooks/x y.sh without quotes",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"sh -e gone.sh"}]}]"#,
            "gone.sh, which does not exist (relative paths count from where the session works",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"plain.sh"}]}]"#,
            "is not on PATH (write ./plain.sh for the file in the project)",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"./windows.sh"}]}]"#,
            "first line ends in a carriage return",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"./ruin.sh"}]}]"#,
            "first line asks for `no-such-program-anywhere`, which is not on PATH",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"./lost.sh"}]}]"#,
            "first line asks for /nowhere/sh, which is not there",
            1,
        ),
        (
            r#""Stop":[{"hooks":[{"type":"command","command":"${CLAUDE_PROJECT_DIR}/well.sh"}]}]"#,
            "uses $CLAUDE_PROJECT_DIR without quotes",
            0,
        ),
        (r#""PreToolUze":[{"hooks":[{"type":"command","command":"true"}]}]"#, "did you mean PreToolUse?", 0),
        (
            r#""Setup":[{"hooks":[{"type":"command","command":"true"}]}]"#,
            "on Setup do not run: nothing here has an `--init`",
            0,
        ),
        (
            r#""CwdChanged":[{"hooks":[{"type":"command","command":"true"}]}]"#,
            "a session keeps its working directory",
            0,
        ),
        (r#""Stop":[{"hooks":[{"type":"mcp_tool","server":"s","tool":"t"}]}]"#, "no MCP servers", 0),
        (
            r#""SessionStart":[{"hooks":[{"type":"prompt","prompt":"p"}]}]"#,
            "has no hooks of type `prompt`",
            0,
        ),
        (
            r#""PreToolUse":[{"hooks":[{"type":"command","command":"true","timeout":"5"}]}]"#,
            "this file is ignored as a whole",
            1,
        ),
    ];
    for (hook, says, code) in table {
        let dir = project(&format!(r#"{{"hooks":{{{hook}}}}}"#));
        fs::write(dir.path().join("plain.sh"), "").unwrap();
        script(dir.path(), "my hooks/x y.sh", "#!/bin/sh\n");
        script(dir.path(), "well.sh", "#!/usr/bin/env sh\n");
        script(dir.path(), "windows.sh", "#!/bin/sh\r\n");
        script(dir.path(), "ruin.sh", "#!/usr/bin/env no-such-program-anywhere\n");
        script(dir.path(), "lost.sh", "#!/nowhere/sh\n");
        let done = hooks("check", dir.path(), &[]);
        assert!(done.out.contains(says), "{hook}: {}", done.out);
        assert!(done.out.contains("settings.json:1: "), "{hook}: {}", done.out);
        assert_eq!(done.code, Some(code), "{hook}: {}", done.out);
    }
    // Quotes matter more where the folder's name really has a space.
    let dir = TempDir::new().unwrap();
    let odd = dir.path().join("my project");
    fs::create_dir_all(odd.join(".claude")).unwrap();
    let settings =
        format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{}]}}]}}}}"#, command("$CLAUDE_PROJECT_DIR/x.sh"));
    fs::write(odd.join(".claude/settings.json"), settings).unwrap();
    let done = hooks("check", &odd, &[]);
    assert!(done.out.contains("it is torn apart") && done.code == Some(1), "{}", done.out);
    assert_eq!(hooks("check", &dir.path().join("none"), &[]).code, Some(2));
}

#[test]
fn layers_are_added_by_options() {
    let dir = project("{}");
    let settings = dir.path().join("more.json");
    fs::write(&settings, format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{}]}}]}}}}"#, command("true"))).unwrap();
    let root = dir.path().join("plug");
    fs::create_dir_all(root.join("hooks")).unwrap();
    fs::copy(&settings, root.join("hooks/hooks.json")).unwrap();
    let (settings, root) = (settings.to_str().unwrap(), root.to_str().unwrap());
    let done = hooks("check", dir.path(), &["--settings", settings, "--plugin", root]);
    assert_eq!(done.code, Some(0), "{}", done.out);
    assert!(
        done.out.contains("more.json: 1 hook\n") && done.out.contains("hooks.json: 1 hook\n"),
        "{}",
        done.out
    );
}

#[derive(Deserialize)]
struct All {
    event: String,
    subject: String,
    stdin: String,
    runs: Vec<Runs>,
    does_not_run: Vec<Not>,
    decision: Option<String>,
    reason: Option<String>,
    effective_input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Runs {
    handler: String,
    line: usize,
    argv: Vec<String>,
    env: BTreeMap<String, Option<String>>,
    answered: Option<Answered>,
    #[serde(default)]
    context: Vec<String>,
}

#[derive(Deserialize)]
struct Answered {
    decision: String,
    exit: Option<i32>,
}

#[derive(Deserialize)]
struct Not {
    line: usize,
    why: String,
}

fn explained(dir: &Path, args: &[&str]) -> All {
    let done = hooks("explain", dir, &[args, &["--json"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.out))
}

// C-BRIDGE-1
#[test]
fn what_runs_reads_exactly_what_is_shown() {
    let dir = project(&format!(
        "{{\"hooks\":{{\"PreToolUse\":[\n{{\"matcher\":\"Bash\",\"hooks\":[\n{},\n{{\"type\":\"command\",\"command\":\"echo two >&2; exit 2\",\"if\":\"Bash(git:*)\"}}]}},\n\
         {{\"matcher\":\"Write\",\"hooks\":[{}]}},\n{{\"hooks\":[\n{}]}}],\n\"Stop\":[{{\"hooks\":[{}]}}]}}}}",
        command("cat > seen; env > env; echo no >&2; exit 2"),
        command("touch other"),
        command("cat > seen; env > env; echo no >&2; exit 2"),
        command("touch other"),
    ));
    let input = r#"{"description":"d","command":"ls","n":9007199254740993}"#;
    let all = explained(dir.path(), &["--event", "PreToolUse", "--input", input]);
    assert_eq!((&*all.event, &*all.subject), ("PreToolUse", "Bash"));
    assert_eq!(fs::read_to_string(dir.path().join("seen")).unwrap(), all.stdin);
    assert!(
        all.stdin.contains(r#""tool_input":{"command":"ls","description":"d","n":9007199254740993}"#),
        "{}",
        all.stdin
    );
    let [run] = &all.runs[..] else { panic!("{}", all.runs.len()) };
    assert_eq!((run.line, &run.argv[..2]), (7, &["/bin/sh".to_owned(), "-c".to_owned()][..]));
    assert!(run.handler.starts_with("PreToolUse:*#"));
    let env = fs::read_to_string(dir.path().join("env")).unwrap();
    for (name, value) in &run.env {
        match value {
            Some(value) => assert!(env.lines().any(|line| line == format!("{name}={value}")), "{name}"),
            None => assert!(!env.lines().any(|line| line.starts_with(&format!("{name}=")))),
        }
    }
    let answered = run.answered.as_ref().unwrap();
    assert_eq!((&*answered.decision, answered.exit), ("block", Some(2)));
    assert_eq!(all.decision.as_deref(), Some("deny"));
    assert!(all.reason.unwrap().ends_with("]: no\n"));
    assert!(all.effective_input.is_none());
    let why: Vec<(usize, &str)> = all.does_not_run.iter().map(|not| (not.line, &*not.why)).collect();
    assert!(why[0].0 == 3 && why[0].1.contains("defined again at"), "{why:?}");
    assert_eq!(why[1], (4, "its `if: Bash(git:*)` does not hold for this call"));
    assert_eq!(why[2], (5, "its matcher `Write` does not match `Bash`"));
    assert_eq!(why[3], (8, "it is on Stop"));
    assert!(!dir.path().join("other").exists());
}

#[test]
fn a_dry_run_starts_nothing() {
    let dir = project(&format!(
        r#"{{"hooks":{{"UserPromptSubmit":[{{"hooks":[{}]}}]}}}}"#,
        command("touch made; exit 2")
    ));
    let all = explained(dir.path(), &["--event", "UserPromptSubmit", "--prompt", "héllo", "--dry"]);
    assert!(
        all.stdin.contains(r#""prompt":"héllo"}"#) && all.runs.len() == 1 && all.runs[0].answered.is_none()
    );
    assert!(all.decision.is_none() && !dir.path().join("made").exists());
    let done = hooks("explain", dir.path(), &["--event", "UserPromptSubmit"]);
    assert!(done.out.contains("\ndecision: block: ") && dir.path().join("made").exists(), "{}", done.out);
    assert!(done.out.starts_with("UserPromptSubmit\nstdin: {\"session_id\":\"explained\""), "{}", done.out);
}

// C-BRIDGE-8
#[test]
fn the_folded_decision_of_each_event() {
    let print = |event: &str, fields: &str| {
        command(&format!(
            r#"cat >/dev/null; echo '{{"hookSpecificOutput":{{"hookEventName":"{event}",{fields}}}}}'"#
        ))
    };
    let one = |event: &str, hook: &str| {
        project(&format!(
            r#"{{"permissions":{{"deny":["Bash(rm:*)"],"ask":["Bash(git:*)"]}},"hooks":{{"{event}":[{{"hooks":[{hook}]}}]}}}}"#
        ))
    };
    let rewrite = print("PreToolUse", r#""permissionDecision":"allow","updatedInput":{"command":"pwd"}"#);
    let context = |event| print(event, r#""additionalContext":"ctx""#);
    for (event, hook, args, decision) in [
        ("PreToolUse", &rewrite, &["--input", r#"{"command":"rm x"}"#][..], "allow"),
        ("PreToolUse", &command("true"), &["--input", r#"{"command":"rm x"}"#], "deny"),
        ("PreToolUse", &command("true"), &["--input", r#"{"command":"git push"}"#], "ask"),
        ("PreToolUse", &command("true"), &["--input", r#"{"command":"ls"}"#], "none"),
        ("PostToolUse", &command("echo x >&2; exit 2"), &["--response", r#"{"stdout":"1"}"#], "block"),
        ("PostToolUseFailure", &context("PostToolUseFailure"), &[], "none"),
        ("Stop", &command("echo x >&2; exit 2"), &["--stop-hook-active"], "continue"),
        ("Stop", &command(r#"echo '{"continue":false}'"#), &[], "none"),
        ("SubagentStop", &context("SubagentStop"), &["--agent-type", "Explore"], "continue"),
        ("SubagentStart", &context("SubagentStart"), &[], "none"),
        ("SessionStart", &context("SessionStart"), &["--source", "resume"], "none"),
    ] {
        let dir = one(event, hook);
        let all = explained(dir.path(), &[&["--event", event], args].concat());
        assert_eq!(all.decision.as_deref(), Some(decision), "{event} {hook}");
        assert_eq!(all.runs.len(), 1);
        if hook.contains("additionalContext") && event != "SubagentStop" {
            assert!(all.runs[0].context[0].ends_with("ctx"), "{event}");
        }
        if decision == "allow" {
            assert_eq!(all.effective_input.unwrap().get(), r#"{"command":"pwd"}"#);
        }
    }
    let dir = one("Stop", &command("true"));
    for args in [
        &["--event", "Setup"][..],
        &["--event", "PreToolUse", "--input", "no"],
        &["--event", "SessionStart", "--source", "moon"],
    ] {
        let done = hooks("explain", dir.path(), args);
        assert!(done.code == Some(2) && done.out.is_empty() && !done.err.is_empty(), "{args:?}");
    }
}
