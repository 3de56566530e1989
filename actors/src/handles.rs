//! What embedders hold: `Send + Sync + Clone` handles, with no actor address and no ambient system in sight.

use crate::{
    command::{CancelNamed, Recall},
    control::{Answer, AnswerError, Ask, Control, Deferred},
    events::Events,
    host::{Host, Opening},
    presence::Presence,
    runtime::Shared,
};
use actix::Addr;
use async_channel::{Receiver, Sender, TrySendError};
use portcullis_identity::{Intake, Wait};
use portcullis_runtime::{
    Cause, CommandId, Content, EndReason, Journal, JournalError, OwnRecord, QueueKind, Seq, SessionId,
    SessionInfo, Settle, Source,
};
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
};
use tokio::{sync::oneshot, task::AbortHandle};

/// How many submissions may wait at a session's door.
pub(crate) const INGRESS: usize = 32;

/// What comes through a session's door.
pub(crate) enum Knock {
    Submit(Submit),
    Cancel(CancelNamed),
    Recall(Recall),
}

impl Knock {
    /// It cannot be done now. Whoever sent it has gone if this cannot be delivered.
    pub(crate) fn refuse(self, error: JournalError) {
        match self {
            Knock::Submit(submit) => _ = submit.reply.send(Err(error.into())),
            Knock::Cancel(cancel) => _ = cancel.reply.send(Err(error.into())),
            Knock::Recall(recall) => _ = recall.reply.send(Err(error)),
        }
    }
}

/// Something to be queued.
pub(crate) struct Submit {
    pub(crate) kind: QueueKind,
    pub(crate) contents: Vec<Content>,
    /// Records of an owner, in front of them.
    pub(crate) beside: Vec<OwnRecord>,
    pub(crate) source: Source,
    pub(crate) command: Option<CommandId>,
    /// The turn, for what opens one.
    pub(crate) reply: oneshot::Sender<Result<Option<Turn>, Unqueued>>,
}

/// Why something was not queued.
#[derive(Debug, Clone)]
pub(crate) enum Unqueued {
    Journal(JournalError),
    /// The command's name is that of another one.
    Taken,
}

impl From<JournalError> for Unqueued {
    fn from(error: JournalError) -> Unqueued {
        Unqueued::Journal(error)
    }
}

/// A session. Clones are the same one; dropping them all does not end it.
///
/// A session that has nothing to do for a time, or waits for a person, leaves memory, if the runtime was built so; this
/// handle stays good, and whatever is sent through it brings the session back.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

pub(crate) struct SessionInner {
    pub(crate) info: Arc<SessionInfo>,
    pub(crate) ingress: Sender<Knock>,
    pub(crate) intake: Intake,
    pub(crate) control: Arc<Control>,
    pub(crate) journal: Arc<dyn Journal>,
    /// Where the ingress comes out. Kept here, so that a restarted session goes on at the same door.
    pub(crate) door: Receiver<Knock>,
    pub(crate) opening: Opening,
    /// What came through the door while the session was leaving: it comes first when the session is back.
    pub(crate) early: Mutex<Vec<Knock>>,
    /// While it is away: what brings it back when a question expires.
    pub(crate) alarm: Mutex<Option<AbortHandle>>,
    /// Whether it is in memory.
    pub(crate) presence: Presence,
    /// Who brings it back.
    pub(crate) host: Arc<Addr<Host>>,
    pub(crate) shared: Weak<Shared>,
}

impl SessionInner {
    pub(crate) fn early(&self) -> MutexGuard<'_, Vec<Knock>> {
        // A push or a take: never half-done.
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn alarm(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(self.id()).finish()
    }
}

/// Why a prompt was not taken. It is handed back, so nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The session's queue is full (32 submissions wait).
    #[error("the session is busy: {INGRESS} submissions wait at its door")]
    Busy {
        /// The prompts.
        prompts: Vec<Content>,
    },
    /// The session or its runtime is shutting down.
    #[error("the session takes nothing more: it is shutting down")]
    Draining {
        /// The prompts.
        prompts: Vec<Content>,
    },
    /// The session left memory; open it again.
    #[error("the session left memory; open it again")]
    Closed {
        /// The prompts.
        prompts: Vec<Content>,
    },
    /// A prompt says nothing.
    #[error("a prompt says something: this one is empty")]
    Empty,
    /// A record has a type that only the runtime may write.
    #[error("a record `{kind}` is the runtime's own to write")]
    Reserved {
        /// The type.
        kind: Arc<str>,
    },
    /// The command's name is that of another command: one that answered or cancelled.
    #[error("`{command}` is the name of another command in this session: give this one its own")]
    Taken {
        /// The name.
        command: CommandId,
        /// The prompts.
        prompts: Vec<Content>,
    },
    /// It could not be made durable.
    #[error("the prompt could not be stored: {error}")]
    Journal {
        /// Why.
        error: JournalError,
        /// The prompts.
        prompts: Vec<Content>,
    },
}

impl Session {
    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.inner.info.id
    }

    /// What is known of it from the start.
    pub fn info(&self) -> &SessionInfo {
        &self.inner.info
    }

    /// Sends a prompt and waits for room. `Ok` means: durable, and it will be in a turn, also after a crash. Await the
    /// [`Turn`] for how that turn ends: `session.prompt("…").await?.await`.
    pub async fn prompt(&self, text: impl Into<Content>) -> Result<Turn, SubmitError> {
        self.prompts([text.into()]).await
    }

    /// Sends several prompts as one batch: one turn takes them all.
    pub async fn prompts(&self, batch: impl IntoIterator<Item = Content>) -> Result<Turn, SubmitError> {
        self.prompts_of(batch, None).await
    }

    pub(crate) async fn prompts_of(
        &self,
        batch: impl IntoIterator<Item = Content>,
        command: Option<CommandId>,
    ) -> Result<Turn, SubmitError> {
        let contents = said(batch)?;
        let turn =
            self.submit(QueueKind::Prompt, contents.clone(), Vec::new(), Source::User, command).await?;
        turn.ok_or(SubmitError::Closed { prompts: contents })
    }

    /// Steers: joins, and forces, the next step of the open turn, after the gate of `agent/prompt-submit`. With no turn
    /// open it is a prompt. The handle is that of the turn which takes it.
    pub async fn steer(&self, text: impl Into<Content>) -> Result<Turn, SubmitError> {
        self.steer_of(text.into(), None).await
    }

    pub(crate) async fn steer_of(
        &self,
        text: Content,
        command: Option<CommandId>,
    ) -> Result<Turn, SubmitError> {
        let contents = said([text])?;
        let turn =
            self.submit(QueueKind::Steering, contents.clone(), Vec::new(), Source::User, command).await?;
        turn.ok_or(SubmitError::Closed { prompts: contents })
    }

    /// Injects context in the name of an owner. It never wakes the model: it is in the next request of the open turn, or
    /// waits for the next turn. `Ok` means durable.
    pub async fn inject(&self, owner: &str, text: impl Into<Content>) -> Result<(), SubmitError> {
        self.inject_of(owner, text.into(), None).await
    }

    pub(crate) async fn inject_of(
        &self,
        owner: &str,
        text: Content,
        command: Option<CommandId>,
    ) -> Result<(), SubmitError> {
        let contents = said([text])?;
        self.submit(QueueKind::Inject, contents, Vec::new(), Source::owner(owner), command).await.map(|_| ())
    }

    pub(crate) async fn submit(
        &self,
        kind: QueueKind,
        contents: Vec<Content>,
        beside: Vec<OwnRecord>,
        source: Source,
        command: Option<CommandId>,
    ) -> Result<Option<Turn>, SubmitError> {
        let Some(_inside) = self.inner.intake.enter() else {
            return Err(SubmitError::Draining { prompts: contents });
        };
        let (submit, answered) = submit(kind, contents.clone(), beside, source, command.clone());
        if self.inner.ingress.send(submit).await.is_err() {
            return Err(SubmitError::Closed { prompts: contents });
        }
        self.inner.stir();
        accepted(answered, contents, command).await
    }

    /// Sends a prompt if there is room now.
    pub async fn try_prompt(&self, text: impl Into<Content>) -> Result<Turn, SubmitError> {
        let contents = said([text.into()])?;
        let Some(_inside) = self.inner.intake.enter() else {
            return Err(SubmitError::Draining { prompts: contents });
        };
        let (submit, answered) = submit(QueueKind::Prompt, contents.clone(), Vec::new(), Source::User, None);
        match self.inner.ingress.try_send(submit) {
            Ok(()) => {
                self.inner.stir();
                let turn = accepted(answered, contents.clone(), None).await?;
                turn.ok_or(SubmitError::Closed { prompts: contents })
            }
            Err(TrySendError::Full(_)) => Err(SubmitError::Busy { prompts: contents }),
            Err(TrySendError::Closed(_)) => Err(SubmitError::Closed { prompts: contents }),
        }
    }

    /// Cancels the open turn. True when this, or an earlier cancel, is its durable end's cause; false when no turn was
    /// open or it ended first. Prompts that wait stay; one sent right after is never lost.
    pub async fn cancel(&self, cause: Cause) -> Result<bool, JournalError> {
        match self.inner.control.cancel(cause) {
            Some(committed) => {
                self.inner.stir();
                committed.wait().await
            }
            None => Ok(false),
        }
    }

    /// Answers a question. `Ok` means: this answer settled it, durably. A second answer is [`AnswerError::Settled`], one
    /// that comes after its time [`AnswerError::Expired`], and one to other arguments [`AnswerError::Tampered`].
    pub async fn answer(&self, ask: &Ask, answer: Answer) -> Result<(), AnswerError> {
        let committed = self.inner.control.answer(&ask.id, &ask.digest, answer, Source::User, None)?;
        self.inner.stir();
        committed.wait().await
    }

    /// The questions that wait for a person now.
    pub fn asks(&self) -> Vec<Ask> {
        self.inner.control.all_asked()
    }

    /// The calls that were deferred and wait now, of this session and its subagents.
    pub fn deferred(&self) -> Vec<Deferred> {
        self.inner.control.all_deferred()
    }

    /// Resolves when the open turn, or a subagent of its, can do nothing before its host resumes a call: with the calls that are
    /// deferred. Other calls of the same step have come as far as they can by then.
    pub async fn parked(&self) -> Vec<Deferred> {
        self.inner.control.parked().await
    }

    /// Takes a deferred call up again: as a new attempt, before all of its rewriters, gates and guards. They may defer it once
    /// more, which is another wait. It is taken up when the other calls of its step have come as far as they can.
    ///
    /// `Ok` means: this resumed it, durably. A second time is [`AnswerError::Settled`], and too late
    /// [`AnswerError::Expired`].
    pub async fn resume(&self, call: &Deferred) -> Result<(), AnswerError> {
        let committed = self.inner.control.resume(&call.id, Source::User, None)?;
        self.inner.stir();
        committed.wait().await
    }

    /// Follows the session: every record from `from` on, in order, each after its commit, and the pieces of the model's
    /// stream as they come. A slow reader loses no record and delays nothing; pieces it missed are counted.
    pub fn events(&self, from: Seq) -> Events {
        Events::new(self.inner.clone(), from)
    }

    /// True while the session is not in memory. Whatever is sent to it brings it back.
    pub fn is_away(&self) -> bool {
        self.inner.presence.is_away()
    }

    /// Resolves when the session has left memory for good: it was closed, its journal failed, or its runtime is over. One
    /// that is merely away comes back.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        self.inner.control.gone.wait()
    }
}

fn said(batch: impl IntoIterator<Item = Content>) -> Result<Vec<Content>, SubmitError> {
    let contents: Vec<Content> = batch.into_iter().collect();
    if contents.is_empty() || contents.iter().any(Content::is_empty) {
        return Err(SubmitError::Empty);
    }
    Ok(contents)
}

type Accepted = oneshot::Receiver<Result<Option<Turn>, Unqueued>>;

fn submit(
    kind: QueueKind,
    contents: Vec<Content>,
    beside: Vec<OwnRecord>,
    source: Source,
    command: Option<CommandId>,
) -> (Knock, Accepted) {
    let (reply, answered) = oneshot::channel();
    (Knock::Submit(Submit { kind, contents, beside, source, command, reply }), answered)
}

async fn accepted(
    answered: Accepted,
    prompts: Vec<Content>,
    command: Option<CommandId>,
) -> Result<Option<Turn>, SubmitError> {
    match (answered.await, command) {
        (Ok(Ok(turn)), _) => Ok(turn),
        (Ok(Err(Unqueued::Journal(error))), _) => Err(SubmitError::Journal { error, prompts }),
        (Ok(Err(Unqueued::Taken)), Some(command)) => Err(SubmitError::Taken { command, prompts }),
        // Without a name none is taken.
        (Ok(Err(Unqueued::Taken)), None) | (Err(_), _) => Err(SubmitError::Closed { prompts }),
    }
}

/// The turn that takes a prompt; all prompts of a batch share it. Await it for how it ends; dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(crate) cell: TurnCell,
    /// Whoever waits for a turn holds its session.
    pub(crate) session: Option<Session>,
    pub(crate) prompt: Option<Seq>,
}

pub(crate) type TurnCell = Settle<Arc<TurnDone>>;

#[derive(Debug)]
pub(crate) struct TurnDone {
    pub(crate) number: u64,
    pub(crate) end: EndReason,
    pub(crate) cost: TurnCost,
}

/// What a turn cost, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TurnCost {
    /// Records written, from the turn's first queued prompt to its end.
    pub records: u64,
    /// Times something waited for durability.
    pub barriers: u64,
    /// Messages between the session's actors.
    pub hops: u64,
}

/// What a turn has come to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TurnOutcome {
    /// It is over.
    Ended(EndReason),
    /// It is open, and these calls wait until their host resumes them.
    Deferred(Vec<Deferred>),
}

impl Turn {
    /// Where the prompt is queued whose turn this is; the first one's of a batch.
    pub fn prompt(&self) -> Option<Seq> {
        self.prompt
    }

    /// Waits until the turn has ended, or can do nothing before its host resumes a call that was deferred, as
    /// [`Session::parked`] says: whoever has nothing else to wait for may leave then. The session leaves memory with its runtime, the turn stays open in the log, and goes on when the session is
    /// opened again and the call is [resumed](Session::resume).
    pub async fn outcome(&self) -> TurnOutcome {
        let deferred = async {
            match &self.session {
                Some(session) => session.parked().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = self.cell.wait() => TurnOutcome::Ended(done.end.clone()),
            deferred = deferred => TurnOutcome::Deferred(deferred),
        }
    }

    /// Waits for the turn's end: its number, how it ended, what it cost.
    pub async fn done(&self) -> (u64, EndReason, TurnCost) {
        let done = self.cell.wait().await;
        (done.number, done.end.clone(), done.cost)
    }
}

impl IntoFuture for Turn {
    type Output = EndReason;
    type IntoFuture = TurnEnds;

    fn into_future(self) -> TurnEnds {
        TurnEnds { done: self.cell.wait(), _session: self.session }
    }
}

/// The future of a [`Turn`]: how it ends. It may be polled again after it is ready, with the same answer.
#[must_use = "a future does nothing until it is awaited"]
pub struct TurnEnds {
    done: Wait<Arc<TurnDone>>,
    _session: Option<Session>,
}

impl Future for TurnEnds {
    type Output = EndReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<EndReason> {
        Pin::new(&mut self.done).poll(cx).map(|done| done.end.clone())
    }
}

impl fmt::Debug for TurnEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnEnds").finish_non_exhaustive()
    }
}
