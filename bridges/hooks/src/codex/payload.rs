//! What a hook reads on stdin: one compact JSON object, keys in the client's order, and nothing behind it.
//!
//! A payload is a projection of frozen values; nothing reads it back. The order of its keys is the order of the calls that
//! write them. A key that an event does not have is absent; null stands for what there was none of.

use super::matcher::canonical;
use crate::{
    dialect::{Style, resolve},
    event::Event,
    explain::At,
    farewell::OTHER,
    json::write_string,
    options::Fidelity,
    uuid::uuid,
};
use portcullis_runtime::{
    Asking, Block, ChildStarting, Ending, Frozen, Kind, Outcome, Proposed, Returned, Scene, SessionEnded,
    SessionId, Starting, Submitted, ToolSpec, View,
};
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

/// A shell command.
pub(super) const BASH: &str = "Bash";
/// A patch of files.
pub(super) const APPLY_PATCH: &str = "apply_patch";
/// What the tools of MCP servers begin with.
const MCP: &str = "mcp__";
/// What sets off a compaction.
pub(super) const AUTO: &str = "auto";
/// What the client says where a person may be asked. Whether there is one is nobody's to say beforehand, and nothing here
/// runs past a question because there is none.
const MODE: &str = "default";

/// What a hook of an event reads.
pub(super) fn of(event: Event, at: At<'_>, style: Style<'_>) -> Vec<u8> {
    let bytes = Bytes(style);
    match at {
        At::SessionStart(at) => bytes.session_start(at),
        At::UserPromptSubmit(at) => bytes.prompt_submit(at),
        At::PreToolUse(at) => bytes.pre_tool_use(at),
        At::PermissionRequest(at) => bytes.permission_request(at),
        At::PostToolUse(at) => bytes.post_tool_use(at),
        At::Stop(at) if event == Event::SubagentStop => bytes.subagent_stop(at),
        At::Stop(at) => bytes.stop(at),
        At::TurnEnd(at) => bytes.of_session(&at.scene, Event::Interrupt).close(),
        At::SubagentStart(at) => bytes.subagent_start(at),
        At::PreCompact(at) => bytes.compact(event, &at.scene),
        At::PostCompact(at) => bytes.compact(event, &at.scene),
        At::SessionEnd(at) => bytes.session_end(at),
        // No event of the client's.
        At::Notification(_) | At::PostToolBatch(_) | At::ConfigChange(_) => Vec::new(),
    }
}

/// Writes payloads in a style.
struct Bytes<'a>(Style<'a>);

/// A call, as its events have it.
#[derive(Clone, Copy)]
struct Call<'c> {
    scene: &'c Scene,
    /// As hooks read it.
    tool: &'c str,
    spec: Option<&'c ToolSpec>,
    /// `None` where there was no object.
    input: Option<View<'c>>,
}

impl<'c> Call<'c> {
    fn new(scene: &'c Scene, spec: &'c ToolSpec, input: &'c Frozen) -> Call<'c> {
        Call { scene, tool: canonical(&spec.name), spec: Some(spec), input: Some(input.root()) }
    }

    /// The directory it is for: its own where it names one and the tool heeds that, else the session's.
    fn cwd(self) -> PathBuf {
        let named = || self.input?.get("workdir")?.as_str().filter(|dir| !dir.is_empty());
        let session = &self.scene.session.cwd;
        match named().filter(|_| self.tool == BASH && takes(self.spec, "workdir")) {
            Some(dir) => resolve(session, &dir),
            None => session.clone(),
        }
    }
}

impl Bytes<'_> {
    fn session_start(&self, input: &Starting) -> Vec<u8> {
        let scene = &input.scene;
        let model = input.model.as_deref().or(scene.session.model.as_deref());
        let p = self.open(scene).transcript(&scene.session.id).cwd(&scene.session.cwd);
        p.event(Event::SessionStart).model(model).mode().text("source", input.source.name()).close()
    }

    fn prompt_submit(&self, input: &Submitted) -> Vec<u8> {
        let text = |block: &Block| match block {
            Block::Text { text } => text.to_string(),
            // Nothing that is no text has one.
            _ => String::new(),
        };
        // Without anything between them.
        let prompt: String = input.content.blocks().iter().map(text).collect();
        self.in_agent(&input.scene, Event::UserPromptSubmit, &input.scene.session.cwd)
            .mode()
            .text("prompt", &prompt)
            .close()
    }

    fn pre_tool_use(&self, input: &Proposed) -> Vec<u8> {
        let call = Call::new(&input.scene, &input.tool, &input.so_far);
        self.of_call(Event::PreToolUse, call).input(call).text("tool_use_id", &input.call_id).close()
    }

    /// It names no call, as in the client.
    fn permission_request(&self, input: &Asking) -> Vec<u8> {
        let call = &input.call;
        let call = Call::new(&call.scene, &call.tool, &call.arguments);
        self.of_call(Event::PermissionRequest, call).input_in_question(call).close()
    }

    fn post_tool_use(&self, input: &Returned) -> Vec<u8> {
        let (tool, input_of) = (canonical(&input.name), input.arguments.as_ref().map(Frozen::root));
        let call = Call { scene: &input.scene, tool, spec: input.tool.as_deref(), input: input_of };
        let p = self.of_call(Event::PostToolUse, call).input(call).response(call.tool, &input.outcome);
        p.text("tool_use_id", &input.call_id).close()
    }

    /// Nobody asks for a compaction here but the limit.
    fn compact(&self, event: Event, scene: &Scene) -> Vec<u8> {
        self.in_agent(scene, event, &scene.session.cwd).text("trigger", AUTO).close()
    }

    fn subagent_start(&self, input: &ChildStarting) -> Vec<u8> {
        let scene = &input.scene;
        let model = input.model.as_deref().or(scene.session.model.as_deref());
        let p = self.open(scene).turn(scene).transcript(&scene.session.id).cwd(&scene.session.cwd);
        p.event(Event::SubagentStart).model(model).mode().agent(scene).close()
    }

    /// Of a turn of the session that is about to stop.
    fn stop(&self, input: &Ending) -> Vec<u8> {
        let p = self.of_session(&input.scene, Event::Stop);
        p.flag("stop_hook_active", input.forced_in_turn > 0).last(&input.last_text).close()
    }

    /// Of a turn of a subagent: what it reads first is its parent's conversation.
    fn subagent_stop(&self, input: &Ending) -> Vec<u8> {
        let (scene, session) = (&input.scene, &input.scene.session);
        let p = self.open(scene).turn(scene).transcript(session.parent.as_ref().unwrap_or(&session.root));
        let own = rollout(self.0.transcripts, &session.id);
        let p = p.text("agent_transcript_path", &own.to_string_lossy()).cwd(&session.cwd);
        let p = p.event(Event::SubagentStop).model(session.model.as_deref()).mode();
        p.flag("stop_hook_active", input.forced_in_turn > 0).agent(scene).last(&input.last_text).close()
    }

    fn session_end(&self, input: &SessionEnded) -> Vec<u8> {
        let session = &input.scene.session;
        let p = self.open(&input.scene).transcript(&session.id).cwd(&session.cwd);
        p.event(Event::SessionEnd).text("reason", OTHER).close()
    }

    fn open(&self, scene: &Scene) -> Payload<'_> {
        let p = Payload { out: String::from("{"), style: self.0 };
        // A subagent's hooks are told the conversation it belongs to.
        p.text("session_id", scene.session.root.as_str())
    }

    /// What an event begins with that the session has alone.
    fn of_session(&self, scene: &Scene, event: Event) -> Payload<'_> {
        let session = &scene.session;
        let p = self.open(scene).turn(scene).transcript(&session.id).cwd(&session.cwd);
        p.event(event).model(session.model.as_deref()).mode()
    }

    /// What an event begins with that names the agent in which it happens.
    fn in_agent(&self, scene: &Scene, event: Event, cwd: &Path) -> Payload<'_> {
        let session = &scene.session;
        let p = self.open(scene).turn(scene).agent(scene).transcript(&session.id).cwd(cwd);
        p.event(event).model(session.model.as_deref())
    }

    fn of_call(&self, event: Event, call: Call<'_>) -> Payload<'_> {
        self.in_agent(call.scene, event, &call.cwd()).mode().text("tool_name", call.tool)
    }
}

/// The transcript of a session, or of a subagent.
pub(crate) fn rollout(folder: &Path, session: &SessionId) -> PathBuf {
    folder.join(format!("rollout-{session}.jsonl"))
}

/// A turn's name, the same each time it is asked for: a UUID (version 8) made of the session's name and the turn's number.
pub(crate) fn turn_id(session: &SessionId, turn: u64) -> String {
    uuid(&Sha256::digest(format!("turn\n{session}\n{turn}")))
}

struct Payload<'a> {
    out: String,
    style: Style<'a>,
}

impl Payload<'_> {
    fn key(&mut self, key: &str) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        write_string(&mut self.out, key);
        self.out.push(':');
    }

    fn text(mut self, key: &str, text: &str) -> Self {
        self.key(key);
        write_string(&mut self.out, text);
        self
    }

    fn flag(mut self, key: &str, is: bool) -> Self {
        self.key(key);
        self.out.push_str(if is { "true" } else { "false" });
        self
    }

    fn turn(self, scene: &Scene) -> Self {
        self.text("turn_id", &turn_id(&scene.session.id, scene.turn))
    }

    /// Nothing for the session at the root.
    fn agent(self, scene: &Scene) -> Self {
        match scene.session.kind() {
            Some(kind) => self.text("agent_id", scene.session.id.as_str()).text("agent_type", kind),
            None => self,
        }
    }

    fn transcript(self, session: &SessionId) -> Self {
        let path = rollout(self.style.transcripts, session);
        self.text("transcript_path", &path.to_string_lossy())
    }

    fn cwd(self, cwd: &Path) -> Self {
        self.text("cwd", &cwd.to_string_lossy())
    }

    fn event(self, event: Event) -> Self {
        self.text("hook_event_name", event.name())
    }

    /// The client always names one; a session that nobody told of one has none to name.
    fn model(self, name: Option<&str>) -> Self {
        self.text("model", name.unwrap_or_default())
    }

    fn mode(self) -> Self {
        self.text("permission_mode", MODE)
    }

    /// A model that said nothing said no message.
    fn last(mut self, text: &str) -> Self {
        if text.is_empty() {
            self.key("last_assistant_message");
            self.out.push_str("null");
            return self;
        }
        self.text("last_assistant_message", text)
    }

    /// A shell's command and a patch stand under `command`, alone; the arguments of any other tool, and what has neither
    /// where it is looked for, as they are.
    fn input(mut self, call: Call<'_>) -> Self {
        self.key("tool_input");
        let Some(input) = call.input else {
            self.out.push_str("{}");
            return self;
        };
        match alone(call.tool, call.spec, input) {
            Some(command) => self.commanded(&command, None),
            None => self.value(input),
        }
        self
    }

    /// Before a person is asked, the model's reason for a command is told, and a patch is the part between its markers.
    fn input_in_question(mut self, call: Call<'_>) -> Self {
        match call.input.and_then(|input| Some((input, alone(call.tool, call.spec, input)?))) {
            Some((input, command)) => {
                self.key("tool_input");
                let why = || ["justification", "description"].iter().find_map(|key| input.get(key)?.as_str());
                match call.tool {
                    BASH => self.commanded(&command, why()),
                    _ => self.commanded(command.trim(), None),
                }
                self
            }
            None => self.input(call),
        }
    }

    fn commanded(&mut self, command: &str, description: Option<Cow<'_, str>>) {
        self.out.push_str("{\"command\":");
        write_string(&mut self.out, command);
        if let Some(description) = description {
            self.out.push_str(",\"description\":");
            write_string(&mut self.out, &description);
        }
        self.out.push('}');
    }

    /// What a command printed; what the model reads of a patch; the content of an MCP server's result, and its data; of
    /// any other tool its result as data, else its text.
    fn response(mut self, tool: &str, outcome: &Outcome) -> Self {
        self.key("tool_response");
        let value = outcome.output.as_ref().and_then(|output| output.value.as_ref()).map(Frozen::root);
        let said = outcome.for_model().0;
        match value {
            Some(value) if tool.starts_with(MCP) => self.blocks(Some(value), &said.to_text()),
            None if tool.starts_with(MCP) => self.blocks(None, &said.to_text()),
            Some(value) if tool == BASH => match printed(value) {
                Some(text) => write_string(&mut self.out, &text),
                None => write_string(&mut self.out, &said.to_text()),
            },
            Some(value) if tool != APPLY_PATCH => self.value(value),
            _ => write_string(&mut self.out, &said.to_text()),
        }
        self
    }

    /// An MCP server's result.
    fn blocks(&mut self, value: Option<View<'_>>, text: &str) {
        let data = match value {
            // It is one already.
            Some(value) if value.get("content").is_some_and(|content| content.kind() == Kind::Array) => {
                return self.value(value);
            }
            Some(value) if value.kind() == Kind::Array => {
                self.out.push_str("{\"content\":");
                self.value(value);
                return self.out.push('}');
            }
            data => data,
        };
        self.out.push_str("{\"content\":[{\"type\":\"text\",\"text\":");
        write_string(&mut self.out, text);
        self.out.push_str("}]");
        if let Some(data) = data {
            self.out.push_str(",\"structuredContent\":");
            self.value(data);
        }
        self.out.push('}');
    }

    /// As the client writes what a model wrote: keys in the model's order, fewest escapes, and numbers as its JSON library
    /// does.
    fn value(&mut self, value: View<'_>) {
        match value.kind() {
            Kind::Object => {
                let mut before = '{';
                for (key, entry) in value.entries() {
                    self.out.push(std::mem::replace(&mut before, ','));
                    write_string(&mut self.out, &key);
                    self.out.push(':');
                    self.value(entry);
                }
                self.out.push_str(if before == '{' { "{}" } else { "}" });
            }
            Kind::Array => {
                let mut before = '[';
                for item in value.items() {
                    self.out.push(std::mem::replace(&mut before, ','));
                    self.value(item);
                }
                self.out.push_str(if before == '[' { "[]" } else { "]" });
            }
            Kind::String => write_string(&mut self.out, &value.as_str().unwrap_or_default()),
            Kind::Number => self.number(value),
            Kind::Null | Kind::Bool => self.out.push_str(value.text()),
        }
    }

    /// Integers of 64 bits are exact, anything else is a double. In strict, integers of any size are exact: a hook that
    /// checks a number must see the one that will be used.
    fn number(&mut self, number: View<'_>) {
        let literal = number.text();
        let whole = literal != "-0" && !literal.contains(['.', 'e', 'E']);
        let fits = || literal.parse::<i64>().is_ok() || literal.parse::<u64>().is_ok();
        match number.as_f64().filter(|_| !whole || !(self.style.fidelity == Fidelity::Strict || fits())) {
            Some(double) => self.out.push_str(&serde_json::to_string(&double).unwrap_or_default()),
            // Beyond the range of doubles the client would have refused the call.
            None => self.out.push_str(literal),
        }
    }

    fn close(mut self) -> Vec<u8> {
        self.out.push('}');
        self.out.into_bytes()
    }
}

/// What stands alone under `command`, a shell's or a patch.
pub(super) fn alone<'v>(tool: &str, spec: Option<&ToolSpec>, input: View<'v>) -> Option<Cow<'v, str>> {
    input.get(argument(tool, spec, input)?)?.as_str()
}

/// The argument that is a shell's command, or a patch. A name that the tool does not know is none of it, whatever the model
/// wrote there: what a hook reads as the command has to be what runs. Nothing if several may be it.
pub(super) fn argument(tool: &str, spec: Option<&ToolSpec>, input: View<'_>) -> Option<&'static str> {
    let named: &[&'static str] = match tool {
        BASH => &["command", "cmd"],
        APPLY_PATCH => &["command", "input", "patch"],
        _ => return None,
    };
    let known = || named.iter().copied().filter(|key| takes(spec, key));
    let mut given = known().filter(|key| input.get(key).is_some());
    match (given.next(), given.next()) {
        (None, _) => known().next(),
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
    }
}

/// Whether a tool knows an argument of this name; one that names none of its arguments may know any.
fn takes(spec: Option<&ToolSpec>, key: &str) -> bool {
    let named = spec.and_then(|spec| spec.schema.root().get("properties"));
    named.is_none_or(|named| named.is_empty() || named.get(key).is_some())
}

/// What a command printed, of its result as data: a text, or stdout and, on a line of its own, stderr.
fn printed<'v>(value: View<'v>) -> Option<Cow<'v, str>> {
    if let Some(text) = value.as_str() {
        return Some(text);
    }
    let part = |key| value.get(key).and_then(View::as_str);
    match (part("stdout"), part("stderr")) {
        (Some(out), Some(err)) if !err.is_empty() => {
            let between = if out.is_empty() || out.ends_with('\n') { "" } else { "\n" };
            Some(format!("{out}{between}{err}").into())
        }
        (out, err) => out.or(err),
    }
}

#[cfg(test)]
mod tests;
