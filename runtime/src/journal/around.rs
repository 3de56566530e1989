//! A journal around another one.

use super::{
    Batch, Claim, InboxCommand, Journal, JournalError, Ownership, Posted, SessionHead, Ticket, Verified,
};
use crate::{
    CommandId, Record, Seq, SessionId,
    law::{Kept, Snapshot},
};
use futures::future::BoxFuture;
use std::sync::Arc;

/// A journal that stands around another one (that counts, delays or breaks what goes through) is one of these: it names the
/// inner one, and what it does not do itself is handed on, so that nothing of the inner one is lost.
pub trait Around: Send + Sync + 'static {
    /// What it stands around.
    type Inner: Journal;

    /// What it stands around.
    fn inner(&self) -> &Self::Inner;

    /// In the place of [`Journal::claim`].
    fn on_claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        self.inner().claim(session, incarnation, claim)
    }

    /// In the place of [`Journal::append`].
    fn on_append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        self.inner().append(own, batch)
    }

    /// In the place of [`Journal::read`].
    fn on_read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        self.inner().read(session, from, limit)
    }
}

impl<J: Around> Journal for J {
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        self.on_claim(session, incarnation, claim)
    }

    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        self.on_append(own, batch)
    }

    fn release(&self, own: Ownership) -> BoxFuture<'static, Result<(), JournalError>> {
        self.inner().release(own)
    }

    fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        self.on_read(session, from, limit)
    }

    fn verify(&self, session: &SessionId) -> BoxFuture<'static, Result<Verified, JournalError>> {
        self.inner().verify(session)
    }

    fn keeps(&self) -> bool {
        self.inner().keeps()
    }

    fn keep(&self, own: &Ownership, snapshot: Snapshot) {
        self.inner().keep(own, snapshot);
    }

    fn kept(&self, session: &SessionId) -> BoxFuture<'static, Result<Option<Kept>, JournalError>> {
        self.inner().kept(session)
    }

    fn submit(
        &self,
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> BoxFuture<'static, Result<Posted, JournalError>> {
        self.inner().submit(session, id, command)
    }

    fn pending(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<(CommandId, InboxCommand)>, JournalError>> {
        self.inner().pending(session)
    }

    fn taken(
        &self,
        session: &SessionId,
        id: &CommandId,
        refused: Option<Arc<str>>,
    ) -> BoxFuture<'static, Result<(), JournalError>> {
        self.inner().taken(session, id, refused)
    }

    fn posted(&self) -> BoxFuture<'static, Result<Vec<SessionId>, JournalError>> {
        self.inner().posted()
    }

    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>> {
        self.inner().sessions()
    }
}
