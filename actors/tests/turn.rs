//! Turns through real actors on a memory journal.

mod common;
use common::*;
use portcullis_actors::{Answer, Event, SessionOptions};
use portcullis_runtime::*;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

#[tokio::test]
async fn a_plain_one_tool_turn_is_16_records_5_barriers_and_few_hops() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"hi"}"#)]), say("done"), say("x")], |_| {}).await;
    // The first turn also writes the request header.
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let turn = house.session.prompt("again").await.unwrap();
    let (number, end, _) = turn.done().await;
    assert_eq!((number, end), (2, EndReason::Completed));

    let one_tool =
        common::house(vec![say("first"), calls(&[("Echo", r#"{"text":"hi"}"#)]), say("done")], |_| {}).await;
    one_tool.prompt("go").await;
    let before = one_tool.kinds().len();
    let (_, end, cost) = one_tool.session.prompt("again").await.unwrap().done().await;
    assert_eq!(end, EndReason::Completed);
    let kinds = one_tool.kinds();
    assert_eq!(
        kinds[before..],
        [
            "prompt/queued",
            "turn/start",
            "user/message",
            "step/start",
            "model/requested",
            "assistant/message",
            "tool/call",
            "tool/dispatched",
            "tool/returned",
            "tool/result",
            "step/end",
            "step/start",
            "model/requested",
            "assistant/message",
            "step/end",
            "turn/end"
        ]
    );
    assert_eq!((cost.records, cost.barriers), (16, 5));
    assert!(cost.hops <= 4, "{} hops", cost.hops);
    one_tool.sound();
}

// C-TURN-1, 2: a batch is one turn; each prompt is judged once, in order.
#[tokio::test]
async fn a_batch_is_judged_prompt_by_prompt() {
    let house = house(vec![say("ok")], |at| {
        at.prompt_submit("gate", async |p| match &*p.content.to_text() {
            "a" => Reply::new(Submit::allow()).context("about a"),
            "b" => Reply::new(Submit::block("no b")),
            _ => Reply::new(Submit::replace("c!")),
        });
    })
    .await;
    let batch = ["a", "b", "c"].map(Content::text);
    assert_eq!(house.session.prompts(batch).await.unwrap().await, EndReason::Completed);
    let request = &house.model.requests()[0];
    let texts: Vec<String> = request
        .messages
        .iter()
        .map(|m| match m {
            Message::User { content, .. } | Message::Context { content, .. } => {
                content.to_text().into_owned()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["a", "about a", "c!"]);
    assert!(house.kinds().contains(&"prompt/blocked".into()));
    house.sound();
}

// C-TURN-2
#[tokio::test]
async fn a_batch_blocked_whole_calls_no_model() {
    let house = house(vec![say("never")], |at| {
        at.prompt_submit("gate", async |_| Submit::block("not today"));
    })
    .await;
    assert_eq!(house.prompt("x").await, EndReason::Rejected { reason: "not today".into() });
    assert!(house.model.requests().is_empty());
    house.sound();
}

// C-TURN-3: a gate that fails on the second of three prompts blocks that one.
#[tokio::test]
async fn a_prompt_gate_that_fails_blocks_its_prompt_only() {
    let house = house(vec![say("ok")], |at| {
        at.prompt_submit("gate", async |p| {
            if p.content.to_text() == "b" {
                panic!("gate down");
            }
            Submit::allow()
        });
    })
    .await;
    let batch = ["a", "b", "c"].map(Content::text);
    assert_eq!(house.session.prompts(batch).await.unwrap().await, EndReason::Completed);
    let kinds = house.kinds();
    assert_eq!(kinds.iter().filter(|k| *k == "user/message").count(), 2);
    assert_eq!(kinds.iter().filter(|k| *k == "prompt/blocked").count(), 1);
    house.sound();
}

// C-PIPE-2, 3, 4, 8
#[tokio::test]
async fn denials_failures_and_unknown_tools_are_answered_and_run_nothing() {
    let model = vec![
        calls(&[
            ("Echo", r#"{"text":"deny"}"#),
            ("Echo", r#"{"text":"guard"}"#),
            ("Echo", r#"{"text":"broken"}"#),
            ("Nope", "{}"),
            ("Echo", r#"{"text":1}"#),
            ("Echo", r#"{"text":"a","text":"b"}"#),
            ("Echo", r#"{"text":"fail"}"#),
            ("Echo", r#"{"text":"panic"}"#),
            ("Echo", r#"{"text":"fine"}"#),
        ]),
        say("done"),
    ];
    let house = house(model, |at| {
        at.pre_execute("gate", async |call| {
            match call.arguments.root().get("text").and_then(|t| t.as_str().map(String::from)).as_deref() {
                Some("deny") => Ok(Gate::deny("no")),
                Some("broken") => Err("database down"),
                _ => Ok(Gate::allow()),
            }
        });
        at.guard("guard", |call| call.arguments.text().contains("guard").then(|| "guarded".into()));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let results = house.results();
    let ends: Vec<&str> = results.iter().map(|r| r.outcome.name()).collect();
    assert_eq!(
        ends,
        [
            "hook_deny",
            "guard_deny",
            "handler_failure",
            "unknown_tool",
            "invalid_arguments",
            "invalid_arguments",
            "tool_error",
            "handler_failure",
            "completed"
        ]
    );
    assert_eq!(results[0].content.to_text(), "no");
    assert!(!results[2].content.to_text().contains("database"), "details stay in the log");
    assert_eq!(house.kinds().iter().filter(|k| *k == "tool/dispatched").count(), 3);
    house.sound();
}

// C-PIPE-3: a handler that never answers is a failure at its limit.
#[tokio::test]
async fn a_handler_that_never_answers_denies_at_its_limit() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], |at| {
        at.within(Duration::from_millis(30), |at| {
            at.pre_execute("stuck", async |_| std::future::pending::<Gate>().await);
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.results()[0].outcome.name(), "handler_failure");
    house.sound();
}

// C-PIPE-9: the whole pipeline and the model see the effective arguments.
#[tokio::test]
async fn a_rewrite_is_what_runs_and_what_the_model_sees() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"rm"}"#)]), say("done")], |at| {
        at.rewrite("safer", async |p| {
            assert_eq!(p.requested.text(), r#"{"text":"rm"}"#);
            Proposal::arguments(Frozen::parse(r#"{"text":"ls"}"#).unwrap())
        });
        at.pre_execute("sees", async |call| {
            assert_eq!(call.arguments.text(), r#"{"text":"ls"}"#);
            Gate::allow()
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.results()[0].content.to_text(), "ls");
    let second = &house.model.requests()[1];
    let shown = second.messages.iter().find_map(|m| match m {
        Message::Assistant { blocks } => Some(format!("{blocks:?}")),
        _ => None,
    });
    assert!(shown.unwrap().contains("ls"));
    house.sound();
}

// C-PIPE-9: the outcome of a rewrite passes the schema or the call is refused.
#[tokio::test]
async fn a_rewrite_that_breaks_the_schema_is_refused() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], |at| {
        at.rewrite("bad", async |_| Proposal::arguments(Frozen::parse(r#"{"text":5}"#).unwrap()));
    })
    .await;
    house.prompt("go").await;
    assert_eq!(house.results()[0].outcome.name(), "invalid_arguments");
    house.sound();
}

// C-ASK-1, 2
#[tokio::test]
async fn an_ask_is_put_once_and_answered_once() {
    let house =
        house(vec![calls(&[("Echo", r#"{"text":"x"}"#), ("Echo", r#"{"text":"y"}"#)]), say("done")], |at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    let mut events = house.session.events(Seq(0));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        if let Some(Event::Ask(ask)) = futures::StreamExt::next(&mut events).await {
            let answer =
                if asked.is_empty() { Answer::Allow } else { Answer::Refuse(Some("too late".into())) };
            let mut forged = ask.clone();
            forged.digest[0] ^= 1;
            let tampered = house.session.answer(&forged, Answer::Allow).await;
            assert_eq!(tampered, Err(portcullis_actors::AnswerError::Tampered));
            house.session.answer(&ask, answer.clone()).await.unwrap();
            let again = house.session.answer(&ask, answer).await;
            assert_eq!(again, Err(portcullis_actors::AnswerError::Settled));
            asked.push(ask);
        }
    }
    assert_eq!(turn.await, EndReason::Completed);
    let results = house.results();
    assert_eq!(results[0].outcome, Ended::Completed);
    assert_eq!(results[1].outcome, Ended::ApprovalRefused { reason: Some("too late".into()) });
    assert!(results[1].content.to_text().contains("too late"));
    assert_eq!(house.kinds().iter().filter(|k| *k == "input/requested").count(), 2);
    house.sound();
}

// C-ASK-2: no channel means deny, with a text that says so.
#[tokio::test]
async fn an_ask_without_anyone_to_ask_is_denied() {
    let model = Answers::new(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]);
    let house = house_with(model, MemoryJournal::new(), false, |at| {
        at.pre_execute("careful", async |_| Gate::ask("sure?"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let result = &house.results()[0];
    assert_eq!(result.outcome, Ended::ApprovalUnavailable { reason: Some("sure?".into()) });
    assert!(result.content.to_text().contains("no one to ask"));
    house.sound();
}

// C-PIPE-6, 7, C-TURN-6
#[tokio::test]
async fn reviews_replace_block_and_add_context_after_the_last_result() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = seen.clone();
    let calls = calls(&[("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#), ("Nope", "{}")]);
    let house = house(vec![calls, say("done")], |at| {
        at.post_execute("review", async |r| {
            match (&*r.name, r.arguments.as_ref().map(|a| a.text().to_owned())) {
                ("Nope", _) => Reply::new(Review::replace("try Echo")),
                (_, Some(a)) if a.contains("\"a\"") => {
                    Reply::new(Review::block("look again")).context("ctx a")
                }
                _ => Reply::new(Review::accept()).context("ctx b"),
            }
        });
        at.result("watch", move |r| {
            sees.lock().unwrap().push((r.name.to_string(), r.content.to_text().into_owned()))
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let results = house.results();
    assert_eq!((results[0].content.to_text().as_ref(), results[0].error), ("look again", true));
    assert_eq!(results[0].outcome, Ended::Completed);
    assert_eq!((results[2].outcome.name(), results[2].error), ("unknown_tool", true));
    let kinds = house.kinds();
    let last_result = kinds.iter().rposition(|k| k == "tool/result").unwrap();
    assert_eq!(kinds[last_result + 1..last_result + 4], ["context/message", "context/message", "step/end"]);
    let seen = seen.lock().unwrap().clone();
    let expect = [("Echo", "look again"), ("Echo", "b"), ("Nope", "try Echo")];
    assert_eq!(seen, expect.map(|(a, b)| (a.to_owned(), b.to_owned())));
    house.sound();
}

// C-TURN-7: forty forced continuations meet the cap of 8, visibly; a reason is not needed.
#[tokio::test]
async fn forced_continuations_meet_the_cap() {
    let house = house(vec![say("stop")], |at| {
        at.turn_continuation("on", async |e| {
            assert!(e.forced <= 8);
            Continue::Again { reason: None }
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::ContinuationCap { limit: 8 });
    assert_eq!(house.model.requests().len(), 9);
    assert!(house.model.requests().iter().all(|r| r.messages.last_role() == Some(Role::User)));
    assert_eq!(house.kinds().iter().filter(|k| *k == "steering/message").count(), 8);
    house.sound();
}

// C-TURN-8: a halt asked inside a step acts when that step's calls have their results.
#[tokio::test]
async fn a_halt_waits_for_the_results_of_its_step() {
    let calls = calls(&[("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#)]);
    let house = house(vec![calls, say("never")], |at| {
        at.pre_execute("halt", async |_| Reply::new(Gate::allow()).halt("enough"));
    })
    .await;
    let end = house.prompt("go").await;
    assert_eq!(end, EndReason::Halted { by: HandlerId::new("test", "halt"), reason: "enough".into() });
    assert_eq!(house.results().len(), 2);
    assert_eq!(house.model.requests().len(), 1);
    house.sound();
}

// C-TURN-10: a cut stream ends its turn, and the session goes on.
#[tokio::test]
async fn a_cut_stream_ends_its_turn_only() {
    let house = house(vec![vec![ModelEvent::Text("half".into())]], |_| {}).await;
    let end = house.prompt("go").await;
    assert!(matches!(&end, EndReason::Error { code, .. } if &**code == "model_cut"), "{end:?}");
    let again = house.prompt("again").await;
    assert!(matches!(again, EndReason::Error { .. }));
    house.sound();
}

// C-TURN-11
#[tokio::test]
async fn session_start_context_is_in_the_first_request_once() {
    let house = house(vec![say("a"), say("b")], |at| {
        at.session_start("hello", async |s| {
            assert_eq!(s.source, StartSource::Startup);
            Reply::new(Started {}).context("you are in a castle")
        });
    })
    .await;
    house.prompt("one").await;
    house.prompt("two").await;
    let requests = house.model.requests();
    let count = |r: &ModelRequest| r.messages.iter().filter(|m| matches!(m, Message::Context { .. })).count();
    assert_eq!((count(&requests[0]), count(&requests[1])), (1, 1));
    assert!(matches!(requests[0].messages.iter().next(), Some(Message::Context { .. })));
    house.sound();
}

// C-TURN-8, C-TURN-11: the session starts; the turn that waited for it ends, and the next one is as any other.
#[tokio::test]
async fn a_start_may_end_its_turn_before_a_prompt_is_judged() {
    let judged = Arc::new(Mutex::new(Vec::new()));
    let seen = judged.clone();
    let house = house(vec![say("a")], move |at| {
        at.session_start("first", async |_| Reply::new(Started {}).context("castle").halt("not today"));
        at.session_start("second", async |_| Reply::new(Started {}).context("moat"));
        at.prompt_submit("gate", async move |prompt| {
            seen.lock().unwrap().push(prompt.content.to_text().into_owned());
            Submit::allow()
        });
    })
    .await;
    let end = house.prompt("one").await;
    let EndReason::Halted { by, reason } = end else { panic!("{end:?}") };
    assert_eq!((&*by.handler, reason.as_str()), ("first", "not today"));
    assert!(house.model.requests().is_empty() && judged.lock().unwrap().is_empty());
    let blocked = house
        .journal
        .records(&id())
        .iter()
        .any(|record| matches!(&record.body, Body::PromptBlocked(b) if b.reason.as_str() == "not today"));
    assert!(blocked);
    assert_eq!(house.prompt("two").await, EndReason::Completed);
    assert_eq!(*judged.lock().unwrap(), ["two"]);
    let requests = house.model.requests();
    let texts: Vec<String> = requests[0].messages.iter().map(|message| format!("{message:?}")).collect();
    assert!(texts.len() == 3 && texts[0].contains("castle") && texts[1].contains("moat"), "{texts:?}");
    house.sound();
}

// C-TURN-8: who blocks and halts says that the turn is over, not only that a prompt does not pass.
#[tokio::test]
async fn a_halt_beside_a_block_is_how_the_turn_ends() {
    let house = house(vec![say("a")], |at| {
        at.prompt_submit("gate", async |_| Reply::new(Submit::block("no")).halt("over"));
    })
    .await;
    let end = house.prompt("one").await;
    assert!(matches!(&end, EndReason::Halted { reason, .. } if reason.as_str() == "over"), "{end:?}");
    assert!(house.model.requests().is_empty());
    house.sound();
}

// C-TURN-11: a session that begins afresh says so, and so does its log.
#[tokio::test]
async fn a_cleared_session_starts_as_clear() {
    let sources = Arc::new(Mutex::new(Vec::new()));
    let seen = sources.clone();
    let house = house(vec![say("a"), say("b"), say("c")], move |at| {
        at.session_start("hello", async move |s| {
            seen.lock().unwrap().push(s.source);
            Started {}
        });
    })
    .await;
    house.prompt("one").await;
    let fresh = SessionId::new("fresh").unwrap();
    let options = SessionOptions::new("/").after_clear(id());
    let session = house.runtime.session(fresh.clone(), options).await.unwrap();
    assert_eq!(session.prompt("two").await.unwrap().await, EndReason::Completed);
    assert_eq!(*sources.lock().unwrap(), [StartSource::Startup, StartSource::Clear]);
    let records = house.journal.records(&fresh);
    let state = law::State::fold(&records).unwrap();
    assert_eq!(state.created().and_then(|c| c.cleared.clone()), Some(id()));
    house.sound();
}

// C-TURN-9: cancel answers every open call, is durable when acknowledged, and loses no prompt sent right after it.
#[tokio::test]
async fn a_cancel_answers_open_calls_and_the_next_prompt_runs() {
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let model = vec![calls(&[("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#)]), say("next")];
    let house = house(model, move |at| {
        at.pre_execute("slow", move |_call: Execution| {
            let entered = entered.clone();
            async move {
                let _ = entered.send(());
                std::future::pending::<Gate>().await
            }
        });
    })
    .await;
    assert!(!house.session.cancel(Cause::User).await.unwrap(), "idle: nothing to cancel");
    let turn = house.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    assert!(house.session.cancel(Cause::User).await.unwrap());
    let next = house.session.prompt("next").await.unwrap();
    assert!(matches!(turn.await, EndReason::Aborted { .. }));
    assert_eq!(next.await, EndReason::Completed);
    let ends: Vec<&str> = house.results().iter().map(|r| r.outcome.name()).collect::<Vec<_>>();
    assert_eq!(ends, ["cancelled_before_dispatch", "cancelled_before_dispatch"]);
    house.sound();
}

// C-LOG-10: a cursor from the start sees every record in order, and the pieces of the stream.
#[tokio::test]
async fn events_are_every_record_in_order() {
    let house = house(vec![say("hello")], |_| {}).await;
    let mut events = house.session.events(Seq(0));
    house.prompt("go").await;
    let mut next = 0;
    let mut text = String::new();
    while let Some(event) = futures::StreamExt::next(&mut events).await {
        match event {
            Event::Record(record) => {
                assert_eq!(record.seq, Seq(next));
                next += 1;
                if matches!(record.body, Body::TurnEnd(_)) {
                    break;
                }
            }
            Event::Delta { text: piece, .. } => text.push_str(&piece),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next as usize, house.journal.records(&id()).len());
    assert_eq!(text, "hello");
}

// C-RUN-5: shutdown says what it left, and a parked turn goes on where it was.
#[tokio::test]
async fn a_turn_cut_by_shutdown_goes_on_in_the_next_runtime() {
    let model = Answers::new(vec![calls(&[("Echo", r#"{"text":"a"}"#)]), say("done")]);
    let stuck = house_with(model.clone(), MemoryJournal::new(), true, |at| {
        at.pre_execute("ask", async |_| Gate::ask("sure?"));
    })
    .await;
    let turn = stuck.session.prompt("go").await.unwrap();
    while stuck.session.asks().is_empty() {
        tokio::task::yield_now().await;
    }
    let left = stuck.runtime.shutdown(Duration::from_millis(10)).await;
    assert_eq!(left.parked, [id()]);
    assert!(matches!(turn.await, EndReason::Error { .. }));

    let again = house_with(model, stuck.journal.clone(), true, |at| {
        at.pre_execute("ask", async |_| -> Gate { panic!("decided already, never asked again") });
    })
    .await;
    let ask = loop {
        if let Some(ask) = again.session.asks().pop() {
            break ask;
        }
        tokio::task::yield_now().await;
    };
    again.session.answer(&ask, Answer::Allow).await.unwrap();
    while again.kinds().last().map(String::as_str) != Some("turn/end") {
        tokio::task::yield_now().await;
    }
    assert_eq!(again.results()[0].outcome, Ended::Completed);
    assert_eq!(again.kinds().iter().filter(|k| *k == "input/requested").count(), 1);
    again.sound();
    assert_eq!(again.runtime.shutdown(Duration::from_secs(5)).await.parked, []);
}

// C-TURN-8: turn-stop is asked at each boundary at which the turn would go on, is terminal, and drops steering.
#[tokio::test]
async fn turn_stop_ends_the_turn_at_a_step_boundary() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"a"}"#)]), say("never")], |at| {
        at.turn_stop("enough", async |b| if b.scene.step == 1 { StopTurn::Stop } else { StopTurn::Abstain });
        at.turn_continuation("on", async |_| Continue::again("go on"));
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.model.requests().len(), 1);
    assert_eq!(house.results().len(), 1);
    house.sound();

    // A forced continuation does not resurrect it, and a failing handler stops, too.
    let broken = common::house(vec![say("stop")], |at| {
        at.turn_continuation("on", async |_| Continue::again("go on"));
        at.turn_stop("broken", async |_| -> StopTurn { panic!("down") });
    })
    .await;
    assert_eq!(broken.prompt("go").await, EndReason::Completed);
    assert_eq!(broken.model.requests().len(), 1);
    broken.sound();
}

// C-TURN-4: what is injected while a tool runs is in the next request, behind the step's results.
#[tokio::test]
async fn inject_during_a_tool_joins_the_next_request() {
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let wait = gate.clone();
    let house = house(vec![calls(&[("Echo", r#"{"text":"a"}"#)]), say("done")], move |at| {
        at.post_execute("hold", move |_: Returned| {
            let (entered, wait) = (entered.clone(), wait.clone());
            async move {
                let _ = entered.send(());
                wait.acquire().await.unwrap().forget();
                Review::accept()
            }
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    house.session.inject("clock", "it is noon").await.unwrap();
    gate.add_permits(1);
    assert_eq!(turn.await, EndReason::Completed);
    let last = house.model.requests()[1].messages.last().cloned();
    assert_eq!(last, Some(Message::Context { content: "it is noon".into(), source: Source::owner("clock") }));
    house.sound();
}

// C-LOG-2, C-SEAM-2: an owner's records stand with the decision they belong to, in one append; a type of the runtime's
// own is refused.
#[tokio::test]
async fn an_owners_records_stand_beside_its_decision() {
    let own = |kind: &str| OwnRecord { kind: kind.into(), data: Frozen::parse(r#"{"exit":0}"#).unwrap() };
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], move |at| {
        at.rewrite("hook", async move |_| {
            Reply::new(Proposal::pass()).record(own("hook/invoked")).record(own("hook/result"))
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let records = house.journal.records(&id());
    let at = records.iter().position(|r| r.body.kind() == "hook/invoked").unwrap();
    let kinds: Vec<&str> = records[at..at + 4].iter().map(|r| r.body.kind()).collect();
    assert_eq!(kinds, ["hook/invoked", "hook/result", "decision/recorded", "tool/call"]);
    assert_eq!(records[at].at.call, Some(CallPath::top(0)));
    house.sound();

    let forger = common::house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], move |at| {
        at.rewrite("forger", async move |_| Reply::new(Proposal::pass()).record(own("tool/result")));
    })
    .await;
    assert_eq!(forger.prompt("go").await, EndReason::Completed);
    assert_eq!(forger.results().len(), 1);
    assert_eq!(forger.results()[0].outcome.name(), "handler_failure");
    forger.sound();
}

/// A model that cuts its stream when it hears the cancel.
struct Cutting;

impl Model for Cutting {
    fn name(&self) -> std::sync::Arc<str> {
        "cutting".into()
    }
    fn respond(
        &self,
        request: ModelRequest,
    ) -> futures::stream::BoxStream<'static, Result<ModelEvent, ModelError>> {
        let cut = async move {
            request.cancel.cancelled().await;
            Err(ModelError::Cut { events: 1 })
        };
        Box::pin(futures::stream::once(cut))
    }
}

// C-TURN-9: a cancel during a model request ends the turn `aborted`, whatever the model makes of it.
#[tokio::test]
async fn a_cancel_beats_the_cut_that_it_causes() {
    let config = portcullis_actors::Config {
        table: Table::new(),
        model: std::sync::Arc::new(Cutting),
        journal: std::sync::Arc::new(MemoryJournal::new()),
        system: "".into(),
        limits: Limits::default(),
        arbiters: Some(1),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
        required: vec![],
    };
    let runtime = portcullis_actors::Runtime::start(config).await.unwrap();
    let options = portcullis_actors::SessionOptions::new("/");
    let session = runtime.session(id(), options).await.unwrap();
    for _ in 0..500 {
        let turn = session.prompt("go").await.unwrap();
        assert!(session.cancel(Cause::User).await.unwrap());
        assert!(matches!(turn.await, EndReason::Aborted { .. }));
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(5)).await.parked, []);
}

// C-TURN-1: what is sent while a turn is open is the next turn's, in its own time.
#[tokio::test]
async fn a_prompt_sent_during_a_turn_is_the_next_turns() {
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let wait = gate.clone();
    let house = house(vec![calls(&[("Echo", r#"{"text":"a"}"#)]), say("one"), say("two")], move |at| {
        at.pre_execute("hold", move |_: Execution| {
            let (entered, wait) = (entered.clone(), wait.clone());
            async move {
                let _ = entered.send(());
                wait.acquire().await.unwrap().forget();
                Gate::allow()
            }
        });
    })
    .await;
    let first = house.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    let second = house.session.prompt("more").await.unwrap();
    gate.add_permits(1);
    assert_eq!(first.done().await.0, 1);
    assert_eq!(second.done().await.0, 2);
    house.sound();
}
