//! Why something was cancelled.

use std::{error::Error, fmt, str::FromStr};

/// Why something was cancelled. The names of [`Cause::as_str`] are what the log holds; the list may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A person, or a program in a person's name, asked for it.
    User,
    /// A time limit passed.
    Deadline,
    /// What it was done for is over: the parent of a nested call or of a child session ended without waiting.
    Parent,
    /// The runtime is going down.
    Shutdown,
    /// A policy ended the turn.
    Halt,
    /// Another writer owns the session now; this one may not append.
    Fenced,
}

impl Cause {
    /// Every cause this version knows, for parsers, documentation and tests.
    pub const ALL: [Cause; 6] =
        [Cause::User, Cause::Deadline, Cause::Parent, Cause::Shutdown, Cause::Halt, Cause::Fenced];

    /// The name in the log: lower case, stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::User => "user",
            Cause::Deadline => "deadline",
            Cause::Parent => "parent",
            Cause::Shutdown => "shutdown",
            Cause::Halt => "halt",
            Cause::Fenced => "fenced",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the names of [`Cause::as_str`], exactly.
impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(name: &str) -> Result<Self, UnknownCause> {
        Cause::ALL
            .into_iter()
            .find(|cause| cause.as_str() == name)
            .ok_or_else(|| UnknownCause { name: name.to_owned() })
    }
}

/// A name that is no cause of this version: the text is damaged, or a newer version wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCause {
    /// The name as it was read.
    pub name: String,
}

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no cause of a cancel: expected one of", self.name)?;
        Cause::ALL.iter().try_for_each(|cause| write!(f, " {cause}"))
    }
}

impl Error for UnknownCause {}
