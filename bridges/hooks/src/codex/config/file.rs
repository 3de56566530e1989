//! The client's files: `hooks.json`, `config.toml` and an administrator's `requirements.toml`.

use super::{
    handler::Handler,
    read::{Reader, Rejected},
    tree::{Entry, Node},
};
use crate::{
    codex::Codex,
    event::{self, Named},
    json::{self, Problem},
    report::{self, Report, Severity},
};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};
use toml::de::DeTable;

/// What a person decided about a handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) enabled: Option<bool>,
    pub(crate) trusted_hash: Option<String>,
}

/// A `config.toml` or `requirements.toml`, as far as it is about hooks.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) handlers: Vec<Handler>,
    pub(crate) states: HashMap<String, State>,
    /// `projects.PATH.trust_level`.
    pub(crate) projects: HashMap<String, String>,
    /// `project_root_markers`.
    pub(crate) markers: Option<Vec<String>>,
    /// `features.hooks`.
    pub(crate) on: Option<bool>,
    /// `allow_managed_hooks_only`, of an administrator.
    pub(crate) managed_only: bool,
    /// `hooks.managed_dir`, of an administrator.
    pub(crate) managed_dir: Option<PathBuf>,
}

/// A file that need not be there. What is wrong with it is reported.
pub(super) fn text(path: &Path, must_exist: bool, reports: &mut Vec<Report>) -> Option<String> {
    let problem = match report::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return Some(text),
            Err(error) => {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = json::line(&String::from_utf8_lossy(before), usize::MAX);
                let message = "this file is not UTF-8, and nothing in it counts";
                Report::new(Severity::Error, "hooks/unreadable", message).at(path, Some(line))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => return None,
        Err(error) => {
            let message = format!("this file cannot be read, and nothing in it counts: {error}");
            Report::new(Severity::Error, "hooks/unreadable", message).at(path, None)
        }
    };
    reports.push(problem);
    None
}

/// The handlers of a `hooks.json`.
pub(crate) fn hooks_json(path: &Path, text: &str, reports: &mut Vec<Report>) -> Vec<Handler> {
    let mut reader = Reader::new(path, text, "this file is");
    let handlers = match json::parse(text) {
        Ok(root) => whole(&mut reader, &Node::from_json(&root)),
        Err(fault) => {
            let hint = match fault.problem {
                Problem::Comment => "take the comment out",
                Problem::TrailingComma => "take the comma out",
                Problem::Unexpected('\u{feff}') => "take out the byte order mark at its beginning",
                _ => "check the file with a JSON validator",
            };
            let message = format!("this file is not JSON and is ignored: {}", fault.problem);
            reader.say(Severity::Error, "hooks/not-json", fault.at, message, hint);
            Ok(Vec::new())
        }
    };
    reader.finish(reports);
    handlers.unwrap_or_default()
}

fn whole(reader: &mut Reader<'_>, root: &Node) -> Result<Vec<Handler>, Rejected> {
    const WRITE: &str = "write {\"hooks\": { … }}";
    let Some(entries) = root.entries() else {
        return Err(reader.reject(root.at, format!("it must hold an object, not {}", root.kind()), WRITE));
    };
    let mut handlers = Vec::new();
    for entry in entries {
        match &*entry.key {
            "hooks" | "description" if entry.twice => {
                let why = format!("the key `{}` stands there twice", entry.key);
                return Err(reader.reject(entry.at, why, "keep one of them"));
            }
            "hooks" => handlers = reader.events(&entry.value, &[])?,
            "description" => {
                if entry.value.text().is_none() && entry.value.value != super::tree::Value::Null {
                    let why = format!("`description` must be a string, not {}", entry.value.kind());
                    return Err(reader.reject(entry.value.at, why, "write it in quotes, or leave it out"));
                }
            }
            other => {
                let why = format!("only `hooks` and `description` may stand at its top, not `{other}`");
                let hint = match event::named(&Codex, other) {
                    Named::Runs(_) => "put the events into a \"hooks\" object",
                    _ => "take it out",
                };
                return Err(reader.reject(entry.at, why, hint));
            }
        }
    }
    Ok(handlers)
}

/// A `config.toml`, or, `of_administrator`, a `requirements.toml`.
pub(crate) fn config(path: &Path, text: &str, of_administrator: bool, reports: &mut Vec<Report>) -> Config {
    let mut reader = Reader::new(path, text, "the hooks in this file are");
    let mut config = Config::default();
    match DeTable::parse(text) {
        Ok(root) => settings(&mut reader, &Node::from_toml(root.get_ref()), of_administrator, &mut config),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let message = format!("this file is not TOML, and nothing in it counts: {}", error.message());
            let hint = "Codex does not start with it";
            reader.say(Severity::Error, "hooks/not-toml", at, message, hint);
        }
    }
    reader.finish(reports);
    config
}

fn settings(reader: &mut Reader<'_>, root: &Node, of_administrator: bool, config: &mut Config) {
    for entry in root.entries().unwrap_or_default() {
        match &*entry.key {
            "hooks" => {
                let beside: &[&str] = match of_administrator {
                    true => &["managed_dir", "windows_managed_dir"],
                    false => &["state"],
                };
                config.handlers = reader.events(&entry.value, beside).unwrap_or_default();
                if of_administrator {
                    let dir = entry.value.get("managed_dir").and_then(Node::text).map(PathBuf::from);
                    config.managed_dir = dir.filter(|dir| dir.is_absolute());
                } else if let Some(states) = entry.value.get("state") {
                    config.states = self::states(reader, states);
                }
            }
            "features" => {
                // The older name counts where the newer one is not said.
                let said = ["hooks", "codex_hooks"].into_iter().find_map(|name| find(&entry.value, name));
                config.on = said.and_then(|said| switch(reader, said));
            }
            "projects" if !of_administrator => {
                for project in entry.value.entries().unwrap_or_default() {
                    let level = project.value.get("trust_level").and_then(Node::text);
                    config.projects.extend(level.map(|level| (project.key.clone(), level.to_owned())));
                }
            }
            "project_root_markers" if !of_administrator => {
                let markers = entry
                    .value
                    .items()
                    .map(|items| items.iter().map(Node::text).map(|text| text.map(Into::into)));
                match markers.and_then(Iterator::collect) {
                    Some(markers) => config.markers = Some(markers),
                    None => {
                        let message = "`project_root_markers` must be a list of file names; it is ignored";
                        reader.say(
                            Severity::Warning,
                            "hooks/bad-list",
                            entry.value.at,
                            message,
                            "write [\".git\"]",
                        );
                    }
                }
            }
            "allow_managed_hooks_only" if of_administrator => {
                config.managed_only = switch(reader, entry) == Some(true);
            }
            "allow_managed_hooks_only" => {
                let message =
                    "`allow_managed_hooks_only` counts in an administrator's requirements.toml only";
                let hint = "to switch all hooks off here, set `hooks = false` under `[features]`";
                reader.say(Severity::Warning, "hooks/not-here", entry.at, message, hint);
            }
            _ => {}
        }
    }
}

fn find<'n>(table: &'n Node, key: &str) -> Option<&'n Entry> {
    table.entries()?.iter().find(|entry| entry.key == key)
}

fn switch(reader: &mut Reader<'_>, entry: &Entry) -> Option<bool> {
    let value = entry.value.bool();
    if value.is_none() {
        let message =
            format!("`{}` must be true or false, not {}; it is ignored", entry.key, entry.value.kind());
        reader.say(Severity::Error, "hooks/bad-switch", entry.value.at, message, "write it without quotes");
    }
    value
}

/// `[hooks.state."KEY"]`. One that is malformed says nothing, the others count.
fn states(reader: &mut Reader<'_>, table: &Node) -> HashMap<String, State> {
    let mut states = HashMap::new();
    for entry in table.entries().unwrap_or_default() {
        let enabled = entry.value.get("enabled");
        let trusted = entry.value.get("trusted_hash");
        let state = State {
            enabled: enabled.and_then(Node::bool),
            trusted_hash: trusted.and_then(Node::text).map(str::to_owned),
        };
        let sound = entry.value.entries().is_some()
            && enabled.is_some() == state.enabled.is_some()
            && trusted.is_some() == state.trusted_hash.is_some();
        if !sound {
            let message = format!("the state of the hook `{}` is malformed and says nothing", entry.key);
            let hint = "`enabled` is true or false, `trusted_hash` a string";
            reader.say(Severity::Warning, "hooks/bad-state", entry.at, message, hint);
        } else if !entry.key.trim().is_empty() {
            states.insert(entry.key.trim().to_owned(), state);
        }
    }
    states
}
