//! `portcullis what-if`.

use crate::support::{Done, Project, done};
use std::fs;

const MODEL: &str = r#"{"turns": [{"prompt": "first", "steps": [
    {"calls": [{"name": "Bash", "input": {"command": "echo a"}}]},
    {"calls": [{"name": "Bash", "input": {"command": "echo b"}}]},
    {"calls": [{"name": "Bash", "input": {"command": "echo c"}}]},
    {"text": "done"}
]}]}"#;

/// Denies the calls in whose payload this occurs; writes down that it ran.
fn denies(what: &str) -> String {
    format!("echo ran >> ran.txt; if grep -q '{what}'; then echo 'not that' >&2; exit 2; fi")
}

fn settings(command: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "command", "command": {command}}}]}}]}}}}"#)
}

fn what_if(project: &Project, settings: &str, args: &[&str]) -> Done {
    let file = project.path().join("other.json");
    fs::write(&file, settings).unwrap();
    let mut command = project.command("what-if", &["run-1", "--hooks", file.to_str().unwrap()]);
    done(command.args(args))
}

#[test]
fn one_that_denies_one_more_call_shows_that_call_and_what_followed_is_unknown() {
    let project = Project::new(MODEL);
    assert_eq!(project.run(&[]).code, Some(0));
    let before = project.stored("run-1");
    let judged = what_if(&project, &settings(&denies("echo b")), &[]);
    assert_eq!(judged.code, Some(1), "{}{}", judged.out, judged.err);
    assert!(judged.err.contains("what-if RUNS the hooks of"), "{}", judged.err);
    let of = |word: &str| judged.out.lines().filter(|line| line.starts_with(word)).collect::<Vec<_>>();
    let differs = of("DIFFERS");
    assert_eq!(differs.len(), 1, "{}", judged.out);
    assert!(differs[0].contains("1/2/0  PreToolUse  Bash echo b"), "{}", judged.out);
    let lines: Vec<&str> = judged.out.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("DIFFERS")).unwrap();
    assert_eq!(lines[at + 1].trim(), "was  allow");
    assert!(lines[at + 2].trim().starts_with("now  deny by claude/PreToolUse:*#"), "{}", judged.out);
    assert!(lines[at + 2].contains("not that"), "{}", judged.out);
    assert!(of("same").iter().any(|line| line.contains("echo a")), "{}", judged.out);
    assert!(
        of("unknown").iter().any(|line| line.contains("PreToolUse  Bash echo c: was allow")),
        "{}",
        judged.out
    );
    assert!(lines.last().unwrap().starts_with("1 decision would be another one"), "{}", judged.out);
    assert!(!project.path().join("ran.txt").exists(), "they ran in a copy");
    assert_eq!(project.stored("run-1"), before, "the log is only read");

    let json = what_if(&project, &settings(&denies("echo b")), &["--json"]);
    assert_eq!(json.code, Some(1));
    let differing: Vec<&str> =
        json.out.lines().filter(|line| line.contains(r#""status":"differs""#)).collect();
    assert_eq!(differing.len(), 1, "{}", json.out);
    assert!(
        differing[0]
            .starts_with(r#"{"turn":1,"step":2,"call":[0],"event":"PreToolUse","about":"Bash echo b""#)
    );
    assert!(
        differing[0].contains(r#""was":{"decision":"allow"},"now":{"decision":"deny","reason":""#),
        "{}",
        json.out
    );
    assert!(
        json.out.contains(r#""status":"unknown","was":{"decision":"allow"},"now":null}"#),
        "{}",
        json.out
    );
}

#[test]
fn the_same_hooks_decide_the_same() {
    let project = Project::new(MODEL).settings(&settings(&denies("echo b")));
    assert_eq!(project.run(&[]).code, Some(0));
    fs::remove_file(project.path().join("ran.txt")).unwrap();
    let same = what_if(&project, &settings(&denies("echo b")), &["--in-place"]);
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.err);
    assert!(
        same.out.lines().all(|line| line.starts_with("same") || line.starts_with("nothing would")),
        "{}",
        same.out
    );
    assert!(same.err.contains("in the project itself"), "{}", same.err);
    assert_eq!(fs::read_to_string(project.path().join("ran.txt")).unwrap().lines().count(), 3);
    // Without any, the denied call would have run.
    let none = what_if(&project, "{}", &[]);
    assert_eq!(none.code, Some(1));
    assert!(none.out.contains("now  allow"), "{}", none.out);
}

#[test]
fn permission_rules_and_other_events_count_too() {
    let project = Project::new(MODEL);
    project.run(&[]);
    let rules = what_if(&project, r#"{"permissions": {"deny": ["Bash(echo c)"]}}"#, &[]);
    assert_eq!(rules.code, Some(1), "{}{}", rules.out, rules.err);
    assert!(rules.out.contains("DIFFERS  1/3/0  PreToolUse  Bash echo c"), "{}", rules.out);
    let blocks = r#"{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}}"#;
    let blocked = what_if(&project, blocks, &[]);
    assert!(blocked.out.contains("DIFFERS  1/0  UserPromptSubmit  first\n"), "{}", blocked.out);
    let again =
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo 'go on' >&2; exit 2"}]}]}}"#;
    let forced = what_if(&project, again, &[]);
    assert!(forced.out.contains("DIFFERS  1/4  Stop"), "{}", forced.out);
    assert!(forced.out.contains("now  continue"), "{}", forced.out);
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let project = Project::new(MODEL);
    project.run(&[]);
    let of = |args: &[&str]| done(&mut project.command("what-if", args));
    of(&["run-7", "--hooks", "x.json"]).refused(&["no session `run-7`"]);
    of(&["run-1", "--hooks", "nowhere.json"]).refused(&["there is no hook file nowhere.json"]);
}
