//! What is different about Codex's hooks here and is no decision, so that no vector can show it.

use super::Difference;

pub(super) const DIFFERENCES: &[Difference] = &[
    (
        "several hooks on one event",
        "start together; answers count in the order of the configuration",
        "run one after another in that order; verdicts are the same",
    ),
    ("new arguments of several hooks", "those of the last one to end", "those of the last one in order"),
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
    (
        "a patch that is typed as a command",
        "is one of `Bash` before it runs, and none after",
        "is a command like any other",
    ),
    (
        "a command that goes on behind its call",
        "PostToolUse comes when it ends",
        "PostToolUse comes with the result of the call",
    ),
    ("steering that a hook blocks", "the turn ends without another request", "is dropped; the turn goes on"),
    ("UserPromptSubmit in a subagent", "runs of what it was asked", "does not run: no user sends that"),
    (
        "Interrupt",
        "holds up the end of the turn",
        "holds up nothing; its records go to the host (`Options::late`)",
    ),
    (
        "SessionEnd",
        "when the client ends",
        "when the host shuts down, of a session that ran a turn, within the limit of the shutdown",
    ),
    (
        "a compaction",
        "asked for (`manual`) or at the limit (`auto`)",
        "at the limit; a turn that a hook ends there is `halted`, not `interrupted`, and Interrupt runs as in the client",
    ),
    (
        "`session_id`, `turn_id`, `agent_id`",
        "UUIDs of version 7",
        "names of sessions; of the turn a UUID that is derived from its session's",
    ),
    (
        "`permission_mode`",
        "`bypassPermissions` where nobody is ever asked, else `default`",
        "`default`: nothing runs past a question because there is nobody to put it to",
    ),
    ("`model`", "the client's", "the name of what answers in the session"),
    (
        "`transcript_path`, `agent_transcript_path`",
        "files in a format of the client's own",
        "files in the shape in which hooks read those (docs/transcripts.md), as long as the log when a hook starts",
    ),
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
    ("a plugin's hook", "is trusted with a fingerprint of the client's", "is trusted with one of ours"),
    (
        "handlers of type mcp_tool",
        "call tools of the client's servers",
        "call tools that the host provides; where it provides none, as this command, they are reported and do not run",
    ),
];
