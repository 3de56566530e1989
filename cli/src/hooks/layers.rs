//! The hooks of a project with the layers that the options name.

use super::args::{DialectArg, LayerArgs, SourceArg};
use crate::{paint::clean, problem::Problem};
use portcullis::hooks::{
    ClaudeHooks, CodexHooks, CodexLayers, Hooks, Layers, Options, Overlays, PluginLayer, Report,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A layer: its name, its file, and whether that is there.
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) found: bool,
}

impl Layer {
    fn of(name: impl Into<String>, file: impl Into<PathBuf>) -> Layer {
        let (name, file) = (name.into(), file.into());
        Layer { name, found: file == Path::new(INLINE) || file.symlink_metadata().is_ok(), file }
    }
}

/// What settings without a file are called.
const INLINE: &str = "--settings";

/// The files of one client.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    Claude(Layers),
    Codex(CodexLayers),
}

impl Files {
    /// Loads what they say.
    pub(crate) fn load(&self, project: &Path, options: Options<()>) -> (Arc<Hooks>, Vec<Report>) {
        match self {
            Files::Claude(layers) => ClaudeHooks::load_with(project, options.for_files(layers.clone())),
            Files::Codex(layers) => CodexHooks::load_with(project, options.for_files(layers.clone())),
        }
    }
}

/// What counts.
pub(crate) struct Found {
    pub(crate) options: Options<()>,
    /// Each client, in the order in which its hooks are asked.
    pub(crate) files: Vec<Files>,
    /// Each layer, in the order in which they add up.
    pub(super) layers: Vec<Layer>,
    /// Each `portcullis.toml`, in the order in which they count.
    pub(super) overlays: Vec<Layer>,
}

impl Found {
    /// Loads the hooks of every client.
    pub(crate) fn load(&self, project: &Path) -> (Vec<Arc<Hooks>>, Vec<Report>) {
        let loaded = self.files.iter().map(|files| files.load(project, self.options.clone()));
        let (hooks, found): (Vec<_>, Vec<Vec<Report>>) = loaded.unzip();
        let mut reports: Vec<Report> = Vec::new();
        for report in found.iter().flatten() {
            // An entry of portcullis.toml that is about hooks of one client fits none of another's.
            let of_one = matches!(report.code, "overlay/fits-nothing" | "overlay/out-of-reach");
            let all_say_so = || {
                found.iter().all(|one| {
                    one.iter().any(|other| {
                        (other.code.starts_with("overlay/"), &other.file, other.line)
                            == (true, &report.file, report.line)
                    })
                })
            };
            // What both say is about what they share.
            if !reports.contains(report) && (!of_one || all_say_so()) {
                reports.push(report.clone());
            }
        }
        (hooks, reports)
    }
}

fn home() -> Result<PathBuf, Problem> {
    std::env::home_dir().ok_or_else(|| Problem::new("there is no home directory to look in"))
}

/// Looks for it in a project.
pub(crate) fn find(project: &Path, args: &LayerArgs) -> Result<Found, Problem> {
    let sources = args.setting_sources.as_deref();
    let user = sources.map_or(args.user, |all| all.contains(&SourceArg::User));
    let (mut overlays, mut beside) = (Overlays::default(), Vec::new());
    if user {
        let file = Overlays::user_file(home()?);
        overlays = overlays.user(&file);
        beside.push(Layer::of("overlay", file));
    }
    beside.push(Layer::of("overlay", project.join("portcullis.toml")));
    let (mut files, mut layers) = (Vec::new(), Vec::new());
    for dialect in &args.dialect {
        files.push(match dialect {
            DialectArg::Claude => Files::Claude(claude(project, args, user, &mut layers)?),
            DialectArg::Codex => Files::Codex(codex(project, args, user, &mut layers)?),
        });
    }
    let options = Options::<()>::new().overlays(overlays);
    Ok(Found { options, files, layers, overlays: beside })
}

fn claude(project: &Path, args: &LayerArgs, user: bool, named: &mut Vec<Layer>) -> Result<Layers, Problem> {
    let mut layers = Layers::default();
    let sources = args.setting_sources.as_deref();
    let counts = |source| sources.is_none_or(|all| all.contains(&source));
    if user {
        let home = home()?;
        layers = layers.user_home(&home);
        named.push(Layer::of("user", home.join(".claude/settings.json")));
    }
    layers.project = counts(SourceArg::Project);
    layers.local = counts(SourceArg::Local);
    if layers.project {
        named.push(Layer::of("project", project.join(".claude/settings.json")));
    }
    if layers.local {
        named.push(Layer::of("local", project.join(".claude/settings.local.json")));
    }
    match &args.settings {
        Some(given) if given.to_string_lossy().trim_start().starts_with('{') => {
            layers = layers.flag_json(given.to_string_lossy());
            named.push(Layer::of(INLINE, INLINE));
        }
        Some(file) => {
            layers = layers.flag(file);
            named.push(Layer::of(INLINE, file));
        }
        None => {}
    }
    if let Some(file) = &args.managed {
        layers = layers.managed(file);
        named.push(Layer::of("managed", file));
    }
    for root in &args.plugin {
        let root = std::path::absolute(root)?;
        let name =
            root.file_name().map_or_else(|| "plugin".into(), |name| name.to_string_lossy().into_owned());
        let plugin = PluginLayer::new(name.clone(), &root);
        named.push(Layer::of(format!("plugin {name}"), &plugin.file));
        layers = layers.plugin(plugin);
    }
    Ok(layers)
}

fn codex(
    project: &Path,
    args: &LayerArgs,
    user: bool,
    named: &mut Vec<Layer>,
) -> Result<CodexLayers, Problem> {
    let mut layers = CodexLayers::default();
    if let Some(home) = std::env::home_dir() {
        // What a person trusts counts whether or not their own hooks do.
        let folder = CodexLayers::user_folder(&home);
        layers = layers.trust(folder.join("config.toml")).record(CodexLayers::record_file(&home));
        if user {
            layers = layers.user(folder);
        }
    } else if user {
        home()?;
    }
    if let Some(text) = &args.codex_config {
        layers = layers.flags(text);
    }
    if let Some(file) = &args.codex_requirements {
        layers = layers.managed(file);
    }
    for (name, root) in &args.codex_plugin {
        layers = layers.plugin(PluginLayer::new(name, std::path::absolute(root)?));
    }
    layers.project_trusted = args.trust_project;
    layers.bypass_trust = args.bypass_hook_trust;
    // Where nobody has hooks of this client, nothing needs to be said about it.
    let files =
        layers.files(project).into_iter().map(|(name, file)| Layer::of(format!("codex {name}"), file));
    named.extend(files.filter(|layer| layer.found));
    Ok(layers)
}

/// Says what was found about the files on stderr, and refuses to go on over a mistake in a `portcullis.toml`: somebody wanted
/// something to hold that does not.
pub(crate) fn heed(reports: &[Report]) -> Result<(), Problem> {
    for report in reports {
        eprintln!("{}", clean(&report.to_string()));
    }
    match reports.iter().any(Report::forbids_start) {
        false => Ok(()),
        true => Err(Problem::new("a portcullis.toml has a mistake, so nothing was started")
            .next("correct it, or take it away for as long as it does not count")),
    }
}
