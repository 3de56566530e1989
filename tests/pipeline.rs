//! C-PIPE: foreign code that fails, at every point and in every way, and what it means.

mod support;

use futures::future::LocalBoxFuture;
use portcullis::*;
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};
use support::*;

/// How foreign code fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Before there is a future.
    Created,
    /// While its future is polled.
    Polled,
    /// It answers, and its future panics while it is dropped.
    Dropped,
    /// It never answers and never rests.
    Spins,
}

const EVERY_WAY: [How; 4] = [How::Created, How::Polled, How::Dropped, How::Spins];

/// A future that fails as it is told, or answers.
struct Failing<T> {
    how: How,
    answer: Option<T>,
}

impl<T> Unpin for Failing<T> {}

impl<T> Future for Failing<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.how {
            How::Created | How::Polled => panic!("a secret detail"),
            How::Dropped => Poll::Ready(self.answer.take().expect("polled once")),
            How::Spins => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Failing<T> {
    fn drop(&mut self) {
        if self.how == How::Dropped && !std::thread::panicking() {
            panic!("a secret detail");
        }
    }
}

fn failing<T>(how: How, answer: T) -> Failing<T> {
    assert!(how != How::Created, "a secret detail");
    Failing { how, answer: Some(answer) }
}

/// A handler of any seam. What it would have answered lets everything pass.
struct Broken<D>(How, fn() -> D);

impl<S: Seam> Handler<S> for Broken<S::Decision> {
    fn decide(&self, _: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>> {
        Box::pin(failing(self.0, Ok(Reply::new((self.1)()))))
    }
}

struct BrokenWrapper(How);

impl Wrapper for BrokenWrapper {
    fn wrap<'a>(&'a self, _: Next<'a>) -> LocalBoxFuture<'a, Outcome> {
        Box::pin(failing(self.0, Outcome::completed("never")))
    }
}

struct BrokenLook(How);

impl StartObserver for BrokenLook {
    fn observe(&self, _: TurnStarting) -> LocalBoxFuture<'_, Ready> {
        Box::pin(failing(self.0, Ready::default()))
    }
    fn limit(&self) -> Duration {
        BRIEFLY
    }
}

struct BrokenTool(How);

impl Tool for BrokenTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::of::<Nothing>("Broken", "Fails.").unwrap().limit(Duration::from_millis(50))
    }
    fn call(&self, _: Execution, _: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(failing(self.0, Ok(Output::text("never"))))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

const BRIEFLY: Duration = Duration::from_millis(50);

fn break_at(at: &mut Registrar<'_>, point: Point, how: How) {
    at.within(BRIEFLY, |at| match point {
        Point::SessionStart => _ = at.handler::<SessionStart>("broken", Broken(how, Started::default)),
        Point::SubagentStart => _ = at.handler::<SubagentStart>("broken", Broken(how, Started::default)),
        Point::PromptSubmit => {
            at.depth(0..=0, |at| _ = at.handler::<PromptSubmit>("broken", Broken(how, Submit::allow)));
        }
        Point::Rewrite => _ = at.handler::<Rewrite>("broken", Broken(how, Proposal::pass)),
        Point::PreExecute => _ = at.handler::<PreExecute>("broken", Broken(how, Gate::allow)),
        Point::Permission => {
            at.pre_execute("asks", async |_| Gate::ask("sure?"));
            at.handler::<Permission>("broken", Broken(how, || Permit::Allow));
        }
        Point::Guard => _ = at.guard("broken", |_| panic!("a secret detail")),
        Point::Execute => _ = at.wrapper("broken", BrokenWrapper(how)),
        Point::PostExecute => _ = at.handler::<PostExecute>("broken", Broken(how, Review::accept)),
        Point::Result => _ = at.result("broken", |_| panic!("a secret detail")),
        Point::Batch => _ = at.handler::<ToolBatch>("broken", Broken(how, || Batched {})),
        Point::Continuation => {
            _ = at.handler::<TurnContinuation>("broken", Broken(how, || Continue::again("go on")));
        }
        Point::Stop => _ = at.handler::<TurnStop>("broken", Broken(how, || StopTurn::Abstain)),
        Point::TurnStart => _ = at.turn_start_by("broken", BrokenLook(how)),
        Point::Asked => _ = at.asked("broken", |_| panic!("a secret detail")),
        Point::Compacted => _ = at.handler::<AfterCompaction>("broken", Broken(how, Noted::default)),
        Point::TurnEnd => _ = at.turn_end("broken", |_| panic!("a secret detail")),
        Point::SessionEnd => _ = at.session_end("broken", async |_| panic!("a secret detail")),
        Point::SubagentEnd => _ = at.subagent_end("broken", |_| panic!("a secret detail")),
        _ => panic!("{point} has no broken handler yet"),
    });
}

/// A house whose every turn calls Echo and an agent.
async fn broken_at(point: Point, how: How) -> House {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", _) => say("gold"),
        (_, 0) => calls(&[
            ("Echo", r#"{"text":"x"}"#),
            ("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#),
        ]),
        _ => say("done"),
    });
    Plan::new(model).agents().open(|at| break_at(at, point, how)).await
}

/// What a broken handler means, in every way of being broken. C-PIPE-3, C-TURN-3, C-TURN-10.
async fn means(point: Point, how: How) {
    let house = broken_at(point, how).await;
    let why = format!("{point}, {how:?}");
    // A policy that fails ends no session: each turn meets it again.
    for turn in 1..=2 {
        let end = within(house.prompt("go")).await;
        match point {
            Point::PromptSubmit => assert!(matches!(end, EndReason::Rejected { .. }), "{why}: {end:?}"),
            _ => assert_eq!(end, EndReason::Completed, "{why}, turn {turn}"),
        }
    }
    let ends = house.ends();
    let ran = !house.ran().is_empty();
    let failed = ends.first() == Some(&"handler_failure");
    match point {
        Point::PromptSubmit => assert!(house.model.requests().is_empty(), "{why}"),
        Point::Rewrite | Point::PreExecute | Point::Permission | Point::Guard => {
            assert!(failed && !ran, "{why}: {ends:?}");
        }
        Point::Execute => assert!(failed, "{why}: {ends:?}"),
        Point::Stop => assert_eq!(
            (house.count("step/start"), ran),
            (2, true),
            "{why}: each turn stops at its first step"
        ),
        _ => assert_eq!(ends, ["completed"; 4], "{why}"),
    }
    // The failure is on record under its owner's name; no reader of the model's sees its details.
    let all = house.journal.sessions().await.unwrap();
    let logs: Vec<Arc<Record>> = all.iter().flat_map(|head| house.journal.records(&head.session)).collect();
    let decided: Vec<DecisionRecorded> = decisions(&logs).into_iter().filter(|d| d.point == point).collect();
    let unrecorded = [
        Point::TurnStart,
        Point::Execute,
        Point::Result,
        Point::TurnEnd,
        Point::SubagentEnd,
        Point::SessionEnd,
    ];
    let recorded = !unrecorded.contains(&point);
    assert_eq!(!decided.is_empty(), recorded, "{why}");
    for decision in decided {
        assert_eq!(decision.id, HandlerId::new("house", "broken"));
        match (how, decision.made.failure.expect("a failure")) {
            (How::Spins, Failure::Deadline { limit_ms }) => assert_eq!(limit_ms, 50, "{why}"),
            (How::Created | How::Polled | How::Dropped, Failure::Panic { .. }) => {}
            (_, other) => panic!("{why}: {other:?}"),
        }
    }
    for request in house.model.requests() {
        assert!(!format!("{:?}", request.messages).contains("secret"), "{why}: details stay in the log");
    }
    house.close().await;
}

async fn every_way(point: Point, ways: &[How]) {
    for how in ways {
        means(point, *how).await;
    }
}

#[tokio::test]
async fn a_broken_session_start_is_reported() {
    every_way(Point::SessionStart, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_subagent_start_is_reported() {
    every_way(Point::SubagentStart, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_prompt_gate_blocks_the_prompt() {
    every_way(Point::PromptSubmit, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_rewriter_denies() {
    every_way(Point::Rewrite, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_gate_denies() {
    every_way(Point::PreExecute, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_answer_to_a_question_denies() {
    every_way(Point::Permission, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_look_at_a_batch_lets_the_results_stand() {
    every_way(Point::Batch, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_guard_denies() {
    every_way(Point::Guard, &[How::Created]).await;
}

// A wrapper has no limit of its own: one that never answers is ended by the call's, or by a cancel.
#[tokio::test]
async fn a_broken_wrapper_is_an_error_result() {
    every_way(Point::Execute, &[How::Created, How::Polled, How::Dropped]).await;
}

#[tokio::test]
async fn a_broken_review_lets_the_result_stand() {
    every_way(Point::PostExecute, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_observer_is_reported() {
    every_way(Point::Result, &[How::Created]).await;
    every_way(Point::TurnEnd, &[How::Created]).await;
    every_way(Point::SessionEnd, &[How::Created]).await;
    every_way(Point::TurnStart, &[How::Created, How::Polled, How::Dropped, How::Spins]).await;
}

#[tokio::test]
async fn a_broken_continuation_stops() {
    every_way(Point::Continuation, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_turn_stop_stops() {
    every_way(Point::Stop, &EVERY_WAY).await;
}

#[tokio::test]
async fn a_broken_child_observer_is_reported() {
    every_way(Point::SubagentEnd, &[How::Created]).await;
}

// C-PIPE-3, C-RUN-3: a body that panics, in any way, is an error result; one that never rests meets its limit.
#[tokio::test]
async fn a_broken_body_is_an_error_result() {
    for how in EVERY_WAY {
        let model = Says::calls(&[("Broken", "{}"), ("Echo", r#"{"text":"next"}"#)]);
        let house = Plan::new(model).tool(BrokenTool(how)).open(|_| {}).await;
        assert_eq!(house.prompt("go").await, EndReason::Completed);
        let expect = if how == How::Spins { "timeout" } else { "handler_failure" };
        assert_eq!(house.ends(), [expect, "completed"], "{how:?}");
        for request in house.model.requests() {
            assert!(!format!("{:?}", request.messages).contains("secret"));
        }
        house.close().await;
    }
}

// C-PIPE-5: a wrapper runs the rest twice: the wrappers inside and the body run twice, the result is given once.
#[tokio::test]
async fn a_wrapper_runs_the_rest_twice() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (outer, inner, observer) = (seen.clone(), seen.clone(), seen.clone());
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.wrap("outer", async move |next| {
            let (first, second) = (next.run().await, next.run().await);
            outer.lock().unwrap().push("outer");
            assert_eq!(first, second);
            second
        });
        at.wrap("inner", async move |next| {
            inner.lock().unwrap().push("inner");
            next.run().await
        });
        at.result("observer", move |_| observer.lock().unwrap().push("result"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(*seen.lock().unwrap(), ["inner", "inner", "outer", "result"]);
    assert_eq!(house.ran(), ["x", "x"]);
    let of = |kind| house.count(kind);
    assert_eq!((of("tool/dispatched"), of("tool/returned"), of("tool/result")), (2, 1, 1));
    house.close().await;
}

// C-PIPE-6: a review cannot turn a denial into a success, and the reason stays in the record.
#[tokio::test]
async fn a_denial_stays_a_denial() {
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.pre_execute("gate", async |_| Gate::deny("not here"));
        at.post_execute("kind", async |_| Review::replace("it went well"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let result = &house.results()[0];
    let denied = Ended::HookDeny { by: HandlerId::new("house", "gate"), reason: "not here".into() };
    assert_eq!((&result.outcome, result.error), (&denied, true));
    assert_eq!(result.content.to_text(), "it went well");
    house.close().await;
}

// C-PIPE-1: an unknown tool and invalid arguments meet no rewriter, gate, guard, wrapper or body, but the review and
// the observers.
#[tokio::test]
async fn what_never_was_a_call_is_answered_and_observed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = [(); 6].map(|()| seen.clone());
    let house = house(&[("Nope", "{}"), ("Echo", "{}")], |at| {
        let [a, b, c, d, e, f] = sees;
        at.rewrite("r", async move |_| {
            a.lock().unwrap().push("rewrite");
            Proposal::pass()
        });
        at.pre_execute("p", async move |_| {
            b.lock().unwrap().push("gate");
            Gate::allow()
        });
        at.guard("g", move |_| {
            c.lock().unwrap().push("guard");
            None
        });
        at.wrap("w", async move |next| {
            d.lock().unwrap().push("wrapper");
            next.run().await
        });
        at.post_execute("q", async move |_| {
            e.lock().unwrap().push("review");
            Review::accept()
        });
        at.result("o", move |_| f.lock().unwrap().push("result"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(*seen.lock().unwrap(), ["review", "result", "review", "result"]);
    assert_eq!(house.ends(), ["unknown_tool", "invalid_arguments"]);
    house.close().await;
}

// C-PIPE-5, 8: what a wrapper answers in the body's stead is held to the tool's own word.
#[tokio::test]
async fn a_wrappers_answer_is_held_to_the_tools_word() {
    let shape = Frozen::parse(r#"{"type":"object","required":["n"]}"#).unwrap();
    let spec = ToolSpec::of::<Nothing>("Shaped", "Has a shape.").unwrap().output(shape).unwrap();
    let body = async |_: Execution, _cx| Ok(Output::text("one").with_value(Frozen::parse(r#"{"n":1}"#)?));
    let plan = Plan::new(Says::calls(&[("Shaped", "{}"), ("Shaped", "{}")])).tool(raw_tool(spec, body));
    let house = plan.open(|at| {
        at.wrap("shapeless", async |next| match next.call().key.call == CallPath::top(0) {
            true => Outcome::completed("no value at all"),
            false => next.run().await,
        });
    });
    let house = house.await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ends(), ["invalid_output", "completed"]);
    house.close().await;
}

// C-TURN-5: bodies overlap up to a limit.
#[tokio::test]
async fn at_most_ten_bodies_overlap() {
    let counts = Arc::new(Mutex::new((0_usize, 0_usize)));
    let c = counts.clone();
    let spec = ToolSpec::of::<Nothing>("Safe", "Counts.").unwrap().concurrency_safe();
    let body = async move |_: Execution, _cx: ToolCx| {
        {
            let mut c = c.lock().unwrap();
            c.0 += 1;
            c.1 = c.1.max(c.0);
        }
        // Until ten are inside, or all the others are through.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        c.lock().unwrap().0 -= 1;
        Ok(Output::text("counted"))
    };
    let plan = Plan::new(Says::calls(&[("Safe", "{}"); 25])).tool(raw_tool(spec, body));
    let house = plan.open(|_| {}).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ends(), ["completed"; 25]);
    assert_eq!(counts.lock().unwrap().1, 10);
    house.close().await;
}

/// A bridge that panics while it looks for what matches.
struct BrokenBridge;

impl HandlerSource<PreExecute> for BrokenBridge {
    fn plan(&self, _: &Execution, _: &mut Vec<Planned<PreExecute>>) {
        panic!("a secret detail");
    }
    fn describe(&self) -> Vec<Registered> {
        vec![]
    }
}

// C-TURN-10, C-PIPE-3: a bridge's panic is its failure, by the rule of the point, and ends neither turn nor session.
#[tokio::test]
async fn a_bridge_that_panics_while_it_plans_denies() {
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.source::<PreExecute>(Arc::new(BrokenBridge));
    })
    .await;
    for turn in 1..=2 {
        assert_eq!(house.prompt("go").await, EndReason::Completed, "turn {turn}");
    }
    assert_eq!(house.ends(), ["handler_failure", "handler_failure"]);
    assert!(house.ran().is_empty());
    assert_eq!(house.count("session/resumed"), 0);
    house.close().await;
}

/// A bridge whose handler looks at what the journal holds when it is asked.
struct Looks(MemoryJournal, Arc<Mutex<Vec<usize>>>);

impl HandlerSource<PreExecute> for Looks {
    fn plan(&self, _: &Execution, out: &mut Vec<Planned<PreExecute>>) {
        let (journal, seen) = (self.0.clone(), self.1.clone());
        let run = Arc::new(move |_: Execution| {
            let log = records(&journal, "s");
            seen.lock().unwrap().push(decisions(&log).len());
            async { Gate::allow() }
        });
        let id = HandlerId::new("hooks", "looks");
        out.push(Planned { id, deadline: Duration::from_secs(10), run, native: false });
    }
    fn describe(&self) -> Vec<Registered> {
        vec![]
    }
}

// C-DUR-1: decisions that nothing was awaited for are one append, but a process is not started before they are on record.
#[tokio::test]
async fn a_bridge_is_asked_when_what_was_decided_before_it_is_on_record() {
    let (journal, seen) = (MemoryJournal::new(), Arc::default());
    let looks = Arc::new(Looks(journal.clone(), Arc::clone(&seen)));
    let model = Says::calls(&[("Echo", r#"{"text":"x"}"#)]);
    let house = Plan::new(model)
        .journal(&journal)
        .open(move |at| {
            at.pre_execute("first", async |_| Gate::allow());
            at.pre_execute("second", async |_| Gate::allow());
            at.source::<PreExecute>(looks);
        })
        .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(*seen.lock().unwrap(), [2]);
    house.close().await;
}

// C-DUR-1: whoever has to wait holds back nobody's decision, and each decision has its place in the order of its point.
#[tokio::test]
async fn decisions_before_a_handler_that_waits_are_on_record_while_it_does() {
    let (journal, seen) = (MemoryJournal::new(), Arc::new(Mutex::new(Vec::new())));
    let (looked, told) = (journal.clone(), Arc::clone(&seen));
    let house = Plan::new(Says::calls(&[("Echo", r#"{"text":"x"}"#)]))
        .journal(&journal)
        .open(move |at| {
            at.pre_execute("first", async |_| Gate::allow());
            at.pre_execute("second", async |_| Gate::allow());
            at.pre_execute("waits", move |_: Execution| {
                let (looked, told) = (looked.clone(), Arc::clone(&told));
                async move {
                    tokio::task::yield_now().await;
                    told.lock().unwrap().push(decisions(&records(&looked, "s")).len());
                    Gate::allow()
                }
            });
            at.pre_execute("last", async |_| Gate::allow());
            at.pre_execute("very-last", async |_| Gate::allow());
        })
        .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(*seen.lock().unwrap(), [2]);
    let order: Vec<(String, u32)> =
        house.decisions().iter().map(|d| (d.id.handler.to_string(), d.order)).collect();
    let names = ["first", "second", "waits", "last", "very-last"];
    assert_eq!(order, names.iter().map(|name| name.to_string()).zip(0..).collect::<Vec<_>>());
    house.close().await;
}
