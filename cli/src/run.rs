//! `portcullis run`: puts the runtime together as any embedder would, drives the session, and says how it ended.

use crate::{
    args::RunArgs,
    ask::Channel,
    drive::{Back, Drive, Fate, Parked, Signals, Sink},
    hooks::{
        args::LayerArgs,
        beside::{Beside, Prepared, load},
        layers::heed,
    },
    paint::clean,
    problem::Problem,
    script::Prompts,
    store::{Project, each_record},
    words::typed,
};
use portcullis::{
    Journal, Record, Runtime, ScriptedModel, SessionAdvisor, SessionId, SessionOptions, hooks::Hooks,
    law::State, sqlite::SqliteJournal, tools::Workspace,
};
use std::{
    cell::Cell,
    ffi::OsStr,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// How long turns that are still open at the end may take to close.
const GRACE: Duration = Duration::from_secs(10);

/// The exit code of a run that waits for an answer.
const WAITS: u8 = 3;

/// Runs it.
pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Problem> {
    let signals = Signals::listen()?;
    let plan = Plan::read(&args.dir, args.model.as_deref(), &args.layers)?;
    let journal = plan.project.open()?;
    let name = match &args.session {
        Some(name) => SessionId::new(name)?,
        None => unused_name(&journal).await?,
    };
    let begun = Begun::of(plan, journal, name).await?;
    if begun.is_over().await? {
        let Begun { name, plan, .. } = &begun;
        if args.session.is_none() {
            let what = format!("{} has no turn to play", plan.script.display());
            return Err(Problem::new(what).next("give it at least one turn with a prompt"));
        }
        let what = format!("session {name} was sent every prompt of {} before", plan.script.display());
        return Err(
            Problem::new(what).next("leave --session out to start a new one, or give another --model")
        );
    }
    let channel = if args.detach_on_ask { Channel::Later } else { Channel::find(args.yes) };
    begun.go_on(channel, args.json, Back::Stays, signals).await
}

/// How soon a command from another process is taken.
const INBOX: Duration = Duration::from_millis(200);

/// What a project's directory says is to be done.
pub(crate) struct Plan {
    pub(crate) project: Project,
    script: PathBuf,
    model: ScriptedModel,
    prompts: Prompts,
    workspace: Workspace,
    hooks: Vec<Arc<Hooks>>,
    advisor: SessionAdvisor,
    beside: Beside,
}

impl Plan {
    /// Reads it, and reports what is odd about the hooks.
    pub(crate) fn read(dir: &Path, model: Option<&Path>, layers: &LayerArgs) -> Result<Plan, Problem> {
        let project = Project::find(dir)?;
        let script = script(model, &project)?;
        let model = ScriptedModel::from_file(&script)
            .map_err(|error| Problem::new(error).next("docs/scripted-model.md describes the format"))?;
        let prompts = Prompts::read(&script)?;
        let workspace = Workspace::new(&project.dir)?;
        let advisor = SessionAdvisor::new();
        let Prepared { hooks, reports, beside } = load(&project.dir, layers, advisor.clone())?;
        heed(&reports)?;
        let of = hooks.clone();
        let workspace = workspace.sourced(move |session| {
            let files = of.iter().map(|hooks| hooks.exports(session));
            Ok(files.collect::<io::Result<Vec<_>>>()?.concat())
        });
        Ok(Plan { project, script, model, prompts, workspace, hooks, advisor, beside })
    }
}

/// A session with what its log holds. What it was sent before is not sent again.
pub(crate) struct Begun {
    pub(crate) plan: Plan,
    journal: SqliteJournal,
    pub(crate) name: SessionId,
    pub(crate) law: State,
    /// What the log held before, for a timeline that goes on.
    before: Vec<Arc<Record>>,
}

impl Begun {
    pub(crate) async fn of(
        mut plan: Plan,
        journal: SqliteJournal,
        name: SessionId,
    ) -> Result<Begun, Problem> {
        let (mut law, mut unlawful, mut before) = (State::new(), None, Vec::new());
        if journal.sessions().await?.iter().any(|head| head.session == name) {
            each_record(&journal, &name, |record| {
                if let portcullis::Body::PromptQueued(queued) = &record.body {
                    plan.prompts.was_sent(queued);
                }
                if unlawful.is_none() {
                    unlawful = law.apply(record).err();
                }
                before.push(record.clone());
            })
            .await?;
        }
        match unlawful {
            Some(invalid) => {
                Err(Problem::new(format!("the log of session `{name}` does not fold: {invalid}")))
            }
            None => Ok(Begun { plan, journal, name, law, before }),
        }
    }

    /// No turn is open, no prompt of the script is left, and nothing waits in the inbox.
    pub(crate) async fn is_over(&self) -> Result<bool, Problem> {
        let idle =
            self.plan.prompts.left() == 0 && matches!(self.law.next(None), portcullis::law::Next::Idle);
        Ok(idle && self.journal.pending(&self.name).await?.is_empty())
    }

    /// Puts the runtime together and drives the session from where its log ends.
    pub(crate) async fn go_on(
        self,
        channel: Channel,
        json: bool,
        back: Back,
        signals: Signals,
    ) -> Result<ExitCode, Problem> {
        let Begun { mut plan, journal, name, law, before } = self;
        let (head, log) = (law.head(), journal.clone());
        let mut builder = Runtime::builder(plan.model).journal(journal).tools(plan.workspace.tools());
        for hooks in plan.hooks {
            builder = builder.mount_deciding(hooks);
        }
        let runtime = builder.answers(plan.advisor).arbiters(1).inbox_every(INBOX).start().await?;
        let mut options = SessionOptions::new(&plan.project.dir).channel("cli");
        if channel != Channel::None {
            options = options.approvals();
        }
        let session = runtime.open(name.as_str(), options).await?;
        // What waited in the inbox is in the log by now, and its turn may be under way.
        let taken = log.read(&name, head, usize::MAX).await?;
        drop(log);
        let mut begun = false;
        for record in &taken {
            match &record.body {
                portcullis::Body::TurnStart(_) => begun = true,
                portcullis::Body::PromptQueued(queued) => _ = plan.prompts.was_sent(queued),
                _ => {}
            }
        }
        let attending = plan.beside.attend(&session);
        let person = if channel == Channel::Yes { "you, in advance (--yes)" } else { "you" };
        let mut sink = Sink::new(json, name.as_str(), person);
        before.iter().for_each(|record| sink.recall(record));
        let late = Rc::new(Cell::new(false));
        let drive = Drive {
            session,
            channel,
            prompts: plan.prompts,
            law,
            begun,
            back,
            late: late.clone(),
            sink,
            signals,
        };
        let fate = drive.run().await;
        let grace = if matches!(fate, Fate::Left(_) | Fate::Waits(_)) { Duration::ZERO } else { GRACE };
        runtime.shutdown(grace).await;
        attending.finish();
        let (dir, name_word) = (plan.project.given.as_os_str(), OsStr::new(name.as_str()));
        let hint = match &fate {
            Fate::Left(_) => {
                let again = [OsStr::new("run"), dir, OsStr::new("--session"), name_word];
                format!("`{}` goes on", typed(&again))
            }
            Fate::Waits(parked) => match parked.first() {
                Some(Parked::Ask(ask)) => {
                    let request = OsStr::new(ask.id.as_str());
                    let answer = [OsStr::new("answer"), dir, request, OsStr::new("allow")];
                    format!("`{}` goes on, or deny", typed(&answer))
                }
                _ => {
                    format!("`{}` has its hooks decide anew", typed(&[OsStr::new("resume"), dir, name_word]))
                }
            },
            _ => format!("`{}` shows it again", typed(&[OsStr::new("log"), dir, name_word])),
        };
        let code = tell(json, &name, &fate, &hint);
        Ok(if late.get() { ExitCode::FAILURE } else { code })
    }
}

fn script(model: Option<&Path>, project: &Project) -> Result<PathBuf, Problem> {
    let script = model.map_or_else(|| project.dir.join("model.json"), Path::to_path_buf);
    if script.is_file() {
        return Ok(script);
    }
    let what = format!("there is no model script {}", script.display());
    Err(Problem::new(what).next("write one (docs/scripted-model.md), or name it with --model FILE"))
}

async fn unused_name(journal: &SqliteJournal) -> Result<SessionId, Problem> {
    let known = journal.sessions().await?;
    let taken =
        known.iter().filter_map(|head| head.session.as_str().strip_prefix("run-")?.parse::<u64>().ok());
    let number = taken.max().unwrap_or(0).saturating_add(1);
    Ok(SessionId::new(format!("run-{number}"))?)
}

/// The last line and the exit code, from the same answer. With `--json` the last line is the log's own.
fn tell(json: bool, name: &SessionId, fate: &Fate, hint: &str) -> ExitCode {
    let (line, code) = match fate {
        Fate::Completed => (format!("{name} completed"), ExitCode::SUCCESS),
        Fate::Ended(turn, end) => (format!("{name} ended {} in turn {turn}", end.name()), ExitCode::FAILURE),
        Fate::Waits(parked) => (waits(name, parked), ExitCode::from(WAITS)),
        Fate::Left(why) => (format!("{name} {why}"), ExitCode::FAILURE),
    };
    if !json {
        // Whoever closed stdout has the exit code.
        let _ = writeln!(io::stdout(), "{line}; {hint}");
    } else if let Fate::Left(_) | Fate::Waits(_) = fate {
        eprintln!("portcullis: {line}; {hint}");
    }
    code
}

/// The last line says what is asked; the exact arguments stand in the log, which the answer is bound to.
fn waits(name: &SessionId, parked: &[Parked]) -> String {
    let (mut asked, mut deferred) = (Vec::new(), Vec::new());
    for one in parked {
        let (id, tool, reasons, of) = match one {
            Parked::Ask(ask) => (&ask.id, &ask.tool, &ask.reasons, &mut asked),
            Parked::Deferred(call) => (&call.id, &call.tool, &call.reasons, &mut deferred),
        };
        let why = reasons.first().map(|reason| format!(": {}", clean(reason.as_str()))).unwrap_or_default();
        of.push(format!("{} ({}{why})", clean(id.as_str()), clean(tool)));
    }
    let each = [("waits for an answer to", asked), ("waits with a deferred call,", deferred)];
    let each =
        each.iter().filter(|(_, of)| !of.is_empty()).map(|(what, of)| format!("{what} {}", of.join(", ")));
    format!("{name} {}", each.collect::<Vec<_>>().join(", and "))
}
