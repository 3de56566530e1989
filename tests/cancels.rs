//! C-TURN-9: a cancel at every window of a turn.

mod support;

use futures::StreamExt;
use portcullis::*;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
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

// C-TURN-9: so is a wrapper that waits for ever behind its body.
#[tokio::test]
async fn a_wrapper_that_never_ends_is_cancelled_all_the_same() {
    cancelled_at(Window::Wrapper, true).await;
}

/// Never answers and never rests.
struct Spin;

impl Future for Spin {
    type Output = Outcome;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

// C-TURN-9: and one that never rests, in front of it.
#[tokio::test]
async fn a_wrapper_that_never_rests_is_cancelled_all_the_same() {
    let latch = Latch::default();
    let enter = latch.clone();
    latch.open();
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.wrap("spins", async move |_next| {
            enter.pass().await;
            Spin.await
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert!(house.ran().is_empty());
    assert_eq!(house.ends(), ["cancelled"]);
    house.close().await;
}

// C-TURN-9, C-PIPE-5: a wrapper that tries until it succeeds gets no further attempt once the call is cancelled.
#[tokio::test]
async fn a_wrapper_that_retries_for_ever_is_cancelled_all_the_same() {
    let session = Later::default();
    let cancels = session.clone();
    let fails = tool("Fails", "Fails.", async move |_: Nothing, cx: ToolCx| {
        if cx.attempt == 3 {
            cancel_now(&cancels, Cause::User);
        }
        Err::<String, _>(ToolError::new("not this time"))
    });
    let plan = Plan::new(Says::calls(&[("Fails", "{}"), ("Echo", r#"{"text":"x"}"#)])).tool(fails.unwrap());
    let house = plan.open(|at| {
        at.wrap("for-ever", async |next| {
            loop {
                let outcome = next.run().await;
                if outcome.ended.is_success() {
                    break outcome;
                }
            }
        });
    });
    let house = house.await;
    session.set(house.session.clone()).unwrap();
    assert!(matches!(house.prompt("go").await, EndReason::Aborted { .. }));
    assert_eq!(house.ends(), ["cancelled", "cancelled_before_dispatch"]);
    assert_eq!(house.count("tool/dispatched"), 3);
    house.close().await;
}

// C-TURN-9, C-LOG-9: a body that finishes although it was cancelled has had its effect, and its result says so.
#[tokio::test]
async fn a_success_after_the_cancel_stands() {
    let session = Later::default();
    let cancels = session.clone();
    let done = tool("Done", "Finishes.", async move |_: Nothing, _cx| {
        cancel_now(&cancels, Cause::User);
        Ok::<_, ToolError>("done all the same")
    });
    let house = Plan::new(Says::calls(&[("Done", "{}")])).tool(done.unwrap()).open(|_| {}).await;
    session.set(house.session.clone()).unwrap();
    assert!(matches!(house.prompt("go").await, EndReason::Aborted { .. }));
    let result = &house.results()[0];
    assert_eq!((&result.outcome, &*result.content.to_text()), (&Ended::Completed, "done all the same"));
    house.close().await;
}

/// A house whose journal cancels the turn at the moment at which the first record of a kind is handed to it.
async fn cancelled_at_record(kind: &'static str) -> (House, EndReason) {
    let session = Later::default();
    let (cancels, fired) = (session.clone(), AtomicU32::new(0));
    let journal = MemoryJournal::with_faults(move |_, batch| {
        let here = batch.records.iter().any(|r| r.body.kind() == kind);
        if here && cancels.get().is_some() && fired.fetch_add(1, Ordering::SeqCst) == 0 {
            cancel_now(&cancels, Cause::User);
        }
        None
    });
    let plan = Plan::new(Says::calls(&[("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#)]));
    let house = plan.journal(&journal).open(|at| {
        at.pre_execute("gate", async |_| Gate::allow());
        at.post_execute("about", async |_| Reply::new(Review::accept()).context("about it"));
    });
    let house = house.await;
    session.set(house.session.clone()).unwrap();
    let turn = house.session.prompt("go").await.unwrap();
    let next = house.session.prompt("next").await.unwrap();
    let end = within(turn.into_future()).await;
    assert_eq!(within(next.into_future()).await, EndReason::Completed, "{kind}: a prompt sent at once");
    (house, end)
}

// C-TURN-9: between any two records. A cancel that comes when the turn's end is written is too late, and says so; one
// before the turn is open has nothing to cancel; all others abort it, with every step closed and every call answered.
#[tokio::test]
async fn a_cancel_at_every_record() {
    let aborting = [
        "user/message",
        "step/start",
        "model/requested",
        "assistant/message",
        "tool/call",
        "decision/recorded",
        "tool/dispatched",
        "tool/returned",
        "tool/result",
        "context/message",
        "step/end",
    ];
    for kind in aborting {
        let (house, end) = cancelled_at_record(kind).await;
        assert!(matches!(end, EndReason::Aborted { .. }), "{kind}: {end:?}");
        assert_eq!(house.count("turn/cancelled"), 1, "{kind}");
        // What ran and what was sent is the next turn's alone, as long as nothing of this turn's had begun.
        let begun = |first: &str| {
            aborting.iter().position(|k| *k == kind) > aborting.iter().position(|k| *k == first)
        };
        if !begun("tool/dispatched") {
            assert_eq!(house.ran(), ["a", "b"], "{kind}");
        }
        if !begun("model/requested") {
            assert_eq!(house.model.requests().len(), 2, "{kind}");
        }
        assert_eq!(house.count("step/start"), house.count("step/end"), "{kind}");
        assert_eq!(house.count("tool/call"), house.count("tool/result"), "{kind}");
        house.close().await;
    }
    for kind in ["prompt/queued", "turn/start", "turn/end"] {
        let (house, end) = cancelled_at_record(kind).await;
        assert_eq!((end, house.count("turn/cancelled")), (EndReason::Completed, 0), "{kind}");
        house.close().await;
    }
}
