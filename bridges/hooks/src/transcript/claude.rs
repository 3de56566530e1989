//! Lines in the shape in which hooks of Claude Code read a conversation.

use super::lines::{Line, Page, Script, timestamp};
use crate::{claude::agent_id, json::write_string};
use portcullis_runtime::{
    AssistantBlock, AssistantMessage, Body, CallPath, CompactionEnded, Content, Finish, Frozen, Record,
};
use std::{collections::HashMap, fmt::Write as _, sync::Arc};

/// What came so far, as far as later lines need it. All of it follows from the records since the last answer of the model,
/// but for that answer's model.
#[derive(Debug, Default)]
pub(super) struct Claude {
    cwd: String,
    model: Option<Arc<str>>,
    /// The ids of the calls of the open step: results do not repeat them.
    calls: HashMap<CallPath, String>,
    /// How large the conversation was when its summary was asked for.
    tokens: u64,
}

impl Script for Claude {
    fn goes_on(&mut self, model: Option<Arc<str>>) {
        self.model = model;
    }

    fn add(&mut self, record: &Record, page: &mut Page<'_>) {
        match &record.body {
            Body::SessionCreated(created) => self.cwd = created.cwd.to_string(),
            Body::HeaderChanged(header) => self.model = Some(header.0.model.clone()),
            Body::UserMessage(said) => self.line(page, Kind::User, &text(&said.content), ""),
            Body::ContextMessage(said) => self.line(page, Kind::User, &text(&said.content), META),
            Body::SteeringMessage(said) => self.line(page, Kind::User, &text(&said.content), META),
            Body::AssistantMessage(said) => self.line(page, Kind::Assistant(said), "", ""),
            Body::StepStart(_) => self.calls.clear(),
            Body::ToolCall(call) => {
                if let Some(place) = record.at.call.clone().filter(CallPath::is_top) {
                    self.calls.insert(place, call.id.to_string());
                }
            }
            Body::ToolResult(result) => {
                let id = record.at.call.as_ref().and_then(|place| self.calls.remove(place));
                let Some(id) = id else { return };
                let mut content = String::from("[{\"tool_use_id\":");
                write_string(&mut content, &id);
                content.push_str(",\"type\":\"tool_result\",\"content\":");
                write_string(&mut content, &result.content.to_text());
                content.push_str(if result.error { ",\"is_error\":true}]" } else { ",\"is_error\":false}]" });
                self.line(page, Kind::User, &content, "");
            }
            Body::CompactionStarted(started) => self.tokens = started.tokens,
            Body::CompactionEnded(CompactionEnded { summary: Some(summary), .. }) => {
                self.line(page, Kind::Boundary(self.tokens), "", "");
                self.line(page, Kind::Summary, &text(summary), SUMMARY);
            }
            _ => {}
        }
    }
}

impl Claude {
    /// One line. `content` is JSON, `more` are fields of the line.
    fn line(&mut self, page: &mut Page<'_>, kind: Kind<'_>, content: &str, more: &str) {
        page.line(|line, out| self.write(line, kind, content, more, out));
    }

    fn write(&self, line: &Line<'_>, kind: Kind<'_>, content: &str, more: &str, out: &mut String) {
        out.push_str("{\"parentUuid\":");
        match line.parent {
            Some(parent) => write_string(out, parent),
            None => out.push_str("null"),
        }
        let sidechain = line.whose.is_subagent();
        out.push_str(if sidechain { ",\"isSidechain\":true" } else { ",\"isSidechain\":false" });
        if sidechain {
            out.push_str(",\"agentId\":");
            write_string(out, &agent_id(&line.whose.session));
        }
        match kind {
            Kind::User | Kind::Summary => {
                out.push_str(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
                out.push_str(content);
                out.push('}');
            }
            Kind::Assistant(said) => {
                out.push_str(",\"type\":\"assistant\",\"message\":");
                self.message(said, line.uuid, out);
            }
            Kind::Boundary(tokens) => {
                out.push_str(",\"type\":\"system\",\"subtype\":\"compact_boundary\",\"content\":");
                write_string(out, "The conversation was summarised.");
                // Writing to a String cannot fail.
                let _ = write!(
                    out,
                    ",\"level\":\"info\",\"compactMetadata\":{{\"trigger\":\"auto\",\"preTokens\":{tokens}}}"
                );
            }
        }
        out.push_str(more);
        for (key, value) in [
            ("uuid", line.uuid),
            ("timestamp", &*timestamp(line.time)),
            ("cwd", &*self.cwd),
            ("sessionId", line.whose.root.as_str()),
        ] {
            out.push(',');
            write_string(out, key);
            out.push(':');
            write_string(out, value);
        }
        let _ = write!(out, ",\"seq\":{}}}", line.seq);
    }

    fn message(&self, said: &AssistantMessage, uuid: &str, out: &mut String) {
        let _ = write!(
            out,
            "{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\"",
            uuid.replace('-', "")
        );
        if let Some(model) = &self.model {
            out.push_str(",\"model\":");
            write_string(out, model);
        }
        out.push_str(",\"content\":[");
        for (number, block) in said.blocks.iter().filter_map(block).enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&block);
        }
        let reason = match &said.finish {
            Finish::Stop => "\"end_turn\"",
            Finish::Calls => "\"tool_use\"",
            Finish::MaxTokens => "\"max_tokens\"",
            Finish::Refused { .. } => "\"refusal\"",
            _ => "null",
        };
        let _ = write!(out, "],\"stop_reason\":{reason},\"stop_sequence\":null");
        if let Some(usage) = said.usage {
            // What a provider read from a cache is part of what it read.
            let _ = write!(
                out,
                ",\"usage\":{{\"input_tokens\":{},\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":{}}}",
                usage.input, usage.output
            );
        }
        out.push('}');
    }
}

const META: &str = ",\"isMeta\":true";
const SUMMARY: &str = ",\"isCompactSummary\":true";

/// What a line is.
#[derive(Clone, Copy)]
enum Kind<'r> {
    User,
    Assistant(&'r AssistantMessage),
    /// Before it stands what a summary stands for: so many tokens.
    Boundary(u64),
    Summary,
}

fn text(content: &Content) -> String {
    let mut out = String::new();
    write_string(&mut out, &content.to_text());
    out
}

fn block(block: &AssistantBlock) -> Option<String> {
    let mut out = String::from("{\"type\":");
    match block {
        AssistantBlock::Text { text } => {
            out.push_str("\"text\",\"text\":");
            write_string(&mut out, text);
        }
        AssistantBlock::Reasoning { text } => {
            out.push_str("\"thinking\",\"thinking\":");
            write_string(&mut out, text);
        }
        AssistantBlock::Call { id, name, arguments } => {
            out.push_str("\"tool_use\",\"id\":");
            write_string(&mut out, id);
            out.push_str(",\"name\":");
            write_string(&mut out, name);
            out.push_str(",\"input\":");
            match Frozen::arguments(&**arguments) {
                Ok(input) => out.push_str(&input.javascript_exact()),
                // What was no object stays readable as what it was.
                Err(_) => write_string(&mut out, arguments),
            }
        }
        _ => return None,
    }
    out.push('}');
    Some(out)
}
