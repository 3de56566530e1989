//! A copy of the case in a temporary folder, with its configuration where the client would look for it.

use super::super::{args::DialectArg, layers::Files};
use super::case::{Case, Fields, typed};
use super::feed::{Event, Feed};
use crate::scratch::copy;
use portcullis::{
    Scene, SessionAdvisor, SessionId, SessionInfo,
    hooks::{
        CodexLayers, Fidelity, Hooks, Late, Layers, Options, Overlays, PluginLayer, Reload, Reloaded, Report,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// What stands in a case for the folder it is run in.
const CASE_DIR: &str = "${CASE_DIR}";

/// A case, set up.
pub(super) struct Stage {
    /// The copy of the case's folder.
    pub(super) folder: PathBuf,
    pub(super) cwd: PathBuf,
    project: PathBuf,
    files: Files,
    options: Options<()>,
    /// What the command line says, else the case's own `portcullis.toml`.
    pub(super) fidelity: Fidelity,
    /// Removed with everything in it when the case is over.
    _dir: TempDir,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    scope: String,
    config: Box<RawValue>,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    plugin_root: Option<String>,
}

/// In which of its formats a client is given a configuration, if it has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Toml,
}

/// What is trusted without a word of the user's in their `config.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Trust {
    /// The project and each hook: what most cases are about is what hooks do.
    #[default]
    All,
    /// The project alone.
    Project,
    None,
}

impl Stage {
    pub(super) fn set(case: &Case, feed: &Feed, fidelity: Option<Fidelity>) -> Result<Stage, String> {
        let failed = |error: io::Error| format!("the case could not be set up: {error}");
        let dir = TempDir::with_prefix("hook-case-").map_err(failed)?;
        // Links in the way to it would make its folder go by two names.
        let root = fs::canonicalize(dir.path()).map_err(failed)?;
        let folder = root.join("case");
        copy(&case.folder, &folder, &[]).map_err(failed)?;
        let place =
            folder.to_str().filter(|path| !path.contains([' ', '"', '\\', '\n'])).ok_or_else(|| {
                format!(
                    "cases need a temporary folder with a plain name, not {}; set TMPDIR",
                    folder.display()
                )
            })?;
        let here = |text: &str| text.replace(CASE_DIR, place);
        let mut env: BTreeMap<String, Option<String>> = case.get("env")?.unwrap_or_default();
        let mut path = |key: &str| env.remove(key).flatten().map(|text| PathBuf::from(here(&text)));
        let project = path("project_dir").unwrap_or_else(|| folder.clone());
        let cwd = path("cwd").unwrap_or_else(|| folder.clone());
        let (home, plugin_root) = (path("home"), path("plugin_root"));
        if let Some(unknown) = env.keys().next() {
            return Err(format!("`{unknown}` in `env` is not understood"));
        }
        let mut place_of = Places {
            state: root.join("state"),
            project: project.clone(),
            files: files(feed.dialect, case.get("trust")?)?,
            home,
        };
        fs::create_dir_all(&place_of.state).map_err(failed)?;
        match (&place_of.home, &mut place_of.files) {
            (Some(home), Files::Claude(layers)) => *layers = layers.clone().user_home(home),
            (Some(home), Files::Codex(layers)) => *layers = layers.clone().user(home.join(".codex")),
            (None, _) => {}
        }
        let raw = |name: String| {
            let bytes = fs::read(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            Ok::<_, String>(replace(&bytes, CASE_DIR.as_bytes(), place.as_bytes()))
        };
        let named = case.text("hooks_config_file")?;
        let format = match named.as_deref() {
            Some(name) if name.ends_with(".toml") => Format::Toml,
            _ => Format::Json,
        };
        let whole = match (case.raw("hooks_config"), named) {
            (Some(_), Some(_)) => {
                return Err("a case has `hooks_config` or `hooks_config_file`, not both".into());
            }
            (Some(config), None) => Some(here(&file_text(config)).into_bytes()),
            (None, Some(file)) => Some(raw(file)?),
            (None, None) => None,
        };
        match (whole, case.get::<Vec<Layer>>("layers")?) {
            (Some(config), None) => match plugin_root {
                Some(root) => place_of.plugin("case", root, &config),
                None => place_of.settings("project", &config, format),
            }
            .map_err(failed)?,
            (None, Some(layers)) => {
                for layer in layers {
                    let config = here(&file_text(layer.config.get()));
                    let root = layer.plugin_root.map(|root| PathBuf::from(here(&root)));
                    place_of.layer(&layer.scope, root, config.as_bytes(), layer.format)?;
                }
            }
            _ => return Err("a case has `hooks_config`, `hooks_config_file` or `layers`, one of them".into()),
        }
        let Places { state, mut files, home, .. } = place_of;
        if let (Files::Claude(layers), Event::ConfigChange) = (&mut files, feed.event) {
            // The file that changes need not be there before.
            (layers.project, layers.local) = (true, true);
        }
        let mut options = Options::<()>::new().transcripts(state.join("transcripts"));
        options.exports = Some(state.join("session-env"));
        options.fidelity = fidelity;
        if let Some(home) = home {
            let overlay = home.join(".config/portcullis/portcullis.toml");
            options = options.overlays(Overlays::default().user(overlay)).env("HOME", home);
        }
        let wanted = feed.event;
        let depth = (!feed.batch).then_some(u32::from(feed.agent.is_some()));
        let steps = steps(feed);
        // The case is about one event in one place. Its other hooks are loaded, and named if something is wrong with them.
        options = options.only(move |event, scene: &Scene| {
            event == wanted.name()
                && depth.is_none_or(|depth| scene.session.depth() == depth)
                && (!wanted.is_stop() || within(&steps, scene))
        });
        let (hooks, reports) = files.load(&project, options.clone());
        if let Some(mistake) = reports.iter().find(|report| report.forbids_start()) {
            return Err(mistake.to_string());
        }
        let fidelity = hooks.fidelity();
        Ok(Stage { folder, cwd, project, files, options, fidelity, _dir: dir })
    }

    /// The case's hooks, loaded anew as another process would.
    pub(super) fn hooks(&self, advisor: SessionAdvisor, told: &Told) -> (Arc<Hooks>, Vec<Report>) {
        let (late, changed) = (told.clone(), told.clone());
        let options = self.options.clone().advisor(advisor).late(move |said| lock(&late).late.push(said));
        let changed = move |of: &Reloaded| {
            lock(&changed).changes.extend(of.files.iter().map(|(_, change)| change.clone()));
        };
        self.files.load(&self.project, options.reloaded(changed))
    }

    /// Has a file of settings say the same in other bytes.
    pub(super) fn change(&self, source: &str) -> Result<(), String> {
        let Files::Claude(layers) = &self.files else {
            return Err("this client looks for no change of its files".into());
        };
        let file = match source {
            "user_settings" => layers.user.clone(),
            "project_settings" => Some(self.project.join(".claude/settings.json")),
            "local_settings" => Some(self.project.join(".claude/settings.local.json")),
            "policy_settings" => layers.managed.clone(),
            other => {
                return Err(format!(
                    "no case can change settings that are called `{other}`, so the event was not fed"
                ));
            }
        };
        let file = file.ok_or_else(|| format!("the case has no {source} to change"))?;
        let failed = |error: io::Error| format!("{} could not be changed: {error}", file.display());
        let mut text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => b"{}".to_vec(),
            Err(error) => return Err(failed(error)),
        };
        text.push(b'\n');
        write(&file, &text).map_err(failed)
    }

    /// The files in which the hooks of this session have said what its commands find in their environment.
    pub(super) fn exports(&self, session: &SessionId) -> io::Result<Vec<PathBuf>> {
        let (hooks, _) = self.files.load(&self.project, self.options.clone());
        hooks.exports(&SessionInfo::new(session.clone(), self.cwd.clone(), "cli"))
    }
}

/// What a host is told of hooks.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What those came to that nobody waited for.
    pub(super) late: Vec<Late>,
    /// What came of changes of their files.
    pub(super) changes: Vec<Reload>,
}

pub(super) type Told = Arc<Mutex<Heard>>;

pub(super) fn lock(told: &Told) -> MutexGuard<'_, Heard> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For each turn, the first and the last step whose end the case is about.
fn steps(feed: &Feed) -> Vec<(u32, u32)> {
    if !feed.event.is_stop() {
        return Vec::new();
    }
    let turns = feed.turns().into_iter().map(|rounds| {
        // A turn that was forced on before has one more step, in front.
        let first: u32 = if rounds[0].active { 2 } else { 1 };
        let count = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        (first, first.saturating_add(count - 1))
    });
    turns.collect()
}

fn within(steps: &[(u32, u32)], scene: &Scene) -> bool {
    let turn = usize::try_from(scene.turn).unwrap_or(usize::MAX);
    turn.checked_sub(1)
        .and_then(|turn| steps.get(turn))
        .is_some_and(|(from, to)| (*from..=*to).contains(&scene.step))
}

/// Where configuration goes.
struct Places {
    state: PathBuf,
    project: PathBuf,
    files: Files,
    home: Option<PathBuf>,
}

impl Places {
    fn layer(
        &mut self,
        scope: &str,
        root: Option<PathBuf>,
        config: &[u8],
        format: Format,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("the layer `{scope}` could not be set up: {error}");
        match (scope.strip_prefix("plugin:"), root) {
            (Some(name), Some(root)) => self.plugin(name, root, config).map_err(failed),
            (Some(_), None) => Err(format!("the layer `{scope}` needs a `plugin_root`")),
            (None, _) if self.has(scope) => match (&self.files, format) {
                (Files::Claude(_), Format::Toml) => Err("this client has no settings in TOML".into()),
                _ => self.settings(scope, config, format).map_err(failed),
            },
            _ => Err(format!("there is no layer `{scope}`")),
        }
    }

    fn has(&self, scope: &str) -> bool {
        let own = match &self.files {
            Files::Claude(_) => "local",
            Files::Codex(_) => "system",
        };
        matches!(scope, "user" | "project" | "managed" | "flags") || scope == own
    }

    fn settings(&mut self, scope: &str, config: &[u8], format: Format) -> io::Result<()> {
        let home = self.home.clone().unwrap_or_else(|| self.state.join("home"));
        let file = match (&mut self.files, scope) {
            (Files::Claude(layers), "user") => layers.user.insert(home.join(".claude/settings.json")).clone(),
            (Files::Claude(layers), "managed") => {
                layers.managed.insert(self.state.join("managed-settings.json")).clone()
            }
            (Files::Claude(layers), "flags") => {
                let file = self.state.join("flag-settings.json");
                *layers = layers.clone().flag(&file);
                file
            }
            (Files::Claude(layers), "local") => {
                layers.local = true;
                self.project.join(".claude/settings.local.json")
            }
            (Files::Claude(layers), _) => {
                layers.project = true;
                self.project.join(".claude/settings.json")
            }
            (Files::Codex(layers), "managed") => {
                layers.managed.insert(self.state.join("requirements.toml")).clone()
            }
            (Files::Codex(layers), "flags") => {
                layers.flags = Some(String::from_utf8_lossy(config).into_owned());
                return Ok(());
            }
            (Files::Codex(layers), scope) => {
                let folder = match scope {
                    "system" => layers.system.insert(self.state.join("etc/codex")).clone(),
                    "user" => layers.user.insert(home.join(".codex")).clone(),
                    _ => {
                        layers.project = true;
                        self.project.join(".codex")
                    }
                };
                folder.join(match format {
                    Format::Json => "hooks.json",
                    Format::Toml => "config.toml",
                })
            }
        };
        write(&file, config)
    }

    fn plugin(&mut self, name: &str, root: PathBuf, config: &[u8]) -> io::Result<()> {
        let plugins = match &mut self.files {
            Files::Claude(layers) => &mut layers.plugins,
            Files::Codex(layers) => &mut layers.plugins,
        };
        let file = self.state.join(format!("plugin-{}.json", plugins.len()));
        plugins.push(PluginLayer::new(name, root).file(&file));
        write(&file, config)
    }
}

/// No file yet, with what is trusted of those to come.
fn files(dialect: DialectArg, trust: Option<Trust>) -> Result<Files, String> {
    let layers = CodexLayers::none();
    match (dialect, trust) {
        (DialectArg::Claude, None) => Ok(Files::Claude(Layers::none())),
        (DialectArg::Claude, Some(_)) => Err("`trust` is of Codex, whose users trust each hook".into()),
        (DialectArg::Codex, trust) => Ok(Files::Codex(match trust.unwrap_or_default() {
            Trust::All => layers.trust_project().bypass_trust(),
            Trust::Project => layers.trust_project(),
            Trust::None => layers,
        })),
    }
}

/// What stands in a configuration's file: a text as it is, anything else as JSON.
fn file_text(config: &str) -> String {
    serde_json::from_str(config).unwrap_or_else(|_| config.to_owned())
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, bytes)
}

fn replace(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(what.len()).position(|window| window == what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// A rule of `expected` for one fidelity: what `strict` says goes before the rest.
pub(super) fn in_force(mut expected: Fields, strict: bool) -> Result<Fields, String> {
    if let Some(over) = expected.remove("strict").filter(|_| strict) {
        expected.extend(typed::<Fields>("expected.strict", over.get())?);
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_filled_in_everywhere() {
        assert_eq!(replace(b"a${CASE_DIR}/b ${CASE_DIR}", CASE_DIR.as_bytes(), b"/x"), b"a/x/b /x");
        assert_eq!(replace(b"\xff${CASE_DI", CASE_DIR.as_bytes(), b"/x"), b"\xff${CASE_DI");
    }
}
