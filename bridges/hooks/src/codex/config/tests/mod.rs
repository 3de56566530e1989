//! The client's rules for its files, each with files of our own.

mod files;
mod layers;
mod mount;
mod trust;

use super::{
    CodexLayers,
    layers::{Loaded, load},
};
use crate::report::{Report, Severity};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A machine: a user's folder, the system's, and a project.
struct Machine {
    root: tempfile::TempDir,
    layers: CodexLayers,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("project/.git")).unwrap();
        let layers = CodexLayers::default()
            .user(root.path().join("user"))
            .record(root.path().join("config/portcullis/codex-trust.json"));
        Machine { root, layers }
    }

    fn write(self, file: &str, text: &str) -> Machine {
        self.put(file, text);
        self
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn layers(mut self, change: impl FnOnce(CodexLayers, &Path) -> CodexLayers) -> Machine {
        self.layers = change(self.layers, self.root.path());
        self
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    fn load(&self) -> (Loaded, Vec<Report>) {
        self.load_in("project")
    }

    fn load_in(&self, dir: &str) -> (Loaded, Vec<Report>) {
        let mut reports = Vec::new();
        let loaded = load(&self.path(dir), &self.layers, &mut reports);
        (loaded, reports)
    }

    /// The commands of those that run, in their order.
    fn running(&self) -> Vec<String> {
        running(&self.load().0)
    }
}

fn running(loaded: &Loaded) -> Vec<String> {
    loaded.handlers.iter().filter(|placed| placed.runs).map(|placed| placed.handler.line_of_work()).collect()
}

/// `hooks.json` with one hook on one event.
fn hook(event: &str, command: &str) -> String {
    format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"command","command":"{command}"}}]}}]}}}}"#)
}

/// The same as TOML.
fn toml_hook(event: &str, command: &str) -> String {
    format!("[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = \"{command}\"\n")
}

fn codes(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(|report| report.code).collect()
}

fn only<'r>(reports: &'r [Report], code: &str) -> &'r Report {
    let mut found = reports.iter().filter(|report| report.code == code);
    match (found.next(), found.next()) {
        (Some(report), None) => report,
        _ => panic!("one report {code}, not {reports:?}"),
    }
}

/// Where, how bad, and whether it says what to do.
fn gist(report: &Report) -> (Option<usize>, Severity, bool) {
    (report.line, report.severity, report.hint.is_some())
}
