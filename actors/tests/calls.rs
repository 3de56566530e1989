//! Wrappers, nested calls and overlapping bodies.

mod common;
use common::*;
use portcullis_actors::{Config, Runtime, Session, SessionOptions};
use portcullis_runtime::*;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

struct Rig {
    runtime: Runtime,
    session: Session,
    journal: MemoryJournal,
}

async fn rig(
    answers: Vec<Vec<ModelEvent>>,
    tools: Vec<Arc<dyn Tool>>,
    register: impl FnOnce(&mut Registrar<'_>),
) -> Rig {
    let mut table = Table::new();
    for tool in tools {
        table.tool(tool).unwrap();
    }
    table.register("test", register);
    let journal = MemoryJournal::new();
    let config = Config {
        table,
        model: Arc::new(Answers::new(answers)),
        journal: Arc::new(journal.clone()),
        system: "".into(),
        limits: Limits::default(),
        arbiters: Some(1),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
        required: vec![],
    };
    let runtime = Runtime::start(config).await.unwrap();
    let session = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
    Rig { runtime, session, journal }
}

impl Rig {
    async fn prompt(&self) -> EndReason {
        self.session.prompt("go").await.unwrap().await
    }
    fn records(&self) -> Vec<Arc<Record>> {
        self.journal.records(&id())
    }
    fn results(&self) -> Vec<(String, ToolResult)> {
        let records = self.records();
        let results = records.iter().filter_map(|r| match &r.body {
            Body::ToolResult(result) => Some((r.at.call.clone().unwrap().to_string(), result.clone())),
            _ => None,
        });
        results.collect()
    }
    fn count(&self, kind: &str) -> usize {
        self.records().iter().filter(|r| r.body.kind() == kind).count()
    }
    async fn sound(self) {
        assert_eq!(law::State::fold(&self.records()).unwrap().next(None), law::Next::Idle);
        assert!(self.runtime.live_calls().is_empty());
        assert!(self.runtime.shutdown(Duration::from_secs(10)).await.parked.is_empty());
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

// C-PIPE-5: a wrapper runs the rest again under the same token, with its own dispatch; the result is given once.
#[tokio::test]
async fn a_wrapper_retries_under_the_same_token() {
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let seen = tokens.clone();
    let flaky = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Flaky", "Fails twice.").unwrap(),
        move |call: Execution, cx: ToolCx| {
            seen.lock().unwrap().push((call.id, cx.attempt));
            Box::pin(async move {
                if cx.attempt < 3 { Err(ToolError::new("not yet")) } else { Ok(Output::text("at last")) }
            })
        },
    ));
    let rig = rig(vec![calls(&[("Flaky", "{}")]), say("done")], vec![flaky], |at| {
        at.wrap("retry", async |next| {
            loop {
                let outcome = next.run().await;
                if outcome.ended != Ended::ToolError {
                    break outcome;
                }
            }
        });
        at.result("once", |_| {});
    })
    .await;
    assert_eq!(rig.prompt().await, EndReason::Completed);
    let tokens = tokens.lock().unwrap().clone();
    assert_eq!(tokens.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(tokens.iter().all(|(token, _)| *token == tokens[0].0));
    assert_eq!(
        (rig.count("tool/dispatched"), rig.count("tool/returned"), rig.count("tool/result")),
        (3, 1, 1)
    );
    assert_eq!(rig.results()[0].1.content.to_text(), "at last");
    rig.sound().await;
}

// C-PIPE-5: a wrapper may answer in the body's stead; a panic of one, or a forged denial, is an error result.
#[tokio::test]
async fn wrappers_answer_fail_and_cannot_forge() {
    let tools = || vec![echo()];
    let model = || vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")];
    let answered = rig(model(), tools(), |at| {
        at.wrap("cache", async |_next| Outcome::completed("cached"));
    })
    .await;
    answered.prompt().await;
    assert_eq!(answered.results()[0].1.content.to_text(), "cached");
    answered.sound().await;

    let broken = rig(model(), tools(), |at| {
        at.wrap("broken", async |_next| panic!("wrapper down"));
    })
    .await;
    broken.prompt().await;
    let (_, result) = &broken.results()[0];
    assert!(
        matches!(&result.outcome, Ended::HandlerFailure { by, point: Some(Point::Execute), .. } if &*by.handler == "broken")
    );
    assert!(!result.content.to_text().contains("wrapper down"));
    broken.sound().await;

    let forged = rig(model(), tools(), |at| {
        at.wrap("forger", async |_next| Outcome::ended(Ended::UnknownTool));
    })
    .await;
    forged.prompt().await;
    assert_eq!(forged.results()[0].1.outcome.name(), "handler_failure");
    forged.sound().await;
}

// C-PIPE-5: a wrapper tightens the time; the outermost wrapper sees what the inner one made of it.
#[tokio::test]
async fn a_wrapper_tightens_the_limit() {
    let stuck = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Stuck", "Waits to be cancelled.").unwrap(),
        |_: Execution, cx: ToolCx| {
            Box::pin(async move {
                cx.cancel.cancelled().await;
                Err(ToolError::new("gave up"))
            })
        },
    ));
    let rig = rig(vec![calls(&[("Stuck", "{}")]), say("done")], vec![stuck], |at| {
        at.wrap("outer", async |next| next.within(Duration::from_secs(3600)).await);
        at.wrap("inner", async |next| next.within(Duration::from_millis(20)).await);
    })
    .await;
    assert_eq!(rig.prompt().await, EndReason::Completed);
    let (_, result) = &rig.results()[0];
    assert_eq!(result.outcome.name(), "timeout");
    assert!(result.content.to_text().contains("gave up"), "{result:?}");
    rig.sound().await;
}

// C-PIPE-10, C-ID-3: nested calls take the same path under the parent's token, and are not visible to the model.
#[tokio::test]
async fn nested_calls_are_gated_and_stay_inside() {
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let outer = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Outer", "Calls Echo three times.").unwrap(),
        move |_: Execution, cx: ToolCx| {
            let keep = keep.clone();
            Box::pin(async move {
                let fine = cx.call("Echo", r#"{"text":"fine"}"#).await;
                let denied = cx.call("Echo", r#"{"text":"deny"}"#).await;
                let unknown = cx.call("Nope", "{}").await;
                let names = [&fine, &denied, &unknown].map(|o| o.ended.name());
                *keep.lock().unwrap() = Some(names);
                Ok(Output::text(fine.output.unwrap().content.to_text().into_owned()))
            })
        },
    ));
    let lineage = Arc::new(Mutex::new(Vec::new()));
    let seen = lineage.clone();
    let rig = rig(vec![calls(&[("Outer", "{}")]), say("done")], vec![outer, echo()], |at| {
        at.pre_execute("gate", async move |call| {
            seen.lock().unwrap().push((call.key.call.to_string(), call.id, call.parent));
            if call.arguments.text().contains("deny") { Gate::deny("no") } else { Gate::allow() }
        });
    })
    .await;
    assert_eq!(rig.prompt().await, EndReason::Completed);
    assert_eq!(kept.lock().unwrap().take(), Some(["completed", "hook_deny", "unknown_tool"]));
    let lineage = lineage.lock().unwrap().clone();
    let paths: Vec<&str> = lineage.iter().map(|(path, ..)| path.as_str()).collect();
    assert_eq!(paths, ["0", "0.0", "0.1"]);
    assert!(lineage[1..].iter().all(|(_, id, parent)| *parent == Some(lineage[0].1) && *id != lineage[0].1));
    let paths: Vec<String> = rig.results().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["0.0", "0.1", "0.2", "0"]);
    let state = law::State::fold(&rig.records()).unwrap();
    let shown = state.transcript().iter().filter(|m| matches!(m, Message::Result { .. })).count();
    assert_eq!(shown, 1);
    rig.sound().await;
}

// C-ID-3: a call made after its parent has ended is refused, and one that is still running is ended with it.
#[tokio::test]
async fn nothing_outlives_the_call_that_made_it() {
    let (send, mut late) = tokio::sync::mpsc::unbounded_channel();
    let forever = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Forever", "Runs until it is cancelled.").unwrap(),
        |_: Execution, cx: ToolCx| {
            Box::pin(async move {
                cx.cancel.cancelled().await;
                Err(ToolError::new("cancelled"))
            })
        },
    ));
    let outer = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Outer", "Leaves calls behind.").unwrap(),
        move |_: Execution, cx: ToolCx| {
            let send = send.clone();
            Box::pin(async move {
                let spawned = cx.clone();
                tokio::task::spawn_local(async move { spawned.call("Forever", "{}").await });
                // One that is dropped half-way.
                let dropped = cx.call("Forever", "{}");
                let _ = tokio::time::timeout(Duration::from_millis(20), dropped).await;
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let _ = send.send(cx.call("Echo", r#"{"text":"late"}"#).await);
                });
                Ok(Output::text("left"))
            })
        },
    ));
    let rig = rig(vec![calls(&[("Outer", "{}")]), say("done")], vec![outer, forever, echo()], |_| {}).await;
    assert_eq!(rig.prompt().await, EndReason::Completed);
    let results = rig.results();
    let ends: Vec<(&str, &str)> = results.iter().map(|(path, r)| (path.as_str(), r.outcome.name())).collect();
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert_eq!(ends.last(), Some(&("0", "completed")));
    assert!(ends[..2].iter().all(|(_, end)| *end == "cancelled"), "{ends:?}");
    let late = late.recv().await.unwrap();
    assert_eq!(late.ended.name(), "handler_failure");
    rig.sound().await;
}

// C-TURN-5: bodies that may overlap do; gates and results keep the model's order; an exclusive call waits for all.
#[tokio::test]
async fn safe_bodies_overlap_and_commit_in_order() {
    let running = Arc::new(Mutex::new((0, 0)));
    let counts = running.clone();
    let barrier = Arc::new(tokio::sync::Barrier::new(3));
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct N {
        n: u64,
    }
    let safe = Arc::new(raw_tool(
        ToolSpec::of::<N>("Safe", "Meets the two others.").unwrap().concurrency_safe(),
        move |call: Execution, _| {
            let (counts, barrier) = (counts.clone(), barrier.clone());
            Box::pin(async move {
                {
                    let mut c = counts.lock().unwrap();
                    c.0 += 1;
                    c.1 = c.1.max(c.0);
                }
                barrier.wait().await;
                let n = call.arguments.decode::<N>()?.n;
                // The first is the slowest.
                tokio::time::sleep(Duration::from_millis(30 - 10 * n)).await;
                counts.lock().unwrap().0 -= 1;
                Ok(Output::text(n.to_string()))
            })
        },
    ));
    let model = vec![
        calls(&[
            ("Safe", r#"{"n":0}"#),
            ("Safe", r#"{"n":1}"#),
            ("Safe", r#"{"n":2}"#),
            ("Echo", r#"{"text":"alone"}"#),
        ]),
        say("done"),
    ];
    let order = Arc::new(Mutex::new(Vec::new()));
    let (gates, reviews) = (order.clone(), order.clone());
    let rig = rig(model, vec![safe, echo()], |at| {
        at.pre_execute("gate", async move |c| {
            gates.lock().unwrap().push(format!("gate {}", c.key.call));
            Gate::allow()
        });
        at.post_execute("review", async move |r| {
            reviews.lock().unwrap().push(format!("review {}", r.key.call));
            Reply::new(Review::accept()).context(format!("about {}", r.key.call))
        });
    })
    .await;
    assert_eq!(rig.prompt().await, EndReason::Completed);
    assert_eq!(running.lock().unwrap().1, 3, "they overlapped");
    let order = order.lock().unwrap().clone();
    let of = |what: &str| order.iter().filter(|o| o.starts_with(what)).cloned().collect::<Vec<_>>();
    assert_eq!(of("gate"), ["gate 0", "gate 1", "gate 2", "gate 3"]);
    assert_eq!(of("review"), ["review 0", "review 1", "review 2", "review 3"]);
    assert_eq!(rig.results().iter().map(|(p, _)| p.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let contexts: Vec<String> = rig
        .records()
        .iter()
        .filter_map(|r| match &r.body {
            Body::ContextMessage(m) => Some(m.content.to_text().into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(contexts, ["about 0", "about 1", "about 2", "about 3"]);
    rig.sound().await;
}

/// A tool that may overlap and takes a number; given zero, it is slow.
fn safe() -> Arc<dyn Tool> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct N {
        n: u64,
    }
    let spec = ToolSpec::of::<N>("Safe", "Repeats a number.").unwrap().concurrency_safe();
    Arc::new(raw_tool(spec, async |call: Execution, _: ToolCx| {
        let n = call.arguments.decode::<N>()?.n;
        if n == 0 {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok(Output::text(n.to_string()))
    }))
}

// C-TURN-5: a call that never runs keeps its place between two that overlap, whether its arguments are refused as the
// model wrote them, as a rewriter left them, or a gate denies it.
#[tokio::test]
async fn a_refused_call_keeps_its_place_among_overlapping_ones() {
    for middle in [r#"{"n":"one"}"#, r#"{"n":7}"#, r#"{"n":1}"#] {
        let three = calls(&[("Safe", r#"{"n":0}"#), ("Safe", middle), ("Safe", r#"{"n":2}"#)]);
        let rig = rig(vec![three, say("done")], vec![safe()], |at| {
            at.rewrite("spoil", async |c| match c.requested.text().contains('7') {
                true => Proposal::arguments(Frozen::parse(r#"{"n":"seven"}"#).unwrap()),
                false => Proposal::pass(),
            });
            at.pre_execute("gate", async |c| match c.key.call.to_string().as_str() {
                "1" => Gate::deny("no"),
                _ => Gate::allow(),
            });
        })
        .await;
        assert_eq!(rig.prompt().await, EndReason::Completed);
        let results = rig.results();
        assert_eq!(results.iter().map(|(p, _)| p.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
        let failed: Vec<bool> = results.iter().map(|(_, r)| r.error).collect();
        assert_eq!(failed, [false, true, false]);
        rig.sound().await;
    }
}

// C-TURN-5, C-TURN-9: a question that is given up with its turn lets no later result take its place.
#[tokio::test]
async fn a_cancel_at_a_question_closes_the_calls_behind_it() {
    let two = calls(&[("Safe", r#"{"n":1}"#), ("Safe", r#"{"n":2}"#)]);
    let rig = rig(vec![two, say("done")], vec![safe()], |at| {
        at.pre_execute("gate", async move |c| match c.key.call.to_string().as_str() {
            "0" => Gate::ask("sure?"),
            _ => Gate::deny("no"),
        });
    })
    .await;
    let options = SessionOptions::new("/").approvals();
    let session = rig.runtime.session(SessionId::new("asks").unwrap(), options).await.unwrap();
    let turn = session.prompt("go").await.unwrap();
    while session.asks().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.cancel(Cause::User).await, Ok(true));
    assert!(matches!(turn.await, EndReason::Aborted { .. }));
    assert!(session.asks().is_empty());
    let records = rig.journal.records(&SessionId::new("asks").unwrap());
    let places: Vec<String> = records
        .iter()
        .filter(|r| matches!(r.body, Body::ToolResult(_)))
        .map(|r| r.at.call.clone().unwrap().to_string())
        .collect();
    assert_eq!(places, ["0", "1"]);
    assert_eq!(law::State::fold(&records).unwrap().next(None), law::Next::Idle);
    assert!(rig.runtime.live_calls().is_empty());
}

// C-PIPE-8: a tool that declares its output's shape is held to it.
#[tokio::test]
async fn output_is_checked() {
    let shape = Frozen::parse(r#"{"type":"object","required":["ok"]}"#).unwrap();
    let tool = Arc::new(raw_tool(
        ToolSpec::of::<Nothing>("Shaped", "Breaks its word.").unwrap().output(shape).unwrap(),
        |_: Execution, _| Box::pin(async { Ok(Output::text("x").with_value(Frozen::parse("{}").unwrap())) }),
    ));
    let rig = rig(vec![calls(&[("Shaped", "{}")]), say("done")], vec![tool], |_| {}).await;
    rig.prompt().await;
    assert_eq!(rig.results()[0].1.outcome.name(), "invalid_output");
    rig.sound().await;
}
