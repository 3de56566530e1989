//! What hooks find while a session runs: its transcript, and a way to be heard late.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::{ffi::OsStr, fs, path::Path, process::Command};
use tempfile::TempDir;

fn project(script: &str, settings: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join(".claude")).unwrap();
    fs::write(dir.path().join("model.json"), script).unwrap();
    fs::write(dir.path().join(".claude/settings.json"), settings).unwrap();
    dir
}

fn run(dir: &Path) -> String {
    portcullis(&["run".as_ref(), dir.as_os_str()])
}

fn portcullis(args: &[&OsStr]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(args).env("PORTCULLIS", env!("CARGO_BIN_EXE_portcullis"));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn hook(event: &str, command: &str, more: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(r#""{event}":[{{"hooks":[{{"type":"command","command":{command}{more}}}]}}]"#)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    parent_uuid: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    message: Message,
    #[serde(default)]
    is_meta: bool,
    uuid: String,
    timestamp: String,
    cwd: String,
    session_id: String,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Box<RawValue>,
}

fn lines(text: &str) -> Vec<Line> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

// C-BRIDGE-1
#[test]
fn the_transcript_can_be_read_while_the_session_runs() {
    let script = r#"{"turns":[{"prompt":"go","steps":[
        {"reasoning":"hm","text":"Let me look.","calls":[{"id":"c1","name":"Bash","input":{"command":"echo hé"}}],"usage":{"input":3,"output":4}},
        {"text":"Done."}]}]}"#;
    let copy = r#"cp "$(sed 's/.*"transcript_path":"\([^"]*\)".*/\1/')" copy"#;
    let context = r#"echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"mind the accent"}}'"#;
    let settings =
        format!("{{\"hooks\":{{{},{}}}}}", hook("Stop", copy, ""), hook("PostToolUse", context, ""));
    let dir = project(script, &settings);
    run(dir.path());
    let seen = fs::read_to_string(dir.path().join("copy")).unwrap();
    let place = dir.path().canonicalize().unwrap();
    let file = fs::read_to_string(place.join(".portcullis/transcripts/run-1.jsonl")).unwrap();
    assert_eq!(file, seen);
    let lines = lines(&seen);
    let said: Vec<(&str, bool, &str)> =
        lines.iter().map(|line| (&*line.kind, line.is_meta, line.message.content.get())).collect();
    assert_eq!(
        said,
        [
            ("user", false, r#""go""#),
            (
                "assistant",
                false,
                r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Let me look."},{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"echo hé"}}]"#
            ),
            ("user", false, r#"[{"tool_use_id":"c1","type":"tool_result","content":"hé","is_error":false}]"#),
            ("user", true, r#""PostToolUse:Bash hook additional context: mind the accent""#),
            ("assistant", false, r#"[{"type":"text","text":"Done."}]"#),
        ]
    );
    assert!(seen.contains(r#""usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}"#));
    let mut parent = None;
    for line in &lines {
        assert_eq!(line.parent_uuid, parent);
        assert_eq!(line.uuid.len(), 36);
        parent = Some(line.uuid.clone());
        assert_eq!(
            (&*line.message.role, &*line.session_id, &*line.cwd),
            (&*line.kind, "run-1", place.to_str().unwrap())
        );
        assert!(line.timestamp.ends_with('Z') && line.timestamp.len() == 24, "{}", line.timestamp);
    }
}

// C-LOG-3, C-LOG-7
#[test]
fn a_background_hook_is_heard_in_a_later_request() {
    let script = r#"{"turns":[
        {"prompt":"one","steps":[{"calls":[{"name":"Bash","input":{"command":"true"}}]},{"expect":{"excludes":"from the background"},"text":"First."}]},
        {"prompt":"two","steps":[{"expect":{"contains":"from the background"},"text":"Second."}]}]}"#;
    let late = r#"while [ ! -e go ]; do sleep 0.05; done
        echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"from the background"}}'"#;
    // The first turn lets it speak when its own model has said all, and ends once it was heard.
    let stop = r#"touch go
        until "$PORTCULLIS" log "$CLAUDE_PROJECT_DIR" run-1 --json | grep -q '"kind":"hook"'; do sleep 0.1; done"#;
    let settings = format!(
        "{{\"hooks\":{{{},{}}}}}",
        hook("PostToolUse", late, r#","async":true"#),
        hook("Stop", stop, "")
    );
    let dir = project(script, &settings);
    run(dir.path());
    let file = fs::read_to_string(dir.path().join(".portcullis/transcripts/run-1.jsonl")).unwrap();
    let heard: Vec<Line> = lines(&file).into_iter().filter(|line| line.is_meta).collect();
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].message.content.get(), r#""from the background""#);
}

// C-BRIDGE-1, C-SUB-1: hooks that ask are answered by the session's own model, and by an agent whose log is exported with it.
#[test]
fn hooks_ask_the_sessions_model_and_an_agent() {
    let script = r#"{
        "turns":[{"prompt":"one","steps":[{"calls":[{"name":"Bash","input":{"command":"touch ran"}}]},{"text":"Done."}]}],
        "asides":[
            {"contains":["MAY THE CALL","touch ran"],"steps":[{"calls":[{"name":"Bash","input":{"command":"touch looked"}}]},{"text":"{\"ok\":true}"}]},
            {"contains":"MAY IT STOP","steps":[{"text":"{\"ok\":true}","usage":{"input":5,"output":2}}]}]}"#;
    let settings = r#"{"hooks":{
        "PreToolUse":[{"hooks":[{"type":"agent","prompt":"MAY THE CALL BE MADE?"}]}],
        "Stop":[{"hooks":[{"type":"prompt","prompt":"MAY IT STOP?"}]}]}}"#;
    let dir = project(script, settings);
    run(dir.path());
    assert!(dir.path().join("looked").exists() && dir.path().join("ran").exists());
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.args(["log", "export", "--tree"]).arg(dir.path()).arg("run-1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = text.lines().filter(|line| line.contains("\"hook/result\"")).collect::<Vec<_>>();
    assert_eq!(said.len(), 2, "no hook ran in the agent");
    assert!(said[0].contains("\"agent\":\"run-1.1-1-hook-"), "{}", said[0]);
    assert!(said[1].contains("\"usage\":{\"input\":5,\"output\":2}"), "{}", said[1]);
    assert!(text.lines().any(|line| line.contains("touch looked")), "the agent's log is there");
}

// C-BRIDGE-1, C-DUR-2: what a session's start hook exports is there in its commands, also when another process goes on with it, for
// which that hook does not run. The log has none of it.
#[test]
fn what_a_start_hook_exports_is_in_the_environment_of_later_commands() {
    let script = |prompts: &[(&str, &str)]| {
        let turn = |(prompt, expected): &(&str, &str)| {
            format!(
                r#"{{"prompt":"{prompt}","steps":[{{"calls":[{{"name":"Bash","input":{{"command":"[ x$TOKEN = x$(cat secret) ] && r=there || r=missing; echo it-is-$r"}}}}]}},
                {{"expect":{{"contains":"{expected}"}},"text":"Done."}}]}}"#
            )
        };
        format!(r#"{{"turns":[{}]}}"#, prompts.iter().map(turn).collect::<Vec<_>>().join(","))
    };
    let export = r#"echo "export TOKEN='$(cat secret)'" >> "$CLAUDE_ENV_FILE"; echo once >> started"#;
    let start = hook("SessionStart", export, "").replace(r#"[{"hooks""#, r#"[{"matcher":"startup","hooks""#);
    let dir = project(&script(&[("one", "it-is-there")]), &format!("{{\"hooks\":{{{start}}}}}"));
    let dir = dir.path();
    fs::write(dir.join("secret"), "s3cret-of-mine").unwrap();
    run(dir);
    fs::write(dir.join("model.json"), script(&[("one", "it-is-there"), ("two", "it-is-there")])).unwrap();
    portcullis(&["run".as_ref(), dir.as_os_str(), "--session".as_ref(), "run-1".as_ref()]);
    assert_eq!(fs::read_to_string(dir.join("started")).unwrap(), "once\n");
    let log = portcullis(&["log".as_ref(), dir.as_os_str(), "run-1".as_ref(), "--json".as_ref()]);
    let results =
        log.lines().filter(|line| line.contains(r#""tool/result""#) && line.contains("it-is-there"));
    assert_eq!(results.count(), 2, "{log}");
    assert!(!log.contains("s3cret"), "{log}");
    // Another session has its own.
    fs::write(dir.join(".claude/settings.json"), "{}").unwrap();
    fs::write(dir.join("model.json"), script(&[("other", "it-is-missing")])).unwrap();
    run(dir);
}
