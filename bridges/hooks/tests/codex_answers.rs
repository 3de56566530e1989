//! What hooks of Codex answer, through real processes, to the words in which the model reads it.

mod support;

use portcullis_runtime::*;
use support::{Project, gate};

/// A hook that prints these texts and exits.
fn script(stdout: &str, stderr: &str, exit: i32) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    format!("printf %s {}; printf %s {} >&2; exit {exit}", quote(stdout), quote(stderr))
}

fn specific(event: &str, fields: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"{event}",{fields}}}}}"#)
}

const LS: &str = r#"{"command":"ls","timeout":5}"#;

// C-BRIDGE-1, C-PIPE-2, C-LOG-9
#[test]
fn a_call_is_denied_asked_about_or_changed() {
    let of = |fields: &str| specific("PreToolUse", fields);
    let deny = of(r#""permissionDecision":"deny","permissionDecisionReason":"no","additionalContext":" c ""#);
    let seen =
        Project::codex("PreToolUse", &[&script(&deny, "", 0), &script("", " also \n", 2)]).pre("Bash", LS);
    let gates: Vec<_> = seen.decisions.iter().map(gate).collect();
    assert_eq!(
        gates,
        [
            ("deny", Some("Command blocked by PreToolUse hook: no. Command: ls")),
            ("deny", Some("Command blocked by PreToolUse hook: also. Command: ls")),
        ]
    );
    assert_eq!((seen.context, seen.halt), (vec![" c ".to_owned()], None));
    assert!(seen.results.iter().map(|result| &*result.decision).eq(["deny", "block"]));

    let seen = Project::codex("PreToolUse", &[&script("", "no", 2)]).pre("Write", "{}");
    let text = "Tool call blocked by PreToolUse hook: no. Tool: Write";
    assert_eq!(gate(&seen.decisions[0]), ("deny", Some(text)));

    let ask = of(r#""permissionDecision":"ask""#);
    let seen = Project::codex("PreToolUse", &[&script(&ask, "", 0)]).pre("Bash", LS);
    assert_eq!((gate(&seen.decisions[0]).0, &*seen.results[0].decision), ("ask", "ask"));

    let new = of(r#""permissionDecision":"allow","updatedInput":{"command":"pwd","timeout":9}"#);
    let seen = Project::codex("PreToolUse", &[&script(&new, "", 0)]).pre("Bash", LS);
    let Proposal { arguments: Some(arguments), carried: None } = &seen.decisions[0] else {
        panic!("{seen:?}")
    };
    assert_eq!(arguments.text(), r#"{"command":"pwd","timeout":5}"#);

    let seen = Project::codex("PreToolUse", &[&script(r#"{"decision":"approve"}"#, "", 0)]).pre("Bash", LS);
    assert_eq!(seen.decisions, [Proposal::pass()]);
    assert!(seen.failures[0].contains("decision: approve") && seen.results[0].decision == "approve");
}

// C-BRIDGE-1, C-PIPE-6
#[test]
fn feedback_takes_the_place_of_a_result() {
    let bash = |output: &str| Outcome::completed(Output::text(output));
    let stop = r#"{"continue":false,"stopReason":"enough"}"#;
    let project = Project::codex("PostToolUse", &[&script(stop, "", 0), &script("plain", "", 0)]);
    let seen = project.post("Bash", LS, bash("out"));
    assert_eq!(seen.decisions, [Review::block("enough"), Review::accept()]);
    assert_eq!((seen.halt, &*seen.results[0].decision), (None, "stop"));
}

// C-BRIDGE-1, C-TURN-7, C-TURN-8
#[test]
fn starts_prompts_and_stops() {
    let plain = script(" \nhello \n", "", 0);
    let stop = script(r#"{"continue":false,"stopReason":"not now"}"#, "", 0);
    let seen = Project::codex("SessionStart", &[&plain, &stop]).start(StartSource::Startup);
    assert_eq!((seen.context, seen.halt.as_deref()), (vec!["hello".to_owned()], Some("not now")));

    let seen = Project::codex("UserPromptSubmit", &[&plain, &stop]).submit("do it");
    assert_eq!(seen.decisions, [Submit::allow(), Submit::block("not now")]);
    assert_eq!((seen.context, seen.halt.as_deref()), (vec!["hello".to_owned()], Some("not now")));

    let more = script(r#"{"decision":"block","reason":" a < b & \"c\" "}"#, "", 0);
    let project = Project::codex("Stop", &[&more, &script("", "more", 2), &script("text", "", 0)]);
    let seen = project.stop(0, "done");
    let file = project.path().join(".codex/hooks.json");
    let run = |order: usize, text: &str| {
        Continue::again(format!(
            "<hook_prompt hook_run_id=\"stop:{order}:{}\">{text}</hook_prompt>",
            file.display()
        ))
    };
    assert_eq!(seen.decisions, [run(0, "a &lt; b &amp; \"c\""), run(1, "more"), Continue::Abstain]);
    assert!(seen.failures[0].contains("no JSON object"));
}
