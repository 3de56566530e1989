//! The environment of a hook: this process's own, without its telemetry settings, with what the settings files add and
//! what the client tells its hooks.
//!
//! Not set, because nothing here stands behind it: `CLAUDE_EFFORT`, and the client's own sockets and notes.

use crate::{
    definition::Plugin,
    dialect::{Places, Variables},
};
use portcullis_runtime::Scene;
use std::{ffi::OsString, path::Path};

/// What is the same for every hook of a project, computed once.
pub(crate) fn base(
    project: &Path,
    settings: &[(String, String)],
    host: &[(OsString, OsString)],
) -> Variables {
    let telemetry = |name: &str| name.starts_with("OTEL_");
    let inherited = std::env::vars_os().filter(|(name, _)| telemetry(&name.to_string_lossy()));
    let mut out: Variables = inherited.map(|(name, _)| (name, None)).collect();
    let settings = settings.iter().filter(|(name, _)| !telemetry(name));
    out.extend(settings.map(|(name, value)| (name.into(), Some(value.into()))));
    out.extend(host.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    let mut set = |name: &str, value: OsString| out.push((name.into(), Some(value)));
    set("CLAUDE_PROJECT_DIR", project.into());
    set("CLAUDECODE", "1".into());
    set("CLAUDE_CODE_ENTRYPOINT", "sdk-cli".into());
    set("CLAUDE_CODE_CHILD_SESSION", "1".into());
    set("CLAUDE_CODE_SESSION_ATTENDED", "0".into());
    set("CLAUDE_PID", std::process::id().to_string().into());
    out
}

/// What this session and this hook add. `exports`: the file for what it exports.
pub(crate) fn of_run(
    base: &Variables,
    scene: &Scene,
    cwd: &Path,
    plugin: Option<&Plugin>,
    exports: Option<&Path>,
) -> Variables {
    let mut out = base.clone();
    let mut set = |name: &str, value: Option<OsString>| out.push((name.into(), value));
    set("CLAUDE_CODE_SESSION_ID", Some(scene.session.root.as_str().into()));
    set("PWD", Some(cwd.into()));
    if let Some(exports) = exports {
        set("CLAUDE_ENV_FILE", Some(exports.into()));
    }
    if let Some(plugin) = plugin {
        set("CLAUDE_PLUGIN_ROOT", Some(plugin.root.clone().into()));
        set("CLAUDE_PLUGIN_DATA", plugin.data.clone().map(Into::into));
    }
    out
}

/// The variables that name folders.
pub(crate) fn places<'a>(project: &'a Path, plugin: Option<&'a Plugin>) -> Places<'a> {
    vec![
        ("CLAUDE_PROJECT_DIR", Some(project)),
        ("CLAUDE_PLUGIN_ROOT", plugin.map(|plugin| &*plugin.root)),
        ("CLAUDE_PLUGIN_DATA", plugin.and_then(|plugin| plugin.data.as_deref())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::fill;

    #[test]
    fn placeholders_are_filled_once_and_nothing_else_is_touched() {
        let plugin = Plugin { name: "p".into(), root: "/x/${CLAUDE_PROJECT_DIR}".into(), data: None };
        let fill = |text: &str, plugin| fill(text, &places(Path::new("/a b"), plugin));
        assert_eq!(fill("${CLAUDE_PROJECT_DIR}/x", None), "/a b/x");
        assert_eq!(fill("$CLAUDE_PROJECT_DIR `id` * ${HOME}", None), "$CLAUDE_PROJECT_DIR `id` * ${HOME}");
        assert_eq!(fill("${CLAUDE_PLUGIN_ROOT}/y", None), "${CLAUDE_PLUGIN_ROOT}/y");
        assert_eq!(fill("${CLAUDE_PLUGIN_ROOT}/y", Some(&plugin)), "/x/${CLAUDE_PROJECT_DIR}/y");
    }
}
