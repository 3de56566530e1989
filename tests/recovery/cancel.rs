//! C-TURN-9 across a kill: a cancel that is on disk winds the turn down, in whatever process; one that is not never happened.

use crate::{
    house::{Mind, Ran, Staff, builder, root},
    story::lawful,
    tape::{Append, Tape, logs},
};
use futures::StreamExt;
use portcullis::{
    Body, CallPath, Cause, CauseName, EndReason, Event, Runtime, Seq, Session, SessionOptions, Source, law,
};
use std::time::Duration;

async fn open(tape: &Tape) -> (Runtime, Session) {
    let made = builder(Mind::Fixed, Staff::Same, &Ran::default());
    let runtime = made.journal(tape.clone()).start().await.unwrap();
    let session = runtime.open(root().as_str(), SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

/// A turn that is cancelled while its second call's body runs.
async fn cancelled() -> Vec<Append> {
    let tape = Tape::default();
    let (runtime, session) = open(&tape).await;
    let turn = session.prompt("hang on").await.unwrap();
    let mut events = session.events(Seq(0));
    loop {
        if let Some(Event::Record(record)) = events.next().await
            && matches!(record.body, Body::ToolDispatched(_))
            && record.at.call == Some(CallPath::top(1))
        {
            break;
        }
    }
    assert!(session.cancel(Cause::User).await.unwrap());
    assert!(matches!(turn.await, EndReason::Aborted { .. }));
    runtime.shutdown(Duration::from_secs(60)).await;
    tape.appends()
}

#[tokio::test]
async fn a_cancel_on_disk_is_carried_out_by_the_next_process() {
    let whole = cancelled().await;
    let of = |is: fn(&Body) -> bool| {
        whole.iter().position(|(_, records)| records.iter().any(|record| is(&record.body))).unwrap()
    };
    let cancel = of(|body| matches!(body, Body::TurnCancelled(_)));
    let end = of(|body| matches!(body, Body::TurnEnd(_)));
    assert!(end > cancel + 2, "there is something to wind down");
    for n in cancel + 1..=end + 1 {
        let tape = Tape::after(&whole[..n]);
        let (runtime, session) = open(&tape).await;
        let (mut events, mut state, mut ended) = (session.events(Seq(0)), law::State::new(), None);
        let before = logs(&whole[..n])[&root()].len() as u64;
        while state.head().0 <= before || state.next(None) != law::Next::Idle {
            if let Some(Event::Record(record)) = events.next().await {
                state.apply(&record).unwrap();
                if let Body::TurnEnd(end) = &record.body {
                    ended = Some(end.reason.clone());
                }
            }
        }
        runtime.shutdown(Duration::from_secs(60)).await;
        let after = logs(&tape.appends());
        lawful(&after);
        let aborted = EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) };
        assert_eq!(ended, Some(aborted), "kill {n}");
        let results: Vec<&str> = after[&root()]
            .iter()
            .filter_map(|record| match &record.body {
                Body::ToolResult(result) => Some(result.outcome.name()),
                _ => None,
            })
            .collect();
        let hung =
            if n < of(|body| matches!(body, Body::ToolReturned(r) if r.outcome.ended.name() == "cancelled"))
                + 1
            {
                "outcome_unknown"
            } else {
                "cancelled"
            };
        assert_eq!(results, ["completed", hung, "cancelled_before_dispatch"], "kill {n}");
    }
}
