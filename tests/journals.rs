//! Journals of releases: each release commits one that it made, and every later release folds it to the same state.
//!
//! `tests/journals/VERSION.db` is the journal and `VERSION.txt` what its sessions come to. They are made by
//! `cargo test --test journals -- --ignored make`, once a release, and are never changed again.
#![cfg(feature = "sqlite")]

mod support;

use portcullis::{sqlite::SqliteJournal, *};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use support::*;

const LARGE: usize = 70_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Answers by the last prompt and by what it said since, and by nothing else: also to what another release began.
fn model() -> Says {
    Says::stream(|request| {
        let (prompt, said) = last_prompt(request);
        events(match (&*prompt, said) {
            ("work", 0) => calls(&[
                ("Echo", r#"{"text":"one"}"#),
                ("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#),
                ("Large", "{}"),
            ]),
            ("ask", 0) => calls(&[("Echo", r#"{"text":"please"}"#), ("Echo", r#"{"text":"never"}"#)]),
            ("wait", 0) => calls(&[("Slow", "{}")]),
            ("dig", 0) => calls(&[("Echo", r#"{"text":"deep"}"#)]),
            ("dig", _) => say("gold"),
            ("grow", 0) => costing(100, calls(&[("Echo", r#"{"text":"more"}"#)])),
            (text, _) if text.starts_with("The conversation has grown too long") => say("much was echoed"),
            (_, _) => costing(20, say("done")),
        })
    })
}

/// A runtime with everything that the sessions need.
async fn house(journal: SqliteJournal) -> Runtime {
    let ran = Arc::default();
    let large = tool("Large", "Says much.", async |_: Nothing, _cx| {
        Ok::<_, ToolError>("0123456789".repeat(LARGE / 10))
    });
    let slow = tool("Slow", "Never comes back.", async |_: Nothing, _cx| {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(String::new())
    });
    let limits = Limits { compact_at: Some(100), ..Limits::default() };
    Runtime::builder(model())
        .journal(journal)
        .tools([echo(&ran)])
        .tool(large.unwrap())
        .tool(slow.unwrap())
        .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
        .policy("house", |at| {
            at.tools("Echo", |at| {
                at.pre_execute("careful", async |call| match call.arguments.text() {
                    r#"{"text":"please"}"# => Gate::ask("sure?"),
                    r#"{"text":"never"}"# => Gate::deny("never"),
                    _ => Gate::allow(),
                });
            });
            at.prompt_submit("manners", async |prompt| match &*prompt.content.to_text() {
                "curse" => Submit::block("mind your words"),
                _ => Submit::allow(),
            });
        })
        .limits(limits)
        .arbiters(1)
        .start()
        .await
        .unwrap()
}

async fn open(runtime: &Runtime, name: &str) -> Session {
    within(runtime.open(name, SessionOptions::new("/").channel("test").approvals())).await.unwrap()
}

async fn ends(session: &Session, prompt: &str) -> EndReason {
    within(within(session.prompt(prompt)).await.unwrap().into_future()).await
}

async fn asked(session: &Session) -> Ask {
    until(|| !session.asks().is_empty()).await;
    session.asks().remove(0)
}

/// The program that makes this release's journal.
#[tokio::test]
#[ignore = "makes the file that the other tests read; once a release"]
async fn make() {
    let folder = folder();
    let file = folder.join(concat!(env!("CARGO_PKG_VERSION"), ".db"));
    assert!(!file.exists(), "{} is there already, and is never changed", file.display());
    let runtime = house(SqliteJournal::open(&file).unwrap()).await;

    let main = open(&runtime, "main").await;
    assert_eq!(ends(&main, "work").await, EndReason::Completed);
    assert!(matches!(ends(&main, "curse").await, EndReason::Rejected { .. }));
    let turn = within(main.prompt("ask")).await.unwrap();
    within(main.answer(&asked(&main).await, Answer::Allow)).await.unwrap();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);

    let cancelled = open(&runtime, "cancelled").await;
    let turn = within(cancelled.prompt("wait")).await.unwrap();
    until(|| !runtime.live_calls().is_empty()).await;
    within(cancelled.cancel(Cause::User)).await.unwrap();
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));

    let compacted = open(&runtime, "compacted").await;
    for prompt in ["first", "grow", "last"] {
        assert_eq!(ends(&compacted, prompt).await, EndReason::Completed);
    }

    // Left with its question open.
    let asking = open(&runtime, "asking").await;
    let turn = within(asking.prompt("ask")).await.unwrap();
    asked(&asking).await;
    within(runtime.shutdown(Duration::ZERO)).await;
    drop((main, cancelled, compacted, asking, turn));

    // Closed, it is one file.
    until(|| !folder.join(concat!(env!("CARGO_PKG_VERSION"), ".db-wal")).exists()).await;
    // A lock file belongs to whoever has it open.
    let _ = fs::remove_file(folder.join(concat!(env!("CARGO_PKG_VERSION"), ".db.lock")));
    let (_scratch, copy) = copied(&file);
    let seen = rendered(&SqliteJournal::read_only(&copy).unwrap()).await;
    fs::write(file.with_extension("txt"), seen).unwrap();
}

/// A copy that may be written to.
fn copied(file: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("journal.db");
    fs::copy(file, &copy).unwrap();
    (folder, copy)
}

/// What a journal's sessions come to, as text: every word of it is compared.
async fn rendered(journal: &SqliteJournal) -> String {
    let mut out = String::new();
    for head in journal.sessions().await.unwrap() {
        let found = journal.verify(&head.session).await.unwrap();
        assert!(found.is_sound(), "{}: {found:?}", head.session);
        let records = journal.read(&head.session, Seq(0), usize::MAX).await.unwrap();
        let state = law::State::fold(&records).unwrap();
        writeln!(out, "# {}: {} records, {} with a hash", head.session, found.records, found.chained)
            .unwrap();
        let created = state.created().unwrap();
        writeln!(out, "cwd {}, channel {}, parent {}", created.cwd, created.channel, json(&created.parent))
            .unwrap();
        writeln!(
            out,
            "open turn {:?}, step {}, last end {}, next {}",
            state.open_turn(),
            state.step_number(),
            json(&state.last_end()),
            if state.next(None) == law::Next::Idle { "nothing" } else { "something" },
        )
        .unwrap();
        for (call, asked) in state.asks() {
            writeln!(out, "asks {} for call {call}: {}", asked.request, json(&asked.reasons)).unwrap();
        }
        for message in state.transcript().iter() {
            writeln!(out, "{}", line(message)).unwrap();
        }
        out.push('\n');
    }
    out
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// A message on one line; a long text is told by its length.
fn line(message: &Message) -> String {
    let of = |what: &str, content: &Content, source: &Source| {
        format!("{what} by {}: {}", json(source), short(&content.to_text()))
    };
    match message {
        Message::User { content, source } => of("user", content, source),
        Message::Context { content, source } => of("context", content, source),
        Message::Steering { content, source } => of("steering", content, source),
        Message::Assistant { blocks } => format!("assistant: {}", json(blocks)),
        Message::Result { id, name, content, error } => {
            let what = if *error { "error" } else { "result" };
            format!("{what} of {name} ({id}): {}", short(&content.to_text()))
        }
        other => panic!("{other:?} is new: say here how it is written"),
    }
}

fn short(text: &str) -> String {
    if text.len() > 1000 {
        format!("{:?}… of {} bytes", &text[..20], text.len())
    } else {
        format!("{text:?}")
    }
}

/// Every journal that was committed, with what it comes to.
fn journals() -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let journals = files.filter(|file| file.extension().is_some_and(|end| end == "db"));
    journals.map(|file| (file.clone(), fs::read_to_string(file.with_extension("txt")).unwrap())).collect()
}

// C-DUR-3: what a release wrote, every later one folds to the same state
#[tokio::test]
async fn every_releases_journal_is_sound_and_folds_alike() {
    let journals = journals();
    assert!(!journals.is_empty());
    for (file, expected) in journals {
        let before = fs::read(&file).unwrap();
        let (_scratch, copy) = copied(&file);
        let seen = rendered(&SqliteJournal::read_only(&copy).unwrap()).await;
        assert_eq!(seen, expected, "{}", file.display());
        assert_eq!(fs::read(&copy).unwrap(), before, "reading changes nothing");
        for said in ["of 70000 bytes", "asks asking:", "aborted", "was summarised", "gold", "parent {"] {
            assert!(expected.contains(said), "{} has nothing of {said:?}", file.display());
        }
    }
}

// C-DUR-3, C-DUR-4: a later release goes on with them, and with the question that was left open
#[tokio::test]
async fn every_releases_sessions_go_on() {
    for (file, _) in journals() {
        let (_scratch, copy) = copied(&file);
        let journal = SqliteJournal::open(&copy).unwrap();
        let runtime = house(journal.clone()).await;
        let asking = open(&runtime, "asking").await;
        within(asking.answer(&asked(&asking).await, Answer::Allow)).await.unwrap();
        for name in ["asking", "main", "cancelled", "compacted"] {
            let session = open(&runtime, name).await;
            assert_eq!(
                ends(&session, "one more").await,
                EndReason::Completed,
                "{name} of {}",
                file.display()
            );
            let found = journal.verify(session.id()).await.unwrap();
            assert!(found.is_sound(), "{name} of {}: {found:?}", file.display());
        }
        assert_eq!(within(runtime.shutdown(PATIENCE)).await.parked, []);
    }
}
