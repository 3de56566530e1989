//! Handlers of type `mcp_tool`: a tool of an MCP server is called, and its text is what a command would have printed.
//!
//! Which servers there are, and how they are reached, is the host's business: it provides [`McpTools`].

use crate::json::{self, Node, Value};
use futures::future::BoxFuture;
use portcullis_runtime::{Frozen, Scene};
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
    pub(crate) filling: Filling,
}

/// How such a text is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Filling {
    /// It stays a text, with nothing where there is nothing in the event.
    Text,
    /// One that is a path alone becomes what stands there, of whatever kind. Where there is nothing, the hook fails.
    Value,
}

impl Called {
    /// Its arguments for an event, which is JSON. The error is a sentence.
    pub(crate) fn arguments(&self, about: &[u8]) -> Result<Frozen, String> {
        let about = String::from_utf8_lossy(about);
        let event = json::parse(json::trim(&about)).ok();
        let mut out = String::new();
        match json::parse(&self.input) {
            Ok(input) => self.filling.fill(input, event.as_ref())?.write(&mut out),
            // It was written from a node.
            Err(_) => out.push_str("{}"),
        }
        Frozen::arguments(out).map_err(|refused| refused.to_string())
    }
}

impl Filling {
    /// Fills in every text of a value.
    fn fill<'t>(self, node: Node<'t>, event: Option<&Node<'t>>) -> Result<Node<'t>, String> {
        let value = match node.value {
            Value::String(text) => self.text(&text, event)?,
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.fill(item, event)).collect::<Result<_, _>>()?)
            }
            Value::Object(mut entries) => {
                for entry in &mut entries {
                    let value = std::mem::replace(&mut entry.value, Node { at: 0, value: Value::Null });
                    entry.value = self.fill(value, event)?;
                }
                Value::Object(entries)
            }
            other => other,
        };
        Ok(Node { at: node.at, value })
    }

    /// `${a.b}` is what stands there in the event: in a text, a text as it is and anything else as JSON.
    fn text<'t>(self, text: &str, event: Option<&Node<'t>>) -> Result<Value<'t>, String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((at, path, end)) = placeholder(rest) {
            out.push_str(&rest[..at]);
            let found = path.split('.').try_fold(event, |at, key| at.map(|at| at.get(key))).flatten();
            match (self, found) {
                (Filling::Value, None) => return Err(format!("there is no `{path}` in the event")),
                (Filling::Value, Some(found)) if text == &rest[at..end] => return Ok(found.value.clone()),
                (_, Some(Node { value: Value::String(text), .. })) => out.push_str(text),
                (Filling::Text, Some(Node { value: Value::Null, .. }) | None) => {}
                (_, Some(other)) => other.write(&mut out),
            }
            rest = &rest[end..];
        }
        Ok(Value::String((out + rest).into()))
    }
}

/// The first `${PATH}` of a text: where it begins, the path, where it ends.
fn placeholder(text: &str) -> Option<(usize, &str, usize)> {
    let at = text.find("${")?;
    let end = at + text[at..].find('}')?;
    Some((at, &text[at + 2..end], end + 1))
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
            filling: Filling::Text,
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

    // C-BRIDGE-1
    #[test]
    fn a_path_alone_may_become_what_stands_there() {
        let event = br#"{"tool_input":{"n":1.0,"l":[1],"o":{"a":null},"s":"t"}}"#;
        let of = |input: &str| {
            let called = Called {
                server: "s".into(),
                tool: "t".into(),
                name: "n".into(),
                input: input.into(),
                filling: Filling::Value,
            };
            called.arguments(event).map(|arguments| arguments.text().to_owned())
        };
        for (input, filled) in [
            (r#"{"a":"${tool_input.n}","b":["${tool_input.l}"]}"#, r#"{"a":1.0,"b":[[1]]}"#),
            (r#"{"a":"${tool_input.o.a}","b":"-${tool_input.o.a}"}"#, r#"{"a":null,"b":"-null"}"#),
            (r#"{"a":"${tool_input.s}${tool_input.l}","b":2}"#, r#"{"a":"t[1]","b":2}"#),
            (r#"{"a":"${tool_input.o}"}"#, r#"{"a":{"a":null}}"#),
        ] {
            assert_eq!(of(input).as_deref(), Ok(filled), "{input}");
        }
        assert_eq!(
            of(r#"{"a":"x ${tool_input.m}"}"#).unwrap_err(),
            "there is no `tool_input.m` in the event"
        );
    }
}
