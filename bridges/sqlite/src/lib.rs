//! The embedded journal: one SQLite file that a person can open with the tools they have.
//!
//! An acknowledged record is on disk: the write-ahead log is synced at every commit, and many sessions share one sync,
//! since a single thread writes whatever waits as one transaction. The file has one owner at a time, by a lock that the
//! kernel drops when its holder dies; a session has one owner at a time, by a fence inside the transaction.
//!
//! It refuses to trade durability for speed (there is no option for it), to open a file that is not its own or that a
//! newer version wrote, and to repair: what is damaged is named with its place and left as it is.
//!
//! ```
//! use portcullis_runtime::{journal::conformance::prompts, *};
//! use portcullis_sqlite::SqliteJournal;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("journal.db");
//! let journal = SqliteJournal::open(&path)?;
//! let session = SessionId::new("demo")?;
//! let mut own = journal.claim(&session, 1, Claim::CreateOrOpen).await?;
//! let ticket = journal.append(&mut own, prompts(Seq(0), 3))?;
//! assert_eq!(ticket.wait().await?, Seq(3)); // on disk from here on
//!
//! // Others may read while it is open, and only read.
//! let reading = SqliteJournal::read_only(&path)?;
//! assert_eq!(reading.read(&session, Seq(1), 10).await?.len(), 2);
//! # Ok(()) }
//! ```

mod error;
mod inbox;
mod kept;
mod lock;
mod pens;
mod queue;
mod reader;
mod schema;
mod shards;
mod stored;
mod tail;
mod verify;
mod weight;
mod writer;

pub use error::OpenError;
pub use schema::SCHEMA;
pub use shards::ShardedJournal;
pub use tail::TornTail;

use futures::{channel::oneshot, future::BoxFuture};
use inbox::Submit;
use kept::Keeping;
use lock::Lock;
use portcullis_runtime::{
    Batch, Claim, CommandId, InboxCommand, Journal, JournalError, Ownership, Posted, Record, Seq, SessionId,
    Ticket,
    journal::{SessionHead, Verified},
    law::{Kept, Snapshot},
};
use queue::{Append, Operation, Reply, stopped};
use reader::Query;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use verify::{Pass, Step};

/// A transaction takes up to so many records, or one append if that has more. It takes fewer when no more wait, after a
/// pause of at most 2 ms, and of a quarter of the last transaction, for those who were just answered.
pub const BATCH_RECORDS: usize = 1024;
/// A transaction takes up to so many bytes, or one append if that has more.
pub const BATCH_BYTES: usize = 1 << 20;
/// More records than these wait only as one append in an empty queue; otherwise `Busy`.
pub const QUEUE_RECORDS: usize = 16 * 1024;
/// More bytes than these wait only as one append in an empty queue; otherwise `Busy`.
pub const QUEUE_BYTES: usize = 32 << 20;
/// A larger append is `TooLarge`. All bytes are estimates: the texts of the records before they are encoded.
pub const APPEND_BYTES: usize = 64 << 20;

/// How a journal is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The most bytes that the database file may have, rounded down to its pages; past it appends fail with
    /// `StorageFull`. The write-ahead log beside it is not counted. `None`: as the disk allows.
    pub quota: Option<u64>,
}

/// What a journal has written since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that made records durable: at most this many syncs of the log.
    pub commits: u64,
    /// Records made durable.
    pub records: u64,
}

/// The journal. Clones share it; the last one to go writes what waits, folds the write-ahead log into the file and joins
/// its two threads, which takes as long as the disk takes.
#[derive(Debug, Clone)]
pub struct SqliteJournal {
    shared: Arc<Shared>,
}

/// The order of the fields is the order in which they go: the reading connection before the one that folds the log, the
/// lock last.
#[derive(Debug)]
struct Shared {
    reader: reader::Handle,
    /// `None` when opened for reading only.
    writer: Option<writer::Handle>,
    file: PathBuf,
    torn: Option<TornTail>,
    /// Commands may be put into its inboxes though another process has it.
    beside: bool,
    _lock: Option<Lock>,
}

impl SqliteJournal {
    /// Opens the journal in `path`, and creates the file and its folder when they are missing. Blocks for a few reads
    /// and at most one write.
    ///
    /// # Errors
    /// [`OpenError`]; `AlreadyOwned` while another process, or another journal object here, has it open for writing.
    pub fn open(path: impl AsRef<Path>) -> Result<SqliteJournal, OpenError> {
        SqliteJournal::open_with(path, Options::default())
    }

    /// Opens it with options.
    ///
    /// # Errors
    /// As [`SqliteJournal::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<SqliteJournal, OpenError> {
        let file = place(path.as_ref())?;
        let lock = Lock::take(&file)?;
        let torn = tail::look(&file)?;
        let writing = schema::writer(&file, options.quota)?;
        let reader = reader::Handle::start(&file, schema::reader(&file)?)?;
        let writer = Some(writer::Handle::start(&file, writing)?);
        Ok(SqliteJournal {
            shared: Arc::new(Shared { reader, writer, file, torn, beside: false, _lock: Some(lock) }),
        })
    }

    /// Opens an existing journal for reading, also while another process writes it. Claims, appends and releases are
    /// refused with `AlreadyOwned`. SQLite needs to write its shared index (`-shm`) beside the file.
    ///
    /// # Errors
    /// [`OpenError`]; `Missing` when there is no such file.
    pub fn read_only(path: impl AsRef<Path>) -> Result<SqliteJournal, OpenError> {
        SqliteJournal::reading(path.as_ref(), false)
    }

    /// Opens an existing journal beside the process that has it: to read, and to put commands into inboxes
    /// ([`Journal::submit`]), which that process finds there. Each is a transaction of its own; it takes turns with that
    /// process, which waits for it as for any other program that writes the file.
    ///
    /// # Errors
    /// As [`SqliteJournal::read_only`].
    pub fn beside(path: impl AsRef<Path>) -> Result<SqliteJournal, OpenError> {
        SqliteJournal::reading(path.as_ref(), true)
    }

    fn reading(path: &Path, beside: bool) -> Result<SqliteJournal, OpenError> {
        let file = path.to_path_buf();
        tail::look_on(&file)?;
        let reader = reader::Handle::start(&file, schema::reader(&file)?)?;
        Ok(SqliteJournal {
            shared: Arc::new(Shared { reader, writer: None, file, torn: None, beside, _lock: None }),
        })
    }

    /// What it has written so far.
    pub fn stats(&self) -> Stats {
        let Some(writer) = &self.shared.writer else { return Stats::default() };
        Stats {
            commits: writer.counters.commits.load(Ordering::Relaxed),
            records: writer.counters.records.load(Ordering::Relaxed),
        }
    }

    /// What was found behind the last whole commit when this journal was opened for writing, and was dropped.
    pub fn torn_tail(&self) -> Option<TornTail> {
        self.shared.torn
    }

    fn writer(&self) -> Result<&writer::Handle, JournalError> {
        self.shared.writer.as_ref().ok_or_else(|| {
            let why = format!("the journal `{}` was opened for reading only", self.shared.file.display());
            JournalError::AlreadyOwned(why)
        })
    }

    /// Asks the writer now, whether or not the future is awaited.
    fn control<T: Send + 'static>(
        &self,
        operation: impl FnOnce(Reply<T>) -> Operation,
    ) -> BoxFuture<'static, Result<T, JournalError>> {
        let (reply, answer) = oneshot::channel();
        let asked = self.writer().and_then(|writer| writer.queue.control(operation(reply)));
        Box::pin(async move {
            asked?;
            answer.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(Reply<T>) -> Query,
    ) -> BoxFuture<'static, Result<T, JournalError>> {
        let (reply, answer) = oneshot::channel();
        self.shared.reader.ask(query(reply));
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(stopped())) })
    }
}

/// The file's one name, however it was spelled, so that all openers meet at one lock.
fn place(path: &Path) -> Result<PathBuf, OpenError> {
    let unavailable = |e: io::Error| OpenError::Unavailable { file: path.into(), why: e.to_string() };
    let name = path.file_name().ok_or_else(|| unavailable(io::ErrorKind::IsADirectory.into()))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    create(folder).map_err(unavailable)?;
    match fs::canonicalize(path) {
        Ok(file) => Ok(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Ok(fs::canonicalize(folder).map_err(unavailable)?.join(name))
        }
        Err(e) => Err(unavailable(e)),
    }
}

/// Makes the folder durable too: a synced file in a folder that a power cut takes away is lost all the same.
fn create(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    fs::create_dir_all(folder)?;
    for made in missing {
        let holder = match made.parent() {
            Some(holder) if !holder.as_os_str().is_empty() => holder,
            _ => Path::new("."),
        };
        fs::File::open(holder)?.sync_all()?;
    }
    Ok(())
}

impl Journal for SqliteJournal {
    fn claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        let session = session.clone();
        self.control(move |reply| Operation::Claim { session, incarnation, claim, reply })
    }

    fn append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        let writer = self.writer()?;
        let numbered = batch.records.iter().zip(own.head.0..).all(|(record, seq)| record.seq.0 == seq);
        if !numbered {
            return Err(JournalError::HeadMismatch { head: own.head });
        }
        let upto = Seq(own.head.0 + batch.records.len() as u64);
        if own.commits.failure().is_none() {
            writer.queue.append(Append::new(own, batch))?;
        }
        own.head = upto;
        Ok(own.commits.ticket(upto))
    }

    fn release(&self, own: Ownership) -> BoxFuture<'static, Result<(), JournalError>> {
        let Ownership { session, incarnation, epoch, .. } = own;
        self.control(move |reply| Operation::Release { session, incarnation, epoch, reply })
    }

    fn read(
        &self,
        session: &SessionId,
        from: Seq,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Record>>, JournalError>> {
        let session = session.clone();
        self.ask(move |reply| Query::Read { session, from, limit, reply })
    }

    /// In parts, between which other reads have their turn.
    fn verify(&self, session: &SessionId) -> BoxFuture<'static, Result<Verified, JournalError>> {
        let journal = self.clone();
        let mut pass = Box::new(Pass::new(session));
        Box::pin(async move {
            loop {
                match journal.ask(move |reply| Query::Verify { pass, reply }).await? {
                    Step::Further(further) => pass = further,
                    Step::Done(found) => return Ok(found),
                }
            }
        })
    }

    fn keeps(&self) -> bool {
        self.shared.writer.is_some()
    }

    fn keep(&self, own: &Ownership, snapshot: Snapshot) {
        // A writer that has stopped keeps nothing.
        if let Ok(writer) = self.writer() {
            let _ = writer.queue.control(Operation::Keep(Box::new(Keeping::new(own, snapshot))));
        }
    }

    fn kept(&self, session: &SessionId) -> BoxFuture<'static, Result<Option<Kept>, JournalError>> {
        let session = session.clone();
        self.ask(move |reply| Query::Kept { session, reply })
    }

    fn submit(
        &self,
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> BoxFuture<'static, Result<Posted, JournalError>> {
        let submit = match Submit::new(session, id, command) {
            Ok(submit) => submit,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        if !self.shared.beside {
            return self.control(|reply| Operation::Submit { submit, reply });
        }
        let (reply, answer) = oneshot::channel();
        let asked = submit.beside(&self.shared.file, reply);
        Box::pin(async move {
            asked?;
            answer.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn pending(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Vec<(CommandId, InboxCommand)>, JournalError>> {
        let session = session.clone();
        self.ask(move |reply| Query::Pending { session, reply })
    }

    fn taken(
        &self,
        session: &SessionId,
        id: &CommandId,
        refused: Option<Arc<str>>,
    ) -> BoxFuture<'static, Result<(), JournalError>> {
        let (session, id) = (session.clone(), id.clone());
        self.control(move |reply| Operation::Taken { session, id, refused, reply })
    }

    fn posted(&self) -> BoxFuture<'static, Result<Vec<SessionId>, JournalError>> {
        self.ask(|reply| Query::Posted { reply })
    }

    fn sessions(&self) -> BoxFuture<'static, Result<Vec<SessionHead>, JournalError>> {
        self.ask(move |reply| Query::Sessions { reply })
    }
}
