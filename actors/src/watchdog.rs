//! The watchdog: foreign code runs on an arbiter's own thread, and what blocks that thread blocks its other sessions.
//! Code that blocks cannot be timed out, but it can be named.

use portcullis_runtime::{Ended, Execution, HandlerId, Point, SessionId};
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Longer than this without coming back is a stall.
pub(crate) const STALL: Duration = Duration::from_millis(100);

/// How many stalls are remembered.
const REMEMBERED: usize = 64;

/// Code that blocked its arbiter's thread for over 100 ms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// Whose code.
    pub id: HandlerId,
    /// At which point; `None` for a tool's body or the model.
    pub point: Option<Point>,
    /// In which session.
    pub session: SessionId,
    /// Which of the runtime's arbiters.
    pub arbiter: usize,
    /// For how long, as last seen.
    pub blocked: Duration,
    /// It has not come back yet.
    pub ongoing: bool,
}

/// What an arbiter's thread is busy with now: set before foreign code is polled, cleared after.
#[derive(Clone, Default)]
pub(crate) struct Pulse(Arc<Mutex<Option<Busy>>>);

struct Busy {
    who: Who,
    /// When the watchdog first saw it, at which place of its row: reading the clock is its affair, not that of every poll.
    seen: Option<(usize, Instant)>,
    named: bool,
}

impl Busy {
    fn new(who: Who) -> Busy {
        Busy { who, seen: None, named: false }
    }

    /// For how long it has been the same code's turn, as far as was seen.
    fn blocked(&self) -> Option<Duration> {
        let (place, since) = self.seen?;
        (place == self.who.place()).then(|| since.elapsed())
    }
}

/// Whose code is polled.
pub(crate) enum Who {
    /// A handler, or the model.
    Handler { id: HandlerId, point: Option<Point>, session: SessionId },
    /// A tool's body. Its snapshot has all the names, for one reference more.
    Body(Execution),
    /// Handlers that answer one after another: told once for all of them.
    Row { row: Arc<dyn Row>, session: SessionId },
}

/// Handlers of a point in a row, and whose turn it is.
pub(crate) trait Row: Send + Sync {
    /// Which place's turn it is.
    fn place(&self) -> usize;
    /// Who that is.
    fn name(&self) -> (HandlerId, Point);
}

impl Who {
    fn name(&self) -> (HandlerId, Option<Point>, SessionId) {
        match self {
            Who::Handler { id, point, session } => (id.clone(), *point, session.clone()),
            Who::Body(execution) => {
                let id = HandlerId::new(Ended::TOOLS, execution.tool.name.clone());
                (id, None, execution.scene.session.id.clone())
            }
            Who::Row { row, session } => {
                let (id, point) = row.name();
                (id, Some(point), session.clone())
            }
        }
    }

    fn place(&self) -> usize {
        match self {
            Who::Row { row, .. } => row.place(),
            _ => 0,
        }
    }
}

/// See [`Pulse::enter`].
pub(crate) struct Entered<'p> {
    pulse: &'p Pulse,
    before: Option<Busy>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        *self.pulse.busy() = self.before.take();
    }
}

impl Pulse {
    /// Runs one poll of foreign code, whatever it does, and gives its name back for the next. Foreign code may run inside
    /// foreign code: what was set before is set again.
    pub(crate) fn during<T>(&self, who: Who, poll: impl FnOnce() -> T) -> (thread::Result<T>, Option<Who>) {
        let before = self.busy().replace(Busy::new(who));
        let answer = catch_unwind(AssertUnwindSafe(poll));
        let ours = mem::replace(&mut *self.busy(), before);
        (answer, ours.map(|busy| busy.who))
    }

    /// Names foreign code until what this returns is dropped.
    pub(crate) fn enter(&self, who: Who) -> Entered<'_> {
        Entered { before: self.busy().replace(Busy::new(who)), pulse: self }
    }

    fn busy(&self) -> MutexGuard<'_, Option<Busy>> {
        lock(&self.0)
    }
}

/// Looks at every arbiter's pulse.
#[derive(Default)]
pub(crate) struct Watchdog {
    pulses: Vec<Pulse>,
    stalls: Mutex<Vec<Stall>>,
}

impl Watchdog {
    pub(crate) fn new(arbiters: usize) -> Watchdog {
        Watchdog { pulses: (0..arbiters).map(|_| Pulse::default()).collect(), stalls: Mutex::default() }
    }

    pub(crate) fn pulse(&self, arbiter: usize) -> Pulse {
        self.pulses[arbiter].clone()
    }

    /// One look: names what blocks, once, and notes when it has come back.
    pub(crate) fn look(&self) {
        let mut stalls = lock(&self.stalls);
        for (arbiter, pulse) in self.pulses.iter().enumerate() {
            let mut busy = pulse.busy();
            if let Some(busy) = busy.as_mut().filter(|busy| busy.blocked().is_none()) {
                (busy.seen, busy.named) = (Some((busy.who.place(), Instant::now())), false);
            }
            let long = busy
                .as_mut()
                .and_then(|busy| Some((busy.blocked()?, busy)))
                .filter(|(blocked, _)| *blocked > STALL);
            let open = stalls.iter_mut().rev().find(|s| s.ongoing && s.arbiter == arbiter);
            match (long, open) {
                (Some((blocked, busy)), Some(stall)) if busy.named => stall.blocked = blocked,
                (Some((blocked, busy)), open) => {
                    if let Some(stall) = open {
                        stall.ongoing = false;
                    }
                    busy.named = true;
                    let (id, point, session) = busy.who.name();
                    let at = point.map_or("a tool or the model", Point::name);
                    tracing::warn!(%id, at, %session, arbiter, ?blocked, "code blocks its arbiter's thread");
                    if stalls.len() == REMEMBERED {
                        stalls.remove(0);
                    }
                    stalls.push(Stall { id, point, session, arbiter, blocked, ongoing: true });
                }
                (None, Some(stall)) => stall.ongoing = false,
                (None, None) => {}
            }
        }
    }

    pub(crate) fn stalls(&self) -> Vec<Stall> {
        lock(&self.stalls).clone()
    }

    /// The arbiter is blocked as far as is known: new sessions avoid it.
    pub(crate) fn is_stalled(&self, arbiter: usize) -> bool {
        let busy = self.pulses[arbiter].busy();
        busy.as_ref().and_then(Busy::blocked).is_some_and(|blocked| blocked > STALL)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete or absent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-PIPE-4
    #[test]
    fn what_blocks_is_named_once_and_noted_when_it_comes_back() {
        let watchdog = Watchdog::new(2);
        let id = HandlerId::new("house", "slow");
        let session = SessionId::new("s").expect("a name");
        let who = Who::Handler { id: id.clone(), point: Some(Point::Guard), session };
        let (answer, back) = watchdog.pulse(1).during(who, || {
            watchdog.look();
            assert!(watchdog.stalls().is_empty(), "not yet");
            std::thread::sleep(STALL + Duration::from_millis(20));
            watchdog.look();
            watchdog.look();
            let stalls = watchdog.stalls();
            assert_eq!(stalls.len(), 1);
            assert_eq!((&stalls[0].id, stalls[0].arbiter, stalls[0].ongoing), (&id, 1, true));
            assert!(watchdog.is_stalled(1) && !watchdog.is_stalled(0));
        });
        assert!(answer.is_ok());
        assert_eq!(back.map(|who| who.name().0), Some(id));
        watchdog.look();
        assert!(!watchdog.stalls()[0].ongoing);
    }

    struct Two(std::sync::atomic::AtomicUsize);

    impl Row for Two {
        fn place(&self) -> usize {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
        fn name(&self) -> (HandlerId, Point) {
            (HandlerId::new("house", if self.place() == 0 { "first" } else { "second" }), Point::PreExecute)
        }
    }

    // C-PIPE-4: of handlers in a row, each has its own time, and the one that blocks is named.
    #[test]
    fn in_a_row_the_one_that_blocks_is_named() {
        let watchdog = Watchdog::new(1);
        let pulse = watchdog.pulse(0);
        let row = Arc::new(Two(0.into()));
        let session = SessionId::new("s").expect("a name");
        let entered = pulse.enter(Who::Row { row: row.clone(), session });
        watchdog.look();
        std::thread::sleep(STALL + Duration::from_millis(20));
        row.0.store(1, std::sync::atomic::Ordering::Relaxed);
        watchdog.look();
        assert_eq!(watchdog.stalls(), [], "the second has only begun");
        assert!(!watchdog.is_stalled(0));
        std::thread::sleep(STALL + Duration::from_millis(20));
        watchdog.look();
        let stalls = watchdog.stalls();
        assert_eq!((stalls.len(), &*stalls[0].id.handler, stalls[0].ongoing), (1, "second", true));
        drop(entered);
        watchdog.look();
        assert!(!watchdog.stalls()[0].ongoing && !watchdog.is_stalled(0));
    }
}
