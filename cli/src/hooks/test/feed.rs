//! What a case feeds: the event, once or several times, with what goes with it.

use super::super::args::DialectArg;
use super::case::{Case, typed};
use super::scenario::Scenario;
use clap::ValueEnum;
use portcullis::hooks::{ClaudeHooks, CodexHooks};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The events that can be made to happen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    Notification,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    PreCompact,
    PostCompact,
    Interrupt,
    ConfigChange,
    SessionEnd,
}

impl Event {
    const ALL: [Event; 18] = [
        Event::SessionStart,
        Event::UserPromptSubmit,
        Event::PreToolUse,
        Event::PermissionRequest,
        Event::Notification,
        Event::PermissionDenied,
        Event::PostToolUse,
        Event::PostToolUseFailure,
        Event::PostToolBatch,
        Event::Stop,
        Event::StopFailure,
        Event::SubagentStart,
        Event::SubagentStop,
        Event::PreCompact,
        Event::PostCompact,
        Event::Interrupt,
        Event::ConfigChange,
        Event::SessionEnd,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Event::SessionStart => "SessionStart",
            Event::UserPromptSubmit => "UserPromptSubmit",
            Event::PreToolUse => "PreToolUse",
            Event::PermissionRequest => "PermissionRequest",
            Event::Notification => "Notification",
            Event::PermissionDenied => "PermissionDenied",
            Event::PostToolUse => "PostToolUse",
            Event::PostToolUseFailure => "PostToolUseFailure",
            Event::PostToolBatch => "PostToolBatch",
            Event::Stop => "Stop",
            Event::StopFailure => "StopFailure",
            Event::SubagentStart => "SubagentStart",
            Event::SubagentStop => "SubagentStop",
            Event::PreCompact => "PreCompact",
            Event::PostCompact => "PostCompact",
            Event::Interrupt => "Interrupt",
            Event::ConfigChange => "ConfigChange",
            Event::SessionEnd => "SessionEnd",
        }
    }

    pub(super) fn is_of_tool(self) -> bool {
        matches!(
            self,
            Event::PreToolUse
                | Event::PermissionRequest
                | Event::Notification
                | Event::PermissionDenied
                | Event::PostToolUse
                | Event::PostToolUseFailure
                | Event::PostToolBatch
        )
    }

    /// It is told of what has happened, to hooks that nobody waits for.
    pub(super) fn is_notice(self) -> bool {
        matches!(self, Event::Notification | Event::StopFailure | Event::Interrupt)
    }

    /// It happens when a person is asked about a call.
    pub(super) fn is_of_question(self) -> bool {
        matches!(self, Event::PermissionRequest | Event::Notification)
    }

    pub(super) fn is_of_compaction(self) -> bool {
        matches!(self, Event::PreCompact | Event::PostCompact)
    }

    /// It does not happen in subagents.
    fn is_of_session(self) -> bool {
        self.is_of_compaction() || matches!(self, Event::ConfigChange | Event::SessionEnd)
    }

    pub(super) fn is_stop(self) -> bool {
        matches!(self, Event::Stop | Event::SubagentStop)
    }
}

/// One time that the event happens.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// The call's id, for the events of tools.
    pub(super) id: String,
    pub(super) tool: String,
    /// The exact text of the arguments.
    pub(super) input: String,
    /// JSON of what the tool answers.
    pub(super) response: Option<String>,
    pub(super) prompt: String,
    pub(super) source: String,
    /// The turn was forced on before.
    pub(super) active: bool,
    pub(super) last: String,
    /// The call whose body makes this one.
    pub(super) parent: Option<String>,
    /// The kind of agent that makes it.
    pub(super) agent: Option<String>,
}

/// A subagent by the name that the case gives it. The real one's name is the runtime's; an expectation that says this one
/// means that.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    pub(super) name: Option<String>,
    pub(super) kind: String,
}

/// A rule that sits behind the hooks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GuardRule {
    pub(super) tool: String,
    /// What the command begins with; any if absent.
    #[serde(default)]
    pub(super) prefix: String,
    /// There is one effect, and a rule must name it.
    #[serde(rename = "effect")]
    _effect: Effect,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Deny,
}

/// Everything that a case feeds.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) dialect: DialectArg,
    pub(super) event: Event,
    pub(super) rounds: Vec<Round>,
    /// The rounds are calls of one step.
    pub(super) batch: bool,
    /// All of it happens inside this subagent.
    pub(super) agent: Option<Agent>,
    pub(super) guards: Vec<GuardRule>,
    pub(super) scenario: Scenario,
    /// The body of the tool fails.
    pub(super) fails: bool,
    /// What the model answers hooks that ask it.
    pub(super) model_says: Option<String>,
}

const KNOWN: [&str; 33] = [
    "id",
    "title",
    "kind",
    "notes",
    "core",
    "refs",
    "observed_in",
    "requires",
    "dialect",
    "event",
    "tool_name",
    "tool_input",
    "tool_use_id",
    "tool_input_gen",
    "tool_response",
    "prompt",
    "source",
    "agent_id",
    "agent_type",
    "stop_hook_active",
    "last_assistant_message",
    "hooks_config",
    "hooks_config_file",
    "layers",
    "trust",
    "env",
    "guard_rules",
    "model_says",
    "sequence",
    "batch",
    "scenario",
    "needs",
    "expected",
];

/// A round's own values, in the case itself, in a `sequence` or in a `batch`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    tool_use_id: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Box<RawValue>>,
    tool_response: Option<Box<RawValue>>,
    prompt: Option<String>,
    source: Option<String>,
    agent_id: Option<String>,
    agent_type: Option<String>,
    stop_hook_active: Option<bool>,
    last_assistant_message: Option<String>,
    parent: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    field: String,
    repeat: Option<String>,
    count: Option<usize>,
    leaf: Option<Box<RawValue>>,
    nest: Option<usize>,
}

impl Feed {
    pub(super) fn read(case: &Case) -> Result<Feed, String> {
        let named = case.text("dialect")?.ok_or("the case names no `dialect`")?;
        let dialect = DialectArg::from_str(&named, false);
        let dialect = dialect.map_err(|_| format!("there is no dialect `{named}`"))?;
        if let Some(unknown) = case.names().find(|name| !KNOWN.contains(name)) {
            return Err(format!("the field `{unknown}` is not understood, so it was not fed"));
        }
        let name = case.text("event")?.ok_or("the case names no `event`")?;
        let event = Event::ALL.into_iter().find(|event| event.name() == name);
        let event = event.filter(|_| happens(dialect, &name));
        let event = event.ok_or_else(|| format!("nothing here makes the event `{name}` happen"))?;
        let scenario = Scenario::read(case)?;
        let base = base(case)?;
        let batch: Option<Vec<Given>> = case.get("batch")?;
        let sequence: Option<Vec<Given>> = case.get("sequence")?;
        let first_id = scenario.call().unwrap_or("toolu_1").to_owned();
        let (rounds, is_batch) = match (batch, sequence) {
            (Some(_), Some(_)) => return Err("a case has a `batch` or a `sequence`, not both".into()),
            (Some(batch), None) if event.is_of_tool() => (batch, true),
            (Some(_), None) => return Err(format!("a `batch` is one of tool calls, not of {name}")),
            (None, Some(sequence)) => (sequence, false),
            (None, None) => (vec![Given::default()], false),
        };
        if rounds.is_empty() {
            return Err("the case feeds nothing".into());
        }
        let agent = base.agent_type.clone().or_else(|| base.agent_id.is_some().then(String::new));
        let agent = agent.filter(|_| !is_batch).map(|kind| {
            let kind = if kind.is_empty() { "general-purpose".into() } else { kind };
            Agent { name: base.agent_id.clone(), kind }
        });
        let inside = matches!(event, Event::SubagentStart | Event::SubagentStop);
        let agent = agent.or_else(|| inside.then(|| Agent { name: None, kind: "general-purpose".into() }));
        if agent.is_some() && event.is_of_session() {
            return Err(format!("{name} can only be fed to a session, not to a subagent"));
        }
        let rounds = rounds.into_iter().enumerate();
        let rounds = rounds.map(|(at, given)| round(event, &base, given, at, &first_id));
        let mut rounds = rounds.collect::<Result<Vec<Round>, String>>()?;
        if event.is_of_tool() {
            spell(case, &mut rounds)?;
        }
        let expected = case.expected()?;
        let fails = event == Event::PostToolUseFailure
            || expected.get("tool_outcome").is_some_and(|outcome| outcome.get() == "\"error\"");
        let guards = case.get("guard_rules")?.unwrap_or_default();
        let model_says = case.text("model_says")?;
        Ok(Feed { dialect, event, rounds, batch: is_batch, agent, guards, scenario, fails, model_says })
    }

    /// The rounds of each turn, for the events that end one: a round whose turn was not forced on begins the next.
    pub(super) fn turns(&self) -> Vec<&[Round]> {
        let mut starts: Vec<usize> = vec![0];
        starts.extend((1..self.rounds.len()).filter(|at| !self.rounds[*at].active));
        starts.push(self.rounds.len());
        starts.windows(2).map(|pair| &self.rounds[pair[0]..pair[1]]).collect()
    }
}

/// Whether the client has such an event, and it happens here.
fn happens(dialect: DialectArg, name: &str) -> bool {
    let here = |(known, silent): (&str, Option<&str>)| known == name && silent.is_none();
    match dialect {
        DialectArg::Claude => ClaudeHooks::events().any(here),
        DialectArg::Codex => CodexHooks::events().any(here),
    }
}

fn base(case: &Case) -> Result<Given, String> {
    Ok(Given {
        tool_use_id: case.get("tool_use_id")?,
        tool_name: case.get("tool_name")?,
        tool_input: case.get("tool_input")?,
        tool_response: case.get("tool_response")?,
        prompt: case.get("prompt")?,
        source: case.get("source")?,
        agent_id: case.get("agent_id")?,
        agent_type: case.get("agent_type")?,
        stop_hook_active: case.get("stop_hook_active")?,
        last_assistant_message: case.get("last_assistant_message")?,
        parent: None,
    })
}

fn round(event: Event, base: &Given, given: Given, at: usize, first_id: &str) -> Result<Round, String> {
    let text = |own: Option<String>, base: &Option<String>| own.or_else(|| base.clone());
    let raw = |own: Option<Box<RawValue>>, base: &Option<Box<RawValue>>| {
        own.or_else(|| base.clone()).map(|raw| raw.get().to_owned())
    };
    let tool = text(given.tool_name, &base.tool_name);
    if event.is_of_tool() && tool.is_none() {
        return Err(format!("{} needs a `tool_name`", event.name()));
    }
    let id = given.tool_use_id.or_else(|| if at == 0 { base.tool_use_id.clone() } else { None });
    let own_id = || if at == 0 { first_id.to_owned() } else { format!("toolu_{}", at + 1) };
    Ok(Round {
        id: id.unwrap_or_else(own_id),
        tool: tool.unwrap_or_default(),
        input: raw(given.tool_input, &base.tool_input).unwrap_or_else(|| "{}".into()),
        response: raw(given.tool_response, &base.tool_response),
        prompt: text(given.prompt, &base.prompt).unwrap_or_else(|| "Do what the case is about.".into()),
        source: text(given.source, &base.source).unwrap_or_else(|| match event {
            Event::ConfigChange => "local_settings".into(),
            _ => "startup".into(),
        }),
        active: given.stop_hook_active.or(base.stop_hook_active).unwrap_or(false),
        last: text(given.last_assistant_message, &base.last_assistant_message)
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| "done".into()),
        parent: given.parent,
        agent: given.agent_type.or(given.agent_id.map(|_| "general-purpose".into())),
    })
}

/// Arguments in the exact spelling of a file beside the case, or with a field that is too large to be written out.
fn spell(case: &Case, rounds: &mut [Round]) -> Result<(), String> {
    let file = case.folder.join("tool_input_raw.txt");
    if file.is_file() {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("tool_input_raw.txt: {e}"))?;
        rounds.iter_mut().for_each(|round| round.input = text.clone());
    }
    let Some(raw) = case.raw("tool_input_gen") else { return Ok(()) };
    let made: Generated = typed("tool_input_gen", raw)?;
    let value = match (made.repeat, made.count, made.leaf, made.nest) {
        (Some(text), Some(count), None, None) => quoted(&text.repeat(count)),
        (None, None, Some(leaf), Some(nest)) => {
            format!("{}{}{}", "[".repeat(nest), leaf.get(), "]".repeat(nest))
        }
        _ => return Err("`tool_input_gen` has `repeat` and `count`, or `leaf` and `nest`".into()),
    };
    for round in rounds {
        let body = round.input.trim_end();
        let body = body.strip_suffix('}').ok_or("`tool_input_gen` adds a field to an object")?.trim_end();
        let comma = if body.ends_with('{') { "" } else { "," };
        round.input = format!("{body}{comma}{}:{value}}}", quoted(&made.field));
    }
    Ok(())
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    // A string always has a JSON form.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_that_happens_here_can_be_fed() {
        let every = ClaudeHooks::events().chain(CodexHooks::events());
        for (name, _) in every.filter(|(_, silent)| silent.is_none()) {
            assert!(Event::ALL.iter().any(|event| event.name() == name), "{name}");
        }
    }
}
