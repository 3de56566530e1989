//! One watermark a session: how many of its records are durable. Barriers, tickets and subscribers wait on it, so
//! "after its commit" means the same to all of them.

use super::JournalError;
use crate::{Record, Seq};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// How many recent records are kept for subscribers before they have to read from the store.
const WINDOW: usize = 256;

/// The watermark. The journal moves it; everyone else waits on it.
#[derive(Debug)]
pub struct Commits {
    progress: watch::Sender<Progress>,
    /// A std mutex: held for a push or a copy, never across an await.
    recent: Mutex<Recent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    durable: u64,
    failed: Option<JournalError>,
}

#[derive(Debug, Default)]
struct Recent {
    /// Consecutive, the last one is the last durable one. Empty while nobody subscribes: an idle session keeps nothing.
    records: VecDeque<Arc<Record>>,
    subscribers: usize,
}

impl Commits {
    /// A session with `head` durable records.
    pub fn new(head: Seq) -> Arc<Commits> {
        let (progress, _) = watch::channel(Progress { durable: head.0, failed: None });
        Arc::new(Commits { progress, recent: Mutex::default() })
    }

    /// For journals: these records are durable now. Called in order.
    pub fn committed(&self, records: &[Arc<Record>]) {
        let Some(last) = records.last() else { return };
        {
            let mut recent = self.recent();
            if recent.subscribers > 0 {
                for record in records {
                    if recent.records.len() == WINDOW {
                        recent.records.pop_front();
                    }
                    recent.records.push_back(record.clone());
                }
            }
        }
        self.progress.send_modify(|p| p.durable = last.seq.0 + 1);
    }

    /// For journals: an append failed; nothing later will be durable under this ownership. The first error stays.
    pub fn failed(&self, error: JournalError) {
        self.progress.send_modify(|p| {
            p.failed.get_or_insert(error);
        });
    }

    /// The number after the last durable record.
    pub fn durable(&self) -> Seq {
        Seq(self.progress.borrow().durable)
    }

    /// Why nothing more will be durable, if so.
    pub fn failure(&self) -> Option<JournalError> {
        self.progress.borrow().failed.clone()
    }

    /// Resolves when all records before `upto` are durable.
    pub fn ticket(self: &Arc<Commits>, upto: Seq) -> Ticket {
        Ticket { commits: self.clone(), upto }
    }

    /// Follows the session's durable records from now on.
    pub fn subscribe(self: &Arc<Commits>) -> Subscription {
        self.recent().subscribers += 1;
        Subscription { commits: self.clone(), progress: self.progress.subscribe() }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        // Nothing that runs under the lock can leave it half-done.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
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
        let settled = |p: &Progress| p.durable >= self.upto.0 || p.failed.is_some();
        if !settled(&self.commits.progress.borrow()) {
            // The sender lives in `commits`, which we hold: the channel cannot close.
            let _ = self.commits.progress.subscribe().wait_for(settled).await;
        }
        let progress = self.commits.progress.borrow();
        match &progress.failed {
            Some(error) if progress.durable < self.upto.0 => Err(error.clone()),
            _ => Ok(self.upto),
        }
    }
}

/// A follower of durable records. Slow followers read from the store; nothing waits for them.
#[derive(Debug)]
pub struct Subscription {
    commits: Arc<Commits>,
    progress: watch::Receiver<Progress>,
}

impl Subscription {
    /// The durable records from `from` on that are still at hand; `None` when older ones must be read from the store.
    pub fn recent(&self, from: Seq) -> Option<Vec<Arc<Record>>> {
        let durable = self.commits.durable();
        if from >= durable {
            return Some(Vec::new());
        }
        let recent = self.commits.recent();
        let first = recent.records.front()?.seq;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        Some(recent.records.iter().skip(skip).cloned().collect())
    }

    /// Waits until records from `from` on are durable; the error when nothing more will be.
    pub async fn beyond(&mut self, from: Seq) -> Result<(), JournalError> {
        let settled = |p: &Progress| p.durable > from.0 || p.failed.is_some();
        let progress = self.progress.wait_for(settled).await;
        match progress {
            Ok(p) if p.durable > from.0 => Ok(()),
            Ok(p) => Err(p.failed.clone().unwrap_or(JournalError::Busy)),
            Err(_) => Err(JournalError::Unavailable("the session left memory".into())),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut recent = self.commits.recent();
        recent.subscribers -= 1;
        if recent.subscribers == 0 {
            recent.records = VecDeque::new();
        }
    }
}
