//! Spawn against cancel: no child is missed.

use crate::{
    cancel::Cancel,
    cause::Cause,
    intake::{Entered, Intake},
};
use std::{fmt, future::Future};

/// Where a call's or a session's children live. Clones are the same nursery.
///
/// A child that is spawned while a cancel is running is refused or cancelled, never missed; and after a cancel the
/// nursery can be waited for until it is [`emptied`](Nursery::emptied).
#[derive(Clone)]
pub struct Nursery {
    scope: Cancel,
    intake: Intake,
}

impl Nursery {
    /// A nursery below `parent`: a cancel of the parent is a cancel of the nursery.
    pub fn below(parent: &Cancel) -> Self {
        Nursery { scope: parent.child(), intake: Intake::new() }
    }

    /// Takes in a child.
    ///
    /// # Errors
    /// The cause, if the nursery or anything above it was cancelled.
    pub fn spawn(&self) -> Result<Child, Cause> {
        // In first, then under the scope: `emptied` closes the intake only after the scope is cancelled, so whoever
        // finds the intake closed finds the cause too, and whoever it let in is waited for.
        let entered = self.intake.enter();
        let cancel = self.scope.try_child()?;
        match entered {
            Some(entered) => Ok(Child { cancel, _entered: entered }),
            // Not reached, for the reason above; refusing is right whatever happens.
            None => Err(self.scope.cause().unwrap_or(Cause::Parent)),
        }
    }

    /// Cancels every child and refuses later ones. `false` if there was a cancel before: its cause stands.
    pub fn cancel(&self, cause: Cause) -> bool {
        self.scope.cancel(cause)
    }

    /// Why the nursery is cancelled, or `None`.
    pub fn cause(&self) -> Option<Cause> {
        self.scope.cause()
    }

    /// How many children there are just now.
    pub fn children(&self) -> usize {
        self.intake.inside()
    }

    /// Resolves to the cause when the nursery is cancelled *and* its last child is gone. It cancels nothing itself.
    pub fn emptied(&self) -> impl Future<Output = Cause> + Send + 'static + use<> {
        let Nursery { scope, intake } = self.clone();
        async move {
            let cause = scope.cancelled().await;
            intake.close();
            intake.drained().await;
            cause
        }
    }
}

impl fmt::Debug for Nursery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nursery").field("cause", &self.cause()).field("children", &self.children()).finish()
    }
}

/// A place in a [`Nursery`]. Drop it when the child is gone: the nursery waits for that.
#[derive(Debug)]
#[must_use = "dropping it leaves the nursery at once"]
pub struct Child {
    cancel: Cancel,
    _entered: Entered,
}

impl Child {
    /// The child's own cancel cell, below the nursery's.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}
