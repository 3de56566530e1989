//! `portcullis log export`: a session, or a tree of them, as a file.

use crate::{
    log::args::ExportArgs,
    problem::Problem,
    store::{Project, each_record},
};
use portcullis::{
    Body, Journal, Seq, SessionId,
    archive::{Archived, head_line},
    encode,
    journal::SessionHead,
    sqlite::SqliteJournal,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
};

/// Exports.
pub(crate) async fn export(args: &ExportArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let journal = project.read()?;
    let heads = journal.sessions().await?;
    let root = super::find(&project, &heads, &args.session)?;
    let heads = if args.tree { tree(&journal, &heads, root).await? } else { vec![root.clone()] };
    match &args.output {
        None => super::shown(write(&journal, &heads, io::stdout().lock()).await?, ExitCode::SUCCESS),
        Some(file) => {
            let failed = |error: io::Error| cannot_write(file, &error);
            let out = BufWriter::new(File::create_new(file).map_err(failed)?);
            let written = match write(&journal, &heads, out).await {
                Ok(written) => written.map_err(failed),
                Err(problem) => Err(problem),
            };
            if written.is_err() {
                // Half a file helps nobody, and would be in the way of the next try. What cannot be removed stays.
                let _ = fs::remove_file(file);
            }
            written.map(|()| ExitCode::SUCCESS)
        }
    }
}

fn cannot_write(file: &Path, error: &io::Error) -> Problem {
    let problem = Problem::new(format!("{} cannot be written: {error}", file.display()));
    match error.kind() {
        io::ErrorKind::AlreadyExists => problem.next("nothing is overwritten; name another file"),
        _ => problem,
    }
}

/// As many records as there were at first: a live run may write on meanwhile.
async fn write(
    journal: &SqliteJournal,
    heads: &[SessionHead],
    mut out: impl Write,
) -> Result<io::Result<()>, Problem> {
    let first = head_line(heads.iter().map(|head| (&head.session, head.records)));
    let mut written = writeln!(out, "{first}");
    for head in heads {
        each_record(journal, &head.session, |record| {
            if written.is_ok() && record.seq.0 < head.records {
                written = writeln!(out, "{}", encode(record));
            }
        })
        .await?;
    }
    Ok(written.and_then(|()| out.flush()))
}

/// The session, its subagents and the agents that answered for its hooks, each before its own.
async fn tree(
    journal: &SqliteJournal,
    heads: &[SessionHead],
    root: &SessionHead,
) -> Result<Vec<SessionHead>, Problem> {
    let (mut found, mut names) = (vec![root.clone()], BTreeSet::from([root.session.clone()]));
    let mut at = 0;
    while let Some(parent) = found.get(at).cloned() {
        at += 1;
        let mut children = Vec::new();
        each_record(journal, &parent.session, |record| match &record.body {
            Body::SubagentStarted(started) if record.seq.0 < parent.records => {
                children.push(started.child.clone());
            }
            // An agent that answered for a hook.
            Body::Own(own) if record.seq.0 < parent.records && &*own.kind == "hook/result" => {
                let agent =
                    own.data.root().get("agent").and_then(|agent| SessionId::new(agent.as_str()?).ok());
                children.extend(agent);
            }
            _ => {}
        })
        .await?;
        for child in children {
            // One whose first record was not on disk yet when the process went is none.
            let Some(head) = heads.iter().find(|head| head.session == child) else { continue };
            // What a fork took over names the subagents of the session that it was forked from.
            if names.insert(child.clone()) && is_child(journal, &child, &parent.session).await? {
                found.push(head.clone());
            }
        }
    }
    Ok(found)
}

async fn is_child(journal: &SqliteJournal, child: &SessionId, of: &SessionId) -> Result<bool, Problem> {
    let first = journal.read(child, Seq(0), 1).await?;
    Ok(Archived::new(child.clone(), first).parent() == Some(of))
}
