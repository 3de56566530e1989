use super::*;
use Event::{
    Interrupt, PermissionRequest, PostCompact, PostToolUse, PreCompact, PreToolUse, SessionEnd, SessionStart,
    Stop, SubagentStart, SubagentStop, UserPromptSubmit,
};
use portcullis_process::Spawn;
use std::time::Duration;

/// What a run comes to, in short.
#[derive(Debug, PartialEq)]
enum Comes {
    /// To nothing.
    Nothing,
    /// To context, raw.
    Context(&'static str),
    /// To a denial or a block; with context.
    Block(&'static str, Option<&'static str>),
    Ask(Option<&'static str>),
    Allow,
    /// To other arguments.
    Rewrite(&'static str),
    /// The turn ends, for this reason; with context.
    Halt(Option<&'static str>, Option<&'static str>),
    /// It failed, and the record says so in a sentence with this in it.
    Failed(&'static str),
}
use Comes::*;

fn terms(event: Event, fidelity: Fidelity) -> Terms<'static> {
    Terms { event, command: "./hook.sh", fidelity, blocks_on_failure: None }
}

fn captured(bytes: &[u8]) -> Captured {
    Captured { bytes: bytes.into(), total: bytes.len() as u64 }
}

fn run(event: Event, fidelity: Fidelity, code: i32, stdout: &[u8], stderr: &str) -> Answer {
    ended(&terms(event, fidelity), Status::Code(code), &captured(stdout), &captured(stderr.as_bytes()))
}

fn check(answer: &Answer, comes: &Comes, what: &str) {
    let context = answer.context.as_deref();
    let is = |verdict: Option<Verdict>, context_is: Option<&str>| {
        assert_eq!((&answer.verdict, context), (&verdict, context_is), "{what}");
    };
    if !matches!(comes, Halt(..)) {
        assert_eq!(answer.halt, None, "{what}");
    }
    if !matches!(comes, Rewrite(_)) {
        assert_eq!(answer.rewrite, None, "{what}");
    }
    match comes {
        Nothing | Failed(_) => is(None, None),
        Context(text) => is(None, Some(text)),
        Block(reason, context) => is(Some(Verdict::Block((*reason).into())), *context),
        Ask(reason) => is(Some(Verdict::Ask(reason.map(str::to_owned))), None),
        Allow => is(Some(Verdict::Allow), None),
        Rewrite(input) => {
            assert_eq!(answer.rewrite.as_ref().map(Frozen::text), Some(*input), "{what}");
            is(None, None);
        }
        Halt(reason, context) => {
            assert_eq!(answer.halt, Some(reason.map(str::to_owned)), "{what}");
            is(None, *context);
        }
    }
    match (comes, &answer.failure) {
        (Failed(part), Some(why)) => assert!(why.contains(part), "{what}: {why}"),
        (Failed(_), None) | (_, Some(_)) => panic!("{what}: {answer:?}"),
        (_, None) => {}
    }
}

/// Both fidelities come to the same.
fn same(event: Event, code: i32, stdout: &str, stderr: &str, comes: &Comes) {
    for fidelity in [Fidelity::Exact, Fidelity::Strict] {
        let answer = run(event, fidelity, code, stdout.as_bytes(), stderr);
        check(&answer, comes, &format!("{event:?} {fidelity:?} {code} {stdout:?} {stderr:?}"));
    }
}

/// What fails with the client is honoured in strict.
fn stricter(event: Event, code: i32, stdout: &str, exact: &'static str, strict: &Comes) {
    let what = format!("{event:?} {code} {stdout:?}");
    check(&run(event, Fidelity::Exact, code, stdout.as_bytes(), " \n"), &Failed(exact), &what);
    check(&run(event, Fidelity::Strict, code, stdout.as_bytes(), " \n"), strict, &what);
}

fn specific(event: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!(r#"{{"hookSpecificOutput": {{"hookEventName": "{event}"{comma}{fields}}}}}"#)
}

// C-BRIDGE-1
#[test]
fn json_that_does_not_fit_voids_the_answer() {
    for event in [
        PreToolUse,
        PermissionRequest,
        PostToolUse,
        UserPromptSubmit,
        SessionStart,
        SubagentStart,
        Stop,
        SubagentStop,
        PreCompact,
        PostCompact,
        Interrupt,
    ] {
        for text in [
            r#"{"decision": bl"#,
            "{not json",
            "{\"x",
            "{}{}",
            "{\"a\":1,}",
            r#"{"systemMessage": NaN}"#,
            "{} trailing",
        ] {
            same(event, 0, text, "", &Failed("looks like JSON and is not"));
        }
        for text in [r#"{"bogus": 1}"#, r#"{"systemMessage": 5}"#, "[1,2]", "[]", r#"{"async": true}"#] {
            same(event, 0, text, "", &Failed("does not count"));
        }
        for text in ["", " \n\t ", "{}", " {} \n", r#"{"systemMessage": null}"#] {
            same(event, 0, text, "noise", &Nothing);
        }
    }
    for text in [
        r#"{"decision": "block", "reason": "r", "bogus": 1}"#,
        r#"{"decision": "block", "reason": "r", "continue": null}"#,
        r#"{"continue": "false"}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "x"}}"#,
        r#"{"hookSpecificOutput": {"hookEventName": "Nope", "permissionDecision": "deny", "permissionDecisionReason": "x"}}"#,
    ] {
        same(PreToolUse, 0, text, "", &Failed("its JSON output does not count"));
    }
    let cut = Captured { bytes: b"{\"decision\":\"block\",\"reason\":\"r\"}".into(), total: 1 << 30 };
    let answer = ended(&terms(PreToolUse, Fidelity::Strict), Status::Code(0), &cut, &captured(b""));
    check(&answer, &Failed("more than is kept"), "cut");
}

// C-BRIDGE-1
#[test]
fn what_is_no_json_is_context_a_failure_or_nothing() {
    let bom = "\u{feff}{\"continue\": false}";
    for text in ["plain text", "\"a string\"", "true", "5", "null", "note {\"a\":1}", bom] {
        for event in [SessionStart, SubagentStart, UserPromptSubmit] {
            let answer = run(event, Fidelity::Exact, 0, format!(" \n{text} \n").as_bytes(), "");
            assert_eq!(answer, Answer { context: Some(text.into()), ..Answer::default() });
        }
        for event in [PreToolUse, PermissionRequest, PostToolUse, PreCompact, PostCompact] {
            same(event, 0, text, "", &Nothing);
        }
        for event in [Stop, SubagentStop, Interrupt] {
            same(event, 0, text, "", &Failed("no JSON object"));
        }
        same(SessionEnd, 0, text, "", &Nothing);
    }
    for text in ["{not json", r#"{"decision":"block"}"#] {
        same(SessionEnd, 0, text, "", &Nothing);
    }
    same(UserPromptSubmit, 0, "  line1\n line2\n\n", "", &Context("line1\n line2"));
    same(PreToolUse, 0, "log line\n{\"decision\": \"block\", \"reason\": \"r\"}", "", &Nothing);
    let answer = run(UserPromptSubmit, Fidelity::Exact, 0, b"ok \xff\xfe end", "");
    check(&answer, &Context("ok \u{fffd}\u{fffd} end"), "bad bytes");
}

// C-BRIDGE-1
#[test]
fn json_counts_with_exit_code_0_alone() {
    let block = r#"{"decision": "block", "reason": "x"}"#;
    same(Stop, 3, block, "", &Failed("exit code 3"));
    same(PreToolUse, 1, "", "oops\nmore", &Failed("exit code 1: oops"));
    same(UserPromptSubmit, 1, "ignored?", "e", &Failed("exit code 1: e"));
    same(SessionStart, 1, "out", "", &Failed("exit code 1"));
    same(PreToolUse, 127, "", "", &Failed("exit code 127"));
    same(PreToolUse, 2, r#"{"decision": "approve"}"#, "no", &Block("no", None));
    same(
        PreToolUse,
        2,
        &specific("PreToolUse", r#""additionalContext": "c""#),
        " by exit 2\n",
        &Block("by exit 2", None),
    );
    let signal = ended(
        &terms(PreToolUse, Fidelity::Strict),
        Status::Signal(9),
        &captured(block.as_bytes()),
        &captured(b""),
    );
    check(&signal, &Failed("signal 9"), "signal");
}

// C-BRIDGE-1, C-BRIDGE-2
#[test]
fn exit_code_2_blocks_where_the_event_can_be_blocked_so() {
    for event in [PreToolUse, PermissionRequest, PostToolUse, UserPromptSubmit, Stop, SubagentStop] {
        same(event, 2, "", "  no way\nsecond line\n", &Block("no way\nsecond line", None));
        for stdout in ["", "on stdout", r#"{"decision": "approve"}"#] {
            let strict = match event {
                Stop | SubagentStop => Continue::GENERIC,
                PermissionRequest => NO_MESSAGE,
                _ => NO_REASON,
            };
            stricter(event, 2, stdout, "exit code 2 without a reason", &Block(strict, None));
        }
    }
    for event in [SessionStart, SubagentStart, PreCompact, PostCompact, Interrupt, SessionEnd] {
        same(event, 2, "", "text", &Failed("exit code 2: text"));
        same(event, 2, "", "", &Failed("exit code 2"));
    }
}

// C-BRIDGE-1
#[test]
fn pre_tool_use_takes_a_denial_a_rewrite_and_context() {
    let of = |fields: &str| specific("PreToolUse", fields);
    let deny = r#""permissionDecision": "deny", "permissionDecisionReason": " denied! ""#;
    let rewrite =
        r#""permissionDecision": "allow", "updatedInput": {"command": "echo 1", "n": 12345678901234567890}"#;
    same(PreToolUse, 0, &of(deny), "", &Block("denied!", None));
    same(PreToolUse, 0, &format!("\n\n  {}\n", of(deny)), "", &Block("denied!", None));
    same(PreToolUse, 0, &specific("PostToolUse", deny), "", &Block("denied!", None));
    same(
        PreToolUse,
        0,
        &of(&format!(r#"{deny}, "additionalContext": " c ""#)),
        "",
        &Block("denied!", Some(" c ")),
    );
    same(PreToolUse, 0, &of(r#""additionalContext": """#), "", &Context(""));
    same(PreToolUse, 0, &of(rewrite), "", &Rewrite(r#"{"command":"echo 1","n":12345678901234567890}"#));
    same(
        PreToolUse,
        0,
        &of(&format!(r#"{rewrite}, "permissionDecisionReason": "why""#)),
        "",
        &Rewrite(r#"{"command":"echo 1","n":12345678901234567890}"#),
    );
    for other in ["\"echo s\"", "[1]"] {
        let text = of(&format!(r#""permissionDecision": "allow", "updatedInput": {other}"#));
        assert_eq!(run(PreToolUse, Fidelity::Exact, 0, text.as_bytes(), "").rewrite.unwrap().text(), other);
    }
    for (text, comes) in [
        (r#"{"decision": "block", "reason": "old"}"#, Block("old", None)),
        (r#"{"decision":"block","reason":"first","reason":"second"}"#, Block("second", None)),
        (
            r#"{"decision": "block", "reason": "old", "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "c"}}"#,
            Block("old", Some("c")),
        ),
        // The new form, and what stands in the old one is not looked at.
        (
            r#"{"decision": "block", "reason": "old", "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"a":1}}}"#,
            Rewrite(r#"{"a":1}"#),
        ),
        (
            r#"{"decision": "block", "reason": "old", "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecisionReason": "x"}}"#,
            Failed("without `permissionDecision`"),
        ),
        (r#"{"systemMessage": "sys"}"#, Nothing),
        (r#"{"suppressOutput": false, "continue": true}"#, Nothing),
    ] {
        same(PreToolUse, 0, text, "", &comes);
    }
}

// C-BRIDGE-1
#[test]
fn pre_tool_use_loses_what_stands_beside_something_that_does_not_count() {
    let of = |fields: &str| specific("PreToolUse", fields);
    for (text, why) in [
        (of(r#""permissionDecision": "allow""#), "permissionDecision: allow"),
        (of(r#""permissionDecision": "allow", "updatedInput": null"#), "permissionDecision: allow"),
        (of(r#""updatedInput": {"command": "x"}"#), "without `permissionDecision: allow`"),
        (
            of(r#""permissionDecision": "deny", "permissionDecisionReason": "r", "updatedInput": {}"#),
            "without `permissionDecision: allow`",
        ),
        (of(r#""permissionDecisionReason": "x""#), "without `permissionDecision`"),
        (r#"{"decision": "approve"}"#.into(), "decision: approve"),
        (r#"{"reason": "r"}"#.into(), "without `decision`"),
        (r#"{"continue": false, "stopReason": "now"}"#.into(), "`continue: false`"),
        (r#"{"stopReason": "x"}"#.into(), "`stopReason`"),
        (r#"{"suppressOutput": true}"#.into(), "`suppressOutput: true`"),
        (r#"{"decision": "block", "reason": "r", "suppressOutput": true}"#.into(), "`suppressOutput: true`"),
    ] {
        same(PreToolUse, 0, &text, "", &Failed(why));
    }
    let text = r#"{"systemMessage": "w", "suppressOutput": true, "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "z", "additionalContext": "c"}}"#;
    let answer = run(PreToolUse, Fidelity::Strict, 0, text.as_bytes(), "");
    assert_eq!((answer.spoken, answer.message.as_deref(), answer.context), ("deny", Some("w"), None));
}

// C-BRIDGE-2
#[test]
fn strict_takes_a_denial_without_a_reason_and_ask() {
    let of = |fields: &str| specific("PreToolUse", fields);
    for text in [
        r#""permissionDecision": "deny""#,
        r#""permissionDecision": "deny", "permissionDecisionReason": " ""#,
    ] {
        stricter(PreToolUse, 0, &of(text), "without `permissionDecisionReason`", &Block(NO_REASON, None));
    }
    for (event, reason) in [
        (PreToolUse, NO_REASON),
        (PostToolUse, NO_REASON),
        (UserPromptSubmit, NO_REASON),
        (Stop, Continue::GENERIC),
        (SubagentStop, Continue::GENERIC),
    ] {
        for text in [
            r#"{"decision": "block"}"#,
            r#"{"decision": "block", "reason": "  "}"#,
            r#"{"decision": "block", "reason": null}"#,
        ] {
            stricter(
                event,
                0,
                text,
                "`decision: block` does not count without `reason`",
                &Block(reason, None),
            );
        }
    }
    let ask = |more: &str| of(&format!(r#""permissionDecision": "ask"{more}"#));
    stricter(
        PreToolUse,
        0,
        &ask(r#", "permissionDecisionReason": "hmm""#),
        "permissionDecision: ask",
        &Ask(Some("hmm")),
    );
    stricter(PreToolUse, 0, &ask(""), "permissionDecision: ask", &Ask(None));
    // The person is asked about the call as it is.
    let text = ask(r#", "updatedInput": {}"#);
    stricter(PreToolUse, 0, &text, "`updatedInput`", &Ask(None));
    assert_eq!(run(PreToolUse, Fidelity::Strict, 0, text.as_bytes(), "").unused, ["updatedInput"]);
    let answer = run(PreToolUse, Fidelity::Exact, 0, ask("").as_bytes(), "");
    assert_eq!(answer.spoken, "ask");
}

// C-BRIDGE-1
#[test]
fn a_question_is_allowed_or_denied_and_nothing_else() {
    let of = |decision: &str| specific("PermissionRequest", &format!(r#""decision": {{{decision}}}"#));
    for (text, comes) in [
        (of(r#""behavior": "allow""#), Allow),
        (specific("PreToolUse", r#""decision": {"behavior": "allow"}"#), Allow),
        (of(r#""behavior": "deny", "message": " says no ""#), Block("says no", None)),
        (of(r#""behavior": "deny""#), Block(NO_MESSAGE, None)),
        (
            of(r#""behavior": "deny", "message": null, "interrupt": false, "updatedInput": null"#),
            Block(NO_MESSAGE, None),
        ),
        (specific("PermissionRequest", ""), Nothing),
        (specific("PermissionRequest", r#""decision": null"#), Nothing),
        (of(r#""behavior": "ask""#), Failed("PermissionRequest takes allow, deny")),
        (of(r#""behavior": "allow", "updatedInput": {"command": "x"}"#), Failed("`updatedInput`")),
        (of(r#""behavior": "allow", "updatedPermissions": []"#), Failed("`updatedPermissions`")),
        (of(r#""behavior": "deny", "interrupt": true"#), Failed("`interrupt: true`")),
        (r#"{"continue": false}"#.into(), Failed("`continue: false`")),
        (r#"{"stopReason": "x"}"#.into(), Failed("`stopReason`")),
        (r#"{"suppressOutput": true}"#.into(), Failed("`suppressOutput: true`")),
        (r#"{"decision": "block", "reason": "r"}"#.into(), Failed("no field `decision`")),
    ] {
        same(PermissionRequest, 0, &text, "", &comes);
    }
}

// C-BRIDGE-1
#[test]
fn feedback_on_a_result_is_said_as_it_is_and_never_ends_the_turn() {
    for (text, comes) in [
        (r#"{"decision": "block", "reason": "  bad output  "}"#.into(), Block("  bad output  ", None)),
        (r#"{"decision": "block", "reason": "bad", "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "too"}}"#.into(), Block("bad", Some("too"))),
        (r#"{"continue": false, "stopReason": "halt now"}"#.into(), Block("halt now", None)),
        (r#"{"continue": false, "stopReason": "halt now", "reason": " for the model "}"#.into(), Block("for the model", None)),
        (r#"{"continue": false, "stopReason": " ", "reason": " "}"#.into(), Block(STOPPED, None)),
        (r#"{"continue": false}"#.into(), Block(STOPPED, None)),
        (r#"{"continue": false, "decision": "block"}"#.into(), Block(STOPPED, None)),
        (r#"{"stopReason": "x"}"#.into(), Nothing),
        (specific("PreToolUse", r#""additionalContext": "mm""#), Context("mm")),
        (r#"{"reason": "r"}"#.into(), Failed("without `decision`")),
        (r#"{"suppressOutput": true}"#.into(), Failed("`suppressOutput: true`")),
        (specific("PostToolUse", r#""updatedMCPToolOutput": {"content": []}"#), Failed("`updatedMCPToolOutput`")),
        (specific("PostToolUse", r#""updatedToolOutput": "x""#), Failed("updatedToolOutput")),
    ] {
        same(PostToolUse, 0, &text, "", &comes);
    }
    let stopped = run(PostToolUse, Fidelity::Exact, 0, br#"{"continue": false}"#, "");
    assert_eq!(stopped.spoken, "stop");
}

// C-BRIDGE-1
#[test]
fn prompts_and_starts_take_context_beside_what_ends_them() {
    let ctx = r#""hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "  c  "}"#;
    for (event, text, comes) in [
        (
            UserPromptSubmit,
            r#"{"decision": "block", "reason": "not allowed"}"#.into(),
            Block("not allowed", None),
        ),
        (
            UserPromptSubmit,
            format!(r#"{{"decision": "block", "reason": "no", {ctx}}}"#),
            Block("no", Some("  c  ")),
        ),
        (
            UserPromptSubmit,
            format!(r#"{{"continue": false, "stopReason": "sr", {ctx}}}"#),
            Halt(Some("sr"), Some("  c  ")),
        ),
        (
            UserPromptSubmit,
            format!(r#"{{"suppressOutput": true, "systemMessage": "s", {ctx}}}"#),
            Context("  c  "),
        ),
        (UserPromptSubmit, r#"{"reason": "r"}"#.into(), Nothing),
        (UserPromptSubmit, r#"{"decision": "approve"}"#.into(), Failed("takes block")),
        (SessionStart, format!("{{{ctx}}}"), Context("  c  ")),
        (
            SessionStart,
            format!(r#"{{"continue": false, "stopReason": "x", {ctx}}}"#),
            Halt(Some("x"), Some("  c  ")),
        ),
        (SessionStart, r#"{"continue": false, "suppressOutput": true}"#.into(), Halt(None, None)),
        (SessionStart, r#"{"decision": "block", "reason": "x"}"#.into(), Failed("no field `decision`")),
        (SubagentStart, format!(r#"{{"continue": false, "stopReason": "x", {ctx}}}"#), Context("  c  ")),
    ] {
        same(event, 0, &text, "", &comes);
    }
    let stopped = run(SubagentStart, Fidelity::Exact, 0, br#"{"continue": false}"#, "");
    assert_eq!((stopped.spoken, &*stopped.unused), ("stop", &["continue"][..]));
}

// C-BRIDGE-1
#[test]
fn a_turn_goes_on_for_a_reason_and_stops_whatever_else_is_said() {
    for event in [Stop, SubagentStop] {
        for (text, comes) in [
            (
                r#"{"decision": "block", "reason": "  keep going <please> & \"now\"  "}"#.into(),
                Block("keep going <please> & \"now\"", None),
            ),
            (r#"{"continue": false, "stopReason": "sr"}"#.into(), Halt(Some("sr"), None)),
            (
                r#"{"continue": false, "stopReason": "sr", "decision": "block", "reason": "r"}"#.into(),
                Halt(Some("sr"), None),
            ),
            (r#"{"continue": false, "decision": "block"}"#.into(), Halt(None, None)),
            (r#"{"reason": "r"}"#.into(), Nothing),
            (r#"{"systemMessage": "sm", "suppressOutput": true}"#.into(), Nothing),
            (specific("Stop", r#""additionalContext": "x""#), Failed("no field `hookSpecificOutput`")),
            (r#"{"decision": "block", "reason": "r", "extra": 1}"#.into(), Failed("no field `extra`")),
        ] {
            same(event, 0, &text, "", &comes);
        }
    }
    for event in [PreCompact, PostCompact] {
        same(event, 0, r#"{"continue": false, "stopReason": "no room"}"#, "", &Halt(Some("no room"), None));
        same(event, 0, r#"{"suppressOutput": true}"#, "", &Nothing);
        same(event, 0, r#"{"decision": "block", "reason": "r"}"#, "", &Failed("no field `decision`"));
    }
    same(Interrupt, 0, r#"{"continue": true}"#, "", &Failed("no field `continue`"));
    let told = run(Interrupt, Fidelity::Exact, 0, br#"{"systemMessage": "sm"}"#, "");
    assert_eq!(told, Answer { message: Some("sm".into()), ..Answer::default() });
}

// C-BRIDGE-3
#[test]
fn a_failure_blocks_where_it_was_set_to() {
    for (event, blocks) in [
        (PreToolUse, true),
        (PermissionRequest, true),
        (PostToolUse, true),
        (UserPromptSubmit, true),
        (PreCompact, true),
        (Stop, false),
        (SubagentStop, false),
        (Interrupt, false),
        (SessionEnd, false),
    ] {
        let terms = Terms { blocks_on_failure: Some("on_failure"), ..terms(event, Fidelity::Exact) };
        let failed = ended(&terms, Status::Code(1), &captured(b""), &captured(b"broke"));
        assert!(failed.failure.is_some());
        assert_eq!(
            matches!(failed.verdict, Some(Verdict::Block(reason)) if reason.contains("broke")),
            blocks,
            "{event:?}"
        );
    }
    // What the client loses is a failure, too.
    let terms = Terms { blocks_on_failure: Some("on_failure"), ..terms(PreToolUse, Fidelity::Exact) };
    for text in ["{x", r#"{"decision": "approve"}"#, r#"{"decision":"block","reason":"r","bogus":1}"#] {
        assert!(matches!(told(&terms, text, false).verdict, Some(Verdict::Block(_))), "{text}");
    }
}

// C-BRIDGE-7
#[tokio::test]
async fn what_ran_out_of_time_decides_nothing() {
    let deny = r#"echo '{"decision": "block", "reason": "late"}'; sleep 1000"#;
    for command in [deny, &format!("({deny}) &"), "echo no >&2; exec 1>&-; sleep 1000"] {
        let spawn = Spawn::shell("/bin/sh", "-c", command).deadline(Duration::from_millis(300));
        let ran = portcullis_process::run(
            spawn.held_pipe(portcullis_process::HeldPipe::Eof),
            std::future::pending(),
        )
        .await;
        check(&read(&terms(PreToolUse, Fidelity::Strict), &ran), &Failed("time limit"), command);
    }
    let spawn = Spawn::new("/no/such/shell").arg("-c");
    let ran = portcullis_process::run(spawn, std::future::pending()).await;
    check(&read(&terms(PreToolUse, Fidelity::Strict), &ran), &Failed("was not found"), "no shell");
}
