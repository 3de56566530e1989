//! Assertions on requests.

mod common;
use common::*;
use portcullis_runtime::Message;

fn check(expect: &str, messages: &[Message]) -> Result<(), String> {
    let model = script(&format!(
        r#"{{"turns": [{{"steps": [{{"expect": {expect}, "text": "ok", "repeat": 9}}]}}]}}"#
    ));
    match answer(&model, messages).swap_remove(0) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn history() -> Vec<Message> {
    vec![
        user("clean up"),
        context("be gentle"),
        called("c1", "Bash", r#"{"command":"rm -r build"}"#),
        result("c1", "Bash", "not allowed", true),
        result("c2", "Read", "file text", false),
    ]
}

#[test]
fn each_assertion_holds_and_fails_on_its_own() {
    for (holds, fails, message) in [
        (
            r#"{"last_role": "user"}"#,
            r#"{"last_role": "assistant"}"#,
            r#"expected the last message to be of role assistant, saw a result of Read (c2) "file text""#,
        ),
        (
            r#"{"last_contains": "file"}"#,
            r#"{"last_contains": ["file", "gentle"]}"#,
            r#"expected the last message to contain "gentle", saw a result of Read (c2) "file text""#,
        ),
        (
            r#"{"contains": ["gentle", "rm -r", "not allowed"]}"#,
            r#"{"contains": "sudo"}"#,
            r#"expected a message that contains "sudo", saw none in 5; the last is a result of Read (c2) "file text""#,
        ),
        (
            r#"{"excludes": "sudo"}"#,
            r#"{"excludes": ["sudo", "gentle"]}"#,
            r#"expected no message that contains "gentle", saw context "be gentle""#,
        ),
        (
            r#"{"system_contains": "careful"}"#,
            r#"{"system_contains": "reckless"}"#,
            r#"expected the system text to contain "reckless", saw "You are careful.""#,
        ),
        (
            r#"{"tools_include": "Bash"}"#,
            r#"{"tools_include": ["Bash", "Web"]}"#,
            r#"expected a tool "Web", saw [Bash]"#,
        ),
        (
            r#"{"tools_exclude": "Web"}"#,
            r#"{"tools_exclude": "Bash"}"#,
            r#"expected no tool "Bash", saw [Bash]"#,
        ),
        (
            r#"{"results": [{"error": true, "name": "Bash", "contains": "allowed"}, {"id": "c2", "excludes": "x:"}]}"#,
            r#"{"results": [{}]}"#,
            "expected 1 results since the last answer, saw 2",
        ),
        (
            r#"{"results": [{}, {}]}"#,
            r#"{"results": [{"error": false}, {}]}"#,
            r#"expected result 1 to be no error, saw an error result of Bash (c1) "not allowed""#,
        ),
        (
            r#"{"results": [{"id": "c1"}, {"error": false}]}"#,
            r#"{"results": [{}, {"id": "c9"}]}"#,
            r#"expected result 2 to answer call "c9", saw a result of Read (c2) "file text""#,
        ),
        (
            r#"{"results": [{"contains": ["not", "allowed"]}, {}]}"#,
            r#"{"results": [{"name": "Bash", "excludes": "allowed"}, {}]}"#,
            r#"expected result 1 not to contain "allowed", saw an error result of Bash (c1) "not allowed""#,
        ),
    ] {
        assert_eq!(check(holds, &history()), Ok(()), "{holds}");
        assert_eq!(
            check(fails, &history()),
            Err(format!("model script, turn 1, step 1: {message}")),
            "{fails}"
        );
    }
}

// C-LOG-8: a script can assert on every request that it does not end on an answer.
#[test]
fn the_scripts_own_assertions_come_first_on_every_request() {
    let model = script(
        r#"{"expect": {"last_role": "user"}, "turns": [{"steps": [{"text": "a"}, {"expect": {"contains": "zzz"}}]}]}"#,
    );
    assert_eq!(text(&model, &[user("go")]), "a");
    let broken = fatal(&model, &[user("go"), said("a")]);
    assert!(
        broken.contains("turn 1, step 2") && broken.contains(r#"role user, saw an answer of the model "a""#)
    );
}
