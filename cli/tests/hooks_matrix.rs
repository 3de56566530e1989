//! The vectors: each is a case that is run, and the committed table is made of them.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashSet, fs, path::Path, process::Command};
use tempfile::TempDir;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    #[serde(rename = "group")]
    _group: String,
    #[serde(rename = "about")]
    _about: String,
    #[serde(default)]
    note: String,
    event: String,
    hooks: Vec<Hook>,
    /// Instead of a hook that prints and exits.
    command: Option<String>,
    matcher: Option<String>,
    tool: Option<String>,
    input: Option<Box<RawValue>>,
    /// How many hooks are started, unless it is all of them.
    runs: Option<usize>,
    client: String,
    exact: String,
    strict: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hook {
    /// A prompt handler's, or an agent's, with this text; the model says what `says` says.
    #[serde(rename = "type")]
    kind: Option<String>,
    says: Option<String>,
    #[serde(rename = "continueOnBlock")]
    goes_on: Option<Box<RawValue>>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    exit: i32,
    timeout: Option<Box<RawValue>>,
    #[serde(rename = "onFailure")]
    on_failure: Option<Box<RawValue>>,
    #[serde(rename = "async")]
    background: Option<Box<RawValue>>,
    #[serde(rename = "if")]
    condition: Option<Box<RawValue>>,
}

/// The dialects with their vectors, and where a project has its hooks.
const DIALECTS: [(&str, &str, &str); 2] = [
    ("claude", portcullis::hooks::CLAUDE_VECTORS, ".claude/settings.json"),
    ("codex", portcullis::hooks::CODEX_VECTORS, ".codex/hooks.json"),
];

fn read(vectors: &str) -> Vec<Vector> {
    serde_json::from_str(vectors).unwrap()
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

impl Vector {
    /// The settings file.
    fn config(&self) -> String {
        let handlers: Vec<String> = self.hooks.iter().map(|hook| self.handler(hook)).collect();
        let matcher = self.matcher.as_ref().map(|m| format!("\"matcher\":{},", json(m))).unwrap_or_default();
        format!(r#"{{"hooks":{{{}:[{{{matcher}"hooks":[{}]}}]}}}}"#, json(&self.event), handlers.join(","))
    }

    /// The case, in the format of docs/hook-cases.md.
    fn case(&self, dialect: &str, outcome: &str) -> String {
        let config = self.config();
        let tool = self.tool.as_deref().unwrap_or("Bash");
        let input = self.input.as_ref().map_or(r#"{"command":"ls"}"#, |input| input.get());
        let mut parts = outcome.split('+');
        let decision = parts.next().unwrap();
        let rest: Vec<&str> = parts.collect();
        let runs = self.runs.unwrap_or(self.hooks.len());
        let contexts = usize::from(rest.contains(&"context"));
        let halt = rest.contains(&"halt");
        let rewrite = match self.event.as_str() {
            "PreToolUse" => format!(r#","effective_input_unchanged":{}"#, !rest.contains(&"rewrite")),
            _ => String::new(),
        };
        let says = self.hooks.iter().find_map(|hook| hook.says.as_ref());
        let says = says.map(|says| format!("\"model_says\":{},", json(says))).unwrap_or_default();
        let known = ["context", "halt", "rewrite"];
        assert!(rest.iter().all(|part| known.contains(part)), "{}: {outcome}", self.id);
        format!(
            r#"{{"id":{},"dialect":"{dialect}","event":{},"tool_name":{},"tool_input":{input},"hooks_config":{config},{says}
                "expected":{{"decision":{},"handlers_run":{runs},"context_count":{contexts},"halt":{halt}{rewrite}}}}}"#,
            json(&self.id),
            json(&self.event),
            json(tool),
            json(decision),
        )
    }

    fn handler(&self, hook: &Hook) -> String {
        let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let prints = || {
            let (out, err) = (quote(&hook.stdout), quote(&hook.stderr));
            format!("cat >/dev/null; printf %s {out}; printf %s {err} >&2; exit {}", hook.exit)
        };
        let command = self.command.clone().unwrap_or_else(prints);
        let more = [
            ("timeout", &hook.timeout),
            ("onFailure", &hook.on_failure),
            ("async", &hook.background),
            ("if", &hook.condition),
            ("continueOnBlock", &hook.goes_on),
        ];
        let more =
            more.into_iter().filter_map(|(key, raw)| Some(format!(",\"{key}\":{}", raw.as_ref()?.get())));
        let more = more.collect::<String>();
        match &hook.kind {
            None => format!("{{\"type\":\"command\",\"command\":{}{more}}}", json(&command)),
            Some(kind) => {
                format!("{{\"type\":{},\"prompt\":\"May it? $ARGUMENTS\"{more}}}", json(kind))
            }
        }
    }
}

// C-BRIDGE-1, C-BRIDGE-2
#[test]
fn each_vector_holds_in_both_fidelities() {
    for (dialect, vectors, _) in DIALECTS {
        let vectors = read(vectors);
        let ids: HashSet<&str> = vectors.iter().map(|vector| &*vector.id).collect();
        assert!(ids.len() == vectors.len() && ids.len() >= 60);
        for fidelity in ["exact", "strict"] {
            let dir = TempDir::new().unwrap();
            for vector in &vectors {
                let folder = dir.path().join(&vector.id);
                fs::create_dir(&folder).unwrap();
                let outcome = if fidelity == "exact" { &vector.exact } else { &vector.strict };
                fs::write(folder.join("case.json"), vector.case(dialect, outcome)).unwrap();
            }
            let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
                .args(["hooks", "test", "--fidelity", fidelity])
                .arg(dir.path())
                .output()
                .unwrap();
            let out = String::from_utf8(output.stdout).unwrap();
            let failed: Vec<&str> = out.lines().filter(|line| line.starts_with("FAIL")).collect();
            assert!(failed.is_empty() && output.status.success(), "{dialect} {fidelity}: {failed:#?}");
            assert!(out.ends_with(&format!("{} passed, 0 failed\n", vectors.len())));
        }
        // Where exact differs from the client there is a reason.
        for vector in &vectors {
            let differs = vector.exact != vector.client || vector.strict != vector.client;
            assert_eq!(differs, !vector.note.is_empty(), "{}", vector.id);
        }
    }
}

#[derive(Deserialize)]
struct Explained {
    runs: Vec<Explains>,
    decision: String,
    effective_input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Explains {
    context: Vec<String>,
    halt: Option<String>,
}

// The runtime's own run of each is the test above; what is explained may not be anything else.
#[test]
fn what_is_explained_is_what_the_run_comes_to() {
    for (dialect, vectors, file) in DIALECTS {
        let vectors = read(vectors);
        let mut judged = 0;
        for vector in vectors.iter().filter(|vector| vector.hooks.iter().all(|hook| hook.kind.is_none())) {
            for (fidelity, outcome) in [("exact", &vector.exact), ("strict", &vector.strict)] {
                vector.explained(dialect, file, fidelity, outcome);
                judged += 1;
            }
        }
        assert!(judged >= 120);
    }
}

impl Vector {
    fn explained(&self, dialect: &str, file: &str, fidelity: &str, outcome: &str) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(file);
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, self.config()).unwrap();
        let input = self.input.as_ref().map_or(r#"{"command":"ls"}"#, |input| input.get());
        let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["hooks", "explain", "--json", "--event", &self.event, "--fidelity", fidelity])
            .args(["--dialect", dialect, "--trust-project", "--bypass-hook-trust"])
            .args(["--tool", self.tool.as_deref().unwrap_or("Bash"), "--input", input])
            .arg(dir.path())
            .output()
            .unwrap();
        let (id, err) =
            (format!("{dialect} {} {fidelity}", self.id), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{id}: {err}");
        let explained: Explained = serde_json::from_slice(&output.stdout).unwrap();
        let mut parts = outcome.split('+');
        assert_eq!(Some(&*explained.decision), parts.next(), "{id}");
        assert_eq!(explained.runs.len(), self.runs.unwrap_or(self.hooks.len()), "{id}");
        let rest: Vec<&str> = parts.collect();
        let halts = explained.runs.iter().any(|run| run.halt.is_some());
        assert_eq!(halts, rest.contains(&"halt"), "{id}");
        if rest.contains(&"context") && !self.event.ends_with("Stop") {
            assert!(explained.runs.iter().any(|run| !run.context.is_empty()), "{id}");
        }
        if rest.contains(&"rewrite") {
            assert_ne!(explained.effective_input.unwrap().get(), input, "{id}");
        }
    }
}

// C-BRIDGE-4
#[test]
fn the_committed_table_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis")).args(["hooks", "matrix"]).output().unwrap();
    assert!(output.status.success());
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
    let committed = fs::read_to_string(committed).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        committed,
        "`portcullis hooks matrix > docs/compatibility.md`"
    );
}
