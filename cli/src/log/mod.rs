//! `portcullis log`: what the journal holds. All but `import` and `fork` only read, and also work beside a live run.

pub(crate) mod args;
mod beside;
mod diff;
mod export;
mod fork;
mod import;
mod list;
mod replay;
mod verify;

use crate::{problem::Problem, store::Project};
use args::{ListArgs, LogArgs, LogMode};
use portcullis::{SessionId, journal::SessionHead};
use std::{io, process::ExitCode};

/// Runs one of them.
pub(crate) async fn log(args: LogArgs) -> Result<ExitCode, Problem> {
    match (args.mode, args.list) {
        (Some(LogMode::Verify(args)), _) => verify::verify(&args).await,
        (Some(LogMode::Show(args)), _) => {
            list::list(&ListArgs { dir: args.dir, session: Some(args.session), json: args.json }).await
        }
        (Some(LogMode::Export(args)), _) => export::export(&args).await,
        (Some(LogMode::Import(args)), _) => import::import(&args).await,
        (Some(LogMode::Fork(args)), _) => fork::fork(&args).await,
        (Some(LogMode::Diff(args)), _) => diff::diff(&args).await,
        (Some(LogMode::Replay(args)), _) => replay::replayed(&args).await,
        (None, Some(args)) => list::list(&args).await,
        // Without a subcommand, clap asks for the project.
        (None, None) => {
            Err(Problem::new("`log` needs the project").next("`portcullis log --help` shows how"))
        }
    }
}

/// The head of the session of that name, or which ones there are.
fn find<'h>(project: &Project, heads: &'h [SessionHead], name: &str) -> Result<&'h SessionHead, Problem> {
    let name = SessionId::new(name)?;
    heads.iter().find(|head| head.session == name).ok_or_else(|| {
        let known: Vec<&str> = heads.iter().map(|head| head.session.as_str()).collect();
        let what = format!("`{}` has no session `{name}`", project.given.display());
        Problem::new(what).next(format!("it has: {}", known.join(", ")))
    })
}

/// The exit code, unless it could not be written. Whoever stops reading has read enough.
fn shown(written: io::Result<()>, code: ExitCode) -> Result<ExitCode, Problem> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(code),
        written => Ok(written.map(|()| code)?),
    }
}

/// Sorts `run-10` after `run-9`.
fn natural(name: &str) -> (&str, u64, &str) {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (text, name[text.len()..].parse().unwrap_or(u64::MAX), name)
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbered_sessions_are_listed_by_their_number() {
        let mut names = ["run-10", "demo", "run-9", "run-1"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["demo", "run-1", "run-9", "run-10"]);
    }
}
