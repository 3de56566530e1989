//! `Edit`: one text for another in a file.

use crate::patch::{Hunk, hunks};
use crate::write::MAX_CONTENT;
use crate::{Workspace, file, reply};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;

const ABOUT: &str = "Replaces a text in a file of the workspace. `old_string` must be found exactly as written, spaces and line breaks \
included, and exactly once, unless `replace_all` is true. Relative paths count from the working directory.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"file_path":{"type":"string","description":"The file to change."},
"old_string":{"type":"string","minLength":1,"description":"The text to replace."},
"new_string":{"type":"string","description":"What to put in its place."},
"replace_all":{"type":"boolean","default":false,"description":"Replace every occurrence."}
},"required":["file_path","old_string","new_string"],"additionalProperties":false}"#;

/// Replaces a text in a UTF-8 file of at most 2 MiB.
///
/// Arguments: `file_path`, `old_string`, `new_string`, `replace_all` (false). The structured result is the client's
/// `{filePath, oldString, newString, originalFile, structuredPatch, userModified, replaceAll}`.
///
/// The file is written as [`Write`](crate::Write) does. Files that are not UTF-8 are refused, because what cannot be read cannot be
/// kept. What somebody else writes between our reading and our writing is lost. Unlike in the client, `old_string` may not be empty: Write makes new files.
#[derive(Debug, Clone)]
pub struct Edit {
    workspace: Workspace,
}

impl Edit {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Edit {
        Edit { workspace }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        reply::spec("Edit", ABOUT, SCHEMA)
    }
}

#[derive(Deserialize)]
struct Arguments {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    file_path: &'a str,
    old_string: &'a str,
    new_string: &'a str,
    original_file: &'a str,
    structured_patch: Vec<Hunk>,
    user_modified: bool,
    replace_all: bool,
}

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().edit.clone()
    }

    fn call(&self, call: Execution, _cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = call.arguments.decode()?;
            self.workspace.blocking(&call, move |workspace, cwd| edit(workspace, cwd, &arguments)).await
        })
    }
}

fn edit(workspace: &Workspace, cwd: &Path, arguments: &Arguments) -> Result<Output, ToolError> {
    let Arguments { file_path, old_string, new_string, replace_all } = arguments;
    let refuse = |why: String| Err(ToolError::new(format!("{why} {file_path} was not changed.")));
    if old_string.is_empty() {
        return refuse("`old_string` is empty.".into());
    }
    if old_string == new_string {
        return refuse("`old_string` and `new_string` are the same.".into());
    }
    let target = workspace.locate(cwd, file_path)?;
    let bytes = file::read(workspace.fd(), &target, MAX_CONTENT as u64)?;
    let Ok(old) = String::from_utf8(bytes) else {
        return refuse("The file is not UTF-8 text.".into());
    };
    let found = old.matches(old_string.as_str()).count();
    if found == 0 {
        let hint = if old.contains("\r\n") && old_string.contains('\n') {
            " Its lines end with a carriage return and a line feed."
        } else {
            ""
        };
        return refuse(format!("`old_string` does not occur in the file.{hint}"));
    }
    if found > 1 && !replace_all {
        return refuse(format!(
            "`old_string` occurs {found} times. Give more of the text around it, or set `replace_all`."
        ));
    }
    let longer = new_string.len().saturating_sub(old_string.len()).saturating_mul(found);
    if old.len().saturating_add(longer) > MAX_CONTENT {
        return refuse(format!("The file would have more than {MAX_CONTENT} bytes."));
    }
    let new = old.replace(old_string.as_str(), new_string);
    file::write(workspace.fd(), &target, new.as_bytes(), 0)?;
    let value = Value {
        file_path,
        old_string,
        new_string,
        original_file: &old,
        structured_patch: hunks(&old, &new),
        user_modified: false,
        replace_all: *replace_all,
    };
    let places = if found == 1 { "one place".to_owned() } else { format!("{found} places") };
    Ok(reply::output(format!("Changed {file_path} in {places}."), &value))
}
