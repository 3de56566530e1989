//! Which files count, and in what order.

use super::{
    file::{self, Config, State},
    handler::Handler,
    project::{Project, Trust},
    trust::{self, Bundle, Changed, Record, TrustStatus},
};
use crate::{
    options::PluginLayer,
    report::{Report, Severity},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the client calls the file of settings that were given without one.
const FLAGS: &str = "/<session-flags>/config.toml";

/// Which hook files of Codex a host lets count. Default: those of the project, if its user trusts it.
///
/// Files add up. Their order is the client's: the administrator's requirements, then the folders of the system and the user,
/// the project's from its root down to the working directory, settings of this run, plugins; in a folder `hooks.json` comes
/// before `config.toml`. Nothing is dropped for being there twice.
///
/// Hooks of the administrator and of the system run. Any other runs only once its user has trusted exactly what it is:
/// [`CodexTrust`](crate::CodexTrust).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodexLayers {
    /// The system's folder, such as `/etc/codex`; its hooks are managed.
    pub system: Option<PathBuf>,
    /// The user's folder, `CODEX_HOME`: their own hooks count.
    pub user: Option<PathBuf>,
    /// The `config.toml` in which the user says which hooks and projects they trust. That of their folder, unless said otherwise.
    pub trust: Option<PathBuf>,
    /// What this user approved here, beside the client's file: [`CodexLayers::record_file`]. Without one no hook of a plugin is
    /// trusted.
    pub record: Option<PathBuf>,
    /// The `.codex` folders of the project.
    pub project: bool,
    /// The host vouches for the project, whatever its user said of it. Its hooks have to be trusted all the same.
    pub project_trusted: bool,
    /// Settings of this run, as the text of a `config.toml`.
    pub flags: Option<String>,
    /// The administrator's `requirements.toml`.
    pub managed: Option<PathBuf>,
    /// Plugins, in order. Their names are the client's: `PLUGIN@MARKETPLACE`.
    pub plugins: Vec<PluginLayer>,
    /// Hooks run whether or not they are trusted, unless they are switched off one by one.
    pub bypass_trust: bool,
}

impl Default for CodexLayers {
    fn default() -> CodexLayers {
        CodexLayers {
            system: None,
            user: None,
            trust: None,
            record: None,
            project: true,
            project_trusted: false,
            flags: None,
            managed: None,
            plugins: Vec::new(),
            bypass_trust: false,
        }
    }
}

impl CodexLayers {
    /// No file at all, to add to.
    pub fn none() -> CodexLayers {
        CodexLayers { project: false, ..CodexLayers::default() }
    }

    /// Where the client keeps a user's files: `$CODEX_HOME`, else `.codex` in this home.
    pub fn user_folder(home: impl AsRef<Path>) -> PathBuf {
        let stated = std::env::var_os("CODEX_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        stated.unwrap_or_else(|| home.as_ref().join(".codex"))
    }

    /// Where it is kept what a user approved here: `portcullis/codex-trust.json` in `$XDG_CONFIG_HOME`, else in `.config` of
    /// this home.
    pub fn record_file(home: impl AsRef<Path>) -> PathBuf {
        crate::Overlays::user_file(home).with_file_name("codex-trust.json")
    }

    /// Adds the system's folder, and the `requirements.toml` in it.
    pub fn system(mut self, folder: impl Into<PathBuf>) -> CodexLayers {
        let folder = folder.into();
        self.managed.get_or_insert_with(|| folder.join("requirements.toml"));
        self.system = Some(folder);
        self
    }

    /// Adds a user's folder: their hooks, and what they trust.
    pub fn user(mut self, folder: impl Into<PathBuf>) -> CodexLayers {
        self.user = Some(folder.into());
        self
    }

    /// Has a user's `config.toml` say what is trusted. Their own hooks do not count for that.
    pub fn trust(mut self, file: impl Into<PathBuf>) -> CodexLayers {
        self.trust = Some(file.into());
        self
    }

    /// Where it is kept what was approved.
    pub fn record(mut self, file: impl Into<PathBuf>) -> CodexLayers {
        self.record = Some(file.into());
        self
    }

    /// Vouches for the project.
    pub fn trust_project(mut self) -> CodexLayers {
        self.project_trusted = true;
        self
    }

    /// Adds settings for this run, as TOML text.
    pub fn flags(mut self, text: impl Into<String>) -> CodexLayers {
        self.flags = Some(text.into());
        self
    }

    /// Adds the administrator's `requirements.toml`.
    pub fn managed(mut self, file: impl Into<PathBuf>) -> CodexLayers {
        self.managed = Some(file.into());
        self
    }

    /// Adds a plugin.
    pub fn plugin(mut self, plugin: PluginLayer) -> CodexLayers {
        self.plugins.push(plugin);
        self
    }

    /// Lets hooks run that nobody trusted.
    pub fn bypass_trust(mut self) -> CodexLayers {
        self.bypass_trust = true;
        self
    }

    /// The files that it would look into for a working directory, whether or not they are there, each with the name of its layer,
    /// in the order in which they add up. Looks for the project's root.
    pub fn files(&self, dir: impl AsRef<Path>) -> Vec<(String, PathBuf)> {
        let mut all: Vec<(String, PathBuf)> = Vec::new();
        all.extend(self.managed.iter().map(|file| ("managed".into(), file.clone())));
        let mut folder = |name: &str, folder: &Path| {
            all.extend(["hooks.json", "config.toml"].map(|file| (name.to_owned(), folder.join(file))));
        };
        self.system.iter().for_each(|path| folder("system", path));
        self.user.iter().for_each(|path| folder("user", path));
        if self.project {
            let dir = std::path::absolute(dir.as_ref()).unwrap_or_else(|_| dir.as_ref().to_owned());
            let project = Project::find(&dir, None);
            project.folders().iter().for_each(|own| folder("project", &project.hooks_of(own)));
        }
        all.extend(
            self.plugins.iter().map(|plugin| (format!("plugin {}", plugin.name), plugin.file.clone())),
        );
        all
    }

    /// The user's folder, whether or not their own hooks count.
    fn home(&self) -> Option<&Path> {
        self.user.as_deref().or(self.trust.as_deref().and_then(Path::parent))
    }

    /// The file that says what is trusted.
    pub(super) fn trust_file(&self) -> Option<PathBuf> {
        self.trust.clone().or_else(|| self.user.as_ref().map(|folder| folder.join("config.toml")))
    }
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The administrator's requirements.
    Managed,
    System,
    User,
    Project,
    Flags,
    Plugin,
}

/// A file with hooks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// What the client calls it in the name of a run.
    pub(crate) named: PathBuf,
    /// What it calls it in the keys of its hooks.
    key: String,
    pub(crate) scope: Scope,
    pub(crate) plugin: Option<PluginLayer>,
}

/// Why a handler does not run, whatever is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// `features.hooks` is false.
    Off,
    /// The administrator lets only managed hooks run.
    ManagedOnly,
    /// Its project is not trusted.
    Project,
}

/// A handler in its place.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) source: Arc<Source>,
    pub(crate) handler: Handler,
    pub(crate) key: String,
    /// What would have to be trusted.
    pub(crate) hash: String,
    /// Its plugin's files, if they could be read.
    pub(super) bundle: Option<Option<Arc<Bundle>>>,
    /// What was, if anything.
    pub(crate) trusted_hash: Option<String>,
    pub(crate) status: TrustStatus,
    pub(crate) closed: Option<Closed>,
    /// Its number among those that the client counts, from 0.
    pub(crate) order: usize,
    pub(crate) runs: bool,
}

/// What all layers together say.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// In the client's order, those that do not run among them.
    pub(crate) handlers: Vec<Placed>,
    /// The path that a user would have to trust for the project's hooks to count.
    pub(crate) untrusted_project: Option<String>,
    /// What is wrong with the folders of a project that is not trusted: nothing in them counts, so only who reviews them is told.
    pub(crate) aside: Vec<Report>,
    pub(crate) record: Record,
}

impl Loaded {
    /// What is different about a handler from what was trusted.
    pub(crate) fn changed(&self, placed: &Placed) -> Changed {
        let list = placed.bundle.as_ref().map(|bundle| bundle.as_ref().map_or("", |bundle| &*bundle.list));
        match (placed.status, &placed.trusted_hash) {
            (TrustStatus::Modified, Some(trusted)) => {
                self.record.changed(trusted, &placed.handler.identity(), list)
            }
            _ => Changed::Nothing,
        }
    }
}

/// The folder of a layer, its two files read.
struct Folder {
    scope: Scope,
    closed: Option<Closed>,
    path: PathBuf,
    json: Vec<Handler>,
    config: Config,
}

impl Folder {
    fn read(path: &Path, scope: Scope, reports: &mut Vec<Report>) -> Folder {
        let json = path.join("hooks.json");
        let text = file::text(&json, false, reports);
        let json = text.map(|text| file::hooks_json(&json, &text, reports)).unwrap_or_default();
        Folder { scope, closed: None, json, config: config(path, reports), path: path.to_owned() }
    }

    fn sources(
        self,
        reports: &mut Vec<Report>,
    ) -> impl Iterator<Item = (Source, Option<Closed>, Vec<Handler>)> {
        let (json, toml) = (self.path.join("hooks.json"), self.path.join("config.toml"));
        if !self.json.is_empty() && !self.config.handlers.is_empty() && self.closed.is_none() {
            let message = format!(
                "both this file and {} beside it define hooks, and all of them count",
                toml.display()
            );
            let mut report = Report::new(Severity::Warning, "hooks/two-files", message).at(&json, None);
            report.hint = Some("keep the hooks of one folder in one of the two".into());
            reports.push(report);
        }
        let scope = self.scope;
        [(json, self.json), (toml, self.config.handlers)]
            .into_iter()
            .map(move |(file, handlers)| (Source::of(file, scope), self.closed, handlers))
    }
}

impl Source {
    fn of(file: PathBuf, scope: Scope) -> Source {
        Source { named: file.clone(), key: file.to_string_lossy().into_owned(), file, scope, plugin: None }
    }

    /// Nobody has to trust it, and nobody but its owner can switch it off.
    fn is_managed(&self) -> bool {
        matches!(self.scope, Scope::Managed | Scope::System)
    }
}

fn config(folder: &Path, reports: &mut Vec<Report>) -> Config {
    let path = folder.join("config.toml");
    let text = file::text(&path, false, reports);
    text.map(|text| file::config(&path, &text, false, reports)).unwrap_or_default()
}

/// Reads what the layers say for a working directory, which is absolute.
pub(crate) fn load(dir: &Path, layers: &CodexLayers, reports: &mut Vec<Report>) -> Loaded {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let managed = layers.managed.as_deref().map(absolute).and_then(|path| {
        let text = file::text(&path, false, reports)?;
        let config = file::config(&path, &text, true, reports);
        Some((path, config))
    });
    let system = layers.system.as_deref().map(|path| Folder::read(&absolute(path), Scope::System, reports));
    let user = layers.user.as_deref().map(|path| Folder::read(&absolute(path), Scope::User, reports));
    let flags = layers.flags.as_deref().map(|text| file::config(Path::new(FLAGS), text, false, reports));
    // The user's own file was read with their folder, and only hooks and warnings would come of reading it again.
    let trusting = layers
        .trust_file()
        .filter(|file| layers.user.as_ref().is_none_or(|user| *file != user.join("config.toml")));
    let trusting = trusting.and_then(|path| {
        let text = file::text(&path, false, reports)?;
        let mut aside = Vec::new();
        let config = file::config(&path, &text, false, &mut aside);
        reports.extend(
            aside.into_iter().filter(|report| matches!(report.code, "hooks/not-toml" | "hooks/bad-state")),
        );
        Some(config)
    });

    let of_user = trusting.as_ref().or(user.as_ref().map(|user| &user.config));
    let mut states: HashMap<String, State> = HashMap::new();
    for (key, said) in of_user.into_iter().chain(&flags).flat_map(|config| &config.states) {
        let state = states.entry(key.clone()).or_default();
        state.enabled = said.enabled.or(state.enabled);
        state.trusted_hash = said.trusted_hash.clone().or(state.trusted_hash.take());
    }

    let below = || system.iter().map(|system| &system.config).chain(of_user).chain(&flags);
    let said: HashMap<String, String> = below().flat_map(|config| config.projects.clone()).collect();
    let markers = below().filter_map(|config| config.markers.as_deref()).next_back();
    let (mut folders, mut untrusted_project, mut aside) = (Vec::new(), None, Vec::new());
    if layers.project {
        let project = Project::find(dir, markers);
        (folders, untrusted_project) = project_folders(&project, layers, &said, (reports, &mut aside));
    }

    let open = folders.iter().filter(|folder| folder.closed.is_none()).map(|folder| &folder.config);
    let before = system.iter().map(|system| &system.config).chain(user.as_ref().map(|user| &user.config));
    let last = before.chain(open).chain(&flags).filter_map(|config| config.on).next_back();
    let required = managed.as_ref().and_then(|(_, config)| config.on);
    let off = required.or(last) == Some(false);
    let managed_only = managed.as_ref().is_some_and(|(_, config)| config.managed_only);

    let mut sources: Vec<(Source, Option<Closed>, Vec<Handler>)> = Vec::new();
    if let Some((file, config)) = managed {
        let named = config.managed_dir.unwrap_or_else(|| file.clone());
        let key = named.to_string_lossy().into_owned();
        let source = Source { named, key, file, scope: Scope::Managed, plugin: None };
        sources.push((source, None, config.handlers));
    }
    for folder in system.into_iter().chain(user).chain(folders) {
        sources.extend(folder.sources(reports));
    }
    if let Some(config) = flags {
        sources.push((Source::of(FLAGS.into(), Scope::Flags), None, config.handlers));
    }
    for plugin in &layers.plugins {
        sources
            .extend(plugin_source(plugin, layers.home(), reports).map(|(source, all)| (source, None, all)));
    }

    let record = Record::read(layers.record.as_deref(), reports);
    let mut handlers = Vec::new();
    let mut order = 0;
    for (source, closed, of_source) in sources {
        let closed = match source.is_managed() {
            _ if off => Some(Closed::Off),
            false if managed_only => Some(Closed::ManagedOnly),
            _ => closed,
        };
        let source = Arc::new(source);
        // All handlers of a plugin stand or fall with what is in its folder.
        let bundle = source
            .plugin
            .as_ref()
            .filter(|_| !of_source.is_empty())
            .map(|plugin| trust::bundle(&plugin.root));
        let bundle = bundle.map(|bundle| match bundle {
            Ok(bundle) => Some(Arc::new(bundle)),
            Err(problem) => {
                reports
                    .push(Report::new(Severity::Error, "hooks/unreadable", problem).at(&source.file, None));
                None
            }
        });
        for handler in of_source {
            let key = handler.key(&source.key);
            let state = states.get(&key);
            let (hash, trusted_hash) = match &bundle {
                None => (handler.hash(), state.and_then(|state| state.trusted_hash.clone())),
                Some(bundle) => {
                    let all = bundle.as_ref().map_or("unreadable", |bundle| &*bundle.hash);
                    (format!("{}/{all}", handler.hash()), record.plugin(&key).map(str::to_owned))
                }
            };
            let status = match &trusted_hash {
                _ if source.is_managed() => TrustStatus::Managed,
                _ if state.and_then(|state| state.enabled) == Some(false) => TrustStatus::Disabled,
                Some(trusted) if *trusted == hash => TrustStatus::Trusted,
                Some(_) => TrustStatus::Modified,
                None => TrustStatus::Untrusted,
            };
            let trusted = match status {
                TrustStatus::Managed | TrustStatus::Trusted => true,
                TrustStatus::Untrusted | TrustStatus::Modified => layers.bypass_trust,
                TrustStatus::Disabled => false,
            };
            let runs = trusted && closed.is_none();
            handlers.push(Placed {
                source: source.clone(),
                handler,
                key,
                hash,
                bundle: bundle.clone(),
                trusted_hash,
                status,
                closed,
                order,
                runs,
            });
            order += usize::from(closed.is_none());
        }
    }
    Loaded { handlers, untrusted_project, aside, record }
}

/// The `.codex` folders of a project. Those that its user does not trust are read all the same, so that they can be reviewed.
fn project_folders(
    project: &Project,
    layers: &CodexLayers,
    said: &HashMap<String, String>,
    (reports, aside): (&mut Vec<Report>, &mut Vec<Report>),
) -> (Vec<Folder>, Option<String>) {
    let resolved = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let trusting = layers.trust_file();
    let home = layers.home().map(resolved);
    let (mut folders, mut untrusted) = (Vec::new(), None);
    for folder in project.folders() {
        let (own, counts) = (folder.join(".codex"), project.hooks_of(folder));
        // The user's own folder is no project's.
        if !own.is_dir() || [&own, &counts].iter().any(|path| home.as_ref() == Some(&resolved(path))) {
            continue;
        }
        let trust = match layers.project_trusted {
            true => Trust::Trusted,
            false => project.trust(folder, said),
        };
        let before = aside.len();
        let into = if trust == Trust::Trusted { &mut *reports } else { &mut *aside };
        let mut read = Folder::read(&counts, Scope::Project, into);
        let path = match trust {
            Trust::Trusted => None,
            Trust::Refused(path) | Trust::Unsaid(path) => Some(path),
        };
        if let Some(path) = path {
            read.closed = Some(Closed::Project);
            let count = read.json.len() + read.config.handlers.len();
            let what = match count {
                0 => "nothing in this folder counts".to_owned(),
                count => format!("{count} hook(s) in this folder do not run"),
            };
            let message = format!("{what}: nobody has said that the project is trusted");
            let mut report =
                Report::new(Severity::Warning, "hooks/project-untrusted", message).at(&own, None);
            report.hint = Some(match &trusting {
                Some(file) => {
                    format!(
                        "`portcullis hooks trust` asks about it; it is kept as [projects.\"{path}\"] trust_level = \"trusted\" in {}",
                        file.display()
                    )
                }
                None => "no config.toml of a user was given that could say so".into(),
            });
            if count > 0 || aside.len() > before {
                reports.push(report);
            }
            untrusted.get_or_insert(path);
        }
        folders.push(read);
    }
    (folders, untrusted)
}

/// A plugin's file. Its hooks have the plugin's name in their keys, and the file's place in its folder.
fn plugin_source(
    plugin: &PluginLayer,
    home: Option<&Path>,
    reports: &mut Vec<Report>,
) -> Option<(Source, Vec<Handler>)> {
    let text = file::text(&plugin.file, true, reports)?;
    let handlers = file::hooks_json(&plugin.file, &text, reports);
    let inside = plugin.file.strip_prefix(&plugin.root).unwrap_or(&plugin.file);
    let key = format!("{}:{}", plugin.name, inside.to_string_lossy());
    let mut plugin = plugin.clone();
    if plugin.data.is_none() {
        let name = plugin.name.replace('@', "-");
        plugin.data = home.map(|home| home.join("plugins/data").join(name));
    }
    let file = plugin.file.clone();
    Some((Source { named: file.clone(), key, file, scope: Scope::Plugin, plugin: Some(plugin) }, handlers))
}
