//! What is alive: sessions, turns, the tool registry and the hook runners, as actix actors.
//!
//! Embedders use the facade crate, `portcullis`; this one holds what it is made of. The law in `portcullis-runtime` says
//! what is owed next, the actors here carry it out, and hold nothing of their own that matters: a session is its log.
//!
//! One thread holds the actix system; each *arbiter* is a thread that holds whole sessions. All actors of a session live
//! on one arbiter and share its ledger by `Rc`; what crosses threads are frozen snapshots, handles and
//! settle-once cells. Cancels and answers never go through a mailbox.
//!
//! It refuses to run where a panic cannot be contained (`panic = "abort"`), to open a live session twice, and to drop a
//! message silently: a full queue is a typed error that hands the prompt back.

mod admission;
mod advisor;
mod blocking;
mod command;
mod contain;
mod control;
mod cx;
mod ending;
mod events;
mod fork;
mod handles;
mod hooks;
mod host;
mod inbox;
mod judge;
mod late;
mod leave;
mod ledger;
mod opening;
mod pipeline;
mod presence;
mod registry;
mod replay;
mod runtime;
mod seat;
mod session;
mod stopwatch;
mod subagent;
mod summary;
mod turn;
mod watchdog;

pub use advisor::{ModelAdvisor, SessionAdvisor};
pub use blocking::blocking;
pub use command::{CancelError, Cancelled, Command, PromptRef};
pub use control::{Answer, AnswerError, Ask, Deferred};
pub use events::{Event, Events};
pub use fork::ForkFailed;
pub use handles::{Session, SubmitError, Turn, TurnCost, TurnEnds, TurnOutcome};
pub use host::OpenError;
pub use late::Late;
#[doc(hidden)]
pub use ledger::Ledger;
pub use replay::{Divergence, ReplayError, Replayed, Taken, replay};
pub use runtime::{Config, Health, Leftover, LiveCall, Runtime, SessionOptions, StartError};
pub use watchdog::Stall;
