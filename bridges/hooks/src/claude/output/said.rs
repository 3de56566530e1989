//! The JSON a hook may print: known fields, each with its type. Unknown keys are ignored at every level.

use crate::event::Event;
use crate::json::{Node, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Allow,
    Deny,
    Ask,
    Defer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Block,
}

/// What a PermissionRequest hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permit {
    Allow,
    Deny {
        message: Option<String>,
        /// The turn ends, too.
        interrupt: bool,
    },
}

/// A hook's JSON output that passed the check.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) goes_on: Option<bool>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) decision: Option<Decision>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) permission: Option<Permission>,
    pub(crate) permission_reason: Option<String>,
    pub(crate) permit: Option<Permit>,
    /// A denied call may be tried again.
    pub(crate) retry: bool,
    pub(crate) context: Option<String>,
    /// `updatedInput`, as strict JSON of an object.
    pub(crate) input: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) mcp_output: Option<String>,
    /// It wanted to go on in the background.
    pub(crate) background: bool,
    pub(crate) unused: Vec<&'static str>,
}

/// Fields of the client that nothing here acts on, by event.
const UNUSED: [(Event, &[&str]); 3] = [
    (Event::SessionStart, &["initialUserMessage", "sessionTitle", "watchPaths", "reloadSkills"]),
    (Event::UserPromptSubmit, &["sessionTitle", "suppressOriginalPrompt"]),
    (Event::PostToolUse, &["classifierContext"]),
];

impl Said {
    /// Checks and takes the fields. The error says which field is wrong.
    pub(crate) fn read(event: Event, root: &Node<'_>) -> Result<Said, String> {
        let mut said = Said {
            goes_on: flag(root, "continue")?,
            stop_reason: text(root, "stopReason")?,
            reason: text(root, "reason")?,
            message: text(root, "systemMessage")?,
            background: flag(root, "async")?.unwrap_or(false),
            ..Said::default()
        };
        flag(root, "suppressOutput")?;
        said.decision = match text(root, "decision")?.as_deref() {
            None => None,
            Some("approve") => Some(Decision::Approve),
            Some("block") => Some(Decision::Block),
            Some(other) => return Err(format!("`decision` is `{other}`, not `approve` or `block`")),
        };
        if let Some(node) = root.get("hookSpecificOutput") {
            said.specific(event, node)?;
        }
        Ok(said)
    }

    fn specific(&mut self, event: Event, node: &Node<'_>) -> Result<(), String> {
        if node.entries().is_none() {
            return Err(format!("`hookSpecificOutput` is {}, not an object", node.kind()));
        }
        let name = text(node, "hookEventName")?.ok_or("`hookSpecificOutput` has no `hookEventName`")?;
        if name != event.name() {
            return Err(format!("`hookEventName` is `{name}`, the event is {}", event.name()));
        }
        self.context = text(node, "additionalContext")?;
        if event == Event::PreToolUse {
            self.permission = match text(node, "permissionDecision")?.as_deref() {
                None => None,
                Some("allow") => Some(Permission::Allow),
                Some("deny") => Some(Permission::Deny),
                Some("ask") => Some(Permission::Ask),
                Some("defer") => Some(Permission::Defer),
                Some(other) => {
                    return Err(format!("`permissionDecision` is `{other}`, not allow, deny, ask or defer"));
                }
            };
            self.permission_reason = text(node, "permissionDecisionReason")?;
            self.input = match node.get("updatedInput") {
                None => None,
                Some(input) if input.entries().is_some() => Some(strict(input)),
                Some(other) => return Err(format!("`updatedInput` is {}, not an object", other.kind())),
            };
        }
        if event == Event::PermissionRequest
            && let Some(node) = node.get("decision")
        {
            self.permit(node)?;
        }
        if event == Event::PermissionDenied {
            self.retry = flag(node, "retry")?.unwrap_or(false);
        }
        if event == Event::PostToolUse {
            self.output = node.get("updatedToolOutput").map(strict);
            self.mcp_output = node.get("updatedMCPToolOutput").map(strict);
        }
        for (_, keys) in UNUSED.iter().filter(|(of, _)| *of == event) {
            for key in *keys {
                let Some(value) = node.get(key) else { continue };
                let sound = match *key {
                    "watchPaths" => {
                        value.items().is_some_and(|items| items.iter().all(|item| item.str().is_some()))
                    }
                    "reloadSkills" | "suppressOriginalPrompt" => value.bool().is_some(),
                    _ => value.str().is_some(),
                };
                if !sound {
                    return Err(format!("`{key}` must not be {}", value.kind()));
                }
                self.unused.push(key);
            }
        }
        Ok(())
    }

    fn permit(&mut self, node: &Node<'_>) -> Result<(), String> {
        if node.entries().is_none() {
            return Err(format!("`decision` is {}, not an object", node.kind()));
        }
        self.permit = Some(match text(node, "behavior")?.as_deref() {
            Some("allow") => {
                self.input = match node.get("updatedInput") {
                    None => None,
                    Some(input) if input.entries().is_some() => Some(strict(input)),
                    Some(other) => return Err(format!("`updatedInput` is {}, not an object", other.kind())),
                };
                match node.get("updatedPermissions") {
                    None => {}
                    Some(rules) if rules.items().is_some() => self.unused.push("updatedPermissions"),
                    Some(other) => {
                        return Err(format!("`updatedPermissions` is {}, not a list", other.kind()));
                    }
                }
                Permit::Allow
            }
            Some("deny") => Permit::Deny {
                message: text(node, "message")?,
                interrupt: flag(node, "interrupt")?.unwrap_or(false),
            },
            Some(other) => return Err(format!("`behavior` is `{other}`, not allow or deny")),
            None => return Err("`decision` has no `behavior`".into()),
        });
        Ok(())
    }

    /// Does it deny or block? Of the old form and the new one in one output, the stricter counts. A question is answered in
    /// one form alone.
    pub(crate) fn blocks(&self, event: Event) -> bool {
        if event == Event::PermissionRequest {
            return matches!(self.permit, Some(Permit::Deny { .. }));
        }
        self.decision == Some(Decision::Block) || self.permission == Some(Permission::Deny)
    }

    pub(crate) fn block_reason(&self) -> Option<&str> {
        if let Some(Permit::Deny { message, .. }) = &self.permit {
            return message.as_deref().filter(|message| !message.is_empty());
        }
        let denied = self.permission == Some(Permission::Deny);
        let stated = |reason: &'_ Option<String>| reason.as_deref().is_some_and(|reason| !reason.is_empty());
        if denied && stated(&self.permission_reason) {
            return self.permission_reason.as_deref();
        }
        self.reason.as_deref().filter(|_| stated(&self.reason))
    }

    /// Does it end the turn, and why? A question's answer does so with `interrupt` alone.
    pub(crate) fn halt(&self, event: Event) -> Option<Option<String>> {
        if event == Event::PermissionRequest {
            return match &self.permit {
                Some(Permit::Deny { interrupt: true, message }) => Some(message.clone()),
                _ => None,
            };
        }
        (self.goes_on == Some(false))
            .then(|| self.stop_reason.clone().filter(|reason| !reason.trim().is_empty()))
    }

    /// Its decision in its own word.
    pub(crate) fn spoken(&self) -> &'static str {
        match self.permit {
            Some(Permit::Allow) => return "allow",
            Some(Permit::Deny { .. }) => return "deny",
            None => {}
        }
        match (self.permission, self.decision, self.goes_on) {
            (Some(Permission::Deny), ..) => "deny",
            (_, Some(Decision::Block), _) => "block",
            (_, _, Some(false)) => "stop",
            (Some(Permission::Defer), ..) => "defer",
            (Some(Permission::Ask), ..) => "ask",
            (Some(Permission::Allow), ..) => "allow",
            (None, Some(Decision::Approve), _) => "approve",
            (None, None, _) => "",
        }
    }
}

fn text(node: &Node<'_>, key: &str) -> Result<Option<String>, String> {
    match node.get(key).map(|found| (&found.value, found.kind())) {
        None => Ok(None),
        Some((Value::String(text), _)) => Ok(Some(text.to_string())),
        Some((_, kind)) => Err(format!("`{key}` is {kind}, not a string")),
    }
}

fn flag(node: &Node<'_>, key: &str) -> Result<Option<bool>, String> {
    match node.get(key).map(|found| (&found.value, found.kind())) {
        None => Ok(None),
        Some((Value::Bool(value), _)) => Ok(Some(*value)),
        Some((_, kind)) => Err(format!("`{key}` is {kind}, not a boolean")),
    }
}

fn strict(node: &Node<'_>) -> String {
    let mut out = String::new();
    node.write(&mut out);
    out
}
