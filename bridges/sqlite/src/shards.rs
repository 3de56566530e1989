//! One journal over several files, each with its own writer: sessions on different files do not wait for each other's disk.

use crate::{OpenError, Options, SqliteJournal, Stats};
use futures::future::{BoxFuture, try_join_all};
use portcullis_runtime::{
    Batch, Claim, CommandId, InboxCommand, Journal, JournalError, Ownership, Posted, Record, Seq, SessionId,
    Ticket,
    journal::{SessionHead, Verified},
    law::{Kept, Snapshot},
};
use std::{
    fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Names how many files there are, once all are made: from then on, one that is missing is missed.
const COUNT: &str = "shards";

/// A journal in a folder of several SQLite files.
///
/// A session and all its subagents are in one file (C-DUR-5): the file is chosen by the session's name up to its first dot.
/// So it is for life: how many files there are is settled when the folder is made.
#[derive(Debug, Clone)]
pub struct ShardedJournal {
    shards: Arc<[SqliteJournal]>,
}

impl ShardedJournal {
    /// Opens the journal in `folder`, and makes it with so many files when there is none.
    ///
    /// # Errors
    /// [`OpenError`] of the first file that does not open; `Shards` when the folder has another number of them; `Missing`
    /// when one of them is gone.
    pub fn open(folder: impl AsRef<Path>, shards: NonZero<u16>) -> Result<ShardedJournal, OpenError> {
        ShardedJournal::open_with(folder, shards, Options::default())
    }

    /// Opens it with options, each of which is one file's.
    ///
    /// # Errors
    /// As [`ShardedJournal::open`].
    pub fn open_with(
        folder: impl AsRef<Path>,
        shards: NonZero<u16>,
        options: Options,
    ) -> Result<ShardedJournal, OpenError> {
        let folder = folder.as_ref();
        let count = counted(folder)?;
        if let Some(found) = count.filter(|found| *found != shards) {
            return Err(OpenError::Shards { folder: folder.into(), found: found.get(), asked: shards.get() });
        }
        let files = files(folder, shards);
        if count.is_some()
            && let Some(file) = files.iter().find(|file| !file.exists())
        {
            return Err(OpenError::Missing { file: file.clone() });
        }
        let opened: Result<Arc<[_]>, _> =
            files.iter().map(|file| SqliteJournal::open_with(file, options)).collect();
        let journal = ShardedJournal { shards: opened? };
        if count.is_none() {
            settle(folder, shards).map_err(|error| unavailable(folder, &error))?;
        }
        Ok(journal)
    }

    /// Opens an existing journal for reading, also while another process writes it.
    ///
    /// # Errors
    /// As [`SqliteJournal::read_only`], for each file.
    pub fn read_only(folder: impl AsRef<Path>) -> Result<ShardedJournal, OpenError> {
        ShardedJournal::each(folder.as_ref(), SqliteJournal::read_only)
    }

    fn each(
        folder: &Path,
        open: impl Fn(PathBuf) -> Result<SqliteJournal, OpenError>,
    ) -> Result<ShardedJournal, OpenError> {
        let shards = counted(folder)?.ok_or_else(|| OpenError::Missing { file: folder.join(COUNT) })?;
        let opened: Result<Arc<[_]>, _> = files(folder, shards).into_iter().map(open).collect();
        Ok(ShardedJournal { shards: opened? })
    }

    /// Opens an existing journal beside the process that has it: as [`SqliteJournal::beside`].
    ///
    /// # Errors
    /// As [`SqliteJournal::beside`], for each file.
    pub fn beside(folder: impl AsRef<Path>) -> Result<ShardedJournal, OpenError> {
        ShardedJournal::each(folder.as_ref(), SqliteJournal::beside)
    }

    /// What all files together have written so far.
    pub fn stats(&self) -> Stats {
        self.shards.iter().map(SqliteJournal::stats).fold(Stats::default(), |sum, one| Stats {
            commits: sum.commits + one.commits,
            records: sum.records + one.records,
        })
    }

    /// The file that a session and its subagents are in, by its number.
    pub fn shard_of(&self, session: &SessionId) -> usize {
        let root = session.as_str().split_once('.').map_or(session.as_str(), |(root, _)| root);
        // FNV-1a: small, even, and the same in every version, as what is in a file stays there.
        let hash = root.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        usize::try_from(hash % self.shards.len() as u64).unwrap_or_default()
    }

    fn shard(&self, session: &SessionId) -> &SqliteJournal {
        &self.shards[self.shard_of(session)]
    }
}

fn files(folder: &Path, shards: NonZero<u16>) -> Vec<PathBuf> {
    (0..shards.get()).map(|n| folder.join(format!("shard-{n}.db"))).collect()
}

fn unavailable(folder: &Path, why: &dyn std::fmt::Display) -> OpenError {
    OpenError::Unavailable { file: folder.join(COUNT), why: why.to_string() }
}

/// How many files the folder has; `None` before all were made.
fn counted(folder: &Path) -> Result<Option<NonZero<u16>>, OpenError> {
    match fs::read_to_string(folder.join(COUNT)) {
        Ok(text) => {
            let count = text.trim().parse().map_err(|_| OpenError::NotAJournal {
                file: folder.join(COUNT),
                why: format!("`{}` is no number of files", text.trim()),
            })?;
            Ok(Some(count))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unavailable(folder, &error)),
    }
}

/// Written beside and renamed, so that it is there whole or not at all; synced, as the files are.
fn settle(folder: &Path, shards: NonZero<u16>) -> io::Result<()> {
    let (file, beside) = (folder.join(COUNT), folder.join("shards.new"));
    fs::write(&beside, format!("{shards}\n"))?;
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(beside, file)?;
    fs::File::open(folder)?.sync_all()
}

impl Journal for ShardedJournal {
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        self.shard(session).claim(session, incarnation, claim)
    }

    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        self.shard(&own.session).append(own, batch)
    }

    fn release(&self, own: Ownership) -> BoxFuture<'static, Result<(), JournalError>> {
        self.shard(&own.session).release(own)
    }

    fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        self.shard(session).read(session, from, limit)
    }

    fn verify(&self, session: &SessionId) -> BoxFuture<'static, Result<Verified, JournalError>> {
        self.shard(session).verify(session)
    }

    fn keeps(&self) -> bool {
        self.shards.iter().all(SqliteJournal::keeps)
    }

    fn keep(&self, own: &Ownership, snapshot: Snapshot) {
        self.shard(&own.session).keep(own, snapshot);
    }

    fn kept(&self, session: &SessionId) -> BoxFuture<'static, Result<Option<Kept>, JournalError>> {
        self.shard(session).kept(session)
    }

    fn submit(
        &self,
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> BoxFuture<'static, Result<Posted, JournalError>> {
        self.shard(session).submit(session, id, command)
    }

    fn pending(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<(CommandId, InboxCommand)>, JournalError>> {
        self.shard(session).pending(session)
    }

    fn taken(
        &self,
        session: &SessionId,
        id: &CommandId,
        refused: Option<Arc<str>>,
    ) -> BoxFuture<'static, Result<(), JournalError>> {
        self.shard(session).taken(session, id, refused)
    }

    fn posted(&self) -> BoxFuture<'static, Result<Vec<SessionId>, JournalError>> {
        let all = try_join_all(self.shards.iter().map(SqliteJournal::posted));
        Box::pin(async move {
            let mut posted = all.await?.concat();
            posted.sort();
            Ok(posted)
        })
    }

    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>> {
        let all = try_join_all(self.shards.iter().map(SqliteJournal::sessions));
        Box::pin(async move {
            let mut heads = all.await?.concat();
            heads.sort_by(|a, b| a.session.cmp(&b.session));
            Ok(heads)
        })
    }
}
