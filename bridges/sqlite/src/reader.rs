//! The thread that reads. Each answer is one snapshot of what is durable, verified on the way out.

use crate::{
    OpenError,
    error::damage,
    inbox, kept,
    queue::Reply,
    stored::{self, COLUMNS, FROM, Stored},
    verify::{Pass, Step},
};
use portcullis_runtime::{
    CommandId, InboxCommand, JournalError, Record, RequestId, Seq, SessionId, journal::SessionHead, law::Kept,
};
use rusqlite::{Connection, OptionalExtension, params};
use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

/// A question to the file.
pub(crate) enum Query {
    Read {
        session: SessionId,
        from: Seq,
        limit: usize,
        reply: Reply<Vec<Arc<Record>>>,
    },
    Sessions {
        reply: Reply<Vec<SessionHead>>,
    },
    Kept {
        session: SessionId,
        reply: Reply<Option<Kept>>,
    },
    /// What waits in a session's inbox.
    Pending {
        session: SessionId,
        reply: Reply<Vec<(CommandId, InboxCommand)>>,
    },
    /// In whose inbox something waits.
    Posted {
        reply: Reply<Vec<SessionId>>,
    },
    /// The next part of a verification.
    Verify {
        pass: Box<Pass>,
        reply: Reply<Step>,
    },
}

/// The thread. Dropping it answers what was asked, and joins.
#[derive(Debug)]
pub(crate) struct Handle {
    queries: Option<mpsc::Sender<Query>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Starts the thread on a connection opened for reading.
    pub(crate) fn start(file: &Path, mut connection: Connection) -> Result<Handle, OpenError> {
        let (queries, asked) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("portcullis-reader".into())
            .spawn(move || asked.into_iter().for_each(|query| answer(&mut connection, query)))
            .map_err(|e| OpenError::Unavailable { file: file.into(), why: e.to_string() })?;
        Ok(Handle { queries: Some(queries), thread: Some(thread) })
    }

    /// Asks. When the thread is gone, the reply is dropped, which says so.
    pub(crate) fn ask(&self, query: Query) {
        if let Some(queries) = &self.queries {
            let _ = queries.send(query);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queries = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(connection: &mut Connection, query: Query) {
    match query {
        // The asker went away: the work would be for nobody.
        Query::Read { reply, .. } if reply.is_canceled() => {}
        Query::Read { session, from, limit, reply } => {
            let _ = reply.send(read(connection, &session, from, limit));
        }
        Query::Sessions { reply } if reply.is_canceled() => {}
        Query::Sessions { reply } => {
            let _ = reply.send(sessions(connection));
        }
        Query::Kept { reply, .. } if reply.is_canceled() => {}
        Query::Kept { session, reply } => {
            let read = kept::read(connection, &session);
            let _ = reply.send(read.map_err(|e| JournalError::Unavailable(e.to_string())));
        }
        Query::Pending { reply, .. } if reply.is_canceled() => {}
        Query::Pending { session, reply } => {
            let _ = reply.send(inbox::pending(connection, &session));
        }
        Query::Posted { reply } if reply.is_canceled() => {}
        Query::Posted { reply } => {
            let _ = reply.send(inbox::posted(connection));
        }
        Query::Verify { reply, .. } if reply.is_canceled() => {}
        Query::Verify { pass, reply } => {
            let _ = reply.send(pass.step(connection));
        }
    }
}

fn read(
    connection: &mut Connection,
    session: &SessionId,
    from: Seq,
    limit: usize,
) -> Result<Vec<Arc<Record>>, JournalError> {
    let corrupt = |at: u64, why: String| JournalError::Corrupt { session: session.clone(), at: Seq(at), why };
    let failed = |at: u64, e: rusqlite::Error| match damage(&e) {
        Some(why) => corrupt(at, why),
        None => JournalError::Unavailable(e.to_string()),
    };
    // A snapshot: the head and the records are of one moment.
    let snapshot = connection.transaction().map_err(|e| failed(from.0, e))?;
    let head: Option<i64> = snapshot
        .prepare_cached("SELECT head FROM sessions WHERE session = ?1")
        .and_then(|mut head| head.query_row([session.as_str()], |row| row.get(0)).optional())
        .map_err(|e| failed(from.0, e))?;
    let head = head.ok_or_else(|| JournalError::NotFound(session.clone()))?.cast_unsigned();
    let end = from.0.saturating_add(limit as u64).min(head);
    let mut expected = from.0;
    let mut records = Vec::new();
    if from.0 >= end {
        return Ok(records);
    }
    let mut chain =
        stored::chain(&snapshot, session, from.0).map_err(|e| failed(from.0.saturating_sub(1), e))?;
    let mut statement = snapshot
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM {FROM} WHERE session = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq"
        ))
        .map_err(|e| failed(expected, e))?;
    let mut rows = statement
        .query(params![session.as_str(), from.0.cast_signed(), end.cast_signed()])
        .map_err(|e| failed(expected, e))?;
    while let Some(row) = rows.next().map_err(|e| failed(expected, e))? {
        let stored = Stored::of(row, session, expected, &mut chain).map_err(|why| corrupt(expected, why))?;
        records.push(Arc::new(stored.record));
        expected += 1;
    }
    if expected != end {
        return Err(corrupt(expected, format!("it is missing; the session has {head} records")));
    }
    Ok(records)
}

fn sessions(connection: &mut Connection) -> Result<Vec<SessionHead>, JournalError> {
    let damaged = |e: &dyn std::fmt::Display| JournalError::Unavailable(format!("the list of sessions: {e}"));
    let failed = |e: rusqlite::Error| damaged(&e);
    let mut statement = connection
        .prepare_cached(
            "SELECT s.session, s.head, w.request FROM sessions s
             LEFT JOIN waits w ON w.session = s.session AND w.state = 'open'
             ORDER BY s.session, w.seq, w.id",
        )
        .map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut heads: Vec<SessionHead> = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let session: String = row.get(0).map_err(failed)?;
        let records = row.get::<_, i64>(1).map_err(failed)?.cast_unsigned();
        let request: Option<String> = row.get(2).map_err(failed)?;
        if heads.last().is_none_or(|last| last.session.as_str() != session) {
            let session = SessionId::new(session).map_err(|e| damaged(&e))?;
            heads.push(SessionHead { session, records, waits: Vec::new() });
        }
        if let (Some(head), Some(request)) = (heads.last_mut(), request) {
            head.waits.push(RequestId::from_text(request));
        }
    }
    Ok(heads)
}
