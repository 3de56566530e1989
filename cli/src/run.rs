//! `portcullis run`: puts the runtime together as any embedder would, drives the session, and says how it ended.

use crate::{
    args::RunArgs,
    ask::Channel,
    drive::{Drive, Fate, Signals, Sink},
    problem::Problem,
    script::Prompts,
    store::{Project, each_record},
    words::typed,
};
use portcullis::{
    Journal, Runtime, ScriptedModel, SessionId, SessionOptions, hooks::ClaudeHooks, law::State,
    sqlite::SqliteJournal, tools::Workspace,
};
use std::{
    ffi::OsStr,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// How long turns that are still open at the end may take to close.
const GRACE: Duration = Duration::from_secs(10);

/// Runs it.
pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Problem> {
    let signals = Signals::listen()?;
    let project = Project::find(&args.dir)?;
    let script = script(&args, &project)?;
    let model = ScriptedModel::from_file(&script)
        .map_err(|error| Problem::new(error).next("docs/scripted-model.md describes the format"))?;
    let mut prompts = Prompts::read(&script)?;
    let workspace = Workspace::new(&project.dir)?;
    let (hooks, reports) = ClaudeHooks::load(&project.dir);
    for report in reports {
        eprintln!("{report}");
    }
    let journal = project.open()?;
    let (name, law) = session(&args, &journal, &mut prompts).await?;
    if prompts.left() == 0 && matches!(law.next(None), portcullis::law::Next::Idle) {
        let what = format!("session {name} was sent every prompt of {} before", script.display());
        return Err(
            Problem::new(what).next("leave --session out to start a new one, or give another --model")
        );
    }
    let channel = Channel::find(args.yes);
    let runtime = Runtime::builder(model)
        .journal(journal)
        .tools(workspace.tools())
        .mount_deciding(hooks)
        .arbiters(1)
        .start()
        .await?;
    let mut options = SessionOptions::new(&project.dir).channel("cli");
    if channel != Channel::None {
        options = options.approvals();
    }
    let session = runtime.open(name.as_str(), options).await?;
    let person = if channel == Channel::Yes { "you, in advance (--yes)" } else { "you" };
    let sink = Sink::new(args.json, name.as_str(), person);
    let fate = Drive { session, channel, prompts, law, sink, signals }.run().await;
    let grace = if matches!(fate, Fate::Left(_)) { Duration::ZERO } else { GRACE };
    runtime.shutdown(grace).await;
    let (dir, name_word) = (project.given.as_os_str(), OsStr::new(name.as_str()));
    let hint = match &fate {
        Fate::Left(_) => {
            let again = [OsStr::new("run"), dir, OsStr::new("--session"), name_word];
            format!("`{}` goes on", typed(&again))
        }
        _ => format!("`{}` shows it again", typed(&[OsStr::new("log"), dir, name_word])),
    };
    Ok(tell(args.json, &name, &fate, &hint))
}

fn script(args: &RunArgs, project: &Project) -> Result<PathBuf, Problem> {
    let script = args.model.clone().unwrap_or_else(|| project.dir.join("model.json"));
    if script.is_file() {
        return Ok(script);
    }
    let what = format!("there is no model script {}", script.display());
    Err(Problem::new(what).next("write one (docs/scripted-model.md), or name it with --model FILE"))
}

/// The session's name and what its log holds. What it was sent before is not sent again.
async fn session(
    args: &RunArgs,
    journal: &SqliteJournal,
    prompts: &mut Prompts,
) -> Result<(SessionId, State), Problem> {
    let known = journal.sessions().await?;
    let Some(name) = &args.session else {
        let taken =
            known.iter().filter_map(|head| head.session.as_str().strip_prefix("run-")?.parse::<u64>().ok());
        let number = taken.max().unwrap_or(0).saturating_add(1);
        return Ok((SessionId::new(format!("run-{number}"))?, State::new()));
    };
    let name = SessionId::new(name)?;
    let (mut law, mut unlawful) = (State::new(), None);
    if known.iter().any(|head| head.session == name) {
        each_record(journal, &name, |record| {
            if let portcullis::Body::PromptQueued(queued) = &record.body {
                prompts.was_sent(queued);
            }
            if unlawful.is_none() {
                unlawful = law.apply(record).err();
            }
        })
        .await?;
    }
    match unlawful {
        Some(invalid) => Err(Problem::new(format!("the log of session `{name}` does not fold: {invalid}"))),
        None => Ok((name, law)),
    }
}

/// The last line and the exit code, from the same answer. With `--json` the last line is the log's own.
fn tell(json: bool, name: &SessionId, fate: &Fate, hint: &str) -> ExitCode {
    let (line, code) = match fate {
        Fate::Completed => (format!("{name} completed"), ExitCode::SUCCESS),
        Fate::Ended(turn, end) => (format!("{name} ended {} in turn {turn}", end.name()), ExitCode::FAILURE),
        Fate::Left(why) => (format!("{name} {why}"), ExitCode::FAILURE),
    };
    if !json {
        // Whoever closed stdout has the exit code.
        let _ = writeln!(io::stdout(), "{line}; {hint}");
    } else if let Fate::Left(_) = fate {
        eprintln!("portcullis: {line}; {hint}");
    }
    code
}
