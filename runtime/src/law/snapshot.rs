//! A fold that is kept, so that opening a session does not read its whole log.
//!
//! A snapshot is a cache of the fold and nothing else: without it a session opens as well, and later; one that does not fit
//! (another form, another build, another log, a byte that was changed) is none. It has two parts. The state of a session
//! that is at rest, which is small, replaces the one before it. The conversation, which is not, is added to what is kept
//! of it already, and read from there when somebody wants to see it.

use super::{Caused, Queued, State, Transcript};
use crate::{
    CommandId, Content, EndReason, Limits, Message, QueueKind, RequestHeader, Seq, SessionCreated, SessionId,
    Source, StartSource,
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Changes with what a log folds to, and with how that is written. A build reads no other build's snapshots besides.
const FORM: u32 = 3;

/// CRC-32 of all that came before and of this: it tells accidents, and costs next to nothing at an opening.
type Sum = u32;

/// Where a session was when a snapshot of it was made: the next one adds to that.
#[derive(Debug, Clone)]
pub struct Mark {
    head: Seq,
    sealed: Transcript,
    /// Over all that is kept of the conversation; there once it is.
    sum: Arc<OnceLock<Sum>>,
}

impl Mark {
    /// The next record's number at that time.
    pub fn head(&self) -> Seq {
        self.head
    }
}

/// What a store is handed to keep. Cheap to make: it is written where the store writes.
#[derive(Debug, Clone)]
pub struct Snapshot {
    state: State,
    before: Option<Mark>,
    mark: Mark,
}

/// A snapshot as bytes, with what tells whether they are still those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Replaces the state that was kept before.
    pub state: Vec<u8>,
    /// The part of the conversation that belongs behind those kept before.
    pub chunk: Vec<u8>,
    /// This is the first part: those kept before are of another conversation, or of none.
    pub first: bool,
    sum: Sum,
}

/// What a store has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The state.
    pub state: Vec<u8>,
    /// The parts of the conversation, in the order in which they came.
    pub chunks: Vec<Vec<u8>>,
}

/// Why what was kept is no snapshot of this session for this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot does not fit, so the log is read whole: {0}")]
pub struct Unfit(String);

#[derive(Serialize, Deserialize)]
struct Rest {
    form: u32,
    build: String,
    session: SessionId,
    head: u64,
    created: Option<SessionCreated>,
    closed: bool,
    config: Option<Arc<str>>,
    limits: Limits,
    header: Option<Arc<RequestHeader>>,
    starts: Vec<(Seq, StartSource)>,
    queue: Vec<(Seq, QueueKind, Content, Source)>,
    commands: Vec<(CommandId, Caused)>,
    turns: u64,
    ended: Option<EndReason>,
    prompt: Option<Seq>,
    tail: Vec<Message>,
    tokens: u64,
    first: Seq,
    sealed_at: Seq,
    /// The kept conversation: over its parts, and over its messages.
    sum: Sum,
    digest: [u8; 32],
}

impl Snapshot {
    /// Of a session at rest; `None` while a turn is open, or before the session is created.
    pub fn of(state: &State, before: Option<Mark>) -> Option<Snapshot> {
        state.created.as_ref().filter(|_| state.turn.is_none())?;
        let mark = Mark { head: state.head(), sealed: state.sealed.clone(), sum: Arc::default() };
        Some(Snapshot { state: state.clone(), before, mark })
    }

    /// The next record's number when it was made. It may be kept when everything before is.
    pub fn head(&self) -> Seq {
        self.mark.head
    }

    /// What the next snapshot adds to.
    pub fn mark(&self) -> Mark {
        self.mark.clone()
    }

    /// Writes it.
    ///
    /// # Panics
    /// Never for a state of this crate: its types have only text keys.
    pub fn write(&self) -> Written {
        let before = self.before.as_ref().and_then(|mark| Some((*mark.sum.get()?, &mark.sealed)));
        let added = before.and_then(|(sum, sealed)| Some((sum, self.state.sealed.behind(sealed)?)));
        let first = added.is_none();
        let (sum, messages) = added.unwrap_or_else(|| (Sum::default(), self.state.sealed.iter().collect()));
        let mut chunk = u64::try_from(messages.len()).unwrap_or(u64::MAX).to_le_bytes().to_vec();
        serde_json::to_writer(&mut chunk, &messages).expect("messages have text keys only");
        let sum = next(sum, &chunk);
        let rest = serde_json::to_vec(&self.rest(sum)).expect("states have text keys only");
        let mut state = next(Sum::default(), &rest).to_le_bytes().to_vec();
        state.extend(rest);
        Written { state, chunk, first, sum }
    }

    /// It is kept: the next one may build on it.
    pub fn is_kept(&self, written: &Written) {
        // A second time says the same.
        let _ = self.mark.sum.set(written.sum);
    }

    fn rest(&self, sum: Sum) -> Rest {
        // Named one by one: what is new in a state is new here, or it would be lost.
        let State {
            head,
            created,
            closed,
            config,
            limits,
            header,
            starts,
            queue,
            commands,
            turns,
            turn: _,
            ended,
            prompt,
            sealed,
            tail,
            tokens,
            first,
            sealed_at,
        } = &self.state;
        let created = created.as_deref();
        let queued = |(seq, q): (&Seq, &Queued)| (*seq, q.kind, q.content.clone(), q.source.clone());
        Rest {
            form: FORM,
            build: env!("CARGO_PKG_VERSION").to_owned(),
            session: created.map_or_else(|| unreachable!("see `of`"), |created| created.id.clone()),
            head: *head,
            created: created.cloned(),
            closed: *closed,
            config: config.clone(),
            limits: *limits,
            header: header.clone(),
            starts: starts.clone(),
            queue: queue.iter().map(queued).collect(),
            commands: commands.iter().map(|(id, caused)| (id.clone(), caused.clone())).collect(),
            turns: *turns,
            ended: ended.clone(),
            prompt: *prompt,
            tail: tail.clone(),
            tokens: *tokens,
            first: *first,
            sealed_at: *sealed_at,
            sum,
            digest: sealed.sum(),
        }
    }
}

fn next(sum: Sum, chunk: &[u8]) -> Sum {
    let mut next = crc32fast::Hasher::new_with_initial(sum);
    next.update(chunk);
    next.finalize()
}

impl Kept {
    /// The state again, and where the next snapshot goes on. The conversation is not read before somebody looks at it.
    ///
    /// # Errors
    /// [`Unfit`]: nothing is lost, the log has everything.
    pub fn restore(self, session: &SessionId) -> Result<(State, Mark), Unfit> {
        let unfit = |why: &dyn std::fmt::Display| Unfit(why.to_string());
        let (sum, rest) =
            self.state.split_first_chunk::<4>().ok_or_else(|| unfit(&"its state is cut short"))?;
        if next(Sum::default(), rest).to_le_bytes() != *sum {
            return Err(unfit(&"its state is not as it was written"));
        }
        #[derive(Deserialize)]
        struct By {
            form: u32,
            build: String,
        }
        let by: By = serde_json::from_slice(rest).map_err(|e| unfit(&e))?;
        if (by.form, by.build.as_str()) != (FORM, env!("CARGO_PKG_VERSION")) {
            return Err(unfit(&format!("version {} wrote it, in form {}", by.build, by.form)));
        }
        let rest: Rest = serde_json::from_slice(rest).map_err(|e| unfit(&e))?;
        if rest.session != *session {
            return Err(unfit(&format!("it is of session `{}`", rest.session)));
        }
        let sum = self.chunks.iter().fold(Sum::default(), |sum, chunk| next(sum, chunk));
        if sum != rest.sum {
            return Err(unfit(&"its conversation is not as it was written"));
        }
        let mut sealed = Transcript::default();
        for chunk in self.chunks {
            let count = chunk.first_chunk::<8>().map(|count| u64::from_le_bytes(*count));
            let count = count.and_then(|count| usize::try_from(count).ok());
            sealed = sealed.with_kept(chunk, 8, count.ok_or_else(|| unfit(&"a part is cut short"))?);
        }
        sealed.is_known(rest.digest);
        let queued = |(seq, kind, content, source)| (seq, Queued { kind, content, source });
        let state = State {
            head: rest.head,
            created: rest.created.map(Arc::new),
            closed: rest.closed,
            config: rest.config,
            limits: rest.limits,
            header: rest.header,
            starts: rest.starts,
            queue: rest.queue.into_iter().map(queued).collect(),
            commands: rest.commands.into_iter().collect(),
            turns: rest.turns,
            turn: None,
            ended: rest.ended,
            prompt: rest.prompt,
            sealed: sealed.clone(),
            tail: rest.tail,
            tokens: rest.tokens,
            first: rest.first,
            sealed_at: rest.sealed_at,
        };
        let mark = Mark { head: state.head(), sealed, sum: Arc::new(OnceLock::from(sum)) };
        Ok((state, mark))
    }
}
