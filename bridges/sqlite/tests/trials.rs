//! Files that were torn or changed at many places: what was acknowledged is there, or its loss is said; nothing is
//! overwritten, and what is not damaged stays usable.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{Claim, Journal, JournalError, Record, Seq, journal::conformance};
use portcullis_sqlite::{OpenError, SqliteJournal};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

fn log_of(file: &Path) -> PathBuf {
    file.with_extension("db-wal")
}

/// A journal as its process left it when it died: the file, its write-ahead log, and how long that was after each of the
/// commits that were acknowledged, the first one being of the claims.
struct Left {
    file: Vec<u8>,
    log: Vec<u8>,
    commits: Vec<usize>,
}

const SESSIONS: [&str; 2] = ["a", "b"];

/// Two records of one of the two sessions in each commit, in turn.
async fn left(appends: usize) -> Left {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    for name in SESSIONS {
        let mut own = claimed(&journal, name).await;
        let created = conformance::created(&named(name));
        journal.append(&mut own, created).unwrap().wait().await.unwrap();
        journal.release(own).await.unwrap();
    }
    drop(journal);
    let journal = SqliteJournal::open(&file).unwrap();
    let mut owns = [claimed(&journal, "a").await, claimed(&journal, "b").await];
    let length = || usize::try_from(fs::metadata(log_of(&file)).unwrap().len()).unwrap();
    let mut commits = vec![length()];
    for n in 0..appends {
        write(&journal, &mut owns[n % 2], 2).await;
        commits.push(length());
    }
    Left { file: fs::read(&file).unwrap(), log: fs::read(log_of(&file)).unwrap(), commits }
}

impl Left {
    /// In a folder of its own, with this for a log.
    fn lay(&self, folder: &Path, log: &[u8]) -> PathBuf {
        let file = folder.join("journal.db");
        let _ = fs::remove_file(file.with_extension("db-shm"));
        fs::write(&file, &self.file).unwrap();
        fs::write(log_of(&file), log).unwrap();
        file
    }

    /// How many records each session has after so many appends.
    fn records(appends: usize) -> [u64; 2] {
        [1 + 2 * appends.div_ceil(2) as u64, 1 + 2 * (appends / 2) as u64]
    }
}

// C-DUR-5, C-DUR-9: wherever the log is cut, the commits before the cut are whole, and the rest is dropped and reported
#[tokio::test]
async fn a_log_cut_anywhere_leaves_every_commit_before_the_cut() {
    let left = left(12).await;
    let folder = tempfile::tempdir().unwrap();
    let ends = left.commits.iter().flat_map(|end| [end - 1, *end, end + 1, end + 30]);
    let cuts: Vec<usize> = (left.commits[0]..left.log.len())
        .step_by(1361)
        .chain(ends)
        .filter(|cut| *cut <= left.log.len())
        .collect();
    assert!(cuts.len() > 100);
    for cut in cuts {
        let file = left.lay(folder.path(), &left.log[..cut]);
        let journal = SqliteJournal::open(&file).unwrap();
        let whole = left.commits.iter().filter(|end| **end <= cut).count();
        let last = if whole == 0 { 0 } else { left.commits[whole - 1] };
        let dropped = journal.torn_tail().map_or(0, |torn| torn.bytes);
        if whole > 0 {
            assert_eq!(dropped, (cut - last) as u64, "cut at {cut}, the last commit ends at {last}");
        }
        for (name, records) in SESSIONS.into_iter().zip(Left::records(whole.saturating_sub(1))) {
            let found = journal.verify(&named(name)).await.unwrap();
            assert_eq!((found.records, found.damage), (records, None), "session {name}, cut at {cut}");
            let mut own = claimed(&journal, name).await;
            assert_eq!(own.head, Seq(records));
            write(&journal, &mut own, 1).await;
        }
    }
}

// C-DUR-9: a log that is damaged before its end is refused, also for reading, and is not overwritten; in the last
// transaction damage cannot be told from a torn write, and is dropped and reported
#[tokio::test]
async fn a_flipped_bit_in_the_log_takes_no_commit_away_unsaid() {
    let left = left(8).await;
    let folder = tempfile::tempdir().unwrap();
    let last = left.commits[left.commits.len() - 2];
    let (mut refused, mut dropped) = (0, 0);
    for at in (0..left.log.len()).step_by(613).chain(0..32) {
        let mut log = left.log.clone();
        log[at] ^= 1 << (at % 8);
        let file = left.lay(folder.path(), &log);
        match SqliteJournal::open(&file) {
            Err(OpenError::Damaged { why, .. }) => {
                assert!(why.contains("-wal"), "{why}");
                assert!(at < last, "the last transaction was refused for byte {at} of {}", log.len());
                let reading = SqliteJournal::read_only(&file).map(drop);
                assert!(matches!(reading, Err(OpenError::Damaged { .. })), "byte {at}: {reading:?}");
                assert_eq!(fs::read(&file).unwrap(), left.file, "byte {at}");
                assert_eq!(fs::read(log_of(&file)).unwrap(), log, "byte {at}");
                refused += 1;
            }
            Err(other) => panic!("byte {at}: {other:?}"),
            Ok(journal) => {
                assert!(at >= last, "byte {at} was flipped and nobody said so");
                let torn = journal.torn_tail().expect("it is said that something was dropped");
                assert_eq!(torn.bytes, (left.log.len() - last) as u64);
                for (name, records) in SESSIONS.into_iter().zip(Left::records(7)) {
                    assert_eq!(length(&journal, name).await, records, "byte {at}");
                }
                dropped += 1;
            }
        }
    }
    println!("{refused} refused, {dropped} dropped");
    assert!(refused > 50 && dropped > 5, "{refused} {dropped}");
}

/// What a journal holds, as far as it can be read; an error for what was found to be damaged.
async fn look(file: &Path) -> Result<BTreeMap<String, Vec<Arc<Record>>>, String> {
    let journal = SqliteJournal::read_only(file).map_err(|e| match e {
        OpenError::Damaged { .. } | OpenError::NotAJournal { .. } | OpenError::SchemaTooNew { .. } => {
            e.to_string()
        }
        other => panic!("{other:?}"),
    })?;
    let mut logs = BTreeMap::new();
    for head in journal.sessions().await.map_err(|e| e.to_string())? {
        let found = journal.verify(&head.session).await.map_err(|e| e.to_string())?;
        if let Some(damage) = found.damage {
            return Err(format!("{}: {damage:?}", head.session));
        }
        let records = journal.read(&head.session, Seq(0), usize::MAX).await.map_err(|e| e.to_string())?;
        logs.insert(head.session.to_string(), records);
    }
    Ok(logs)
}

/// A closed journal with sessions of 40 records.
async fn closed(file: &Path, names: &[&str]) {
    let journal = SqliteJournal::open(file).unwrap();
    for name in names {
        let mut own = claimed(&journal, name).await;
        let created = conformance::created(&named(name));
        journal.append(&mut own, created).unwrap().wait().await.unwrap();
        write(&journal, &mut own, 39).await;
        journal.release(own).await.unwrap();
    }
}

// C-DUR-9: a flipped bit anywhere in the file is told, or does not touch what is read
#[tokio::test]
async fn a_flipped_bit_in_the_file_changes_nothing_unsaid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    closed(&file, &["alpha", "beta", "gamma"]).await;
    let sound = fs::read(&file).unwrap();
    let before = look(&file).await.unwrap();
    assert_eq!(before.len(), 3);
    let (mut told, mut harmless) = (0, 0);
    for at in (0..sound.len()).step_by(89) {
        let mut flipped = sound.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&file, &flipped).unwrap();
        match look(&file).await {
            Err(_) => told += 1,
            Ok(after) => {
                assert_eq!(after, before, "byte {at} was flipped and nobody said so");
                harmless += 1;
            }
        }
        assert_eq!(fs::read(&file).unwrap(), flipped, "nothing was overwritten");
    }
    println!("{told} told, {harmless} without effect, of {} bytes", sound.len());
    assert!(told > 100, "{told}");
}

// C-DUR-9: a flipped bit in a record names that record; the session's neighbours are read and written as ever
#[tokio::test]
async fn a_flipped_bit_in_a_record_is_that_sessions_trouble_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    closed(&file, &["alpha", "beta", "gamma"]).await;
    let sound = fs::read(&file).unwrap();
    let lines: Vec<(i64, String)> = {
        let connection = rusqlite::Connection::open(&file).unwrap();
        let mut rows = connection.prepare("SELECT seq, record FROM records WHERE session = 'beta'").unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    // The sessions were written one after another, so the second of three equal lines is beta's.
    for (seq, line) in lines.iter().step_by(7) {
        let places: Vec<usize> = places_of(&sound, line.as_bytes());
        let at = places[places.len() / 2] + line.len() / 2;
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        fs::write(&file, &flipped).unwrap();
        let journal = SqliteJournal::open(&file).unwrap();
        let damage = journal.verify(&named("beta")).await.unwrap().damage.expect("damage");
        assert_eq!(damage.at, Seq(seq.cast_unsigned()), "{damage:?}");
        let read = journal.read(&named("beta"), Seq(0), usize::MAX).await;
        assert!(matches!(read, Err(JournalError::Corrupt { at, .. }) if at == damage.at), "{read:?}");
        for name in ["alpha", "gamma"] {
            assert!(journal.verify(&named(name)).await.unwrap().is_sound());
            let mut own = journal.claim(&named(name), 8, Claim::OpenOnly).await.unwrap();
            write(&journal, &mut own, 1).await;
        }
        drop(journal);
        let after = fs::read(&file).unwrap();
        assert_eq!(after[at], flipped[at], "what is damaged is left as it is");
    }
}

/// Where a text stands.
fn places_of(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    (0..=bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect()
}
