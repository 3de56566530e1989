//! What a host may set beside the user's files.

use crate::{
    background::Late,
    change::Reloaded,
    claude::Layers,
    explain::HookInfo,
    overlay::{HookTerms, Overlays, Said},
    tool::McpTools,
};
use portcullis_process::Permits;
use portcullis_runtime::{Advisor, Scene};
use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

/// How closely the client is followed where it would weaken a hook (C-BRIDGE-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// As the client, except that a hook is sent integers beyond 2^53 exactly, and new arguments it proposes keep theirs.
    #[default]
    Strict,
    /// As the client: such integers are rounded as JavaScript rounds them.
    Exact,
}

/// What a hook that fails means: one that cannot start, runs into its limit, exits with a code that means nothing, or prints
/// JSON that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// It decides nothing, unless its own `onFailure` says `"block"`. The client's rule.
    #[default]
    Proceed,
    /// It blocks, on every event where a block means something but Stop.
    Block,
}

/// How a project's hooks are loaded and run. A host sets this beside the user's files, never in them. `L` says which files
/// count, in the terms of the client they are written for.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options<L = Layers> {
    /// Which files count.
    pub layers: L,
    /// Which `portcullis.toml` count. What is set here comes after all they say.
    pub overlays: Overlays,
    /// How closely the client is followed.
    pub fidelity: Option<Fidelity>,
    /// What a failing hook means.
    pub on_failure: Option<OnFailure>,
    /// The limit of a hook whose own file sets none. Default: the client's, by event.
    pub default_timeout: Option<Duration>,
    /// No hook runs longer, whatever is said elsewhere.
    pub max_timeout: Option<Duration>,
    /// Hooks run and are recorded, and nothing they say counts.
    pub shadow: Option<bool>,
    /// Has the last word on each hook, when it is loaded.
    pub each: Option<Each>,
    /// The folder in which `transcript_path` lies (`SESSION.jsonl`; for Codex `rollout-SESSION.jsonl`), and below which contexts too
    /// long for the model are kept (`SESSION/tool-results`). Default: `.portcullis/transcripts` in the project, for Codex `codex` below
    /// that. Who asks for
    /// hooks of two projects in one folder must not give two sessions one name.
    pub transcripts: Option<PathBuf>,
    /// The folder in which hooks find a file for what they export to later commands, one a hook and session
    /// (`SESSION/sessionstart-hook-0.sh`). Default: `.portcullis/session-env` in the project. It has to outlive this process: a
    /// session that is reopened has its environment from there.
    pub exports: Option<PathBuf>,
    /// How many hook processes may live at a time; as many again in the background. Default: what `portcullis.toml` says, else
    /// the limit shared by the process.
    pub permits: Option<Permits>,
    /// Variables for every hook, on top of this process's own environment and of the settings' `env`.
    pub env: Vec<(OsString, OsString)>,
    /// Where hooks run at all, by the client's name of the event and the place. Default: everywhere.
    pub only: Option<Only>,
    /// Who answers hooks of type `prompt` and `agent`: usually the runtime they are mounted in, by its `SessionAdvisor`.
    /// Default: nobody, and such hooks are reported and do not run.
    pub advisor: Option<Arc<dyn Advisor>>,
    /// Who calls tools of MCP servers for hooks of type `mcp_tool`. Default: nobody, and such hooks are reported and do not run.
    pub mcp: Option<Arc<dyn McpTools>>,
    /// Who is told what hooks said that nobody waits for: those in the background, and those on Notification and StopFailure.
    /// Default: nobody, and their context and records are dropped.
    pub late: Option<TellLate>,
    /// The files are read once, and a change of theirs is not looked for. Default: when a turn begins they are looked at, where
    /// the client does so, and read again if they have changed.
    pub read_once: bool,
    /// Who is told that files have changed, and what came of it. Default: only whoever listens to `tracing`.
    pub reloaded: Option<TellReloaded>,
}

/// A plugin whose hooks count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginLayer {
    /// Its name; equal commands of two plugins are two handlers.
    pub name: String,
    /// Its folder: `CLAUDE_PLUGIN_ROOT` of its hooks.
    pub root: PathBuf,
    /// The folder for its data: `CLAUDE_PLUGIN_DATA` of its hooks.
    pub data: Option<PathBuf>,
    /// Its hook file; `hooks/hooks.json` in its folder unless said otherwise.
    pub file: PathBuf,
}

impl PluginLayer {
    /// A plugin by its folder.
    pub fn new(name: impl Into<String>, root: impl Into<PathBuf>) -> PluginLayer {
        let root = root.into();
        PluginLayer { name: name.into(), file: root.join("hooks/hooks.json"), root, data: None }
    }

    /// Where its hooks keep their data.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> PluginLayer {
        self.data = Some(folder.into());
        self
    }

    /// Another hook file than `hooks/hooks.json`.
    pub fn file(mut self, file: impl Into<PathBuf>) -> PluginLayer {
        self.file = file.into();
        self
    }
}

/// Takes what a hook in the background came to. Short: it runs on the thread that holds the session. A host has
/// `Session::late` take all of it.
pub type TellLate = Arc<dyn Fn(Late) + Send + Sync>;

/// Takes what came of a change of files. Short: it runs on the thread that holds the session.
pub type TellReloaded = Arc<dyn Fn(&Reloaded) + Send + Sync>;

/// Changes what holds for a hook.
pub type Each = Arc<dyn Fn(&HookInfo, &mut HookTerms) + Send + Sync>;

/// Says whether the hooks of an event run at a place: pure, and asked at every dispatch.
pub type Only = Arc<dyn Fn(&str, &Scene) -> bool + Send + Sync>;

impl<L: Default> Options<L> {
    /// The defaults: the project's files, strict, failures proceed.
    pub fn new() -> Self {
        Options::default()
    }
}

impl<L> Options<L> {
    /// Which files count.
    pub fn layers(mut self, layers: L) -> Self {
        self.layers = layers;
        self
    }

    /// The same for other files, such as those of another client.
    pub fn for_files<M>(self, layers: M) -> Options<M> {
        Options {
            layers,
            overlays: self.overlays,
            fidelity: self.fidelity,
            on_failure: self.on_failure,
            default_timeout: self.default_timeout,
            max_timeout: self.max_timeout,
            shadow: self.shadow,
            each: self.each,
            transcripts: self.transcripts,
            exports: self.exports,
            permits: self.permits,
            env: self.env,
            only: self.only,
            advisor: self.advisor,
            mcp: self.mcp,
            late: self.late,
            read_once: self.read_once,
            reloaded: self.reloaded,
        }
    }

    /// How closely the client is followed.
    pub fn fidelity(mut self, fidelity: Fidelity) -> Self {
        self.fidelity = Some(fidelity);
        self
    }

    /// What a failing hook means.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Which `portcullis.toml` count.
    pub fn overlays(mut self, overlays: Overlays) -> Self {
        self.overlays = overlays;
        self
    }

    /// The limit of a hook whose own file sets none.
    pub fn default_timeout(mut self, limit: Duration) -> Self {
        self.default_timeout = Some(limit);
        self
    }

    /// The limit that no hook may go beyond.
    pub fn max_timeout(mut self, limit: Duration) -> Self {
        self.max_timeout = Some(limit);
        self
    }

    /// Whether hooks only run and are recorded, and nothing they say counts.
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = Some(shadow);
        self
    }

    /// Has the last word on each hook, when it is loaded.
    pub fn each(mut self, change: impl Fn(&HookInfo, &mut HookTerms) + Send + Sync + 'static) -> Self {
        self.each = Some(Arc::new(change));
        self
    }

    pub(crate) fn said(&self) -> Said {
        Said {
            fidelity: self.fidelity,
            on_failure: self.on_failure,
            default_timeout: self.default_timeout,
            timeout: None,
            max_timeout: self.max_timeout,
            shadow: self.shadow,
        }
    }

    /// The folder of transcripts.
    pub fn transcripts(mut self, folder: impl Into<PathBuf>) -> Self {
        self.transcripts = Some(folder.into());
        self
    }

    /// The folder of what hooks export.
    pub fn exports(mut self, folder: impl Into<PathBuf>) -> Self {
        self.exports = Some(folder.into());
        self
    }

    /// The limit on live hook processes.
    pub fn permits(mut self, permits: Permits) -> Self {
        self.permits = Some(permits);
        self
    }

    /// Runs hooks only where this says so.
    pub fn only(mut self, only: impl Fn(&str, &Scene) -> bool + Send + Sync + 'static) -> Self {
        self.only = Some(Arc::new(only));
        self
    }

    /// Has this one answer hooks of type `prompt` and `agent`.
    pub fn advisor(mut self, advisor: impl Advisor) -> Self {
        self.advisor = Some(Arc::new(advisor));
        self
    }

    /// Has this one call tools of MCP servers for hooks of type `mcp_tool`.
    pub fn mcp(mut self, tools: impl McpTools) -> Self {
        self.mcp = Some(Arc::new(tools));
        self
    }

    /// Tells this what hooks in the background said.
    pub fn late(mut self, tell: impl Fn(Late) + Send + Sync + 'static) -> Self {
        self.late = Some(Arc::new(tell));
        self
    }

    /// Reads the files once.
    pub fn read_once(mut self) -> Self {
        self.read_once = true;
        self
    }

    /// Tells this what came of a change of files.
    pub fn reloaded(mut self, tell: impl Fn(&Reloaded) + Send + Sync + 'static) -> Self {
        self.reloaded = Some(Arc::new(tell));
        self
    }

    /// Adds a variable to every hook's environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// Names of variables, never values: those may be secrets.
impl<L: std::fmt::Debug> std::fmt::Debug for Options<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("layers", &self.layers)
            .field("overlays", &self.overlays)
            .field("said", &self.said())
            .field("each", &self.each.is_some())
            .field("transcripts", &self.transcripts)
            .field("exports", &self.exports)
            .field("permits", &self.permits)
            .field("advisor", &self.advisor.is_some())
            .field("mcp", &self.mcp.is_some())
            .field("only", &self.only.is_some())
            .field("late", &self.late.is_some())
            .field("read_once", &self.read_once)
            .field("reloaded", &self.reloaded.is_some())
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}
