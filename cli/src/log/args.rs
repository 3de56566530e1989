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
    /// Each record has to read, to have its number without a gap, to be lawful behind those before it, and to be tied to them by
    /// its hash; what else the journal keeps about it has to agree. Nothing is changed, also not where there is damage.
    Verify(VerifyArgs),
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
