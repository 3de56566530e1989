//! What the tools hand back.

use crate::PathError;
use portcullis_runtime::{Frozen, Output, SpecError, ToolError, ToolSpec};
use serde::Serialize;

impl From<PathError> for ToolError {
    fn from(error: PathError) -> ToolError {
        ToolError::new(error.to_string())
    }
}

/// A text for the model and the same as data. A value that is too large for a sealed one is left out: the tool has already
/// run, and its text stands.
pub(crate) fn output(text: impl Into<String>, value: &impl Serialize) -> Output {
    let output = Output::text(text.into());
    match Frozen::of(value) {
        Ok(value) => output.with_value(value),
        Err(_) => output,
    }
}

/// A spec from texts that are part of this crate.
pub(crate) fn spec(name: &str, about: &str, schema: &str) -> Result<ToolSpec, SpecError> {
    // Text and not a derived schema: hooks of the client's dialect get arguments in the order of `properties`.
    let schema = Frozen::parse(schema)
        .and_then(|schema| Frozen::parse(schema.compact()))
        .map_err(|why| SpecError::Schema { tool: name.to_owned(), why: why.to_string() })?;
    ToolSpec::new(name, about, schema)
}

/// The first `chars` characters, and how many bytes come after them.
pub(crate) fn clip(text: &str, chars: usize) -> (&str, usize) {
    match text.char_indices().nth(chars) {
        Some((end, _)) => (&text[..end], text.len() - end),
        None => (text, 0),
    }
}
