//! C-RUN: what goes wrong stays where it went wrong.

mod common;
use common::*;
use portcullis_actors::{Config, Runtime, SessionOptions, SubmitError};
use portcullis_runtime::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

/// A memory journal whose appends panic when told to.
struct Bomb {
    inner: MemoryJournal,
    when: When,
}

impl journal::Around for Bomb {
    type Inner = MemoryJournal;

    fn inner(&self) -> &MemoryJournal {
        &self.inner
    }

    fn on_append(&self, own: &mut Ownership, batch: Batch) -> Result<Ticket, JournalError> {
        if (self.when)(&batch) {
            panic!("the journal's own defect");
        }
        self.inner.append(own, batch)
    }
}

async fn runtime(model: Answers, journal: impl Journal) -> Runtime {
    let mut table = Table::new();
    table.tool(echo()).unwrap();
    let config = Config {
        table,
        model: Arc::new(model),
        journal: Arc::new(journal),
        system: "".into(),
        limits: Limits::default(),
        arbiters: Some(1),
        idle_after: None,
        asks_expire_after: None,
        inbox_every: None,
        required: vec![],
    };
    Runtime::start(config).await.unwrap()
}

type When = Box<dyn Fn(&Batch) -> bool + Send + Sync>;

fn once(kind: &'static str) -> (When, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(true));
    let trigger = armed.clone();
    let when = move |batch: &Batch| {
        batch.records.iter().any(|r| r.body.kind() == kind) && trigger.swap(false, Ordering::SeqCst)
    };
    (Box::new(when), armed)
}

// C-RUN-3: the session actor's own panic restarts the session from its log, behind the same handle; others go on.
#[tokio::test]
async fn a_session_actor_that_panics_is_restarted_from_its_log() {
    let inner = MemoryJournal::new();
    let (when, armed) = once("turn/start");
    let answers = Answers::new(vec![say("hello")]);
    let runtime = runtime(answers, Bomb { inner: inner.clone(), when }).await;
    let session = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
    let other = runtime.session(SessionId::new("other").unwrap(), SessionOptions::new("/")).await.unwrap();
    // The actor dies in the append: nothing of it is there, and the prompt is handed back.
    let lost = session.prompt("one").await;
    assert!(matches!(lost, Err(SubmitError::Closed { ref prompts }) if prompts.len() == 1), "{lost:?}");
    assert!(!armed.load(Ordering::SeqCst));
    assert_eq!(other.prompt("x").await.unwrap().await, EndReason::Completed);
    assert_eq!(session.prompt("two").await.unwrap().await, EndReason::Completed);
    let kinds: Vec<String> = inner.records(&id()).iter().map(|r| r.body.kind().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|k| *k == "session/resumed").count(), 1);
    assert_eq!(kinds.iter().filter(|k| *k == "user/message").count(), 1, "handed back, and not kept as well");
    assert!(runtime.shutdown(Duration::from_secs(5)).await.parked.is_empty());
}

// C-RUN-3: a panic inside the turn's loop, by a journal that broke its word: the session is taken up again from its log,
// and the same turn goes on.
#[tokio::test]
async fn a_turn_loop_that_panics_goes_on_from_its_log() {
    for kind in ["model/requested", "tool/dispatched", "tool/result", "step/end"] {
        let inner = MemoryJournal::new();
        let (when, _) = once(kind);
        let answers = Answers::new(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]);
        let runtime = runtime(answers, Bomb { inner: inner.clone(), when }).await;
        let session = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
        let end = session.prompt("one").await.unwrap().await;
        assert_eq!(end, EndReason::Completed, "{kind}");
        let records = inner.records(&id());
        assert_eq!(law::State::fold(&records).unwrap().next(None), law::Next::Idle);
        let other =
            runtime.session(SessionId::new("other").unwrap(), SessionOptions::new("/")).await.unwrap();
        assert_eq!(other.prompt("x").await.unwrap().await, EndReason::Completed, "{kind}: others go on");
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

// C-TURN-10: a journal that fails ends at most its own turn; the session leaves memory and can be opened again.
#[tokio::test]
async fn a_journal_that_fails_is_told_to_whoever_waits() {
    for (kind, fault) in [
        ("tool/dispatched", journal::Fault::Before(JournalError::StorageFull)),
        ("tool/dispatched", journal::Fault::After(JournalError::Indeterminate("cut".into()))),
        ("tool/dispatched", journal::Fault::Instead(JournalError::StorageFull)),
        ("turn/end", journal::Fault::Before(JournalError::Unavailable("gone".into()))),
    ] {
        let armed = Arc::new(AtomicBool::new(true));
        let trigger = armed.clone();
        let faulty = fault.clone();
        let journal = MemoryJournal::with_faults(move |_, batch| {
            let here = batch.records.iter().any(|r| r.body.kind() == kind);
            (here && trigger.swap(false, Ordering::SeqCst)).then(|| faulty.clone())
        });
        let answers = Answers::new(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]);
        let runtime = runtime(answers, journal.clone()).await;
        let session = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
        let end = session.prompt("one").await.unwrap().await;
        assert!(
            matches!(&end, EndReason::Error { code, .. } if code.starts_with("journal_")),
            "{fault:?}: {end:?}"
        );
        session.gone().await;
        let again = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
        // The open turn goes on where its log ends; then the next prompt has its own.
        assert_eq!(again.prompt("two").await.unwrap().await, EndReason::Completed, "{fault:?}");
        let records = journal.records(&id());
        assert_eq!(law::State::fold(&records).unwrap().next(None), law::Next::Idle);
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

/// Registers a gate that says when a call is inside, and holds it until it gets a permit.
fn hold()
-> (Arc<tokio::sync::Semaphore>, tokio::sync::mpsc::UnboundedReceiver<()>, impl FnOnce(&mut Registrar<'_>)) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (entered, inside) = tokio::sync::mpsc::unbounded_channel();
    let wait = gate.clone();
    let register = move |at: &mut Registrar<'_>| {
        at.pre_execute("hold", move |_: Execution| {
            let (wait, entered) = (wait.clone(), entered.clone());
            async move {
                let _ = entered.send(());
                wait.acquire().await.unwrap().forget();
                Gate::allow()
            }
        });
    };
    (gate, inside, register)
}

// C-TURN-4: steering joins and forces the next step; with no turn open it is a prompt.
#[tokio::test]
async fn steering_joins_the_open_turn() {
    let (gate, mut inside, hold) = hold();
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done"), say("more")], hold).await;
    let turn = house.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    let steered = house.session.steer("be brief").await.unwrap();
    gate.add_permits(1);
    assert_eq!(turn.done().await.0, steered.done().await.0, "one turn");
    let second = &house.model.requests()[1];
    assert!(matches!(second.messages.last(), Some(Message::Steering { source: Source::User, .. })));
    let idle = house.session.steer("now a prompt").await.unwrap();
    assert_eq!(idle.done().await.0, 2);
    house.sound();
}

// C-TURN-4, C-SEAM-5: steering that the gate blocks is told with the turn that it was for.
#[tokio::test]
async fn blocked_steering_is_told_with_its_turn() {
    let (gate, mut inside, hold) = hold();
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], |at| {
        at.prompt_submit("house rules", async |p| match p.content.to_text().contains("secret") {
            true => Submit::block("not that"),
            false => Submit::allow(),
        });
        hold(at);
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    inside.recv().await.unwrap();
    let steered = house.session.steer("tell the secret").await.unwrap();
    gate.add_permits(1);
    let ended = turn.done().await;
    assert_eq!(steered.done().await.0, ended.0, "one turn");
    assert_eq!(ended.1, EndReason::Completed);
    assert_eq!(house.kinds().iter().filter(|k| *k == "steering/message").count(), 0);
    house.sound();
}

// C-TURN-4: inject never wakes the model, carries its owner, and is in the next turn's first request.
#[tokio::test]
async fn idle_inject_waits_for_the_next_turn() {
    let house = house(vec![say("a"), say("b")], |_| {}).await;
    house.session.inject("clock", "it is noon").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(house.model.requests().is_empty());
    assert_eq!(house.prompt("hello").await, EndReason::Completed);
    let context =
        house.model.requests()[0].messages.iter().find(|m| matches!(m, Message::Context { .. })).cloned();
    assert_eq!(
        context,
        Some(Message::Context { content: "it is noon".into(), source: Source::owner("clock") })
    );
    house.sound();
}

// C-PIPE-4, C-RUN-2: who blocks the arbiter's thread is named.
#[tokio::test]
async fn a_handler_that_blocks_the_thread_is_named() {
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], |at| {
        at.guard("sleeper", |_| {
            std::thread::sleep(Duration::from_millis(400));
            None
        });
    })
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    let stalls = house.runtime.stalls();
    assert!(
        stalls.iter().any(|s| s.id == HandlerId::new("test", "sleeper") && s.point == Some(Point::Guard)),
        "{stalls:?}"
    );
}

// C-RUN-5: a shutdown ends, and says who held a thread beyond its limit.
#[tokio::test]
async fn a_shutdown_leaves_a_blocked_thread_behind() {
    let blocked = Arc::new(Mutex::new(()));
    let hold = blocked.clone();
    let house = house(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")], move |at| {
        at.guard("stuck", move |_| {
            let _held = hold.lock().unwrap();
            None
        });
    })
    .await;
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let _held = blocked.lock().unwrap();
        locked.send(()).unwrap();
        let _ = released.recv();
    });
    is_locked.recv().unwrap();
    let _turn = house.session.prompt("go").await.unwrap();
    while house.runtime.live_calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let left = house.runtime.clone().shutdown(Duration::ZERO).await;
    assert_eq!(left.parked, [id()]);
    assert_eq!(
        left.blocked.iter().map(|s| (&s.id, s.point)).collect::<Vec<_>>(),
        [(&HandlerId::new("test", "stuck"), Some(Point::Guard))]
    );
    drop(release);
    holder.join().unwrap();
}

// C-RUN-2: a full door is a typed error that hands the prompt back.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "the lock blocks the arbiter's thread on purpose")]
async fn overload_is_typed_and_loses_nothing() {
    let blocked = Arc::new(Mutex::new(()));
    let hold = blocked.clone();
    let model = Answers::new(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]);
    let house = house_with(model, MemoryJournal::new(), false, move |at| {
        at.guard("stuck", move |_| {
            let _held = hold.lock().unwrap();
            None
        });
    })
    .await;
    let session = house.session.clone();
    let turn = {
        let _held = blocked.lock().unwrap();
        let turn = session.prompt("go").await.unwrap();
        // The arbiter's thread is blocked in the guard: nothing is taken from the door any more.
        while house.runtime.live_calls().is_empty() {
            std::thread::yield_now();
        }
        let mut waiting = Vec::new();
        let busy = loop {
            let mut next = Box::pin(session.try_prompt("more"));
            match futures::FutureExt::now_or_never(&mut next) {
                Some(Err(SubmitError::Busy { prompts })) => break prompts,
                Some(other) => panic!("{other:?}"),
                None => waiting.push(next),
            }
            assert!(waiting.len() <= 64, "the door never filled");
        };
        assert_eq!(busy, [Content::text("more")]);
        // Giving up waiting does not lose what is at the door.
        drop(waiting);
        turn
    };
    assert_eq!(turn.await, EndReason::Completed);
    assert!(house.runtime.clone().shutdown(Duration::from_secs(20)).await.parked.is_empty());
    let queued = house.kinds().iter().filter(|k| *k == "prompt/queued").count();
    assert!(queued > 30, "{queued}");
}

// C-PIPE-4: a handler that says it may block runs on the blocking pool: nothing stalls, and its panic is its failure.
#[tokio::test]
async fn a_blocking_handler_blocks_nobody() {
    let house = house(
        vec![calls(&[("Echo", r#"{"text":"x"}"#), ("Echo", r#"{"text":"boom"}"#)]), say("done")],
        |at| {
            let slow = |call: Execution| {
                std::thread::sleep(Duration::from_millis(200));
                assert!(!call.arguments.text().contains("boom"), "on purpose");
                Gate::allow()
            };
            at.handler::<PreExecute>("slow", portcullis_actors::blocking(slow));
        },
    )
    .await;
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    assert_eq!(house.runtime.stalls(), []);
    let ends: Vec<&str> = house.results().iter().map(|r| r.outcome.name()).collect();
    assert_eq!(ends, ["completed", "handler_failure"]);
}

// C-RUN-3: a call that is still running when its turn's loop dies is told to stop, and what it then says harms nobody.
#[tokio::test]
async fn a_body_left_over_of_a_dead_turn_harms_nobody() {
    let inner = MemoryJournal::new();
    let (when, _) = once("tool/returned");
    let answers = Answers::new(vec![calls(&[("Echo", r#"{"text":"x"}"#)]), say("done")]);
    let runtime = runtime(answers, Bomb { inner: inner.clone(), when }).await;
    let session = runtime.session(id(), SessionOptions::new("/")).await.unwrap();
    // The session is taken up again from its log, and with it the turn that was cut off: the outcome is not known.
    assert_eq!(session.prompt("one").await.unwrap().await, EndReason::Completed);
    for _ in 0..3 {
        assert_eq!(session.prompt("again").await.unwrap().await, EndReason::Completed);
    }
    let records = inner.records(&id());
    assert_eq!(law::State::fold(&records).unwrap().next(None), law::Next::Idle);
    runtime.shutdown(Duration::from_secs(5)).await;
}
