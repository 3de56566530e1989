//! What the command understands.

use crate::hooks::args::LayerArgs;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const CODES: &str = "Exit codes: 0 every turn completed, 1 a turn ended in any other way, 2 it did not start, \
    3 a call waits: for an answer, or because a hook deferred it.";

/// Runs agent sessions under the policy of a project, with every decision in a durable log.
#[derive(Debug, Parser)]
#[command(
    name = "portcullis",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 every turn completed, 1 a turn ended in any other way, 2 it did not start, \
    3 a call waits: for an answer, or because a hook deferred it.\n\
    PORTCULLIS_LOG=debug shows diagnostics, NO_COLOR=1 turns colours off."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Plays the script in DIR/model.json, under the hooks in DIR/.claude/settings.json
    ///
    /// Sends the prompt of each of the script's turns in order and shows what happens as it happens: what the model says, each
    /// call, who decided what about it, why and how long that took. Bash, Read, Write, Edit, Glob and Grep work in DIR. Every record of
    /// the session is on disk, in DIR/.portcullis/journal.db, before it takes effect.
    ///
    /// When a hook asks for approval, the question is put on the terminal. Without a terminal such calls are denied, unless
    /// --yes allows them. Ctrl-C cancels the turn and closes its log; a second Ctrl-C leaves the turn open, to be continued
    /// with --session. When a hook defers a call, the run ends as soon as nothing else is left to do, with the turn open: `resume`
    /// has the hooks judge that call anew.
    Run(RunArgs),
    /// Answers a question that a session waits with, or resumes a deferred call, and goes on with that very call
    ///
    /// `run --detach-on-ask` and `resume` leave questions open and name them; `log` counts them. One answer settles a question,
    /// once. Afterwards the session goes on as with `resume`. While another process has the session, the answer is put into
    /// its inbox, and that process goes on.
    Answer(AnswerArgs),
    /// Goes on with a session that was left with its turn open
    ///
    /// Nothing that is in its log is decided, asked or run again, but for calls that were deferred: those are taken up again, and
    /// their hooks decide anew. Questions are put on the terminal; without one they stay open,
    /// and the exit code is 3.
    Resume(ResumeArgs),
    /// Sends a session a prompt, whether or not another process has it
    ///
    /// It is put into the session's inbox, on disk. The process that has the session takes it from there at once; if none has,
    /// `resume` does. Sent again under the same --id, it is not done again.
    Send(SendArgs),
    /// Cancels the open turn of a session, whether or not another process has it
    ///
    /// By way of the session's inbox, as with `send`.
    Cancel(CancelArgs),
    /// Lists the sessions of DIR or shows one, and what else can be done with their logs
    ///
    /// A session is shown as the timeline that `run` showed. All of it only reads, so it also works beside a live run; `import`
    /// and `fork` alone write, and need the journal for themselves.
    Log(crate::log::args::LogArgs),
    /// Judges a recorded session by other hooks: RUNS them, and shows what they would have decided
    ///
    /// Every moment at which hooks of SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PostToolUseFailure and Stop are
    /// asked is put to the hooks of FILE, in a copy of DIR, with everything else as it was
    /// recorded. From the first decision on that would be another one, what followed is unknown, and no hook runs.
    WhatIf(WhatIfArgs),
    /// Checks, explains and tests the hooks of a project
    Hooks(crate::hooks::args::HooksArgs),
}

/// The arguments of `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = CODES)]
pub(crate) struct RunArgs {
    /// The project
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
    /// Another script than DIR/model.json
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Allows every call that a hook wants to have approved
    #[arg(long)]
    pub(crate) yes: bool,
    /// Leaves when a call has to be approved, with the question open: `answer` goes on with that call. The exit code is 3
    #[arg(long, conflicts_with = "yes")]
    pub(crate) detach_on_ask: bool,
    /// Prints each record as one line of JSON once it is on disk, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Continues this session, or starts it; otherwise a new one is started: run-1, run-2, …
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
}

/// The arguments of `answer`.
#[derive(Debug, ClapArgs)]
#[command(after_help = CODES)]
pub(crate) struct AnswerArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The question, or the deferred call, by the name it was given
    pub(crate) request: String,
    /// Allows that very call, once, or denies it; a deferred call is resumed: its hooks decide anew
    pub(crate) answer: Verdict,
    /// Why it is denied; the model reads it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// What this answer is called. Sent again under the same name, it is told how it went the first time
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
    /// Only if the question is about the arguments with this SHA-256, as its record `input/requested` says, or the first
    /// digits of it
    #[arg(long, value_name = "HEX")]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
    /// Another script than DIR/model.json
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Prints each record as one line of JSON once it is on disk, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `send`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Exit codes: 0 it was taken, or waits, 2 it was refused, or could not be put there.")]
pub(crate) struct SendArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// What to say
    pub(crate) text: String,
    /// For the next step of the open turn; a prompt, if none is open
    #[arg(long)]
    pub(crate) steer: bool,
    /// As context in this name, for the next request: it begins no turn
    #[arg(long, value_name = "OWNER", conflicts_with = "steer")]
    pub(crate) context: Option<String>,
    /// What this is called. Sent again under the same name, it is not done again
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
}

/// The arguments of `cancel`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Exit codes: 0 it was taken, or waits, 2 it was refused, or could not be put there.")]
pub(crate) struct CancelArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// Only what the prompt led to that was sent under this --id: its turn, or the prompt itself while it waits
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Option<String>,
    /// What this is called. Sent again under the same name, it cancels nothing that came later
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    Allow,
    Deny,
    Resume,
}

/// The arguments of `resume`.
#[derive(Debug, ClapArgs)]
#[command(after_help = CODES)]
pub(crate) struct ResumeArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session; not needed when only one is open
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
    /// Another script than DIR/model.json
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Allows every call that a hook wants to have approved
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints each record as one line of JSON once it is on disk, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `what-if`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 nothing would be decided otherwise, 1 something would, 2 it could not look."
)]
pub(crate) struct WhatIfArgs {
    /// The project
    pub(crate) dir: PathBuf,
    /// The session
    pub(crate) session: String,
    /// A settings file; its hooks and permission rules take the place of those in the log. They RUN
    #[arg(long, value_name = "FILE")]
    pub(crate) hooks: PathBuf,
    /// Runs them in DIR itself, and not in a copy of it
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Prints one line of JSON a moment
    #[arg(long)]
    pub(crate) json: bool,
}
