//! `agent/session-end`: observers of sessions whose host ends them. Unlike other observers they may wait, and are waited for.

use super::Scene;
use crate::{OwnRecord, Registered};
use futures::future::LocalBoxFuture;
use std::{sync::Arc, time::Duration};

/// A session that is at rest and leaves memory, because its host shuts down.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionEnded {
    /// Where: behind the last turn, with the last prompt that a turn worked on. The step is 0.
    pub scene: Scene,
}

impl SessionEnded {
    /// Describes a session's end.
    pub fn new(scene: Scene) -> SessionEnded {
        SessionEnded { scene }
    }
}

/// An observer that is told in a bridge's stead, by its name.
pub type PlannedEnd = (Arc<str>, Arc<dyn EndObserver>);

/// Sees a session's end, while its log can still be written. Whoever shuts down waits for it within the limit of the shutdown;
/// what has not answered by then is dropped. A failure is contained and reported.
pub trait EndObserver: Send + Sync + 'static {
    /// Sees the end. The records that it answers with are the last ones of the session's log.
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>>;

    /// The limit that it sets itself, as `introspect()` shows it.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// Of a bridge: who is told in its stead, in order, each by its name. `None` for an observer that is told itself.
    fn plan(&self, _ended: &SessionEnded) -> Option<Vec<PlannedEnd>> {
        None
    }

    /// Of a bridge: who could be told, for `introspect()`.
    fn describe(&self) -> Option<Vec<Registered>> {
        None
    }
}

/// An observer that has nothing to record.
pub(crate) struct Told<F>(pub(crate) F);

impl<F: AsyncFn(SessionEnded) + Send + Sync + 'static> EndObserver for Told<F> {
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(async move {
            (self.0)(ended).await;
            Vec::new()
        })
    }
}
