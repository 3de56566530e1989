//! What is said about an entry that does not count: where it stands, and what to write instead.

mod support;

use portcullis_hooks::{Layers, Severity};
use std::fs;
use support::Project;

// C-BRIDGE-5
#[test]
fn each_malformed_entry_is_told_what_to_write() {
    let handler = |fields: &str| format!("[{{\"hooks\":[\n{{{fields}}}]}}]");
    let sound = r#""type":"command","command":"x""#;
    for (stop, line, says, hint) in [
        (
            "{}".to_owned(),
            1,
            "must be a list of groups, not an object",
            r#"[{"matcher": "…", "hooks": [ … ]}]"#,
        ),
        ("[\n7]".into(), 2, "must be an object, not a number", r#"{"matcher": "…", "hooks": [ … ]}"#),
        (
            r#"[{"matcher":null,"hooks":[]}]"#.into(),
            1,
            "`matcher` under Stop must be a string, not null",
            "leave it out",
        ),
        (r#"[{"matcher":"x"}]"#.into(), 1, "has no `hooks` list", r#"give the group a "hooks" list"#),
        (format!("[{{{sound}}}]"), 1, "has no `hooks` list", r#"put the handler into a "hooks" list"#),
        ("[{\"hooks\":[\n\"x\"]}]".into(), 2, "it must be an object, not a string", r#""type": "command""#),
        (handler(r#""command":"x""#), 2, "it has no `type`", r#"add "type": "command""#),
        (handler(r#""type":5"#), 2, "`type` must be a string", r#""type": "command""#),
        (
            handler(r#""type":"comand","command":"x""#),
            2,
            "no handler type `comand`",
            r#"did you mean "command"?"#,
        ),
        (handler(r#""type":"shell","command":"x""#), 2, "no handler type `shell`", "there are command, http"),
        (handler(r#""type":"command""#), 2, "a command handler needs `command`", r#"add "command""#),
        (
            handler(r#""type":"command","command":["x"]"#),
            2,
            "`command` must be a string, not an array",
            r#""command": "…""#,
        ),
        (
            handler(&format!(r#"{sound},"timeout":"30""#)),
            2,
            "`timeout` must be a number",
            r#""timeout": 30, without quotes"#,
        ),
        (handler(&format!(r#"{sound},"timeout":-1"#)), 2, "`timeout` must be a number", "leave it out"),
        (
            handler(&format!(r#"{sound},"async":"true""#)),
            2,
            "`async` must be true or false",
            "without quotes",
        ),
        (handler(&format!(r#"{sound},"args":"a b""#)), 2, "`args` must be a list", "no shell is started"),
        (
            handler(&format!(r#"{sound},"shell":"fish""#)),
            2,
            "there is no shell `fish`",
            "start that shell in the command",
        ),
    ] {
        let project = Project::new(&format!("{{\"hooks\":{{\"Stop\":{stop}}}}}"));
        let reports = project.reports();
        let [report] = &reports[..] else { panic!("{stop}: {reports:?}") };
        assert_eq!(
            (report.code, report.severity, report.line),
            ("hooks/bad-entry", Severity::Error, Some(line)),
            "{report}"
        );
        assert!(report.message.contains(says), "{report}");
        assert!(report.hint.as_ref().unwrap().contains(hint), "{report}");
    }
}

#[test]
fn what_else_in_a_file_does_not_count_is_named() {
    for (text, line, code, says, hint) in [
        (
            "{\"hooks\":{\"Stop\":[],\n\"PreToolUse\":[],\n\"Stop\":[]}}",
            1,
            "hooks/repeated-key",
            "again on line 3",
            "put both into one",
        ),
        ("{\"hooks\":{},\n\"hooks\":{}}", 1, "hooks/repeated-key", "again on line 2", "put both"),
        (
            "{\n\"disableAllHooks\":\"true\"}",
            2,
            "hooks/bad-switch",
            "must be true or false, not a string",
            "without quotes",
        ),
        (
            "{\n\"allowManagedHooksOnly\":true}",
            2,
            "hooks/not-here",
            "in the managed settings only",
            "`disableAllHooks`",
        ),
        ("{\"permissions\":[]}", 1, "hooks/permissions", "must be an object", "\"deny\""),
        (
            "{\"permissions\":{\n\"defaultMode\":\"plan\"}}",
            2,
            "hooks/permissions",
            "`permissions.defaultMode` has no effect",
            "`deny`",
        ),
        (
            "{\"permissions\":{\n\"allow\":[\"Bash(\"]}}",
            2,
            "hooks/permissions",
            "`Bash(` is no permission rule",
            "allows nothing",
        ),
        (
            "{\"permissions\":{\n\"deny\":\"Bash\"}}",
            2,
            "hooks/permissions",
            "must be a list of rules",
            "[\"Bash(rm:*)\"",
        ),
        ("7", 1, "hooks/not-an-object", "must hold an object, not a number", "\"hooks\""),
        ("{\"hooks\":[]}", 1, "hooks/bad-entry", "must be an object of events", "\"PreToolUse\""),
        ("{\"env\":[]}", 1, "hooks/bad-env", "must be an object of strings", "\"NAME\""),
    ] {
        let reports = Project::new(text).reports();
        let [report] = &reports[..] else { panic!("{text}: {reports:?}") };
        assert_eq!((report.code, report.line), (code, Some(line)), "{report}");
        assert!(report.message.contains(says), "{report}");
        assert!(report.hint.as_ref().unwrap().contains(hint), "{report}");
    }
}

// As the client reads it: of equal keys the last one counts.
#[test]
fn of_equal_keys_the_last_one_runs() {
    let stop =
        |word: &str| format!(r#""Stop":[{{"hooks":[{{"type":"command","command":"echo {word} >> ran"}}]}}]"#);
    let project = Project::new(&format!(r#"{{"hooks":{{{},{}}}}}"#, stop("first"), stop("second")));
    project.stop(0, "");
    assert_eq!(project.read("ran"), "second\n");
}

#[test]
fn settings_may_be_given_as_text() {
    let stop = |word: &str| {
        format!(
            "{{\"hooks\":\n{{\"Stop\":[{{\"hooks\":[{{\"type\":\"command\",\"command\":\"echo {word} >> ran\"}}]}}]}}}}"
        )
    };
    let project = Project::new(&stop("project"));
    let file = project.path().join("flag.json");
    fs::write(&file, stop("file")).unwrap();
    let layers = Layers::default().flag(file).flag_json(stop("text"));
    let project = project.options(|options| options.layers(layers));
    project.stop(0, "");
    assert_eq!(project.read("ran"), "project\nfile\ntext\n");
    let project = project.options(|options| options.layers(Layers::none().flag_json("{\n// no\n}")));
    let reports = project.reports();
    assert_eq!(
        (reports.len(), reports[0].line, reports[0].file.as_deref()),
        (1, Some(2), Some("--settings".as_ref()))
    );
}
