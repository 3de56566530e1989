//! The order of a step's calls while their bodies overlap: gates are entered, and results committed, in the model's
//! order, always (C-TURN-5).

use std::sync::Arc;
use tokio::sync::watch;

/// Two counters that a group of overlapping calls shares: whose turn it is at the gate, and at the results.
#[derive(Clone)]
pub(crate) struct Lanes {
    shared: Option<Arc<Shared>>,
    place: u32,
}

struct Shared {
    gate: watch::Sender<u32>,
    results: watch::Sender<u32>,
}

impl Lanes {
    /// A call that runs alone.
    pub(crate) fn alone() -> Lanes {
        Lanes { shared: None, place: 0 }
    }

    /// True for a call that runs alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.is_none()
    }

    /// So many calls that overlap, in order.
    pub(crate) fn group(calls: usize) -> Vec<Lanes> {
        let shared = Arc::new(Shared { gate: watch::Sender::new(0), results: watch::Sender::new(0) });
        (0..u32::try_from(calls).unwrap_or(u32::MAX))
            .map(|place| Lanes { shared: Some(shared.clone()), place })
            .collect()
    }

    /// Waits until every earlier call has passed its gate.
    pub(crate) async fn gate(&self) {
        if let Some(shared) = &self.shared {
            wait(&shared.gate, self.place).await;
        }
    }

    /// This call's body is about to start, or never will: the next one may enter its gate.
    pub(crate) fn gate_passed(&self) {
        if let Some(shared) = &self.shared {
            advance(&shared.gate, self.place);
        }
    }

    /// Every earlier call has its result.
    pub(crate) fn may_give(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| *shared.results.borrow() >= self.place)
    }

    /// Waits until every earlier call has its result.
    pub(crate) async fn result(&self) {
        if let Some(shared) = &self.shared {
            wait(&shared.results, self.place).await;
        }
    }

    /// This call has its result, or was given up: the next one may commit its own.
    pub(crate) fn result_given(&self) {
        if let Some(shared) = &self.shared {
            advance(&shared.results, self.place);
        }
    }
}

async fn wait(lane: &watch::Sender<u32>, place: u32) {
    // The sender lives in `shared`, which the caller holds: the channel cannot close.
    let _ = lane.subscribe().wait_for(|at| *at >= place).await;
}

fn advance(lane: &watch::Sender<u32>, place: u32) {
    lane.send_if_modified(|at| {
        let forward = *at <= place;
        if forward {
            *at = place + 1;
        }
        forward
    });
}
