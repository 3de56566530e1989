//! Settle once, with any number of waiters.

use crate::{
    fault,
    seats::{Seat, Waiters},
    sync::{Arc, Mutex, lock, split},
};
use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

/// A cell that is settled once and never changes again. Clones are the same cell.
///
/// The primitive behind approvals, cancel causes, journal tickets and the ends of turns: the first to settle wins, every
/// later one gets its value back, and everybody who waits, before or after, sees the winner's.
pub struct Settle<T> {
    cell: Arc<Mutex<State<T>>>,
}

enum State<T> {
    Open(Waiters),
    Settled(T),
}

impl<T> Settle<T> {
    /// An open cell.
    pub fn new() -> Self {
        Settle { cell: Arc::new(Mutex::new(State::Open(Waiters::default()))) }
    }

    /// A cell that is born settled.
    pub fn settled(value: T) -> Self {
        Settle { cell: Arc::new(Mutex::new(State::Settled(value))) }
    }

    /// Settles the cell and wakes all who wait.
    ///
    /// # Errors
    /// The caller's own value, if the cell is settled: the first value stands.
    pub fn settle(&self, value: T) -> Result<(), T> {
        let mut state = lock(&self.cell);
        if matches!(*state, State::Settled(_)) {
            return Err(value);
        }
        state = split(fault::SETTLE, state, &self.cell);
        let before = mem::replace(&mut *state, State::Settled(value));
        drop(state);
        if let State::Open(waiters) = before {
            waiters.wake_all();
        }
        Ok(())
    }

    /// Whether the two are one cell.
    pub fn is(&self, other: &Settle<T>) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// Whether the cell is settled. A `false` may be out of date when it arrives; `true` is for ever.
    pub fn is_settled(&self) -> bool {
        matches!(*lock(&self.cell), State::Settled(_))
    }
}

impl<T: Clone> Settle<T> {
    /// The value, or `None` while the cell is open. Cloned under the cell's lock: settle with something cheap to clone.
    pub fn get(&self) -> Option<T> {
        match &*lock(&self.cell) {
            State::Open(_) => None,
            State::Settled(value) => Some(value.clone()),
        }
    }

    /// Resolves to the value when the cell is settled; at once if it is. It holds the cell, so it may outlive every
    /// handle; then nobody can settle it any more, and it waits for ever.
    pub fn wait(&self) -> Wait<T> {
        Wait { settle: self.clone(), seat: None }
    }
}

impl<T> Clone for Settle<T> {
    fn clone(&self) -> Self {
        Settle { cell: self.cell.clone() }
    }
}

impl<T> Default for Settle<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Settle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*lock(&self.cell) {
            State::Open(_) => f.write_str("Settle(open)"),
            State::Settled(value) => f.debug_tuple("Settle").field(value).finish(),
        }
    }
}

/// The future of [`Settle::wait`]. May be polled again after it is ready, with the same answer. Dropping it takes its
/// waker out of the cell.
#[must_use = "a future does nothing until it is awaited"]
pub struct Wait<T> {
    settle: Settle<T>,
    seat: Option<Seat>,
}

impl<T: Clone> Future for Wait<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Wait { settle, seat } = self.get_mut();
        let mut state = lock(&settle.cell);
        if let State::Settled(value) = &*state {
            return Poll::Ready(value.clone());
        }
        state = split(fault::WAKE, state, &settle.cell);
        let displaced = match &mut *state {
            State::Open(waiters) => waiters.register(seat, context.waker()),
            State::Settled(_) => None,
        };
        drop(state);
        drop(displaced);
        Poll::Pending
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let waker = match &mut *lock(&self.settle.cell) {
            State::Open(waiters) => waiters.leave(seat),
            State::Settled(_) => None,
        };
        drop(waker);
    }
}

impl<T> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}
