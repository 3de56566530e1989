//! Shell hooks on the public seams: an unmodified hook configuration of Claude Code or of Codex runs as that client runs it.
//!
//! [`ClaudeHooks::load`] and [`CodexHooks::load`] read a project's files and give an [`Extension`](portcullis_runtime::Extension)
//! to mount, with a list of [`Report`]s about what in the files will not run, or not as it reads. Each hook command is one handler: it
//! has its own decision, time limit and two records, `hook/invoked` and `hook/result`. Hooks of both clients may be mounted in one
//! session. Those that are mounted first are asked first, which decides nothing: of all their verdicts on a call the most restrictive
//! stands. What they tell the model stands in the order of mounting, each client's within it in the order of its files.
//!
//! ```
//! use portcullis_hooks::{ClaudeHooks, Severity};
//! use portcullis_runtime::{Extension, Table};
//!
//! let project = tempfile::tempdir()?;
//! std::fs::create_dir(project.path().join(".claude"))?;
//! std::fs::write(
//!     project.path().join(".claude/settings.json"),
//!     r#"{"hooks": {
//!         "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./gate.sh"}]}],
//!         "PostToolUze": []
//!     }}"#,
//! )?;
//! let (hooks, reports) = ClaudeHooks::load(project.path());
//! assert_eq!(reports.len(), 1);
//! assert_eq!((reports[0].severity, reports[0].line), (Severity::Warning, Some(3)));
//! assert_eq!(reports[0].hint.as_deref(), Some("did you mean PostToolUse?"));
//!
//! let mut table = Table::new();
//! table.register(hooks.owner(), |at| hooks.clone().register(at));
//! assert!(table.introspect().iter().any(|row| &*row.matches == "PreToolUse Bash"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What runs: Claude Code
//!
//! | event | point | it can |
//! |---|---|---|
//! | SessionStart | `agent/session-start` | add context |
//! | UserPromptSubmit | `agent/prompt-submit` | block, add context, halt |
//! | PreToolUse | `tools/rewrite` | replace the arguments, allow, ask, deny, add context, halt |
//! | PermissionRequest | `tools/permission` | allow, deny, end the turn with a denial |
//! | Notification | `tools/asked` | be told that a person is asked |
//! | PermissionDenied | `tools/post-execute`, calls that the host's policy denied | tell the model that it may try again |
//! | PostToolUse | `tools/post-execute`, completed calls | feed back, add context, replace the text of Bash and MCP results, halt |
//! | PostToolUseFailure | `tools/post-execute`, calls that ran and failed | feed back, add context |
//! | PostToolBatch | `tools/batch` | add context, halt |
//! | Stop | `agent/turn-continuation` | ask for another step, halt |
//! | StopFailure | `agent/turn-end`, turns that ended by the model's failure | be told |
//! | SubagentStart | `subagent/start` | add context to the subagent's first request |
//! | PreCompact | `agent/compaction` | leave the conversation as it is, say what the summary must keep |
//! | PostCompact | `agent/compacted` | see the summary |
//! | SubagentStop | `agent/turn-continuation` of the subagent | ask for another step, halt the subagent's turn |
//! | ConfigChange | `agent/turn-start` | keep what was in force |
//! | SessionEnd | `agent/session-end` | be told |
//!
//! Command handlers run, in shell and in exec form, with `timeout`, `if`, `async` and `onFailure`. Handlers of type `prompt` and
//! `agent` ask whom the host provides ([`Options::advisor`]), at most twelve at a time: a model, or an agent that is a session
//! below the one in question. The event's JSON stands where the prompt says `$ARGUMENTS`, and the answer is `{"ok": true}` or
//! `{"ok": false, "reason": "…"}`. A no denies a call and ends the turn, stops a prompt, and keeps a turn from stopping. What was
//! said, by which model and at what cost, is in the hook's record; no hook runs in such an agent. A handler of type `http` posts
//! the event's JSON, and the body of a 2xx answer is what a command would have printed; `$NAME` in its headers is filled in if
//! `allowedEnvVars` lists it, redirects are not followed, and `allowedHttpHookUrls` and `httpHookAllowedEnvVars` of the settings
//! bound them all. A handler of type `mcp_tool` calls a tool of the host's ([`Options::mcp`]), with `${tool_input.command}` and
//! the like filled in, and its text is read in the same way. A hook that fails decides
//! nothing, unless it or the host ([`OnFailure`]) says that a failure blocks. A hook that ran into its time limit never
//! decides; it and all it started are ended.
//!
//! `permissions` in Claude Code's files count, too: `deny` rules become a guard, which no hook can override, `ask` rules a voice
//! in the gate. A rule on a command compares text, for the command and for each part of it; it is no sandbox.
//!
//! What should hold beside the files, for all hooks or for some, is said in a `portcullis.toml` ([`Overlays`]) or by the host
//! ([`Options`]): fidelity, what a failure means, time limits, how many processes live at a time, and shadow, in which a hook runs
//! and is recorded and nothing it says counts.
//!
//! # What runs: Codex
//!
//! | event | point | it can |
//! |---|---|---|
//! | SessionStart | `agent/session-start` | add context, end the first turn |
//! | UserPromptSubmit | `agent/prompt-submit` | block, add context, halt |
//! | PreToolUse | `tools/rewrite` | replace the arguments, deny, add context; ask in [`Fidelity::Strict`] |
//! | PermissionRequest | `tools/permission` | allow, deny |
//! | PostToolUse | `tools/post-execute`, completed calls and commands that failed | put feedback in the result's place, add context |
//! | Stop | `agent/turn-continuation` | ask for another step, halt |
//! | SubagentStart | `subagent/start` | add context to the subagent's first request |
//! | SubagentStop | `agent/turn-continuation` of the subagent | ask for another step, halt the subagent's turn |
//! | PreCompact | `agent/compaction` | leave the conversation as it is and end the turn |
//! | PostCompact | `agent/compacted` | end the turn |
//! | Interrupt | `agent/turn-end`, turns that were cancelled, or that a hook ended around a compaction | be told |
//! | SessionEnd | `agent/session-end` | be told |
//!
//! Its hooks are defined in `hooks.json` and under `[hooks]` in `config.toml`, of the administrator, the system, the user, the folders of a
//! project, this run and plugins ([`CodexLayers`]). They run only if their user trusts the project and each of them, as it stands there:
//! [`CodexTrust`] reviews and approves. Command handlers run in the user's own shell, with `timeout`, `async` and
//! `additionalContextLimit`; a handler of type `mcp_tool` calls a tool of the host's. The client skips handlers of type `prompt` and `agent`, and
//! so are they here. Answers have a schema: a field too many, or a value of the wrong kind, voids all of an answer. Text that is too long
//! for the model is kept in a file below the folder for temporary files, and the model reads its beginning and end.
//!
//! # Where it differs from Claude Code
//!
//! - Hooks run one after another in configuration order, and the client's run at once: verdicts are the same, the text that
//!   wins among equals is the last in order, not the last to finish. Each hook's context is one text of its own.
//! - A hook leads a process group, not a session.
//! - A hook is sent integers beyond 2^53 exactly ([`Fidelity::Strict`]).
//! - A PermissionRequest hook is sent no `permission_suggestions`, and what it answers as `updatedPermissions` changes nothing. If it
//!   allows a call with other arguments, the call is denied, and the model is told to make it with those: a call's arguments
//!   are sealed before anyone is asked about it. With `interrupt` the step's other calls still run.
//! - Nobody waits for Notification and StopFailure hooks, as in the client; their records go to the host ([`Options::late`]).
//!   [`Hooks::telling`] says whether some are at work.
//! - Settings that have changed are read again when a turn of a session begins, before its prompts are judged: those of the user, the
//!   project and the administrator, with their permission rules, not files given for one run, those of plugins, and `portcullis.toml`.
//!   What is loaded is replaced as a whole, for all sessions of the project, and whatever was planned with it stays what it was. A
//!   file that is broken leaves what it said before in force, as does a ConfigChange hook that blocks; the administrator's file always
//!   counts. The host is told ([`Options::reloaded`]), and may have it otherwise ([`Options::read_once`]).
//! - SessionEnd comes when the host shuts down, of a session at rest, with the reason `other`. Its hooks have 1.5 s each, or the longest
//!   `timeout` that one of them asks for, up to a minute, or what `CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS` says. They run one after another,
//!   are waited for within the limit of the shutdown, and so are those in the background.
//! - `defer` puts the call off, and nobody is asked: it waits with its turn open until its host resumes it
//!   (`Session::resume`). Then all of its hooks run again and decide anew. PermissionRequest and Notification hooks do not run for it.
//!   The other calls of the step run meanwhile; their results come behind the deferred call's. Other than in the client, no prompt
//!   of the client's own is submitted after a resume, so UserPromptSubmit does not run for one, and the call's hooks are told the `prompt_id` of
//!   its turn; SessionStart tells of the resume when the next turn begins.
//! - Feedback of a Stop hook reaches the model once.
//! - `session_id` is the session's name here; `prompt_id` is derived from it, and in a subagent is that of what the subagent was
//!   asked, not of the user's prompt behind it. `agent_id` is derived from the name of the subagent's session; `effort`, `mcp_server`, and what SessionStart
//!   says about a resumed conversation's tokens are never sent.
//! - `CLAUDE_ENV_FILE` is set on SessionStart. What hooks write there reaches commands if the host has their shell read it
//!   ([`Hooks::exports`]); in shadow it reaches none. It is no record: a log never holds it.
//! - A hook in the background (`async`, or `{"async":true}` as its first line of output) is not waited for; its records and what
//!   it says go to the host ([`Options::late`]) when it has ended, for the session's log. With `asyncRewake` beside `async`, exit
//!   code 2 is said to wake the model: the host then steers the open turn with it, or opens one. `asyncTimeout` is a limit beside
//!   the hook's own.
//! - An expression as matcher whose matching could take exponentially long is refused, and reported.
//!
//! # Where it differs from Codex
//!
//! - Hooks run one after another in configuration order, and the client's run at once: verdicts are the same. Of several rewrites the last
//!   in order counts, not the last to finish; of several denials the last one's reason, not the first one's. Feedback of several hooks
//!   stands line by line, without empty lines between.
//! - A hook leads a process group, not a session.
//! - [`Fidelity::Strict`] honours a deny or block that does not say why, exit code 2 without text, and `permissionDecision: ask`, all of which
//!   the client loses; and a hook is sent integers of any size exactly.
//! - After a rewrite the model reads the arguments that ran; in the client it reads its own.
//! - Context of a call's hooks stands behind the last result of the step, not between calls and results. Empty context is none, and what
//!   comes with a blocked prompt is dropped with it.
//! - A turn is kept from stopping eight times in a row at most, unless the host says otherwise; in the client there is no limit. Steering
//!   that a hook blocks is dropped, and the turn goes on.
//! - UserPromptSubmit does not run of what a subagent is asked: no user sends that. PreModelRequest and PostModelRequest do not run.
//! - Nobody waits for Interrupt hooks, and they hold up nothing; their records, and those of hooks in the background, go to the host
//!   ([`Options::late`]). What one in the background says waits for the next request there is, and wakes no turn that is over.
//! - Files are changed by `Write` and `Edit` here, and by `apply_patch` in the client: a matcher for one of the three finds each of them.
//! - `session_id` and `agent_id` are the sessions' names here, `turn_id` is derived from them; `permission_mode` is always `default`,
//!   `model` the name of what answers in the session.
//! - Trust in a plugin's hooks is kept with a fingerprint of its folder that is ours, in a file of our own ([`CodexLayers::record_file`]).
//!
//! # The transcript
//!
//! `transcript_path` and `agent_transcript_path` name files that are written here, from the session's log, before a hook runs and
//! when a turn is over or the host ends the session. `docs/transcripts.md` describes them; each has
//! the [`Shape`] in which hooks of its client read, and is ours beyond that, since the clients document none. Whoever has
//! records and no session writes such a file with [`Transcript`].
//!
//! # What it refuses to do
//!
//! - It never fails a start over a file, and never drops anything in one without a report: events that do not happen here, handlers
//!   that ask a model or call a tool where the host provides none, and permission rules that are not understood are named.
//! - It never reads a payload back, and never puts a configured text into a shell command.
//! - It knows no actor and no journal; records ride in its replies.

mod answer;
mod ask;
mod background;
mod change;
mod claude;
mod codex;
mod definition;
mod dialect;
mod event;
mod explain;
mod exports;
mod farewell;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod glob;
mod hook;
mod hooks;
mod http;
mod json;
mod lint;
mod listen;
mod matcher;
mod notices;
mod options;
mod overlay;
mod post;
mod records;
mod report;
mod run;
#[allow(dead_code)]
mod set;
mod shell;
mod tool;
mod transcript;
mod uuid;
mod watch;
mod written;

pub use background::Late;
pub use change::{Changing, Reload, Reloaded, Weighed};
pub use claude::{ClaudeHooks, Layers};
pub use codex::{Change, Changed, CodexHooks, CodexLayers, CodexTrust, TrustError, TrustStatus, TrustedHook};
pub use explain::{Considered, Explanation, HookInfo, Moment};
pub use hooks::Hooks;
pub use options::{Each, Fidelity, OnFailure, Only, Options, PluginLayer, TellLate, TellReloaded};
pub use overlay::{HookTerms, Overlays};
pub use report::{Report, Severity};
pub use tool::{McpCall, McpText, McpTools};
pub use transcript::{Shape, Transcript};

/// What Claude Code does with hooks, situation by situation, and what is done here in each fidelity: a JSON list. Its format is
/// described in `docs/hook-cases.md`; `portcullis hooks matrix` is made of it, and each entry is a test.
pub const CLAUDE_VECTORS: &str = include_str!("../vectors/claude.json");

/// What Codex does with hooks, and what is done here, as [`CLAUDE_VECTORS`] is for its sibling.
pub const CODEX_VECTORS: &str = include_str!("../vectors/codex.json");
