//! What is true: the values, records, seams and laws of Portcullis.
//!
//! This crate starts nothing: no thread, no process, no actor. It says what a session's log may hold, what follows from
//! it, and what code at a seam may decide; `portcullis-actors` makes it live, bridges speak to the outside.
//!
//! It refuses to let anything be decided twice. [`law::State`] folds records and says what is owed next; a live turn and
//! a recovered one are the same loop over it.
//!
//! ```
//! use portcullis_runtime::*;
//! use law::{Next, State};
//!
//! let mut state = State::new();
//! let created = SessionCreated {
//!     id: SessionId::new("demo")?, cwd: "/".into(), channel: "library".into(), parent: None, seed: None, cleared: None,
//! };
//! let queued = PromptQueued { kind: QueueKind::Prompt, content: "hello".into(), source: Source::User };
//! for (seq, body) in [created.into(), Body::from(queued)].into_iter().enumerate() {
//!     state.apply(&Draft::new(At::session(), body).seal(Seq(seq as u64), 0))?;
//! }
//! // A prompt waits, so a turn is owed.
//! assert!(matches!(state.next(None), Next::Commit(drafts) if drafts[0].body().kind() == "turn/start"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advisor;
pub mod archive;
mod content;
mod execution;
mod fork;
pub mod frozen;
pub mod history;
mod ids;
pub mod journal;
pub mod law;
mod model;
mod outcome;
pub mod plan;
mod record;
mod schema;
pub mod seam;
mod tool;

pub use advisor::{Advice, Advisor, Asked, NoAdvice, Question};
pub use content::{Block, Content, Reason, Source};
pub use execution::{Execution, ExecutionData};
pub use fork::{ForkAt, ForkError, fork};
pub use frozen::{Frozen, Json, Kind, Place, Refused, Replaced, View, Why};
pub use ids::{
    BadCommandId, BadSessionId, CallKey, CallPath, CommandId, HandlerId, RequestId, Seq, SessionId,
};
pub use journal::{
    Batch, Claim, Commits, InboxCommand, Journal, JournalError, MemoryJournal, Ownership, Posted, Ticket,
};
pub use model::{
    Finish, Message, Model, ModelError, ModelEvent, ModelRequest, RequestHeader, Role, ToolHeader, Usage,
};
pub use outcome::{CauseName, Ended, Outcome, Output};
pub use plan::{Extension, Matches, Registered, Registrar, Scope, Table, ToolMatch};
pub use portcullis_identity::{Cancel, Cause, Mint, Settle, Token, TokenId};
pub use record::*;
pub use seam::*;
#[doc(hidden)]
pub use tool::Invoke;
pub use tool::{
    AgentDone, AgentSpec, SpawnError, SpecError, Tool, ToolCx, ToolError, ToolSpec, raw_tool, tool,
};
