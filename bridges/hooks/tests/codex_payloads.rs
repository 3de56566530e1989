//! `vectors/codex-payloads.json`: what a hook of Codex read in each of these situations is what a hook reads here, and what
//! `explain` says it would read. Where the vectors come from: `examples/codex_recordings.rs`.

mod support;

use portcullis_hooks::{CodexHooks, CodexLayers, Fidelity, Hooks, Moment, Options};
use portcullis_runtime::*;
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};
use support::{dispatch, farewell, key, spec};

const VECTORS: &str = include_str!("../vectors/codex-payloads.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    event: String,
    #[serde(default)]
    situation: Situation,
    reads: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Situation {
    agent_type: Option<String>,
    source: Option<String>,
    /// In the pieces in which it was sent.
    prompt: Vec<String>,
    tool: String,
    arguments: Option<String>,
    /// What the model reads of a call.
    response: Option<String>,
    /// A call's result as data.
    data: Option<String>,
    stop_hook_active: bool,
    last_assistant_message: Option<String>,
}

/// A project with a hook on one event that keeps what it read.
struct Project(tempfile::TempDir);

impl Project {
    fn new(event: &str) -> Project {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".codex")).unwrap();
        let hook = r#"{"type":"command","command":"cat > seen"}"#;
        let text = format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{hook}]}}]}}}}"#);
        fs::write(dir.path().join(".codex/hooks.json"), text).unwrap();
        Project(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self, fidelity: Fidelity) -> Arc<Hooks> {
        let layers = CodexLayers::default().trust_project().bypass_trust();
        let options = Options::new().layers(layers).fidelity(fidelity);
        let (hooks, reports) = CodexHooks::load_with(self.path(), options);
        assert_eq!(hooks.len(), 1, "{reports:?}");
        hooks
    }

    fn scene(&self, kind: Option<&str>) -> Scene {
        let id = |name: &str| SessionId::new(name).unwrap();
        let root = SessionInfo::new(id("s-1"), self.path().to_owned(), "test").model("M");
        let session = match kind {
            Some(kind) => root.child(id("s-1.1-1-0-1"), self.path().to_owned(), kind.into()),
            None => root,
        };
        Scene::new(Arc::new(session), 3, 1, Some(Seq(7)))
    }
}

impl Vector {
    fn moment(&self, project: &Project) -> Moment {
        let (of, scene) = (&self.situation, project.scene(self.situation.agent_type.as_deref()));
        let arguments = || Frozen::arguments(&**of.arguments.as_ref().unwrap()).unwrap();
        let call: Arc<str> = "call-1".into();
        match &*self.event {
            "SessionStart" => {
                let source =
                    StartSource::ALL.into_iter().find(|one| Some(one.name()) == of.source.as_deref());
                Moment::SessionStart(Starting::new(scene, source.unwrap(), Some("M".into())))
            }
            "UserPromptSubmit" => {
                let block = |text: &String| Block::Text { text: text.as_str().into() };
                let blocks: Vec<Block> = of.prompt.iter().map(block).collect();
                let content = serde_json::from_str(&serde_json::to_string(&blocks).unwrap()).unwrap();
                Moment::UserPromptSubmit(Submitted::new(scene, Seq(7), content, Source::User))
            }
            "PreToolUse" => {
                Moment::PreToolUse(Proposed::new(scene, key(), call, spec(&of.tool), arguments()))
            }
            "PermissionRequest" => {
                let (token, arguments) = (Mint::new(0).root().id(), arguments());
                let asked = arguments.clone();
                let call = Execution::new(token, None, scene, key(), call, spec(&of.tool), asked, arguments);
                Moment::PermissionRequest(Asking::new(call, Vec::new(), Vec::new(), true))
            }
            "PostToolUse" => {
                let output = Output::text(of.response.clone().unwrap_or_default());
                let output = match &of.data {
                    Some(data) => output.with_value(Frozen::parse(&**data).unwrap()),
                    None => output,
                };
                let (tool, outcome) = (spec(&of.tool), Arc::new(Outcome::completed(output)));
                let (name, took) = (tool.name.clone(), Duration::from_millis(58));
                let arguments = Some(arguments());
                Moment::PostToolUse(Returned::new(
                    scene,
                    key(),
                    call,
                    name,
                    Some(tool),
                    arguments,
                    outcome,
                    took,
                ))
            }
            "Stop" | "SubagentStop" => {
                let said = of.last_assistant_message.as_deref().unwrap_or_default();
                let ending = Ending::new(scene, 0, said.into());
                Moment::Stop(ending.forced_in_turn(of.stop_hook_active.into()))
            }
            "SubagentStart" => Moment::SubagentStart(ChildStarting::new(scene, Some("M".into()))),
            "PreCompact" => Moment::PreCompact(Compacting::new(scene, 1500, 1000, 4)),
            "PostCompact" => Moment::PostCompact(Summarised::new(scene, "s".into())),
            "Interrupt" => {
                let (by, reason) = (Source::User, CauseName(Cause::User));
                Moment::TurnEnd(TurnEnded::new(scene, EndReason::Aborted { by, reason }))
            }
            "SessionEnd" => Moment::SessionEnd(SessionEnded::new(scene)),
            other => panic!("{}: how does {other} come about?", self.id),
        }
    }

    /// The bytes, with this project's own names in the places of the placeholders.
    fn expected(&self, project: &Project, hooks: &Hooks, read: &str) -> String {
        let session = project.scene(self.situation.agent_type.as_deref()).session;
        let transcript = |session: &SessionId| hooks.transcript(session).to_str().unwrap().to_owned();
        // The turn's name is this runtime's own: a UUID, whatever it is.
        let turn = read.split_once(r#""turn_id":""#).map_or("", |(_, rest)| &rest[..36]);
        let is_uuid = |text: &str| {
            text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && text.as_bytes()[14] == b'8'
        };
        assert!(turn.is_empty() || is_uuid(turn), "{turn}");
        self.reads
            .replace("{P}", project.path().to_str().unwrap())
            .replace("{session}", session.root.as_str())
            .replace("{transcript}", &transcript(&session.id))
            .replace("{parent_transcript}", &transcript(&session.root))
            .replace("{agent}", &hooks.agent_id(&session.id))
            .replace("{turn}", turn)
    }
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(VECTORS).unwrap()
}

// C-BRIDGE-1
#[test]
fn each_payload_is_the_clients_to_the_byte_when_explained_and_when_run() {
    let vectors = vectors();
    let mut events: BTreeMap<&str, usize> = BTreeMap::new();
    for vector in &vectors {
        *events.entry(&vector.event).or_default() += 1;
        let project = Project::new(&vector.event);
        let hooks = project.load(Fidelity::Exact);
        let mut table = Table::new();
        table.register(hooks.owner(), |at| hooks.clone().register(at));
        let moment = vector.moment(&project);
        let explained = hooks.explain(&moment).unwrap();
        let [hook] = &explained.hooks[..] else { panic!("one hook") };
        assert_eq!((explained.event, &hook.why_not), (&*vector.event, &None), "{}", vector.id);
        let runs = match &moment {
            Moment::SessionStart(input) => dispatch::<SessionStart>(&table, input).results.len(),
            Moment::UserPromptSubmit(input) => dispatch::<PromptSubmit>(&table, input).results.len(),
            Moment::PreToolUse(input) => dispatch::<Rewrite>(&table, input).results.len(),
            Moment::PermissionRequest(input) => dispatch::<Permission>(&table, input).results.len(),
            Moment::PostToolUse(input) => dispatch::<PostExecute>(&table, input).results.len(),
            Moment::Stop(input) => dispatch::<TurnContinuation>(&table, input).results.len(),
            Moment::SubagentStart(input) => dispatch::<SubagentStart>(&table, input).results.len(),
            Moment::PreCompact(input) => dispatch::<Compaction>(&table, input).results.len(),
            Moment::PostCompact(input) => dispatch::<AfterCompaction>(&table, input).results.len(),
            Moment::TurnEnd(_) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(hooks.tell(&moment)).len()
            }
            Moment::SessionEnd(input) => farewell(&table, input).len(),
            _ => panic!("{}: how is that dispatched?", vector.id),
        };
        assert_eq!(runs, 1, "{}", vector.id);
        let read = fs::read_to_string(project.path().join("seen")).unwrap();
        assert_eq!(read, vector.expected(&project, &hooks, &read), "{}", vector.id);
        assert_eq!((read.as_bytes(), read.as_bytes()), (&*hook.stdin, &*explained.stdin), "{}", vector.id);
    }
    // Each event that fires is there, and those with arguments more than once.
    let fires: Vec<&str> =
        CodexHooks::events().filter(|(_, silent)| silent.is_none()).map(|(name, _)| name).collect();
    assert_eq!(events.len(), fires.len(), "{events:?}");
    assert!(fires.iter().all(|event| events.contains_key(event)), "{events:?}");
    assert!(events["PreToolUse"] >= 15 && events["PostToolUse"] >= 15 && events["PermissionRequest"] >= 2);
}

// C-BRIDGE-2: what was recorded has no integer that both do not write alike.
#[test]
fn strict_reads_the_same() {
    for vector in vectors() {
        let project = Project::new(&vector.event);
        let hooks = project.load(Fidelity::Strict);
        let explained = hooks.explain(&vector.moment(&project)).unwrap();
        let read = String::from_utf8(explained.stdin).unwrap();
        assert_eq!(read, vector.expected(&project, &hooks, &read), "{}", vector.id);
    }
}
