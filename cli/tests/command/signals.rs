//! Ctrl-C: the first cancels the turn, the second leaves it open (C-TURN-9).

use crate::support::{Project, kinds};
use rustix::process::Signal;

#[test]
fn the_first_signal_cancels_the_turn() {
    let project = Project::new(
        r#"{"turns": [
            {"prompt": "go", "steps": [{"text": "never", "delay_ms": 600000}]},
            {"prompt": "on", "steps": [{"text": "never"}]}
        ]}"#,
    );
    for (signal, by) in [(Signal::INT, r#""kind":"user""#), (Signal::TERM, r#""kind":"runtime""#)] {
        let live = project.until("model/requested", &[]);
        live.signal(signal);
        let run = live.done();
        assert_eq!(run.code, Some(1), "{}", run.err);
        let end = run.only("turn/end");
        assert!(end.contains(r#""kind":"aborted""#) && end.contains(by), "{end}");
        assert_eq!(run.records().last().unwrap().kind, "turn/end", "the second prompt was not sent");
    }
    let log = project.log(&["run-1"]).out;
    assert!(log.contains("aborted     cancelled by you"), "{log}");
}

// C-LOG-4: a cancelled call has its result.
#[test]
fn a_running_command_is_ended_and_answered() {
    let project = Project::new(
        r#"{"turns": [{"prompt": "go", "steps": [
            {"calls": [{"name": "Bash", "input": {"command": "echo $$ > pid; exec sleep 600"}}]},
            {"text": "never"}
        ]}]}"#,
    );
    let live = project.until("tool/dispatched", &[]);
    let pid = loop {
        match std::fs::read_to_string(project.path().join("pid")) {
            Ok(pid) if pid.ends_with('\n') => break pid.trim().parse().unwrap(),
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    live.signal(Signal::INT);
    let run = live.done();
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.only("tool/result").contains(r#""kind":"cancelled""#));
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the command is gone");
}

#[test]
fn the_second_signal_leaves_the_turn_open_to_be_continued() {
    // It does not hear TERM, so a cancel takes its time.
    let deaf = r#"{"turns": [{"prompt": "go", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "trap '' TERM; while :; do sleep 1; done"}}]},
        {"text": "never"}
    ]}]}"#;
    let project = Project::new(deaf);
    let mut live = project.until("tool/dispatched", &["--session", "demo"]);
    live.signal(Signal::INT);
    live.wait_for("turn/cancelled");
    live.signal(Signal::INT);
    let run = live.done();
    assert_eq!(run.code, Some(1), "{}", run.err);
    let kinds_seen = run.records();
    if !kinds(&kinds_seen).contains(&"turn/end") {
        assert!(
            run.err.contains("the turn is open in the log") && run.err.contains("--session demo"),
            "{}",
            run.err
        );
    }
    // Whether it was left open or the cancel was quicker: the session is whole, and its turn ends aborted.
    project.run(&["--session", "demo"]);
    let log = project.log(&["demo", "--json"]);
    assert!(log.only("turn/end").contains(r#""kind":"aborted""#), "{}", log.out);
    assert!(log.only("tool/result").contains("outcome"));
}
