//! Host: one actor per arbiter. It opens sessions there, so that all their actors share one thread, and drains them.

use crate::{
    admission::{Admission, Pass},
    control::Control,
    cx::{Room, SessionCx},
    handles::{INGRESS, Session, SessionInner},
    inbox,
    leave::looks,
    ledger::{Ledger, SNAPSHOT_RECORDS, now_ms},
    presence::Presence,
    registry::RegistryActor,
    replay::Cue,
    runtime::{Profile, SessionOptions, Shared, UnderWay},
    session::{Drain, Parked, SessionActor, give_up, leave},
    watchdog::Pulse,
};
use actix::prelude::*;
use futures::FutureExt;
use portcullis_identity::Intake;
use portcullis_runtime::{
    At, Claim, Draft, JournalError, Parent, Record, Seq, SessionCreated, SessionId, SessionInfo,
    SessionResumed,
    law::{Invalid, Mark, State},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// How many records are read at once when a session is opened.
pub(crate) const PAGE: usize = 1024;

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its log breaks the law: another program wrote it, or it is damaged. Nothing was changed.
    #[error("the log of session `{session}` does not fold: {invalid}")]
    Unlawful {
        /// The session.
        session: SessionId,
        /// Where and why.
        invalid: Invalid,
    },
    /// Its own registrations clash with the runtime's.
    #[error(transparent)]
    Table(#[from] portcullis_runtime::plan::TableError),
    /// It is a subagent's: it goes on when the session that started it does.
    #[error(
        "session `{session}` is a subagent's: open `{parent}`, which started it; its log can be read in the journal"
    )]
    Subagent {
        /// The subagent's session.
        session: SessionId,
        /// The session that started it.
        parent: SessionId,
    },
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Draining,
    /// The working directory is not an absolute path in UTF-8.
    #[error("the working directory `{0}` is not an absolute path in UTF-8")]
    Cwd(String),
}

/// How often in a row a session is restarted without ending a turn, before it leaves memory.
const RESTARTS: u32 = 3;

/// The actor.
pub(crate) struct Host {
    pub(crate) kit: Kit,
    pub(crate) sessions: Rc<RefCell<HashMap<SessionId, Addr<SessionActor>>>>,
    /// How many there were when those that are gone were last let go of.
    kept: Cell<usize>,
    /// Set when the runtime shuts down: from then on nothing is opened here, not even a subagent.
    closed_from: Rc<Cell<Option<Instant>>>,
}

/// What every session of this arbiter is made with.
#[derive(Clone)]
pub(crate) struct Kit {
    pub(crate) shared: Arc<Shared>,
    pub(crate) room: Rc<Room>,
    registry: Addr<RegistryActor>,
    admission: Admission,
    pulse: Pulse,
    host: Addr<Host>,
    /// The same address, shared by all handles.
    come: Arc<Addr<Host>>,
}

impl Host {
    /// Makes the arbiter's room; called on its thread.
    pub(crate) fn new(shared: Arc<Shared>, pulse: Pulse, host: Addr<Host>) -> Host {
        let room = Rc::new(Room::default());
        let registry = RegistryActor { room: room.clone() }.start();
        let come = Arc::new(host.clone());
        let kit = Kit { shared, room, registry, admission: Admission::default(), pulse, host, come };
        Host { kit, sessions: Rc::default(), kept: Cell::default(), closed_from: Rc::default() }
    }

    /// The host as its futures hold it.
    pub(crate) fn parts(&self) -> Host {
        Host {
            kit: self.kit.clone(),
            sessions: self.sessions.clone(),
            kept: self.kept.clone(),
            closed_from: self.closed_from.clone(),
        }
    }

    /// It takes no session up any more: its runtime is being shut down. What is open may still open subagents.
    pub(crate) fn is_closing(&self) -> bool {
        self.closed_from.get().is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed_from.get().is_some_and(|from| from <= Instant::now())
    }
}

impl Actor for Host {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(idle_after) = self.kit.shared.idle_after {
            ctx.run_interval(looks(idle_after), move |host, _| host.look(idle_after));
        }
        let every = self.kit.shared.inbox_every.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(every) = every {
            self.watch_inboxes(every);
        }
    }
}

/// What a session is opened with; kept, so that it can be restarted alike.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) id: SessionId,
    pub(crate) options: SessionOptions,
    pub(crate) profile: Arc<Profile>,
    pub(crate) child: Option<ChildOf>,
    /// It is a replay.
    pub(crate) cue: Option<Arc<Cue>>,
}

/// Where a subagent's session comes from.
#[derive(Clone)]
pub(crate) struct ChildOf {
    pub(crate) info: Arc<SessionInfo>,
    pub(crate) parent: Parent,
    /// Its questions surface at the root.
    pub(crate) asks: Arc<Control>,
}

/// Opens a session here.
pub(crate) struct Open(pub(crate) Opening, pub(crate) Option<UnderWay>);

impl Message for Open {
    type Result = Result<Session, OpenError>;
}

impl actix::Handler<Open> for Host {
    type Result = ResponseFuture<Result<Session, OpenError>>;

    fn handle(&mut self, open: Open, _: &mut Context<Self>) -> Self::Result {
        // Those that are gone are let go of now and then: looking at all of them each time would cost the square.
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() > 2 * self.kept.get() + 64 {
            sessions.retain(|_, addr| addr.connected());
            self.kept.set(sessions.len());
        }
        drop(sessions);
        let host = self.parts();
        let Open(opening, under_way) = open;
        let root = opening.child.is_none() && opening.cue.is_none();
        Box::pin(async move {
            let opened = async {
                if host.is_closed() {
                    return Err(OpenError::Draining);
                }
                let (session, actor) = contained(open_session(host.kit.clone(), opening, None)).await?;
                if host.is_closed() {
                    // Opened too late to be drained with the others: its pen is given back here.
                    let _ = actor.send(Drain { until: Instant::now() }).await;
                    return Err(OpenError::Draining);
                }
                host.sessions.borrow_mut().insert(session.id().clone(), actor);
                if root {
                    // Before whoever opens it has it.
                    inbox::drain(&host.kit.shared, &session).await;
                }
                Ok(session)
            }
            .await;
            if let Some(under_way) = under_way {
                under_way.settle(&opened);
            }
            opened
        })
    }
}

/// Lets a session leave memory for good when it is quiet.
pub(crate) struct Close {
    pub(crate) session: Session,
}

impl Message for Close {
    type Result = ();
}

/// How long a session that is closed may take to become quiet.
const CLOSE: Duration = Duration::from_secs(5);

impl actix::Handler<Close> for Host {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, close: Close, _: &mut Context<Self>) -> Self::Result {
        // Another one of its name may have come since.
        let (id, control) = (close.session.id(), &close.session.inner.control);
        let same = self.kit.room.find(id).is_some_and(|cx| Arc::ptr_eq(&cx.control, control));
        let session = if same { self.sessions.borrow_mut().remove(id) } else { None };
        Box::pin(async move {
            if let Some(session) = session {
                // One that is gone already has nothing to close.
                let _ = session.send(Drain { until: Instant::now() + CLOSE }).await;
            }
        })
    }
}

/// A session's own actor panicked: take it up again from its log, behind the same door.
pub(crate) struct Restart {
    pub(crate) session: Arc<SessionInner>,
}

impl Message for Restart {
    type Result = ();
}

impl actix::Handler<Restart> for Host {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, restart: Restart, _: &mut Context<Self>) -> Self::Result {
        let (kit, sessions) = (self.kit.clone(), self.sessions.clone());
        let handle = restart.session;
        let id = handle.info.id.clone();
        Box::pin(async move {
            tracing::error!(session = %id, "a session's actor panicked; it is restarted from its log");
            let again = if handle.control.count_restart() <= RESTARTS {
                contained(open_session(
                    kit.clone(),
                    handle.opening.clone(),
                    Some(Again::Afresh(handle.clone())),
                ))
                .await
            } else {
                let why =
                    format!("session `{id}` was restarted {RESTARTS} times in a row without ending a turn");
                Err(JournalError::Unavailable(why).into())
            };
            match again {
                Ok((session, actor)) => {
                    sessions.borrow_mut().insert(id, actor);
                    inbox::drain(&kit.shared, &session).await;
                }
                Err(error) => {
                    tracing::error!(session = %id, %error, "the session could not be restarted; it leaves memory");
                    leave(&kit.room, &kit.shared, &handle);
                    give_up(&handle, "session_lost", &error.to_string());
                }
            }
        })
    }
}

/// A panic while a session is opened (a journal's, say) is that session's failure, not the host's.
pub(crate) async fn contained<T>(work: impl Future<Output = Result<T, OpenError>>) -> Result<T, OpenError> {
    let opened = AssertUnwindSafe(work).catch_unwind().await;
    opened.unwrap_or_else(|_| Err(JournalError::Unavailable("opening the session panicked".into()).into()))
}

/// Behind which door a session is opened that had one already.
pub(crate) enum Again {
    /// Its actor panicked.
    Afresh(Arc<SessionInner>),
    /// It had left memory.
    Back(Arc<SessionInner>),
}

pub(crate) async fn open_session(
    kit: Kit,
    opening: Opening,
    again: Option<Again>,
) -> Result<(Session, Addr<SessionActor>), OpenError> {
    let shared = kit.shared;
    let Opening { id, options, profile, child, cue } = opening.clone();
    let cwd = options.cwd.to_str().filter(|_| options.cwd.is_absolute());
    let cwd = cwd.ok_or_else(|| OpenError::Cwd(options.cwd.display().to_string()))?;
    if again.is_none() && kit.room.find(&id).is_some() {
        // Live here already, as somebody's subagent: a claim would take its pen away.
        let parent = id.as_str().rsplit_once('.').map_or(id.as_str(), |(parent, _)| parent);
        let parent = SessionId::new(parent).unwrap_or_else(|_| id.clone());
        return Err(OpenError::Subagent { session: id, parent });
    }
    let mut own = shared.journal.claim(&id, shared.incarnation, Claim::CreateOrOpen).await?;
    // A session whose actor panicked may have done so over its snapshot.
    let trusted = !matches!(again, Some(Again::Afresh(_)));
    let (mut state, mark) = match fold(&shared, &id, own.head, trusted).await {
        Ok(folded) => folded,
        Err(error) => {
            shared.journal.release(own).await?;
            return Err(error);
        }
    };
    // A subagent's log is taken up by the call that started it, narrowed as that one was; never as a session of its own.
    if let (Some(created), None) = (state.created(), &child)
        && let Some(parent) = &created.parent
    {
        let parent = parent.session.clone();
        shared.journal.release(own).await?;
        return Err(OpenError::Subagent { session: id, parent });
    }
    let mut drafts = Vec::new();
    match state.created() {
        None => {
            let parent = child.as_ref().map(|c| c.parent.clone());
            let channel = options.channel.clone();
            let cleared = options.cleared.clone();
            let created =
                SessionCreated { id: id.clone(), cwd: cwd.into(), channel, parent, seed: None, cleared };
            drafts.push(Draft::new(At::session(), created));
        }
        // It starts, and nothing in it was cut off.
        Some(_) if state.is_fresh_fork() => {}
        // A session that was away here, and had nothing in flight, has missed nothing.
        Some(_) if matches!(again, Some(Again::Back(_))) && !state.is_in_flight() => {}
        Some(_) => drafts.push(Draft::new(At::session(), SessionResumed {})),
    }
    let here = |info: SessionInfo| Arc::new(info.model(shared.model.name()).stored(shared.journal.clone()));
    let info = match (&child, state.created()) {
        (Some(child), _) => child.info.clone(),
        (None, Some(created)) => {
            let cwd = created.cwd.as_ref().into();
            here(SessionInfo::new(id.clone(), cwd, created.channel.clone()))
        }
        (None, None) => here(SessionInfo::new(id.clone(), options.cwd.clone(), options.channel.clone())),
    };
    let registrations = shared.registrations.load(Ordering::Acquire);
    let config = profile.in_force();
    if state.config() != Some(&config.digest) {
        drafts.push(Draft::new(At::session(), config.into_owned()));
    }
    let records = seal(&mut state, drafts, &id)?;
    if let Some(cue) = &cue {
        records.iter().for_each(|record| cue.made(record));
    }
    if !records.is_empty() {
        let batch = portcullis_runtime::Batch { records, ..Default::default() };
        let _enqueued = shared.journal.append(&mut own, batch)?;
    }

    let handle = match again {
        Some(Again::Afresh(handle)) => {
            handle.control.restarted(own.commits.clone());
            handle.presence.is_here();
            handle
        }
        Some(Again::Back(handle)) => {
            handle.control.returned(own.commits.clone());
            handle.is_back(&state);
            shared.set_here(&handle);
            handle
        }
        None => {
            let (ingress, door) = async_channel::bounded(INGRESS);
            Arc::new(SessionInner {
                info,
                ingress,
                intake: Intake::new(),
                control: Arc::new(Control::new(own.commits.clone())),
                journal: shared.journal.clone(),
                door,
                opening,
                early: Mutex::default(),
                alarm: Mutex::default(),
                presence: Presence::here(),
                host: kit.come.clone(),
                shared: Arc::downgrade(&shared),
            })
        }
    };
    let cx = Rc::new(SessionCx {
        info: handle.info.clone(),
        ledger: Ledger::new(state, own, shared.journal.clone()).with_mark(mark).cued(cue.clone()),
        control: handle.control.clone(),
        approvals: options.approvals,
        is_child: child.is_some(),
        waits: RefCell::default(),
        wait_number: Cell::default(),
        quiet: Cell::default(),
        leaving: Cell::default(),
        asks: child.map_or_else(|| handle.control.clone(), |child| child.asks),
        profile,
        cue,
        host: kit.host,
        registry: kit.registry,
        room: kit.room.clone(),
        agents: Rc::default(),
        shared,
        hooks: RefCell::default(),
        hops: Default::default(),
        pass: Pass::new(kit.admission),
        pulse: kit.pulse,
        registrations: Cell::new(registrations),
        counted: Default::default(),
        driving: Default::default(),
        turn_over: Default::default(),
        span: tracing::info_span!("session", session = %id),
    });
    cx.ledger.feed()?;
    // One that was left long and without a snapshot is not read whole again.
    cx.ledger.keep_snapshot();
    cx.start_counting();
    kit.room.enter(cx.clone());
    let actor = SessionActor { cx, room: kit.room, handle: handle.clone(), handed_over: false };
    Ok((Session { inner: handle }, actor.start()))
}

/// The state that a log comes to, from its last snapshot on or from its first record.
async fn fold(
    shared: &Shared,
    id: &SessionId,
    head: Seq,
    trusted: bool,
) -> Result<(State, Option<Mark>), OpenError> {
    if trusted && let Some((state, mark)) = kept(shared, id, head).await {
        match go_on(shared, id, head, state).await {
            Ok(state) => return Ok((state, Some(mark))),
            Err(OpenError::Unlawful { invalid, .. }) => {
                tracing::warn!(session = %id, %invalid, "a snapshot does not fit the log behind it");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((go_on(shared, id, head, State::new()).await?, None))
}

/// A cache: whatever is wrong with it, the log has everything.
async fn kept(shared: &Shared, id: &SessionId, head: Seq) -> Option<(State, Mark)> {
    // One that is shorter has none.
    if head.0 < SNAPSHOT_RECORDS || !shared.journal.keeps() {
        return None;
    }
    let kept = match shared.journal.kept(id).await {
        Ok(kept) => kept?,
        Err(error) => {
            tracing::warn!(session = %id, %error, "the session's snapshot could not be read");
            return None;
        }
    };
    match kept.restore(id) {
        Ok((state, mark)) => (state.head() <= head).then_some((state, mark)),
        Err(unfit) => {
            tracing::warn!(session = %id, %unfit, "the session is opened from its log alone");
            None
        }
    }
}

async fn go_on(shared: &Shared, id: &SessionId, head: Seq, mut state: State) -> Result<State, OpenError> {
    while state.head() < head {
        let page = shared.journal.read(id, state.head(), PAGE).await?;
        if page.is_empty() {
            let why = format!("it should have {head} records");
            return Err(JournalError::Corrupt { session: id.clone(), at: state.head(), why }.into());
        }
        for record in page {
            state.apply(&record).map_err(|invalid| OpenError::Unlawful { session: id.clone(), invalid })?;
        }
    }
    Ok(state)
}

fn seal(state: &mut State, drafts: Vec<Draft>, id: &SessionId) -> Result<Vec<Arc<Record>>, OpenError> {
    let time = now_ms();
    let seal_one = |draft: Draft| {
        let record = draft.seal(state.head(), time);
        state.apply(&record).map_err(|invalid| OpenError::Unlawful { session: id.clone(), invalid })?;
        Ok(record)
    };
    drafts.into_iter().map(seal_one).collect()
}

/// Drains every session of this arbiter.
pub(crate) struct DrainAll {
    pub(crate) until: Instant,
}

impl Message for DrainAll {
    type Result = Vec<(SessionId, Parked)>;
}

impl actix::Handler<DrainAll> for Host {
    type Result = ResponseFuture<Vec<(SessionId, Parked)>>;

    fn handle(&mut self, drain: DrainAll, _: &mut Context<Self>) -> Self::Result {
        self.closed_from.set(Some(drain.until));
        let sessions = self.sessions.clone();
        Box::pin(async move {
            let mut all = Vec::new();
            loop {
                // A turn that was given time may have opened subagents meanwhile: they are drained behind it.
                let opened: Vec<_> = sessions.borrow_mut().drain().collect();
                if opened.is_empty() {
                    return all;
                }
                let drained = opened.into_iter().map(|(id, addr)| async move {
                    let parked = addr.send(Drain { until: drain.until }).await;
                    // One that is gone already has nothing to park.
                    (id, parked.unwrap_or(Parked::Idle))
                });
                all.extend(futures::future::join_all(drained).await);
            }
        })
    }
}
