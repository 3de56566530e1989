//! The hooks of a project with the layers that the options name.

use super::args::{LayerArgs, SourceArg};
use crate::{paint::clean, problem::Problem};
use portcullis::hooks::{Layers, Options, Overlays, PluginLayer, Report};
use std::path::{Path, PathBuf};

/// A layer: its name, its file, and whether that is there.
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) found: bool,
}

/// What counts.
pub(super) struct Found {
    pub(super) options: Options,
    /// Each layer, in the order in which they add up.
    pub(super) layers: Vec<Layer>,
    /// Each `portcullis.toml`, in the order in which they count.
    pub(super) overlays: Vec<Layer>,
}

/// Looks for it in a project.
pub(super) fn find(project: &Path, args: &LayerArgs) -> Result<Found, Problem> {
    let (mut layers, mut overlays) = (Layers::default(), Overlays::default());
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    let mut beside: Vec<(String, PathBuf)> = Vec::new();
    let sources = args.setting_sources.as_deref();
    let counts = |source, unless_said| sources.map_or(unless_said, |all| all.contains(&source));
    if counts(SourceArg::User, args.user) {
        let home =
            std::env::home_dir().ok_or_else(|| Problem::new("there is no home directory to look in"))?;
        layers = layers.user_home(&home);
        named.push(("user".into(), home.join(".claude/settings.json")));
        let file = Overlays::user_file(&home);
        overlays = overlays.user(&file);
        beside.push(("overlay".into(), file));
    }
    beside.push(("overlay".into(), project.join("portcullis.toml")));
    layers.project = counts(SourceArg::Project, true);
    layers.local = counts(SourceArg::Local, true);
    if layers.project {
        named.push(("project".into(), project.join(".claude/settings.json")));
    }
    if layers.local {
        named.push(("local".into(), project.join(".claude/settings.local.json")));
    }
    match &args.settings {
        Some(given) if given.to_string_lossy().trim_start().starts_with('{') => {
            layers = layers.flag_json(given.to_string_lossy());
            named.push(("--settings".into(), "--settings".into()));
        }
        Some(file) => {
            layers = layers.flag(file);
            named.push(("--settings".into(), file.into()));
        }
        None => {}
    }
    if let Some(file) = &args.managed {
        layers = layers.managed(file);
        named.push(("managed".into(), file.clone()));
    }
    for root in &args.plugin {
        let root = std::path::absolute(root)?;
        let name =
            root.file_name().map_or_else(|| "plugin".into(), |name| name.to_string_lossy().into_owned());
        let plugin = PluginLayer::new(name.clone(), &root);
        named.push((format!("plugin {name}"), plugin.file.clone()));
        layers = layers.plugin(plugin);
    }
    let inline = Path::new("--settings");
    let exists = |file: &Path| file == inline || file.symlink_metadata().is_ok();
    let all = |named: Vec<(String, PathBuf)>| {
        named.into_iter().map(|(name, file)| Layer { name, found: exists(&file), file }).collect()
    };
    let options = Options::new().layers(layers).overlays(overlays);
    Ok(Found { options, layers: all(named), overlays: all(beside) })
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
