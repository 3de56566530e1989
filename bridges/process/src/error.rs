//! Why a child was not started.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The child was not started. Nothing ran and nothing is left behind.
///
/// A child that started and then failed is not an error here: see [`Finished`](crate::Finished).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No such program, neither as a path nor on the child's `PATH`; or a script whose interpreter is missing.
    #[error(
        "program `{}` was not found; check its spelling, the PATH it is looked up on, and a script's first line",
        .0.display()
    )]
    NotFound(PathBuf),
    /// The program exists and may not be executed.
    #[error("`{}` is not an executable program; check that it is a file with execute permission", .0.display())]
    NotExecutable(PathBuf),
    /// The working directory is missing or is no directory.
    #[error("working directory `{}` does not exist or is not a directory that can be entered", .0.display())]
    NotADirectory(PathBuf),
    /// The program, an argument, a variable or the working directory contains a NUL byte.
    #[error(
        "the command line, the environment or the working directory contains a NUL byte, which no program can be given"
    )]
    NulByte,
    /// Arguments and environment together exceed what the kernel accepts.
    #[error("the arguments and the environment together are larger than the system accepts")]
    TooLarge,
    /// The machine is out of processes, file descriptors or memory.
    #[error(
        "the system refused another process ({0}); raise the limit on processes or open files, or run fewer at a time"
    )]
    Limit(#[source] io::Error),
    /// The cancel future completed before the child was started.
    #[error("cancelled before the process was started")]
    Cancelled,
    /// Anything else the system said.
    #[error("the process could not be started: {0}")]
    Io(#[source] io::Error),
}

impl SpawnError {
    /// A stable code for logs and programs, `process/...`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "process/not-found",
            Self::NotExecutable(_) => "process/not-executable",
            Self::NotADirectory(_) => "process/not-a-directory",
            Self::NulByte => "process/nul-byte",
            Self::TooLarge => "process/too-large",
            Self::Limit(_) => "process/limit",
            Self::Cancelled => "process/cancelled",
            Self::Io(_) => "process/io",
        }
    }

    /// Tells what a failed spawn was about. The system reports a missing directory, a missing program and a missing
    /// interpreter with the same number, so the directory is looked at afterwards; a check beforehand would
    /// cost every spawn and could still be overtaken.
    pub(crate) fn from_spawn(error: io::Error, program: &Path, cwd: Option<&Path>) -> Self {
        if error.kind() == io::ErrorKind::InvalidInput {
            return Self::NulByte;
        }
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG)
                if cwd.is_some_and(|dir| !can_enter(dir)) =>
            {
                Self::NotADirectory(cwd.unwrap_or(program).to_owned())
            }
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                Self::NotFound(program.to_owned())
            }
            Some(Errno::ACCESS | Errno::PERM | Errno::NOEXEC | Errno::ISDIR) => {
                Self::NotExecutable(program.to_owned())
            }
            Some(Errno::TOOBIG) => Self::TooLarge,
            Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => Self::Limit(error),
            _ => Self::Io(error),
        }
    }

    /// For failures between the spawn and the first wait: descriptors or memory ran out.
    pub(crate) fn from_setup(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC) => Self::Limit(error),
            _ => Self::Io(error),
        }
    }
}

fn can_enter(dir: &Path) -> bool {
    dir.is_dir() && rustix::fs::access(dir, rustix::fs::Access::EXEC_OK).is_ok()
}
