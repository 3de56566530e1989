//! What opening a long session costs: one of 100,000 records ÷ one of 1,000, both on SQLite, from the call to a session that
//! takes prompts. Bar `open-100k`. By the wall clock: claims and the records of a start are on disk when it is open.
//!
//! The logs are those of plain one-tool turns, written in one go, with snapshots where a live session makes them.

mod support;

use portcullis::{
    Batch, Claim, Journal, MemoryJournal, Record, Runtime, SessionId, SessionOptions,
    law::{Mark, Snapshot, State},
    sqlite::SqliteJournal,
};
use std::{process::ExitCode, sync::Arc, time::Duration, time::Instant};
use support::{
    Bars,
    house::{self, Head, Stamps},
};

/// A live session makes a snapshot after so many records, at the end of a turn.
const SNAPSHOT: u64 = 512;
/// 992 and 100,320 records: as many of both are behind their last snapshot.
const TURNS: [usize; 2] = [62, 6270];

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    if !bars.wants("open-100k") {
        return ExitCode::SUCCESS;
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let pairs = rt.block_on(async {
        let log = log().await;
        let journal = SqliteJournal::open(folder.path().join("journal.db")).expect("the journal opens");
        for turns in TURNS {
            write(&journal, turns, &log).await;
        }
        let mut pairs = Vec::new();
        for pair in 0..=bars.pairs(30) {
            let (long, short) = (open(&journal, TURNS[1]).await, open(&journal, TURNS[0]).await);
            // The first warms up.
            if pair > 0 {
                pairs.push((long, short));
            }
        }
        pairs
    });
    bars.ratio("open-100k", 3.0, "ns", &pairs);
    bars.finish()
}

fn name(turns: usize) -> String {
    format!("after-{turns}-turns")
}

async fn open(journal: &SqliteJournal, turns: usize) -> f64 {
    let model = Head { calls: 1, arguments: house::arguments(64) };
    let builder = Runtime::builder(model).tool(house::note(Stamps::default(), 1)).journal(journal.clone());
    let runtime = house::start(builder).await;
    let start = Instant::now();
    let session = runtime.open(&name(turns), SessionOptions::new("/")).await.expect("opens");
    #[expect(clippy::cast_precision_loss, reason = "a double counts nanoseconds exactly for a hundred days")]
    let taken = start.elapsed().as_nanos() as f64;
    drop(session);
    runtime.shutdown(Duration::from_secs(60)).await;
    taken
}

/// The longest log that is needed.
async fn log() -> Vec<Arc<Record>> {
    let journal = MemoryJournal::new();
    let model = Head { calls: 1, arguments: house::arguments(64) };
    let tool = house::note(Stamps::default(), 1);
    let runtime = house::start(Runtime::builder(model).tool(tool).journal(journal.clone())).await;
    let session = house::session(&runtime, &name(TURNS[1])).await;
    for _ in 0..TURNS[1] {
        house::turn(&session, "go").await;
    }
    runtime.shutdown(Duration::from_secs(60)).await;
    journal.records(session.id())
}

/// Writes as many turns of the log as another session's.
async fn write(journal: &SqliteJournal, turns: usize, log: &[Arc<Record>]) {
    let id = SessionId::new(name(turns)).expect("a sound name");
    let mut own = journal.claim(&id, 1, Claim::CreateOrOpen).await.expect("free");
    let (mut state, mut mark, mut batch) = (State::new(), None::<Mark>, Batch::default());
    for record in log {
        let mut record = record.clone();
        if let portcullis::Body::SessionCreated(created) = &mut Arc::make_mut(&mut record).body {
            created.id = id.clone();
        }
        state.apply(&record).expect("a lawful log");
        batch.records.push(record);
        let over = state.open_turn().is_none() && state.turns() == turns as u64;
        if batch.records.len() >= 256 && state.open_turn().is_none() || over {
            let ticket = journal.append(&mut own, std::mem::take(&mut batch)).expect("room");
            ticket.wait().await.expect("on disk");
            let before = mark.as_ref().map_or(0, |mark: &Mark| mark.head().0);
            if let Some(snapshot) =
                Snapshot::of(&state, mark.clone()).filter(|_| state.head().0 - before >= SNAPSHOT && !over)
            {
                mark = Some(snapshot.mark());
                journal.keep(&own, snapshot);
            }
        }
        if over {
            break;
        }
    }
    journal.release(own).await.expect("released");
}
