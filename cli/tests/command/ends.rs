//! Each end of a turn: the exit code, `turn/end` and the last line say the same (C-LOG-5).

use crate::support::{Done, Project};

const CALL: &str = r#"{"turns": [{"prompt": "go", "steps": [
    {"text": "I look.", "calls": [{"name": "Bash", "input": {"command": "echo here"}}]},
    {"text": "Done.", "repeat": 90}
]}]}"#;

/// Runs it both ways; gives the records.
#[track_caller]
fn ends(project: &Project, kind: &str, code: i32) -> Done {
    let plain = project.run(&[]);
    assert_eq!(plain.code, Some(code), "{}{}", plain.out, plain.err);
    assert!(plain.last_line().starts_with("run-1 "), "{}", plain.out);
    assert!(plain.last_line().contains(kind), "{}", plain.out);
    let told = plain.out.lines().filter(|line| line.split(' ').next() == Some(kind)).count();
    assert_eq!(told, 1, "turn/end is one line of the timeline:\n{}", plain.out);

    let json = project.run(&["--json"]);
    assert_eq!(json.code, Some(code), "{}", json.err);
    let records = json.records();
    let last = records.last().unwrap();
    assert_eq!(last.kind, "turn/end");
    assert!(last.data.get().starts_with(&format!(r#"{{"reason":{{"kind":"{kind}""#)), "{}", last.data);
    json
}

#[test]
fn completed() {
    ends(&Project::new(CALL), "completed", 0);
}

#[test]
fn rejected_by_a_prompt_hook() {
    let project = Project::new(CALL).hook("UserPromptSubmit", "echo not today >&2; exit 2");
    let json = ends(&project, "rejected", 1);
    assert!(json.only("turn/end").contains("not today"));
    assert!(!json.out.contains("model/requested"), "the model was not asked");
}

#[test]
fn halted_by_a_hook() {
    let stop = r#"echo '{"continue": false, "stopReason": "enough for today"}'"#;
    let json = ends(&Project::new(CALL).hook("PostToolUse", stop), "halted", 1);
    assert!(json.only("turn/end").contains("enough for today"));
}

// C-TURN-7: the cap is an end of its own, and visible.
#[test]
fn continuation_cap() {
    let again = r#"echo '{"decision": "block", "reason": "not yet"}'"#;
    let json = ends(&Project::new(CALL).hook("Stop", again), "continuation_cap", 1);
    assert!(json.only("turn/end").contains(r#""limit":8"#));
}

#[test]
fn max_tokens() {
    let model = r#"{"turns": [{"prompt": "go", "steps": [{"text": "and then", "finish": "max_tokens"}]}]}"#;
    ends(&Project::new(model), "max_tokens", 1);
}

#[test]
fn error_of_the_model() {
    let model = r#"{"turns": [{"prompt": "go", "steps": [
        {"text": "never said", "fail": {"kind": "fatal", "message": "no such deployment"}}
    ]}]}"#;
    let json = ends(&Project::new(model), "error", 1);
    assert!(json.only("turn/end").contains("no such deployment"));
}

#[test]
fn error_of_a_cut_stream() {
    let model = r#"{"turns": [{"prompt": "go", "steps": [{"text": ["a", "b"], "cut_after": 1}]}]}"#;
    ends(&Project::new(model), "error", 1);
}

#[test]
fn one_bad_turn_among_good_ones_counts_and_the_others_are_still_played() {
    let model = r#"{"turns": [
        {"prompt": "first", "steps": [{"text": "one"}]},
        {"prompt": "second", "steps": [{"text": "two", "finish": "max_tokens"}]},
        {"prompt": "third", "steps": [{"text": "three"}]}
    ]}"#;
    let project = Project::new(model);
    let plain = project.run(&[]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.last_line().starts_with("run-1 ended max_tokens in turn 2"), "{}", plain.out);
    assert!(plain.out.contains("three"), "{}", plain.out);
}

#[test]
fn after_an_error_the_rest_of_the_script_is_not_sent() {
    let model = r#"{"turns": [
        {"prompt": "first", "steps": [{"fail": {"kind": "fatal", "message": "gone"}}]},
        {"prompt": "second", "steps": [{"text": "two"}]}
    ]}"#;
    let json = Project::new(model).run(&["--json"]);
    assert_eq!(json.code, Some(1));
    assert_eq!(json.records().last().unwrap().kind, "turn/end");
    json.only("prompt/queued");
}
