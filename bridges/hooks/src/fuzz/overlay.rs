//! `portcullis.toml`, over some hooks.

use super::sound;
use crate::{
    claude::{ClaudeHooks, Layers},
    definition::LONGEST,
    hooks::Hooks,
    options::Options,
    overlay::{Overlay, Overlays, Said},
    report::{Report, Severity},
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Hooks of a file that was given for this run, which a project's `portcullis.toml` speaks for.
fn hooks() -> &'static Arc<Hooks> {
    static HOOKS: OnceLock<Arc<Hooks>> = OnceLock::new();
    HOOKS.get_or_init(|| {
        let layers = Layers::none().flag_json(
            r#"{"hooks": {
                "PreToolUse": [{"matcher": "Bash|Edit", "hooks": [
                    {"type": "command", "command": "./gate.sh", "args": ["a"]},
                    {"type": "command", "command": "./slow.sh", "timeout": 5}]}],
                "Stop": [{"hooks": [{"type": "command", "command": "./stop.sh"}]}]}}"#,
        );
        ClaudeHooks::load_with("/p", Options::new().layers(layers).overlays(Overlays::none())).0
    })
}

pub(super) fn run(data: &[u8]) {
    let mut reports: Vec<Report> = Vec::new();
    let overlay = Overlay::of_text(data, &mut reports);
    sound(&reports, data);
    assert!(reports.iter().all(|report| report.severity == Severity::Error && report.forbids_start()));
    let mut again = Vec::new();
    Overlay::of_text(data, &mut again);
    assert_eq!(reports, again);
    assert!(overlay.processes() != Some(0));
    let set = hooks().set();
    for hook in set.all() {
        let terms = overlay.terms(hook.subject(), &Said::default());
        assert!(terms.timeout > Duration::ZERO && terms.timeout <= LONGEST, "{terms:?}");
        // A host has the last word.
        let said = Said { shadow: Some(false), max_timeout: Some(Duration::from_secs(1)), ..Said::default() };
        let terms = overlay.terms(hook.subject(), &said);
        assert!(!terms.shadow && terms.timeout <= Duration::from_secs(1));
    }
    let subjects: Vec<_> = set.all().map(|hook| hook.subject()).collect();
    let mut unused = Vec::new();
    overlay.unused(&subjects, &mut unused);
    sound(&unused, data);
}
