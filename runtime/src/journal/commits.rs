//! One watermark a session: how many of its records are durable. Barriers, tickets and subscribers wait on it, so
//! "after its commit" means the same to all of them.

use super::JournalError;
use crate::{Record, Seq};
use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// How many recent records are kept for subscribers before they have to read from the store.
const WINDOW: usize = 256;

/// The watermark. The journal moves it; everyone else waits on it.
#[derive(Debug)]
pub struct Commits {
    /// One std mutex for all of it: held for a few steps, never across an await. Most commits meet nobody who waits, and
    /// pay for nothing else.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    durable: u64,
    failed: Option<JournalError>,
    /// Who waits. Every move of the watermark wakes all; who finds too little waits again.
    waiting: Vec<(u64, Waker)>,
    /// The place of the next one who waits.
    places: u64,
    /// Consecutive, the last one is the last durable one. Empty while nobody subscribes: an idle session keeps nothing.
    recent: VecDeque<Arc<Record>>,
    subscribers: usize,
}

impl Commits {
    /// A session with `head` durable records.
    pub fn new(head: Seq) -> Arc<Commits> {
        Arc::new(Commits {
            state: Mutex::new(State {
                durable: head.0,
                failed: None,
                waiting: Vec::new(),
                places: 0,
                recent: VecDeque::new(),
                subscribers: 0,
            }),
        })
    }

    /// For journals: these records are durable now. Called in order.
    pub fn committed(&self, records: &[Arc<Record>]) {
        let Some(last) = records.last() else { return };
        let mut state = self.state();
        if state.subscribers > 0 {
            for record in records {
                if state.recent.len() == WINDOW {
                    state.recent.pop_front();
                }
                state.recent.push_back(record.clone());
            }
        }
        state.durable = last.seq.0 + 1;
        wake(state);
    }

    /// For journals: an append failed; nothing later will be durable under this ownership. The first error stays.
    pub fn failed(&self, error: JournalError) {
        let mut state = self.state();
        state.failed.get_or_insert(error);
        wake(state);
    }

    /// The number after the last durable record.
    pub fn durable(&self) -> Seq {
        Seq(self.state().durable)
    }

    /// Why nothing more will be durable, if so.
    pub fn failure(&self) -> Option<JournalError> {
        self.state().failed.clone()
    }

    /// Resolves when all records before `upto` are durable.
    pub fn ticket(self: &Arc<Commits>, upto: Seq) -> Ticket {
        Ticket { commits: self.clone(), upto }
    }

    /// Follows the session's durable records from now on.
    pub fn subscribe(self: &Arc<Commits>) -> Subscription {
        self.state().subscribers += 1;
        Subscription { commits: self.clone() }
    }

    /// Waits until `upto` records are durable.
    fn reached(
        &self,
        upto: u64,
        place: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), JournalError>> {
        let mut state = self.state();
        if state.durable >= upto {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &state.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let mine = place.and_then(|place| state.waiting.iter_mut().find(|(at, _)| *at == place));
        match mine {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let at = state.places;
                state.places += 1;
                state.waiting.push((at, cx.waker().clone()));
                *place = Some(at);
            }
        }
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can leave it half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes outside the lock: a waker may run anything.
fn wake(mut state: MutexGuard<'_, State>) {
    if state.waiting.is_empty() {
        return;
    }
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    for (_, waker) in waiting {
        waker.wake();
    }
}

/// Resolves when the watermark is there.
struct Reached<'c> {
    commits: &'c Commits,
    upto: u64,
    place: Option<u64>,
}

impl Drop for Reached<'_> {
    /// Who gives up waiting leaves nothing behind.
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.commits.state().waiting.retain(|(at, _)| *at != place);
        }
    }
}

impl Future for Reached<'_> {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (commits, upto) = (self.commits, self.upto);
        commits.reached(upto, &mut self.place, cx)
    }
}

/// The promise of durability for one append.
#[derive(Debug, Clone)]
#[must_use = "an append that nobody waits for may be lost unnoticed"]
pub struct Ticket {
    commits: Arc<Commits>,
    upto: Seq,
}

impl Ticket {
    /// True when it is durable already.
    pub fn is_durable(&self) -> bool {
        self.commits.durable() >= self.upto
    }

    /// Waits until it is durable, or cannot become so.
    pub async fn wait(self) -> Result<Seq, JournalError> {
        Reached { commits: &self.commits, upto: self.upto.0, place: None }.await?;
        Ok(self.upto)
    }
}

/// A follower of durable records. Slow followers read from the store; nothing waits for them.
#[derive(Debug)]
pub struct Subscription {
    commits: Arc<Commits>,
}

impl Subscription {
    /// The durable records from `from` on that are still at hand; `None` when older ones must be read from the store.
    pub fn recent(&self, from: Seq) -> Option<Vec<Arc<Record>>> {
        let state = self.commits.state();
        if from.0 >= state.durable {
            return Some(Vec::new());
        }
        let first = state.recent.front()?.seq;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        Some(state.recent.iter().skip(skip).cloned().collect())
    }

    /// Waits until records from `from` on are durable; the error when nothing more will be.
    pub async fn beyond(&mut self, from: Seq) -> Result<(), JournalError> {
        Reached { commits: &self.commits, upto: from.0 + 1, place: None }.await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.commits.state();
        state.subscribers -= 1;
        if state.subscribers == 0 {
            state.recent = VecDeque::new();
        }
    }
}
