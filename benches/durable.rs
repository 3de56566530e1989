//! Durable turns on SQLite. Bar `durable-turns`; notes `recovery-1k` and, in the full form, `parked-100k`.
//!
//! By the wall clock: most of it is the disk's. The journals are on the disk that the build is on.

mod support;

use futures::{StreamExt, future::ready, stream};
use portcullis::{
    Ask, Batch, Body, Claim, Event, Execution, Frozen, Gate, Journal, Output, Ownership, Record, Runtime,
    Seq, Session, SessionId, SessionOptions, Tool, ToolSpec, raw_tool, sqlite::SqliteJournal,
};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    env,
    future::IntoFuture,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use support::{
    Bars,
    house::{self, Head, Stamps},
};

/// How many sessions there are at once.
const SESSIONS: usize = 1_000;
/// Turns of each session on each side of a pair.
const TURNS: usize = 3;
/// Interleaved runs of both sides.
const PAIRS: usize = 5;
/// Records of a plain one-tool turn.
const RECORDS: usize = 16;
/// How many sessions are parked.
const PARKED: usize = 100_000;

/// Where the process that is to be killed finds its journal.
const KILLED: &str = "PORTCULLIS_BENCH_KILLED";

fn main() -> ExitCode {
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Some(file) = env::var_os(KILLED) {
        rt.block_on(be_killed(&PathBuf::from(file)));
        return ExitCode::FAILURE;
    }
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    rt.block_on(async {
        if bars.wants("durable-turns") {
            let pairs = turns_beside_records(folder.path()).await;
            bars.ratio("durable-turns", 2.0, "ns a record", &pairs);
        }
        if bars.wants("recovery-1k") {
            recovery(&folder.path().join("killed.db")).await;
        }
        if bars.wants("parked-100k") && !bars.is_short() {
            parked(&folder.path().join("parked.db")).await;
        }
    });
    bars.finish()
}

fn model() -> Head {
    Head { calls: 1, arguments: house::arguments(64) }
}

async fn sessions(runtime: &Runtime, count: usize, options: &SessionOptions) -> Vec<Session> {
    let open = |n: usize| {
        let options = options.clone();
        async move { runtime.open(format!("s{n}"), options).await.expect("the session opens") }
    };
    stream::iter((0..count).map(open)).buffer_unordered(64).collect().await
}

/// The time of a record in durable one-tool turns of all sessions at once, beside that of the same records from as many
/// writers that hand them to the journal themselves, in as many appends as a turn has barriers, and wait for each.
async fn turns_beside_records(folder: &Path) -> Vec<(f64, f64)> {
    let journal = SqliteJournal::open(folder.join("turns.db")).expect("the journal opens");
    let builder = Runtime::builder(model()).journal(journal.clone()).tool(house::note(Stamps::default(), 1));
    let runtime = house::start(builder).await;
    let sessions = sessions(&runtime, SESSIONS, &SessionOptions::new("/")).await;
    turns(&sessions, 2).await;
    let turn = second_turn(&journal).await;
    let bare = SqliteJournal::open(folder.join("bare.db")).expect("the journal opens");
    let mut pens = Vec::new();
    for n in 0..SESSIONS {
        let id = SessionId::new(format!("s{n}")).expect("a sound name");
        pens.push(bare.claim(&id, 1, Claim::CreateOrOpen).await.expect("the session is free"));
    }
    let mut pairs = Vec::new();
    for pair in 0..=PAIRS {
        let start = Instant::now();
        turns(&sessions, TURNS).await;
        let between = Instant::now();
        let writers = pens.iter_mut().map(|own| write(&bare, own, &turn));
        stream::iter(writers).buffer_unordered(SESSIONS).for_each(|()| ready(())).await;
        let end = Instant::now();
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let each =
            |from: Instant, to: Instant| (to - from).as_nanos() as f64 / (SESSIONS * TURNS * RECORDS) as f64;
        // The first warms up.
        if pair > 0 {
            pairs.push((each(start, between), each(between, end)));
        }
    }
    runtime.shutdown(Duration::from_secs(60)).await;
    pairs
}

/// So many turns of each session, all sessions at once.
async fn turns(sessions: &[Session], each: usize) {
    let all = sessions.iter().map(|session| async move {
        for _ in 0..each {
            house::turn(session, "go").await;
        }
    });
    stream::iter(all).buffer_unordered(sessions.len()).for_each(|()| ready(())).await;
}

/// The records of a session's second turn, cut where a turn waits for the disk.
async fn second_turn(journal: &SqliteJournal) -> Vec<Vec<Arc<Record>>> {
    let id = SessionId::new("s0").expect("a sound name");
    let log = journal.read(&id, Seq(0), usize::MAX).await.expect("it reads");
    let first = log.iter().position(|r| matches!(r.body, Body::TurnEnd(_))).expect("one turn") + 1;
    let mut cut = vec![Vec::new()];
    for record in &log[first..first + RECORDS] {
        cut.last_mut().expect("one at least").push(record.clone());
        let waits = matches!(
            record.body,
            Body::TurnStart(_) | Body::ModelRequested(_) | Body::ToolDispatched(_) | Body::TurnEnd(_)
        );
        if waits {
            cut.push(Vec::new());
        }
    }
    cut.retain(|records| !records.is_empty());
    assert_eq!(cut.len(), 5, "a plain one-tool turn has five barriers");
    cut
}

async fn write(journal: &SqliteJournal, own: &mut Ownership, turn: &[Vec<Arc<Record>>]) {
    for _ in 0..TURNS {
        for records in turn {
            let numbered = records.iter().zip(own.head.0..).map(|(record, seq)| {
                let mut record = Record::clone(record);
                record.seq = Seq(seq);
                Arc::new(record)
            });
            let batch = Batch { records: numbered.collect(), ..Batch::default() };
            let ticket = journal.append(own, batch).expect("enqueued");
            ticket.wait().await.expect("durable");
        }
    }
}

/// A tool that may run again, with this body.
fn noting(body: impl AsyncFn() + Send + Sync + 'static) -> impl Tool {
    let schema = Frozen::arguments(r#"{"type":"object"}"#).expect("JSON");
    let spec = ToolSpec::new("Note", "Takes a note.", schema).expect("a sound name and schema").idempotent();
    raw_tool(spec, async move |_: Execution, _| {
        body().await;
        Ok(Output::text("noted"))
    })
}

/// Runs a turn in each session, and dies when all of their bodies are at work.
async fn be_killed(file: &Path) {
    let journal = SqliteJournal::open(file).expect("the journal opens");
    let running = Arc::new(AtomicUsize::new(0));
    let tool = noting(async move || {
        if running.fetch_add(1, Ordering::SeqCst) + 1 == SESSIONS {
            kill_process(getpid(), Signal::KILL).expect("a signal to ourselves");
        }
        std::future::pending::<()>().await;
    });
    let runtime = house::start(Runtime::builder(model()).journal(journal).tool(tool)).await;
    let sessions = sessions(&runtime, SESSIONS, &SessionOptions::new("/")).await;
    turns(&sessions, 1).await;
    thread::park();
}

/// How long it takes until 1,000 sessions whose process was killed within a body have each ended that turn.
async fn recovery(file: &Path) {
    let program = env::current_exe().expect("this program");
    let status = Command::new(program).env(KILLED, file).status().expect("it starts");
    assert!(!status.success(), "it is killed");
    let start = Instant::now();
    let journal = SqliteJournal::open(file).expect("the journal opens");
    let builder = Runtime::builder(model()).journal(journal).tool(noting(async || {}));
    let runtime = house::start(builder).await;
    let sessions = sessions(&runtime, SESSIONS, &SessionOptions::new("/")).await;
    let open = start.elapsed();
    let ended = sessions.iter().map(|session| async move {
        let events = session.events(Seq(0));
        let end = |event: &Event| matches!(event, Event::Record(r) if matches!(r.body, Body::TurnEnd(_)));
        assert!(events.any(|event| ready(end(&event))).await, "each turn ends");
    });
    stream::iter(ended).buffer_unordered(SESSIONS).for_each(|()| ready(())).await;
    let over = start.elapsed();
    println!(
        "note recovery-1k {} ms  (all {SESSIONS} sessions open after {} ms, killed within a body each)",
        over.as_millis(),
        open.as_millis()
    );
    runtime.shutdown(Duration::from_secs(60)).await;
}

/// What 100,000 sessions cost that wait for a person: memory, and disk.
async fn parked(file: &Path) {
    let journal = SqliteJournal::open(file).expect("the journal opens");
    let builder = Runtime::builder(model())
        .journal(journal.clone())
        .tool(noting(async || {}))
        .policy("house", |at| {
            at.pre_execute("careful", async |_| Gate::ask("Is this to be noted?"));
        })
        .idle_after(Duration::from_millis(50));
    let runtime = house::start(builder).await;
    let start = Instant::now();
    let before = resident_kib();
    let park = |n: usize| {
        let runtime = &runtime;
        async move {
            let options = SessionOptions::new("/").approvals();
            let session = runtime.open(format!("s{n}"), options).await.expect("the session opens");
            let turn = session.prompt("go").await.expect("the prompt is taken");
            let asked = first_ask(&session).await;
            assert_eq!(asked.key.turn, 1);
            drop(turn.into_future());
        }
    };
    stream::iter((0..PARKED).map(park)).buffer_unordered(1_000).for_each(|()| ready(())).await;
    while runtime.health().resident + runtime.health().away > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (took, after) = (start.elapsed(), resident_kib());
    let waits: usize = journal.sessions().await.expect("it lists").iter().map(|head| head.waits.len()).sum();
    assert_eq!(waits, PARKED, "each question is on disk");
    let bytes = |name: &Path| std::fs::metadata(name).map_or(0, |found| found.len());
    let wal = bytes(&file.with_extension("db-wal"));
    println!(
        "note parked-100k {} KiB more resident  ({before} KiB before, {after} KiB with {PARKED} sessions that wait; file {} MiB \
         and its log {} MiB; parked in {} s)",
        after.saturating_sub(before),
        bytes(file) >> 20,
        wal >> 20,
        took.as_secs()
    );
    // One of them is answered: the session comes back from its log alone.
    let options = SessionOptions::new("/").approvals();
    let session = runtime.open(format!("s{}", PARKED / 2), options).await.expect("the session opens");
    let ask = first_ask(&session).await;
    session.answer(&ask, portcullis::Answer::Allow).await.expect("the answer is taken");
    runtime.shutdown(Duration::from_secs(60)).await;
}

async fn first_ask(session: &Session) -> Ask {
    loop {
        if let Some(ask) = session.asks().into_iter().next() {
            return ask;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}
