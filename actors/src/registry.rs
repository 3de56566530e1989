//! RegistryActor: one per arbiter. Runs the calls of steps over the table; `Execute` is re-entrant, so a call made inside
//! a call never waits for itself.

use crate::{
    cx::{Room, SessionCx},
    judge::Stop,
    pipeline::{self, Lanes},
};
use actix::{
    dev::{MessageResponse, OneshotSender},
    prelude::*,
};
use futures::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};
use portcullis_runtime::{CallKey, CallPath, Cancel, SessionId};
use std::{iter, panic::AssertUnwindSafe, pin::pin, rc::Rc};

/// How many bodies of one step overlap at most.
const OVERLAP: usize = 10;

/// The actor.
pub(crate) struct RegistryActor {
    pub(crate) room: Rc<Room>,
}

impl Actor for RegistryActor {
    type Context = Context<Self>;
}

/// Carries the calls of an open step from wherever the log left them to their results. One ask a step, however many calls
/// it has.
pub(crate) struct Execute {
    pub(crate) session: SessionId,
    pub(crate) turn: u64,
    pub(crate) step: u32,
    pub(crate) cancel: Cancel,
}

impl Message for Execute {
    type Result = Result<(), Stop>;
}

/// The answer to `Execute`: calls that never wait are done without a task of their own.
pub(crate) struct Running(LocalBoxFuture<'static, Result<(), Stop>>);

impl MessageResponse<RegistryActor, Execute> for Running {
    fn handle(mut self, _: &mut Context<RegistryActor>, tx: Option<OneshotSender<Result<(), Stop>>>) {
        // Who waits after this first look is polled again by its task, and leaves its real waker then.
        let tell = |ran| {
            if let Some(tx) = tx {
                // An error means that the turn is not there any more.
                let _ = tx.send(ran);
            }
        };
        match (&mut self.0).now_or_never() {
            Some(ran) => tell(ran),
            None => _ = actix_rt::spawn(async { tell(self.0.await) }),
        }
    }
}

impl actix::Handler<Execute> for RegistryActor {
    type Result = Running;

    fn handle(&mut self, execute: Execute, _: &mut Context<Self>) -> Self::Result {
        let cx = self.room.find(&execute.session);
        Running(Box::pin(async move {
            let Some(cx) = cx else { return Err(Stop::Cancelled) };
            // A defect of ours ends this step's turn, not the actor that every session here depends on.
            let run = pin!(execute.run(&cx));
            AssertUnwindSafe(run).catch_unwind().await.unwrap_or(Err(Stop::Failed))
        }))
    }
}

impl Execute {
    async fn run(&self, cx: &Rc<SessionCx>) -> Result<(), Stop> {
        let mut last = None;
        while let Some(first) = cx.ledger.read(|s| s.call_under_way().cloned()) {
            if self.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            // A call that came back without its result waits for something that only the turn can see to.
            if last.as_ref() == Some(&first) {
                return Ok(());
            }
            let group = overlapping(cx, &first);
            if group.len() < 2 {
                self.call(cx, first.clone(), Lanes::alone()).await?;
            } else {
                let lanes = Lanes::group(group.len());
                let calls = group.into_iter().zip(lanes).map(|(call, lanes)| self.call(cx, call, lanes));
                let stops = join_all(calls).await.into_iter().filter_map(Result::err);
                // A journal that failed says more than a cancel.
                let worst = stops.max_by_key(|stop| matches!(stop, Stop::Journal(_)));
                worst.map_or(Ok(()), Err)?;
            }
            last = Some(first);
        }
        Ok(())
    }

    async fn call(&self, cx: &Rc<SessionCx>, call: CallPath, lanes: Lanes) -> Result<(), Stop> {
        let key = CallKey { turn: self.turn, step: self.step, call };
        pipeline::run(cx.clone(), key, self.cancel.clone(), lanes).await
    }
}

/// The calls from this one on whose tools are all safe to overlap (C-TURN-5); none when its own is not.
fn overlapping(cx: &SessionCx, first: &CallPath) -> Vec<CallPath> {
    let safe = |name: &str| cx.profile.table.find(name).is_some_and(|(spec, _)| spec.concurrency_safe);
    cx.ledger.read(|s| {
        let mut open = s.open_calls().skip_while(|(path, _)| *path != first).peekable();
        // One that has nothing behind it overlaps with nothing, whatever its tool says.
        let (Some(own), Some(_)) = (open.next(), open.peek()) else { return Vec::new() };
        let calls = iter::once(own).chain(open).take_while(|(_, name)| safe(name));
        calls.map(|(path, _)| path.clone()).take(OVERLAP).collect()
    })
}
