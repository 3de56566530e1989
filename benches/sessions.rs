//! Many sessions in one process. Bars `sessions-10k`, `idle-session-kib`.
//!
//! The journal here acknowledges and forgets: what is measured is the sessions', not a store's in the same memory.

mod support;

use futures::{
    StreamExt,
    future::{BoxFuture, ready},
    stream,
};
use portcullis::{
    Batch, Claim, Commits, Journal, JournalError, Ownership, Record, Runtime, Seq, Session, SessionId,
    Ticket, journal::SessionHead,
};
use std::{process::ExitCode, sync::Arc, time::Duration};
use support::{
    Bars,
    house::{self, Head, Stamps},
};

const FEW: usize = 100;
const MANY: usize = 10_000;
/// Turns on each side of a pair, over all sessions.
const TURNS: usize = 10_000;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    rt.block_on(async {
        // First, while nothing was freed that a new session could take without asking the system.
        if bars.wants("idle-session-kib") {
            let (kib, beside) = idle().await;
            bars.at_most("idle-session-kib", kib, 12.0, &beside);
        }
        if bars.wants("sessions-10k") {
            let pairs = busy(bars.pairs(20)).await;
            bars.ratio("sessions-10k", 2.0, "ns", &pairs);
        }
    });
    bars.finish()
}

async fn runtime() -> Runtime {
    let model = Head { calls: 1, arguments: house::arguments(64) };
    let builder = Runtime::builder(model).journal(Forgetful).tool(house::note(Stamps::default(), 1));
    house::start(builder).await
}

/// Memory of a session after one one-tool turn, without a subscriber: the slope from 10,000 to 50,000 sessions.
async fn idle() -> (f64, String) {
    let runtime = runtime().await;
    let mut kept = sessions(&runtime, 0..10_000).await;
    turns(&kept, 1).await;
    let before = resident_kib();
    let more = sessions(&runtime, 10_000..50_000).await;
    turns(&more, 1).await;
    let after = resident_kib();
    let more_count = more.len();
    kept.extend(more);
    runtime.shutdown(Duration::from_secs(60)).await;
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let each = (after - before) as f64 / more_count as f64;
    (each, format!("{before} KiB at 10,000 sessions, {after} KiB at {}", kept.len()))
}

/// CPU time of a turn at 10,000 busy sessions, and at 100.
async fn busy(pairs: usize) -> Vec<(f64, f64)> {
    let (many_house, few_house) = (runtime().await, runtime().await);
    let (many, few) = (sessions(&many_house, 0..MANY).await, sessions(&few_house, 0..FEW).await);
    let mut taken = Vec::new();
    for pair in 0..=pairs {
        let start = support::process_ns();
        turns(&many, TURNS / MANY).await;
        let between = support::process_ns();
        turns(&few, TURNS / FEW).await;
        let end = support::process_ns();
        // The first warms up.
        if pair > 0 {
            taken.push(((between - start) / TURNS as f64, (end - between) / TURNS as f64));
        }
    }
    many_house.shutdown(Duration::from_secs(60)).await;
    few_house.shutdown(Duration::from_secs(60)).await;
    taken
}

async fn sessions(runtime: &Runtime, numbers: std::ops::Range<usize>) -> Vec<Session> {
    let opened =
        stream::iter(numbers).map(|n| async move { house::session(runtime, &format!("s{n}")).await });
    opened.buffer_unordered(64).collect().await
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

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// Acknowledges and forgets.
struct Forgetful;

impl Journal for Forgetful {
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        _: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        let (session, head) = (session.clone(), Seq(0));
        Box::pin(ready(Ok(Ownership { session, incarnation, epoch: 1, head, commits: Commits::new(head) })))
    }

    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        own.head.0 += batch.records.len() as u64;
        own.commits.committed(&batch.records);
        Ok(own.commits.ticket(own.head))
    }

    fn release(&self, _: Ownership) -> BoxFuture<'static, Result<(), JournalError>> {
        Box::pin(ready(Ok(())))
    }

    fn read(
        &self,
        _: &SessionId,
        _: Seq,
        _: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
