//! `portcullis send` and `cancel`: something for a session, whoever has it (C-DUR-8).

use crate::{
    args::{CancelArgs, SendArgs},
    problem::Problem,
    resume::known,
    store::Project,
    words::typed,
};
use portcullis::{
    Cause, CauseName, CommandId, Content, InboxCommand, Journal, JournalError, Posted, SessionId,
    sqlite::SqliteJournal,
};
use std::{
    ffi::OsStr,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long to wait for the process that has the session to take a command, and how often to look.
const TAKEN_WITHIN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// Sends a prompt, steering or context.
pub(crate) async fn send(args: SendArgs) -> Result<ExitCode, Problem> {
    let content: Content = args.text.as_str().into();
    if content.is_empty() {
        return Err(Problem::new("there is nothing to send").next("say something in TEXT"));
    }
    let command = match args.context {
        Some(owner) => InboxCommand::Inject { owner: owner.into(), content },
        None if args.steer => InboxCommand::Steer { content },
        None => InboxCommand::Prompt { content },
    };
    let place = Place::find(&args.dir)?;
    let session = known(&place.journal, &SessionId::new(&args.session)?).await?;
    place.post(&session, named(args.id)?, &command).await
}

/// Cancels the open turn, or what a prompt led to.
pub(crate) async fn cancel(args: CancelArgs) -> Result<ExitCode, Problem> {
    let prompt = args.prompt.map(CommandId::new).transpose()?;
    let place = Place::find(&args.dir)?;
    let session = known(&place.journal, &SessionId::new(&args.session)?).await?;
    let command = InboxCommand::Cancel { cause: CauseName(Cause::User), prompt };
    place.post(&session, named(args.id)?, &command).await
}

/// A name of its own, if none was given.
pub(crate) fn named(id: Option<String>) -> Result<CommandId, Problem> {
    let id = id.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("cli-{}-{}", std::process::id(), since.as_nanos())
    });
    Ok(CommandId::new(id)?)
}

/// A project's journal, alone or beside the process that has it.
pub(crate) struct Place {
    pub(crate) project: Project,
    pub(crate) journal: SqliteJournal,
    /// Another process has it.
    pub(crate) beside: bool,
}

impl Place {
    pub(crate) fn find(dir: &std::path::Path) -> Result<Place, Problem> {
        let project = Project::find(dir)?;
        // A project without sessions is told so, rather than given an empty journal.
        drop(project.read()?);
        let (journal, beside) = project.open_or_beside()?;
        Ok(Place { project, journal, beside })
    }

    /// Puts it into the inbox and says what became of it.
    pub(crate) async fn post(
        &self,
        session: &SessionId,
        id: CommandId,
        command: &InboxCommand,
    ) -> Result<ExitCode, Problem> {
        let mut posted = self.submit(session, &id, command).await?;
        if self.beside {
            let looks = TAKEN_WITHIN.as_millis() / LOOK.as_millis();
            for _ in 0..looks {
                if posted != Posted::Waits {
                    break;
                }
                tokio::time::sleep(LOOK).await;
                posted = self.submit(session, &id, command).await?;
            }
        }
        let dir = self.project.given.as_os_str();
        let (name, logged) = (OsStr::new(session.as_str()), command.log(session));
        let line = match posted {
            Posted::Taken(seq) => format!(
                "{session} took it: record {seq}, as command {id}; `{}` shows it",
                typed(&[OsStr::new("log"), dir, OsStr::new(logged.as_str())])
            ),
            Posted::Refused(why) => {
                let what = format!("{session} took it, as command {id}, and refused it: {why}");
                return Err(
                    Problem::new(what).next("nothing was done; what is sent anew needs a name of its own")
                );
            }
            _ if self.beside => format!(
                "it waits in the inbox of {session}, as command {id}; the process that has it is busy, or has another \
                 session open: whoever opens {session} takes it"
            ),
            _ => format!(
                "it waits in the inbox of {session}, as command {id}; `{}` takes it",
                typed(&[OsStr::new("resume"), dir, name])
            ),
        };
        // Whoever closed stdout has the exit code.
        let _ = writeln!(io::stdout(), "{line}");
        Ok(ExitCode::SUCCESS)
    }

    async fn submit(
        &self,
        session: &SessionId,
        id: &CommandId,
        command: &InboxCommand,
    ) -> Result<Posted, Problem> {
        self.journal.submit(session, id, command).await.map_err(|error| {
            let full = error == JournalError::StorageFull;
            let problem = Problem::new(error);
            if full { problem.next("free space, then send it again") } else { problem }
        })
    }
}
