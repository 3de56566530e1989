//! Who may write where: the sessions table as the writer knows it. Each transaction reads what it lacks, changes it here,
//! and writes every changed row once, on the condition that it still is what was read.

use crate::{error::Trouble, stored};
use portcullis_runtime::{JournalError, Seq, SessionId, journal::Chain};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pen {
    pub(crate) owner: Option<u128>,
    pub(crate) epoch: i64,
    pub(crate) head: i64,
    /// Where the chain of its records stands, once that was read.
    pub(crate) chain: Option<Chain>,
}

/// The rows of the sessions in use. A free session is forgotten with the commit that freed it.
#[derive(Debug, Default)]
pub(crate) struct Pens {
    known: HashMap<SessionId, Pen>,
    /// What the transaction changed, as it was before; `None` for a row that it creates.
    before: HashMap<SessionId, Option<Pen>>,
}

impl Pens {
    /// The row, if there is one.
    pub(crate) fn get(
        &mut self,
        connection: &Connection,
        session: &SessionId,
    ) -> Result<Option<Pen>, Trouble> {
        if let Some(pen) = self.known.get(session) {
            return Ok(Some(*pen));
        }
        let row = connection
            .prepare_cached("SELECT owner, epoch, head FROM sessions WHERE session = ?1")?
            .query_row([session.as_str()], |row| {
                let owner: Option<[u8; 16]> = row.get(0)?;
                let owner = owner.map(u128::from_be_bytes);
                Ok(Pen { owner, epoch: row.get(1)?, head: row.get(2)?, chain: None })
            })
            .optional()
            .map_err(|e| Trouble::within(session, Seq(0), e))?;
        if let Some(pen) = row {
            self.known.insert(session.clone(), pen);
        }
        Ok(row)
    }

    /// Where the chain of the session's records stands: read before its first append only, so that a claim costs nothing.
    pub(crate) fn chain(connection: &Connection, session: &SessionId, pen: &Pen) -> Result<Chain, Trouble> {
        if let Some(chain) = pen.chain {
            return Ok(chain);
        }
        let head = pen.head.cast_unsigned();
        stored::chain(connection, session, head)
            .map_err(|e| Trouble::within(session, Seq(head.saturating_sub(1)), e))
    }

    /// Changes the row, in this transaction.
    pub(crate) fn set(&mut self, session: &SessionId, pen: Pen) {
        let before = self.known.insert(session.clone(), pen);
        self.before.entry(session.clone()).or_insert(before);
    }

    /// Writes the changed rows: the fence. A row that is not as it was read fails the transaction.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Trouble> {
        for (session, before) in &self.before {
            let Some(after) = self.known.get(session) else { continue };
            let written = change(connection, session, *before, *after)
                .map_err(|e| Trouble::within(session, Seq(after.head.cast_unsigned()), e))?;
            if written != 1 {
                let why = format!("session `{session}` was changed by another program");
                return Err(Trouble::Operation(JournalError::Unavailable(why)));
            }
        }
        Ok(())
    }

    /// The transaction is in the file.
    pub(crate) fn keep(&mut self) {
        for (session, _) in self.before.drain() {
            if self.known.get(&session).is_some_and(|pen| pen.owner.is_none()) {
                self.known.remove(&session);
            }
        }
    }

    /// The transaction is not, or may not be: everything is read again.
    pub(crate) fn undo(&mut self) {
        self.before.clear();
        self.known.clear();
    }
}

fn change(
    connection: &Connection,
    session: &SessionId,
    before: Option<Pen>,
    after: Pen,
) -> rusqlite::Result<usize> {
    let owner = after.owner.map(u128::to_be_bytes);
    match before {
        None => connection
            .prepare_cached("INSERT INTO sessions (session, owner, epoch, head) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![session.as_str(), owner, after.epoch, after.head]),
        Some(pen) if pen.owner == after.owner => connection
            // Without the owner among the columns set, its index is left alone.
            .prepare_cached(
                "UPDATE sessions SET epoch = ?2, head = ?3
                 WHERE session = ?1 AND owner IS ?4 AND epoch = ?5 AND head = ?6",
            )?
            .execute(params![session.as_str(), after.epoch, after.head, owner, pen.epoch, pen.head]),
        Some(pen) => connection
            .prepare_cached(
                "UPDATE sessions SET epoch = ?2, head = ?3, owner = ?4
                 WHERE session = ?1 AND owner IS ?5 AND epoch = ?6 AND head = ?7",
            )?
            .execute(params![
                session.as_str(),
                after.epoch,
                after.head,
                owner,
                pen.owner.map(u128::to_be_bytes),
                pen.epoch,
                pen.head,
            ]),
    }
}
