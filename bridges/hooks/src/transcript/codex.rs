//! Lines in the shape in which hooks of Codex read a conversation: `timestamp`, `type` and `payload`.

use super::lines::{Page, Script, timestamp};
use crate::{codex::turn_id, json::write_string};
use portcullis_runtime::{
    AssistantBlock, Block, Body, CallPath, CompactionEnded, Content, EndReason, Record, SessionCreated,
    Source,
};
use std::{collections::HashMap, fmt::Write as _, sync::Arc};

/// What came so far, as far as later lines need it. All of it follows from the records since the open turn began, but for the
/// model.
#[derive(Debug, Default)]
pub(super) struct Codex {
    cwd: String,
    model: Option<Arc<str>>,
    /// The ids of the calls of the open step: results do not repeat them.
    calls: HashMap<CallPath, String>,
    /// What the model said last in the open turn.
    said: Option<Arc<str>>,
}

impl Script for Codex {
    fn goes_on(&mut self, model: Option<Arc<str>>) {
        self.model = model;
    }

    fn add(&mut self, record: &Record, page: &mut Page<'_>) {
        match &record.body {
            Body::SessionCreated(created) => {
                self.cwd = created.cwd.to_string();
                meta(record, created, page);
            }
            Body::ConfigInForce(config) => self.model = Some(config.model.clone()),
            Body::HeaderChanged(header) => self.model = Some(header.0.model.clone()),
            Body::TurnStart(_) => {
                self.said = None;
                let turn = turn(record, page);
                page.write("turn_context", |payload| {
                    payload.text("turn_id", &turn).text("cwd", &self.cwd);
                    if let Some(model) = &self.model {
                        payload.text("model", model);
                    }
                });
            }
            Body::UserMessage(said) => {
                page.message("user", "input_text", &said.content);
                page.prompt(&said.content);
            }
            Body::ContextMessage(said) => page.message("developer", "input_text", &said.content),
            Body::SteeringMessage(said) => {
                page.message("user", "input_text", &said.content);
                if said.source == Source::User {
                    page.prompt(&said.content);
                }
            }
            Body::AssistantMessage(said) => said.blocks.iter().for_each(|block| self.block(block, page)),
            Body::StepStart(_) => self.calls.clear(),
            Body::ToolCall(call) => {
                if let Some(place) = record.at.call.clone().filter(CallPath::is_top) {
                    self.calls.insert(place, call.id.to_string());
                }
            }
            Body::ToolResult(result) => {
                let id = record.at.call.as_ref().and_then(|place| self.calls.remove(place));
                let Some(id) = id else { return };
                page.item("function_call_output", |item| {
                    item.text("call_id", &id).text("output", &result.content.to_text());
                });
            }
            Body::CompactionEnded(CompactionEnded { summary: Some(summary), .. }) => {
                page.write("compacted", |payload| {
                    payload.text("message", &summary.to_text());
                });
            }
            Body::TurnEnd(end) => {
                let (turn, cut) = (
                    turn(record, page),
                    matches!(end.reason, EndReason::Aborted { .. } | EndReason::Interrupted),
                );
                page.event(if cut { "turn_aborted" } else { "task_complete" }, |event| {
                    event.text("turn_id", &turn);
                    match &self.said {
                        _ if cut => event.text("reason", "interrupted"),
                        Some(said) => event.text("last_agent_message", said),
                        None => event.raw("last_agent_message", "null"),
                    };
                });
            }
            _ => {}
        }
    }
}

impl Codex {
    fn block(&mut self, block: &AssistantBlock, page: &mut Page<'_>) {
        match block {
            AssistantBlock::Text { text } => {
                page.message("assistant", "output_text", &Content::text(text.clone()));
                page.event("agent_message", |event| {
                    event.text("message", text);
                });
                self.said = Some(text.clone());
            }
            AssistantBlock::Reasoning { text } => page.item("reasoning", |item| {
                let mut summary = String::from("[{\"type\":\"summary_text\",\"text\":");
                write_string(&mut summary, text);
                item.raw("summary", &(summary + "}]"));
            }),
            AssistantBlock::Call { id, name, arguments } => page.item("function_call", |item| {
                // A text, as the model wrote it.
                item.text("name", name).text("arguments", arguments).text("call_id", id);
            }),
            _ => {}
        }
    }
}

/// The first line: whose conversation it is.
fn meta(record: &Record, created: &SessionCreated, page: &mut Page<'_>) {
    let root = page.whose().is_subagent().then(|| page.whose().root.to_string());
    page.write("session_meta", |payload| {
        payload.text("id", created.id.as_str()).text("timestamp", &timestamp(record.time));
        payload.text("cwd", &created.cwd).text("originator", "portcullis").text("source", &created.channel);
        if let Some(parent) = &created.parent {
            payload.text("parent_thread_id", parent.session.as_str());
        }
        if let Some(root) = &root {
            payload.text("session_id", root);
        }
        if let Some(seed) = &created.seed {
            payload.text("forked_from_id", seed.session.as_str());
        }
    });
}

fn turn(record: &Record, page: &Page<'_>) -> String {
    turn_id(&page.whose().session, record.at.turn.unwrap_or_default())
}

fn texts(content: &Content) -> Vec<&str> {
    let mut all = Vec::new();
    for block in content.blocks() {
        if let Block::Text { text } = block {
            all.push(&**text);
        }
    }
    all
}

impl Page<'_> {
    /// One line of a type, with what its payload has.
    fn write(&mut self, kind: &str, payload: impl FnOnce(&mut Payload<'_>)) {
        self.line(|line, out| {
            // Writing to a String cannot fail.
            let _ =
                write!(out, "{{\"timestamp\":\"{}\",\"type\":\"{kind}\",\"payload\":", timestamp(line.time));
            let mut object = Payload { out, before: '{' };
            payload(&mut object);
            let _ = write!(out, "}},\"uuid\":\"{}\",\"seq\":{}}}", line.uuid, line.seq);
        });
    }

    /// Something that the model reads or says.
    fn item(&mut self, kind: &str, item: impl FnOnce(&mut Payload<'_>)) {
        self.write("response_item", |payload| item(payload.text("type", kind)));
    }

    fn message(&mut self, role: &str, kind: &str, content: &Content) {
        let mut list = String::from("[");
        for (number, text) in texts(content).into_iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(list, "{comma}{{\"type\":\"{kind}\",\"text\":");
            write_string(&mut list, text);
            list.push('}');
        }
        self.item("message", |item| {
            item.text("role", role).raw("content", &(list + "]"));
        });
    }

    /// What a person said, once more for whoever looks on.
    fn prompt(&mut self, content: &Content) {
        self.event("user_message", |event| {
            event.text("message", &texts(content).concat());
        });
    }

    /// Something that whoever looks on is told.
    fn event(&mut self, kind: &str, event: impl FnOnce(&mut Payload<'_>)) {
        self.write("event_msg", |payload| event(payload.text("type", kind)));
    }
}

/// An object that is never empty.
struct Payload<'o> {
    out: &'o mut String,
    before: char,
}

impl Payload<'_> {
    fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.out.push(std::mem::replace(&mut self.before, ','));
        let _ = write!(self.out, "\"{key}\":{json}");
        self
    }

    fn text(&mut self, key: &str, text: &str) -> &mut Self {
        let mut json = String::new();
        write_string(&mut json, text);
        self.raw(key, &json)
    }
}
