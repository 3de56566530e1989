//! Why a journal does not open, and what SQLite's errors mean to an append or a read.

use portcullis_runtime::{JournalError, Seq, SessionId};
use rusqlite::{Error, ErrorCode};
use std::path::{Path, PathBuf};

/// Why a journal did not open. Nothing was overwritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another journal object of this process, has the file open for writing.
    #[error("the journal `{}` is in use{}; stop that one or choose another file", file.display(), holder(*pid))]
    AlreadyOwned {
        /// The file.
        file: PathBuf,
        /// The process that holds it, as far as it left its number.
        pid: Option<u32>,
    },
    /// There is no such file, and reading does not create one.
    #[error("there is no journal `{}`", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// The file is something else: no database, or another program's.
    #[error("`{}` is not a journal of this program ({why}); it was left as it is", file.display())]
    NotAJournal {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file is torn or damaged.
    #[error("the journal `{}` is damaged ({why}); it was left as it is: restore it, or move it away with its -wal", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// The folder has another number of files: a session stays in the file that it was begun in.
    #[error("the journal in `{}` has {found} files, not {asked}: open it with {found}", folder.display())]
    Shards {
        /// The folder.
        folder: PathBuf,
        /// How many it has.
        found: u16,
        /// How many were asked for.
        asked: u16,
    },
    /// A newer version wrote it.
    #[error("the journal `{}` has schema {found}, this version knows up to {known}: use the newer version", file.display())]
    SchemaTooNew {
        /// The file.
        file: PathBuf,
        /// The schema found.
        found: u32,
        /// The newest schema known here.
        known: u32,
    },
    /// The SQLite linked into this program can corrupt write-ahead logs.
    #[error("this program is linked to SQLite {found}, which can lose commits; it needs {needed} or later")]
    LibraryTooOld {
        /// The version found.
        found: &'static str,
        /// The oldest sound version.
        needed: &'static str,
    },
    /// No space to open it for writing.
    #[error("there is no space to open the journal `{}`; free some, then go on", file.display())]
    StorageFull {
        /// The file.
        file: PathBuf,
    },
    /// The file or its folder cannot be used now.
    #[error("the journal `{}` cannot be opened: {why}", file.display())]
    Unavailable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => " elsewhere in this process".into(),
        Some(pid) => format!(" by process {pid}"),
        None => " by another process".into(),
    }
}

impl OpenError {
    /// Reads an error of SQLite as one of opening `file`.
    pub(crate) fn of(file: &Path, error: &Error) -> OpenError {
        let (file, why) = (file.to_path_buf(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotAJournal { file, why },
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { file, why },
            Some(ErrorCode::DiskFull) => OpenError::StorageFull { file },
            _ => OpenError::Unavailable { file, why },
        }
    }
}

impl From<OpenError> for JournalError {
    /// For callers that know journals only; the sentence is kept.
    fn from(error: OpenError) -> JournalError {
        match error {
            OpenError::AlreadyOwned { .. } => JournalError::AlreadyOwned(error.to_string()),
            OpenError::SchemaTooNew { found, known, .. } => JournalError::SchemaTooNew { found, known },
            OpenError::StorageFull { .. } => JournalError::StorageFull,
            other => JournalError::Unavailable(other.to_string()),
        }
    }
}

/// A transaction that did not come to be.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// One operation of it is to blame: the others can go on without it.
    Operation(JournalError),
    /// The store is to blame: all of it failed.
    Store(JournalError),
}

impl Trouble {
    pub(crate) fn error(self) -> JournalError {
        match self {
            Trouble::Operation(error) | Trouble::Store(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    /// Before the commit: nothing was written, whatever went wrong.
    fn from(error: Error) -> Trouble {
        Trouble::Store(match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => JournalError::StorageFull,
            _ => JournalError::Unavailable(error.to_string()),
        })
    }
}

impl Trouble {
    /// An error met in what belongs to one session: damage there is no other session's trouble.
    pub(crate) fn within(session: &SessionId, at: Seq, error: Error) -> Trouble {
        match damage(&error) {
            Some(why) => Trouble::Operation(JournalError::Corrupt { session: session.clone(), at, why }),
            None => error.into(),
        }
    }
}

/// What is wrong with the file, if that is what the error says.
pub(crate) fn damage(error: &Error) -> Option<String> {
    if *error == Error::QueryReturnedNoRows {
        return Some("it is missing".into());
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Some(error.to_string()),
        // The head says that the place is free.
        Some(ErrorCode::ConstraintViolation) => Some(format!("something is there already: {error}")),
        // Not SQLite's: a value of another type than the schema's, or text that is no text.
        None => Some(error.to_string()),
        Some(_) => None,
    }
}

/// What a failed COMMIT says about its transaction.
pub(crate) fn uncommitted(error: &Error) -> JournalError {
    match error.sqlite_error_code() {
        // The commit frame is written last: without room for it there was no commit.
        Some(ErrorCode::DiskFull) => JournalError::StorageFull,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            JournalError::Unavailable(error.to_string())
        }
        _ => JournalError::Indeterminate(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn sqlite(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    // C-DUR-9, and the journal's promise that only `Indeterminate` leaves a write in doubt
    #[test]
    fn a_failed_commit_is_in_doubt_unless_it_cannot_have_happened() {
        assert_eq!(uncommitted(&sqlite(ffi::SQLITE_FULL)), JournalError::StorageFull);
        assert!(matches!(uncommitted(&sqlite(ffi::SQLITE_BUSY)), JournalError::Unavailable(_)));
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_NOMEM] {
            assert!(matches!(uncommitted(&sqlite(code)), JournalError::Indeterminate(_)), "code {code}");
        }
    }

    #[test]
    fn before_the_commit_nothing_is_in_doubt() {
        let full = Trouble::from(sqlite(ffi::SQLITE_FULL));
        assert!(matches!(full, Trouble::Store(JournalError::StorageFull)));
        let io = Trouble::from(sqlite(ffi::SQLITE_IOERR_WRITE));
        assert!(matches!(io, Trouble::Store(JournalError::Unavailable(_))));
        for code in [ffi::SQLITE_CORRUPT_INDEX, ffi::SQLITE_CONSTRAINT_UNIQUE] {
            let within = Trouble::within(&SessionId::new("s").unwrap(), Seq(3), sqlite(code));
            assert!(matches!(within, Trouble::Operation(JournalError::Corrupt { at: Seq(3), .. })));
        }
        let full = Trouble::within(&SessionId::new("s").unwrap(), Seq(3), sqlite(ffi::SQLITE_FULL));
        assert!(matches!(full, Trouble::Store(JournalError::StorageFull)), "a full disk is everyone's");
    }
}
