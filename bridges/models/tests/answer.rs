//! What an answer streams as.

mod common;
use common::*;
use futures::StreamExt;
use portcullis_runtime::{Cause, Finish, Model, ModelError, ModelEvent, Usage};
use std::time::Duration;

fn one(step: &str) -> portcullis_models::ScriptedModel {
    script(&format!(r#"{{"turns": [{{"steps": [{step}]}}]}}"#))
}

fn events(step: &str) -> Vec<ModelEvent> {
    answer(&one(step), &[user("go")]).into_iter().map(|event| event.expect("an event")).collect()
}

fn start(id: &str, name: &str) -> ModelEvent {
    ModelEvent::CallStart { id: id.into(), name: name.into() }
}

#[test]
fn events_come_in_order_and_arguments_in_fragments() {
    let said = events(
        r#"{"calls": [{"name": "Bash", "input": {"command":"ls"}}, {"id": "x", "name": "Read", "raw": "{"}],
            "text": ["Let me ", "see."], "reasoning": "hm", "usage": {"input": 7, "output": 3}}"#,
    );
    let expected = [
        ModelEvent::Reasoning("hm".into()),
        ModelEvent::Text("Let me ".into()),
        ModelEvent::Text("see.".into()),
        start("call_1_1_1", "Bash"),
        ModelEvent::CallText(r#"{"comman"#.into()),
        ModelEvent::CallText(r#"d":"ls"}"#.into()),
        start("x", "Read"),
        ModelEvent::CallText("{".into()),
        ModelEvent::Usage(Usage { input: 7, output: 3 }),
        ModelEvent::Finish(Finish::Calls),
    ];
    assert_eq!(said, expected);
}

// C-ID-2: what the model wrote is kept to the byte, whatever it is.
#[test]
fn arguments_keep_their_exact_text() {
    let exact = r#"{ "z": 123456789012345678901234567890,  "a": 1.0, "10": "\u0061", "$serde_json::private::RawValue": "1" }"#;
    for (field, written) in [
        (format!(r#""input": {exact}"#), exact),
        (r#""raw": "{\"a\":1,\"a\":2} trailing""#.into(), r#"{"a":1,"a":2} trailing"#),
        (r#""raw": """#.into(), ""),
        (r#""input": "aé""#.into(), "\"aé\""),
    ] {
        let said = events(&format!(r#"{{"calls": [{{"name": "T", {field}}}]}}"#));
        let text: Vec<&str> = said
            .iter()
            .filter_map(|event| match event {
                ModelEvent::CallText(text) => Some(&**text),
                _ => None,
            })
            .collect();
        assert_eq!(text.concat(), written);
        assert_eq!(text.len(), if written.is_empty() { 0 } else { 2 });
    }
}

#[test]
fn call_ids_differ_from_answer_to_answer() {
    let model = script(
        r#"{"turns": [{"repeat": 9, "steps": [{"repeat": 9, "calls": [{"name": "T", "input": {}}]}]}]}"#,
    );
    let mut history = vec![user("a")];
    let mut ids = Vec::new();
    for next in [said("x"), user("b"), said("x"), user("c")] {
        match answer(&model, &history).into_iter().next() {
            Some(Ok(ModelEvent::CallStart { id, .. })) => ids.push(id),
            other => panic!("{other:?}"),
        }
        history.push(next);
        if matches!(history.last(), Some(portcullis_runtime::Message::Assistant { .. })) {
            history.push(steering("on"));
        }
    }
    assert_eq!(ids, ["call_1_1_1", "call_1_2_1", "call_2_1_1", "call_2_2_1"]);
}

#[test]
fn finishes_are_said_or_follow_from_the_calls() {
    let finish = |step: &str| events(step).pop();
    let ended = |finish| Some(ModelEvent::Finish(finish));
    assert_eq!(finish("{}"), ended(Finish::Stop));
    assert_eq!(finish(r#"{"text": "x", "finish": "max_tokens"}"#), ended(Finish::MaxTokens));
    assert_eq!(
        finish(r#"{"finish": "refused", "refusal": "not this"}"#),
        ended(Finish::Refused { reason: "not this".into() })
    );
    let call = r#"{"calls": [{"name": "T", "input": {}}], "finish": "stop"}"#;
    assert_eq!(finish(call), ended(Finish::Stop));
}

#[test]
fn a_cut_stream_just_ends() {
    let cut = events(r#"{"text": ["a", "b"], "cut_after": 1}"#);
    assert_eq!(cut, [ModelEvent::Text("a".into())]);
    assert_eq!(events(r#"{"text": ["a", "b"], "cut_after": 2}"#).len(), 2, "all but the finish");
    assert_eq!(events(r#"{"cut_after": 0}"#), []);
}

#[test]
fn failures_come_after_their_events_and_for_their_attempts() {
    let model = one(
        r#"{"text": ["a", "b"], "fail": {"kind": "busy", "retry_after_ms": 1500, "after": 1, "attempts": 2}}"#,
    );
    let busy = Err(ModelError::Busy { retry_after: Some(Duration::from_millis(1500)) });
    for attempt in [1, 2] {
        let mut request = request(&[user("go")]);
        request.attempt = attempt;
        assert_eq!(respond(&model, request), [Ok(ModelEvent::Text("a".into())), busy.clone()]);
    }
    let mut third = request(&[user("go")]);
    third.attempt = 3;
    assert_eq!(respond(&model, third).last(), Some(&Ok(ModelEvent::Finish(Finish::Stop))));

    let fatal = one(r#"{"fail": {"kind": "fatal", "message": "no key"}}"#);
    assert_eq!(answer(&fatal, &[user("go")]), [Err(ModelError::Fatal { message: "no key".into() })]);
    let cut = one(r#"{"text": "a", "fail": {"kind": "cut", "after": 1}}"#);
    assert_eq!(answer(&cut, &[user("go")])[1], Err(ModelError::Cut { events: 1 }));
}

#[tokio::test(start_paused = true)]
async fn delays_pass_on_the_clock_of_tokio() {
    let model = one(r#"{"delay_ms": 60000, "say": [{"text": "a"}, {"delay_ms": 5000}, {"text": "b"}]}"#);
    let start = tokio::time::Instant::now();
    let mut stream = model.respond(request(&[user("go")]));
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Text("a".into()))));
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(stream.next().await, Some(Ok(ModelEvent::Text("b".into()))));
    assert_eq!(start.elapsed().as_secs(), 65);
}

// C-TURN-9: a cancel works while the model is awaited.
#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_wait() {
    let model = one(r#"{"say": [{"text": "a"}, {"delay_ms": 86400000}, {"text": "b"}]}"#);
    let request = request(&[user("go")]);
    let cancel = request.cancel.clone();
    let start = tokio::time::Instant::now();
    let mut stream = model.respond(request);
    assert!(matches!(stream.next().await, Some(Ok(_))));
    let (rest, _) = tokio::join!(stream.collect::<Vec<_>>(), async {
        tokio::task::yield_now().await;
        cancel.cancel(Cause::User)
    });
    assert_eq!(rest, [Err(ModelError::Cut { events: 1 })]);
    assert_eq!(start.elapsed(), Duration::ZERO);
}
