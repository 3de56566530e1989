//! A mailbox's close against its senders.

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

/// The door of a mailbox. Clones are the same door.
///
/// A sender enters, puts its message into the queue and leaves (drops [`Entered`]). The receiver closes, waits until the
/// door is [`drained`](Intake::drained) and only then takes what the queue holds for the last time: every message whose
/// sender was let in is there, and none comes later. A sender that was not let in still has its message.
#[derive(Clone)]
pub struct Intake {
    door: Arc<Mutex<Door>>,
}

struct Door {
    closed: bool,
    inside: usize,
    waiters: Waiters,
}

impl Intake {
    /// An open door.
    pub fn new() -> Self {
        let door = Door { closed: false, inside: 0, waiters: Waiters::default() };
        Intake { door: Arc::new(Mutex::new(door)) }
    }

    /// Lets the caller in, or `None` if the door is closed. Stay inside only while the message is put away: a sender
    /// that waits for room in the queue inside holds up the close, which may be what is wanted.
    pub fn enter(&self) -> Option<Entered> {
        let mut door = lock(&self.door);
        if door.closed {
            return None;
        }
        door = split(fault::INTAKE, door, &self.door);
        door.inside += 1;
        drop(door);
        Some(Entered { intake: self.clone() })
    }

    /// Closes the door; nobody enters from here on. Returns how many are still inside: with 0 the door is drained. To
    /// close twice is harmless.
    pub fn close(&self) -> usize {
        let mut door = lock(&self.door);
        door.closed = true;
        let inside = door.inside;
        let waiters = door.take_if_drained();
        drop(door);
        waiters.wake_all();
        inside
    }

    /// Whether the door is closed. A `false` may be out of date when it arrives; `true` is for ever.
    pub fn is_closed(&self) -> bool {
        lock(&self.door).closed
    }

    /// How many are inside just now.
    pub fn inside(&self) -> usize {
        lock(&self.door).inside
    }

    /// Resolves when the door is closed *and* everybody has left. It does not close the door.
    pub fn drained(&self) -> Drained {
        Drained { intake: self.clone(), seat: None }
    }
}

impl Door {
    fn is_drained(&self) -> bool {
        self.closed && self.inside == 0
    }

    /// Those to wake now: nobody unless the door is drained.
    fn take_if_drained(&mut self) -> Waiters {
        if self.is_drained() { mem::take(&mut self.waiters) } else { Waiters::default() }
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let door = lock(&self.door);
        f.debug_struct("Intake")
            .field("closed", &door.closed)
            .field("inside", &door.inside)
            .finish_non_exhaustive()
    }
}

/// Being inside an [`Intake`]. Drop it to leave.
#[must_use = "dropping it leaves the intake at once"]
pub struct Entered {
    intake: Intake,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut door = lock(&self.intake.door);
        door.inside -= 1;
        let waiters = door.take_if_drained();
        drop(door);
        waiters.wake_all();
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}

/// The future of [`Intake::drained`]. May be polled again after it is ready. Dropping it takes its waker out of the door.
#[must_use = "a future does nothing until it is awaited"]
pub struct Drained {
    intake: Intake,
    seat: Option<Seat>,
}

impl Future for Drained {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Drained { intake, seat } = self.get_mut();
        let mut door = lock(&intake.door);
        if door.is_drained() {
            return Poll::Ready(());
        }
        let displaced = door.waiters.register(seat, context.waker());
        drop(door);
        drop(displaced);
        Poll::Pending
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let waker = lock(&self.intake.door).waiters.leave(seat);
        drop(waker);
    }
}

impl fmt::Debug for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drained").finish_non_exhaustive()
    }
}
