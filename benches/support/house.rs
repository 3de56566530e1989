//! The subject: a runtime on one arbiter with a model that answers from its head, and one ordinary tool.

use futures::{
    StreamExt,
    future::LocalBoxFuture,
    stream::{self, BoxStream},
};
use portcullis::{
    Builder, Execution, Finish, Frozen, Message, Model, ModelError, ModelEvent, ModelRequest, Output,
    Runtime, Session, SessionOptions, Tool, ToolCx, ToolError, ToolSpec, tool,
};
use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use super::thread_ns;

/// Makes `calls` calls of `Note` when it is prompted, one of `Drive` when it is prompted to `drive`, and says `done` after
/// results. Reads one message of its request, whatever the history.
#[derive(Clone)]
pub struct Head {
    pub calls: usize,
    pub arguments: Arc<str>,
}

impl Model for Head {
    fn name(&self) -> Arc<str> {
        "head".into()
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let call = |name: &str, n: usize, arguments: &str| {
            let start = ModelEvent::CallStart { id: format!("call-{n}"), name: name.into() };
            [Ok(start), Ok(ModelEvent::CallText(arguments.into()))]
        };
        let mut events = Vec::with_capacity(self.calls * 2 + 1);
        match request.messages.last() {
            Some(Message::User { content, .. }) if content.to_text() == "drive" => {
                events.extend(call("Drive", 0, "{}"));
                events.push(Ok(ModelEvent::Finish(Finish::Calls)));
            }
            Some(Message::User { .. }) if self.calls > 0 => {
                events.extend((0..self.calls).flat_map(|n| call("Note", n, &self.arguments)));
                events.push(Ok(ModelEvent::Finish(Finish::Calls)));
            }
            _ => {
                events.push(Ok(ModelEvent::Text("done".into())));
                events.push(Ok(ModelEvent::Finish(Finish::Stop)));
            }
        }
        stream::iter(events).boxed()
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

/// When a turn's first and last body started, by the CPU clock of their thread.
#[derive(Clone, Default)]
pub struct Stamps(Arc<Mutex<(usize, f64, f64)>>, Arc<OnceLock<Vec<u8>>>);

impl Stamps {
    /// Called on the thread that is measured, before it is.
    pub fn fault_in(&self) {
        self.1.get_or_init(faulted_in);
    }

    fn stamp(&self, calls: usize) {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if at.0 == 0 {
            at.1 = thread_ns();
        }
        at.0 += 1;
        if at.0 == calls {
            at.2 += thread_ns() - at.1;
            at.0 = 0;
        }
    }

    /// The time from first to last bodies since this was last asked.
    pub fn take(&self) -> f64 {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut at.2)
    }
}

/// The tool: reads its arguments, answers in a word, as an embedder would write it. Stamps the first and the last of a
/// turn's `calls` when there are several.
pub fn note(stamps: Stamps, calls: usize) -> impl Tool {
    tool("Note", "Takes a note.", async move |note: Note, _cx| {
        if calls > 1 {
            stamps.stamp(calls);
        }
        Ok::<_, ToolError>(if note.text.is_empty() { "nothing" } else { "noted" })
    })
    .expect("a sound name and schema")
}

/// Arguments of about so many bytes, with the escapes that text with line breaks has.
pub fn arguments(bytes: usize) -> Arc<str> {
    let mut text = String::from(r#"{"text":""#);
    while text.len() + 2 < bytes {
        text.push_str(if text.len() % 48 == 0 { "\\n" } else { "a" });
    }
    text.truncate(bytes - 2);
    text.push_str(r#""}"#);
    text.into()
}

/// One arbiter, so that the subject is on one thread.
pub async fn start(builder: Builder) -> Runtime {
    builder.arbiters(1).start().await.expect("the runtime starts")
}

pub async fn session(runtime: &Runtime, name: &str) -> Session {
    runtime.open(name, SessionOptions::new("/")).await.expect("the session opens")
}

/// One turn, to its end.
pub async fn turn(session: &Session, prompt: &str) {
    let turn = session.prompt(prompt).await.expect("the prompt is taken");
    assert!(turn.await.is_success());
}

/// Runs a measurement on the arbiter's own thread, as the body of a tool of another session, and hands it a session to
/// talk to: subject and floor are then on one thread, under one clock, and no wake crosses threads.
pub async fn driven<T: Send + 'static>(
    model: Head,
    tool: impl Tool,
    measure: impl AsyncFnOnce(Session) -> T + Send + 'static,
) -> T {
    let (session, answer) = (Arc::<OnceLock<Session>>::default(), Arc::<Mutex<Option<T>>>::default());
    let (given, taken) = (session.clone(), answer.clone());
    let job: Job = Box::new(move || {
        Box::pin(async move {
            let _held = faulted_in();
            let session = given.get().cloned().expect("set before the prompt");
            let measured = measure(session).await;
            *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
        })
    });
    let runtime = start(Runtime::builder(model).tool(tool).tool(Drive(Mutex::new(Some(job))))).await;
    assert!(session.set(self::session(&runtime, "s").await).is_ok());
    turn(&self::session(&runtime, "driver").await, "drive").await;
    runtime.shutdown(Duration::from_secs(10)).await;
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    answer.expect("the job ran")
}

/// Makes this thread's heap large at once. A log in memory only grows, and otherwise the kernel's zeroing of fresh pages
/// would come and go in either side of a pair. What is handed back keeps the allocator from giving it all away again.
fn faulted_in() -> Vec<u8> {
    let mut blocks: Vec<Vec<u8>> = (0..96 << 10).map(|_| vec![1; 512]).collect();
    blocks.pop().unwrap_or_default()
}

type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

struct Drive(Mutex<Option<Job>>);

impl Tool for Drive {
    fn spec(&self) -> ToolSpec {
        let schema = Frozen::arguments(r#"{"type":"object"}"#).expect("JSON");
        ToolSpec::new("Drive", "Measures.", schema).expect("a sound name and schema")
    }

    fn call(&self, _: Execution, _: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        let job = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async {
            job.expect("driven once")().await;
            Ok(Output::text("driven"))
        })
    }
}
