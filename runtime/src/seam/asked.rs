//! `tools/asked`: observers of questions that were put to a person.

use super::Scene;
use crate::{Execution, HandlerId, Reason, RequestId};

/// A question that waits for a person, as the log keeps it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PutQuestion {
    /// The call that waits.
    pub call: Execution,
    /// The question's name.
    pub request: RequestId,
    /// Who wants a person to agree.
    pub by: Vec<HandlerId>,
    /// Why, where it was said.
    pub reasons: Vec<Reason>,
}

impl PutQuestion {
    /// Describes a question that waits.
    pub fn new(call: Execution, request: RequestId, by: Vec<HandlerId>, reasons: Vec<Reason>) -> PutQuestion {
        PutQuestion { call, request, by, reasons }
    }

    /// Where it waits.
    pub fn scene(&self) -> &Scene {
        &self.call.scene
    }
}

/// Sees each question once, when it is put: after its commit, and not again when the session comes back. Synchronous and
/// short; a panic is contained and reported.
pub trait AskObserver: Send + Sync + 'static {
    /// Sees one question.
    fn observe(&self, asked: &PutQuestion);
}

impl<F: Fn(&PutQuestion) + Send + Sync + 'static> AskObserver for F {
    fn observe(&self, asked: &PutQuestion) {
        self(asked);
    }
}
