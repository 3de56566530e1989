//! From records to lines: a pure projection.

use crate::{json::write_string, uuid::uuid};
use portcullis_runtime::{
    AssistantBlock, AssistantMessage, Body, CallPath, CompactionEnded, Content, Finish, Frozen, Record, Seq,
    SessionId,
};
use sha2::{Digest, Sha256};
use std::{collections::HashMap, fmt::Write as _, sync::Arc};

/// Whose conversation it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whose {
    /// The session whose log it is.
    pub(crate) session: SessionId,
    /// The session at the root of its tree, which is what hooks know.
    pub(crate) root: SessionId,
    /// The name that hooks know a subagent by.
    pub(crate) agent: Option<String>,
}

/// What came so far, as far as later lines need it. All of it follows from the records since the last answer of the model,
/// but for that answer's model.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    whose: Whose,
    /// When the session was created: two logs may have one name, one after the other.
    born: u64,
    cwd: String,
    model: Option<Arc<str>>,
    last: Option<String>,
    /// The ids of the calls of the open step: results do not repeat them.
    calls: HashMap<CallPath, String>,
    /// How large the conversation was when its summary was asked for.
    tokens: u64,
    /// Up to and with this line, everything is there already.
    known: Option<String>,
}

impl Lines {
    pub(crate) fn new(whose: Whose) -> Lines {
        Lines {
            whose,
            born: 0,
            cwd: String::new(),
            model: None,
            last: None,
            calls: HashMap::new(),
            tokens: 0,
            known: None,
        }
    }

    /// Goes on with a file whose last line is `known`, from the record of the last answer in it.
    pub(crate) fn behind(mut self, known: String, model: Option<Arc<str>>) -> Lines {
        (self.known, self.model) = (Some(known), model);
        self
    }

    /// From the first record again, for a file that has nothing.
    pub(crate) fn begin_anew(&mut self) {
        *self = Lines::new(self.whose.clone());
    }

    /// True while the last line that the file has was not met: if the log ends like this, the file is not of this log.
    pub(crate) fn is_astray(&self) -> bool {
        self.known.is_some()
    }

    /// Adds the lines of the next record.
    pub(crate) fn add(&mut self, record: &Record, out: &mut String) {
        match &record.body {
            Body::SessionCreated(created) => {
                self.cwd = created.cwd.to_string();
                self.born = record.time;
            }
            Body::HeaderChanged(header) => self.model = Some(header.0.model.clone()),
            Body::UserMessage(said) => self.line(record, Kind::User, &text(&said.content), "", out),
            Body::ContextMessage(said) => self.line(record, Kind::User, &text(&said.content), META, out),
            Body::SteeringMessage(said) => self.line(record, Kind::User, &text(&said.content), META, out),
            Body::AssistantMessage(said) => self.line(record, Kind::Assistant(said), "", "", out),
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
                self.line(record, Kind::User, &content, "", out);
            }
            Body::CompactionStarted(started) => self.tokens = started.tokens,
            Body::CompactionEnded(CompactionEnded { summary: Some(summary), .. }) => {
                self.line(record, Kind::Boundary(self.tokens), "", "", out);
                self.line(record, Kind::Summary, &text(summary), SUMMARY, out);
            }
            _ => {}
        }
    }

    /// One line, unless the file has it. `content` is JSON, `more` are fields of the line.
    fn line(&mut self, record: &Record, kind: Kind<'_>, content: &str, more: &str, out: &mut String) {
        let uuid = self.uuid(record.seq, kind.part());
        let parent = self.last.replace(uuid.clone());
        if let Some(known) = &self.known {
            if *known == uuid {
                self.known = None;
            }
            return;
        }
        out.push_str("{\"parentUuid\":");
        match parent {
            Some(parent) => write_string(out, &parent),
            None => out.push_str("null"),
        }
        out.push_str(if self.whose.agent.is_some() {
            ",\"isSidechain\":true"
        } else {
            ",\"isSidechain\":false"
        });
        if let Some(agent) = &self.whose.agent {
            out.push_str(",\"agentId\":");
            write_string(out, agent);
        }
        match kind {
            Kind::User | Kind::Summary => {
                out.push_str(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
                out.push_str(content);
                out.push('}');
            }
            Kind::Assistant(said) => {
                out.push_str(",\"type\":\"assistant\",\"message\":");
                self.message(said, &uuid, out);
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
            ("uuid", &*uuid),
            ("timestamp", &*timestamp(record.time)),
            ("cwd", &*self.cwd),
            ("sessionId", self.whose.root.as_str()),
        ] {
            out.push(',');
            write_string(out, key);
            out.push(':');
            write_string(out, value);
        }
        let _ = writeln!(out, ",\"seq\":{}}}", record.seq);
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

    /// The same for a line each time: a UUID (version 8) made of the log and of the record's place in it.
    fn uuid(&self, seq: Seq, part: u8) -> String {
        let Lines { whose: Whose { session, .. }, born, .. } = self;
        uuid(&Sha256::digest(format!("line\n{session}\n{born}\n{seq}\n{part}")))
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

impl Kind<'_> {
    /// Tells the lines of one record apart.
    fn part(self) -> u8 {
        u8::from(matches!(self, Kind::Summary))
    }
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

/// Milliseconds since 1970 as `2026-11-30T10:00:00.000Z`.
fn timestamp(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The Gregorian date of a day since 1970. Years are counted from March, so that the odd day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }
}
