//! A session's only pen. Validate, fold and enqueue are one synchronous step that returns a ticket, so the state and the
//! journal's order never disagree between awaits.
//!
//! Public, and hidden, for the benches alone: the floors write with the same pen. An embedder who wrote with a second one
//! would be fenced.

use crate::replay::Cue;
use portcullis_runtime::{
    Batch, Body, Commits, Draft, Journal, JournalError, Ownership, Record, RequestId, Ticket,
    law::{Mark, Snapshot, State},
};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A snapshot is made at the end of a turn when there are so many records since the last one: about what an opening then
/// reads of the log.
pub(crate) const SNAPSHOT_RECORDS: u64 = 512;

/// See the module. One per live session, on its arbiter.
pub struct Ledger {
    state: RefCell<State>,
    /// `None` once the pen is given back.
    own: RefCell<Option<Ownership>>,
    /// What had failed when the pen was given back: whoever comes later is told that, not the consequence.
    cause: RefCell<Option<JournalError>>,
    journal: Arc<dyn Journal>,
    /// Where the last snapshot was made.
    mark: RefCell<Option<Mark>>,
    cue: Option<Arc<Cue>>,
    barriers: Cell<u64>,
    appends: Cell<u64>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// A pen that goes on where this state ends.
    pub fn new(state: State, own: Ownership, journal: Arc<dyn Journal>) -> Ledger {
        Ledger {
            state: RefCell::new(state),
            own: RefCell::new(Some(own)),
            cause: RefCell::default(),
            journal,
            mark: RefCell::default(),
            cue: None,
            barriers: Cell::new(0),
            appends: Cell::new(0),
        }
    }

    /// Snapshots go on from this one.
    pub(crate) fn with_mark(self, mark: Option<Mark>) -> Ledger {
        *self.mark.borrow_mut() = mark;
        self
    }

    /// Has the journal keep a snapshot, if the log has grown enough since the last one.
    pub(crate) fn keep_snapshot(&self) {
        let (own, state) = (self.own.borrow(), self.state.borrow());
        let mut mark = self.mark.borrow_mut();
        let before = mark.as_ref().map_or(0, |mark| mark.head().0);
        let Some(own) = own.as_ref().filter(|_| state.head().0 - before >= SNAPSHOT_RECORDS) else { return };
        if self.journal.keeps()
            && let Some(snapshot) = Snapshot::of(&state, mark.clone())
        {
            *mark = Some(snapshot.mark());
            self.journal.keep(own, snapshot);
        }
    }

    /// The pen of a replay.
    pub(crate) fn cued(mut self, cue: Option<Arc<Cue>>) -> Ledger {
        self.cue = cue;
        self
    }

    /// In a replay, what comes from outside at this place: someone waits for what stands behind it.
    pub(crate) fn feed(&self) -> Result<(), JournalError> {
        match self.cue.as_ref().and_then(|cue| cue.outside(true)) {
            Some(draft) => self.commit(vec![draft]).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Seals, folds and enqueues these records as one append. The first failure poisons the ledger: every later commit
    /// and ticket fails alike, so nothing is built on what may not be there.
    pub fn commit(&self, drafts: Vec<Draft>) -> Result<Ticket, JournalError> {
        self.commit_on(drafts, &mut |_| Vec::new(), &mut |_| {})
    }

    /// Like `commit`, and with what `follow` says is owed after it, until that is nothing: one append for a whole run of
    /// records between which nothing is awaited. `see` is shown each of them, so that the caller knows what was added.
    ///
    /// The closures are behind pointers: every caller then runs through the same code, which stays in the cache.
    pub(crate) fn commit_on(
        &self,
        mut drafts: Vec<Draft>,
        follow: &mut dyn FnMut(&State) -> Vec<Draft>,
        see: &mut dyn FnMut(&Arc<Record>),
    ) -> Result<Ticket, JournalError> {
        let mut own = self.own.borrow_mut();
        let own = own.as_mut().ok_or_else(|| self.released())?;
        if let Some(error) = own.commits.failure() {
            return Err(error);
        }
        let mut state = self.state.borrow_mut();
        // What panics between a fold and its append leaves the state ahead of the journal: nothing may be built on that.
        let commits = own.commits.clone();
        let appending = Appending { commits: &commits };
        let time = now_ms();
        let mut batch = Batch::default();
        let (mut cut, mut fed) = (false, false);
        'append: while !drafts.is_empty() {
            for draft in drafts {
                if let Some(cue) = self.cue.as_ref().filter(|cue| !cue.admits(state.head())) {
                    cue.refused(draft, state.head());
                    cut = true;
                    break 'append;
                }
                let record = draft.seal(state.head(), time);
                if let Err(invalid) = state.apply(&record) {
                    // The law and the driver disagree: a defect of ours. Nothing of this append may become true.
                    let error =
                        JournalError::Unavailable(format!("a record was refused by the law: {invalid}"));
                    tracing::error!(session = %own.session, %invalid, "a record was refused");
                    own.commits.failed(error.clone());
                    return Err(error);
                }
                if !fed {
                    see(&record);
                }
                note_waits(&record, &mut batch.opens, &mut batch.closes);
                if let Some(cue) = &self.cue {
                    cue.made(&record);
                }
                batch.records.push(record);
            }
            let outside = self.cue.as_ref().and_then(|cue| cue.outside(false));
            fed = outside.is_some();
            drafts = match outside {
                Some(draft) => vec![draft],
                None => follow(&state),
            };
            if self.cue.as_ref().is_some_and(|cue| !fed && !cue.follows(&drafts)) {
                break;
            }
        }
        self.appends.set(self.appends.get() + 1);
        let ticket = self.journal.append(own, batch);
        std::mem::forget(appending);
        if let Err(error) = &ticket {
            commits.failed(error.clone());
        }
        if cut {
            // Here the process went that is played again.
            commits.failed(JournalError::Unavailable("the replay ends here".into()));
        }
        ticket
    }

    /// Waits until everything committed so far is durable. The only thing that stands before an effect.
    pub async fn barrier(&self) -> Result<(), JournalError> {
        if self.durable_now() {
            return Ok(());
        }
        self.barriers.set(self.barriers.get() + 1);
        let ticket = {
            let own = self.own.borrow();
            let own = own.as_ref().ok_or_else(|| self.released())?;
            own.commits.ticket(own.head)
        };
        ticket.wait().await.map(|_| ())
    }

    /// A barrier that is open already: a journal that commits at once needs nobody to wait for it.
    pub(crate) fn durable_now(&self) -> bool {
        let durable = self.own.borrow().as_ref().is_some_and(|own| own.commits.durable() >= own.head);
        self.barriers.set(self.barriers.get() + u64::from(durable));
        durable
    }

    /// Nothing has failed, and everything committed so far is durable. Unlike a barrier, it is not counted.
    pub(crate) fn is_settled(&self) -> bool {
        let own = self.own.borrow();
        own.as_ref().is_some_and(|own| own.commits.failure().is_none() && own.commits.durable() >= own.head)
    }

    /// Looks at the state.
    pub fn read<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.state.borrow())
    }

    /// Why nothing can be committed any more, if so.
    pub(crate) fn failure(&self) -> Option<JournalError> {
        match &*self.own.borrow() {
            Some(own) => own.commits.failure(),
            None => Some(self.released()),
        }
    }

    /// Gives the pen back after all that was enqueued is settled. Nothing can be committed from the moment of the call on,
    /// whether or not the future is awaited.
    pub(crate) fn release(&self) -> impl Future<Output = Result<(), JournalError>> + use<> {
        let own = self.own.borrow_mut().take();
        if let Some(own) = &own {
            *self.cause.borrow_mut() = own.commits.failure();
        }
        let journal = self.journal.clone();
        async move {
            match own {
                Some(own) => journal.release(own).await,
                None => Ok(()),
            }
        }
    }

    fn released(&self) -> JournalError {
        let closed = || JournalError::Unavailable("this session was closed here".into());
        self.cause.borrow().clone().unwrap_or_else(closed)
    }

    /// Barriers awaited and records written since the session was opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.barriers.get(), self.state.borrow().head().0)
    }
}

/// Poisons the ledger if it is dropped, which happens only while a panic unwinds.
struct Appending<'c> {
    commits: &'c Commits,
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        self.commits.failed(JournalError::Indeterminate("an append panicked".into()));
    }
}

fn note_waits(record: &Record, opens: &mut Vec<RequestId>, closes: &mut Vec<RequestId>) {
    match &record.body {
        Body::InputRequested(r) => opens.push(r.request.clone()),
        Body::InputResolved(r) => closes.push(r.request.clone()),
        _ => {}
    }
}

/// How long it is until then, by the host's clock.
pub(crate) fn time_left(until_ms: u64) -> Duration {
    Duration::from_millis(until_ms.saturating_sub(now_ms()))
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
