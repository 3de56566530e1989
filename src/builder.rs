//! The builder: the one place that knows both the actors and the bridges.

use portcullis_actors::{
    Config, Health, Leftover, LiveCall, Session, SessionAdvisor, SessionOptions, Stall, StartError,
};
use portcullis_runtime::{
    BadSessionId, Extension, ForkAt, Journal, Limits, MemoryJournal, Model, Registered, Registrar, SessionId,
    Table, Tool, plan::TableError,
};
use std::{sync::Arc, time::Duration};

/// After which time a session without work leaves memory, unless the builder says otherwise.
const IDLE_AFTER: Duration = Duration::from_secs(600);

/// Puts a runtime together. See [`Runtime::builder`].
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    table: Table,
    /// The first registration that was refused; reported by `start`, so that the chain stays a chain.
    refused: Option<TableError>,
    model: Arc<dyn Model>,
    journal: Arc<dyn Journal>,
    system: Arc<str>,
    limits: Limits,
    arbiters: Option<usize>,
    idle_after: Option<Duration>,
    asks_expire_after: Option<Duration>,
    inbox_every: Option<Duration>,
    required: Vec<String>,
    advisors: Vec<SessionAdvisor>,
}

impl Builder {
    /// Keeps the logs there. Without one they live in memory and die with the process.
    pub fn journal(mut self, journal: impl Journal) -> Builder {
        self.journal = Arc::new(journal);
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool) -> Builder {
        if let Err(error) = self.table.tool(Arc::new(tool)) {
            self.refused.get_or_insert(error);
        }
        self
    }

    /// Adds several tools, such as those of a [`Workspace`](portcullis_tools::Workspace).
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Builder {
        for tool in tools {
            if let Err(error) = self.table.tool(tool) {
                self.refused.get_or_insert(error);
            }
        }
        self
    }

    /// Registers the handlers of one owner. The owner's name and each handler's are parts of durable keys: keep them
    /// stable from release to release.
    pub fn policy(mut self, owner: &str, register: impl FnOnce(&mut Registrar<'_>)) -> Builder {
        self.table.register(owner, register);
        self
    }

    /// Mounts an extension that observes: results and subagents' ends. If it registers anything that decides, the
    /// runtime does not start.
    pub fn mount(mut self, extension: Arc<dyn Extension>) -> Builder {
        let owner = extension.owner().to_owned();
        self.table.register_observing(&owner, |at| extension.register(at));
        self
    }

    /// Mounts an extension and lets it decide: the host's opt-in.
    pub fn mount_deciding(mut self, extension: Arc<dyn Extension>) -> Builder {
        let owner = extension.owner().to_owned();
        self.table.register(&owner, |at| extension.register(at));
        self
    }

    /// This runtime answers what handlers ask of the advisor: on its model, and with agents below the session in question.
    ///
    /// ```
    /// # use portcullis::{Runtime, ScriptedModel, SessionAdvisor, hooks::{ClaudeHooks, Options}};
    /// # let model = ScriptedModel::from_json(r#"{"turns":[{"steps":[{"text":"Yes."}]}]}"#)?;
    /// # let project = std::env::temp_dir();
    /// let advisor = SessionAdvisor::new();
    /// // Its hooks of type `prompt` and `agent` ask the runtime that they are mounted in.
    /// let (hooks, reports) = ClaudeHooks::load_with(project, Options::new().advisor(advisor.clone()));
    /// let builder = Runtime::builder(model).mount_deciding(hooks).answers(advisor);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answers(mut self, advisor: SessionAdvisor) -> Builder {
        self.advisors.push(advisor);
        self
    }

    /// The system text of every request.
    pub fn system(mut self, text: impl Into<Arc<str>>) -> Builder {
        self.system = text.into();
        self
    }

    /// What turns are held to.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }

    /// How many threads hold sessions; one per core otherwise.
    pub fn arbiters(mut self, threads: usize) -> Builder {
        self.arbiters = Some(threads);
        self
    }

    /// Lets a session leave memory when it has had nothing to do for this long, or has waited for a person, or its host, and nothing else:
    /// its pen is given back, its actors stop, and its handle stays good; whatever is sent to it brings it back where its log
    /// ends. It goes within a quarter of that time more, or 30 s. `None` keeps every session. Ten minutes unless it is said
    /// here.
    pub fn idle_after(mut self, time: impl Into<Option<Duration>>) -> Builder {
        self.idle_after = time.into();
        self
    }

    /// Looks this often whether others have put commands into the inboxes of this runtime's sessions ([`Journal::submit`]), and
    /// has them done; a session that is away comes back for it. Without this, inboxes are looked into when a session is
    /// opened or comes back.
    pub fn inbox_every(mut self, time: Duration) -> Builder {
        self.inbox_every = Some(time);
        self
    }

    /// Questions to a person expire after this time, in whole milliseconds: the call is refused, and the model is told that
    /// nobody answered. The time is in the question's record, so it also runs while no process has the session; what is
    /// overdue then is settled when the session is opened. So do calls that were deferred and are not resumed. Without this both
    /// wait for ever.
    pub fn asks_expire_after(mut self, time: Duration) -> Builder {
        self.asks_expire_after = Some(time);
        self
    }

    /// The runtime must not start without this handler, named `owner/handler`.
    pub fn require(mut self, handler: impl Into<String>) -> Builder {
        self.required.push(handler.into());
        self
    }

    /// Starts the runtime's threads.
    ///
    /// # Errors
    /// Two tools, or two handlers of one point, share a name; a required handler is missing; threads cannot be started;
    /// the program is built with `panic = "abort"`.
    pub async fn start(self) -> Result<Runtime, StartError> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        let config = Config {
            table: self.table,
            model: self.model,
            journal: self.journal,
            system: self.system,
            limits: self.limits,
            arbiters: self.arbiters,
            idle_after: self.idle_after,
            asks_expire_after: self.asks_expire_after,
            inbox_every: self.inbox_every,
            required: self.required,
        };
        let inner = portcullis_actors::Runtime::start(config).await?;
        self.advisors.iter().for_each(|advisor| inner.answers(advisor));
        Ok(Runtime { inner })
    }
}

/// A running runtime: many sessions on few threads. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Runtime {
    inner: portcullis_actors::Runtime,
}

/// Why a session was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] BadSessionId),
    /// The process has no current directory to open it in; name one with [`Runtime::open`].
    #[error("the current directory cannot be read ({0}); name one with `open`")]
    Cwd(String),
    /// The session's log, the journal or the runtime refused.
    #[error(transparent)]
    Open(#[from] portcullis_actors::OpenError),
}

/// Why a session was not forked. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkSessionError {
    /// A name is none.
    #[error(transparent)]
    Name(#[from] BadSessionId),
    /// The session, its place or the journal refused.
    #[error(transparent)]
    Fork(#[from] portcullis_actors::ForkFailed),
}

impl Runtime {
    /// Begins a runtime on this model, with nothing else: no tools, no policy, logs in memory.
    pub fn builder(model: impl Model) -> Builder {
        Builder {
            table: Table::new(),
            refused: None,
            model: Arc::new(model),
            journal: Arc::new(MemoryJournal::new()),
            system: "".into(),
            limits: Limits::default(),
            arbiters: None,
            idle_after: Some(IDLE_AFTER),
            asks_expire_after: None,
            inbox_every: None,
            required: Vec::new(),
            advisors: Vec::new(),
        }
    }

    /// Opens a session by its name in the current directory, with no one to ask: a live one is handed out, one in the
    /// journal goes on where its log ends, else it is created.
    pub async fn session(&self, name: impl AsRef<str>) -> Result<Session, OpenError> {
        let cwd = std::env::current_dir().map_err(|e| OpenError::Cwd(e.to_string()))?;
        self.open(name, SessionOptions::new(cwd)).await
    }

    /// Opens a session with its options.
    pub async fn open(&self, name: impl AsRef<str>, options: SessionOptions) -> Result<Session, OpenError> {
        let id = SessionId::new(name)?;
        Ok(self.inner.session(id, options).await?)
    }

    /// Opens a session with registrations of its own beside the runtime's: they cover it and its subagents, and no other
    /// session. A session that is live already keeps what it was opened with.
    pub async fn open_with(
        &self,
        name: impl AsRef<str>,
        options: SessionOptions,
        owner: &str,
        register: impl FnOnce(&mut Registrar<'_>),
    ) -> Result<Session, OpenError> {
        let id = SessionId::new(name)?;
        Ok(self.inner.session_with(id, options, owner, register).await?)
    }

    /// Forks a session at a place in its log (C-DUR-7): another one, called `name`, goes on from a copy of it there. Open it
    /// with [`open`](Runtime::open); its first turn starts with the source `fork`. It has its parent's working directory and
    /// front door. The parent is only read, and may be live.
    ///
    /// What was sent to the parent and not taken up to there is not in the fork. A turn that is open there is `interrupted`
    /// in the fork, and its calls are answered.
    ///
    /// ```
    /// # use portcullis::{ForkAt, Runtime, ScriptedModel};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = ScriptedModel::from_json(r#"{"turns":[{"repeat":3,"steps":[{"text":"Yes."}]}]}"#)?;
    /// # let runtime = Runtime::builder(model).start().await?;
    /// let session = runtime.session("demo").await?;
    /// session.prompt("shall we?").await?.await;
    /// session.prompt("by train?").await?.await;
    /// // What if we had asked otherwise, after the first answer?
    /// runtime.fork("demo", ForkAt::Turn(1), "by-bike").await?;
    /// runtime.session("by-bike").await?.prompt("by bike?").await?.await;
    /// # runtime.shutdown(std::time::Duration::from_secs(5)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fork(
        &self,
        of: impl AsRef<str>,
        at: ForkAt,
        name: impl AsRef<str>,
    ) -> Result<(), ForkSessionError> {
        let (parent, child) = (SessionId::new(of)?, SessionId::new(name)?);
        Ok(self.inner.fork(&parent, at, &child).await?)
    }

    /// Code that blocked its arbiter's thread for over 100 ms: whose, where and for how long. The last 64.
    pub fn stalls(&self) -> Vec<Stall> {
        self.inner.stalls()
    }

    /// What no gate can reach, with the reason.
    pub fn uncovered(&self) -> Vec<(&'static str, &'static str)> {
        self.inner.uncovered()
    }

    /// Every registration, read from the very table that the dispatcher reads.
    pub fn introspect(&self) -> Vec<Registered> {
        self.inner.introspect()
    }

    /// The calls that are being run now.
    pub fn live_calls(&self) -> Vec<LiveCall> {
        self.inner.live_calls()
    }

    /// How many sessions there are, in memory and away.
    pub fn health(&self) -> Health {
        self.inner.health()
    }

    /// The sessions in memory.
    pub fn live_sessions(&self) -> Vec<SessionId> {
        self.inner.live_sessions()
    }

    /// Takes nothing more, lets open turns end within the limit, flushes, stops the threads, and says what it left.
    pub async fn shutdown(self, within: Duration) -> Leftover {
        self.inner.shutdown(within).await
    }
}
