//! A journal that remembers in which order its appends became durable, over all its sessions.

use crate::logs::Logs;
use portcullis::{
    Batch, Journal, JournalError, MemoryJournal, Ownership, Record, SessionId, Ticket, journal::Around,
};
use std::sync::{Arc, Mutex};

/// One append: what is durable whole or not at all.
pub(crate) type Append = (SessionId, Vec<Arc<Record>>);

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Tape {
    inner: MemoryJournal,
    appends: Arc<Mutex<Vec<Append>>>,
}

impl Tape {
    /// What another process finds that opens the journal after these appends.
    pub(crate) fn after(appends: &[Append]) -> Tape {
        let tape = Tape::default();
        for (session, records) in logs(appends) {
            tape.inner.preload(&session, records);
        }
        tape.appends.lock().unwrap().extend_from_slice(appends);
        tape
    }

    /// What another process finds that opens a journal with these logs.
    pub(crate) fn holding(logs: Logs) -> Tape {
        Tape::after(&logs.into_iter().collect::<Vec<_>>())
    }

    /// Every append so far, also those of the processes before.
    pub(crate) fn appends(&self) -> Vec<Append> {
        self.appends.lock().unwrap().clone()
    }
}

/// The logs that these appends make.
pub(crate) fn logs(appends: &[Append]) -> Logs {
    let mut logs = Logs::new();
    for (session, records) in appends {
        logs.entry(session.clone()).or_default().extend(records.iter().cloned());
    }
    logs
}

impl Around for Tape {
    type Inner = MemoryJournal;

    fn inner(&self) -> &MemoryJournal {
        &self.inner
    }

    fn on_append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        // Held over the append, so that the tape has the journal's own order.
        let mut appends = self.appends.lock().unwrap();
        let records = batch.records.clone();
        let ticket = self.inner.append(own, batch)?;
        assert_eq!(own.commits.failure(), None);
        if !records.is_empty() {
            appends.push((own.session.clone(), records));
        }
        Ok(ticket)
    }
}
