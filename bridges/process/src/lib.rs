//! Child processes for shell hooks and the Bash tool: started cheaply, bounded in time and output, and ended
//! with everything they started.
//!
//! One call does it all: [`run`](fn@run) takes a [`Spawn`] (what to start, and within which limits) and a cancel future,
//! and answers with [`Finished`] (how it ended, and what it printed).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use portcullis_process::{Ending, Spawn, Status, run};
//! use std::time::Duration;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let finished = runtime.block_on(async {
//!     let hook = Spawn::shell("/bin/sh", "-c", "read name; echo \"hello $name\"; exit 3")
//!         .stdin(b"gate\n".as_slice())
//!         .deadline(Duration::from_secs(30))
//!         .stdout_cap(64 * 1024);
//!     run(hook, std::future::pending()).await
//! })?;
//! assert_eq!(finished.ending, Ending::Exited);
//! assert_eq!(finished.status, Status::Code(3));
//! assert_eq!(finished.stdout.text(), "hello gate\n");
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! * **Spawn path.** The child leads its own process group and is started from an absolute program without a
//!   `pre_exec` hook, so the standard library takes `posix_spawn`. A new session would need `fork`, whose cost
//!   grows with the memory of the host. A bare program name is looked up on the child's `PATH` first.
//! * **Pipes.** stdin, stdout and stderr are served at the same time. A child that ignores its stdin is no failure.
//!   Each output keeps its first bytes up to a cap; the rest is read, counted and dropped, so that a flood neither
//!   fills memory nor blocks the child. A pipe that some background process keeps open after the child has exited
//!   is dealt with as [`HeldPipe`] says.
//! * **The end.** A deadline or a cancel ends the group and every descendant found in the process table, those that
//!   moved to a session of their own included: TERM, then, after the grace, a new look and KILL (without a grace, KILL alone). The child itself
//!   stays unreaped until all this is over, so its group id cannot pass to somebody else; every other process
//!   is signalled only if its start time shows that it is still the same one.
//! * **Drop.** A dropped future kills at once, without grace, and leaves only the reaping to a thread.
//! * **Permits.** [`Permits`] bound how many children are alive at a time, for the whole process by default. The
//!   deadline starts when the child does, not while it waits for a permit.
//!
//! # What it refuses to do
//!
//! * It interprets nothing: no decoding of output, no meaning of exit codes, no dialect.
//! * It never waits for children it did not start (`waitpid(-1)`), sets no process-wide state, and installs no
//!   signal handler.
//! * It does not hunt daemons. A process that has left its group *and* whose parents were all gone before the first
//!   look has no visible tie to the child any more. On Linux the search reads `/proc`; elsewhere only the group
//!   is ended.
//!
//! The futures are `Send` and run on any tokio runtime with I/O and time enabled, current-thread ones included.
//! A tokio clock that is paused for a test runs ahead of real children: do not mix the two.

mod error;
mod finished;
mod leader;
mod permits;
mod pump;
mod resolve;
mod run;
mod spec;
mod tree;

pub use error::SpawnError;
pub use finished::{Captured, Ending, Finished, Status};
pub use permits::Permits;
pub use run::{run, started};
pub use spec::{HeldPipe, Leftover, Spawn, Stream};
