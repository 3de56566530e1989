//! The arguments of `portcullis hooks`.

use clap::{Args, Subcommand, ValueEnum};
use portcullis::hooks::Fidelity;
use std::{ffi::OsString, path::PathBuf};

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
    /// Shows every hook of a project and what is wrong with them
    ///
    /// Reads the settings of the project, and of the layers that the options add; nothing is started.
    Check(CheckArgs),
    /// Says which hooks would run at a moment, why the others would not, and what those that run answer
    ///
    /// The hooks are really run, with exactly the bytes and the environment that are shown, unless --dry is given. The call
    /// itself is not.
    Explain(ExplainArgs),
    /// Reviews the Codex hooks of a project, and says which of them may run
    ///
    /// Codex runs a hook only once its user has trusted exactly what it is, and so does this. Shows each hook with its file, what
    /// has changed about it since it was trusted, and asks on a terminal. What is approved is written where Codex keeps it,
    /// and counts for Codex, too.
    Trust(TrustArgs),
    /// Prints what the clients do with hooks, situation by situation, and what is done here, as Markdown
    Matrix(MatrixArgs),
}

/// Which files count beside the project's.
#[derive(Debug, Args)]
pub(crate) struct LayerArgs {
    /// The clients whose hooks count: claude, codex, or both, in the order in which they are asked
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_value = "claude,codex")]
    pub(crate) dialect: Vec<DialectArg>,
    /// Also your own files: ~/.claude/settings.json, those in ~/.codex or $CODEX_HOME, and your portcullis.toml
    #[arg(long)]
    pub(crate) user: bool,
    /// Claude Code: only these of the three files of a person and a project
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', conflicts_with = "user")]
    pub(crate) setting_sources: Option<Vec<SourceArg>>,
    /// Claude Code: also these settings: a file, or a JSON object
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) settings: Option<OsString>,
    /// Claude Code: also this administrator's settings file
    #[arg(long, value_name = "FILE")]
    pub(crate) managed: Option<PathBuf>,
    /// Claude Code: also the hooks of the plugin in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) plugin: Vec<PathBuf>,
    /// Codex: also these settings, the text of a config.toml
    #[arg(long, value_name = "TOML")]
    pub(crate) codex_config: Option<String>,
    /// Codex: also this administrator's requirements.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) codex_requirements: Option<PathBuf>,
    /// Codex: also the hooks of a plugin, PLUGIN@MARKETPLACE=FOLDER
    #[arg(long, value_name = "NAME=FOLDER", value_parser = plugin)]
    pub(crate) codex_plugin: Vec<(String, PathBuf)>,
    /// Codex: the project is trusted, whatever your config.toml says; its hooks have to be trusted all the same
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Codex: hooks run whether or not you have trusted them
    #[arg(long)]
    pub(crate) bypass_hook_trust: bool,
}

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArg {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

impl DialectArg {
    /// Its name, which is the owner of its handlers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DialectArg::Claude => "claude",
            DialectArg::Codex => "codex",
        }
    }
}

fn plugin(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, folder)) if !name.is_empty() && !folder.is_empty() => Ok((name.into(), folder.into())),
        _ => Err("write it as PLUGIN@MARKETPLACE=FOLDER".into()),
    }
}

/// A settings file of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceArg {
    /// ~/.claude/settings.json
    User,
    /// .claude/settings.json of the project
    Project,
    /// .claude/settings.local.json of the project
    Local,
}

/// The arguments of `hooks check`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing that is an error, 1 errors were found, 2 it could not look.")]
pub(crate) struct CheckArgs {
    /// The project
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
}

/// The arguments of `hooks trust`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every hook may run that is not switched off, 1 some wait to be trusted, 2 it could not look or write.\n\
    $CODEX_HOME is where Codex keeps your files, if that is not ~/.codex."
)]
pub(crate) struct TrustArgs {
    /// The project
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Also these settings, the text of a config.toml
    #[arg(long, value_name = "TOML")]
    pub(crate) codex_config: Option<String>,
    /// Also this administrator's requirements.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) codex_requirements: Option<PathBuf>,
    /// Also the hooks of a plugin, PLUGIN@MARKETPLACE=FOLDER
    #[arg(long, value_name = "NAME=FOLDER", value_parser = plugin)]
    pub(crate) codex_plugin: Vec<(String, PathBuf)>,
    /// Trusts the hook of this key, or those of this hash, as the list shows them; may be given again
    #[arg(long, value_name = "KEY|HASH")]
    pub(crate) approve: Vec<String>,
    /// Trusts every hook that waits for it
    #[arg(long, conflicts_with = "approve")]
    pub(crate) all: bool,
    /// Trusts the project; Codex then takes its other settings, too
    #[arg(long)]
    pub(crate) approve_project: bool,
    /// Asks nothing, also on a terminal
    #[arg(long)]
    pub(crate) list: bool,
    /// Prints one line of JSON a hook, and asks nothing
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `hooks explain`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 it was explained, 2 it could not be.")]
pub(crate) struct ExplainArgs {
    /// The project
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) layers: LayerArgs,
    /// The client's name of the event
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: String,
    /// The tool that is called
    #[arg(long, value_name = "NAME", default_value = "Bash")]
    pub(crate) tool: String,
    /// The arguments of the call, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) input: String,
    /// What the tool answered, JSON or text
    #[arg(long, value_name = "JSON", default_value = "ok")]
    pub(crate) response: String,
    /// What the user sent
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    pub(crate) prompt: String,
    /// How the session started: startup, resume, clear or compact
    #[arg(long, value_name = "SOURCE", default_value = "startup")]
    pub(crate) source: String,
    /// What the model said last
    #[arg(long, value_name = "TEXT", default_value = "done")]
    pub(crate) last: String,
    /// The turn was forced on before
    #[arg(long)]
    pub(crate) stop_hook_active: bool,
    /// It happens in a subagent of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) agent_type: Option<String>,
    /// How closely the client is followed; otherwise as portcullis.toml says, else strict
    #[arg(long, value_enum)]
    pub(crate) fidelity: Option<FidelityArg>,
    /// Starts nothing
    #[arg(long)]
    pub(crate) dry: bool,
    /// Prints one JSON object, or one a line and client
    #[arg(long)]
    pub(crate) json: bool,
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

/// The arguments of `hooks matrix`.
#[derive(Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Only these clients, in this order: claude, codex
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_value = "claude,codex")]
    pub(crate) dialect: Vec<DialectArg>,
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
    /// How closely the client is followed; otherwise as the case's portcullis.toml says, else strict
    #[arg(long, value_enum)]
    pub(crate) fidelity: Option<FidelityArg>,
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
