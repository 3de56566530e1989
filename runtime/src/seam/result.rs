//! `tools/result`: observers of committed results.

use super::Scene;
use crate::{CallKey, Content, Ended};
use std::sync::Arc;

/// A committed result: exactly what the caller gets and the log keeps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Committed {
    /// Where.
    pub scene: Scene,
    /// The call's key.
    pub key: CallKey,
    /// The name the model called.
    pub name: Arc<str>,
    /// How it ended.
    pub ended: Ended,
    /// What the model reads.
    pub content: Content,
    /// Whether the model reads it as an error.
    pub error: bool,
}

impl Committed {
    /// Describes a committed result.
    pub fn new(
        scene: Scene,
        key: CallKey,
        name: Arc<str>,
        ended: Ended,
        content: Content,
        error: bool,
    ) -> Committed {
        Committed { scene, key, name, ended, content, error }
    }
}

/// Sees each result once, after its commit. Synchronous and short; a panic is contained and reported.
pub trait ResultObserver: Send + Sync + 'static {
    /// Sees one result.
    fn observe(&self, result: &Committed);
}

impl<F: Fn(&Committed) + Send + Sync + 'static> ResultObserver for F {
    fn observe(&self, result: &Committed) {
        self(result);
    }
}
