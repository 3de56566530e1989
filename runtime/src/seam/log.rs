//! A session's log, as code at the seams may read it.

use crate::{Journal, JournalError, Record, Seq, SessionId};
use std::{fmt, sync::Arc};

/// Reads a session's log. What is in it is durable; nothing can be changed through it.
///
/// By the time a bridge's handler begins, all that was committed before is there to be read. For a native handler the last
/// records may be on their way to the journal.
#[derive(Clone)]
pub struct SessionLog {
    journal: Arc<dyn Journal>,
    session: SessionId,
}

impl SessionLog {
    /// Whose log it is.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Up to `limit` records from `from` on, in order; none when there is nothing there yet.
    ///
    /// # Errors
    /// What the journal says.
    pub async fn read(&self, from: Seq, limit: usize) -> Result<Vec<Arc<Record>>, JournalError> {
        self.journal.read(&self.session, from, limit).await
    }
}

impl fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLog").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Where the logs of a session's tree are. It says nothing about the session, so any two are equal.
#[derive(Clone, Default)]
pub(super) struct Stored(pub(super) Option<Arc<dyn Journal>>);

impl Stored {
    pub(super) fn log(&self, session: &SessionId) -> Option<SessionLog> {
        let journal = self.0.clone()?;
        Some(SessionLog { journal, session: session.clone() })
    }
}

impl PartialEq for Stored {
    fn eq(&self, _: &Stored) -> bool {
        true
    }
}

impl Eq for Stored {}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "stored" } else { "nowhere" })
    }
}
