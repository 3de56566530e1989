//! The runtime itself: the system's thread, its arbiters, and the directory of live sessions.

use crate::{
    advisor::SessionAdvisor,
    handles::{Session, SessionInner},
    host::{DrainAll, Host, Open, OpenError, Opening},
    inbox::Inbox,
    leave::Listed,
    session::Parked,
    watchdog::{STALL, Stall, Watchdog},
};
use actix::prelude::*;
use dashmap::{DashMap, Entry};
use futures::future::{Either, select};
use portcullis_runtime::{
    CallKey, Cancel, ConfigInForce, Ended, Frozen, HandlerId, HandlerRow, Journal, Limits, Mint, Model,
    Registered, Registrar, RequestHeader, SessionId, Settle, Table, TokenId, ToolHeader, plan::TableError,
};
use std::{
    borrow::Cow,
    collections::hash_map::RandomState,
    fmt,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Everything a runtime is made of.
pub struct Config {
    /// The tools and handlers.
    pub table: Table,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The system text of every request.
    pub system: Arc<str>,
    /// What turns are held to.
    pub limits: Limits,
    /// Threads that hold sessions; `None` for one per core.
    pub arbiters: Option<usize>,
    /// How long a session has nothing to do, or waits for a person or its host alone, until it leaves memory; `None` for never.
    pub idle_after: Option<Duration>,
    /// How long a question to a person, or a deferred call, waits until it expires; `None` for ever.
    pub asks_expire_after: Option<Duration>,
    /// How often the journal is asked what was put into inboxes by others; `None`: only when a session is opened or comes back.
    pub inbox_every: Option<Duration>,
    /// Handlers that must be registered, as `owner/handler`: one that is missing is a start error, never ignored.
    pub required: Vec<String>,
}

/// Why a runtime did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two registrations share a name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A handler that the configuration names is not registered.
    #[error("the configuration needs the handler `{0}`, which nobody registered")]
    Missing(String),
    /// A panic would take the process down.
    #[error(
        "this program is built with `panic = \"abort\"`: one handler's panic would end every session. Build with unwinding"
    )]
    PanicAbort,
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(String),
}

/// How a session is opened. What a new session is created with stays; an existing one keeps its own.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// The kind of front door: `cli`, `http`, `library`, …
    pub channel: Arc<str>,
    /// There is a person to ask. Without one, a call that needs approval is denied and says so.
    pub approvals: bool,
    /// The session after which it begins afresh; of a session that exists already this changes nothing.
    pub cleared: Option<SessionId>,
}

impl SessionOptions {
    /// In this directory, by the front door `library`, with no one to ask.
    pub fn new(cwd: impl Into<PathBuf>) -> SessionOptions {
        SessionOptions { cwd: cwd.into(), channel: "library".into(), approvals: false, cleared: None }
    }

    /// Names the front door.
    pub fn channel(mut self, channel: impl Into<Arc<str>>) -> SessionOptions {
        self.channel = channel.into();
        self
    }

    /// A person cleared the conversation of that session and goes on in this one: session-start's source is `clear`.
    pub fn after_clear(mut self, cleared: SessionId) -> SessionOptions {
        self.cleared = Some(cleared);
        self
    }

    /// Someone answers questions: [`Session::answer`].
    pub fn approvals(mut self) -> SessionOptions {
        self.approvals = true;
        self
    }
}

/// A call that is being run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LiveCall {
    /// Its session.
    pub session: SessionId,
    /// Its key.
    pub key: CallKey,
    /// Its turn's cancel.
    pub cancel: Cancel,
}

/// What all actors of a runtime share. Frozen but for the two directories.
pub(crate) struct Shared {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) mint: Mint,
    pub(crate) incarnation: u128,
    /// What a session runs under that has nothing of its own.
    profile: Arc<Profile>,
    pub(crate) live: DashMap<TokenId, LiveCall, BuildHasherDefault<ByCounter>>,
    watchdog: Watchdog,
    pub(crate) names: Names,
    sessions: DashMap<SessionId, Listed>,
    /// After which time a session without work leaves memory.
    pub(crate) idle_after: Option<Duration>,
    /// After which time a question expires.
    pub(crate) asks_expire_after: Option<Duration>,
    /// How often inboxes are looked into; the host that takes it does.
    pub(crate) inbox_every: Mutex<Option<Duration>>,
    pub(crate) inbox: Inbox,
    /// How often handlers have come or gone behind a turn's start.
    pub(crate) registrations: AtomicU64,
}

/// Hashes a token's id by its counter, which no two tokens of this runtime share: nothing from outside is hashed here.
#[derive(Default)]
pub(crate) struct ByCounter(u64);

impl Hasher for ByCounter {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
    fn write_u128(&mut self, n: u128) {
        // The nonce: the same for every token here.
        let _ = n;
    }
}

/// Names that are needed all the time.
pub(crate) struct Names {
    tools: Arc<str>,
    pub(crate) model: HandlerId,
}

impl Names {
    fn new(model: Arc<str>) -> Names {
        Names { tools: Ended::TOOLS.into(), model: HandlerId::new("model", model) }
    }

    /// A tool's body, as the watchdog and failures name it.
    pub(crate) fn tool(&self, name: &Arc<str>) -> HandlerId {
        HandlerId { owner: self.tools.clone(), handler: name.clone() }
    }
}

/// What a session runs under: frozen when it is opened.
pub(crate) struct Profile {
    pub(crate) table: Table,
    pub(crate) header: Arc<RequestHeader>,
    pub(crate) config: ConfigInForce,
}

impl Profile {
    /// What is in force now: as when the session was opened, unless a turn's start may have changed that.
    pub(crate) fn in_force(&self) -> Cow<'_, ConfigInForce> {
        if self.table.start_observers.is_empty() {
            return Cow::Borrowed(&self.config);
        }
        let (model, limits) = (self.config.model.clone(), self.config.limits);
        Cow::Owned(in_force(&self.table.introspect(), model, limits))
    }

    pub(crate) fn new(table: Table, model: Arc<str>, system: Arc<str>, limits: Limits) -> Profile {
        let config = in_force(&table.introspect(), model.clone(), limits);
        let tools = table
            .tools()
            .map(|spec| ToolHeader {
                name: spec.name.clone(),
                description: spec.description.clone(),
                schema: spec.schema.clone(),
            })
            .collect();
        Profile { header: Arc::new(RequestHeader { model, system, tools }), config, table }
    }
}

impl Shared {
    /// The session left memory for good: its name may be opened again.
    pub(crate) fn forget(&self, handle: &Arc<SessionInner>) {
        self.sessions.remove_if(&handle.info.id, |_, listed| listed.is(handle));
    }

    /// The session left memory; its handle brings it back. Registrations that it was opened with and nobody else has are
    /// kept: opened by its name alone, it must not come back without them.
    pub(crate) fn set_away(&self, handle: &Arc<SessionInner>) {
        let own = !Arc::ptr_eq(&handle.opening.profile, &self.profile);
        let away = if own {
            Listed::Kept(Session { inner: handle.clone() })
        } else {
            Listed::Away(Arc::downgrade(handle))
        };
        self.list(handle, away);
    }

    /// The session is back.
    pub(crate) fn set_here(&self, handle: &Arc<SessionInner>) {
        self.list(handle, Listed::Here(Settle::settled(Ok(Session { inner: handle.clone() }))));
    }

    /// The arbiter of a session that is in memory.
    pub(crate) fn host_of_live(&self, id: &SessionId) -> Option<Arc<Addr<Host>>> {
        match &*self.sessions.get(id)? {
            Listed::Here(cell) => Some(cell.get()?.as_ref().ok()?.inner.host.clone()),
            _ => None,
        }
    }

    /// A session of this runtime, in memory or away.
    pub(crate) fn handle_of(&self, id: &SessionId) -> Option<Session> {
        match &*self.sessions.get(id)? {
            Listed::Here(cell) => cell.get()?.ok(),
            Listed::Kept(session) => Some(session.clone()),
            Listed::Away(handle) => handle.upgrade().map(|inner| Session { inner }),
        }
    }

    /// What stood there before goes when the lock is free again: a handle's end looks in here, too.
    fn list(&self, handle: &Arc<SessionInner>, mut as_this: Listed) {
        if let Some(mut listed) = self.sessions.get_mut(&handle.info.id)
            && listed.is(handle)
        {
            std::mem::swap(&mut *listed, &mut as_this);
        }
    }

    /// Nobody holds the handle of a session any more.
    pub(crate) fn forget_unheld(&self, id: &SessionId) {
        self.sessions.remove_if(id, |_, listed| match listed {
            Listed::Away(handle) => handle.strong_count() == 0,
            _ => false,
        });
    }
}

/// A running runtime. Clones are the same one; when the last is dropped without [`Runtime::shutdown`], its threads stop
/// and open turns stay in their logs.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    hosts: Vec<Addr<Host>>,
    system: System,
    /// Resolves when all threads are gone. Taken by whoever shuts down.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
    draining: Settle<()>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("arbiters", &self.inner.hosts.len()).finish_non_exhaustive()
    }
}

/// How many sessions a runtime has, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Health {
    /// In memory, with their actors, or being opened. Subagents are not counted.
    pub resident: usize,
    /// Not in memory, while somebody holds their handles. Sessions whose handles are gone, too, are their logs and nothing
    /// else: the journal lists them.
    pub away: usize,
}

/// What a shutdown left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Leftover {
    /// Sessions in memory whose turn was still open at the limit. Their logs are whole; opened again, the same turn goes on.
    pub parked: Vec<SessionId>,
    /// Code that held its arbiter's thread beyond the limit. Nothing can stop such a thread: it was left behind with its
    /// sessions, which are among the parked ones, and ends with the process or when that code returns.
    pub blocked: Vec<Stall>,
}

/// How long past its limit a shutdown waits for a thread that code blocks.
const BLOCKED: Duration = Duration::from_secs(2);

impl Runtime {
    /// Starts the threads. Works from any async context; needs no actix system of the caller's.
    pub async fn start(config: Config) -> Result<Runtime, StartError> {
        if cfg!(panic = "abort") {
            return Err(StartError::PanicAbort);
        }
        config.table.check()?;
        let rows = config.table.introspect();
        for required in &config.required {
            if !rows.iter().any(|row| row.id.to_string() == *required) {
                return Err(StartError::Missing(required.clone()));
            }
        }
        let cores = || thread::available_parallelism().map_or(1, |n| n.get());
        let arbiters = config.arbiters.unwrap_or_else(cores).max(1);
        let model = config.model.name();
        let names = Names::new(model.clone());
        let profile = Arc::new(Profile::new(config.table, model, config.system, config.limits));
        let shared = Arc::new(Shared {
            model: config.model,
            journal: config.journal,
            mint: Mint::new(random()),
            incarnation: random(),
            profile,
            live: DashMap::default(),
            watchdog: Watchdog::new(arbiters),
            names,
            sessions: DashMap::new(),
            idle_after: config.idle_after,
            asks_expire_after: config.asks_expire_after,
            inbox_every: Mutex::new(config.inbox_every),
            inbox: Inbox::default(),
            registrations: AtomicU64::new(0),
        });
        let (ready, started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let on_thread = shared.clone();
        thread::Builder::new()
            .name("portcullis-system".into())
            .spawn(move || {
                hold_system(arbiters, &on_thread, ready);
                // First: whoever waits for the end may then end the process, and a journal is closed by who drops it last.
                drop(on_thread);
                // Nobody listens when the runtime was only dropped.
                let _ = end.send(());
            })
            .map_err(|e| StartError::Thread(e.to_string()))?;
        let (system, hosts) = match started.await {
            Ok(started) => started.map_err(|e| StartError::Thread(e.to_string()))?,
            Err(_) => return Err(StartError::Thread("the system's thread ended at once".into())),
        };
        let inner = Inner { shared, hosts, system, ended: Mutex::new(Some(ended)), draining: Settle::new() };
        Ok(Runtime { inner: Arc::new(inner) })
    }

    /// Opens a session: a live one is handed out, one in the journal is taken up where its log ends, else it is created.
    pub async fn session(&self, id: SessionId, options: SessionOptions) -> Result<Session, OpenError> {
        self.open(id, options, self.inner.shared.profile.clone()).await
    }

    /// Opens a session with registrations of its own beside the runtime's: they cover it and its subagents, and no other
    /// session. A session that is live already keeps what it was opened with.
    pub async fn session_with(
        &self,
        id: SessionId,
        options: SessionOptions,
        owner: &str,
        register: impl FnOnce(&mut Registrar<'_>),
    ) -> Result<Session, OpenError> {
        let runtime = &self.inner.shared.profile;
        let mut table = runtime.table.clone();
        table.register_for_session(owner, register);
        table.check()?;
        let header = &runtime.header;
        let profile = Profile::new(table, header.model.clone(), header.system.clone(), runtime.config.limits);
        self.open(id, options, Arc::new(profile)).await
    }

    /// This runtime answers what is asked of the advisor, for its own sessions.
    pub fn answers(&self, advisor: &SessionAdvisor) {
        advisor.answer(&self.inner.shared);
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    /// Opens the one session of a runtime that replays it.
    pub(crate) async fn open_cued(&self, opening: Opening) -> Result<Session, OpenError> {
        self.inner.hosts[0].send(Open(opening, None)).await.unwrap_or(Err(OpenError::Draining))
    }

    async fn open(
        &self,
        id: SessionId,
        options: SessionOptions,
        profile: Arc<Profile>,
    ) -> Result<Session, OpenError> {
        if self.inner.draining.is_settled() {
            return Err(OpenError::Draining);
        }
        let shared = &self.inner.shared;
        let (cell, mine) = match shared.sessions.entry(id.clone()) {
            Entry::Vacant(free) => {
                let cell = Settle::new();
                free.insert(Listed::Here(cell.clone()));
                (cell, true)
            }
            Entry::Occupied(mut listed) => match listed.get() {
                Listed::Here(cell) => (cell.clone(), false),
                Listed::Kept(session) => return Ok(session.clone()),
                Listed::Away(handle) => match handle.upgrade() {
                    Some(inner) => return Ok(Session { inner }),
                    None => {
                        let cell = Settle::new();
                        listed.insert(Listed::Here(cell.clone()));
                        (cell, true)
                    }
                },
            },
        };
        if mine {
            let opening = UnderWay { shared: shared.clone(), id: id.clone(), cell: cell.clone() };
            let host = self.host_of(&id);
            // The host settles the cell, whether or not this future is still there then.
            let open = Open(Opening { id, options, profile, child: None, cue: None }, Some(opening));
            let _ = host.send(open).await;
        }
        cell.wait().await
    }

    /// Every registration, read from the very table that the dispatcher reads.
    pub fn introspect(&self) -> Vec<Registered> {
        self.inner.shared.profile.table.introspect()
    }

    /// What no gate can reach, with the reason.
    pub fn uncovered(&self) -> Vec<(&'static str, &'static str)> {
        self.inner.shared.profile.table.uncovered()
    }

    /// The calls that are being run now.
    pub fn live_calls(&self) -> Vec<LiveCall> {
        self.inner.shared.live.iter().map(|entry| entry.value().clone()).collect()
    }

    /// Code that blocked its arbiter's thread for over 100 ms: whose, where and for how long. The last 64.
    pub fn stalls(&self) -> Vec<Stall> {
        self.inner.shared.watchdog.stalls()
    }

    /// The sessions in memory.
    pub fn live_sessions(&self) -> Vec<SessionId> {
        let sessions = self.inner.shared.sessions.iter();
        sessions.filter(|entry| entry.value().is_here()).map(|entry| entry.key().clone()).collect()
    }

    /// How many sessions there are, and where.
    pub fn health(&self) -> Health {
        let mut health = Health::default();
        for entry in &self.inner.shared.sessions {
            *(if entry.value().is_here() { &mut health.resident } else { &mut health.away }) += 1;
        }
        health
    }

    /// Ends the handles of sessions that are away: nobody brings them back any more.
    fn end_away(&self) {
        let sessions = self.inner.shared.sessions.iter();
        let away: Vec<_> = sessions.filter_map(|entry| entry.value().away()).collect();
        for handle in away {
            handle.end();
        }
    }

    /// Takes nothing more, lets open turns end within the limit, flushes, stops the threads, and says what it left.
    pub async fn shutdown(self, within: Duration) -> Leftover {
        let _ = self.inner.draining.settle(());
        let until = Instant::now() + within;
        let this = &self;
        let drains = this.inner.hosts.iter().enumerate().map(|(number, host)| async move {
            let drained = host.send(DrainAll { until });
            match select(Box::pin(drained), Box::pin(this.stuck(number, until + BLOCKED))).await {
                Either::Left((drained, _)) => Some(drained.unwrap_or_default()),
                Either::Right(_) => None,
            }
        });
        let drained = futures::future::join_all(drains).await;
        self.end_away();
        let whole = drained.iter().all(Option::is_some);
        let open = drained.into_iter().flatten().flatten().filter(|(_, parked)| *parked == Parked::InTurn);
        let mut parked: Vec<SessionId> = open.map(|(id, _)| id).collect();
        let mut blocked = Vec::new();
        self.inner.system.stop();
        if whole {
            let ended = self.inner.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(ended) = ended {
                // An error means that the thread is gone, which is what we wait for.
                let _ = ended.await;
            }
        } else {
            // What was drained has left the directory; what is in it is held by a blocked thread.
            parked.extend(self.live_sessions());
            blocked = self.stalls().into_iter().filter(|stall| stall.ongoing).collect();
        }
        parked.sort();
        parked.dedup();
        Leftover { parked, blocked }
    }

    /// Returns once this time is past and an arbiter's thread is blocked.
    async fn stuck(&self, arbiter: usize, from: Instant) {
        tokio::time::sleep_until(from.into()).await;
        while !self.inner.shared.watchdog.is_stalled(arbiter) {
            tokio::time::sleep(STALL).await;
        }
    }

    /// A session's arbiter, by its name; one that is blocked is avoided.
    fn host_of(&self, id: &SessionId) -> &Addr<Host> {
        let hosts = &self.inner.hosts;
        let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let spread = usize::try_from(hash >> 32).unwrap_or_default();
        let wished = spread % hosts.len();
        let free = |n: &usize| !self.inner.shared.watchdog.is_stalled(*n);
        let chosen = (wished..hosts.len()).chain(0..wished).find(free).unwrap_or(wished);
        &hosts[chosen]
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.system.stop();
    }
}

/// An opening under way: others who want the same session wait for it. If it is given up (its host is gone), they are told
/// and the name is free.
pub(crate) struct UnderWay {
    shared: Arc<Shared>,
    id: SessionId,
    cell: Settle<Result<Session, OpenError>>,
}

impl UnderWay {
    pub(crate) fn settle(&self, opened: &Result<Session, OpenError>) {
        // The only other settler is our own drop, which comes later.
        let _ = self.cell.settle(opened.clone());
        match opened {
            Err(_) => self.free(),
            // It left memory before its name was settled: nobody else frees it.
            Ok(session) if session.inner.control.gone.is_settled() => self.shared.forget(&session.inner),
            Ok(_) => {}
        }
    }

    fn free(&self) {
        let unopened =
            |listed: &Listed| matches!(listed, Listed::Here(cell) if !matches!(cell.get(), Some(Ok(_))));
        self.shared.sessions.remove_if(&self.id, |_, listed| unopened(listed));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.cell.settle(Err(OpenError::Draining)).is_ok() {
            self.free();
        }
    }
}

type Started = io::Result<(System, Vec<Addr<Host>>)>;

/// Holds the actix system until it is stopped, then waits for every arbiter's thread.
fn hold_system(arbiters: usize, shared: &Arc<Shared>, ready: oneshot::Sender<Started>) {
    let runner = System::new();
    let made: io::Result<Vec<Arbiter>> = (0..arbiters).map(|_| Arbiter::try_new()).collect();
    let arbiters = match made {
        Ok(arbiters) => arbiters,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let hosts = arbiters
        .iter()
        .enumerate()
        .map(|(number, arbiter)| {
            let shared = shared.clone();
            let pulse = shared.watchdog.pulse(number);
            Host::start_in_arbiter(&arbiter.handle(), move |ctx| Host::new(shared, pulse, ctx.address()))
        })
        .collect();
    let watched = shared.clone();
    let watch = async move {
        let mut every = tokio::time::interval(STALL / 2);
        loop {
            every.tick().await;
            watched.watchdog.look();
        }
    };
    runner.runtime().spawn(watch);
    if ready.send(Ok((System::current(), hosts))).is_err() {
        return;
    }
    if let Err(error) = runner.run() {
        tracing::error!(%error, "the actor system ended badly");
    }
    for arbiter in arbiters {
        arbiter.stop();
        if arbiter.join().is_err() {
            tracing::error!("an arbiter's thread panicked");
        }
    }
}

fn in_force(rows: &[Registered], model: Arc<str>, limits: Limits) -> ConfigInForce {
    let handlers: Vec<HandlerRow> = rows.iter().map(HandlerRow::from).collect();
    let mut config = ConfigInForce { digest: "".into(), handlers, model, limits };
    let digest = Frozen::of(&config).map(|sealed| sealed.sha256_hex());
    config.digest = digest.unwrap_or_else(|_| "".into());
    config
}

/// A number that no other process has: what `RandomState` draws from the system, twice.
fn random() -> u128 {
    let draw = || RandomState::new().build_hasher().finish();
    u128::from(draw()) << 64 | u128::from(draw())
}
