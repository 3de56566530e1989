//! The bytes a hook reads, and the environment and place it runs in.

mod support;

use portcullis_hooks::{Fidelity, Layers, PluginLayer};
use portcullis_runtime::*;
use std::fs;
use support::Project;

const KEEP: &str = "cat > \"$CLAUDE_PROJECT_DIR/seen\"";

/// Puts this project's own places into an expected text.
fn placed(project: &Project, text: &str) -> String {
    text.replace("{P}", project.dir.path().to_str().unwrap())
}

fn base(event: &str, prompt: bool) -> String {
    let prompt = if prompt {
        r#""prompt_id":"256f4b03-a400-826b-b525-0cf206e53c4e","permission_mode":"default","#
    } else {
        ""
    };
    format!(
        r#"{{"session_id":"s-1","transcript_path":"{{P}}/.portcullis/transcripts/s-1.jsonl","cwd":"{{P}}",{prompt}"hook_event_name":"{event}""#
    )
}

/// Only a compaction has a prompt behind it, and no start has a permission mode.
fn start_base(source: StartSource) -> String {
    match source {
        StartSource::Compact => base("SessionStart", true).replace(r#""permission_mode":"default","#, ""),
        _ => base("SessionStart", false),
    }
}

// C-BRIDGE-1
#[test]
fn session_start() {
    for (source, rest) in [
        (StartSource::Startup, r#""startup""#),
        (StartSource::Resume, r#""resume""#),
        (StartSource::Clear, r#""clear""#),
        (StartSource::Compact, r#""compact","model":"M""#),
    ] {
        let project = Project::hook("SessionStart", KEEP);
        assert_eq!(project.start(source).invoked.len(), 1);
        let expected = format!("{},\"source\":{rest}}}\n", start_base(source));
        assert_eq!(project.read("seen"), placed(&project, &expected));
    }
}

// C-BRIDGE-1
#[test]
fn user_prompt_submit() {
    let project = Project::hook("UserPromptSubmit", KEEP);
    project.submit("say \"é\" \u{1}\u{7f}\u{2028}😀 </b>\\\n");
    let expected = format!(
        "{},\"prompt\":\"say \\\"é\\\" \\u0001\u{7f}\u{2028}😀 </b>\\\\\\n\"}}\n",
        base("UserPromptSubmit", true)
    );
    assert_eq!(project.read("seen"), placed(&project, &expected));
}

// C-BRIDGE-1
#[test]
fn pre_tool_use() {
    let cases = [
        // A tool of the client: its schema's order, whatever the model's; unknown arguments last.
        (
            "Bash",
            r#"{"extra":1,"description":"d","run_in_background":false,"command":"ls","timeout":5000}"#,
            r#"{"command":"ls","timeout":5000,"description":"d","run_in_background":false,"extra":1}"#,
        ),
        (
            "Edit",
            r#"{"new_string":"b","old_string":"a","file_path":"f.txt"}"#,
            r#"{"file_path":"{P}/f.txt","old_string":"a","new_string":"b","replace_all":false}"#,
        ),
        (
            "Write",
            r#"{"content":"x","file_path":"./a/../é b.txt"}"#,
            r#"{"file_path":"{P}/é b.txt","content":"x"}"#,
        ),
        ("Read", r#"{"limit":3,"file_path":"/etc//hosts"}"#, r#"{"file_path":"/etc/hosts","limit":3}"#),
        ("Glob", r#"{"path":"src","pattern":"*.rs"}"#, r#"{"pattern":"*.rs","path":"src"}"#),
        // Any other: the model's order, but for keys that are array indices.
        (
            "mcp__srv__check",
            r#"{"z":1.0,"10":"ten","2":"two","a":1e21,"b":1e-7,"neg0":-0,"m":{"b":1,"7":[null,"\u002f\u00e9"]}}"#,
            r#"{"2":"two","10":"ten","z":1,"a":1e+21,"b":1e-7,"neg0":0,"m":{"7":[null,"/é"],"b":1}}"#,
        ),
        ("Custom", "{}", "{}"),
    ];
    for (tool, arguments, input) in cases {
        let project = Project::hook("PreToolUse", KEEP);
        project.pre(tool, arguments);
        let expected = format!(
            "{},\"tool_name\":\"{tool}\",\"tool_input\":{input},\"tool_use_id\":\"call-1\"}}\n",
            base("PreToolUse", true)
        );
        assert_eq!(project.read("seen"), placed(&project, &expected));
    }
}

// C-BRIDGE-2
#[test]
fn large_integers_are_exact_or_as_in_javascript() {
    for (fidelity, number) in [(Fidelity::Strict, "9007199254740993"), (Fidelity::Exact, "9007199254740992")]
    {
        let project = Project::hook("PreToolUse", KEEP).options(|o| o.fidelity(fidelity));
        project.pre("mcp__db__query", r#"{"id":9007199254740993}"#);
        assert!(project.read("seen").contains(&format!("\"tool_input\":{{\"id\":{number}}}")));
    }
}

#[test]
fn the_old_name_of_a_tool_is_reported_as_the_new_one() {
    let project = Project::hook("PreToolUse", KEEP);
    project.pre("Task", r#"{"prompt":"p","description":"d"}"#);
    assert!(
        project.read("seen").contains(r#""tool_name":"Agent","tool_input":{"description":"d","prompt":"p"}"#)
    );
}

// C-BRIDGE-1
#[test]
fn post_tool_use() {
    let value = Frozen::parse(r#"{"stdout":"hi","stderr":"","interrupted":false}"#).unwrap();
    let cases = [
        ("Bash", Output::text("hi").with_value(value), r#"{"stdout":"hi","stderr":"","interrupted":false}"#),
        ("Note", Output::text("plain\n"), r#""plain\n""#),
        ("mcp__srv__echo", Output::text("hello"), r#"[{"type":"text","text":"hello"}]"#),
    ];
    for (tool, output, response) in cases {
        let project = Project::hook("PostToolUse", KEEP);
        project.post(tool, r#"{"command":"echo hi"}"#, Outcome::completed(output));
        let expected = format!(
            "{},\"tool_name\":\"{tool}\",\"tool_input\":{{\"command\":\"echo hi\"}},\"tool_response\":{response},\"tool_use_id\":\"call-1\",\"duration_ms\":58}}\n",
            base("PostToolUse", true)
        );
        assert_eq!(project.read("seen"), placed(&project, &expected));
    }
}

// C-BRIDGE-1
#[test]
fn post_tool_use_failure() {
    let cancelled = Outcome::ended(Ended::Cancelled { cause: CauseName(Cause::User) });
    for (outcome, error, interrupt) in [
        (Outcome::tool_error("Exit code 7\nERR"), "Exit code 7\\nERR", false),
        (cancelled.clone(), &*cancelled.for_model().0.to_text(), true),
    ] {
        let project = Project::hook("PostToolUseFailure", KEEP);
        project.post("Bash", r#"{"command":"false"}"#, outcome);
        let expected = format!(
            "{},\"tool_name\":\"Bash\",\"tool_input\":{{\"command\":\"false\"}},\"tool_use_id\":\"call-1\",\"error\":\"{error}\",\"is_interrupt\":{interrupt},\"duration_ms\":58}}\n",
            base("PostToolUseFailure", true)
        );
        assert_eq!(project.read("seen"), placed(&project, &expected));
    }
}

#[test]
fn calls_that_never_ran_have_no_hook_after_them() {
    let everything = r#"{"hooks":{"PostToolUse":[{"hooks":[{"type":"command","command":"true"}]}],"PostToolUseFailure":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;
    let project = Project::new(everything);
    let by = HandlerId::new("x", "y");
    for ended in [
        Ended::UnknownTool,
        Ended::InvalidArguments { message: "no".into() },
        Ended::HookDeny { by: by.clone(), reason: "no".into() },
        Ended::GuardDeny { by, reason: "no".into() },
        Ended::ApprovalExpired,
    ] {
        assert!(project.post("Bash", "{}", Outcome::ended(ended)).decisions.is_empty());
    }
    assert_eq!(project.post("Bash", "{}", Outcome::completed("x")).invoked[0].event, "PostToolUse");
    assert_eq!(project.post("Bash", "{}", Outcome::tool_error("x")).invoked[0].event, "PostToolUseFailure");
}

// C-BRIDGE-1
#[test]
fn stop() {
    for (forced, active) in [(0, false), (1, true), (7, true)] {
        let project = Project::hook("Stop", KEEP);
        project.stop(forced, "done");
        let expected = format!(
            "{},\"stop_hook_active\":{active},\"last_assistant_message\":\"done\",\"background_tasks\":[],\"session_crons\":[]}}\n",
            base("Stop", true)
        );
        assert_eq!(project.read("seen"), placed(&project, &expected));
    }
}

#[test]
fn before_any_prompt_there_is_no_prompt_id() {
    let project = Project::hook("Stop", KEEP);
    let mut scene = project.scene();
    scene.prompt = None;
    project.dispatch::<TurnContinuation>(Ending::new(scene, 0, "x".into()));
    assert!(!project.read("seen").contains("prompt_id"));
}

// C-BRIDGE-1
#[test]
fn environment_and_directory() {
    let project = Project::new(
        r#"{"env":{"FROM_FILE":"one","BOTH":"file"},
            "hooks":{"Stop":[{"hooks":[{"type":"command","command":"env > seen; pwd -P > place; ps -o args= -p $$ > shell"}]}]}}"#,
    )
    .options(|o| o.env("BOTH", "host"));
    project.stop(0, "");
    let seen = project.read("seen");
    let has = |line: &str| seen.lines().any(|found| found == line);
    let dir = project.path();
    assert!(has(&format!("CLAUDE_PROJECT_DIR={}", dir.display())));
    assert!(has("CLAUDECODE=1") && has("CLAUDE_CODE_SESSION_ID=s-1"));
    assert!(has(&format!("CLAUDE_PID={}", std::process::id())));
    assert!(has("FROM_FILE=one") && has("BOTH=host"));
    assert!(has(&format!("PWD={}", dir.display())));
    assert!(std::env::var_os("PATH").is_some() && seen.contains("PATH="));
    for absent in ["CLAUDE_ENV_FILE=", "CLAUDE_PLUGIN_ROOT=", "CLAUDE_EFFORT="] {
        assert!(!seen.lines().any(|line| line.starts_with(absent)), "{absent}");
    }
    assert_eq!(project.read("place").trim(), fs::canonicalize(&dir).unwrap().to_str().unwrap());
}

#[test]
fn a_session_elsewhere_runs_its_hooks_there_and_a_vanished_directory_stops_nothing() {
    let project =
        Project::hook("Stop", "pwd -P > \"$CLAUDE_PROJECT_DIR/place\"; cat > \"$CLAUDE_PROJECT_DIR/seen\"");
    let root = fs::canonicalize(project.path()).unwrap();
    let sub = root.join("sub");
    fs::create_dir(&sub).unwrap();
    for (cwd, place) in [(sub.clone(), sub), (root.join("gone"), root.clone())] {
        let session = SessionInfo::new(SessionId::new("s-1").unwrap(), cwd.clone(), "test");
        let scene = Scene::new(session.into(), 1, 1, None);
        project.dispatch::<TurnContinuation>(Ending::new(scene, 0, "".into()));
        assert_eq!(project.read("place").trim(), place.to_str().unwrap());
        assert!(project.read("seen").contains(&format!("\"cwd\":\"{}\"", cwd.display())));
    }
}

#[test]
fn exec_form_starts_the_program_without_a_shell() {
    let project = Project::with(
        "Stop",
        "sh",
        r#","args":["-c","printf '%s\\n' \"$@\" > argv","sh","a b","$HOME","${CLAUDE_PROJECT_DIR}/x","`id`","*"]"#,
    );
    let seen = project.stop(0, "");
    assert_eq!(seen.results[0].exit, Some(0));
    assert!(
        seen.invoked[0].command.as_deref().unwrap().ends_with("sh a b $HOME ${CLAUDE_PROJECT_DIR}/x `id` *")
    );
    assert_eq!(project.read("argv"), placed(&project, "a b\n$HOME\n{P}/x\n`id`\n*\n"));
    // Even an empty list means: no shell. There is no program with such a name.
    let project = Project::with("Stop", "echo hi > made", r#","args":[]"#);
    let seen = project.stop(0, "");
    assert!(
        seen.results[0].exit.is_none() && seen.results[0].error.as_deref().unwrap().contains("not found")
    );
    assert!(!project.path().join("made").exists());
}

// A folder's name must not become code.
#[test]
fn a_plugin_knows_its_root_by_the_environment_alone() {
    let project = Project::new("{}");
    let root = project.path().join("plug $(touch pwned) in");
    fs::create_dir_all(root.join("hooks")).unwrap();
    fs::write(root.join("gate.sh"), "echo \"root: $1 $CLAUDE_PLUGIN_DATA\" >&2; exit 2").unwrap();
    fs::write(
        root.join("hooks/hooks.json"),
        r#"{"description":"d","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[
            {"type":"command","command":"sh \"${CLAUDE_PLUGIN_ROOT}/gate.sh\" shell"},
            {"type":"command","command":"sh","args":["${CLAUDE_PLUGIN_ROOT}/gate.sh","exec"]}]}]}}"#,
    )
    .unwrap();
    let plugin = PluginLayer::new("plug", &root).data("/data");
    let project = project.options(|o| o.layers(Layers::none().plugin(plugin)));
    let seen = project.pre("Bash", r#"{"command":"ls"}"#);
    let reasons: Vec<_> = seen.decisions.iter().map(|d| support::gate(d).1.unwrap().to_owned()).collect();
    assert!(
        reasons[0].contains("root: shell /data") && reasons[1].contains("root: exec /data"),
        "{reasons:?}"
    );
    assert!(!project.path().join("pwned").exists());
}
