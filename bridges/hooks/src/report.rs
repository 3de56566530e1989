//! What a person should know about their hook files.

use std::{
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// How large a file of hooks may be, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;

/// How much a [`Report`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is wrong; something is worth knowing.
    Note,
    /// Something written in the file does not run, or not as it reads.
    Warning,
    /// A file or an entry was rejected.
    Error,
}

/// One finding about a hook file, or about a `portcullis.toml`. A report never stops anything by itself: what the client would skip is skipped, what it would run
/// runs (C-BRIDGE-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How much it matters.
    pub severity: Severity,
    /// A stable name for programs, `hooks/...`.
    pub code: &'static str,
    /// The file it is about.
    pub file: Option<PathBuf>,
    /// The line in that file, from 1.
    pub line: Option<usize>,
    /// What was found, and what follows from it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Report {
    /// Whether it is about a mistake in `portcullis.toml`: what somebody wanted to hold does not. A host had better not start then;
    /// the client's own files, by contrast, are never a reason not to.
    pub fn forbids_start(&self) -> bool {
        self.severity == Severity::Error && self.code.starts_with("overlay/")
    }

    pub(crate) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Report {
        Report { severity, code, file: None, line: None, message: message.into(), hint: None }
    }

    pub(crate) fn at(mut self, file: impl Into<PathBuf>, line: Option<usize>) -> Report {
        self.file = Some(file.into());
        self.line = line;
        self
    }
}

/// `FILE:LINE: warning: MESSAGE (HINT)`
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A whole file of a size that files of hooks have. What is no plain file is not even opened: reading a pipe or a device would never
/// end, and a project is not to be trusted with that.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok(bytes)
}
