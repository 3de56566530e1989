//! What keeps a run from starting: exit code 2, a sentence, and what to do. And what does not.

use crate::support::{Project, done, portcullis};
use rustix::process::Signal;

const TEXT: &str = r#"{"turns": [{"prompt": "go", "steps": [{"text": "Done."}]}]}"#;
const SLOW: &str = r#"{"turns": [{"prompt": "go", "steps": [{"text": "Done.", "delay_ms": 600000}]}]}"#;

#[test]
fn help_names_the_modes_and_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["log", "--help"],
        &["answer", "--help"],
        &["resume", "--help"],
    ] {
        let help = done(portcullis().args(args));
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
        assert!(help.out.contains("Usage: portcullis"), "{}", help.out);
    }
    let help = done(portcullis().arg("--help")).out;
    assert!(
        help.contains("run") && help.contains("log") && help.contains("Exit codes: 0 every turn completed"),
        "{help}"
    );
    let flags = done(portcullis().args(["run", "--help"])).out;
    for flag in ["--model <FILE>", "--yes", "--json", "--session <NAME>"] {
        assert!(flags.contains(flag), "{flags}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    assert_eq!(done(&mut portcullis()).code, Some(2));
    done(portcullis().args(["run"])).refused(&["<DIR>"]);
    done(portcullis().args(["run", "x", "--jsn"])).refused(&["--json"]);
}

#[test]
fn a_missing_directory() {
    done(portcullis().args(["run", "no/such/dir"])).refused(&["no/such/dir", "give the directory"]);
    let project = Project::new(TEXT);
    done(portcullis().arg("run").arg(project.path().join("model.json"))).refused(&["it is a file"]);
}

#[test]
fn a_missing_or_bad_script() {
    let project = Project::new(TEXT);
    project.run(&["--model", "no-such.json"]).refused(&["no-such.json", "--model FILE"]);
    project.model(r#"{"turns": [{"prompt": "go", "stepz": []}]}"#);
    project.run(&[]).refused(&["model.json", "stepz", "docs/scripted-model.md"]);
    project.model(r#"{"turns": [{"steps": [{"text": "to whom?"}]}]}"#);
    project.run(&[]).refused(&["turn 1 of", "no prompt"]);
    assert!(!project.path().join(".portcullis").exists(), "nothing was begun");
}

#[test]
fn a_bad_session_name() {
    Project::new(TEXT).run(&["--session", "../x"]).refused(&["`../x` is not a session name"]);
}

#[test]
fn a_second_process_on_the_same_journal() {
    let project = Project::new(SLOW);
    let live = project.until("model/requested", &[]);
    project.run(&[]).refused(&["journal.db", "in use by process", "portcullis log"]);
    // Reading is no matter of ownership.
    let log = project.log(&["--json"]);
    assert_eq!((log.code, log.err.as_str()), (Some(0), ""));
    assert!(
        log.out.contains(r#""session":"run-1","turns":1,"#) && log.out.contains(r#""last_end":"open""#),
        "{}",
        log.out
    );
    live.signal(Signal::INT);
    assert_eq!(live.done().code, Some(1));
    // It has gone, so the next one may.
    project.model(TEXT);
    assert_eq!(project.run(&[]).code, Some(0));
}

// C-BRIDGE-5: what is wrong with a hook file is told with its place, and stops nothing.
#[test]
fn a_broken_settings_file_is_told_and_the_run_goes_on() {
    let project = Project::new(TEXT).settings("{\n  \"hooks\": {,\n}");
    let run = project.run(&[]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains(".claude/settings.json:2: error: this file is not JSON"), "{}", run.err);
    assert_eq!(run.err.matches("settings.json").count(), 1, "told once: {}", run.err);
}

#[test]
fn hooks_that_do_not_run_are_told() {
    let event =
        r#"{"hooks": {"PreToolUze": [], "Setup": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#;
    let run = Project::new(TEXT).settings(event).run(&["--json"]);
    assert_eq!(run.code, Some(0));
    assert!(run.err.contains("did you mean PreToolUse?") && run.err.contains("Setup"), "{}", run.err);
    assert_eq!(run.records().last().unwrap().kind, "turn/end", "stdout has records only");
}

#[test]
fn what_a_terminal_would_obey_does_not_reach_it() {
    let model = r#"{"turns": [{"prompt": "go", "steps": [
        {"text": "\u001b[2Jgone", "calls": [{"name": "Bash", "input": {"command": "printf '\\033]0;title\\007'"}}]},
        {"text": "Done."}
    ]}]}"#;
    let run = Project::new(model).run(&[]);
    assert_eq!(run.code, Some(0), "{}", run.out);
    assert!(run.out.contains("\\u{1b}[2Jgone") && run.out.contains("\\u{1b}]0;title"), "{}", run.out);
    assert!(!run.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", run.out);
}
