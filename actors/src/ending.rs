//! A session's end: its observers are told, and waited for, before the pen is given back.

use crate::{contain::contain, cx::SessionCx};
use portcullis_runtime::{At, Body, Draft, HandlerId, OwnRecord, Point, Scene, SessionEnded};
use std::time::Instant;
use tokio::time::timeout;

impl SessionCx {
    /// Tells the observers, one after another, that the session is ended by its host; what has not answered by then is dropped.
    /// A subagent ends with its parent's call, a replay is nobody's, and of a session that nothing was done in since it was
    /// opened here there is nothing to tell.
    pub(crate) async fn tell_ended(&self, until: Instant) {
        let observers = &self.profile.table.end_observers;
        if observers.is_empty() || self.is_child || self.cue.is_some() || !self.control.has_played() {
            return;
        }
        let left = || until.saturating_duration_since(Instant::now());
        // Observers may read the log, and find its end there.
        let settled = timeout(left(), self.ledger.barrier()).await;
        if !matches!(settled, Ok(Ok(()))) {
            return;
        }
        let scene = self.ledger.read(|s| Scene::new(self.info.clone(), s.turns(), 0, s.last_prompt()));
        let ended = SessionEnded::new(scene);
        for observer in observers.iter().filter(|o| o.matches.fit(&ended.scene, None)) {
            let left = left();
            if left.is_zero() {
                tracing::warn!(session = %self.info.id, observer = %observer.id, "the shutdown's limit left no time for it");
                continue;
            }
            let watched = self.watched(observer.id.clone(), Some(Point::SessionEnd));
            match contain(watched, Some(left), || observer.run.observe(ended.clone())).await {
                Ok(records) => self.keep(&observer.id, records),
                Err(failure) => tracing::error!(observer = %observer.id, %failure, "an observer failed"),
            }
        }
    }

    /// The pen is given back behind these.
    fn keep(&self, by: &HandlerId, records: Vec<OwnRecord>) {
        if records.is_empty() {
            return;
        }
        // A record that only the runtime may write would not be believed anyway; whoever tries it has failed.
        if let Some(forged) = records.iter().find(|own| !Body::may_be_owned(&own.kind)) {
            tracing::error!(observer = %by, kind = %forged.kind, "an observer failed: it may not write such a record");
            return;
        }
        let drafts = records.into_iter().map(|own| Draft::new(At::session(), Body::Own(own))).collect();
        if let Err(error) = self.ledger.commit(drafts) {
            tracing::warn!(session = %self.info.id, %error, "what an observer said of the session's end is not on record");
        }
    }
}
