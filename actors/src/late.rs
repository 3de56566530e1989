//! What code has to say after the decision it was started for is long made, such as a hook that nobody waited for.

use crate::handles::{Session, SubmitError};
use portcullis_runtime::{Body, Content, OwnRecord, QueueKind, Source};

/// What comes late: records of its owner, and what the model should read of it, in one append, so that neither is there without
/// the other.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Late {
    /// Records of its owner.
    pub records: Vec<OwnRecord>,
    /// What the model should read, in the owner's name.
    pub context: Vec<Content>,
    /// The model reads it in the next step of the open turn, which it forces, or in a turn of its own; else it reads it with
    /// the next request there is, and in the next turn when none is open.
    pub wakes: bool,
}

impl Late {
    /// These records, with nothing for the model.
    pub fn new(records: Vec<OwnRecord>) -> Late {
        Late { records, ..Late::default() }
    }

    /// Adds something for the model.
    pub fn context(mut self, text: impl Into<Content>) -> Late {
        self.context.push(text.into());
        self
    }

    /// Wakes the model with it.
    pub fn waking(mut self) -> Late {
        self.wakes = true;
        self
    }
}

impl Session {
    /// Takes what an owner has to say late. Nothing in it is judged: no person sent it (C-TURN-1). `Ok` means durable.
    ///
    /// # Errors
    /// As for [`prompt`](Session::prompt); [`SubmitError::Reserved`] for a record that only the runtime may write.
    pub async fn late(&self, owner: &str, late: Late) -> Result<(), SubmitError> {
        let Late { records, context, wakes } = late;
        if let Some(record) = records.iter().find(|record| !Body::may_be_owned(&record.kind)) {
            return Err(SubmitError::Reserved { kind: record.kind.clone() });
        }
        let contents: Vec<Content> = context.into_iter().filter(|content| !content.is_empty()).collect();
        if records.is_empty() && contents.is_empty() {
            return Err(SubmitError::Empty);
        }
        let kind = if wakes && !contents.is_empty() { QueueKind::Steering } else { QueueKind::Hook };
        self.submit(kind, contents, records, Source::owner(owner), None).await.map(|_| ())
    }
}
