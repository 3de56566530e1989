//! A slab of things that may leave in any order: the wakers of a cell, the children of a cancel cell.
//!
//! It is as large as the most that were seated at one time, never as the number that ever came.

use std::{mem, task::Waker};

/// Where something sits. Not `Copy`: it is given back once.
#[derive(Debug)]
pub(crate) struct Seat(usize);

pub(crate) struct Seats<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        Seats { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Seats<T> {
    pub(crate) fn sit(&mut self, item: T) -> Seat {
        match self.free.pop() {
            Some(at) => {
                self.slots[at] = Some(item);
                Seat(at)
            }
            None => {
                self.slots.push(Some(item));
                Seat(self.slots.len() - 1)
            }
        }
    }

    /// Gives the item back so that the caller can drop it after unlocking: its destructor may be foreign code.
    pub(crate) fn leave(&mut self, seat: Seat) -> Option<T> {
        let item = self.slots.get_mut(seat.0)?.take()?;
        if self.free.len() + 1 == self.slots.len() {
            // The last one: an idle cell holds no memory for its busiest hour.
            *self = Seats::default();
        } else {
            self.free.push(seat.0);
        }
        Some(item)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn into_items(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }
}

/// The wakers of a cell that opens once. When it does, the owner takes the whole slab and seats nobody again, so a seat
/// that outlives the slab can never name somebody else's place.
pub(crate) type Waiters = Seats<Waker>;

impl Waiters {
    /// Seats a waiter, or brings its waker up to date if it sits already. The waker it displaced is for the caller to
    /// drop after unlocking.
    pub(crate) fn register(&mut self, seat: &mut Option<Seat>, waker: &Waker) -> Option<Waker> {
        if let Some(Seat(at)) = seat
            && let Some(Some(known)) = self.slots.get_mut(*at)
        {
            if known.will_wake(waker) {
                return None;
            }
            return Some(mem::replace(known, waker.clone()));
        }
        *seat = Some(self.sit(waker.clone()));
        None
    }

    /// To be called without the cell's lock: a waker is foreign code.
    pub(crate) fn wake_all(self) {
        self.into_items().for_each(Waker::wake);
    }
}

#[cfg(all(test, not(portcullis_loom)))]
mod tests {
    use super::Seats;

    #[test]
    fn places_are_used_again_and_an_empty_slab_holds_nothing() {
        let mut seats = Seats::default();
        let stays = seats.sit(0);
        for n in 1..1000 {
            let seat = seats.sit(n);
            assert_eq!(seats.leave(seat), Some(n));
        }
        assert_eq!((seats.len(), seats.slots.len()), (1, 2));
        assert_eq!(seats.leave(stays), Some(0));
        assert_eq!((seats.len(), seats.slots.capacity()), (0, 0));
    }
}
