//! What to start, and within which limits.

use crate::error::SpawnError;
use crate::permits::Permits;
use crate::resolve::resolve;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Which output a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What to do when the child has exited and another process still holds stdout or stderr open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldPipe {
    /// Go on after this much silence on both outputs; each byte that arrives starts the wait anew and counts as
    /// output, so a holder that never stops talking is ended by the deadline or a cancel only. Then the pipes are closed
    /// on this side: a holder that writes later gets SIGPIPE.
    Silence(Duration),
    /// Wait until every holder has closed them. Only the deadline or a cancel ends the wait early.
    Eof,
}

/// What to do with processes the child started and left running when it exited within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Leave them alone: a hook may start a service on purpose.
    Leave,
    /// End those that are still in the child's group, or that descend from such, as a deadline would. This costs a look
    /// through the process table after each run.
    End,
}

pub(crate) type ChunkSink = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// The description of one child process. Built once, run once by [`run`](fn@crate::run).
///
/// Defaults: environment and working directory of this process, stdin empty (`/dev/null`), 1 MiB kept of each output,
/// no deadline, 1.5 s between TERM and KILL, [`HeldPipe::Silence`] of 500 ms, [`Leftover::Leave`], and the permits
/// shared by the process. Grace and silence are those observed of Claude Code.
#[derive(Clone)]
pub struct Spawn {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env_clear: bool,
    env: Vec<(OsString, Option<OsString>)>,
    pub(crate) stdin: Option<Arc<[u8]>>,
    pub(crate) stdout_cap: usize,
    pub(crate) stderr_cap: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) held_pipe: HeldPipe,
    pub(crate) leftover: Leftover,
    pub(crate) permits: Option<Permits>,
    pub(crate) on_chunk: Option<ChunkSink>,
}

impl Spawn {
    /// Starts `program` directly, without a shell.
    ///
    /// A name without a slash is looked up on the child's `PATH`; a relative path counts from the child's working
    /// directory.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            env_clear: false,
            env: Vec::new(),
            stdin: None,
            stdout_cap: 1 << 20,
            stderr_cap: 1 << 20,
            deadline: None,
            grace: Duration::from_millis(1500),
            held_pipe: HeldPipe::Silence(Duration::from_millis(500)),
            leftover: Leftover::Leave,
            permits: None,
            on_chunk: None,
        }
    }

    /// Hands `text` to a shell: `shell flag text`, for instance `/bin/sh -c 'exit 2'`.
    pub fn shell(shell: impl Into<OsString>, flag: impl Into<OsString>, text: impl Into<OsString>) -> Self {
        Self::new(shell).arg(flag).arg(text)
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments in order.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The working directory. It also resolves a relative program.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// Starts from an empty environment instead of this process's. Variables set before or after the call stay set.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.env_clear = true;
        self
    }

    /// Sets a variable. The last word on a name wins.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Removes a variable. The last word on a name wins.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Bytes for stdin, which is closed after them. Writing goes on while output is read; a child that does not
    /// read them, or closes stdin, is no failure.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// How many bytes of stdout are kept, from its beginning.
    #[must_use]
    pub fn stdout_cap(mut self, bytes: usize) -> Self {
        self.stdout_cap = bytes;
        self
    }

    /// How many bytes of stderr are kept, from its beginning.
    #[must_use]
    pub fn stderr_cap(mut self, bytes: usize) -> Self {
        self.stderr_cap = bytes;
        self
    }

    /// How long the child may take, from its start until its pipes are done with. Then it is ended.
    #[must_use]
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// How long a child may take to follow TERM before it gets KILL. Zero: it gets KILL at once, and no TERM.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What to do about pipes that outlive the child.
    #[must_use]
    pub fn held_pipe(mut self, policy: HeldPipe) -> Self {
        self.held_pipe = policy;
        self
    }

    /// What to do about processes that outlive the child.
    #[must_use]
    pub fn leftover(mut self, policy: Leftover) -> Self {
        self.leftover = policy;
        self
    }

    /// Uses these permits instead of those shared by the process.
    #[must_use]
    pub fn permits(mut self, permits: Permits) -> Self {
        self.permits = Some(permits);
        self
    }

    /// Calls `sink` with each piece of output as it arrives. It sees exactly the bytes that are kept: nothing beyond a
    /// cap. It runs on the task that runs the child and must not block; what it sends on should be bounded.
    #[must_use]
    pub fn on_chunk(mut self, sink: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Self {
        self.on_chunk = Some(Arc::new(sink));
        self
    }

    /// The `PATH` the child will have.
    fn path(&self) -> Option<OsString> {
        match self.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH")) {
            Some((_, value)) => value.clone(),
            None if self.env_clear => None,
            None => std::env::var_os("PATH"),
        }
    }

    /// The absolute program.
    fn program(&self) -> Result<PathBuf, SpawnError> {
        let here = || std::env::current_dir().map_err(SpawnError::Io);
        let cwd = match &self.cwd {
            // Only a lookup that depends on the current directory asks for it: it may have been deleted.
            _ if Path::new(&self.program).is_absolute() => PathBuf::new(),
            Some(dir) if dir.is_absolute() => dir.clone(),
            Some(dir) => here()?.join(dir),
            None => here()?,
        };
        resolve(&self.program, self.path().as_deref(), &cwd)
    }

    /// The command, and the program and directory that a failure to start it is told about.
    pub(crate) fn command(&self) -> Result<(Command, PathBuf, Option<&Path>), SpawnError> {
        let program = self.program()?;
        let mut command = Command::new(&program);
        command.args(&self.args);
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        if self.env_clear {
            command.env_clear();
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok((command, program, self.cwd.as_deref()))
    }
}

/// Shows names of variables and sizes, never values or stdin: both carry secrets.
impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawn")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env_clear", &self.env_clear)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("stdin_bytes", &self.stdin.as_ref().map(|bytes| bytes.len()))
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .field("held_pipe", &self.held_pipe)
            .field("leftover", &self.leftover)
            .finish_non_exhaustive()
    }
}
