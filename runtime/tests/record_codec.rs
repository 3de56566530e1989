//! The log's text: each type's exact line, and what does not read as one.

mod common;

use common::{calls, config, created, decided, handler, header, own, prompt, says, sealed, session};
use portcullis_runtime::*;
use std::sync::Arc;

fn frozen(text: &str) -> Frozen {
    Frozen::parse(text).expect("JSON")
}

fn in_call() -> At {
    At::call(1, 2, CallPath::top(0))
}

fn request() -> RequestId {
    RequestId::of(&session(), &CallKey { turn: 1, step: 2, call: CallPath::top(0) })
}

/// Every type with its line, as the log and `--json` hold it.
fn lines() -> Vec<(At, Body, &'static str)> {
    let call = Subject::Call(CallPath::top(0));
    let mut judged = decided(
        Point::Rewrite,
        call.clone(),
        handler("fmt"),
        Decision::Rewrite(Proposal::arguments(frozen(r#"{"a": 1}"#)).carrying(Gate::ask("sure?"))),
    );
    judged.made.order = 3;
    judged.made.context = vec!["note".into()];
    judged.made.halt = Some("enough".into());
    judged.made.failure = Some(Failure::Deadline { limit_ms: 10_000 });
    judged.made.ms = 12;
    let abstained =
        decided(Point::Rewrite, call.clone(), handler("log"), Decision::Rewrite(Proposal::pass()));
    let decisions = vec![judged.made.clone(), abstained.made];
    let several = DecisionsRecorded { point: Point::Rewrite, subject: call.clone(), decisions };
    vec![
        (
            At::session(),
            SessionCreated {
                parent: Some(Parent {
                    session: SessionId::new("p0").expect("a name"),
                    call: Some(CallKey { turn: 1, step: 1, call: CallPath::top(2).nested(0) }),
                }),
                seed: Some(Seed { session: SessionId::new("f0").expect("a name"), seq: Seq(7), own: Seq(9) }),
                cleared: Some(SessionId::new("c0").expect("a name")),
                ..created()
            }
            .into(),
            r#""type":"session/created","v":1,"data":{"id":"s1","cwd":"/w","channel":"cli","parent":{"session":"p0","call":{"turn":1,"step":1,"call":[2,0]}},"seed":{"session":"f0","seq":7,"own":9},"cleared":"c0"}"#,
        ),
        (
            At::session(),
            created().into(),
            r#""type":"session/created","v":1,"data":{"id":"s1","cwd":"/w","channel":"cli"}"#,
        ),
        (At::session(), SessionResumed {}.into(), r#""type":"session/resumed","v":1,"data":{}"#),
        (At::session(), SessionLeft {}.into(), r#""type":"session/left","v":1,"data":{}"#),
        (
            At::session(),
            SessionCommand { cancelled: None }.into(),
            r#""type":"session/command","v":1,"data":{}"#,
        ),
        (
            At::session(),
            SessionCommand { cancelled: Some(3) }.into(),
            r#""type":"session/command","v":1,"data":{"cancelled":3}"#,
        ),
        (
            At::session(),
            SessionWithdrawn { prompt: Seq(4), by: Source::User, cause: CauseName(Cause::User) }.into(),
            r#""type":"session/withdrawn","v":1,"data":{"prompt":4,"by":{"kind":"user"},"cause":"user"}"#,
        ),
        (
            At::session(),
            SessionClosed { reason: "done".into() }.into(),
            r#""type":"session/closed","v":1,"data":{"reason":"done"}"#,
        ),
        (
            At::session(),
            ConfigInForce {
                handlers: vec![HandlerRow { point: Point::Guard, id: handler("rm") }],
                ..config(Limits::default())
            }
            .into(),
            r#""type":"config/in-force","v":1,"data":{"digest":"d0","handlers":[{"point":"tools/guard","owner":"policy","handler":"rm"}],"model":"m","limits":{"continuations_in_a_row":8,"continuations_per_turn":64,"agent_depth":3,"agents_at_once":16}}"#,
        ),
        (
            At::session(),
            prompt("hi").into(),
            r#""type":"prompt/queued","v":1,"data":{"kind":"prompt","content":[{"type":"text","text":"hi"}],"source":{"kind":"user"}}"#,
        ),
        (
            At::turn(1),
            TurnStart { takes: vec![Seq(2), Seq(3)] }.into(),
            r#""type":"turn/start","v":1,"turn":1,"data":{"takes":[2,3]}"#,
        ),
        (
            At::turn(1),
            UserMessage { content: "hi".into(), source: Source::User, from: Seq(2) }.into(),
            r#""type":"user/message","v":1,"turn":1,"data":{"content":[{"type":"text","text":"hi"}],"source":{"kind":"user"},"from":2}"#,
        ),
        (
            At::turn(1),
            PromptBlocked { content: "hi".into(), source: Source::User, reason: "no".into(), from: Seq(2) }
                .into(),
            r#""type":"prompt/blocked","v":1,"turn":1,"data":{"content":[{"type":"text","text":"hi"}],"source":{"kind":"user"},"reason":"no","from":2}"#,
        ),
        (
            in_call(),
            ContextMessage { content: "note".into(), source: Source::owner("policy"), from: None }.into(),
            r#""type":"context/message","v":1,"turn":1,"step":2,"call":[0],"data":{"content":[{"type":"text","text":"note"}],"source":{"kind":"owner","owner":"policy"}}"#,
        ),
        (At::step(1, 2), StepStart {}.into(), r#""type":"step/start","v":1,"turn":1,"step":2,"data":{}"#),
        (At::step(1, 2), StepEnd {}.into(), r#""type":"step/end","v":1,"turn":1,"step":2,"data":{}"#),
        (
            At::step(1, 2),
            HeaderChanged(Arc::new(RequestHeader {
                model: "m".into(),
                system: "".into(),
                tools: vec![ToolHeader {
                    name: "Add".into(),
                    description: "Adds.".into(),
                    schema: frozen(r#"{"type": "object"}"#),
                }],
            }))
            .into(),
            r#""type":"request/header","v":1,"turn":1,"step":2,"data":{"model":"m","system":"","tools":[{"name":"Add","description":"Adds.","schema":"{\"type\": \"object\"}"}]}"#,
        ),
        (
            At::step(1, 2),
            ModelRequested { attempt: 1, digest: Some(Carried::Digest("ab".into())) }.into(),
            r#""type":"model/requested","v":1,"turn":1,"step":2,"data":{"attempt":1,"digest":"ab"}"#,
        ),
        (
            At::step(1, 2),
            AssistantMessage { usage: Some(Usage { input: 3, output: 4 }), ..calls(&[("c", "Bash", "{ }")]) }
                .into(),
            r#""type":"assistant/message","v":1,"turn":1,"step":2,"data":{"blocks":[{"type":"call","id":"c","name":"Bash","arguments":"{ }"}],"usage":{"input":3,"output":4},"finish":{"kind":"calls"}}"#,
        ),
        (
            At::step(1, 2),
            AssistantMessage { finish: Finish::Refused { reason: "no".into() }, ..says("hm") }.into(),
            r#""type":"assistant/message","v":1,"turn":1,"step":2,"data":{"blocks":[{"type":"text","text":"hm"}],"finish":{"kind":"refused","reason":"no"}}"#,
        ),
        (
            in_call(),
            sealed("c", "Bash", "{ }").into(),
            r#""type":"tool/call","v":1,"turn":1,"step":2,"call":[0],"data":{"name":"Bash","id":"c","arguments":{"text":"{ }"},"idempotent":false,"concurrency_safe":false}"#,
        ),
        (
            in_call(),
            ToolCall {
                arguments: Arguments::Refused {
                    raw: "{".into(),
                    refused: Ended::InvalidArguments { message: "$: cut".into() },
                },
                ..sealed("c", "Bash", "{}")
            }
            .into(),
            r#""type":"tool/call","v":1,"turn":1,"step":2,"call":[0],"data":{"name":"Bash","id":"c","arguments":{"raw":"{","refused":{"kind":"invalid_arguments","message":"$: cut"}},"idempotent":false,"concurrency_safe":false}"#,
        ),
        (
            in_call(),
            ToolRewrite { requested: frozen("{}"), effective: frozen(r#"{"a":1}"#), by: handler("fmt") }
                .into(),
            r#""type":"tool/rewrite","v":1,"turn":1,"step":2,"call":[0],"data":{"requested":"{}","effective":"{\"a\":1}","by":{"owner":"policy","handler":"fmt"}}"#,
        ),
        (
            in_call(),
            judged.into(),
            r#""type":"decision/recorded","v":1,"turn":1,"step":2,"call":[0],"data":{"point":"tools/rewrite","subject":{"call":[0]},"owner":"policy","handler":"fmt","order":3,"decision":{"seam":"rewrite","arguments":"{\"a\": 1}","carried":{"decision":"ask","reason":"sure?"}},"context":["note"],"halt":"enough","failure":{"kind":"deadline","limit_ms":10000},"ms":12}"#,
        ),
        (
            At::turn(1),
            DecisionBegun {
                point: Point::PromptSubmit,
                subject: Subject::Prompt(Seq(2)),
                id: handler("charge"),
            }
            .into(),
            r#""type":"decision/begun","v":1,"turn":1,"data":{"point":"agent/prompt-submit","subject":{"prompt":2},"owner":"policy","handler":"charge"}"#,
        ),
        (
            in_call(),
            several.into(),
            r#""type":"decisions/recorded","v":1,"turn":1,"step":2,"call":[0],"data":{"point":"tools/rewrite","subject":{"call":[0]},"decisions":[{"owner":"policy","handler":"fmt","order":3,"decision":{"seam":"rewrite","arguments":"{\"a\": 1}","carried":{"decision":"ask","reason":"sure?"}},"context":["note"],"halt":"enough","failure":{"kind":"deadline","limit_ms":10000},"ms":12},{"owner":"policy","handler":"log","order":0,"decision":{"seam":"rewrite"},"ms":0}]}"#,
        ),
        (
            in_call(),
            InputRequested {
                request: request(),
                digest: "ab".into(),
                reasons: vec!["sure?".into()],
                by: vec![handler("fmt")],
                expires: None,
                deferred: false,
            }
            .into(),
            r#""type":"input/requested","v":1,"turn":1,"step":2,"call":[0],"data":{"request":"s1:1/2/0","digest":"ab","reasons":["sure?"],"by":[{"owner":"policy","handler":"fmt"}]}"#,
        ),
        (
            in_call(),
            InputRequested {
                request: RequestId::from_text("s1:1/2/0@2"),
                digest: "ab".into(),
                reasons: Vec::new(),
                by: vec![handler("fmt")],
                expires: Some(5),
                deferred: true,
            }
            .into(),
            r#""type":"input/requested","v":1,"turn":1,"step":2,"call":[0],"data":{"request":"s1:1/2/0@2","digest":"ab","reasons":[],"by":[{"owner":"policy","handler":"fmt"}],"expires":5,"deferred":true}"#,
        ),
        (
            in_call(),
            InputResolved {
                request: RequestId::from_text("s1:1/2/0@2"),
                resolution: Resolution::Resumed,
                text: None,
                by: Source::User,
            }
            .into(),
            r#""type":"input/resolved","v":1,"turn":1,"step":2,"call":[0],"data":{"request":"s1:1/2/0@2","resolution":"resumed","by":{"kind":"user"}}"#,
        ),
        (
            in_call(),
            InputResolved {
                request: request(),
                resolution: Resolution::Refused,
                text: Some("no".into()),
                by: Source::User,
            }
            .into(),
            r#""type":"input/resolved","v":1,"turn":1,"step":2,"call":[0],"data":{"request":"s1:1/2/0","resolution":"refused","text":"no","by":{"kind":"user"}}"#,
        ),
        (
            in_call(),
            ToolDispatched { attempt: 1 }.into(),
            r#""type":"tool/dispatched","v":1,"turn":1,"step":2,"call":[0],"data":{"attempt":1}"#,
        ),
        (
            in_call(),
            ToolReturned {
                attempt: 1,
                outcome: Arc::new(Outcome::completed(Output::text("7").with_value(frozen(r#"{"n": 7}"#)))),
                ms: 5,
            }
            .into(),
            r#""type":"tool/returned","v":1,"turn":1,"step":2,"call":[0],"data":{"attempt":1,"outcome":{"ended":{"kind":"completed"},"output":{"content":[{"type":"text","text":"7"}],"value":"{\"n\": 7}"}},"ms":5}"#,
        ),
        (
            in_call(),
            ToolResult {
                outcome: Ended::CancelledBeforeDispatch { cause: CauseName(Cause::User) },
                content: "x".into(),
                error: true,
            }
            .into(),
            r#""type":"tool/result","v":1,"turn":1,"step":2,"call":[0],"data":{"outcome":{"kind":"cancelled_before_dispatch","cause":"user"},"content":[{"type":"text","text":"x"}],"error":true}"#,
        ),
        (
            At::turn(1),
            SteeringMessage { content: "on".into(), source: Source::User, from: Some(Seq(9)) }.into(),
            r#""type":"steering/message","v":1,"turn":1,"data":{"content":[{"type":"text","text":"on"}],"source":{"kind":"user"},"from":9}"#,
        ),
        (
            At::turn(1),
            TurnCancelled { by: Source::Runtime, cause: CauseName(Cause::Shutdown) }.into(),
            r#""type":"turn/cancelled","v":1,"turn":1,"data":{"by":{"kind":"runtime"},"cause":"shutdown"}"#,
        ),
        (
            At::turn(1),
            TurnEnd {
                reason: EndReason::Aborted { by: Source::User, reason: CauseName(Cause::User) },
                dropped: vec![Seq(9)],
            }
            .into(),
            r#""type":"turn/end","v":1,"turn":1,"data":{"reason":{"kind":"aborted","by":{"kind":"user"},"reason":"user"},"dropped":[9]}"#,
        ),
        (
            in_call(),
            SubagentStarted { child: session() }.into(),
            r#""type":"subagent/started","v":1,"turn":1,"step":2,"call":[0],"data":{"child":"s1"}"#,
        ),
        (
            in_call(),
            SubagentEnded { child: session(), outcome: EndReason::Completed }.into(),
            r#""type":"subagent/ended","v":1,"turn":1,"step":2,"call":[0],"data":{"child":"s1","outcome":{"kind":"completed"}}"#,
        ),
        (
            At::turn(1),
            CompactionStarted { from: Seq(1), to: Seq(2), tokens: 7 }.into(),
            r#""type":"compaction/started","v":1,"turn":1,"data":{"from":1,"to":2,"tokens":7}"#,
        ),
        (
            At::turn(1),
            CompactionEnded { from: Seq(1), to: Seq(2), summary: Some("so".into()), skipped: None }.into(),
            r#""type":"compaction/ended","v":1,"turn":1,"data":{"from":1,"to":2,"summary":[{"type":"text","text":"so"}]}"#,
        ),
        (
            At::turn(1),
            CompactionEnded { from: Seq(1), to: Seq(2), summary: None, skipped: Some("no".into()) }.into(),
            r#""type":"compaction/ended","v":1,"turn":1,"data":{"from":1,"to":2,"skipped":"no"}"#,
        ),
        (
            in_call(),
            Body::Own(own("hook/result", r#"{"exit": 2, "stderr": "a\u000ab"}"#)),
            r#""type":"hook/result","v":1,"turn":1,"step":2,"call":[0],"ignorable":true,"data":{"exit":2,"stderr":"a\nb"}"#,
        ),
    ]
}

// C-LOG-1, 2, RECORDS.md: the envelope and each type's data.
#[test]
fn every_type_has_its_exact_line() {
    let mut kinds: Vec<String> = Vec::new();
    for (seq, (at, body, rest)) in lines().into_iter().enumerate() {
        let record = Draft::new(at, body).seal(Seq(seq as u64), 1_700_000_000_123);
        let line = format!(r#"{{"seq":{seq},"time":1700000000123,{rest}}}"#);
        assert_eq!(encode(&record), line);
        let read = decode(&line).expect("our own line");
        assert_eq!(encode(&read), line);
        match &record.body {
            // An owner's data is kept compact, not to the byte: a record is one line.
            Body::Own(own) => assert_eq!(read.body.kind(), &*own.kind),
            _ => assert_eq!(read, *record),
        }
        kinds.push(record.body.kind().to_string());
    }
    for (kind, version) in Body::TYPES {
        assert!(kinds.iter().any(|k| k == kind), "no line for `{kind}`");
        assert_eq!(*version, 1);
    }
}

// C-DUR-8: a record names the command that caused it.
#[test]
fn a_command_is_the_key_of_its_record() {
    let command = CommandId::new("retry 7").unwrap();
    let record = Draft::new(At::session(), prompt("hi")).of_command(Some(command.clone())).seal(Seq(2), 5);
    let line = encode(&record);
    assert!(
        line.starts_with(r#"{"seq":2,"time":5,"type":"prompt/queued","v":1,"key":"retry 7","data":"#),
        "{line}"
    );
    assert_eq!(decode(&line).expect("our own line").key, Some(command));
    for bad in ["", "a\nb", &"x".repeat(201)] {
        assert!(CommandId::new(bad).is_err(), "{bad:?}");
        let line = line.replace("retry 7", &bad.replace('\n', "\\n"));
        assert!(decode(&line).is_err(), "{line}");
    }
}

// C-LOG-2: an unknown type refuses to load, unless its owner marked it ignorable.
#[test]
fn an_unknown_type_is_refused_unless_ignorable() {
    let line = r#"{"seq":4,"time":1,"type":"hook/new","v":3,"data":{"a":1}}"#;
    assert_eq!(decode(line), Err(DecodeError::UnknownType { seq: Seq(4), kind: "hook/new".into() }));
    let line = r#"{"seq":4,"time":1,"type":"hook/new","v":3,"ignorable":true,"data":{"a":1}}"#;
    assert_eq!(decode(line).expect("ignorable").body, Body::Own(own("hook/new", r#"{"a":1}"#)));
    // A core type is not skipped because someone calls it ignorable.
    let line = r#"{"seq":4,"time":1,"type":"step/end","v":2,"ignorable":true,"data":{}}"#;
    assert!(matches!(decode(line), Err(DecodeError::TooNew { .. })));
}

// C-LOG-2: types are versioned.
#[test]
fn a_newer_version_is_refused_with_its_place() {
    let error = decode(r#"{"seq":9,"time":1,"type":"turn/start","v":2,"turn":1,"data":{"takes":[1]}}"#);
    assert_eq!(
        error,
        Err(DecodeError::TooNew { seq: Seq(9), kind: "turn/start".into(), version: 2, known: 1 })
    );
    assert!(error.expect_err("refused").to_string().contains("record 9"));
}

#[test]
fn another_shape_is_refused() {
    for line in [
        "",
        "[]",
        "{}",
        r#"{"seq":1,"time":1,"type":"step/end","v":1}"#,
        r#"{"seq":-1,"time":1,"type":"step/end","v":1,"data":{}}"#,
        r#"{"seq":1,"time":1,"type":"turn/start","v":1,"turn":1,"data":{}}"#,
        r#"{"seq":1,"time":1,"type":"turn/start","v":1,"turn":1,"data":{"takes":[1]}} {}"#,
        r#"{"seq":1,"time":1,"type":"tool/call","v":1,"turn":1,"data":{"name":"a","id":"b","arguments":{"text":"{\"a\":1,\"a\":2}"},"idempotent":false,"concurrency_safe":false}}"#,
        r#"{"seq":1,"time":1,"type":"turn/cancelled","v":1,"turn":1,"data":{"by":{"kind":"user"},"cause":"weather"}}"#,
        r#"{"seq":1,"time":1,"type":"decision/recorded","v":1,"turn":1,"data":{"point":"tools/none","subject":{"step":1},"owner":"a","handler":"b","order":0,"decision":{"seam":"guard","decision":"abstain"}}}"#,
    ] {
        assert!(matches!(decode(line), Err(DecodeError::Shape { .. })), "{line}");
    }
}

// C-LOG-5: unknown means ended without success.
#[test]
fn an_unknown_end_reads_as_unknown() {
    let line = r#"{"seq":9,"time":1,"type":"turn/end","v":1,"turn":1,"data":{"reason":{"kind":"evicted","by":{"kind":"user"},"at":[1]}}}"#;
    let Body::TurnEnd(end) = decode(line).expect("readable").body else { panic!("another type") };
    assert_eq!(end.reason, EndReason::Unknown);
    assert!(!end.reason.is_success());
    let ends = [
        (EndReason::Completed, "completed"),
        (EndReason::Rejected { reason: "no".into() }, "rejected"),
        (EndReason::Halted { by: handler("h"), reason: "no".into() }, "halted"),
        (EndReason::MaxTokens, "max_tokens"),
        (EndReason::ContinuationCap { limit: 8 }, "continuation_cap"),
        (EndReason::Error { code: "c".into(), message: "m".into() }, "error"),
        (EndReason::Interrupted, "interrupted"),
    ];
    for (reason, name) in ends {
        let end = TurnEnd { reason: reason.clone(), dropped: Vec::new() };
        let record = Draft::new(At::turn(1), end).seal(Seq(0), 0);
        assert!(encode(&record).contains(&format!(r#""reason":{{"kind":"{name}""#)));
        assert_eq!(decode(&encode(&record)).as_ref(), Ok(&*record));
        assert_eq!(reason.is_success(), name == "completed");
    }
}

fn arguments_of(record: &Record) -> &str {
    match &record.body {
        Body::ToolCall(ToolCall { arguments: Arguments::Sealed { text }, .. }) => text.text(),
        other => panic!("not a sealed call: {other:?}"),
    }
}

// C-ID-2: the exact text is what is logged.
#[test]
fn arguments_keep_their_exact_text() {
    for text in [
        " {\t\"a\" : 1 }\n",
        r#"{"b":1,"a":2}"#,
        r#"{"n":123456789012345678901234567890,"z":-0,"e":1.50e+02,"f":1.0}"#,
        r#"{"path":"a\u002fb\/c\"","nul":"\u0000","emoji":"\ud83d\ude00","raw":"😀","line":"a\nb"}"#,
        r#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"deep":{"$serde_json::private::RawValue":5,"kind":"user","text":"x"}}"#,
    ] {
        let record = Draft::new(in_call(), sealed("c", "Bash", text)).seal(Seq(0), 0);
        let line = encode(&record);
        assert!(!line.contains('\n'), "a record is one line");
        let read = decode(&line).expect("our own line");
        assert_eq!(arguments_of(&read), text);
        assert_eq!(read, *record);
        // The text the model wrote, in its message, and a rewrite's two texts.
        let said = Draft::new(At::step(1, 2), calls(&[("c", "Bash", text)])).seal(Seq(0), 0);
        assert_eq!(decode(&encode(&said)).as_ref(), Ok(&*said));
        let rewrite = ToolRewrite { requested: frozen(text), effective: frozen(text), by: handler("h") };
        let rewrite = Draft::new(in_call(), rewrite).seal(Seq(0), 0);
        assert_eq!(decode(&encode(&rewrite)).as_ref(), Ok(&*rewrite));
    }
}

// C-ID-2: nesting up to the limit of values is no problem of the codec's.
#[test]
fn deep_values_survive() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(512), "}".repeat(512));
    let record = Draft::new(in_call(), sealed("c", "Bash", &deep)).seal(Seq(0), 0);
    assert_eq!(decode(&encode(&record)).as_ref(), Ok(&*record));
    let record = Draft::new(At::session(), Body::Own(own("app/deep", &deep))).seal(Seq(0), 0);
    assert_eq!(decode(&encode(&record)).as_ref(), Ok(&*record));
}

// C-ID-2: no key in an owner's data means anything to our parser.
#[test]
fn magic_keys_in_an_owners_data_are_plain() {
    for data in [
        r#"{"$serde_json::private::RawValue":"{\"seq\":1}"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"seq":1,"type":"turn/end","data":{"ignorable":false},"n":123456789012345678901234567890,"z":-0}"#,
    ] {
        let record = Draft::new(At::turn(1), Body::Own(own("hook/result", data))).seal(Seq(0), 0);
        let line = encode(&record);
        assert!(line.contains(data), "{line}");
        let read = decode(&line).expect("our own line");
        let Body::Own(own) = &read.body else { panic!("{:?}", read.body) };
        assert_eq!(own.data.text(), data);
        assert_eq!(read, *record);
    }
}

// The order of an envelope's keys and unknown ones among them are no matter.
#[test]
fn the_envelope_reads_in_any_order() {
    let line =
        r#" {"data":{"takes":[2]},"later":{"x":[1]},"turn":1,"v":1,"type":"turn\/start","time":5,"seq":3} "#;
    let record = decode(line).expect("an envelope");
    assert_eq!(record, *Draft::new(At::turn(1), TurnStart { takes: vec![Seq(2)] }).seal(Seq(3), 5));
}

#[test]
fn headers_are_shared_not_copied() {
    let changed = header("s");
    let Body::HeaderChanged(body) = Body::from(changed.clone()) else { panic!("another type") };
    assert!(Arc::ptr_eq(&body.0, &changed.0));
}

// C-LOG-1: data that are kept beside the line make the same record.
#[test]
fn data_may_stand_apart() {
    for (at, body, _) in lines() {
        let record = Draft::new(at, body).seal(Seq(7), 5);
        let whole = encode(&record);
        let (line, data) = encode_apart(&record, 0);
        let data = data.expect("more than nothing");
        assert_eq!(line.replace("\"data\":null", &format!("\"data\":{data}")), whole);
        assert_eq!(decode_apart(&line, &data), decode(&whole));
        assert_ne!(decode(&line), decode(&whole), "alone it is another one, if any: {line}");
        let header = decode_header(&line).unwrap();
        assert_eq!(Ok(header.clone()), decode_header(&whole));
        assert_eq!(
            (header.seq, header.at, &*header.kind),
            (record.seq, record.at.clone(), record.body.kind())
        );
        assert_eq!(encode_apart(&record, data.len()), (whole, None));
    }
}
