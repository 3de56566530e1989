//! What a handler does, as its file says it.

use crate::{post::Post, tool::Called};
use std::sync::Arc;

/// A handler's work, before placeholders in it are filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Written {
    /// A process.
    Command {
        /// A line for the shell, or a program.
        command: Arc<str>,
        /// Present, even empty, means: no shell.
        args: Option<Vec<Arc<str>>>,
    },
    /// A question to a model.
    Ask(Ask),
    /// A request to a server.
    Post(Post),
    /// A call of a tool of an MCP server.
    Tool(Called),
}

/// A question to a model or to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    pub(crate) whom: Whom,
    /// The question, with `$ARGUMENTS` for what the event is about.
    pub(crate) prompt: Arc<str>,
    /// The model it is meant for.
    pub(crate) model: Option<Arc<str>>,
    /// After a call, a no is feedback and not the end of the turn.
    pub(crate) goes_on: bool,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whom {
    /// The session's model, in one request.
    Model,
    /// An agent with tools.
    Agent,
}

impl Written {
    /// The client's name of the kind of handler.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Written::Command { .. } => "command",
            Written::Ask(Ask { whom: Whom::Model, .. }) => "prompt",
            Written::Ask(Ask { whom: Whom::Agent, .. }) => "agent",
            Written::Post(_) => "http",
            Written::Tool(_) => "mcp_tool",
        }
    }

    /// What reasons and records call it: the text that stands in the file.
    pub(crate) fn name(&self) -> &str {
        match self {
            Written::Command { command, .. } => command,
            Written::Ask(ask) => &ask.prompt,
            Written::Post(post) => &post.url,
            Written::Tool(called) => &called.name,
        }
    }

    /// The arguments of a program that is started without a shell.
    pub(crate) fn args(&self) -> Option<&[Arc<str>]> {
        match self {
            Written::Command { args, .. } => args.as_deref(),
            _ => None,
        }
    }

    /// It with its arguments, as a person reads it.
    pub(crate) fn line(&self) -> String {
        let words = self.args().into_iter().flatten().map(|arg| &**arg);
        std::iter::once(self.name()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Whatever else tells it from a handler of the same name, in texts.
    pub(crate) fn tell_apart(&self, add: &mut dyn FnMut(Option<&str>)) {
        match self {
            Written::Command { args, .. } => {
                args.iter().flatten().for_each(|arg| add(Some(arg)));
                if args.is_some() {
                    add(None);
                }
            }
            Written::Ask(ask) => {
                add(Some(self.kind()));
                add(ask.model.as_deref());
                add(ask.goes_on.then_some("continueOnBlock"));
            }
            Written::Post(post) => {
                add(Some(self.kind()));
                for (name, value) in &post.headers {
                    add(Some(name));
                    add(Some(value));
                }
                add(None);
                post.variables.iter().for_each(|name| add(Some(name)));
            }
            Written::Tool(called) => {
                add(Some(self.kind()));
                add(Some(&called.server));
                add(Some(&called.tool));
                add(Some(&called.input));
            }
        }
    }
}
