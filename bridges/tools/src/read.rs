//! `Read`: a part of a text file, with line numbers.

use crate::{Workspace, file, reply};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, path::Path};

/// Bytes a file may have: it is read whole, since its lines are counted.
const MAX_FILE: u64 = 16 << 20;
/// Lines shown when the model names no limit.
const LINES: usize = 2_000;
/// Bytes of the file shown at most, in whole lines.
const SHOWN: usize = 256 << 10;
/// Characters of one line shown in the text for the model.
const LINE: usize = 2_000;
/// Bytes looked at to tell text from binary data.
const PROBE: usize = 8 << 10;

const ABOUT: &str = "Reads a text file of the workspace and shows its lines with their numbers. Relative paths count from the \
working directory. Without `limit` at most 2000 lines are shown; use `offset` and `limit` for more. Very long lines are cut.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"file_path":{"type":"string","description":"The file to read."},
"offset":{"type":"integer","minimum":0,"description":"The line to start from, counted from 1."},
"limit":{"type":"integer","minimum":1,"description":"How many lines to show."}
},"required":["file_path"],"additionalProperties":false}"#;

/// Reads a text file of at most 16 MiB.
///
/// Arguments: `file_path`, `offset` (a line, from 1), `limit` (lines). The structured result is the client's
/// `{type: "text", file: {filePath, content, numLines, startLine, totalLines}}`; as there, a file that ends with a line break
/// counts one empty line more, so that `content` of a whole file is its exact text.
///
/// Bytes that are not UTF-8 are shown as U+FFFD, and this is said. Files with NUL bytes in their first 8 KiB are refused as
/// binary. At most 256 KiB are shown.
#[derive(Debug, Clone)]
pub struct Read {
    workspace: Workspace,
}

impl Read {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Read {
        Read { workspace }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        Ok(reply::spec("Read", ABOUT, SCHEMA)?.idempotent().concurrency_safe())
    }
}

#[derive(Deserialize)]
struct Arguments {
    file_path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Value<'a> {
    r#type: &'static str,
    file: Shown<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    file_path: &'a str,
    content: String,
    num_lines: usize,
    start_line: usize,
    total_lines: usize,
}

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().read.clone()
    }

    fn call(&self, call: Execution, _cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = call.arguments.decode()?;
            self.workspace.blocking(&call, move |workspace, cwd| read(workspace, cwd, &arguments)).await
        })
    }
}

fn read(workspace: &Workspace, cwd: &Path, arguments: &Arguments) -> Result<Output, ToolError> {
    let named = &arguments.file_path;
    let target = workspace.locate(cwd, named)?;
    let bytes = file::read(workspace.fd(), &target, MAX_FILE)?;
    if bytes[..bytes.len().min(PROBE)].contains(&0) {
        return Err(ToolError::new(format!(
            "{named} is a binary file of {} bytes and cannot be shown as text.",
            bytes.len()
        )));
    }
    let text = String::from_utf8_lossy(&bytes);
    let lossy = matches!(text, std::borrow::Cow::Owned(_));
    let total_lines = text.split('\n').count();
    let start_line = clamp(arguments.offset.unwrap_or(1).max(1));
    // The empty line after a final line break is no line to a reader.
    let readable = if text.is_empty() { 0 } else { total_lines - usize::from(text.ends_with('\n')) };
    if start_line > readable.max(1) {
        return Err(ToolError::new(format!(
            "{named} has {readable} lines; there is nothing from line {start_line} on."
        )));
    }
    let wanted = arguments.limit.map_or(LINES, clamp);
    let mut lines: Vec<&str> = Vec::new();
    let mut size = 0;
    for line in text.split('\n').skip(start_line - 1).take(wanted) {
        size += line.len() + 1;
        if size > SHOWN && !lines.is_empty() {
            break;
        }
        lines.push(line);
    }
    // A single line can be larger than all that is shown.
    let mut content = lines.join("\n");
    if content.len() > SHOWN {
        content.truncate(content.floor_char_boundary(SHOWN));
    }
    let value = Value {
        r#type: "text",
        file: Shown { file_path: named, content, num_lines: lines.len(), start_line, total_lines },
    };
    Ok(reply::output(numbered(&lines, start_line, readable, lossy), &value))
}

fn clamp(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The lines as the model sees them.
fn numbered(lines: &[&str], start: usize, readable: usize, lossy: bool) -> String {
    if readable == 0 {
        return "The file is empty.".to_owned();
    }
    let mut out = String::new();
    let mut number = start;
    for line in lines.iter().take(readable + 1 - start) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // Writing to a String cannot fail.
        let _ = match line.char_indices().nth(LINE) {
            Some((end, _)) => {
                writeln!(out, "{number:>6}\t{}… [{} bytes more]", &line[..end], line.len() - end)
            }
            None => writeln!(out, "{number:>6}\t{line}"),
        };
        number += 1;
    }
    if number <= readable {
        let _ =
            writeln!(out, "\n[Lines {start} to {} of {readable}. Go on with offset {number}.]", number - 1);
    }
    if lossy {
        out.push_str("\n[Some bytes are not UTF-8 and are shown as \u{fffd}.]\n");
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}
