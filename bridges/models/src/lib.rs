//! Models for a Portcullis runtime. Today that is one: [`ScriptedModel`], which answers from a JSON file.
//!
//! A script makes a session repeatable, offline and free: examples, tests and benchmarks run on it through the same
//! actors, seams and tools as on a provider. A script can also be slow, overloaded, cut off or wrong on purpose, and it
//! can assert on the requests it gets.
//!
//! # What it refuses to do
//!
//! - It counts nothing of its own. Which answer is due follows from the conversation in the request alone, so a session
//!   that was reopened, in this process or another, goes on where it was (see [`ScriptedModel`] for the rule).
//! - It guesses nothing. An unknown field, a field of the wrong type or two fields that contradict each other are errors
//!   at load, with line and column; a request that no line of the script is for is a failed request, not an empty answer.
//! - It cleans nothing up. The text of `input` reaches the runtime byte for byte, and `raw` may be no JSON at all.
//!
//! # Example
//!
//! ```
//! use futures::StreamExt;
//! use portcullis_models::ScriptedModel;
//! use portcullis_runtime::{
//!     Cancel, Finish, Message, Model, ModelEvent, ModelRequest, RequestHeader, Source, law::Transcript,
//! };
//!
//! let model = ScriptedModel::from_json(
//!     r#"{"turns": [{"prompt": "weather", "steps": [
//!         {"text": "Let me look.", "calls": [{"name": "Bash", "input": {"command": "cat weather.txt"}}]},
//!         {"expect": {"last_role": "user", "results": [{"error": false}]}, "text": "It rains."}
//!     ]}]}"#,
//! )?;
//! let header = RequestHeader { model: model.name(), system: "".into(), tools: vec![] };
//! let prompt = Message::User { content: "How is the weather?".into(), source: Source::User };
//! let request = ModelRequest::new(header.into(), Transcript::default().with(&[prompt]), 1, Cancel::new());
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! let events: Vec<_> = runtime.block_on(model.respond(request).collect());
//! assert_eq!(events[0], Ok(ModelEvent::Text("Let me look.".into())));
//! assert_eq!(events.last(), Some(&Ok(ModelEvent::Finish(Finish::Calls))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
#![doc = include_str!("../../../docs/scripted-model.md")]

mod answer;
mod expect;
mod pick;
mod script;
mod scripted;
mod texts;

pub use scripted::{ScriptError, ScriptedModel};
