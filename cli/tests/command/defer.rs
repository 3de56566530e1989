//! A call that a hook defers: the run leaves it, `resume` and `answer … resume` take it up again (C-BRIDGE-9, C-DUR-4, 8).

use crate::support::{Done, Project, done, kinds};

const MODEL: &str = r#"{"turns": [
    {"prompt": "go", "steps": [
        {"calls": [
            {"name": "Bash", "input": {"command": "echo shipped >> out"}},
            {"name": "Bash", "input": {"command": "echo beside >> beside"}}
        ]},
        {"expect": {"last_role": "user"}, "text": "Done."}
    ]},
    {"prompt": "and again", "steps": [{"text": "Again."}]}
]}"#;
/// Defers the first of the two until there is a file.
const LATER: &str = r#"case "$(cat)" in *shipped*) echo x >> judged; [ -e ready ] ||
    echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer",
    "permissionDecisionReason": "the build is not done"}}';; esac"#;
const FIRST: &str = "run-1:1/1/0";
const SECOND: &str = "run-1:1/1/0@2";

fn lines(project: &Project, file: &str) -> usize {
    std::fs::read_to_string(project.path().join(file)).map_or(0, |text| text.lines().count())
}

fn command(project: &Project, mode: &str, args: &[&str]) -> Done {
    done(&mut project.command(mode, args))
}

fn deferred() -> Project {
    let project = Project::new(MODEL).hook("PreToolUse", LATER);
    // Somebody to ask is not needed: nobody is asked.
    let run = project.run(&[]);
    assert_eq!(run.code, Some(3), "{}{}", run.out, run.err);
    for part in ["run-1 waits with a deferred call", FIRST, "Bash: the build is not done", "resume"] {
        assert!(run.last_line().contains(part), "there is no {part:?} in {}", run.out);
    }
    assert!(run.out.contains("‖ deferred"), "{}", run.out);
    assert_eq!(
        (lines(&project, "out"), lines(&project, "beside")),
        (0, 1),
        "the other call of the step runs"
    );
    project
}

fn ready(project: &Project) {
    std::fs::write(project.path().join("ready"), "").unwrap();
}

// The hooks of that very call run again, and decide anew: defer once more, and in the end let it run, once.
#[test]
fn resume_has_the_hooks_decide_anew() {
    let project = deferred();
    let list = project.log(&[]).out;
    assert!(list.contains(&format!("{FIRST} resume")) && !list.contains("allow"), "{list}");
    let log = project.log(&["run-1", "--json"]);
    assert!(log.only("input/requested").contains(r#""deferred":true"#));
    assert_eq!(project.verify(&[]).code, Some(0), "{}", project.verify(&[]).out);

    // Coming back without wishing to go on leaves it as it is.
    let run = project.run(&["--session", "run-1"]);
    assert_eq!((run.code, lines(&project, "judged")), (Some(3), 1), "{}{}", run.out, run.err);

    let resumed = command(&project, "resume", &["--json"]);
    assert_eq!(resumed.code, Some(3), "{}{}", resumed.out, resumed.err);
    assert!(resumed.only("input/requested").contains(&format!(r#""request":"{SECOND}""#)));
    assert_eq!((lines(&project, "out"), lines(&project, "judged")), (0, 2));

    ready(&project);
    let resumed = command(&project, "resume", &["run-1"]);
    assert_eq!(resumed.code, Some(0), "{}{}", resumed.out, resumed.err);
    for part in ["↻ resumed", "Done.", "and again", "run-1 completed"] {
        assert!(resumed.out.contains(part), "there is no {part:?} in {}", resumed.out);
    }
    assert_eq!((lines(&project, "out"), lines(&project, "judged"), lines(&project, "beside")), (1, 3, 1));
    let log = project.log(&["run-1", "--json"]);
    let results = kinds(&log.records()).into_iter().filter(|kind| *kind == "tool/result").count();
    assert_eq!(results, 2, "one a call: {}", log.out);
    assert_eq!(project.verify(&[]).code, Some(0), "{}", project.verify(&[]).out);
    let replay = project.logs("replay", &["run-1"]);
    assert_eq!(replay.code, Some(0), "{}{}", replay.out, replay.err);
}

// C-DUR-8: one call is resumed by its name, under a name of its own: sent again, it is told how it went.
#[test]
fn answer_resumes_one_call_by_its_name() {
    let project = deferred();
    command(&project, "answer", &[FIRST, "allow"]).refused(&["is deferred", "resume"]);
    command(&project, "answer", &[FIRST, "resume", "--reason", "now"]).refused(&["no conditions"]);
    command(&project, "answer", &[FIRST, "resume", "--digest", "0000"]).refused(&["other arguments"]);
    ready(&project);
    for _ in 0..2 {
        let answer = command(&project, "answer", &[FIRST, "resume", "--id", "back"]);
        assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    }
    command(&project, "answer", &[FIRST, "resume", "--id", "other"])
        .refused(&[FIRST, "its call was resumed"]);
    assert_eq!((lines(&project, "out"), lines(&project, "judged")), (1, 2));
    let log = project.log(&["run-1", "--json"]);
    assert_eq!(log.out.matches(r#""key":"back""#).count(), 1, "{}", log.out);
}

// A question is answered, and not resumed.
#[test]
fn a_question_is_not_resumed() {
    let ask =
        r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}'"#;
    let project = Project::new(MODEL).hook("PreToolUse", ask);
    assert_eq!(project.run(&["--detach-on-ask"]).code, Some(3));
    command(&project, "answer", &[FIRST, "resume"]).refused(&["is a question", "allow"]);
}

// C-DUR-8: beside the process that has the session, it goes by way of the inbox.
#[test]
fn beside_a_live_run_it_is_resumed_by_the_inbox() {
    let model = MODEL.replace("echo beside >> beside", "until [ -e over ]; do sleep 0.02; done");
    let project = Project::new(&model).hook("PreToolUse", LATER);
    let live = project.until("tool/dispatched", &[]);
    ready(&project);
    let answer = command(&project, "answer", &[FIRST, "resume", "--id", "back"]);
    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    assert!(
        answer.out.contains("it waits in the inbox"),
        "the other call of the step is still at it: {}",
        answer.out
    );
    std::fs::write(project.path().join("over"), "").unwrap();
    let run = live.done();
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let again = command(&project, "answer", &[FIRST, "resume", "--id", "back"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert_eq!((lines(&project, "out"), lines(&project, "judged")), (1, 2));
}

// C-TURN-9: a turn that waits is cancelled by way of the inbox, too; what was deferred does not run.
#[test]
fn a_turn_that_waits_is_cancelled() {
    let project = deferred();
    assert_eq!(command(&project, "cancel", &["run-1"]).code, Some(0));
    ready(&project);
    let resumed = command(&project, "resume", &["run-1"]);
    assert_eq!(resumed.code, Some(1), "{}{}", resumed.out, resumed.err);
    assert_eq!(lines(&project, "out"), 0);
    let log = project.log(&["run-1", "--json"]).out;
    assert!(
        log.contains(r#""kind":"cancelled_before_dispatch""#) && log.contains(r#""kind":"aborted""#),
        "{log}"
    );
}
