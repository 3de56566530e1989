//! A power cut, as far as software can make one: a process writes on a file system in an image, is stopped in the middle, and
//! the image is copied with whatever the kernel has not written out yet left behind. The copy is what the disk would hold.
//! A control that does not sync has to lose, or the trial shows nothing. Needs root and loop devices: `just power-cut`.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{Journal, Seq, journal::conformance};
use portcullis_sqlite::SqliteJournal;
use rusqlite::{Connection, params};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

const FILE: &str = "PORTCULLIS_TEST_POWER_CUT";
const CONTROL: &str = "PORTCULLIS_TEST_POWER_CUT_CONTROL";
const SESSIONS: usize = 8;
const ROUNDS: usize = 20;

/// Says that a session has so many records. Whole lines only: whoever reads may be cut off at any of them.
fn say(out: &Mutex<std::io::Stdout>, session: &str, records: u64) {
    let mut out = out.lock().unwrap();
    out.write_all(format!("acknowledged {session} {records}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The process that writes until its power is cut. Run by itself it has no file to write to, and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer() {
    let Some(file) = env::var_os(FILE).map(PathBuf::from) else { return };
    let out = Arc::new(Mutex::new(std::io::stdout()));
    out.lock().unwrap().write_all(b"\n").unwrap();
    if env::var_os(CONTROL).is_some() {
        return careless(&file, &out);
    }
    let journal = SqliteJournal::open(file).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..SESSIONS {
        let (journal, out) = (journal.clone(), out.clone());
        writers.spawn(async move {
            let name = format!("s-{n}");
            let mut own = claimed(&journal, &name).await;
            let created = conformance::created(&named(&name));
            journal.append(&mut own, created).unwrap().wait().await.unwrap();
            loop {
                write(&journal, &mut own, 1 + n as u64 % 3).await;
                say(&out, &name, own.head.0);
            }
        });
    }
    // None of them ends, unless by a failure.
    writers.join_all().await;
}

/// As the journal, but without a sync once the table is there.
fn careless(file: &Path, out: &Mutex<std::io::Stdout>) {
    let connection = Connection::open(file).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection.execute_batch("CREATE TABLE records (seq INTEGER, record TEXT)").unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    for seq in 1_i64.. {
        let record = params![seq, "a record of about the length that records have ".repeat(5)];
        connection.execute("INSERT INTO records VALUES (?1, ?2)", record).unwrap();
        say(out, "control", seq.cast_unsigned());
    }
}

fn must(program: &str, arguments: &[&Path]) {
    let done = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A file system in an image, for as long as it lives.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(image: &Path, at: &'a Path) -> Mounted<'a> {
        must("mount", &["-o".as_ref(), "loop".as_ref(), image, at]);
        Mounted(at)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A process that was killed lets go of its files a moment later.
        for _ in 0..1000 {
            if Command::new("umount").arg(self.0).stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{} stays mounted", self.0.display());
    }
}

/// Cuts the power of a writer once it has had so many acknowledgements; gives the image back, and what was acknowledged.
fn cut(folder: &Path, control: bool, after: usize) -> (PathBuf, BTreeMap<String, u64>) {
    let (image, copy, at) = (folder.join("disk"), folder.join("copy"), folder.join("mounted"));
    fs::create_dir_all(&at).unwrap();
    let _ = fs::remove_file(&image);
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    must("mkfs.ext4", &["-q".as_ref(), &image]);
    let mounted = Mounted::new(&image, &at);
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "writer", "--nocapture"])
        .env(FILE, at.join("journal.db"))
        .stdout(Stdio::piped());
    if control {
        command.env(CONTROL, "1");
    }
    let mut child = command.spawn().unwrap();
    let mut acknowledged = BTreeMap::new();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok).filter_map(|line| {
        let (session, records) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
        Some((session.to_owned(), records.parse::<u64>().unwrap()))
    });
    for _ in 0..after {
        let (session, records) = lines.next().expect("a writer that writes");
        acknowledged.insert(session, records);
    }
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    while !stopped(child.id()) {
        thread::sleep(Duration::from_millis(1));
    }
    fs::copy(&image, &copy).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged.extend(lines);
    drop(mounted);
    (copy, acknowledged)
}

/// Is every thread of the process stopped?
fn stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rfind(')').and_then(|end| stat[end..].chars().nth(2)) == Some('T')
    })
}

// C-DUR-5: a commit that was acknowledged is on disk
#[tokio::test]
#[ignore = "needs root and loop devices: `just power-cut`"]
async fn what_was_acknowledged_survives_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("mounted");
    let (mut total, mut torn) = (0, 0);
    for round in 0..ROUNDS {
        let (copy, acknowledged) = cut(folder.path(), false, 40 + 97 * round);
        let _mounted = Mounted::new(&copy, &at);
        let journal = SqliteJournal::open(at.join("journal.db")).unwrap();
        torn += usize::from(journal.torn_tail().is_some());
        for (session, records) in acknowledged {
            let found = journal.verify(&named(&session)).await.unwrap();
            assert_eq!(found.damage, None, "round {round}, {session}");
            assert!(
                found.records >= records,
                "round {round}: {session} had {records}, and has {}",
                found.records
            );
            assert_eq!(length(&journal, &session).await, found.records);
            let mut own = claimed(&journal, &session).await;
            assert_eq!(own.head, Seq(found.records));
            write(&journal, &mut own, 1).await;
            total += records;
        }
    }
    println!(
        "journal: {ROUNDS} power cuts, {total} records acknowledged before them, 0 lost; {torn} torn tails"
    );

    let (mut total, mut lost) = (0, 0);
    for round in 0..ROUNDS / 4 {
        let (copy, acknowledged) = cut(folder.path(), true, 500 + 97 * round);
        let _mounted = Mounted::new(&copy, &at);
        let file = at.join("journal.db");
        let connection = Connection::open(&file).unwrap();
        let found: i64 = connection.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
        drop(connection);
        let found = found.cast_unsigned();
        total += acknowledged["control"];
        lost += acknowledged["control"].saturating_sub(found);
    }
    println!(
        "control without syncs: {} power cuts, {total} records acknowledged before them, {lost} lost",
        ROUNDS / 4
    );
    assert!(lost > 0, "the control lost nothing: nothing was shown");
}
