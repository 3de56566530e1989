//! The file: what makes it ours, its tables, and how connections are opened.

use crate::{OpenError, lock::beside};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};
use std::{fs, path::Path, time::Duration};

/// "PcJ1" in the header of the file: tools tell a journal from other databases by it.
const APPLICATION: i32 = 0x5063_4A31;

/// The schema this version writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// Before it, resetting the write-ahead log could lose a commit.
const OLDEST_LIBRARY: (i32, &str) = (3_051_003, "3.51.3");

/// How long to wait for a foreign program that has the file open, such as a person's SQLite shell.
const PATIENCE: Duration = Duration::from_secs(5);

/// Past this size the write-ahead log is cut back at the next checkpoint.
const LOG_BYTES: i64 = 64 << 20;

/// Columns and tables that stand empty are durability's: they are here so that no released journal has to be migrated
/// for them. `record` is the exact line of the record codec, with `null` for data that are kept in `blobs`; the columns
/// beside it are for queries and people.
const TABLES: &str = "
CREATE TABLE sessions (
    session TEXT PRIMARY KEY NOT NULL,
    owner   BLOB,                       -- incarnation, 16 bytes; null when free
    epoch   INTEGER NOT NULL,
    head    INTEGER NOT NULL            -- number of records
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_owned ON sessions (session) WHERE owner IS NOT NULL;

-- By rowid, so that appends of many sessions go to the end of one tree.
CREATE TABLE records (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    type    TEXT NOT NULL,
    v       INTEGER NOT NULL,
    time    INTEGER NOT NULL,
    turn    INTEGER,
    step    INTEGER,
    call    TEXT,
    key     TEXT,                       -- idempotency key
    record  TEXT NOT NULL,
    hash    BLOB,                       -- chained over the session's records
    blob    BLOB                        -- SHA-256 of data kept in blobs
) STRICT;
CREATE UNIQUE INDEX records_place ON records (session, seq);
CREATE UNIQUE INDEX records_key ON records (session, key) WHERE key IS NOT NULL;

CREATE TABLE waits (
    id      INTEGER PRIMARY KEY,
    request TEXT NOT NULL,
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,           -- the record that asks
    state   TEXT NOT NULL               -- open, closed
) STRICT;
CREATE UNIQUE INDEX waits_request ON waits (session, request);
CREATE INDEX waits_open ON waits (session) WHERE state = 'open';

CREATE TABLE commands (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    command TEXT NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL,
    outcome TEXT                        -- null until taken
) STRICT;
CREATE UNIQUE INDEX commands_command ON commands (session, command);

CREATE TABLE snapshots (
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
    digest  BLOB PRIMARY KEY NOT NULL,
    body    BLOB NOT NULL
) STRICT;
";

/// Opens the one connection that writes and checkpoints, and creates the tables in a new file. `quota` is in bytes.
/// The caller holds the lock.
pub(crate) fn writer(file: &Path, quota: Option<u64>) -> Result<Connection, OpenError> {
    library(rusqlite::version_number())?;
    if begun(file)? {
        // First through a connection that cannot write: closing a writing one folds the write-ahead log into the file,
        // and a damaged journal is to stay as it was found.
        found(file, &connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?)?;
    }
    let mut connection = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    match set_up(&mut connection, quota).map_err(|e| OpenError::of(file, &e))?.as_str() {
        "wal" => Ok(connection),
        mode => {
            let why = format!("its file system gives no write-ahead log, only `{mode}`");
            Err(OpenError::Unavailable { file: file.into(), why })
        }
    }
}

/// Opens a connection that only reads, of a file that exists.
pub(crate) fn reader(file: &Path) -> Result<Connection, OpenError> {
    library(rusqlite::version_number())?;
    let missing = || OpenError::Missing { file: file.into() };
    if !begun(file)? {
        return Err(missing());
    }
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    match found(file, &connection)? {
        Found::Ours => Ok(connection),
        Found::Blank => Err(missing()),
    }
}

/// Opens a connection that writes beside the process that has the file: to its inboxes, and nothing else. It folds nothing
/// into the file, also when it is the last to go.
pub(crate) fn guest(file: &Path) -> Result<Connection, OpenError> {
    drop(reader(file)?);
    let of = |e: rusqlite::Error| OpenError::of(file, &e);
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(of)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(of)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(())).map_err(of)?;
    Ok(connection)
}

fn library(linked: i32) -> Result<(), OpenError> {
    let (number, needed) = OLDEST_LIBRARY;
    if linked < number {
        return Err(OpenError::LibraryTooOld { found: rusqlite::version(), needed });
    }
    Ok(())
}

/// True when the file has content. A write-ahead log without its file is what is left of a journal: SQLite would
/// delete it.
fn begun(file: &Path) -> Result<bool, OpenError> {
    let size = |path: &Path| match fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(OpenError::Unavailable { file: file.into(), why: e.to_string() }),
    };
    if size(file)? > 0 {
        return Ok(true);
    }
    if size(&beside(file, "-wal"))? > 0 {
        let why = "it is empty or gone, but its -wal file has content".into();
        return Err(OpenError::Damaged { file: file.into(), why });
    }
    Ok(false)
}

fn connect(file: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    // No mutex: each connection stays on one thread.
    let connection = Connection::open_with_flags(file, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|e| OpenError::of(file, &e))?;
    connection.busy_timeout(PATIENCE).map_err(|e| OpenError::of(file, &e))?;
    Ok(connection)
}

enum Found {
    /// A database without a table: creation was cut short.
    Blank,
    Ours,
}

fn found(file: &Path, connection: &Connection) -> Result<Found, OpenError> {
    let of = |e: rusqlite::Error| OpenError::of(file, &e);
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0)).map_err(of);
    let (application, schema) = marks(connection).map_err(of)?;
    let objects = count("SELECT count(*) FROM sqlite_schema")?;
    if application == 0 && objects == 0 {
        return Ok(Found::Blank);
    }
    if application != APPLICATION {
        let why = format!("its application id is {application:#x}");
        return Err(OpenError::NotAJournal { file: file.into(), why });
    }
    if schema > SCHEMA {
        return Err(OpenError::SchemaTooNew { file: file.into(), found: schema, known: SCHEMA });
    }
    // What every operation starts from; the rest is verified where it is read.
    if count("SELECT count(*) FROM sqlite_schema WHERE name IN ('sessions', 'records', 'waits')")? != 3 {
        return Err(OpenError::Damaged { file: file.into(), why: "tables are missing".into() });
    }
    Ok(Found::Ours)
}

fn marks(connection: &Connection) -> rusqlite::Result<(i32, u32)> {
    let application = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let schema = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok((application, schema))
}

/// Answers with the journal mode: when it is not `wal`, nothing else was done.
fn set_up(connection: &mut Connection, quota: Option<u64>) -> rusqlite::Result<String> {
    // FULL syncs the log at each commit: less than that has lost acknowledged records in power-cut trials.
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Ok(mode);
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    if let Some(quota) = quota {
        let page: u64 =
            connection.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        let pages = i64::try_from(quota / page.max(1)).unwrap_or(i64::MAX).max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if marks(&transaction)?.0 == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    // We hold the lock, so whoever owned a session is gone.
    transaction.execute("UPDATE sessions SET owner = NULL WHERE owner IS NOT NULL", [])?;
    transaction.commit()?;
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-DUR-5: an acknowledged commit is on disk only with these two
    #[test]
    fn the_writer_syncs_its_log_at_every_commit() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder.path().join("journal.db"), None).unwrap();
        let synchronous: i64 = writer.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 2, "FULL");
        let mode: String = writer.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn an_unsound_library_is_refused() {
        assert!(matches!(library(3_051_002), Err(OpenError::LibraryTooOld { needed: "3.51.3", .. })));
        assert_eq!(library(3_051_003), Ok(()));
    }
}
