//! C-TURN: prompts, steering, context and ends of turns. See cancels.rs for a cancel at every window.

mod support;

use futures::StreamExt;
use portcullis::*;
use std::sync::{Arc, Mutex};
use support::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

// C-TURN-9: before a turn is open there is nothing to cancel, and the next prompt is not hit.
#[tokio::test]
async fn a_cancel_before_the_turn_kills_no_prompt() {
    let house = house(&[], |_| {}).await;
    assert_eq!(house.session.cancel(Cause::User).await, Ok(false));
    assert_eq!(house.prompt("one").await, EndReason::Completed);
    assert_eq!(house.session.cancel(Cause::User).await, Ok(false), "the turn is over");
    assert_eq!(house.prompt("two").await, EndReason::Completed);
    assert_eq!(house.count("turn/cancelled"), 0);
    house.close().await;
}

// C-TURN-9: cancels from many threads at once are one cancel, and each caller gets an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_from_many_threads_are_one() {
    let latch = Latch::default();
    let wait = latch.clone();
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.pre_execute("hold", async move |_| {
            wait.pass().await;
            Gate::allow()
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    let cancels = (0..16).map(|n| {
        let session = house.session.clone();
        let cause = if n % 2 == 0 { Cause::User } else { Cause::Parent };
        tokio::spawn(async move { session.cancel(cause).await })
    });
    let told = within(futures::future::join_all(cancels)).await;
    let told: Vec<bool> = told.into_iter().map(|told| told.unwrap().unwrap()).collect();
    // Who came when the turn was over already was told that, too.
    assert!(told.contains(&true), "{told:?}");
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert_eq!(house.count("turn/cancelled"), 1);
    house.close().await;
}

// C-TURN-9, C-TURN-4: steering sent before a cancel goes with its turn, on record; what is sent after it is a prompt.
#[tokio::test]
async fn a_cancel_drops_the_steering_that_waits() {
    let latch = Latch::default();
    let wait = latch.clone();
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.pre_execute("hold", async move |call| {
            if call.scene.turn == 1 {
                wait.pass().await;
            }
            Gate::allow()
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    let queued = house.session.prompt("later").await.unwrap();
    let dropped = house.session.steer("faster").await.unwrap();
    assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
    let kept = house.session.steer("instead, this").await.unwrap();
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert!(matches!(within(dropped.into_future()).await, EndReason::Aborted { .. }), "told with its turn");
    // The prompt's turn, if that is still open when it comes; else one of its own.
    let (number, end, _) = within(kept.done()).await;
    assert!(number >= 2 && end.is_success(), "{number}: {end}");
    assert_eq!(within(queued.done()).await.0, 2, "a prompt that waited stays");
    let log = house.log();
    let end = log.iter().find_map(|r| match &r.body {
        Body::TurnEnd(end) => Some(end.dropped.len()),
        _ => None,
    });
    assert_eq!(end, Some(1));
    let said = |text: &str| house.model.requests().iter().any(|r| format!("{:?}", r.messages).contains(text));
    assert!(!said("faster") && said("instead, this"));
    house.close().await;
}

// C-TURN-9, C-TURN-6: between two calls, the first keeps its result and the context that it earned; the second never starts.
#[tokio::test]
async fn an_abort_between_two_calls_keeps_what_was_earned() {
    let session = Later::default();
    let cancels = session.clone();
    let two = [("Echo", r#"{"text":"first"}"#), ("Echo", r#"{"text":"second"}"#)];
    let house = house(&two, |at| {
        at.post_execute("context", async |call| {
            Reply::new(Review::accept()).context(format!("about {}", call.key.call))
        });
        at.result("cancel", move |r| {
            if r.key.call == CallPath::top(0) {
                cancel_now(&cancels, Cause::User);
            }
        });
    })
    .await;
    session.set(house.session.clone()).unwrap();
    assert!(matches!(house.prompt("go").await, EndReason::Aborted { .. }));
    assert_eq!(house.ran(), ["first"]);
    assert_eq!(house.ends(), ["completed", "cancelled_before_dispatch"]);
    let kinds = house.kinds();
    let last = kinds.iter().rposition(|k| k == "tool/result").unwrap();
    assert_eq!(kinds[last + 1..], ["context/message", "step/end", "turn/end"]);
    house.close().await;
}

// C-TURN-4, C-LOG-4: what is injected while a body runs never stands between a call and its result.
#[tokio::test]
async fn inject_during_a_body_stands_behind_the_results() {
    let latch = Latch::default();
    let wait = latch.clone();
    let slow = tool("Slow", "Waits.", async move |_: Nothing, _cx| {
        wait.pass().await;
        Ok::<_, ToolError>("slow")
    });
    let plan = Plan::new(Says::calls(&[("Slow", "{}"), ("Echo", r#"{"text":"x"}"#)])).tool(slow.unwrap());
    let house = plan.open(|_| {}).await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    house.session.inject("clock", "it is noon").await.unwrap();
    latch.open();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    let request = house.model.requests()[1].clone();
    let shapes: Vec<&str> = request
        .messages
        .iter()
        .map(|m| match m {
            Message::User { .. } => "user",
            Message::Assistant { .. } => "assistant",
            Message::Result { .. } => "result",
            Message::Context { .. } => "context",
            _ => "other",
        })
        .collect();
    assert_eq!(shapes, ["user", "assistant", "result", "result", "context"]);
    house.close().await;
}

// C-TURN-8: turn-stop ends the turn whatever anybody forces; steering that waits goes with it, on record, prompts stay.
#[tokio::test]
async fn turn_stop_drops_steering_and_keeps_prompts() {
    let latch = Latch::default();
    let wait = latch.clone();
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.turn_stop("enough", async move |b| {
            if b.scene.turn > 1 {
                return StopTurn::Abstain;
            }
            wait.pass().await;
            StopTurn::Stop
        });
        at.turn_continuation("on", async |e| match e.scene.turn {
            1 => Continue::again("go on"),
            _ => Continue::Abstain,
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    let steering = house.session.steer("faster").await.unwrap();
    let next = house.session.prompt("next").await.unwrap();
    latch.open();
    assert_eq!(within(turn.done()).await.0, 1);
    assert_eq!(within(steering.done()).await.0, 1, "told with the turn that it was for");
    assert_eq!(within(next.done()).await.0, 2);
    let log = house.log();
    let end = log.iter().find_map(|r| match &r.body {
        Body::TurnEnd(end) => Some((end.reason.clone(), end.dropped.len())),
        _ => None,
    });
    assert_eq!(end, Some((EndReason::Completed, 1)));
    let ended = log.iter().position(|r| r.body.kind() == "turn/end").expect("ended");
    let steps = log[..ended].iter().filter(|r| r.body.kind() == "step/start").count();
    assert_eq!((steps, house.count("steering/message")), (1, 0), "nobody resurrects it");
    house.close().await;
}

fn finished(text: &str, finish: Finish) -> Vec<ModelEvent> {
    let mut events = calls(&[("Echo", r#"{"text":"x"}"#)]);
    events.pop();
    events.insert(0, ModelEvent::Text(text.into()));
    events.push(ModelEvent::Finish(finish));
    events
}

// C-LOG-5: a message cut at its limit ends the turn visibly; its calls never run and its text stays; the next turn is free.
#[tokio::test]
async fn a_truncated_message_runs_no_calls() {
    let model = Says::by_prompt(|prompt, _| match prompt {
        "go" => finished("half a th", Finish::MaxTokens),
        _ => say("fine"),
    });
    let house = Plan::new(model).open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::MaxTokens);
    assert_eq!(house.count("tool/call"), 0);
    assert_eq!(house.prompt("again").await, EndReason::Completed);
    let request = house.model.requests().pop().unwrap();
    let shown = format!("{:?}", request.messages);
    assert!(shown.contains("half a th") && !shown.contains("Echo"), "{shown}");
    house.close().await;
}

// C-TURN-9: what the model had said when it was interrupted stays, as such; calls of it never run, and are not shown.
#[tokio::test]
async fn what_was_said_before_a_cancel_is_kept() {
    let text = |text: &str| ModelEvent::Text(text.into());
    let thought = |text: &str| ModelEvent::Reasoning(text.into());
    let begun = ModelEvent::CallStart { id: "c".into(), name: "Echo".into() };
    let half = ModelEvent::CallText(r#"{"text":"#.into());
    // What is on record, and what the model reads of it: an unfinished thought is on record alone.
    let cases: [(Vec<ModelEvent>, Option<&str>); 5] = [
        (vec![text("half "), text("a th")], Some("half a th")),
        (vec![thought("hm")], Some("")),
        (vec![thought("hm"), text("first"), begun.clone(), half.clone()], Some("first")),
        (vec![begun, half], None),
        (vec![], None),
    ];
    for (events, kept) in cases {
        let pieces = events.len();
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let model = Says::stream(move |request| match &*last_prompt(request).0 {
            "go" => {
                let said = said.clone();
                let told = futures::stream::iter(events.clone()).map(Ok);
                let then = futures::stream::once(async move {
                    let _ = said.send(());
                    std::future::pending().await
                });
                told.chain(then).boxed()
            }
            _ => support::events(say("fine")),
        });
        let house = Plan::new(model).open(|_| {}).await;
        let turn = house.session.prompt("go").await.unwrap();
        heard.recv().await.unwrap();
        assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
        assert!(matches!(turn.await, EndReason::Aborted { .. }), "{pieces} pieces");
        let log = house.log();
        let kinds: Vec<&str> =
            log.iter().map(|r| r.body.kind()).skip_while(|k| *k != "model/requested").collect();
        let message = log.iter().find_map(|r| match &r.body {
            Body::AssistantMessage(message) => Some(message.clone()),
            _ => None,
        });
        let Some(kept) = kept else {
            assert_eq!(kinds, ["model/requested", "turn/cancelled", "step/end", "turn/end"]);
            continue;
        };
        let whole = ["model/requested", "turn/cancelled", "assistant/message", "step/end", "turn/end"];
        assert_eq!(kinds, whole);
        let message = message.unwrap();
        assert_eq!((message.finish.clone(), &*message.text()), (Finish::Interrupted, kept));
        assert_eq!(house.prompt("again").await, EndReason::Completed);
        let shown = format!("{:?}", house.model.requests().pop().unwrap().messages);
        assert!(shown.contains(kept) && !shown.contains("Echo") && !shown.contains("hm"), "{shown}");
        assert_eq!(shown.contains("Assistant"), !kept.is_empty(), "{shown}");
        assert_eq!(house.count("tool/call"), 0);
        house.close().await;
    }
}

// C-TURN-10: a model that panics, in its creation or in its stream, ends its own turn only.
#[tokio::test]
async fn a_model_that_panics_ends_its_turn_only() {
    let model = Says::stream(|request| match &*last_prompt(request).0 {
        "created" => panic!("in respond"),
        "polled" => futures::stream::once(async { panic!("in the stream") }).boxed(),
        _ => events(say("fine")),
    });
    let house = Plan::new(model).open(|_| {}).await;
    for how in ["created", "polled"] {
        let end = house.prompt(how).await;
        assert!(matches!(&end, EndReason::Error { code, .. } if &**code == "model_failed"), "{how}: {end:?}");
        assert_eq!(house.prompt("fine").await, EndReason::Completed);
    }
    house.close().await;
}

// C-TURN-1, 9: what is sent from inside a turn waits for the next one, in order, and none is lost.
#[tokio::test]
async fn prompts_sent_during_a_turn_are_the_next_turns_batch() {
    let latch = Latch::default();
    let wait = latch.clone();
    let house = house(&[], |at| {
        at.prompt_submit("hold", async move |p| {
            if p.content.to_text() == "one" {
                wait.pass().await;
            }
            Submit::allow()
        });
    })
    .await;
    let one = house.session.prompt("one").await.unwrap();
    latch.entered().await;
    let two = house.session.prompt("two").await.unwrap();
    let three = house.session.prompt("three").await.unwrap();
    latch.open();
    let numbers = [within(one.done()).await.0, within(two.done()).await.0, within(three.done()).await.0];
    assert_eq!(numbers, [1, 2, 2]);
    let taken: Arc<Mutex<Vec<String>>> = Arc::default();
    for record in house.log() {
        if let Body::UserMessage(m) = &record.body {
            taken.lock().unwrap().push(m.content.to_text().into_owned());
        }
    }
    assert_eq!(*taken.lock().unwrap(), ["one", "two", "three"]);
    house.close().await;
}
