//! The file that `transcript_path` names: the conversation as JSON lines, in the shape in which public hooks read it.
//!
//! The shape is ours as far as the client documents none. Each line is an object with `type` (`user` or `assistant`),
//! `message` (`role`, and `content`: a text, or a list of blocks `text`, `thinking`, `tool_use`, `tool_result`), `uuid`,
//! `parentUuid` (`null` on the first line), `timestamp` (ISO 8601, UTC), `sessionId`, `cwd`, `isSidechain` (always false) and, on
//! what code and not a person or the model said, `isMeta`. A blocked prompt is not in it, nor is what a tool did inside a call.

use crate::json::write_string;
use portcullis_runtime::{AssistantBlock, Body, CallPath, Content, Frozen, Record, SessionId};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Writes the transcript of one session from its records.
///
/// A host feeds it every record from the first, in order, each after its commit. A record's line is in the file when
/// [`add`](Transcript::add) returns; a hook that is started at once may still read the file without it, as with the client.
#[derive(Debug)]
pub struct Transcript {
    file: File,
    lines: Lines,
}

impl Transcript {
    /// Begins the file anew, with the folders above it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(file: impl AsRef<Path>, session: SessionId) -> io::Result<Transcript> {
        let file = file.as_ref();
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Transcript { file: File::create(file)?, lines: Lines::new(session) })
    }

    /// Takes the next record. Most are no part of a conversation and add nothing.
    ///
    /// # Errors
    /// What the file system says; the line may then be there in part.
    pub fn add(&mut self, record: &Record) -> io::Result<()> {
        match self.lines.of(record) {
            // One write, so that a reader finds whole lines.
            Some(line) => self.file.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Lines {
    session: SessionId,
    cwd: String,
    last: Option<String>,
    /// The ids of the calls of the open step: results do not repeat them.
    calls: HashMap<CallPath, String>,
}

impl Lines {
    fn new(session: SessionId) -> Lines {
        Lines { session, cwd: String::new(), last: None, calls: HashMap::new() }
    }

    fn of(&mut self, record: &Record) -> Option<String> {
        match &record.body {
            Body::SessionCreated(created) => {
                self.cwd = created.cwd.to_string();
                None
            }
            Body::UserMessage(said) => Some(self.line(record, "user", &text(&said.content), false)),
            Body::ContextMessage(said) => Some(self.line(record, "user", &text(&said.content), true)),
            Body::SteeringMessage(said) => Some(self.line(record, "user", &text(&said.content), true)),
            Body::AssistantMessage(said) => {
                let blocks: Vec<String> = said.blocks.iter().filter_map(block).collect();
                let mut content = format!("[{}]", blocks.join(","));
                if let Some(usage) = said.usage {
                    let (input, output) = (usage.input, usage.output);
                    content.push_str(&format!(
                        ",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}}"
                    ));
                }
                Some(self.line(record, "assistant", &content, false))
            }
            Body::StepStart(_) => {
                self.calls.clear();
                None
            }
            Body::ToolCall(call) => {
                let place = record.at.call.clone().filter(CallPath::is_top)?;
                self.calls.insert(place, call.id.to_string());
                None
            }
            Body::ToolResult(result) => {
                let id = self.calls.remove(record.at.call.as_ref()?)?;
                let mut content = String::from("[{\"tool_use_id\":");
                write_string(&mut content, &id);
                content.push_str(",\"type\":\"tool_result\",\"content\":");
                write_string(&mut content, &result.content.to_text());
                content.push_str(if result.error { ",\"is_error\":true}]" } else { ",\"is_error\":false}]" });
                Some(self.line(record, "user", &content, false))
            }
            _ => None,
        }
    }

    /// `content` is JSON, and may go on with more fields of the message.
    fn line(&mut self, record: &Record, role: &str, content: &str, meta: bool) -> String {
        let uuid = uuid(&self.session, record.seq.0);
        let mut out = String::from("{\"parentUuid\":");
        match self.last.replace(uuid.clone()) {
            Some(parent) => write_string(&mut out, &parent),
            None => out.push_str("null"),
        }
        out.push_str(",\"isSidechain\":false,\"type\":\"");
        out.push_str(role);
        out.push_str("\",\"message\":{\"role\":\"");
        out.push_str(role);
        out.push_str("\",\"content\":");
        out.push_str(content);
        out.push('}');
        if meta {
            out.push_str(",\"isMeta\":true");
        }
        for (key, value) in [
            ("uuid", &*uuid),
            ("timestamp", &*timestamp(record.time)),
            ("cwd", &*self.cwd),
            ("sessionId", self.session.as_str()),
        ] {
            out.push(',');
            write_string(&mut out, key);
            out.push(':');
            write_string(&mut out, value);
        }
        out.push_str("}\n");
        out
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

/// The same for a record each time: a UUID (version 8) made of the session's name and the record's place.
fn uuid(session: &SessionId, seq: u64) -> String {
    super::payload::uuid(&Sha256::digest(format!("line\n{session}\n{seq}")))
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
