//! docs/transcripts.md: what it shows is what is written.

mod support;

use futures::future::join_all;
use portcullis_hooks::{ClaudeHooks, CodexHooks, CodexLayers, Options, Shape, Transcript};
use portcullis_runtime::{
    journal::{Batch, Claim, Journal},
    *,
};
use std::{fs, sync::Arc};
use support::Project;

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
            At::session(),
            ConfigInForce {
                digest: "".into(),
                handlers: Vec::new(),
                model: "scripted".into(),
                limits: Limits::default(),
            }
            .into(),
        ),
        (At::turn(1), TurnStart { takes: vec![Seq(1)] }.into()),
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
    for shape in [Shape::Claude, Shape::Codex] {
        let file = dir.path().join("below/demo.jsonl");
        let mut transcript = Transcript::create(shape, &file, SessionId::new("demo").unwrap()).unwrap();
        for record in records() {
            transcript.add(&record).unwrap();
        }
        let written = fs::read_to_string(file).unwrap();
        let page = include_str!("../../../docs/transcripts.md");
        assert!(page.contains(&written), "docs/transcripts.md needs:\n\n{written}");
    }
}

// More than is read at once, by many hooks at once, and by two processes one after another: each line once.
#[test]
fn hooks_at_once_write_each_line_once() {
    let project = Project::hook("Stop", "true");
    let (id, journal) = (SessionId::new("s-1").unwrap(), MemoryJournal::new());
    let talk = |seq: u64| -> Body {
        match seq {
            0 => SessionCreated {
                id: id.clone(),
                cwd: "/work".into(),
                channel: "cli".into(),
                parent: None,
                seed: None,
                cleared: None,
            }
            .into(),
            _ => UserMessage { content: format!("{seq}").into(), source: Source::User, from: Seq(1) }.into(),
        }
    };
    let info = SessionInfo::new(id.clone(), project.path(), "test").stored(Arc::new(journal.clone()));
    let input = Ending::new(Scene::new(Arc::new(info), 1, 1, Some(Seq(1))), 0, "".into());
    let expected = project.path().join("expected");
    let mut transcript = Transcript::create(Shape::Claude, &expected, id.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut own = journal.claim(&id, 1, Claim::CreateOrOpen).await.unwrap();
        let mut add = async |records: u64| {
            let head = own.head.0;
            let all = (head..head + records).map(|n| Draft::new(At::session(), talk(n)).seal(Seq(n), 1));
            let all: Vec<Arc<Record>> = all.collect();
            all.iter().for_each(|record| transcript.add(record).unwrap());
            journal.append(&mut own, Batch::of(all)).unwrap().wait().await.unwrap();
        };
        for _process in 0..2 {
            add(700).await;
            let (hooks, _) = ClaudeHooks::load(project.path());
            let mut table = Table::new();
            table.register("claude", |at| hooks.clone().register(at));
            let planned = table.plan::<TurnContinuation>(&input);
            let file = hooks.transcript(&id);
            let same = || fs::read(&file).unwrap() == fs::read(&expected).unwrap();
            let all = join_all((0..8).map(|_| planned[0].run.decide(input.clone()))).await;
            assert!(all.into_iter().all(|reply| reply.unwrap().failure.is_none()) && same());
            // Whatever happens to the file meanwhile, the next hook finds it whole.
            let whole = fs::read_to_string(&expected).unwrap();
            for there in [None, Some(""), Some(&whole[..whole.len() - 9]), Some("no line\n"), Some("x")] {
                match there {
                    None => fs::remove_file(&file).unwrap(),
                    Some(text) => fs::write(&file, text).unwrap(),
                }
                add(1).await;
                planned[0].run.decide(input.clone()).await.unwrap();
                assert!(same(), "{:?}", there.map(str::len));
            }
        }
    });
}

// C-BRIDGE-1: the file that a hook of Codex is told of is there, and is what the log says, in that client's shape.
#[test]
fn a_hook_of_codex_finds_the_conversation_in_its_clients_shape() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".codex")).unwrap();
    let look = r#"cat "$(sed 's/.*"transcript_path":"\([^"]*\)".*/\1/')" > seen"#;
    let look = serde_json::to_string(look).unwrap();
    let hooks = format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":{look}}}]}}]}}}}"#);
    fs::write(dir.path().join(".codex/hooks.json"), hooks).unwrap();
    let layers = CodexLayers::default().trust_project().bypass_trust();
    let (hooks, _) = CodexHooks::load_with(dir.path(), Options::new().layers(layers));
    let mut table = Table::new();
    table.register(hooks.owner(), |at| hooks.clone().register(at));
    let (id, journal) = (SessionId::new("demo").unwrap(), MemoryJournal::new());
    let info = SessionInfo::new(id.clone(), dir.path().to_owned(), "test").stored(Arc::new(journal.clone()));
    let input = Ending::new(Scene::new(Arc::new(info), 1, 1, Some(Seq(1))), 0, "".into());
    let all: Vec<Arc<Record>> = records().into_iter().map(Arc::new).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut own = journal.claim(&id, 1, Claim::CreateOrOpen).await.unwrap();
        journal.append(&mut own, Batch::of(all.clone())).unwrap().wait().await.unwrap();
    });
    assert_eq!(support::dispatch::<TurnContinuation>(&table, &input).results[0].exit, Some(0));
    let expected = dir.path().join("expected");
    let mut transcript = Transcript::create(Shape::Codex, &expected, id.clone()).unwrap();
    all.iter().for_each(|record| transcript.add(record).unwrap());
    let read = fs::read_to_string(dir.path().join("seen")).unwrap();
    assert_eq!(read, fs::read_to_string(expected).unwrap());
    assert!(hooks.transcript(&id).ends_with(".portcullis/transcripts/codex/rollout-demo.jsonl"));
    // Whoever has the records and no session writes the very file that the hooks are told of.
    let mut again = Transcript::of(&hooks, id.clone()).unwrap();
    all.iter().for_each(|record| again.add(record).unwrap());
    assert_eq!(fs::read_to_string(hooks.transcript(&id)).unwrap(), read);
}
