//! Where a project keeps its sessions: `DIR/.portcullis/journal.db`.

use crate::{problem::Problem, words::typed};
use portcullis::{
    Journal, JournalError, Record, Seq, SessionId,
    sqlite::{OpenError, SqliteJournal},
};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How many records are read at once.
const PAGE: usize = 512;

/// A project's directory, absolute and without links.
#[derive(Debug)]
pub(crate) struct Project {
    /// As the user wrote it, for hints that can be typed again.
    pub(crate) given: PathBuf,
    pub(crate) dir: PathBuf,
}

impl Project {
    pub(crate) fn find(given: &Path) -> Result<Project, Problem> {
        let refused = |why: &dyn std::fmt::Display| {
            Problem::new(format!("`{}` is no project directory: {why}", given.display()))
                .next("give the directory that holds model.json and .claude/settings.json")
        };
        let dir = fs::canonicalize(given).map_err(|error| refused(&error))?;
        if !dir.is_dir() {
            return Err(refused(&"it is a file"));
        }
        Ok(Project { given: given.into(), dir })
    }

    fn state(&self) -> PathBuf {
        self.dir.join(".portcullis")
    }

    fn journal(&self) -> PathBuf {
        self.state().join("journal.db")
    }

    /// Opens the journal to write to it. This process has it alone.
    pub(crate) fn open(&self) -> Result<SqliteJournal, Problem> {
        self.make_state().map_err(|error| {
            Problem::new(format!("{} cannot be written: {error}", self.state().display()))
                .next("the log of a session must be kept there; make the project writable")
        })?;
        self.opened().map_err(|error| match error {
            OpenError::AlreadyOwned { .. } => Problem::new(error).next(format!(
                "one run at a time can write a project's log; `{}` reads it meanwhile",
                typed(&[OsStr::new("log"), self.given.as_os_str()])
            )),
            other => Problem::new(other),
        })
    }

    fn opened(&self) -> Result<SqliteJournal, OpenError> {
        let journal = SqliteJournal::open(self.journal())?;
        if let Some(torn) = journal.torn_tail() {
            eprintln!(
                "portcullis: the end of {} was torn: {} bytes that nobody had been told of were dropped",
                self.journal().display(),
                torn.bytes
            );
        }
        Ok(journal)
    }

    /// Opens the journal to write to it, or beside the process that has it; true for that.
    pub(crate) fn open_or_beside(&self) -> Result<(SqliteJournal, bool), Problem> {
        match self.opened() {
            Ok(journal) => Ok((journal, false)),
            Err(OpenError::AlreadyOwned { .. }) => Ok((SqliteJournal::beside(self.journal())?, true)),
            Err(other) => Err(Problem::new(other)),
        }
    }

    /// The state is nothing to check in, wherever the project lies.
    fn make_state(&self) -> io::Result<()> {
        fs::create_dir_all(self.state())?;
        let ignore = self.state().join(".gitignore");
        if ignore.exists() { Ok(()) } else { fs::write(ignore, "*\n") }
    }

    /// Opens the journal to read it, also while a run writes it.
    pub(crate) fn read(&self) -> Result<SqliteJournal, Problem> {
        SqliteJournal::read_only(self.journal()).map_err(|error| match error {
            OpenError::Missing { .. } => {
                Problem::new(format!("`{}` has no sessions yet", self.given.display()))
                    .next(format!("`{}` starts one", typed(&[OsStr::new("run"), self.given.as_os_str()])))
            }
            other => Problem::new(other),
        })
    }
}

/// All records of a session, handed over page by page.
pub(crate) async fn each_record(
    journal: &SqliteJournal,
    session: &SessionId,
    mut take: impl FnMut(&Arc<Record>),
) -> Result<(), JournalError> {
    let mut from = Seq(0);
    loop {
        let page = journal.read(session, from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        from = Seq(last.seq.0 + 1);
        page.iter().for_each(&mut take);
    }
}
