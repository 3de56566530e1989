//! The journal: where records become durable. A trait, what its errors ask for, and the watermark that barriers, tickets
//! and subscribers all wait on. Stores live in bridges; [`MemoryJournal`] is here because every rule is tested on it.

mod around;
mod chain;
mod commits;
#[cfg(feature = "conformance")]
pub mod conformance;
mod inbox;
mod memory;
mod verify;

pub use around::Around;
pub use chain::{Broken, Chain, Hash};
pub use commits::{Commits, Subscription, Ticket};
pub use inbox::{InboxCommand, Posted};
pub use memory::{Fault, MemoryJournal};
pub use verify::{Damage, Verified, Verifier};

use crate::{
    Body, CommandId, Record, RequestId, Seq, SessionId,
    law::{Kept, Snapshot},
};
use futures::future::{BoxFuture, ready};
use std::sync::Arc;

/// A session's pen, as the store knows it. Not cloneable: there is one per epoch, and an older one is refused.
#[derive(Debug)]
pub struct Ownership {
    /// The session.
    pub session: SessionId,
    /// The process (or runtime) that holds it.
    pub incarnation: u128,
    /// Rises with each claim; part of the fence of every append.
    pub epoch: u64,
    /// The next record's number: how many are enqueued or stored.
    pub head: Seq,
    /// What is durable, and who waits for it.
    pub commits: Arc<Commits>,
}

/// One append: all of it or nothing.
#[derive(Debug, Default)]
pub struct Batch {
    /// The records, numbered from the owner's head without a gap.
    pub records: Vec<Arc<Record>>,
    /// Questions opened by these records.
    pub opens: Vec<RequestId>,
    /// Questions settled by these records.
    pub closes: Vec<RequestId>,
}

impl Batch {
    /// These records, with the questions that they open and settle.
    pub fn of(records: Vec<Arc<Record>>) -> Batch {
        let mut batch = Batch::default();
        for record in &records {
            match &record.body {
                Body::InputRequested(asked) => batch.opens.push(asked.request.clone()),
                // Opened in this very batch, it is settled without having waited.
                Body::InputResolved(settled) if batch.opens.contains(&settled.request) => {
                    batch.opens.retain(|request| *request != settled.request);
                }
                Body::InputResolved(settled) => batch.closes.push(settled.request.clone()),
                _ => {}
            }
        }
        batch.records = records;
        batch
    }
}

/// A session as a journal lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// The session.
    pub session: SessionId,
    /// How many records it has.
    pub records: u64,
    /// The questions it waits on.
    pub waits: Vec<RequestId>,
}

/// May a claim create the session?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It may.
    CreateOrOpen,
    /// It must exist.
    OpenOnly,
}

/// A store of session logs. Cloned by `Arc`; every call may come from any thread.
pub trait Journal: Send + Sync + 'static {
    /// Takes the pen of a session: the epoch rises, and whoever held it before is fenced. `AlreadyOwned` while another
    /// live process or runtime holds it.
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>>;

    /// Enqueues an append. The order is fixed when this returns, the head has moved, and the records are durable when
    /// the ticket resolves; so a session may have several appends in one group commit. After the first failed append
    /// every later ticket of the same ownership fails alike. An error here means: nothing enqueued, head unmoved.
    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError>;

    /// Gives the pen back after all that was enqueued is settled.
    fn release(&self, own: Ownership) -> BoxFuture<'static, Result<(), JournalError>>;

    /// Reads up to `limit` durable records from `from` on, in order. Needs no ownership.
    fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>>;

    /// Reads all that is stored of a session and says whether it is as it was written: each record reads, has its number
    /// without a gap, is lawful behind those before it, and agrees with whatever else the store keeps about it. Changes
    /// nothing, and needs no ownership. Damage is an answer and no error.
    ///
    /// What every store can do is to read and to fold; one that keeps more has to check more.
    fn verify(&self, session: &SessionId) -> BoxFuture<'static, Result<Verified, JournalError>> {
        let read = self.read(session, Seq(0), usize::MAX);
        Box::pin(async move {
            let mut verifier = Verifier::default();
            let damage = match read.await {
                Ok(records) => records.iter().find_map(|record| verifier.take(record, false).err()),
                Err(JournalError::Corrupt { at, why, .. }) => Some(Damage { at, why }),
                Err(error) => return Err(error),
            };
            Ok(verifier.finish(damage))
        })
    }

    /// True for a store that keeps snapshots.
    fn keeps(&self) -> bool {
        false
    }

    /// Keeps a snapshot in the place of the session's last one, some time after all before it is durable. Nobody waits for
    /// it, and nothing fails with it: what cannot be kept is not.
    fn keep(&self, _own: &Ownership, _snapshot: Snapshot) {}

    /// The session's last snapshot, if one is kept. A cache: without it, or when this fails, the log is read whole.
    fn kept(&self, _session: &SessionId) -> BoxFuture<'static, Result<Option<Kept>, JournalError>> {
        Box::pin(ready(Ok(None)))
    }

    /// Puts a command into the inbox of a session that exists: `Ok` means that it is durable, or that it was taken before
    /// under this name. Needs no ownership. A name is one command's: what is put under it later is not kept.
    ///
    /// A store without an inbox says `Unavailable`.
    fn submit(
        &self,
        _session: &SessionId,
        _id: &CommandId,
        _command: &InboxCommand,
    ) -> BoxFuture<'static, Result<Posted, JournalError>> {
        let why = "this journal keeps no inbox: send the command to the process that has the session";
        Box::pin(ready(Err(JournalError::Unavailable(why.into()))))
    }

    /// The commands that wait for a session, in the order in which they came.
    fn pending(
        &self,
        _session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<(CommandId, InboxCommand)>, JournalError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Takes a command out of the inbox, once what it caused is durable; with `refused`, because it could not be done, which
    /// whoever submits it again is told. One that is not there is no error.
    fn taken(
        &self,
        _session: &SessionId,
        _id: &CommandId,
        _refused: Option<Arc<str>>,
    ) -> BoxFuture<'static, Result<(), JournalError>> {
        Box::pin(ready(Ok(())))
    }

    /// The sessions for which commands wait, by name.
    fn posted(&self) -> BoxFuture<'static, Result<Vec<SessionId>, JournalError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Every session, by name.
    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>>;
}

/// Why a journal did not do as asked. `Clone`, because one failed commit answers many waiters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A later claim took the pen.
    #[error("this session was taken over (epoch {epoch} now); this owner must stop")]
    Fenced {
        /// The epoch in force.
        epoch: u64,
    },
    /// The log is not as long as the owner thinks.
    #[error("the log's head is {head}, not what its owner expected")]
    HeadMismatch {
        /// The true head.
        head: Seq,
    },
    /// Another live process holds the session or the file.
    #[error("{0}")]
    AlreadyOwned(String),
    /// No such session.
    #[error("there is no session `{0}` in this journal")]
    NotFound(SessionId),
    /// The queue is full; nothing was written.
    #[error("the journal is busy; nothing was written")]
    Busy,
    /// The store did not answer; nothing was written.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// It may or may not be written: read again before any effect.
    #[error("it is not known whether the append was written: {0}")]
    Indeterminate(String),
    /// No space; acknowledged records stay.
    #[error("the journal's storage is full; free space, then go on")]
    StorageFull,
    /// A record does not read as written.
    #[error("session `{session}` is damaged at record {at}: {why}; nothing was overwritten")]
    Corrupt {
        /// The session.
        session: SessionId,
        /// Where.
        at: Seq,
        /// What is wrong.
        why: String,
    },
    /// One append is larger than the store takes.
    #[error("an append of {bytes} bytes is larger than the journal takes")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A newer version wrote the store.
    #[error("the journal has schema {found}, this version knows up to {known}: use the newer version")]
    SchemaTooNew {
        /// What was found.
        found: u32,
        /// What is known here.
        known: u32,
    },
}

/// What to do about a [`JournalError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Stop: someone else owns it.
    Stop,
    /// Read again before anything else.
    Reread,
    /// Nothing was written: try again later.
    Retry,
    /// Wait for room, or shed load.
    Shed,
    /// Leave that session alone and look at it.
    Quarantine,
    /// Ask for something else.
    Mend,
}

impl JournalError {
    /// What to do about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            JournalError::Fenced { .. } | JournalError::AlreadyOwned(_) => Remedy::Stop,
            JournalError::HeadMismatch { .. } | JournalError::Indeterminate(_) => Remedy::Reread,
            JournalError::Unavailable(_) | JournalError::StorageFull => Remedy::Retry,
            JournalError::Busy => Remedy::Shed,
            JournalError::Corrupt { .. } => Remedy::Quarantine,
            JournalError::NotFound(_) | JournalError::TooLarge { .. } | JournalError::SchemaTooNew { .. } => {
                Remedy::Mend
            }
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            JournalError::Fenced { .. } => "journal_fenced",
            JournalError::HeadMismatch { .. } => "journal_head_mismatch",
            JournalError::AlreadyOwned(_) => "journal_already_owned",
            JournalError::NotFound(_) => "journal_not_found",
            JournalError::Busy => "journal_busy",
            JournalError::Unavailable(_) => "journal_unavailable",
            JournalError::Indeterminate(_) => "journal_indeterminate",
            JournalError::StorageFull => "journal_storage_full",
            JournalError::Corrupt { .. } => "journal_corrupt",
            JournalError::TooLarge { .. } => "journal_too_large",
            JournalError::SchemaTooNew { .. } => "journal_schema_too_new",
        }
    }
}
