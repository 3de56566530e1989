//! Whom a user trusts, what has changed since, and how it is said.

use super::*;
use crate::{
    CodexTrust, PluginLayer, TrustError,
    codex::config::{Changed, TrustStatus},
};

const STOP: &str = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"./a.sh"},{"type":"command","command":"./b.sh"}]}]}}"#;

impl Machine {
    fn review(&self) -> CodexTrust {
        CodexTrust::review(self.path("project"), &self.layers).0
    }

    fn key(&self, file: &str, rest: &str) -> String {
        format!("{}:{rest}", self.path(file).display())
    }

    fn statuses(&self) -> Vec<TrustStatus> {
        self.load().0.handlers.iter().map(|placed| placed.status).collect()
    }
}

/// What changed, as `WHAT: WAS > IS`.
fn changes(trust: &CodexTrust, at: usize) -> Vec<String> {
    let Changed::Known(changes) = &trust.hooks()[at].changed else { panic!("{:?}", trust.hooks()[at]) };
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    changes
        .iter()
        .map(|change| format!("{}: {} > {}", change.what, text(&change.was), text(&change.is)))
        .collect()
}

// C-BRIDGE-1
#[test]
fn a_hook_runs_once_it_is_trusted_and_until_it_changes() {
    let machine =
        Machine::new().write("user/hooks.json", STOP).write("user/config.toml", "# mine\nmodel = 'm'\n");
    assert_eq!(machine.statuses(), [TrustStatus::Untrusted; 2]);
    let trust = machine.review();
    assert_eq!(trust.hooks()[0].changed, Changed::Nothing);
    trust.approve(&[&trust.hooks()[0].key]).unwrap();
    assert_eq!(machine.running(), ["./a.sh"]);
    let written = fs::read_to_string(machine.path("user/config.toml")).unwrap();
    assert!(written.starts_with("# mine\nmodel = 'm'\n"), "{written}");
    // One byte of a command, of a limit, of a matcher.
    machine.put("user/hooks.json", &STOP.replace("./a.sh", "./a.sH"));
    assert_eq!(machine.statuses(), [TrustStatus::Modified, TrustStatus::Untrusted]);
    assert!(machine.running().is_empty());
    assert_eq!(changes(&machine.review(), 0), ["command: ./a.sh > ./a.sH"]);
    machine.put(
        "user/hooks.json",
        &STOP.replace("\"./a.sh\"", "\"./a.sh\",\"timeout\":5,\"async\":true,\"statusMessage\":\"s\""),
    );
    assert_eq!(
        changes(&machine.review(), 0),
        ["async: false > true", "statusMessage: - > s", "timeout: 600 > 5"]
    );
    // What it was, in other words, is what it was.
    machine.put("user/hooks.json", &STOP.replace("\"./a.sh\"", "\"./a.sh\", \"timeout\": 600"));
    assert_eq!(machine.running(), ["./a.sh"]);
    let trust = machine.review();
    trust.approve(&[&trust.hooks()[1].key]).unwrap();
    assert_eq!(machine.running(), ["./a.sh", "./b.sh"]);
}

// C-BRIDGE-1
#[test]
fn what_is_approved_is_what_was_reviewed() {
    let machine = Machine::new().write("user/hooks.json", STOP);
    let trust = machine.review();
    machine.put("user/hooks.json", &STOP.replace("./a.sh", "./evil.sh"));
    trust.approve(&[&trust.hooks()[0].key]).unwrap();
    assert_eq!(machine.statuses()[0], TrustStatus::Modified);
    assert_eq!(changes(&machine.review(), 0), ["command: ./a.sh > ./evil.sh"]);
}

// C-BRIDGE-1
#[cfg(unix)]
#[test]
fn who_approves_at_the_same_time_loses_nothing() {
    let many: Vec<String> = (0..8).map(|i| format!(r#"{{"type":"command","command":"./{i}.sh"}}"#)).collect();
    let text = format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{}]}}]}}}}"#, many.join(","));
    let machine = Machine::new().write("user/hooks.json", &text);
    let (trust, all) = (machine.review(), std::sync::Barrier::new(many.len()));
    std::thread::scope(|scope| {
        for hook in trust.hooks() {
            scope.spawn(|| {
                all.wait();
                trust.approve(&[&hook.key]).unwrap();
            });
        }
    });
    assert_eq!(machine.statuses(), [TrustStatus::Trusted; 8]);
    machine.put("user/hooks.json", &text.replace(".sh", ".py"));
    assert!(machine.review().hooks().iter().all(|hook| matches!(hook.changed, Changed::Known(_))));
}

// C-BRIDGE-1: who trusts a tool's call has read all of it.
#[test]
fn a_tool_is_reviewed_with_its_input() {
    let tool = |input: &str| {
        let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"mcp_tool","server":"s","tool":"run"INPUT}]}]}}"#;
        let machine = Machine::new().write("user/hooks.json", &text.replace("INPUT", input));
        machine.review().hooks()[0].command.clone()
    };
    assert_eq!(tool(r#","input":{"z":["rm", "-rf"],"a":1}"#), r#"s/run {"z":["rm","-rf"],"a":1}"#);
    assert_eq!((tool(""), tool(r#","input":{}"#)), ("s/run".into(), "s/run".into()));
}

// C-BRIDGE-1
#[test]
fn the_states_are_the_clients_own() {
    let machine = Machine::new().write("user/hooks.json", STOP);
    let hash = machine.load().0.handlers[0].hash.clone();
    let key = machine.key("user/hooks.json", "stop:0:0");
    let say = |state: &str| {
        machine.put(
            "user/config.toml",
            &format!("[hooks.state]\n\" {key} \" = {state}\nbad = {{ enabled = \"no\" }}\n"),
        );
        let (loaded, reports) = machine.load();
        assert_eq!(gist(only(&reports, "hooks/bad-state")), (Some(3), Severity::Warning, true));
        (loaded.handlers[0].status, loaded.handlers[0].runs)
    };
    assert_eq!(say("{}"), (TrustStatus::Untrusted, false));
    assert_eq!(say(&format!("{{ trusted_hash = \"{hash}\" }}")), (TrustStatus::Trusted, true));
    assert_eq!(say("{ trusted_hash = \"sha256:00\" }"), (TrustStatus::Modified, false));
    assert_eq!(
        say(&format!("{{ trusted_hash = \"{hash}\", enabled = false }}")),
        (TrustStatus::Disabled, false)
    );
    // Nothing is known of what had another hash.
    say("{ trusted_hash = \"sha256:00\" }");
    assert_eq!(machine.review().hooks()[0].changed, Changed::Unknown);
    // What is said for this run comes after, field by field; what a project says of itself is nothing.
    machine.put("project/.codex/config.toml", &format!("[hooks.state.{key:?}]\nenabled = false\n"));
    machine.put("user/config.toml", &format!("[hooks.state.{key:?}]\nenabled = false\n"));
    let flags = format!("[hooks.state.{key:?}]\nenabled = true\ntrusted_hash = \"{hash}\"\n");
    let machine = machine.layers(|layers, _| layers.flags(flags).trust_project());
    assert_eq!(machine.statuses()[0], TrustStatus::Trusted);
}

// C-BRIDGE-1
#[test]
fn trust_can_be_passed_by_and_a_hook_that_is_off_stays_off() {
    let machine = Machine::new().write("user/hooks.json", STOP).layers(|layers, _| layers.bypass_trust());
    assert_eq!(machine.running(), ["./a.sh", "./b.sh"]);
    let key = machine.key("user/hooks.json", "stop:0:0");
    machine.put("user/config.toml", &format!("[hooks.state.{key:?}]\nenabled = false\n"));
    assert_eq!(machine.running(), ["./b.sh"]);
    let trust = machine.review();
    trust.approve(&[&key]).unwrap();
    assert_eq!(machine.statuses()[0], TrustStatus::Disabled);
}

#[test]
fn a_project_is_reviewed_before_it_is_trusted() {
    let machine = Machine::new().write("project/.codex/hooks.json", STOP);
    let trust = machine.review();
    assert!(trust.hooks().iter().all(|hook| hook.in_untrusted_project));
    assert_eq!(trust.untrusted_project(), fs::canonicalize(machine.path("project")).unwrap().to_str());
    let keys: Vec<&str> = trust.hooks().iter().map(|hook| &*hook.key).collect();
    trust.approve(&keys).unwrap();
    assert!(machine.running().is_empty());
    trust.trust_project().unwrap();
    assert_eq!(machine.running(), ["./a.sh", "./b.sh"]);
    assert_eq!(machine.review().untrusted_project(), None);
}

#[test]
fn a_plugins_hook_is_trusted_with_all_of_its_files() {
    let machine = Machine::new()
        .layers(|layers, root| layers.plugin(PluginLayer::new("p@m", root.join("plugin"))))
        .write("plugin/hooks/hooks.json", &hook("Stop", "${PLUGIN_ROOT}/run.sh"))
        .write("plugin/run.sh", "echo 1\n");
    assert_eq!(machine.statuses(), [TrustStatus::Untrusted]);
    // The client's own word for it cannot be checked.
    let hash = machine.load().0.handlers[0].hash.clone();
    machine.put(
        "user/config.toml",
        &format!("[hooks.state.\"p@m:hooks/hooks.json:stop:0:0\"]\ntrusted_hash = \"{hash}\"\n"),
    );
    assert_eq!(machine.statuses(), [TrustStatus::Untrusted]);
    let before = fs::read(machine.path("user/config.toml")).unwrap();
    let trust = machine.review();
    trust.approve(&[&trust.hooks()[0].key]).unwrap();
    assert_eq!(machine.statuses(), [TrustStatus::Trusted]);
    assert_eq!(
        fs::read(machine.path("user/config.toml")).unwrap(),
        before,
        "the client's file is left alone"
    );
    machine.put("plugin/run.sh", "echo 2\n");
    machine.put("plugin/new file", "");
    assert_eq!(machine.statuses(), [TrustStatus::Modified]);
    let changed = changes(&machine.review(), 0);
    assert!(
        changed.len() == 2
            && changed[0].starts_with("new file: - > sha256:")
            && changed[1].starts_with("run.sh: sha256:"),
        "{changed:?}"
    );
    let key = "[hooks.state.\"p@m:hooks/hooks.json:stop:0:0\"]\nenabled = false\n";
    machine.put("user/config.toml", key);
    assert_eq!(machine.statuses(), [TrustStatus::Disabled]);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_a_plugin_makes_it_untrustworthy() {
    let machine = Machine::new()
        .layers(|layers, root| layers.plugin(PluginLayer::new("p@m", root.join("plugin"))))
        .write("plugin/hooks/hooks.json", &hook("Stop", "x"))
        .write("elsewhere/code.sh", "echo 1\n");
    std::os::unix::fs::symlink(machine.path("elsewhere/code.sh"), machine.path("plugin/code.sh")).unwrap();
    let trust = machine.review();
    trust.approve(&[&trust.hooks()[0].key]).unwrap();
    machine.put("elsewhere/code.sh", "echo 2\n");
    assert_eq!(machine.statuses(), [TrustStatus::Modified], "what a link leads to counts");
    std::os::unix::fs::symlink(machine.path("elsewhere"), machine.path("plugin/lib")).unwrap();
    let trust = machine.review();
    let error = trust.approve(&[&trust.hooks()[0].key]).unwrap_err();
    assert!(matches!(error, TrustError::UnreadablePlugin(_)), "{error}");
    assert_eq!(codes(&machine.load().1), ["hooks/unreadable"]);
}

#[test]
fn a_foreign_record_is_left_alone_and_believed_nothing() {
    let machine = Machine::new().write("user/hooks.json", STOP);
    let record = machine.path("config/portcullis/codex-trust.json");
    let trust = machine.review();
    let key = &trust.hooks()[0].key;
    trust.approve(&[key]).unwrap();
    machine.put("user/hooks.json", &STOP.replace("./a.sh", "./c.sh"));
    // A text that is not what its hash is of.
    let honest = fs::read_to_string(&record).unwrap();
    fs::write(&record, honest.replace("./a.sh", "./x.sh")).unwrap();
    assert_eq!(machine.review().hooks()[0].changed, Changed::Unknown);
    fs::remove_file(&record).unwrap();
    assert_eq!(machine.review().hooks()[0].changed, Changed::Unknown);
    fs::write(&record, "{\"version\": 2}").unwrap();
    let (loaded, reports) = machine.load();
    assert_eq!(
        (loaded.handlers[0].status, codes(&reports)),
        (TrustStatus::Modified, vec!["hooks/bad-record"])
    );
    let config = fs::read(machine.path("user/config.toml")).unwrap();
    let error = machine.review().approve(&[key]).unwrap_err();
    assert!(matches!(&error, TrustError::File { file, .. } if *file == record), "{error}");
    assert_eq!(fs::read_to_string(&record).unwrap(), "{\"version\": 2}");
    assert_eq!(fs::read(machine.path("user/config.toml")).unwrap(), config, "nothing was approved");
}

#[test]
fn what_cannot_be_approved_says_why() {
    let machine = Machine::new().write("user/hooks.json", STOP);
    let trust = machine.review();
    assert_eq!(trust.approve(&["x"]).unwrap_err().to_string(), "there is no hook `x`");
    let key = &trust.hooks()[0].key;
    machine.put("user/config.toml", "a = 1\nb = \n");
    let error = trust.approve(&[key]).unwrap_err().to_string();
    assert!(error.contains("line 2 is not TOML"), "{error}");
    assert_eq!(fs::read_to_string(machine.path("user/config.toml")).unwrap(), "a = 1\nb = \n");
    let nowhere = Machine::new()
        .write("project/.codex/hooks.json", STOP)
        .layers(|_, _| CodexLayers::default().trust_project());
    let trust = nowhere.review();
    assert!(matches!(trust.approve(&[&trust.hooks()[0].key]), Err(TrustError::Nowhere)));
}

#[test]
fn a_script_is_named_where_it_is_plain_to_see() {
    for (command, named) in [
        ("./run.sh --all", true),
        ("bash run.sh", true),
        ("python3 'run.sh'", true),
        ("echo ./run.sh", false),
        ("./no.sh", false),
    ] {
        let machine =
            Machine::new().write("project/run.sh", "").write("user/hooks.json", &hook("Stop", command));
        let script = machine.review().hooks()[0].script.clone();
        assert_eq!(script.is_some(), named, "{command}");
    }
}
