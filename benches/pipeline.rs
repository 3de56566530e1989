//! One call through the registry actor ÷ the same call as straight-line code. Bars `pipeline-64b`, `pipeline-2k`.
//!
//! A turn makes nine calls, one after another. From the start of the first body to that of the ninth lie eight whole
//! trips: return, records, answer to the turn, the law, the ask to the registry, seal, schema, records, barrier, body.
//! Both sides run the same turn with the same stamps in the tool, on one thread each, by that thread's CPU clock.

mod support;

use portcullis::{MemoryJournal, Runtime};
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
        let rounds = bars.pairs(200).div_ceil(PAIRS);
        let pairs = rt.block_on(measure(bytes, rounds));
        bars.ratio(name, 1.5, "ns", &pairs);
    }
    bars.finish()
}

async fn measure(bytes: usize, rounds: usize) -> Vec<(f64, f64)> {
    let model = Head { calls: CALLS, arguments: house::arguments(bytes) };
    let trips = (TURNS * (CALLS - 1)) as f64;
    let mut pairs = Vec::new();
    for _ in 0..rounds {
        let (ours, floor) = (Stamps::default(), Stamps::default());
        let builder = Runtime::builder(model.clone()).tool(house::note(ours.clone(), CALLS));
        let runtime = house::start(builder).await;
        let session = house::session(&runtime, "s").await;
        let journal = Arc::new(MemoryJournal::new());
        let mut plain = Plain::open("s", journal, model.clone(), house::note(floor.clone(), CALLS)).await;
        for pair in 0..=PAIRS {
            for _ in 0..TURNS {
                house::turn(&session, "go").await;
            }
            for _ in 0..TURNS {
                plain.turn("go").await;
            }
            let taken = (ours.take() / trips, floor.take() / trips);
            // The first warms up.
            if pair > 0 {
                pairs.push(taken);
            }
        }
        runtime.shutdown(std::time::Duration::from_secs(10)).await;
    }
    pairs
}
