//! `portcullis hooks`: what a project's hooks are, what they would do, and whether they do what their cases say.

pub(crate) mod args;
pub(crate) mod beside;
mod check;
pub(crate) mod explain;
pub(crate) mod layers;
mod matrix;
mod moment;
mod test;
mod trust;

use crate::problem::Problem;
use args::{HooksArgs, HooksMode};
use std::process::ExitCode;

/// Runs one of them.
pub(crate) async fn hooks(args: HooksArgs) -> Result<ExitCode, Problem> {
    match args.mode {
        HooksMode::Test(args) => test::test(args).await,
        HooksMode::Check(args) => check::check(&args),
        HooksMode::Trust(args) => trust::trust(&args),
        HooksMode::Matrix(args) => matrix::matrix(&args),
        HooksMode::Explain(args) => explain::explain(args).await,
    }
}
