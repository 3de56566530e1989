//! Snapshots: a cache beside the log. Row -1 of a session is its state, the others are the parts of its conversation, by
//! the head at which each was made.

use portcullis_runtime::{
    Ownership, Seq, SessionId,
    journal::Hash,
    law::{Kept, Snapshot},
};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// A snapshot on its way to the file.
#[derive(Debug)]
pub(crate) struct Keeping {
    session: SessionId,
    epoch: u64,
    snapshot: Snapshot,
}

impl Keeping {
    pub(crate) fn new(own: &Ownership, snapshot: Snapshot) -> Keeping {
        Keeping { session: own.session.clone(), epoch: own.epoch, snapshot }
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// In a transaction of its own, behind its owner's fence: the pen may be back by now, but nobody may have had it since.
    /// False when somebody has, or when not all before it was written.
    pub(crate) fn write(&self, connection: &mut Connection) -> rusqlite::Result<bool> {
        let (session, head) = (self.session.as_str(), self.snapshot.head());
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let ours = transaction
            .prepare_cached("SELECT 1 FROM sessions WHERE session = ?1 AND epoch = ?2 AND head >= ?3")?
            .exists(params![session, self.epoch.cast_signed(), head.0.cast_signed()])?;
        if !ours {
            return Ok(false);
        }
        let written = self.snapshot.write();
        if written.first {
            transaction.execute("DELETE FROM snapshots WHERE session = ?1", [session])?;
        }
        let mut put = transaction
            .prepare_cached("INSERT OR REPLACE INTO snapshots (session, seq, body) VALUES (?1, ?2, ?3)")?;
        let mut state = head.0.to_le_bytes().to_vec();
        state.extend(hash(&transaction, session, head)?);
        state.extend(&written.state);
        put.execute(params![session, STATE, state])?;
        put.execute(params![session, head.0.cast_signed(), written.chunk])?;
        drop(put);
        transaction.commit()?;
        self.snapshot.is_kept(&written);
        Ok(true)
    }
}

/// The row of a session's state.
const STATE: i64 = -1;

/// The hash of the last record before `head`: a snapshot belongs to the log that has it there.
fn hash(connection: &Connection, session: &str, head: Seq) -> rusqlite::Result<Hash> {
    let last = head.0.checked_sub(1).map(u64::cast_signed);
    let hash: Option<Option<Hash>> = connection
        .prepare_cached("SELECT hash FROM records WHERE session = ?1 AND seq = ?2")?
        .query_row(params![session, last], |row| row.get(0))
        .optional()?;
    Ok(hash.flatten().unwrap_or_default())
}

/// What is kept of a session. Nothing, if it is of another log.
pub(crate) fn read(connection: &mut Connection, session: &SessionId) -> rusqlite::Result<Option<Kept>> {
    let transaction = connection.transaction()?;
    let mut statement =
        transaction.prepare_cached("SELECT seq, body FROM snapshots WHERE session = ?1 ORDER BY seq")?;
    let mut rows = statement.query([session.as_str()])?;
    let (mut state, mut chunks) = (None, Vec::new());
    while let Some(row) = rows.next()? {
        let body: Vec<u8> = row.get(1)?;
        match row.get(0)? {
            STATE => state = Some(body),
            _ => chunks.push(body),
        }
    }
    let Some(state) = state else { return Ok(None) };
    let read = || {
        let (head, rest) = state.split_first_chunk::<8>()?;
        let (of, state) = rest.split_first_chunk::<32>()?;
        Some((Seq(u64::from_le_bytes(*head)), *of, state.to_vec()))
    };
    let Some((head, of, state)) = read() else { return Ok(None) };
    let same = hash(&transaction, session.as_str(), head)? == of;
    Ok(same.then_some(Kept { state, chunks }))
}
