//! What a session's actors share on their arbiter.

use crate::{
    admission::Pass,
    contain::Watched,
    control::Control,
    handles::{SessionInner, TurnCost, TurnDone},
    hooks::HookRunner,
    host::Host,
    judge::Stop,
    ledger::Ledger,
    registry::RegistryActor,
    replay::Cue,
    runtime::{Profile, Shared},
    seat::Seat,
    watchdog::{Pulse, Who},
};
use actix::Addr;
use portcullis_runtime::{
    CallPath, Draft, EndReason, Execution, HandlerId, JournalError, Point, Record, Scene, Seq, SessionId,
    SessionInfo, Ticket, TurnEnded, law::State,
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    pin::pin,
    rc::Rc,
    sync::Arc,
};

/// A live session, as its own actors see it. Never sent: messages carry its name, and the arbiter's [`Room`] finds it.
pub(crate) struct SessionCx {
    pub(crate) info: Arc<SessionInfo>,
    pub(crate) ledger: Ledger,
    pub(crate) control: Arc<Control>,
    pub(crate) shared: Arc<Shared>,
    /// What the session runs under.
    pub(crate) profile: Arc<Profile>,
    /// It is a replay: foreign code has answered already.
    pub(crate) cue: Option<Arc<Cue>>,
    /// Where its questions surface: at the root of its tree (C-ASK-4).
    pub(crate) asks: Arc<Control>,
    pub(crate) host: Addr<Host>,
    pub(crate) registry: Addr<RegistryActor>,
    pub(crate) room: Rc<Room>,
    /// How many subagents it has at work.
    pub(crate) agents: Rc<Cell<u32>>,
    /// There is a person to ask.
    pub(crate) approvals: bool,
    /// Started at the first hook command.
    pub(crate) hooks: RefCell<Option<Addr<HookRunner>>>,
    /// Mailbox messages between this session's actors.
    pub(crate) hops: Cell<u64>,
    pub(crate) pass: Pass,
    pub(crate) pulse: Pulse,
    /// How often registrations had changed when what is in force was last put on record.
    pub(crate) registrations: Cell<u64>,
    /// The counts when the last turn ended.
    pub(crate) counted: Cell<TurnCost>,
    /// A subagent's.
    pub(crate) is_child: bool,
    /// What its foreign awaits wait for, as far as that is a person in the end.
    pub(crate) waits: RefCell<Vec<(u64, Wait)>>,
    pub(crate) wait_number: Cell<u64>,
    /// Where its log ended when it was last found ready to leave memory, and since when that is so.
    pub(crate) quiet: Cell<Option<(Seq, tokio::time::Instant)>>,
    /// It leaves memory: nothing can be written any more, and what is dropped has not ended.
    pub(crate) leaving: Cell<bool>,
    /// A turn's actor is at work.
    pub(crate) driving: Cell<bool>,
    /// Woken when a turn is over; while the session leaves, also when one wait less is open.
    pub(crate) turn_over: tokio::sync::Notify,
    pub(crate) span: tracing::Span,
}

impl SessionCx {
    pub(crate) fn scene(&self) -> Scene {
        self.ledger.read(|s| {
            let turn = s.open_turn().unwrap_or_default();
            Scene::new(self.info.clone(), turn, s.step_number(), s.current_prompt())
        })
    }

    /// What was written to open the session is no turn's cost.
    pub(crate) fn start_counting(&self) {
        let (barriers, records) = self.ledger.counts();
        self.counted.set(TurnCost { records, barriers, hops: self.hops.get() });
    }

    /// These queued prompts are in the open turn now: whoever sent them waits for its end.
    pub(crate) fn join_turn(&self, taken: impl Iterator<Item = Seq>) {
        self.control.join_turn(taken);
    }

    /// Tells everyone who waits how the turn ended. Only after that is durable, or can never be.
    pub(crate) fn finish_turn(&self, number: u64, end: &EndReason) {
        let (barriers, records) = self.ledger.counts();
        let now = TurnCost { records, barriers, hops: self.hops.get() };
        let before = self.counted.replace(now);
        let cost = TurnCost {
            records: now.records - before.records,
            barriers: now.barriers - before.barriers,
            hops: now.hops - before.hops,
        };
        let done = Arc::new(TurnDone { number, end: end.clone(), cost });
        let cancelled = matches!(end, EndReason::Aborted { .. });
        self.control.close_turn(&done, cancelled);
    }

    /// Shows the observers that a turn is over, once that is durable and before anybody else is told.
    pub(crate) fn tell_turn_over(&self, number: u64, end: &EndReason) {
        let observers = &self.profile.table.turn_observers;
        if observers.is_empty() || self.cue.is_some() {
            return;
        }
        let prompt = self.ledger.read(State::last_prompt);
        let seen = TurnEnded::new(Scene::new(self.info.clone(), number, 0, prompt), end.clone());
        for observer in observers.iter().filter(|o| o.matches.fit(&seen.scene, None)) {
            let watched = self.watched(observer.id.clone(), Some(Point::TurnEnd));
            if let Err(failure) = watched.contain_sync(|| observer.run.observe(&seen)) {
                tracing::error!(observer = %observer.id, %failure, "an observer failed");
            }
        }
    }

    /// Commits records of an open turn. Whatever is left over of a turn that is over (its loop died, its handler
    /// answered too late) has nothing more to say, and harms nobody.
    pub(crate) fn commit(&self, drafts: Vec<Draft>) -> Result<Ticket, Stop> {
        self.commit_on(drafts, &mut |_| Vec::new(), &mut |_| {})
    }

    /// Like `commit`, with what follows in the same append.
    pub(crate) fn commit_on(
        &self,
        drafts: Vec<Draft>,
        follow: &mut dyn FnMut(&State) -> Vec<Draft>,
        see: &mut dyn FnMut(&Arc<Record>),
    ) -> Result<Ticket, Stop> {
        let stale = self.ledger.read(|s| drafts.iter().any(|d| d.at().turn != s.open_turn()));
        if stale {
            return Err(Stop::Failed);
        }
        Ok(self.ledger.commit_on(drafts, follow, see)?)
    }

    /// Waits until everything committed so far is durable, letting other turns go on meanwhile.
    pub(crate) async fn barrier(&self) -> Result<(), JournalError> {
        // Open already, and nothing to take back: nobody has to wait.
        if !self.pass.is_missing() && self.ledger.durable_now() {
            return Ok(());
        }
        self.pass.away(pin!(self.ledger.barrier())).await
    }

    /// Names foreign code to the watchdog.
    pub(crate) fn watched(&self, id: HandlerId, point: Option<Point>) -> Watched<&Pulse> {
        Watched { pulse: &self.pulse, who: self.who(id, point) }
    }

    /// The same, for work that does not stay with whoever asked for it.
    pub(crate) fn watched_away(&self, id: HandlerId, point: Option<Point>) -> Watched {
        Watched { pulse: self.pulse.clone(), who: self.who(id, point) }
    }

    fn who(&self, id: HandlerId, point: Option<Point>) -> Who {
        Who::Handler { id, point, session: self.info.id.clone() }
    }

    /// Names a tool's body to the watchdog.
    pub(crate) fn watched_body(&self, execution: &Execution) -> Watched {
        Watched { pulse: self.pulse.clone(), who: Who::Body(execution.clone()) }
    }

    /// Notes what the foreign await waits for that is about to be made, until the guard is dropped.
    pub(crate) fn waits_for(&self, wait: Wait) -> Waiting<'_> {
        let number = self.wait_number.get();
        self.wait_number.set(number + 1);
        self.waits.borrow_mut().push((number, wait));
        Waiting { cx: self, number }
    }

    /// Notes a message between two actors of the session.
    pub(crate) fn hop(&self) {
        self.hops.set(self.hops.get() + 1);
    }
}

/// What a foreign await waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer to the question about this call.
    Person(CallPath),
    /// A subagent that the body of this call has started.
    Child(CallPath, SessionId),
    /// The body of this call.
    Body(CallPath),
}

/// See [`SessionCx::waits_for`].
pub(crate) struct Waiting<'c> {
    cx: &'c SessionCx,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waits = self.cx.waits.borrow_mut();
        if let Some(at) = waits.iter().rposition(|(number, _)| *number == self.number) {
            waits.swap_remove(at);
        }
        if self.cx.leaving.get() {
            self.cx.turn_over.notify_waiters();
        }
    }
}

/// The sessions of an arbiter.
#[derive(Default)]
pub(crate) struct Room {
    sessions: RefCell<HashMap<SessionId, Rc<SessionCx>>>,
    /// Actors that wait for a turn.
    pub(crate) free: RefCell<Vec<Seat>>,
}

impl Room {
    pub(crate) fn find(&self, id: &SessionId) -> Option<Rc<SessionCx>> {
        self.sessions.borrow().get(id).cloned()
    }

    pub(crate) fn enter(&self, cx: Rc<SessionCx>) {
        self.sessions.borrow_mut().insert(cx.info.id.clone(), cx);
    }

    /// Only the very session leaves: another one of its name may have come since.
    pub(crate) fn leave(&self, handle: &SessionInner) {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.get(&handle.info.id).is_some_and(|cx| Arc::ptr_eq(&cx.control, &handle.control)) {
            sessions.remove(&handle.info.id);
        }
    }
}
