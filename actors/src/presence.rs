//! Whether a session is in memory, against whoever wants something of it.
//!
//! Whoever wants something first puts it where the session finds it (the door, an answer's cell, a cancel's cell) and then
//! says so here. The session first says that it is leaving and then looks whether anything was put. So of the two, one sees
//! the other: nothing that was put is left lying, and a session that leaves is brought back once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Its actors run.
    Here,
    /// It gives its pen back; `wanted` when someone has put something meanwhile.
    Leaving { wanted: bool },
    /// It is its log, and its handle.
    Away,
    /// Its host has been told to bring it back.
    Coming,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Presence(Mutex<Place>);

impl Presence {
    /// Of a session whose actors are started now.
    pub(crate) fn here() -> Presence {
        Presence(Mutex::new(Place::Here))
    }

    /// Something was put. True when the caller has to have the session brought back.
    #[must_use]
    pub(crate) fn wanted(&self) -> bool {
        let mut place = self.place();
        match *place {
            Place::Here | Place::Coming => false,
            Place::Leaving { .. } => {
                *place = Place::Leaving { wanted: true };
                false
            }
            Place::Away => {
                *place = Place::Coming;
                true
            }
        }
    }

    /// The session wants to leave. False when it is not here. What was put before this must be looked for now.
    pub(crate) fn leaves(&self) -> bool {
        let mut place = self.place();
        let here = *place == Place::Here;
        if here {
            *place = Place::Leaving { wanted: false };
        }
        here
    }

    /// Its actors are gone and its pen is free. True when the caller has to bring it back: it was wanted meanwhile.
    #[must_use]
    pub(crate) fn left(&self) -> bool {
        let mut place = self.place();
        let wanted = *place == (Place::Leaving { wanted: true });
        *place = if wanted { Place::Coming } else { Place::Away };
        wanted
    }

    /// It stays, or is back.
    pub(crate) fn is_here(&self) {
        *self.place() = Place::Here;
    }

    /// It could not be brought back. What was put until now is the caller's to hand back.
    pub(crate) fn stays_away(&self) {
        *self.place() = Place::Away;
    }

    /// True while it is not in memory, and nobody brings it back.
    pub(crate) fn is_away(&self) -> bool {
        *self.place() == Place::Away
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        // Every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-DUR-4: whatever comes while a session leaves brings it back, once.
    #[test]
    fn who_comes_while_it_leaves_brings_it_back() {
        let place = Presence::here();
        assert!(!place.wanted(), "it is here and sees what was put");
        assert!(place.leaves());
        assert!(!place.leaves(), "once");
        assert!(!place.wanted() && !place.wanted(), "who leaves finds it");
        assert!(place.left(), "wanted meanwhile");
        assert!(!place.wanted(), "under way already");
        place.is_here();
        assert!(place.leaves() && !place.left() && place.is_away());
        assert!(place.wanted() && !place.wanted(), "the first one has it brought back");
        place.stays_away();
        assert!(place.wanted(), "and may try again");
    }
}
