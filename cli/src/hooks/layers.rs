//! The hooks of a project with the layers that the options name.

use super::args::LayerArgs;
use crate::{problem::Problem, store::Project};
use portcullis::hooks::{Layers, PluginLayer};
use std::path::{Path, PathBuf};

/// A layer: its name, its file, and whether that is there.
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) found: bool,
}

/// The project, what counts in it, and each layer in the order in which they add up.
pub(super) fn find(args: &LayerArgs) -> Result<(Project, Layers, Vec<Layer>), Problem> {
    let project = Project::find(&args.dir)?;
    let mut layers = Layers::default();
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    if args.user {
        let home =
            std::env::home_dir().ok_or_else(|| Problem::new("there is no home directory to look in"))?;
        layers = layers.user_home(&home);
        named.push(("user".into(), home.join(".claude/settings.json")));
    }
    named.push(("project".into(), project.dir.join(".claude/settings.json")));
    named.push(("local".into(), project.dir.join(".claude/settings.local.json")));
    if let Some(file) = &args.settings {
        layers = layers.flag(file);
        named.push(("--settings".into(), file.clone()));
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
    let exists = |file: &Path| file.symlink_metadata().is_ok();
    let named = named.into_iter().map(|(name, file)| Layer { name, found: exists(&file), file });
    Ok((project, layers, named.collect()))
}
