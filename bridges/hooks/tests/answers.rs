//! What a hook may answer, on each event, and what follows: the whole output codec through real processes.

mod support;

use portcullis_hooks::{Fidelity, OnFailure};
use portcullis_runtime::*;
use support::{Project, gate};

/// A hook that prints these texts and exits.
fn script(stdout: &str, stderr: &str, exit: i32) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    format!("cat >/dev/null; printf %s {}; printf %s {} >&2; exit {exit}", quote(stdout), quote(stderr))
}

fn specific(event: &str, fields: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"{event}",{fields}}}}}"#)
}

/// `[C]: ` of a command.
fn quoted(command: &str, text: &str) -> String {
    format!("[{command}]: {text}")
}

const BASH: &str = r#"{"command":"rm -rf build"}"#;

struct Pre {
    stdout: String,
    stderr: &'static str,
    exit: i32,
    gate: &'static str,
    /// The whole text after `PreToolUse:Bash hook error: `, with `{C}` for the prefix of exit code blocks.
    reason: Option<&'static str>,
    spoken: &'static str,
    fails: bool,
}

fn pre(
    stdout: impl Into<String>,
    stderr: &'static str,
    exit: i32,
    gate: &'static str,
    spoken: &'static str,
) -> Pre {
    Pre { stdout: stdout.into(), stderr, exit, gate, reason: None, spoken, fails: false }
}

impl Pre {
    fn reason(mut self, reason: &'static str) -> Pre {
        self.reason = Some(reason);
        self
    }
    fn fails(mut self) -> Pre {
        self.fails = true;
        self
    }
}

// C-BRIDGE-1, C-LOG-9
#[test]
fn pre_tool_use() {
    let hso = |fields: &str| specific("PreToolUse", fields);
    let deny = || hso(r#""permissionDecision":"deny","permissionDecisionReason":"no""#);
    let table = [
        pre("", "", 0, "none", "none"),
        pre("{}", "", 0, "none", "none"),
        pre("plain words", "", 0, "none", "none"),
        pre("[1]", "", 0, "none", "none"),
        pre("\"text\"", "", 0, "none", "none"),
        pre("7", "", 0, "none", "none"),
        // Decisions, on any exit code.
        pre(deny(), "", 0, "deny", "deny").reason("no"),
        pre(deny(), "E", 1, "deny", "deny").reason("no"),
        pre(deny(), "E", 2, "deny", "deny").reason("no"),
        pre(hso(r#""permissionDecision":"deny""#), "", 0, "deny", "deny").reason("Blocked by hook"),
        pre(hso(r#""permissionDecision":"deny","permissionDecisionReason":"""#), "", 0, "deny", "deny").reason("Blocked by hook"),
        pre(hso(r#""permissionDecision":"allow""#), "", 0, "allow", "allow"),
        pre(hso(r#""permissionDecision":"ask""#), "", 0, "ask", "ask"),
        pre(hso(r#""permissionDecision":"defer""#), "", 0, "defer", "defer"),
        pre(r#"{"decision":"block","reason":"old"}"#, "", 0, "deny", "block").reason("old"),
        pre(r#"{"decision":"approve"}"#, "", 0, "allow", "approve"),
        // Of two forms in one output the stricter counts.
        pre(r#"{"decision":"approve","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"new"}}"#, "", 0, "deny", "deny").reason("new"),
        pre(r#"{"decision":"block","reason":"old","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#, "", 0, "deny", "block").reason("old"),
        // Around the object: white space and a byte order mark, nothing else.
        pre(format!("\u{feff}\r\n {}\r\n\r\n", deny()), "", 0, "deny", "deny").reason("no"),
        pre(format!("banner\n{}", deny()), "", 0, "none", "none"),
        pre(format!("{} done", deny()), "", 0, "none", "none"),
        pre(format!("{}\n{}", deny(), deny()), "", 0, "none", "none").fails(),
        pre("{\"a\":", "", 0, "none", "none"),
        // JavaScript's reading.
        pre(hso(r#""permissionDecision":"allow","permissionDecision":"deny","permissionDecisionReason":"last""#), "", 0, "deny", "deny").reason("last"),
        pre(hso(r#""permissionDecision":"deny","permissionDecisionReason":"cut \ud83d""#), "", 0, "deny", "deny").reason("cut \u{fffd}"),
        // Unknown keys are nothing; one wrong type is everything.
        pre(r#"{"x":1,"hookSpecificOutput":{"hookEventName":"PreToolUse","y":null,"permissionDecision":"deny","permissionDecisionReason":"k"}}"#, "", 0, "deny", "deny").reason("k"),
        pre(r#"{"continue":"no","decision":"block"}"#, "", 0, "none", "none").fails(),
        pre(r#"{"continue":null,"decision":"block","reason":"r"}"#, "", 0, "none", "none").fails(),
        pre(r#"{"hookSpecificOutput":null,"decision":"block","reason":"r"}"#, "", 0, "none", "none").fails(),
        pre(r#"{"decision":"maybe"}"#, "", 0, "none", "none").fails(),
        pre(r#"{"decision":"block","reason":5}"#, "", 0, "none", "none").fails(),
        pre(hso(r#""permissionDecision":"maybe""#), "", 0, "none", "none").fails(),
        pre(hso(r#""permissionDecision":"deny","permissionDecisionReason":null"#), "", 0, "none", "none").fails(),
        pre(hso(r#""permissionDecision":"allow","updatedInput":"ls""#), "", 0, "none", "none").fails(),
        pre(r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#, "", 0, "none", "none").fails(),
        pre(specific("PostToolUse", r#""permissionDecision":"deny""#), "", 0, "none", "none").fails(),
        pre(r#"{"permissionDecision":"deny","additionalContext":"x"}"#, "", 0, "none", "none"),
        // Exit code 2.
        pre("", "no\nway\n", 2, "deny", "block").reason("{C}no\nway\n"),
        pre("", "", 2, "deny", "block").reason("{C}No stderr output"),
        pre("said on stdout", " \n", 2, "deny", "block").reason("{C}No stderr output"),
        pre(hso(r#""permissionDecision":"allow""#), "E", 2, "deny", "block").reason("{C}E"),
        pre(hso(r#""permissionDecision":"ask""#), "E", 2, "deny", "block").reason("{C}E"),
        pre(r#"{"continue":"x"}"#, "E", 2, "deny", "block").reason("{C}E"),
        // Any other failure decides nothing.
        pre("", "broken", 1, "none", "none").fails(),
        pre("plain", "", 3, "none", "none").fails(),
        pre(r#"{"decision":7}"#, "", 1, "none", "none").fails(),
    ];
    for row in table {
        let command = script(&row.stdout, row.stderr, row.exit);
        let seen = Project::hook("PreToolUse", &command).pre("Bash", BASH);
        let what = format!("{:?} {:?} {}", row.stdout, row.stderr, row.exit);
        let (word, reason) = gate(&seen.decisions[0]);
        assert_eq!(word, row.gate, "{what}");
        if let Some(expected) = row.reason {
            let expected = expected.replace("{C}", &quoted(&command, ""));
            assert_eq!(reason, Some(&*format!("PreToolUse:Bash hook error: {expected}")), "{what}");
        }
        let result = &seen.results[0];
        assert_eq!((&*result.decision, result.exit), (row.spoken, Some(row.exit)), "{what}");
        assert_eq!(
            (result.error.is_some(), seen.failures.len()),
            (row.fails, usize::from(row.fails)),
            "{what}"
        );
        assert!(seen.context.is_empty() && seen.halt.is_none(), "{what}");
        assert_eq!(result.stderr, row.stderr, "{what}");
    }
}

#[test]
fn an_ask_says_why_or_who() {
    let said = |fields: &str| {
        let seen =
            Project::hook("PreToolUse", &script(&specific("PreToolUse", fields), "", 0)).pre("Bash", BASH);
        gate(&seen.decisions[0]).1.map(str::to_owned)
    };
    let ask = |fields: &str| said(fields).unwrap();
    assert_eq!(
        ask(r#""permissionDecision":"ask","permissionDecisionReason":"check with me""#),
        "check with me"
    );
    assert!(ask(r#""permissionDecision":"ask""#).contains("PreToolUse:Bash"));
    // C-BRIDGE-9: a defer says why only if the hook does.
    let later = r#""permissionDecision":"defer","permissionDecisionReason":"later""#;
    assert_eq!(said(later).as_deref(), Some("later"));
    assert_eq!(said(r#""permissionDecision":"defer""#), None);
}

// C-PIPE-9
#[test]
fn updated_input_replaces_the_arguments() {
    let rewrite = |fields: &str, fidelity| {
        let command = script(&specific("PreToolUse", fields), "", 0);
        let seen = Project::hook("PreToolUse", &command).options(|o| o.fidelity(fidelity)).pre("Bash", BASH);
        let decision = &seen.decisions[0];
        (gate(decision).0, decision.arguments.as_ref().map(|new| new.text().to_owned()))
    };
    let new = |text: &str| Some(text.to_owned());
    for (fields, gate, arguments) in [
        (r#""updatedInput":{"command":"ls"}"#, "none", new(r#"{"command":"ls"}"#)),
        (
            r#""permissionDecision":"allow","updatedInput":{"command":"ls"}"#,
            "allow",
            new(r#"{"command":"ls"}"#),
        ),
        (r#""permissionDecision":"ask","updatedInput":{"command":"ls"}"#, "ask", new(r#"{"command":"ls"}"#)),
        (r#""permissionDecision":"deny","updatedInput":{"command":"ls"}"#, "deny", None),
        (
            r#""updatedInput":{"command":"a","x":1,"command":"b \ud83d"}"#,
            "none",
            new("{\"command\":\"b \u{fffd}\",\"x\":1}"),
        ),
        (r#""updatedInput":{"id":9007199254740993}"#, "none", new(r#"{"id":9007199254740993}"#)),
        // What JavaScript would read as infinity is no argument: then the call must not run as it was.
        (r#""updatedInput":{"n":1e999}"#, "deny", None),
    ] {
        assert_eq!(rewrite(fields, Fidelity::Strict), (gate, arguments), "{fields}");
    }
    let exact = rewrite(r#""updatedInput":{"b":1.0,"1":9007199254740993}"#, Fidelity::Exact);
    assert_eq!(exact, ("none", new(r#"{"1":9007199254740992,"b":1}"#)));
}

// C-TURN-8
#[test]
fn a_halt_stands_beside_the_decision() {
    let stop = r#""continue":false,"stopReason":"enough""#;
    let seen = Project::hook("PreToolUse", &script(&format!("{{{stop}}}"), "", 0)).pre("Bash", BASH);
    assert_eq!((gate(&seen.decisions[0]).0, seen.halt.as_deref()), ("none", Some("enough")));
    assert_eq!(seen.results[0].decision, "stop");
    let both = format!(r#"{{{stop},"decision":"block","reason":"r"}}"#);
    let seen = Project::hook("PreToolUse", &script(&both, "", 0)).pre("Bash", BASH);
    assert_eq!((gate(&seen.decisions[0]).0, seen.halt.as_deref()), ("deny", Some("enough")));
    let seen =
        Project::hook("PostToolUse", &script(&both, "", 0)).post("Bash", BASH, Outcome::completed("x"));
    assert_eq!((seen.halt.as_deref(), seen.context.len()), (Some("enough"), 1));
    let seen = Project::hook("UserPromptSubmit", &script(&format!("{{{stop}}}"), "", 0)).submit("hi");
    assert_eq!((&seen.decisions[0], seen.halt.as_deref()), (&Submit::allow(), Some("enough")));
    // A halt of a Stop hook wins over its own block.
    let seen = Project::hook("Stop", &script(&both, "", 0)).stop(0, "");
    assert_eq!((&seen.decisions[0], seen.halt.as_deref()), (&Continue::Abstain, Some("enough")));
    // A reason is always there.
    let seen = Project::hook("PreToolUse", &script(r#"{"continue":false}"#, "", 0)).pre("Bash", BASH);
    assert_eq!(seen.halt.as_deref(), Some("Stopped by a PreToolUse hook."));
    // Two events on which the client ignores it.
    assert_eq!(Project::hook("SessionStart", &script(&both, "", 0)).start(StartSource::Startup).halt, None);
    let failed = Project::hook("PostToolUseFailure", &script(&format!("{{{stop}}}"), "", 0));
    assert_eq!(failed.post("Bash", BASH, Outcome::tool_error("x")).halt, None);
}

#[test]
fn context_of_a_tool_hook() {
    let context = |event: &str| script(&specific(event, r#""additionalContext":"line 1\nline 2 ""#), "", 0);
    let seen = Project::hook("PreToolUse", &context("PreToolUse")).pre("Bash", BASH);
    assert_eq!(seen.context, ["PreToolUse:Bash hook additional context: line 1\nline 2 "]);
    let seen =
        Project::hook("PostToolUse", &context("PostToolUse")).post("Write", BASH, Outcome::completed("x"));
    assert_eq!(seen.context, ["PostToolUse:Write hook additional context: line 1\nline 2 "]);
    let failed = Project::hook("PostToolUseFailure", &context("PostToolUseFailure"));
    let seen = failed.post("Bash", BASH, Outcome::tool_error("x"));
    assert_eq!(seen.context, ["PostToolUseFailure:Bash hook additional context: line 1\nline 2 "]);
    // A deny keeps its context; an empty one is none.
    let deny = specific("PreToolUse", r#""permissionDecision":"deny","additionalContext":"why""#);
    assert_eq!(Project::hook("PreToolUse", &script(&deny, "", 0)).pre("Bash", BASH).context.len(), 1);
    let empty = specific("PreToolUse", r#""additionalContext":"""#);
    assert!(Project::hook("PreToolUse", &script(&empty, "", 0)).pre("Bash", BASH).context.is_empty());
}

// C-PIPE-6
#[test]
fn feedback_after_a_tool_stands_beside_the_result() {
    for (event, outcome) in
        [("PostToolUse", Outcome::completed("x")), ("PostToolUseFailure", Outcome::tool_error("x"))]
    {
        for (stdout, stderr, exit, text) in [
            (r#"{"decision":"block","reason":"R"}"#, "", 0, "R"),
            (r#"{"decision":"block"}"#, "", 0, "Blocked by hook"),
            ("ignored", "E\n", 2, "{C}E\n"),
            ("", "", 2, "{C}No stderr output"),
        ] {
            let command = script(stdout, stderr, exit);
            let seen = Project::hook(event, &command).post("Bash", BASH, outcome.clone());
            let text = text.replace("{C}", &quoted(&command, ""));
            let expected = format!("{event}:Bash hook blocking error from command: \"{command}\": {text}");
            assert_eq!(seen.context, [expected]);
            assert_eq!(seen.decisions, [Review::accept()]);
            assert_eq!(seen.results[0].decision, "block");
        }
        for (stdout, exit) in [("plain", 0), (r#"{"decision":"approve"}"#, 0), ("", 1)] {
            let seen = Project::hook(event, &script(stdout, "", exit)).post("Bash", BASH, outcome.clone());
            assert!(seen.context.is_empty() && seen.decisions == [Review::accept()]);
        }
    }
}

#[test]
fn a_result_is_replaced_in_its_own_shape_only() {
    let value = Frozen::parse(r#"{"stdout":"old","stderr":"","interrupted":false}"#).unwrap();
    let bash = Outcome::completed(Output::text("old").with_value(value));
    let new = r#"{"stdout":"new","stderr":"warn","interrupted":false,"isImage":false}"#;
    for (tool, outcome, fields, content) in [
        ("Bash", &bash, format!(r#""updatedToolOutput":{new}"#), Some("new\nwarn")),
        ("Bash", &bash, r#""updatedToolOutput":"text""#.into(), None),
        ("Bash", &bash, r#""updatedToolOutput":{"foo":1}"#.into(), None),
        ("Bash", &bash, r#""updatedMCPToolOutput":"text""#.into(), None),
        (
            "mcp__s__t",
            &Outcome::completed("o"),
            r#""updatedMCPToolOutput":[{"type":"text","text":"new"}]"#.into(),
            Some("new"),
        ),
        ("mcp__s__t", &Outcome::completed("o"), r#""updatedToolOutput":"new""#.into(), Some("new")),
        ("Note", &Outcome::completed("o"), r#""updatedToolOutput":"new""#.into(), Some("new")),
    ] {
        let project = Project::hook("PostToolUse", &script(&specific("PostToolUse", &fields), "", 0));
        let seen = project.post(tool, "{}", outcome.clone());
        let expected = content.map_or(Review::accept(), Review::replace);
        assert_eq!(seen.decisions, [expected], "{tool} {fields}");
        // What is not acted on is named.
        assert_eq!(seen.results[0].unused.is_empty(), content.is_some(), "{tool} {fields}");
    }
}

#[test]
fn context_of_a_start() {
    for (stdout, exit, context) in [
        ("  line1\nline2\n", 0, Some("SessionStart:startup hook success: line1\nline2")),
        (
            &specific("SessionStart", r#""additionalContext":"ctx ""#),
            0,
            Some("SessionStart hook additional context: ctx "),
        ),
        ("text", 2, None),
        ("text", 1, None),
        (" \n", 0, None),
        (r#"{"decision":"block","reason":"r"}"#, 0, None),
        (
            r#"{"continue":false,"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"c"}}"#,
            0,
            Some("SessionStart hook additional context: c"),
        ),
    ] {
        let seen = Project::hook("SessionStart", &script(stdout, "", exit)).start(StartSource::Startup);
        assert_eq!(seen.context.first().map(String::as_str), context, "{stdout}");
        assert!(seen.context.len() < 2);
    }
    let fields = r#""initialUserMessage":"go","sessionTitle":"t""#;
    let seen = Project::hook("SessionStart", &script(&specific("SessionStart", fields), "", 0))
        .start(StartSource::Resume);
    assert_eq!(seen.results[0].unused, ["initialUserMessage", "sessionTitle"]);
}

// C-TURN-2
#[test]
fn a_prompt_is_blocked_or_gets_context() {
    let hso = specific("UserPromptSubmit", r#""additionalContext":"L1\nL2\n""#);
    let block = |text: &str| Submit::block(text);
    for (stdout, stderr, exit, decision, context) in [
        ("", "", 0, Submit::allow(), None),
        ("plain \n", "", 0, Submit::allow(), Some("UserPromptSubmit hook success: plain")),
        ("[\"a\"]", "", 0, Submit::allow(), Some("UserPromptSubmit hook success: [\"a\"]")),
        (
            "{\"decision\": \"block\", ",
            "",
            0,
            Submit::allow(),
            Some("UserPromptSubmit hook success: {\"decision\": \"block\","),
        ),
        (&*hso, "", 0, Submit::allow(), Some("UserPromptSubmit hook additional context: L1\nL2\n")),
        (r#"{"decision":"block","reason":"secret"}"#, "", 0, block("secret"), None),
        (r#"{"decision":"block"}"#, "", 0, block("Blocked by hook"), None),
        (r#"{"decision":"approve","reason":"x"}"#, "", 0, Submit::allow(), None),
        (r#"{"reason":"x"}"#, "", 0, Submit::allow(), None),
        ("text", "E\n", 2, block("{C}E\n"), None),
        (&*hso, "", 2, block("{C}No stderr output"), None),
        ("text", "E", 1, Submit::allow(), None),
    ] {
        let command = script(stdout, stderr, exit);
        let seen = Project::hook("UserPromptSubmit", &command).submit("hi");
        let decision = match decision {
            Submit::Block { reason } => block(&reason.as_str().replace("{C}", &quoted(&command, ""))),
            allow => allow,
        };
        assert_eq!(seen.decisions, [decision], "{stdout}");
        assert_eq!(seen.context.first().map(String::as_str), context, "{stdout}");
    }
}

// C-TURN-7
#[test]
fn a_stop_is_refused_with_what_is_left_to_do() {
    let hso = specific("Stop", r#""additionalContext":"lint first""#);
    for (stdout, stderr, exit, text) in [
        ("", "", 0, None),
        ("plain", "", 0, None),
        ("", "E", 1, None),
        (r#"{"decision":"approve"}"#, "", 0, None),
        (r#"{"decision":"block","reason":"tests fail"}"#, "", 0, Some("Stop hook feedback:\ntests fail")),
        (r#"{"decision":"block","reason":""}"#, "", 0, Some("Stop hook feedback:\nBlocked by hook")),
        (r#"{"decision":"block","reason":"json"}"#, "E", 2, Some("Stop hook feedback:\njson")),
        (r#"{"decision":"block","reason":"json"}"#, "E", 1, Some("Stop hook feedback:\njson")),
        ("", "E\n", 2, Some("Stop hook feedback:\n{C}E\n")),
        ("", "", 2, Some("Stop hook feedback:\n{C}No stderr output")),
        (&*hso, "", 0, Some("Stop hook additional context: lint first")),
    ] {
        let command = script(stdout, stderr, exit);
        let seen = Project::hook("Stop", &command).stop(0, "done");
        let expected = match text {
            None => Continue::Abstain,
            Some(text) => Continue::again(text.replace("{C}", &quoted(&command, ""))),
        };
        assert_eq!(seen.decisions, [expected], "{stdout} {exit}");
        assert!(seen.context.is_empty());
    }
}

// C-BRIDGE-3
#[test]
fn a_failure_blocks_where_it_was_told_to() {
    let host = |project: Project| project.options(|o| o.on_failure(OnFailure::Block));
    let own = r#","onFailure":"block""#;
    for (stdout, stderr, exit, detail) in [
        ("", "E1\n", 1, Some("E1")),
        ("plain", "", 3, Some("")),
        (
            r#"{"continue":"x"}"#,
            "",
            0,
            Some("its JSON output does not count: `continue` is a string, not a boolean"),
        ),
        ("", "", 0, None),
        ("plain", "", 0, None),
        ("{\"a\":", "", 0, None),
    ] {
        let command = script(stdout, stderr, exit);
        for (setting, project) in [
            ("onFailure", Project::with("PreToolUse", &command, own)),
            ("on_failure", host(Project::hook("PreToolUse", &command))),
        ] {
            let seen = project.pre("Bash", BASH);
            let (word, reason) = gate(&seen.decisions[0]);
            let Some(detail) = detail else {
                assert_eq!(word, "none");
                continue;
            };
            let head = quoted(&command, &format!("failed; blocking because {setting} is \"block\""));
            let expected = format!("PreToolUse:Bash hook error: {head}\n{detail}");
            assert_eq!((word, reason), ("deny", Some(expected.trim_end())));
            assert!(seen.results[0].error.is_some());
            // The model is to read this reason, so the decision stands for itself.
            assert!(seen.failures.is_empty());
        }
    }
    let fails = script("", "E", 1);
    let seen = host(Project::hook("UserPromptSubmit", &fails)).submit("hi");
    assert!(matches!(&seen.decisions[0], Submit::Block { .. }));
    let seen = host(Project::hook("Stop", &fails)).stop(0, "");
    assert_eq!(seen.decisions, [Continue::Abstain]);
}

#[test]
fn a_message_for_the_user_stays_out_of_the_conversation() {
    let seen =
        Project::hook("Stop", &script(r#"{"systemMessage":"note this","suppressOutput":true}"#, "", 0))
            .stop(0, "");
    assert_eq!(seen.results[0].message.as_deref(), Some("note this"));
    assert!(seen.context.is_empty() && seen.decisions == [Continue::Abstain]);
}

#[test]
fn a_long_context_is_kept_in_a_file() {
    let long = "y".repeat(12_000);
    let project = Project::hook("UserPromptSubmit", &script(&long, "", 0));
    let context = &project.submit("hi").context[0];
    assert!(
        context.starts_with("UserPromptSubmit hook success: <persisted-output>\n") && context.len() < 3_000
    );
    let file = context.lines().find_map(|line| line.split_once("All of it is in: ")).unwrap().1;
    assert_eq!(std::fs::read_to_string(file).unwrap(), long);
    // Reasons are never cut.
    let project = Project::hook("PreToolUse", &script("", &long, 2));
    assert!(gate(&project.pre("Bash", BASH).decisions[0]).1.unwrap().ends_with(&long));
}

// C-LOG-9
#[test]
fn the_records_name_the_hook() {
    let project = Project::new(
        r#"{"hooks":{"PreToolUse":[{"matcher":"Bash|Write","hooks":[{"type":"command","command":"printf %3000s x >&2; exit 1"}]}]}}"#,
    );
    let seen = project.pre("Bash", BASH);
    let invoked = &seen.invoked[0];
    assert_eq!((&*invoked.dialect, &*invoked.event), ("claude", "PreToolUse"));
    assert_eq!(invoked.matcher.as_deref(), Some("Bash|Write"));
    assert!(
        invoked.command.as_deref().unwrap().starts_with("printf")
            && invoked.handler.starts_with("PreToolUse:Bash|Write#")
    );
    assert_eq!(seen.results[0].stderr.len(), 2048);
    assert!(!seen.results[0].timed_out && !seen.results[0].cut);
}
