//! Hook files: which of them count, what is wrong with them, and what runs nevertheless.

mod support;

use portcullis_hooks::{Layers, Options, PluginLayer, Report, Severity};
use portcullis_runtime::*;
use std::fs;
use support::{Project, gate, key, spec};

const BASH: &str = r#"{"command":"ls"}"#;

fn command(text: &str) -> String {
    format!(r#"{{"type":"command","command":"{text}"}}"#)
}

/// A file with one broken entry under `event`, beside a sound one, and a sound hook on another event.
fn broken(event: &str, group: &str) -> Project {
    let other = if event == "Stop" { "UserPromptSubmit" } else { "Stop" };
    let (sound, aside) = (command("echo ran >> sound"), command("echo ran >> aside"));
    Project::new(&format!(
        "{{\"env\":{{\"A\":\"b\"}},\n \"hooks\":{{\n  \"{event}\":[\n   {group},\n   {{\"hooks\":[{sound}]}}],\n  \"{other}\":[{{\"hooks\":[{aside}]}}]}}}}"
    ))
}

fn fire(project: &Project) {
    project.pre("Bash", BASH);
    project.post("Bash", BASH, Outcome::completed("x"));
    project.submit("hi");
    project.stop(0, "");
}

fn malformed() -> Vec<String> {
    let group = |handler: &str| format!(r#"{{"hooks":[{handler}]}}"#);
    vec![
        r#"{"matcher":"Bash"}"#.into(),
        r#"{"matcher":null,"hooks":[]}"#.into(),
        r#"{"matcher":5,"hooks":[]}"#.into(),
        r#"{"matcher":{"type":"always"},"hooks":[]}"#.into(),
        r#"{"hooks":{}}"#.into(),
        r#"{"type":"command","command":"echo flat"}"#.into(),
        r#""Bash""#.into(),
        group(r#"{"type":"weird","command":"x"}"#),
        group(r#"{"command":"x"}"#),
        group(r#"{"type":"command"}"#),
        group(r#"{"type":"command","command":5}"#),
        group(r#"{"type":"command","command":"x","timeout":0}"#),
        group(r#"{"type":"command","command":"x","timeout":-1}"#),
        group(r#"{"type":"command","command":"x","timeout":"5"}"#),
        group(r#"{"type":"command","command":"x","timeout":null}"#),
        group(r#"{"type":"command","command":"x","args":"a"}"#),
        group(r#"{"type":"command","command":"x","async":"yes"}"#),
        group(r#"{"type":"command","command":"x","shell":"fish"}"#),
        group(r#"{"type":"http"}"#),
        group("7"),
    ]
}

// C-BRIDGE-5
#[test]
fn a_bad_entry_under_pre_tool_use_takes_the_whole_file_with_it() {
    for group in malformed() {
        for event in ["PreToolUse", "PermissionRequest"] {
            let project = broken(event, &group);
            fire(&project);
            assert_eq!((project.lines("sound"), project.lines("aside")), (0, 0), "{event} {group}");
            let reports = project.reports();
            let bad = reports.iter().find(|r| r.code == "hooks/bad-entry").unwrap();
            assert!(bad.hint.is_some(), "{bad}");
            assert_eq!((bad.severity, bad.line), (Severity::Error, Some(4)), "{bad}");
            assert!(reports.iter().any(|r| r.code == "hooks/file-rejected"), "{reports:?}");
        }
    }
}

// C-BRIDGE-5
#[test]
fn elsewhere_it_is_dropped_alone() {
    for group in malformed() {
        for event in ["Stop", "PostToolUse"] {
            let project = broken(event, &group);
            fire(&project);
            assert_eq!((project.lines("sound"), project.lines("aside")), (1, 1), "{event} {group}");
            let reports = project.reports();
            assert_eq!(reports.len(), 1, "{reports:?}");
            assert_eq!((reports[0].code, reports[0].line), ("hooks/bad-entry", Some(4)));
            assert!(reports[0].file.as_ref().unwrap().ends_with(".claude/settings.json"));
        }
    }
}

#[test]
fn an_event_that_is_no_list_counts_as_a_bad_entry() {
    let file = |event: &str| {
        let stop = command("echo ran >> aside");
        Project::new(&format!(r#"{{"hooks":{{"{event}":{{"hooks":[]}},"Stop":[{{"hooks":[{stop}]}}]}}}}"#))
    };
    let (strict, lenient) = (file("PreToolUse"), file("PostToolUse"));
    fire(&strict);
    fire(&lenient);
    assert_eq!((strict.lines("aside"), lenient.lines("aside")), (0, 1));
}

// C-BRIDGE-5
#[test]
fn a_file_that_is_no_json_is_ignored_and_the_others_load() {
    for (text, line, says) in [
        ("{ not json", 1, "not JSON"),
        ("{\n  // a comment\n  \"hooks\": {}\n}", 2, "comments"),
        ("{\n  \"hooks\": {},\n}", 2, "comma"),
        ("{\"hooks\": {}} extra", 1, "not JSON"),
        ("", 1, "ends in the middle"),
        ("[]", 1, "must hold an object"),
        ("{\"hooks\":\n []}", 2, "object of events"),
    ] {
        let project = Project::hook("Stop", "echo ran >> main");
        fs::write(project.path().join(".claude/settings.local.json"), text).unwrap();
        fire(&project);
        assert_eq!(project.lines("main"), 1, "{text}");
        let [report] = &project.reports()[..] else { panic!("one report for {text}") };
        assert_eq!((report.severity, report.line), (Severity::Error, Some(line)), "{report}");
        assert!(
            report.to_string().contains(says) && report.to_string().contains("settings.local.json"),
            "{report}"
        );
    }
    // A byte order mark and bytes that are no UTF-8 are no reason.
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend_from_slice(br#"{"x":"#);
    bytes.extend_from_slice(b"\"\xff\",");
    bytes.extend_from_slice(
        br#""hooks":{"Stop":[{"hooks":[{"type":"command","command":"echo ran >> main"}]}]}}"#,
    );
    let project = Project::new("");
    fs::write(project.path().join(".claude/settings.json"), bytes).unwrap();
    fire(&project);
    assert_eq!((project.lines("main"), project.reports().len()), (1, 0));
}

#[test]
fn no_file_is_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    let (hooks, reports) = portcullis_hooks::ClaudeHooks::load(dir.path());
    assert!(hooks.is_empty() && reports.is_empty());
}

fn codes(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(|report| report.code).collect()
}

// C-BRIDGE-5
#[test]
fn what_does_not_run_is_named() {
    let project = Project::new(
        r#"{"hooks":{
            "Setup":[{"hooks":[{"type":"command","command":"a"}]}],
            "PreToolUze":[{"hooks":"anything"}],
            "Stop":[{"hooks":[
                                {"type":"prompt","prompt":"$ARGUMENTS"},
                {"type":"agent","prompt":"p"},
                {"type":"mcp_tool","server":"s","tool":"t"},
                {"type":"command","command":"b","async":true,"asyncRewake":true},
                {"type":"command","command":"c","shell":"powershell"},
                {"type":"command","command":"d","if":"Bash"}]}],
            "PreToolUse":[
                {"matcher":"Bash(","hooks":[{"type":"command","command":"e"}]},
                {"hooks":[{"type":"command","command":"f","if":"Bash("},
                          {"type":"command","command":"g","timeout":5000},
                          {"type":"command","command":"h","once":true,"wibble":1,"statusMessage":"…"}]}]},
          "permissions":{"deny":["Bash(rm *)","WebFetch(domain:x)"]}}"#,
    );
    let (table, reports) = project.load();
    assert_eq!(
        codes(&reports),
        [
            "hooks/event-not-run",
            "hooks/unknown-event",
            "hooks/handler-not-run",
            "hooks/bad-condition",
            "hooks/bad-matcher",
            "hooks/bad-condition",
            "hooks/long-timeout",
            "hooks/once",
            "hooks/permissions",
            // What this host cannot do is known when the files are read.
            "hooks/handler-not-run",
            "hooks/handler-not-run",
            "hooks/handler-not-run",
        ]
    );
    assert_eq!(reports[0].line, Some(2));
    assert_eq!(reports[1].hint.as_deref(), Some("did you mean PreToolUse?"));
    assert!(reports[4].message.contains("`Bash(`"));
    assert!(
        reports.iter().all(|report| report.severity != Severity::Error || report.code == "hooks/permissions")
    );
    // Of the rest, two run, and the one that nobody waits for.
    let input =
        Proposed::new(project.scene(), key(), "c".into(), spec("Bash"), Frozen::arguments(BASH).unwrap());
    assert_eq!(table.plan::<Rewrite>(&input).len(), 2);
    assert_eq!(table.plan::<TurnContinuation>(&Ending::new(project.scene(), 0, "".into())).len(), 1);
}

#[test]
fn matchers_choose_by_tool_and_by_source_and_are_ignored_elsewhere() {
    let hooks = |event: &str, matcher: &str| {
        let run = command("echo ran >> ran");
        Project::new(&format!(r#"{{"hooks":{{"{event}":[{{"matcher":"{matcher}","hooks":[{run}]}}]}}}}"#))
    };
    for (event, matcher, runs) in [
        ("PreToolUse", "Bash|Write", 1),
        ("PreToolUse", "Write", 0),
        ("PostToolUse", "^B", 1),
        ("Stop", "Bash", 1),
        ("UserPromptSubmit", "nothing", 1),
    ] {
        let project = hooks(event, matcher);
        fire(&project);
        assert_eq!(project.lines("ran"), runs, "{event} {matcher}");
    }
    for (matcher, startup, resume) in [
        ("startup", 1, 0),
        ("startup|clear|compact", 1, 0),
        ("startup|resume", 1, 1),
        ("Startup", 0, 0),
        ("rewind", 0, 0),
        ("*", 1, 1),
    ] {
        let project = hooks("SessionStart", matcher);
        let (a, b) = (project.start(StartSource::Startup), project.start(StartSource::Resume));
        assert_eq!((a.decisions.len(), b.decisions.len()), (startup, resume), "{matcher}");
        assert_eq!(
            codes(&project.reports()).contains(&"hooks/no-such-start"),
            startup + resume == 0,
            "{matcher}"
        );
    }
    // The hooks that put back what a summary has lost, and those of a fork.
    for (matcher, source) in [("compact", StartSource::Compact), ("fork", StartSource::Fork)] {
        let project = hooks("SessionStart", matcher);
        let (a, b) = (project.start(source), project.start(StartSource::Startup));
        assert_eq!((a.decisions.len(), b.decisions.len()), (1, 0), "{matcher}");
        assert_eq!(codes(&project.reports()), [""; 0], "{matcher}");
    }
}

// C-BRIDGE-1
#[test]
fn equal_handlers_run_once_as_last_defined() {
    let hook = |text: &str, more: &str| format!(r#"{{"type":"command","command":"{text}"{more}}}"#);
    let group = |matcher: &str, hooks: &[String]| {
        format!(r#"{{"matcher":"{matcher}","hooks":[{}]}}"#, hooks.join(","))
    };
    let file = |groups: &[String]| format!(r#"{{"hooks":{{"PreToolUse":[{}]}}}}"#, groups.join(","));
    let a = hook("echo a >> ran", r#","timeout":1"#);
    let b = hook("echo b >> ran", "");
    let later = hook("echo a >> ran", r#","timeout":20"#);
    let project =
        Project::new(&file(&[group("Bash", &[a.clone(), b]), group("*", std::slice::from_ref(&later))]));
    project.pre("Bash", BASH);
    assert_eq!(project.read("ran"), "a\nb\n");
    let (table, _) = project.load();
    let input =
        Proposed::new(project.scene(), key(), "c".into(), spec("Bash"), Frozen::arguments(BASH).unwrap());
    let planned = table.plan::<Rewrite>(&input);
    assert!(planned[0].id.handler.starts_with("PreToolUse:*#"));
    // Another tool, another set.
    let input =
        Proposed::new(project.scene(), key(), "c".into(), spec("Read"), Frozen::arguments("{}").unwrap());
    assert_eq!(table.plan::<Rewrite>(&input).len(), 1);
    // White space and conditions make a difference, files do not.
    let spaced = hook("echo a  >> ran", "");
    let conditional = hook("echo a >> ran", r#","if":"Bash(ls)""#);
    let project = Project::new(&file(&[group("", &[a, spaced, conditional])]));
    fs::write(project.path().join(".claude/settings.local.json"), file(&[group("", &[later])])).unwrap();
    project.pre("Bash", BASH);
    assert_eq!(project.lines("ran"), 3);
}

#[test]
fn conditions_are_asked_for_each_call() {
    let project = Project::with("PreToolUse", "echo ran >> ran", r#","if":"Bash(git commit:*)""#);
    project.pre("Bash", r#"{"command":"npm test"}"#);
    assert_eq!(project.lines("ran"), 0);
    project.pre("Bash", r#"{"command":"cd x && git commit -m y"}"#);
    assert_eq!(project.lines("ran"), 1);
}

#[test]
fn layers_add_up_in_order_and_count_only_where_the_host_says_so() {
    let project = Project::hook("Stop", "echo project >> ran");
    let file = |name: &str, text: &str| {
        let file = project.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    };
    let stop = |word: &str| {
        format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{}]}}]}}}}"#, command(&format!("echo {word} >> ran")))
    };
    file(".claude/settings.local.json", &stop("local"));
    file("home/.claude/settings.json", &stop("user"));
    let flag = file("flag.json", &stop("flag"));
    let managed = file("managed.json", &stop("managed"));
    file("plug/hooks/hooks.json", &stop("plugin"));
    let bare = file(
        "bare/hooks/hooks.json",
        r#"{"Stop":[{"hooks":[{"type":"command","command":"echo bare >> ran"}]}]}"#,
    );
    project.stop(0, "");
    assert_eq!(project.read("ran"), "project\nlocal\n");
    fs::remove_file(project.path().join("ran")).unwrap();
    let (home, plug) = (project.path().join("home"), project.path().join("plug"));
    let plugins = |layers: Layers| {
        layers
            .plugin(PluginLayer::new("plug", plug.clone()))
            .plugin(PluginLayer::new("bare", bare.parent().unwrap()).file(bare.clone()))
    };
    let all = plugins(Layers::default().user_home(home).flag(flag).managed(managed));
    let project = project.options(|o| o.layers(all));
    project.stop(0, "");
    assert_eq!(project.read("ran"), "user\nproject\nlocal\nflag\nmanaged\nplugin\n");
    assert_eq!(codes(&project.reports()), ["hooks/no-hooks-key"]);
    // A file that the host named must be there.
    let project = project.options(|o| o.layers(Layers::default().flag("/nowhere/flag.json")));
    assert_eq!(codes(&project.reports()), ["hooks/unreadable"]);
}

#[test]
fn off_switches() {
    let stop = |word: &str, more: &str| {
        format!(r#"{{{more}"hooks":{{"Stop":[{{"hooks":[{}]}}]}}}}"#, command(&format!("echo {word} >> ran")))
    };
    let off = r#""disableAllHooks":true,"#;
    let on = r#""disableAllHooks":false,"#;
    let only = r#""allowManagedHooksOnly":true,"#;
    for (user, project, local, managed, ran) in [
        ("", off, "", "", "managed\n"),
        ("", "", off, "", "managed\n"),
        (off, "", "", "", "managed\n"),
        (off, on, "", "", "user\nproject\nlocal\nmanaged\n"),
        ("", "", "", off, ""),
        ("", "", "", only, "managed\n"),
        // The administrator's word is the last one, also for `false`.
        ("", off, "", on, "user\nproject\nlocal\nmanaged\n"),
        (only, "", "", "", "user\nproject\nlocal\nmanaged\n"),
    ] {
        let it = Project::new(&stop("project", project));
        let at = |name: &str| it.path().join(name);
        fs::create_dir_all(at("home/.claude")).unwrap();
        fs::write(at("home/.claude/settings.json"), stop("user", user)).unwrap();
        fs::write(at(".claude/settings.local.json"), stop("local", local)).unwrap();
        fs::write(at("managed.json"), stop("managed", managed)).unwrap();
        let layers = Layers::default().user_home(at("home")).managed(at("managed.json"));
        let it = it.options(|o| o.layers(layers));
        it.stop(0, "");
        assert_eq!(
            fs::read_to_string(it.path().join("ran")).unwrap_or_default(),
            ran,
            "{user} {project} {local} {managed}"
        );
        assert_eq!(it.reports().iter().any(|r| r.code == "hooks/disabled"), !ran.contains("user"));
    }
}

// C-DUR-1: half of a decision's key.
#[test]
fn names_depend_on_the_definition_alone() {
    let hook = |text: &str| command(text);
    let names = |text: &str| -> Vec<String> {
        // The bridge's own observer has no limit.
        let rows = Project::new(text).load().0.introspect();
        let hooks = rows.iter().filter(|row| !row.native);
        hooks.map(|row| row.id.handler.to_string()).collect()
    };
    let one =
        names(&format!(r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Bash","hooks":[{}]}}]}}}}"#, hook("x")));
    let two = names(&format!(
        r#"{{"hooks":{{"Stop":[{{"hooks":[{}]}}],"PreToolUse":[{{"matcher":"Bash","hooks":[{},{}]}},{{"matcher":"Read","hooks":[{},{}]}}]}}}}"#,
        hook("s"),
        hook("w"),
        hook("x"),
        hook("x"),
        hook("x")
    ));
    assert_eq!(two.len(), 5);
    assert_eq!(two[1], one[0]);
    let distinct: std::collections::HashSet<_> = two.iter().collect();
    assert_eq!(distinct.len(), 5);
}

// C-SEAM-6
#[test]
fn introspection_shows_every_handler() {
    let project = Project::new(
        r#"{"hooks":{
            "PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"a","timeout":2.5,"onFailure":"block","if":"Bash(git *)"}]}],
            "PostToolUseFailure":[{"hooks":[{"type":"command","command":"b"}]}],
            "UserPromptSubmit":[{"matcher":"ignored","hooks":[{"type":"command","command":"c"}]}]}}"#,
    );
    let rows = |table: &Table| -> Vec<_> {
        let rows = table.introspect().into_iter();
        let row = |row: Registered| {
            (row.point, row.matches.to_string(), row.on_failure.to_string(), row.limit_ms, row.native)
        };
        rows.map(row).collect()
    };
    let (table, _) = project.load();
    let hooks = [
        (Point::PromptSubmit, "UserPromptSubmit".into(), "proceeds".into(), Some(30_000), false),
        (Point::Rewrite, "PreToolUse Bash if Bash(git *)".into(), "blocks".into(), Some(2_500), false),
        (Point::PostExecute, "PostToolUseFailure".into(), "proceeds".into(), Some(600_000), false),
    ];
    let observer = |point| (point, "*".into(), "reported".into(), None, true);
    // Who looks at the files, who starts hooks that nobody waits for, and who keeps the transcript for them.
    let looks = (Point::TurnStart, "* depth=0..=0".into(), "reported".into(), Some(5_000), true);
    let mut all = vec![looks];
    all.extend(hooks[..2].to_vec());
    all.push(observer(Point::Asked));
    all.push(hooks[2].clone());
    all.extend([Point::TurnEnd, Point::TurnEnd, Point::SessionEnd].map(observer));
    assert_eq!(rows(&table), all);
    let (once, _) = project.options(Options::read_once).load();
    let mut all = hooks.to_vec();
    all.extend([Point::TurnEnd, Point::SessionEnd].map(observer));
    assert_eq!(rows(&once), all);
    assert!(table.is_bare::<SessionStart>() && table.is_bare::<TurnContinuation>());
}

// C-BRIDGE-8
#[test]
fn permissions_become_a_guard_and_an_ask() {
    let project = Project::new(
        r#"{"permissions":{"deny":["Bash(rm *)","Read(./secrets/**)"],"ask":["Bash(git push:*)"],"allow":["Bash"]}}"#,
    );
    let (table, reports) = project.load();
    assert!(reports.is_empty());
    let call = |tool: &str, arguments: &str| {
        let frozen = Frozen::arguments(arguments).unwrap();
        let token = Mint::new(7).root();
        Execution::new(
            token.id(),
            None,
            project.scene(),
            key(),
            "c".into(),
            spec(tool),
            frozen.clone(),
            frozen,
        )
    };
    let guard = &table.guards().next().unwrap().run;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (tool, arguments, denied, asks) in [
        ("Bash", r#"{"command":"rm -rf x"}"#, true, false),
        ("Bash", r#"{"command":"cd x; rm y"}"#, true, false),
        ("Bash", r#"{"command":"echo rm"}"#, false, false),
        ("Bash", r#"{"command":"git push origin"}"#, false, true),
        ("Read", r#"{"file_path":"secrets/key"}"#, true, false),
        ("Read", r#"{"file_path":"open/key"}"#, false, false),
    ] {
        let call = call(tool, arguments);
        let verdict = guard.check(&call);
        assert_eq!(verdict.is_some(), denied, "{arguments}");
        let gate = &table.plan::<PreExecute>(&call)[0];
        let reply = runtime.block_on(gate.run.decide(call)).unwrap();
        assert_eq!(matches!(reply.decision, Gate::Ask { .. }), asks, "{arguments}");
    }
}

#[test]
fn one_of_several_denies_and_all_have_run() {
    let project = Project::new(&format!(
        r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{},{},{}]}}]}}}}"#,
        command("echo 1 >> ran"),
        command("echo 2 >> ran; exit 2"),
        command("echo 3 >> ran")
    ));
    let seen = project.pre("Bash", BASH);
    let words: Vec<_> = seen.decisions.iter().map(|decision| gate(decision).0).collect();
    assert_eq!(words, ["none", "deny", "none"]);
    assert_eq!(project.read("ran"), "1\n2\n3\n");
}

#[test]
fn options_do_not_show_what_is_in_the_environment() {
    let shown = format!("{:?}", portcullis_hooks::Options::<Layers>::new().env("TOKEN", "hunter2"));
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"));
}

// C-BRIDGE-5
#[test]
fn what_is_no_plain_file_is_not_read() {
    let project = Project::hook("Stop", "echo ran >> main");
    let local = project.path().join(".claude/settings.local.json");
    fs::create_dir(&local).unwrap();
    assert_eq!(codes(&project.reports()), ["hooks/unreadable"]);
    fs::remove_dir(&local).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &local).unwrap();
    assert_eq!(codes(&project.reports()), ["hooks/unreadable"]);
    project.stop(0, "");
    assert_eq!(project.lines("main"), 1);
}

#[test]
fn variables_of_a_file_are_texts() {
    let project = Project::new(
        r#"{"env":{"N":1.50,"B":true,"S":"a b","OTEL_X":"1","L":[],"A=B":"x","":"y"},
            "hooks":{"Stop":[{"hooks":[{"type":"command","command":"env > seen"}]}]}}"#,
    );
    project.stop(0, "");
    let seen = project.read("seen");
    let has = |line: &str| seen.lines().any(|found| found == line);
    assert!(has("N=1.50") && has("B=true") && has("S=a b"));
    assert!(!seen.contains("OTEL_X") && !seen.lines().any(|line| line.starts_with("L=")));
    assert_eq!(codes(&project.reports()), ["hooks/bad-env"; 3]);
}
