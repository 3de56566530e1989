//! What a script asserts about the requests it gets.

use crate::texts::{Texts, shorten};
use portcullis_runtime::{AssistantBlock, Message, ModelRequest, Role};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    last_role: Option<Role>,
    last_contains: Texts,
    contains: Texts,
    excludes: Texts,
    system_contains: Texts,
    tools_include: Texts,
    tools_exclude: Texts,
    results: Option<Vec<ExpectResult>>,
}

/// About one result of the calls of the last answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExpectResult {
    id: Option<String>,
    name: Option<String>,
    error: Option<bool>,
    contains: Texts,
    excludes: Texts,
}

/// How much of a text a message about it shows.
const SEEN: usize = 200;

impl Expect {
    /// Checks a request; the error says what was expected and what was seen.
    pub(crate) fn check(&self, request: &ModelRequest) -> Result<(), String> {
        let last = request.messages.last();
        if let Some(role) = self.last_role
            && request.messages.last_role() != Some(role)
        {
            return Err(format!(
                "expected the last message to be of role {}, saw {}",
                word(role),
                seen(last)
            ));
        }
        for part in &self.last_contains.0 {
            if !last.is_some_and(|message| occurs(message, part)) {
                return Err(format!("expected the last message to contain {part:?}, saw {}", seen(last)));
            }
        }
        for part in &self.contains.0 {
            if !request.messages.rev().any(|message| occurs(message, part)) {
                return Err(format!(
                    "expected a message that contains {part:?}, saw none in {}; the last is {}",
                    request.messages.len(),
                    seen(last)
                ));
            }
        }
        for part in &self.excludes.0 {
            if let Some(message) = request.messages.rev().find(|message| occurs(message, part)) {
                return Err(format!(
                    "expected no message that contains {part:?}, saw {}",
                    seen(Some(message))
                ));
            }
        }
        for part in &self.system_contains.0 {
            let system = &request.header.system;
            if !system.contains(part.as_str()) {
                let system = shorten(system, SEEN);
                return Err(format!("expected the system text to contain {part:?}, saw {system:?}"));
            }
        }
        self.check_tools(request)?;
        match &self.results {
            Some(expected) => check_results(expected, request),
            None => Ok(()),
        }
    }

    fn check_tools(&self, request: &ModelRequest) -> Result<(), String> {
        let tools = &request.header.tools;
        let offered = |name: &str| tools.iter().any(|tool| &*tool.name == name);
        let names = || tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(", ");
        if let Some(name) = self.tools_include.0.iter().find(|name| !offered(name)) {
            return Err(format!("expected a tool {name:?}, saw [{}]", names()));
        }
        if let Some(name) = self.tools_exclude.0.iter().find(|name| offered(name)) {
            return Err(format!("expected no tool {name:?}, saw [{}]", names()));
        }
        Ok(())
    }
}

fn check_results(expected: &[ExpectResult], request: &ModelRequest) -> Result<(), String> {
    let mut results: Vec<&Message> = request
        .messages
        .rev()
        .take_while(|message| !matches!(message, Message::Assistant { .. }))
        .filter(|message| matches!(message, Message::Result { .. }))
        .collect();
    results.reverse();
    if results.len() != expected.len() {
        return Err(format!(
            "expected {} results since the last answer, saw {}",
            expected.len(),
            results.len()
        ));
    }
    for (i, (expected, result)) in expected.iter().zip(results).enumerate() {
        let Message::Result { id, name, error, .. } = result else { continue };
        let wrong =
            |what: String| Err(format!("expected result {} {what}, saw {}", i + 1, seen(Some(result))));
        if let Some(want) = &expected.id
            && **want != **id
        {
            return wrong(format!("to answer call {want:?}"));
        }
        if let Some(want) = &expected.name
            && **want != **name
        {
            return wrong(format!("to be of tool {want:?}"));
        }
        if let Some(want) = expected.error
            && want != *error
        {
            return wrong(if want { "to be an error".into() } else { "to be no error".into() });
        }
        if let Some(part) = expected.contains.0.iter().find(|part| !occurs(result, part)) {
            return wrong(format!("to contain {part:?}"));
        }
        if let Some(part) = expected.excludes.0.iter().find(|part| occurs(result, part)) {
            return wrong(format!("not to contain {part:?}"));
        }
    }
    Ok(())
}

fn word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn occurs(message: &Message, part: &str) -> bool {
    texts(message).iter().any(|text| text.contains(part))
}

/// Every text of a message, each searched by itself.
fn texts(message: &Message) -> Vec<Cow<'_, str>> {
    match message {
        Message::User { content, .. }
        | Message::Context { content, .. }
        | Message::Steering { content, .. }
        | Message::Result { content, .. } => vec![content.to_text()],
        Message::Assistant { blocks } => blocks
            .iter()
            .flat_map(|block| match block {
                AssistantBlock::Text { text } | AssistantBlock::Reasoning { text } => {
                    vec![Cow::Borrowed(&**text)]
                }
                AssistantBlock::Call { name, arguments, .. } => {
                    vec![Cow::Borrowed(&**name), Cow::Borrowed(&**arguments)]
                }
                _ => vec![],
            })
            .collect(),
        _ => vec![],
    }
}

/// A message as a failed assertion shows it.
fn seen(message: Option<&Message>) -> String {
    let Some(message) = message else { return "no message".to_owned() };
    let kind = match message {
        Message::User { .. } => "a prompt",
        Message::Context { .. } => "context",
        Message::Steering { .. } => "steering",
        Message::Assistant { .. } => "an answer of the model",
        Message::Result { error: true, .. } => "an error result",
        Message::Result { .. } => "a result",
        _ => "a message",
    };
    let from = match message {
        Message::Result { id, name, .. } => format!(" of {name} ({id})"),
        _ => String::new(),
    };
    format!("{kind}{from} {:?}", shorten(&texts(message).join("\n"), SEEN))
}
