//! Tools: what the model may call.

use crate::{Execution, Frozen, Outcome, Output, Refused, seam::BoxError};
use futures::future::LocalBoxFuture;
use portcullis_identity::Cancel;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

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

    /// Checks arguments against the schema. The message names every violation with its place.
    pub fn accepts(&self, arguments: &Frozen) -> Result<(), String> {
        self.check.accepts(arguments)
    }
}

/// What a body is handed beside the call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCx {
    /// Resolves when the call is cancelled; a body that holds something should listen.
    pub cancel: Cancel,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl ToolCx {
    /// For an attempt.
    pub fn new(cancel: Cancel, attempt: u32) -> ToolCx {
        ToolCx { cancel, attempt }
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

impl From<Result<Output, ToolError>> for Outcome {
    fn from(result: Result<Output, ToolError>) -> Outcome {
        match result {
            Ok(output) => Outcome::completed(output),
            Err(ToolError(output)) => Outcome::tool_error(output),
        }
    }
}
