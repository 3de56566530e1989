//! One hook command, run once: what every dialect needs of a process, and nothing of what its output means.

use portcullis_process::{Finished, HeldPipe, Permits, Spawn, SpawnError, Stream};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// What is kept of stdout. A rewrite may answer with a whole file, so the limit is that of a call's arguments, and some.
const STDOUT: usize = portcullis_runtime::frozen::MAX_BYTES + 64 * 1024;
/// What is kept of stderr: it is shown to a model or a person, never parsed.
const STDERR: usize = 1024 * 1024;

/// How long a first line may be that anybody looks at.
const LINE: usize = 4 * 1024;

/// How a command is started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// Handed to the shell behind `-c`, byte for byte.
    Shell(Arc<str>),
    /// Started without a shell; placeholders are already filled in.
    Exec {
        /// The program, a path or a name on `PATH`.
        command: Arc<str>,
        /// Its arguments.
        args: Vec<Arc<str>>,
    },
}

/// How a client treats its hooks' processes.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// What commands are handed to.
    pub(crate) shell: Arc<Path>,
    /// How long a hook past its limit may take to follow TERM; zero: it gets KILL, and nothing before.
    pub(crate) grace: Duration,
    /// What counts as the end of a hook whose children hold its output open.
    pub(crate) held_pipe: HeldPipe,
}

/// `/bin/sh`, and limits as [`Spawn`] has them.
impl Default for Manner {
    fn default() -> Manner {
        let held_pipe = HeldPipe::Silence(Duration::from_millis(500));
        Manner { shell: Path::new("/bin/sh").into(), grace: Duration::from_millis(1500), held_pipe }
    }
}

/// A hook about to run.
pub(crate) struct Job {
    pub(crate) program: Program,
    pub(crate) manner: Manner,
    pub(crate) cwd: PathBuf,
    /// Variables to set, or with `None` to remove, on top of this process's own.
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) limit: Duration,
    pub(crate) permits: Option<Permits>,
    /// Is told the first line of stdout, as soon as it is there.
    pub(crate) first_line: Option<oneshot::Sender<Vec<u8>>>,
}

/// Runs it to its end or its limit. Dropping the future ends the process and all it started (C-BRIDGE-7).
pub(crate) async fn run(job: Job) -> Result<Finished, SpawnError> {
    let Manner { shell, grace, held_pipe } = job.manner;
    let mut spawn = match job.program {
        Program::Shell(command) => Spawn::shell(&*shell, "-c", &*command),
        Program::Exec { command, args } => {
            Spawn::new(&*command).args(args.iter().map(|arg| OsString::from(&**arg)))
        }
    };
    for (name, value) in job.env {
        spawn = match value {
            Some(value) => spawn.env(name, value),
            None => spawn.env_remove(name),
        };
    }
    if let Some(permits) = job.permits {
        spawn = spawn.permits(permits);
    }
    if let Some(tell) = job.first_line {
        spawn = spawn.on_chunk(first_line(tell));
    }
    let spawn = spawn.grace(grace).held_pipe(held_pipe);
    let spawn = spawn.cwd(job.cwd).stdin(job.stdin).deadline(job.limit).stdout_cap(STDOUT).stderr_cap(STDERR);
    portcullis_process::run(spawn, std::future::pending()).await
}

/// Passes the first line on; of one that does not end soon nobody is told.
fn first_line(tell: oneshot::Sender<Vec<u8>>) -> impl Fn(Stream, &[u8]) + Send + Sync + 'static {
    let line = Mutex::new(Some((Vec::new(), tell)));
    move |stream, bytes| {
        if stream != Stream::Stdout {
            return;
        }
        // Whole at every moment, whatever panics elsewhere.
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((kept, _)) = &mut *line else { return };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        kept.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if (end.is_some() || kept.len() > LINE)
            && let Some((kept, tell)) = line.take().filter(|_| end.is_some())
        {
            // Nobody listens any more once the process has ended.
            let _ = tell.send(kept);
        }
    }
}
