//! Snapshots: a session opens without reading its whole log, and is the same without them.
#![cfg(feature = "sqlite")]

mod support;

use futures::future::BoxFuture;
use portcullis::{journal::Around, sqlite::SqliteJournal, *};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};
use support::*;

/// A journal that notes from where on records are read.
#[derive(Clone)]
struct Reads {
    journal: SqliteJournal,
    from: Arc<Mutex<Vec<u64>>>,
}

impl Reads {
    /// Waits for whoever had it last.
    async fn open(file: &Path) -> Reads {
        until(|| SqliteJournal::open(file).is_ok()).await;
        Reads { journal: SqliteJournal::open(file).unwrap(), from: Arc::default() }
    }
    fn first(&self) -> Option<u64> {
        self.from.lock().unwrap().first().copied()
    }
}

impl Around for Reads {
    type Inner = SqliteJournal;

    fn inner(&self) -> &SqliteJournal {
        &self.journal
    }

    fn on_read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        self.from.lock().unwrap().push(from.0);
        self.journal.read(session, from, limit)
    }
}

async fn runtime(journal: &Reads, model: &Says) -> (Runtime, Session) {
    let ran = Arc::default();
    let builder = Runtime::builder(model.clone()).tools([echo(&ran)]).journal(journal.clone());
    let runtime = builder.arbiters(1).start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new("/")).await.unwrap();
    (runtime, session)
}

/// So many one-tool turns, then the runtime is over.
async fn play(file: &Path, turns: usize) -> Option<u64> {
    let journal = Reads::open(file).await;
    let (runtime, session) = runtime(&journal, &Says::calls(&[("Echo", r#"{"text":"x"}"#)])).await;
    for n in 0..turns {
        let turn = within(session.prompt(format!("prompt {n}"))).await.unwrap();
        assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    }
    within(runtime.shutdown(PATIENCE)).await;
    journal.first()
}

/// What the model is sent when the session is opened again and prompted, and from where its log was read.
async fn asked(file: &Path) -> (Vec<Message>, Option<u64>) {
    let (journal, model) = (Reads::open(file).await, Says::calls(&[("Echo", r#"{"text":"x"}"#)]));
    let (runtime, session) = runtime(&journal, &model).await;
    let from = journal.first();
    let turn = within(session.prompt("and now?")).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    within(runtime.shutdown(PATIENCE)).await;
    (model.requests()[0].messages.iter().cloned().collect(), from)
}

/// Once whoever had it last is gone, so that it is one file.
async fn copy(file: &Path) -> (tempfile::TempDir, std::path::PathBuf) {
    until(|| SqliteJournal::open(file).is_ok()).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("journal.db");
    std::fs::copy(file, &to).unwrap();
    (folder, to)
}

fn change(file: &Path, statement: &str) {
    let connection = rusqlite::Connection::open(file).unwrap();
    assert!(connection.execute(statement, []).unwrap() > 0, "{statement}");
}

// C-DUR-1, C-LOG-6: the same request is made from a snapshot and the records behind it as from the whole log; when the
// snapshot is gone, changed, or of another log, it is not there, and nothing else is different.
#[tokio::test]
async fn a_session_is_the_same_with_and_without_its_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    assert_eq!(play(&file, 40).await, None, "a new session reads nothing");
    // The second life goes on from the first one's snapshot, and adds to it.
    let read = play(&file, 60).await.expect("read");
    assert!((512..641).contains(&read), "read from {read}");

    let (_kept, with) = copy(&file).await;
    let (messages, from) = asked(&with).await;
    assert_eq!(messages.len(), 100 * 4 + 1);
    assert!(from.is_some_and(|from| from > 1024), "read from {from:?}");

    for (why, statement) in [
        ("gone", "DELETE FROM snapshots"),
        ("its state is gone", "DELETE FROM snapshots WHERE seq = -1"),
        ("a part is gone", "DELETE FROM snapshots WHERE seq = (SELECT max(seq) FROM snapshots)"),
        ("changed", "UPDATE snapshots SET body = zeroblob(length(body)) WHERE seq > 0"),
        ("cut", "UPDATE snapshots SET body = substr(body, 1, 50) WHERE seq = -1"),
        (
            "of another log",
            "UPDATE snapshots SET body = CAST(substr(body, 1, 8) || zeroblob(32) || substr(body, 41) AS BLOB) WHERE seq = -1",
        ),
    ] {
        let (_without, file) = copy(&file).await;
        change(&file, statement);
        let (again, from) = asked(&file).await;
        assert_eq!(from, Some(0), "{why}: the log is read whole");
        assert_eq!(again, messages, "{why}");
        // The opening alone has given it another one.
        let (_without, file) = copy(&with).await;
        change(&file, statement);
        assert_eq!(play(&file, 0).await, Some(0), "{why}");
        assert_eq!(play(&file, 0).await, None, "{why}: nothing stands behind the new one");
    }
}
