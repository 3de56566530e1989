//! The arguments of `portcullis hooks`.

use clap::{Args, Subcommand, ValueEnum};
use portcullis::hooks::Fidelity;
use std::path::PathBuf;

/// The arguments of `hooks`.
#[derive(Debug, Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    pub(crate) mode: HooksMode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksMode {
    /// Runs hook cases through the real runtime and judges every expectation
    ///
    /// A case is a folder with a case.json and the scripts it uses; docs/hook-cases.md describes the format. Each runs on a
    /// copy in a temporary folder.
    Test(TestArgs),
}

/// How closely the client is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FidelityArg {
    /// As the client, but for what would weaken a hook
    Strict,
    /// As the client
    Exact,
}

impl From<FidelityArg> for Fidelity {
    fn from(arg: FidelityArg) -> Fidelity {
        match arg {
            FidelityArg::Strict => Fidelity::Strict,
            FidelityArg::Exact => Fidelity::Exact,
        }
    }
}

/// The arguments of `hooks test`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every case passed, 1 a case failed, 2 there was nothing to run.")]
pub(crate) struct TestArgs {
    /// Case folders, or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Prints one line of JSON a case, with what was expected and what was seen
    #[arg(long)]
    pub(crate) json: bool,
    /// Runs only cases whose field K of case.json is V; several must all hold
    #[arg(long, value_name = "K=V", value_parser = key_value)]
    pub(crate) filter: Vec<(String, String)>,
    /// How closely the client is followed
    #[arg(long, value_enum, default_value_t = FidelityArg::Strict)]
    pub(crate) fidelity: FidelityArg,
    /// Also writes the results there, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("write it as K=V, such as dialect=claude".into()),
    }
}
