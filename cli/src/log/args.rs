//! The arguments of `portcullis log`.

use clap::{Args, Subcommand};
use portcullis::ForkAt;
use std::path::PathBuf;

/// The arguments of `log`: those of the list, or a subcommand.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    pub(crate) mode: Option<LogMode>,
    #[command(flatten)]
    pub(crate) list: Option<ListArgs>,
}

/// The arguments of `log` without a subcommand.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The project; ./verify for one that is called as a command is
    pub(crate) dir: PathBuf,
    /// The session to show
    pub(crate) session: Option<String>,
    /// Prints one line of JSON a session, or a record
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogMode {
    /// Reads every record of the sessions of DIR, or of one, and says whether all is as it was written
    ///
    /// Each record has to read, to have its number without a gap, to be lawful behind those before it, and to be tied to them by
    /// its hash; what else the journal keeps about it has to agree. Nothing is changed, also not where there is damage.
    Verify(VerifyArgs),
    /// Shows a session as the timeline that `run` showed
    Show(ShowArgs),
    /// Writes a session to a file of JSON lines, from which `import` takes it into another project
    ///
    /// The first line says which sessions follow and how many records each has; then come their records, a line each, as the
    /// journal keeps them.
    Export(ExportArgs),
    /// Takes the sessions of an exported file into the journal of DIR
    ///
    /// The file is checked whole before anything is written. A session that is there already is not touched.
    Import(ImportArgs),
    /// Makes another session that goes on from a place in this one
    ///
    /// The new session has a copy of the log up to there; the old one is not changed. A turn that is open there is closed
    /// `interrupted` in the copy. `run --session NAME` goes on with it.
    Fork(ForkArgs),
    /// Compares two sessions, and says where they differ first
    ///
    /// What happened is compared by its place: turn, step, call, and what was recorded there. Times, what requests used and
    /// the names of the sessions are no difference.
    Diff(DiffArgs),
    /// Plays a session again from its own answers, and says where it first comes out otherwise
    ///
    /// The loop that made the log makes it anew, with what the model, tools, handlers, hooks and people answered taken from the
    /// log: no process is started and no handler called. Every record and every model request must be equal but for times.
    Replay(ReplayArgs),
}

/// The arguments of `log verify`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all is sound, 1 damage was found, 2 it could not look.")]
pub(crate) struct VerifyArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The only session to verify
    pub(crate) session: Option<String>,
    /// Prints one line of JSON a session
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `log show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// Prints one line of JSON a record
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `log export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// With the sessions of its subagents
    #[arg(long)]
    pub(crate) tree: bool,
    /// Writes to this file, which must not exist, and not to the terminal
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The arguments of `log import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The exported file; `-` reads it from standard input
    pub(crate) file: PathBuf,
}

/// The arguments of `log fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// Behind this turn, or this step of it; where the log ends otherwise
    #[arg(long, value_name = "TURN[.STEP]")]
    pub(crate) at: Option<ForkAt>,
    /// The name of the new session; SESSION-fork-1, -2, … otherwise
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// The arguments of `log diff`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 they say the same, 1 they differ, 2 it could not look.")]
pub(crate) struct DiffArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// A session, or an exported file (by a path with a `/` in it, or that ends in .jsonl)
    pub(crate) left: String,
    /// The other one
    pub(crate) right: String,
    /// Prints one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `log replay`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 it comes out the same, 1 it does not, 2 it could not be played.")]
pub(crate) struct ReplayArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session, or an exported file (by a path with a `/` in it, or that ends in .jsonl); its subagents are replayed, too
    pub(crate) session: String,
    /// Prints one line of JSON a session
    #[arg(long)]
    pub(crate) json: bool,
}
