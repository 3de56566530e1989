//! Why the command could not do its work: one sentence, and what to do next. Reported once, in one place.

use std::{fmt::Display, process::ExitCode};

/// A problem of usage or of setup.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    next: Option<String>,
}

impl Problem {
    pub(crate) fn new(what: impl Display) -> Problem {
        Problem { what: what.to_string(), next: None }
    }

    /// What it is, without what to do about it.
    pub(crate) fn sentence(&self) -> &str {
        &self.what
    }

    /// Adds what to do about it.
    pub(crate) fn next(mut self, next: impl Display) -> Problem {
        self.next = Some(next.to_string());
        self
    }
}

impl<E: std::error::Error> From<E> for Problem {
    fn from(error: E) -> Problem {
        Problem::new(error)
    }
}

/// Says it on stderr; the exit code is 2.
pub(crate) fn report(problem: &Problem) -> ExitCode {
    eprintln!("portcullis: {}", problem.what);
    if let Some(next) = &problem.next {
        eprintln!("            {next}");
    }
    ExitCode::from(2)
}
