//! `Glob`: files by the pattern of their path.

use crate::walk::Walk;
use crate::{Workspace, reply};
use futures::future::LocalBoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use portcullis_runtime::{Cancel, Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Instant};

/// Files named in a result.
const NAMED: usize = 100;

const ABOUT: &str = "Finds files of the workspace by a pattern of their path, such as `src/**/*.rs`: `*` and `?` stay within a name, `**` \
goes through folders, `[ab]` and `{a,b}` are choices. The pattern counts from `path`, or from the working directory. \
Files are named in alphabetical order, at most 100.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"pattern":{"type":"string","minLength":1,"description":"The pattern, relative to `path`."},
"path":{"type":"string","description":"The folder to search in; the working directory if left out."}
},"required":["pattern"],"additionalProperties":false}"#;

/// Finds regular files by a pattern.
///
/// Arguments: `pattern`, `path`. The structured result is the client's `{filenames, durationMs, numFiles, truncated,
/// totalMatches, countIsComplete}`. Names count from the session's directory; files that are not below it are named
/// absolutely. They come in order of their path and not of their age as in the client, so that two runs agree.
///
/// Links are not followed, folders of version control are skipped, `.gitignore` is not read. After 200,000 entries the
/// search ends, and says so.
#[derive(Debug, Clone)]
pub struct Glob {
    workspace: Workspace,
}

impl Glob {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Glob {
        Glob { workspace }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        Ok(reply::spec("Glob", ABOUT, SCHEMA)?.idempotent().concurrency_safe())
    }
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    filenames: &'a [String],
    duration_ms: u64,
    num_files: usize,
    truncated: bool,
    total_matches: usize,
    count_is_complete: bool,
}

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().glob.clone()
    }

    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = call.arguments.decode()?;
            let run = move |workspace: &Workspace, cwd: &Path| glob(workspace, cwd, &arguments, cx.cancel);
            self.workspace.blocking(&call, run).await
        })
    }
}

/// Compiles a pattern in which `*` stays within a name.
pub(crate) fn matcher(pattern: &str) -> Result<GlobMatcher, ToolError> {
    match GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build() {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(ToolError::new(format!("The pattern {pattern:?} is not valid: {}.", error.kind()))),
    }
}

fn glob(
    workspace: &Workspace,
    cwd: &Path,
    arguments: &Arguments,
    cancel: Cancel,
) -> Result<Output, ToolError> {
    let start = Instant::now();
    let pattern = arguments.pattern.strip_prefix("./").unwrap_or(&arguments.pattern);
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(ToolError::new(
            "The pattern must be relative and without `..`; give the folder to search in as `path`.",
        ));
    }
    let matcher = matcher(pattern)?;
    let walk = Walk::new(workspace, cwd, arguments.path.as_deref(), cancel)?;
    let mut filenames = Vec::new();
    let mut total = 0;
    let walked = walk.files(|path, target| {
        if matcher.is_match(path) {
            total += 1;
            if filenames.len() < NAMED {
                filenames.push(walk.name(&target));
            }
        }
        Ok(true)
    })?;
    let truncated = total > filenames.len();
    let mut text = if filenames.is_empty() { "No file matches.".to_owned() } else { filenames.join("\n") };
    if truncated {
        text.push_str(&format!(
            "\n[{} more files match; make the pattern narrower.]",
            total - filenames.len()
        ));
    }
    text.push_str(&walked.notes());
    let value = Value {
        filenames: &filenames,
        duration_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        num_files: filenames.len(),
        truncated,
        total_matches: total,
        count_is_complete: walked.is_complete(),
    };
    Ok(reply::output(text, &value))
}
