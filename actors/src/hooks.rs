//! HookRunner: one per session, started at the first handler of a bridge. It owns what must die with the session
//! (process groups live inside its futures) and a lane per point, so that hooks of one point run one after another even
//! when calls overlap.

use crate::cx::SessionCx;
use actix::prelude::*;
use portcullis_runtime::{Failure, HandlerId, Point};
use std::{collections::HashMap, rc::Rc};
use tokio::sync::{Mutex, oneshot};

/// The actor.
#[derive(Default)]
pub(crate) struct HookRunner {
    /// No lane is ever held by a wrapper or a body: nesting must not deadlock.
    lanes: HashMap<Point, Rc<Mutex<()>>>,
}

impl Actor for HookRunner {
    type Context = Context<Self>;
}

/// A `Send` recipe for a future that is not `Send`.
pub(crate) type Job = Box<dyn FnOnce() -> futures::future::LocalBoxFuture<'static, ()> + Send>;

/// Runs one foreign handler in its point's lane.
pub(crate) struct RunForeign {
    point: Point,
    job: Job,
}

impl Message for RunForeign {
    type Result = ();
}

impl actix::Handler<RunForeign> for HookRunner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, message: RunForeign, _: &mut Context<Self>) -> Self::Result {
        let lane = self.lanes.entry(message.point).or_default().clone();
        Box::pin(async move {
            let _lane = lane.lock().await;
            (message.job)().await;
        })
    }
}

/// Runs foreign work in the session's hook runner and brings its answer back.
pub(crate) async fn run<T: Send + 'static>(
    cx: &SessionCx,
    point: Point,
    id: HandlerId,
    work: impl AsyncFnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let runner = {
        let mut hooks = cx.hooks.borrow_mut();
        match &*hooks {
            Some(runner) if runner.connected() => runner.clone(),
            _ => hooks.insert(HookRunner::default().start()).clone(),
        }
    };
    let (mut answer, answered) = oneshot::channel();
    let job: Job = Box::new(move || {
        Box::pin(async move {
            // Whoever waits may give up (a cancel): then the work is dropped, and its process group dies with it.
            tokio::select! {
                done = work() => {
                    let _ = answer.send(done);
                }
                () = answer.closed() => {}
            }
        })
    });
    cx.hop();
    let sent = runner.send(RunForeign { point, job });
    let gone = || Failure::Error { message: format!("the hook runner went while `{id}` ran").into() };
    let (sent, answered) = futures::future::join(sent, answered).await;
    match (sent, answered) {
        (Ok(()), Ok(answered)) => answered,
        _ => Err(gone()),
    }
}
