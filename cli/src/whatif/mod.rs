//! `portcullis what-if`: a recorded session, judged by other hooks.
//!
//! What the hooks of the log decided is set against what those of another file decide now, moment by moment, with all that was
//! not theirs as it was. From the first moment that would have gone otherwise on, nothing is known: the model would have read
//! something else.

mod judge;
mod moments;
mod report;

use crate::{
    args::WhatIfArgs,
    hooks::{explain::advised, layers::heed},
    problem::Problem,
    scratch::copy,
    store::{Project, each_record},
    words::names,
};
use judge::Judge;
use moments::{Moments, Place};
use portcullis::{
    Body, Journal, Record, SessionId,
    hooks::{ClaudeHooks, Layers, Options},
    law::State,
};
use report::{Item, Report, Status};
use std::{process::ExitCode, sync::Arc};

/// What is no part of the project that hooks see.
const STATE: &str = ".portcullis";

/// Judges.
pub(crate) async fn what_if(args: &WhatIfArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    let journal = project.read()?;
    let name = SessionId::new(&args.session)?;
    if !journal.sessions().await?.iter().any(|head| head.session == name) {
        return Err(Problem::new(format!("`{}` has no session `{name}`", project.given.display()))
            .next("`portcullis log` lists the sessions"));
    }
    let mut log: Vec<Arc<Record>> = Vec::new();
    each_record(&journal, &name, |record| log.push(record.clone())).await?;
    let created = match log.first().map(|record| &record.body) {
        Some(Body::SessionCreated(created)) if created.parent.is_none() => created.clone(),
        Some(Body::SessionCreated(created)) => {
            let of = created.parent.as_ref().map_or("", |parent| parent.session.as_str());
            return Err(Problem::new(format!(
                "`{name}` is a subagent's: its kind of agent is not in its log"
            ))
            .next(format!("judge `{of}`, which started it")));
        }
        _ => return Err(Problem::new(format!("session `{name}` has no records"))),
    };
    if !args.hooks.is_file() {
        return Err(Problem::new(format!("there is no hook file {}", args.hooks.display()))
            .next("give a settings file, such as .claude/settings.json"));
    }
    let file = std::path::absolute(&args.hooks)?;
    let scratch = tempfile::tempdir()?;
    let (root, state) = (scratch.path().join("project"), scratch.path().join("state"));
    let dir = if args.in_place { project.dir.clone() } else { root };
    if !args.in_place {
        copy(&project.dir, &dir, &[STATE]).map_err(|error| {
            Problem::new(format!("{} cannot be copied: {error}", project.given.display()))
                .next("--in-place runs the hooks in the project itself")
        })?;
    }
    let options = Options::new().layers(Layers::none().flag(&file)).transcripts(state.join("transcripts"));
    let options = options.exports(state.join("session-env"));
    let options = advised(options, &project)?;
    let (hooks, reports) = ClaudeHooks::load_with(&dir, options);
    heed(&reports)?;
    eprintln!(
        "portcullis: what-if RUNS the hooks of {} ({}), in {}",
        args.hooks.display(),
        names(hooks.len() as u64, "hook"),
        if args.in_place {
            "the project itself".to_owned()
        } else {
            format!("a copy of it ({})", dir.display())
        },
    );
    let cwd = std::path::Path::new(&*created.cwd);
    let cwd = cwd.strip_prefix(&project.dir).map_or_else(|_| cwd.to_owned(), |rest| dir.join(rest));
    let judge = Judge::new(&hooks, &name, cwd, created.channel.clone())?;
    let report = walk(&log, judge).await?;
    let written = report.print(args.json);
    let code = if report.differs() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(code),
        written => Ok(written.map(|()| code)?),
    }
}

/// Every moment at which hooks are asked, in order; judged until one goes otherwise.
async fn walk(log: &[Arc<Record>], mut judge: Judge) -> Result<Report, Problem> {
    let (mut state, mut report) = (State::new(), Report::default());
    let moments = Moments::of(log);
    for record in log {
        for moment in moments.before(&state, record) {
            let was = moment.was(&moments);
            let unknown = report.differs();
            let now = if unknown { None } else { judge.judge(&moment, &moments, &state).await? };
            let status = match &now {
                None => Status::Unknown,
                Some(now) if *now == was => Status::Same,
                Some(_) => Status::Differs,
            };
            let Place { turn, step, call } = moment.place();
            let (event, about) = (moment.event(), moment.about());
            report.add(Item { turn, step, call, event, about, status, was, now });
        }
        state.apply(record)?;
        judge.tell(record)?;
    }
    Ok(report)
}
