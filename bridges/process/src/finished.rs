//! What became of a child.

use std::borrow::Cow;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why the run was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The child exited by itself within its limits.
    Exited,
    /// The deadline passed. The child and its descendants were ended; what it printed until then is kept, but it
    /// cannot decide anything.
    TimedOut,
    /// The caller cancelled. The child and its descendants were ended.
    Cancelled,
}

/// How the child itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code, 0 to 255.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// The system does not say: the child could not be reaped within five seconds after KILL (it hangs in the
    /// kernel; a thread goes on trying), or the host program ignores SIGCHLD.
    Unknown,
}

impl Status {
    /// The exit code, or 128 + n for a child killed by signal n, as shells report it. `None` if unknown.
    pub fn shell_code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(signal) => Some(128 + signal),
            Self::Unknown => None,
        }
    }

    /// Whether the child exited with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// One output of the child, kept up to its cap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, at most as many as the cap allows.
    pub bytes: Vec<u8>,
    /// How many bytes were read in all, kept or not.
    pub total: u64,
}

impl Captured {
    fn whole(bytes: Vec<u8>) -> Captured {
        Captured { total: bytes.len() as u64, bytes }
    }

    /// How many bytes were read and not kept.
    pub fn dropped(&self) -> u64 {
        self.total.saturating_sub(self.bytes.len() as u64)
    }

    /// Whether anything was dropped.
    pub fn is_cut(&self) -> bool {
        self.dropped() > 0
    }

    /// The kept bytes as text; what is not UTF-8 becomes U+FFFD, also a character that the cap cut through.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// A child that was started and is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// Why the run was over.
    pub ending: Ending,
    /// How the child itself ended. A child may catch TERM and exit with a code of its own, so after
    /// [`Ending::TimedOut`] this may well be `Code(0)`: read `ending` first.
    pub status: Status,
    /// What it wrote to stdout.
    pub stdout: Captured,
    /// What it wrote to stderr.
    pub stderr: Captured,
    /// From the start of the child until it and its pipes were done with. Waiting for a permit is not counted.
    pub took: Duration,
    /// Whether some other process still held stdout or stderr open when the output was taken as complete.
    pub pipe_held: bool,
    /// Other processes that were found alive and signalled, by id, ascending. Empty when the run ended by itself
    /// and nothing was to be cleaned up.
    pub ended: Vec<u32>,
    /// Those of `ended` (or the child itself) that were still alive when the run gave up on them: they belong to
    /// another user, or hang in the kernel. Ascending.
    pub survivors: Vec<u32>,
}

impl Finished {
    /// A child that ended by itself, with all of its output and nothing left behind, in no time: for whoever tests what is made
    /// of a run.
    pub fn exited(status: Status, stdout: impl Into<Vec<u8>>, stderr: impl Into<Vec<u8>>) -> Finished {
        Finished {
            ending: Ending::Exited,
            status,
            stdout: Captured::whole(stdout.into()),
            stderr: Captured::whole(stderr.into()),
            took: Duration::ZERO,
            pipe_held: false,
            ended: Vec::new(),
            survivors: Vec::new(),
        }
    }
}
