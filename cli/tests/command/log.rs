//! `portcullis log`.

use crate::support::{Project, done, records};

const MODEL: &str = r#"{"turns": [
    {"prompt": "first", "steps": [{"text": "one"}]},
    {"prompt": "second", "steps": [{"text": "two", "finish": "max_tokens"}]}
]}"#;

#[test]
fn it_lists_the_sessions() {
    let project = Project::new(MODEL);
    project.log(&[]).refused(&["no sessions yet", "portcullis run"]);
    assert_eq!(project.run(&[]).code, Some(1));
    assert_eq!(project.run(&["--session", "alpha"]).code, Some(1));
    let list = project.log(&[]);
    assert_eq!((list.code, list.err.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = list.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["session", "turns", "records", "questions", "last", "turn"]);
    assert_eq!((rows[1][0], rows[1][1], rows[1][3], rows[1][4]), ("alpha", "2", "0", "max_tokens"));
    assert_eq!(rows[2][0], "run-1");
    let json = project.log(&["--json"]).out;
    assert!(json.starts_with(r#"{"session":"alpha","turns":2,"records":"#), "{json}");
    assert!(
        json.lines().all(|line| line.ends_with(r#""last_end":"max_tokens","open_questions":0,"waits":[],"inbox":0}"#)),
        "{json}"
    );
}

#[test]
fn it_shows_a_session() {
    let project = Project::new(MODEL);
    let run = project.run(&["--json"]);
    let shown = project.log(&["run-1", "--json"]);
    assert_eq!((shown.code, shown.out), (Some(0), run.out), "the very lines that the run printed");
    let timeline = project.log(&["run-1"]).out;
    for part in ["you         first", "model       one", "you         second", "max_tokens  the model ran"] {
        assert!(timeline.contains(part), "there is no {part:?} in\n{timeline}");
    }
    project.log(&["run-7"]).refused(&["no session `run-7`", "run-1"]);
    project.log(&["a/b"]).refused(&["is not a session name"]);
}

// C-LOG-1: the log is only read.
#[test]
fn reading_changes_nothing() {
    let project = Project::new(MODEL);
    project.run(&[]);
    let before = project.log(&["run-1", "--json"]).out;
    project.log(&[]);
    assert_eq!(project.log(&["run-1", "--json"]).out, before);
    assert!(!records(&before).is_empty());
}

// C-DUR-9: what is damaged is named with its place, and left as it is.
#[test]
fn verify_says_whether_all_is_as_it_was_written() {
    let project = Project::new(MODEL);
    project.log(&[]).refused(&["no sessions yet"]);
    project.run(&[]);
    project.run(&["--session", "alpha"]);
    let sound = project.verify(&[]);
    assert_eq!(sound.code, Some(0), "{}{}", sound.out, sound.err);
    assert_eq!(sound.out.lines().count(), 2, "{}", sound.out);
    assert!(sound.out.starts_with("alpha  sound, "), "{}", sound.out);
    let one = project.verify(&["run-1", "--json"]);
    assert!(one.out.starts_with(r#"{"session":"run-1","records":"#), "{}", one.out);
    assert!(one.out.trim_end().ends_with(r#""damage":null}"#), "{}", one.out);
    project.verify(&["run-7"]).refused(&["no session `run-7`", "run-1"]);

    project.damage(
        "UPDATE records SET record = replace(record, 'first', 'last\"') WHERE session = 'alpha' AND seq = 2",
    );
    let damaged = project.verify(&[]);
    let lines: Vec<&str> = damaged.out.lines().collect();
    assert_eq!(damaged.code, Some(1), "{}{}", damaged.out, damaged.err);
    assert!(lines[0].starts_with("alpha  damaged at record 2: "), "{}", damaged.out);
    assert!(lines[1].starts_with("run-1  sound, "), "{}", damaged.out);
    assert_eq!(project.verify(&["run-1"]).code, Some(0), "its neighbour is sound");
    let json = project.verify(&["alpha", "--json"]);
    assert_eq!(json.code, Some(1));
    assert!(json.out.contains(r#""records":2,"chained":2,"damage":{"at":2,"why":""#), "{}", json.out);
    // It is on the list beside the others.
    let list = project.log(&[]);
    assert_eq!(list.code, Some(0), "{}{}", list.out, list.err);
    let line = |name: &str| list.out.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("alpha").ends_with("damaged") && line("run-1").ends_with("max_tokens"), "{}", list.out);
    assert!(list.out.contains("alpha` says where its log is damaged"), "{}", list.out);

    project.damage("DELETE FROM records WHERE session = 'run-1' AND seq = 5");
    let gap = project.verify(&["run-1"]);
    assert!(gap.out.starts_with("run-1  damaged at record 5: it is missing"), "{}", gap.out);

    // As a version left it that had no hashes.
    project.run(&["--session", "old"]);
    project.damage("UPDATE records SET hash = NULL WHERE session = 'old'");
    let old = project.verify(&["old"]);
    assert_eq!(old.code, Some(0), "{}", old.out);
    assert!(old.out.contains("of them from before there were hashes"), "{}", old.out);
}

// C-DUR-9: a torn tail is dropped and reported
#[test]
fn a_torn_end_of_the_log_is_said() {
    let project = Project::new(MODEL);
    project.run(&[]);
    let log = project.path().join(".portcullis/journal.db-wal");
    assert!(!log.exists(), "a closed journal is one file");
    std::fs::write(&log, [1; 20]).unwrap();
    let run = project.run(&[]);
    assert!(run.err.contains("was torn: 20 bytes that nobody had been told of"), "{}", run.err);
    assert!(!project.run(&[]).err.contains("torn"), "once");
    for (mode, args) in [("send", ["run-1", "go on"]), ("answer", ["run-1:9", "allow"])] {
        std::fs::write(&log, [1; 20]).unwrap();
        let said = done(&mut project.command(mode, &args)).err;
        assert_eq!(said.matches("was torn: 20 bytes").count(), 1, "{mode}: {said}");
    }
    assert_eq!(project.verify(&[]).code, Some(0));
}
