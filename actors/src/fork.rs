//! Forking a session: a copy of its log under another name, in one append.

use crate::{host::PAGE, ledger::now_ms, runtime::Runtime};
use portcullis_runtime::{
    Batch, Claim, ForkAt, ForkError as Unforked, Journal, JournalError, Record, Seq, SessionId, fork,
};
use std::sync::Arc;

/// Why a session was not forked. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkFailed {
    /// It cannot be forked, or not there.
    #[error(transparent)]
    Refused(#[from] Unforked),
    /// There is a session of that name already.
    #[error("there is a session `{0}` already: give the fork another name")]
    Exists(SessionId),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Runtime {
    /// Forks a session: `child` is created with a copy of its log up to there, and can then be opened. The parent is only
    /// read, and may be live.
    pub async fn fork(&self, parent: &SessionId, at: ForkAt, child: &SessionId) -> Result<(), ForkFailed> {
        let shared = self.shared();
        if shared.journal.sessions().await?.iter().any(|head| head.session == *child && head.records > 0) {
            return Err(ForkFailed::Exists(child.clone()));
        }
        let records = fork(&read(&*shared.journal, parent).await?, at, child, now_ms())?;
        let mut own = shared.journal.claim(child, shared.incarnation, Claim::CreateOrOpen).await?;
        if own.head > Seq(0) {
            // Somebody was faster.
            shared.journal.release(own).await?;
            return Err(ForkFailed::Exists(child.clone()));
        }
        // Every question in it is settled, so none waits.
        let batch = Batch { records, ..Batch::default() };
        let appended = match shared.journal.append(&mut own, batch) {
            Ok(ticket) => ticket.wait().await.map(|_| ()),
            Err(error) => Err(error),
        };
        shared.journal.release(own).await?;
        Ok(appended?)
    }
}

async fn read(journal: &dyn Journal, session: &SessionId) -> Result<Vec<Arc<Record>>, JournalError> {
    let mut records = Vec::new();
    loop {
        let page = journal.read(session, Seq(records.len() as u64), PAGE).await?;
        if page.is_empty() {
            return Ok(records);
        }
        records.extend(page);
    }
}
