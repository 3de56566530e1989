//! What a journal finds when it reads a whole session and takes nothing for granted.

use crate::{Body, Record, RequestId, Seq, law::State};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What was found in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many records are sound, from the first on: all of them, unless there is damage.
    pub records: u64,
    /// How many of these are tied to those before them by a hash. Records of before there was a chain are not; a store
    /// that keeps no text, such as the one in memory, has none that are.
    pub chained: u64,
    /// The first thing that is wrong.
    pub damage: Option<Damage>,
}

impl Verified {
    /// Is all as it was written?
    pub fn is_sound(&self) -> bool {
        self.damage.is_none()
    }
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The record.
    pub at: Seq,
    /// What is wrong with it.
    pub why: String,
}

impl Damage {
    /// Damage at a record.
    pub fn new(at: Seq, why: impl fmt::Display) -> Damage {
        Damage { at, why: why.to_string() }
    }
}

/// A verification under way, for stores: folds record after record.
#[derive(Debug, Default)]
pub struct Verifier {
    state: State,
    chained: u64,
    open: BTreeMap<RequestId, Seq>,
}

impl Verifier {
    /// The number of the next record.
    pub fn next(&self) -> Seq {
        self.state.head()
    }

    /// Takes the next record; `chained` if the store has checked its hash.
    ///
    /// # Errors
    /// The record is unlawful behind those before it, and was not taken.
    pub fn take(&mut self, record: &Arc<Record>, chained: bool) -> Result<(), Damage> {
        self.state.apply(record).map_err(|invalid| Damage::new(self.state.head(), invalid))?;
        self.chained += u64::from(chained);
        match &record.body {
            Body::InputRequested(asked) => {
                self.open.insert(asked.request.clone(), record.seq);
            }
            Body::InputResolved(answered) => {
                self.open.remove(&answered.request);
            }
            _ => {}
        }
        Ok(())
    }

    /// The questions that are open by the records taken, and which record asks.
    pub fn open(&self) -> &BTreeMap<RequestId, Seq> {
        &self.open
    }

    /// What was found.
    pub fn finish(self, damage: Option<Damage>) -> Verified {
        Verified { records: self.state.head().0, chained: self.chained, damage }
    }
}
