//! `portcullis hooks trust`: what a person sees of the hooks of Codex, and what comes of their word.

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde::Deserialize;
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};
use tempfile::TempDir;

const HOOKS: &str = r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"./gate.sh"}]}],
"Stop":[{"hooks":[{"type":"command","command":"./stop.sh"}]}]}}"#;

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A person with a project, on a machine of their own.
struct Person(TempDir);

impl Person {
    fn new() -> Person {
        let person = Person(TempDir::new().unwrap());
        person.put("codex/config.toml", "# mine\nmodel = \"m\"\n");
        fs::create_dir_all(person.path("project/.git")).unwrap();
        person
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn put(&self, file: &str, text: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), text).unwrap();
    }

    fn config(&self) -> String {
        fs::read_to_string(self.path("codex/config.toml")).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        self.other(&["hooks", "trust"], args)
    }

    /// Another command of the project.
    fn other(&self, mode: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(mode).arg(self.path("project")).args(args);
        command.env("HOME", self.path("home")).env("CODEX_HOME", self.path("codex"));
        command.env("XDG_CONFIG_HOME", self.path("home/.config")).env_remove("PORTCULLIS_LOG");
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn trust(&self, args: &[&str]) -> Done {
        done(self.command(args))
    }

    fn lines(&self) -> Vec<Line> {
        let done = self.trust(&["--json"]);
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn statuses(&self) -> Vec<String> {
        self.lines().into_iter().map(|line| line.status).collect()
    }

    /// The same on a terminal: each answer is typed when its question is shown.
    fn answers(&self, args: &[&str], answers: &[(&str, &str)]) -> (Option<i32>, String) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let mut child = self.command(args).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(theirs);
        let mut terminal = File::from(ours);
        let (mut screen, mut seen, mut waiting) = (String::new(), 0, answers.iter());
        let mut next = waiting.next();
        let mut bytes = [0; 4096];
        // When nobody holds the other end any more, reading fails.
        while let Ok(read @ 1..) = terminal.read(&mut bytes) {
            screen.push_str(&String::from_utf8_lossy(&bytes[..read]));
            while let Some((question, answer)) = next
                && let Some(at) = screen[seen..].find(question)
            {
                seen += at + question.len();
                terminal.write_all(format!("{answer}\n").as_bytes()).unwrap();
                next = waiting.next();
            }
        }
        assert!(next.is_none(), "{next:?} was never asked:\n{screen}");
        (child.wait().unwrap().code(), screen.replace("\r\n", "\n"))
    }
}

fn done(mut command: Command) -> Done {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[derive(Debug, Deserialize)]
struct Line {
    key: String,
    hash: String,
    status: String,
    in_untrusted_project: bool,
    changes: Option<Vec<Difference>>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Difference {
    what: String,
    was: Option<String>,
    is: Option<String>,
}

// C-BRIDGE-1
#[test]
fn a_list_says_what_runs_and_what_waits() {
    let person = Person::new();
    let none = person.trust(&[]);
    assert_eq!(
        (none.code, &*none.out),
        (Some(0), "0 hooks, none of which waits to be trusted\n"),
        "{}",
        none.err
    );
    person.put("codex/hooks.json", HOOKS);
    person.put("project/gate.sh", "");
    let done = person.trust(&[]);
    let file = person.path("codex/hooks.json");
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!((done.code, lines[0]), (Some(1), "untrusted  PreToolUse Bash: ./gate.sh"), "{}", done.out);
    // In one piece, to be copied.
    let key = format!("           {}:pre_tool_use:0:0", file.display());
    assert!(
        lines.contains(&&*key) && lines.contains(&&*format!("           {}", person.lines()[0].hash)),
        "{}",
        done.out
    );
    assert!(lines.contains(&"untrusted  Stop: ./stop.sh"), "{}", done.out);
    assert_eq!(lines.last(), Some(&"2 hooks, 2 of which do not run until they are trusted"));
    assert_eq!(person.config(), "# mine\nmodel = \"m\"\n", "looking writes nothing");
    person.put("codex/hooks.json", "{ // no\n}");
    let broken = person.trust(&[]);
    assert!(broken.err.contains("hooks.json:1: error: this file is not JSON"), "{}", broken.err);
}

// C-BRIDGE-1: one changed byte stops a hook, and what changed is shown.
#[test]
fn what_changed_about_a_hook_is_shown() {
    let person = Person::new();
    person.put("codex/hooks.json", HOOKS);
    assert_eq!(person.trust(&["--all"]).code, Some(0));
    assert_eq!(person.statuses(), ["trusted", "trusted"]);
    assert!(person.config().starts_with("# mine\nmodel = \"m\"\n"));
    person.put("codex/hooks.json", &HOOKS.replace("./gate.sh", "./gate.sh\\u001b[2J -f"));
    let done = person.trust(&["--list"]);
    assert_eq!(done.code, Some(1));
    let shown = "modified   PreToolUse Bash: ./gate.sh\\u{1b}[2J -f\n";
    assert!(done.out.starts_with(shown), "nothing that a terminal obeys: {}", done.out);
    let (was, is) = ("           - command: ./gate.sh\n", "           + command: ./gate.sh\\u{1b}[2J -f\n");
    assert!(done.out.contains(&format!("{was}{is}")), "{}", done.out);
    let lines = person.lines();
    let [change] = &lines[0].changes.as_ref().unwrap()[..] else { panic!("{lines:?}") };
    assert_eq!((&*change.what, change.was.as_deref()), ("command", Some("./gate.sh")));
    assert!(change.is.as_deref().unwrap().ends_with(" -f"));
    // Without what was approved, it still does not run.
    fs::remove_dir_all(person.path("home")).unwrap();
    assert!(person.trust(&[]).out.contains("what it was is not known"));
    assert_eq!((person.lines()[0].changes.as_deref(), &*person.statuses()[0]), (None, "modified"));
}

// C-BRIDGE-1
#[test]
fn a_hook_is_approved_by_its_key_or_its_hash() {
    let person = Person::new();
    person.put("codex/hooks.json", HOOKS);
    let lines = person.lines();
    let done = person.trust(&["--approve", &lines[1].key]);
    assert_eq!(
        (done.code, person.statuses()),
        (Some(1), vec!["untrusted".to_owned(), "trusted".to_owned()]),
        "{}",
        done.out
    );
    assert_eq!(person.trust(&["--approve", &lines[0].hash]).code, Some(0));
    // A hash is of what was seen: whatever stands there now is none of it.
    person.put("codex/hooks.json", &HOOKS.replace("gate", "evil"));
    let done = person.trust(&["--approve", &lines[0].hash]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("there is no hook sha256:") && done.err.contains("--list"), "{}", done.err);
    person.put("codex/config.toml", "model = \n");
    let done = person.trust(&["--all"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("config.toml was left as it is: line 1 is not TOML"), "{}", done.err);
    assert_eq!(person.config(), "model = \n");
}

// C-BRIDGE-1
#[test]
fn hooks_of_a_project_wait_for_it_to_be_trusted() {
    let person = Person::new();
    person.put("project/.codex/hooks.json", HOOKS);
    let done = person.trust(&["--all"]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.contains("--approve-project trusts it"), "{}", done.out);
    assert!(person.lines().iter().all(|line| line.status == "trusted" && line.in_untrusted_project));
    assert_eq!(person.trust(&["--approve-project"]).code, Some(0));
    let project = fs::canonicalize(person.path("project")).unwrap();
    let said = format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", project.display());
    assert!(person.config().contains(&said), "{}", person.config());
}

// C-BRIDGE-1
#[test]
fn on_a_terminal_each_hook_is_asked_about() {
    let person = Person::new();
    person.put("codex/hooks.json", HOOKS);
    let ask = "May it run?";
    let (code, screen) = person.answers(&[], &[(ask, "maybe"), (ask, "n"), (ask, "y")]);
    assert_eq!(code, Some(1), "{screen}");
    assert!(screen.contains("untrusted  PreToolUse Bash: ./gate.sh\n"), "{screen}");
    assert!(screen.ends_with("2 hooks, 1 of which do not run until they are trusted\n"), "{screen}");
    assert_eq!(person.statuses(), ["untrusted", "trusted"]);
    let (code, _) = person.answers(&[], &[(ask, "q")]);
    assert_eq!((code, &*person.statuses()[0]), (Some(1), "untrusted"));
    let (code, _) = person.answers(&["--list"], &[]);
    assert_eq!(code, Some(1));
    let (code, _) = person.answers(&[], &[(ask, "yes")]);
    assert_eq!((code, person.statuses()), (Some(0), vec!["trusted".to_owned(); 2]));
    // The project comes first: without it there is nothing to ask about its hooks.
    person.put("project/.codex/hooks.json", HOOKS);
    let (code, _) = person.answers(&[], &[("Trust it?", "n")]);
    assert_eq!(code, Some(1));
    let (code, screen) = person.answers(&[], &[("Trust it?", "y"), (ask, "y"), (ask, "y")]);
    assert_eq!((code, person.statuses()), (Some(0), vec!["trusted".to_owned(); 4]), "{screen}");
}

#[test]
fn a_plugins_hooks_are_reviewed_with_its_files() {
    let person = Person::new();
    let root = "codex/plugins/cache/market/tool/1.0.0";
    person.put(&format!("{root}/hooks/hooks.json"), HOOKS);
    person.put(&format!("{root}/run.sh"), "1");
    let plugin = format!("tool@market={}", person.path(root).display());
    let done = person.trust(&["--codex-plugin", &plugin, "--all"]);
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert_eq!(person.config(), "# mine\nmodel = \"m\"\n");
    person.put(&format!("{root}/run.sh"), "2");
    let done = person.trust(&["--codex-plugin", &plugin]);
    assert!(
        done.out.contains("           - run.sh: sha256:")
            && done.out.contains("tool@market:hooks/hooks.json:stop:0:0"),
        "{}",
        done.out
    );
}

// C-BRIDGE-1: one changed byte of a command stops that hook in the next session, and the review shows it.
#[test]
fn a_session_runs_what_is_trusted_and_nothing_else() {
    const MODEL: &str = r#"{"turns": [{"prompt": "go", "steps": [
        {"calls": [{"name": "Bash", "input": {"command": "true"}}]}, {"text": "Done."}]}]}"#;
    let hooks = |command: &str| {
        format!(r#"{{"hooks":{{"PreToolUse":[{{"hooks":[{{"type":"command","command":"{command}"}}]}}]}}}}"#)
    };
    let person = Person::new();
    person.put("project/model.json", MODEL);
    person.put("project/.codex/hooks.json", &hooks("echo ran >> ran"));
    let ran = || fs::read_to_string(person.path("project/ran")).unwrap_or_default().lines().count();
    let run = |args: &[&str]| {
        let done = done(person.other(&["run"], args));
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        done.err
    };
    let said = run(&[]);
    assert!(
        said.contains("nobody has said that the project is trusted") && said.contains("hooks trust"),
        "{said}"
    );
    let said = run(&["--trust-project"]);
    assert!(said.contains("has not been trusted"), "{said}");
    assert_eq!((person.trust(&["--all", "--approve-project"]).code, ran()), (Some(0), 0));
    run(&[]);
    assert_eq!(ran(), 1);
    person.put("project/.codex/hooks.json", &hooks("echo Ran >> ran"));
    let said = run(&[]);
    assert!(said.contains("is not what was trusted: `command` changed"), "{said}");
    assert_eq!(ran(), 1);
    assert!(person.trust(&[]).out.contains("- command: echo ran >> ran\n"));
    let said = run(&["--bypass-hook-trust"]);
    assert!(said.contains("1 hook(s) run that nobody has trusted"), "{said}");
    assert_eq!(ran(), 2);
}
