//! The JSON a hook may print: the fields of each event with their types, and nothing beside them.
//!
//! Of equal keys the last one counts. What the client's own JSON reader refuses is no JSON here either: a number beyond a double,
//! half of a surrogate pair, more than 127 levels.

use crate::{
    event::Event,
    json::{Node, Value},
};

/// Levels of objects and arrays.
const LEVELS: usize = 127;

/// What a field may hold. `null` is the same as no field, except for a flag, and for what is required.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Flag,
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    Any,
    Object(&'static [Field]),
}

#[derive(Debug, Clone, Copy)]
struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

/// What nearly every event takes.
const COMMON: &[Field] = &[
    field("continue", Kind::Flag),
    field("stopReason", Kind::Text),
    field("suppressOutput", Kind::Flag),
    field("systemMessage", Kind::Text),
];

/// It must name an event, whichever.
const NAME: Field = required(
    "hookEventName",
    Kind::Word(&[
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PreCompact",
        "PostCompact",
        "SessionStart",
        "SessionEnd",
        "SubagentStart",
        "SubagentStop",
        "UserPromptSubmit",
        "Stop",
        "Interrupt",
        "PreModelRequest",
        "PostModelRequest",
    ]),
);

const BLOCK: Field = field("decision", Kind::Word(&["block"]));
const REASON: Field = field("reason", Kind::Text);
const CONTEXT: Field = field("additionalContext", Kind::Text);

const fn specific(fields: &'static [Field]) -> Field {
    field("hookSpecificOutput", Kind::Object(fields))
}

const PRE_TOOL_USE: &[Field] = &[
    field("decision", Kind::Word(&["approve", "block"])),
    REASON,
    specific(&[
        NAME,
        field("permissionDecision", Kind::Word(&["allow", "deny", "ask"])),
        field("permissionDecisionReason", Kind::Text),
        field("updatedInput", Kind::Any),
        CONTEXT,
    ]),
];
const PERMISSION_REQUEST: &[Field] = &[specific(&[NAME, field("decision", Kind::Object(PERMIT))])];
const PERMIT: &[Field] = &[
    required("behavior", Kind::Word(&["allow", "deny"])),
    field("message", Kind::Text),
    field("interrupt", Kind::Flag),
    field("updatedInput", Kind::Any),
    field("updatedPermissions", Kind::Any),
];
const POST_TOOL_USE: &[Field] =
    &[BLOCK, REASON, specific(&[NAME, CONTEXT, field("updatedMCPToolOutput", Kind::Any)])];
const USER_PROMPT_SUBMIT: &[Field] = &[BLOCK, REASON, specific(&[NAME, CONTEXT])];
const START: &[Field] = &[specific(&[NAME, CONTEXT])];
const STOP: &[Field] = &[BLOCK, REASON];
const INTERRUPT: &[Field] = &[field("systemMessage", Kind::Text)];

/// What an event takes beside [`COMMON`].
fn own(event: Event) -> &'static [Field] {
    match event {
        Event::PreToolUse => PRE_TOOL_USE,
        Event::PermissionRequest => PERMISSION_REQUEST,
        Event::PostToolUse => POST_TOOL_USE,
        Event::UserPromptSubmit => USER_PROMPT_SUBMIT,
        Event::SessionStart | Event::SubagentStart => START,
        Event::Stop | Event::SubagentStop => STOP,
        Event::Interrupt => INTERRUPT,
        _ => &[],
    }
}

/// An object that fits its event, or nothing, which has no fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'n, 't>(Option<&'n Node<'t>>);

impl<'n, 't> Said<'n, 't> {
    /// Checks an object that was read from `text`. The error names the field that is wrong.
    pub(super) fn read(event: Event, text: &str, root: &'n Node<'t>) -> Result<Said<'n, 't>, String> {
        readable(text, root)?;
        let common = if event == Event::Interrupt { &[] } else { COMMON };
        let fields: Vec<Field> = common.iter().chain(own(event)).copied().collect();
        check(event, "", &fields, root)?;
        Ok(Said(Some(root)))
    }

    /// What stands there, if it is not `null`.
    pub(super) fn any(self, key: &str) -> Option<&'n Node<'t>> {
        self.0?.get(key).filter(|node| node.value != Value::Null)
    }

    pub(super) fn text(self, key: &str) -> Option<&'n str> {
        self.any(key)?.str()
    }

    pub(super) fn flag(self, key: &str) -> Option<bool> {
        self.any(key)?.bool()
    }

    /// An object within.
    pub(super) fn object(self, key: &str) -> Said<'n, 't> {
        Said(self.any(key))
    }
}

fn check(event: Event, path: &str, fields: &[Field], node: &Node<'_>) -> Result<(), String> {
    let Some(entries) = node.entries() else {
        return Err(format!("`{}` is {}, not an object", path.trim_end_matches('.'), node.kind()));
    };
    for entry in entries {
        let at = format!("{path}{}", entry.key);
        let Some(field) = fields.iter().find(|field| field.name == entry.key) else {
            return Err(format!("{} takes no field `{at}`", event.name()));
        };
        let value = &entry.value;
        let is = |what: &str| format!("`{at}` is {}, not {what}", value.kind());
        match (&value.value, field.kind) {
            (_, Kind::Any) | (Value::Bool(_), Kind::Flag) | (Value::String(_), Kind::Text) => {}
            (Value::Null, Kind::Text | Kind::Word(_) | Kind::Object(_)) if !field.required => {}
            (Value::String(text), Kind::Word(words)) => {
                if !words.iter().any(|word| word == text) {
                    let (text, kind) = (crate::records::head(text, 40), words.join(", "));
                    return Err(match field.name {
                        "hookEventName" => format!("`{at}` is `{text}`, which names no event"),
                        _ => format!("`{at}` is `{text}`; {} takes {kind}", event.name()),
                    });
                }
            }
            (_, Kind::Object(within)) => check(event, &format!("{at}."), within, value)?,
            (_, Kind::Flag) => return Err(is("true or false")),
            (_, Kind::Text) => return Err(is("a string")),
            (_, Kind::Word(_)) => return Err(is("a word")),
        }
    }
    match fields.iter().find(|field| field.required && node.get(field.name).is_none()) {
        Some(missing) => Err(format!("`{path}{}` is missing", missing.name)),
        None => Ok(()),
    }
}

/// Can the client read it? Our reader takes more.
fn readable(text: &str, root: &Node<'_>) -> Result<(), String> {
    halves(text)?;
    let mut open = vec![(root, 1)];
    while let Some((node, level)) = open.pop() {
        match &node.value {
            Value::Array(_) | Value::Object(_) if level > LEVELS => {
                return Err(format!("values are nested deeper than {LEVELS} levels"));
            }
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(entries) => open.extend(entries.iter().map(|entry| (&entry.value, level + 1))),
            Value::Number(literal) if !literal.parse().is_ok_and(f64::is_finite) => {
                return Err(format!("`{}` is too large a number", crate::records::head(literal, 40)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Looks for half of a surrogate pair in a text that is JSON otherwise, where a backslash stands in strings alone.
fn halves(text: &str) -> Result<(), String> {
    let mut rest = text;
    let unit = |text: &str| u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        let skip = match unit(rest) {
            Some(0xd800..0xdc00) if unit(&rest[6..]).is_some_and(|low| (0xdc00..0xe000).contains(&low)) => 12,
            Some(0xd800..0xe000) => return Err("a string has half of a surrogate pair".into()),
            Some(_) => 6,
            None => 2,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(event: Event, text: &str) -> Result<(), String> {
        let node = json::parse(text).map_err(|fault| fault.problem.to_string())?;
        Said::read(event, text, &node).map(|_| ())
    }

    // C-BRIDGE-1: the client's reader is serde_json's, whose word counts here.
    #[test]
    #[expect(clippy::disallowed_types, reason = "the reference")]
    fn what_the_client_cannot_read_is_refused() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"hookSpecificOutput":{{"hookEventName":"Stop","updatedInput":{open}1{close}}}}}"#)
        };
        let input = |json: &str| {
            format!(r#"{{"hookSpecificOutput":{{"hookEventName":"Stop","updatedInput":{json}}}}}"#)
        };
        for text in [
            nested(125),
            nested(126),
            nested(300),
            input("1e308"),
            input("1e309"),
            input("-1e999"),
            input("123456789012345678901234567890"),
            input("1e-999"),
            input(r#""\ud83d\ude00""#),
            input(r#""\ud83d""#),
            input(r#""\ud83d\\ude00""#),
            input(r#""\ude00""#),
            input(r#""\\ud83d""#),
            input(r#""\\\ud83d""#),
            input(r#""\ud83dé""#),
            input(r#"{"\udfff":1}"#),
        ] {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            assert_eq!(read(Event::PreToolUse, &text).is_ok(), theirs.is_ok(), "{text}: {theirs:?}");
        }
    }

    // C-BRIDGE-1
    #[test]
    fn a_fault_is_named_with_its_field() {
        for (event, text, why) in [
            (Event::PreToolUse, r#"{"decision":"block","reason":"r","bogus":1}"#, "takes no field `bogus`"),
            (
                Event::PreToolUse,
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","foo":1}}"#,
                "`hookSpecificOutput.foo`",
            ),
            (Event::PreToolUse, r#"{"hook_specific_output":{}}"#, "`hook_specific_output`"),
            (Event::PreToolUse, r#"{"continue":null}"#, "`continue` is null, not true or false"),
            (Event::PreToolUse, r#"{"suppressOutput":null}"#, "`suppressOutput` is null"),
            (Event::PreToolUse, r#"{"continue":"false"}"#, "`continue` is a string"),
            (Event::PreToolUse, r#"{"systemMessage":5}"#, "`systemMessage` is a number, not a string"),
            (Event::PreToolUse, r#"{"decision":1}"#, "`decision` is a number, not a word"),
            (Event::PreToolUse, r#"{"hookSpecificOutput":[]}"#, "`hookSpecificOutput` is an array"),
            (
                Event::PreToolUse,
                r#"{"hookSpecificOutput":{"hookEventName":"Nope"}}"#,
                "`Nope`, which names no event",
            ),
            (
                Event::PreToolUse,
                r#"{"hookSpecificOutput":{}}"#,
                "`hookSpecificOutput.hookEventName` is missing",
            ),
            (Event::PreToolUse, r#"{"hookSpecificOutput":{"hookEventName":null}}"#, "is null, not a word"),
            (
                Event::PreToolUse,
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}"#,
                "takes allow, deny, ask",
            ),
            (
                Event::PermissionRequest,
                r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"ask"}}}"#,
                "`ask`; PermissionRequest takes allow, deny",
            ),
            (
                Event::PermissionRequest,
                r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"message":"m"}}}"#,
                "`hookSpecificOutput.decision.behavior` is missing",
            ),
            (Event::PermissionRequest, r#"{"decision":"block"}"#, "takes no field `decision`"),
            (Event::UserPromptSubmit, r#"{"decision":"approve"}"#, "takes block"),
            (Event::SessionStart, r#"{"decision":"block"}"#, "SessionStart takes no field `decision`"),
            (Event::SubagentStart, r#"{"reason":"r"}"#, "SubagentStart takes no field `reason`"),
            (
                Event::PreCompact,
                r#"{"decision":"block","reason":"r"}"#,
                "PreCompact takes no field `decision`",
            ),
            (Event::PostCompact, r#"{"hookSpecificOutput":null}"#, "`hookSpecificOutput`"),
            (
                Event::Stop,
                r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#,
                "takes no field `hookSpecificOutput`",
            ),
            (
                Event::PostToolUse,
                r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"x"}}"#,
                "`hookSpecificOutput.updatedToolOutput`",
            ),
            (Event::Interrupt, r#"{"continue":true}"#, "Interrupt takes no field `continue`"),
        ] {
            let error = read(event, text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    // C-BRIDGE-1
    #[test]
    fn null_is_no_field_and_any_event_may_be_named() {
        for (event, text) in [
            (
                Event::PreToolUse,
                r#"{"decision":null,"reason":null,"stopReason":null,"systemMessage":null,"hookSpecificOutput":null}"#,
            ),
            (
                Event::PreToolUse,
                r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":null,"updatedInput":null,"additionalContext":null}}"#,
            ),
            (Event::PostToolUse, r#"{"hookSpecificOutput":{"hookEventName":"Interrupt"}}"#),
            (Event::Stop, "{}"),
            (Event::Interrupt, r#"{"systemMessage":null}"#),
        ] {
            assert_eq!(read(event, text), Ok(()), "{text}");
        }
    }
}
