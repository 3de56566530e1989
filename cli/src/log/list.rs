//! `portcullis log` without a subcommand: the sessions, or the timeline of one.

use crate::{
    drive::Sink,
    log::args::ListArgs,
    paint::{Paint, Tint},
    problem::Problem,
    store::{Project, each_record},
    words::{names, typed},
};
use portcullis::{
    Body, Journal, JournalError, RequestId, SessionId, journal::SessionHead, sqlite::SqliteJournal,
};
use serde::Serialize;
use std::{
    ffi::OsStr,
    io::{self, Write},
    process::ExitCode,
};

/// A session on the list.
#[derive(Debug, Serialize)]
struct Row {
    session: String,
    turns: u64,
    records: u64,
    /// How its last turn ended; `open` while one is not over, nothing before the first; `damaged` when its log cannot be
    /// read to the end.
    last_end: Option<&'static str>,
    /// Calls that wait for somebody: questions to a person, and those that were deferred.
    open_questions: usize,
    /// The names of those waits.
    waits: Vec<String>,
    /// Those of them that are deferred.
    #[serde(skip)]
    deferred: Vec<RequestId>,
    /// Commands that wait in its inbox.
    inbox: usize,
    /// A subagent's: its turn goes on with its root's.
    #[serde(skip)]
    child: bool,
}

const DAMAGED: &str = "damaged";

/// Lists, or shows.
pub(crate) async fn list(args: &ListArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let journal = project.read()?;
    let heads = journal.sessions().await?;
    let written = match &args.session {
        None => all(&project, &journal, &heads, args.json).await?,
        Some(name) => show(&journal, &super::find(&project, &heads, name)?.session, args.json).await?,
    };
    super::shown(written, ExitCode::SUCCESS)
}

async fn show(journal: &SqliteJournal, name: &SessionId, json: bool) -> Result<io::Result<()>, Problem> {
    let mut sink = Sink::new(json, name.as_str(), "the user");
    let mut written = Ok(());
    each_record(journal, name, |record| {
        if written.is_ok() {
            written = sink.record(record);
        }
    })
    .await?;
    Ok(written)
}

async fn all(
    project: &Project,
    journal: &SqliteJournal,
    heads: &[SessionHead],
    json: bool,
) -> Result<io::Result<()>, Problem> {
    let (mut rows, posted) = (Vec::with_capacity(heads.len()), journal.posted().await?);
    for head in heads {
        rows.push(row(journal, head, &posted).await?);
    }
    rows.sort_by(|a, b| super::natural(&a.session).cmp(&super::natural(&b.session)));
    Ok(print(project.given.as_os_str(), &rows, json))
}

async fn row(journal: &SqliteJournal, head: &SessionHead, posted: &[SessionId]) -> Result<Row, Problem> {
    let mut row = Row {
        session: head.session.to_string(),
        turns: 0,
        records: 0,
        last_end: None,
        open_questions: head.waits.len(),
        waits: head.waits.iter().map(|request| request.as_str().to_owned()).collect(),
        deferred: Vec::new(),
        inbox: 0,
        child: false,
    };
    if posted.contains(&head.session) {
        row.inbox = journal.pending(&head.session).await?.len();
    }
    let read = each_record(journal, &head.session, |record| {
        row.records += 1;
        match &record.body {
            Body::SessionCreated(created) => row.child = created.parent.is_some(),
            Body::TurnStart(_) => (row.turns, row.last_end) = (row.turns + 1, Some("open")),
            Body::TurnEnd(end) => row.last_end = Some(end.reason.name()),
            Body::InputRequested(asked) if asked.deferred => row.deferred.push(asked.request.clone()),
            _ => {}
        }
    })
    .await;
    match read {
        // The others are as sound as ever.
        Err(JournalError::Corrupt { .. }) => {
            (row.records, row.last_end) = (head.records, Some(DAMAGED));
        }
        read => read?,
    }
    Ok(row)
}

fn print(dir: &OsStr, rows: &[Row], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        for row in rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        return out.flush();
    }
    let paint = Paint::stdout();
    let wide = rows.iter().map(|row| row.session.len()).max().unwrap_or(0).max("session".len());
    let head =
        format!("{:wide$}  {:>5}  {:>7}  {:>9}  last turn", "session", "turns", "records", "questions");
    writeln!(out, "{}", paint.tint(Tint::Quiet, &head))?;
    for row in rows {
        let (end, tint) = match row.last_end {
            None => ("-", Tint::Quiet),
            Some("completed") => ("completed", Tint::Good),
            Some("open") => ("open", Tint::Notice),
            Some(other) => (other, Tint::Bad),
        };
        let Row { session, turns, records, open_questions, .. } = row;
        write!(out, "{session:wide$}  {turns:>5}  {records:>7}  {open_questions:>9}  ")?;
        writeln!(out, "{}", paint.tint(tint, end))?;
    }
    for (row, request) in rows.iter().flat_map(|row| row.waits.iter().map(move |request| (row, request))) {
        let deferred = row.deferred.iter().any(|deferred| deferred.as_str() == request);
        let word = if deferred { "resume" } else { "allow" };
        let answer = typed(&["answer".as_ref(), dir, request.as_ref(), word.as_ref()]);
        let hint = if deferred {
            format!("`{answer}` has the hooks of a deferred call decide anew")
        } else {
            format!("`{answer}` goes on, or deny; `log` with the session's name shows what is asked")
        };
        writeln!(out, "{}", paint.tint(Tint::Quiet, &hint))?;
    }
    for row in rows.iter().filter(|row| row.last_end == Some(DAMAGED)) {
        let verify = typed(&["log".as_ref(), "verify".as_ref(), dir, row.session.as_ref()]);
        writeln!(out, "{}", paint.tint(Tint::Quiet, &format!("`{verify}` says where its log is damaged")))?;
    }
    let left =
        |row: &&Row| row.last_end == Some("open") && !row.child && rows.iter().all(|r| r.waits.is_empty());
    for row in rows.iter().filter(left) {
        let resume = typed(&["resume".as_ref(), dir, row.session.as_ref()]);
        let hint = format!("`{resume}` goes on with a turn that was left, unless another process is at it");
        writeln!(out, "{}", paint.tint(Tint::Quiet, &hint))?;
    }
    for row in rows.iter().filter(|row| row.inbox > 0) {
        let resume = typed(&["resume".as_ref(), dir, row.session.as_ref()]);
        let what = names(row.inbox, "command");
        let hint = format!(
            "{what} in the inbox of {}: `{resume}` takes it, unless another process does",
            row.session
        );
        writeln!(out, "{}", paint.tint(Tint::Quiet, &hint))?;
    }
    out.flush()
}
