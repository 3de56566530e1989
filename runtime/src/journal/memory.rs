//! A journal in memory, for tests and for hosts that want no durability. Commits at once; faults can be injected.

use super::{
    Batch, Claim, Commits, InboxCommand, Journal, JournalError, Ownership, Posted, SessionHead, Ticket,
};
use crate::{CommandId, Record, RequestId, Seq, SessionId};
use futures::future::{BoxFuture, ready};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a fault does to one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The append fails before anything is written.
    Before(JournalError),
    /// It is written, and then reported as failed.
    After(JournalError),
    /// It is refused at once, in its stead: nothing enqueued, head unmoved.
    Instead(JournalError),
}

type Inject = dyn Fn(&SessionId, &Batch) -> Option<Fault> + Send + Sync;

/// The journal. Clones share their sessions.
#[derive(Clone, Default)]
pub struct MemoryJournal {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// A std mutex: every operation is a few map and vector steps.
    sessions: Mutex<HashMap<SessionId, Log>>,
    inject: Option<Box<Inject>>,
}

#[derive(Default)]
struct Log {
    records: Vec<Arc<Record>>,
    epoch: u64,
    owner: Option<u128>,
    waits: Vec<RequestId>,
    /// What waits, or was refused.
    inbox: Vec<(CommandId, InboxCommand, Option<Arc<str>>)>,
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryJournal")
    }
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    /// An empty journal in which `inject` may break appends: it is asked before each one.
    pub fn with_faults(
        inject: impl Fn(&SessionId, &Batch) -> Option<Fault> + Send + Sync + 'static,
    ) -> MemoryJournal {
        MemoryJournal { shared: Arc::new(Shared { inject: Some(Box::new(inject)), ..Shared::default() }) }
    }

    /// A session's records so far.
    pub fn records(&self, session: &SessionId) -> Vec<Arc<Record>> {
        self.sessions().get(session).map(|log| log.records.clone()).unwrap_or_default()
    }

    /// A journal that holds what this one holds now: what another process would find after a kill.
    pub fn copy(&self) -> MemoryJournal {
        let copied = MemoryJournal::new();
        for (id, log) in self.sessions().iter() {
            let log = Log {
                records: log.records.clone(),
                epoch: log.epoch,
                owner: None,
                waits: log.waits.clone(),
                inbox: log.inbox.clone(),
            };
            copied.sessions().insert(id.clone(), log);
        }
        copied
    }

    /// Puts a session's records in place, for tests that start from a given log.
    pub fn preload(&self, session: &SessionId, records: Vec<Arc<Record>>) {
        self.sessions().insert(session.clone(), Log { records, ..Log::default() });
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Log>> {
        // Each change under the lock is complete or absent.
        self.shared.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        let mut sessions = self.sessions();
        if claim == Claim::OpenOnly && !sessions.contains_key(session) {
            return Box::pin(ready(Err(JournalError::NotFound(session.clone()))));
        }
        let log = sessions.entry(session.clone()).or_default();
        if log.owner.is_some_and(|owner| owner != incarnation) {
            let why = format!("session `{session}` is open in another runtime");
            return Box::pin(ready(Err(JournalError::AlreadyOwned(why))));
        }
        log.owner = Some(incarnation);
        log.epoch += 1;
        let head = Seq(log.records.len() as u64);
        let own = Ownership {
            session: session.clone(),
            incarnation,
            epoch: log.epoch,
            head,
            commits: Commits::new(head),
        };
        Box::pin(ready(Ok(own)))
    }

    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        let fault = self.shared.inject.as_ref().and_then(|inject| inject(&own.session, &batch));
        if let Some(Fault::Instead(error)) = fault {
            return Err(error);
        }
        let upto = Seq(own.head.0 + batch.records.len() as u64);
        let ticket = own.commits.ticket(upto);
        let before = own.head;
        own.head = upto;
        if own.commits.failure().is_some() {
            return Ok(ticket);
        }
        if let Some(Fault::Before(error)) = fault {
            own.commits.failed(error);
            return Ok(ticket);
        }
        {
            let mut sessions = self.sessions();
            let log = sessions.entry(own.session.clone()).or_default();
            let refused = if log.epoch != own.epoch || log.owner != Some(own.incarnation) {
                Some(JournalError::Fenced { epoch: log.epoch })
            } else if log.records.len() as u64 != before.0 {
                Some(JournalError::HeadMismatch { head: Seq(log.records.len() as u64) })
            } else {
                None
            };
            if let Some(error) = refused {
                own.commits.failed(error);
                return Ok(ticket);
            }
            log.records.extend(batch.records.iter().cloned());
            log.waits.extend(batch.opens);
            log.waits.retain(|wait| !batch.closes.contains(wait));
        }
        match fault {
            Some(Fault::After(error)) => own.commits.failed(error),
            _ => own.commits.committed(&batch.records),
        }
        Ok(ticket)
    }

    fn release(&self, own: Ownership) -> BoxFuture<'static, Result<(), JournalError>> {
        if let Some(log) = self.sessions().get_mut(&own.session)
            && log.epoch == own.epoch
        {
            log.owner = None;
        }
        Box::pin(ready(Ok(())))
    }

    fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        let read = match self.sessions().get(session) {
            None => Err(JournalError::NotFound(session.clone())),
            Some(log) => {
                let from = usize::try_from(from.0).unwrap_or(usize::MAX);
                Ok(log.records.iter().skip(from).take(limit).cloned().collect())
            }
        };
        Box::pin(ready(read))
    }

    fn submit(
        &self,
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> BoxFuture<'static, Result<Posted, JournalError>> {
        let mut sessions = self.sessions();
        let log = sessions.get(&command.log(session));
        let caused = log.and_then(|log| log.records.iter().find(|record| record.key.as_ref() == Some(id)));
        let caused = caused.map(|record| record.seq);
        let posted = match sessions.get_mut(session) {
            None => Err(JournalError::NotFound(session.clone())),
            Some(log) => {
                let known = log.inbox.iter().find(|(known, ..)| known == id);
                Ok(match (caused, known) {
                    (Some(seq), _) => Posted::Taken(seq),
                    (None, Some((_, _, Some(why)))) => Posted::Refused(why.clone()),
                    (None, Some(_)) => Posted::Waits,
                    (None, None) => {
                        log.inbox.push((id.clone(), command.clone(), None));
                        Posted::Waits
                    }
                })
            }
        };
        Box::pin(ready(posted))
    }

    fn pending(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<(CommandId, InboxCommand)>, JournalError>> {
        let sessions = self.sessions();
        let inbox = sessions.get(session).map_or(&[][..], |log| &log.inbox);
        let waits = inbox.iter().filter(|(.., refused)| refused.is_none());
        Box::pin(ready(Ok(waits.map(|(id, command, _)| (id.clone(), command.clone())).collect())))
    }

    fn taken(
        &self,
        session: &SessionId,
        id: &CommandId,
        refused: Option<Arc<str>>,
    ) -> BoxFuture<'static, Result<(), JournalError>> {
        if let Some(log) = self.sessions().get_mut(session) {
            match refused {
                Some(why) => {
                    let waits = log.inbox.iter_mut().find(|(known, _, why)| known == id && why.is_none());
                    waits.into_iter().for_each(|(_, _, refused)| *refused = Some(why.clone()));
                }
                None => log.inbox.retain(|(known, ..)| known != id),
            }
        }
        Box::pin(ready(Ok(())))
    }

    fn posted(&self) -> BoxFuture<'static, Result<Vec<SessionId>, JournalError>> {
        let sessions = self.sessions();
        let waits =
            sessions.iter().filter(|(_, log)| log.inbox.iter().any(|(.., refused)| refused.is_none()));
        let mut posted: Vec<SessionId> = waits.map(|(id, _)| id.clone()).collect();
        posted.sort();
        Box::pin(ready(Ok(posted)))
    }

    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>> {
        let mut heads: Vec<SessionHead> = self
            .sessions()
            .iter()
            .map(|(id, log)| SessionHead {
                session: id.clone(),
                records: log.records.len() as u64,
                waits: log.waits.clone(),
            })
            .collect();
        heads.sort_by(|a, b| a.session.cmp(&b.session));
        Box::pin(ready(Ok(heads)))
    }
}
