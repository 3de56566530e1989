//! C-DUR-4, C-RUN-1: a session without work leaves memory, and is back for whoever wants something of it.

mod support;

use futures::{FutureExt, StreamExt, future::BoxFuture};
use portcullis::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::*;

const ECHO: [(&str, &str); 1] = [("Echo", r#"{"text":"a"}"#)];
const SOON: Duration = Duration::from_millis(20);

/// A model that answers a prompt with a call of Echo, and `dig` with one of Agent.
fn model() -> Says {
    Says::by_prompt(|prompt, said| match (prompt, said) {
        ("plain", _) => say("plainly"),
        ("dig", 0) => calls(&[("Agent", r#"{"description":"d","prompt":"go","subagent_type":"digger"}"#)]),
        (_, 0) => calls(&ECHO),
        _ => say("done"),
    })
}

struct Place {
    runtime: Runtime,
    session: Session,
    journal: MemoryJournal,
    ran: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Place {
    async fn new(journal: MemoryJournal, idle_after: Duration) -> Place {
        let ran = Arc::default();
        let runtime = Runtime::builder(model())
            .journal(journal.clone())
            .tools([echo(&ran)])
            .tool(agent_tool(vec![AgentKind::new("digger", "Digs.")]).unwrap())
            .policy("house", |at| {
                at.tools("Echo", |at| {
                    at.pre_execute("careful", async |_| Gate::ask("sure?"));
                });
            })
            .idle_after(idle_after)
            .arbiters(1)
            .start()
            .await
            .unwrap();
        let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
        Place { runtime, session, journal, ran }
    }

    async fn away(&self) {
        until(|| self.session.is_away()).await;
    }

    async fn asked(&self) -> Ask {
        until(|| !self.session.asks().is_empty()).await;
        self.session.asks().remove(0)
    }

    fn count(&self, kind: &str) -> usize {
        records(&self.journal, "s").iter().filter(|r| r.body.kind() == kind).count()
    }

    async fn close(self) {
        sound(&self.journal).await;
        assert_eq!(within(self.runtime.shutdown(PATIENCE)).await.parked, []);
    }
}

async fn end(turn: Turn) -> EndReason {
    within(turn.into_future()).await
}

// C-DUR-4: an idle session leaves memory; its next prompt brings it back behind the same handle, and its log is as if it
// had never left.
#[tokio::test]
async fn an_idle_session_leaves_and_comes_back_for_its_next_prompt() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    for _ in 0..3 {
        assert_eq!(end(place.session.prompt("plain").await.unwrap()).await, EndReason::Completed);
        place.away().await;
        assert_eq!(place.runtime.live_sessions(), []);
        let health = place.runtime.health();
        assert_eq!((health.resident, health.away), (0, 1));
    }
    // By its name, others get the very handle.
    let same = place.runtime.session("s").await.unwrap();
    assert!(same.is_away());
    assert_eq!(end(same.steer("plain").await.unwrap()).await, EndReason::Completed);
    within(same.inject("house", "by the way")).await.unwrap();
    place.away().await;
    assert_eq!(place.count("turn/end"), 4);
    assert_eq!(place.count("session/resumed"), 0, "nothing was in flight, so nothing was missed");
    place.close().await;
}

// C-DUR-4, C-ASK-3: a turn that waits for a person alone leaves memory; the answer brings it back, and that very call goes on.
#[tokio::test]
async fn a_question_waits_without_its_session() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let turn = place.session.prompt("go").await.unwrap();
    let ask = place.asked().await;
    place.away().await;
    assert_eq!(place.session.asks().len(), 1, "whoever looks sees it");
    let mut wrong = ask.clone();
    wrong.digest = [0; 32];
    assert_eq!(place.session.answer(&wrong, Answer::Allow).await, Err(AnswerError::Tampered));
    assert!(place.session.is_away(), "what is refused brings nobody back");
    within(place.session.answer(&ask, Answer::Allow)).await.unwrap();
    assert_eq!(end(turn).await, EndReason::Completed);
    assert_eq!(*place.ran.lock().unwrap(), ["a"]);
    assert_eq!(place.session.answer(&ask, Answer::Allow).await, Err(AnswerError::Settled));
    let counts = ["input/requested", "input/resolved", "tool/dispatched"].map(|kind| place.count(kind));
    assert_eq!(counts, [1, 1, 1]);
    place.close().await;
}

// C-TURN-9: a cancel finds the turn of a session that is away, and is on record when it is acknowledged.
#[tokio::test]
async fn a_parked_turn_is_cancelled() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let turn = place.session.prompt("go").await.unwrap();
    let ask = place.asked().await;
    place.away().await;
    assert_eq!(within(place.session.cancel(Cause::User)).await, Ok(true));
    assert_eq!(place.count("turn/cancelled"), 1);
    assert!(matches!(end(turn).await, EndReason::Aborted { .. }));
    assert_eq!(place.session.answer(&ask, Answer::Allow).await, Err(AnswerError::Settled));
    place.away().await;
    assert_eq!(within(place.session.cancel(Cause::User)).await, Ok(false), "nothing is open");
    assert!(place.session.is_away());
    assert_eq!(end(place.session.prompt("plain").await.unwrap()).await, EndReason::Completed);
    place.close().await;
}

// C-DUR-4, C-ASK-4: a subagent that waits for a person leaves with its root; answered at the root, it goes on, and its parent
// gets its result, once.
#[tokio::test]
async fn a_tree_leaves_with_its_root() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let turn = place.session.prompt("dig").await.unwrap();
    let ask = place.asked().await;
    assert_ne!(ask.id.as_str().split(':').next(), Some("s"), "the subagent's");
    place.away().await;
    assert_eq!(place.runtime.live_sessions(), []);
    assert!(place.runtime.live_calls().is_empty(), "nothing runs for it");
    let again = place.asked().await;
    assert_eq!((&again.id, again.digest), (&ask.id, ask.digest));
    within(place.session.answer(&again, Answer::Allow)).await.unwrap();
    assert_eq!(end(turn).await, EndReason::Completed);
    assert_eq!(*place.ran.lock().unwrap(), ["a"], "one body");
    assert_eq!((place.count("subagent/started"), place.count("subagent/ended")), (1, 1));
    assert_eq!(place.count("session/resumed"), 1, "the body of Agent was in flight");
    place.close().await;
}

// C-DUR-4: whoever comes while a session leaves is neither lost nor answered twice; thousands of tries hit every moment of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_and_answers_against_leaving() {
    let place = Place::new(MemoryJournal::new(), Duration::ZERO).await;
    let mut left = 0;
    for n in 0..400_u64 {
        // A different pause each time: some come before, some while, some after it leaves.
        tokio::time::sleep(Duration::from_micros(n * 97 % 12_000)).await;
        if n % 16 == 0 {
            place.away().await;
        }
        left += u64::from(place.session.is_away());
        if n % 4 != 0 {
            assert_eq!(end(within(place.session.prompt("plain")).await.unwrap()).await, EndReason::Completed);
            continue;
        }
        let turn = within(place.session.prompt("go")).await.unwrap();
        let ask = place.asked().await;
        tokio::time::sleep(Duration::from_micros(n * 131 % 12_000)).await;
        if n % 8 == 0 {
            within(place.session.answer(&ask, Answer::Allow)).await.unwrap();
            assert_eq!(end(turn).await, EndReason::Completed);
        } else {
            assert_eq!(within(place.session.cancel(Cause::User)).await, Ok(true));
            assert!(matches!(end(turn).await, EndReason::Aborted { .. }));
        }
    }
    assert!(left >= 25, "it left {left} times");
    assert_eq!((place.count("prompt/queued"), place.count("turn/end")), (400, 400));
    assert_eq!(place.ran.lock().unwrap().len(), 50, "each allowed call once");
    place.close().await;
}

// C-LOG-10: a subscriber sees every record, once and in order, whether or not the session was away in between.
#[tokio::test]
async fn a_subscriber_misses_nothing() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let mut events = place.session.events(Seq(0));
    for _ in 0..3 {
        assert_eq!(end(place.session.prompt("plain").await.unwrap()).await, EndReason::Completed);
        place.away().await;
    }
    let log = records(&place.journal, "s");
    let mut seen = Vec::new();
    while seen.len() < log.len() {
        match within(events.next()).await {
            Some(Event::Record(record)) => seen.push(record),
            Some(Event::Ended) | None => panic!("it ended after {}", seen.len()),
            Some(_) => {}
        }
    }
    assert_eq!(seen, log);
    place.close().await;
}

// C-DUR-4: its pen is free: another runtime takes it up, and the first one is told so and may try again later.
#[tokio::test]
async fn another_process_may_have_it() {
    let journal = MemoryJournal::new();
    let first = Place::new(journal.clone(), SOON).await;
    let turn = first.session.prompt("go").await.unwrap();
    let ask = first.asked().await;
    first.away().await;
    let second = Place::new(journal.clone(), PATIENCE).await;
    let same = second.asked().await;
    assert_eq!((&same.id, same.digest), (&ask.id, ask.digest));
    let refused = within(first.session.prompt("plain")).await;
    let Err(SubmitError::Journal { error: JournalError::AlreadyOwned(_), prompts }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(prompts.len(), 1, "handed back");
    let refused = within(first.session.answer(&ask, Answer::Allow)).await;
    assert!(matches!(refused, Err(AnswerError::Journal(JournalError::AlreadyOwned(_)))), "{refused:?}");
    let follows = second.session.events(Seq(0));
    within(second.session.answer(&same, Answer::Allow)).await.unwrap();
    let ended = follows.any(|event| {
        std::future::ready(matches!(event, Event::Record(r) if matches!(r.body, Body::TurnEnd(_))))
    });
    assert!(within(ended).await);
    second.close().await;
    // Its turn is over; whoever waited for it here learns that with the next thing that brings the session back.
    assert_eq!(end(first.session.prompt("plain").await.unwrap()).await, EndReason::Completed);
    assert_eq!(end(turn).await, EndReason::Completed);
    assert!(first.session.asks().is_empty());
    first.close().await;
}

// C-DUR-4: with nobody holding its handle, it is its log and nothing else; opened by its name, it goes on.
#[tokio::test]
async fn a_session_that_nobody_holds_is_its_log() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    drop(place.session.prompt("go").await.unwrap());
    let ask = place.asked().await;
    let Place { runtime, session, journal, ran } = place;
    drop(session);
    until(|| runtime.health() == Health::default()).await;
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    let place = Place { runtime, session, journal, ran };
    let again = place.asked().await;
    assert_eq!(again.id, ask.id);
    within(place.session.answer(&again, Answer::Refuse(None))).await.unwrap();
    until(|| place.count("turn/end") == 1).await;
    place.close().await;
}

// C-SEAM-4: registrations of a session are there when it comes back, also by its name alone.
#[tokio::test]
async fn a_session_keeps_its_own_policy_while_it_is_away() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let strict = place.runtime.open_with("strict", SessionOptions::new("/"), "strict", |at| {
        at.prompt_submit("nobody", async |_| Submit::block("closed today"));
    });
    let strict = strict.await.unwrap();
    until(|| strict.is_away()).await;
    drop(strict);
    let again = place.runtime.session("strict").await.unwrap();
    let ended = end(again.prompt("plain").await.unwrap()).await;
    assert!(matches!(ended, EndReason::Rejected { .. }), "{ended:?}");
    place.close().await;
}

// C-RUN-5: handles of sessions that are away are told when the runtime is over.
#[tokio::test]
async fn a_shutdown_ends_the_handles_of_who_is_away() {
    let place = Place::new(MemoryJournal::new(), SOON).await;
    let turn = place.session.prompt("go").await.unwrap();
    place.asked().await;
    place.away().await;
    let Place { runtime, session, .. } = place;
    within(runtime.shutdown(PATIENCE)).await;
    within(session.gone()).await;
    assert!(matches!(end(turn).await, EndReason::Error { code, .. } if &*code == "session_gone"));
    let late = within(session.prompt("plain")).await;
    assert!(matches!(late, Err(SubmitError::Draining { .. } | SubmitError::Closed { .. })), "{late:?}");
}

// C-DUR-4: a body that may not run again keeps its session in memory, whatever it waits for.
#[tokio::test]
async fn a_body_that_may_not_run_again_stays() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let outer = tool("Outer", "Calls Echo.", async |_: Nothing, cx: ToolCx| {
        let inner = cx.call("Echo", r#"{"text":"a"}"#).await;
        Ok::<_, ToolError>(inner.ended.name().to_owned())
    });
    let ran = Arc::default();
    let runtime = Runtime::builder(Says::calls(&[("Outer", "{}")]))
        .tools([echo(&ran)])
        .tool(outer.unwrap())
        .policy("house", |at| {
            at.tools("Echo", |at| {
                at.pre_execute("careful", async |_| Gate::ask("sure?"));
            });
        })
        .idle_after(Duration::ZERO)
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    let other = runtime.session("other").await.unwrap();
    let turn = session.prompt("go").await.unwrap();
    until(|| !session.asks().is_empty()).await;
    // As long as it takes another one to come and go a few times.
    for _ in 0..5 {
        until(|| other.is_away()).await;
        within(other.inject("house", "still there?")).await.unwrap();
    }
    assert!(!session.is_away());
    session.answer(&session.asks()[0], Answer::Allow).await.unwrap();
    assert_eq!(end(turn).await, EndReason::Completed);
    assert_eq!(*ran.lock().unwrap(), ["a"]);
    within(runtime.shutdown(PATIENCE)).await;
}

// C-RUN-5: once a shutdown has begun, no session comes back for new work, however long others take to end theirs.
#[tokio::test]
async fn nobody_comes_back_into_a_shutdown() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let body = gate.clone();
    let slow = tool("Slow", "Takes its time.", async move |_: Nothing, _cx| {
        body.acquire().await.unwrap().forget();
        Ok::<_, ToolError>("done")
    });
    let model = Says::by_prompt(|prompt, said| match (prompt, said) {
        ("slow", 0) => calls(&[("Slow", "{}")]),
        _ => say("plainly"),
    });
    let journal = MemoryJournal::new();
    let builder = Runtime::builder(model).journal(journal.clone()).tool(slow.unwrap());
    let runtime = builder.idle_after(SOON).arbiters(1).start().await.unwrap();
    let (away, busy) = (runtime.session("away").await.unwrap(), runtime.session("busy").await.unwrap());
    until(|| away.is_away()).await;
    let turn = within(busy.prompt("slow")).await.unwrap();
    until(|| !runtime.live_calls().is_empty()).await;
    let before = records(&journal, "away").len();
    let over = tokio::spawn(runtime.shutdown(PATIENCE));
    // Whoever is open notices the shutdown: then it has begun everywhere on this arbiter.
    until(|| matches!(busy.try_prompt("late").now_or_never(), Some(Err(_)))).await;
    let late = within(away.prompt("plain")).await;
    assert!(matches!(late, Err(SubmitError::Draining { .. } | SubmitError::Closed { .. })), "{late:?}");
    gate.add_permits(1);
    assert_eq!(end(turn).await, EndReason::Completed);
    assert_eq!(within(over).await.unwrap().parked, []);
    assert_eq!(records(&journal, "away").len(), before, "nothing was begun");
}

/// A journal that gives nobody a pen while it is told so.
struct Stubborn {
    inner: MemoryJournal,
    refuses: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl journal::Around for Stubborn {
    type Inner = MemoryJournal;

    fn inner(&self) -> &MemoryJournal {
        &self.inner
    }

    fn on_claim(
        &self,
        session: &SessionId,
        incarnation: u128,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Ownership, JournalError>> {
        if !self.refuses.load(Ordering::SeqCst) {
            return self.inner.claim(session, incarnation, claim);
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Err(JournalError::Busy)))
    }
}

// C-ASK-3: a question that runs out while its session cannot be brought back is settled when it can.
#[tokio::test]
async fn a_question_runs_out_though_the_first_try_to_settle_it_fails() {
    let (inner, refuses, refused) = (MemoryJournal::new(), Arc::default(), Arc::default());
    let (told, tried): (Arc<AtomicBool>, Arc<AtomicUsize>) = (Arc::clone(&refuses), Arc::clone(&refused));
    let runtime = Runtime::builder(Says::calls(&ECHO))
        .journal(Stubborn { inner: inner.clone(), refuses, refused })
        .tools([echo(&Arc::default())])
        .policy("house", |at| {
            at.pre_execute("careful", async |_| Gate::ask("sure?"));
        })
        .idle_after(SOON)
        .asks_expire_after(Duration::from_millis(500))
        .arbiters(1)
        .start()
        .await
        .unwrap();
    let session = runtime.open("s", SessionOptions::new("/").approvals()).await.unwrap();
    let turn = session.prompt("go").await.unwrap();
    until(|| session.is_away()).await;
    told.store(true, Ordering::SeqCst);
    until(|| tried.load(Ordering::SeqCst) > 0).await;
    told.store(false, Ordering::SeqCst);
    assert_eq!(end(turn).await, EndReason::Completed);
    let log = records(&inner, "s");
    let settled = log.iter().find_map(|r| match &r.body {
        Body::InputResolved(resolved) => Some(resolved.resolution),
        _ => None,
    });
    assert_eq!(settled, Some(Resolution::Expired));
    within(runtime.shutdown(PATIENCE)).await;
}
