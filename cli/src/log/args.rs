//! The arguments of `portcullis log`.

use clap::{Args, Subcommand};
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
    /// Each record has to read, to have its number without a gap, and to be lawful after those before it.
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
