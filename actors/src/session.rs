//! SessionActor: one per live session. It owns the door, opens turns, and watches over the one that runs.

use crate::{
    cx::{Room, SessionCx},
    handles::{Knock, Session, SessionInner, Submit, Turn, TurnCost, TurnDone, Unqueued},
    host::Restart,
    judge::Stop,
    runtime::Shared,
    seat,
};
use actix::prelude::*;
use portcullis_runtime::{
    At, Body, Cause, Draft, EndReason, JournalError, PromptQueued, SessionLeft, Settle, law::Next,
};
use std::{rc::Rc, sync::Arc, time::Instant};

/// The actor.
pub(crate) struct SessionActor {
    pub(crate) cx: Rc<SessionCx>,
    pub(crate) room: Rc<Room>,
    pub(crate) handle: Arc<SessionInner>,
    /// Another actor takes the session over, behind the same door.
    pub(crate) handed_over: bool,
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.add_stream(self.handle.door.clone());
        let early = std::mem::take(&mut *self.handle.early());
        for knock in early {
            StreamHandler::handle(self, knock, ctx);
        }
        // A log that was left with work in it goes on at once.
        self.wake(ctx);
    }
}

impl Drop for SessionActor {
    /// Whoever waits is told, and the name is free again. A panic of our own is another matter: the host restarts the
    /// session from its log under the same handle, and who waits goes on waiting (C-RUN-3).
    fn drop(&mut self) {
        if self.handed_over || (std::thread::panicking() && self.hand_over()) {
            return;
        }
        leave(&self.room, &self.cx.shared, &self.handle);
        give_up(&self.handle, GONE, "the session left memory");
    }
}

/// How those are told who wait for a turn of a session that leaves memory with the turn open: it is not over, it is parked.
pub(crate) const GONE: &str = "session_gone";

/// Tells everyone who waits for a turn that none will come.
pub(crate) fn give_up(handle: &SessionInner, code: &str, message: &str) {
    handle.control.join_all();
    let end = EndReason::Error { code: code.into(), message: message.into() };
    let done = Arc::new(TurnDone { number: 0, end, cost: TurnCost::default() });
    handle.control.close_turn(&done, false);
}

/// Out of the directory and the room; twice does no harm.
pub(crate) fn leave(room: &Room, shared: &Shared, handle: &Arc<SessionInner>) {
    handle.ingress.close();
    room.leave(handle);
    shared.forget(handle);
    let _ = handle.control.gone.settle(());
}

impl StreamHandler<Knock> for SessionActor {
    fn handle(&mut self, knock: Knock, ctx: &mut Context<Self>) {
        if self.cx.leaving.get() {
            // Whoever sent it says so, and the session comes back for it.
            return self.handle.early().push(knock);
        }
        match knock {
            Knock::Submit(submit) => self.submit(submit, ctx),
            Knock::Cancel(cancel) => self.cancel(cancel, ctx),
            Knock::Recall(recall) => self.recall(recall),
        }
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The door closes when the session drains; the actor goes on until its turn is over.
    }
}

impl SessionActor {
    fn submit(&mut self, submit: Submit, ctx: &mut Context<Self>) {
        let known = submit.command.as_ref().and_then(|c| self.cx.ledger.read(|s| s.caused(c).cloned()));
        if let Some(known) = known {
            return self.submitted_before(submit, known, ctx);
        }
        let mut command = submit.command;
        let cell = submit.kind.opens_turn().then(Settle::new);
        let cx = self.cx.clone();
        let beside = submit.beside.into_iter().map(|own| Draft::new(At::session(), Body::Own(own)));
        let mut drafts: Vec<Draft> = beside.collect();
        let before = drafts.len() as u64;
        let queued = submit
            .contents
            .into_iter()
            .map(|content| {
                let queued = PromptQueued { kind: submit.kind, content, source: submit.source.clone() };
                // What has a name is one record.
                Draft::new(At::session(), queued).of_command(command.take())
            })
            .collect::<Vec<_>>();
        let first = cx.ledger.read(|s| portcullis_runtime::Seq(s.head().0 + before));
        let count = queued.len() as u64;
        drafts.extend(queued);
        // With no turn open, the one that takes these prompts opens in the same append.
        let idle = !self.cx.driving.get();
        let mut taken = None;
        let opened = cx.ledger.commit_on(
            drafts,
            &mut |s| match s.next(None) {
                Next::Commit(drafts) if idle && s.open_turn().is_none() => drafts,
                _ => Vec::new(),
            },
            &mut |record| {
                if let Body::TurnStart(start) = &record.body {
                    taken = Some(start.takes.clone());
                }
            },
        );
        if let Err(error) = opened {
            // Whoever sent it has gone if this cannot be delivered.
            let _ = submit.reply.send(Err(error.clone().into()));
            return self.poisoned(&error, ctx);
        }
        match (&cell, taken) {
            // Other things may have been taken along; these prompts share one cell.
            (Some(cell), Some(taken)) => {
                cx.control.open_cell(cell.clone());
                cx.join_turn(taken.into_iter().filter(|seq| *seq < first));
                self.drive(ctx);
            }
            (Some(cell), None) => {
                for seq in first.0..first.0 + count {
                    cx.control.expect_turn(portcullis_runtime::Seq(seq), cell.clone());
                }
                self.wake(ctx);
            }
            (None, _) => self.wake(ctx),
        }
        let session = Session { inner: self.handle.clone() };
        let turn = cell.map(|cell| Turn { cell, session: Some(session), prompt: Some(first) });
        if cx.ledger.durable_now() {
            let _ = submit.reply.send(Ok(turn));
            return;
        }
        let acknowledge = async move {
            let durable = cx.barrier().await;
            let _ = submit.reply.send(durable.map(|()| turn).map_err(Unqueued::from));
        };
        ctx.spawn(acknowledge.into_actor(self));
    }

    /// Has the host take the session up again from its log.
    fn hand_over(&mut self) -> bool {
        self.handle.control.cancel(Cause::Fenced);
        self.handed_over = self.cx.host.try_send(Restart { session: self.handle.clone() }).is_ok();
        self.handed_over
    }

    /// Behind a turn: the next one, if something waits.
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        if let Some(error) = self.cx.ledger.failure() {
            return self.poisoned(&error, ctx);
        }
        self.wake(ctx);
        if !self.cx.driving.get() {
            self.cx.turn_over.notify_waiters();
        }
    }

    /// Opens a turn if one is owed and none is open. The batch is what is queued now: a prompt that comes later, even
    /// right after a cancel of this turn, waits for the next one.
    fn wake(&mut self, ctx: &mut Context<Self>) {
        if self.cx.driving.get() {
            return;
        }
        let (open, next) = self.cx.ledger.read(|s| (s.open_turn(), s.next(None)));
        match (open, next) {
            (Some(_), _) => {}
            (None, Next::Commit(drafts)) => {
                let takes: Vec<_> = drafts
                    .iter()
                    .filter_map(|d| match d.body() {
                        Body::TurnStart(start) => Some(start.takes.clone()),
                        _ => None,
                    })
                    .flatten()
                    .collect();
                if let Err(error) = self.cx.ledger.commit(drafts) {
                    return self.poisoned(&error, ctx);
                }
                self.cx.join_turn(takes.into_iter());
            }
            _ => return,
        }
        self.drive(ctx);
    }

    /// Starts the actor of the turn that is open.
    fn drive(&mut self, ctx: &mut Context<Self>) {
        let cancel = self.cx.control.open_turn();
        if let Some(cue) = &self.cx.cue {
            cue.turn(cancel.clone());
        }
        self.cx.driving.set(true);
        seat::play(self.cx.clone(), ctx.address(), cancel);
    }

    /// Nothing can be committed any more: everyone who waits is told, and the session leaves memory. Its log stays as
    /// it is, and opening it again reads what is really there.
    pub(crate) fn poisoned(&mut self, error: &JournalError, ctx: &mut Context<Self>) {
        let turn = self.cx.ledger.read(|s| s.open_turn().unwrap_or_default());
        if self.cx.cue.is_none() {
            tracing::error!(session = %self.cx.info.id, %error, "the journal failed; the session leaves memory");
        }
        // What still runs of the turn stops: whoever opens the session again may run it anew.
        self.handle.control.cancel(Cause::Fenced);
        self.handle.control.join_all();
        let end = EndReason::Error { code: error.code().into(), message: error.to_string().into() };
        self.cx.finish_turn(turn, &end);
        self.handle.intake.close();
        let cx = self.cx.clone();
        let release = async move {
            if let Err(error) = cx.ledger.release().await {
                tracing::warn!(%error, "the session's pen could not be given back");
            }
        };
        ctx.spawn(release.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

/// TurnActor → SessionActor: the turn is over; `None` when its loop died without an end.
pub(crate) struct TurnOver {
    pub(crate) end: Option<Result<EndReason, Stop>>,
}

impl Message for TurnOver {
    type Result = ();
}

impl actix::Handler<TurnOver> for SessionActor {
    type Result = ();

    fn handle(&mut self, over: TurnOver, ctx: &mut Context<Self>) {
        self.cx.driving.set(false);
        if self.cx.leaving.get() {
            // Parked, not over. A subagent's actor ends here, its session's when all of that is done.
            self.cx.turn_over.notify_waiters();
            if self.cx.is_child {
                ctx.stop();
            }
            return;
        }
        match over.end {
            Some(Ok(_)) => self.cx.ledger.keep_snapshot(),
            Some(Err(Stop::Journal(error))) => return self.poisoned(&error, ctx),
            Some(Err(Stop::Cancelled | Stop::Failed)) | None => {
                // C-RUN-3: a defect in the loop ends its own turn, by the law, with every call answered. What still runs
                // of it is told to stop, and finds that its turn is over.
                self.handle.control.cancel(Cause::Shutdown);
                if self.cx.ledger.failure().is_some() && self.hand_over() {
                    return ctx.stop();
                }
                let (turn, drafts) = self.cx.ledger.read(|s| {
                    (
                        s.open_turn().unwrap_or_default(),
                        s.fail("turn_failed", "the turn's loop failed; see the log"),
                    )
                });
                if let Err(error) = self.cx.ledger.commit(drafts) {
                    return self.poisoned(&error, ctx);
                }
                let end = EndReason::Error {
                    code: "turn_failed".into(),
                    message: "the turn's loop failed; see the log".into(),
                };
                let cx = self.cx.clone();
                let told = async move {
                    if cx.barrier().await.is_ok() {
                        cx.tell_turn_over(turn, &end);
                        cx.finish_turn(turn, &end);
                    }
                };
                // The next turn is opened behind that, not before.
                ctx.wait(told.into_actor(self).map(|(), act, ctx| act.go_on(ctx)));
                return;
            }
        }
        self.go_on(ctx);
    }
}

/// Host → SessionActor: take nothing more, let the turn end until then, and leave memory.
pub(crate) struct Drain {
    pub(crate) until: Instant,
}

/// How a session left memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parked {
    /// No turn was open.
    Idle,
    /// A turn was open and stays so in the log; it goes on when the session is opened again.
    InTurn,
}

impl Message for Drain {
    type Result = Parked;
}

impl actix::Handler<Drain> for SessionActor {
    type Result = ResponseActFuture<Self, Parked>;

    fn handle(&mut self, drain: Drain, _: &mut Context<Self>) -> Self::Result {
        self.handle.intake.close();
        let cx = self.cx.clone();
        let intake = self.handle.clone();
        let wait = async move {
            let quiet = async {
                intake.intake.drained().await;
                loop {
                    let over = cx.turn_over.notified();
                    let quiet =
                        !cx.driving.get() && cx.ledger.read(|s| s.open_turn().is_none() && !s.has_prompts());
                    if quiet {
                        break;
                    }
                    over.await;
                }
            };
            let left = drain.until.saturating_duration_since(Instant::now());
            let parked = match tokio::time::timeout(left, quiet).await {
                Ok(()) => Parked::Idle,
                Err(_) => Parked::InTurn,
            };
            if parked == Parked::Idle {
                cx.tell_ended(drain.until).await;
            }
            // Whoever takes the turn up again is not to think that it ended this process (C-DUR-8). A ledger that has failed
            // says nothing any more.
            if parked == Parked::InTurn && cx.ledger.read(|s| s.counts_as_killed()) {
                let _enqueued = cx.ledger.commit(vec![Draft::new(At::session(), SessionLeft {})]);
            }
            if let Err(error) = cx.ledger.release().await {
                tracing::warn!(%error, "the session's pen could not be given back");
            }
            parked
        };
        Box::pin(wait.into_actor(self).map(|parked, _, ctx| {
            ctx.stop();
            parked
        }))
    }
}
