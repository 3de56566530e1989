//! Which files count, and in what order.

use super::{File, environment, limits, matcher::rule::Rule, permissions::Permissions};
use crate::{
    definition::{Definition, Origin, Plugin, Scope},
    options::Options,
    options::PluginLayer,
    post::Bounds,
    report::{Report, Severity},
    set::Loaded,
    watch::{Reader, Source},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What settings without a file are called.
const GIVEN: &str = "--settings";

/// Which hook files a host lets count. Default: the project's `.claude/settings.json` and `.claude/settings.local.json`.
///
/// Files add up. Their order is the client's: user, project, local, flag, managed, plugins; where one handler is defined
/// twice, the last definition counts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layers {
    /// The user's settings file, such as `~/.claude/settings.json`.
    pub user: Option<PathBuf>,
    /// The project's `.claude/settings.json`.
    pub project: bool,
    /// The project's `.claude/settings.local.json`.
    pub local: bool,
    /// A file given for this run, as with the client's `--settings`.
    pub flag: Option<PathBuf>,
    /// The same as a JSON text; it comes after the file.
    pub flag_json: Option<String>,
    /// The administrator's file. Its hooks survive a `disableAllHooks` elsewhere.
    pub managed: Option<PathBuf>,
    /// Plugins, in order.
    pub plugins: Vec<PluginLayer>,
}

impl Default for Layers {
    fn default() -> Layers {
        Layers {
            user: None,
            project: true,
            local: true,
            flag: None,
            flag_json: None,
            managed: None,
            plugins: Vec::new(),
        }
    }
}

impl Layers {
    /// No file at all, to add to.
    pub fn none() -> Layers {
        Layers { project: false, local: false, ..Layers::default() }
    }

    /// Adds the settings of a user by their home directory: `HOME/.claude/settings.json`.
    pub fn user_home(mut self, home: impl AsRef<Path>) -> Layers {
        self.user = Some(home.as_ref().join(".claude/settings.json"));
        self
    }

    /// Adds a settings file for this run.
    pub fn flag(mut self, file: impl Into<PathBuf>) -> Layers {
        self.flag = Some(file.into());
        self
    }

    /// Adds settings for this run, as a JSON text.
    pub fn flag_json(mut self, text: impl Into<String>) -> Layers {
        self.flag_json = Some(text.into());
        self
    }

    /// Adds the administrator's settings file.
    pub fn managed(mut self, file: impl Into<PathBuf>) -> Layers {
        self.managed = Some(file.into());
        self
    }

    /// Adds a plugin.
    pub fn plugin(mut self, plugin: PluginLayer) -> Layers {
        self.plugins.push(plugin);
        self
    }
}

/// What all layers together say.
#[derive(Default)]
struct Merged {
    definitions: Vec<(Arc<Origin>, Definition)>,
    /// Variables of the settings' `env`; a later layer's value comes later.
    env: Vec<(String, String)>,
    /// Permission rules, with the file each stands in.
    deny: Vec<(Arc<Origin>, Rule)>,
    ask: Vec<(Arc<Origin>, Rule)>,
    /// What handlers of type `http` may do.
    bounds: Bounds,
}

/// What is made of the files of a project.
pub(in crate::claude) struct Settings {
    project: PathBuf,
    /// What the host adds to the environment.
    env: Vec<(OsString, OsString)>,
}

impl Settings {
    /// With all files that count, read.
    pub(in crate::claude) fn of(project: &Path, options: &Options) -> (Settings, Vec<Source>) {
        let settings = Settings { project: project.into(), env: options.env.clone() };
        (settings, sources(project, &options.layers))
    }

    /// What a file says; nothing if it need not be there and is not, or if none of it counts.
    fn file(source: &Source, reports: &mut Vec<Report>) -> Option<File> {
        let bytes = source.bytes().unwrap_or_else(|unreadable| {
            reports.push(unreadable);
            None
        });
        super::read(&source.origin.path, bytes?, source.origin.scope, reports)
    }
}

impl Reader for Settings {
    fn load(&self, sources: &[Source], reports: &mut Vec<Report>) -> Loaded {
        let read = |source: &Source| Some((source.origin.clone(), Settings::file(source, reports)?));
        let files = sources.iter().filter_map(read).collect();
        let mut merged = merge(files, reports);
        limits::bound(&mut merged.definitions, limits::stated(&self.env, &merged.env));
        Loaded {
            definitions: merged.definitions,
            env: environment::base(&self.project, &merged.env, &self.env),
            bounds: merged.bounds,
            rules: Some(Permissions::new(self.project.clone(), merged.deny, merged.ask)),
        }
    }

    fn rejected(&self, source: &Source) -> Option<Vec<Report>> {
        let mut reports = Vec::new();
        let is_gone = matches!(source.bytes(), Ok(None));
        let counts = is_gone || Settings::file(source, &mut reports).is_some();
        (!counts).then_some(reports)
    }
}

fn sources(project: &Path, layers: &Layers) -> Vec<Source> {
    let origin = |path: PathBuf, scope| Arc::new(Origin { path, named: None, scope, plugin: None });
    let file = |path: PathBuf, scope| Source::read(origin(path, scope), scope == Scope::Flag);
    let mut sources = Vec::new();
    sources.extend(layers.user.clone().map(|path| file(path, Scope::User)));
    let own = |name| project.join(".claude").join(name);
    sources.extend(layers.project.then(|| file(own("settings.json"), Scope::Project)));
    sources.extend(layers.local.then(|| file(own("settings.local.json"), Scope::Local)));
    sources.extend(layers.flag.clone().map(|path| file(path, Scope::Flag)));
    let given = layers.flag_json.as_ref();
    sources.extend(given.map(|text| Source::given(origin(GIVEN.into(), Scope::Flag), text)));
    sources.extend(layers.managed.clone().map(|path| file(path, Scope::Managed)));
    sources.extend(layers.plugins.iter().map(|plugin| {
        let PluginLayer { name, root, data, file } = plugin.clone();
        let (scope, plugin) = (Scope::Plugin, Some(Plugin { name, root, data }));
        Source::read(Arc::new(Origin { path: file, named: None, scope, plugin }), true)
    }));
    sources
}

/// Off switches: the last layer that says anything about `disableAllHooks` decides for all hooks that are not managed, the managed
/// file being the last; set there it is for those, too.
fn merge(files: Vec<(Arc<Origin>, File)>, reports: &mut Vec<Report>) -> Merged {
    let managed = |origin: &Origin| origin.scope == Scope::Managed;
    let managed_off = files.iter().any(|(origin, file)| managed(origin) && file.disable_all == Some(true));
    let managed_only = files.iter().any(|(origin, file)| managed(origin) && file.managed_only);
    let off = files
        .iter()
        .rev()
        .filter(|(origin, _)| origin.plugin.is_none())
        .find_map(|(origin, file)| Some((origin, file.disable_all?)))
        .filter(|(_, off)| *off)
        .map(|(origin, _)| origin.clone());
    let mut loaded = Merged::default();
    let mut skipped = 0;
    for (origin, file) in files {
        loaded.env.extend(file.env);
        loaded.bounds.add(file.bounds);
        loaded.deny.extend(file.deny.into_iter().map(|rule| (origin.clone(), rule)));
        loaded.ask.extend(file.ask.into_iter().map(|rule| (origin.clone(), rule)));
        if managed_off || (!managed(&origin) && (managed_only || off.is_some())) {
            skipped += file.definitions.len();
            continue;
        }
        loaded
            .definitions
            .extend(file.definitions.into_iter().map(|definition| (origin.clone(), definition)));
    }
    if skipped > 0 {
        let message = match &off {
            _ if managed_off => {
                format!("{skipped} hook(s) do not run: the managed settings disable all hooks")
            }
            _ if managed_only => {
                format!("{skipped} hook(s) do not run: the managed settings allow only managed hooks")
            }
            _ => format!("{skipped} hook(s) do not run: `disableAllHooks` is set"),
        };
        let mut report = Report::new(Severity::Note, "hooks/disabled", message);
        report.file = off.map(|origin| origin.path.clone());
        reports.push(report);
    }
    loaded
}
