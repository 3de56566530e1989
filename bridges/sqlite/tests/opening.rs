//! Whose file it is, and what becomes of files that are damaged, foreign or newer.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{Claim, Journal, JournalError, Seq};
use portcullis_sqlite::{OpenError, SCHEMA, SqliteJournal};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const FILE: &str = "PORTCULLIS_TEST_JOURNAL";

/// The other process of the test below: writes until it is killed, and says what was acknowledged. Run by itself it has no
/// file to write to, and does nothing.
#[tokio::test]
async fn child() {
    let Some(file) = env::var_os(FILE) else { return };
    let journal = SqliteJournal::open(PathBuf::from(file)).unwrap();
    let mut own = claimed(&journal, "s").await;
    loop {
        write(&journal, &mut own, 1).await;
        println!("\nacknowledged {}", own.head);
    }
}

/// `R` for one that runs, `T` for one that is stopped, …
fn state(child: &Child) -> char {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let behind_the_name = &stat[stat.rfind(')').unwrap()..];
    behind_the_name.chars().nth(2).unwrap()
}

fn within(mut so: impl FnMut() -> bool) {
    let came = (0..60_000).any(|_| {
        so() || {
            thread::sleep(Duration::from_millis(1));
            false
        }
    });
    assert!(came, "it never came to that");
}

// C-DUR-5, C-DUR-6: a second process is refused while the first lives, stopped or not; once it is killed, all that it
// acknowledged is there
#[tokio::test]
async fn a_second_process_is_refused_and_a_killed_one_leaves_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(FILE, &file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = output
        .lines()
        .filter_map(|line| line.ok()?.strip_prefix("acknowledged ").map(|head| head.parse::<u64>().unwrap()));
    acknowledged.find(|head| *head >= 20).expect("a child that writes");

    let refused = SqliteJournal::open(&file).map(drop).unwrap_err();
    assert!(
        matches!(&refused, OpenError::AlreadyOwned { file, pid } if file.ends_with("journal.db") && *pid == Some(child.id())),
        "{refused:?}"
    );
    let JournalError::AlreadyOwned(sentence) = JournalError::from(refused) else { panic!("another error") };
    assert!(sentence.contains("journal.db") && sentence.contains(&child.id().to_string()), "{sentence}");
    // Looking on is allowed.
    let reading = SqliteJournal::read_only(&file).unwrap();
    assert!(length(&reading, "s").await >= 20);
    drop(reading);

    // Stopped, it holds the journal as firmly: there is no time after which somebody else gets it.
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    within(|| state(&child) == 'T');
    for _ in 0..50 {
        let refused = SqliteJournal::open(&file).map(drop);
        assert!(matches!(&refused, Err(OpenError::AlreadyOwned { pid, .. }) if *pid == Some(child.id())));
        thread::sleep(Duration::from_millis(5));
    }
    let stopped_at = length(&SqliteJournal::read_only(&file).unwrap(), "s").await;
    kill_process(pid, Signal::CONT).unwrap();
    let on = acknowledged.find(|head| *head > stopped_at).expect("it goes on where it was stopped");

    kill_process(pid, Signal::STOP).unwrap();
    within(|| state(&child) == 'T');
    child.kill().unwrap();
    child.wait().unwrap();
    let last = acknowledged.last().unwrap_or(on);
    let reading = SqliteJournal::read_only(&file).unwrap();
    assert!(length(&reading, "s").await >= last, "the log is readable as it was left");
    drop(reading);
    let journal = SqliteJournal::open(&file).unwrap();
    let own = journal.claim(&named("s"), 99, Claim::OpenOnly).await.expect("its owner is dead");
    assert!(own.head.0 >= last, "{last} were acknowledged, {} are there", own.head);
    assert_eq!(length(&journal, "s").await, own.head.0);
}

// C-DUR-6
#[tokio::test]
async fn one_process_opens_it_once_by_whatever_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let winding = folder.path().join("sub").join("..").join("journal.db");
    for path in [&file, &winding] {
        let refused = SqliteJournal::open(path).map(drop);
        assert!(matches!(refused, Err(OpenError::AlreadyOwned { .. })), "{refused:?}");
    }
    drop(journal);
    SqliteJournal::open(&winding).expect("the lock goes with the journal");
}

#[tokio::test]
async fn a_reader_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    assert!(matches!(SqliteJournal::read_only(&file), Err(OpenError::Missing { .. })));
    assert!(!file.exists());
    written(&file, 3).await;
    let before = fs::read(&file).unwrap();
    let reading = SqliteJournal::read_only(&file).unwrap();
    assert_eq!(length(&reading, "s").await, 3);
    let refused = reading.claim(&named("s"), 1, Claim::OpenOnly).await.map(drop);
    assert!(matches!(refused, Err(JournalError::AlreadyOwned(_))), "{refused:?}");
    drop(reading);
    assert_eq!(fs::read(&file).unwrap(), before);
}

// C-DUR-9
#[tokio::test]
async fn a_damaged_record_is_named_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    written(&file, 60).await;
    let mut bytes = fs::read(&file).unwrap();
    let record = b"{\"seq\":41,";
    let places: Vec<usize> =
        (0..bytes.len() - record.len()).filter(|at| bytes[*at..].starts_with(record)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 0x04);
    fs::write(&file, &bytes).unwrap();

    let journal = SqliteJournal::open(&file).unwrap();
    assert_eq!(journal.read(&named("s"), Seq(0), 41).await.unwrap().len(), 41, "what is before it reads");
    let damaged = journal.read(&named("s"), Seq(0), 60).await;
    assert!(
        matches!(&damaged, Err(JournalError::Corrupt { session, at: Seq(41), .. }) if *session == named("s")),
        "{damaged:?}"
    );
    drop(journal);
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing was overwritten");
}

// C-DUR-9
#[tokio::test]
async fn missing_and_misplaced_records_are_named() {
    for (damage, place) in [
        ("DELETE FROM records WHERE seq = 2", 2),
        ("DELETE FROM records WHERE seq = 9", 9),
        ("DELETE FROM records", 0),
        ("UPDATE records SET record = (SELECT record FROM records WHERE seq = 3) WHERE seq = 4", 4),
        ("UPDATE records SET record = replace(record, 'prompt/queued', 'prompt/unheard') WHERE seq = 5", 5),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        written(&file, 10).await;
        Connection::open(&file).unwrap().execute(damage, []).unwrap();
        let journal = SqliteJournal::open(&file).unwrap();
        let read = journal.read(&named("s"), Seq(0), usize::MAX).await;
        assert!(
            matches!(read, Err(JournalError::Corrupt { at: Seq(at), .. }) if at == place),
            "{damage}: {read:?}"
        );
    }
}

// C-DUR-9
#[tokio::test]
async fn a_torn_file_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    written(&file, 200).await;
    let whole = fs::read(&file).unwrap();
    for torn in [&whole[..whole.len() / 2], &whole[..whole.len() - 4096], &whole[..50]] {
        fs::write(&file, torn).unwrap();
        let refused = SqliteJournal::open(&file).map(drop);
        assert!(
            matches!(refused, Err(OpenError::Damaged { .. } | OpenError::NotAJournal { .. })),
            "{} of {} bytes: {refused:?}",
            torn.len(),
            whole.len()
        );
        assert_eq!(fs::read(&file).unwrap(), torn);
    }
    // A log whose file is gone is all that is left: SQLite alone would delete it.
    fs::remove_file(&file).unwrap();
    let log = folder.path().join("journal.db-wal");
    fs::write(&log, b"what is left").unwrap();
    assert!(matches!(SqliteJournal::open(&file), Err(OpenError::Damaged { .. })));
    assert_eq!(fs::read(&log).unwrap(), b"what is left");
}

// C-DUR-9: a torn tail is dropped as one, head and records together
#[tokio::test]
async fn a_torn_tail_leaves_a_whole_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    for _ in 0..20 {
        write(&journal, &mut own, 2).await;
    }
    let copy = folder.path().join("copy.db");
    fs::copy(&file, &copy).unwrap();
    let log = fs::read(folder.path().join("journal.db-wal")).unwrap();
    fs::write(folder.path().join("copy.db-wal"), &log[..log.len() - 100]).unwrap();

    let torn = SqliteJournal::open(&copy).unwrap();
    let own = torn.claim(&named("s"), 5, Claim::OpenOnly).await.unwrap();
    assert_eq!(own.head, Seq(38), "the last append is gone whole, the others are there");
    assert_eq!(length(&torn, "s").await, 38);
}

#[tokio::test]
async fn foreign_and_newer_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.db");
    fs::write(&text, "not a database, but long enough to be taken for one by its size alone".repeat(20))
        .unwrap();
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let newer = folder.path().join("newer.db");
    written(&newer, 1).await;
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", SCHEMA + 1).unwrap();

    for file in [&text, &foreign, &newer] {
        let before = fs::read(file).unwrap();
        for refused in [SqliteJournal::open(file).map(drop), SqliteJournal::read_only(file).map(drop)] {
            match refused {
                Err(OpenError::NotAJournal { .. }) => assert_ne!(file, &newer),
                Err(OpenError::SchemaTooNew { found, known, .. }) => {
                    assert_eq!((file, found, known), (&newer, SCHEMA + 1, SCHEMA));
                }
                other => panic!("{}: {other:?}", file.display()),
            }
        }
        assert_eq!(fs::read(file).unwrap(), before, "{}", file.display());
    }
}

// A process that died between creating the file and its tables.
#[tokio::test]
async fn a_creation_cut_short_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    Connection::open(&file).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    assert!(fs::metadata(&file).unwrap().len() > 0);
    assert!(matches!(SqliteJournal::read_only(&file), Err(OpenError::Missing { .. })));
    written(&file, 1).await;
}

/// A closed journal with one released session of `count` records.
async fn written(file: &Path, count: u64) {
    let journal = SqliteJournal::open(file).unwrap();
    let mut own = claimed(&journal, "s").await;
    write(&journal, &mut own, count).await;
    journal.release(own).await.unwrap();
}
