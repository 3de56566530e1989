//! One handler of a hook file: its fields, each with its type, and whether it runs here.

use super::{Dropped, Reader};
use crate::{
    claude::matcher::rule::Rule,
    definition::LONGEST,
    event::{Event, distance},
    json::Node,
    post::Post,
    report::Severity,
    tool::{Called, Filling},
    written::{Ask, Whom, Written},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A timeout from which on it was probably meant in milliseconds, in seconds.
const LIKE_MILLISECONDS: f64 = 1000.0;

/// The client's kinds of handlers.
const TYPES: [&str; 5] = ["command", "http", "mcp_tool", "prompt", "agent"];
/// What a handler looks like.
const EXAMPLE: &str = "write {\"type\": \"command\", \"command\": \"…\"}";

/// The events of the client on which a model may be asked.
const ASKS: [&str; 11] = [
    "PermissionRequest",
    "PostToolBatch",
    "PostToolUse",
    "PostToolUseFailure",
    "PreToolUse",
    "Stop",
    "SubagentStop",
    "TaskCompleted",
    "TaskCreated",
    "UserPromptExpansion",
    "UserPromptSubmit",
];

/// A sound handler of a kind that runs here.
pub(crate) struct Found {
    pub(crate) written: Written,
    pub(crate) rule: Option<Rule>,
    pub(crate) rule_text: Option<Arc<str>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) blocks_on_failure: bool,
    pub(crate) background: bool,
    pub(crate) rewakes: bool,
    /// Its condition holds for nothing.
    pub(crate) never: bool,
}

/// The fields of one handler, each checked for its type.
struct Fields<'f, 'r, 't> {
    reader: &'f mut Reader<'r>,
    event: &'f str,
    node: &'f Node<'t>,
}

impl Fields<'_, '_, '_> {
    fn bad(&mut self, at: usize, what: &str, hint: &str) -> Dropped {
        let message = format!("a handler under {} is dropped: {what}", self.event);
        self.reader.say(Severity::Error, "hooks/bad-entry", at, message, Some(hint));
        Dropped
    }

    fn not_run(&mut self, why: &str) {
        let message = format!("a hook on {} does not run: {why}", self.event);
        self.reader.say(Severity::Warning, "hooks/handler-not-run", self.node.at, message, None);
    }

    /// Whether a field that is there means anything on a handler of this kind; says so if not.
    fn counts(&mut self, key: &str, kinds: &[&str], kind: &str) -> bool {
        let counts = kinds.contains(&kind);
        if !counts && self.node.get(key).is_some() {
            let message = format!("`{key}` on {} means nothing on a hook of type `{kind}`", self.event);
            self.reader.say(Severity::Warning, "hooks/field-ignored", self.node.at, message, None);
        }
        counts
    }

    fn text(&mut self, key: &str) -> Result<Option<Arc<str>>, Dropped> {
        let Some(node) = self.node.get(key) else { return Ok(None) };
        match node.str() {
            Some(text) => Ok(Some(text.into())),
            None => {
                let what = format!("`{key}` must be a string, not {}", node.kind());
                Err(self.bad(node.at, &what, &format!("write \"{key}\": \"…\", or leave it out")))
            }
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool, Dropped> {
        let Some(node) = self.node.get(key) else { return Ok(false) };
        node.bool().ok_or_else(|| {
            let what = format!("`{key}` must be true or false, not {}", node.kind());
            self.bad(
                node.at,
                &what,
                &format!("write \"{key}\": true, without quotes around the value, or leave it out"),
            )
        })
    }

    fn timeout(&mut self) -> Result<Option<Duration>, Dropped> {
        let Some(node) = self.node.get("timeout") else { return Ok(None) };
        let seconds = match node.number() {
            Some(seconds) if seconds > 0.0 => seconds,
            _ => {
                let hint = match node.str().map(str::trim).and_then(|text| text.parse::<f64>().ok()) {
                    Some(number) if number > 0.0 => format!("write \"timeout\": {number}, without quotes"),
                    _ => "leave it out for the client's own limit".into(),
                };
                return Err(self.bad(node.at, "`timeout` must be a number of seconds above 0", &hint));
            }
        };
        if seconds >= LIKE_MILLISECONDS {
            let message = format!("a timeout on {} is {seconds} seconds", self.event);
            // Whole thousands are how people write milliseconds; 1800 is half an hour.
            let (severity, hint) = match seconds % 1000.0 == 0.0 {
                true => {
                    let meant = seconds / 1000.0;
                    (
                        Severity::Warning,
                        format!("timeouts are in seconds, not milliseconds: is {meant} meant?"),
                    )
                }
                false => (Severity::Note, "timeouts are in seconds, not milliseconds".into()),
            };
            self.reader.say(severity, "hooks/long-timeout", node.at, message, Some(&hint));
        }
        Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST)))
    }

    fn args(&mut self) -> Result<Option<Vec<Arc<str>>>, Dropped> {
        let Some(node) = self.node.get("args") else { return Ok(None) };
        let texts =
            node.items().and_then(|items| items.iter().map(|item| item.str().map(Arc::from)).collect());
        match texts {
            Some(args) => Ok(Some(args)),
            None => Err(self.bad(
                node.at,
                "`args` must be a list of strings",
                "write [\"…\", \"…\"]; with `args` no shell is started, so without them leave it out",
            )),
        }
    }
}

/// The fields of handlers that are no commands.
impl Fields<'_, '_, '_> {
    fn post(&mut self) -> Result<Post, Dropped> {
        let url = self.text("url")?.unwrap_or_default();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(self.bad(
                self.node.at,
                &format!("its `url` is `{url}`"),
                "it begins with http:// or https://",
            ));
        }
        let mut headers = Vec::new();
        if let Some(node) = self.node.get("headers") {
            let hint = "write {\"NAME\": \"VALUE\"}";
            let entries = node.entries();
            let entries = entries.ok_or_else(|| self.bad(node.at, "`headers` must be an object", hint))?;
            for entry in entries {
                let what = format!("the header `{}` must be a string", entry.key);
                let value = entry.value.str().ok_or_else(|| self.bad(entry.at, &what, hint))?;
                headers.push((Arc::from(&*entry.key), Arc::from(value)));
            }
        }
        let variables = match self.node.get("allowedEnvVars") {
            None => Some(BTreeSet::new()),
            Some(node) => {
                node.items().and_then(|all| all.iter().map(|one| one.str().map(Arc::from)).collect())
            }
        };
        let what = "`allowedEnvVars` must be a list of strings";
        let variables = variables.ok_or_else(|| self.bad(self.node.at, what, "write [\"NAME\"]"))?;
        let post = Post { url, headers, variables };
        for name in post.unlisted() {
            let message = format!(
                "a header of a hook on {} has ${name}, which `allowedEnvVars` does not list: it is sent empty",
                self.event
            );
            let hint = format!("add \"{name}\" to its `allowedEnvVars`");
            self.reader.say(Severity::Warning, "hooks/unlisted-variable", self.node.at, message, Some(&hint));
        }
        Ok(post)
    }

    fn called(&mut self) -> Result<Called, Dropped> {
        let server = self.text("server")?.unwrap_or_default();
        let tool = self.text("tool")?.unwrap_or_default();
        let mut input = String::from("{}");
        if let Some(node) = self.node.get("input") {
            if node.entries().is_none() {
                let what = format!("`input` must be an object, not {}", node.kind());
                return Err(self.bad(node.at, &what, "write {\"NAME\": \"VALUE\"}"));
            }
            input.clear();
            node.write(&mut input);
        }
        let name = format!("{server}/{tool}").into();
        Ok(Called { server, tool, name, input: input.into(), filling: Filling::Text })
    }
}

impl Reader<'_> {
    /// One handler: `Ok(None)` when it is sound and of a kind that does not run here.
    pub(crate) fn handler(&mut self, event: &str, node: &Node<'_>) -> Result<Option<Found>, Dropped> {
        let mut fields = Fields { reader: self, event, node };
        if node.entries().is_none() {
            let what = format!("it must be an object, not {}", node.kind());
            return Err(fields.bad(node.at, &what, EXAMPLE));
        }
        let kind = match node.get("type") {
            None => {
                return Err(fields.bad(
                    node.at,
                    "it has no `type`",
                    "for a shell command add \"type\": \"command\"",
                ));
            }
            Some(kind) => {
                kind.str().ok_or_else(|| fields.bad(kind.at, "`type` must be a string", EXAMPLE))?.to_owned()
            }
        };
        let needed: &[&str] = match &*kind {
            "command" => &["command"],
            "http" => &["url"],
            "prompt" | "agent" => &["prompt"],
            "mcp_tool" => &["server", "tool"],
            other => {
                let near = TYPES.iter().min_by_key(|known| distance(known, other));
                let hint = match near.filter(|known| distance(known, other) <= 2) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("there are {}", TYPES.join(", ")),
                };
                return Err(fields.bad(node.at, &format!("there is no handler type `{other}`"), &hint));
            }
        };
        for key in needed {
            fields.text(key)?.ok_or_else(|| {
                let what = format!("a {kind} handler needs `{key}`");
                fields.bad(node.at, &what, &format!("add \"{key}\": \"…\""))
            })?;
        }
        let timeout = fields.timeout()?;
        let rule_text = fields.text("if")?;
        // A field of another kind of handler is not looked at, whatever it holds.
        let shell = if fields.counts("shell", &["command"], &kind) { fields.text("shell")? } else { None };
        // `asyncRewake` alone is an awaited hook like any other.
        let rewakes = fields.counts("asyncRewake", &["command"], &kind) && fields.flag("asyncRewake")?;
        let background = fields.counts("async", &["command"], &kind) && fields.flag("async")?;
        let once = fields.flag("once")?;
        fields.text("statusMessage")?;
        let fails = fields.counts("onFailure", &["command", "http"], &kind);
        let on_failure = if fails { fields.text("onFailure")? } else { None };
        let args = if fields.counts("args", &["command"], &kind) { fields.args()? } else { None };
        match shell.as_deref() {
            None | Some("bash") => {}
            Some("powershell") => {
                fields.not_run("its shell is powershell, which this runtime does not start");
                return Ok(None);
            }
            Some(other) => {
                let what = format!("there is no shell `{other}`");
                return Err(fields.bad(
                    node.at,
                    &what,
                    "leave `shell` out, and start that shell in the command",
                ));
            }
        }
        let whom = match &*kind {
            "prompt" => Some(Whom::Model),
            "agent" => Some(Whom::Agent),
            _ => None,
        };
        if whom.is_some() && !ASKS.contains(&event) {
            fields.not_run(&format!(
                "in the client, too, this event has no hooks of type `{kind}`; use one of type `command`"
            ));
            return Ok(None);
        }
        let written = match whom {
            Some(whom) => {
                let prompt = fields.text("prompt")?.unwrap_or_default();
                let model = fields.text("model")?;
                let goes_on = fields.flag("continueOnBlock")?;
                if let Some(model) = &model {
                    let message = format!(
                        "a hook of type `{kind}` on {event} names the model `{model}`; it is answered by the session's own"
                    );
                    fields.reader.say(Severity::Note, "hooks/model", node.at, message, None);
                }
                Written::Ask(Ask { whom, prompt, model, goes_on })
            }
            None if kind == "http" => Written::Post(fields.post()?),
            None if kind == "mcp_tool" => Written::Tool(fields.called()?),
            None => Written::Command { command: fields.text("command")?.unwrap_or_default(), args },
        };
        let blocks_on_failure = match on_failure.as_deref() {
            Some("block") => true,
            None => false,
            Some(other) => {
                let message = format!(
                    "`onFailure: \"{other}\"` on {event} means nothing here: a failure does not block"
                );
                self.say(
                    Severity::Warning,
                    "hooks/on-failure",
                    node.at,
                    message,
                    Some("the one value that counts is \"block\""),
                );
                false
            }
        };
        if once {
            let message = format!(
                "`once` on {event} is ignored in this file, as in the client: the hook runs each time"
            );
            self.say(Severity::Note, "hooks/once", node.at, message, None);
        }
        if background && blocks_on_failure {
            let message = format!("`onFailure` on {event} means nothing on a hook that nobody waits for");
            self.say(Severity::Warning, "hooks/async", node.at, message, Some("leave out one of the two"));
        }
        Ok(Some(Found {
            written,
            rule: None,
            rule_text,
            timeout,
            blocks_on_failure,
            background,
            rewakes: rewakes && background,
            never: false,
        }))
    }

    pub(crate) fn rule(&mut self, event: Event, node: &Node<'_>, found: &mut Found) {
        let Some(text) = found.rule_text.clone() else { return };
        let why = if event.is_of_tool() {
            match Rule::parse(&text) {
                Ok(rule) => {
                    found.rule = Some(rule);
                    return;
                }
                Err(why) => why.to_string(),
            }
        } else {
            "this event is not about a tool".into()
        };
        found.never = true;
        let message = format!("the hook with `if: \"{text}\"` on {} never runs: {why}", event.name());
        self.say(Severity::Warning, "hooks/bad-condition", node.at, message, None);
    }
}
