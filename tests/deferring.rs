//! C-BRIDGE-9: a call that is deferred waits with its turn open until its host resumes it, and is judged anew then.

mod support;

use portcullis::*;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use support::*;

const ONE: [(&str, &str); 1] = [("Echo", r#"{"text":"a"}"#)];

/// A gate that defers each call so often, and then allows it; with the tokens of the trips that it saw.
#[derive(Clone, Default)]
struct Later {
    seen: Arc<Mutex<Vec<(String, TokenId)>>>,
}

impl Later {
    fn register(&self, at: &mut Registrar<'_>, times: usize) {
        let seen = self.seen.clone();
        at.pre_execute("later", async move |call: Execution| {
            let text = call.arguments.text().to_owned();
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|(of, _)| *of == text).count();
            seen.push((text.clone(), call.id));
            if before < times && text.contains("later") { Gate::defer("not now") } else { Gate::allow() }
        });
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn deferred(session: &Session) -> Deferred {
    until(|| !session.deferred().is_empty()).await;
    session.deferred().remove(0)
}

fn echo_of(text: &str) -> (String, String) {
    ("Echo".to_owned(), format!(r#"{{"text":"{text}"}}"#))
}

fn model(texts: &[&str]) -> Says {
    let made: Vec<(String, String)> = texts.iter().map(|text| echo_of(text)).collect();
    let made: Vec<(&str, &str)> = made.iter().map(|(name, raw)| (&**name, &**raw)).collect();
    Says::calls(&made)
}

fn resolutions(log: &[Arc<Record>]) -> Vec<Resolution> {
    let resolved = log.iter().filter_map(|record| match &record.body {
        Body::InputResolved(resolved) => Some(resolved.resolution),
        _ => None,
    });
    resolved.collect()
}

// C-BRIDGE-9: the turn stays open and names the call; nobody is asked, though there is somebody; resumed, it is another trip
// under another token, its handlers decide anew, and that very call runs, once.
#[tokio::test]
async fn a_deferred_call_waits_for_its_host_and_is_judged_anew() {
    let (later, stood_in, told) =
        (Later::default(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let house = Plan::new(model(&["later"])).approvals();
    let house = house
        .open(|at| {
            later.register(at, 1);
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
            let (stood_in, told) = (stood_in.clone(), told.clone());
            at.permission("deputy", async move |_| {
                stood_in.fetch_add(1, Ordering::SeqCst);
                Permit::Allow
            });
            at.asked("page", move |_| _ = told.fetch_add(1, Ordering::SeqCst));
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    let TurnOutcome::Deferred(calls) = within(turn.outcome()).await else { panic!("it ended") };
    let call = calls[0].clone();
    assert_eq!((&*call.tool, &*call.call_id, call.arguments.text()), ("Echo", "c0", r#"{"text":"later"}"#));
    assert_eq!((call.reasons, call.by), (vec!["not now".into()], vec![HandlerId::new("house", "later")]));
    assert!(house.session.asks().is_empty(), "nobody is asked");
    assert_eq!((stood_in.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (0, 0));
    assert!(house.ran().is_empty() && house.count("tool/result") == 0);

    house.session.resume(&calls[0]).await.unwrap();
    assert_eq!(house.session.resume(&calls[0]).await, Err(AnswerError::Settled));
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    // The ask of the other gate stood behind the defer, and has its turn now.
    assert_eq!(stood_in.load(Ordering::SeqCst), 1);
    assert_eq!((house.ran(), house.ends()), (vec!["later".to_owned()], vec!["completed"]));
    assert_eq!((later.count(), house.count("tool/call"), house.count("tool/result")), (2, 2, 1));
    let tokens: Vec<TokenId> = later.seen.lock().unwrap().iter().map(|(_, token)| *token).collect();
    assert_ne!(tokens[0], tokens[1], "C-ID-3: a trip has a token of its own");
    let again =
        house.decisions().into_iter().filter(|d| matches!(d.subject, Subject::Again { attempt: 2, .. }));
    assert_eq!(again.count(), 3, "new keys: two gates and the deputy");
    assert_eq!(resolutions(&house.log()), [Resolution::Resumed]);
    house.close().await;
}

// C-BRIDGE-9: whoever decides anew may defer once more, which is another wait under another name, or deny.
#[tokio::test]
async fn it_may_be_deferred_again_and_denied_in_the_end() {
    let times = Arc::new(AtomicU32::new(0));
    let house = house(&ONE, |at| {
        at.pre_execute("moody", async move |_| match times.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(Gate::Defer { reason: None }).context("the first time"),
            1 => Reply::new(Gate::defer("still not")),
            _ => Reply::new(Gate::deny("never")).context("the last time"),
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    let first = deferred(&house.session).await;
    house.session.resume(&first).await.unwrap();
    until(|| house.session.deferred().first().is_some_and(|call| call.id != first.id)).await;
    let second = deferred(&house.session).await;
    assert_eq!((first.id.as_str(), second.id.as_str()), ("s:1/1/0", "s:1/1/0@2"));
    assert_eq!(house.session.resume(&first).await, Err(AnswerError::Settled));
    house.session.resume(&second).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!((house.ends(), house.ran()), (vec!["hook_deny"], vec![]));
    // C-TURN-6: what was earned at each attempt stands, behind the result.
    let texts: Vec<String> = house
        .log()
        .iter()
        .filter_map(|r| match &r.body {
            Body::ContextMessage(context) => Some(context.content.to_text().into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["the first time", "the last time"]);
    house.close().await;
}

// C-PIPE-2: a deny that comes behind a defer wins, and nothing waits.
#[tokio::test]
async fn a_denial_wins_over_a_defer() {
    for defers_first in [true, false] {
        let house = house(&ONE, |at| {
            if defers_first {
                at.pre_execute("later", async |_| Gate::defer("later"));
            }
            at.pre_execute("never", async |_| Gate::deny("never"));
            if !defers_first {
                at.pre_execute("later", async |_| Gate::defer("later"));
            }
        })
        .await;
        assert_eq!(house.prompt("go").await, EndReason::Completed);
        assert_eq!((house.ends(), house.count("input/requested")), (vec!["hook_deny"], 0));
        house.close().await;
    }
}

// C-PIPE-9: each attempt begins with the model's arguments, and the model sees what is in force in the end.
#[tokio::test]
async fn rewriters_run_again_on_what_the_model_wrote() {
    let times = Arc::new(AtomicU32::new(0));
    let house = house(&ONE, |at| {
        at.rewrite("tidy", async move |call: Proposed| {
            assert_eq!(call.so_far.text(), r#"{"text":"a"}"#);
            let other = |text| Proposal::arguments(Frozen::parse(format!(r#"{{"text":"{text}"}}"#)).unwrap());
            match times.fetch_add(1, Ordering::SeqCst) {
                0 => other("b").carrying(Gate::defer("b is not good")),
                1 => Proposal::pass().carrying(Gate::defer("a neither")),
                2 => Proposal::arguments(Frozen::parse(r#"{"text":7}"#).unwrap()).carrying(Gate::defer("x")),
                _ => unreachable!("arguments that are refused end the call"),
            }
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    let (mut seen, mut last) = (Vec::new(), None);
    for _ in 0..2 {
        until(|| house.session.deferred().first().is_some_and(|call| Some(&call.id) != last.as_ref())).await;
        let call = house.session.deferred().remove(0);
        seen.push(call.arguments.text().to_owned());
        house.session.resume(&call).await.unwrap();
        last = Some(call.id);
    }
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(seen, [r#"{"text":"b"}"#, r#"{"text":"a"}"#]);
    assert_eq!(house.ends(), ["invalid_arguments"], "what is proposed is checked at each attempt");
    let requests = house.model.requests();
    let shown = requests.last().unwrap().messages.iter().find_map(|message| match message {
        Message::Assistant { blocks } => blocks.iter().find_map(|block| match block {
            AssistantBlock::Call { arguments, .. } => Some(arguments.to_string()),
            _ => None,
        }),
        _ => None,
    });
    assert_eq!(shown.as_deref(), Some(r#"{"text":7}"#));
    house.close().await;
}

// C-BRIDGE-9, C-TURN-5: the other calls of the step run and are reviewed meanwhile; results come in the model's order. Of two
// that are deferred, either may be resumed first.
#[tokio::test]
async fn the_other_calls_of_the_step_go_on() {
    let (later, reviewed) = (Later::default(), Arc::new(AtomicU32::new(0)));
    let house = house_of(&["later 1", "x", "later 2", "deny", "y"], |at| {
        later.register(at, 1);
        at.pre_execute("strict", async |call: Execution| match call.arguments.text().contains("deny") {
            true => Gate::deny("no"),
            false => Gate::allow(),
        });
        let reviewed = reviewed.clone();
        at.post_execute("look", async move |_| {
            reviewed.fetch_add(1, Ordering::SeqCst);
            Review::accept()
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    until(|| house.ran().len() == 2 && house.session.deferred().len() == 2).await;
    until(|| reviewed.load(Ordering::SeqCst) == 3).await;
    assert_eq!((house.ran(), house.count("tool/result")), (vec!["x".to_owned(), "y".into()], 0));
    let calls = house.session.deferred();
    house.session.resume(&calls[1]).await.unwrap();
    until(|| house.ran().len() == 3).await;
    assert_eq!(house.count("tool/result"), 0, "the first one's comes first");
    house.session.resume(&calls[0]).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(house.ran(), ["x", "y", "later 2", "later 1"]);
    assert_eq!(house.ends(), ["completed", "completed", "completed", "hook_deny", "completed"]);
    assert_eq!(reviewed.load(Ordering::SeqCst), 5, "each once");
    house.close().await;
}

async fn house_of(texts: &[&str], register: impl FnOnce(&mut Registrar<'_>)) -> House {
    Plan::new(model(texts)).open(register).await
}

// C-TURN-5, C-BRIDGE-9: the same among calls that may overlap.
#[tokio::test]
async fn overlapping_calls_go_on_beside_a_deferred_one() {
    let (ran, later) = (Arc::new(Mutex::new(Vec::new())), Later::default());
    let of = ran.clone();
    let spec = ToolSpec::of::<Echo>("Safe", "May overlap.").unwrap().concurrency_safe();
    let safe = raw_tool(spec, async move |call: Execution, _cx| {
        let text = call.arguments.root().get("text").and_then(|text| Some(text.as_str()?.into_owned()));
        let text = text.unwrap();
        of.lock().unwrap().push(text.clone());
        Ok(text.into())
    });
    let made = ["a", "later", "b"].map(|text| ("Safe", format!(r#"{{"text":"{text}"}}"#)));
    let made: Vec<(&str, &str)> = made.iter().map(|(name, raw)| (*name, &**raw)).collect();
    let house = Plan::new(Says::calls(&made)).tool(safe).open(|at| later.register(at, 2)).await;
    let turn = house.session.prompt("go").await.unwrap();
    let mut last = None;
    for _ in 0..2 {
        until(|| house.session.deferred().first().is_some_and(|call| Some(&call.id) != last.as_ref())).await;
        until(|| ran.lock().unwrap().len() == 2).await;
        let call = house.session.deferred().remove(0);
        house.session.resume(&call).await.unwrap();
        last = Some(call.id);
    }
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(*ran.lock().unwrap(), ["a", "b", "later"]);
    let texts: Vec<String> = house.results().iter().map(|r| r.content.to_text().into_owned()).collect();
    assert_eq!(texts, ["a", "later", "b"]);
    house.close().await;
}

// C-TURN-9: a cancel ends the wait and answers the call; who resumes it then is told.
#[tokio::test]
async fn a_cancel_ends_the_wait() {
    let house = house_of(&["later", "x"], |at| Later::default().register(at, 1)).await;
    let turn = house.session.prompt("go").await.unwrap();
    let call = deferred(&house.session).await;
    until(|| house.count("tool/returned") == 1).await;
    assert_eq!(house.session.cancel(Cause::User).await, Ok(true));
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert_eq!(house.ends(), ["cancelled_before_dispatch", "completed"], "what was done stands");
    assert_eq!(house.session.resume(&call).await, Err(AnswerError::Settled));
    assert!(house.session.deferred().is_empty());
    assert_eq!(resolutions(&house.log()), [Resolution::Cancelled]);
    house.close().await;
}

/// A runtime on this journal, whose one gate defers what says so until `times` are over.
async fn process(
    journal: &MemoryJournal,
    model: Says,
    later: &Later,
    times: usize,
    with: impl FnOnce(Builder) -> Builder,
) -> (Runtime, Session, Arc<Mutex<Vec<String>>>) {
    let ran = Arc::default();
    let builder = Runtime::builder(model).journal(journal.clone()).tools([echo(&ran)]).arbiters(1);
    let builder = builder.policy("house", |at| later.register(at, times));
    let runtime = with(builder).start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new("/")).await.unwrap();
    (runtime, session, ran)
}

// C-ASK-3, C-BRIDGE-9: a wait has the time that other waits have; what is overdue does not run, and the model is told.
#[tokio::test]
async fn the_wait_expires_as_others_do() {
    let (journal, later) = (MemoryJournal::new(), Later::default());
    let short = |b: Builder| b.asks_expire_after(Duration::from_millis(20));
    let (runtime, session, ran) = process(&journal, model(&["later"]), &later, 9, short).await;
    assert_eq!(within(session.prompt("go").await.unwrap().into_future()).await, EndReason::Completed);
    let log = records(&journal, "s");
    assert_eq!(resolutions(&log), [Resolution::Expired]);
    let result = log.iter().find_map(|r| match &r.body {
        Body::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    assert_eq!(result.unwrap().outcome, Ended::DeferralExpired);
    assert!(ran.lock().unwrap().is_empty());
    runtime.shutdown(PATIENCE).await;
    sound(&journal).await;
}

// C-DUR-3, 4, 8: the process goes, the wait stays; the next process shows it under the same name, and resumes it by a command
// that may be sent again. A turn that waits is not to blame for processes that go.
#[tokio::test]
async fn the_next_process_resumes_it() {
    let (journal, later) = (MemoryJournal::new(), Later::default());
    let (runtime, session, _) = process(&journal, model(&["later", "x"]), &later, 1, |b| b).await;
    session.prompt("go").await.unwrap();
    let first = deferred(&session).await;
    until(|| records(&journal, "s").iter().any(|r| r.body.kind() == "tool/returned")).await;
    let left = runtime.shutdown(Duration::ZERO).await;
    assert_eq!(left.parked, [session.id().clone()]);

    let mut journal = journal.copy();
    for _ in 0..6 {
        let (runtime, session, ran) = process(&journal, model(&["later", "x"]), &later, 1, |b| b).await;
        assert_eq!(deferred(&session).await.id, first.id);
        runtime.shutdown(Duration::ZERO).await;
        assert!(ran.lock().unwrap().is_empty(), "what was done is not done again");
        journal = journal.copy();
    }
    assert_eq!(later.count(), 2, "nobody is asked again");

    let (runtime, session, ran) = process(&journal, model(&["later", "x"]), &later, 1, |b| b).await;
    let command = session.command(CommandId::new("back").unwrap());
    let call = deferred(&session).await;
    command.resume(&call).await.unwrap();
    command.resume(&call).await.unwrap();
    let other = session.command(CommandId::new("other").unwrap());
    assert_eq!(other.resume(&call).await, Err(AnswerError::Settled));
    until(|| records(&journal, "s").iter().any(|r| r.body.kind() == "turn/end")).await;
    assert_eq!(*ran.lock().unwrap(), ["later"]);
    runtime.shutdown(PATIENCE).await;
    sound(&journal).await;

    // And once more, by yet another process.
    let (runtime, session, _) = process(&journal.copy(), model(&[]), &later, 0, |b| b).await;
    session.command(CommandId::new("back").unwrap()).resume(&call).await.unwrap();
    runtime.shutdown(PATIENCE).await;
}

// C-DUR-4: the next process may not have the tool any more; what waits is there all the same, and ends when it is resumed.
#[tokio::test]
async fn a_tool_that_is_gone_meanwhile_is_unknown_then() {
    for asks in [false, true] {
        let journal = MemoryJournal::new();
        let open = async |tools: Vec<Arc<dyn Tool>>| {
            let builder = Runtime::builder(model(&["a"])).journal(journal.clone()).tools(tools).arbiters(1);
            let gate = move |_| std::future::ready(if asks { Gate::ask("?") } else { Gate::defer("later") });
            let builder = builder.policy("house", |at| _ = at.pre_execute("gate", gate));
            let runtime = builder.start().await.unwrap();
            let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
            (runtime, session)
        };
        let (runtime, session) = open(vec![echo(&Arc::default())]).await;
        session.prompt("go").await.unwrap();
        until(|| session.asks().len() + session.deferred().len() == 1).await;
        runtime.shutdown(Duration::ZERO).await;
        let (runtime, session) = open(Vec::new()).await;
        until(|| session.asks().len() + session.deferred().len() == 1).await;
        match session.asks().pop() {
            Some(ask) => session.answer(&ask, Answer::Allow).await.unwrap(),
            None => session.resume(&session.deferred()[0]).await.unwrap(),
        }
        until(|| records(&journal, "s").iter().any(|r| r.body.kind() == "turn/end")).await;
        let ends = records(&journal, "s").iter().find_map(|r| match &r.body {
            Body::ToolResult(result) => Some(result.outcome.clone()),
            _ => None,
        });
        assert_eq!(ends, Some(Ended::UnknownTool));
        runtime.shutdown(PATIENCE).await;
    }
}

// C-DUR-4: a session whose turn waits for its host leaves memory, and comes back for it.
#[tokio::test]
async fn a_session_that_waits_leaves_memory_and_comes_back() {
    let (journal, later) = (MemoryJournal::new(), Later::default());
    let soon = |b: Builder| b.idle_after(Some(Duration::from_millis(5)));
    let (runtime, session, ran) = process(&journal, model(&["x", "later", "y"]), &later, 1, soon).await;
    let turn = session.prompt("go").await.unwrap();
    until(|| session.is_away()).await;
    assert!(matches!(within(turn.outcome()).await, TurnOutcome::Deferred(calls) if calls.len() == 1));
    assert_eq!(*ran.lock().unwrap(), ["x", "y"]);
    let call = deferred(&session).await;
    session.resume(&call).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(*ran.lock().unwrap(), ["x", "y", "later"]);
    runtime.shutdown(PATIENCE).await;
    sound(&journal).await;
}

// C-DUR-8: whoever does not have the session resumes by way of its inbox.
#[tokio::test]
async fn the_inbox_resumes_it() {
    let (journal, later) = (MemoryJournal::new(), Later::default());
    let looks = |b: Builder| b.inbox_every(Duration::from_millis(5));
    let (runtime, session, ran) = process(&journal, model(&["later"]), &later, 1, looks).await;
    let turn = session.prompt("go").await.unwrap();
    let call = deferred(&session).await;
    let put = async |id: &str, request: &RequestId| {
        let command = InboxCommand::Resume { request: request.clone() };
        journal.submit(session.id(), &CommandId::new(id).unwrap(), &command).await.unwrap()
    };
    assert_eq!(put("wrong", &RequestId::from_text("s:9/9/9")).await, Posted::Waits);
    assert_eq!(put("right", &call.id).await, Posted::Waits);
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(*ran.lock().unwrap(), ["later"]);
    assert!(matches!(put("right", &call.id).await, Posted::Taken(_)));
    runtime.shutdown(PATIENCE).await;
    sound(&journal).await;
}

// C-ASK-4, C-PIPE-10: what a subagent's call, or one that a body makes, waits for surfaces at the root.
#[tokio::test]
async fn calls_of_subagents_and_of_bodies_wait_alike() {
    let tries = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let outer = tool("Outer", "Calls Echo.", async |_: Echo, cx: ToolCx| {
        let inner = cx.call("Echo", r#"{"text":"inner"}"#).await;
        Ok(inner.for_model().0.to_text().into_owned())
    })
    .unwrap();
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", 0) => calls(&[("Echo", r#"{"text":"deep"}"#)]),
        ("go", 0) => calls(&[
            ("Outer", r#"{"text":"o"}"#),
            ("Agent", r#"{"subagent_type":"digger","description":"d","prompt":"dig"}"#),
        ]),
        _ => say("done"),
    });
    let of = tries.clone();
    let house = Plan::new(model).tool(outer).agents();
    let house = house
        .open(|at| {
            at.pre_execute("later", async move |call: Execution| {
                let mut tries = of.lock().unwrap();
                let tried = tries.entry(call.arguments.text().to_owned()).or_default();
                *tried += 1;
                let echo = &*call.tool.name == "Echo";
                if echo && *tried == 1 { Gate::defer("later") } else { Gate::allow() }
            });
        })
        .await;
    let turn = house.session.prompt("go").await.unwrap();
    let inner = deferred(&house.session).await;
    assert_eq!((inner.id.as_str(), inner.arguments.text()), ("s:1/1/0.0", r#"{"text":"inner"}"#));
    house.session.resume(&inner).await.unwrap();
    until(|| house.session.deferred().first().is_some_and(|call| call.id != inner.id)).await;
    let deep = house.session.deferred().remove(0);
    assert_eq!(deep.arguments.text(), r#"{"text":"deep"}"#);
    assert!(deep.id.as_str().starts_with("s."), "{}", deep.id);
    house.session.resume(&deep).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(house.ran(), ["inner", "deep"]);
    house.close().await;
}

// C-DUR-1, 3: killed behind any append of a step with deferred calls, the next process comes to the same end.
#[tokio::test]
async fn killed_anywhere_it_comes_to_the_same() {
    let texts = ["x", "later 1", "y", "later 2"];
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let (noted, later) = (cuts.clone(), Later::default());
    let journal = MemoryJournal::with_faults(move |_, batch| {
        noted.lock().unwrap().extend(batch.records.last().map(|record| record.seq.0 as usize + 1));
        None
    });
    let (runtime, session, _) = process(&journal, model(&texts), &later, 1, |b| b).await;
    finish(&session, Some(session.prompt("go").await.unwrap())).await;
    runtime.shutdown(PATIENCE).await;
    let whole = records(&journal, "s");
    let story = |log: &[Arc<Record>]| -> Vec<String> {
        let of = log.iter().filter_map(|record| match &record.body {
            Body::ToolCall(call) => Some(format!("{:?} {:?}", record.at, call.arguments)),
            Body::ToolResult(result) => Some(format!("{:?} {result:?}", record.at)),
            Body::InputRequested(asked) => Some(asked.request.to_string()),
            Body::InputResolved(resolved) => Some(format!("{} {:?}", resolved.request, resolved.resolution)),
            Body::TurnEnd(end) => Some(end.reason.to_string()),
            _ => None,
        });
        let mut of: Vec<String> = of.collect();
        // Which deferred call is resumed first is the host's.
        of.sort();
        of
    };
    let id = SessionId::new("s").unwrap();
    let turn_began = whole.iter().position(|r| r.body.kind() == "turn/start").unwrap();
    let cuts = cuts.lock().unwrap().clone();
    let mut resumed = 0;
    for cut in cuts.into_iter().filter(|cut| *cut > turn_began) {
        let journal = MemoryJournal::new();
        journal.preload(&id, whole[..cut].to_vec());
        // What the gates remember outlives the process, as a hook's own state does.
        let later = Later::default();
        for record in &whole[..cut] {
            let decided = record.body.decisions().is_some_and(|d| d.point == Point::PreExecute);
            if let (true, Some(call)) = (decided, &record.at.call) {
                let text = format!(r#"{{"text":"{}"}}"#, texts[call.positions()[0] as usize]);
                later.seen.lock().unwrap().push((text, TokenId { nonce: 0, counter: 0 }));
            }
        }
        let (runtime, session, _) = process(&journal, model(&texts), &later, 1, |b| b).await;
        finish(&session, None).await;
        runtime.shutdown(PATIENCE).await;
        let log = records(&journal, "s");
        resumed += resolutions(&log[cut..]).len();
        let unknown = |log: &[Arc<Record>]| {
            log.iter().any(|r| matches!(&r.body, Body::ToolResult(t) if t.outcome == Ended::OutcomeUnknown))
        };
        if !unknown(&log) {
            assert_eq!(story(&log), story(&whole), "cut behind {}", encode(&whole[cut - 1]));
        }
        sound(&journal).await;
    }
    assert!(resumed > 20, "{resumed}");
}

/// Resumes whatever is deferred until the turn is over.
async fn finish(session: &Session, turn: Option<Turn>) {
    drop(turn);
    let mut events = session.events(Seq(0));
    use futures::StreamExt;
    while let Some(event) = within(events.next()).await {
        match event {
            Event::Deferred(call) => _ = session.resume(&call).await,
            Event::Record(record) if matches!(record.body, Body::TurnEnd(_)) => break,
            _ => {}
        }
    }
}
