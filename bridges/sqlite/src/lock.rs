//! One process, one object, one file: an advisory lock next to the database. The kernel drops it when the holder dies,
//! so there is no stale lock to clear up.

use crate::OpenError;
use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes `<file>.lock`, or says who holds it. Not the database itself: closing any descriptor of that file would
    /// drop the locks that SQLite keeps on it. The lock file stays behind, since removing it would let two holders in.
    pub(crate) fn take(file: &Path) -> Result<Lock, OpenError> {
        let path = beside(file, ".lock");
        let unavailable = |e: std::io::Error| OpenError::Unavailable {
            file: file.into(),
            why: format!("its lock file: {e}"),
        };
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unavailable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // For the sentence only: a lock file that does not read is no reason for another error.
                let _ = lock.read_to_string(&mut holder);
                return Err(OpenError::AlreadyOwned { file: file.into(), pid: holder.trim().parse().ok() });
            }
            Err(TryLockError::Error(e)) => return Err(unavailable(e)),
        }
        // The pid helps a person; on a full disk the lock holds without it.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Lock(lock))
    }
}

/// The path with `suffix` after its file name.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    name.into()
}
