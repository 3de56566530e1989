//! Snapshots in the file: behind their owner's fence, and of the log that is there.

mod common;

use common::{claimed, length, named};
use portcullis_runtime::{
    Journal, Ownership, Record, Seq,
    journal::conformance,
    law::{Snapshot, State},
};
use portcullis_sqlite::SqliteJournal;
use std::sync::Arc;

/// Creates the session, and the fold of its log.
async fn begun(journal: &SqliteJournal, own: &mut Ownership) -> State {
    let batch = conformance::created(&named("s"));
    let records: Vec<Arc<Record>> = batch.records.clone();
    journal.append(own, batch).unwrap().wait().await.unwrap();
    State::fold(&records).unwrap()
}

/// What is kept, once the writer has done what it was handed before.
async fn kept_head(journal: &SqliteJournal) -> Option<Seq> {
    // Its answer comes behind the writer's earlier work.
    let probe = claimed(journal, "probe").await;
    journal.release(probe).await.unwrap();
    let kept = journal.kept(&named("s")).await.unwrap()?;
    Some(kept.restore(&named("s")).unwrap().0.head())
}

// C-DUR-6: a snapshot of an owner that was fenced is not kept, nor is one of records that were never written.
#[tokio::test]
async fn only_the_owner_of_what_is_written_keeps_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("journal.db")).unwrap();
    let mut own = claimed(&journal, "s").await;
    let state = begun(&journal, &mut own).await;
    let snapshot = Snapshot::of(&state, None).expect("at rest");
    let newer = claimed(&journal, "s").await;
    journal.keep(&own, snapshot.clone());
    assert_eq!(kept_head(&journal).await, None, "its owner was fenced");

    let mut ahead = state.clone();
    let [prompt] = conformance::prompts(state.head(), 1).records.try_into().unwrap();
    ahead.apply(&prompt).unwrap();
    journal.keep(&newer, Snapshot::of(&ahead, None).expect("at rest"));
    assert_eq!(kept_head(&journal).await, None, "a record of it is not there");

    journal.keep(&newer, snapshot);
    assert_eq!(kept_head(&journal).await, Some(state.head()));
    assert_eq!(length(&journal, "s").await, state.head().0);
}
