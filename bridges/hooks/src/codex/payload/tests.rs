use super::*;
use portcullis_runtime::{
    CallKey, CallPath, Cause, CauseName, Compacting, Content, EndReason, Ended, Execution, Mint, Output, Seq,
    SessionInfo, Source, StartSource, Summarised, ToolSpec, TurnEnded,
};
use std::{sync::Arc, time::Duration};

fn style(fidelity: Fidelity) -> Style<'static> {
    Style { fidelity, transcripts: Path::new("/t") }
}

fn strict() -> Style<'static> {
    style(Fidelity::Strict)
}

/// Root, subagent and its own subagent, in the second turn.
fn scenes() -> [Scene; 3] {
    let id = |name: &str| SessionId::new(name).unwrap();
    let root = SessionInfo::new(id("s-1"), "/work".into(), "test").model("gpt-5.5");
    let child = root.child(id("s-1.a"), "/work/sub".into(), "explorer".into());
    let below = child.child(id("s-1.a.b"), "/work/sub".into(), "worker".into());
    [root, child, below].map(|info| Scene::new(Arc::new(info), 2, 1, Some(Seq(7))))
}

fn root() -> Scene {
    let [root, ..] = scenes();
    root
}

fn frozen(text: &str) -> Frozen {
    Frozen::parse(text).unwrap()
}

fn spec(tool: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(tool, "", frozen(r#"{"type":"object"}"#)).unwrap())
}

fn key() -> CallKey {
    CallKey { turn: 2, step: 1, call: CallPath::top(0) }
}

fn proposed(scene: Scene, tool: &str, arguments: &str) -> Proposed {
    Proposed::new(scene, key(), "call_1".into(), spec(tool), frozen(arguments))
}

fn asking(tool: &str, arguments: &str) -> Asking {
    let arguments = frozen(arguments);
    let token = Mint::new(0).root().id();
    let call =
        Execution::new(token, None, root(), key(), "call_1".into(), spec(tool), arguments.clone(), arguments);
    Asking::new(call, Vec::new(), Vec::new(), true)
}

fn returned(tool: &str, arguments: &str, outcome: Outcome) -> Returned {
    let arguments = Some(frozen(arguments));
    let (id, name, took) = ("call_1".into(), tool.into(), Duration::from_millis(58));
    Returned::new(root(), key(), id, name, Some(spec(tool)), arguments, Arc::new(outcome), took)
}

#[track_caller]
fn reads(bytes: Vec<u8>, expected: &str) {
    let expected = expected
        .replace("{turn}", &turn_id(&SessionId::new("s-1").unwrap(), 2))
        .replace("{turn-a}", &turn_id(&SessionId::new("s-1.a").unwrap(), 2))
        .replace("{turn-b}", &turn_id(&SessionId::new("s-1.a.b").unwrap(), 2))
        .replace("{T}", "/t/rollout-");
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

// C-BRIDGE-1
#[test]
fn a_start_is_before_any_turn() {
    for source in StartSource::ALL {
        for model in [None, Some("gpt-5.5".into())] {
            reads(
                of(Event::SessionStart, At::SessionStart(&Starting::new(root(), source, model)), strict()),
                &format!(
                    r#"{{"session_id":"s-1","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"SessionStart","model":"gpt-5.5","permission_mode":"default","source":"{}"}}"#,
                    source.name()
                ),
            );
        }
    }
}

// C-BRIDGE-1
#[test]
fn a_prompt_is_its_texts_without_anything_between() {
    let content: Content =
        serde_json::from_str(r#"[{"type":"text","text":"one "},{"type":"text","text":"two"}]"#).unwrap();
    let odd = "é \"q\" \\ / \n\t\u{1}\u{7f}\u{2028}😀 <&>";
    for (content, prompt) in
        [(content, "one two"), (odd.into(), "é \\\"q\\\" \\\\ / \\n\\t\\u0001\u{7f}\u{2028}😀 <&>")]
    {
        reads(
            of(
                Event::UserPromptSubmit,
                At::UserPromptSubmit(&Submitted::new(root(), Seq(7), content, Source::User)),
                strict(),
            ),
            &format!(
                r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"UserPromptSubmit","model":"gpt-5.5","permission_mode":"default","prompt":"{prompt}"}}"#
            ),
        );
    }
    let [_, child, _] = scenes();
    reads(
        of(
            Event::UserPromptSubmit,
            At::UserPromptSubmit(&Submitted::new(child, Seq(7), "task".into(), Source::User)),
            strict(),
        ),
        r#"{"session_id":"s-1","turn_id":"{turn-a}","agent_id":"s-1.a","agent_type":"explorer","transcript_path":"{T}s-1.a.jsonl","cwd":"/work/sub","hook_event_name":"UserPromptSubmit","model":"gpt-5.5","permission_mode":"default","prompt":"task"}"#,
    );
}

// C-BRIDGE-1
#[test]
fn before_a_call() {
    const PATCH: &str = "*** Begin Patch\\n*** Add File: a\\n+x\\n*** End Patch\\n";
    let patch = format!(r#"{{"command":"{PATCH}"}}"#);
    for (tool, arguments, name, cwd, input) in [
        ("Bash", r#"{"description":"d","timeout":5,"command":"ls"}"#, "Bash", "/work", r#"{"command":"ls"}"#),
        ("exec_command", r#"{"cmd":"p\u0077d","workdir":"/usr"}"#, "Bash", "/usr", r#"{"command":"pwd"}"#),
        (
            "shell_command",
            r#"{"command":"pwd","workdir":"./a/../b"}"#,
            "Bash",
            "/work/b",
            r#"{"command":"pwd"}"#,
        ),
        // An argument of another tool that is called so is nobody's directory.
        ("note", r#"{"workdir":"/usr"}"#, "note", "/work", r#"{"workdir":"/usr"}"#),
        ("shell", r#"{"command":["ls","-l"]}"#, "Bash", "/work", r#"{"command":["ls","-l"]}"#),
        ("apply_patch", &patch.replace("command", "input"), "apply_patch", "/work", &patch),
        (
            "Write",
            r#"{"content":"x","file_path":"a b"}"#,
            "Write",
            "/work",
            r#"{"content":"x","file_path":"a b"}"#,
        ),
        (
            "Edit",
            r#"{ "file_path" : "f", "old_string":"a","new_string":"b"}"#,
            "Edit",
            "/work",
            r#"{"file_path":"f","old_string":"a","new_string":"b"}"#,
        ),
        (
            "spawn_agent",
            r#"{"message":"go","agent_type":"default"}"#,
            "spawn_agent",
            "/work",
            r#"{"message":"go","agent_type":"default"}"#,
        ),
        (
            "mcp__srv__echo",
            r#"{"10":[],"2":{},"a":{"c":null,"b":[true,"\u002f\u00e9"]}}"#,
            "mcp__srv__echo",
            "/work",
            r#"{"10":[],"2":{},"a":{"c":null,"b":[true,"/é"]}}"#,
        ),
        ("get_goal", "{}", "get_goal", "/work", "{}"),
    ] {
        reads(
            of(Event::PreToolUse, At::PreToolUse(&proposed(root(), tool, arguments)), strict()),
            &format!(
                r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"{cwd}","hook_event_name":"PreToolUse","model":"gpt-5.5","permission_mode":"default","tool_name":"{name}","tool_input":{input},"tool_use_id":"call_1"}}"#
            ),
        );
    }
    let [_, _, below] = scenes();
    reads(
        of(Event::PreToolUse, At::PreToolUse(&proposed(below, "Bash", r#"{"command":"ls"}"#)), strict()),
        r#"{"session_id":"s-1","turn_id":"{turn-b}","agent_id":"s-1.a.b","agent_type":"worker","transcript_path":"{T}s-1.a.b.jsonl","cwd":"/work/sub","hook_event_name":"PreToolUse","model":"gpt-5.5","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"call_1"}"#,
    );
}

// C-BRIDGE-2
#[test]
fn numbers_are_as_the_clients_library_writes_them_and_integers_exact() {
    for (literal, strict, exact) in [
        ("0", "0", "0"),
        ("-0", "-0.0", "-0.0"),
        ("1.0", "1.0", "1.0"),
        ("1e3", "1000.0", "1000.0"),
        ("1E5", "100000.0", "100000.0"),
        ("1.50", "1.5", "1.5"),
        ("1e-7", "1e-7", "1e-7"),
        ("1e21", "1e+21", "1e+21"),
        ("9007199254740993", "9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551616", "18446744073709551616", "1.8446744073709552e+19"),
        ("-9223372036854775809", "-9223372036854775809", "-9.223372036854776e+18"),
    ] {
        for (style, number) in [(style(Fidelity::Strict), strict), (style(Fidelity::Exact), exact)] {
            let arguments = format!(r#"{{"n":[{literal}]}}"#);
            let read =
                of(Event::PreToolUse, At::PreToolUse(&proposed(root(), "mcp__db__query", &arguments)), style);
            let read = String::from_utf8(read).unwrap();
            assert!(read.contains(&format!(r#""tool_input":{{"n":[{number}]}},"#)), "{literal}: {read}");
        }
    }
}

// C-BRIDGE-1
#[test]
fn a_question_names_no_call_and_says_why_a_command_is_asked_for() {
    for (tool, arguments, name, input) in [
        ("Bash", r#"{"command":"rm x"}"#, "Bash", r#"{"command":"rm x"}"#),
        (
            "Bash",
            r#"{"description":"tidy","command":"rm x"}"#,
            "Bash",
            r#"{"command":"rm x","description":"tidy"}"#,
        ),
        (
            "exec_command",
            r#"{"cmd":"rm x","justification":"need it"}"#,
            "Bash",
            r#"{"command":"rm x","description":"need it"}"#,
        ),
        (
            "apply_patch",
            r#"{"input":"*** Begin Patch\n*** End Patch\n"}"#,
            "apply_patch",
            r#"{"command":"*** Begin Patch\n*** End Patch"}"#,
        ),
        ("note", r#"{"description":"d"}"#, "note", r#"{"description":"d"}"#),
    ] {
        reads(
            of(Event::PermissionRequest, At::PermissionRequest(&asking(tool, arguments)), strict()),
            &format!(
                r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"PermissionRequest","model":"gpt-5.5","permission_mode":"default","tool_name":"{name}","tool_input":{input}}}"#
            ),
        );
    }
}

// C-BRIDGE-1
#[test]
fn behind_a_call() {
    let data = |text: &str, value: &str| Output::text(text).with_value(frozen(value));
    for (tool, outcome, response) in [
        ("Bash", Outcome::completed("hi\n"), r#""hi\n""#),
        ("Bash", Outcome::completed(data("hi", r#"{"stdout":"hi","stderr":""}"#)), r#""hi""#),
        (
            "Bash",
            Outcome::tool_error(data("Exit code 3\nout\nerr", r#"{"stdout":"out","stderr":"err"}"#)),
            r#""out\nerr""#,
        ),
        ("Bash", Outcome::completed(data("x", r#"{"stdout":"","stderr":"err\n"}"#)), r#""err\n""#),
        ("Bash", Outcome::completed(data("x", "\"raw\\n\"")), r#""raw\n""#),
        ("Bash", Outcome::completed(data("x", r#"{"code":1}"#)), r#""x""#),
        ("apply_patch", Outcome::completed(data("Success", r#"{"files":["a"]}"#)), r#""Success""#),
        ("mcp__s__t", Outcome::completed("hello"), r#"{"content":[{"type":"text","text":"hello"}]}"#),
        (
            "mcp__s__t",
            Outcome::completed(data(
                "hello",
                r#"{"content":[{"type":"text","text":"hello"}],"structuredContent":{"ok":true}}"#,
            )),
            r#"{"content":[{"type":"text","text":"hello"}],"structuredContent":{"ok":true}}"#,
        ),
        (
            "mcp__s__t",
            Outcome::completed(data("hello", r#"[{"type":"text","text":"hello"}]"#)),
            r#"{"content":[{"type":"text","text":"hello"}]}"#,
        ),
        (
            "mcp__s__t",
            Outcome::completed(data("hello", r#"{"ok":true}"#)),
            r#"{"content":[{"type":"text","text":"hello"}],"structuredContent":{"ok":true}}"#,
        ),
        ("get_goal", Outcome::completed(data("none", r#"{"goal":null}"#)), r#"{"goal":null}"#),
        ("spawn_agent", Outcome::completed(r#"{"agent_id":"x"}"#), r#""{\"agent_id\":\"x\"}""#),
    ] {
        reads(
            of(Event::PostToolUse, At::PostToolUse(&returned(tool, r#"{"command":"c"}"#, outcome)), strict()),
            &format!(
                r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"PostToolUse","model":"gpt-5.5","permission_mode":"default","tool_name":"{tool}","tool_input":{{"command":"c"}},"tool_response":{response},"tool_use_id":"call_1"}}"#
            ),
        );
    }
    // What was no object has no arguments to read.
    let refused = Outcome::ended(Ended::InvalidArguments { message: "no".into() });
    let nothing = Returned::new(
        root(),
        key(),
        "call_1".into(),
        "Bash".into(),
        None,
        None,
        Arc::new(refused),
        Duration::ZERO,
    );
    assert!(
        String::from_utf8(of(Event::PostToolUse, At::PostToolUse(&nothing), strict()))
            .unwrap()
            .contains(r#""tool_input":{},"tool_response":"#)
    );
}

// C-BRIDGE-1
#[test]
fn around_a_compaction() {
    let at = |event: &str| {
        format!(
            r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"{event}","model":"gpt-5.5","trigger":"auto"}}"#
        )
    };
    reads(
        of(Event::PreCompact, At::PreCompact(&Compacting::new(root(), 1500, 1000, 4)), strict()),
        &at("PreCompact"),
    );
    reads(
        of(Event::PostCompact, At::PostCompact(&Summarised::new(root(), "sum".into())), strict()),
        &at("PostCompact"),
    );
    let [_, child, _] = scenes();
    reads(
        of(Event::PreCompact, At::PreCompact(&Compacting::new(child, 1500, 1000, 4)), strict()),
        r#"{"session_id":"s-1","turn_id":"{turn-a}","agent_id":"s-1.a","agent_type":"explorer","transcript_path":"{T}s-1.a.jsonl","cwd":"/work/sub","hook_event_name":"PreCompact","model":"gpt-5.5","trigger":"auto"}"#,
    );
}

// C-BRIDGE-1
#[test]
fn a_turn_that_stops_and_one_that_is_cancelled() {
    for (forced, last, active, message) in
        [(0, "done", false, "\"done\""), (1, "again", true, "\"again\""), (3, "", true, "null")]
    {
        reads(
            of(Event::Stop, At::Stop(&Ending::new(root(), 0, last.into()).forced_in_turn(forced)), strict()),
            &format!(
                r#"{{"session_id":"s-1","turn_id":"{{turn}}","transcript_path":"{{T}}s-1.jsonl","cwd":"/work","hook_event_name":"Stop","model":"gpt-5.5","permission_mode":"default","stop_hook_active":{active},"last_assistant_message":{message}}}"#
            ),
        );
    }
    let mut scene = root();
    scene.step = 0;
    let cancelled = EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) };
    reads(
        of(Event::Interrupt, At::TurnEnd(&TurnEnded::new(scene, cancelled)), strict()),
        r#"{"session_id":"s-1","turn_id":"{turn}","transcript_path":"{T}s-1.jsonl","cwd":"/work","hook_event_name":"Interrupt","model":"gpt-5.5","permission_mode":"default"}"#,
    );
}

// C-BRIDGE-1
#[test]
fn a_subagent_starts_with_its_own_conversation_and_stops_with_its_parents() {
    let [_, child, below] = scenes();
    reads(
        of(
            Event::SubagentStart,
            At::SubagentStart(&ChildStarting::new(child.clone(), Some("gpt-5.2-codex".into()))),
            strict(),
        ),
        r#"{"session_id":"s-1","turn_id":"{turn-a}","transcript_path":"{T}s-1.a.jsonl","cwd":"/work/sub","hook_event_name":"SubagentStart","model":"gpt-5.2-codex","permission_mode":"default","agent_id":"s-1.a","agent_type":"explorer"}"#,
    );
    reads(
        of(Event::SubagentStop, At::Stop(&Ending::new(child, 0, "found".into())), strict()),
        r#"{"session_id":"s-1","turn_id":"{turn-a}","transcript_path":"{T}s-1.jsonl","agent_transcript_path":"{T}s-1.a.jsonl","cwd":"/work/sub","hook_event_name":"SubagentStop","model":"gpt-5.5","permission_mode":"default","stop_hook_active":false,"agent_id":"s-1.a","agent_type":"explorer","last_assistant_message":"found"}"#,
    );
    reads(
        of(Event::SubagentStop, At::Stop(&Ending::new(below, 1, "".into())), strict()),
        r#"{"session_id":"s-1","turn_id":"{turn-b}","transcript_path":"{T}s-1.a.jsonl","agent_transcript_path":"{T}s-1.a.b.jsonl","cwd":"/work/sub","hook_event_name":"SubagentStop","model":"gpt-5.5","permission_mode":"default","stop_hook_active":true,"agent_id":"s-1.a.b","agent_type":"worker","last_assistant_message":null}"#,
    );
}

// C-BRIDGE-1
#[test]
fn an_end_is_behind_every_turn() {
    reads(
        of(Event::SessionEnd, At::SessionEnd(&SessionEnded::new(root())), strict()),
        r#"{"session_id":"s-1","transcript_path":"{T}s-1.jsonl","cwd":"/work","hook_event_name":"SessionEnd","reason":"other"}"#,
    );
}

#[test]
fn a_turn_has_one_name_and_no_other_turn_has_it() {
    let id = |name: &str| SessionId::new(name).unwrap();
    assert_eq!(turn_id(&id("s-1"), 2), turn_id(&id("s-1"), 2));
    let all = [turn_id(&id("s-1"), 2), turn_id(&id("s-1"), 3), turn_id(&id("s-2"), 2)];
    assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    for name in all {
        let parts: Vec<usize> = name.split('-').map(str::len).collect();
        assert_eq!((&parts[..], name.as_bytes()[14]), (&[8, 4, 4, 4, 12][..], b'8'), "{name}");
    }
}

// C-BRIDGE-1: a folder that the tool does not heed is not where its command runs.
#[test]
fn a_call_is_for_the_folder_that_its_tool_heeds() {
    for (properties, cwd) in
        [("", "/safe"), (r#""command":{}"#, "/work"), (r#""command":{},"workdir":{}"#, "/safe")]
    {
        let schema = frozen(&format!(r#"{{"type":"object","properties":{{{properties}}}}}"#));
        let spec = Arc::new(ToolSpec::new("shell", "", schema).unwrap());
        let arguments = frozen(r#"{"command":"rm -rf *","workdir":"/safe"}"#);
        let call = Proposed::new(root(), key(), "call_1".into(), spec, arguments);
        let bytes = of(Event::PreToolUse, At::PreToolUse(&call), strict());
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&format!(r#""cwd":"{cwd}""#)), "{properties}: {text}");
    }
}
