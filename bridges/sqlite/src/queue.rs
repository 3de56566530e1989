//! What waits for the writer thread: bounded, in order, and never lost in silence.

use crate::{
    APPEND_BYTES, BATCH_BYTES, BATCH_RECORDS, QUEUE_BYTES, QUEUE_RECORDS, inbox::Submit, kept::Keeping,
    weight::weight,
};
use futures::channel::oneshot;
use portcullis_runtime::{Batch, Claim, CommandId, Commits, JournalError, Ownership, Posted, Seq, SessionId};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Where an answer goes. Dropped without one, the asker hears that the journal is unavailable.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, JournalError>>;

/// One thing for the writer to do.
#[derive(Debug)]
pub(crate) enum Operation {
    Claim {
        session: SessionId,
        incarnation: u128,
        claim: Claim,
        reply: Reply<Ownership>,
    },
    Append(Append),
    Release {
        session: SessionId,
        incarnation: u128,
        epoch: u64,
        reply: Reply<()>,
    },
    /// Into an inbox.
    Submit {
        submit: Submit,
        reply: Reply<Posted>,
    },
    /// Out of an inbox.
    Taken {
        session: SessionId,
        id: CommandId,
        refused: Option<Arc<str>>,
        reply: Reply<()>,
    },
    /// Behind the transaction, in one of its own: nobody waits for it.
    Keep(Box<Keeping>),
}

/// An append on its way. It always settles its tickets: dropped unsettled, it fails them.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) session: SessionId,
    pub(crate) incarnation: u128,
    pub(crate) epoch: u64,
    pub(crate) from: Seq,
    pub(crate) batch: Batch,
    bytes: usize,
    commits: Option<Arc<Commits>>,
}

impl Append {
    /// Of `batch`, at the owner's head.
    pub(crate) fn new(own: &Ownership, batch: Batch) -> Append {
        Append {
            session: own.session.clone(),
            incarnation: own.incarnation,
            epoch: own.epoch,
            from: own.head,
            bytes: batch.records.iter().map(|record| weight(record)).sum(),
            batch,
            commits: Some(own.commits.clone()),
        }
    }

    /// The ownership it belongs to.
    pub(crate) fn commits(&self) -> &Arc<Commits> {
        self.commits.as_ref().expect("taken only by what consumes the append")
    }

    /// It is durable.
    pub(crate) fn committed(mut self) {
        if let Some(commits) = self.commits.take() {
            commits.committed(&self.batch.records);
        }
    }

    /// It is not, nor will anything later of its ownership be.
    pub(crate) fn failed(mut self, error: JournalError) {
        if let Some(commits) = self.commits.take() {
            commits.failed(error);
        }
    }

    /// It was not even enqueued: the caller hears so, the ownership is as it was.
    fn refused(mut self) {
        self.commits = None;
    }
}

impl Drop for Append {
    fn drop(&mut self) {
        if let Some(commits) = self.commits.take() {
            commits.failed(JournalError::Indeterminate("the journal's writer stopped".into()));
        }
    }
}

/// The queue. Its mutex is held for a few pushes and pops, so callers on an async thread may take it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    operations: VecDeque<Operation>,
    records: usize,
    bytes: usize,
    closed: bool,
    /// How many operations the writer sleeps for.
    awaited: usize,
}

/// How long a batch stays open for more. Whoever was just answered may have the next append ready in a moment; a sync
/// started before that moment would be one for few, and the next one late for many.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gather {
    /// No longer than until it has so many operations.
    pub(crate) expected: usize,
    /// No longer than this.
    pub(crate) patience: Duration,
}

/// A batch in the making: the writer works on what it has while more comes in.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) operations: Vec<Operation>,
    records: usize,
    bytes: usize,
    /// Open for more; `None` when complete.
    open: Option<(usize, Instant)>,
}

impl Load {
    /// One operation and no more.
    pub(crate) fn alone(operation: Operation) -> Load {
        Load { operations: vec![operation], records: 0, bytes: 0, open: None }
    }
}

impl State {
    /// Moves what fits into the load. True when anything did.
    fn fill(&mut self, load: &mut Load) -> bool {
        let had = load.operations.len();
        while let Some(operation) = self.operations.pop_front() {
            if let Operation::Append(append) = &operation {
                let (records, bytes) = (append.batch.records.len(), append.bytes);
                let full = load.records + records > BATCH_RECORDS || load.bytes + bytes > BATCH_BYTES;
                if full && load.records > 0 {
                    self.operations.push_front(operation);
                    break;
                }
                load.records += records;
                load.bytes += bytes;
                self.records -= records;
                self.bytes -= bytes;
            }
            load.operations.push(operation);
        }
        load.operations.len() > had
    }
}

impl Queue {
    /// Enqueues an append, or refuses it whole.
    pub(crate) fn append(&self, append: Append) -> Result<(), JournalError> {
        let (records, bytes) = (append.batch.records.len(), append.bytes);
        let mut state = self.lock();
        let error = if bytes > APPEND_BYTES {
            Some(JournalError::TooLarge { bytes })
        } else if state.closed {
            Some(stopped())
        } else if state.records > 0
            && (state.records + records > QUEUE_RECORDS || state.bytes + bytes > QUEUE_BYTES)
        {
            Some(JournalError::Busy)
        } else {
            None
        };
        if let Some(error) = error {
            append.refused();
            return Err(error);
        }
        state.records += records;
        state.bytes += bytes;
        self.push(state, Operation::Append(append));
        Ok(())
    }

    /// Enqueues a claim or a release. Not counted: each is small, and somebody waits for it.
    pub(crate) fn control(&self, operation: Operation) -> Result<(), JournalError> {
        let state = self.lock();
        if state.closed {
            return Err(stopped());
        }
        self.push(state, operation);
        Ok(())
    }

    fn push(&self, mut state: MutexGuard<'_, State>, operation: Operation) {
        state.operations.push_back(operation);
        let ripe = state.operations.len() >= state.awaited;
        drop(state);
        if ripe {
            self.filled.notify_one();
        }
    }

    /// How many operations wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().operations.len()
    }

    /// For the writer: waits for work and begins a batch with it. `None` when the queue is closed and empty.
    pub(crate) fn next(&self, gather: Gather) -> Option<Load> {
        let mut state = self.lock();
        while state.operations.is_empty() {
            if state.closed {
                return None;
            }
            state.awaited = 1;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut load = Load {
            operations: Vec::new(),
            records: 0,
            bytes: 0,
            open: Some((gather.expected, Instant::now() + gather.patience)),
        };
        state.fill(&mut load);
        Some(load)
    }

    /// For the writer: more for its batch, at once or in a moment. False when the batch is complete.
    pub(crate) fn more(&self, load: &mut Load) -> bool {
        let Some((expected, until)) = load.open else { return false };
        let mut state = self.lock();
        loop {
            if state.fill(load) {
                return true;
            }
            let missing = expected.saturating_sub(load.operations.len());
            let left = until.saturating_duration_since(Instant::now());
            // What waits and was not taken does not fit.
            if missing == 0 || left.is_zero() || state.closed || !state.operations.is_empty() {
                return false;
            }
            // By halves: few wake-ups, and work for the writer while the rest comes in.
            state.awaited = missing.div_ceil(2);
            let waited = self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }

    /// Nothing more comes in; what is in will be written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// The writer is gone: what is in fails.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        let lost = std::mem::replace(&mut *state, State { closed: true, ..State::default() });
        drop(state);
        // Outside the lock: each drop wakes waiters.
        drop(lost);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and operations change together, without anything between that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn stopped() -> JournalError {
    JournalError::Unavailable("the journal was closed, or its thread has stopped: open it again".into())
}
