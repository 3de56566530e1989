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
