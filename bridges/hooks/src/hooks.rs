//! The hooks of one project, in one dialect: loaded, matched, planned.

use crate::{
    dialect::Dialect,
    explain::At,
    exports::Exports,
    options::{Fidelity, Options},
    report::Report,
    set::{Ground, House, Loaded, Set},
    watch::{Reader, Source, Watch},
};
use futures::future::LocalBoxFuture;
use portcullis_runtime::plan::DEFAULT_DEADLINE;
use portcullis_runtime::{
    AfterCompaction, Asking, BoxError, CallBatch, ChildStarting, Compacting, Compaction, Ending, Execution,
    Extension, Gate, Guard, Handler, HandlerId, HandlerSource, Permission, Planned, Point, PostExecute,
    PreExecute, PromptSubmit, Proposed, Reason, Registered, Registrar, Reply, Returned, Rewrite, SessionId,
    SessionInfo, SessionStart, Starting, SubagentStart, Submitted, Summarised, ToolBatch, TurnContinuation,
};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// The hooks of one project in one dialect, as an extension whose owner is the dialect: `claude` or `codex`.
///
/// Each matching command is a handler of its own, with its own decision, limit and records. See the [crate](crate) for an
/// example.
pub struct Hooks {
    pub(crate) ground: Ground,
    /// What is in force. Locked for as long as a pointer is copied.
    set: RwLock<Arc<Set>>,
    pub(crate) watch: Option<Watch>,
}

impl Hooks {
    /// Puts what was read under what the host and `portcullis.toml` say of it. It stays as it is.
    pub(crate) fn settle(
        dialect: &'static dyn Dialect,
        project: PathBuf,
        options: Options<()>,
        loaded: Loaded,
        reports: &mut Vec<Report>,
    ) -> Arc<Hooks> {
        let ground = Ground::new(dialect, project, options, reports);
        let set = ground.set(loaded, reports).into();
        Arc::new(Hooks { ground, set, watch: None })
    }

    /// The same with files that are read again when they have changed, unless the host wants them read once.
    pub(crate) fn watching(
        dialect: &'static dyn Dialect,
        project: PathBuf,
        options: Options<()>,
        (reader, sources): (impl Reader, Vec<Source>),
        reports: &mut Vec<Report>,
    ) -> Arc<Hooks> {
        let (once, tell) = (options.read_once, options.reloaded.clone());
        let loaded = reader.load(&sources, reports);
        let ground = Ground::new(dialect, project, options, reports);
        let set = ground.set(loaded, reports).into();
        let watch = (!once).then(|| Watch::new(reader, sources, reports.clone(), tell));
        Arc::new(Hooks { ground, set, watch })
    }

    /// What is in force now.
    pub(crate) fn set(&self) -> Arc<Set> {
        // Only ever replaced whole, so a panic elsewhere leaves it sound.
        self.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another set in force.
    pub(crate) fn replace(&self, set: Arc<Set>) {
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = set;
    }

    /// What is the same for every set.
    pub(crate) fn house(&self) -> &House {
        self.ground.house()
    }

    /// Whether there may be hooks at some time.
    pub(crate) fn may_run(&self) -> bool {
        self.watch.is_some() || !self.is_empty()
    }

    /// The name of the dialect: `claude` or `codex`.
    pub fn dialect(&self) -> &'static str {
        self.house().dialect.name()
    }

    /// How closely the client is followed with a hook of the project of which nothing else is said.
    pub fn fidelity(&self) -> Fidelity {
        self.house().fidelity
    }

    /// The `agent_id` that hooks in this subagent's session are told.
    pub fn agent_id(&self, session: &SessionId) -> String {
        self.house().dialect.agent_id(session)
    }

    /// The `transcript_path` that hooks of this session, and of its subagents, are told.
    pub fn transcript(&self, session: &SessionId) -> PathBuf {
        self.house().transcripts.place_of(session)
    }

    /// The shell files in which the hooks of a session have said what its commands find in their environment
    /// (`CLAUDE_ENV_FILE`), in the order in which they count. Its subagents have the same. Whoever runs commands has their shell
    /// read these first: `Workspace::sourced` takes this. Reads a folder.
    ///
    /// # Errors
    /// What the file system says.
    pub fn exports(&self, session: &SessionInfo) -> io::Result<Vec<PathBuf>> {
        match Exports::of_dialect(self.house().dialect) {
            true => self.house().exports.written(session),
            false => Ok(Vec::new()),
        }
    }

    /// How many handlers are loaded.
    pub fn len(&self) -> usize {
        self.set().len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.set().is_empty()
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("dialect", &self.dialect())
            .field("handlers", &self.len())
            .finish_non_exhaustive()
    }
}

impl Extension for Hooks {
    fn owner(&self) -> &str {
        self.dialect()
    }

    fn register(self: Arc<Self>, at: &mut Registrar<'_>) {
        self.sources(at);
        if self.may_run() {
            let of = self.clone();
            at.turn_end("transcript", move |ended| {
                if !of.is_empty() {
                    of.house().transcripts.follow(&ended.scene);
                }
            });
        }
        self.notices(at);
        self.farewells(at);
        self.changes(at);
        if self.watch.is_some() || self.set().denying().is_some() {
            at.guard_by("permissions.deny", Denying(self.clone()));
        }
        if self.watch.is_some() || self.set().asking().is_some() {
            at.source::<PreExecute>(Arc::new(Asks(self.clone())));
        }
    }
}

/// Permission rules that deny.
struct Denying(Arc<Hooks>);

impl Guard for Denying {
    fn check(&self, call: &Execution) -> Option<Reason> {
        self.0.set().denying()?.deny(call)
    }

    fn is_idle(&self) -> bool {
        self.0.set().denying().is_none()
    }
}

/// Permission rules that want a person asked: one handler, as long as there are some.
struct Asks(Arc<Hooks>);

/// The rules of the set that is in force when it is planned.
struct Asked(Arc<Set>);

impl Asks {
    const NAME: &str = "permissions.ask";

    fn id(&self) -> HandlerId {
        HandlerId::new(self.0.dialect(), Asks::NAME)
    }
}

impl HandlerSource<PreExecute> for Asks {
    fn plan(&self, _: &Execution, out: &mut Vec<Planned<PreExecute>>) {
        let set = self.0.set();
        if set.asking().is_some() {
            let (id, run) = (self.id(), Arc::new(Asked(set)));
            out.push(Planned { id, deadline: DEFAULT_DEADLINE, run, native: true });
        }
    }

    fn describe(&self) -> Vec<Registered> {
        let row = |point: Point| {
            Registered::new(point, self.id(), "*", point.on_failure(), Some(DEFAULT_DEADLINE), true)
        };
        self.0.set().asking().map(|_| row(Point::PreExecute)).into_iter().collect()
    }

    fn is_idle(&self) -> bool {
        self.0.set().asking().is_none()
    }
}

impl Handler<PreExecute> for Asked {
    fn decide(&self, call: Execution) -> LocalBoxFuture<'_, Result<Reply<Gate>, BoxError>> {
        let asks = self.0.asking().and_then(|rules| rules.ask(&call));
        let gate = asks.map_or_else(Gate::allow, Gate::ask);
        Box::pin(std::future::ready(Ok(Reply::new(gate))))
    }
}

/// The seams that are sources of handlers, with what each is told of.
macro_rules! sources {
    ($($seam:ty: $input:ty, $at:ident;)*) => {
        impl Hooks {
            fn sources(self: &Arc<Self>, at: &mut Registrar<'_>) {
                $(
                    // A point without hooks is idle, or not even known, and costs nothing.
                    if self.watch.is_some() || !self.set().is_bare::<$seam>() {
                        at.source::<$seam>(self.clone());
                    }
                )*
            }
        }
        $(
            impl HandlerSource<$seam> for Hooks {
                fn plan(&self, input: &$input, out: &mut Vec<Planned<$seam>>) {
                    self.set().add(At::$at(input), out);
                }
                fn describe(&self) -> Vec<Registered> {
                    self.set().rows::<$seam>()
                }
                fn is_idle(&self) -> bool {
                    self.set().is_bare::<$seam>()
                }
            }
        )*
    };
}

sources! {
    SessionStart: Starting, SessionStart;
    SubagentStart: ChildStarting, SubagentStart;
    PromptSubmit: Submitted, UserPromptSubmit;
    Rewrite: Proposed, PreToolUse;
    Permission: Asking, PermissionRequest;
    PostExecute: Returned, PostToolUse;
    ToolBatch: CallBatch, PostToolBatch;
    TurnContinuation: Ending, Stop;
    Compaction: Compacting, PreCompact;
    AfterCompaction: Summarised, PostCompact;
}
