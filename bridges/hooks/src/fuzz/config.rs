//! Hook files: what is in them is a hook or is reported.

use super::sound;
use crate::{
    claude::{ClaudeHooks, Layers},
    codex::{self, CodexHooks, CodexLayers},
    hooks::Hooks,
    json::{self, Node},
    options::Options,
    overlay::Overlays,
    report::{Report, Severity},
};
use std::{path::Path, sync::Arc};
use toml::de::{DeTable, DeValue};

pub(super) fn claude(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let load = || {
        let layers = Layers::none().flag_json(text);
        ClaudeHooks::load_with("/p", Options::new().layers(layers).overlays(Overlays::none()))
    };
    let (hooks, reports) = load();
    sound(&reports, text.as_bytes());
    let (again, told) = load();
    assert_eq!((hooks.hooks(), &reports), (again.hooks(), &told));
    all(&hooks, &reports, written(text));
    seen(&hooks);
}

/// A `hooks.json`, a `config.toml` and a `requirements.toml` of the same text.
pub(super) fn codex(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let path = Path::new("/p/.codex/hooks.json");
    let mut reports = Vec::new();
    let handlers = codex::hooks_json(path, text, &mut reports);
    sound(&reports, text.as_bytes());
    assert!(handlers.len() <= written(text));
    let told = reports.iter().any(|report| report.severity > Severity::Note);
    assert!(told || handlers.len() == written(text), "{} of {}", handlers.len(), written(text));
    let mut keys = Vec::new();
    for handler in &handlers {
        let identity = handler.identity();
        assert!(json::parse(&identity).is_ok(), "{identity}");
        keys.push(handler.key("f"));
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), handlers.len(), "each has a key of its own");

    for of_administrator in [false, true] {
        let mut reports = Vec::new();
        let config = codex::config_toml(path, text, of_administrator, &mut reports);
        sound(&reports, text.as_bytes());
        assert!(config.handlers.iter().all(|handler| json::parse(&handler.identity()).is_ok()));
    }

    let load = |bypass| {
        let layers = CodexLayers { bypass_trust: bypass, ..CodexLayers::none().flags(text) };
        CodexHooks::load_with("/p", Options { layers, ..Options::default() }.overlays(Overlays::none()))
    };
    // Nobody has said that any of them is trusted: the settings that define a hook cannot.
    let (all, reports) = load(true);
    let (trusted, told) = load(false);
    sound(&reports, text.as_bytes());
    assert!(trusted.len() <= all.len() && told.len() + all.len() >= trusted.len());
    seen(&all);
}

/// Sets a hash in a `config.toml`, and nothing else.
pub(super) fn edit(data: &[u8]) {
    const TABLES: [&str; 3] = ["hooks", "state", "/p/hooks.json:stop:0:0"];
    const KEY: &str = "trusted_hash";
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(new) = codex::set_in_toml(text, &TABLES, KEY, "sha256:0") else { return };
    let plain = |text: &str| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
    let (before, after) = (plain(text), plain(&new));
    let after = DeTable::parse(&after).unwrap_or_else(|error| panic!("{error} in {new}"));
    let mut path: Vec<&str> = TABLES.to_vec();
    path.push(KEY);
    assert_eq!(shown(after.get_ref(), &path[..]).0.as_deref(), Some("sha256:0"), "{new}");
    // All else is what it was.
    if let Ok(before) = DeTable::parse(&before) {
        assert_eq!(
            shown(before.get_ref(), &path[..]).1,
            shown(after.get_ref(), &path[..]).1,
            "{text} became {new}"
        );
    }
    let again = codex::set_in_toml(&new, &TABLES, KEY, "sha256:0");
    assert_eq!(again.ok().as_deref(), Some(&*new));
}

/// The text at a path, and every other value with its keys.
fn shown(table: &DeTable<'_>, path: &[&str]) -> (Option<String>, Vec<String>) {
    let (mut found, mut rest) = (None, Vec::new());
    for (key, value) in table {
        let name = &**key.get_ref();
        match (value.get_ref(), path) {
            (DeValue::Table(inner), [first, inside @ ..]) if *first == name && !inside.is_empty() => {
                let (text, values) = shown(inner, inside);
                found = found.or(text);
                rest.extend(values.into_iter().map(|value| format!("{name:?}.{value}")));
            }
            (DeValue::String(text), [last]) if *last == name => found = Some(text.to_string()),
            (other, _) => rest.push(format!("{name:?} = {}", value_text(other))),
        }
    }
    (found, rest)
}

fn value_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Table(table) => format!("{{{}}}", shown(table, &[]).1.join(", ")),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| value_text(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => format!("{number:?}"),
        DeValue::Float(number) => format!("{number:?}"),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => date.to_string(),
    }
}

/// How many handlers stand in a file of JSON, as far as it has the form of one.
fn written(text: &str) -> usize {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok(root) = json::parse(text) else { return 0 };
    let groups = root.get("hooks").and_then(Node::entries).unwrap_or_default().iter();
    let groups = groups.flat_map(|event| event.value.items().unwrap_or_default());
    groups.filter_map(|group| group.get("hooks")?.items()).map(<[_]>::len).sum()
}

/// Nothing is dropped in silence, and nothing comes of nothing.
fn all(hooks: &Hooks, reports: &[Report], written: usize) {
    assert!(hooks.len() <= written, "{} of {written}", hooks.len());
    let told =
        reports.iter().any(|report| report.severity > Severity::Note || report.code == "hooks/disabled");
    assert!(hooks.len() == written || told, "{} of {written}: {reports:?}", hooks.len());
}

/// What was loaded can be looked at and asked.
fn seen(hooks: &Arc<Hooks>) {
    let found = hooks.hooks();
    assert_eq!(found.len(), hooks.len());
    let mut names: Vec<_> = found.iter().map(|hook| &hook.handler).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), found.len(), "each has a name of its own");
    assert!(found.iter().all(|hook| !hook.timeout.is_zero() && hook.line > 0));
    let set = hooks.set();
    for hook in set.all() {
        for subject in ["Bash", "mcp__srv__echo", "startup", ""] {
            let matching = set.matching(hook.definition.event, subject);
            assert!(matching.len() <= set.of(hook.definition.event).len());
        }
    }
    for report in hooks.lint(&["Bash", "Read"]) {
        assert!(!report.message.is_empty() && report.line.is_some());
    }
}
