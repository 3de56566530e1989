//! Which files count, and in what order.

use super::{File, environment, limits, matcher::rule::Rule, permissions::Permissions};
use crate::{
    definition::{Definition, Origin, Plugin, Scope},
    hooks::Loaded,
    post::Bounds,
    report::{self, Report, Severity},
};
use std::{
    ffi::OsString,
    io,
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

/// Reads all files that count. `env`: what the host adds to the environment.
pub(in crate::claude) fn load(
    project: &Path,
    layers: &Layers,
    env: &[(OsString, OsString)],
    reports: &mut Vec<Report>,
) -> Loaded {
    let mut merged = merge(files(project, layers, reports), reports);
    limits::bound(&mut merged.definitions, limits::stated(env, &merged.env));
    let permissions = Permissions::new(project.into(), merged.deny, merged.ask);
    Loaded {
        definitions: merged.definitions,
        env: environment::base(project, &merged.env, env),
        bounds: merged.bounds,
        beside: Some(Box::new(move |at| permissions.register(at))),
    }
}

fn files(project: &Path, layers: &Layers, reports: &mut Vec<Report>) -> Vec<(Arc<Origin>, File)> {
    let mut files: Vec<(Arc<Origin>, File)> = Vec::new();
    let mut add = |path: PathBuf, scope: Scope, plugin: Option<Plugin>, must_exist: bool| {
        let given = layers.flag_json.as_ref().filter(|_| scope == Scope::Flag && path == Path::new(GIVEN));
        let bytes = match given.map_or_else(|| report::read(&path), |text| Ok(text.clone().into_bytes())) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => return,
            Err(error) => {
                let message = format!("this file cannot be read and is ignored: {error}");
                reports.push(Report::new(Severity::Error, "hooks/unreadable", message).at(path, None));
                return;
            }
        };
        let file = super::read(&path, &bytes, scope, reports);
        files.push((Arc::new(Origin { path, named: None, scope, plugin }), file));
    };
    if let Some(user) = &layers.user {
        add(user.clone(), Scope::User, None, false);
    }
    if layers.project {
        add(project.join(".claude/settings.json"), Scope::Project, None, false);
    }
    if layers.local {
        add(project.join(".claude/settings.local.json"), Scope::Local, None, false);
    }
    if let Some(flag) = &layers.flag {
        add(flag.clone(), Scope::Flag, None, true);
    }
    if layers.flag_json.is_some() {
        add(GIVEN.into(), Scope::Flag, None, true);
    }
    if let Some(managed) = &layers.managed {
        add(managed.clone(), Scope::Managed, None, false);
    }
    for plugin in &layers.plugins {
        let place =
            Plugin { name: plugin.name.clone(), root: plugin.root.clone(), data: plugin.data.clone() };
        add(plugin.file.clone(), Scope::Plugin, Some(place), true);
    }
    files
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
