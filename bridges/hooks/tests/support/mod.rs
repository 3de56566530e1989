//! A project in a temporary folder, and its hooks driven as the runtime drives them.
#![allow(dead_code, reason = "each test file uses its part")]

use portcullis_hooks::{ClaudeHooks, CodexHooks, CodexLayers, Options, Report};
use portcullis_runtime::*;
use serde::Deserialize;
use std::{fs, path::PathBuf, sync::Arc, time::Duration};

pub(crate) struct Project {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) options: Options,
}

/// What a dispatch came to.
#[derive(Debug)]
pub(crate) struct Seen<D> {
    pub(crate) decisions: Vec<D>,
    pub(crate) context: Vec<String>,
    pub(crate) halt: Option<String>,
    pub(crate) failures: Vec<String>,
    pub(crate) results: Vec<HookResult>,
    pub(crate) invoked: Vec<HookInvoked>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HookInvoked {
    pub(crate) dialect: String,
    pub(crate) event: String,
    pub(crate) handler: String,
    pub(crate) command: Option<String>,
    pub(crate) matcher: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HookResult {
    pub(crate) decision: String,
    pub(crate) exit: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) status: Option<u16>,
    pub(crate) ms: u64,
    pub(crate) timed_out: bool,
    pub(crate) cut: bool,
    #[serde(default)]
    pub(crate) stderr: String,
    pub(crate) error: Option<String>,
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) unused: Vec<String>,
    pub(crate) shadow: Option<Would>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Would {
    pub(crate) verdict: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) halt: Option<String>,
    pub(crate) plain: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) input: Option<String>,
    pub(crate) output: Option<String>,
}

impl Project {
    pub(crate) fn new(settings: &str) -> Project {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".claude")).unwrap();
        fs::write(dir.path().join(".claude/settings.json"), settings).unwrap();
        Project { dir, options: Options::default() }
    }

    /// One command hook on one event.
    pub(crate) fn hook(event: &str, command: &str) -> Project {
        Project::with(event, command, "")
    }

    /// One command hook with more fields.
    pub(crate) fn with(event: &str, command: &str, fields: &str) -> Project {
        let command = serde_json::to_string(command).unwrap();
        let handler = format!(r#"{{"type":"command","command":{command}{fields}}}"#);
        Project::new(&format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{handler}]}}]}}}}"#))
    }

    /// Command hooks of Codex on one event, and no others.
    pub(crate) fn codex(event: &str, commands: &[&str]) -> Project {
        let handler = |command: &&str| {
            format!(r#"{{"type":"command","command":{}}}"#, serde_json::to_string(command).unwrap())
        };
        let handlers: Vec<String> = commands.iter().map(handler).collect();
        let project = Project::new("{}");
        fs::create_dir(project.dir.path().join(".codex")).unwrap();
        let hooks = format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{}]}}]}}}}"#, handlers.join(","));
        fs::write(project.dir.path().join(".codex/hooks.json"), hooks).unwrap();
        project
    }

    pub(crate) fn options(mut self, change: impl FnOnce(Options) -> Options) -> Project {
        self.options = change(self.options);
        self
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).unwrap()
    }

    pub(crate) fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.dir.path().join(file)).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn load(&self) -> (Table, Vec<Report>) {
        let (hooks, reports) = if self.dir.path().join(".codex").exists() {
            let layers = CodexLayers::default().trust_project().bypass_trust();
            CodexHooks::load_with(self.dir.path(), Options::new().layers(layers))
        } else {
            ClaudeHooks::load_with(self.dir.path(), self.options.clone())
        };
        let mut table = Table::new();
        table.register(hooks.owner(), |at| hooks.clone().register(at));
        table.check().unwrap();
        (table, reports)
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        self.load().1
    }

    pub(crate) fn scene(&self) -> Scene {
        let id = SessionId::new("s-1").unwrap();
        Scene::new(Arc::new(SessionInfo::new(id, self.path(), "test")), 1, 1, Some(Seq(7)))
    }

    /// In a subagent of that session.
    pub(crate) fn inside(&self, kind: &str) -> Scene {
        let parent = self.scene().session;
        let child = parent.child(SessionId::new("s-1.1-1-0-1").unwrap(), self.path(), kind.into());
        Scene::new(Arc::new(child), 1, 1, Some(Seq(2)))
    }

    pub(crate) fn farewell(&self, ended: &SessionEnded) -> Vec<HookResult> {
        farewell(&self.load().0, ended)
    }

    pub(crate) fn dispatch<S: Seam>(&self, input: S::Input) -> Seen<S::Decision> {
        dispatch::<S>(&self.load().0, &input)
    }

    pub(crate) fn start(&self, source: StartSource) -> Seen<Started> {
        self.dispatch::<SessionStart>(Starting::new(self.scene(), source, Some("M".into())))
    }

    pub(crate) fn submit(&self, prompt: &str) -> Seen<Submit> {
        self.dispatch::<PromptSubmit>(Submitted::new(self.scene(), Seq(7), prompt.into(), Source::User))
    }

    pub(crate) fn pre(&self, tool: &str, arguments: &str) -> Seen<Proposal> {
        let arguments = Frozen::arguments(arguments).unwrap();
        self.dispatch::<Rewrite>(Proposed::new(self.scene(), key(), "call-1".into(), spec(tool), arguments))
    }

    pub(crate) fn post(&self, tool: &str, arguments: &str, outcome: Outcome) -> Seen<Review> {
        let arguments = Frozen::arguments(arguments).unwrap();
        self.dispatch::<PostExecute>(Returned::new(
            self.scene(),
            key(),
            "call-1".into(),
            tool.into(),
            Some(spec(tool)),
            Some(arguments),
            Arc::new(outcome),
            Duration::from_millis(58),
        ))
    }

    pub(crate) fn stop(&self, forced: u32, last: &str) -> Seen<Continue> {
        self.dispatch::<TurnContinuation>(Ending::new(self.scene(), forced, last.into()))
    }
}

/// As the runtime tells the observers of a session's end, one after another: what its hooks came to.
pub(crate) fn farewell(table: &Table, ended: &SessionEnded) -> Vec<HookResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut all = Vec::new();
        for observer in &table.end_observers {
            match observer.run.plan(ended) {
                None => all.extend(observer.run.observe(ended.clone()).await),
                Some(planned) => {
                    for (_, run) in planned {
                        all.extend(run.observe(ended.clone()).await);
                    }
                }
            }
        }
        all
    });
    let results = all.iter().filter(|own| &*own.kind == "hook/result");
    results.map(|own| serde_json::from_str(own.data.text()).unwrap()).collect()
}

/// Plans and runs a dispatch of one point.
pub(crate) fn dispatch<S: Seam>(table: &Table, input: &S::Input) -> Seen<S::Decision> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut seen = Seen {
            decisions: Vec::new(),
            context: Vec::new(),
            halt: None,
            failures: Vec::new(),
            results: Vec::new(),
            invoked: Vec::new(),
        };
        for planned in table.plan::<S>(input) {
            assert!(!planned.native);
            let reply = planned.run.decide(input.clone()).await.unwrap();
            seen.decisions.push(reply.decision);
            seen.context.extend(reply.context.iter().map(|text| text.to_string()));
            seen.halt = reply.halt.map(|reason| reason.to_string()).or(seen.halt);
            seen.failures.extend(reply.failure.map(|failure| failure.to_string()));
            let [invoked, result] = &reply.records[..] else {
                panic!("two records, not {:?}", reply.records)
            };
            assert_eq!((&*invoked.kind, &*result.kind), ("hook/invoked", "hook/result"));
            let invoked: HookInvoked = invoked.data.decode().unwrap();
            assert_eq!(*invoked.handler, *planned.id.handler);
            seen.invoked.push(invoked);
            seen.results.push(result.data.decode().unwrap());
        }
        seen
    })
}

pub(crate) fn key() -> CallKey {
    CallKey { turn: 1, step: 1, call: CallPath::top(0) }
}

pub(crate) fn spec(tool: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(tool, "", Frozen::parse(r#"{"type":"object"}"#).unwrap()).unwrap())
}

/// The gate answer a PreToolUse hook carried, in a word, with its reason.
pub(crate) fn gate(proposal: &Proposal) -> (&'static str, Option<&str>) {
    match &proposal.carried {
        None => ("none", None),
        Some(Gate::Allow) => ("allow", None),
        Some(Gate::Ask { reason }) => ("ask", reason.as_ref().map(Reason::as_str)),
        Some(Gate::Defer { reason }) => ("defer", reason.as_ref().map(Reason::as_str)),
        Some(Gate::Deny { reason }) => ("deny", Some(reason.as_str())),
        Some(other) => panic!("{other:?}"),
    }
}
