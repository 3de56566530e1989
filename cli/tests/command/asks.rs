//! Questions to a person: on a terminal, in advance, or to nobody (C-ASK-1, C-ASK-2).

use crate::support::{Project, done, portcullis};
use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

const MODEL: &str = r#"{"turns": [{"prompt": "go", "steps": [
    {"calls": [{"name": "Bash", "input": {"command": "echo shipped > out"}}]},
    {"expect": {"last_role": "user"}, "text": "Done."}
]}]}"#;
const ASK: &str = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse",
    "permissionDecision": "ask", "permissionDecisionReason": "shipping is final"}}'"#;

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn project() -> Project {
    Project::new(MODEL).hook("PreToolUse", ASK)
}

fn shipped(project: &Project) -> bool {
    project.path().join("out").exists()
}

/// A run on a terminal of its own.
struct Terminal {
    keys: File,
    screen: Arc<(Mutex<String>, Condvar)>,
    child: Child,
}

impl Terminal {
    fn run(project: &Project, args: &[&str], colours: bool) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        let mut command = portcullis();
        command.arg("run").arg(project.path()).args(args).env("TERM", "xterm");
        if !colours {
            command.env("NO_COLOR", "1");
        }
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keys = File::from(ours);
        let mut read = keys.try_clone().unwrap();
        let screen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let written = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error means that the other side is gone.
            while let Ok(count @ 1..) = read.read(&mut bytes) {
                written.0.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
                written.1.notify_all();
            }
        });
        Terminal { keys, screen, child }
    }

    #[track_caller]
    fn sees(&self, text: &str) -> String {
        let (screen, changed) = &*self.screen;
        let seen = screen.lock().unwrap();
        let (seen, time) = changed.wait_timeout_while(seen, PATIENCE, |seen| !seen.contains(text)).unwrap();
        assert!(!time.timed_out(), "never saw {text:?} but\n{seen}");
        seen.clone()
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

const QUESTION: &str = "y, or n and why: ";

#[test]
fn a_person_allows_the_call() {
    let project = project();
    let mut terminal = Terminal::run(&project, &[], false);
    let seen = terminal.sees(QUESTION);
    for part in ["Bash wants to run", r#"{"command":"echo shipped > out"}"#, "shipping is final"] {
        assert!(seen.contains(part), "there is no {part:?} in\n{seen}");
    }
    assert!(!shipped(&project), "nothing runs before the answer");
    terminal.types("maybe\n");
    terminal.sees("Please type y");
    assert!(!shipped(&project));
    terminal.types("y\n");
    let seen = terminal.sees("run-1 completed");
    assert!(seen.contains("✓ allowed  by you"), "{seen}");
    assert!(!seen.contains('\x1b'), "NO_COLOR is respected: {seen:?}");
    assert_eq!(terminal.code(), Some(0));
    assert!(shipped(&project));
}

// C-DUR-8: the question is on a terminal, and somebody answers it from another one, by way of the session's inbox.
#[test]
fn an_answer_from_another_process_settles_the_question_on_the_terminal() {
    let project = project();
    let mut terminal = Terminal::run(&project, &[], false);
    terminal.sees(QUESTION);
    let other = ["run-1:1/1/0", "allow", "--digest", "00"];
    done(&mut project.command("answer", &other)).refused(&["other arguments", "theirs is"]);
    let answered = done(&mut project.command("answer", &["run-1:1/1/0", "allow", "--id", "theirs"]));
    assert_eq!(answered.code, Some(0), "{}{}", answered.out, answered.err);
    assert!(answered.out.contains("run-1 took it: record"), "{}", answered.out);
    // Its acknowledgement was lost, say: the same answer again is the same answer.
    let again = done(&mut project.command("answer", &["run-1:1/1/0", "allow", "--id", "theirs"]));
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    terminal.sees("run-1 completed");
    assert_eq!(terminal.code(), Some(0));
    assert!(shipped(&project));
    let log = project.log(&["run-1", "--json"]);
    assert!(
        log.out.contains(r#""type":"input/resolved","v":1,"turn":1,"step":1,"call":[0],"key":"theirs""#),
        "{}",
        log.out
    );
}

#[test]
fn a_person_refuses_and_the_model_reads_why() {
    let project = project();
    let mut terminal = Terminal::run(&project, &[], true);
    terminal.sees(QUESTION);
    terminal.types("n, not on a Friday\n");
    let seen = terminal.sees("run-1 completed");
    assert!(seen.contains("not on a Friday") && seen.contains('\x1b'), "a terminal gets colours: {seen:?}");
    assert_eq!(terminal.code(), Some(0));
    assert!(!shipped(&project));
    let log = project.log(&["run-1", "--json"]);
    assert!(log.only("tool/result").contains("approval_refused"));
    assert!(log.only("tool/result").contains("not on a Friday"));
    assert!(log.only("input/resolved").contains(r#""resolution":"refused""#));
}

// What was typed before the question was shown answers something else.
#[test]
fn an_answer_before_the_question_is_none() {
    let project = project().settings(&format!(
        r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "command", "command": {}}}]}}]}}}}"#,
        serde_json::to_string(&format!("touch started; while [ ! -e go ]; do sleep 0.05; done; {ASK}"))
            .unwrap()
    ));
    let mut terminal = Terminal::run(&project, &[], false);
    while !project.path().join("started").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    terminal.types("y\n");
    std::fs::write(project.path().join("go"), "").unwrap();
    terminal.sees(QUESTION);
    terminal.types("n\n");
    terminal.sees("run-1 completed");
    assert_eq!(terminal.code(), Some(0));
    assert!(!shipped(&project));
}

#[test]
fn with_yes_nobody_is_asked() {
    let project = project();
    let run = project.run(&["--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.only("input/resolved").contains(r#""resolution":"allowed""#));
    assert!(shipped(&project));
}

#[test]
fn without_a_terminal_the_call_is_denied() {
    let project = project();
    let run = project.run(&["--json"]);
    assert_eq!(run.code, Some(0), "the turn itself completes: {}{}", run.out, run.err);
    assert!(run.only("input/resolved").contains(r#""resolution":"unavailable""#));
    assert!(run.only("tool/result").contains("there is no one to ask"));
    assert!(!shipped(&project));
}

// C-DUR-3: a question outlives the process that asked it, under the same name.
#[test]
fn a_question_left_open_is_answered_by_the_next_run() {
    let project = project();
    let mut terminal = Terminal::run(&project, &["--session", "demo"], false);
    terminal.sees(QUESTION);
    terminal.child.kill().unwrap();
    terminal.code();
    let list = project.log(&["--json"]).out;
    assert!(list.contains(r#""last_end":"open","open_questions":1"#), "{list}");

    let again = project.run(&["--session", "demo", "--yes", "--json"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert!(!again.out.contains("input/requested"), "nothing is asked twice");
    assert!(shipped(&project));
}
