//! `portcullis.toml` and the options that add layers, in every command that runs hooks.

use crate::support::{Done, Project, done, portcullis};
use std::{fs, path::Path};

const MODEL: &str = r#"{"turns": [{"prompt": "first", "steps": [
    {"calls": [{"name": "Bash", "input": {"command": "echo a > made"}}]}, {"text": "done"}
]}]}"#;
const SHADOW: &str = "[hooks]\nshadow = true\n";
const MISTAKE: &str = "[hooks]\nshadow = true\n\nshdow = 1\n";

fn project(overlay: &str) -> Project {
    let project = Project::new(MODEL).hook("PreToolUse", "echo not that >&2; exit 2");
    fs::write(project.path().join("portcullis.toml"), overlay).unwrap();
    project
}

fn hooks(what: &str, project: &Path, args: &[&str]) -> Done {
    let mut command = portcullis();
    done(command.args(["hooks", what]).arg(project).args(args))
}

// C-BRIDGE-3
#[test]
fn in_shadow_the_call_runs_and_the_log_says_what_the_hook_would_have_decided() {
    let project = project(SHADOW);
    let run = project.run(&[]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    assert!(project.path().join("made").exists());
    assert!(run.out.contains("in shadow") && run.out.contains("would answer block"), "{}", run.out);
    assert!(run.out.contains("not that"), "{}", run.out);
    let stored = project.stored("run-1");
    let result = stored.iter().find(|record| record.contains(r#""hook/result""#)).unwrap();
    assert!(result.contains(r#""decision":"block""#), "{result}");
    assert!(result.contains(r#""shadow":{"verdict":"block","reason":"#), "{result}");
    // Without it the call is denied.
    fs::remove_file(project.path().join("made")).unwrap();
    fs::remove_file(project.path().join("portcullis.toml")).unwrap();
    project.run(&[]);
    assert!(!project.path().join("made").exists());
}

#[test]
fn check_shows_what_holds_and_explain_says_what_would_come_of_it() {
    let project = project(
        "[hooks]\nfidelity = \"exact\"\nmax_timeout = 20\n\n[[hook]]\nevent = \"PreToolUse\"\nshadow = true\n",
    );
    let check = hooks("check", project.path(), &[]);
    assert_eq!(check.code, Some(0), "{}", check.out);
    assert!(check.out.contains("(limit 20.0 s, exact, in shadow: it decides nothing)"), "{}", check.out);
    assert!(check.out.lines().any(|line| line.starts_with("overlay ") && line.ends_with("portcullis.toml")));
    let explain = hooks("explain", project.path(), &["--event", "PreToolUse"]);
    assert!(
        explain.out.contains("\ndecision: none") && explain.out.contains("\"shadow\":{"),
        "{}",
        explain.out
    );
    // What is said on the command line comes last.
    let big = r#"{"n":9007199254740993}"#;
    for (args, number) in [(&[][..], "992}"), (&["--fidelity", "strict"], "993}")] {
        let args = [&["--event", "PreToolUse", "--tool", "Odd", "--input", big, "--dry"], args].concat();
        let explain = hooks("explain", project.path(), &args);
        assert!(explain.out.contains(&format!("9007199254740{number}")), "{}", explain.out);
    }
    fs::write(project.path().join("portcullis.toml"), MISTAKE).unwrap();
    let check = hooks("check", project.path(), &[]);
    assert!(check.out.contains("portcullis.toml:4: error: there is no key `shdow`"), "{}", check.out);
    assert_eq!(check.code, Some(1));
}

#[test]
fn nothing_is_started_over_a_mistake() {
    let project = project(MISTAKE);
    let run = project.run(&[]);
    assert_eq!((run.code, run.out.is_empty()), (Some(2), true), "{}", run.out);
    assert!(
        run.err.contains("portcullis.toml:4: error") && run.err.contains("did you mean `shadow`?"),
        "{}",
        run.err
    );
    assert!(!project.path().join(".portcullis").exists() && !project.path().join("made").exists());
    assert_eq!(hooks("explain", project.path(), &["--event", "PreToolUse"]).code, Some(2));
}

#[test]
fn cases_and_what_if_honour_it() {
    let case = Project::new("");
    fs::write(
        case.path().join("case.json"),
        r#"{"id":"c","dialect":"claude","event":"PreToolUse","tool_name":"Bash","tool_input":{"n":9007199254740993},
            "hooks_config":{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"cat > \"${CASE_DIR}/seen\"; grep -q 740992 \"${CASE_DIR}/seen\" && exit 2"}]}]}},
            "expected":{"decision":"deny","handlers_run":1,"strict":{"decision":"none"}}}"#,
    )
    .unwrap();
    let test = |overlay: &str, args: &[&str]| {
        fs::write(case.path().join("portcullis.toml"), overlay).unwrap();
        let done = hooks("test", case.path(), args);
        (done.code, done.out)
    };
    for overlay in ["", "[hooks]\nfidelity = \"exact\""] {
        for args in [&[][..], &["--fidelity", "strict"], &["--fidelity", "exact"]] {
            let (code, out) = test(overlay, args);
            assert_eq!(code, Some(0), "{overlay} {args:?}: {out}");
        }
    }
    let (code, out) = test("[hooks]\nfidelity = \"exact\"\nshadow = true", &[]);
    assert!(code == Some(1) && out.contains("decision"), "{out}");
    let (code, out) = test(MISTAKE, &[]);
    assert!(code == Some(1) && out.contains("no key `shdow`"), "{out}");

    let project = project(SHADOW);
    project.run(&[]);
    let settings = project.path().join(".claude/settings.json");
    let what_if = || done(&mut project.command("what-if", &["run-1", "--hooks", settings.to_str().unwrap()]));
    assert_eq!(what_if().code, Some(0));
    fs::write(project.path().join("portcullis.toml"), "").unwrap();
    assert_eq!(what_if().code, Some(1));
    fs::write(project.path().join("portcullis.toml"), MISTAKE).unwrap();
    assert_eq!(what_if().code, Some(2));
}

#[test]
fn run_takes_the_layers_that_the_options_name() {
    let settings =
        r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"echo more >&2; exit 2"}]}]}}"#;
    let deny = |project: &Project, args: &[&str], env: Option<&Path>| {
        let mut command = project.command("run", args);
        if let Some(home) = env {
            command.env("HOME", home).env_remove("XDG_CONFIG_HOME");
        }
        let run = done(&mut command);
        assert_eq!(run.code, Some(0), "{}", run.err);
        !project.path().join("made").exists() && run.out.contains("more")
    };
    assert!(!deny(&Project::new(MODEL), &[], None));
    assert!(deny(&Project::new(MODEL), &["--settings", settings], None));
    let project = Project::new(MODEL);
    let at = |name: &str| project.path().join(name);
    fs::write(at("more.json"), settings).unwrap();
    fs::create_dir_all(at("plug/hooks")).unwrap();
    fs::write(at("plug/hooks/hooks.json"), settings).unwrap();
    fs::create_dir_all(at("home/.claude")).unwrap();
    fs::write(at("home/.claude/settings.json"), settings).unwrap();
    for option in [["--settings", "more.json"], ["--managed", "more.json"], ["--plugin", "plug"]] {
        let value = at(option[1]);
        assert!(deny(&project, &[option[0], value.to_str().unwrap()], None), "{option:?}");
    }
    assert!(deny(&project, &["--user"], Some(&at("home"))));
    assert!(deny(&project, &["--setting-sources", "user,local"], Some(&at("home"))));
    let own = Project::new(MODEL).settings(settings);
    assert!(deny(&own, &[], None) && deny(&own, &["--setting-sources", "project"], None));
    assert!(!deny(&own, &["--setting-sources", "local"], None));
    // The user's own overlay speaks for them, the project's does not.
    fs::write(at("portcullis.toml"), SHADOW).unwrap();
    assert!(deny(&project, &["--user"], Some(&at("home"))));
    fs::create_dir_all(at("home/.config/portcullis")).unwrap();
    fs::write(at("home/.config/portcullis/portcullis.toml"), SHADOW).unwrap();
    assert!(!deny(&project, &["--user"], Some(&at("home"))));
}
