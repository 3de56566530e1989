//! The `Agent` tool: the model hands a task to another agent.

use portcullis_runtime::{
    AgentSpec, Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec, raw_tool,
};
use std::{fmt::Write, sync::Arc};

/// A kind of agent that the model may start. What is not narrowed is inherited.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentKind {
    /// Its name: what the model asks for, and what policies and hooks match.
    pub name: Arc<str>,
    /// What it is for, shown to the model.
    pub about: Arc<str>,
    /// The only tools it may use; `None` for all of its parent's.
    pub tools: Option<Vec<Arc<str>>>,
    /// Its system text; `None` for its parent's.
    pub system: Option<Arc<str>>,
    /// Owners whose registrations do not cover it. The host's to say; shown in the child's `config/in-force`.
    pub opt_out: Vec<Arc<str>>,
}

impl AgentKind {
    /// A kind that inherits everything.
    pub fn new(name: impl Into<Arc<str>>, about: impl Into<Arc<str>>) -> AgentKind {
        AgentKind { name: name.into(), about: about.into(), tools: None, system: None, opt_out: Vec::new() }
    }

    /// Only these tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = impl Into<Arc<str>>>) -> AgentKind {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// A system text of its own.
    pub fn system(mut self, text: impl Into<Arc<str>>) -> AgentKind {
        self.system = Some(text.into());
        self
    }

    /// An owner whose registrations do not cover it.
    pub fn opt_out(mut self, owner: impl Into<Arc<str>>) -> AgentKind {
        self.opt_out.push(owner.into());
        self
    }
}

/// The arguments, in the order and with the names that Claude Code's own tool has.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    /// What the task is, in three to five words.
    #[expect(dead_code, reason = "shown to people and hooks, not needed to run it")]
    description: String,
    /// The task, complete: the agent sees nothing else of this conversation.
    prompt: String,
    /// The kind of agent; the first kind if absent.
    #[serde(default)]
    subagent_type: Option<String>,
}

/// The `Agent` tool over these kinds. Each call runs a session of its own and answers with the last thing it said.
///
/// # Errors
/// Never for a list with at least one kind; without one the tool would have nothing to start.
pub fn agent_tool(kinds: Vec<AgentKind>) -> Result<impl Tool, SpecError> {
    let mut about =
        String::from("Hands a task to another agent and answers with its report. Kinds of agents:");
    for kind in &kinds {
        // Writing to a String cannot fail.
        let _ = write!(about, "\n- {}: {}", kind.name, kind.about);
    }
    if kinds.is_empty() {
        return Err(SpecError::Name("Agent (no kind of agent was given)".into()));
    }
    // Run again after a crash, it takes its child up where that one is, and starts nothing twice.
    let spec = ToolSpec::of::<Arguments>("Agent", about)?.concurrency_safe().idempotent();
    Ok(raw_tool(spec, async move |call: Execution, cx: ToolCx| {
        let arguments = call.arguments.decode::<Arguments>()?;
        let kind = match &arguments.subagent_type {
            None => kinds.first(),
            Some(name) => kinds.iter().find(|kind| *kind.name == **name),
        };
        let Some(kind) = kind else {
            let known: Vec<&str> = kinds.iter().map(|kind| &*kind.name).collect();
            let asked = arguments.subagent_type.unwrap_or_default();
            let known = known.join(", ");
            return Err(ToolError::new(format!("There is no kind of agent `{asked}`. There are: {known}.")));
        };
        let mut spec = AgentSpec::new(kind.name.clone(), arguments.prompt);
        spec.tools = kind.tools.clone();
        spec.system = kind.system.clone();
        spec.opt_out = kind.opt_out.clone();
        match cx.spawn(spec).await {
            Ok(done) if done.end.is_success() => Ok(Output { content: done.report, value: None }),
            Ok(done) => Err(ToolError::new(format!(
                "The agent's turn ended otherwise than completed ({}). Its last words: {}",
                done.end,
                done.report.to_text()
            ))),
            Err(error) => Err(ToolError::new(error.to_string())),
        }
    }))
}
