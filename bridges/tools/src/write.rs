//! `Write`: a whole file.

use crate::patch::{Hunk, hunks};
use crate::{Workspace, file, file::Replaced, reply};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Bytes a file may be given, and bytes of the old one that are kept for the result.
pub(crate) const MAX_CONTENT: usize = 2 << 20;

const ABOUT: &str = "Writes a file of the workspace: creates it, with the folders it needs, or replaces its whole content. \
Relative paths count from the working directory. To change a part of a file, use Edit.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"file_path":{"type":"string","description":"The file to write."},
"content":{"type":"string","description":"The whole new content."}
},"required":["file_path","content"],"additionalProperties":false}"#;

/// Writes a file of at most 2 MiB, as a whole or not at all.
///
/// Arguments: `file_path`, `content`. The structured result is the client's `{type: "create" | "update", filePath, content,
/// structuredPatch, originalFile, userModified}`; `originalFile` is null for a new file and for one of more than 2 MiB. The
/// patch is empty then, and where old and new together have more than 1 MiB or 10,000 lines.
///
/// The content goes to a new file in the same folder, which is synced and takes the old one's name and mode bits; owner,
/// extended attributes and further hard links are not carried over. A write-protected file is not replaced. A symbolic link inside
/// the root is followed. Unlike in the client, a file need not be read before it is written.
#[derive(Debug, Clone)]
pub struct Write {
    workspace: Workspace,
}

impl Write {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Write {
        Write { workspace }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        Ok(reply::spec("Write", ABOUT, SCHEMA)?.idempotent())
    }
}

#[derive(Deserialize)]
struct Arguments {
    file_path: String,
    content: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    r#type: &'static str,
    file_path: &'a str,
    content: &'a str,
    structured_patch: Vec<Hunk>,
    original_file: Option<&'a str>,
    user_modified: bool,
}

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().write.clone()
    }

    fn call(&self, call: Execution, _cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = call.arguments.decode()?;
            self.workspace.blocking(&call, move |workspace, cwd| write(workspace, cwd, &arguments)).await
        })
    }
}

fn write(workspace: &Workspace, cwd: &Path, arguments: &Arguments) -> Result<Output, ToolError> {
    let Arguments { file_path, content } = arguments;
    if content.len() > MAX_CONTENT {
        return Err(ToolError::new(format!(
            "The content has {} bytes; the limit is {MAX_CONTENT}. Nothing was written.",
            content.len()
        )));
    }
    let target = workspace.locate(cwd, file_path)?;
    let replaced = file::write(workspace.fd(), &target, content.as_bytes(), MAX_CONTENT as u64)?;
    let (kind, done, old) = match replaced {
        Replaced::Nothing => ("create", "Created", None),
        Replaced::File(old) => ("update", "Replaced", old),
    };
    let old = old.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let value = Value {
        r#type: kind,
        file_path,
        content,
        structured_patch: old.as_deref().map(|old| hunks(old, content)).unwrap_or_default(),
        original_file: old.as_deref(),
        user_modified: false,
    };
    let lines = content.lines().count();
    let s = if lines == 1 { "" } else { "s" };
    Ok(reply::output(format!("{done} {file_path} ({lines} line{s}, {} bytes).", content.len()), &value))
}
