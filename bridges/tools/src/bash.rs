//! `Bash`: a shell command.

use crate::{Workspace, reply};
use futures::future::LocalBoxFuture;
use portcullis_process::{Ending, Finished, Leftover, Spawn, SpawnError, Status, run};
use portcullis_runtime::{Execution, Output, SpecError, Tool, ToolCx, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a command may take when the model does not say.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a command may take whatever the model says.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Characters of output shown, stdout and stderr together.
const SHOWN: usize = 30_000;
/// How many of them stderr gets even when stdout would fill all: what went wrong stands there.
const SHOWN_ERRORS: usize = 10_000;
/// Bytes kept of each output: enough for the characters shown, at four bytes each.
const KEPT: usize = 4 * SHOWN;

const ABOUT: &str = "Runs a shell command and shows what it printed. Every command starts in the session's working directory; a `cd` \
does not last beyond its command. There is no terminal and no input. Output beyond 30,000 characters is cut. Without `timeout` a command \
is stopped after 120 seconds.";

const SCHEMA: &str = r#"{"type":"object","properties":{
"command":{"type":"string","description":"The command, as typed into a shell."},
"timeout":{"type":"integer","minimum":1,"description":"How long it may take, in milliseconds; at most 600000."},
"description":{"type":"string","description":"What the command is for, in a few words."},
"run_in_background":{"type":"boolean","description":"Not supported; leave it out."}
},"required":["command"],"additionalProperties":false}"#;

/// Runs a command in `/bin/bash`, or `/bin/sh` where there is no bash.
///
/// Arguments: `command`, `timeout` (milliseconds; 120,000 by default, never more than 600,000), `description`,
/// `run_in_background` (refused if true). The structured result, of failures too, is the client's `{stdout, stderr, interrupted,
/// isImage, noOutputExpected}`.
///
/// An exit code other than 0 is a tool error whose text begins with `Exit code N`, as in the client. A timeout or a cancel ends the
/// command's process group and its descendants and is an error with what was printed until then. Processes that the command leaves behind
/// do not hold up the call. Dropping the call kills the command at once.
///
/// The command gets this process's environment, with what the files of [`Workspace::sourced`] make of it, empty input and the session's working directory, which must be inside the
/// workspace. It is not confined to the workspace.
#[derive(Debug, Clone)]
pub struct Bash {
    workspace: Workspace,
    shell: &'static str,
}

impl Bash {
    /// The tool over a workspace.
    pub fn new(workspace: Workspace) -> Bash {
        let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
        Bash { workspace, shell }
    }

    pub(crate) fn describe() -> Result<ToolSpec, SpecError> {
        reply::spec("Bash", ABOUT, SCHEMA)
    }

    async fn run(&self, call: Execution, cx: ToolCx) -> Result<Output, ToolError> {
        let arguments: Arguments = call.arguments.decode()?;
        if arguments.run_in_background == Some(true) {
            return Err(ToolError::new(
                "Commands in the background are not supported yet. Run it without `run_in_background`; nothing ran.",
            ));
        }
        let session = call.scene.session.clone();
        let prepare = move |workspace: &Workspace, cwd: &Path| {
            let cwd = workspace.directory(cwd)?;
            match workspace.sources(&session) {
                Ok(files) => Ok((cwd, files)),
                Err(error) => Err(ToolError::new(format!(
                    "What the session's environment should be could not be read ({error}); nothing ran."
                ))),
            }
        };
        let (cwd, files) = self.workspace.blocking(&call, prepare).await?;
        let limit = arguments.timeout.map_or(TIMEOUT, |ms| Duration::from_millis(ms).min(MAX_TIMEOUT));
        let spawn = Spawn::shell(self.shell, "-c", after(&files, &arguments.command))
            .cwd(cwd)
            .deadline(limit)
            .stdout_cap(KEPT)
            .stderr_cap(KEPT)
            .leftover(Leftover::Leave);
        let cancel = cx.cancel.clone();
        match run(spawn, async move {
            let _cause = cancel.cancelled().await;
        })
        .await
        {
            Ok(finished) => report(&finished, limit),
            Err(SpawnError::Cancelled) => {
                Err(ToolError::new("The command was cancelled before it started; nothing ran."))
            }
            Err(error) => Err(ToolError::new(format!("The command was not started: {error}."))),
        }
    }
}

/// A command that reads these files first. It stays on its line: what a shell says of line 1 is of its line 1.
fn after(files: &[PathBuf], command: &str) -> OsString {
    let mut line = Vec::new();
    for file in files {
        line.extend_from_slice(b". '");
        for byte in file.as_os_str().as_bytes() {
            match byte {
                b'\'' => line.extend_from_slice(br"'\''"),
                byte => line.push(*byte),
            }
        }
        line.extend_from_slice(b"'; ");
    }
    line.extend_from_slice(command.as_bytes());
    OsString::from_vec(line)
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    timeout: Option<u64>,
    run_in_background: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    stdout: &'a str,
    stderr: &'a str,
    interrupted: bool,
    is_image: bool,
    no_output_expected: bool,
}

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        self.workspace.specs().bash.clone()
    }

    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(self.run(call, cx))
    }
}

fn report(finished: &Finished, limit: Duration) -> Result<Output, ToolError> {
    let (out, err) = (finished.stdout.text(), finished.stderr.text());
    let errors = err.chars().count().min(SHOWN_ERRORS.max(SHOWN.saturating_sub(out.chars().count())));
    let (stdout, out_cut) = reply::clip(&out, SHOWN - errors.min(SHOWN));
    let (stderr, err_cut) = reply::clip(&err, errors);
    let cut = out_cut as u64 + err_cut as u64 + finished.stdout.dropped() + finished.stderr.dropped();
    // As in the client: the last line breaks say nothing.
    let (stdout, stderr) = (stdout.trim_end_matches('\n'), stderr.trim_end_matches('\n'));

    let headline = match (finished.ending, finished.status) {
        (Ending::TimedOut, _) => {
            Some(format!("The command did not finish within {} ms and was stopped.", limit.as_millis()))
        }
        (Ending::Cancelled, _) => Some("The command was cancelled while it ran.".to_owned()),
        (Ending::Exited, Status::Code(0)) => None,
        (Ending::Exited, status) => Some(match status.shell_code() {
            Some(code) => format!("Exit code {code}"),
            None => "The command ended, but the system does not say how.".to_owned(),
        }),
    };
    let failed = headline.is_some();
    let mut parts: Vec<String> = headline.into_iter().collect();
    parts.extend([stdout, stderr].iter().filter(|text| !text.is_empty()).map(|text| (*text).to_owned()));
    if cut > 0 {
        parts.push(format!("[{cut} bytes more were printed and are not shown.]"));
    }
    if !finished.survivors.is_empty() {
        parts.push(format!("[Processes that could not be ended: {:?}]", finished.survivors));
    }
    if parts.is_empty() {
        parts.push("The command succeeded and printed nothing.".to_owned());
    }
    let value = Value {
        stdout,
        stderr,
        interrupted: finished.ending != Ending::Exited,
        is_image: false,
        no_output_expected: false,
    };
    let output = reply::output(parts.join("\n"), &value);
    if failed { Err(ToolError(output)) } else { Ok(output) }
}
