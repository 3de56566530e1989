//! Hooks that ask: the session's own model, and an agent below the session.

mod support;

use portcullis::{
    hooks::{ClaudeHooks, Options},
    *,
};
use std::{
    fs,
    sync::{Arc, Mutex},
};
use support::*;

const YES: &str = r#"{"ok": true}"#;
const NO: &str = r#"{"ok": false, "reason": "not today"}"#;

/// A project with one handler that asks.
struct Asking {
    dir: tempfile::TempDir,
    settings: String,
}

impl Asking {
    fn new(event: &str, kind: &str) -> Asking {
        Asking::settings(format!(
            r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"{kind}","prompt":"MAY IT? $ARGUMENTS"}}]}}]}}}}"#
        ))
    }

    fn settings(settings: String) -> Asking {
        Asking { dir: tempfile::tempdir().unwrap(), settings }
    }

    /// Opens the session on a journal, in a runtime that answers for its hooks.
    async fn open(&self, model: &Says, journal: &MemoryJournal) -> House {
        fs::create_dir_all(self.dir.path().join(".claude")).unwrap();
        fs::write(self.dir.path().join(".claude/settings.json"), &self.settings).unwrap();
        let advisor = SessionAdvisor::new();
        let options = Options::new().advisor(advisor.clone());
        let (hooks, reports) = ClaudeHooks::load_with(self.dir.path(), options);
        assert_eq!(reports, []);
        let ran: Arc<Mutex<Vec<String>>> = Arc::default();
        let runtime = Runtime::builder(model.clone())
            .journal(journal.clone())
            .tools([echo(&ran)])
            .mount_deciding(hooks)
            .answers(advisor)
            .arbiters(1)
            .start()
            .await
            .unwrap();
        let session = runtime.open("s", SessionOptions::new(self.dir.path())).await.unwrap();
        House { runtime, session, journal: journal.clone(), model: model.clone(), ran }
    }
}

fn asks(request: &ModelRequest) -> bool {
    request.header.system.starts_with("You decide for a hook")
}

/// Calls Echo once and is done; to hooks it says this, or looks with a call first.
fn model(says: &str, looks: bool) -> Says {
    let says = says.to_owned();
    Says::stream(move |request| {
        let said = last_prompt(request).1;
        match (asks(request), said) {
            (true, 0) if looks => events(calls(&[("Echo", r#"{"text":"look"}"#)])),
            (true, _) => events(costing(11, say(&says))),
            (false, 0) => events(calls(&[("Echo", r#"{"text":"main"}"#)])),
            (false, _) => events(say("done")),
        }
    })
}

fn questions(model: &Says) -> Vec<ModelRequest> {
    model.requests().into_iter().filter(asks).collect()
}

fn own(log: &[Arc<Record>], kind: &str) -> Vec<Frozen> {
    log.iter()
        .filter_map(|record| match &record.body {
            Body::Own(own) if *own.kind == *kind => Some(own.data.clone()),
            _ => None,
        })
        .collect()
}

// C-BRIDGE-1: a no denies the call and halts the turn, and the model saw the event's JSON.
#[tokio::test]
async fn a_model_denies_a_call_and_ends_the_turn() {
    let model = model(NO, false);
    let site = Asking::new("PreToolUse", "prompt");
    let house = site.open(&model, &MemoryJournal::new()).await;
    let end = house.prompt("go").await;
    assert!(
        matches!(&end, EndReason::Halted { by, reason } if *by.owner == *"claude" && reason.as_str() == "not today"),
        "{end}"
    );
    assert_eq!((house.ends(), house.ran().len()), (vec!["hook_deny"], 0));
    let asked = questions(&model);
    assert_eq!((asked.len(), model.requests().len()), (1, 2));
    assert!(asked[0].header.tools.is_empty());
    let (text, _) = last_prompt(&asked[0]);
    let json = Frozen::parse(text.strip_prefix("MAY IT? ").unwrap()).unwrap();
    assert_eq!(json.root().get("tool_name").unwrap().as_str().unwrap(), "Echo");
    let result = &own(&house.log(), "hook/result")[0];
    assert_eq!(result.root().get("usage").unwrap().text(), r#"{"input":11,"output":0}"#);
    assert_eq!(result.root().get("said").unwrap().as_str().unwrap(), NO);
    house.close().await;
}

// C-TURN-2: stopped, and the prompt is kept; no model is asked what the user asked.
#[tokio::test]
async fn a_model_stops_a_prompt() {
    let model = model(NO, false);
    let site = Asking::new("UserPromptSubmit", "prompt");
    let house = site.open(&model, &MemoryJournal::new()).await;
    let end = house.prompt("go").await;
    assert!(matches!(end, EndReason::Halted { .. }), "{end}");
    assert_eq!((house.count("user/message"), model.requests().len()), (1, 1));
    house.close().await;
}

// C-TURN-7: before a stop a no is what to do next.
#[tokio::test]
async fn a_model_makes_a_turn_go_on() {
    let answers = Arc::new(Mutex::new(vec![YES, NO]));
    let model = Says::stream(move |request| match asks(request) {
        true => events(say(answers.lock().unwrap().pop().unwrap())),
        false => events(say("done")),
    });
    let site = Asking::new("Stop", "prompt");
    let house = site.open(&model, &MemoryJournal::new()).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.count("steering/message"), 1);
    house.close().await;
}

// C-SUB-1: an agent that answers is a session below this one, with its tools; no hook is asked about what it does.
#[tokio::test]
async fn an_agent_looks_before_it_answers() {
    let model = model(YES, true);
    let site = Asking::new("PreToolUse", "agent");
    let house = site.open(&model, &MemoryJournal::new()).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ran(), ["look", "main"]);
    let results = own(&house.log(), "hook/result");
    assert_eq!(results.len(), 1);
    let agent = results[0].root().get("agent").unwrap().as_str().unwrap().into_owned();
    let log = records(&house.journal, &agent);
    let Body::SessionCreated(created) = &log[0].body else { panic!() };
    let parent = created.parent.as_ref().unwrap();
    assert_eq!((parent.session.as_str(), &parent.call), ("s", &None));
    assert_eq!(own(&log, "hook/result").len(), 0);
    assert_eq!(house.runtime.live_sessions().len(), 1, "the agent left memory");
    house.close().await;
}

// C-PIPE-10, C-BRIDGE-8: what a settings file denies is denied to an agent of its hooks, too.
#[tokio::test]
async fn permissions_hold_for_an_agent_of_a_hook() {
    let model = model(YES, true);
    let settings = r#"{"hooks":{"Stop":[{"hooks":[{"type":"agent","prompt":"MAY IT?"}]}]},"permissions":{"deny":["Echo"]}}"#;
    let site = Asking::settings(settings.into());
    let house = site.open(&model, &MemoryJournal::new()).await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.ran().len(), 0);
    house.close().await;
}

// C-BRIDGE-3: a model that fails, an agent that is cut off: the hook failed, and what it was asked about goes on.
#[tokio::test]
async fn who_does_not_answer_decides_nothing() {
    for kind in ["prompt", "agent"] {
        let model = Says::stream(|request| match (asks(request), last_prompt(request).1) {
            (true, _) => events(vec![ModelEvent::Text("{".into())]),
            (false, 0) => events(calls(&[("Echo", r#"{"text":"main"}"#)])),
            (false, _) => events(say("done")),
        });
        let site = Asking::new("PreToolUse", kind);
        let house = site.open(&model, &MemoryJournal::new()).await;
        assert_eq!(house.prompt("go").await, EndReason::Completed, "{kind}");
        assert_eq!(house.ran(), ["main"], "{kind}");
        assert!(own(&house.log(), "hook/result")[0].root().get("error").is_some(), "{kind}");
        house.close().await;
    }
}

// C-DUR-1, C-DUR-3: killed after any record, the turn goes on; an answer on record is never asked for again, and an agent that
// was at work, or done, is not asked anew.
#[tokio::test]
async fn nothing_is_asked_again_after_a_kill() {
    for (kind, looks) in [("prompt", false), ("agent", true)] {
        let project = Asking::new("PreToolUse", kind);
        // How long the log was after each append: it is durable whole or not at all.
        let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
        let appended = lengths.clone();
        let whole = MemoryJournal::with_faults(move |session, batch| {
            let mut lengths = appended.lock().unwrap();
            if session.as_str() == "s" {
                let before = lengths.last().copied().unwrap_or_default();
                lengths.push(before + batch.records.len());
            }
            None
        });
        let house = project.open(&model(YES, looks), &whole).await;
        assert_eq!(house.prompt("go").await, EndReason::Completed);
        house.close().await;
        let log = records(&whole, "s");
        let place = |kind: &str| log.iter().position(|record| record.body.kind() == kind).unwrap();
        let (queued, heard) = (place("prompt/queued"), place("hook/result"));
        let body = place("tool/dispatched")..place("tool/returned");
        let sessions = whole.sessions().await.unwrap();
        let child = sessions.into_iter().map(|head| head.session).find(|id| id.as_str() != "s");
        let lengths = lengths.lock().unwrap().clone();
        for cut in lengths.into_iter().filter(|length| *length > queued) {
            let journal = MemoryJournal::new();
            journal.preload(&SessionId::new("s").unwrap(), log[..cut].to_vec());
            if let Some(child) = &child {
                journal.preload(child, whole.records(child));
            }
            let model = model(YES, looks);
            let house = project.open(&model, &journal).await;
            until(|| {
                let state = law::State::fold(&house.log()).unwrap();
                state.next(None) == law::Next::Idle
            })
            .await;
            let due = usize::from(kind == "prompt" && cut <= heard);
            assert_eq!(questions(&model).len(), due, "{kind}, {cut} records");
            assert_eq!(house.count("hook/result"), 1, "{kind}, {cut} records");
            let end = if body.contains(&(cut - 1)) { "outcome_unknown" } else { "completed" };
            assert_eq!(house.ends(), [end], "{kind}, {cut} records");
            house.close().await;
        }
    }
}
