//! A handler as its file defines it, whatever the file's format is.

use crate::{event::Event, matcher::Matcher, written::Written};
use portcullis_runtime::View;
use std::{
    borrow::Cow,
    fmt::Debug,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The longest timeout: what a JavaScript timer can hold.
pub(crate) const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// One handler of a file.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) event: Event,
    /// Where it stands in its file, from 1.
    pub(crate) line: usize,
    /// Its place among the handlers of the files, from 0, as its client counts.
    pub(crate) order: usize,
    pub(crate) matcher_text: Option<Arc<str>>,
    pub(crate) matcher: Arc<Matcher>,
    pub(crate) written: Written,
    /// What it asks of a call beside its matcher.
    pub(crate) condition: Option<Arc<dyn Condition>>,
    /// The same as written.
    pub(crate) condition_text: Option<Arc<str>>,
    pub(crate) timeout: Duration,
    /// Its file sets that limit; otherwise it is the event's.
    pub(crate) sets_timeout: bool,
    pub(crate) blocks_on_failure: bool,
    /// Nobody waits for it.
    pub(crate) background: bool,
    /// Its exit code 2 reaches the model later.
    pub(crate) rewakes: bool,
    /// How much context of it the model is shown, in the dialect's own unit, if its file sets that.
    pub(crate) context_limit: Option<u64>,
}

/// Something that a handler asks of a call.
pub(crate) trait Condition: Debug + Send + Sync {
    /// Does it hold? `project` is what relative patterns count from, `cwd` what relative files do.
    fn holds(&self, tool: &str, input: View<'_>, project: &Path, cwd: &Path) -> bool;
}

/// Where a file was found and how it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    /// What the client calls it where it names a run, if that is not its path.
    pub(crate) named: Option<PathBuf>,
    pub(crate) scope: Scope,
    pub(crate) plugin: Option<Plugin>,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    User,
    Project,
    Local,
    /// Given for this run.
    Flag,
    Managed,
    Plugin,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::Flag => "settings",
            Scope::Managed => "managed",
            Scope::Plugin => "plugin",
        }
    }
}

/// A plugin's place, as its hooks see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    pub(crate) data: Option<PathBuf>,
}

impl Origin {
    /// The file's own name: what a model may read of where a rule stands.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy()
    }
}
