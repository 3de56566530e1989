//! C-BRIDGE-9: what the actors promise of a deferred call, without the facade.

mod common;

use common::{calls, house, house_with, say};
use futures::StreamExt;
use portcullis_actors::{AnswerError, Deferred, Event, Session};
use portcullis_runtime::*;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn script() -> Vec<Vec<ModelEvent>> {
    vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]
}

/// A gate that defers the first time.
fn once(at: &mut Registrar<'_>) {
    let times = AtomicU32::new(0);
    at.pre_execute("once", async move |_| match times.fetch_add(1, Ordering::SeqCst) {
        0 => Gate::defer("later"),
        _ => Gate::allow(),
    });
}

async fn parked(session: &Session) -> Vec<Deferred> {
    tokio::time::timeout(PATIENCE, session.parked()).await.expect("a deferred call in time")
}

// C-LOG-10, C-ASK-1: it is seen after its record, under the id that the log has, and by every subscriber.
#[tokio::test]
async fn a_deferred_call_is_seen_after_its_record() {
    let house = house(script(), once).await;
    let mut events = house.session.events(Seq(0));
    let turn = house.session.prompt("go").await.unwrap();
    let mut requested = None;
    let call = loop {
        match tokio::time::timeout(PATIENCE, events.next()).await.expect("an event in time") {
            Some(Event::Record(record)) => match &record.body {
                Body::InputRequested(asked) if asked.deferred => requested = Some(asked.request.clone()),
                _ => {}
            },
            Some(Event::Deferred(call)) => break call,
            Some(Event::Ask(ask)) => panic!("nobody is to be asked: {ask:?}"),
            Some(_) => {}
            None => panic!("it ended"),
        }
    };
    assert_eq!(Some(&call.id), requested.as_ref());
    assert_eq!(parked(&house.session).await.len(), 1);
    house.session.resume(&call).await.unwrap();
    assert_eq!(turn.await, EndReason::Completed);
    assert!(house.session.deferred().is_empty());
    house.sound();
    house.runtime.shutdown(PATIENCE).await;
}

// C-ASK-1: another session's deferred call, and one that nobody deferred, are typed errors.
#[tokio::test]
async fn a_foreign_call_is_not_resumed() {
    let (house, other) = (house(script(), once).await, house(script(), |_| {}).await);
    let turn = house.session.prompt("go").await.unwrap();
    let call = parked(&house.session).await.remove(0);
    assert_eq!(other.session.resume(&call).await, Err(AnswerError::Unknown));
    house.session.resume(&call).await.unwrap();
    assert_eq!(turn.await, EndReason::Completed);
    house.runtime.shutdown(PATIENCE).await;
    other.runtime.shutdown(PATIENCE).await;
}

// C-DUR-9: what cannot be made durable is not resumed: who wanted that is told, and nothing runs.
#[tokio::test]
async fn a_resume_that_is_not_stored_counts_for_nothing() {
    let journal = MemoryJournal::with_faults(|_, batch| {
        let here = batch.records.iter().any(|r| r.body.kind() == "input/resolved");
        here.then_some(journal::Fault::Before(JournalError::StorageFull))
    });
    let house = house_with(common::Answers::new(script()), journal, false, once).await;
    let turn = house.session.prompt("go").await.unwrap();
    let call = parked(&house.session).await.remove(0);
    assert_eq!(house.session.resume(&call).await, Err(AnswerError::Journal(JournalError::StorageFull)));
    assert!(matches!(turn.await, EndReason::Error { .. }));
    assert!(!house.kinds().iter().any(|kind| kind == "tool/dispatched"));
    house.runtime.shutdown(PATIENCE).await;
}

// C-DUR-1: two who resume at once: one did, the other is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_resume_one_did() {
    for _ in 0..20 {
        let house = house(script(), once).await;
        let turn = house.session.prompt("go").await.unwrap();
        let call = parked(&house.session).await.remove(0);
        let both = [house.session.clone(), house.session.clone()].map(|session| {
            let call = call.clone();
            tokio::spawn(async move { session.resume(&call).await })
        });
        let told: Vec<_> = futures::future::join_all(both).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 1, "{told:?}");
        assert!(told.contains(&Err(AnswerError::Settled)), "{told:?}");
        assert_eq!(turn.await, EndReason::Completed);
        assert_eq!(house.kinds().iter().filter(|kind| *kind == "tool/dispatched").count(), 1);
        house.sound();
        house.runtime.shutdown(PATIENCE).await;
    }
}
