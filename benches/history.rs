//! A turn late in a session ÷ the same turn early in it. Bars `history-bytes`, `history-cpu`.
//!
//! The model looks at the length of its request and at the last message only, so what grows is ours. Turns around the
//! 10th and around the 1000th, medians: a log in memory doubles its room at some turn or other.

mod support;

use portcullis::Session;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, process::ExitCode};
use support::{
    Bars,
    house::{self, Head, Stamps},
};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Turns on each side of the one that is meant.
const AROUND: usize = 8;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    if !(bars.wants("history-bytes") || bars.wants("history-cpu")) {
        return ExitCode::SUCCESS;
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut bytes, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..bars.pairs(40) {
        let (late, early) = rt.block_on(session());
        bytes.push((late.bytes, early.bytes));
        cpu.push((late.ns, early.ns));
    }
    bars.ratio("history-bytes", 1.1, "bytes", &bytes);
    bars.ratio("history-cpu", 1.2, "ns", &cpu);
    bars.finish()
}

struct Cost {
    bytes: f64,
    ns: f64,
}

/// Late and early.
async fn session() -> (Cost, Cost) {
    let model = Head { calls: 1, arguments: house::arguments(64) };
    house::driven(model, house::note(Stamps::default(), 1), async |session: Session| {
        plain(&session, 10 - AROUND).await;
        let early = around(&session).await;
        plain(&session, 1000 - 10 - 2 * AROUND - 1).await;
        let late = around(&session).await;
        (late, early)
    })
    .await
}

async fn plain(session: &Session, turns: usize) {
    for _ in 0..turns {
        house::turn(session, "go").await;
    }
}

async fn around(session: &Session) -> Cost {
    let (mut bytes, mut ns) = (Vec::new(), Vec::new());
    for _ in 0..=2 * AROUND {
        let (region, start) = (Region::new(COUNTED), support::thread_ns());
        house::turn(session, "go").await;
        ns.push(support::thread_ns() - start);
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        bytes.push(region.change().bytes_allocated as f64);
    }
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        support::median(&all)
    };
    Cost { bytes: middle(bytes), ns: middle(ns) }
}
