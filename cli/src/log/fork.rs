//! `portcullis log fork`: another session that goes on from a copy of this one's log (C-DUR-7).

use crate::{log::args::ForkArgs, problem::Problem, store::Project, words::typed};
use portcullis::{ForkSessionError, Journal, Runtime, ScriptedModel, journal::SessionHead};
use std::{
    ffi::OsStr,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// How long the journal may take to be closed.
const GRACE: Duration = Duration::from_secs(10);

/// Forks.
pub(crate) async fn fork(args: &ForkArgs) -> Result<ExitCode, Problem> {
    let project = Project::find(&args.dir)?;
    // A project without sessions is told so, rather than given an empty journal.
    let heads = project.read()?.sessions().await?;
    let parent = super::find(&project, &heads, &args.session)?.session.clone();
    let name = args.name.clone().unwrap_or_else(|| unused_name(&heads, parent.as_str()));
    // Nothing is played here: a fork asks no model and runs nothing.
    let model = ScriptedModel::from_json(r#"{"turns":[]}"#)?;
    let runtime = Runtime::builder(model).journal(project.open()?).arbiters(1).start().await?;
    let forked = runtime.fork(parent.as_str(), args.at.unwrap_or_default(), &name).await;
    runtime.shutdown(GRACE).await;
    forked.map_err(|error| match error {
        ForkSessionError::Fork(portcullis::ForkFailed::Exists(_)) => Problem::new(error).next("see --as"),
        other => Problem::new(other),
    })?;
    let again = [OsStr::new("run"), project.given.as_os_str(), OsStr::new("--session"), OsStr::new(&name)];
    let written = writeln!(io::stdout(), "{name}  forked from {parent}; `{}` goes on", typed(&again));
    super::shown(written, ExitCode::SUCCESS)
}

fn unused_name(heads: &[SessionHead], parent: &str) -> String {
    let prefix = format!("{parent}-fork-");
    let taken =
        heads.iter().filter_map(|head| head.session.as_str().strip_prefix(&prefix)?.parse::<u64>().ok());
    format!("{prefix}{}", taken.max().unwrap_or(0).saturating_add(1))
}
