//! `portcullis.toml`: what it sets, for which hooks, what comes before what, and what is said about mistakes.

mod support;

use portcullis_hooks::{
    ClaudeHooks, CodexHooks, CodexLayers, Fidelity, HookInfo, Layers, Options, Overlays, PluginLayer, Report,
    Severity,
};
use portcullis_runtime::*;
use std::{fs, time::Duration};
use support::{Project, gate};

const BASH: &str = r#"{"command":"ls"}"#;
const DENY: &str = "echo ran >> ran; echo no >&2; exit 2";
const BIG: &str = r#"{"n":9007199254740993}"#;

fn toml(project: &Project, text: &str) {
    fs::write(project.path().join("portcullis.toml"), text).unwrap();
}

fn set(text: &str, command: &str) -> Project {
    let project = Project::hook("PreToolUse", command);
    toml(&project, text);
    project
}

/// The problems of a file beside one hook.
fn problems(text: &str) -> Vec<Report> {
    set(text, "true").reports()
}

fn hooks(project: &Project) -> Vec<HookInfo> {
    ClaudeHooks::load_with(project.path(), project.options.clone()).0.hooks()
}

// C-BRIDGE-3
#[test]
fn a_failure_blocks_where_the_file_says_so() {
    let failing = "echo gone >&2; exit 7";
    for (text, blocks) in [
        ("", false),
        ("[hooks]\non_failure = \"proceed\"", false),
        ("[hooks]\non_failure = \"block\"", true),
        ("[[hook]]\nevent = \"PreToolUse\"\non_failure = \"block\"", true),
        ("[[hook]]\nevent = \"Stop\"\non_failure = \"block\"", false),
        ("[hooks]\non_failure = \"block\"\n[[hook]]\ncommand = \"*exit ?\"\non_failure = \"proceed\"", true),
        (
            "[hooks]\non_failure = \"block\"\n[[hook]]\ncommand = \"echo gone*\"\non_failure = \"proceed\"",
            false,
        ),
    ] {
        let project = set(text, failing);
        let seen = project.pre("Bash", BASH);
        let decided = gate(&seen.decisions[0]).0;
        assert_eq!(decided, if blocks { "deny" } else { "none" }, "{text}");
        // What its own file says stands: nobody takes a guard away by a default.
        let own = Project::with("PreToolUse", failing, r#","onFailure":"block""#);
        toml(&own, text);
        assert_eq!(gate(&own.pre("Bash", BASH).decisions[0]).0, "deny", "{text}");
    }
}

// C-BRIDGE-2
#[test]
fn fidelity_is_for_all_or_for_some() {
    for (text, number) in [
        ("", "9007199254740993"),
        ("[hooks]\nfidelity = \"exact\"", "9007199254740992"),
        ("[[hook]]\nmatcher = \"\"\nfidelity = \"exact\"", "9007199254740992"),
        (
            "[hooks]\nfidelity = \"exact\"\n[[hook]]\nevent = \"PreToolUse\"\nfidelity = \"strict\"",
            "9007199254740993",
        ),
    ] {
        let project = set(text, "cat > seen");
        project.pre("Odd", BIG);
        assert!(project.read("seen").contains(&format!("\"n\":{number}")), "{text}");
        // What a host says in its own code comes last.
        let project = project.options(|options| options.fidelity(Fidelity::Exact));
        project.pre("Odd", BIG);
        assert!(project.read("seen").contains("\"n\":9007199254740992"), "{text}");
    }
}

#[test]
fn limits_are_set_and_the_lowest_ceiling_counts() {
    let limit = |text: &str, fields: &str| {
        let project = Project::with("PreToolUse", "true", fields);
        toml(&project, text);
        hooks(&project)[0].timeout
    };
    let seconds = Duration::from_secs_f64;
    let own = r#","timeout":50"#;
    for (text, without, with) in [
        ("", 600.0, 50.0),
        ("[hooks]\ndefault_timeout = 20", 20.0, 50.0),
        ("[hooks]\nmax_timeout = 2.5", 2.5, 2.5),
        ("[hooks]\nmax_timeout = 55", 55.0, 50.0),
        ("[[hook]]\nevent = \"PreToolUse\"\ntimeout = 70", 70.0, 70.0),
        ("[hooks]\nmax_timeout = 60\n[[hook]]\nevent = \"PreToolUse\"\ntimeout = 70", 60.0, 60.0),
    ] {
        assert_eq!((limit(text, ""), limit(text, own)), (seconds(without), seconds(with)), "{text}");
    }
    let project = set("[[hook]]\ncommand = \"sleep*\"\ntimeout = 0.2", "sleep 30; exit 2");
    let seen = project.pre("Bash", BASH);
    assert!(seen.results[0].timed_out);
    assert_eq!(gate(&seen.decisions[0]).0, "none");
    let host = Project::hook("PreToolUse", "true").options(|options| options.max_timeout(seconds(3.0)));
    toml(&host, "[hooks]\nmax_timeout = 4");
    assert_eq!(hooks(&host)[0].timeout, seconds(3.0));
}

#[test]
fn in_shadow_a_hook_runs_is_recorded_and_decides_nothing() {
    let shadow = |command: &str| set("[hooks]\nshadow = true", command);
    let denied = shadow(DENY);
    let seen = denied.pre("Bash", BASH);
    assert_eq!((gate(&seen.decisions[0]).0, denied.lines("ran")), ("none", 1));
    assert_eq!((&*seen.results[0].decision, seen.results[0].exit), ("block", Some(2)));
    let would = seen.results[0].shadow.as_ref().unwrap();
    assert_eq!(would.verdict.as_deref(), Some("block"));
    assert!(would.reason.as_ref().unwrap().ends_with("]: no\n"));

    let out = r#"echo '{"continue":false,"stopReason":"halt","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"pwd"},"additionalContext":"c"}}'"#;
    let seen = shadow(out).pre("Bash", BASH);
    assert!(seen.halt.is_none() && seen.context.is_empty() && seen.decisions[0].arguments.is_none());
    assert_eq!(gate(&seen.decisions[0]).0, "none");
    let would = seen.results[0].shadow.as_ref().unwrap();
    assert_eq!(would.halt.as_deref(), Some("halt"));
    assert_eq!((would.context.as_deref(), would.input.as_deref()), (Some("c"), Some(r#"{"command":"pwd"}"#)));

    let out = r#"echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"other"}}'"#;
    let replacing = |overlay: &str| {
        let project = Project::hook("PostToolUse", out);
        toml(&project, overlay);
        project.post("Bash", BASH, Outcome::completed("x"))
    };
    let is_new =
        |seen: &support::Seen<Review>| matches!(&seen.decisions[0], Review::Accept { content: Some(_) });
    let (now, shadowed) = (replacing(""), replacing("[hooks]\nshadow = true"));
    assert!(is_new(&now) && !is_new(&shadowed));
    let would = shadowed.results[0].shadow.as_ref().unwrap();
    assert_eq!(would.output.as_deref(), Some(r#""other""#));

    // On every other point, too.
    for event in ["UserPromptSubmit", "Stop", "PostToolUse"] {
        let project = Project::hook(event, "echo text; echo no >&2; exit 2");
        let project = project.options(|options| options.shadow(true));
        let neutral = match event {
            "UserPromptSubmit" => {
                matches!(&project.submit("hi").decisions[..], [Submit::Allow { content: None, .. }])
            }
            "Stop" => matches!(&project.stop(0, "").decisions[..], [Continue::Abstain]),
            _ => {
                let seen = project.post("Bash", BASH, Outcome::completed("x"));
                seen.context.is_empty()
                    && matches!(&seen.decisions[..], [Review::Accept { content: None, .. }])
            }
        };
        assert!(neutral, "{event}");
    }
    // A failure that would have blocked is a failure and no more.
    let failing = set("[hooks]\nshadow = true\non_failure = \"block\"", "exit 7");
    let seen = failing.pre("Bash", BASH);
    assert_eq!(
        (gate(&seen.decisions[0]).0, &seen.failures[..]),
        ("none", &["failed: exit code 7".to_owned()][..])
    );
    // Outside of it the record says nothing of it.
    assert!(Project::hook("PreToolUse", DENY).pre("Bash", BASH).results[0].shadow.is_none());
}

#[test]
fn shadow_for_one_hook_leaves_the_others_to_decide() {
    let project = Project::new(
        r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[
            {"type":"command","command":"echo old >&2; exit 2"},
            {"type":"command","command":"sh","args":["-c","echo new >&2; exit 2"]}]}]}}"#,
    );
    toml(&project, "[[hook]]\nmatcher = \"Bash\"\ncommand = \"sh -c *new*\"\nshadow = true");
    let seen = project.pre("Bash", BASH);
    let decided: Vec<_> = seen.decisions.iter().map(|one| gate(one).0).collect();
    assert_eq!(decided, ["deny", "none"]);
    let handler = hooks(&project)[0].handler.to_string();
    toml(&project, &format!("[[hook]]\nhandler = \"{handler}\"\nshadow = true"));
    let decided: Vec<_> = project.pre("Bash", BASH).decisions.iter().map(|one| gate(one).0).collect();
    assert_eq!(decided, ["none", "deny"]);
}

#[test]
fn a_project_speaks_for_its_own_hooks_and_the_user_for_all_but_the_administrators() {
    let project = Project::new(r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"project"}]}]}}"#);
    let home = project.path().join("home");
    let write = |file: &str, name: &str| {
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text =
            format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"{name}"}}]}}]}}}}"#);
        fs::write(&path, text).unwrap();
        path
    };
    write("home/.claude/settings.json", "user");
    write(".claude/settings.local.json", "local");
    write("plug/hooks/hooks.json", "plugin");
    let layers = Layers::default()
        .user_home(&home)
        .flag(write("flag.json", "settings"))
        .managed(write("managed.json", "managed"))
        .plugin(PluginLayer::new("p", project.path().join("plug")));
    let user = project.path().join("user.toml");
    let base = Options::new().layers(layers).overlays(Overlays::default().user(&user));
    let settle = |own: &str, users: &str, options: Options| {
        toml(&project, own);
        fs::write(&user, users).unwrap();
        let (hooks, reports) = ClaudeHooks::load_with(project.path(), options);
        assert_eq!(reports, [], "{own} {users}");
        let hooks = hooks.hooks();
        for hook in &hooks {
            assert_eq!(hook.layer, &*hook.command);
        }
        let in_shadow = hooks.iter().filter(|hook| hook.shadow);
        let mut names: Vec<_> = in_shadow.map(|hook| hook.command.to_string()).collect();
        names.sort();
        names
    };
    let on = "[hooks]\nshadow = true";
    let off = "[hooks]\nshadow = false";
    assert_eq!(settle(on, "", base.clone()), ["local", "project", "settings"]);
    assert_eq!(settle("", on, base.clone()), ["local", "plugin", "project", "settings", "user"]);
    assert_eq!(settle(off, on, base.clone()), ["plugin", "user"]);
    // File by file: what the project says of all its hooks comes after what the user says of some.
    let some = "[[hook]]\nevent = \"Stop\"\nshadow = true";
    assert_eq!(settle(off, some, base.clone()), ["plugin", "user"]);
    assert_eq!(settle(some, off, base.clone()), ["local", "project", "settings"]);
    let all = settle(off, off, base.clone().shadow(true));
    assert_eq!(all, ["local", "managed", "plugin", "project", "settings", "user"]);
    let none = settle(on, on, base.clone().shadow(false));
    assert!(none.is_empty());
    // The host may look at each hook.
    let each = base.each(|hook, terms| terms.shadow = hook.layer == "managed");
    assert_eq!(settle(on, on, each), ["managed"]);
}

#[test]
fn a_project_that_repeats_a_hook_of_the_user_does_not_get_hold_of_it() {
    let project = Project::hook("PreToolUse", DENY);
    let home = project.path().join("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    fs::copy(project.path().join(".claude/settings.json"), home.join(".claude/settings.json")).unwrap();
    toml(&project, "[hooks]\nshadow = true");
    assert_eq!(gate(&project.pre("Bash", BASH).decisions[0]).0, "none");
    let project = project.options(|options| options.layers(Layers::default().user_home(home)));
    let seen = project.pre("Bash", BASH);
    assert_eq!((seen.decisions.len(), gate(&seen.decisions[0]).0), (1, "deny"));
}

#[test]
fn an_entry_out_of_reach_is_named() {
    let project = Project::new("{}");
    let home = project.path().join("home");
    fs::create_dir_all(home.join(".claude")).unwrap();
    let settings = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"u"}]}]}}"#;
    fs::write(home.join(".claude/settings.json"), settings).unwrap();
    let project = project.options(|options| options.layers(Layers::default().user_home(home)));
    toml(
        &project,
        "\n[[hook]]\nevent = \"Stop\"\nshadow = true\n\n[[hook]]\nevent = \"SubagentStop\"\nshadow = true",
    );
    let reports = project.reports();
    let seen: Vec<_> = reports.iter().map(|report| (report.code, report.severity, report.line)).collect();
    let warning = Severity::Warning;
    assert_eq!(
        seen,
        [("overlay/out-of-reach", warning, Some(2)), ("overlay/fits-nothing", warning, Some(6))]
    );
    assert!(reports.iter().all(|report| !report.forbids_start()));
}

#[test]
fn each_mistake_is_named_with_its_line_and_what_to_do() {
    for (text, line, code, says, hint) in [
        ("[hooks]\n\nshadow = ture", 3, "overlay/not-toml", "not TOML", "shadow = true"),
        (
            "[hooks]\nshadow = \"yes\"",
            2,
            "overlay/bad-value",
            "`shadow` must be true or false, not `\"yes\"`",
            "until then",
        ),
        (
            "[hooks]\nshadw = true",
            2,
            "overlay/unknown-key",
            "no key `shadw` under `[hooks]`",
            "did you mean `shadow`?",
        ),
        (
            "[hooks]\nzzzzzzzzzz = true",
            2,
            "overlay/unknown-key",
            "zzzzzzzzzz",
            "known are fidelity, on_failure",
        ),
        ("# c\n[hoks]\nshadow = true", 2, "overlay/unknown-key", "no key `hoks` in this file", "`hooks`?"),
        ("hooks = 3", 1, "overlay/bad-value", "must be a table", "until"),
        ("[hook]\nshadow = true", 1, "overlay/bad-value", "a list of tables", "[[hook]]"),
        (
            "[hooks]\nfidelity = \"Exact\"",
            2,
            "overlay/bad-value",
            "\"strict\" or \"exact\", not `\"Exact\"`",
            "until",
        ),
        ("[hooks]\non_failure = true", 2, "overlay/bad-value", "\"proceed\" or \"block\"", "until"),
        ("[hooks]\ntimeout = 5", 2, "overlay/unknown-key", "no key `timeout` for all", "`default_timeout`"),
        ("[hooks]\nmax_timeout = 0", 2, "overlay/bad-value", "seconds above 0", "until"),
        ("[hooks]\nmax_timeout = nan", 2, "overlay/bad-value", "seconds above 0", "until"),
        ("[hooks]\nmax_timeout = 1e300", 2, "overlay/bad-value", "seconds above 0", "until"),
        ("[hooks]\nmax_timeout = \"5\"", 2, "overlay/bad-value", "seconds above 0", "until"),
        ("[hooks]\nprocesses = 0", 2, "overlay/bad-value", "a whole number from 1", "until"),
        ("[hooks]\nprocesses = 1.5", 2, "overlay/bad-value", "a whole number from 1", "until"),
        ("\n[[hook]]\nshadow = true", 2, "overlay/fits-everything", "which hooks", "under `[hooks]`"),
        ("\n[[hook]]\nevent = \"PreToolUse\"", 2, "overlay/sets-nothing", "sets nothing", "`shadow`"),
        (
            "[[hook]]\nevent = \"PreToolUze\"\nshadow = true",
            2,
            "overlay/bad-value",
            "no event `PreToolUze`",
            "PreToolUse?",
        ),
        (
            "[[hook]]\nevent = \"Setup\"\nshadow = true",
            2,
            "overlay/bad-value",
            "Setup do not run",
            "take it out",
        ),
        (
            "[[hook]]\nevent = \"PreToolUse\"\nprocesses = 1",
            3,
            "overlay/unknown-key",
            "all hooks together",
            "[hooks]",
        ),
        (
            "[[hook]]\nevent = \"PreToolUse\"\nmax_timeout = 1",
            3,
            "overlay/unknown-key",
            "`max_timeout` under",
            "known are",
        ),
        ("[[hook]]\nmatcher = 5\nshadow = true", 2, "overlay/bad-value", "a text in quotes", "until"),
        ("hook = [1]", 1, "overlay/bad-value", "must be a table", "until"),
    ] {
        let reports = problems(text);
        let [report] = &reports[..] else { panic!("{text}: {reports:?}") };
        assert_eq!(
            (report.code, report.line, report.severity),
            (code, Some(line), Severity::Error),
            "{report}"
        );
        assert!(report.file.as_ref().unwrap().ends_with("portcullis.toml"));
        assert!(report.message.contains(says), "{report}");
        assert!(report.hint.as_ref().unwrap().contains(hint), "{report}");
        assert!(report.forbids_start());
    }
    // All of them, from the top, and what is sound counts.
    let project = set("[hooks]\nz = 1\nshadow = true\na = 2\n", DENY);
    assert_eq!(project.reports().iter().map(|report| report.line.unwrap()).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(gate(&project.pre("Bash", BASH).decisions[0]).0, "none");
    // A pipe would never end.
    let project = Project::hook("Stop", "true");
    fs::create_dir(project.path().join("portcullis.toml")).unwrap();
    assert_eq!(project.reports()[0].code, "overlay/unreadable");
    fs::remove_dir(project.path().join("portcullis.toml")).unwrap();
    fs::write(project.path().join("portcullis.toml"), b"[hooks]\n# \xff\n").unwrap();
    let reports = project.reports();
    assert_eq!((reports[0].code, reports[0].line), ("overlay/not-toml", Some(2)));
}

#[test]
fn processes_are_bounded_for_all_sessions_together() {
    // Each notes when it is there and when it is gone; two at a time would be seen.
    let command = "echo in >> log; sleep 0.2; echo out >> log";
    let project = set("[hooks]\nprocesses = 1", command);
    let (hooks, reports) = ClaudeHooks::load(project.path());
    assert_eq!(reports, []);
    let mut table = Table::new();
    table.register(hooks.owner(), |at| hooks.clone().register(at));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let input = |arguments| {
            let arguments = Frozen::arguments(arguments).unwrap();
            Proposed::new(project.scene(), support::key(), "call-1".into(), support::spec("Bash"), arguments)
        };
        let runs = (0..3).flat_map(|_| table.plan::<Rewrite>(&input(BASH)));
        let runs: Vec<_> =
            runs.map(|planned| async move { planned.run.decide(input(BASH)).await.is_ok() }).collect();
        assert!(futures::future::join_all(runs).await.into_iter().all(|ok| ok));
    });
    assert_eq!(project.read("log"), "in\nout\n".repeat(3));
    // The lowest number counts, so a project cannot take what the user did not give.
    assert_eq!(problems("[hooks]\nprocesses = 4"), []);
}

// C-BRIDGE-3: one file beside the hooks of both clients; an entry says whose it means, or means both.
#[test]
fn an_entry_is_for_the_hooks_of_one_client_or_of_both() {
    let project = Project::hook("PreToolUse", "exit 7");
    fs::create_dir(project.path().join(".codex")).unwrap();
    fs::write(
        project.path().join(".codex/hooks.json"),
        r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"exit 7"}]}],
            "Interrupt":[{"hooks":[{"type":"command","command":"exit 0"}]}]}}"#,
    )
    .unwrap();
    let both = |text: &str| {
        toml(&project, text);
        let codex = Options::new().layers(CodexLayers::default().trust_project().bypass_trust());
        let (codex, reports) = CodexHooks::load_with(project.path(), codex);
        assert!(!reports.iter().any(Report::forbids_start), "{reports:?}");
        let (claude, reports) = ClaudeHooks::load(project.path());
        assert!(!reports.iter().any(Report::forbids_start), "{reports:?}");
        let shadow = |hooks: Vec<HookInfo>| hooks.iter().map(|hook| hook.shadow).collect::<Vec<_>>();
        (shadow(claude.hooks()), shadow(codex.hooks()))
    };
    let shadow = |which: &str| both(&format!("[[hook]]\n{which}\nshadow = true\n"));
    assert_eq!(shadow("event = \"PreToolUse\""), (vec![true], vec![true, false]));
    assert_eq!(shadow("dialect = \"codex\""), (vec![false], vec![true, true]));
    assert_eq!(shadow("dialect = \"claude\""), (vec![true], vec![false, false]));
    assert_eq!(shadow("event = \"Interrupt\""), (vec![false], vec![false, true]));
    let found = problems("[[hook]]\ndialect = \"cursor\"\nshadow = true\n");
    assert_eq!((found[0].code, found[0].line), ("overlay/bad-value", Some(2)));
}
