//! `portcullis log fork` and `log diff`.

use crate::support::{Project, records};
use std::fs;

const MODEL: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"calls": [{"name": "Bash", "input": {"command": "echo a"}}]}, {"text": "one"}]},
    {"prompt": "second", "steps": [{"text": "two"}]}
]}"#;
const OTHERWISE: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"calls": [{"name": "Bash", "input": {"command": "echo a"}}]}, {"text": "one"}]},
    {"prompt": "third", "steps": [{"text": "three"}]}
]}"#;

// C-DUR-7, C-BRIDGE-1: hooks are told `fork`, as the client tells them with --fork-session.
#[test]
fn a_fork_goes_on_with_run_and_its_hooks_are_told() {
    let starts = "cat >> starts.jsonl";
    let project = Project::new(MODEL).hook("SessionStart", starts);
    assert_eq!(project.run(&[]).code, Some(0));
    let parent = project.stored("run-1");
    let forked = project.logs("fork", &["run-1", "--at", "1"]);
    assert_eq!(forked.code, Some(0), "{}", forked.err);
    assert!(forked.out.starts_with("run-1-fork-1  forked from run-1; `"), "{}", forked.out);
    assert!(forked.out.trim_end().ends_with("--session run-1-fork-1` goes on"), "{}", forked.out);
    project.model(OTHERWISE);
    let run = project.run(&["--session", "run-1-fork-1", "--json"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    assert!(run.only("prompt/queued").contains("third"), "what the copy holds is not sent again");
    assert_eq!(run.only("turn/end"), r#"{"reason":{"kind":"completed"}}"#);
    let kinds: Vec<String> = run.records().into_iter().map(|record| record.kind).collect();
    assert!(!kinds.iter().any(|kind| kind == "session/resumed"), "{kinds:?}");
    let told = fs::read_to_string(project.path().join("starts.jsonl")).unwrap();
    let sources: Vec<&str> = told.lines().map(|line| line.split(r#""source":""#).nth(1).unwrap()).collect();
    assert!(sources[0].starts_with("startup") && sources[1].starts_with("fork"), "{told}");
    assert_eq!(project.stored("run-1"), parent, "the parent is not changed");
    assert_eq!(project.verify(&[]).code, Some(0));

    let second = project.logs("fork", &["run-1", "--at", "1.1", "--as", "alt"]);
    assert!(second.out.starts_with("alt  forked from run-1"), "{}{}", second.out, second.err);
    let json = project.logs("show", &["alt", "--json"]).out;
    let last = records(&json).pop().unwrap();
    assert_eq!((last.kind.as_str(), last.data.get()), ("turn/end", r#"{"reason":{"kind":"interrupted"}}"#));
    let shown = project.logs("show", &["alt"]).out;
    assert!(shown.contains("it was open where the fork was made"), "{shown}");
    assert!(
        json.starts_with(r#"{"seq":0,"#) && json.contains(r#""seed":{"session":"run-1","seq":"#),
        "{json}"
    );
}

#[test]
fn what_cannot_be_forked_is_refused() {
    let project = Project::new(MODEL);
    project.logs("fork", &["run-1"]).refused(&["no sessions yet"]);
    project.run(&[]);
    project.logs("fork", &["run-7"]).refused(&["no session `run-7`", "run-1"]);
    project.logs("fork", &["run-1", "--at", "9"]).refused(&["cannot be forked at turn 9", "it has 2 turns"]);
    project.logs("fork", &["run-1", "--as", "run-1"]).refused(&["there is a session `run-1`", "see --as"]);
    let usage = project.logs("fork", &["run-1", "--at", "x"]);
    assert!(usage.err.contains("give a turn, such as 2, or a turn and a step, such as 2.1"), "{}", usage.err);
}

#[test]
fn diff_names_the_first_difference_and_counts_them() {
    let project = Project::new(MODEL);
    project.run(&[]);
    project.run(&[]);
    let same = project.logs("diff", &["run-1", "run-2"]);
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.err);
    let records = project.stored("run-1").len();
    assert_eq!(same.out, format!("they say the same, at {records} places\n"));

    project.model(&MODEL.replace("echo a", "echo b"));
    project.run(&[]);
    let differ = project.logs("diff", &["run-1", "run-3"]);
    assert_eq!(differ.code, Some(1), "{}", differ.err);
    let lines: Vec<&str> = differ.out.lines().collect();
    assert!(lines[0].starts_with("they differ at "), "{}", differ.out);
    assert!(lines[0].ends_with("first at turn 1, step 1, assistant/message"), "{}", differ.out);
    assert!(
        lines[1].contains("run-1")
            && lines[1].ends_with(r#"data.blocks[0].arguments: "{\"command\": \"echo a\"}""#),
        "{}",
        differ.out
    );
    assert!(
        lines[2].contains("run-3")
            && lines[2].ends_with(r#"data.blocks[0].arguments: "{\"command\": \"echo b\"}""#),
        "{}",
        differ.out
    );
    assert_eq!(lines.len(), 3);

    let file = project.path().join("one.jsonl");
    project.logs("export", &["run-1", "-o", file.to_str().unwrap()]);
    assert_eq!(project.logs("diff", &[file.to_str().unwrap(), "run-2"]).code, Some(0));
    let json = project.logs("diff", &[file.to_str().unwrap(), "run-3", "--json"]);
    assert_eq!(json.code, Some(1));
    assert!(
        json.out.contains(r#""first":{"place":"turn 1, step 1, assistant/message","left":{"seq":"#),
        "{}",
        json.out
    );
    project.logs("diff", &["run-1", "run-9"]).refused(&["no session `run-9`"]);
    project.logs("diff", &["run-1", "nowhere.jsonl"]).refused(&["nowhere.jsonl cannot be read"]);

    // A fork says what its parent said, and where it came from.
    project.logs("fork", &["run-1", "--as", "alt"]);
    let forked = project.logs("diff", &["run-1", "alt"]);
    assert!(forked.out.starts_with("they differ at 1 place and"), "{}", forked.out);
    assert!(forked.out.contains("data.seed"), "{}", forked.out);
}
