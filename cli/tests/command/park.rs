//! A question that outlives the process: `run --detach-on-ask`, `answer`, `resume` (C-DUR-4, C-ASK-1, 2, 3).

use crate::support::{Done, Project, done, kinds};
use portcullis::{Batch, Body, Claim, Journal, RequestId, Seq, SessionId, sqlite::SqliteJournal};
use std::sync::Arc;

const MODEL: &str = r#"{"turns": [
    {"prompt": "go", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "echo shipped >> out"}}]},
        {"expect": {"last_role": "user"}, "text": "Done."}
    ]},
    {"prompt": "and again", "steps": [{"text": "Again."}]}
]}"#;
const ASK: &str = r#"echo x >> asked; echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse",
    "permissionDecision": "ask", "permissionDecisionReason": "shipping is final"}}'"#;
const REQUEST: &str = "run-1:1/1/0";

fn parked() -> Project {
    let project = Project::new(MODEL).hook("PreToolUse", ASK);
    let run = project.run(&["--detach-on-ask"]);
    assert_eq!(run.code, Some(3), "{}{}", run.out, run.err);
    for part in ["run-1 waits for an answer", REQUEST, "Bash: shipping is final", "answer", "allow"] {
        assert!(run.last_line().contains(part), "there is no {part:?} in {}", run.out);
    }
    assert_eq!(lines(&project, "out"), 0);
    project
}

fn lines(project: &Project, file: &str) -> usize {
    std::fs::read_to_string(project.path().join(file)).map_or(0, |text| text.lines().count())
}

fn command(project: &Project, mode: &str, args: &[&str]) -> Done {
    done(&mut project.command(mode, args))
}

// That very call goes on, once: the model does not repeat it, and no hook is run again.
#[test]
fn an_answer_from_another_process_lets_the_call_go_on() {
    let project = parked();
    let list = project.log(&["--json"]).out;
    let row = format!(r#""last_end":"open","open_questions":1,"waits":["{REQUEST}"]"#);
    assert!(list.contains(&row), "{list}");
    let list = project.log(&[]).out;
    assert!(list.contains("portcullis answer") && list.contains(&format!("{REQUEST} allow")), "{list}");
    assert!(!list.contains("resume"), "a turn that waits for an answer goes on with one: {list}");
    assert_eq!(project.verify(&[]).code, Some(0), "{}", project.verify(&[]).out);

    let answer = command(&project, "answer", &[REQUEST, "allow", "--json"]);
    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    let records = answer.records();
    assert_eq!(kinds(&records)[0], "session/resumed");
    assert!(!kinds(&records).contains(&"input/requested"), "nothing is asked twice");
    assert!(answer.only("input/resolved").contains(r#""resolution":"allowed""#));
    assert_eq!((lines(&project, "out"), lines(&project, "asked")), (1, 1));
    assert!(answer.out.contains("and again"), "what is left of the script is sent");

    command(&project, "answer", &[REQUEST, "allow"]).refused(&[REQUEST, "settled already", "allowed"]);
    assert_eq!(lines(&project, "out"), 1);
    command(&project, "resume", &[]).refused(&["no session was left with its turn open"]);
    command(&project, "resume", &["run-1"]).refused(&["run-1 has nothing left to do"]);
    assert_eq!(project.verify(&[]).code, Some(0), "{}", project.verify(&[]).out);
}

// C-DUR-8: an answer that is sent again under its name is told how it went; any other one is refused.
#[test]
fn an_answer_sent_again_is_the_same_answer() {
    let project = parked();
    for _ in 0..2 {
        let answer = command(&project, "answer", &[REQUEST, "allow", "--id", "first"]);
        assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    }
    command(&project, "answer", &[REQUEST, "allow", "--id", "second"]).refused(&["settled already"]);
    command(&project, "answer", &[REQUEST, "allow", "--id", ""]).refused(&["no name for a command"]);
    assert_eq!(lines(&project, "out"), 1);
    let log = project.log(&["run-1", "--json"]);
    assert_eq!(log.out.matches(r#""key":"first""#).count(), 1, "{}", log.out);
}

// C-ASK-1: an answer may say which arguments it is about, and counts for no others.
#[test]
fn an_answer_to_other_arguments_is_refused() {
    let project = parked();
    let asked = project.log(&["run-1", "--json"]);
    let asked = asked.only("input/requested");
    let digest =
        asked.split(r#""digest":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("a digest");
    let answer = |digest: &str| command(&project, "answer", &[REQUEST, "allow", "--digest", digest]);
    for other in ["0000", "", &format!("{digest}0")] {
        answer(other).refused(&["other arguments", digest]);
    }
    assert_eq!(lines(&project, "out"), 0);
    let answer = answer(&digest[..12].to_uppercase());
    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    assert_eq!(lines(&project, "out"), 1);
}

/// The project's journal, as if its question had been asked with a time that is over.
fn overdue(project: &Project) {
    let file = project.path().join(".portcullis/journal.db");
    let session = SessionId::new("run-1").unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let journal = SqliteJournal::open(&file).unwrap();
        let mut records = journal.read(&session, Seq(0), 1_000).await.unwrap();
        drop(journal);
        for record in &mut records {
            if let Body::InputRequested(asked) = &mut Arc::make_mut(record).body {
                asked.expires = Some(1_000);
            }
        }
        for file in ["journal.db", "journal.db-wal", "journal.db-shm"] {
            // The last two are there only while somebody has it open.
            let _ = std::fs::remove_file(project.path().join(".portcullis").join(file));
        }
        let journal = SqliteJournal::open(&file).unwrap();
        let mut own = journal.claim(&session, 1, Claim::CreateOrOpen).await.unwrap();
        let batch = Batch { records, opens: vec![RequestId::from_text(REQUEST)], ..Batch::default() };
        journal.append(&mut own, batch).unwrap().wait().await.unwrap();
        journal.release(own).await.unwrap();
    });
}

// C-ASK-3: an answer that comes after the question has expired is not taken; the session goes on without it.
#[test]
fn an_answer_after_its_time_is_not_taken() {
    let project = parked();
    overdue(&project);
    let answer = command(&project, "answer", &[REQUEST, "allow", "--json"]);
    assert_eq!(answer.code, Some(1), "{}{}", answer.out, answer.err);
    assert!(
        answer.err.contains("the answer was not taken") && answer.err.contains("expired"),
        "{}",
        answer.err
    );
    assert!(answer.only("input/resolved").contains(r#""resolution":"expired""#));
    assert_eq!(lines(&project, "out"), 0);
    assert!(answer.out.contains("and again"), "it goes on");
}

#[test]
fn a_denial_says_why_and_nothing_runs() {
    let project = parked();
    let answer = command(&project, "answer", &[REQUEST, "deny", "--reason", "not on a Friday"]);
    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    assert!(answer.last_line().contains("run-1 completed"), "{}", answer.out);
    let log = project.log(&["run-1", "--json"]);
    assert!(log.only("tool/result").contains("not on a Friday"));
    assert_eq!(lines(&project, "out"), 0);
}

#[test]
fn an_answer_to_nothing_is_refused() {
    let project = parked();
    command(&project, "answer", &["run-1:9/9/9", "allow"]).refused(&["run-1:9/9/9", "these wait", REQUEST]);
    command(&project, "answer", &[REQUEST, "allow", "--reason", "but gently"]).refused(&["no conditions"]);
    assert_eq!(command(&project, "answer", &[REQUEST, "perhaps"]).code, Some(2));
    let log = project.log(&["run-1", "--json"]);
    assert!(!kinds(&log.records()).contains(&"input/resolved"), "the question is still open");
    let none = Project::new(MODEL);
    command(&none, "answer", &[REQUEST, "allow"]).refused(&["has no sessions yet"]);
    command(&none, "resume", &[]).refused(&["has no sessions yet"]);
    assert!(!none.path().join(".portcullis").exists(), "nothing was begun");
}

#[test]
fn a_session_is_resumed_with_its_question_open() {
    let project = parked();
    let resumed = command(&project, "resume", &[]);
    assert_eq!(
        resumed.code,
        Some(3),
        "without a terminal the question stays: {}{}",
        resumed.out,
        resumed.err
    );
    assert!(resumed.last_line().contains(REQUEST));
    let resumed = command(&project, "resume", &["run-1", "--yes", "--json"]);
    assert_eq!(resumed.code, Some(0), "{}{}", resumed.out, resumed.err);
    assert!(!kinds(&resumed.records()).contains(&"input/requested"));
    assert_eq!((lines(&project, "out"), lines(&project, "asked")), (1, 1));
    command(&project, "resume", &["run-2"]).refused(&["no session `run-2`", "run-1"]);
}

// What runs beside the call that asks is waited for: leaving cuts nothing off.
#[test]
fn leaving_cuts_no_body_off() {
    let model = r#"{"turns": [{"prompt": "go", "steps": [
        {"calls": [
            {"name": "Read", "input": {"file_path": "model.json"}},
            {"name": "Read", "input": {"file_path": "model.json", "limit": 1}}
        ]},
        {"text": "Done."}
    ]}]}"#;
    let only = r#"case "$(cat)" in *limit*) echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "permissionDecision": "ask"}}';; esac"#;
    let project = Project::new(model).hook("PreToolUse", only);
    let run = project.run(&["--detach-on-ask", "--json"]);
    assert_eq!(run.code, Some(3), "{}{}", run.out, run.err);
    let answer = command(&project, "answer", &["run-1:1/1/1", "allow", "--json"]);
    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    let log = project.log(&["run-1", "--json"]).out;
    assert_eq!(log.matches(r#""type":"tool/dispatched""#).count(), 2, "each ran once: {log}");
    assert_eq!(log.matches("outcome_unknown").count(), 0);
}
