//! C-SEAM, C-RUN-5: a session's end is told once, when its host shuts down and the session is at rest; while its log is open.

mod support;

use futures::{FutureExt, future::LocalBoxFuture};
use portcullis::{hooks::ClaudeHooks, *};
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use support::*;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Notes each end, and puts a record of its own behind it. Whoever notifies lets the prompt `wait` pass.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>, Arc<Notify>);

impl EndObserver for Notes {
    fn observe(&self, ended: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let scene = ended.scene;
            self.0.lock().unwrap().push(format!("{} {} {:?}", scene.session.id, scene.turn, scene.prompt));
            let data = Frozen::parse(format!(r#"{{"turn":{}}}"#, scene.turn)).unwrap();
            vec![OwnRecord { kind: "house/over".into(), data }]
        })
    }
}

/// Writes what only the runtime may.
struct Forges;

impl EndObserver for Forges {
    fn observe(&self, _: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        let data = Frozen::parse("{}").unwrap();
        Box::pin(std::future::ready(vec![OwnRecord { kind: "turn/end".into(), data }]))
    }
}

impl Notes {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn model() -> Says {
    Says::by_prompt(|prompt, said| match (prompt, said) {
        ("dig", 0) => calls(&[("Agent", r#"{"description":"d","prompt":"go","subagent_type":"digger"}"#)]),
        ("ask", 0) => calls(&[("Echo", r#"{"text":"a"}"#)]),
        _ => say("done"),
    })
}

/// One process over the journal.
async fn process(journal: &MemoryJournal, notes: &Notes, idle_after: Option<Duration>) -> (Runtime, Session) {
    let notes = notes.clone();
    let mut builder = Runtime::builder(model())
        .journal(journal.clone())
        .tools([echo(&Arc::default())])
        .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
        .policy("house", move |at| {
            let pass = notes.1.clone();
            at.session_end_by("notes", notes);
            at.within(PATIENCE, |at| {
                at.prompt_submit("waits", async move |prompt| {
                    if prompt.content.to_text() == "wait" {
                        pass.notified().await;
                    }
                    Submit::allow()
                });
            });
            at.tools("Echo", |at| _ = at.pre_execute("careful", async |_| Gate::ask("sure?")));
        })
        .arbiters(1);
    if let Some(after) = idle_after {
        builder = builder.idle_after(after);
    }
    let runtime = builder.start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    (runtime, session)
}

async fn prompt(session: &Session, text: &str) -> EndReason {
    within(within(session.prompt(text)).await.unwrap().into_future()).await
}

fn over(journal: &MemoryJournal) -> usize {
    records(journal, "s").iter().filter(|r| r.body.kind() == "house/over").count()
}

// Once, awaited, with its record the last of a log that folds and plays again; and once more when it was taken up again.
#[tokio::test]
async fn the_end_of_a_session_is_told_once_and_its_records_are_the_last() {
    let (journal, notes) = (MemoryJournal::new(), Notes::default());
    let (runtime, session) = process(&journal, &notes, None).await;
    prompt(&session, "dig").await;
    prompt(&session, "go").await;
    assert_eq!(notes.all(), [""; 0], "not while it lives, and not of its subagent");
    within(runtime.shutdown(PATIENCE)).await;
    let first = notes.all();
    assert!(first.len() == 1 && first[0].starts_with("s 2 Some"), "{first:?}");
    let log = records(&journal, "s");
    assert_eq!((log.last().unwrap().body.kind(), over(&journal)), ("house/over", 1));
    sound(&journal).await;
    // Opened, and nothing done in it: nothing ends. With a turn of its own, it does.
    let (runtime, _session) = process(&journal, &notes, None).await;
    within(runtime.shutdown(PATIENCE)).await;
    assert_eq!(over(&journal), 1);
    let (runtime, session) = process(&journal, &notes, None).await;
    prompt(&session, "go").await;
    within(runtime.shutdown(PATIENCE)).await;
    assert!(notes.all().len() == 2 && notes.all()[1].starts_with("s 3 Some"), "{:?}", notes.all());
    sound(&journal).await;
}

// What is no end: a turn that waits for a person, a session that is away, a runtime that is dropped, a pen that is another's.
#[tokio::test]
async fn what_is_parked_away_dropped_or_lost_has_not_ended() {
    let (journal, notes) = (MemoryJournal::new(), Notes::default());
    let (runtime, session) = process(&journal, &notes, None).await;
    let _turn = within(session.prompt("ask")).await.unwrap();
    until(|| !session.asks().is_empty()).await;
    let left = within(runtime.shutdown(Duration::from_millis(20))).await;
    assert_eq!((left.parked.len(), notes.all().len()), (1, 0), "its turn waits for a person");

    let (journal, soon) = (MemoryJournal::new(), Some(Duration::from_millis(20)));
    let (runtime, session) = process(&journal, &notes, soon).await;
    prompt(&session, "go").await;
    until(|| session.is_away()).await;
    within(runtime.shutdown(PATIENCE)).await;
    assert_eq!(notes.all().len(), 0, "it left memory before");

    let (runtime, session) = process(&journal, &notes, None).await;
    prompt(&session, "go").await;
    drop(runtime);
    within(session.gone()).await;
    assert_eq!(notes.all().len(), 0, "nobody shut it down");

    let lost = Arc::new(AtomicBool::new(false));
    let is_lost = lost.clone();
    let fenced = move |_: &SessionId, _: &Batch| {
        let error = || journal::Fault::Before(journal::JournalError::Fenced { epoch: 7 });
        is_lost.load(Ordering::SeqCst).then(error)
    };
    let journal = MemoryJournal::with_faults(fenced);
    let (runtime, session) = process(&journal, &notes, None).await;
    prompt(&session, "go").await;
    lost.store(true, Ordering::SeqCst);
    within(session.inject("house", "by the way")).await.unwrap_err();
    within(runtime.shutdown(PATIENCE)).await;
    assert_eq!(notes.all().len(), 0, "its pen is another's");
}

// A session that left memory and came back ends like one that never left, once the turn that the shutdown waits for is over.
#[tokio::test]
async fn one_that_was_away_ends_when_it_is_back() {
    let (journal, notes) = (MemoryJournal::new(), Notes::default());
    let (runtime, session) = process(&journal, &notes, Some(Duration::from_millis(20))).await;
    prompt(&session, "go").await;
    until(|| session.is_away()).await;
    let turn = within(session.prompt("wait")).await.unwrap();
    let down = tokio::spawn(runtime.shutdown(PATIENCE));
    until(|| session.prompt("more").now_or_never().is_some_and(|sent| sent.is_err())).await;
    assert_eq!(notes.all().len(), 0, "its turn is open");
    notes.1.notify_one();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(within(down).await.unwrap(), Leftover::default());
    assert_eq!((notes.all().len(), over(&journal)), (1, 1));
    sound(&journal).await;
}

// C-RUN-5: the shutdown's limit is the limit; who comes behind one that never answers is not called, and a failure is contained.
#[tokio::test]
async fn a_shutdown_waits_no_longer_than_its_limit() {
    let told: Arc<Mutex<Vec<&str>>> = Arc::default();
    let (first, behind) = (told.clone(), told.clone());
    let journal = MemoryJournal::new();
    let house = Plan::new(Says::calls(&[])).journal(&journal).open(|at| {
        at.session_end_by("forges", Forges);
        at.session_end("fails", async |_| panic!("a secret detail"));
        at.session_end("stuck", async move |_| {
            first.lock().unwrap().push("stuck");
            std::future::pending().await
        });
        at.session_end("behind", async move |_| behind.lock().unwrap().push("behind"));
    });
    let house = house.await;
    house.prompt("go").await;
    let began = Instant::now();
    let left = within(house.runtime.shutdown(Duration::from_secs(2))).await;
    assert!(left == Leftover::default() && began.elapsed() >= Duration::from_secs(2));
    assert_eq!(*told.lock().unwrap(), ["stuck"]);
    assert_eq!(
        records(&journal, "s").last().unwrap().body.kind(),
        "turn/end",
        "what is not theirs is not written"
    );
    sound(&journal).await;

    // Without any time, nobody is called.
    let notes = Notes::default();
    let (runtime, session) = process(&MemoryJournal::new(), &notes, None).await;
    prompt(&session, "go").await;
    within(runtime.shutdown(Duration::ZERO)).await;
    assert_eq!(notes.all().len(), 0);
}

/// A process over a project with one hook; what its log and its transcript are when it is over.
async fn hooked(dir: &TempDir, event: &str, command: &str) -> (MemoryJournal, String) {
    fs::create_dir_all(dir.path().join(".claude")).unwrap();
    let settings = format!(
        r#"{{"hooks":{{"{event}":[{{"hooks":[{{"type":"command","command":"{command}","timeout":60}}]}}]}}}}"#
    );
    fs::write(dir.path().join(".claude/settings.json"), settings).unwrap();
    let (hooks, reports) = ClaudeHooks::load(dir.path());
    assert_eq!(reports, []);
    let journal = MemoryJournal::new();
    let builder = Runtime::builder(model()).journal(journal.clone()).mount_deciding(hooks.clone());
    let runtime = builder.arbiters(1).start().await.unwrap();
    let session = runtime.open("s", SessionOptions::new(dir.path())).await.unwrap();
    prompt(&session, "go").await;
    within(runtime.shutdown(PATIENCE)).await;
    sound(&journal).await;
    (journal, fs::read_to_string(hooks.transcript(session.id())).unwrap())
}

// C-BRIDGE-1, C-SEAM-2: SessionEnd hooks run to their end, their records are in the log, and they find the transcript whole.
#[tokio::test]
async fn session_end_hooks_are_not_cut_off() {
    let dir = TempDir::new().unwrap();
    let (journal, transcript) = hooked(&dir, "SessionEnd", "sleep 0.2; cat > seen").await;
    let log = records(&journal, "s");
    let last: Vec<&str> = log.iter().rev().take(2).map(|r| r.body.kind()).collect();
    assert_eq!(last, ["hook/result", "hook/invoked"]);
    let read = fs::read_to_string(dir.path().join("seen")).unwrap();
    assert!(read.ends_with("\"hook_event_name\":\"SessionEnd\",\"reason\":\"other\"}\n"), "{read}");
    assert!(read.contains("\"prompt_id\":") && !read.contains("permission_mode"), "{read}");
    assert!(transcript.lines().last().unwrap().contains(r#""text":"done""#), "{transcript}");
}

// The last line is there without a hook on the end, too.
#[tokio::test]
async fn the_transcript_of_a_session_that_has_ended_is_whole() {
    for _ in 0..5 {
        let (_, transcript) = hooked(&TempDir::new().unwrap(), "PreToolUse", "true").await;
        assert!(transcript.lines().last().unwrap().contains(r#""text":"done""#), "{transcript}");
    }
}
