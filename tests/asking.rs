//! C-ASK: a question is put once and settled once.

mod support;

use futures::StreamExt;
use portcullis::*;
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
