//! One file: what voids it, what is passed over, and what becomes of a handler.

use super::*;
use crate::codex::config::{
    file::{config, hooks_json},
    handler::{Handler, Work},
};

const GOOD: &str = r#"{"type":"command","command":"good"}"#;

fn json(text: &str) -> (Vec<Handler>, Vec<Report>) {
    let mut reports = Vec::new();
    let handlers = hooks_json(Path::new("/h/hooks.json"), text, &mut reports);
    (handlers, reports)
}

fn toml(text: &str) -> (Vec<Handler>, Vec<Report>) {
    let mut reports = Vec::new();
    let config = config(Path::new("/h/config.toml"), text, false, &mut reports);
    (config.handlers, reports)
}

/// A file with a group on line 3, and a sound hook on another event.
fn with_group(event: &str, group: &str) -> String {
    format!("{{\"hooks\":{{\n \"SubagentStop\":[{{\"hooks\":[{GOOD}]}}],\n \"{event}\":[{group}]}}}}")
}

// C-BRIDGE-5
#[test]
fn a_wrong_type_anywhere_voids_the_whole_file() {
    let handler = |fields: &str| format!(r#"{{"hooks":[{GOOD},{{{fields}}}]}}"#);
    let command = |field: &str| handler(&format!(r#""type":"command","command":"x",{field}"#));
    let tool = |field: &str| handler(&format!(r#""type":"mcp_tool","server":"s","tool":"t",{field}"#));
    for group in [
        r#""Bash""#.into(),
        r#"{"matcher":5,"hooks":[]}"#.into(),
        r#"{"hooks":{}}"#.into(),
        r#"{"hooks":null}"#.into(),
        r#"{"hooks":["x"]}"#.into(),
        r#"{"matcher":"a","matcher":"b","hooks":[]}"#.into(),
        handler(r#""command":"x""#),
        handler(r#""type":"http","url":"u""#),
        handler(r#""type":7"#),
        handler(r#""type":"command""#),
        handler(r#""type":"command","command":null"#),
        handler(r#""type":"mcp_tool","server":"s""#),
        command(r#""timeout":1.5"#),
        command(r#""timeout":1.0"#),
        command(r#""timeout":-1"#),
        command(r#""timeout":"5""#),
        command(r#""async":"yes""#),
        command(r#""async":null"#),
        command(r#""statusMessage":5"#),
        command(r#""additionalContextLimit":-1"#),
        command(r#""commandWindows":"a","command_windows":"b""#),
        command(r#""commandWindows":["a"]"#),
        command(r#""command":"y""#),
        tool(r#""input":[]"#),
        tool(r#""input":{"a":null}"#),
        tool(r#""timeout":0.5"#),
    ] {
        for event in ["PreToolUse", "Stop"] {
            let (handlers, reports) = json(&with_group(event, &group));
            assert!(handlers.is_empty(), "{group}");
            assert_eq!(codes(&reports), ["hooks/file-rejected"], "{group}");
            assert_eq!(gist(&reports[0]), (Some(3), Severity::Error, true), "{}", reports[0]);
        }
    }
    for (text, said) in [
        (r#"{"PreToolUse":[]}"#, "PreToolUse"),
        (r#"{"hooks":{},"version":1}"#, "version"),
        (r#"{"hooks":{},"hooks":{}}"#, "twice"),
        (r#"{"hooks":[]}"#, "table of events"),
        (r#"{"hooks":null}"#, "table of events"),
        (r#"{"description":5,"hooks":{}}"#, "description"),
        (r#"{"hooks":{"Stop":{"hooks":[]}}}"#, "list of groups"),
        (r#"{"hooks":{"Stop":[],"Stop":[]}}"#, "twice"),
        ("[]", "object"),
    ] {
        let (handlers, reports) = json(text);
        assert!(handlers.is_empty() && reports.len() == 1, "{text}");
        let report = only(&reports, "hooks/file-rejected");
        assert!(report.message.contains(said), "{report}");
        assert_eq!(gist(report), (Some(1), Severity::Error, true));
    }
}

// C-BRIDGE-5
#[test]
fn a_file_that_is_no_json_is_ignored_and_says_so() {
    for (text, line, hint) in [
        ("{\"hooks\":{\n// mine\n}}", 2, "comment"),
        ("{\"hooks\":{},\n}", 1, "comma"),
        ("{\"hooks\":", 1, "validator"),
        ("\u{feff}{}", 1, "byte order mark"),
        ("", 1, "validator"),
    ] {
        let (handlers, reports) = json(text);
        assert!(handlers.is_empty());
        let report = only(&reports, "hooks/not-json");
        assert_eq!((report.line, report.severity), (Some(line), Severity::Error), "{report}");
        assert!(report.hint.as_deref().unwrap().contains(hint), "{report}");
    }
    let (_, reports) = toml("a = 1\n[hooks\n");
    assert_eq!(gist(only(&reports, "hooks/not-toml")), (Some(2), Severity::Error, true));
    for sound in ["{}", r#"{"description":null}"#, r#"{"description":"d","hooks":{}}"#] {
        assert_eq!(json(sound).1, [], "{sound}");
    }
}

// C-BRIDGE-5
#[test]
fn names_that_the_client_does_not_know_are_passed_over_and_named() {
    let handler = r#"{"type":"command","command":"x","timeoutSec":3,"once":true}"#;
    let text = format!(
        "{{\"hooks\":{{\"Stop\":[\n{{\"foo\":1,\"hooks\":[\n{handler}]}}],\n\"PreToolUze\":7,\n\"StopFailure\":[],\n\"PreModelRequest\":[],\n\"Frobnicate\":[]}}}}"
    );
    let (handlers, reports) = json(&text);
    assert_eq!((handlers.len(), handlers[0].timeout), (1, 600));
    let said: Vec<_> = reports.iter().map(|report| (report.code, report.line.unwrap())).collect();
    assert_eq!(
        said,
        [
            ("hooks/unknown-key", 2),
            ("hooks/unknown-key", 3),
            ("hooks/unknown-key", 3),
            ("hooks/unknown-event", 4),
            ("hooks/unknown-event", 5),
            ("hooks/event-not-run", 6),
            ("hooks/unknown-event", 7),
        ]
    );
    assert!(reports.iter().all(|report| report.severity == Severity::Warning));
    let hint = |at: usize| reports[at].hint.as_deref().unwrap_or_default();
    assert_eq!(hint(3), "did you mean PreToolUse?");
    assert!(hint(4).contains("another client"), "{}", hint(4));
    let (_, reports) =
        json(&with_group("Stop", r#"{"hooks":[{"type":"command","command":"x","Timeout":3}]}"#));
    assert_eq!(reports[0].hint.as_deref(), Some("did you mean `timeout`?"));
}

// C-BRIDGE-5
#[test]
fn what_could_do_nothing_is_dropped_alone() {
    for (event, handler, code) in [
        ("Stop", r#"{"type":"command","command":" \t"}"#, "hooks/no-command"),
        ("Stop", r#"{"type":"prompt","prompt":"x"}"#, "hooks/not-supported"),
        ("Stop", r#"{"type":"agent"}"#, "hooks/not-supported"),
        ("Stop", r#"{"type":"mcp_tool","server":" ","tool":"t"}"#, "hooks/no-command"),
        ("SessionEnd", r#"{"type":"mcp_tool","server":"s","tool":"t"}"#, "hooks/not-supported"),
    ] {
        let (handlers, reports) = json(&with_group(event, &format!(r#"{{"hooks":[{handler},{GOOD}]}}"#)));
        let report = only(&reports, code);
        assert_eq!(gist(report), (Some(3), Severity::Warning, true), "{report}");
        // The other one keeps its place, by which it is trusted.
        let place = handlers.iter().find(|one| one.event.name() == event).unwrap().place;
        assert_eq!((handlers.len(), place), (2, (0, 1)), "{handler}");
    }
    let (handlers, reports) = json(&with_group("Stop", r#"{"type":"command","command":"flat"}"#));
    assert_eq!((handlers.len(), codes(&reports)), (1, vec!["hooks/empty-group"]));
    assert!(reports[0].hint.as_deref().unwrap().contains("hooks"));
}

// C-BRIDGE-5
#[test]
fn an_invalid_matcher_drops_its_group_where_it_counts() {
    let group =
        |matcher: &str| format!(r#"{{"matcher":"{matcher}","hooks":[{GOOD},{GOOD}]}},{{"hooks":[{GOOD}]}}"#);
    for event in
        ["PreToolUse", "PermissionRequest", "PostToolUse", "PreCompact", "SessionStart", "SessionEnd"]
    {
        let (handlers, reports) = json(&with_group(event, &group("[")));
        let places: Vec<_> =
            handlers.iter().filter(|one| one.event.name() == event).map(|one| one.place).collect();
        assert_eq!(places, [(1, 0)]);
        assert_eq!(gist(only(&reports, "hooks/bad-matcher")), (Some(3), Severity::Warning, true));
    }
    for event in ["UserPromptSubmit", "Stop", "Interrupt"] {
        let (handlers, reports) = json(&with_group(event, &group("[")));
        assert_eq!((handlers.len(), reports.len()), (4, 0), "{event}");
        assert!(
            handlers
                .iter()
                .all(|handler| handler.matcher_text.is_none() && handler.matcher.matches("any", &[]))
        );
    }
    let (handlers, _) = json(&with_group("PreToolUse", &group("")));
    assert_eq!(handlers[0].matcher_text.as_deref(), Some(""), "kept, since it is hashed");
}

// C-BRIDGE-1
#[test]
fn a_time_limit_is_what_the_client_makes_of_it() {
    for (event, field, timeout, clamped) in [
        ("PreToolUse", "", 600, false),
        ("PreToolUse", r#","timeout":0"#, 1, false),
        ("PreToolUse", r#","timeout":7200"#, 7200, false),
        ("PreToolUse", r#","timeout":null"#, 600, false),
        ("SessionEnd", "", 1, false),
        ("SessionEnd", r#","timeout":0"#, 1, false),
        ("SessionEnd", r#","timeout":3"#, 3, false),
        ("SessionEnd", r#","timeout":4"#, 3, true),
        ("Interrupt", "", 1, false),
        ("Interrupt", r#","timeout":60"#, 3, true),
    ] {
        let group = format!(r#"{{"hooks":[{{"type":"command","command":"x"{field}}}]}}"#);
        let (handlers, reports) = json(&with_group(event, &group));
        let handler = handlers.iter().find(|one| one.event.name() == event).unwrap();
        assert_eq!(handler.timeout, timeout, "{event}{field}");
        assert_eq!(codes(&reports), if clamped { vec!["hooks/clamped"] } else { vec![] });
    }
}

// C-BRIDGE-1
#[test]
fn what_means_nothing_on_an_event_is_said() {
    let of = |event: &str, field: &str| {
        let group = format!(r#"{{"hooks":[{{"type":"command","command":"x",{field}}}]}}"#);
        let (handlers, reports) = json(&with_group(event, &group));
        let handler = handlers.into_iter().find(|one| one.event.name() == event).unwrap();
        (handler, codes(&reports).join(" "))
    };
    let (handler, said) = of("SessionEnd", r#""async":true"#);
    assert!(!handler.is_in_background() && said == "hooks/waited-for");
    let (handler, said) = of("Stop", r#""async":true"#);
    assert!(handler.is_in_background() && said.is_empty());
    for (event, counts) in
        [("PreToolUse", true), ("SubagentStart", true), ("Stop", false), ("PermissionRequest", false)]
    {
        let (handler, said) = of(event, r#""additionalContextLimit":0"#);
        let Work::Command { limit, .. } = handler.work else { panic!("a command") };
        assert_eq!((limit, said.is_empty()), (counts.then_some(0), counts), "{event}");
    }
}

// C-BRIDGE-1
#[test]
fn the_order_is_the_clients_and_not_the_files() {
    let events = [
        "Interrupt",
        "Stop",
        "SubagentStop",
        "SubagentStart",
        "UserPromptSubmit",
        "SessionEnd",
        "SessionStart",
    ];
    let events = events.into_iter().chain([
        "PostCompact",
        "PreCompact",
        "PostToolUse",
        "PermissionRequest",
        "PreToolUse",
    ]);
    let group = format!(r#"{{"hooks":[{GOOD},{GOOD}]}}"#);
    let text: Vec<String> = events.map(|event| format!(r#""{event}":[{group},{group}]"#)).collect();
    let (handlers, _) = json(&format!(r#"{{"hooks":{{{}}}}}"#, text.join(",")));
    let keys: Vec<String> = handlers.iter().map(|handler| handler.key("f")).collect();
    assert_eq!(keys.len(), 48);
    assert_eq!(
        keys[..4],
        ["f:pre_tool_use:0:0", "f:pre_tool_use:0:1", "f:pre_tool_use:1:0", "f:pre_tool_use:1:1"]
    );
    let firsts: Vec<&str> = keys.iter().step_by(4).map(|key| key.split(':').nth(1).unwrap()).collect();
    assert_eq!(
        firsts.join(" "),
        "pre_tool_use permission_request post_tool_use pre_compact post_compact session_start session_end \
         user_prompt_submit subagent_start subagent_stop stop interrupt"
    );
}

// C-BRIDGE-1
#[test]
fn toml_says_the_same_as_json() {
    let (from_json, _) = json(
        r#"{"hooks":{"PreToolUse":[{"matcher":"^Bash$","hooks":[
            {"type":"command","command":"a \"b\"","timeout":5,"async":true,"statusMessage":"S","additionalContextLimit":7},
            {"type":"mcp_tool","server":"s","tool":"t","input":{"b":1,"a":[1.5,{"x":"${prompt}"}]}}]}]}}"#,
    );
    let tables = "[hooks.state.x]\nenabled = false\n[[hooks.PreToolUse]]\nmatcher = '^Bash$'\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = 'a \"b\"'\ntimeout = 5\nasync = true\nstatusMessage = \"S\"\nadditionalContextLimit = 7\n[[hooks.PreToolUse.hooks]]\ntype = \"mcp_tool\"\nserver = \"s\"\ntool = \"t\"\ninput = { b = 1, a = [1.5, { x = \"${prompt}\" }] }\n";
    let inline = "[hooks]\nPreToolUse = [{ matcher = \"^Bash$\", hooks = [\n  { type = \"command\", command = 'a \"b\"', timeout = 5, async = true, statusMessage = \"S\", additionalContextLimit = 7 },\n  { type = \"mcp_tool\", server = \"s\", tool = \"t\", input = { b = 1, a = [1.5, { x = \"${prompt}\" }] } } ] }]\n";
    for text in [tables, inline] {
        let (from_toml, reports) = toml(text);
        assert_eq!(reports, []);
        let identities = |all: &[Handler]| all.iter().map(Handler::identity).collect::<Vec<_>>();
        assert_eq!(identities(&from_toml), identities(&from_json));
    }
    assert_eq!(toml(tables).0.iter().map(|one| one.line).collect::<Vec<_>>(), [5, 12]);
    let (handlers, reports) = toml("model = 'm'\n[[hooks.Stop]]\nmatcher = 5\n");
    assert!(handlers.is_empty());
    assert_eq!(gist(only(&reports, "hooks/file-rejected")), (Some(3), Severity::Error, true));
}

// C-BRIDGE-1: what the client's hash is of was recorded; these are of other hooks, and their hashes were computed apart from this code.
#[test]
fn a_handler_has_the_hash_that_the_client_gives_it() {
    for (event, group, hash) in [
        (
            "UserPromptSubmit",
            r#"{"matcher":"unheard","hooks":[{"type":"command","command":"./note.sh"}]}"#,
            "a4eabe4e19fd7c0c40bf32c75f3f0abf65c69b7b49aeaa52bc48285cf67c75e2",
        ),
        (
            "PreToolUse",
            r#"{"matcher":"Bash","hooks":[{"type":"command","command":"./gate.sh","commandWindows":"gate.bat"}]}"#,
            "cc69f77b52ebe56557f7470ef69f809ec8ced512d5765f6fd62fe6362273ed2d",
        ),
        (
            "PostToolUse",
            r#"{"matcher":"","hooks":[{"type":"command","command":"printf 'ü\\n' # \\ \"q\"\t\u007f","timeout":0}]}"#,
            "8b0ba22602f1e37b26b5032f12f2ff53f2609650cf70c9b5bf121d0711fb94d8",
        ),
        (
            "PreToolUse",
            r#"{"matcher":"^(Bash|apply_patch)$","hooks":[{"type":"command","command":"./gate.sh --all","timeout":45,"async":true,"statusMessage":"Gate…","additionalContextLimit":9}]}"#,
            "634daf8a8b225736d23722aeb34caa7bafc8764582a2c9747282c1143b90d0df",
        ),
        (
            "SessionStart",
            r#"{"matcher":"startup","hooks":[{"type":"command","command":"./hello.sh","additionalContextLimit":2500}]}"#,
            "9970d844440102c98792ed9beb35f93a60b152a705aa5eb910d630dc4fd6e65e",
        ),
        (
            "SessionEnd",
            r#"{"matcher":"other","hooks":[{"type":"command","command":"./bye.sh","timeout":90,"async":true}]}"#,
            "a253fa0b22e2612cdb2d3d03492dce1c6b879062a8cb1d8403fa434d26a830e9",
        ),
        (
            "Interrupt",
            r#"{"hooks":[{"type":"command","command":"./stop.sh"}]}"#,
            "e11d02259dc3606520f0b36d21f7540e5ddabd340abb554543e3e7be11d9aa12",
        ),
        (
            "SubagentStop",
            r#"{"matcher":"explorer","hooks":[{"type":"mcp_tool","server":"policy","tool":"check","timeout":9,"input":{"z":[1,2.5,{"b":true,"a":"${x}"}],"a":"é"}}]}"#,
            "3a93d32c6c3d3daf02f40ba31840bd266918b21b81f1949bb2e96f386e452052",
        ),
        (
            "Stop",
            r#"{"hooks":[{"type":"mcp_tool","server":"policy","tool":"check","statusMessage":"s"}]}"#,
            "1b9870219bfedbca99d0ea01cf87d05a34d9707f4ba07fbb9e50ad05803d1ba9",
        ),
    ] {
        let (handlers, _) = json(&format!(r#"{{"hooks":{{"{event}":[{group}]}}}}"#));
        assert_eq!(handlers[0].hash(), format!("sha256:{hash}"), "{group}");
    }
}
