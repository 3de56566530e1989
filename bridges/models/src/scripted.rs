//! The model that reads a script.

use crate::script::Script;
use crate::{answer, pick};
use futures::{StreamExt, stream, stream::BoxStream};
use portcullis_runtime::frozen::MAX_BYTES;
use portcullis_runtime::{Frozen, Model, ModelError, ModelEvent, ModelRequest, Refused};
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A model that answers from a script. The format is described in the [crate documentation](crate).
///
/// # Which answer
///
/// The conversation of the request is read from its beginning. Prompts without an answer of the model between them are one
/// batch. The batches are given turns of the script in order: a batch gets the first turn that is left and whose `prompt`
/// occurs in one of its prompts (the newest prompt is tried first), else the first turn left that has no `prompt`. The
/// answers since the newest batch say which step of its turn is due. Context, steering and results count for nothing.
///
/// Before all that, a conversation whose first prompt has the texts of an aside is answered by that aside alone.
///
/// So nothing is kept between requests: another process, a retry, or a fork of the session gets the same answer. The limits
/// of this:
///
/// - it costs a walk over the conversation per request, unlike a provider's share of our own work;
/// - a prompt that a policy blocked is not in the conversation and uses up no turn: name prompts where some are blocked;
/// - prompts whose turn failed before any answer are in one batch with the next; with `prompt` on the turns the newest finds
///   its own, without it the first turn is answered again;
/// - a policy that replaces a prompt replaces what `prompt` is compared with;
/// - a conversation that was summarised has lost batches and answers: the script would start over.
///
/// Cloning shares the script.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    name: Arc<str>,
    script: Arc<Script>,
}

/// Why a script was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file could not be read.
    #[error("the model script {} could not be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said; also text that is not UTF-8.
        source: std::io::Error,
    },
    /// The text is no script: it is not JSON, has a field that does not exist, misses one, or contradicts itself.
    #[error(
        "the model script{} was not accepted at {refused}",
        .path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default()
    )]
    Refused {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// What is wrong, with path, line and column.
        refused: Refused,
    },
}

impl ScriptError {
    /// A stable code for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            ScriptError::Read { .. } => "script_unreadable",
            ScriptError::Refused { .. } => "script_refused",
        }
    }
}

impl ScriptedModel {
    /// Reads a script from a file of at most 8 MiB.
    ///
    /// Blocks while it reads; call it before the runtime starts.
    ///
    /// # Errors
    /// [`ScriptError::Read`] if the file cannot be read or is not UTF-8, [`ScriptError::Refused`] if it is no script.
    pub fn from_file(path: impl AsRef<Path>) -> Result<ScriptedModel, ScriptError> {
        let path = path.as_ref();
        let mut text = String::new();
        std::fs::File::open(path)
            // One byte more than is accepted, so that an endless file ends in a refusal and not in all our memory.
            .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text))
            .map_err(|source| ScriptError::Read { path: path.into(), source })?;
        load(text).map_err(|refused| ScriptError::Refused { path: Some(path.into()), refused })
    }

    /// Reads a script from its text.
    ///
    /// # Errors
    /// [`ScriptError::Refused`] if it is no script.
    pub fn from_json(text: &str) -> Result<ScriptedModel, ScriptError> {
        load(text.to_owned()).map_err(|refused| ScriptError::Refused { path: None, refused })
    }
}

fn load(text: String) -> Result<ScriptedModel, Refused> {
    let script: Script = Frozen::parse(text)?.decode()?;
    Ok(ScriptedModel { name: script.name.as_str().into(), script: Arc::new(script) })
}

impl Model for ScriptedModel {
    fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let due = match pick::due(&self.script, &request.messages) {
            Ok(due) => due,
            Err(why) => return fatal(format!("model script: {why}")),
        };
        let checks = [&self.script.expect, &due.step.expect];
        if let Some(why) = checks.into_iter().find_map(|expect| expect.check(&request).err()) {
            return fatal(format!("model script, {}, step {}: {why}", due.place, due.at + 1));
        }
        answer::stream(&due, request.attempt, request.cancel)
    }
}

fn fatal(message: String) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    stream::iter([Err(ModelError::Fatal { message })]).boxed()
}
