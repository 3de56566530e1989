//! The chain of hashes: what is written, what goes on from it, and what it tells.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{
    Claim, Journal, JournalError, Seq,
    journal::{Chain, Hash, conformance::prompts},
};
use portcullis_sqlite::SqliteJournal;
use rusqlite::Connection;
use std::path::Path;

/// The lines of a session and their hashes.
fn rows(file: &Path, session: &str) -> Vec<(String, Option<Hash>)> {
    let connection = Connection::open(file).unwrap();
    let mut rows =
        connection.prepare("SELECT record, hash FROM records WHERE session = ?1 ORDER BY seq").unwrap();
    let rows = rows.query_map([session], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn change(file: &Path, sql: &str) {
    assert!(Connection::open(file).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
}

// C-DUR-9: each session has a chain of its own, whatever is written between; it goes on after a reopen
#[tokio::test]
async fn each_record_is_chained_to_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    for opened in 0..3_u64 {
        let journal = SqliteJournal::open(&file).unwrap();
        let (mut a, mut b) = (claimed(&journal, "a").await, claimed(&journal, "b").await);
        let tickets = [
            journal.append(&mut a, prompts(Seq(6 * opened), 2)).unwrap(),
            journal.append(&mut b, prompts(Seq(opened), 1)).unwrap(),
            journal.append(&mut a, prompts(Seq(6 * opened + 2), 3)).unwrap(),
        ];
        for ticket in tickets {
            ticket.wait().await.unwrap();
        }
        // Taken anew, as by another runtime.
        journal.release(a).await.unwrap();
        let mut a = journal.claim(&named("a"), 9, Claim::OpenOnly).await.unwrap();
        write(&journal, &mut a, 1).await;
    }
    for (session, count) in [("a", 18), ("b", 3)] {
        let rows = rows(&file, session);
        assert_eq!(rows.len(), count);
        let mut chain = Chain::default();
        for (line, hash) in rows {
            assert_eq!(hash, Some(chain.next(&named(session), &line, None)), "{line}");
        }
    }
}

// C-DUR-9: also what would read as a record is damage, wherever reading begins
#[tokio::test]
async fn what_was_changed_is_named_though_it_reads() {
    for (damage, place) in [
        ("UPDATE records SET record = replace(record, 'prompt 4:', 'prompt 7:') WHERE seq = 4", 4),
        ("UPDATE records SET hash = (SELECT hash FROM records WHERE seq = 6) WHERE seq = 5", 5),
        ("UPDATE records SET hash = NULL WHERE seq = 6", 6),
        ("UPDATE records SET hash = x'00' WHERE seq = 9", 9),
        // Lines of another session, sound there.
        ("UPDATE records SET session = 'else'", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        let journal = SqliteJournal::open(&file).unwrap();
        let mut own = claimed(&journal, "s").await;
        write(&journal, &mut own, 10).await;
        drop(journal);
        change(&file, damage);
        let name = if damage.contains("else") { "else" } else { "s" };
        if name == "else" {
            change(&file, "UPDATE sessions SET session = 'else'");
        }
        let journal = SqliteJournal::open(&file).unwrap();
        for from in 0..=place {
            let read = journal.read(&named(name), Seq(from), usize::MAX).await;
            assert!(
                matches!(read, Err(JournalError::Corrupt { at: Seq(at), .. }) if at == place),
                "{damage}: {read:?}"
            );
        }
        let before = journal.read(&named(name), Seq(0), usize::try_from(place).unwrap()).await.unwrap();
        assert_eq!(before.len() as u64, place, "{damage}");
    }
}

// C-DUR-9: a journal of before the chain is what it is; what is added to it is chained
#[tokio::test]
async fn records_without_hashes_are_accepted_up_to_the_first_that_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    write(&journal, &mut own, 5).await;
    drop(journal);
    change(&file, "UPDATE records SET hash = NULL");

    let journal = SqliteJournal::open(&file).unwrap();
    assert_eq!(length(&journal, "s").await, 5);
    let mut own = journal.claim(&named("s"), 2, Claim::OpenOnly).await.unwrap();
    write(&journal, &mut own, 2).await;
    assert_eq!(length(&journal, "s").await, 7);
    drop(journal);
    let hashes: Vec<bool> = rows(&file, "s").iter().map(|(_, hash)| hash.is_some()).collect();
    assert_eq!(hashes, [false, false, false, false, false, true, true]);

    change(&file, "UPDATE records SET hash = NULL WHERE seq = 6");
    let journal = SqliteJournal::open(&file).unwrap();
    let read = journal.read(&named("s"), Seq(0), 9).await;
    assert!(matches!(read, Err(JournalError::Corrupt { at: Seq(6), .. })), "{read:?}");
}

// C-DUR-9: nothing is built on a place that is damaged
#[tokio::test]
async fn an_append_behind_a_missing_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    write(&journal, &mut own, 5).await;
    drop(journal);
    change(&file, "DELETE FROM records WHERE seq = 4");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    let ticket = journal.append(&mut own, prompts(Seq(5), 1)).unwrap();
    let refused = ticket.wait().await;
    assert!(matches!(refused, Err(JournalError::Corrupt { at: Seq(4), .. })), "{refused:?}");
    let mut other = claimed(&journal, "other").await;
    write(&journal, &mut other, 1).await;
}
