//! C-ASK: a question is put once and settled once.

mod support;

use futures::StreamExt;
use portcullis::*;
use std::{sync::Arc, time::Duration};
use support::*;

const TWO: [(&str, &str); 2] = [("Echo", r#"{"text":"a"}"#), ("Echo", r#"{"text":"b"}"#)];

async fn careful(calls: &[(&str, &str)]) -> House {
    let plan = Plan::new(Says::calls(calls)).approvals();
    plan.open(|at| {
        at.pre_execute("careful", async |_| Gate::ask("sure?"));
    })
    .await
}

async fn asked(house: &House) -> Ask {
    until(|| !house.session.asks().is_empty()).await;
    house.session.asks().remove(0)
}

// C-ASK-1: of two answers given at the same time, from any threads, one settles it; the other is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_answers_at_once_and_one_of_them_counts() {
    let house = careful(&TWO).await;
    let turn = house.session.prompt("go").await.unwrap();
    for _ in 0..2 {
        let ask = asked(&house).await;
        let answers = [Answer::Allow, Answer::Refuse(Some("no".into()))].map(|answer| {
            let (session, ask) = (house.session.clone(), ask.clone());
            tokio::spawn(async move { (session.answer(&ask, answer.clone()).await, answer) })
        });
        let told = within(futures::future::join_all(answers)).await;
        let told: Vec<_> = told.into_iter().map(Result::unwrap).collect();
        let settled: Vec<_> = told.iter().filter(|(told, _)| told.is_ok()).collect();
        assert_eq!(settled.len(), 1, "{told:?}");
        assert!(told.iter().any(|(told, _)| *told == Err(AnswerError::Settled)), "{told:?}");
        let log = house.log();
        let resolved = log.iter().rev().find_map(|r| match &r.body {
            Body::InputResolved(r) => Some(r.resolution),
            _ => None,
        });
        let expect = if settled[0].1 == Answer::Allow { Resolution::Allowed } else { Resolution::Refused };
        assert_eq!(resolved, Some(expect), "what counts is what is on record");
    }
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!((house.count("input/requested"), house.count("input/resolved")), (2, 2));
    house.close().await;
}

// C-ASK-1: an answer to another session's question, a late one and one to other arguments are typed errors.
#[tokio::test]
async fn foreign_late_and_tampered_answers_are_refused() {
    let (house, other) = (careful(&TWO[..1]).await, careful(&TWO[..1]).await);
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    assert_eq!(other.session.answer(&ask, Answer::Allow).await, Err(AnswerError::Unknown));
    let mut tampered = ask.clone();
    tampered.digest = Frozen::parse(r#"{"text":"other"}"#).unwrap().sha256();
    assert_eq!(house.session.answer(&tampered, Answer::Allow).await, Err(AnswerError::Tampered));
    assert!(house.ran().is_empty());
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(house.session.answer(&ask, Answer::Allow).await, Err(AnswerError::Settled));
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    house.close().await;
    other.close().await;
}

// C-ASK-1, C-TURN-9: an answer that a cancel overtakes is refused, and nothing runs; whichever comes first, exactly one
// of them is what the log says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_against_a_cancel() {
    for _ in 0..40 {
        let house = careful(&TWO[..1]).await;
        let turn = house.session.prompt("go").await.unwrap();
        let ask = asked(&house).await;
        let (answers, cancels) = (house.session.clone(), house.session.clone());
        let answer = tokio::spawn(async move { answers.answer(&ask, Answer::Allow).await });
        let cancel = tokio::spawn(async move { cancels.cancel(Cause::User).await });
        let (answer, cancel) = within(async { (answer.await.unwrap(), cancel.await.unwrap()) }).await;
        let end = within(turn.into_future()).await;
        assert_eq!(cancel, Ok(matches!(end, EndReason::Aborted { .. })));
        let allowed = house
            .log()
            .iter()
            .any(|r| matches!(&r.body, Body::InputResolved(r) if r.resolution == Resolution::Allowed));
        assert_eq!(answer.is_ok(), allowed, "{answer:?}: an answer that was taken is on record, no other is");
        if !house.ran().is_empty() {
            assert!(allowed, "nothing runs without its answer");
        }
        if !allowed {
            assert_eq!(house.ends(), ["approval_cancelled"]);
        }
        house.close().await;
    }
}

// C-ASK-1: a question is published after its commit, under the id that the log has.
#[tokio::test]
async fn a_question_is_seen_after_its_record() {
    let house = careful(&TWO[..1]).await;
    let mut events = house.session.events(Seq(0));
    let turn = house.session.prompt("go").await.unwrap();
    let mut requested = None;
    let ask = loop {
        match within(events.next()).await.expect("an event") {
            Event::Record(r) => {
                if let Body::InputRequested(r) = &r.body {
                    requested = Some(r.request.clone());
                }
            }
            Event::Ask(ask) => break ask,
            _ => {}
        }
    };
    assert_eq!(Some(ask.id.clone()), requested);
    house.session.answer(&ask, Answer::Refuse(None)).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(house.ends(), ["approval_refused"]);
    house.close().await;
}

// C-ASK-4: a message that is no answer is queued and leaves the question pending.
#[tokio::test]
async fn a_prompt_is_no_answer() {
    let house = careful(&TWO[..1]).await;
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    let next = house.session.prompt("yes").await.unwrap();
    assert_eq!(house.session.asks().len(), 1);
    house.session.answer(&ask, Answer::Allow).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    let second = asked(&house).await;
    assert_ne!(second.id, ask.id, "another call, another question");
    house.session.answer(&second, Answer::Allow).await.unwrap();
    assert_eq!(within(next.done()).await.0, 2);
    house.close().await;
}

// C-ASK-1, C-DUR-9: an answer that cannot be made durable is not taken: who gave it is told, and nothing runs.
#[tokio::test]
async fn an_answer_that_is_not_stored_counts_for_nothing() {
    let journal = MemoryJournal::with_faults(|_, batch| {
        let here = batch.records.iter().any(|r| r.body.kind() == "input/resolved");
        here.then_some(journal::Fault::Before(JournalError::StorageFull))
    });
    let plan = Plan::new(Says::calls(&TWO[..1])).approvals().journal(&journal);
    let house = plan.open(|at| {
        at.pre_execute("careful", async |_| Gate::ask("sure?"));
    });
    let house = house.await;
    let turn = house.session.prompt("go").await.unwrap();
    let ask = asked(&house).await;
    let told = within(house.session.answer(&ask, Answer::Allow)).await;
    assert_eq!(told, Err(AnswerError::Journal(JournalError::StorageFull)));
    assert!(matches!(within(turn.into_future()).await, EndReason::Error { .. }));
    assert!(house.ran().is_empty());
    within(house.runtime.shutdown(PATIENCE)).await;
}

/// A house whose questions expire after an hour, on a thread whose clock runs ahead whenever nothing else does.
async fn hasty(journal: &MemoryJournal, pause: bool, idle_after: Option<Duration>) -> (Runtime, Session) {
    let ran = Arc::default();
    let runtime = Runtime::builder(Says::calls(&TWO[..1]))
        .journal(journal.clone())
        .tools([echo(&ran)])
        .policy("house", move |at| {
            at.pre_execute("careful", async move |_| {
                if pause {
                    tokio::time::pause();
                }
                Gate::ask("sure?")
            });
        })
        .asks_expire_after(Duration::from_secs(3_600))
        .idle_after(idle_after)
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

fn resolution(journal: &MemoryJournal) -> Vec<(Resolution, Source)> {
    let log = records(journal, "s");
    let resolved = log.iter().filter_map(|r| match &r.body {
        Body::InputResolved(r) => Some((r.resolution, r.by.clone())),
        _ => None,
    });
    resolved.collect()
}

// C-ASK-3: a question that nobody answers in time expires, on record, whether its session stays or leaves memory; the call is
// denied with a text, and a late answer is told.
#[tokio::test]
async fn a_question_expires() {
    for idle_after in [None, Some(Duration::from_secs(60))] {
        let journal = MemoryJournal::new();
        let (runtime, session) = hasty(&journal, true, idle_after).await;
        let turn = session.prompt("go").await.unwrap();
        assert_eq!(within(turn.into_future()).await, EndReason::Completed);
        assert_eq!(resolution(&journal), [(Resolution::Expired, Source::Runtime)]);
        let log = records(&journal, "s");
        let asked = log.iter().find_map(|r| match &r.body {
            Body::InputRequested(asked) => Some((r.time, asked.clone())),
            _ => None,
        });
        let (time, asked) = asked.expect("it asks");
        let expires = asked.expires.expect("in time");
        assert!(expires.abs_diff(time + 3_600_000) < 60_000, "an hour later");
        let result = log.iter().find_map(|r| match &r.body {
            Body::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        let result = result.expect("it is answered");
        assert_eq!((result.outcome.name(), result.error), ("approval_expired", true));
        assert!(!result.content.is_empty());
        sound(&journal).await;
        within(runtime.shutdown(PATIENCE)).await;
    }
}

// C-ASK-1, 3: an answer to a question that has expired is told so, here and after its turn.
#[tokio::test]
async fn an_answer_after_its_time() {
    let plan = Plan::new(Says::calls(&TWO[..1])).approvals();
    let ran = plan.journal.clone();
    let runtime = Runtime::builder(plan.model)
        .journal(plan.journal)
        .tools([echo(&Arc::default())])
        .policy("house", |at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
        })
        .asks_expire_after(Duration::from_millis(50))
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    let mut events = session.events(Seq(0));
    let turn = session.prompt("go").await.unwrap();
    let ask = loop {
        if let Some(Event::Ask(ask)) = within(events.next()).await {
            break ask;
        }
    };
    assert!(ask.expires.is_some());
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(session.answer(&ask, Answer::Allow).await, Err(AnswerError::Expired));
    assert_eq!(resolution(&ran), [(Resolution::Expired, Source::Runtime)]);
    within(runtime.shutdown(PATIENCE)).await;
}

// C-ASK-3: what ran out while no process had the session is settled before anyone sees it again.
#[tokio::test]
async fn what_is_overdue_is_settled_when_the_session_is_opened() {
    let journal = MemoryJournal::new();
    let (runtime, session) = hasty(&journal, false, None).await;
    let _turn = session.prompt("go").await.unwrap();
    until(|| !session.asks().is_empty()).await;
    within(runtime.shutdown(Duration::ZERO)).await;
    // The same log, as if all of it had been written long ago.
    let mut log = records(&journal, "s");
    for record in &mut log {
        let record = Arc::make_mut(record);
        record.time -= 4_000_000;
        if let Body::InputRequested(asked) = &mut record.body {
            asked.expires = asked.expires.map(|expires| expires - 4_000_000);
        }
    }
    let later = MemoryJournal::new();
    later.preload(&SessionId::new("s").unwrap(), log);
    let (runtime, session) = hasty(&later, false, None).await;
    let mut events = session.events(Seq(0));
    loop {
        match within(events.next()).await {
            Some(Event::Record(record)) if matches!(record.body, Body::TurnEnd(_)) => break,
            Some(Event::Ask(ask)) => panic!("{ask:?} is shown"),
            Some(Event::Ended) | None => panic!("it ended"),
            Some(_) => {}
        }
    }
    assert_eq!(resolution(&later), [(Resolution::Expired, Source::Runtime)]);
    sound(&later).await;
    within(runtime.shutdown(PATIENCE)).await;
}
