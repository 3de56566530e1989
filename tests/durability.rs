//! C-DUR: a disk that fills up and has room again.
#![cfg(feature = "sqlite")]

mod support;

use portcullis::{
    sqlite::{Options, SqliteJournal},
    *,
};
use std::{path::Path, sync::Arc};
use support::*;

const QUOTA: u64 = 512 << 10;

async fn runtime(file: &Path, quota: Option<u64>) -> (Runtime, SqliteJournal) {
    let journal = SqliteJournal::open_with(file, Options { quota }).unwrap();
    let ran = Arc::default();
    let builder = Runtime::builder(Says::calls(&[("Echo", r#"{"text":"x"}"#)])).tools([echo(&ran)]);
    (builder.journal(journal.clone()).arbiters(1).start().await.unwrap(), journal)
}

async fn log(journal: &SqliteJournal, session: &str) -> Vec<Arc<Record>> {
    let id = SessionId::new(session).unwrap();
    let mut log: Vec<Arc<Record>> = Vec::new();
    loop {
        let page = journal.read(&id, Seq(log.len() as u64), 1_000).await.unwrap();
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

// C-DUR-9, C-TURN-10: a full disk is told at once, to whoever waits; no effect starts, what was acknowledged stays; with
// room again the session goes on where its log ends, the open turn first.
#[tokio::test]
async fn sqlite_full_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.db");
    let (full, journal) = runtime(&file, Some(QUOTA)).await;
    let session = full.open("s", SessionOptions::new("/")).await.unwrap();
    let large = "x".repeat(20_000);
    let mut acknowledged = 0_usize;
    // Either a prompt is refused, or a turn that had begun is cut.
    let (code, message) = loop {
        match within(session.prompt(&*large)).await {
            Err(SubmitError::Journal { error, prompts }) => {
                assert_eq!(prompts, [Content::text(&*large)], "handed back");
                break (error.code().to_owned(), error.to_string());
            }
            Err(SubmitError::Closed { .. } | SubmitError::Draining { .. }) => panic!("closed without a word"),
            Err(other) => panic!("{other:?}"),
            Ok(turn) => {
                acknowledged += 1;
                match within(turn.into_future()).await {
                    EndReason::Completed => {}
                    EndReason::Error { code, message } => break (code.to_string(), message.to_string()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(acknowledged < 1_000, "the quota was never met");
    };
    assert_eq!(code, JournalError::StorageFull.code(), "{message}");
    assert!(acknowledged > 3, "some fit: {acknowledged}");
    within(session.gone()).await;
    within(full.shutdown(PATIENCE)).await;
    let before = log(&journal, "s").await;
    // Each holds the journal, and one process opens a file once.
    drop((session, journal));

    let (roomy, journal) = runtime(&file, None).await;
    let session = within(roomy.open("s", SessionOptions::new("/"))).await.unwrap();
    assert_eq!(
        within(within(session.prompt("again")).await.unwrap().into_future()).await,
        EndReason::Completed
    );
    let after = log(&journal, "s").await;
    assert_eq!(after[..before.len()], before, "what was acknowledged stays");
    let state = law::State::fold(&after).unwrap();
    assert_eq!(state.next(None), law::Next::Idle);
    let count = |kind: &str| after.iter().filter(|r| r.body.kind() == kind).count();
    assert_eq!(count("user/message"), acknowledged + 1, "each acknowledged prompt was in a turn");
    assert_eq!(count("turn/start"), count("turn/end"));
    assert_eq!(count("tool/call"), count("tool/result"));
    assert_eq!(within(roomy.shutdown(PATIENCE)).await.parked, []);
}

/// Takes room, outside of what the journal counts as its own.
fn fill(file: &Path) {
    let other = rusqlite::Connection::open(file).unwrap();
    other.execute_batch("CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(500000))").unwrap();
}

/// Gives it back: its pages are free for whoever writes next.
fn make_room(file: &Path) {
    rusqlite::Connection::open(file).unwrap().execute_batch("DROP TABLE filler").unwrap();
}

// C-DUR-9, C-DUR-2: wherever in a turn the disk is full, no body starts before its intent is on disk, and what was
// acknowledged stays; with room again, in the same runtime, the same turn is finished and every call has its result.
#[tokio::test]
async fn full_at_any_place_of_a_turn_and_back() {
    let large = "x".repeat(15_000);
    let arguments = format!(r#"{{"text":"{large}"}}"#);
    let mut cut_at = std::collections::BTreeSet::new();
    for spare in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agents.db");
        drop(SqliteJournal::open(&file).unwrap());
        fill(&file);
        let quota = std::fs::metadata(&file).unwrap().len() + spare * 4096;
        let journal = SqliteJournal::open_with(&file, Options { quota: Some(quota) }).unwrap();
        let ran: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let model = Says::calls(&[("Echo", &arguments)]);
        let builder = Runtime::builder(model.clone()).tools([echo(&ran)]);
        let runtime = builder.journal(journal.clone()).arbiters(1).start().await.unwrap();

        let said = match within(runtime.open("s", SessionOptions::new("/"))).await {
            // Not even its first record.
            Err(error) => {
                assert!(error.to_string().contains(&JournalError::StorageFull.to_string()), "{error:?}");
                Some(JournalError::StorageFull.code().to_owned())
            }
            Ok(session) => match within(session.prompt(&*large)).await {
                Err(SubmitError::Journal { error, .. }) => {
                    within(session.gone()).await;
                    Some(error.code().to_owned())
                }
                Err(other) => panic!("{other:?}"),
                Ok(turn) => match within(turn.into_future()).await {
                    EndReason::Completed => None,
                    EndReason::Error { code, .. } => {
                        within(session.gone()).await;
                        Some(code.to_string())
                    }
                    other => panic!("{other:?}"),
                },
            },
        };
        let before = log_if_any(&journal, "s").await;
        let count = |log: &[Arc<Record>], kind: &str| log.iter().filter(|r| r.body.kind() == kind).count();
        if let Some(code) = &said {
            assert_eq!(*code, JournalError::StorageFull.code());
            cut_at.insert(before.last().map(|record| record.body.kind().to_owned()));
        }
        assert!(
            model.requests().len() <= count(&before, "model/requested"),
            "a request is out and not on disk"
        );
        assert!(
            ran.lock().unwrap().len() <= count(&before, "tool/dispatched"),
            "a body runs and is not on disk"
        );

        make_room(&file);
        let session = within(runtime.open("s", SessionOptions::new("/"))).await.unwrap();
        // Whatever was open is finished before it.
        let turn = within(session.prompt("again")).await.unwrap();
        assert_eq!(within(turn.into_future()).await, EndReason::Completed);
        let after = log_if_any(&journal, "s").await;
        assert_eq!(after[..before.len()], before, "what was acknowledged stays");
        assert_eq!(law::State::fold(&after).unwrap().next(None), law::Next::Idle);
        assert_eq!(count(&after, "turn/start"), count(&after, "turn/end"));
        assert_eq!(count(&after, "tool/call"), count(&after, "tool/result"));
        assert_eq!(count(&after, "tool/dispatched"), ran.lock().unwrap().len(), "no body twice");
        assert!(journal.verify(session.id()).await.unwrap().is_sound());
        within(runtime.shutdown(PATIENCE)).await;
    }
    println!("{cut_at:?}");
    // How many records share a transaction is the moment's; these two are where somebody waits for the disk.
    for place in ["model/requested", "tool/dispatched"] {
        assert!(
            cut_at.contains(&Some(place.to_owned())),
            "the disk was never full behind {place}: {cut_at:?}"
        );
    }
}

async fn log_if_any(journal: &SqliteJournal, session: &str) -> Vec<Arc<Record>> {
    let known = journal.sessions().await.unwrap();
    if known.iter().any(|head| head.session.as_str() == session) {
        log(journal, session).await
    } else {
        Vec::new()
    }
}
