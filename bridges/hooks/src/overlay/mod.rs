//! `portcullis.toml`: what a person sets beside the client's files, for all hooks or for some (C-BRIDGE-3).
//!
//! Files count one after another: the user's, then the project's, then what the host says in its own code. In a file, what is
//! said of all hooks comes before what is said of some. What comes later replaces what came before, except for limits: there the
//! lowest counts.
//!
//! A project comes from somebody else as often as not, so its file speaks for the hooks it brought itself (and for a file that was
//! given for this run), never for the user's own, a plugin's or the administrator's. For the administrator's only the host speaks.

mod read;

use crate::{
    definition::{Definition, Origin, Scope},
    glob::glob,
    options::{Fidelity, OnFailure},
    report::{Report, Severity},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What such a file is called.
pub(crate) const FILE: &str = "portcullis.toml";

/// Which `portcullis.toml` count. Default: the project's.
///
/// ```
/// use portcullis_hooks::{ClaudeHooks, Fidelity, Options, Overlays};
///
/// let project = tempfile::tempdir()?;
/// std::fs::create_dir(project.path().join(".claude"))?;
/// std::fs::write(
///     project.path().join(".claude/settings.json"),
///     r#"{"hooks": {"PreToolUse": [{"hooks": [
///         {"type": "command", "command": "./gate.sh"}, {"type": "command", "command": "./new-gate.sh"}]}]}}"#,
/// )?;
/// std::fs::write(
///     project.path().join("portcullis.toml"),
///     "[hooks]\non_failure = \"block\"\nmax_timeout = 20\n\n[[hook]]\ncommand = \"*new-gate.sh\"\nshadow = true\n",
/// )?;
/// let (hooks, reports) = ClaudeHooks::load(project.path());
/// assert_eq!(reports, []);
/// let [old, new] = &hooks.hooks()[..] else { panic!("two hooks") };
/// assert!(old.blocks_on_failure && !old.shadow && new.shadow);
/// assert_eq!(old.timeout.as_secs(), 20);
///
/// // What a host says in its own code comes last.
/// let host = Options::new().overlays(Overlays::none()).fidelity(Fidelity::Exact);
/// let (hooks, _) = ClaudeHooks::load_with(project.path(), host);
/// assert!(hooks.hooks().iter().all(|hook| !hook.shadow && hook.fidelity == Fidelity::Exact));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlays {
    /// The `portcullis.toml` of the project.
    pub project: bool,
    /// A user's file. It need not be there.
    pub user: Option<PathBuf>,
}

impl Default for Overlays {
    fn default() -> Overlays {
        Overlays { project: true, user: None }
    }
}

impl Overlays {
    /// No file at all.
    pub fn none() -> Overlays {
        Overlays { project: false, user: None }
    }

    /// Adds a user's file.
    pub fn user(mut self, file: impl Into<PathBuf>) -> Overlays {
        self.user = Some(file.into());
        self
    }

    /// Where a user's file is looked for: `portcullis/portcullis.toml` in `$XDG_CONFIG_HOME`, else in `.config` of this home.
    pub fn user_file(home: impl AsRef<Path>) -> PathBuf {
        let stated = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = stated.unwrap_or_else(|| home.as_ref().join(".config"));
        config.join("portcullis").join(FILE)
    }
}

/// What holds for one hook, beside what its own file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookTerms {
    /// How closely the client is followed.
    pub fidelity: Fidelity,
    /// What its failure means.
    pub on_failure: OnFailure,
    /// How long it may run, above zero.
    pub timeout: Duration,
    /// It runs and is recorded, and nothing it says counts.
    pub shadow: bool,
}

/// What may be said of all hooks and of some.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) fidelity: Option<Fidelity>,
    pub(crate) on_failure: Option<OnFailure>,
    /// The limit of a hook whose file sets none.
    pub(crate) default_timeout: Option<Duration>,
    /// The limit, whatever the hook's file sets.
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) shadow: Option<bool>,
}

/// Of which hooks something is said: those that fit everything that is given.
#[derive(Debug, Default, PartialEq, Eq)]
struct Which {
    /// The client whose file it stands in.
    dialect: Option<&'static str>,
    event: Option<&'static str>,
    /// As its file spells it.
    matcher: Option<String>,
    /// The command line, `*` being any run of characters.
    command: Option<String>,
    /// Its name in the log.
    handler: Option<String>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    which: Which,
    said: Said,
}

/// One file.
#[derive(Debug, Default)]
struct File {
    path: PathBuf,
    /// It came with the project.
    of_project: bool,
    all: Said,
    processes: Option<usize>,
    entries: Vec<Entry>,
}

/// All files that count, in their order.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    files: Vec<File>,
}

/// A hook, as far as an entry may ask about it.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) dialect: &'static str,
    pub(crate) definition: &'a Definition,
    pub(crate) origin: &'a Origin,
    pub(crate) handler: &'a Arc<str>,
}

impl Overlay {
    /// Reads them.
    pub(crate) fn load(project: &Path, overlays: &Overlays, reports: &mut Vec<Report>) -> Overlay {
        let user = overlays.user.clone().map(|path| (path, false));
        let own = overlays.project.then(|| (project.join(FILE), true));
        let files = user.into_iter().chain(own);
        Overlay {
            files: files.filter_map(|(path, of_project)| read::file(path, of_project, reports)).collect(),
        }
    }

    /// The same of a project's file that is at hand.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of_text(bytes: &[u8], reports: &mut Vec<Report>) -> Overlay {
        let file = File { path: FILE.into(), of_project: true, ..File::default() };
        Overlay { files: read::parse(bytes, file, reports).into_iter().collect() }
    }

    /// How many hook processes may live at a time: the lowest number that is said.
    pub(crate) fn processes(&self) -> Option<usize> {
        self.files.iter().filter_map(|file| file.processes).min()
    }

    /// How closely the client is followed with a hook of the project of which nothing else is said.
    pub(crate) fn fidelity(&self, host: &Said) -> Fidelity {
        let mut sum = Said::default();
        self.files.iter().map(|file| &file.all).chain([host]).for_each(|said| sum.add(said));
        sum.fidelity.unwrap_or_default()
    }

    /// What the files and then the host say of one hook.
    pub(crate) fn terms(&self, hook: Subject<'_>, host: &Said) -> HookTerms {
        let mut sum = Said::default();
        for file in self.files.iter().filter(|file| file.reaches(hook.origin)) {
            sum.add(&file.all);
            file.entries.iter().filter(|entry| entry.which.fits(hook)).for_each(|entry| sum.add(&entry.said));
        }
        sum.add(host);
        let own = (hook.definition.timeout, hook.definition.sets_timeout);
        let timeout = match (sum.timeout, own, sum.default_timeout) {
            (Some(stated), ..) => stated,
            (None, (_, false), Some(default)) => default,
            (None, (own, _), _) => own,
        };
        HookTerms {
            fidelity: sum.fidelity.unwrap_or_default(),
            on_failure: sum.on_failure.unwrap_or_default(),
            timeout: sum.max_timeout.map_or(timeout, |most| timeout.min(most)),
            shadow: sum.shadow.unwrap_or(false),
        }
    }

    /// Names the entries that are about no hook.
    pub(crate) fn unused(&self, hooks: &[Subject<'_>], reports: &mut Vec<Report>) {
        for file in &self.files {
            for entry in &file.entries {
                let fitting: Vec<_> = hooks.iter().filter(|hook| entry.which.fits(**hook)).collect();
                let mut say = |code, message: &str, hint: &str| {
                    let mut report =
                        Report::new(Severity::Warning, code, message).at(&file.path, Some(entry.line));
                    report.hint = Some(hint.into());
                    reports.push(report);
                };
                match fitting.iter().any(|hook| file.reaches(hook.origin)) {
                    true => {}
                    false if fitting.is_empty() => say(
                        "overlay/fits-nothing",
                        "this `[[hook]]` fits no hook that was loaded, so it sets nothing",
                        "`portcullis hooks check` lists the hooks with what may be asked about them",
                    ),
                    false => say(
                        "overlay/out-of-reach",
                        "this `[[hook]]` fits only hooks that this file does not speak for, so it sets nothing",
                        "a project speaks for its own hooks; for yours and for plugins write it into your own portcullis.toml",
                    ),
                }
            }
        }
    }
}

impl File {
    fn reaches(&self, origin: &Origin) -> bool {
        match origin.scope {
            Scope::Project | Scope::Local | Scope::Flag => true,
            Scope::User | Scope::Plugin => !self.of_project,
            Scope::Managed => false,
        }
    }
}

impl Said {
    /// The later word counts; of two limits the lower.
    fn add(&mut self, later: &Said) {
        self.fidelity = later.fidelity.or(self.fidelity);
        self.on_failure = later.on_failure.or(self.on_failure);
        self.default_timeout = later.default_timeout.or(self.default_timeout);
        self.timeout = later.timeout.or(self.timeout);
        self.shadow = later.shadow.or(self.shadow);
        self.max_timeout = self.max_timeout.into_iter().chain(later.max_timeout).min();
    }
}

impl Which {
    fn fits(&self, hook: Subject<'_>) -> bool {
        let definition = hook.definition;
        self.dialect.is_none_or(|dialect| dialect == hook.dialect)
            && self.event.is_none_or(|event| event == definition.event.name())
            && self
                .matcher
                .as_deref()
                .is_none_or(|matcher| matcher == definition.matcher_text.as_deref().unwrap_or_default())
            && self.command.as_deref().is_none_or(|wanted| glob(wanted, &definition.written.line(), false))
            && self.handler.as_deref().is_none_or(|name| name == &**hook.handler)
    }

    fn is_empty(&self) -> bool {
        *self == Which::default()
    }
}
