//! A one-tool turn through the public handle ÷ the same turn as one plain task, and what it costs in counts. Bars
//! `actor-tax`, `turn-hops`, `turn-records`, `turn-barriers`.
//!
//! The floor is one task that drives the same law over the same state: it is prompted through a channel, acknowledges
//! when the prompt is durable, and tells the end. Both run on the session's own thread, by its CPU clock: the measurement
//! is the body of a tool of another session. What wakes across threads cost depends on the machine and on who sleeps; that
//! is shown as a note, with the same floor on a thread of its own.

mod support;

use portcullis::{MemoryJournal, Runtime, Session};
use std::{process::ExitCode, sync::Arc, time::Duration};
use support::{
    Bars,
    house::{self, Head, Stamps},
    plain::Plain,
};
use tokio::sync::{mpsc, oneshot};

/// Turns on each side of a pair.
const TURNS: usize = 50;
/// Pairs on one session before both sides start anew: logs in memory only grow.
const PAIRS: usize = 20;

type Pairs = Vec<(f64, f64)>;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let model = Head { calls: 1, arguments: house::arguments(64) };
    let rounds = bars.pairs(200).div_ceil(PAIRS);

    if bars.wants("actor-tax") {
        let measure = || (0..rounds).flat_map(|_| rt.block_on(one_thread(model.clone()))).collect();
        bars.steady_ratio("actor-tax", 1.5, "ns", measure);
        let rounds = rounds.div_ceil(2);
        let pairs: Pairs = (0..rounds).flat_map(|_| rt.block_on(across_threads(model.clone()))).collect();
        bars.note("actor-tax-across-threads", "ns", &pairs);
    }
    if ["turn-hops", "turn-records", "turn-barriers"].iter().any(|name| bars.wants(name)) {
        rt.block_on(counts(model, &mut bars));
    }
    bars.finish()
}

/// Told when the prompt is durable, and when the turn is.
type Prompt = (oneshot::Sender<()>, oneshot::Sender<()>);

/// The floor: one task that is prompted, acknowledges, and tells the end, as anything must that others can hold a handle
/// of.
async fn plain_task(model: Head, mut prompted: mpsc::Receiver<Prompt>) {
    let journal = Arc::new(MemoryJournal::new());
    let mut plain = Plain::open("s", journal, model, house::note(Stamps::default(), 1)).await;
    while let Some((taken, ended)) = prompted.recv().await {
        plain.lawful_turn("go", || _ = taken.send(())).await;
        let _ = ended.send(());
    }
}

async fn plain_turn(prompts: &mpsc::Sender<Prompt>) {
    let (taken, acknowledged) = oneshot::channel();
    let (ended, end) = oneshot::channel();
    prompts.send((taken, ended)).await.expect("the plain task lives");
    acknowledged.await.expect("acknowledged");
    end.await.expect("ended");
}

/// Alternating, so many turns of each, by this clock.
async fn pairs(session: &Session, prompts: &mpsc::Sender<Prompt>, clock: fn() -> f64) -> Pairs {
    let mut pairs = Vec::new();
    for pair in 0..=PAIRS {
        let start = clock();
        for _ in 0..TURNS {
            house::turn(session, "go").await;
        }
        let between = clock();
        for _ in 0..TURNS {
            plain_turn(prompts).await;
        }
        let end = clock();
        // The first warms up.
        if pair > 0 {
            pairs.push(((between - start) / TURNS as f64, (end - between) / TURNS as f64));
        }
    }
    pairs
}

async fn one_thread(model: Head) -> Pairs {
    house::driven(model.clone(), house::note(Stamps::default(), 1), async |session: Session| {
        let (prompts, prompted) = mpsc::channel(32);
        let task = tokio::task::spawn_local(plain_task(model, prompted));
        let pairs = pairs(&session, &prompts, support::thread_ns).await;
        drop(prompts);
        task.await.expect("the plain task ends");
        pairs
    })
    .await
}

async fn across_threads(model: Head) -> Pairs {
    let runtime = house::start(Runtime::builder(model.clone()).tool(house::note(Stamps::default(), 1))).await;
    let session = house::session(&runtime, "s").await;
    let (prompts, prompted) = mpsc::channel(32);
    let task = std::thread::spawn(move || {
        let rt = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        rt.block_on(plain_task(model, prompted));
    });
    let pairs = pairs(&session, &prompts, support::process_ns).await;
    drop(prompts);
    task.join().expect("the plain task ends");
    runtime.shutdown(Duration::from_secs(10)).await;
    pairs
}

async fn counts(model: Head, bars: &mut Bars) {
    let runtime = house::start(Runtime::builder(model).tool(house::note(Stamps::default(), 1))).await;
    let session = house::session(&runtime, "s").await;
    // The first turn also writes the request header.
    house::turn(&session, "go").await;
    let (_, _, cost) = session.prompt("go").await.expect("the prompt is taken").done().await;
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    bars.at_most("turn-hops", cost.hops as f64, 4.0, "messages between the session's actors");
    bars.exactly("turn-records", cost.records, 16, "records written");
    bars.exactly("turn-barriers", cost.barriers, 5, "waits for durability");
    runtime.shutdown(Duration::from_secs(10)).await;
}
