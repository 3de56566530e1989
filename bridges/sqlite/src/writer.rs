//! The one thread that writes the file. It takes what waits as a batch, makes it one transaction, and tells each asker
//! after the commit: one sync of the disk for all sessions in the batch.

use crate::{
    OpenError,
    error::{Trouble, uncommitted},
    inbox,
    kept::Keeping,
    pens::{Pen, Pens},
    queue::{Append, Gather, Load, Operation, Queue},
    stored::Line,
};
use portcullis_runtime::{
    Body, Claim, CommandId, Commits, JournalError, Ownership, Posted, RequestId, Seq, SessionId,
    journal::Chain,
};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A batch is kept open for those just answered no longer than this, nor than a quarter of the last transaction.
const PATIENCE: Duration = Duration::from_millis(2);

/// How many transactions made how many records durable.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) records: AtomicU64,
}

/// The thread, its queue and its counters. Dropping it writes what waits, checkpoints, and joins.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) queue: Arc<Queue>,
    pub(crate) counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Starts the thread on a connection opened for writing.
    pub(crate) fn start(file: &Path, connection: Connection) -> Result<Handle, OpenError> {
        let (queue, counters) = (Arc::<Queue>::default(), Arc::<Counters>::default());
        let mut writer = Writer { connection, pens: Pens::default(), counters: counters.clone() };
        let served = queue.clone();
        let thread = thread::Builder::new()
            .name("portcullis-journal".into())
            .spawn(move || {
                let served = Served(&served);
                let mut gather = Gather::default();
                while let Some(load) = served.0.next(gather) {
                    gather = writer.batch(load, served.0);
                }
                writer.close();
            })
            .map_err(|e| OpenError::Unavailable { file: file.into(), why: e.to_string() })?;
        Ok(Handle { queue, counters, thread: Some(thread) })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it, and its askers were told.
            let _ = thread.join();
        }
    }
}

/// However the thread ends, nobody is left waiting.
struct Served<'a>(&'a Queue);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

struct Writer {
    connection: Connection,
    pens: Pens,
    counters: Arc<Counters>,
}

/// What became of one operation in a transaction.
enum Answer {
    Done,
    Claimed(Ownership),
    Posted(Posted),
    Refused(JournalError),
}

impl Writer {
    fn batch(&mut self, mut load: Load, queue: &Queue) -> Gather {
        let begun = Instant::now();
        let outcome = self.transact(&mut load, queue);
        let operations = load.operations;
        // Before anyone is answered: those who wait now and those who are to be answered are all who were at work.
        let gather =
            Gather { expected: queue.len() + operations.len(), patience: PATIENCE.min(begun.elapsed() / 4) };
        match outcome {
            Ok(answers) => {
                let mut keeping = Vec::new();
                for (operation, answer) in operations.into_iter().zip(answers) {
                    match operation {
                        Operation::Keep(kept) => keeping.push(kept),
                        operation => settle(operation, answer),
                    }
                }
                keeping.iter().for_each(|kept| self.keep(kept));
            }
            // One of them is to blame: alone, each succeeds or fails for itself.
            Err(Trouble::Operation(_)) => operations.into_iter().for_each(|op| self.alone(op, queue)),
            Err(Trouble::Store(error)) => {
                operations.into_iter().for_each(|op| settle(op, Answer::Refused(error.clone())));
            }
        }
        gather
    }

    /// Everybody has their answer by now, and nothing fails with this.
    fn keep(&mut self, keeping: &Keeping) {
        match keeping.write(&mut self.connection) {
            Ok(true) => {}
            Ok(false) => tracing::debug!(session = %keeping.session(), "a snapshot came too late"),
            Err(error) => tracing::warn!(session = %keeping.session(), %error, "a snapshot was not kept"),
        }
    }

    fn alone(&mut self, operation: Operation, queue: &Queue) {
        let mut load = Load::alone(operation);
        let answer = match self.transact(&mut load, queue) {
            Ok(mut answers) => answers.pop().unwrap_or(Answer::Done),
            Err(trouble) => Answer::Refused(trouble.error()),
        };
        load.operations.into_iter().zip([answer]).for_each(|(op, answer)| settle(op, answer));
    }

    /// An answer for each operation of the load, which may grow meanwhile.
    fn transact(&mut self, load: &mut Load, queue: &Queue) -> Result<Vec<Answer>, Trouble> {
        let attempt = self.attempt(load, queue);
        match &attempt {
            Ok(_) => self.pens.keep(),
            Err(_) => self.pens.undo(),
        }
        attempt
    }

    /// One transaction; rolled back when dropped on an error.
    fn attempt(&mut self, load: &mut Load, queue: &Queue) -> Result<Vec<Answer>, Trouble> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut step =
            Step { transaction: &transaction, pens: &mut self.pens, refused: Vec::new(), records: 0 };
        let mut answers = Vec::new();
        loop {
            for operation in &load.operations[answers.len()..] {
                answers.push(step.apply(operation)?);
            }
            if !queue.more(load) {
                break;
            }
        }
        let records = step.records;
        self.pens.write(&transaction)?;
        transaction.commit().map_err(|e| Trouble::Store(uncommitted(&e)))?;
        if records > 0 {
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
            self.counters.records.fetch_add(records, Ordering::Relaxed);
        }
        Ok(answers)
    }

    /// Folds the write-ahead log into the file, so that what is left behind is one file.
    fn close(self) {
        // Both only tidy up: what is in the log is durable, and the next opener reads it there.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.connection.close();
    }
}

/// A transaction in the making.
struct Step<'a> {
    transaction: &'a Transaction<'a>,
    pens: &'a mut Pens,
    /// Ownerships that failed in this transaction. They are told after the commit, for what they wrote before the
    /// failure is durable only then.
    refused: Vec<(Arc<Commits>, JournalError)>,
    records: u64,
}

impl Step<'_> {
    fn apply(&mut self, operation: &Operation) -> Result<Answer, Trouble> {
        match operation {
            Operation::Claim { session, incarnation, claim, .. } => self.claim(session, *incarnation, *claim),
            Operation::Keep(_) => Ok(Answer::Done),
            Operation::Submit { submit, .. } => match self.pens.get(self.transaction, &submit.session)? {
                Some(_) => Ok(Answer::Posted(submit.put(self.transaction)?)),
                None => Ok(Answer::Refused(JournalError::NotFound(submit.session.clone()))),
            },
            Operation::Taken { session, id, refused, .. } => {
                inbox::take(self.transaction, session, id, refused.as_deref())?;
                Ok(Answer::Done)
            }
            Operation::Append(append) => {
                let answer = self.append(append)?;
                if let Answer::Refused(error) = &answer {
                    self.refused.push((append.commits().clone(), error.clone()));
                }
                Ok(answer)
            }
            Operation::Release { session, incarnation, epoch, .. } => {
                if let Some(pen) = self.pens.get(self.transaction, session)?
                    && (pen.owner, pen.epoch) == (Some(*incarnation), epoch.cast_signed())
                {
                    self.pens.set(session, Pen { owner: None, ..pen });
                }
                Ok(Answer::Done)
            }
        }
    }

    fn claim(&mut self, session: &SessionId, incarnation: u128, claim: Claim) -> Result<Answer, Trouble> {
        let pen = match self.pens.get(self.transaction, session)? {
            None if claim == Claim::OpenOnly => {
                return Ok(Answer::Refused(JournalError::NotFound(session.clone())));
            }
            None => Pen { owner: None, epoch: 0, head: 0, chain: None },
            Some(pen) => pen,
        };
        if pen.owner.is_some_and(|owner| owner != incarnation) {
            let why = format!("session `{session}` is open in another runtime of this process");
            return Ok(Answer::Refused(JournalError::AlreadyOwned(why)));
        }
        let pen = Pen { owner: Some(incarnation), epoch: pen.epoch + 1, ..pen };
        self.pens.set(session, pen);
        let head = Seq(pen.head.cast_unsigned());
        Ok(Answer::Claimed(Ownership {
            session: session.clone(),
            incarnation,
            epoch: pen.epoch.cast_unsigned(),
            head,
            commits: Commits::new(head),
        }))
    }

    fn append(&mut self, append: &Append) -> Result<Answer, Trouble> {
        let earlier = self.refused.iter().find(|(commits, _)| Arc::ptr_eq(commits, append.commits()));
        if let Some(error) = earlier.map(|(_, e)| e.clone()).or_else(|| append.commits().failure()) {
            return Ok(Answer::Refused(error));
        }
        let Some(pen) = self.pens.get(self.transaction, &append.session)? else {
            return Ok(Answer::Refused(JournalError::NotFound(append.session.clone())));
        };
        if (pen.owner, pen.epoch) != (Some(append.incarnation), append.epoch.cast_signed()) {
            return Ok(Answer::Refused(JournalError::Fenced { epoch: pen.epoch.cast_unsigned() }));
        }
        if pen.head != append.from.0.cast_signed() {
            return Ok(Answer::Refused(JournalError::HeadMismatch { head: Seq(pen.head.cast_unsigned()) }));
        }
        let mut chain = Pens::chain(self.transaction, &append.session, &pen)?;
        self.insert(append, &mut chain)?;
        self.wait(append).map_err(|e| Trouble::within(&append.session, append.from, e))?;
        let written = append.batch.records.len() as u64;
        self.records += written;
        let head = pen.head + written.cast_signed();
        self.pens.set(&append.session, Pen { head, chain: Some(chain), ..pen });
        Ok(Answer::Done)
    }

    fn insert(&self, append: &Append, chain: &mut Chain) -> Result<(), Trouble> {
        let mut insert = self.transaction.prepare_cached(
            "INSERT INTO records (session, seq, epoch, type, v, time, turn, step, call, record, hash, blob, key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        for record in &append.batch.records {
            let Line { text, blob } = Line::put(self.transaction, &append.session, record)?;
            insert
                .execute(params![
                    append.session.as_str(),
                    record.seq.0.cast_signed(),
                    append.epoch.cast_signed(),
                    record.body.kind(),
                    record.body.version(),
                    record.time.cast_signed(),
                    record.at.turn.map(u64::cast_signed),
                    record.at.step,
                    record.at.call.as_ref().map(ToString::to_string),
                    text,
                    chain.next(&append.session, &text, blob.as_ref()),
                    blob,
                    record.key.as_ref().map(CommandId::as_str),
                ])
                .map_err(|e| Line::refused(&append.session, record.seq, text.len(), e))?;
        }
        Ok(())
    }

    fn wait(&self, append: &Append) -> rusqlite::Result<()> {
        let session = append.session.as_str();
        for request in &append.batch.opens {
            self.transaction
                .prepare_cached(
                    "INSERT INTO waits (request, session, seq, state) VALUES (?1, ?2, ?3, 'open')
                     ON CONFLICT (session, request) DO UPDATE SET seq = excluded.seq, state = 'open'",
                )?
                .execute(params![request.as_str(), session, asked(append, request).0.cast_signed()])?;
        }
        for request in &append.batch.closes {
            self.transaction
                .prepare_cached("UPDATE waits SET state = 'closed' WHERE session = ?1 AND request = ?2")?
                .execute(params![session, request.as_str()])?;
        }
        Ok(())
    }
}

/// The record of the append that asks; the append's first when none says so.
fn asked(append: &Append, request: &RequestId) -> Seq {
    let asks = |body: &Body| matches!(body, Body::InputRequested(asked) if asked.request == *request);
    append.batch.records.iter().find(|record| asks(&record.body)).map_or(append.from, |record| record.seq)
}

fn settle(operation: Operation, answer: Answer) {
    // An asker that has gone away needs no answer; a claim it made stands, and it may claim again.
    match (operation, answer) {
        (Operation::Append(append), Answer::Refused(error)) => append.failed(error),
        (Operation::Append(append), _) => append.committed(),
        (Operation::Claim { reply, .. }, Answer::Claimed(own)) => {
            let _ = reply.send(Ok(own));
        }
        (Operation::Claim { reply, .. }, Answer::Refused(error)) => {
            let _ = reply.send(Err(error));
        }
        // Left out for now: the next one has all of it.
        (Operation::Keep(_), _) => {}
        // A claim is claimed or refused; dropping its reply says unavailable.
        (Operation::Claim { .. }, Answer::Done | Answer::Posted(_)) => {}
        (Operation::Submit { reply, .. }, Answer::Posted(posted)) => {
            let _ = reply.send(Ok(posted));
        }
        (Operation::Submit { reply, .. }, Answer::Refused(error)) => {
            let _ = reply.send(Err(error));
        }
        // As with a claim.
        (Operation::Submit { .. }, _) => {}
        (Operation::Release { reply, .. } | Operation::Taken { reply, .. }, Answer::Refused(error)) => {
            let _ = reply.send(Err(error));
        }
        (Operation::Release { reply, .. } | Operation::Taken { reply, .. }, _) => {
            let _ = reply.send(Ok(()));
        }
    }
}
