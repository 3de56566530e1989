//! `Grep`: lines by a regular expression.

use crate::matches::{Around, Matches, Rows};
use crate::walk::{Walk, Walked};
use crate::{PathError, Workspace, file, glob, reply};
use futures::future::LocalBoxFuture;
use portcullis_runtime::{Cancel, Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use regex::bytes::RegexBuilder;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Bytes a file may have; larger ones are passed over, and this is said.
const MAX_FILE: u64 = 16 << 20;
/// Bytes looked at to tell text from binary data.
const PROBE: usize = 8 << 10;
/// Lines or files shown when the model names no limit.
const HEAD: usize = 250;
/// Characters shown.
const SHOWN: usize = 30_000;

const ABOUT: &str = "Searches the text files of the workspace for a regular expression (Rust's syntax: no look-around, no references). \
`output_mode` is `files_with_matches` (the default), `content` (the matching lines) or `count`. `glob` narrows the files: without a slash it \
is compared with names in every folder, with one with the path from where the search starts.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"pattern":{"type":"string","minLength":1,"description":"The regular expression."},
"path":{"type":"string","description":"A file or folder to search in; the working directory if left out."},
"glob":{"type":"string","minLength":1,"description":"Search only files that match, such as `*.rs` or `src/**/*.{c,h}`."},
"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"What to show."},
"-B":{"type":"integer","minimum":0,"description":"Lines to show before each match (content)."},
"-A":{"type":"integer","minimum":0,"description":"Lines to show after each match (content)."},
"-C":{"type":"integer","minimum":0,"description":"Lines to show before and after each match (content)."},
"context":{"type":"integer","minimum":0,"description":"The same as -C."},
"-n":{"type":"boolean","description":"Show line numbers (content); true if left out."},
"-i":{"type":"boolean","description":"Ignore case."},
"head_limit":{"type":"integer","minimum":0,"description":"Show so many lines or files; 250 if left out, 0 for all."},
"offset":{"type":"integer","minimum":0,"description":"Leave out so many lines or files first."},
"multiline":{"type":"boolean","description":"Let a match go over line ends, and the dot stand for them."}
},"required":["pattern"],"additionalProperties":false}"#;

/// Searches text files for a regular expression, in Rust's syntax, which takes time in proportion to the text whatever the pattern.
///
/// The arguments are the client's, without `type`. The structured result is `{mode, filenames, numFiles}` with `totalFiles` for
/// `files_with_matches`, and with `content` and `numLines` or `numMatches` for `content` and `count`.
///
/// Files are searched in order of their path. Links are not followed, folders of version control, files of more than 16 MiB and files with
/// NUL bytes in their first 8 KiB are passed over, `.gitignore` is not read.
#[derive(Debug, Clone)]
pub struct Grep {
    workspace: Workspace,
}

impl Grep {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Grep {
        Grep { workspace }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        Ok(reply::spec("Grep", ABOUT, SCHEMA)?.idempotent().concurrency_safe())
    }
}

#[derive(Deserialize, Serialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    output_mode: Option<Mode>,
    #[serde(rename = "-B")]
    before: Option<u64>,
    #[serde(rename = "-A")]
    after: Option<u64>,
    #[serde(rename = "-C")]
    around: Option<u64>,
    context: Option<u64>,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    head_limit: Option<u64>,
    offset: Option<u64>,
    multiline: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    mode: Mode,
    filenames: &'a [String],
    num_files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_lines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_matches: Option<usize>,
}

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().grep.clone()
    }

    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = call.arguments.decode()?;
            let run = move |workspace: &Workspace, cwd: &Path| grep(workspace, cwd, &arguments, cx.cancel);
            self.workspace.blocking(&call, run).await
        })
    }
}

/// What a search has found so far.
#[derive(Default)]
struct Found {
    /// Lines of the result: matches, files or counts.
    rows: Rows,
    files: usize,
    matches: usize,
    too_large: usize,
}

fn grep(
    workspace: &Workspace,
    cwd: &Path,
    arguments: &Arguments,
    cancel: Cancel,
) -> Result<Output, ToolError> {
    let across = arguments.multiline.unwrap_or(false);
    let pattern = RegexBuilder::new(&arguments.pattern)
        .case_insensitive(arguments.ignore_case.unwrap_or(false))
        .multi_line(true)
        .dot_matches_new_line(across)
        .build()
        .map_err(|error| ToolError::new(format!("The pattern is not valid: {error}")))?;
    let only = match arguments.glob.as_deref() {
        Some(glob) => Some((glob::matcher(glob)?, glob.contains('/'))),
        None => None,
    };
    let both = arguments.context.or(arguments.around).unwrap_or(0);
    let around = Around {
        before: size(arguments.before.unwrap_or(both)),
        after: size(arguments.after.unwrap_or(both)),
    };
    let mode = arguments.output_mode.unwrap_or_default();
    let walk = Walk::new(workspace, cwd, arguments.path.as_deref(), cancel)?;
    let mut found = Found::default();
    let walked = walk.files(|path, target| {
        let wanted = only.as_ref().is_none_or(|(only, whole)| {
            if *whole {
                only.is_match(path)
            } else {
                path.file_name().is_some_and(|name| only.is_match(name))
            }
        });
        if !wanted {
            return Ok(true);
        }
        let bytes = match file::read(workspace.fd(), &target, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(PathError::TooLarge { .. }) => {
                found.too_large += 1;
                return Ok(true);
            }
            // The one file that was asked for must not vanish in silence; one of many may have gone meanwhile.
            Err(error) if arguments.path.as_deref() == Some(target.named.as_str()) => {
                return Err(error.into());
            }
            Err(_) => return Ok(true),
        };
        if bytes[..bytes.len().min(PROBE)].contains(&0) {
            return Ok(true);
        }
        let matches = Matches::find(&bytes, &pattern, across);
        if matches.count() == 0 {
            return Ok(true);
        }
        found.files += 1;
        found.matches += matches.count();
        let name = walk.name(&target);
        match mode {
            Mode::FilesWithMatches => found.rows.push(name),
            Mode::Count => found.rows.push(format!("{name}:{}", matches.count())),
            Mode::Content => {
                matches.show(&name, arguments.numbers.unwrap_or(true), around, &mut found.rows);
            }
        }
        Ok(!found.rows.is_full())
    })?;
    Ok(report(&found, arguments, mode, &walked))
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn report(found: &Found, arguments: &Arguments, mode: Mode, walked: &Walked) -> Output {
    let head = match arguments.head_limit {
        None => HEAD,
        Some(0) => usize::MAX,
        Some(limit) => size(limit),
    };
    let all = found.rows.as_slice();
    let skip = size(arguments.offset.unwrap_or(0)).min(all.len());
    let rows = &all[skip..];
    let rows = &rows[..rows.len().min(head)];
    let joined = rows.join("\n");
    let (content, cut) = reply::clip(&joined, SHOWN);
    let mut text = match (all.is_empty(), content.is_empty()) {
        (true, _) => "Nothing matches.".to_owned(),
        (false, true) => format!("There are only {} to show, and `offset` leaves them out.", all.len()),
        (false, false) => content.to_owned(),
    };
    let left = all.len() - skip - rows.len();
    for note in [
        (cut > 0).then(|| format!("[{cut} bytes more are not shown.]")),
        (left > 0).then(|| format!("[{left} more; go on with offset {}.]", skip + rows.len())),
        (found.too_large > 0)
            .then(|| format!("[{} files are too large and were passed over.]", found.too_large)),
    ] {
        text.extend(note.into_iter().flat_map(|note| ["\n".to_owned(), note]));
    }
    text.push_str(&walked.notes());
    let listed = mode == Mode::FilesWithMatches;
    let filenames = if listed { rows } else { &[] };
    let value = Value {
        mode,
        filenames,
        num_files: if listed { rows.len() } else { found.files },
        total_files: listed.then_some(found.files),
        content: (!listed).then_some(content),
        num_lines: (mode == Mode::Content).then_some(rows.len()),
        num_matches: (mode == Mode::Count).then_some(found.matches),
    };
    reply::output(text, &value)
}
