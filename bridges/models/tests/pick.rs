//! Which answer is due.

mod common;
use common::*;

const TWO: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"text": "1a"}, {"text": "1b", "repeat": 2}, {"text": "1c"}]},
    {"prompt": "second", "steps": [{"text": "2a"}]},
    {"steps": [{"text": "any"}]}
]}"#;

// C-LOG-6: the answer is a function of the conversation, so a new process goes on where the old one was.
#[test]
fn the_conversation_decides_and_not_what_was_asked_before() {
    let history = [user("the first thing"), said("1a"), result("x", "Bash", "ok", false)];
    assert_eq!(text(&script(TWO), &history), "1b");
    let model = script(TWO);
    assert_eq!(text(&model, &history), "1b");
    assert_eq!(text(&model, &history), "1b", "a retry gets the same answer");
    assert_eq!(text(&model, &history[..1]), "1a", "a fork to an earlier point, too");
}

#[test]
fn steps_follow_the_answers_since_the_prompt_and_repeat() {
    let model = script(TWO);
    let mut history = vec![user("the first thing")];
    for expected in ["1a", "1b", "1b", "1c"] {
        history.push(steering("go on"));
        history.push(context("by the way"));
        assert_eq!(text(&model, &history), expected);
        history.push(said(expected));
    }
    assert_eq!(
        fatal(&model, &history),
        "model script: turn 1 of the script has no more steps: this is request 5 since its prompt"
    );
}

#[test]
fn turns_are_found_by_prompt_then_in_order_and_used_once() {
    let model = script(TWO);
    let mut history = vec![user("the second thing")];
    assert_eq!(text(&model, &history), "2a");
    history.extend([said("2a"), user("the second thing, again")]);
    assert_eq!(text(&model, &history), "any", "turn 2 is used up");
    history.extend([said("any"), user("the first thing")]);
    assert_eq!(text(&model, &history), "1a");
    history.extend([said("1a"), user("more")]);
    assert_eq!(
        fatal(&model, &history),
        r#"model script: the script has no turn left for prompt 4 of the conversation, "more""#
    );
}

#[test]
fn a_batch_is_one_turn_and_its_newest_prompt_is_tried_first() {
    let model = script(TWO);
    // The first prompt's turn failed before an answer; the second prompt must not get its answers.
    assert_eq!(text(&model, &[user("the first thing"), context("c"), user("the second thing")]), "2a");
    let one = [user("the first thing"), user("and quickly"), said("1a"), user("x")];
    assert_eq!(text(&model, &one[..2]), "1a");
    assert_eq!(text(&model, &one), "any", "the batch used up one turn");
}

#[test]
fn a_turn_can_be_good_for_many_prompts() {
    let model =
        script(r#"{"turns": [{"repeat": 2, "steps": [{"text": "yes"}]}, {"steps": [{"text": "no"}]}]}"#);
    let mut history = Vec::new();
    for expected in ["yes", "yes", "no"] {
        history.push(user("?"));
        assert_eq!(text(&model, &history), expected);
        history.push(said(expected));
    }
}

#[test]
fn a_request_without_prompt_has_no_answer() {
    let model = script(TWO);
    assert!(fatal(&model, &[context("only this")]).contains("has no prompt"));
    assert!(fatal(&model, &[]).contains("has no prompt"));
    // A summary took the prompt away: what is left is an answer.
    assert_eq!(text(&model, &[said("summary"), user("the first thing")]), "1a");
}
