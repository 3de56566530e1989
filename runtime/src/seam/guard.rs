//! Guards: the last word on a call. They run after the whole gate and any approval, and only deny or abstain; nothing
//! overrides them.

use crate::{Execution, Reason};
use serde::{Deserialize, Serialize};

/// What a guard said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum GuardVerdict {
    /// Nothing against it.
    Abstain,
    /// It must not run.
    Deny {
        /// Why, shown to the model.
        reason: Reason,
    },
}

/// A guard. Synchronous and short: it runs on the session's own thread and cannot be timed out.
pub trait Guard: Send + Sync + 'static {
    /// `Some(reason)` denies. A panic denies, too.
    fn check(&self, call: &Execution) -> Option<Reason>;
    /// True while it has nothing against any call: it is not asked, and not shown, as if it were not there.
    fn is_idle(&self) -> bool {
        false
    }
}

impl<F: Fn(&Execution) -> Option<Reason> + Send + Sync + 'static> Guard for F {
    fn check(&self, call: &Execution) -> Option<Reason> {
        self(call)
    }
}
