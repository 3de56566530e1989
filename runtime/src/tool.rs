//! Tools: what the model may call.

use crate::{Execution, Frozen, Outcome, Output, Refused, seam::BoxError};
use futures::future::LocalBoxFuture;
use portcullis_identity::Cancel;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use std::{fmt, marker::PhantomData, rc::Rc, sync::Arc, time::Duration};

/// What a tool says of itself. The model sees name, description and schema; the rest is for the runtime.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name, unique among the tools of a runtime.
    pub name: Arc<str>,
    /// What the model is told about it.
    pub description: Arc<str>,
    /// JSON Schema of its arguments.
    pub schema: Frozen,
    /// Running it again after a crash is harmless. Not declared means not so.
    pub idempotent: bool,
    /// Its body may overlap with others that say so, too.
    pub concurrency_safe: bool,
    /// Its own time limit, if it has one.
    pub limit: Option<Duration>,
    check: Arc<crate::schema::Check>,
    output: Option<Arc<crate::schema::Check>>,
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a tool cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The schema is not a JSON object.
    #[error("the schema of tool `{tool}` was not accepted: {why}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with its schema.
        why: String,
    },
    /// The name is empty or too long, or has characters that a model provider refuses.
    #[error("`{0}` is no tool name: use 1 to 128 characters of A-Z a-z 0-9 _ -")]
    Name(String),
}

impl ToolSpec {
    /// Describes a tool by its schema. Remote and file references in the schema are refused.
    pub fn new(name: &str, description: impl Into<Arc<str>>, schema: Frozen) -> Result<ToolSpec, SpecError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !(1..=128).contains(&name.len()) || !name.chars().all(plain) {
            return Err(SpecError::Name(name.into()));
        }
        let check = crate::schema::Check::compile(&schema)
            .map_err(|why| SpecError::Schema { tool: name.into(), why })?;
        Ok(ToolSpec {
            name: name.into(),
            description: description.into(),
            schema,
            idempotent: false,
            concurrency_safe: false,
            limit: None,
            check: Arc::new(check),
            output: None,
        })
    }

    /// Describes a tool by the Rust type of its arguments.
    pub fn of<A: JsonSchema>(name: &str, description: impl Into<Arc<str>>) -> Result<ToolSpec, SpecError> {
        let mut settings = SchemaSettings::draft07();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let mut schema = settings.into_generator().into_root_schema_for::<A>();
        // The Rust type's own name and comment are for Rust programmers.
        schema.remove("title");
        schema.remove("description");
        let schema = Frozen::of(&schema)
            .map_err(|why| SpecError::Schema { tool: name.into(), why: why.to_string() })?;
        ToolSpec::new(name, description, schema)
    }

    /// Declares that running it again after a crash is harmless.
    pub fn idempotent(mut self) -> ToolSpec {
        self.idempotent = true;
        self
    }

    /// Declares that its body may overlap with others that say so, too.
    pub fn concurrency_safe(mut self) -> ToolSpec {
        self.concurrency_safe = true;
        self
    }

    /// Gives it a time limit of its own.
    pub fn limit(mut self, limit: Duration) -> ToolSpec {
        self.limit = Some(limit);
        self
    }

    /// Declares the shape of its structured output: a body that succeeds without a value of this schema made an
    /// `invalid_output`.
    pub fn output(mut self, schema: Frozen) -> Result<ToolSpec, SpecError> {
        let check = crate::schema::Check::compile(&schema)
            .map_err(|why| SpecError::Schema { tool: self.name.to_string(), why })?;
        self.output = Some(Arc::new(check));
        Ok(self)
    }

    /// Checks a structured output against the declared shape, if there is one.
    pub fn returns(&self, value: Option<&Frozen>) -> Result<(), String> {
        match (&self.output, value) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("the tool declares a structured output and gave none".into()),
            (Some(check), Some(value)) => check.accepts(value),
        }
    }

    /// Checks arguments against the schema. The message names every violation with its place.
    pub fn accepts(&self, arguments: &Frozen) -> Result<(), String> {
        self.check.accepts(arguments)
    }
}

/// What a body is handed beside the call.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolCx {
    /// Resolves when the call is cancelled; a body that holds something should listen.
    pub cancel: Cancel,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    invoke: Option<Rc<dyn Invoke>>,
}

impl fmt::Debug for ToolCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCx").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// How a body's calls reach the pipeline. The runtime implements it; a body sees [`ToolCx::call`].
#[doc(hidden)]
pub trait Invoke {
    /// Runs one call under the body's own.
    fn invoke(&self, tool: Arc<str>, arguments: Arc<str>) -> LocalBoxFuture<'static, Outcome>;
    /// Runs one subagent under the body's own.
    fn spawn(&self, spec: AgentSpec) -> LocalBoxFuture<'static, Result<AgentDone, SpawnError>>;
}

/// A subagent to be: what it is asked, and how it is narrowed. What is not narrowed it inherits (C-SUB-2).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentSpec {
    /// The kind of agent, as policies and hooks match it.
    pub kind: Arc<str>,
    /// What it is asked.
    pub prompt: crate::Content,
    /// The only tools it may use; each must be one of its parent's.
    pub tools: Option<Vec<Arc<str>>>,
    /// Its working directory; must be within its parent's.
    pub cwd: Option<std::path::PathBuf>,
    /// Its system text, instead of its parent's.
    pub system: Option<Arc<str>>,
    /// Owners whose registrations do not cover it. Set by host code only: no model's words reach it.
    pub opt_out: Vec<Arc<str>>,
}

impl AgentSpec {
    /// An agent that inherits everything.
    pub fn new(kind: impl Into<Arc<str>>, prompt: impl Into<crate::Content>) -> AgentSpec {
        AgentSpec {
            kind: kind.into(),
            prompt: prompt.into(),
            tools: None,
            cwd: None,
            system: None,
            opt_out: Vec::new(),
        }
    }
}

/// What a subagent came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentDone {
    /// Its session; its log stays in the journal.
    pub session: crate::SessionId,
    /// How its turn ended.
    pub end: crate::EndReason,
    /// The last thing it said.
    pub report: crate::Content,
}

impl AgentDone {
    /// What a subagent came to.
    pub fn new(session: crate::SessionId, end: crate::EndReason, report: crate::Content) -> AgentDone {
        AgentDone { session, end, report }
    }
}

/// Why a subagent was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// Agents may not nest deeper.
    #[error("agents may nest {limit} deep, and this one would be deeper: do it without another agent")]
    Depth {
        /// The limit.
        limit: u32,
    },
    /// Too many run at once.
    #[error("{limit} agents run already: wait for one to end")]
    Count {
        /// The limit.
        limit: u32,
    },
    /// It asks for more than its parent has.
    #[error("an agent cannot have more than the one that starts it: {what}")]
    Widens {
        /// What.
        what: String,
    },
    /// Its session could not be opened, or it had no turn.
    #[error("the agent could not be started: {0}")]
    Failed(String),
    /// The call that starts it has ended or is cancelled.
    #[error("the call that starts this agent is over")]
    Over,
}

impl ToolCx {
    /// For an attempt, with nothing to call.
    pub fn new(cancel: Cancel, attempt: u32) -> ToolCx {
        ToolCx { cancel, attempt, invoke: None }
    }

    #[doc(hidden)]
    pub fn calling(mut self, invoke: Rc<dyn Invoke>) -> ToolCx {
        self.invoke = Some(invoke);
        self
    }

    /// Runs a subagent from inside this body: a session of its own, with its own log, on this arbiter. A cancel of this
    /// call flows down to it; one result flows up. A subagent that crashes is an end like any other, never a crash here.
    pub async fn spawn(&self, spec: AgentSpec) -> Result<AgentDone, SpawnError> {
        match &self.invoke {
            Some(invoke) => invoke.spawn(spec).await,
            None => Err(SpawnError::Failed("there is no runtime around this body".into())),
        }
    }

    /// Calls another tool from inside this body: the same pipeline (rewriters, gate, guards, approval, review) under
    /// this call's token. The result is this body's to use; the model does not see it. A call made after this one has
    /// ended is refused, one that is still running when the body returns is cancelled.
    pub async fn call(&self, tool: &str, arguments: &str) -> Outcome {
        match &self.invoke {
            Some(invoke) => invoke.invoke(tool.into(), arguments.into()).await,
            None => {
                Outcome::tool_error(Output::text("there is no runtime around this body to call tools in"))
            }
        }
    }
}

/// A tool's failure, as the model reads it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .0.content.to_text())]
pub struct ToolError(pub Output);

impl ToolError {
    /// A failure in words.
    pub fn new(text: impl Into<Arc<str>>) -> ToolError {
        ToolError(Output::text(text))
    }
}

impl From<BoxError> for ToolError {
    fn from(error: BoxError) -> ToolError {
        ToolError::new(error.to_string())
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> ToolError {
        ToolError::new(error.to_string())
    }
}

impl From<Refused> for ToolError {
    fn from(error: Refused) -> ToolError {
        ToolError::new(error.to_string())
    }
}

/// A tool. Its object is shared by all arbiters; the future of a call stays on the session's and need not be `Send`.
pub trait Tool: Send + Sync + 'static {
    /// What it says of itself. Read once, at registration.
    fn spec(&self) -> ToolSpec;
    /// Runs one call. A panic is that call's outcome; a body that outlives a cancel is dropped.
    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>>;
}

/// A tool from a Rust type and an async closure. `A` gives the schema and what the closure receives.
///
/// ```
/// use portcullis_runtime::{ToolError, tool};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
/// let add = tool("Add", "Adds two numbers.", async |args: Add, _cx| Ok::<_, ToolError>((args.a + args.b).to_string()))?;
/// # Ok::<(), portcullis_runtime::SpecError>(())
/// ```
pub fn tool<A, F, R>(name: &str, about: &str, body: F) -> Result<impl Tool + use<A, F, R>, SpecError>
where
    A: DeserializeOwned + JsonSchema + 'static,
    F: AsyncFn(A, ToolCx) -> Result<R, ToolError> + Send + Sync + 'static,
    R: Into<Output> + 'static,
{
    Ok(FnTool { spec: ToolSpec::of::<A>(name, about)?, body, shape: PhantomData::<fn(A) -> R> })
}

struct FnTool<A, F, R> {
    spec: ToolSpec,
    body: F,
    shape: PhantomData<fn(A) -> R>,
}

impl<A, F, R> Tool for FnTool<A, F, R>
where
    A: DeserializeOwned + 'static,
    F: AsyncFn(A, ToolCx) -> Result<R, ToolError> + Send + Sync + 'static,
    R: Into<Output> + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }
    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin(async move {
            let arguments = call.arguments.decode::<A>()?;
            Ok((self.body)(arguments, cx).await?.into())
        })
    }
}

/// A tool from its description and an async closure over the call itself, for flags, limits, declared output or nested
/// calls: `raw_tool(ToolSpec::of::<Args>("Fetch", "…")?.concurrency_safe(), async |call, cx| …)`.
pub fn raw_tool<F>(spec: ToolSpec, body: F) -> impl Tool + use<F>
where
    F: AsyncFn(Execution, ToolCx) -> Result<Output, ToolError> + Send + Sync + 'static,
{
    RawTool { spec, body }
}

struct RawTool<F> {
    spec: ToolSpec,
    body: F,
}

impl<F> Tool for RawTool<F>
where
    F: AsyncFn(Execution, ToolCx) -> Result<Output, ToolError> + Send + Sync + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }
    fn call(&self, call: Execution, cx: ToolCx) -> LocalBoxFuture<'_, Result<Output, ToolError>> {
        Box::pin((self.body)(call, cx))
    }
}

impl From<Result<Output, ToolError>> for Outcome {
    fn from(result: Result<Output, ToolError>) -> Outcome {
        match result {
            Ok(output) => Outcome::completed(output),
            Err(ToolError(output)) => Outcome::tool_error(output),
        }
    }
}
