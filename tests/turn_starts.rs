//! C-SEAM, C-DUR-1: a turn's start is told before anything of the turn is done; what takes effect there does so behind its record.

mod support;

use futures::future::LocalBoxFuture;
use portcullis::*;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use support::*;

/// Hooks that come and go: a gate's, a guard's and one on a session's end, as a bridge has them.
#[derive(Clone, Default)]
struct Bridge {
    is_there: Arc<AtomicBool>,
    /// What it finds when it looks; taken once.
    found: Arc<Mutex<Option<bool>>>,
    /// What of its own was on disk when that took effect.
    on_disk: Arc<AtomicUsize>,
    journal: MemoryJournal,
    looked: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicUsize>,
}

impl Bridge {
    fn finds(&self, there: bool) {
        *self.found.lock().unwrap() = Some(there);
    }

    fn register(&self, at: &mut Registrar<'_>) {
        at.turn_start_by("look", self.clone());
        at.source::<PromptSubmit>(Arc::new(self.clone()));
        at.guard_by("no knife", self.clone());
        at.session_end_by("ends", self.clone());
    }
}

fn own(kind: &str) -> OwnRecord {
    OwnRecord { kind: kind.into(), data: Frozen::parse("{}").unwrap() }
}

fn of_kind(journal: &MemoryJournal, kind: &str) -> usize {
    records(journal, "s").iter().filter(|r| r.body.kind() == kind).count()
}

impl StartObserver for Bridge {
    fn observe(&self, starting: TurnStarting) -> LocalBoxFuture<'_, Ready> {
        let scene = starting.scene;
        let at =
            format!("{} {} {} {:?}", scene.session.id, scene.turn, scene.step, scene.prompt.map(|p| p.0));
        self.looked.lock().unwrap().push(at);
        let (bridge, found) = (self.clone(), self.found.lock().unwrap().take());
        Box::pin(async move {
            let Some(there) = found else { return Ready::default() };
            Ready::new(vec![own("bridge/looked")]).then(move || {
                bridge.on_disk.store(of_kind(&bridge.journal, "bridge/looked"), Ordering::SeqCst);
                bridge.is_there.store(there, Ordering::SeqCst);
            })
        })
    }
}

impl HandlerSource<PromptSubmit> for Bridge {
    fn plan(&self, _: &Submitted, out: &mut Vec<Planned<PromptSubmit>>) {
        let (id, run) = (HandlerId::new("bridge", "hook"), Arc::new(async |_: Submitted| Submit::allow()));
        out.push(Planned { id, deadline: PATIENCE, run, native: false });
    }
    fn describe(&self) -> Vec<Registered> {
        let row =
            || Registered::new(Point::PromptSubmit, HandlerId::new("bridge", "hook"), "", "", None, false);
        if self.is_there.load(Ordering::SeqCst) { vec![row()] } else { Vec::new() }
    }
    fn is_idle(&self) -> bool {
        !self.is_there.load(Ordering::SeqCst)
    }
}

impl Guard for Bridge {
    fn check(&self, call: &Execution) -> Option<Reason> {
        call.arguments.text().contains("knife").then(|| "no knife".into())
    }
    fn is_idle(&self) -> bool {
        !self.is_there.load(Ordering::SeqCst)
    }
}

/// What is told in the bridge's stead when a session ends.
struct End(Arc<AtomicUsize>);

impl EndObserver for End {
    fn observe(&self, _: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(vec![own("bridge/ended")]))
    }
}

impl EndObserver for Bridge {
    fn observe(&self, _: SessionEnded) -> LocalBoxFuture<'_, Vec<OwnRecord>> {
        unreachable!("others are told in its stead")
    }
    fn plan(&self, _: &SessionEnded) -> Option<Vec<PlannedEnd>> {
        let there = self.is_there.load(Ordering::SeqCst);
        let end = |name: &str| (name.into(), Arc::new(End(self.ended.clone())) as Arc<dyn EndObserver>);
        Some(if there { vec![end("one"), end("two")] } else { Vec::new() })
    }
    fn describe(&self) -> Option<Vec<Registered>> {
        let there = self.is_there.load(Ordering::SeqCst);
        let row =
            |name| Registered::new(Point::SessionEnd, HandlerId::new("bridge", name), "", "", None, false);
        Some(if there { vec![row("one"), row("two")] } else { Vec::new() })
    }
}

fn knife() -> Says {
    Says::by_prompt(|_, said| match said {
        0 => calls(&[("Echo", r#"{"text":"knife"}"#)]),
        _ => say("done"),
    })
}

fn names(rows: &[Registered], point: Point) -> Vec<&str> {
    rows.iter().filter(|row| row.point == point).map(|row| &*row.id.handler).collect()
}

// Handlers that come and go between two turns: what is planned, what is in force and what is replayed follow. C-SEAM-6, C-DUR-7.
#[tokio::test]
async fn what_comes_at_a_turns_start_is_in_force_from_that_turn_on() {
    let bridge = Bridge::default();
    let house = Plan::new(knife()).journal(&bridge.journal).open(|at| bridge.register(at)).await;
    let rows = house.runtime.introspect();
    let shown = |rows: &[Registered]| {
        [Point::TurnStart, Point::PromptSubmit, Point::Guard, Point::SessionEnd]
            .map(|point| names(rows, point).join(" "))
    };
    assert_eq!(shown(&rows), ["look", "", "", ""]);
    assert_eq!(rows[0].limit_ms, Some(10_000));
    for (finds, ran) in [(None, 1), (Some(true), 1), (None, 1), (Some(false), 2)] {
        if let Some(there) = finds {
            bridge.finds(there);
        }
        assert_eq!(house.prompt("go").await, EndReason::Completed);
        assert_eq!(house.ran().len(), ran, "{finds:?}");
    }
    assert_eq!(bridge.on_disk.load(Ordering::SeqCst), 2, "the record first");
    let decided: Vec<(u64, Point)> = house
        .log()
        .iter()
        .flat_map(|r| decisions(std::slice::from_ref(r)).into_iter().map(|d| (r.at.turn.unwrap(), d.point)))
        .collect();
    let in_turn = |turn| [(turn, Point::PromptSubmit), (turn, Point::Guard)];
    assert_eq!(decided, [in_turn(2), in_turn(3)].concat());
    // What is in force is said where it changes, and not where it does not.
    let log = house.log();
    let configs = log.iter().filter_map(|r| match &r.body {
        Body::ConfigInForce(config) => Some((r.at.turn, config.handlers.len())),
        _ => None,
    });
    assert_eq!(configs.collect::<Vec<_>>(), [(None, 1), (None, 5), (None, 1)]);
    let kinds = house.kinds();
    let second = kinds.iter().enumerate().filter(|(_, kind)| *kind == "turn/start").nth(1).unwrap().0;
    assert_eq!(kinds[second + 1..second + 4], ["bridge/looked", "config/in-force", "decision/recorded"]);
    assert_eq!(kinds[second + 4], "user/message");
    let looked = bridge.looked.lock().unwrap().clone();
    assert_eq!(looked[0], "s 1 0 None");
    assert!(looked.len() == 4 && looked[1].starts_with("s 2 0 Some"), "{looked:?}");
    let (journal, ended) = (bridge.journal.clone(), bridge.ended.clone());
    bridge.is_there.store(true, Ordering::SeqCst);
    house.close().await;
    assert_eq!((ended.load(Ordering::SeqCst), of_kind(&journal, "bridge/ended")), (2, 2));
    sound(&journal).await;
}

// A session that is opened behind a change says what is in force then; one that lives says so with its next turn.
#[tokio::test]
async fn every_session_says_what_is_in_force() {
    let bridge = Bridge::default();
    let house = Plan::new(knife()).journal(&bridge.journal).open(|at| bridge.register(at)).await;
    let other = house.runtime.open("other", SessionOptions::new("/")).await.unwrap();
    bridge.finds(true);
    house.prompt("go").await;
    let late = house.runtime.open("late", SessionOptions::new("/")).await.unwrap();
    for session in [&other, &late] {
        within(within(session.prompt("go")).await.unwrap().into_future()).await;
    }
    let rows = |session: &str| -> Vec<usize> {
        let log = records(&bridge.journal, session);
        let rows = log.iter().filter_map(|r| match &r.body {
            Body::ConfigInForce(config) => Some(config.handlers.len()),
            _ => None,
        });
        rows.collect()
    };
    assert_eq!([rows("s"), rows("other"), rows("late")], [vec![1, 5], vec![1, 5], vec![5]]);
    let journal = bridge.journal.clone();
    house.close().await;
    sound(&journal).await;
}

// C-TURN-9: a turn that is cancelled while it is looked ends, and nothing takes effect; the next one looks again.
#[tokio::test]
async fn a_cancel_does_not_wait_for_who_looks() {
    struct Stuck(Arc<Latch>);
    impl StartObserver for Stuck {
        fn observe(&self, starting: TurnStarting) -> LocalBoxFuture<'_, Ready> {
            Box::pin(async move {
                if starting.scene.turn == 1 {
                    self.0.pass().await;
                }
                Ready::default()
            })
        }
    }
    let (latch, journal) = (Arc::new(Latch::default()), MemoryJournal::new());
    let stuck = Stuck(latch.clone());
    let house =
        Plan::new(Says::calls(&[])).journal(&journal).open(|at| _ = at.turn_start_by("stuck", stuck)).await;
    let turn = within(house.session.prompt("go")).await.unwrap();
    within(latch.entered()).await;
    within(house.session.cancel(Cause::User)).await.unwrap();
    assert!(matches!(within(turn.into_future()).await, EndReason::Aborted { .. }));
    assert_eq!(house.prompt("go").await, EndReason::Completed);
    house.close().await;
    sound(&journal).await;
}
