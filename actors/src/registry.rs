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
use portcullis_runtime::{CallKey, CallPath, Cancel, SessionId, law::State};
use std::{iter, panic::AssertUnwindSafe, pin::pin, rc::Rc, slice};

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
        // Calls that are deferred, and those that owe nothing but a result which stands behind one that is.
        let mut waiting: Vec<CallPath> = Vec::new();
        let mut last = None;
        while cx.ledger.read(|s| s.call_under_way().is_some()) {
            if self.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let Some(first) = cx.ledger.read(|s| next(s, &waiting).cloned()) else {
                pipeline::resumed(cx, self.turn, self.step, &self.cancel).await?;
                (waiting, last) = (Vec::new(), None);
                continue;
            };
            // A call that came back without its result waits for something that only the turn can see to.
            if last.as_ref() == Some(&first) {
                return Ok(());
            }
            let group = overlapping(cx, &first, &waiting);
            let came_back = if group.is_empty() { slice::from_ref(&first) } else { &group };
            if group.len() < 2 {
                self.call(cx, first.clone(), Lanes::alone()).await?;
            } else {
                let lanes = Lanes::group(group.len());
                let calls = group.iter().zip(lanes).map(|(call, lanes)| self.call(cx, call.clone(), lanes));
                let stops = join_all(calls).await.into_iter().filter_map(Result::err);
                // A journal that failed says more than a cancel.
                let worst = stops.max_by_key(|stop| matches!(stop, Stop::Journal(_)));
                worst.map_or(Ok(()), Err)?;
            }
            cx.ledger.read(|s| waiting.extend(came_back.iter().filter(|call| s.is_put_off(call)).cloned()));
            last = Some(first);
        }
        Ok(())
    }

    async fn call(&self, cx: &Rc<SessionCx>, call: CallPath, lanes: Lanes) -> Result<(), Stop> {
        let key = CallKey { turn: self.turn, step: self.step, call };
        pipeline::run(cx.clone(), key, self.cancel.clone(), lanes).await
    }
}

/// The call to go on with; none when all that are left wait.
fn next<'s>(s: &'s State, waiting: &[CallPath]) -> Option<&'s CallPath> {
    if waiting.is_empty() {
        return s.call_under_way();
    }
    s.open_calls().map(|(path, _)| path).find(|path| !waiting.contains(path))
}

/// The calls from this one on whose tools are all safe to overlap (C-TURN-5); none when its own is not.
fn overlapping(cx: &SessionCx, first: &CallPath, waiting: &[CallPath]) -> Vec<CallPath> {
    let safe = |name: &str| cx.profile.table.find(name).is_some_and(|(spec, _)| spec.concurrency_safe);
    cx.ledger.read(|s| {
        let open = s.open_calls().filter(|(path, _)| !waiting.contains(path));
        let mut open = open.skip_while(|(path, _)| *path != first).peekable();
        // One that has nothing behind it overlaps with nothing, whatever its tool says.
        let (Some(own), Some(_)) = (open.next(), open.peek()) else { return Vec::new() };
        let calls = iter::once(own).chain(open).take_while(|(_, name)| safe(name));
        calls.map(|(path, _)| path.clone()).take(OVERLAP).collect()
    })
}
