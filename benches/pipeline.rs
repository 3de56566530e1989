//! One call through the registry actor ÷ the same call as straight-line code. Bars `pipeline-64b`, `pipeline-2k`.
//!
//! A turn makes nine calls, one after another. From the start of the first body to that of the ninth lie eight whole
//! trips: return, records, answer to the turn, the law, the ask to the registry, seal, schema, records, barrier, body.
//! Both sides run the same turn with the same stamps in the tool, on the session's own thread, by its CPU clock: the
//! measurement is the body of a tool of another session.

mod support;

use portcullis::{MemoryJournal, Session};
use std::{process::ExitCode, sync::Arc};
use support::{
    Bars,
    house::{self, Head, Stamps},
    plain::Plain,
};

const CALLS: usize = 9;
/// Turns on each side of a pair.
const TURNS: usize = 20;
/// Pairs on one session before both sides start anew: logs in memory only grow.
const PAIRS: usize = 10;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (name, bytes) in [("pipeline-64b", 64), ("pipeline-2k", 2048)] {
        if !bars.wants(name) {
            continue;
        }
        let rounds = bars.pairs(200).div_ceil(PAIRS);
        let measure = || (0..rounds).flat_map(|_| rt.block_on(measure(bytes))).collect();
        bars.steady_ratio(name, 1.5, "ns", measure);
    }
    bars.finish()
}

async fn measure(bytes: usize) -> Vec<(f64, f64)> {
    let model = Head { calls: CALLS, arguments: house::arguments(bytes) };
    let (ours, floor) = (Stamps::default(), Stamps::default());
    let stamps = ours.clone();
    house::driven(model.clone(), house::note(ours, CALLS), async move |session: Session| {
        let journal = Arc::new(MemoryJournal::new());
        let mut plain = Plain::open("s", journal, model, house::note(floor.clone(), CALLS)).await;
        let trips = (TURNS * (CALLS - 1)) as f64;
        let mut pairs = Vec::new();
        for pair in 0..=PAIRS {
            for _ in 0..TURNS {
                house::turn(&session, "go").await;
            }
            for _ in 0..TURNS {
                plain.turn("go").await;
            }
            let taken = (stamps.take() / trips, floor.take() / trips);
            // The first warms up.
            if pair > 0 {
                pairs.push(taken);
            }
        }
        pairs
    })
    .await
}
