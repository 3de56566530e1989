//! Commands that come from outside under a name of their own (C-DUR-8): one that is sent again, because its
//! acknowledgement was lost, is told the first outcome, also by another process. The name is the key of the record that the
//! command caused, so the two are durable together.

use crate::{
    control::{Answer, AnswerError, Ask, Control, Deferred},
    cx::SessionCx,
    handles::{Knock, Session, Submit, SubmitError, Turn, TurnCell, TurnCost, TurnDone, Unqueued},
    host::PAGE,
    session::SessionActor,
};
use actix::prelude::*;
use portcullis_runtime::{
    At, Body, Cause, CauseName, CommandId, Content, Draft, EndReason, JournalError, RequestId, Seq,
    SessionCommand, SessionWithdrawn, Settle, Source, Ticket, TurnCancelled,
    law::{Caused, Whereabouts},
};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A session under a command's name: see [`Session::command`].
#[derive(Debug, Clone)]
#[must_use = "a command does nothing until something is sent"]
pub struct Command {
    session: Session,
    id: CommandId,
}

/// Which prompt is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptRef {
    /// The one queued there: [`Turn::prompt`].
    Queued(Seq),
    /// The one that this command sent.
    Command(CommandId),
}

impl From<Seq> for PromptRef {
    fn from(seq: Seq) -> PromptRef {
        PromptRef::Queued(seq)
    }
}

impl From<CommandId> for PromptRef {
    fn from(command: CommandId) -> PromptRef {
        PromptRef::Command(command)
    }
}

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The open turn is cancelled, with all the prompts that it took: by this command, or by an earlier one.
    Turn,
    /// No turn had taken the prompt. It is taken back, and whoever waits for its turn is told `aborted`.
    Withdrawn,
    /// There was nothing to cancel: no turn was open, or the prompt's turn was over.
    Nothing,
}

/// Why a cancel was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CancelError {
    /// Nothing was queued there, or no prompt was sent by that command.
    #[error("this session knows no such prompt")]
    UnknownPrompt,
    /// The command's name is that of another command.
    #[error("`{0}` is the name of another command in this session: give this one its own")]
    Taken(CommandId),
    /// The session left memory for good; open it again.
    #[error("the session left memory; open it again")]
    Closed,
    /// It could not be made durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A cancel that says which prompt it means, or has a name.
pub(crate) struct CancelNamed {
    command: Option<CommandId>,
    prompt: Option<PromptRef>,
    cause: Cause,
    pub(crate) reply: oneshot::Sender<Result<Cancelled, CancelError>>,
}

/// What a command came to, if it is known.
pub(crate) struct Recall {
    command: CommandId,
    pub(crate) reply: oneshot::Sender<Result<Option<Caused>, JournalError>>,
}

impl Session {
    /// What is sent through this has a name: sent again under the same name, it is told the first outcome and not done
    /// again, also after a restart and whatever it says the second time. A name is one command's: one that queued, answered or
    /// cancelled something is refused for anything else (`Taken`).
    ///
    /// Names are kept as long as the session's log; each costs a resident session about a hundred bytes.
    pub fn command(&self, id: CommandId) -> Command {
        Command { session: self.clone(), id }
    }

    /// Cancels what a prompt led to: the open turn, if that has taken it; the prompt itself, if no turn has. One whose turn
    /// is over is left alone, and so is whatever runs now.
    pub async fn cancel_prompt(
        &self,
        prompt: impl Into<PromptRef>,
        cause: Cause,
    ) -> Result<Cancelled, CancelError> {
        self.cancel_named(None, Some(prompt.into()), cause).await
    }

    async fn cancel_named(
        &self,
        command: Option<CommandId>,
        prompt: Option<PromptRef>,
        cause: Cause,
    ) -> Result<Cancelled, CancelError> {
        let (reply, answered) = oneshot::channel();
        self.knock(Knock::Cancel(CancelNamed { command, prompt, cause, reply })).await;
        answered.await.unwrap_or(Err(CancelError::Closed))
    }

    /// Puts it at the door; who waits for its reply is told if that is closed.
    async fn knock(&self, knock: Knock) {
        let Some(_inside) = self.inner.intake.enter() else { return };
        if self.inner.ingress.send(knock).await.is_ok() {
            self.inner.stir();
        }
    }
}

impl Command {
    /// Its name.
    pub fn id(&self) -> &CommandId {
        &self.id
    }

    /// [`Session::prompt`]. Sent again: the turn that took the prompt the first time, or will.
    pub async fn prompt(&self, text: impl Into<Content>) -> Result<Turn, SubmitError> {
        self.session.prompts_of([text.into()], Some(self.id.clone())).await
    }

    /// [`Session::steer`].
    pub async fn steer(&self, text: impl Into<Content>) -> Result<Turn, SubmitError> {
        self.session.steer_of(text.into(), Some(self.id.clone())).await
    }

    /// [`Session::inject`].
    pub async fn inject(&self, owner: &str, text: impl Into<Content>) -> Result<(), SubmitError> {
        self.session.inject_of(owner, text.into(), Some(self.id.clone())).await
    }

    /// [`Session::answer`]. Sent again: `Ok`, if the first one settled the question.
    pub async fn answer(&self, ask: &Ask, answer: Answer) -> Result<(), AnswerError> {
        let command = Some(self.id.clone());
        let give = |control: &Control| control.answer(&ask.id, &ask.digest, answer, Source::User, command);
        self.settle(&ask.id, give).await
    }

    /// [`Session::resume`]. Sent again: `Ok`, if the first one resumed the call.
    pub async fn resume(&self, call: &Deferred) -> Result<(), AnswerError> {
        let command = Some(self.id.clone());
        self.settle(&call.id, |control| control.resume(&call.id, Source::User, command)).await
    }

    async fn settle(
        &self,
        request: &RequestId,
        give: impl FnOnce(&Control) -> Result<Settle<Result<(), AnswerError>>, AnswerError>,
    ) -> Result<(), AnswerError> {
        if let Some(told) = self.told(request).await? {
            return told;
        }
        let inner = &self.session.inner;
        match give(&inner.control) {
            Ok(committed) => {
                inner.stir();
                committed.wait().await
            }
            // By the first one, between our two looks.
            Err(AnswerError::Settled) => match self.told(request).await? {
                Some(told) => told,
                None => Err(AnswerError::Settled),
            },
            Err(error) => Err(error),
        }
    }

    /// What this command's answer was told the first time.
    pub(crate) async fn told(
        &self,
        request: &RequestId,
    ) -> Result<Option<Result<(), AnswerError>>, AnswerError> {
        let (reply, answered) = oneshot::channel();
        self.session.knock(Knock::Recall(Recall { command: self.id.clone(), reply })).await;
        let known = answered.await.map_err(|_| AnswerError::Closed)??;
        Ok(known.map(|known| match known {
            Caused::Answered(answered) if answered == *request => Ok(()),
            _ => Err(AnswerError::Taken(self.id.clone())),
        }))
    }

    /// Cancels the open turn. Sent again, it does not cancel a turn that came later.
    pub async fn cancel(&self, cause: Cause) -> Result<Cancelled, CancelError> {
        self.session.cancel_named(Some(self.id.clone()), None, cause).await
    }

    /// [`Session::cancel_prompt`].
    pub async fn cancel_prompt(
        &self,
        prompt: impl Into<PromptRef>,
        cause: Cause,
    ) -> Result<Cancelled, CancelError> {
        self.session.cancel_named(Some(self.id.clone()), Some(prompt.into()), cause).await
    }
}

impl SessionActor {
    /// Says what a command came to, once that is durable.
    pub(crate) fn recall(&self, recall: Recall) {
        let known = self.cx.ledger.read(|s| s.caused(&recall.command).cloned());
        let cx = self.cx.clone();
        actix_rt::spawn(async move {
            let durable = cx.barrier().await;
            // Whoever asked has gone if this cannot be delivered.
            let _ = recall.reply.send(durable.map(|()| known));
        });
    }

    /// The command has queued something before: whoever sends it again waits for the same turn.
    pub(crate) fn submitted_before(&mut self, submit: Submit, known: Caused, ctx: &mut Context<Self>) {
        let Caused::Queued(seq) = known else {
            let _ = submit.reply.send(Err(Unqueued::Taken));
            return;
        };
        let (cx, handle) = (self.cx.clone(), self.handle.clone());
        let opens_turn = submit.kind.opens_turn();
        let again = async move {
            let cell = match (opens_turn, cx.barrier().await) {
                (_, Err(error)) => Err(error),
                (false, Ok(())) => Ok(None),
                (true, Ok(())) => turn_of(&cx, seq).await.map(Some),
            };
            let session = Session { inner: handle };
            let turn = |cell| Turn { cell, session: Some(session), prompt: Some(seq) };
            // Whoever sent it has gone if this cannot be delivered.
            let _ = submit.reply.send(cell.map(|cell| cell.map(turn)).map_err(Unqueued::from));
        };
        ctx.spawn(again.into_actor(self));
    }

    pub(crate) fn cancel(&mut self, cancel: CancelNamed, ctx: &mut Context<Self>) {
        let CancelNamed { command, prompt, cause, reply } = cancel;
        let known = command.as_ref().and_then(|c| self.cx.ledger.read(|s| s.caused(c).cloned()));
        let told = match (known, &command) {
            (Some(known), Some(command)) => match known {
                Caused::Cancelled(_) => Ok(Cancelled::Turn),
                Caused::Withdrew(_) => Ok(Cancelled::Withdrawn),
                Caused::Nothing => Ok(Cancelled::Nothing),
                _ => Err(CancelError::Taken(command.clone())),
            },
            _ => self.cancel_now(command, prompt, cause),
        };
        let journal = match &told {
            Err(CancelError::Journal(error)) => Some(error.clone()),
            _ => None,
        };
        let cx = self.cx.clone();
        ctx.spawn(
            async move {
                let durable = cx.barrier().await;
                // Whoever sent it has gone if this cannot be delivered.
                let _ = reply.send(told.and_then(|told| Ok(durable.map(|()| told)?)));
            }
            .into_actor(self),
        );
        if let Some(error) = journal {
            self.poisoned(&error, ctx);
        }
    }

    /// What the cancel comes to is on record when this returns, and its effect is under way.
    fn cancel_now(
        &self,
        command: Option<CommandId>,
        prompt: Option<PromptRef>,
        cause: Cause,
    ) -> Result<Cancelled, CancelError> {
        let (cx, by) = (&self.cx, if cause == Cause::User { Source::User } else { Source::Runtime });
        let meant = match prompt {
            None => cx.ledger.read(|s| s.open_turn()).map_or(Whereabouts::Over, Whereabouts::InTurn),
            Some(prompt) => {
                let seq = match prompt {
                    PromptRef::Queued(seq) => Some(seq).filter(|seq| *seq < cx.ledger.read(|s| s.head())),
                    PromptRef::Command(sent) => match cx.ledger.read(|s| s.caused(&sent).cloned()) {
                        Some(Caused::Queued(seq)) => Some(seq),
                        _ => None,
                    },
                };
                let seq = seq.ok_or(CancelError::UnknownPrompt)?;
                let place = cx.ledger.read(|s| s.whereabouts(seq));
                if place == Whereabouts::Waits {
                    let withdrawn = SessionWithdrawn { prompt: seq, by: by.clone(), cause: CauseName(cause) };
                    let _enqueued = self.record(Draft::new(At::session(), withdrawn).of_command(command))?;
                    let end = EndReason::Aborted { by, reason: CauseName(cause) };
                    cx.control
                        .withdrawn(seq, Arc::new(TurnDone { number: 0, end, cost: TurnCost::default() }));
                    return Ok(Cancelled::Withdrawn);
                }
                place
            }
        };
        let Whereabouts::InTurn(turn) = meant else {
            if command.is_some() {
                let nothing = SessionCommand { cancelled: None };
                let _enqueued = self.record(Draft::new(At::session(), nothing).of_command(command))?;
            }
            return Ok(Cancelled::Nothing);
        };
        if cx.ledger.read(|s| s.cancelled().is_some()) {
            // The first cause stays.
            if command.is_some() {
                let before = SessionCommand { cancelled: Some(turn) };
                let _enqueued = self.record(Draft::new(At::session(), before).of_command(command))?;
            }
            return Ok(Cancelled::Turn);
        }
        // A cancel that came out of band was first, and is not on record yet.
        let cause = cx.control.cancel_cause().unwrap_or(cause);
        let by = if cause == Cause::User { Source::User } else { Source::Runtime };
        let cancelled = TurnCancelled { by, cause: CauseName(cause) };
        let ticket = self.record(Draft::new(At::turn(turn), cancelled).of_command(command))?;
        let _committed = cx.control.cancel(cause);
        let control = cx.control.clone();
        actix_rt::spawn(async move { control.cancel_committed(ticket.wait().await.map(|_| true)) });
        Ok(Cancelled::Turn)
    }

    fn record(&self, draft: Draft) -> Result<Ticket, JournalError> {
        self.cx.ledger.commit(vec![draft])
    }
}

/// The turn that took, or will take, what was queued there.
async fn turn_of(cx: &SessionCx, seq: Seq) -> Result<TurnCell, JournalError> {
    let (mut from, mut taken_by) = (seq, None);
    loop {
        match cx.ledger.read(|s| s.whereabouts(seq)) {
            Whereabouts::Waits => return Ok(cx.control.also_expect_turn(seq)),
            Whereabouts::InTurn(_) => {
                let cell = TurnCell::new();
                cx.control.open_cell(cell.clone());
                return Ok(cell);
            }
            _ => {}
        }
        // It is over: the log says how. All of that is durable, or will be at once.
        cx.barrier().await?;
        let page = cx.shared.journal.read(&cx.info.id, from, PAGE).await?;
        for record in &page {
            from = Seq(record.seq.0 + 1);
            let taken = match &record.body {
                Body::TurnStart(start) => start.takes.contains(&seq),
                Body::SteeringMessage(message) => message.from == Some(seq),
                Body::PromptBlocked(blocked) => blocked.from == seq,
                Body::TurnEnd(end) => end.dropped.contains(&seq),
                Body::SessionWithdrawn(w) if w.prompt == seq => {
                    let end = EndReason::Aborted { by: w.by.clone(), reason: w.cause };
                    return Ok(over(0, end));
                }
                _ => false,
            };
            if taken && taken_by.is_none() {
                taken_by = record.at.turn;
            }
            if let Body::TurnEnd(end) = &record.body
                && taken_by.is_some()
                && record.at.turn == taken_by
            {
                return Ok(over(taken_by.unwrap_or_default(), end.reason.clone()));
            }
        }
        if page.is_empty() {
            let why = format!("what became of record {seq} is not in the log");
            return Err(JournalError::Corrupt { session: cx.info.id.clone(), at: seq, why });
        }
    }
}

/// A turn that is over.
fn over(number: u64, end: EndReason) -> TurnCell {
    TurnCell::settled(Arc::new(TurnDone { number, end, cost: TurnCost::default() }))
}
