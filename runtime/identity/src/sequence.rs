//! The numbers of a journal.

use crate::{
    fault,
    sync::{Mutex, lock, split},
};
use std::{error::Error, fmt, ops::Range};

/// Hands out contiguous numbers: no gap, no repeat, in the order of the reservations.
///
/// One per log. Once poisoned it hands out nothing more: after a failed commit a later number would stand behind a gap.
pub struct Sequence {
    state: Mutex<State>,
}

struct State {
    next: u64,
    poisoned: bool,
}

impl Sequence {
    /// A sequence whose first number is `first`: 0 for a new log, the number of its records for a reopened one.
    pub fn starting_at(first: u64) -> Self {
        Sequence { state: Mutex::new(State { next: first, poisoned: false }) }
    }

    /// Reserves the next `n` numbers. With 0 it asks whether a reservation would be granted.
    ///
    /// # Errors
    /// As [`reserve_with`](Sequence::reserve_with).
    pub fn reserve(&self, n: u64) -> Result<Range<u64>, ReserveError> {
        self.reserve_with(n, |numbers| numbers)
    }

    /// Reserves the next `n` numbers and calls `enqueue` with them before anybody can reserve the next ones, so that
    /// the order of a queue is the order of the numbers in it.
    ///
    /// `enqueue` must not call back into this sequence (it would wait for itself) and should only push. If it panics,
    /// nobody can tell what was pushed: the sequence is poisoned.
    ///
    /// # Errors
    /// [`ReserveError::Poisoned`] after [`poison`](Sequence::poison), [`ReserveError::Exhausted`] if the numbers would
    /// pass `u64::MAX`. Neither calls `enqueue`.
    pub fn reserve_with<R>(&self, n: u64, enqueue: impl FnOnce(Range<u64>) -> R) -> Result<R, ReserveError> {
        let mut state = lock(&self.state);
        if state.poisoned {
            return Err(ReserveError::Poisoned { next: state.next });
        }
        let first = state.next;
        let end = first.checked_add(n).ok_or(ReserveError::Exhausted)?;
        state = split(fault::SEQUENCE, state, &self.state);
        state.next = end;
        // Taken back below: it stays if `enqueue` does not return.
        state.poisoned = true;
        let queued = enqueue(first..end);
        state.poisoned = false;
        Ok(queued)
    }

    /// Refuses every later reservation. `true` for the first to do so.
    pub fn poison(&self) -> bool {
        !std::mem::replace(&mut lock(&self.state).poisoned, true)
    }

    /// Whether the sequence is poisoned. A `false` may be out of date when it arrives; `true` is for ever.
    pub fn is_poisoned(&self) -> bool {
        lock(&self.state).poisoned
    }

    /// The number the next reservation would start at: how many are out, counted from 0.
    pub fn next(&self) -> u64 {
        lock(&self.state).next
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Sequence").field("next", &state.next).field("poisoned", &state.poisoned).finish()
    }
}

/// Why no number was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// An earlier append failed.
    Poisoned {
        /// The number that was next when the sequence was asked.
        next: u64,
    },
    /// There are not so many numbers left.
    Exhausted,
}

impl ReserveError {
    /// A stable name for programs and logs.
    pub fn code(self) -> &'static str {
        match self {
            ReserveError::Poisoned { .. } => "poisoned",
            ReserveError::Exhausted => "exhausted",
        }
    }
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Poisoned { next } => {
                write!(
                    f,
                    "an append before record {next} failed: reopen the log to go on from what was committed"
                )
            }
            ReserveError::Exhausted => f.write_str("the log has no numbers left: continue in a fork"),
        }
    }
}

impl Error for ReserveError {}
