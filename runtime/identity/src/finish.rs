//! Cancel against complete: exactly one of them finishes a call.

use crate::{
    fault,
    sync::{Arc, AtomicU8, Ordering},
};
use std::fmt;

/// Decides how a call finished. Clones are the same cell.
///
/// The body's return and the cancel race for it. Whoever gets `true` writes the call's one result; the other writes
/// nothing. What the winner did before is visible to whoever sees the answer.
#[derive(Clone)]
pub struct Finish {
    how: Arc<AtomicU8>,
}

/// How a call finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finished {
    /// Its own outcome came first.
    Completed,
    /// A cancel came first.
    Cancelled,
}

const OPEN: u8 = 0;
const COMPLETED: u8 = 1;
const CANCELLED: u8 = 2;

impl Finish {
    /// An open cell.
    pub fn new() -> Self {
        Finish { how: Arc::new(AtomicU8::new(OPEN)) }
    }

    /// Claims the finish for the call's own outcome. `true` once, and only if no cancel came first.
    #[must_use = "only the winner may write the result"]
    pub fn complete(&self) -> bool {
        self.claim(COMPLETED)
    }

    /// Claims the finish for a cancel. `true` once, and only if the call did not complete first.
    #[must_use = "only the winner may write the result"]
    pub fn cancel(&self) -> bool {
        self.claim(CANCELLED)
    }

    /// Who won, or `None` while nobody has. A `None` may be out of date when it arrives.
    pub fn how(&self) -> Option<Finished> {
        match self.how.load(Ordering::Acquire) {
            COMPLETED => Some(Finished::Completed),
            CANCELLED => Some(Finished::Cancelled),
            _ => None,
        }
    }

    fn claim(&self, how: u8) -> bool {
        if fault::FINISH {
            let open = self.how.load(Ordering::Acquire) == OPEN;
            if open {
                self.how.store(how, Ordering::Release);
            }
            return open;
        }
        self.how.compare_exchange(OPEN, how, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Default for Finish {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finish").field(&self.how()).finish()
    }
}
