//! Decisions of a point that are one record are what as many records would be.

mod common;

use common::{calls, config, created, handler, header, prompt, sealed};
use portcullis_runtime::{law::State, *};

fn call() -> At {
    At::call(1, 1, CallPath::top(0))
}

fn subject() -> Subject {
    Subject::Call(CallPath::top(0))
}

/// A session whose model has made one call, whose gate is open to be judged.
fn judged() -> State {
    let step = || At::step(1, 1);
    let drafts = [
        Draft::new(At::session(), created()),
        Draft::new(At::session(), config(Limits::default())),
        Draft::new(At::session(), prompt("go")),
        Draft::new(At::turn(1), TurnStart { takes: vec![Seq(2)] }),
        Draft::new(At::turn(1), UserMessage { content: "go".into(), source: Source::User, from: Seq(2) }),
        Draft::new(step(), StepStart {}),
        Draft::new(step(), header("be brief")),
        Draft::new(step(), ModelRequested { attempt: 1, digest: None }),
        Draft::new(step(), calls(&[("c", "Bash", "{}")])),
        Draft::new(call(), sealed("c", "Bash", "{}")),
    ];
    let mut state = State::new();
    for draft in drafts {
        let record = draft.seal(state.head(), 0);
        state.apply(&record).expect("valid");
    }
    state
}

fn gate(name: &str, gate: Gate) -> HandlerDecision {
    let decision = Decision::PreExecute(gate);
    let (context, halt) = (Vec::new(), None);
    HandlerDecision { id: handler(name), order: 0, decision, context, halt, failure: None, ms: 0 }
}

fn add(state: &mut State, made: Vec<HandlerDecision>) -> Result<(), law::Invalid> {
    let body = DecisionsRecorded::of(Point::PreExecute, &subject(), made).expect("some");
    put(state, body)
}

fn put(state: &mut State, body: impl Into<Body>) -> Result<(), law::Invalid> {
    let record = Draft::new(call(), body).seal(state.head(), 0);
    state.apply(&record)
}

// C-DUR-1, C-PIPE-2: found by key, folded, and halted by, as if each stood alone.
#[test]
fn several_decisions_are_what_as_many_records_would_be() {
    let mut halting = gate("halts", Gate::allow());
    halting.halt = Some("enough".into());
    halting.context = vec!["one".into(), "two".into()];
    let mut again = gate("halts-too", Gate::ask("sure?"));
    again.halt = Some("more than enough".into());
    let made = vec![gate("first", Gate::allow()), halting, again, gate("last", Gate::deny("no"))];
    let (mut one, mut several) = (judged(), judged());
    for decision in made.clone() {
        add(&mut one, vec![decision]).expect("valid");
    }
    add(&mut several, made.clone()).expect("valid");
    assert_eq!((one.head(), several.head()), (Seq(14), Seq(11)));
    for decision in &made {
        let found = |state: &State| state.decision_of(Point::PreExecute, &subject(), &decision.id).cloned();
        assert_eq!(found(&several).as_ref(), Some(decision));
        assert_eq!(found(&one), found(&several));
    }
    let path = CallPath::top(0);
    assert!(matches!(several.gate(&path), Verdict::Closed { .. }));
    assert_eq!(one.gate(&path), several.gate(&path));
    for passed in [None, Some(Point::PreExecute), Some(Point::PostExecute)] {
        assert_eq!(one.call(&path, passed), several.call(&path, passed));
    }
    // To the end of the turn, which is halted by the first that asked for it.
    let mut ends = Vec::new();
    for state in [&mut one, &mut several] {
        let law::CallOwes::Commit(drafts) = state.call(&path, Some(Point::PostExecute)) else { panic!() };
        for draft in drafts {
            let record = draft.seal(state.head(), 0);
            state.apply(&record).expect("valid");
        }
        let behind = Some((Point::Batch, Subject::Batch(1)));
        while let law::Next::Commit(drafts) = state.next(behind.as_ref()) {
            for draft in drafts {
                let record = draft.seal(state.head(), 0);
                state.apply(&record).expect("valid");
                if let Body::TurnEnd(end) = &record.body {
                    ends.push(end.reason.clone());
                }
            }
        }
        assert_eq!(state.next(None), law::Next::Idle);
    }
    assert_eq!(one.transcript(), several.transcript());
    let halted = EndReason::Halted { by: handler("halts"), reason: "enough".into() };
    assert_eq!(ends, [halted.clone(), halted]);
}

// C-DUR-1: a handler decides once, whichever record holds it.
#[test]
fn a_handler_decides_once_in_whichever_record() {
    let twice = |first: &[&str], second: &[&str]| {
        let mut state = judged();
        let made = |names: &[&str]| names.iter().map(|name| gate(name, Gate::allow())).collect();
        add(&mut state, made(first)).expect("valid");
        let head = state.head();
        let refused = add(&mut state, made(second)).expect_err("a second decision of one handler");
        assert_eq!((refused.why, refused.seq), ("this handler has decided already", head));
        assert_eq!(state.head(), head, "nothing has changed");
        assert!(state.decision_of(Point::PreExecute, &subject(), &handler("new")).is_none());
    };
    twice(&["a"], &["a"]);
    twice(&["a"], &["new", "a"]);
    twice(&["a", "b"], &["b"]);
    twice(&["a", "b"], &["new", "a"]);
    twice(&["a"], &["new", "new"]);
}

// C-LOG-1: what is no list, and what belongs to another point, is refused.
#[test]
fn a_list_holds_several_decisions_of_its_point() {
    let of = |decisions| DecisionsRecorded { point: Point::PreExecute, subject: subject(), decisions };
    let mut state = judged();
    assert!(put(&mut state, of(vec![])).is_err());
    assert!(put(&mut state, of(vec![gate("a", Gate::allow())])).is_err());
    let mut stranger = gate("b", Gate::allow());
    stranger.decision = Decision::Guard(GuardVerdict::Abstain);
    let refused = add(&mut state, vec![gate("a", Gate::allow()), stranger]).expect_err("of another point");
    assert_eq!(refused.why, "its point decides otherwise");
    assert!(!state.has_decided(Point::PreExecute, &subject()));
}
