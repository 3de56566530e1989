//! Projects in temporary directories, runs of the binary, and its records read back.

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A project of its own.
pub(crate) struct Project {
    dir: TempDir,
}

/// What a finished run left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Project {
    /// With this script.
    pub(crate) fn new(model: &str) -> Project {
        let project = Project { dir: TempDir::new().unwrap() };
        project.model(model);
        project
    }

    /// A copy of a directory.
    pub(crate) fn copy(of: &Path) -> Project {
        let project = Project { dir: TempDir::new().unwrap() };
        copy(of, project.path());
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn model(&self, model: &str) {
        fs::write(self.path().join("model.json"), model).unwrap();
    }

    /// With these settings, to the letter.
    pub(crate) fn settings(self, settings: &str) -> Project {
        fs::create_dir_all(self.path().join(".claude")).unwrap();
        fs::write(self.path().join(".claude/settings.json"), settings).unwrap();
        self
    }

    /// With one hook, a shell command.
    pub(crate) fn hook(self, event: &str, command: &str) -> Project {
        let command = serde_json::to_string(command).unwrap();
        let settings = format!(
            r#"{{"hooks": {{"{event}": [{{"hooks": [{{"type": "command", "command": {command}}}]}}]}}}}"#
        );
        self.settings(&settings)
    }

    /// `portcullis MODE DIR ARGS…`, without a terminal.
    pub(crate) fn command(&self, mode: &str, args: &[&str]) -> Command {
        let mut command = portcullis();
        command.arg(mode).arg(self.path()).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        done(&mut self.command("run", args))
    }

    pub(crate) fn log(&self, args: &[&str]) -> Done {
        done(&mut self.command("log", args))
    }

    pub(crate) fn verify(&self, args: &[&str]) -> Done {
        let mut command = portcullis();
        command.args(["log", "verify"]).arg(self.path()).args(args);
        done(&mut command)
    }

    /// `portcullis log MODE DIR ARGS…`.
    pub(crate) fn logs(&self, mode: &str, args: &[&str]) -> Done {
        let mut command = portcullis();
        command.args(["log", mode]).arg(self.path()).args(args);
        done(&mut command)
    }

    /// A session's records as the file holds them.
    pub(crate) fn stored(&self, session: &str) -> Vec<String> {
        let file = rusqlite::Connection::open(self.path().join(".portcullis/journal.db")).unwrap();
        let mut read = file.prepare("SELECT record FROM records WHERE session = ?1 ORDER BY seq").unwrap();
        let rows = read.query_map([session], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Changes the journal behind its back.
    pub(crate) fn damage(&self, sql: &str) {
        let file = self.path().join(".portcullis/journal.db");
        let changed = rusqlite::Connection::open(file).unwrap().execute(sql, []).unwrap();
        assert!(changed > 0, "nothing was changed by {sql}");
    }

    /// Starts `run --json ARGS…` and reads its records up to the first of this type.
    pub(crate) fn until(&self, kind: &str, args: &[&str]) -> Live {
        let mut command = self.command("run", &["--json"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut live = Live { child, out, read: String::new() };
        live.wait_for(kind);
        live
    }
}

/// A run that is under way.
pub(crate) struct Live {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    read: String,
}

impl Live {
    /// Reads on to a record of this type.
    pub(crate) fn wait_for(&mut self, kind: &str) {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended before any {kind}:\n{}", self.read);
            self.read.push_str(&line);
            if records(&line)[0].kind == kind {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// To its end.
    pub(crate) fn done(mut self) -> Done {
        self.out.read_to_string(&mut self.read).unwrap();
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Done { code: self.child.wait().unwrap().code(), out: self.read, err }
    }
}

impl Done {
    pub(crate) fn last_line(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }

    pub(crate) fn records(&self) -> Vec<Line> {
        records(&self.out)
    }

    /// The data of the only record of this type.
    pub(crate) fn only(&self, kind: &str) -> String {
        let records = self.records();
        let mut found = records.iter().filter(|record| record.kind == kind);
        let record = found.next().unwrap_or_else(|| panic!("there is no {kind} in\n{}", self.out));
        assert!(found.next().is_none(), "there is more than one {kind} in\n{}", self.out);
        record.data.get().to_owned()
    }

    /// It could not start, and says why in one sentence that has all of these in it.
    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        for part in parts {
            assert!(self.err.contains(part), "there is no {part:?} in {}", self.err);
        }
    }
}

/// A line of `--json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) data: Box<RawValue>,
}

pub(crate) fn records(out: &str) -> Vec<Line> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    out.lines().map(read).collect()
}

pub(crate) fn kinds(records: &[Line]) -> Vec<&str> {
    records.iter().map(|record| record.kind.as_str()).collect()
}

/// The binary, without a terminal and without this process's own settings for it.
pub(crate) fn portcullis() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("PORTCULLIS_LOG");
    command
}

pub(crate) fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/first-session")
}

/// All but what a run leaves there.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if name == ".portcullis" || name == "workspace" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
