//! Tools over a workspace: Bash, Read, Write, Edit, Glob and Grep, with the names, arguments and structured results of Claude Code,
//! so that hooks written for that client find what they look for. The texts for the model are our own.
//!
//! A [`Workspace`] is a directory. The file tools work beneath it and nowhere else; each tool is a
//! [`Tool`](portcullis_runtime::Tool) to be registered with a runtime.
//!
//! ```
//! use portcullis_tools::Workspace;
//!
//! let dir = std::env::temp_dir();
//! let workspace = Workspace::new(&dir)?;
//! let names: Vec<_> = workspace.tools().iter().map(|tool| tool.spec().name).collect();
//! assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["Bash", "Read", "Write", "Edit", "Glob", "Grep"]);
//! # Ok::<(), portcullis_tools::WorkspaceError>(())
//! ```
//!
//! | tool | idempotent | concurrency-safe | limits |
//! |---|---|---|---|
//! | [`Bash`] | no | no | 120 s, at most 600 s; 30,000 characters shown |
//! | [`Read`] | yes | yes | files of 16 MiB; 2,000 lines by default; 256 KiB shown |
//! | [`Write`] | yes | no | content of 2 MiB |
//! | [`Edit`] | no | no | files of 2 MiB, UTF-8 |
//! | [`Glob`] | yes | yes | 100 files named, 200,000 looked at |
//! | [`Grep`] | yes | yes | as Glob; files of 16 MiB; 30,000 characters shown |
//!
//! Write is declared idempotent because writing the same content again leaves the same file; a second run reports an update
//! where the first would have reported a new file. Edit is not: run again it finds its text gone, or finds it once more.
//!
//! # What it refuses to do
//!
//! - **The file tools do not leave the root.** Absolute paths count only inside it, `..` may not lead above it (it is taken
//!   by the letter, before links), and a symbolic link may point anywhere within it, but not out. A path is resolved first and then
//!   opened folder by folder without following links, so a link that is put there in between is refused and not followed. A
//!   *folder* that somebody moves out of the root during an access is not noticed.
//! - **Nothing but regular files.** Devices, sockets and FIFOs are refused without being opened.
//! - **Bash is not confined.** It is a shell with the rights and the environment of this process (and what
//!   [`Workspace::sourced`] adds to it); it merely starts in the session's
//!   working directory. Whoever must confine it does so by gates and guards, or by running the process in a sandbox.
//! - **No state between calls.** Each command starts in the session's working directory and a `cd` ends with it, so a
//!   session that is reopened runs as before. `run_in_background` is refused; a process that a command leaves behind with `&` does
//!   not hold up the call and is left alone when the command ended by itself, ended with it on a timeout or a cancel.

mod bash;
mod edit;
mod file;
mod glob;
mod grep;
mod matches;
mod patch;
mod path;
mod read;
mod reply;
mod walk;
mod workspace;
mod write;

pub use bash::Bash;
pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use path::PathError;
/// How many child processes this process has started so far, for tools and for hooks.
pub use portcullis_process::started as processes_started;
pub use read::Read;
pub use workspace::{Workspace, WorkspaceError};
pub use write::Write;
