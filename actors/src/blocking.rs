//! Handlers that may block: they say so, and run on the blocking pool instead of the arbiter's thread.

use futures::future::LocalBoxFuture;
use portcullis_runtime::{BoxError, Handler, IntoReply, Reply, Seam};
use std::sync::Arc;

/// A handler of any seam from a synchronous closure that may block (a file, a lock, a long computation). Register it
/// with [`Registrar::handler`](portcullis_runtime::Registrar::handler): `at.handler::<PreExecute>("scan", blocking(|call| …))`.
///
/// Running past its limit is a failure like any other; the closure itself cannot be stopped and goes on until it returns.
pub fn blocking<S, F, R>(work: F) -> impl Handler<S>
where
    S: Seam,
    F: Fn(S::Input) -> R + Send + Sync + 'static,
    R: IntoReply<S::Decision>,
{
    Blocking { work: Arc::new(work) }
}

struct Blocking<F> {
    work: Arc<F>,
}

impl<S, F, R> Handler<S> for Blocking<F>
where
    S: Seam,
    F: Fn(S::Input) -> R + Send + Sync + 'static,
    R: IntoReply<S::Decision>,
{
    fn decide(&self, input: S::Input) -> LocalBoxFuture<'_, Result<Reply<S::Decision>, BoxError>> {
        let work = self.work.clone();
        Box::pin(async move {
            let answered = tokio::task::spawn_blocking(move || work(input).into_reply()).await;
            match answered {
                Ok(answered) => answered,
                // Its panic is ours again, so that it is recorded as one.
                Err(failed) => match failed.try_into_panic() {
                    Ok(payload) => std::panic::resume_unwind(payload),
                    Err(failed) => Err(failed.into()),
                },
            }
        })
    }
}
