//! What is different about Claude Code's hooks here and is no decision, so that no vector can show it.

use super::Difference;

pub(super) const DIFFERENCES: &[Difference] = &[
    (
        "several hooks on one event",
        "start together; effects in the order in which they end",
        "run one after another in the order of the configuration; verdicts are the same",
    ),
    ("context of several hooks before a call", "one text", "one text each"),
    ("feedback of a Stop hook", "reaches newer models twice", "reaches the model once"),
    ("a hook's process", "leads a session", "leads a process group"),
    (
        "`async` with `asyncRewake`, exit 2",
        "wakes the model with a user's message",
        "steers the open turn, or opens one, in the name of the hooks",
    ),
    ("Notification", "of several kinds", "of questions to a person: `permission_prompt`"),
    ("PermissionDenied", "when the client's own judgement denies", "when the host's policy denies"),
    (
        "`error` of StopFailure",
        "one of a list",
        "`rate_limit` when the model is busy, `server_error` when it was cut off, else `unknown`",
    ),
    (
        "a change of settings",
        "taken over at any time; files of skills, too; it is not known what becomes of a broken file",
        "between two turns, for the whole project; a broken file leaves what it said before in force; `portcullis.toml`, files for one run and those of plugins are read once",
    ),
    (
        "SessionEnd",
        "with one of several reasons; all hooks at once, within one time; an `async` one is let go",
        "when the host shuts down, of a session that ran a turn (`other`); one after another, each with that time, within the limit of the shutdown; an `async` one is waited for",
    ),
    (
        "`permission_suggestions`, `updatedPermissions`",
        "sent where there are any; rules are changed",
        "not sent; noted in `hook/result` and not acted on",
    ),
    (
        "PermissionRequest where there is nobody to ask",
        "does not run: the call is denied",
        "does not run: the call is denied",
    ),
    (
        "`interrupt` of a PermissionRequest hook",
        "ends the turn at once",
        "ends it when the step's calls have their results",
    ),
    ("records of an `async` hook", "none", "in the log when it ends; in a subagent they are dropped"),
    ("`prompt_id` in a subagent", "of the user's prompt", "of what the subagent was asked"),
    (
        "a compaction",
        "asked for or at the limit; SessionStart before PostCompact; ends with a SubagentStop without a type",
        "at the limit (`auto`); PostCompact first, SessionStart with the next turn; no SubagentStop",
    ),
    (
        "`transcript_path`, `agent_transcript_path`",
        "files in a format of the client's own",
        "files in the shape in which hooks read those (docs/transcripts.md), as long as the log when a hook starts",
    ),
    ("`effort`, `mcp_server`, costs of a resumed session", "sent where they apply", "never sent"),
    (
        "`CLAUDE_ENV_FILE`",
        "set on starts",
        "set on SessionStart; the files lie in `.portcullis/session-env`, and Bash reads them before each command",
    ),
    (
        "`model` of a prompt or an agent handler",
        "that model answers",
        "the session's own model answers, and the file's is named in a report",
    ),
    (
        "an agent that answers for a hook",
        "has no log",
        "is a session below the hook's, with a log of its own",
    ),
    (
        "handlers of type mcp_tool",
        "call tools of the client's servers",
        "call tools that the host provides; where it provides none, as this command, they are reported and do not run",
    ),
];
