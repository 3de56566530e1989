//! What a script is refused for, and where.

use portcullis_models::{ScriptError, ScriptedModel};
use portcullis_runtime::Model;

fn refused(text: &str) -> String {
    match ScriptedModel::from_json(text) {
        Err(error @ ScriptError::Refused { .. }) => {
            assert_eq!(error.code(), "script_refused");
            error.to_string()
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn refused_step(step: &str) -> String {
    refused(&format!("{{\"turns\": [{{\"steps\": [\n{step}]}}]}}"))
}

#[test]
fn mistakes_are_named_with_their_place() {
    let unknown = refused("{\n  \"turns\": [{\"steps\": [{\n    \"txt\": \"hi\"\n  }]}]\n}");
    assert!(unknown.contains("$.turns[0].steps[0].txt (line 3, column 5)"), "{unknown}");
    assert!(unknown.contains("unknown field `txt`") && unknown.contains("`text`"), "{unknown}");
    let typed = refused("{\"turns\": [],\n \"name\": 7}");
    assert!(typed.contains("$.name (line 2, column 10)"), "{typed}");
    let twice = refused(r#"{"turns": [], "turns": []}"#);
    assert!(twice.contains("appears twice"), "{twice}");
    assert!(refused("{\"turns\": [}").contains("line 1, column 12"));
    assert!(refused("{}").contains("turns"));
}

#[test]
fn contradictions_are_refused_at_their_step() {
    for (step, sentence) in [
        (r#"{"say": [], "text": "x"}"#, "not both"),
        (r#"{"say": [{"text": "x", "delay_ms": 1}]}"#, "exactly one of"),
        (r#"{"say": [{}]}"#, "exactly one of"),
        (r#"{"calls": [{"name": "T"}]}"#, "exactly one of `input`"),
        (r#"{"calls": [{"name": "T", "input": {}, "raw": ""}]}"#, "exactly one of `input`"),
        (r#"{"finish": "calls"}"#, "needs a call"),
        (r#"{"refusal": "no"}"#, "goes with"),
        (r#"{"fail": {"kind": "fatal"}}"#, "needs a `message`"),
        (r#"{"fail": {"kind": "busy", "message": "x"}}"#, "only a `fatal`"),
        (r#"{"fail": {"kind": "cut", "retry_after_ms": 1}}"#, "only a `busy`"),
        (r#"{"fail": {"kind": "cut", "attempts": 0}}"#, "at least 1"),
        (r#"{"fail": {"kind": "slow"}}"#, "unknown variant"),
        (r#"{"fail": {"kind": "cut"}, "cut_after": 0}"#, "not both"),
        (r#"{"text": "x", "cut_after": 2}"#, "the answer has 1 events"),
        (r#"{"text": "x", "repeat": 0}"#, "at least 1"),
        (r#"{"text": 5}"#, "a text or a list of texts"),
        (r#"{"delay_ms": -1}"#, "delay_ms"),
        (r#"{"expect": {"last_role": "tool"}}"#, "last_role"),
        (r#"{"expect": {"results": [{"err": true}]}}"#, "unknown field `err`"),
    ] {
        let message = refused_step(step);
        assert!(message.contains(sentence), "{step}: {message}");
        assert!(
            message.contains("line 2, column") && message.contains("$.turns[0].steps[0]"),
            "{step}: {message}"
        );
    }
    assert!(refused(r#"{"turns": [{"steps": []}]}"#).contains("at least one answer"));
    assert!(refused(r#"{"turns": [{"prompt": "", "steps": [{}]}]}"#).contains("leave it out"));
    assert!(refused(r#"{"turns": [{"repeat": 0, "steps": [{}]}]}"#).contains("at least 1"));
}

#[test]
fn a_file_is_read_and_named_in_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.json");
    std::fs::write(&path, r#"{"name": "story", "turns": [{"steps": [{"text": "x"}]}]}"#).expect("written");
    assert_eq!(&*ScriptedModel::from_file(&path).expect("a script").name(), "story");

    std::fs::write(&path, "{\"turns\": 3}").expect("written");
    let error = ScriptedModel::from_file(&path).expect_err("not a list").to_string();
    assert!(error.contains("model.json") && error.contains("line 1, column 11"), "{error}");

    std::fs::write(&path, [0xff]).expect("written");
    assert!(matches!(ScriptedModel::from_file(&path), Err(ScriptError::Read { .. })));
    let error = ScriptedModel::from_file(dir.path().join("none.json")).expect_err("missing");
    assert_eq!(error.code(), "script_unreadable");
    assert!(error.to_string().contains("none.json"));
}

#[test]
fn the_documented_example_loads() {
    let page = include_str!("../../../docs/scripted-model.md");
    let example =
        page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    ScriptedModel::from_json(example).expect("the example of the page is a script");
}
