//! C-TURN: what a cancel does, wherever it comes.

mod support;

use futures::StreamExt;
use portcullis::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};
use support::*;

/// Where a cancel comes. Our windows for the moments that a turn has: those at which foreign code runs are entered from
/// there, so that no test depends on being quick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Window {
    SessionStart,
    PromptSubmit,
    MidStream,
    Rewrite,
    PreExecute,
    Guard,
    Ask,
    Wrapper,
    Body,
    NestedBody,
    PostExecute,
    /// Between the first call's result and the second call.
    BetweenCalls,
    Continuation,
    TurnStop,
    Child,
}

const WINDOWS: [Window; 15] = [
    Window::SessionStart,
    Window::PromptSubmit,
    Window::MidStream,
    Window::Rewrite,
    Window::PreExecute,
    Window::Guard,
    Window::Ask,
    Window::Wrapper,
    Window::Body,
    Window::NestedBody,
    Window::PostExecute,
    Window::BetweenCalls,
    Window::Continuation,
    Window::TurnStop,
    Window::Child,
];

/// Cancels once, at one window; then answers all the same, or never.
#[derive(Clone)]
struct Trigger {
    window: Window,
    waits: bool,
    session: Later,
    fired: Arc<AtomicU32>,
}

impl Trigger {
    fn fire(&self, here: Window) -> bool {
        let fires = self.window == here && self.fired.fetch_add(1, Ordering::SeqCst) == 0;
        if fires {
            cancel_now(&self.session, Cause::User);
            // The first cause stays, whoever comes later.
            cancel_now(&self.session, Cause::Shutdown);
        }
        fires
    }
    async fn at(&self, here: Window) {
        if self.fire(here) && self.waits {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// In its first turn it calls Outer (which calls Echo), Echo, and an agent; later it just says so.
fn busy(t: &Trigger) -> Says {
    let t = t.clone();
    Says::stream(move |request| {
        let (prompt, said) = last_prompt(request);
        let answer = match (&*prompt, said) {
            ("go", 0) => calls(&[
                ("Outer", "{}"),
                ("Echo", r#"{"text":"second"}"#),
                ("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#),
            ]),
            _ => say("done"),
        };
        if prompt == "go" && t.window == Window::MidStream {
            let t = t.clone();
            let half = futures::stream::iter([Ok(ModelEvent::Text("half".into()))]);
            let rest = futures::stream::once(async move {
                t.at(Window::MidStream).await;
                Ok(ModelEvent::Text("more".into()))
            });
            return half.chain(rest).chain(events(answer)).boxed();
        }
        events(answer)
    })
}

fn outer(t: &Trigger) -> impl Tool {
    let t = t.clone();
    let body = async move |_: Nothing, cx: ToolCx| {
        let inner = cx.call("Inner", "{}").await;
        t.at(Window::Body).await;
        Ok::<_, ToolError>(format!("inner: {}", inner.ended.name()))
    };
    tool("Outer", "Calls Inner.", body).unwrap()
}

fn inner(t: &Trigger) -> impl Tool {
    let t = t.clone();
    let body = async move |_: Nothing, cx: ToolCx| {
        if t.fire(Window::NestedBody) && t.waits {
            cx.cancel.cancelled().await;
            return Err(ToolError::new("heard it"));
        }
        Ok("inner")
    };
    tool("Inner", "Is called.", body).unwrap()
}

fn register(at: &mut Registrar<'_>, t: &Trigger) {
    let on = |_: Window| t.clone();
    let s = on(Window::SessionStart);
    at.session_start("t", async move |_| {
        s.at(Window::SessionStart).await;
        Reply::new(Started {}).context("castle")
    });
    let s = on(Window::PromptSubmit);
    at.prompt_submit("t", async move |p| {
        if p.content.to_text() == "go" {
            s.at(Window::PromptSubmit).await;
        }
        Submit::allow()
    });
    let s = on(Window::Rewrite);
    at.rewrite("t", async move |_| {
        s.at(Window::Rewrite).await;
        Proposal::pass()
    });
    let s = on(Window::PreExecute);
    at.pre_execute("t", async move |_| {
        s.at(Window::PreExecute).await;
        match s.window {
            Window::Ask => Gate::ask("sure?"),
            _ => Gate::allow(),
        }
    });
    let s = on(Window::Guard);
    at.guard("t", move |_| {
        s.fire(Window::Guard);
        None
    });
    let s = on(Window::Wrapper);
    at.wrap("t", async move |next| {
        let outcome = next.run().await;
        s.at(Window::Wrapper).await;
        outcome
    });
    let s = on(Window::PostExecute);
    at.post_execute("t", async move |call| {
        s.at(Window::PostExecute).await;
        Reply::new(Review::accept()).context(format!("about {}", call.key.call))
    });
    let s = on(Window::BetweenCalls);
    at.result("t", move |r| {
        if r.key.call == CallPath::top(0) {
            s.fire(Window::BetweenCalls);
        }
    });
    let s = on(Window::Continuation);
    at.turn_continuation("t", async move |e| {
        if e.scene.session.depth() == 0 {
            s.at(Window::Continuation).await;
        }
        Continue::Abstain
    });
    let s = on(Window::TurnStop);
    at.turn_stop("t", async move |_| {
        s.at(Window::TurnStop).await;
        StopTurn::Abstain
    });
    let s = on(Window::Child);
    at.subagent_start("t", async move |_| {
        s.at(Window::Child).await;
        Started {}
    });
}

/// A cancel at one window: the turn ends aborted by its first cause, nothing more is started, all that was opened is
/// closed, and a prompt sent at once is the next turn's.
async fn cancelled_at(window: Window, waits: bool) {
    let t = Trigger { window, waits, session: Later::default(), fired: Arc::default() };
    let plan = Plan::new(busy(&t)).agents().tool(outer(&t)).tool(inner(&t));
    let plan = if window == Window::Ask { plan.approvals() } else { plan };
    let house = plan.open(|at| register(at, &t)).await;
    t.session.set(house.session.clone()).unwrap();
    let why = format!("{window:?}, {}", if waits { "waits" } else { "answers" });

    let turn = house.session.prompt("go").await.unwrap();
    if window == Window::Ask {
        until(|| !house.session.asks().is_empty()).await;
        t.fire(Window::Ask);
    }
    until(|| t.fired.load(Ordering::SeqCst) > 0).await;
    let next = within(house.session.prompt("next")).await.unwrap();
    let end = within(turn.into_future()).await;
    let aborted = EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) };
    assert_eq!(end, aborted, "{why}");

    let (number, end, _) = within(next.done()).await;
    assert_eq!((number, end), (2, EndReason::Completed), "{why}");
    let log = house.log();
    let of = |kind: &str| log.iter().position(|r| r.body.kind() == kind);
    let cancelled = of("turn/cancelled").unwrap_or_else(|| panic!("{why}: the cancel is on record"));
    let ended = of("turn/end").expect("ended");
    let between: Vec<&str> = log[cancelled..ended].iter().map(|r| r.body.kind()).collect();
    for kind in ["step/start", "model/requested", "tool/dispatched", "input/requested", "decision/recorded"] {
        assert!(!between.contains(&kind), "{why}: {kind} after the cancel: {between:?}");
    }
    let first_turn: Vec<&str> = log[..=ended].iter().map(|r| r.body.kind()).collect();
    let count = |kind: &str| first_turn.iter().filter(|k| **k == kind).count();
    assert_eq!(count("step/start"), count("step/end"), "{why}");
    assert_eq!(count("tool/call"), count("tool/result"), "{why}");
    let before_dispatch = WINDOWS.iter().position(|w| *w == Window::Wrapper).expect("a window");
    if WINDOWS[..before_dispatch].contains(&window) {
        assert_eq!(count("tool/dispatched"), 0, "{why}: no body starts once the cancel is there");
    }
    // What the first turn's message asked for has a result in the next request.
    let request = house.model.requests().pop().unwrap();
    let (mut asked, mut given) = (0, 0);
    for message in request.messages.iter() {
        match message {
            Message::Assistant { blocks } => {
                asked += blocks.iter().filter(|b| matches!(b, AssistantBlock::Call { .. })).count();
            }
            Message::Result { .. } => given += 1,
            _ => {}
        }
    }
    assert_eq!(asked, given, "{why}: each call has one result");
    if asked > 0 {
        assert_eq!(asked, 3, "{why}");
    }
    assert!(house.session.asks().is_empty(), "{why}: no question is left");
    house.close().await;
}

// C-TURN-9: at every window, whether who runs there answers or never does.
#[tokio::test]
async fn a_cancel_at_every_window_closes_what_was_opened() {
    for window in WINDOWS {
        cancelled_at(window, false).await;
    }
}

// C-TURN-9
#[tokio::test]
async fn a_cancel_at_every_window_waits_for_nobody() {
    // A wrapper and a body are told and given time to end by themselves; the rest is let go at once.
    let patient = [Window::Body, Window::Wrapper, Window::Guard, Window::BetweenCalls, Window::Ask];
    for window in WINDOWS.into_iter().filter(|w| !patient.contains(w)) {
        cancelled_at(window, true).await;
    }
}

// C-TURN-9: a body that does not listen is let go after its grace.
#[tokio::test]
async fn a_body_that_never_ends_is_cancelled_all_the_same() {
    cancelled_at(Window::Body, true).await;
}

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
    let dropped = house.session.steer("faster").await.unwrap();
    assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
    let kept = house.session.steer("instead, this").await.unwrap();
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert!(matches!(within(dropped.into_future()).await, EndReason::Aborted { .. }), "told with its turn");
    let (number, end, _) = within(kept.done()).await;
    assert_eq!((number, end), (2, EndReason::Completed));
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
