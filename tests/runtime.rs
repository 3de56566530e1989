//! C-RUN: who blocks hurts his own arbiter only, and a shutdown in any state leaves a log that goes on.

mod support;

use futures::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use portcullis::*;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use support::*;

// C-RUN-2: a guard that blocks its thread holds up the sessions of its own arbiter; those of the others go on, and the
// watchdog names it.
#[tokio::test]
async fn a_blocked_thread_leaves_the_other_arbiters_running() {
    let (release, door) = std::sync::mpsc::channel::<()>();
    let (door, entered) = (Mutex::new(door), Arc::new(AtomicBool::new(false)));
    let enters = entered.clone();
    let ran = Arc::default();
    let runtime = Runtime::builder(Says::calls(&[("Echo", r#"{"text":"x"}"#)]))
        .tools([echo(&ran)])
        .policy("house", |at| {
            at.guard("blocks", move |call| {
                if call.scene.session.id.as_str() == "blocked" {
                    enters.store(true, Ordering::SeqCst);
                    // Until the other end is gone.
                    let _ = door.lock().unwrap().recv();
                }
                None
            });
        })
        .arbiters(2)
        .start()
        .await
        .unwrap();
    let blocked = runtime.session("blocked").await.unwrap();
    let mut others = Vec::new();
    for n in 0..16 {
        others.push(runtime.session(format!("other-{n}")).await.unwrap());
    }
    let turn = within(blocked.prompt("go")).await.unwrap();
    until(|| entered.load(Ordering::SeqCst)).await;
    let mut turns: FuturesUnordered<_> =
        others.iter().map(|session| async { session.prompt("go").await.unwrap().await }).collect();
    assert_eq!(
        within(turns.next()).await,
        Some(EndReason::Completed),
        "another arbiter's session ends its turn"
    );
    drop(release);
    while let Some(end) = within(turns.next()).await {
        assert_eq!(end, EndReason::Completed, "the blocked arbiter's sessions were only held up");
    }
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    drop(turns);
    assert_eq!(within(runtime.shutdown(PATIENCE)).await.parked, []);
}

// C-RUN-2: a handler that takes its time delays its own session only, also on one thread.
#[tokio::test]
async fn a_slow_handler_delays_its_own_session_only() {
    let latch = Latch::default();
    let wait = latch.clone();
    let house = house(&[("Echo", r#"{"text":"x"}"#)], |at| {
        at.within(PATIENCE, |at| {
            at.pre_execute("slow", async move |call| {
                if call.scene.session.id.as_str() == "s" {
                    wait.pass().await;
                }
                Gate::allow()
            });
        });
    })
    .await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    for name in ["a", "b", "c"] {
        let other = house.runtime.session(name).await.unwrap();
        assert_eq!(within(other.prompt("go").await.unwrap().into_future()).await, EndReason::Completed);
    }
    assert_eq!(house.results().len(), 0, "it still waits");
    latch.open();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    house.close().await;
}

/// Where a shutdown finds the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InPrompt,
    MidModel,
    InGate,
    /// In a bridge's handler, which runs in the session's hook runner.
    InHook,
    Asking,
    MidTool,
    InChild,
}

/// A handler as a bridge has it.
struct Hook {
    latch: Latch,
    here: bool,
}

impl HandlerSource<PreExecute> for Hook {
    fn plan(&self, _: &Execution, out: &mut Vec<Planned<PreExecute>>) {
        let (latch, here) = (self.latch.clone(), self.here);
        let run = Arc::new(Waits(latch, here));
        out.push(Planned { id: HandlerId::new("hooks", "slow"), deadline: PATIENCE, run, native: false });
    }
    fn describe(&self) -> Vec<Registered> {
        let id = HandlerId::new("hooks", "slow");
        vec![Registered::new(Point::PreExecute, id, "*", "proceeds", Some(PATIENCE), false)]
    }
}

struct Waits(Latch, bool);

impl Handler<PreExecute> for Waits {
    fn decide(&self, _: Execution) -> LocalBoxFuture<'_, Result<Reply<Gate>, BoxError>> {
        Box::pin(async move {
            if self.1 {
                self.0.pass().await;
            }
            Ok(Reply::new(Gate::allow()))
        })
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A house that waits at the latch in one state, in the first turn.
async fn waiting(state: State, latch: &Latch, journal: &MemoryJournal) -> House {
    let l = latch.clone();
    let model = Says::stream(move |request| {
        let (prompt, said) = last_prompt(request);
        let answer = match (&*prompt, said) {
            ("dig", _) => say("gold"),
            ("go", 0) if state == State::InChild => {
                calls(&[("Agent", r#"{"description":"d","prompt":"dig","subagent_type":"digger"}"#)])
            }
            ("go", 0) => calls(&[("Slow", "{}"), ("Echo", r#"{"text":"x"}"#)]),
            _ => say("done"),
        };
        if state == State::MidModel {
            let l = l.clone();
            let wait = futures::stream::once(async move {
                l.pass().await;
                Ok(ModelEvent::Text("slowly".into()))
            });
            return wait.chain(events(answer)).boxed();
        }
        events(answer)
    });
    let l = latch.clone();
    let slow = tool("Slow", "Waits.", async move |_: Nothing, _cx| {
        if state == State::MidTool {
            l.pass().await;
        }
        Ok::<_, ToolError>("slow")
    });
    let plan = Plan::new(model).journal(journal).agents().approvals().tool(slow.unwrap());
    let (prompt, gate, child, hook) = (latch.clone(), latch.clone(), latch.clone(), latch.clone());
    plan.open(|at| {
        at.within(PATIENCE, |at| {
            at.prompt_submit("slow", async move |_| {
                if state == State::InPrompt {
                    prompt.pass().await;
                }
                Submit::allow()
            });
            at.pre_execute("slow", async move |_| {
                if state == State::InGate {
                    gate.pass().await;
                }
                if state == State::Asking { Gate::ask("sure?") } else { Gate::allow() }
            });
            at.subagent_start("slow", async move |_| {
                if state == State::InChild {
                    child.pass().await;
                }
                Started {}
            });
        });
        at.source::<PreExecute>(Arc::new(Hook { latch: hook, here: state == State::InHook }));
    })
    .await
}

// C-RUN-5, C-DUR-4: a shutdown at its limit parks what is open and says so; the log is whole, and opened again the same
// turn goes on to its end. Nothing that is on record is asked or run again.
async fn shut_down_in(state: State) {
    let journal = MemoryJournal::new();
    let first = Latch::default();
    let house = waiting(state, &first, &journal).await;
    let turn = house.session.prompt("go").await.unwrap();
    if state == State::Asking {
        until(|| !house.session.asks().is_empty()).await;
    } else {
        first.entered().await;
    }
    let left = within(house.runtime.clone().shutdown(Duration::from_millis(20))).await;
    assert!(left.parked.iter().any(|id| id.as_str() == "s"), "{state:?}: {left:?}");
    assert!(
        matches!(within(turn.into_future()).await, EndReason::Error { .. }),
        "{state:?}: who waits is told"
    );
    assert!(matches!(
        house.session.prompt("more").await,
        Err(SubmitError::Draining { .. } | SubmitError::Closed { .. })
    ));
    let before = house.log();
    assert_ne!(
        law::State::fold(&before).unwrap().next(None),
        law::Next::Idle,
        "{state:?}: the turn is still open"
    );
    drop(house);

    let again = Latch::default();
    again.open();
    let house = waiting(state, &again, &journal).await;
    if state == State::Asking {
        for _ in 0..2 {
            until(|| !house.session.asks().is_empty()).await;
            house.session.answer(&house.session.asks().remove(0), Answer::Allow).await.unwrap();
        }
    }
    until(|| house.kinds().last().is_some_and(|kind| kind == "turn/end")).await;
    let log = house.log();
    assert_eq!(log[..before.len()], before, "{state:?}: what was on record stands");
    let end = log.iter().find_map(|r| match &r.body {
        Body::TurnEnd(end) => Some(end.reason.clone()),
        _ => None,
    });
    assert_eq!(end, Some(EndReason::Completed), "{state:?}");
    let ends = house.ends();
    match state {
        State::MidTool => assert_eq!(ends, ["outcome_unknown", "completed"]),
        // The Agent tool may run again: it takes its child up where that one is.
        State::InChild => assert_eq!(ends, ["completed"]),
        _ => assert_eq!(ends, ["completed", "completed"], "{state:?}"),
    }
    assert_eq!(house.count("input/requested"), if state == State::Asking { 2 } else { 0 });
    assert_eq!(house.prompt("more").await, EndReason::Completed, "{state:?}");
    law::State::fold(&house.log()).unwrap();
    assert_eq!(within(house.runtime.shutdown(PATIENCE)).await.parked, [], "{state:?}");
}

#[tokio::test]
async fn a_shutdown_in_each_state_leaves_a_turn_that_goes_on() {
    for state in [
        State::InPrompt,
        State::MidModel,
        State::InGate,
        State::InHook,
        State::Asking,
        State::MidTool,
        State::InChild,
    ] {
        shut_down_in(state).await;
    }
}

// C-RUN-5: with time enough the turn ends by itself, and nothing is parked; idle, there is nothing to wait for.
#[tokio::test]
async fn a_shutdown_lets_turns_end() {
    let (journal, latch) = (MemoryJournal::new(), Latch::default());
    let house = waiting(State::MidTool, &latch, &journal).await;
    let turn = house.session.prompt("go").await.unwrap();
    latch.entered().await;
    let down = tokio::spawn(house.runtime.clone().shutdown(PATIENCE));
    until(|| futures::FutureExt::now_or_never(house.session.prompt("more")).is_some_and(|r| r.is_err()))
        .await;
    latch.open();
    assert_eq!(within(turn.into_future()).await, EndReason::Completed);
    assert_eq!(within(down).await.unwrap(), Leftover::default());
    sound(&journal).await;

    let idle = house_idle(&journal).await;
    assert_eq!(within(idle.runtime.clone().shutdown(PATIENCE)).await.parked, []);
    assert!(
        matches!(idle.runtime.session("other").await, Err(OpenError::Open(_))),
        "nothing is opened any more"
    );
}

async fn house_idle(journal: &MemoryJournal) -> House {
    Plan::new(Says::calls(&[])).journal(journal).open(|_| {}).await
}

/// A journal that shows whether somebody holds it.
struct Held {
    inner: MemoryJournal,
    _held: Arc<()>,
}

impl journal::Around for Held {
    type Inner = MemoryJournal;

    fn inner(&self) -> &MemoryJournal {
        &self.inner
    }
}

// C-RUN-5: when a shutdown is over, the runtime holds its journal no more, so a process that ends then has closed it.
#[tokio::test]
async fn a_shutdown_lets_the_journal_go() {
    for round in 0..100 {
        let held = Arc::new(());
        let journal = Held { inner: MemoryJournal::new(), _held: held.clone() };
        let runtime = Runtime::builder(Says::calls(&[])).journal(journal).arbiters(2).start().await.unwrap();
        runtime.session("s").await.unwrap();
        within(runtime.shutdown(PATIENCE)).await;
        assert_eq!(Arc::strong_count(&held), 1, "round {round}");
    }
}
