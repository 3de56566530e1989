use super::*;
use portcullis::At;
use portcullis::{
    DecisionRecorded, Draft, Failure, HandlerDecision, InputRequested, Outcome, Point, PromptQueued,
    QueueKind, RequestId, StepStart, Subject, ToolCall, ToolDispatched, TurnStart,
};

const PLAIN: Paint = Paint { colour: false, width: 80 };

/// What a timeline shows of these, in one text.
fn shown(bodies: Vec<(At, Body)>) -> String {
    let mut timeline = Timeline::new(PLAIN, "demo", "you");
    let records =
        bodies.into_iter().zip(0..).map(|((at, body), seq)| Draft::new(at, body).seal(Seq(seq), seq * 10));
    records.map(|record| timeline.show(&record)).collect()
}

fn call(position: u32) -> At {
    At::call(1, 1, CallPath::top(position))
}

fn message(calls: &[(&str, &str)]) -> (At, Body) {
    let blocks = calls.iter().map(|(name, arguments)| AssistantBlock::Call {
        id: "same".into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
    });
    let message = AssistantMessage { blocks: blocks.collect(), usage: None, finish: Finish::Calls };
    (At::step(1, 1), message.into())
}

fn sealed(name: &str, arguments: &str) -> Body {
    let text = portcullis::Frozen::parse(arguments).unwrap();
    let arguments = Arguments::Sealed { text };
    ToolCall { name: name.into(), id: "same".into(), arguments, idempotent: true, concurrency_safe: true }
        .into()
}

fn returned(text: &str, ms: u64) -> Body {
    ToolReturned { attempt: 1, outcome: Arc::new(Outcome::completed(text)), ms }.into()
}

fn result(text: &str) -> Body {
    ToolResult { outcome: Ended::Completed, content: text.into(), error: false }.into()
}

fn decided(at: &At, point: Point, decision: Decision, failure: Option<Failure>) -> Body {
    let subject = match &at.call {
        Some(call) => Subject::Call(call.clone()),
        None => Subject::Step(1),
    };
    let id = HandlerId::new("house", "rule");
    let (context, halt) = (Vec::new(), None);
    let made = HandlerDecision { id, order: 0, decision, context, halt, failure, ms: 3 };
    DecisionRecorded { point, subject, made }.into()
}

// Whoever answers in a person's stead is named, with what they answered.
#[test]
fn an_answer_in_a_persons_stead_is_shown_as_what_it_is() {
    let ask = || Decision::PreExecute(Gate::ask("sure?"));
    let answered = |answer: Permit| {
        shown(vec![
            message(&[("Bash", r#"{"command":"ls"}"#)]),
            (call(0), sealed("Bash", r#"{"command":"ls"}"#)),
            (call(0), decided(&call(0), Point::PreExecute, ask(), None)),
            (call(0), decided(&call(0), Point::Permission, Decision::Permission(answer), None)),
        ])
    };
    let allowed = answered(Permit::Allow);
    assert!(allowed.contains("✓ allowed  by house/rule (3 ms), in a person's stead"), "{allowed}");
    let denied = answered(Permit::deny("not on a Friday"));
    assert!(denied.contains("✗ denied   house/rule (3 ms): not on a Friday"), "{denied}");
    let open = answered(Permit::Abstain);
    assert!(!open.contains("allowed") && !open.contains("denied"), "{open}");
}

// C-TURN-5: bodies may overlap; each result is shown once, under its own call.
#[test]
fn overlapping_calls_are_told_apart() {
    let dispatched = || Body::from(ToolDispatched { attempt: 1 });
    let text = shown(vec![
        (At::turn(1), TurnStart { takes: vec![] }.into()),
        (At::step(1, 1), StepStart {}.into()),
        message(&[("Read", r#"{"file_path":"a"}"#), ("Read", r#"{"file_path":"b"}"#)]),
        (call(0), sealed("Read", r#"{"file_path":"a"}"#)),
        (call(0), dispatched()),
        (call(1), sealed("Read", r#"{"file_path":"b"}"#)),
        (call(1), dispatched()),
        (call(1), returned("of b", 1)),
        (call(0), returned("of a", 2)),
        (call(0), result("of a")),
        (call(1), result("of b")),
    ]);
    let expected = "
Read        a
Read        b
 ✓ done     1 ms: of b
Read        a
 ✓ done     2 ms: of a
";
    assert_eq!(text, expected);
}

#[test]
fn a_denied_call_says_why_once() {
    let deny = || Decision::PreExecute(Gate::deny("not here"));
    let (by, reason) = (HandlerId::new("house", "rule"), "not here".into());
    let text = shown(vec![
        message(&[("Bash", r#"{"command":"ls"}"#)]),
        (call(0), decided(&call(0), Point::PreExecute, deny(), None)),
        (
            call(0),
            ToolResult { outcome: Ended::HookDeny { by, reason }, content: "not here".into(), error: true }
                .into(),
        ),
    ]);
    assert_eq!(text, "Bash        ls\n ✗ denied   house/rule (3 ms): not here\n");
}

// C-PIPE-3: details of a failure stay in the log, and here they are shown.
#[test]
fn a_failed_handler_is_named_with_what_that_means() {
    let failure = Failure::Panic { message: "index out of bounds".into() };
    let deny = Decision::PreExecute(Gate::deny("A policy check failed"));
    let text = shown(vec![
        message(&[("Bash", r#"{"command":"ls"}"#)]),
        (call(0), decided(&call(0), Point::PreExecute, deny, Some(failure))),
    ]);
    assert_eq!(
        text,
        "Bash        ls\n ! failed   house/rule (3 ms): panicked: index out of bounds; denies\n"
    );
}

#[test]
fn a_result_that_was_replaced_is_shown_as_the_model_reads_it() {
    let replace = Decision::PostExecute(Review::replace("[redacted]"));
    let text = shown(vec![
        message(&[("Bash", r#"{"command":"env"}"#)]),
        (call(0), returned("TOKEN=1", 1)),
        (call(0), decided(&call(0), Point::PostExecute, replace, None)),
        (call(0), result("[redacted]")),
    ]);
    let expected = "Bash        env
 ✓ done     1 ms: TOKEN=1
 ~ changed  house/rule (3 ms): what the model reads
 ~ reads    [redacted]
";
    assert_eq!(text, expected);
}

#[test]
fn a_call_that_a_tool_makes_has_its_own_heading() {
    let nested = At::call(1, 1, CallPath::top(0).nested(0));
    let text = shown(vec![
        message(&[("Task", r#"{"goal":"look"}"#)]),
        (call(0), sealed("Task", r#"{"goal":"look"}"#)),
        (nested.clone(), sealed("Read", r#"{"file_path":"a"}"#)),
        (nested.clone(), returned("of a", 1)),
        (nested, result("of a")),
        (call(0), returned("seen", 2)),
    ]);
    let expected = r#"Task        {"goal":"look"}
Read        (within the call above) a
 ✓ done     1 ms: of a
Task        {"goal":"look"}
 ✓ done     2 ms: seen
"#;
    assert_eq!(text, expected);
}

#[test]
fn names_and_texts_cannot_draw_lines_of_their_own() {
    let text = shown(vec![
        message(&[("Bash\n ✓ allowed", r#"{"command":"a\n ✓ done"}"#)]),
        (call(0), returned("", 1)),
    ]);
    assert!(text.lines().filter(|line| line.starts_with(" ✓")).count() == 1, "{text}");
    assert!(text.contains("             ✓ done"), "a text stays beside its label:\n{text}");
}

#[test]
fn questions_and_answers() {
    let request = RequestId::from_text("demo:1/1/0");
    let asked = InputRequested {
        request: request.clone(),
        digest: "".into(),
        reasons: vec!["which branch?".into()],
        by: vec![],
        expires: None,
        deferred: false,
    };
    let resolved = InputResolved {
        request,
        resolution: Resolution::Refused,
        text: Some("none".into()),
        by: Source::User,
    };
    let text = shown(vec![
        message(&[("Bash", r#"{"command":"git push"}"#)]),
        (call(0), asked.into()),
        (call(0), resolved.into()),
    ]);
    assert_eq!(text, "Bash        git push\n ? asks     which branch?\n ✗ refused  by you: none\n");
}

// A call of a body that was deferred and taken up again is sealed twice, and is one call.
#[test]
fn a_call_is_counted_once() {
    let nested = At::call(1, 1, CallPath::top(0).nested(0));
    let end = TurnEnd { reason: EndReason::Completed, dropped: vec![] };
    let queued = PromptQueued { kind: QueueKind::Prompt, content: "go".into(), source: Source::User };
    let text = shown(vec![
        (At::session(), queued.into()),
        (At::turn(1), TurnStart { takes: vec![Seq(0)] }.into()),
        message(&[("Bash", r#"{"command":"ls"}"#)]),
        (call(0), sealed("Bash", r#"{"command":"ls"}"#)),
        (nested.clone(), sealed("Echo", r#"{"text":"x"}"#)),
        (nested, sealed("Echo", r#"{"text":"x"}"#)),
        (At::turn(1), end.into()),
    ]);
    assert!(text.contains(" 2 calls "), "{text}");
}

// C-BRIDGE-9: who defers a call, and that it was taken up again.
#[test]
fn a_deferred_call_is_shown_as_what_it_is() {
    let request = RequestId::from_text("demo:1/1/0");
    let asked = InputRequested {
        request: request.clone(),
        digest: "".into(),
        reasons: vec!["not yet".into()],
        by: vec![HandlerId::new("house", "rule")],
        expires: None,
        deferred: true,
    };
    let resumed = InputResolved { request, resolution: Resolution::Resumed, text: None, by: Source::User };
    let gate = Decision::PreExecute(Gate::defer("not yet"));
    let call = || sealed("Bash", r#"{"command":"ls"}"#);
    let text = shown(vec![
        message(&[("Bash", r#"{"command":"ls"}"#)]),
        (self::call(0), call()),
        (self::call(0), decided(&self::call(0), Point::PreExecute, gate, None)),
        (self::call(0), asked.into()),
        (self::call(0), resumed.into()),
        (self::call(0), call()),
    ]);
    let lines = " ‖ deferred house/rule (3 ms): not yet\n ↻ resumed  by you: decided anew\n";
    assert_eq!(text, format!("Bash        ls\n{lines}"));
}

#[test]
fn each_end_has_its_name_first_and_says_why() {
    let by = || HandlerId::new("house", "rule");
    let ends = [
        (EndReason::Completed, ""),
        (EndReason::Rejected { reason: "no".into() }, "no"),
        (EndReason::Halted { by: by(), reason: "enough".into() }, "house/rule: enough"),
        (EndReason::MaxTokens, "output limit"),
        (EndReason::ContinuationCap { limit: 8 }, "forced on 8 times"),
        (EndReason::Error { code: "model_cut".into(), message: "cut".into() }, "cut (model_cut)"),
        (EndReason::Interrupted, "restart"),
        (EndReason::Unknown, "later version"),
    ];
    for (reason, why) in ends {
        let name = reason.name();
        let end = TurnEnd { reason, dropped: vec![] };
        let text = shown(vec![
            (
                At::session(),
                PromptQueued { kind: QueueKind::Prompt, content: "go".into(), source: Source::User }.into(),
            ),
            (At::turn(1), TurnStart { takes: vec![Seq(0)] }.into()),
            (At::turn(1), end.into()),
        ]);
        let mut lines = text.lines().skip_while(|line| !line.starts_with(name));
        assert!(lines.next().is_some_and(|line| line.contains(why)), "{name}:\n{text}");
        assert!(text.contains("turn 1 · 0 steps · 0 calls · 2 records · 10 ms"), "{text}");
    }
}
