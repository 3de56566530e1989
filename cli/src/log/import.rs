//! `portcullis log import`: an exported file back into a journal.

use crate::{
    log::args::ImportArgs,
    problem::Problem,
    store::{Project, each_record},
    words::names,
};
use portcullis::{
    Batch, Claim, Journal, JournalError,
    archive::{self, Archived},
    sqlite::SqliteJournal,
};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

/// No process of a runtime draws this one, and an import holds the file alone.
const INCARNATION: u128 = 1;

/// Imports: all is checked, then each session is one append, a subagent's before the one that started it. So where the root
/// is, all is; an import that was cut off is done again, and finds what it had written.
pub(crate) async fn import(args: &ImportArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let sessions = archive(&args.file)?;
    let journal = project.open()?;
    let there = journal.sessions().await?;
    let mut done = BTreeSet::new();
    for archived in &sessions {
        let session = &archived.session;
        if let Some(head) = there.iter().find(|head| head.session == *session && head.records > 0) {
            if archived.parent().is_some() && is_whole(&journal, archived, head.records).await? {
                done.insert(session);
                continue;
            }
            let what = format!("`{}` has a session `{session}` already", project.given.display());
            return Err(Problem::new(what).next("nothing was imported; import it into another project"));
        }
    }
    for archived in &sessions {
        let Some(parent) = archived.parent() else { continue };
        let mut known = there.iter().map(|head| &head.session).chain(sessions.iter().map(|s| &s.session));
        if !known.any(|name| name == parent) {
            let what = format!("`{}` is a subagent's of `{parent}`, which is not there", archived.session);
            return Err(Problem::new(what).next("export that one, with --tree"));
        }
    }
    for archived in sessions.iter().rev().filter(|archived| !done.contains(&archived.session)) {
        append(&journal, archived).await?;
    }
    let mut out = io::stdout().lock();
    let written = sessions.iter().try_for_each(|Archived { session, records, .. }| {
        writeln!(out, "{session}  {}", names(records.len() as u64, "record"))
    });
    super::shown(written, ExitCode::SUCCESS)
}

/// Is the session there as the file has it?
async fn is_whole(journal: &SqliteJournal, archived: &Archived, records: u64) -> Result<bool, JournalError> {
    if records != archived.records.len() as u64 {
        return Ok(false);
    }
    let mut there = Vec::new();
    each_record(journal, &archived.session, |record| there.push(record.clone())).await?;
    Ok(there == archived.records)
}

/// The sessions of an exported file.
pub(super) fn archive(file: &Path) -> Result<Vec<Archived>, Problem> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|error| Problem::new(format!("{} cannot be read: {error}", file.display())))?;
    archive::read(&text).map_err(|error| {
        Problem::new(format!("{} is no whole exported log: {error}", file.display()))
            .next("`portcullis log export` writes one")
    })
}

async fn append(journal: &SqliteJournal, archived: &Archived) -> Result<(), JournalError> {
    let mut own = journal.claim(&archived.session, INCARNATION, Claim::CreateOrOpen).await?;
    let appended = match journal.append(&mut own, Batch::of(archived.records.clone())) {
        Ok(ticket) => ticket.wait().await.map(|_| ()),
        Err(error) => Err(error),
    };
    journal.release(own).await?;
    appended
}
