//! `matcher`: which tools, or which kinds of start, a group of hooks is for. How one is written is the dialect's affair.

use std::fmt::Debug;

/// A matcher, compiled once.
#[derive(Debug)]
pub(crate) enum Matcher {
    /// Everything.
    All,
    /// Exact names.
    Names(Vec<String>),
    /// An expression.
    Pattern(Box<dyn Pattern>),
    /// Never matches; the reason.
    Never(String),
}

/// An expression of a dialect's.
pub(crate) trait Pattern: Debug + Send + Sync {
    /// Is it found in this name?
    fn finds(&self, name: &str) -> bool;
}

impl Matcher {
    /// Whether it takes a subject, by that name or by another one that the dialect gives it.
    pub(crate) fn matches(&self, subject: &str, aliases: &[&str]) -> bool {
        std::iter::once(&subject).chain(aliases).any(|name| self.takes(name))
    }

    fn takes(&self, name: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Never(_) => false,
            Matcher::Names(names) => names.iter().any(|known| known == name),
            Matcher::Pattern(pattern) => pattern.finds(name),
        }
    }
}
