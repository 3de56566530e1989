//! C-DUR-4, C-ASK-3, 4: the runtime is shut down at every question, also a subagent's, and another one answers it.

use crate::{
    house::{Mind, Ran, Staff, builder, finish, root, yes_or_no},
    logs::stored,
    once::ran_nothing_twice,
    run,
    story::{Blurred, Story, lawful, same, unknown},
    tape::{Tape, logs},
};
use futures::StreamExt;
use portcullis::{Event, Seq, Session, SessionOptions};
use std::{path::Path, time::Duration};

/// The next question that waits here.
async fn question(session: &Session) -> portcullis::Ask {
    let mut events = session.events(Seq(0));
    loop {
        match events.next().await {
            Some(Event::Ask(ask)) => return ask,
            Some(Event::Ended) | None => panic!("it ended without a question"),
            Some(_) => {}
        }
    }
}

#[tokio::test]
async fn left_at_any_question_the_next_process_answers_it() {
    let (unkilled, _) = run(Mind::Fixed, Staff::Same, &[]).await;
    let whole = logs(&unkilled);
    for n in 0..unkilled.len() {
        let asks = |appends: &[crate::tape::Append]| -> Vec<String> {
            let records = appends.iter().flat_map(|(_, records)| records);
            records
                .filter_map(|record| match &record.body {
                    portcullis::Body::InputRequested(asked) => Some(asked.request.to_string()),
                    _ => None,
                })
                .collect()
        };
        let asked = asks(&unkilled[n..=n]);
        let [request] = asked.as_slice() else { continue };
        // Some process has come as far as the question before this one; here this one is reached, shown, and left.
        eprintln!("{n} {request}");
        let (tape, ran) = (Tape::after(&unkilled[..n]), Ran::default());
        let builder_of = |ran: &Ran| builder(Mind::Fixed, Staff::Same, ran);
        let runtime = builder_of(&ran).journal(tape.clone()).start().await.unwrap();
        let options = SessionOptions::new("/").approvals();
        let session = runtime.open(root().as_str(), options.clone()).await.unwrap();
        let ask = question(&session).await;
        assert_eq!(ask.id.as_str(), request);
        eprintln!("asked");
        let left = runtime.shutdown(Duration::ZERO).await;
        eprintln!("{left:?}");
        assert!(left.parked.contains(&root()), "{request}: {left:?}");

        let before = stored(&tape).await;
        let (tape, ran) = (Tape::holding(before.clone()), Ran::default());
        let runtime = builder_of(&ran).journal(tape.clone()).start().await.unwrap();
        let session = runtime.open(root().as_str(), options).await.unwrap();
        let again = question(&session).await;
        assert_eq!((&again.id, again.digest), (&ask.id, ask.digest));
        session.answer(&again, yes_or_no(&again)).await.unwrap();
        eprintln!("answered");
        runtime.shutdown(Duration::ZERO).await;
        eprintln!("down");
        finish(builder_of(&ran), tape.clone(), Path::new("/")).await;
        let after = stored(&tape).await;
        lawful(&after);
        ran_nothing_twice(&before, &ran, request);
        let mut blurred = Blurred::default();
        blurred.add(&before);
        let told = unknown(&after);
        assert!(told.len() <= 2, "{request}: {told:?}");
        same(&Story::of(&after, &blurred), &Story::of(&whole, &blurred), request);
    }
}
