//! The `portcullis` command: plays a scripted session under a project's own hooks and shows its log.
//!
//! It is on the public API only, as any embedder would be. Nothing is decided here: what a turn does is the runtime's, what
//! a hook may do is the hook's; the command drives, shows and asks.

mod answer;
mod args;
mod ask;
mod drive;
mod hooks;
mod log;
mod page;
mod paint;
mod problem;
mod resume;
mod run;
mod scratch;
mod script;
mod send;
mod store;
mod timeline;
mod whatif;
mod words;

use args::{Args, Mode};
use clap::Parser;
use std::{io, process::ExitCode};

fn main() -> ExitCode {
    let args = Args::parse();
    trace(matches!(args.mode, Mode::Hooks(_)));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return problem::report(&error.into()),
    };
    let done = match args.mode {
        Mode::Run(args) => runtime.block_on(run::run(args)),
        Mode::Hooks(args) => runtime.block_on(hooks::hooks(args)),
        Mode::Answer(args) => runtime.block_on(answer::answer(args)),
        Mode::Resume(args) => runtime.block_on(resume::resume(args)),
        Mode::Send(args) => runtime.block_on(send::send(args)),
        Mode::Cancel(args) => runtime.block_on(send::cancel(args)),
        Mode::WhatIf(args) => runtime.block_on(whatif::what_if(&args)),
        Mode::Log(args) => runtime.block_on(log::log(args)),
    };
    done.unwrap_or_else(|problem| problem::report(&problem))
}

/// Diagnostics go to stderr and are off but for errors: what matters to a user is in the timeline. Hook cases provoke
/// errors on purpose, and say themselves what came of them.
fn trace(quiet: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PORTCULLIS_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(if quiet { "off" } else { "error" }));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}
