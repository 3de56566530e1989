//! What a hook reads on stdin: one compact JSON object, keys in the client's order, and one line feed.
//!
//! A payload is a projection of frozen values; nothing reads it back. Which keys stand there follows from what the session
//! is doing, never from a template: an absent key is absent, not null.

use super::matcher::canonical;
use crate::{
    answer::Answer,
    change::Changing,
    dialect::{Style, resolve},
    event::Event,
    explain::At,
    farewell::OTHER,
    json::write_string,
    notices,
    options::Fidelity,
    uuid::uuid,
};
use portcullis_runtime::{
    Asking, BatchCall, CallBatch, ChildStarting, Compacting, Ended, Ending, Frozen, Outcome, Proposed,
    PutQuestion, Returned, Scene, Seq, SessionEnded, SessionId, StartSource, Starting, Submitted, Summarised,
    View,
};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Arguments in order, each with what the client fills in where the model left it out.
type Order = &'static [(&'static str, Option<&'static str>)];

/// The client's own tools, with the order its schemas give their arguments and what it fills in. Arguments of any other
/// tool keep the model's order.
const TOOLS: [(&str, Order); 8] = [
    (
        "Bash",
        &[
            ("command", None),
            ("timeout", None),
            ("description", None),
            ("run_in_background", None),
            ("dangerouslyDisableSandbox", None),
        ],
    ),
    ("Read", &[("file_path", None), ("offset", None), ("limit", None), ("pages", None)]),
    ("Write", &[("file_path", None), ("content", None)]),
    (
        "Edit",
        &[("file_path", None), ("old_string", None), ("new_string", None), ("replace_all", Some("false"))],
    ),
    (
        "NotebookEdit",
        &[
            ("notebook_path", None),
            ("cell_id", None),
            ("new_source", None),
            ("cell_type", None),
            ("edit_mode", None),
        ],
    ),
    ("Glob", &[("pattern", None), ("path", None)]),
    (
        "Grep",
        &[
            ("pattern", None),
            ("path", None),
            ("glob", None),
            ("output_mode", None),
            ("-B", None),
            ("-A", None),
            ("-C", None),
            ("context", None),
            ("-n", None),
            ("-i", None),
            ("type", None),
            ("head_limit", None),
            ("offset", None),
            ("multiline", None),
        ],
    ),
    (
        "Agent",
        &[
            ("description", None),
            ("prompt", None),
            ("subagent_type", None),
            ("model", None),
            ("run_in_background", None),
        ],
    ),
];

/// Tools whose `file_path` the client makes absolute.
const FILE_TOOLS: [&str; 3] = ["Read", "Write", "Edit"];

/// What Notification is about here.
pub(crate) const PERMISSION_PROMPT: &str = "permission_prompt";
/// What sets off a compaction.
pub(crate) const AUTO: &str = "auto";

/// What a hook of an event reads.
pub(super) fn of(event: Event, at: At<'_>, style: Style<'_>) -> Vec<u8> {
    let bytes = Bytes(style);
    match at {
        At::SessionStart(at) => bytes.session_start(at),
        At::UserPromptSubmit(at) => bytes.prompt_submit(at),
        At::PreToolUse(at) => bytes.pre_tool_use(at),
        At::PermissionRequest(at) => bytes.permission_request(at),
        At::Notification(at) => bytes.notification(at),
        At::TurnEnd(at) => bytes.stop_failure(&at.scene, notices::failure(&at.reason).unwrap_or_default()),
        At::PostToolBatch(at) => bytes.post_tool_batch(at),
        At::PostToolUse(at) if event == Event::PermissionDenied => bytes.permission_denied(at),
        At::PostToolUse(at) if event == Event::PostToolUseFailure => bytes.post_tool_use_failure(at),
        At::PostToolUse(at) => bytes.post_tool_use(at),
        At::Stop(at) => bytes.stop(event, at),
        At::SubagentStart(at) => bytes.subagent_start(at),
        At::PreCompact(at) => bytes.pre_compact(at),
        At::PostCompact(at) => bytes.post_compact(at),
        At::ConfigChange(at) => bytes.config_change(at),
        At::SessionEnd(at) => bytes.session_end(at),
    }
}

/// Arguments with which a question would be allowed count if the call has others: two that are spelt alike are the same.
pub(super) fn otherwise(answer: &mut Answer, at: &Asking, style: Style<'_>) {
    let (bytes, tool) = (Bytes(style), canonical(&at.call.tool.name));
    let spelt = |arguments: &Frozen| bytes.spelt(tool, arguments, &at.call.scene);
    let wanted = answer.rewrite.take();
    answer.other = wanted.filter(|wanted| spelt(wanted) != spelt(&at.call.arguments));
}

/// Writes payloads in a style.
struct Bytes<'a>(Style<'a>);

struct Payload<'a> {
    out: String,
    style: Style<'a>,
}

impl Bytes<'_> {
    fn session_start(&self, input: &Starting) -> Vec<u8> {
        // A compaction is in the middle of what a prompt set off; every other start is before the first one.
        let prompt = input.scene.prompt.filter(|_| input.source == StartSource::Compact);
        let mut p = self.open(Event::SessionStart, &input.scene, prompt, false);
        p.text("source", input.source.name());
        if let (StartSource::Compact, Some(model)) = (input.source, &input.model) {
            p.text("model", model);
        }
        p.close()
    }

    fn prompt_submit(&self, input: &Submitted) -> Vec<u8> {
        let mut p = self.open(Event::UserPromptSubmit, &input.scene, Some(input.from), true);
        p.text("prompt", &input.content.to_text());
        p.close()
    }

    fn pre_tool_use(&self, input: &Proposed) -> Vec<u8> {
        let mut p = self.open(Event::PreToolUse, &input.scene, input.scene.prompt, true);
        p.tool(&input.tool.name, Some(&input.so_far), &input.scene);
        p.text("tool_use_id", &input.call_id);
        p.close()
    }

    /// It names no call: the client's has no id here. What it suggests to allow for good is not sent either: nothing here
    /// could be changed so.
    fn permission_request(&self, input: &Asking) -> Vec<u8> {
        let (call, scene) = (&input.call, &input.call.scene);
        let mut p = self.open(Event::PermissionRequest, scene, scene.prompt, true);
        p.tool(&call.tool.name, Some(&call.arguments), scene);
        p.close()
    }

    /// Of a question that a person was just put.
    fn notification(&self, input: &PutQuestion) -> Vec<u8> {
        let scene = input.scene();
        let mut p = self.open(Event::Notification, scene, scene.prompt, false);
        p.text(
            "message",
            &format!("Claude needs your permission to use {}", canonical(&input.call.tool.name)),
        );
        p.text("notification_type", PERMISSION_PROMPT);
        p.close()
    }

    fn permission_denied(&self, input: &Returned) -> Vec<u8> {
        let mut p = self.open(Event::PermissionDenied, &input.scene, input.scene.prompt, true);
        p.tool(&input.name, input.arguments.as_ref(), &input.scene);
        p.text("tool_use_id", &input.call_id);
        p.text("reason", &input.outcome.for_model().0.to_text());
        p.close()
    }

    fn stop_failure(&self, scene: &Scene, failed: (&str, &str)) -> Vec<u8> {
        let mut p = self.open(Event::StopFailure, scene, scene.prompt, false);
        p.text("error", failed.0);
        p.text("last_assistant_message", failed.1);
        p.close()
    }

    /// Between two turns: the prompt is that of the last one.
    fn config_change(&self, input: &Changing) -> Vec<u8> {
        let mut p = self.open(Event::ConfigChange, &input.scene, input.scene.prompt, false);
        p.text("source", &input.source);
        p.text("file_path", &input.file.to_string_lossy());
        p.close()
    }

    fn session_end(&self, input: &SessionEnded) -> Vec<u8> {
        let mut p = self.open(Event::SessionEnd, &input.scene, input.scene.prompt, false);
        p.text("reason", OTHER);
        p.close()
    }

    fn post_tool_batch(&self, input: &CallBatch) -> Vec<u8> {
        let mut p = self.open(Event::PostToolBatch, &input.scene, input.scene.prompt, true);
        p.key("tool_calls");
        for (place, call) in input.calls.iter().enumerate() {
            p.out.push(if place == 0 { '[' } else { ',' });
            p.batch_call(call);
        }
        p.out.push(']');
        p.close()
    }

    /// The arguments of a call as its events have them, in one spelling: two that mean the same read the same.
    fn spelt(&self, tool: &str, input: &Frozen, scene: &Scene) -> String {
        let mut p = Payload { out: String::new(), style: self.0 };
        p.tool(tool, Some(input), scene);
        p.out
    }

    fn post_tool_use(&self, input: &Returned) -> Vec<u8> {
        let mut p = self.open(Event::PostToolUse, &input.scene, input.scene.prompt, true);
        p.tool(&input.name, input.arguments.as_ref(), &input.scene);
        p.key("tool_response");
        p.response(&input.name, &input.outcome);
        p.text("tool_use_id", &input.call_id);
        p.raw("duration_ms", &input.took.as_millis().to_string());
        p.close()
    }

    fn post_tool_use_failure(&self, input: &Returned) -> Vec<u8> {
        let mut p = self.open(Event::PostToolUseFailure, &input.scene, input.scene.prompt, true);
        p.tool(&input.name, input.arguments.as_ref(), &input.scene);
        p.text("tool_use_id", &input.call_id);
        p.text("error", &input.outcome.for_model().0.to_text());
        let interrupted = matches!(input.outcome.ended, Ended::Cancelled { .. });
        p.raw("is_interrupt", if interrupted { "true" } else { "false" });
        p.raw("duration_ms", &input.took.as_millis().to_string());
        p.close()
    }

    fn subagent_start(&self, input: &ChildStarting) -> Vec<u8> {
        self.open(Event::SubagentStart, &input.scene, input.scene.prompt, false).close()
    }

    /// Nobody asks for a compaction here but the limit, so it has no instructions of a person's.
    fn pre_compact(&self, input: &Compacting) -> Vec<u8> {
        let mut p = self.open(Event::PreCompact, &input.scene, input.scene.prompt, false);
        p.text("trigger", AUTO);
        p.raw("custom_instructions", "null");
        p.close()
    }

    fn post_compact(&self, input: &Summarised) -> Vec<u8> {
        let mut p = self.open(Event::PostCompact, &input.scene, input.scene.prompt, false);
        p.text("trigger", AUTO);
        p.text("compact_summary", &input.summary.to_text());
        p.close()
    }

    /// Of a session, or of a subagent: what differs is the base, and where the agent's own transcript would be.
    fn stop(&self, event: Event, input: &Ending) -> Vec<u8> {
        let mut p = self.open(event, &input.scene, input.scene.prompt, true);
        p.raw("stop_hook_active", if input.forced_in_turn > 0 { "true" } else { "false" });
        if event == Event::SubagentStop {
            let path =
                agent_transcript(self.0.transcripts, &input.scene.session.id, &input.scene.session.root);
            p.text("agent_transcript_path", &path.to_string_lossy());
        }
        p.text("last_assistant_message", &input.last_text);
        p.raw("background_tasks", "[]");
        p.raw("session_crons", "[]");
        p.close()
    }

    /// The keys every payload begins with.
    fn open(&self, event: Event, scene: &Scene, prompt: Option<Seq>, mode: bool) -> Payload<'_> {
        let mut p = Payload { out: String::from("{"), style: self.0 };
        let session = &scene.session;
        // A subagent's hooks are told the conversation it belongs to.
        p.text("session_id", session.root.as_str());
        p.text("transcript_path", &transcript(self.0.transcripts, &session.root).to_string_lossy());
        p.text("cwd", &scene.session.cwd.to_string_lossy());
        if let Some(prompt) = prompt {
            p.text("prompt_id", &prompt_id(&session.id, prompt));
        }
        if mode {
            p.text("permission_mode", "default");
        }
        if let Some(kind) = session.kind() {
            p.text("agent_id", &agent_id(&session.id));
            p.text("agent_type", kind);
        }
        p.text("hook_event_name", event.name());
        p
    }
}

/// The transcript of a session.
pub(crate) fn transcript(folder: &Path, session: &SessionId) -> std::path::PathBuf {
    folder.join(format!("{session}.jsonl"))
}

/// The transcript of a subagent.
pub(crate) fn agent_transcript(folder: &Path, session: &SessionId, root: &SessionId) -> std::path::PathBuf {
    folder.join(root.as_str()).join(format!("subagents/agent-{}.jsonl", agent_id(session)))
}

/// A subagent's name for hooks, the same each time it is asked for: `a` and 16 hexadecimal digits made of its session's name.
pub(crate) fn agent_id(session: &SessionId) -> String {
    let digest = Sha256::digest(format!("agent\n{session}"));
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("a{hex}")
}

/// A prompt's name, the same each time it is asked for: a UUID (version 8) made of the session's name and the prompt's place.
fn prompt_id(session: &SessionId, prompt: Seq) -> String {
    uuid(&Sha256::digest(format!("prompt\n{session}\n{prompt}")))
}

impl Payload<'_> {
    fn key(&mut self, key: &str) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        write_string(&mut self.out, key);
        self.out.push(':');
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_string(&mut self.out, text);
    }

    fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.out.push_str(json);
    }

    fn value(&mut self, value: View<'_>) {
        match self.style.fidelity {
            // A hook that checks a number must see the number that will be used.
            Fidelity::Strict => value.write_javascript_exact(&mut self.out),
            Fidelity::Exact => value.write_javascript(&mut self.out),
        }
    }

    fn tool(&mut self, name: &str, input: Option<&Frozen>, scene: &Scene) {
        let name = canonical(name);
        self.text("tool_name", name);
        self.key("tool_input");
        let Some(input) = input else { return self.out.push_str("{}") };
        match TOOLS.iter().find(|(tool, _)| *tool == name) {
            Some((_, order)) => self.ordered(name, order, input.root(), &scene.session.cwd),
            None => self.value(input.root()),
        }
    }

    /// One call of a batch: arguments in force, keys and paths as they were written, and what the model reads.
    fn batch_call(&mut self, call: &BatchCall) {
        self.out.push_str("{\"tool_name\":");
        write_string(&mut self.out, canonical(&call.name));
        self.out.push_str(",\"tool_input\":");
        let refused = || Frozen::arguments(&*call.raw).ok();
        match call.arguments.clone().or_else(refused) {
            Some(input) => self.value(input.root()),
            None => self.out.push_str("{}"),
        }
        self.out.push_str(",\"tool_use_id\":");
        write_string(&mut self.out, &call.call_id);
        self.out.push_str(",\"tool_response\":");
        // Tools of MCP servers, and agents, answer in content blocks; why a call failed is a text.
        let blocks = !call.error && (call.name.starts_with("mcp__") || canonical(&call.name) == "Agent");
        self.answer(&call.content.to_text(), blocks);
        self.out.push('}');
    }

    fn answer(&mut self, text: &str, blocks: bool) {
        if blocks {
            self.out.push_str("[{\"type\":\"text\",\"text\":");
            write_string(&mut self.out, text);
            self.out.push_str("}]");
        } else {
            write_string(&mut self.out, text);
        }
    }

    /// Known arguments in the schema's order, defaults included, then the rest as the model wrote them.
    fn ordered(&mut self, tool: &str, order: Order, input: View<'_>, cwd: &Path) {
        self.out.push('{');
        let mut first = true;
        let mut next = |p: &mut Self, key: &str| {
            if !std::mem::take(&mut first) {
                p.out.push(',');
            }
            write_string(&mut p.out, key);
            p.out.push(':');
        };
        for (key, default) in order {
            match (input.get(key), default) {
                (Some(value), _) => {
                    next(self, key);
                    match value.as_str() {
                        Some(path) if *key == "file_path" && FILE_TOOLS.contains(&tool) => {
                            write_string(&mut self.out, &resolve(cwd, &path).to_string_lossy());
                        }
                        _ => self.value(value),
                    }
                }
                (None, Some(default)) => {
                    next(self, key);
                    self.out.push_str(default);
                }
                (None, None) => {}
            }
        }
        for (key, value) in input.entries() {
            if !order.iter().any(|(known, _)| *known == key) {
                next(self, &key);
                self.value(value);
            }
        }
        self.out.push('}');
    }

    /// The tool's structured result, else its text; tools of MCP servers answer in content blocks.
    fn response(&mut self, name: &str, outcome: &Outcome) {
        if let Some(value) = outcome.output.as_ref().and_then(|output| output.value.as_ref()) {
            return self.value(value.root());
        }
        let (content, _) = outcome.for_model();
        self.answer(&content.to_text(), name.starts_with("mcp__"));
    }

    fn close(mut self) -> Vec<u8> {
        self.out.push_str("}\n");
        self.out.into_bytes()
    }
}
