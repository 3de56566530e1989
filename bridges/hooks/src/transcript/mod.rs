//! The files that `transcript_path` and `agent_transcript_path` name: the conversation as JSON lines, in the shape in which
//! public hooks read it. `docs/transcripts.md` describes it; it is ours as far as the client documents none.
//!
//! A file is a projection of the log and of nothing else: whoever has the log can write it again, byte for byte. So it is
//! only ever added to, by whoever finds that the log has gone on: before a hook starts, when a turn is over, and when the
//! session ends. Nothing is remembered that the file's own last lines do not say, and a line that was cut off is written
//! again.

mod file;
mod keeper;
mod lines;

pub(crate) use keeper::Keeper;
pub(crate) use lines::Whose;

use lines::Lines;
use portcullis_runtime::{Record, SessionId};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

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
    pub fn create(file: impl AsRef<Path>, session: SessionId) -> io::Result<Transcript> {
        let file = file.as_ref();
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let lines = Lines::new(Whose { root: session.clone(), session, agent: None });
        Ok(Transcript { file: File::create(file)?, lines })
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
