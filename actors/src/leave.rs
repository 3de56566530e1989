//! Leaving memory, and coming back (C-DUR-4).
//!
//! A session that has had nothing to do for a time gives its pen back and its actors stop. What is left is its log, and its
//! handle for as long as somebody holds it: the next thing that is put there has the host open the session again, behind
//! the same handle. So is one whose turn waits for a person and for nothing else. Subagents leave with the session that
//! started them, and only if the bodies that wait for them may run again.

use crate::{
    cx::{SessionCx, Wait},
    handles::{Session, SessionInner, TurnCost, TurnDone},
    host::{Again, Host, OpenError, contained, open_session},
    inbox,
    ledger::time_left,
    runtime::Shared,
    session::{Drain, SessionActor},
};
use actix::prelude::*;
use futures::future::{join_all, ready};
use portcullis_runtime::{
    CallPath, Cause, EndReason, JournalError, SessionId,
    law::{Next, State},
};
use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// A session that could not be brought back for a question that has run out is brought back after this time.
const AGAIN: Duration = Duration::from_secs(5);

/// How often the host looks for sessions that have been quiet for long enough: a part of that time, within these.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(30));

/// See [`LOOKS`].
pub(crate) fn looks(idle_after: Duration) -> Duration {
    (idle_after / 4).clamp(LOOKS.0, LOOKS.1)
}

/// A turn that waits for a person, here or in a subagent, and for nothing else: no code of ours or anyone's runs, and
/// whatever is dropped with it may run again.
fn is_parked(cx: &SessionCx) -> bool {
    let waits = cx.waits.borrow();
    if !cx.driving.get() || waits.is_empty() || cx.pass.open() != waits.len() {
        return false;
    }
    let waits_below = |path: &CallPath| {
        waits.iter().any(|(_, wait)| match wait {
            Wait::Person(asks) => asks != path && asks.positions().starts_with(path.positions()),
            Wait::Child(call, _) => call == path,
            Wait::Body(_) => false,
        })
    };
    waits.iter().all(|(_, wait)| match wait {
        Wait::Person(_) => true,
        Wait::Child(_, child) => cx.room.find(child).is_some_and(|child| is_parked(&child)),
        Wait::Body(path) => cx.ledger.read(|s| s.may_run_again(path)) && waits_below(path),
    })
}

/// Nothing is owed and nothing is on its way.
fn is_idle(cx: &SessionCx) -> bool {
    !cx.driving.get()
        && cx.pass.open() == 0
        && cx.ledger.read(|s| s.open_turn().is_none() && s.next(None) == Next::Idle)
}

/// May the session go, as far as it is known on its arbiter?
fn may_leave(cx: &SessionCx) -> bool {
    !cx.leaving.get() && cx.ledger.is_settled() && (is_idle(cx) || is_parked(cx))
}

/// The session and its subagents, each behind the one that started it.
fn tree(cx: Rc<SessionCx>) -> Vec<Rc<SessionCx>> {
    let mut tree = vec![cx];
    let mut at = 0;
    while at < tree.len() {
        let children: Vec<SessionId> = tree[at]
            .waits
            .borrow()
            .iter()
            .filter_map(|(_, wait)| match wait {
                Wait::Child(_, child) => Some(child.clone()),
                _ => None,
            })
            .collect();
        let room = tree[at].room.clone();
        tree.extend(children.iter().filter_map(|child| room.find(child)));
        at += 1;
    }
    tree
}

/// Host → SessionActor: leave memory, if nothing speaks against it. The answer is the handle that is left of the session.
pub(crate) struct Leave;

impl Message for Leave {
    type Result = Option<Arc<SessionInner>>;
}

impl actix::Handler<Leave> for SessionActor {
    type Result = ResponseActFuture<Self, Option<Arc<SessionInner>>>;

    fn handle(&mut self, _: Leave, _: &mut Context<Self>) -> Self::Result {
        let (cx, handle) = (self.cx.clone(), self.handle.clone());
        if self.handed_over || !handle.presence.leaves() {
            return Box::pin(ready(None).into_actor(self));
        }
        // From here on, whoever puts something says so. What was put before is seen now.
        let may = !handle.intake.is_closed() && !handle.is_asked_for() && may_leave(&cx);
        if !may || !handle.control.park_turn() {
            handle.presence.is_here();
            return Box::pin(ready(None).into_actor(self));
        }
        let tree = tree(cx.clone());
        for cx in &tree {
            cx.leaving.set(true);
        }
        // Nothing can be written from here on, by whatever is still to be dropped.
        let pens = join_all(tree.iter().map(|cx| cx.ledger.release()).collect::<Vec<_>>());
        for child in &tree[1..] {
            child.control.cancel(Cause::Fenced);
        }
        let leave = async move {
            for cx in &tree {
                loop {
                    let less = cx.turn_over.notified();
                    if !cx.driving.get() && cx.waits.borrow().is_empty() {
                        break;
                    }
                    less.await;
                }
            }
            for child in &tree[1..] {
                child.control.gone.wait().await;
            }
            for error in pens.await.into_iter().filter_map(Result::err) {
                tracing::warn!(session = %cx.info.id, %error, "a session's pen could not be given back");
            }
        };
        Box::pin(leave.into_actor(self).map(|(), actor, ctx| {
            // Its handle stays.
            actor.handed_over = true;
            ctx.stop();
            Some(actor.handle.clone())
        }))
    }
}

impl Host {
    /// Lets those go that have been quiet for so long.
    pub(crate) fn look(&mut self, idle_after: Duration) {
        if self.is_closing() {
            return;
        }
        let now = tokio::time::Instant::now();
        let due: Vec<_> = {
            let sessions = self.sessions.borrow();
            let quiet = |id: &SessionId| {
                self.kit.room.find(id).is_some_and(|cx| !cx.is_child && is_quiet(&cx, now, idle_after))
            };
            sessions.iter().filter(|(id, _)| quiet(id)).map(|(id, addr)| (id.clone(), addr.clone())).collect()
        };
        for (id, addr) in due {
            let host = self.parts();
            actix_rt::spawn(async move {
                let Ok(Some(handle)) = addr.send(Leave).await else { return };
                host.sessions.borrow_mut().remove(&id);
                host.kit.room.leave(&handle);
                host.kit.shared.set_away(&handle);
                if host.is_closing() {
                    handle.end();
                } else {
                    handle.set_alarm(Duration::ZERO);
                    if handle.presence.left() {
                        host.come(handle).await;
                    }
                }
            });
        }
    }

    /// Opens a session again, behind its handle. If that cannot be, what was put there is handed back, and the next one may
    /// try again.
    async fn come(self, handle: Arc<SessionInner>) {
        if self.is_closing() {
            return handle.end();
        }
        let again = Again::Back(handle.clone());
        match contained(open_session(self.kit.clone(), handle.opening.clone(), Some(again))).await {
            Ok((_, actor)) if self.is_closing() => {
                // Too late to be drained with the others.
                let _ = actor.send(Drain { until: Instant::now() }).await;
            }
            Ok((session, actor)) => {
                self.sessions.borrow_mut().insert(session.id().clone(), actor);
                inbox::drain(&self.kit.shared, &session).await;
            }
            Err(error) => {
                tracing::warn!(session = %handle.info.id, %error, "a session could not be brought back");
                handle.presence.stays_away();
                handle.hand_back(&error);
                // A question that has run out meanwhile is tried again.
                let _ = handle.alarm().take();
                handle.set_alarm(AGAIN);
            }
        }
    }
}

/// True once the session has been ready to leave, with nothing new in its log, for this long.
fn is_quiet(cx: &SessionCx, now: tokio::time::Instant, for_long: Duration) -> bool {
    let head = cx.ledger.read(State::head);
    match cx.quiet.get().filter(|(at, _)| *at == head && may_leave(cx)) {
        Some((_, since)) => now.saturating_duration_since(since) >= for_long,
        None => {
            cx.quiet.set(Some((head, now)));
            false
        }
    }
}

/// Bring a session back.
pub(crate) struct Come(pub(crate) Arc<SessionInner>);

impl Message for Come {
    type Result = ();
}

impl actix::Handler<Come> for Host {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, come: Come, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.parts().come(come.0))
    }
}

impl SessionInner {
    /// Something was put: the session is brought back if it is away.
    pub(crate) fn stir(self: &Arc<Self>) {
        // A clone of the address has a place of its own in the mailbox: a full one refuses nobody here.
        if self.presence.wanted() && self.host.as_ref().clone().try_send(Come(self.clone())).is_err() {
            self.end();
        }
    }

    /// Has the session brought back when a question of its expires.
    fn set_alarm(self: &Arc<Self>, at_least: Duration) {
        let Some(expires) = self.control.next_expiry() else { return };
        let handle = self.clone();
        let alarm = actix_rt::spawn(async move {
            tokio::time::sleep(time_left(expires).max(at_least)).await;
            handle.control.expire(expires);
            handle.stir();
        });
        let before = self.alarm().replace(alarm.abort_handle());
        debug_assert!(before.is_none(), "it was here in between");
    }

    /// True when something was put that the session has not seen yet.
    fn is_asked_for(&self) -> bool {
        !self.door.is_empty() || !self.early().is_empty() || self.control.is_asked_for()
    }

    /// What was put cannot be done now.
    fn hand_back(&self, error: &OpenError) {
        let error = match error {
            OpenError::Journal(error) => error.clone(),
            OpenError::Unlawful { session, invalid } => {
                let (session, at, why) = (session.clone(), invalid.seq, invalid.to_string());
                JournalError::Corrupt { session, at, why }
            }
            other => JournalError::Unavailable(other.to_string()),
        };
        let early = std::mem::take(&mut *self.early());
        for knock in early.into_iter().chain(std::iter::from_fn(|| self.door.try_recv().ok())) {
            knock.refuse(error.clone());
        }
        self.control.hand_back(&error);
    }

    /// It does not come back: its runtime is over.
    pub(crate) fn end(self: &Arc<Self>) {
        self.intake.close();
        self.ingress.close();
        self.early().clear();
        while self.door.try_recv().is_ok() {}
        if let Some(shared) = self.shared.upgrade() {
            Shared::forget(&shared, self);
        }
        let _ = self.control.gone.settle(());
        crate::session::give_up(self, crate::session::GONE, "the session left memory");
    }

    /// The session is back, and this is what its log holds. Whoever waits for a turn that is over by now, since another
    /// process has had the session meanwhile, is told how the last one ended.
    pub(crate) fn is_back(self: &Arc<Self>, state: &State) {
        let last = state.last_end().cloned().unwrap_or(EndReason::Unknown);
        let over = TurnDone { number: state.turns(), end: last, cost: TurnCost::default() };
        self.control.catch_up(
            state.open_turn().is_some(),
            |seq| state.queued(seq).is_some(),
            &Arc::new(over),
        );
        if let Some(alarm) = self.alarm().take() {
            alarm.abort();
        }
        self.presence.is_here();
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.forget_unheld(&self.info.id);
        }
    }
}

/// What is in the directory for a session.
pub(crate) enum Listed {
    /// In memory, or being opened.
    Here(portcullis_runtime::Settle<Result<Session, OpenError>>),
    /// Away. Whoever opens it by its name gets the handle that others hold; when nobody does, it is opened anew.
    Away(std::sync::Weak<SessionInner>),
    /// Away, with registrations of its own, which nobody else has: its handle is kept for them.
    Kept(Session),
}

impl Listed {
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Listed::Here(_))
    }

    /// True if this is that very session.
    pub(crate) fn is(&self, handle: &Arc<SessionInner>) -> bool {
        match self {
            Listed::Here(cell) => {
                matches!(cell.get(), Some(Ok(session)) if Arc::ptr_eq(&session.inner, handle))
            }
            Listed::Away(away) => std::ptr::eq(away.as_ptr(), Arc::as_ptr(handle)),
            Listed::Kept(session) => Arc::ptr_eq(&session.inner, handle),
        }
    }

    /// The handle of a session that is away.
    pub(crate) fn away(&self) -> Option<Arc<SessionInner>> {
        match self {
            Listed::Here(_) => None,
            Listed::Away(away) => away.upgrade(),
            Listed::Kept(session) => Some(session.inner.clone()),
        }
    }
}
