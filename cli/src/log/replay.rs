//! `portcullis log replay`: does the log come out again as it is? (C-DUR-7)

use super::beside::{Source, sides};
use crate::{
    log::args::ReplayArgs,
    paint::{Paint, Tint},
    problem::Problem,
    store::Project,
    words::names,
};
use portcullis::{Body, Record, Replayed, encode, replay, tools::processes_started};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    collections::VecDeque,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

/// What `--json` prints for a session.
#[derive(Serialize)]
struct Row {
    session: String,
    records: u64,
    /// Taken over by a fork, so not played.
    copied: u64,
    lives: u64,
    requests: u64,
    model: u64,
    bodies: u64,
    decisions: u64,
    answers: u64,
    outside: u64,
    /// Handlers and bodies that were called, and processes that were started: 0, or the replay itself is wrong.
    called: u64,
    processes: u64,
    divergence: Option<Divergence>,
}

#[derive(Serialize)]
struct Divergence {
    record: u64,
    recorded: Option<Box<RawValue>>,
    replayed: Option<Box<RawValue>>,
}

/// Replays a session, and the sessions of its subagents.
pub(crate) async fn replayed(args: &ReplayArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let mut waiting = VecDeque::from([Source::of(&args.session).read(&project).await?]);
    let (mut same, mut written) = (true, Ok(()));
    while let Some(records) = waiting.pop_front() {
        let children = children(&records);
        let before = processes_started();
        let replayed = replay(records).await?;
        let processes = processes_started() - before;
        same &= replayed.divergence.is_none();
        if written.is_ok() {
            written = if args.json { json(&replayed, processes) } else { print(&replayed, processes) };
        }
        for child in children {
            // One whose log is not there had none when the process went, or was not exported.
            match Source::Session(&child).read(&project).await {
                Ok(records) if of(&records, &replayed) => waiting.push_back(records),
                _ => {}
            }
        }
    }
    super::shown(written, if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn children(records: &[Arc<Record>]) -> Vec<String> {
    let child = |record: &Arc<Record>| match &record.body {
        Body::SubagentStarted(started) => Some(started.child.to_string()),
        _ => None,
    };
    records.iter().filter_map(child).collect()
}

fn of(records: &[Arc<Record>], parent: &Replayed) -> bool {
    matches!(records.first().map(|record| &record.body), Some(Body::SessionCreated(created))
        if created.parent.as_ref().is_some_and(|of| of.session == parent.session))
}

fn json(replayed: &Replayed, processes: u64) -> io::Result<()> {
    let line = |record: &Arc<Record>| RawValue::from_string(encode(record));
    let divergence = match &replayed.divergence {
        None => None,
        Some(found) => Some(Divergence {
            record: found.seq.0,
            recorded: found.recorded.as_ref().map(line).transpose()?,
            replayed: found.replayed.as_ref().map(line).transpose()?,
        }),
    };
    let taken = replayed.taken;
    let row = Row {
        session: replayed.session.to_string(),
        records: replayed.records,
        copied: replayed.copied,
        lives: replayed.lives,
        requests: taken.requests,
        model: taken.model,
        bodies: taken.bodies,
        decisions: taken.decisions,
        answers: taken.answers,
        outside: taken.outside,
        called: replayed.called,
        processes,
        divergence,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&row)?)
}

fn print(replayed: &Replayed, processes: u64) -> io::Result<()> {
    let (mut out, paint) = (io::stdout().lock(), Paint::stdout());
    let Replayed { session, records, copied, lives, taken, called, .. } = replayed;
    match &replayed.divergence {
        None => {
            let equal = paint.tint(Tint::Good, "comes out the same");
            write!(out, "{session}  {equal}: {}", names(*records, "record"))?;
            let requests = names(taken.requests, "model request");
            let lives = if *lives == 1 { "one life".to_owned() } else { format!("{lives} lives") };
            writeln!(out, " and {requests} made anew, in {lives}")?;
        }
        Some(found) => {
            let other = paint.tint(Tint::Bad, &format!("comes out otherwise at record {}", found.seq));
            writeln!(out, "{session}  {other}; {} before it came out the same", names(*records, "record"))?;
            let both = [("recorded", found.recorded.as_deref()), ("replayed", found.replayed.as_deref())];
            sides(&mut out, &paint, both)?;
        }
    }
    if *copied > 0 {
        let text = format!("  {} were taken over by the fork and not played", names(*copied, "record"));
        writeln!(out, "{}", paint.tint(Tint::Quiet, &text))?;
    }
    let text = format!(
        "  from the log: {}, {}, {}, {}, {} from outside; handlers called: {called}, processes started: {processes}",
        names(taken.model, "model answer"),
        names(taken.bodies, "tool result"),
        names(taken.decisions, "decision"),
        names(taken.answers, "human answer"),
        names(taken.outside, "event"),
    );
    writeln!(out, "{}", paint.tint(Tint::Quiet, &text))
}
