//! `portcullis hooks matrix`: the compatibility table, made of the vectors that the tests run.

use crate::problem::Problem;
use portcullis::hooks::{CLAUDE_VECTORS, CODEX_VECTORS, ClaudeHooks, CodexHooks};
use serde::Deserialize;
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

/// What the table needs of a vector.
#[derive(Deserialize)]
struct Vector {
    group: String,
    about: String,
    event: String,
    client: String,
    exact: String,
    strict: String,
    #[serde(default)]
    note: String,
}

/// Differences that are no decisions, so that no vector can show them: what it is about, the client, here.
type Elsewhere = [(&'static str, &'static str, &'static str)];

const CLAUDE: &Elsewhere = &[
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

const CODEX: &Elsewhere = &[
    (
        "several hooks on one event",
        "start together; of new arguments, those of the last one to end count",
        "run one after another in the order of the configuration; those of the last one in that order count",
    ),
    ("the reason of several denials", "the first one's", "the last one's"),
    ("feedback of several hooks on a result", "with an empty line between them", "each on a line of its own"),
    (
        "prompts of several Stop hooks",
        "parts of one message",
        "lines of one message, each with its run as in the client",
    ),
    (
        "how often a turn is kept from stopping",
        "without a limit",
        "eight times in a row, which the host can change; then it ends, visibly",
    ),
    (
        "context of hooks on a call",
        "stands between the calls and their results",
        "stands behind the last result of the step",
    ),
    ("empty context", "an empty message", "none"),
    ("a call that a hook gave new arguments", "stays as the model wrote it", "reads as it ran"),
    (
        "the denial of a question, in the model's words",
        "of a command, inside an error of the client's own",
        "the message as it is",
    ),
    (
        "tools that change files",
        "`apply_patch`",
        "`Write` and `Edit`, by their own names and with their own arguments; matchers of each of the three find each of them",
    ),
    ("UserPromptSubmit in a subagent", "runs of what it was asked", "does not run: no user sends that"),
    (
        "`trigger` of a compaction",
        "`manual` or `auto`",
        "`auto`: a conversation is summarised at its limit alone",
    ),
    (
        "`session_id`, `turn_id`, `agent_id`",
        "UUIDs",
        "the session's name; of the turn a UUID that is derived from it",
    ),
    (
        "`transcript_path`, `agent_transcript_path`",
        "files in a format of the client's own",
        "files in the shape in which hooks read those (docs/transcripts.md), as long as the log when a hook starts",
    ),
    ("`permission_mode`", "`default`, or `bypassPermissions` where nobody is ever asked", "`default`"),
    (
        "`tool_response` of a command",
        "what it printed, as it came",
        "what its result has as stdout, then stderr; Bash of this runtime leaves the last line breaks out",
    ),
    ("an integer in `tool_input` that 64 bits do not hold", "a double", "exact; in *exact* a double"),
    ("a hook's process", "leads a session", "leads a process group"),
    (
        "context of an `async` hook",
        "read with the next request; one that comes at a turn's end has the model go on",
        "read with the next request, if need be of the next turn",
    ),
    ("records of an `async` hook", "none", "in the log when it ends; in a subagent they are dropped"),
    (
        "handlers of type mcp_tool",
        "call tools of the client's servers",
        "call tools that the host provides; where it provides none, as this command, they are reported and do not run",
    ),
];

/// Prints it.
pub(super) fn matrix() -> Result<ExitCode, Problem> {
    let claude = table("Claude Code", "claude", &read(CLAUDE_VECTORS)?, CLAUDE, ClaudeHooks::events());
    let codex = table("Codex", "codex", &read(CODEX_VECTORS)?, CODEX, CodexHooks::events());
    // Whoever closed stdout has the exit code.
    let _ = io::stdout().write_all(format!("{claude}\n{codex}").as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn read(vectors: &str) -> serde_json::Result<Vec<Vector>> {
    serde_json::from_str(vectors)
}

/// `file`: where the vectors are.
fn table(
    client: &str,
    file: &str,
    vectors: &[Vector],
    elsewhere: &Elsewhere,
    events: impl Iterator<Item = (&'static str, Option<&'static str>)>,
) -> String {
    let mut out = format!(
        "# Compatibility with {client}\n\nPrinted by `portcullis hooks matrix` from `bridges/hooks/vectors/{file}.json`; each row with outcomes is \
         a test. *Exact*\nand *strict* are the fidelities; bold is where one differs from the client.\n"
    );
    let mut group = "";
    for vector in vectors {
        if vector.group != group {
            group = &vector.group;
            // Writing to a String cannot fail.
            let _ = write!(out, "\n## {}{}\n\n", group[..1].to_uppercase(), &group[1..]);
            out.push_str("| event | situation | client | exact | strict | |\n|---|---|---|---|---|---|\n");
        }
        let shown = |own: &str| if own == vector.client { own.to_owned() } else { format!("**{own}**") };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            vector.event,
            vector.about.replace('|', "\\|"),
            vector.client,
            shown(&vector.exact),
            shown(&vector.strict),
            vector.note
        );
    }
    out.push_str("\n## What is no decision\n\n| about | client | here |\n|---|---|---|\n");
    for (about, client, here) in elsewhere {
        let _ = writeln!(out, "| {about} | {client} | {here} |");
    }
    out.push_str("\n## Events\n\n| event | its hooks |\n|---|---|\n");
    for (event, silent) in events {
        let what = silent.map_or_else(|| "run".into(), |why| format!("are reported and do not run: {why}"));
        let _ = writeln!(out, "| {event} | {what} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-BRIDGE-4
    #[test]
    fn another_outcome_is_another_table() {
        for vectors in [CLAUDE_VECTORS, CODEX_VECTORS] {
            let read = || read(vectors).unwrap_or_default();
            let table = |vectors: &[Vector]| table("c", "f", vectors, &[], std::iter::empty());
            let now = table(&read());
            for at in 0..read().len() {
                let changes: [fn(&mut Vector); 3] =
                    [|v| v.client.push('x'), |v| v.exact.push('x'), |v| v.strict.push('x')];
                for change in changes {
                    let mut vectors = read();
                    change(&mut vectors[at]);
                    assert_ne!(table(&vectors), now);
                }
            }
            assert!(now.contains("**"));
        }
    }
}
