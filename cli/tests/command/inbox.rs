//! Commands for a session that another process has, or nobody (C-DUR-8): `send`, `cancel`.

use crate::support::{Done, Project, done, kinds};
use std::{thread, time::Duration};

const MODEL: &str = r#"{"turns": [
    {"prompt": "go", "steps": [{"text": "Gone."}]},
    {"prompt": "wait", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "touch began; until test -e go-on; do sleep 0.01; done"}}]},
        {"text": "Waited."}
    ]}
]}"#;

fn command(project: &Project, mode: &str, args: &[&str]) -> Done {
    done(&mut project.command(mode, args))
}

fn good(done: Done) -> Done {
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    done
}

// Nobody has the session: it waits on disk, and whoever opens the session takes it, once.
#[test]
fn what_is_sent_to_a_session_that_nobody_has_is_taken_by_the_next_one() {
    let project = Project::new(r#"{"turns": [{"prompt": "go", "steps": [{"text": "Gone."}]}]}"#);
    command(&project, "send", &["run-1", "go"]).refused(&["has no sessions yet", "run"]);
    good(project.run(&[]));
    command(&project, "send", &["run-2", "go"]).refused(&["no session `run-2`", "run-1"]);
    command(&project, "send", &["run-1", ""]).refused(&["nothing to send"]);
    for _ in 0..2 {
        let sent = good(command(&project, "send", &["run-1", "go", "--id", "again"]));
        for part in ["waits in the inbox of run-1", "again", "resume"] {
            assert!(sent.out.contains(part), "there is no {part:?} in {}", sent.out);
        }
    }
    let list = project.log(&[]).out;
    assert!(list.contains("1 command in the inbox of run-1: `") && list.contains("resume"), "{list}");
    assert!(project.log(&["--json"]).out.contains(r#""inbox":1"#));
    // The script goes on with that very prompt: it is not sent twice.
    project.model(r#"{"turns": [{"prompt": "go", "steps": [{"text": "Gone."}]}, {"prompt": "go", "steps": [{"text": "Again."}]}]}"#);
    let taken = good(command(&project, "resume", &["--json"]));
    assert!(taken.out.contains(r#""type":"prompt/queued","v":1,"key":"again""#), "{}", taken.out);
    assert_eq!(kinds(&taken.records()).iter().filter(|kind| **kind == "turn/end").count(), 1);
    let known = good(command(&project, "send", &["run-1", "go", "--id", "again"]));
    assert!(known.out.contains("run-1 took it: record"), "{}", known.out);
    command(&project, "resume", &["run-1"]).refused(&["nothing left to do"]);
}

// Another process has it, and is in the middle of a turn: it takes what it is sent, and goes on.
#[test]
fn what_is_sent_to_a_session_that_another_process_has_reaches_it() {
    let project = Project::new(MODEL);
    let run = project.command("run", &["--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    while !project.path().join("began").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let steered = good(command(&project, "send", &["run-1", "be quick", "--steer", "--id", "s"]));
    assert!(steered.out.contains("run-1 took it: record"), "{}", steered.out);
    good(command(&project, "send", &["run-1", "later", "--id", "l"]));
    command(&project, "cancel", &["run-1", "--prompt", "nobody"]).refused(&["refused it", "no such prompt"]);
    good(command(&project, "cancel", &["run-1", "--prompt", "l"]));
    std::fs::write(project.path().join("go-on"), "").unwrap();
    let out = run.wait_with_output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains(r#""type":"steering/message""#), "{text}");
    assert!(text.contains(r#""type":"session/withdrawn""#), "{text}");
}

// A cancel from another process ends the turn, and the command that runs in it.
#[test]
fn a_cancel_from_another_process_ends_the_turn() {
    let project = Project::new(MODEL);
    let run = project.command("run", &[]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    while !project.path().join("began").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    good(command(&project, "cancel", &["run-1"]));
    let out = run.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("ended aborted"), "{text}");
}
