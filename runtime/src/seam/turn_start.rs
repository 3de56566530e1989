//! `agent/turn-start`: observers of turns that begin. They look at the outside world before anything of a turn is done, and the
//! turn waits for them.

use super::Scene;
use crate::{OwnRecord, Registered, plan::DEFAULT_DEADLINE};
use futures::future::LocalBoxFuture;
use std::{fmt, time::Duration};

/// A turn that is open, with nothing done in it yet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnStarting {
    /// Where: the turn that begins, and the last prompt that a turn before it worked on. The step is 0.
    pub scene: Scene,
}

impl TurnStarting {
    /// Describes a turn's start.
    pub fn new(scene: Scene) -> TurnStarting {
        TurnStarting { scene }
    }
}

/// What an observer of a turn's start came to.
#[derive(Default)]
#[non_exhaustive]
pub struct Ready {
    /// Records of its owner, for the log of the session.
    pub records: Vec<OwnRecord>,
    /// What takes effect once those are durable. Other handlers of its owner may be registered from then on: what is in force is
    /// put on record anew.
    pub then: Option<Box<dyn FnOnce()>>,
}

impl Ready {
    /// These records, and nothing that takes effect.
    pub fn new(records: Vec<OwnRecord>) -> Ready {
        Ready { records, then: None }
    }

    /// With this as what takes effect.
    pub fn then(mut self, effect: impl FnOnce() + 'static) -> Ready {
        self.then = Some(Box::new(effect));
        self
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("records", &self.records).field("then", &self.then.is_some()).finish()
    }
}

/// Sees each turn's start, before any of its prompts is judged. The turn waits for it up to its limit, unless it is cancelled. A
/// turn that is taken up again with nothing done in it starts again. A failure is contained and reported.
pub trait StartObserver: Send + Sync + 'static {
    /// Sees one start.
    fn observe(&self, starting: TurnStarting) -> LocalBoxFuture<'_, Ready>;

    /// How long the turn waits for it: 10 s unless said otherwise.
    fn limit(&self) -> Duration {
        DEFAULT_DEADLINE
    }

    /// Of a bridge: what it does there, for `introspect()`, if that is more than one thing.
    fn describe(&self) -> Option<Vec<Registered>> {
        None
    }
}

/// An observer that has nothing to record, and its limit.
pub(crate) struct Looks<F>(pub(crate) F, pub(crate) Duration);

impl<F: AsyncFn(TurnStarting) + Send + Sync + 'static> StartObserver for Looks<F> {
    fn observe(&self, starting: TurnStarting) -> LocalBoxFuture<'_, Ready> {
        Box::pin(async move {
            (self.0)(starting).await;
            Ready::default()
        })
    }

    fn limit(&self) -> Duration {
        self.1
    }
}
