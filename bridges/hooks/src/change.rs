//! Hooks that change while sessions live: between two turns the files are looked at, and what has changed is taken over, unless
//! hooks on the change keep it out.

use crate::{
    event::Event,
    explain::At,
    hooks::Hooks,
    report::Report,
    set::{BACKSTOP, Set, row},
    watch::{Files, Held, Source, Watch, Watched},
};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{
    HandlerId, OwnRecord, Point, Ready, Reason, Registered, Registrar, Scene, SessionId, StartObserver,
    TurnStarting,
};
use std::{iter::once, path::PathBuf, sync::Arc, time::Duration};

/// Who looks at the files.
const FILES: &str = "files";
/// How long the file system may take to say whether something has changed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A file of hooks that has changed, before what it says now counts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Changing {
    /// Where: a turn that begins, with the last prompt that a turn before it worked on.
    pub scene: Scene,
    /// The client's name of what has changed, such as `project_settings`.
    pub source: Arc<str>,
    /// The file.
    pub file: PathBuf,
}

impl Changing {
    /// Describes a change.
    pub fn new(scene: Scene, source: impl Into<Arc<str>>, file: impl Into<PathBuf>) -> Changing {
        Changing { scene, source: source.into(), file: file.into() }
    }
}

/// What one hook said of a change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Weighed {
    /// Which hook.
    pub handler: HandlerId,
    /// Why what was in force is to stay so.
    pub keeps: Option<Reason>,
    /// How it failed, if it did and that does not decide.
    pub failure: Option<String>,
    /// `hook/invoked` and `hook/result`; nothing of a hook that nobody waits for.
    pub records: Vec<OwnRecord>,
}

/// What was found when the files were looked at, and what is in force since.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reloaded {
    /// The session with whose turn it was found.
    pub session: SessionId,
    /// Each file that has changed, with what came of it.
    pub files: Vec<(PathBuf, Reload)>,
    /// What is to be said of what is in force now and was not to be said before, and of files that do not count.
    pub reports: Vec<Report>,
}

/// What came of a file's change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// What it says counts from now on.
    Taken,
    /// A hook keeps what it said before in force.
    Kept {
        /// Which.
        by: HandlerId,
        /// Why.
        reason: Reason,
    },
    /// It is broken, and what it said before stays in force.
    Rejected,
}

/// Looks whenever a turn begins.
struct Looks(Arc<Hooks>);

impl StartObserver for Looks {
    fn observe(&self, starting: TurnStarting) -> LocalBoxFuture<'_, Ready> {
        Box::pin(async move {
            let ready = match &self.0.watch {
                Some(watch) => self.0.look(watch, &starting.scene).await,
                None => None,
            };
            ready.unwrap_or_default()
        })
    }

    /// Its hooks have limits of their own.
    fn limit(&self) -> Duration {
        BACKSTOP
    }

    fn describe(&self) -> Option<Vec<Registered>> {
        let point = Point::TurnStart;
        let id = HandlerId::new(self.0.dialect(), FILES);
        let looks = Registered::new(point, id, "* depth=0..=0", point.on_failure(), Some(PATIENCE), true);
        let set = self.0.set();
        Some(once(looks).chain(set.of(Event::ConfigChange).iter().map(|hook| row(hook))).collect())
    }
}

impl Hooks {
    pub(crate) fn changes(self: &Arc<Self>, at: &mut Registrar<'_>) {
        if self.watch.is_some() {
            // What a subagent does is part of a turn.
            at.depth(0..=0, |at| _ = at.turn_start_by(FILES, Looks(self.clone())));
        }
    }

    /// Runs the hooks on a change, one after another.
    pub async fn weigh(&self, changing: &Changing) -> Vec<Weighed> {
        self.set().weigh(changing).await
    }

    /// `None` when nothing has changed, or somebody else is looking.
    async fn look(self: &Arc<Self>, watch: &Watch, scene: &Scene) -> Option<Ready> {
        let (held, found) = self.found(watch.hold()?).await?;
        let mut round = Round::new(held, scene);
        for (place, now, rejected) in found {
            round.one(self, place, now, rejected).await;
        }
        round.end(self, watch).await
    }

    /// The files that have changed, each with what is wrong with it if nothing of it counts.
    async fn found(&self, mut held: Held) -> Option<(Held, Vec<(usize, Source, Option<Vec<Report>>)>)> {
        let (dialect, reader) = (self.house().dialect, self.watch.as_ref()?.reader.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let changed = held.changed(|scope| dialect.watches(scope).is_some());
            let each = changed.into_iter().map(|(place, now)| {
                let rejected = reader.rejected(&now);
                (place, now, rejected)
            });
            let found: Vec<_> = each.collect();
            (held, found)
        });
        match tokio::time::timeout(PATIENCE, looked).await {
            Ok(Ok((held, found))) => (!found.is_empty()).then_some((held, found)),
            Ok(Err(stopped)) => {
                tracing::error!(error = %stopped, "files of hooks were not looked at");
                None
            }
            Err(_) => {
                tracing::warn!("files of hooks could not be looked at in time; what was in force stays so");
                None
            }
        }
    }
}

impl Set {
    async fn weigh(&self, changing: &Changing) -> Vec<Weighed> {
        let at = At::ConfigChange(changing);
        let Some(sorted) = self.house.dialect.sort(at) else { return Vec::new() };
        if self.closed(sorted.event, at).is_some() {
            return Vec::new();
        }
        let mut all = Vec::new();
        for hook in &*self.matching(sorted.event, &sorted.subject) {
            let heard = hook.hear(at).await;
            let keeps = heard.block().map(Reason::from);
            let failure = heard.answer.failure.filter(|_| keeps.is_none());
            all.push(Weighed { handler: hook.id.clone(), keeps, failure, records: heard.records });
        }
        all
    }
}

/// One look that found something.
struct Round<'s> {
    held: Held,
    scene: &'s Scene,
    taken: Vec<Source>,
    seen: Vec<Source>,
    records: Vec<OwnRecord>,
    told: Reloaded,
}

impl Round<'_> {
    fn new(held: Held, scene: &Scene) -> Round<'_> {
        let Files { taken, seen, .. } = &*held;
        let (taken, seen) = (taken.clone(), seen.clone());
        let told = Reloaded { session: scene.session.id.clone(), files: Vec::new(), reports: Vec::new() };
        Round { held, scene, taken, seen, records: Vec::new(), told }
    }

    /// Decides about one file. What is in force decides about all of them.
    async fn one(&mut self, hooks: &Hooks, place: usize, now: Source, rejected: Option<Vec<Report>>) {
        self.seen[place] = now.clone();
        let Some(watched) = hooks.house().dialect.watches(now.origin.scope) else { return };
        // Back to what is in force, after a change that was kept out.
        if self.taken[place].text == now.text {
            return;
        }
        let file = now.origin.path.clone();
        let change = match rejected {
            Some(reports) => {
                self.told.reports.extend(reports);
                Reload::Rejected
            }
            None => match self.kept(hooks, watched, &file).await {
                Some((by, reason)) => Reload::Kept { by, reason },
                None => {
                    self.taken[place] = now;
                    Reload::Taken
                }
            },
        };
        tracing::info!(file = %file.display(), ?change, "a file of hooks has changed");
        self.told.files.push((file, change));
    }

    /// Which hook keeps a change out, and why; of several the last one.
    async fn kept(&mut self, hooks: &Hooks, watched: Watched, file: &PathBuf) -> Option<(HandlerId, Reason)> {
        let weighed = hooks.weigh(&Changing::new(self.scene.clone(), watched.source, file)).await;
        let mut kept = None;
        for one in weighed {
            self.records.extend(one.records);
            kept = one.keeps.map(|reason| (one.handler, reason)).or(kept);
        }
        kept.filter(|_| watched.may_be_kept)
    }

    async fn end(self, hooks: &Arc<Hooks>, watch: &Watch) -> Option<Ready> {
        let Round { mut held, taken, seen, records, mut told, .. } = self;
        if !told.files.iter().any(|(_, change)| *change == Reload::Taken) {
            held.seen = seen;
            tell(watch, &told);
            return Some(Ready::new(records));
        }
        let (of, reader) = (hooks.clone(), watch.reader.clone());
        let made = tokio::task::spawn_blocking(move || {
            let mut reports = Vec::new();
            let loaded = reader.load(&taken, &mut reports);
            let set = of.ground.set(loaded, &mut reports);
            (set, taken, reports)
        });
        let (set, taken, reports) = match made.await {
            Ok(made) => made,
            Err(stopped) => {
                tracing::error!(error = %stopped, "files of hooks were not taken over");
                return Some(Ready::new(records));
            }
        };
        told.reports.extend(reports.iter().filter(|report| !held.reports.contains(report)).cloned());
        let hooks = hooks.clone();
        Some(Ready::new(records).then(move || {
            hooks.replace(set);
            (held.taken, held.seen, held.reports) = (taken, seen, reports);
            if let Some(watch) = &hooks.watch {
                tell(watch, &told);
            }
        }))
    }
}

fn tell(watch: &Watch, told: &Reloaded) {
    for report in &told.reports {
        tracing::warn!(%report, "of the files of hooks");
    }
    if let Some(tell) = watch.tell.as_ref().filter(|_| !told.files.is_empty()) {
        tell(told);
    }
}
