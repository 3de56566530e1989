//! RegistryActor: one per arbiter. Runs calls over the table; `Execute` is re-entrant, so a call made inside a call
//! never waits for itself.

use crate::{
    cx::Room,
    judge::Stop,
    pipeline::{self, Lanes},
};
use actix::prelude::*;
use futures::FutureExt;
use portcullis_runtime::{CallKey, Cancel, SessionId};
use std::{panic::AssertUnwindSafe, pin::pin, rc::Rc};

/// The actor.
pub(crate) struct RegistryActor {
    pub(crate) room: Rc<Room>,
}

impl Actor for RegistryActor {
    type Context = Context<Self>;
}

/// Carries a call of an open step from wherever the log left it to its result.
pub(crate) struct Execute {
    pub(crate) session: SessionId,
    pub(crate) key: CallKey,
    pub(crate) cancel: Cancel,
    pub(crate) lanes: Lanes,
}

impl Message for Execute {
    type Result = Result<(), Stop>;
}

impl actix::Handler<Execute> for RegistryActor {
    type Result = ResponseFuture<Result<(), Stop>>;

    fn handle(&mut self, call: Execute, _: &mut Context<Self>) -> Self::Result {
        let cx = self.room.find(&call.session);
        Box::pin(async move {
            match cx {
                // A defect of ours ends this call's turn, not the actor that every session here depends on.
                Some(cx) => {
                    let run = pin!(pipeline::run(cx, call.key, call.cancel, call.lanes));
                    match AssertUnwindSafe(run).catch_unwind().await {
                        Ok(ran) => ran,
                        Err(_) => Err(Stop::Failed),
                    }
                }
                None => Err(Stop::Cancelled),
            }
        })
    }
}
