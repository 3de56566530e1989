//! `portcullis log replay`.

use crate::support::{Project, example};
use rustix::process::Signal;
use std::fs;

const NOTHING: &str = "handlers called: 0, processes started: 0";

fn replays(project: &Project, session: &str) -> String {
    let replayed = project.logs("replay", &[session]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.out, replayed.err);
    assert!(
        replayed.out.contains("comes out the same") && replayed.out.contains(NOTHING),
        "{}",
        replayed.out
    );
    replayed.out
}

// C-DUR-7: hooks that deny, rewrite, ask and force on; tools; every record and request anew.
#[test]
fn the_example_comes_out_the_same_and_nothing_is_run_for_it() {
    let project = Project::copy(&example());
    assert_eq!(project.run(&["--yes"]).code, Some(0));
    let before = project.stored("run-1");
    // What it would run is not there any more.
    fs::remove_dir_all(project.path().join(".claude")).unwrap();
    fs::remove_file(project.path().join("model.json")).unwrap();
    let out = replays(&project, "run-1");
    assert!(out.contains(&format!("{} records", before.len())), "{out}");
    assert!(out.contains("in one life") && out.contains("1 human answer"), "{out}");
    assert_eq!(project.stored("run-1"), before, "it only reads");
    let file = project.path().join("run-1.jsonl");
    project.logs("export", &["run-1", "-o", file.to_str().unwrap()]);
    let other = Project::new("{}");
    let json = other.logs("replay", &[file.to_str().unwrap(), "--json"]);
    assert_eq!(json.code, Some(0), "{}{}", json.out, json.err);
    let start = format!(r#"{{"session":"run-1","records":{},"copied":0,"lives":1,"#, before.len());
    assert!(json.out.starts_with(&start), "{}", json.out);
    assert!(json.out.ends_with("\"called\":0,\"processes\":0,\"divergence\":null}\n"), "{}", json.out);
}

// C-DUR-7: a killed session has as many lives as processes; a fork begins where it is its own.
#[test]
fn lives_and_forks_are_played_one_by_one() {
    let slow = r#"{"turns": [{"prompt": "first", "steps": [{"text": "one", "delay_ms": 600000}]}]}"#;
    let quick = r#"{"turns": [{"prompt": "first", "steps": [{"text": "one"}]}, {"prompt": "more", "steps": [{"text": "two"}]}]}"#;
    let project = Project::new(slow);
    let live = project.until("model/requested", &["--session", "demo"]);
    live.signal(Signal::KILL);
    live.done();
    assert!(replays(&project, "demo").contains("in one life"));
    project.model(quick);
    assert_eq!(project.run(&["--session", "demo"]).code, Some(0));
    assert!(replays(&project, "demo").contains("in 2 lives"));
    project.logs("fork", &["demo", "--at", "1", "--as", "alt"]);
    assert_eq!(project.run(&["--session", "alt"]).code, Some(0));
    assert!(replays(&project, "alt").contains("were taken over by the fork and not played"));
}

#[test]
fn a_cancelled_session_comes_out_the_same() {
    let model = r#"{"turns": [{"prompt": "first", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "echo a"}}, {"name": "Bash", "input": {"command": "sleep 60"}}]},
        {"text": "one"}
    ]}]}"#;
    let project = Project::new(model);
    let mut live = project.until("tool/result", &["--session", "demo"]);
    live.wait_for("tool/dispatched");
    live.signal(Signal::INT);
    assert_eq!(live.done().code, Some(1));
    replays(&project, "demo");
}

// C-DUR-7: the first divergence is named, with both sides.
#[test]
fn a_log_that_says_otherwise_is_named_with_its_record() {
    let model = r#"{"turns": [{"prompt": "first", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "echo a"}}]}, {"text": "one"}
    ]}]}"#;
    let project = Project::new(model);
    project.run(&[]);
    let at = project.stored("run-1").iter().position(|line| line.contains("\"tool/result\"")).unwrap();
    let exported = project.logs("export", &["run-1"]).out;
    let other = |(n, line): (usize, &str)| {
        let line = if n == at + 1 { line.replace("\"text\":\"a", "\"text\":\"b") } else { line.to_owned() };
        line + "\n"
    };
    let file = project.path().join("other.jsonl");
    fs::write(&file, exported.lines().enumerate().map(other).collect::<String>()).unwrap();
    let replayed = project.logs("replay", &[file.to_str().unwrap()]);
    assert_eq!(replayed.code, Some(1), "{}", replayed.err);
    let lines: Vec<&str> = replayed.out.lines().collect();
    let first = format!("run-1  comes out otherwise at record {at}; {at} records");
    assert!(lines[0].starts_with(&first), "{}", replayed.out);
    for (line, side, text) in [(lines[1], "recorded", "b"), (lines[2], "replayed", "a")] {
        let says = format!("tool/result, data.content[0].text: \"{text}");
        assert!(line.contains(side) && line.contains(&says), "{}", replayed.out);
    }
    assert!(lines[3].contains(NOTHING), "{}", replayed.out);
    let json = project.logs("replay", &[file.to_str().unwrap(), "--json"]);
    assert_eq!(json.code, Some(1));
    let divergence = format!(r#""divergence":{{"record":{at},"recorded":{{"seq":{at},"#);
    assert!(json.out.contains(&divergence), "{}", json.out);
    project.logs("replay", &["run-7"]).refused(&["no session `run-7`"]);
    let cut = project.path().join("cut.jsonl");
    fs::write(&cut, "{}").unwrap();
    project.logs("replay", &[cut.to_str().unwrap()]).refused(&["no whole exported log"]);
}
