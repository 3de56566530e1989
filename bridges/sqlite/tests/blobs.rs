//! Long data stand apart, once, and nobody who reads notices.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{
    At, Batch, Claim, Draft, Journal, JournalError, PromptQueued, QueueKind, Seq, Source, encode,
    journal::conformance,
};
use portcullis_sqlite::{Options, SqliteJournal};
use rusqlite::Connection;
use std::path::Path;

const LIMIT: usize = 64 << 10;

/// A prompt whose data are of this many bytes.
fn prompt(seq: Seq, letter: &str, bytes: usize) -> Batch {
    let of = |length: usize| {
        let content = letter.repeat(length).into();
        let body = PromptQueued { kind: QueueKind::Prompt, content, source: Source::User };
        Draft::new(At::session(), body).seal(seq, 5)
    };
    let around = encode(&of(0)).len() - r#"{"seq":0,"time":5,"type":"prompt/queued","v":1,"data":}"#.len();
    assert!(seq.0 < 10);
    Batch { records: vec![of(bytes - around)], ..Batch::default() }
}

fn count(file: &Path, sql: &str) -> i64 {
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

// C-DUR-5, C-LOG-1
#[tokio::test]
async fn long_data_stand_apart_and_read_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut written = Vec::new();
    for name in ["a", "b"] {
        let mut own = claimed(&journal, name).await;
        let batches = [
            conformance::created(&named(name)),
            prompt(Seq(1), "x", LIMIT),
            prompt(Seq(2), "x", LIMIT + 1),
            prompt(Seq(3), "x", LIMIT + 1),
            prompt(Seq(4), "y", 3 << 20),
            prompt(Seq(5), "ä", LIMIT + 2),
        ];
        let mut log = Vec::new();
        for batch in batches {
            log.extend(batch.records.clone());
            journal.append(&mut own, batch).unwrap().wait().await.unwrap();
        }
        journal.release(own).await.unwrap();
        written.push(log);
    }
    drop(journal);
    let of = |column: &str| format!("SELECT group_concat({column}) FROM records WHERE session = 'a'");
    let apart: String =
        Connection::open(&file).unwrap().query_row(&of("blob IS NOT NULL"), [], |row| row.get(0)).unwrap();
    assert_eq!(apart, "0,0,1,1,1,1", "what is longer than 64 KiB");
    assert_eq!(count(&file, "SELECT count(*) FROM blobs"), 3, "equal data are kept once");
    assert_eq!(count(&file, "SELECT max(length(record)) < 66000 FROM records"), 1);

    let journal = SqliteJournal::open(&file).unwrap();
    for (name, log) in ["a", "b"].into_iter().zip(written) {
        assert_eq!(journal.read(&named(name), Seq(0), 99).await.unwrap(), log);
        let found = journal.verify(&named(name)).await.unwrap();
        assert_eq!((found.records, found.chained, found.damage), (6, 6, None));
    }
}

// C-DUR-9
#[tokio::test]
async fn a_blob_that_was_changed_or_is_gone_is_named() {
    for damage in [
        "UPDATE blobs SET body = x'7b7d'",
        "DELETE FROM blobs",
        "UPDATE records SET blob = NULL WHERE seq = 2",
        "UPDATE records SET blob = zeroblob(32) WHERE seq = 2",
        "UPDATE records SET blob = x'00' WHERE seq = 2",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        let journal = SqliteJournal::open(&file).unwrap();
        let mut own = claimed(&journal, "s").await;
        for batch in
            [conformance::created(&named("s")), prompt(Seq(1), "x", 100), prompt(Seq(2), "x", LIMIT * 2)]
        {
            journal.append(&mut own, batch).unwrap().wait().await.unwrap();
        }
        drop(journal);
        assert!(Connection::open(&file).unwrap().execute(damage, []).unwrap() > 0);
        let journal = SqliteJournal::open(&file).unwrap();
        assert_eq!(journal.read(&named("s"), Seq(0), 2).await.unwrap().len(), 2);
        let read = journal.read(&named("s"), Seq(0), 9).await;
        assert!(matches!(read, Err(JournalError::Corrupt { at: Seq(2), .. })), "{damage}: {read:?}");
        let found = journal.verify(&named("s")).await.unwrap();
        assert_eq!((found.records, found.damage.unwrap().at), (2, Seq(2)), "{damage}");

        // The same data again: what is damaged is not taken for them.
        let mut own = journal.claim(&named("t"), 4, Claim::CreateOrOpen).await.unwrap();
        let again = journal.append(&mut own, prompt(Seq(0), "x", LIMIT * 2)).unwrap().wait().await;
        match again {
            Ok(_) => assert_eq!(length(&journal, "t").await, 1, "{damage}"),
            Err(error) => {
                assert!(matches!(&error, JournalError::Corrupt { at: Seq(0), .. }), "{damage}: {error:?}");
                assert!(damage.starts_with("UPDATE blobs"), "{damage}: {error:?}");
                let mut own = journal.claim(&named("t"), 4, Claim::CreateOrOpen).await.unwrap();
                write(&journal, &mut own, 1).await;
            }
        }
    }
}

// C-DUR-9: an append that fails leaves no blob behind
#[tokio::test]
async fn a_failed_append_leaves_no_blob() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open_with(&file, Options { quota: Some(1 << 20) }).unwrap();
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let batch = |seq: Seq| prompt(seq, letters[usize::try_from(seq.0).unwrap()], 3 * LIMIT);
    conformance::breaking(&journal, JournalError::StorageFull, batch).await;
    drop(journal);
    assert!(count(&file, "SELECT count(*) FROM blobs") > 2);
    let lost =
        "SELECT count(*) FROM blobs WHERE digest NOT IN (SELECT blob FROM records WHERE blob IS NOT NULL)";
    assert_eq!(count(&file, lost), 0);
}
