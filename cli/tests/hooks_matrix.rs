//! The vectors: each is a case that is run, and the committed table is made of them.

use portcullis::hooks::{CLAUDE_VECTORS, CODEX_VECTORS};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// Fields of a JSON object, each as its text.
type Fields = BTreeMap<String, Box<RawValue>>;

/// A client, as its cases name it.
#[derive(Clone, Copy)]
struct Client {
    dialect: &'static str,
    vectors: &'static str,
    /// Where a project's hooks are.
    file: &'static str,
    /// What has all of them run.
    trusting: &'static [&'static str],
}

const CLAUDE: Client =
    Client { dialect: "claude", vectors: CLAUDE_VECTORS, file: ".claude/settings.json", trusting: &[] };
const CODEX: Client = Client {
    dialect: "codex",
    vectors: CODEX_VECTORS,
    file: ".codex/hooks.json",
    trusting: &["--trust-project", "--bypass-hook-trust"],
};

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
    #[serde(default)]
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
    /// More fields of its case.
    #[serde(default)]
    case: Fields,
    /// More expectations, or others, in both fidelities.
    #[serde(default)]
    expects: Fields,
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
    #[serde(rename = "additionalContextLimit")]
    limit: Option<Box<RawValue>>,
}

impl Client {
    fn all(self) -> Vec<Vector> {
        serde_json::from_str(self.vectors).unwrap()
    }
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap()
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

impl Vector {
    /// The settings file.
    fn config(&self) -> String {
        if let Some(config) = self.case.get("hooks_config") {
            return serde_json::from_str(config.get()).unwrap_or_else(|_| config.get().to_owned());
        }
        let handlers: Vec<String> = self.hooks.iter().map(|hook| self.handler(hook)).collect();
        let matcher = self.matcher.as_ref().map(|m| format!("\"matcher\":{},", json(m))).unwrap_or_default();
        format!(r#"{{"hooks":{{{}:[{{{matcher}"hooks":[{}]}}]}}}}"#, json(&self.event), handlers.join(","))
    }

    fn tool(&self) -> &str {
        self.tool.as_deref().unwrap_or("Bash")
    }

    fn input(&self) -> &str {
        self.input.as_ref().map_or(r#"{"command":"ls"}"#, |input| input.get())
    }

    fn runs(&self) -> usize {
        self.runs.unwrap_or(self.hooks.len())
    }

    /// The case, in the format of docs/hook-cases.md.
    fn case(&self, client: Client, outcome: &str) -> String {
        let mut parts = outcome.split('+');
        let decision = parts.next().unwrap();
        let rest: Vec<&str> = parts.collect();
        let known = ["context", "halt", "rewrite"];
        assert!(rest.iter().all(|part| known.contains(part)), "{}: {outcome}", self.id);
        let mut expected: Fields = [
            ("decision", json(decision)),
            ("handlers_run", self.runs().to_string()),
            ("context_count", usize::from(rest.contains(&"context")).to_string()),
            ("halt", rest.contains(&"halt").to_string()),
        ]
        .map(|(key, value)| (key.into(), raw(value)))
        .into();
        if self.event == "PreToolUse" {
            let unchanged = !rest.contains(&"rewrite");
            expected.insert("effective_input_unchanged".into(), raw(unchanged.to_string()));
        }
        expected.extend(self.expects.clone());
        let mut case: Fields = [
            ("id", json(&self.id)),
            ("dialect", json(client.dialect)),
            ("event", json(&self.event)),
            ("tool_name", json(self.tool())),
            ("tool_input", self.input().into()),
            ("expected", serde_json::to_string(&expected).unwrap()),
        ]
        .map(|(key, value)| (key.into(), raw(value)))
        .into();
        if !self.case.contains_key("layers") {
            case.insert("hooks_config".into(), raw(json(&self.config())));
        }
        let says = self.hooks.iter().find_map(|hook| hook.says.as_ref());
        case.extend(says.map(|says| ("model_says".into(), raw(json(says)))));
        case.extend(
            self.case.iter().filter(|(key, _)| *key != "hooks_config").map(|(k, v)| (k.clone(), v.clone())),
        );
        serde_json::to_string(&case).unwrap()
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
            ("additionalContextLimit", &hook.limit),
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

/// The command, with a home and a folder for temporary files of its own: what is too long for a model is kept there.
fn portcullis(own: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env("TMPDIR", own).env("HOME", own).env_remove("CODEX_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

fn each_holds(client: Client, at_least: usize) {
    let vectors = client.all();
    let ids: HashSet<&str> = vectors.iter().map(|vector| &*vector.id).collect();
    assert!(ids.len() == vectors.len() && ids.len() >= at_least);
    for fidelity in ["exact", "strict"] {
        let dir = TempDir::new().unwrap();
        for vector in &vectors {
            let folder = dir.path().join(&vector.id);
            fs::create_dir(&folder).unwrap();
            let outcome = if fidelity == "exact" { &vector.exact } else { &vector.strict };
            fs::write(folder.join("case.json"), vector.case(client, outcome)).unwrap();
        }
        let temp = TempDir::new().unwrap();
        let output = portcullis(temp.path())
            .args(["hooks", "test", "--fidelity", fidelity])
            .arg(dir.path())
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let failed: Vec<&str> = out.lines().filter(|line| line.starts_with("FAIL")).collect();
        assert!(failed.is_empty() && output.status.success(), "{fidelity}: {failed:#?}");
        assert!(out.ends_with(&format!("{} passed, 0 failed\n", vectors.len())));
    }
    // Where exact differs from the client there is a reason.
    for vector in &vectors {
        let differs = vector.exact != vector.client || vector.strict != vector.client;
        assert_eq!(differs, !vector.note.is_empty(), "{}", vector.id);
    }
}

// C-BRIDGE-1, C-BRIDGE-2
#[test]
fn each_vector_of_claude_code_holds_in_both_fidelities() {
    each_holds(CLAUDE, 60);
}

// C-BRIDGE-1, C-BRIDGE-2
#[test]
fn each_vector_of_codex_holds_in_both_fidelities() {
    each_holds(CODEX, 150);
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

/// What a vector's case has to say that `hooks explain` is told by an option.
const OPTIONS: [(&str, &str); 4] = [
    ("prompt", "--prompt"),
    ("source", "--source"),
    ("agent_type", "--agent-type"),
    ("tool_response", "--response"),
];

impl Vector {
    /// One moment, with hooks in the project's own file, all of them commands.
    fn can_be_explained(&self) -> bool {
        let told = |key: &String| key == "hooks_config" || OPTIONS.iter().any(|(field, _)| field == key);
        let placed = self.config().contains("${CASE_DIR}");
        let of_the_tool = self.expects.contains_key("tool_outcome");
        let commands = self.hooks.iter().all(|hook| hook.kind.is_none());
        commands && self.case.keys().all(told) && !placed && !of_the_tool
    }

    fn options(&self) -> impl Iterator<Item = String> {
        self.case.iter().flat_map(|(key, value)| {
            let option = OPTIONS.iter().find(|(field, _)| field == key);
            let text = serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned());
            option.into_iter().flat_map(move |(_, option)| [(*option).to_owned(), text.clone()])
        })
    }
}

// The runtime's own run of each is the tests above; what is explained may not be anything else.
fn each_is_explained(client: Client, at_least: usize) {
    let mut judged = 0;
    for vector in client.all().iter().filter(|vector| vector.can_be_explained()) {
        for (fidelity, outcome) in [("exact", &vector.exact), ("strict", &vector.strict)] {
            let dir = TempDir::new().unwrap();
            let file = dir.path().join(client.file);
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(file, vector.config()).unwrap();
            let input = vector.input();
            let home = TempDir::new().unwrap();
            let output = portcullis(home.path())
                .args(["hooks", "explain", "--json", "--event", &vector.event, "--fidelity", fidelity])
                .args(["--dialect", client.dialect, "--tool", vector.tool(), "--input", input])
                .args(client.trusting)
                .args(vector.options())
                .arg(dir.path())
                .output()
                .unwrap();
            let (id, err) = (&vector.id, String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{id}: {err}");
            let explained: Explained = serde_json::from_slice(&output.stdout).unwrap();
            let mut parts = outcome.split('+');
            assert_eq!(Some(&*explained.decision), parts.next(), "{id} {fidelity}");
            assert_eq!(explained.runs.len(), vector.runs(), "{id} {fidelity}");
            let rest: Vec<&str> = parts.collect();
            let halts = explained.runs.iter().any(|run| run.halt.is_some());
            assert_eq!(halts, rest.contains(&"halt"), "{id} {fidelity}");
            if rest.contains(&"context") && !vector.event.ends_with("Stop") {
                assert!(explained.runs.iter().any(|run| !run.context.is_empty()), "{id} {fidelity}");
            }
            if rest.contains(&"rewrite") {
                assert_ne!(explained.effective_input.unwrap().get(), input, "{id} {fidelity}");
            }
            judged += 1;
        }
    }
    assert!(judged >= at_least, "{judged}");
}

#[test]
fn what_is_explained_of_claude_code_is_what_the_run_comes_to() {
    each_is_explained(CLAUDE, 120);
}

#[test]
fn what_is_explained_of_codex_is_what_the_run_comes_to() {
    each_is_explained(CODEX, 250);
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
