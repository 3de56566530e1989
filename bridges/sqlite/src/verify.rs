//! Verification of a session: every row against its line, its neighbours, the law, and the tables beside it.

use crate::{
    error::damage,
    stored::{self, BESIDE, COLUMNS, FROM, Stored},
};
use portcullis_runtime::{
    JournalError, RequestId, Seq, SessionId,
    journal::{Chain, Damage, Verified, Verifier},
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::{collections::BTreeMap, sync::Arc};

/// How many records a step takes.
const STEP: u64 = 512;

/// A verification under way.
pub(crate) struct Pass {
    session: SessionId,
    verifier: Verifier,
    chain: Chain,
    epoch: i64,
}

/// How far a step came.
pub(crate) enum Step {
    Further(Box<Pass>),
    Done(Verified),
}

/// Why a step found no more that is sound.
enum Stop {
    Damage(Damage),
    Error(JournalError),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Stop {
        Stop::Damage(damage)
    }
}

impl Pass {
    pub(crate) fn new(session: &SessionId) -> Pass {
        Pass { session: session.clone(), verifier: Verifier::default(), chain: Chain::default(), epoch: 0 }
    }

    /// Takes the next records, and what is beside them once all are taken.
    pub(crate) fn step(mut self: Box<Pass>, connection: &mut Connection) -> Result<Step, JournalError> {
        let damage = match self.look(connection) {
            Ok(false) => return Ok(Step::Further(self)),
            Ok(true) => None,
            Err(Stop::Damage(damage)) => Some(damage),
            Err(Stop::Error(error)) => return Err(error),
        };
        Ok(Step::Done(self.verifier.finish(damage)))
    }

    /// True when that was all. One snapshot: an append shows whole or not at all.
    fn look(&mut self, connection: &mut Connection) -> Result<bool, Stop> {
        let snapshot = connection.transaction().map_err(|e| self.failed(e))?;
        let (head, epoch): (i64, i64) = snapshot
            .prepare_cached("SELECT head, epoch FROM sessions WHERE session = ?1")
            .and_then(|mut row| {
                row.query_row([self.session.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(|e| self.failed(e))?
            .ok_or_else(|| Stop::Error(JournalError::NotFound(self.session.clone())))?;
        let from = self.verifier.next().0;
        let end = head.cast_unsigned().min(from + STEP);
        let mut statement = snapshot
            .prepare_cached(&format!(
                "SELECT {COLUMNS}, {BESIDE}, epoch FROM {FROM}
                 WHERE session = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq"
            ))
            .map_err(|e| self.failed(e))?;
        let mut rows = statement
            .query(params![self.session.as_str(), from.cast_signed(), end.cast_signed()])
            .map_err(|e| self.failed(e))?;
        while let Some(row) = rows.next().map_err(|e| self.failed(e))? {
            self.take(row)?;
        }
        if self.verifier.next().0 < end {
            return Err(self.damaged(format!("it is missing; the session has {head} records")));
        }
        if end < head.cast_unsigned() {
            return Ok(false);
        }
        if epoch < self.epoch {
            let why = format!("it is of epoch {}, and the session of epoch {epoch}", self.epoch);
            return Err(Damage::new(Seq(end.saturating_sub(1)), why).into());
        }
        self.beside(&snapshot, head)?;
        Ok(true)
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), Stop> {
        let seq = self.verifier.next();
        let damaged = |why: String| Stop::Damage(Damage::new(seq, why));
        let stored = Stored::of(row, &self.session, seq.0, &mut self.chain).map_err(damaged)?;
        stored::agree(row).map_err(damaged)?;
        let epoch: i64 = row.get("epoch").map_err(|e| damaged(e.to_string()))?;
        if epoch < self.epoch {
            return Err(damaged(format!("it is of epoch {epoch}, and the one before it of {}", self.epoch)));
        }
        self.epoch = epoch;
        Ok(self.verifier.take(&Arc::new(stored.record), stored.chained)?)
    }

    /// What else the file says of the session.
    fn beside(&self, snapshot: &Transaction<'_>, head: i64) -> Result<(), Stop> {
        let session = self.session.as_str();
        let beyond: Option<i64> = snapshot
            .prepare_cached("SELECT min(seq) FROM records WHERE session = ?1 AND (seq < 0 OR seq >= ?2)")
            .and_then(|mut beyond| beyond.query_row(params![session, head], |row| row.get(0)))
            .map_err(|e| self.failed(e))?;
        if let Some(seq) = beyond {
            return Err(self.damaged(format!("the session has {head} records, and yet a record {seq}")));
        }
        let mut waits = snapshot
            .prepare_cached("SELECT request, seq FROM waits WHERE session = ?1 AND state = 'open'")
            .map_err(|e| self.failed(e))?;
        let waits: BTreeMap<RequestId, Seq> = waits
            .query_map([session], |row| {
                Ok((
                    RequestId::from_text(row.get::<_, String>(0)?),
                    Seq(row.get::<_, i64>(1)?.cast_unsigned()),
                ))
            })
            .and_then(Iterator::collect)
            .map_err(|e| self.failed(e))?;
        let asked = self.verifier.open();
        if let Some((request, at)) = asked.iter().find(|(request, at)| waits.get(request) != Some(at)) {
            let why = format!("it asks `{request}`, which does not stand among the open questions");
            return Err(Damage::new(*at, why).into());
        }
        if let Some((request, at)) = waits.iter().find(|(request, _)| !asked.contains_key(request)) {
            let why = format!("`{request}` stands among the open questions, and no record asks it");
            return Err(Damage::new(*at, why).into());
        }
        Ok(())
    }

    fn damaged(&self, why: String) -> Stop {
        Damage::new(self.verifier.next(), why).into()
    }

    fn failed(&self, error: rusqlite::Error) -> Stop {
        match damage(&error) {
            Some(why) => self.damaged(why),
            None => Stop::Error(JournalError::Unavailable(error.to_string())),
        }
    }
}
