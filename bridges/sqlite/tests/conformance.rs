//! The SQLite journal keeps every rule of journals.

use portcullis_runtime::{
    At, Batch, Draft, Journal, JournalError, PromptQueued, QueueKind, Source, journal::conformance,
};
use portcullis_sqlite::{Options, SqliteJournal};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

// C-DUR-5, C-DUR-6, C-DUR-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let made = AtomicU32::new(0);
    let suite = conformance::all(|| async {
        let n = made.fetch_add(1, Ordering::Relaxed);
        let journal = SqliteJournal::open(folder.path().join(format!("new/folder/{n}.db")));
        Arc::new(journal.expect("a new journal")) as Arc<dyn Journal>
    });
    tokio::time::timeout(Duration::from_secs(120), suite).await.expect("an answer to everything");
}

// C-DUR-9
#[tokio::test]
async fn a_full_disk_is_said_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let large = |seq| {
        let content = "x".repeat(20_000).into();
        let body = PromptQueued { kind: QueueKind::Prompt, content, source: Source::User };
        Batch { records: vec![Draft::new(At::session(), body).seal(seq, 0)], ..Batch::default() }
    };
    let journal = SqliteJournal::open_with(&file, Options { quota: Some(1 << 20) }).unwrap();
    conformance::breaking(&journal, JournalError::StorageFull, large).await;
    let written = journal.stats().records;
    assert!(written > 10, "some fit: {written}");
    drop(journal);

    // With room again, the session goes on where it stood.
    let journal = SqliteJournal::open(&file).unwrap();
    let [head] = journal.sessions().await.unwrap().try_into().unwrap();
    assert_eq!(head.records, written);
    let mut own = journal.claim(&head.session, 7, portcullis_runtime::Claim::OpenOnly).await.unwrap();
    let batch = large(own.head);
    journal.append(&mut own, batch).unwrap().wait().await.unwrap();
}
