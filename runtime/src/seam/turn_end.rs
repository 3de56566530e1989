//! `agent/turn-end`: observers of turns that are over.

use super::Scene;
use crate::EndReason;

/// A turn that is over, as the log keeps it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnEnded {
    /// Where: the turn that is over, behind its last step, which is said as step 0.
    pub scene: Scene,
    /// How it ended.
    pub reason: EndReason,
}

impl TurnEnded {
    /// Describes a turn's end.
    pub fn new(scene: Scene, reason: EndReason) -> TurnEnded {
        TurnEnded { scene, reason }
    }
}

/// Sees each turn's end once, after its commit. Synchronous and short; a panic is contained and reported.
pub trait TurnObserver: Send + Sync + 'static {
    /// Sees one end.
    fn observe(&self, ended: &TurnEnded);
}

impl<F: Fn(&TurnEnded) + Send + Sync + 'static> TurnObserver for F {
    fn observe(&self, ended: &TurnEnded) {
        self(ended);
    }
}
