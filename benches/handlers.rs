//! What one more handler at a point costs ÷ one ask between two tasks of a thread. Bar `handler-slope`.
//!
//! The same nine-call turn as in `pipeline`, with one and with nine handlers at each of the three points of a call; the
//! difference is shared out among the 24 further handlers. Each decides, and what it decided is on record.

mod support;

use portcullis::{Gate, Proposal, Registrar, Review, Runtime, Session, Submit};
use std::process::ExitCode;
use support::{
    Bars,
    house::{self, Head, Stamps},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
};

const CALLS: usize = 9;
const TURNS: usize = 20;
const PAIRS: usize = 10;
const POINTS: usize = 3;
const FURTHER: usize = 8;
const ASKS: usize = 2000;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    if !bars.wants("handler-slope") {
        return ExitCode::SUCCESS;
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut pairs = Vec::new();
    for _ in 0..bars.pairs(100).div_ceil(PAIRS) {
        pairs.extend(rt.block_on(measure()));
    }
    bars.ratio("handler-slope", 0.6, "ns", &pairs);
    bars.finish()
}

async fn measure() -> Vec<(f64, f64)> {
    let (one, many) = (House::start(1).await, House::start(1 + FURTHER).await);
    let mut pairs = Vec::new();
    for pair in 0..=PAIRS {
        let (few, more) = (one.trip().await, many.trip().await);
        let slope = (more - few) / (POINTS * FURTHER) as f64;
        let ask = LocalSet::new().run_until(ask()).await;
        // The first warms up.
        if pair > 0 {
            pairs.push((slope, ask));
        }
    }
    one.runtime.shutdown(std::time::Duration::from_secs(10)).await;
    many.runtime.shutdown(std::time::Duration::from_secs(10)).await;
    pairs
}

struct House {
    runtime: Runtime,
    session: Session,
    stamps: Stamps,
}

impl House {
    async fn start(handlers: usize) -> House {
        let stamps = Stamps::default();
        let model = Head { calls: CALLS, arguments: house::arguments(64) };
        let builder = Runtime::builder(model)
            .tool(house::note(stamps.clone(), CALLS))
            .policy("bench", |at| (0..handlers).for_each(|n| register(at, n)))
            .policy("heap", |at| {
                let stamps = stamps.clone();
                at.prompt_submit("fault-in", async move |_| {
                    stamps.fault_in();
                    Submit::allow()
                });
            });
        let runtime = house::start(builder).await;
        let session = house::session(&runtime, "s").await;
        House { runtime, session, stamps }
    }

    async fn trip(&self) -> f64 {
        for _ in 0..TURNS {
            house::turn(&self.session, "go").await;
        }
        self.stamps.take() / (TURNS * (CALLS - 1)) as f64
    }
}

fn register(at: &mut Registrar<'_>, n: usize) {
    at.rewrite(&format!("rewrite-{n}"), async |_| Proposal::pass());
    at.pre_execute(&format!("gate-{n}"), async |_| Gate::allow());
    at.post_execute(&format!("review-{n}"), async |_| Review::accept());
}

/// One message to a task of this thread and its answer.
async fn ask() -> f64 {
    let (asks, mut asked) = mpsc::channel::<oneshot::Sender<u64>>(32);
    let answering = tokio::task::spawn_local(async move {
        let mut answered = 0;
        while let Some(answer) = asked.recv().await {
            answered += 1;
            let _ = answer.send(answered);
        }
    });
    let start = support::thread_ns();
    for _ in 0..ASKS {
        let (answer, answered) = oneshot::channel();
        asks.send(answer).await.expect("the task lives");
        answered.await.expect("answered");
    }
    let taken = support::thread_ns() - start;
    drop(asks);
    answering.await.expect("the task ends");
    taken / ASKS as f64
}
