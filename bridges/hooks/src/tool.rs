//! Handlers of type `mcp_tool`: a tool of an MCP server is called, and its text is what a command would have printed.
//!
//! Which servers there are, and how they are reached, is the host's business: it provides [`McpTools`].

use crate::json::{self, Node, Value};
use futures::future::BoxFuture;
use portcullis_runtime::{Frozen, Refused, Scene};
use std::sync::Arc;

/// Calls tools of MCP servers for hooks. Dropping the future withdraws the call.
pub trait McpTools: Send + Sync + 'static {
    /// Calls one. An error is a sentence: there is no such server or tool, or it could not be reached.
    fn call(&self, call: McpCall) -> BoxFuture<'static, Result<McpText, String>>;
}

/// A call of a hook.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpCall {
    /// Where the hook is called.
    pub scene: Scene,
    /// The server, as the hook file names it.
    pub server: Arc<str>,
    /// Its tool.
    pub tool: Arc<str>,
    /// The arguments, an object, with what the event is about filled in.
    pub arguments: Frozen,
}

/// What a tool came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpText {
    /// The text of its result.
    pub text: String,
    /// The tool says that it failed: then the text is no answer, but why.
    pub error: bool,
}

impl McpText {
    /// A result.
    pub fn new(text: impl Into<String>) -> McpText {
        McpText { text: text.into(), error: false }
    }

    /// A failure.
    pub fn failed(text: impl Into<String>) -> McpText {
        McpText { text: text.into(), error: true }
    }
}

/// The call as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Called {
    pub(crate) server: Arc<str>,
    pub(crate) tool: Arc<str>,
    /// What reasons call it.
    pub(crate) name: Arc<str>,
    /// JSON of an object; texts in it may have `${path.in.the.event}`.
    pub(crate) input: Arc<str>,
}

impl Called {
    /// Its arguments for an event, which is JSON.
    pub(crate) fn arguments(&self, about: &[u8]) -> Result<Frozen, Refused> {
        let about = String::from_utf8_lossy(about);
        let event = json::parse(json::trim(&about)).ok();
        let mut out = String::new();
        match json::parse(&self.input) {
            Ok(input) => fill(input, event.as_ref()).write(&mut out),
            // It was written from a node.
            Err(_) => out.push_str("{}"),
        }
        Frozen::arguments(out)
    }
}

/// Fills in every text of a value.
fn fill<'t>(node: Node<'t>, event: Option<&Node<'_>>) -> Node<'t> {
    let value = match node.value {
        Value::String(text) => Value::String(filled(&text, event).into()),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| fill(item, event)).collect()),
        Value::Object(mut entries) => {
            for entry in &mut entries {
                let value = std::mem::replace(&mut entry.value, Node { at: 0, value: Value::Null });
                entry.value = fill(value, event);
            }
            Value::Object(entries)
        }
        other => other,
    };
    Node { at: node.at, value }
}

/// `${a.b}` is what stands there in the event: a text as it is, anything else as JSON, nothing if it is not there.
fn filled(text: &str, event: Option<&Node<'_>>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else { break };
        out.push_str(&rest[..at]);
        let path = &rest[at + 2..at + end];
        let found = path.split('.').try_fold(event, |at, key| at.map(|at| at.get(key)));
        match found.flatten() {
            Some(Node { value: Value::String(text), .. }) => out.push_str(text),
            Some(Node { value: Value::Null, .. }) | None => {}
            Some(other) => other.write(&mut out),
        }
        rest = &rest[at + end + 1..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_event_is_about_is_filled_in_once() {
        let called = |input: &str| Called {
            server: "s".into(),
            tool: "t".into(),
            name: "n".into(),
            input: input.into(),
        };
        let event = b"{\"tool_input\":{\"command\":\"echo ${session_id}\",\"n\":1.0,\"l\":[1]},\"session_id\":\"s-1\"}\n";
        let of = |input: &str| called(input).arguments(event).unwrap().text().to_owned();
        assert_eq!(
            of(
                r#"{"cmd":"${tool_input.command}","at":["${session_id}/${tool_input.n}",{"x":"${tool_input.l}"}],"n":2}"#
            ),
            r#"{"cmd":"echo ${session_id}","at":["s-1/1.0",{"x":"[1]"}],"n":2}"#
        );
        assert_eq!(
            of(r#"{"a":"${no.such}-${tool_input.command.x}-${","b":"$x"}"#),
            r#"{"a":"--${","b":"$x"}"#
        );
    }
}
