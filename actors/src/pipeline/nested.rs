//! Calls that a body makes: the same pipeline, under the parent's token (C-PIPE-10).

use super::{Made, Trip, lanes::Lanes, spawn};
use crate::judge::Stop;
use futures::future::LocalBoxFuture;
use portcullis_runtime::{
    AgentDone, AgentSpec, CallKey, Cancel, Cause, CauseName, Ended, Failure, HandlerId, Invoke, Outcome,
    Output, SpawnError,
};
use std::{
    cell::{Cell, OnceCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// What a body is handed to call with. It holds its call weakly: kept past the call's end, it is refused.
pub(super) struct Nested {
    parent: Weak<Trip>,
    /// What stops the body stops what it makes.
    body: Cancel,
    /// Settles when the body is over: its nested calls end with it. Made with the first of them.
    cancel: OnceCell<Cancel>,
    /// Shared with the attempt before, if that made anything; most bodies make nothing.
    made: OnceCell<Rc<Count>>,
    /// Nothing can be made any more, whoever kept the means to.
    is_over: Cell<bool>,
}

/// How many calls and agents the bodies of a call have made since it was dispatched. A call that is dispatched again after
/// a crash counts from the start, so that what its first body made is found under the same keys and not made twice; an
/// attempt more by a wrapper counts on.
#[derive(Default)]
pub(super) struct Count {
    calls: Cell<u32>,
    agents: Cell<u32>,
    /// Those under way now.
    open: Cell<usize>,
    fewer: Notify,
}

impl Count {
    pub(super) fn next_call(&self) -> u32 {
        self.calls.replace(self.calls.get() + 1)
    }

    pub(super) fn next_agent(&self) -> u32 {
        self.agents.replace(self.agents.get() + 1)
    }
}

impl Nested {
    pub(super) fn of(parent: &Rc<Trip>, body: Cancel, before: Option<&Nested>) -> Rc<Nested> {
        let made = before.map(|before| before.made.clone()).unwrap_or_default();
        let (parent, cancel, is_over) = (Rc::downgrade(parent), OnceCell::new(), Cell::new(false));
        Rc::new(Nested { parent, body, cancel, made, is_over })
    }

    fn made(&self) -> &Rc<Count> {
        self.made.get_or_init(Rc::default)
    }

    /// The place of the next call: the next one that is free, or holds this very call from before a crash.
    fn place(&self, tool: &str, arguments: &str) -> u32 {
        let fits = |position| {
            let Some(parent) = self.parent.upgrade() else { return true };
            let path = parent.key.call.nested(position);
            parent.cx.ledger.read(|s| s.may_stand(&path, tool, arguments))
        };
        loop {
            let position = self.made().next_call();
            if fits(position) {
                return position;
            }
        }
    }

    /// The call at this place.
    pub(super) fn call(
        &self,
        position: u32,
        tool: Arc<str>,
        arguments: Arc<str>,
    ) -> LocalBoxFuture<'static, Outcome> {
        let (parent, cancel) = (self.parent.clone(), self.cancel.get_or_init(|| self.body.child()).child());
        let under_way = UnderWay::begin(self.made().clone());
        Box::pin(async move {
            let _under_way = under_way;
            loop {
                let trip = {
                    let Some(parent) = parent.upgrade() else {
                        return refused("the call that makes this one has ended");
                    };
                    let token = match parent.cx.shared.mint.nested(&parent.token) {
                        Ok(token) => token,
                        Err(orphan) => return refused(&orphan.to_string()),
                    };
                    let key = CallKey { call: parent.key.call.nested(position), ..parent.key.clone() };
                    let made = Made { name: tool.clone(), raw: arguments.clone() };
                    Trip::begin(parent.cx.clone(), key, cancel.clone(), token, Lanes::alone(), Some(made))
                };
                return match trip.run().await {
                    Ok(()) if trip.is_resumed() => continue,
                    Ok(()) => trip.outcome(),
                    Err(Stop::Cancelled) => {
                        let cause = CauseName(cancel.cause().unwrap_or(Cause::Parent));
                        Outcome::ended(Ended::CancelledBeforeDispatch { cause })
                    }
                    Err(_) => refused("the session's log cannot be written"),
                };
            }
        })
    }

    /// The body is over. Calls it started and left running are cancelled; true when they have to be waited for, so that
    /// none outlives it.
    pub(super) fn over(&self) -> bool {
        self.is_over.set(true);
        let Some(cancel) = self.cancel.get() else { return false };
        cancel.cancel(Cause::Parent);
        self.made().open.get() > 0
    }

    /// Waits until they have ended, but no longer than this.
    pub(super) async fn quiet(&self, grace: Duration) {
        let made = self.made();
        let quiet = async {
            while made.open.get() > 0 {
                made.fewer.notified().await;
            }
        };
        if tokio::time::timeout(grace, quiet).await.is_err() {
            tracing::error!(open = made.open.get(), "a body left nested calls running that do not end");
        }
    }
}

impl Invoke for Nested {
    fn invoke(&self, tool: Arc<str>, arguments: Arc<str>) -> LocalBoxFuture<'static, Outcome> {
        if self.is_over.get() {
            return Box::pin(std::future::ready(refused("the call that makes this one has ended")));
        }
        let position = self.place(&tool, &arguments);
        self.call(position, tool, arguments)
    }

    fn spawn(&self, spec: AgentSpec) -> LocalBoxFuture<'static, Result<AgentDone, SpawnError>> {
        if self.is_over.get() {
            return Box::pin(std::future::ready(Err(SpawnError::Over)));
        }
        let (number, made) = (self.made().next_agent(), self.made().clone());
        let (parent, cancel) = (self.parent.clone(), self.cancel.get_or_init(|| self.body.child()).child());
        let under_way = UnderWay::begin(self.made().clone());
        Box::pin(async move {
            let _under_way = under_way;
            let over = |trip: &Rc<Trip>| trip.token.has_ended() || cancel.is_cancelled();
            match parent.upgrade() {
                Some(trip) if !over(&trip) => spawn::spawn(trip, spec, number, &made, cancel).await,
                _ => Err(SpawnError::Over),
            }
        })
    }
}

struct UnderWay(Rc<Count>);

impl UnderWay {
    fn begin(made: Rc<Count>) -> UnderWay {
        made.open.set(made.open.get() + 1);
        UnderWay(made)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.fewer.notify_waiters();
    }
}

fn refused(why: &str) -> Outcome {
    let by = HandlerId::new(Ended::TOOLS, "nested-call");
    let failure = Failure::Error { message: why.into() };
    Outcome { ended: Ended::HandlerFailure { by, point: None, failure }, output: Some(Output::text(why)) }
}
