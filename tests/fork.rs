//! C-DUR-7: forks of live and of finished sessions.

mod support;

use portcullis::*;
use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
};
use support::{Says, calls, echo, say, within};

/// A runtime with one tool whose starts are written down.
async fn house(
    journal: &MemoryJournal,
    ran: &Arc<Mutex<Vec<String>>>,
    starts: &Arc<Mutex<Vec<StartSource>>>,
) -> Runtime {
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("work", 0 | 1) => calls(&[("Echo", r#"{"text":"a"}"#)]),
        (prompt, _) => say(&format!("{prompt}: done")),
    });
    let starts = starts.clone();
    Runtime::builder(model)
        .journal(journal.clone())
        .tools([echo(ran)])
        .policy("house", move |at| {
            at.session_start("note", async move |start: Starting| {
                starts.lock().unwrap().push(start.source);
                Reply::new(Started {}).context(format!("started by {}", start.source.name()))
            });
        })
        .arbiters(1)
        .start()
        .await
        .unwrap()
}

async fn ended(session: &Session, prompt: &str) -> EndReason {
    within(session.prompt(prompt).await.unwrap().into_future()).await
}

fn fold(journal: &MemoryJournal, session: &str) -> law::State {
    law::State::fold(&journal.records(&SessionId::new(session).unwrap())).unwrap()
}

#[tokio::test]
async fn a_fork_goes_on_and_its_parent_does_not_notice() {
    let (journal, ran, starts) = (MemoryJournal::new(), Arc::default(), Arc::default());
    let runtime = house(&journal, &ran, &starts).await;
    let parent = runtime.session("parent").await.unwrap();
    for prompt in ["work", "more"] {
        assert!(ended(&parent, prompt).await.is_success());
    }
    let before = journal.records(parent.id());
    runtime.fork("parent", ForkAt::Step(1, 2), "child").await.unwrap();
    runtime.fork("parent", ForkAt::Turn(1), "other").await.unwrap();
    assert_eq!(journal.records(parent.id()), before, "the parent is only read");
    assert_eq!(*ran.lock().unwrap(), ["a", "a"], "and nothing ran");
    assert_eq!(fold(&journal, "child").last_end(), Some(&EndReason::Interrupted));
    assert_eq!(fold(&journal, "other").last_end(), Some(&EndReason::Completed));

    let child = runtime.session("child").await.unwrap();
    assert!(ended(&child, "fresh").await.is_success());
    assert_eq!(*starts.lock().unwrap(), [StartSource::Startup, StartSource::Fork], "once, and no resume");
    let said: Vec<String> = fold(&journal, "child")
        .transcript()
        .iter()
        .filter_map(|message| match message {
            Message::User { content, .. } | Message::Context { content, .. } => {
                Some(content.to_text().into_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(said, ["started by startup", "work", "started by fork", "fresh"]);
    // The parent goes on, too, and knows nothing of it.
    assert!(ended(&parent, "last").await.is_success());
    assert!(journal.records(parent.id()).starts_with(&before));
    runtime.shutdown(support::PATIENCE).await;

    // Left and taken up again it resumes like any other.
    let runtime = house(&journal, &ran, &starts).await;
    let child = runtime.session("child").await.unwrap();
    assert!(ended(&child, "again").await.is_success());
    assert_eq!(starts.lock().unwrap().last(), Some(&StartSource::Resume));
    runtime.shutdown(support::PATIENCE).await;
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused_and_nothing_is_written() {
    let (journal, ran, starts) = (MemoryJournal::new(), Arc::default(), Arc::default());
    let runtime = house(&journal, &ran, &starts).await;
    let parent = runtime.session("parent").await.unwrap();
    assert!(ended(&parent, "more").await.is_success());
    let refused = async |of, at, name| runtime.fork(of, at, name).await.unwrap_err().to_string();
    assert!(refused("parent", ForkAt::Turn(2), "child").await.ends_with("it has 1 turn"));
    assert!(refused("parent", ForkAt::Head, "parent").await.contains("give the fork another name"));
    assert!(refused("nobody", ForkAt::Head, "child").await.contains("no session `nobody`"));
    assert!(refused("parent", ForkAt::Head, "a/b").await.contains("is not a session name"));
    let names: Vec<SessionId> = journal.sessions().await.unwrap().into_iter().map(|h| h.session).collect();
    assert_eq!(names, [SessionId::new("parent").unwrap()]);
    runtime.shutdown(support::PATIENCE).await;
}

// C-DUR-7, C-LOG-4: forked in the middle of a call, the call is answered in the fork, and goes on in the parent.
#[tokio::test]
async fn an_open_turn_is_interrupted_in_the_fork_alone() {
    let journal = MemoryJournal::new();
    let model = Says::by_prompt(
        |_, said| if said == 0 { calls(&[("Echo", r#"{"text":"a"}"#)]) } else { say("done") },
    );
    let runtime = Runtime::builder(model)
        .journal(journal.clone())
        .tools([echo(&Arc::default())])
        .policy("house", |at| {
            at.pre_execute("ask", async |_: Execution| Gate::ask("sure?"));
        })
        .start()
        .await
        .unwrap();
    let options = SessionOptions::new("/").approvals();
    let parent = runtime.open("parent", options.clone()).await.unwrap();
    let turn = parent.prompt("go").await.unwrap();
    support::until(|| !parent.asks().is_empty()).await;
    runtime.fork("parent", ForkAt::Head, "child").await.unwrap();
    let forked = journal.records(&SessionId::new("child").unwrap());
    let ends: Vec<&str> = forked
        .iter()
        .filter_map(|record| match &record.body {
            Body::ToolResult(result) => Some(result.outcome.name()),
            Body::TurnEnd(end) => Some(end.reason.name()),
            _ => None,
        })
        .collect();
    assert_eq!(ends, ["approval_cancelled", "interrupted"]);
    let heads = journal.sessions().await.unwrap();
    assert!(
        heads.iter().all(|head| head.waits.is_empty() == (head.session.as_str() == "child")),
        "{heads:?}"
    );
    let child = runtime.open("child", options).await.unwrap();
    assert!(child.asks().is_empty());
    let ask = parent.asks().remove(0);
    parent.answer(&ask, Answer::Allow).await.unwrap();
    assert!(within(turn.into_future()).await.is_success());
    runtime.shutdown(support::PATIENCE).await;
}
