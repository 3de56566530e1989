//! The inbox: rows that wait until whoever has the session has done what they say. A row goes when its record is in the log,
//! under the command's name; one that was refused stays, with why.

use crate::{APPEND_BYTES, error::Trouble, queue::Reply, schema};
use portcullis_runtime::{CommandId, InboxCommand, JournalError, Posted, Seq, SessionId};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::{path::Path, thread};

/// A command on its way to the file.
#[derive(Debug)]
pub(crate) struct Submit {
    pub(crate) session: SessionId,
    pub(crate) id: CommandId,
    /// Where its record is, once it has one.
    log: SessionId,
    kind: &'static str,
    body: String,
}

impl Submit {
    pub(crate) fn new(
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> Result<Submit, JournalError> {
        let body = command.encode();
        // What a prompt says is in several records of one append.
        if body.len() > APPEND_BYTES / 4 {
            return Err(JournalError::TooLarge { bytes: body.len() });
        }
        let (log, kind) = (command.log(session), command.kind());
        Ok(Submit { session: session.clone(), id: id.clone(), log, kind, body })
    }

    /// Into the inbox of a session that is there.
    pub(crate) fn put(&self, connection: &Connection) -> rusqlite::Result<Posted> {
        let place = params![self.session.as_str(), self.id.as_str()];
        let caused: Option<i64> = connection
            .prepare_cached("SELECT seq FROM records WHERE session = ?1 AND key = ?2")?
            .query_row(params![self.log.as_str(), self.id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(seq) = caused {
            return Ok(Posted::Taken(Seq(seq.cast_unsigned())));
        }
        connection
            .prepare_cached(
                "INSERT INTO commands (session, command, kind, body) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (session, command) DO NOTHING",
            )?
            .execute(params![self.session.as_str(), self.id.as_str(), self.kind, self.body])?;
        let refused: Option<String> = connection
            .prepare_cached("SELECT outcome FROM commands WHERE session = ?1 AND command = ?2")?
            .query_row(place, |row| row.get(0))?;
        Ok(refused.map_or(Posted::Waits, |why| Posted::Refused(why.into())))
    }

    /// From beside the process that has the file, on a thread of its own: the disk takes its time, and the other writer too.
    pub(crate) fn beside(self, file: &Path, reply: Reply<Posted>) -> Result<(), JournalError> {
        let file = file.to_path_buf();
        let started = thread::Builder::new().name("portcullis-inbox".into()).spawn(move || {
            // Who has gone needs no answer.
            let _ = reply.send(self.beside_now(&file));
        });
        started.map(drop).map_err(|e| JournalError::Unavailable(e.to_string()))
    }

    fn beside_now(&self, file: &Path) -> Result<Posted, JournalError> {
        let mut connection = schema::guest(file)?;
        let work = |connection: &mut Connection| -> rusqlite::Result<Option<Posted>> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let there = transaction
                .prepare_cached("SELECT 1 FROM sessions WHERE session = ?1")?
                .exists([self.session.as_str()])?;
            let posted = if there { Some(self.put(&transaction)?) } else { None };
            transaction.commit()?;
            Ok(posted)
        };
        let posted = work(&mut connection).map_err(|e| Trouble::from(e).error())?;
        posted.ok_or_else(|| JournalError::NotFound(self.session.clone()))
    }
}

/// Out of the inbox; with `refused`, it stays as refused.
pub(crate) fn take(
    connection: &Connection,
    session: &SessionId,
    id: &CommandId,
    refused: Option<&str>,
) -> rusqlite::Result<()> {
    match refused {
        Some(why) => connection
            .prepare_cached(
                "UPDATE commands SET outcome = ?3 WHERE session = ?1 AND command = ?2 AND outcome IS NULL",
            )?
            .execute(params![session.as_str(), id.as_str(), why])?,
        None => connection
            .prepare_cached("DELETE FROM commands WHERE session = ?1 AND command = ?2")?
            .execute(params![session.as_str(), id.as_str()])?,
    };
    Ok(())
}

/// What waits for a session, in order. What this version cannot read is no command that it knows: it holds up nothing behind it.
pub(crate) fn pending(
    connection: &Connection,
    session: &SessionId,
) -> Result<Vec<(CommandId, InboxCommand)>, JournalError> {
    let mut pending = Vec::new();
    for (id, body) in rows(connection, session).map_err(|e| Trouble::from(e).error())? {
        let name = CommandId::new(&id).map_err(|why| {
            JournalError::Unavailable(format!("command `{id}` of session `{session}`: {why}"))
        })?;
        let command = InboxCommand::decode(&body).unwrap_or_else(|why| {
            tracing::warn!(%session, command = %name, why, "a command in an inbox cannot be read");
            InboxCommand::Unknown
        });
        pending.push((name, command));
    }
    Ok(pending)
}

fn rows(connection: &Connection, session: &SessionId) -> rusqlite::Result<Vec<(String, String)>> {
    connection
        .prepare_cached(
            "SELECT command, body FROM commands WHERE session = ?1 AND outcome IS NULL ORDER BY id",
        )?
        .query_map([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// For whom something waits. The table holds what waits and what was refused, so it is short.
pub(crate) fn posted(connection: &Connection) -> Result<Vec<SessionId>, JournalError> {
    let names = || -> rusqlite::Result<Vec<String>> {
        connection
            .prepare_cached("SELECT DISTINCT session FROM commands WHERE outcome IS NULL ORDER BY session")?
            .query_map([], |row| row.get(0))?
            .collect()
    };
    let names = names().map_err(|e| Trouble::from(e).error())?;
    names
        .into_iter()
        .map(|name| SessionId::new(name).map_err(|e| JournalError::Unavailable(e.to_string())))
        .collect()
}
