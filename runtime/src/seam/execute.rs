//! `tools/execute`: wrappers around a body. They see its outcome as a value, may run the rest again, may answer in its
//! stead, and may tighten its time, never loosen it.

use crate::{Execution, Outcome};
use futures::future::LocalBoxFuture;
use std::time::Duration;

/// What is inside a wrapper: the wrappers after it, and the body. It borrows the call, so it cannot outlive it.
pub struct Next<'a> {
    call: &'a Execution,
    rest: &'a dyn Rest,
}

impl<'a> Next<'a> {
    #[doc(hidden)]
    pub fn new(call: &'a Execution, rest: &'a dyn Rest) -> Next<'a> {
        Next { call, rest }
    }

    /// The call.
    pub fn call(&self) -> &Execution {
        self.call
    }

    /// Runs the rest. Called again, the body runs again in full: the next attempt, under the same token, with its own
    /// `tool/dispatched`. Failures come back as outcomes.
    pub async fn run(&self) -> Outcome {
        self.rest.run(None).await
    }

    /// Runs the rest within a time limit, if that is tighter than the one in force. Running past it is
    /// [`Ended::Timeout`](crate::Ended::Timeout).
    pub async fn within(&self, limit: Duration) -> Outcome {
        self.rest.run(Some(limit)).await
    }
}

/// The rest of a chain, as the pipeline runs it.
#[doc(hidden)]
pub trait Rest {
    /// Runs it, within a tighter limit if one is given.
    fn run(&self, tighter: Option<Duration>) -> LocalBoxFuture<'_, Outcome>;
}

/// A wrapper. `async |next| next.run().await` is one.
///
/// A wrapper that panics, or answers with an outcome that only the pipeline can know (a denial, an unknown tool), makes
/// the call an error.
pub trait Wrapper: Send + Sync + 'static {
    /// Wraps one call.
    fn wrap<'a>(&'a self, next: Next<'a>) -> LocalBoxFuture<'a, Outcome>;
}

impl<F: AsyncFn(Next<'_>) -> Outcome + Send + Sync + 'static> Wrapper for F {
    fn wrap<'a>(&'a self, next: Next<'a>) -> LocalBoxFuture<'a, Outcome> {
        Box::pin(self(next))
    }
}
