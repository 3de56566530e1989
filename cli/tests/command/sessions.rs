//! Which session a run is in, and what it is sent.

use crate::support::{Project, kinds};
use rustix::process::Signal;

const ONE: &str = r#"{"turns": [{"prompt": "first", "steps": [{"text": "one"}]}]}"#;
const TWO: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"text": "one"}]},
    {"prompt": "second", "steps": [{"expect": {"contains": "one"}, "text": "two"}]}
]}"#;

#[test]
fn each_run_is_a_session_of_its_own() {
    let project = Project::new(ONE);
    for name in ["run-1", "run-2"] {
        let run = project.run(&["--json"]);
        assert!(run.only("session/created").contains(&format!(r#""id":"{name}""#)), "{}", run.out);
    }
}

#[test]
fn a_named_session_goes_on_and_is_not_sent_again_what_it_has() {
    let project = Project::new(ONE);
    let first = project.run(&["--json", "--session", "demo"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    project.run(&["--session", "demo"]).refused(&["demo was sent every prompt", "leave --session out"]);

    project.model(TWO);
    let more = project.run(&["--json", "--session", "demo"]);
    assert_eq!(more.code, Some(0), "{}{}", more.out, more.err);
    assert!(more.only("prompt/queued").contains("second"));
    let records = more.records();
    assert_eq!(records[0].kind, "session/resumed");
    assert_eq!(records[0].seq, first.records().len() as u64, "the log goes on without a gap");
}

// C-DUR-3: killed in its turn, the session is continued in the same turn.
#[test]
fn a_killed_run_is_continued_where_it_was() {
    let project =
        Project::new(r#"{"turns": [{"prompt": "first", "steps": [{"text": "one", "delay_ms": 600000}]}]}"#);
    let live = project.until("model/requested", &["--session", "demo"]);
    live.signal(Signal::KILL);
    assert_eq!(live.done().code, None);
    project.model(ONE);
    let again = project.run(&["--json", "--session", "demo"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    let records = again.records();
    assert_eq!(
        kinds(&records).iter().filter(|kind| matches!(**kind, "prompt/queued" | "turn/start")).count(),
        0,
        "the same prompt, the same turn"
    );
    assert_eq!(records.last().unwrap().kind, "turn/end");
}
