//! SessionEnd: hooks that are told that a session is over. Nothing that they say decides; the host waits for them, so that none is
//! cut off, and for that they have little time.

use crate::{
    background,
    event::Event,
    explain::At,
    hook::Hook,
    hooks::Hooks,
    set::{Set, row},
};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{EndObserver, OwnRecord, PlannedEnd, Registered, Registrar, SessionEnded};
use std::{sync::Arc, time::Duration};

/// Why a session ends here: its host shuts down. The client's other reasons are of a person at its prompt, whom there is none here.
pub(crate) const OTHER: &str = "other";

/// One hook, as the runtime tells it.
struct Farewell(Arc<Hook>);

impl EndObserver for Farewell {
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(async move {
            let house = &self.0.house;
            let stdin = house.dialect.payload(Event::SessionEnd, At::SessionEnd(&ended), house.style());
            // One in the background is waited for as well: behind the session there is no time in which it could end.
            background::run(&self.0, &ended.scene, "", stdin).await.records
        })
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.0.definition.timeout)
    }
}

/// All of them, whoever they are when a session ends.
struct Farewells(Arc<Hooks>);

impl EndObserver for Farewells {
    fn observe(&self, _: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn plan(&self, ended: &SessionEnded) -> Option<Vec<PlannedEnd>> {
        let told = self.0.set().told_of_end(ended);
        let each = told.iter().map(|hook| {
            let run: Arc<dyn EndObserver> = Arc::new(Farewell(hook.clone()));
            (hook.id.handler.clone(), run)
        });
        Some(each.collect())
    }

    fn describe(&self) -> Option<Vec<Registered>> {
        Some(self.0.set().of(Event::SessionEnd).iter().map(|hook| row(hook)).collect())
    }
}

impl Hooks {
    /// Registers them, and the last lines of the transcript.
    pub(crate) fn farewells(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if !self.may_run() {
            return;
        }
        let of = self.clone();
        at.session_end("transcript", async move |ended| {
            if of.is_empty() {
                return;
            }
            if let Err(trouble) = of.house().transcripts.catch_up(&ended.scene.session).await {
                tracing::warn!(session = %ended.scene.session.id, %trouble, "a session ends with its transcript behind the log");
            }
        });
        at.session_end_by(Event::SessionEnd.name(), Farewells(self.clone()));
    }
}

impl Set {
    fn told_of_end(&self, ended: &SessionEnded) -> Arc<[Arc<Hook>]> {
        match self.closed(Event::SessionEnd, At::SessionEnd(ended)) {
            None => self.matching(Event::SessionEnd, OTHER),
            Some(_) => Arc::new([]),
        }
    }
}
