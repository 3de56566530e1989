//! Verification: whatever is changed behind the journal's back is named, and whatever is not is sound.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{
    Journal, JournalError, Seq,
    journal::{Verified, conformance},
};
use portcullis_sqlite::SqliteJournal;
use rusqlite::Connection;
use std::path::Path;

/// A sound session of `count` records.
async fn sound(journal: &SqliteJournal, name: &str, count: u64) {
    let mut own = claimed(journal, name).await;
    let created = conformance::created(&named(name));
    journal.append(&mut own, created).unwrap().wait().await.unwrap();
    write(journal, &mut own, count - 1).await;
    journal.release(own).await.unwrap();
}

async fn file(path: &Path) {
    let journal = SqliteJournal::open(path).unwrap();
    sound(&journal, "a", 20).await;
    sound(&journal, "b", 1200).await;
}

async fn found(path: &Path, name: &str) -> Verified {
    SqliteJournal::read_only(path).unwrap().verify(&named(name)).await.unwrap()
}

// C-DUR-9
#[tokio::test]
async fn what_was_written_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    file(&path).await;
    for (name, count) in [("a", 20), ("b", 1200)] {
        let found = found(&path, name).await;
        assert_eq!((found.records, found.chained, found.damage), (count, count, None));
    }
    let missing = SqliteJournal::read_only(&path).unwrap().verify(&named("c")).await;
    assert_eq!(missing, Err(JournalError::NotFound(named("c"))));
}

// C-DUR-9
#[tokio::test]
async fn whatever_was_changed_is_named_with_its_place() {
    for (damage, at, why) in [
        ("UPDATE records SET type = 'turn/start' WHERE session = 'b' AND seq = 700", 700, "`type`"),
        ("UPDATE records SET v = 9 WHERE session = 'b' AND seq = 2", 2, "`v`"),
        ("UPDATE records SET time = time + 1 WHERE session = 'b' AND seq = 3", 3, "`time`"),
        ("UPDATE records SET turn = 1 WHERE session = 'b' AND seq = 4", 4, "`turn`"),
        ("UPDATE records SET step = 1 WHERE session = 'b' AND seq = 5", 5, "`step`"),
        ("UPDATE records SET call = '[0]' WHERE session = 'b' AND seq = 6", 6, "`call`"),
        ("UPDATE records SET epoch = 0 WHERE session = 'b' AND seq = 7", 7, "epoch 0"),
        ("UPDATE sessions SET epoch = 0 WHERE session = 'b'", 1199, "the session of epoch 0"),
        ("UPDATE sessions SET head = 1190 WHERE session = 'b'", 1190, "a record 1190"),
        ("UPDATE sessions SET head = 1201 WHERE session = 'b'", 1200, "missing"),
        ("DELETE FROM records WHERE session = 'b' AND seq = 511", 511, "missing"),
        ("DELETE FROM records WHERE session = 'b' AND seq = 512", 512, "missing"),
        ("DELETE FROM records WHERE session = 'b' AND seq >= 1024", 1024, "missing"),
        ("UPDATE records SET seq = -1 WHERE session = 'b' AND seq = 0", 0, "missing"),
        ("UPDATE records SET record = record || ' ' WHERE session = 'b' AND seq = 8", 8, "hash"),
        ("UPDATE records SET hash = NULL WHERE session = 'b' AND seq >= 600", 600, "no hash"),
        ("UPDATE records SET hash = zeroblob(32) WHERE session = 'b' AND seq = 1199", 1199, "hash"),
        (
            "INSERT INTO waits (request, session, seq, state) VALUES ('which', 'b', 9, 'open')",
            9,
            "no record asks",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        file(&path).await;
        assert!(Connection::open(&path).unwrap().execute(damage, []).unwrap() > 0, "{damage}");
        let before = std::fs::read(&path).unwrap();
        let verified = found(&path, "b").await;
        let Some(damaged) = &verified.damage else { panic!("{damage}: {verified:?}") };
        assert_eq!(damaged.at, Seq(at), "{damage}: {verified:?}");
        assert!(damaged.why.contains(why), "{damage}: {verified:?}");
        assert!(found(&path, "a").await.is_sound(), "{damage}: another session is not touched");
        assert_eq!(std::fs::read(&path).unwrap(), before, "looking changes nothing");
    }
}

// C-DUR-9: beside a live writer, each look is at a whole log
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_meanwhile_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&path).unwrap();
    sound(&journal, "b", 3).await;
    let reading = SqliteJournal::read_only(&path).unwrap();
    let mut own = claimed(&journal, "b").await;
    let writer = tokio::spawn(async move {
        for _ in 0..300 {
            write(&journal, &mut own, 5).await;
        }
        journal
    });
    let mut last = 0;
    while !writer.is_finished() {
        let found = reading.verify(&named("b")).await.unwrap();
        assert_eq!(found.damage, None);
        assert!(found.records >= last && found.chained == found.records, "{found:?}");
        last = found.records;
    }
    let journal = writer.await.unwrap();
    assert_eq!(journal.verify(&named("b")).await.unwrap().records, 1503);
    assert_eq!(length(&reading, "b").await, 1503);
}
