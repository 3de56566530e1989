//! The files that `transcript_path` and `agent_transcript_path` name: the conversation as JSON lines, in the shape in which
//! public hooks of its client read it. `docs/transcripts.md` describes each; they are ours as far as the clients document none.
//!
//! A file is a projection of the log and of nothing else: whoever has the log can write it again, byte for byte. So it is
//! only ever added to, by whoever finds that the log has gone on: before a hook starts, when a turn is over, and when the
//! session ends. Nothing is remembered that the file's own last lines do not say, and a line that was cut off is written
//! again.

mod claude;
mod codex;
mod file;
mod keeper;
mod lines;

#[cfg(any(test, fuzzing))]
pub(crate) use file::tail;
pub(crate) use keeper::Keeper;

use crate::hooks::Hooks;
use lines::{Lines, Script, Whose};
use portcullis_runtime::{Record, SessionId};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The shape of a transcript: that of the client whose hooks read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// `type`, `message` and more, a line for each message.
    Claude,
    /// `timestamp`, `type` and `payload`, a line for each item of a conversation.
    Codex,
}

impl Shape {
    /// Where the conversation of a session is written, below a folder.
    fn file(self, folder: &Path, session: &SessionId, root: &SessionId) -> PathBuf {
        match self {
            Shape::Claude if session == root => crate::claude::transcript(folder, session),
            Shape::Claude => crate::claude::agent_transcript(folder, session, root),
            Shape::Codex => crate::codex::rollout(folder, session),
        }
    }

    fn script(self) -> Box<dyn Script> {
        match self {
            Shape::Claude => Box::<claude::Claude>::default(),
            Shape::Codex => Box::<codex::Codex>::default(),
        }
    }

    /// The type of the lines from which on everything later lines need follows from the log.
    fn anchor(self) -> &'static str {
        match self {
            Shape::Claude => "assistant",
            Shape::Codex => "turn_context",
        }
    }
}

/// Writes the transcript of one session from records that are at hand: a session of a runtime has its own written without
/// anybody's doing.
///
/// It is fed every record from the first, in order.
#[derive(Debug)]
pub struct Transcript {
    file: File,
    lines: Lines,
}

impl Transcript {
    /// Begins the file anew, with the folders above it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(shape: Shape, file: impl AsRef<Path>, session: SessionId) -> io::Result<Transcript> {
        let file = file.as_ref();
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let lines = Lines::new(shape, Whose { root: session.clone(), session });
        Ok(Transcript { file: File::create(file)?, lines })
    }

    /// Begins the one that these hooks are told of, for a session whose records are at hand.
    ///
    /// # Errors
    /// What the file system says.
    pub fn of(hooks: &Hooks, session: SessionId) -> io::Result<Transcript> {
        Transcript::create(hooks.house().transcripts.shape(), hooks.transcript(&session), session)
    }

    /// Takes the next record. Most are no part of a conversation and add nothing.
    ///
    /// # Errors
    /// What the file system says; the lines may then be there in part.
    pub fn add(&mut self, record: &Record) -> io::Result<()> {
        let mut added = String::new();
        self.lines.add(record, &mut added);
        // One write, so that a reader finds whole lines.
        if added.is_empty() { Ok(()) } else { self.file.write_all(added.as_bytes()) }
    }
}

#[cfg(test)]
mod tests;
