//! SessionEnd: hooks that are told that a session is over. Nothing that they say decides; the host waits for them, so that none is
//! cut off, and for that they have little time.

use crate::{background, event::Event, explain::At, hook::Hook, hooks::Hooks};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{EndObserver, OwnRecord, Registrar, SessionEnded};
use std::{sync::Arc, time::Duration};

/// Why a session ends here: its host shuts down. The client's other reasons are of a person at its prompt, whom there is none here.
pub(crate) const OTHER: &str = "other";

/// One hook, as the runtime tells it.
struct Farewell {
    of: Arc<Hooks>,
    hook: Arc<Hook>,
}

impl EndObserver for Farewell {
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(async move {
            let told = self.of.told_of_end(&ended);
            match told.iter().any(|hook| Arc::ptr_eq(hook, &self.hook)) {
                // One in the background is waited for as well: behind the session there is no time in which it could end.
                true => {
                    let house = &self.hook.house;
                    let stdin =
                        house.dialect.payload(Event::SessionEnd, At::SessionEnd(&ended), house.style());
                    background::run(&self.hook, &ended.scene, "", stdin).await.records
                }
                false => Vec::new(),
            }
        })
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.hook.definition.timeout)
    }
}

impl Hooks {
    /// Registers each of the hooks, and the last lines of the transcript.
    pub(crate) fn farewells(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if self.is_empty() {
            return;
        }
        let transcripts = self.house.transcripts.clone();
        at.session_end("transcript", async move |ended| {
            if let Err(trouble) = transcripts.catch_up(&ended.scene.session).await {
                tracing::warn!(session = %ended.scene.session.id, %trouble, "a session ends with its transcript behind the log");
            }
        });
        for hook in self.of(Event::SessionEnd) {
            let farewell = Farewell { of: self.clone(), hook: hook.clone() };
            at.session_end_by(&hook.id.handler, farewell);
        }
    }

    fn told_of_end(&self, ended: &SessionEnded) -> Arc<[Arc<Hook>]> {
        match self.closed(Event::SessionEnd, At::SessionEnd(ended)) {
            None => self.matching(Event::SessionEnd, OTHER),
            Some(_) => Arc::new([]),
        }
    }
}
