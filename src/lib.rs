//! A runtime that hosts many agent sessions in one process, with typed policy at every step and a durable log of every
//! decision.
//!
//! ```
//! use portcullis::{Gate, Runtime, ScriptedModel, ToolError, tool};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::from_json(r#"{"turns":[{"steps":[
//!     {"calls":[{"name":"Add","input":{"a":2,"b":3}}]},
//!     {"text":"Five."}
//! ]}]}"#)?;
//! let runtime = Runtime::builder(model)
//!     .tool(tool("Add", "Adds two numbers.", async |args: Add, _cx| {
//!         Ok::<_, ToolError>((args.a + args.b).to_string())
//!     })?)
//!     .policy("house", |at| {
//!         at.tools("Add", |at| {
//!             at.pre_execute("no-negatives", async |call| match call.arguments.root().get("a") {
//!                 Some(a) if a.as_i64().is_some_and(|a| a < 0) => Gate::deny("negative numbers need a person"),
//!                 _ => Gate::allow(),
//!             });
//!         });
//!     })
//!     .start()
//!     .await?;
//! let session = runtime.session("demo").await?;
//! let end = session.prompt("add 2 and 3").await?.await;
//! assert!(end.is_success());
//! runtime.shutdown(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```

mod agent;
mod builder;

pub use agent::{AgentKind, agent_tool};
pub use builder::{Builder, ForkSessionError, OpenError, Runtime};
pub use portcullis_actors::{
    Answer, AnswerError, Ask, CancelError, Cancelled, Command, Deferred, Divergence, Event, Events,
    ForkFailed, Health, Late, Leftover, LiveCall, ModelAdvisor, PromptRef, ReplayError, Replayed, Session,
    SessionAdvisor, SessionOptions, Stall, StartError, SubmitError, Taken, Turn, TurnCost, TurnEnds,
    TurnOutcome, blocking, replay,
};
pub use portcullis_models::ScriptedModel;
pub use portcullis_runtime::*;

/// Shell hooks of other clients, on the public seams.
pub use portcullis_hooks as hooks;
/// The embedded journal.
#[cfg(feature = "sqlite")]
pub use portcullis_sqlite as sqlite;
/// Bash, Read, Write, Edit, Glob and Grep over a workspace.
pub use portcullis_tools as tools;

/// The README's program, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// How a host connects commands with hooks, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/environment.md")]
struct Environment;
