//! C-DUR-4, C-ASK-3, 4: the runtime is shut down at every question, also a subagent's, and another one answers it.

use crate::{
    house::{Mind, Ran, Staff, builder, finish, root, yes_or_no},
    logs::stored,
    once::ran_nothing_twice,
    run,
    story::{Blurred, Story, lawful, same, unknown},
    tape::{Append, Tape, logs},
};
use futures::StreamExt;
use portcullis::{Ask, Body, CallPath, Event, Record, Runtime, Seq, Session, SessionOptions};
use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

/// Nothing here waits for time to pass; this is for what would never come.
const NEVER: Duration = Duration::from_secs(60);

async fn open(tape: &Tape, ran: &Ran) -> (Runtime, Session) {
    let runtime = builder(Mind::Fixed, Staff::Same, ran).journal(tape.clone()).start().await.unwrap();
    let session = runtime.open(root().as_str(), SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

/// The next question that waits here.
async fn question(session: &Session) -> Ask {
    let mut events = session.events(Seq(0));
    loop {
        match tokio::time::timeout(NEVER, events.next()).await.expect("a question") {
            Some(Event::Ask(ask)) => return ask,
            Some(Event::Ended) | None => panic!("it ended without a question"),
            Some(_) => {}
        }
    }
}

/// The question that these appends ask, with the place to begin at: before the body that makes the call, if one does.
fn asked(unkilled: &[Append], n: usize) -> Option<(String, usize)> {
    let (session, records) = &unkilled[n];
    let (request, at) = records.iter().find_map(|record| match &record.body {
        Body::InputRequested(asked) => Some((asked.request.to_string(), record.at.clone())),
        _ => None,
    })?;
    let outer = at.call.as_ref().map(|call| CallPath::top(call.positions()[0]));
    let dispatch = |record: &Arc<Record>| {
        matches!(record.body, Body::ToolDispatched(_))
            && (record.at.turn, record.at.step, &record.at.call) == (at.turn, at.step, &outer)
    };
    let begin = unkilled[..n].iter().position(|(of, records)| of == session && records.iter().any(dispatch));
    Some((request, begin.unwrap_or(n)))
}

#[tokio::test]
async fn left_at_any_question_the_next_process_answers_it() {
    let (unkilled, _) = run(Mind::Fixed, Staff::Same, &[]).await;
    let whole = logs(&unkilled);
    let (mut answered, mut lost) = (0, 0);
    for n in 0..unkilled.len() {
        let Some((request, begin)) = asked(&unkilled, n) else { continue };
        // One process comes as far as this question, shows it, and is shut down.
        let (tape, ran) = (Tape::after(&unkilled[..begin]), Ran::default());
        let (runtime, session) = open(&tape, &ran).await;
        let ask = question(&session).await;
        assert_eq!(ask.id.as_str(), request);
        let left = runtime.shutdown(Duration::ZERO).await;
        assert!(left.parked.contains(&root()), "{request}: {left:?}");

        let before = stored(&tape).await;
        let mut blurred = Blurred::default();
        blurred.add(&before);
        let (mut tape, mut before) = (Tape::holding(before.clone()), before);
        // A body that may not run again takes the question with it; any other call is answered by the next process,
        // which is shut down at once, too.
        if blurred.unknown.is_empty() {
            let ran = Ran::default();
            let (runtime, session) = open(&tape, &ran).await;
            let again = question(&session).await;
            assert_eq!((&again.id, again.digest), (&ask.id, ask.digest));
            session.answer(&again, yes_or_no(&again)).await.unwrap();
            runtime.shutdown(Duration::ZERO).await;
            ran_nothing_twice(&before, &ran, &request);
            before = stored(&tape).await;
            blurred.add(&before);
            tape = Tape::holding(before.clone());
            answered += 1;
        } else {
            lost += 1;
        }
        let ran = Ran::default();
        finish(builder(Mind::Fixed, Staff::Same, &ran), tape.clone(), Path::new("/")).await;
        let after = stored(&tape).await;
        lawful(&after);
        ran_nothing_twice(&before, &ran, &request);
        assert_eq!(unknown(&after).into_keys().collect::<BTreeSet<_>>(), blurred.unknown, "{request}");
        same(&Story::of(&after, &blurred), &Story::of(&whole, &blurred), &request);
    }
    assert_eq!((answered, lost), (5, 1));
}
