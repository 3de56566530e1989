//! A session's end: its observers are told, and waited for, before the pen is given back.

use crate::{contain::contain, cx::SessionCx};
use portcullis_runtime::{At, Body, Draft, EndObserver, HandlerId, OwnRecord, Point, Scene, SessionEnded};
use std::time::{Duration, Instant};
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
            let watched = || self.watched(observer.id.clone(), Some(Point::SessionEnd));
            match watched().contain_sync(|| observer.run.plan(&ended)) {
                Ok(None) => self.tell_end(&observer.id, &*observer.run, &ended, left()).await,
                Ok(Some(planned)) => {
                    for (handler, run) in planned {
                        let id = HandlerId { owner: observer.id.owner.clone(), handler };
                        self.tell_end(&id, &*run, &ended, left()).await;
                    }
                }
                Err(failure) => tracing::error!(observer = %observer.id, %failure, "an observer failed"),
            }
        }
    }

    async fn tell_end(&self, id: &HandlerId, run: &dyn EndObserver, ended: &SessionEnded, left: Duration) {
        if left.is_zero() {
            tracing::warn!(session = %self.info.id, observer = %id, "the shutdown's limit left no time for it");
            return;
        }
        let watched = self.watched(id.clone(), Some(Point::SessionEnd));
        match contain(watched, Some(left), || run.observe(ended.clone())).await {
            // The pen is given back behind these.
            Ok(records) => _ = self.keep(id, records),
            Err(failure) => tracing::error!(observer = %id, %failure, "an observer failed"),
        }
    }

    /// Puts an observer's records into the log; false when they do not stand there.
    pub(crate) fn keep(&self, by: &HandlerId, records: Vec<OwnRecord>) -> bool {
        if records.is_empty() {
            return true;
        }
        // A record that only the runtime may write would not be believed anyway; whoever tries it has failed.
        if let Some(forged) = records.iter().find(|own| !Body::may_be_owned(&own.kind)) {
            tracing::error!(observer = %by, kind = %forged.kind, "an observer failed: it may not write such a record");
            return false;
        }
        let drafts = records.into_iter().map(|own| Draft::new(At::session(), Body::Own(own))).collect();
        let kept = self.ledger.commit(drafts);
        if let Err(error) = &kept {
            tracing::warn!(session = %self.info.id, observer = %by, %error, "what an observer said is not on record");
        }
        kept.is_ok()
    }
}
