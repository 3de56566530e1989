//! What is put into a session's inbox is done once, by whoever has the session (C-DUR-8).

mod support;

use portcullis::*;
use std::time::Duration;
use support::*;

const ECHO: [(&str, &str); 1] = [("Echo", r#"{"text":"a"}"#)];
const SOON: Duration = Duration::from_millis(5);

fn name(text: &str) -> CommandId {
    CommandId::new(text).unwrap()
}

fn prompt(text: &str) -> InboxCommand {
    InboxCommand::Prompt { content: text.into() }
}

fn cancel(prompt: Option<&str>) -> InboxCommand {
    InboxCommand::Cancel { cause: CauseName(Cause::User), prompt: prompt.map(name) }
}

fn answer(ask: &Ask, allow: bool) -> InboxCommand {
    let digest = ask.arguments.sha256_hex();
    InboxCommand::Answer { request: ask.id.clone(), digest, allow, reason: None }
}

/// A runtime whose one handler asks a person, on this journal.
async fn careful(
    journal: &MemoryJournal,
    every: Option<Duration>,
    idle: Option<Duration>,
) -> (Runtime, Session) {
    let builder = Runtime::builder(Says::calls(&ECHO))
        .journal(journal.clone())
        .tools([echo(&Default::default())])
        .policy("test", |at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
        })
        .arbiters(1)
        .idle_after(idle);
    let builder = match every {
        Some(every) => builder.inbox_every(every),
        None => builder,
    };
    let runtime = builder.start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

async fn put(journal: &MemoryJournal, id: &str, command: InboxCommand) -> Posted {
    journal.submit(&SessionId::new("s").unwrap(), &name(id), &command).await.unwrap()
}

/// What the inbox says of a command once it is out of it.
async fn settled(journal: &MemoryJournal, id: &str) -> Posted {
    let session = SessionId::new("s").unwrap();
    until_async(async || {
        let pending = journal.pending(&session).await.unwrap();
        !pending.iter().any(|(waits, _)| *waits == name(id))
    })
    .await;
    put(journal, id, prompt("again")).await
}

async fn until_async(mut so: impl AsyncFnMut() -> bool) {
    within(async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn asked(session: &Session) -> Ask {
    until(|| !session.asks().is_empty()).await;
    session.asks().remove(0)
}

fn queued(journal: &MemoryJournal) -> Vec<String> {
    let log = records(journal, "s");
    let text = |record: &Record| match &record.body {
        Body::PromptQueued(queued) => {
            let key = record.key.as_ref().map_or("-", |key| key.as_str());
            Some(format!("{key}: {}", queued.content.to_text()))
        }
        _ => None,
    };
    log.iter().filter_map(|record| text(record)).collect()
}

fn ends(journal: &MemoryJournal) -> usize {
    records(journal, "s").iter().filter(|record| matches!(record.body, Body::TurnEnd(_))).count()
}

// C-DUR-8: whoever opens the session does what waits, in order and before anything else; each under its name, so that one
// that was done when its process died is not done again.
#[tokio::test]
async fn what_waits_is_done_once_when_the_session_is_opened() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, None, None).await;
    assert_eq!(put(&journal, "1", prompt("one")).await, Posted::Waits);
    assert_eq!(put(&journal, "1", prompt("not this")).await, Posted::Waits);
    // Done, and its process dies before it is out of the inbox.
    let _turn = within(session.command(name("1")).prompt("one")).await.unwrap();
    asked(&session).await;
    let inject = InboxCommand::Inject { owner: "ops".into(), content: "beware".into() };
    for (id, command) in [("2", prompt("two")), ("3", inject), ("4", prompt(""))] {
        assert_eq!(put(&journal, id, command).await, Posted::Waits);
    }
    within(runtime.shutdown(Duration::ZERO)).await;

    let (runtime, session) = careful(&journal, None, None).await;
    assert_eq!(queued(&journal), ["1: one", "2: two", "3: beware"]);
    assert_eq!(journal.posted().await, Ok(Vec::new()), "nothing waits any more");
    assert!(matches!(put(&journal, "2", prompt("again")).await, Posted::Taken(_)));
    let Posted::Refused(why) = put(&journal, "4", prompt("again")).await else { panic!("it says nothing") };
    assert!(why.contains("empty"), "{why}");
    for turn in 1..=2 {
        let ask = asked(&session).await;
        session.answer(&ask, Answer::Allow).await.unwrap();
        until(|| ends(&journal) == turn).await;
    }
    within(runtime.shutdown(Duration::ZERO)).await;
    sound(&journal).await;
}

// C-DUR-8, C-ASK-1: an answer that waited settles its question when its call is taken up again; one to other arguments, or to
// no question, is refused and settles nothing.
#[tokio::test]
async fn an_answer_in_the_inbox_settles_its_question() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, Some(SOON), None).await;
    let _turn = within(session.prompt("go")).await.unwrap();
    let ask = asked(&session).await;
    let other = InboxCommand::Answer {
        request: ask.id.clone(),
        digest: "00".repeat(32).into(),
        allow: true,
        reason: None,
    };
    put(&journal, "other", other).await;
    let Posted::Refused(why) = settled(&journal, "other").await else { panic!("tampered") };
    assert!(why.contains("other arguments"), "{why}");
    let nobody = InboxCommand::Answer {
        request: RequestId::from_text("s:9.9/0"),
        digest: "00".into(),
        allow: true,
        reason: None,
    };
    put(&journal, "nobody", nobody).await;
    assert!(matches!(settled(&journal, "nobody").await, Posted::Refused(_)));
    assert_eq!(session.asks().len(), 1, "it still waits");
    within(runtime.shutdown(Duration::ZERO)).await;

    put(&journal, "yes", answer(&ask, true)).await;
    let (runtime, session) = careful(&journal, None, None).await;
    assert!(matches!(settled(&journal, "yes").await, Posted::Taken(_)));
    until(|| ends(&journal) == 1).await;
    let log = records(&journal, "s");
    let resolved: Vec<_> =
        log.iter().filter(|record| matches!(record.body, Body::InputResolved(_))).collect();
    assert_eq!(resolved.len(), 1);
    assert_eq!(resolved[0].key, Some(name("yes")));
    assert!(session.asks().is_empty());
    within(runtime.shutdown(Duration::ZERO)).await;
    sound(&journal).await;
}

// C-DUR-8: cancels, of whatever runs and of a prompt by its name.
#[tokio::test]
async fn a_cancel_in_the_inbox_cancels_what_it_means() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, Some(SOON), None).await;
    let first = within(session.command(name("first")).prompt("go")).await.unwrap();
    asked(&session).await;
    let second = within(session.command(name("second")).prompt("later")).await.unwrap();
    put(&journal, "a", cancel(Some("nobody"))).await;
    assert!(matches!(settled(&journal, "a").await, Posted::Refused(_)), "no such prompt");
    put(&journal, "b", cancel(Some("second"))).await;
    assert!(matches!(settled(&journal, "b").await, Posted::Taken(_)));
    assert!(matches!(within(second.into_future()).await, EndReason::Aborted { .. }));
    put(&journal, "c", cancel(None)).await;
    assert!(matches!(settled(&journal, "c").await, Posted::Taken(_)));
    assert!(matches!(within(first.into_future()).await, EndReason::Aborted { .. }));
    within(runtime.shutdown(Duration::ZERO)).await;
    sound(&journal).await;
}

// C-DUR-4, C-DUR-8: a session that is away comes back for what is put into its inbox.
#[tokio::test]
async fn a_session_that_is_away_comes_back_for_its_inbox() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, Some(SOON), Some(SOON)).await;
    until(|| session.is_away()).await;
    put(&journal, "1", prompt("one")).await;
    assert!(matches!(settled(&journal, "1").await, Posted::Taken(_)));
    let ask = asked(&session).await;
    until(|| session.is_away()).await;
    put(&journal, "2", answer(&ask, true)).await;
    assert!(matches!(settled(&journal, "2").await, Posted::Taken(_)));
    until(|| ends(&journal) == 1).await;
    within(runtime.shutdown(Duration::ZERO)).await;
    sound(&journal).await;
}

// C-DUR-4, C-DUR-8: whatever brings a session back has it take what waits, though nobody looks.
#[tokio::test]
async fn a_session_that_comes_back_takes_what_waits() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, None, Some(SOON)).await;
    until(|| session.is_away()).await;
    put(&journal, "1", prompt("one")).await;
    assert!(session.is_away() && queued(&journal).is_empty(), "nobody looks");
    within(session.inject("test", "beware")).await.unwrap();
    assert!(matches!(settled(&journal, "1").await, Posted::Taken(_)));
    let ask = asked(&session).await;
    session.answer(&ask, Answer::Allow).await.unwrap();
    until(|| ends(&journal) == 1).await;
    within(runtime.shutdown(Duration::ZERO)).await;
    sound(&journal).await;
}

/// A session whose model has an agent call Echo, about which a person is asked.
async fn digging(journal: &MemoryJournal, every: Option<Duration>) -> (Runtime, Session) {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", 0) => calls(&[("Agent", r#"{"description":"d","prompt":"go","subagent_type":"digger"}"#)]),
        (_, 0) => calls(&ECHO),
        _ => say("done"),
    });
    let builder = Runtime::builder(model)
        .journal(journal.clone())
        .tools([echo(&Default::default())])
        .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
        .policy("test", |at| {
            at.tools("Echo", |at| {
                at.pre_execute("careful", async |_| Gate::ask("sure?"));
            });
        })
        .arbiters(1);
    let builder = match every {
        Some(every) => builder.inbox_every(every),
        None => builder,
    };
    let runtime = builder.start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

// C-DUR-8, C-ASK-4: whoever answers a subagent's question by way of the inbox is told what it caused, however often it is put
// there again, also when its process died before it was out of the inbox.
#[tokio::test]
async fn an_answer_to_a_subagents_question_is_told_its_first_outcome() {
    for dies in [false, true] {
        let journal = MemoryJournal::new();
        let (runtime, session) = digging(&journal, Some(SOON).filter(|_| !dies)).await;
        let _turn = within(session.prompt("dig")).await.unwrap();
        let ask = asked(&session).await;
        let yes = answer(&ask, true);
        assert_eq!(put(&journal, "yes", yes.clone()).await, Posted::Waits);
        if dies {
            within(session.command(name("yes")).answer(&ask, Answer::Allow)).await.unwrap();
        }
        until(|| ends(&journal) == 1).await;
        let runtime = if dies {
            within(runtime.shutdown(Duration::ZERO)).await;
            assert_eq!(journal.posted().await.unwrap().len(), 1, "it is still in the inbox");
            digging(&journal, None).await.0
        } else {
            runtime
        };
        until_async(async || journal.posted().await.unwrap().is_empty()).await;
        let heads = journal.sessions().await.unwrap();
        let child = heads.iter().find(|head| head.session.as_str() != "s").unwrap();
        let log = records(&journal, child.session.as_str());
        let resolved = log.iter().find(|record| matches!(record.body, Body::InputResolved(_))).unwrap();
        assert_eq!(resolved.key, Some(name("yes")));
        assert_eq!(put(&journal, "yes", yes.clone()).await, Posted::Taken(resolved.seq), "dies: {dies}");
        assert_eq!(journal.posted().await, Ok(Vec::new()), "it is not put there again");
        within(runtime.shutdown(Duration::ZERO)).await;
        sound(&journal).await;
    }
}

// C-DUR-8: an answer is refused by a session that is not the question's, though somebody waits for it elsewhere.
#[tokio::test]
async fn an_answer_in_another_sessions_inbox_is_refused() {
    let journal = MemoryJournal::new();
    let (runtime, session) = careful(&journal, Some(SOON), None).await;
    let _turn = within(session.prompt("go")).await.unwrap();
    let ask = asked(&session).await;
    let _other = runtime.open("t", SessionOptions::new("/").approvals()).await.unwrap();
    let other = SessionId::new("t").unwrap();
    journal.submit(&other, &name("yes"), &answer(&ask, true)).await.unwrap();
    until_async(async || journal.pending(&other).await.unwrap().is_empty()).await;
    let posted = journal.submit(&other, &name("yes"), &answer(&ask, true)).await;
    assert!(matches!(posted, Ok(Posted::Refused(_))), "{posted:?}");
    assert_eq!(session.asks().len(), 1, "it still waits");
    within(runtime.shutdown(Duration::ZERO)).await;
}
