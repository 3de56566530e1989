//! docs/transcripts.md: what it shows is what is written.

use portcullis_hooks::Transcript;
use portcullis_runtime::*;
use std::{fs, sync::Arc};

/// A turn with one call, at a fixed time.
fn records() -> Vec<Record> {
    let step = || At::step(1, 1);
    let call = || At { call: Some(CallPath::top(0)), ..At::step(1, 1) };
    let id = || SessionId::new("demo").unwrap();
    let header = RequestHeader { model: "scripted".into(), system: "".into(), tools: Vec::new() };
    let arguments = Frozen::arguments(r#"{"command":"echo hello"}"#).unwrap();
    let blocks: Arc<[AssistantBlock]> = Arc::from([
        AssistantBlock::Text { text: "I will look.".into() },
        AssistantBlock::Call { id: "c1".into(), name: "Bash".into(), arguments: arguments.text().into() },
    ]);
    let bodies: Vec<(At, Body)> = vec![
        (
            At::session(),
            SessionCreated {
                id: id(),
                cwd: "/work".into(),
                channel: "cli".into(),
                parent: None,
                seed: None,
                cleared: None,
            }
            .into(),
        ),
        (
            At::turn(1),
            UserMessage { content: "Say hello.".into(), source: Source::User, from: Seq(1) }.into(),
        ),
        (step(), StepStart {}.into()),
        (step(), HeaderChanged(Arc::new(header)).into()),
        (
            step(),
            AssistantMessage { blocks, usage: Some(Usage { input: 20, output: 8 }), finish: Finish::Calls }
                .into(),
        ),
        (
            call(),
            ToolCall {
                name: "Bash".into(),
                id: "c1".into(),
                arguments: Arguments::Sealed { text: arguments },
                idempotent: false,
                concurrency_safe: false,
            }
            .into(),
        ),
        (call(), ToolResult { outcome: Ended::Completed, content: "hello".into(), error: false }.into()),
        (
            At::turn(1),
            ContextMessage {
                content: "The build is green.".into(),
                source: Source::owner("claude"),
                from: None,
            }
            .into(),
        ),
    ];
    let seal =
        |(seq, (at, body))| Record::clone(&Draft::new(at, body).seal(Seq(seq as u64), 1_764_500_000_000));
    bodies.into_iter().enumerate().map(seal).collect()
}

#[test]
fn the_page_shows_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("below/demo.jsonl");
    let mut transcript = Transcript::create(&file, SessionId::new("demo").unwrap()).unwrap();
    for record in records() {
        transcript.add(&record).unwrap();
    }
    let written = fs::read_to_string(file).unwrap();
    let page = include_str!("../../../docs/transcripts.md");
    assert!(page.contains(&written), "docs/transcripts.md needs:\n\n{written}");
}
