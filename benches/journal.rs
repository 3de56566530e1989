//! The SQLite journal with 32 writers. Bars `commits-per-record`, `journal-tax`.
//!
//! Each writer appends one record and waits until it is durable, again and again: the worst case for a group commit,
//! since nobody has a second record ready. The floor is a loop over rusqlite with the same tables, settings, rows and
//! batches, which has them ready and asks nobody. By the wall clock: most of it is the disk's.

mod support;

use futures::future::join_all;
use portcullis::{
    At, Batch, Claim, Draft, Journal, Ownership, PromptQueued, QueueKind, Record, Seq, SessionId, Source,
    encode, sqlite::SqliteJournal,
};
use rusqlite::{Connection, params};
use std::{path::Path, process::ExitCode, sync::Arc, time::Instant};
use support::Bars;

const WRITERS: usize = 32;
/// Records of each writer on each side of a pair.
const RECORDS: usize = 25;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    if !(bars.wants("commits-per-record") || bars.wants("journal-tax")) {
        return ExitCode::SUCCESS;
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // On the disk that the build is on: a folder in memory has no syncs to save.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("ours.db");
    let journal = SqliteJournal::open(&file).expect("the journal opens");
    let mut bare = Bare::open(&folder.path().join("bare.db"), &file);
    let mut pens = rt.block_on(claim(&journal));

    let mut pairs = Vec::new();
    let mut seq = 0;
    for _ in 0..bars.pairs(40) {
        let start = Instant::now();
        rt.block_on(join_all(pens.iter_mut().map(|own| write(&journal, own))));
        let between = Instant::now();
        for _ in 0..RECORDS {
            bare.batch(seq);
            seq += 1;
        }
        let end = Instant::now();
        let each = |from: Instant, to: Instant| (to - from).as_nanos() as f64 / (RECORDS * WRITERS) as f64;
        pairs.push((each(start, between), each(between, end)));
    }
    let stats = journal.stats();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let value = stats.commits as f64 / stats.records as f64;
    let beside = format!("{} commits, {} records, {WRITERS} writers", stats.commits, stats.records);
    bars.at_most("commits-per-record", value, 0.0625, &beside);
    bars.ratio("journal-tax", 1.43, "ns", &pairs);
    bars.finish()
}

async fn claim(journal: &SqliteJournal) -> Vec<Ownership> {
    let mut pens = Vec::new();
    for n in 0..WRITERS {
        let id = SessionId::new(format!("writer-{n}")).expect("a sound name");
        pens.push(journal.claim(&id, 1, Claim::CreateOrOpen).await.expect("the session is free"));
    }
    pens
}

async fn write(journal: &SqliteJournal, own: &mut Ownership) {
    for _ in 0..RECORDS {
        let batch = Batch { records: vec![record(own.head)], ..Batch::default() };
        let ticket = journal.append(own, batch).expect("enqueued");
        ticket.wait().await.expect("durable");
    }
}

fn record(seq: Seq) -> Arc<Record> {
    let content = "Read the notes of last week, and say in a few lines what is still open. ".repeat(3);
    let queued = PromptQueued { kind: QueueKind::Prompt, content: content.into(), source: Source::User };
    Draft::new(At::session(), queued).seal(seq, 1_700_000_000_000)
}

/// The floor.
struct Bare(Connection);

impl Bare {
    /// With the tables of `like`.
    fn open(file: &Path, like: &Path) -> Bare {
        let like = Connection::open(like).expect("our file opens");
        let mut tables = like.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").expect("SQL");
        let tables: Vec<String> =
            tables.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("the tables");
        let bare = Connection::open(file).expect("the file opens");
        bare.pragma_update(None, "journal_mode", "WAL").expect("set");
        bare.pragma_update(None, "synchronous", "FULL").expect("set");
        bare.execute_batch(&tables.join(";")).expect("the tables are made");
        Bare(bare)
    }

    /// One record of each writer, in one transaction.
    fn batch(&mut self, seq: u64) {
        let transaction = self.0.transaction().expect("begun");
        for n in 0..WRITERS {
            let record = record(Seq(seq));
            transaction
                .prepare_cached(
                    "INSERT INTO records (session, seq, epoch, type, v, time, record)
                     VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)",
                )
                .and_then(|mut insert| {
                    insert.execute(params![
                        format!("writer-{n}"),
                        seq.cast_signed(),
                        record.body.kind(),
                        record.body.version(),
                        record.time.cast_signed(),
                        encode(&record)
                    ])
                })
                .expect("inserted");
        }
        transaction.commit().expect("committed");
    }
}
