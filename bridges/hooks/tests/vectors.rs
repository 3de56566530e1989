//! `vectors/payloads.json`: what a hook of the client read in each of these situations is what a hook reads here, and what
//! `explain` says it would read. Where the vectors come from: `examples/recordings.rs`.

mod support;

use portcullis_hooks::{Changing, ClaudeHooks, Fidelity, Moment};
use portcullis_runtime::*;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use support::{Project, key, spec};

const VECTORS: &str = include_str!("../vectors/payloads.json");
const KEEP: &str = "cat > \"$CLAUDE_PROJECT_DIR/seen\"";

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
    /// A call that goes on after a restart, before anybody has said anything.
    no_prompt: bool,
    source: Option<String>,
    /// The file that has changed.
    file: Option<String>,
    prompt: Option<String>,
    tool: Option<String>,
    arguments: Option<String>,
    response: Option<String>,
    error: Option<String>,
    is_interrupt: bool,
    stop_hook_active: bool,
    last_assistant_message: Option<String>,
    /// Why the host's policy denied a call.
    reason: Option<String>,
    /// How the model failed, in the client's word.
    failure: Option<String>,
    /// What the conversation was cut down to.
    summary: Option<String>,
    calls: Vec<Call>,
}

/// One call of a step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    arguments: String,
    /// What the model reads.
    response: String,
    #[serde(default)]
    failed: bool,
    /// It was never accepted.
    #[serde(default)]
    refused: bool,
}

impl Vector {
    fn scene(&self, project: &Project) -> Scene {
        match &self.situation.agent_type {
            Some(kind) => project.inside(kind),
            None if self.situation.no_prompt => Scene::new(project.scene().session, 1, 1, None),
            None => project.scene(),
        }
    }

    fn moment(&self, project: &Project) -> Moment {
        let (scene, of) = (self.scene(project), &self.situation);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let placed = |text: &Option<String>| {
            text.as_ref().map(|text| text.replace("{P}", project.dir.path().to_str().unwrap()))
        };
        let arguments = || Frozen::arguments(placed(&of.arguments).unwrap()).unwrap();
        let tool = text(&of.tool);
        let call = |arguments: Frozen| {
            let token = Mint::new(0).root().id();
            let (scene, call, of) = (scene.clone(), "call-1".into(), spec(&tool));
            Execution::new(token, None, scene, key(), call, of, arguments.clone(), arguments)
        };
        match &*self.event {
            "SessionStart" => {
                let source = text(&of.source);
                let source = StartSource::ALL.into_iter().find(|one| one.name() == source).unwrap();
                Moment::SessionStart(Starting::new(scene, source, Some("M".into())))
            }
            "UserPromptSubmit" => {
                let content = (&*text(&of.prompt)).into();
                Moment::UserPromptSubmit(Submitted::new(scene, Seq(7), content, Source::User))
            }
            "PermissionRequest" => {
                Moment::PermissionRequest(Asking::new(call(arguments()), Vec::new(), Vec::new(), true))
            }
            "Notification" => {
                let (call, request) =
                    (call(Frozen::arguments("{}").unwrap()), RequestId::of(&scene.session.id, &key()));
                Moment::Notification(PutQuestion::new(call, request, Vec::new(), Vec::new()))
            }
            "StopFailure" => {
                let code = match of.failure.as_deref() {
                    Some("rate_limit") => "model_busy",
                    Some("server_error") => "model_cut",
                    Some("unknown") => "model_failed",
                    other => panic!("{}: how does the model fail so: {other:?}", self.id),
                };
                let reason = EndReason::Error { code: code.into(), message: text(&of.error).into() };
                Moment::TurnEnd(TurnEnded::new(scene, reason))
            }
            "PostToolBatch" => {
                let calls = of.calls.iter().enumerate().map(|(n, call)| call.done(n, project));
                Moment::PostToolBatch(CallBatch::new(scene, calls.collect::<Vec<_>>()))
            }
            "PreCompact" => Moment::PreCompact(Compacting::new(scene, 1500, 1000, 4)),
            "PostCompact" => Moment::PostCompact(Summarised::new(scene, (&*text(&of.summary)).into())),
            "PreToolUse" => {
                Moment::PreToolUse(Proposed::new(scene, key(), "call-1".into(), spec(&tool), arguments()))
            }
            "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" => {
                let outcome = match (&of.error, placed(&of.response)) {
                    _ if of.reason.is_some() => {
                        let (by, reason) = (HandlerId::new("house", "policy"), (&*text(&of.reason)).into());
                        Outcome::ended(Ended::GuardDeny { by, reason })
                    }
                    (Some(error), _) => Outcome::tool_error(Output::text(&**error)),
                    (None, Some(value)) => {
                        Outcome::completed(Output::text("").with_value(Frozen::parse(value).unwrap()))
                    }
                    _ => panic!("{}: no outcome", self.id),
                };
                assert!(!of.is_interrupt, "{}: not among the recordings yet", self.id);
                let (tool, took) = (spec(&tool), Duration::from_millis(58));
                let (call, name) = ("call-1".into(), tool.name.clone());
                let (tool, arguments) = (Some(tool), Some(arguments()));
                let returned =
                    Returned::new(scene, key(), call, name, tool, arguments, Arc::new(outcome), took);
                Moment::PostToolUse(returned)
            }
            "Stop" | "SubagentStop" => {
                let forced = u32::from(of.stop_hook_active);
                let ending = Ending::new(scene, forced, (&*text(&of.last_assistant_message)).into());
                Moment::Stop(ending.forced_in_turn(forced))
            }
            "SubagentStart" => Moment::SubagentStart(ChildStarting::new(scene, None)),
            "ConfigChange" => {
                Moment::ConfigChange(Changing::new(scene, text(&of.source), placed(&of.file).unwrap()))
            }
            "SessionEnd" => Moment::SessionEnd(SessionEnded::new(scene)),
            other => panic!("{}: how does {other} come about?", self.id),
        }
    }

    /// The bytes, with this project's own names in the places of the placeholders.
    fn expected(&self, project: &Project, read: &str) -> String {
        let session = self.scene(project).session;
        let place = project.dir.path().to_str().unwrap();
        let (hooks, _) = ClaudeHooks::load(project.path());
        let transcript = hooks.transcript(&session.root);
        let agent = ClaudeHooks::agent_id(&session.id);
        let of_agent = transcript.with_extension("").join(format!("subagents/agent-{agent}.jsonl"));
        // The prompt's name is this runtime's own: a UUID, whatever it is.
        let prompt = read.split_once(r#""prompt_id":""#).map_or("", |(_, rest)| &rest[..36]);
        let is_uuid = |text: &str| {
            text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && text.as_bytes()[14] == b'8'
        };
        assert!(prompt.is_empty() || is_uuid(prompt), "{prompt}");
        self.reads
            .replace("{P}", place)
            .replace("{session}", session.root.as_str())
            .replace("{transcript}", transcript.to_str().unwrap())
            .replace("{agent_transcript}", of_agent.to_str().unwrap())
            .replace("{agent}", &agent)
            .replace("{prompt}", prompt)
    }
}

impl Call {
    fn done(&self, n: usize, project: &Project) -> BatchCall {
        let placed = |text: &str| text.replace("{P}", project.dir.path().to_str().unwrap());
        let (raw, response) = (placed(&self.arguments), placed(&self.response));
        let ended = match (self.refused, self.failed) {
            (true, _) => Ended::InvalidArguments { message: (&*response).into() },
            (false, true) => Ended::ToolError,
            (false, false) => Ended::Completed,
        };
        // The arguments in force are what a hook reads; where none are, what the model wrote.
        let arguments = (!self.refused).then(|| Frozen::arguments(&*raw).unwrap());
        let written = if self.refused { raw } else { String::new() };
        let key = CallKey { turn: 1, step: 1, call: CallPath::top(n.try_into().unwrap()) };
        let made = (format!("call-{}", n + 1).into(), (&*self.tool).into(), written.into());
        let error = !ended.is_success();
        BatchCall::new(key, made, arguments, ended, (&*response).into(), error)
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
        let project = Project::hook(&vector.event, KEEP).options(|o| o.fidelity(Fidelity::Exact));
        let (hooks, reports) = ClaudeHooks::load_with(project.path(), project.options.clone());
        assert_eq!(reports, [], "{}", vector.id);
        let moment = vector.moment(&project);
        let explained = hooks.explain(&moment).unwrap();
        let [hook] = &explained.hooks[..] else { panic!("one hook") };
        assert_eq!((explained.event, &hook.why_not), (&*vector.event, &None), "{}", vector.id);
        let runs = match moment {
            Moment::SessionStart(input) => project.dispatch::<SessionStart>(input).results,
            Moment::UserPromptSubmit(input) => project.dispatch::<PromptSubmit>(input).results,
            Moment::PreToolUse(input) => project.dispatch::<Rewrite>(input).results,
            Moment::PostToolUse(input) => project.dispatch::<PostExecute>(input).results,
            Moment::Stop(input) => project.dispatch::<TurnContinuation>(input).results,
            Moment::SubagentStart(input) => project.dispatch::<SubagentStart>(input).results,
            Moment::PermissionRequest(input) => project.dispatch::<Permission>(input).results,
            Moment::PostToolBatch(input) => project.dispatch::<ToolBatch>(input).results,
            Moment::PreCompact(input) => project.dispatch::<Compaction>(input).results,
            Moment::PostCompact(input) => project.dispatch::<AfterCompaction>(input).results,
            told @ (Moment::Notification(_) | Moment::TurnEnd(_)) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let late = runtime.block_on(hooks.tell(&told));
                late.iter().map(|late| late.records[1].data.decode().unwrap()).collect()
            }
            Moment::ConfigChange(input) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let weighed = tokio::task::LocalSet::new().block_on(&runtime, hooks.weigh(&input));
                weighed.iter().map(|one| one.records[1].data.decode().unwrap()).collect()
            }
            Moment::SessionEnd(input) => project.farewell(&input),
            _ => panic!("{}: how is that dispatched?", vector.id),
        };
        assert_eq!(runs.len(), 1, "{}", vector.id);
        let read = project.read("seen");
        assert_eq!(read, vector.expected(&project, &read), "{}", vector.id);
        assert_eq!(read.as_bytes(), &*hook.stdin, "{}", vector.id);
        assert_eq!(explained.stdin, &*hook.stdin, "{}", vector.id);
    }
    // Each event that is made into vectors is there, and those with arguments more than once.
    assert_eq!(events.len(), 17, "{events:?}");
    assert!(events["PreToolUse"] >= 20 && events["PostToolUse"] >= 10, "{events:?}");
    assert!(events["PostToolBatch"] >= 10 && events["PermissionRequest"] >= 4, "{events:?}");
}

// C-BRIDGE-2
#[test]
fn strict_differs_in_large_integers_alone() {
    for vector in vectors() {
        let project = Project::hook(&vector.event, KEEP);
        let (hooks, _) = ClaudeHooks::load_with(project.path(), project.options.clone());
        let explained = hooks.explain(&vector.moment(&project)).unwrap();
        let read = String::from_utf8(explained.stdin).unwrap();
        let expected = vector.expected(&project, &read);
        match vector.situation.arguments.as_deref().is_some_and(|text| text.contains("12345678901234567890"))
        {
            false => assert_eq!(read, expected, "{}", vector.id),
            true => {
                assert_eq!(
                    read,
                    expected.replace("12345678901234567000", "12345678901234567890"),
                    "{}",
                    vector.id
                );
                assert_ne!(read, expected);
            }
        }
    }
}
