//! What is handed on to run, and what is said of the rest.

use super::*;
use crate::{
    codex::config::mount,
    definition::{Definition, Origin},
    written::Written,
};
use std::{sync::Arc, time::Duration};

type Mounted = Vec<(Arc<Origin>, Definition)>;

fn mounted(machine: &Machine) -> (Mounted, Vec<Report>) {
    let mut reports = Vec::new();
    let loaded =
        mount::load(&machine.path("project"), &machine.layers, &[("A".into(), "b".into())], &mut reports);
    assert_eq!(loaded.env, [("A".into(), Some("b".into()))]);
    (loaded.definitions, reports)
}

// C-BRIDGE-1
#[test]
fn a_hook_that_nobody_trusts_does_not_run_and_is_named() {
    let text = hook("Stop", "./gate.sh");
    let machine =
        Machine::new().write("user/hooks.json", &text).write("user/config.toml", &toml_hook("Stop", "off"));
    let key = format!("{}:stop:0:0", machine.path("user/config.toml").display());
    let trust = crate::CodexTrust::review(machine.path("project"), &machine.layers).0;
    let said = |code: &str, severity: Severity, word: &str| {
        let (mounted, reports) = mounted(&machine);
        assert!(mounted.is_empty());
        let found = reports.iter().find(|report| report.code == code).unwrap();
        assert_eq!((found.severity, found.line.is_some(), found.hint.is_some()), (severity, true, true));
        assert!(found.message.contains(word), "{found}");
        found.clone()
    };
    let report = said("hooks/untrusted", Severity::Warning, "./gate.sh");
    assert_eq!((report.file, report.line), (Some(machine.path("user/hooks.json")), Some(1)));
    assert!(report.hint.unwrap().contains("portcullis hooks trust"));
    trust.approve(&[&trust.hooks()[0].key]).unwrap();
    assert_eq!(mounted(&machine).0.len(), 1);
    machine.put("user/hooks.json", &text.replace("./gate.sh", "./gate.sh x"));
    said("hooks/modified", Severity::Warning, "`command` changed");
    fs::remove_file(machine.path("config/portcullis/codex-trust.json")).unwrap();
    said("hooks/modified", Severity::Warning, "not known");
    machine.put(
        "user/config.toml",
        &format!("{}[hooks.state.{key:?}]\nenabled = false\n", toml_hook("Stop", "off")),
    );
    said("hooks/disabled", Severity::Note, "switched off");
    // Everybody who is let in without having been trusted is counted.
    let machine = machine.layers(|layers, _| layers.bypass_trust());
    let (mounted, reports) = mounted(&machine);
    assert_eq!(mounted.len(), 1);
    assert!(only(&reports, "hooks/trust-bypassed").message.starts_with("1 hook"));
}

// C-BRIDGE-1
#[test]
fn a_switch_is_said_once() {
    let machine = Machine::new()
        .write("user/hooks.json", &hook("Stop", "a"))
        .write("user/config.toml", &format!("{}\n[features]\nhooks = false\n", toml_hook("Stop", "b")))
        .layers(|layers, _| layers.bypass_trust());
    let (of_off, reports) = mounted(&machine);
    assert!(of_off.is_empty());
    assert_eq!(
        only(&reports, "hooks/disabled").message,
        "2 hook(s) do not run: `hooks` is false under `[features]`"
    );
    let machine = machine
        .write("user/config.toml", "")
        .write("system/requirements.toml", "allow_managed_hooks_only = true\n")
        .layers(|layers, root| layers.system(root.join("system")));
    let (_, reports) = mounted(&machine);
    assert!(only(&reports, "hooks/disabled").message.contains("administrator"));
}

// C-BRIDGE-1
#[test]
fn a_definition_is_what_the_file_says() {
    let machine = Machine::new()
        .write(
            "user/hooks.json",
            "{\"hooks\":{\"PreToolUse\":[\n{\"matcher\":\"^Bash$\",\"hooks\":[\n{\"type\":\"command\",\"command\":\"${PLUGIN_ROOT}\",\"timeout\":0,\"async\":true,\"additionalContextLimit\":0},\n{\"type\":\"mcp_tool\",\"server\":\"s\",\"tool\":\"t\",\"input\":{\"b\":1.0,\"a\":\"${x}\"}}]}]}}",
        )
        .write("project/.codex/hooks.json", &hook("Stop", "p"))
        .write("system/requirements.toml", &format!("hooks.managed_dir = \"/m\"\n{}", toml_hook("Interrupt", "m")))
        .layers(|layers, root| layers.system(root.join("system")).bypass_trust().trust_project());
    let (all, _) = mounted(&machine);
    let [(managed, first), (user, shell), (_, tool), (project, last)] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        (&managed.path, managed.named.as_deref()),
        (&machine.path("system/requirements.toml"), Some(Path::new("/m")))
    );
    assert_eq!(
        (first.timeout, first.sets_timeout, first.matcher_text.is_some()),
        (Duration::from_secs(1), false, false)
    );
    assert_eq!(
        (user.named.is_none(), user.scope.name(), project.scope.name(), managed.scope.name()),
        (true, "user", "project", "managed")
    );
    assert_eq!((shell.line, shell.order, shell.background, shell.context_limit), (3, 1, true, Some(0)));
    assert_eq!((shell.timeout, shell.sets_timeout), (Duration::from_secs(1), true));
    assert!(shell.matcher.matches("Bash", &[]) && !shell.matcher.matches("Bas", &[]));
    assert!(
        matches!(&shell.written, Written::Command { command, args: None } if &**command == "${PLUGIN_ROOT}")
    );
    let Written::Tool(called) = &tool.written else { panic!("a tool") };
    assert_eq!((&*called.name, &*called.input), ("s/t", r#"{"b":1.0,"a":"${x}"}"#));
    assert_eq!((tool.timeout, last.order), (Duration::from_secs(600), 3));
}
