//! C-LOG: the log is the session, and each request is what the log says.

mod support;

use portcullis::*;
use std::sync::{Arc, Mutex};
use support::*;

const ECHO: (&str, &str) = ("Echo", r#"{"text":"x"}"#);

// C-LOG-6: each request, also of a reopened session, is the log up to its `model/requested`, folded; and each extends the
// one before it.
#[tokio::test]
async fn each_request_is_the_log_folded() {
    let journal = MemoryJournal::new();
    let mut seen: Vec<Vec<Message>> = Vec::new();
    for prompt in ["one", "two", "three"] {
        let house = Plan::new(Says::calls(&[ECHO, ECHO])).journal(&journal).open(|at| {
            at.session_start("start", async |_| Reply::new(Started {}).context("castle"));
            at.post_execute("about", async |_| Reply::new(Review::accept()).context("about it"));
            at.turn_continuation("once", async |e| match e.forced {
                0 => Continue::again("once more"),
                _ => Continue::Abstain,
            });
        });
        let house = house.await;
        assert_eq!(house.prompt(prompt).await, EndReason::Completed);
        seen.extend(house.model.requests().iter().map(|r| r.messages.iter().cloned().collect::<Vec<_>>()));
        house.close().await;
    }
    let log = records(&journal, "s");
    let mut state = law::State::new();
    let mut rebuilt: Vec<Vec<Message>> = Vec::new();
    for record in &log {
        state.apply(record).unwrap();
        if matches!(record.body, Body::ModelRequested(_)) {
            rebuilt.push(state.transcript().iter().cloned().collect());
        }
    }
    assert_eq!(rebuilt, seen);
    for pair in seen.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0], "what the model has read is never taken back");
    }
    assert_eq!(seen.len(), 9);
}

// C-LOG-7, C-TURN-2: context carries its owner, and stands right behind its prompt; the prompt stays the user's.
#[tokio::test]
async fn context_carries_its_owner() {
    let house = house(&[], |at| {
        at.prompt_submit("about", async |_| Reply::new(Submit::replace("other words")).context("about it"));
    })
    .await;
    house.prompt("words").await;
    let messages: Vec<Message> = house.model.requests()[0].messages.iter().cloned().collect();
    let user = Message::User { content: "other words".into(), source: Source::User };
    let context = Message::Context { content: "about it".into(), source: Source::owner("house") };
    assert_eq!(messages, [user, context]);
    house.close().await;
}

// C-TURN-2, C-LOG-5: each veto has a record with the prompt as it was sent and the reason; the end has the last one.
#[tokio::test]
async fn each_veto_is_on_record() {
    let house = house(&[], |at| {
        at.prompt_submit("gate", async |p| Submit::block(format!("no {}", p.content.to_text())));
    })
    .await;
    let end = within(house.session.prompts(["a", "b"].map(Content::text)).await.unwrap().into_future()).await;
    assert_eq!(end, EndReason::Rejected { reason: "no b".into() });
    let blocked: Vec<(String, String, Source)> = house
        .log()
        .iter()
        .filter_map(|r| match &r.body {
            Body::PromptBlocked(b) => {
                Some((b.content.to_text().into(), b.reason.to_string(), b.source.clone()))
            }
            _ => None,
        })
        .collect();
    let expect = [("a", "no a"), ("b", "no b")].map(|(a, b)| (a.into(), b.into(), Source::User));
    assert_eq!(blocked, expect);
    assert_eq!((house.count("step/start"), house.count("turn/start"), house.count("turn/end")), (0, 1, 1));
    house.close().await;
}

// C-TURN-11, C-LOG-3: a reopened session starts with the source `resume`, its turns are numbered on, and what was injected
// while it was idle is not lost.
#[tokio::test]
async fn a_reopened_session_goes_on() {
    let (journal, sources) = (MemoryJournal::new(), Arc::new(Mutex::new(Vec::new())));
    for (prompt, number) in [("one", 1), ("two", 2)] {
        let seen = sources.clone();
        let house = Plan::new(Says::calls(&[])).journal(&journal).open(|at| {
            at.session_start("start", async move |s| {
                seen.lock().unwrap().push(s.source);
                Started {}
            });
        });
        let house = house.await;
        let (turn, end, _) = within(house.session.prompt(prompt).await.unwrap().done()).await;
        assert_eq!((turn, end), (number, EndReason::Completed));
        if number == 1 {
            house.session.inject("clock", "it is noon").await.unwrap();
        } else {
            let shown = house.model.requests()[0].messages.iter().any(|m| {
                *m == Message::Context { content: "it is noon".into(), source: Source::owner("clock") }
            });
            assert!(shown);
        }
        within(house.runtime.shutdown(PATIENCE)).await;
    }
    assert_eq!(*sources.lock().unwrap(), [StartSource::Startup, StartSource::Resume]);
    sound(&journal).await;
}

// C-LOG-2: an answer that says nothing is on record, with its usage, and is not shown to the model again.
#[tokio::test]
async fn an_empty_answer_is_kept_and_not_shown() {
    let usage = Usage { input: 7, output: 0 };
    let model = Says::by_prompt(move |prompt, _| match prompt {
        "one" => vec![ModelEvent::Usage(usage), ModelEvent::Finish(Finish::Stop)],
        _ => say("hello"),
    });
    let house = Plan::new(model).open(|_| {}).await;
    assert_eq!(house.prompt("one").await, EndReason::Completed);
    assert_eq!(house.prompt("two").await, EndReason::Completed);
    let first = house.log().iter().find_map(|r| match &r.body {
        Body::AssistantMessage(m) => Some((m.blocks.len(), m.usage)),
        _ => None,
    });
    assert_eq!(first, Some((0, Some(usage))));
    assert!(house.model.requests()[1].messages.iter().all(|m| m.role() == Role::User));
    house.close().await;
}

// C-LOG-6, C-PIPE-8: the header has of each tool its name, its description and its schema; it is logged once, and again only
// when it changes, with a reopened session, too.
#[tokio::test]
async fn the_header_is_logged_when_it_changes() {
    let journal = MemoryJournal::new();
    for _ in 0..2 {
        let house = Plan::new(Says::calls(&[])).journal(&journal).open(|_| {}).await;
        house.prompt("one").await;
        house.prompt("two").await;
        assert_eq!(house.count("request/header"), 1);
        let header = house.model.requests()[0].header.clone();
        assert_eq!(header.tools.len(), 1);
        assert_eq!((&*header.tools[0].name, &*header.tools[0].description), ("Echo", "Says it back."));
        let created = house.log().iter().find_map(|r| match &r.body {
            Body::SessionCreated(c) => Some((c.cwd.to_string(), c.channel.to_string())),
            _ => None,
        });
        assert_eq!(created, Some(("/".into(), "test".into())));
        house.close().await;
    }
    let house = Plan::new(Says::calls(&[])).journal(&journal).agents().open(|_| {}).await;
    house.prompt("three").await;
    assert_eq!(house.count("request/header"), 2);
    house.close().await;
}

// C-LOG-1: a session that cannot be opened leaves nothing behind, and its name is free; a prompt says something.
#[tokio::test]
async fn what_is_refused_leaves_nothing_behind() {
    let journal = MemoryJournal::new();
    let runtime =
        Runtime::builder(Says::calls(&[])).journal(journal.clone()).arbiters(1).start().await.unwrap();
    let refused = within(runtime.open("s", SessionOptions::new("not/absolute"))).await;
    assert!(matches!(refused, Err(OpenError::Open(_))), "{refused:?}");
    assert!(records(&journal, "s").is_empty() && runtime.live_sessions().is_empty());
    let session = within(runtime.open("s", SessionOptions::new("/"))).await.unwrap();
    assert!(matches!(session.prompt("").await, Err(SubmitError::Empty)));
    assert!(matches!(session.prompts([]).await, Err(SubmitError::Empty)));
    assert_eq!(within(session.prompt("hello").await.unwrap().into_future()).await, EndReason::Completed);
    assert_eq!(within(runtime.shutdown(PATIENCE)).await.parked, []);
}

// C-LOG-10: a subscriber that does not read delays no turn and loses no record.
#[tokio::test]
async fn a_slow_subscriber_delays_nobody() {
    use futures::StreamExt;
    let house = house(&[ECHO], |_| {}).await;
    let mut idle = house.session.events(Seq(0));
    for _ in 0..60 {
        assert_eq!(house.prompt("go").await, EndReason::Completed);
    }
    let log = house.log();
    assert!(log.len() > 900, "more than any window holds: {}", log.len());
    let mut read = 0;
    while read < log.len() {
        if let Some(Event::Record(record)) = within(idle.next()).await {
            assert_eq!(record, log[read]);
            read += 1;
        }
    }
    house.close().await;
}
