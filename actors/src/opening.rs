//! A turn's start: its observers are told, and waited for, before anything of the turn is done.

use crate::{
    contain::contain,
    cx::SessionCx,
    judge::{Stop, unless_cancelled},
};
use portcullis_runtime::{At, Cancel, Draft, HandlerId, Point, Ready, Scene, TurnStarting, law::State};
use std::{pin::pin, sync::atomic::Ordering};

impl SessionCx {
    /// Tells the observers, one after another, that a turn begins. What was begun before is not told again, and a replay is
    /// nobody's.
    pub(crate) async fn tell_turn_start(&self, cancel: &Cancel) -> Result<(), Stop> {
        if self.cue.is_some() || !self.ledger.read(State::is_turn_new) {
            return Ok(());
        }
        let observers = &self.profile.table.start_observers;
        let scene = self.ledger.read(|s| {
            let turn = s.open_turn().unwrap_or_default();
            Scene::new(self.info.clone(), turn, 0, s.last_prompt())
        });
        let starting = TurnStarting::new(scene);
        for observer in observers.iter().filter(|o| o.matches.fit(&starting.scene, None)) {
            let (watched, limit) =
                (self.watched(observer.id.clone(), Some(Point::TurnStart)), observer.run.limit());
            let work = contain(watched, Some(limit), || observer.run.observe(starting.clone()));
            match unless_cancelled(self, pin!(work), cancel).await? {
                Ok(ready) => self.make_ready(&observer.id, ready).await?,
                Err(failure) => tracing::error!(observer = %observer.id, %failure, "an observer failed"),
            }
        }
        self.note_config()
    }

    /// Its records first, and on disk, then what they say takes effect (C-DUR-1).
    async fn make_ready(&self, by: &HandlerId, ready: Ready) -> Result<(), Stop> {
        let recorded = !ready.records.is_empty();
        if !self.keep(by, ready.records) {
            return Ok(());
        }
        let Some(effect) = ready.then else { return Ok(()) };
        if recorded {
            self.barrier().await?;
        }
        if let Err(failure) = self.watched(by.clone(), Some(Point::TurnStart)).contain_sync(effect) {
            tracing::error!(observer = %by, %failure, "an observer failed");
        }
        self.shared.registrations.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// What is in force, if somebody's handlers are other ones than when this session last looked.
    fn note_config(&self) -> Result<(), Stop> {
        let now = self.shared.registrations.load(Ordering::Acquire);
        if self.registrations.replace(now) == now {
            return Ok(());
        }
        let config = self.profile.in_force();
        if self.ledger.read(|s| s.config() != Some(&config.digest)) {
            let _enqueued = self.ledger.commit(vec![Draft::new(At::session(), config.into_owned())])?;
        }
        Ok(())
    }
}
