//! Forks of random sessions, at every place.

mod common;

use common::{Tape, driver::Driver};
use portcullis_runtime::{
    history::compare,
    law::{Next, State},
    *,
};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::sync::Arc;

const NOW: u64 = 99;

fn child() -> SessionId {
    SessionId::new("child").expect("a name")
}

fn state(log: &[Arc<Record>]) -> State {
    State::fold(log).unwrap_or_else(|invalid| panic!("{invalid}"))
}

/// A fork of a log at its end: it stands for itself, says the same, and is at rest.
fn stands(parent: &[Arc<Record>], forked: &[Arc<Record>]) {
    let (was, is) = (state(parent), state(forked));
    let created = is.created().expect("a beginning");
    let seed = created.seed.as_ref().expect("a seed");
    assert_eq!((&created.id, &seed.session), (&child(), &common::session()));
    assert_eq!((seed.seq.0, seed.own), (parent.len() as u64 - 1, is.head()));
    assert_eq!((is.open_turn(), is.next(None)), (None, Next::Idle), "nothing is owed, nobody waits");
    assert_eq!(is.waiting().count(), 0);
    assert!(is.is_fresh_fork() && !is.is_closed());
    let owed: Vec<StartSource> = is.starts_owed().iter().map(|(_, source)| *source).collect();
    assert_eq!(owed.last(), Some(&StartSource::Fork));
    assert!(owed[..owed.len() - 1].iter().all(|source| *source == StartSource::Compact), "{owed:?}");
    let (before, after) = (was.transcript(), is.transcript());
    assert!(before.iter().eq(after.iter().take(before.len())), "the conversation goes on from there");
    if was.open_turn().is_none() {
        assert_eq!(before.digest(), after.digest());
    } else {
        assert_eq!(is.last_end(), Some(&EndReason::Interrupted));
    }
}

/// It goes on: a prompt opens the next turn.
fn goes_on(forked: &[Arc<Record>]) {
    let mut state = state(forked);
    let turns = forked.iter().filter_map(|record| record.at.turn).max().unwrap_or_default();
    let put = |state: &mut State, draft: Draft| {
        let record = draft.seal(state.head(), NOW);
        state.apply(&record).unwrap_or_else(|invalid| panic!("{invalid}"));
    };
    put(&mut state, Draft::new(At::session(), common::prompt("again")));
    let Next::Commit(mut drafts) = state.next(None) else { panic!("{:?}", state.next(None)) };
    put(&mut state, drafts.remove(0));
    assert_eq!(state.open_turn(), Some(turns + 1));
    let judged = Next::Judge { point: Point::SessionStart, subject: Subject::Session(Seq(0)) };
    let first = state.starts_owed()[0];
    assert!(first.1 == StartSource::Compact || state.next(None) == judged, "{:?}", state.next(None));
}

// C-DUR-7: at any closed turn or step, and wherever a log ends.
#[test]
fn a_fork_folds_alone_and_to_the_same_conversation() {
    let config = Config { cases: 40, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tapes = proptest::collection::vec(proptest::num::u16::ANY, 0..400);
    let played = runner.run(&tapes, |tape| {
        let mut driver = Driver::new(Tape::new(tape));
        driver.play();
        let log = &driver.log;
        for n in 1..=log.len() {
            let forked = fork(&log[..n], ForkAt::Head, &child(), NOW).unwrap_or_else(|e| panic!("{n}: {e}"));
            stands(&log[..n], &forked);
            let at = match (&log[n - 1].body, log[n - 1].at.turn, log[n - 1].at.step) {
                (Body::TurnEnd(_), Some(turn), _) => ForkAt::Turn(turn),
                (Body::StepEnd(_), Some(turn), Some(step)) => ForkAt::Step(turn, step),
                _ => continue,
            };
            assert_eq!(fork(log, at, &child(), NOW).as_deref(), Ok(&forked[..]), "{at}");
            goes_on(&forked);
        }
        Ok(())
    });
    if let Err(failed) = played {
        panic!("{failed}");
    }
}

/// A session of two turns, with a prompt that came while the first was open.
fn two_turns() -> Vec<Arc<Record>> {
    let turn = |n, body: Body| Draft::new(At::turn(n), body);
    let step = |n, body: Body| Draft::new(At::step(n, 1), body);
    let one = |n: u64, from: u64, said: &str| {
        vec![
            turn(n, TurnStart { takes: vec![Seq(from)] }.into()),
            turn(n, UserMessage { content: said.into(), source: Source::User, from: Seq(from) }.into()),
            step(n, StepStart {}.into()),
        ]
    };
    let rest = |n: u64| {
        vec![
            step(n, ModelRequested { attempt: 1, digest: None }.into()),
            step(n, common::says("yes").into()),
            step(n, StepEnd {}.into()),
            turn(n, TurnEnd { reason: EndReason::Completed, dropped: Vec::new() }.into()),
        ]
    };
    let session = |body: Body| Draft::new(At::session(), body);
    let mut drafts = vec![
        session(common::created().into()),
        session(common::config(Limits::default()).into()),
        session(common::prompt("one").into()),
    ];
    drafts.extend(one(1, 2, "one"));
    drafts.push(step(1, common::header("be brief").into()));
    drafts.push(session(common::prompt("two").into()));
    drafts.extend(rest(1));
    drafts.extend(one(2, 7, "two"));
    drafts.extend(rest(2));
    let log = common::number(drafts);
    state(&log);
    log
}

#[test]
fn what_waits_for_the_parent_is_not_answered_twice() {
    let parent = two_turns();
    let forked = fork(&parent, ForkAt::Turn(1), &child(), NOW).expect("a fork");
    let queued = forked.iter().filter(|record| matches!(record.body, Body::PromptQueued(_))).count();
    assert_eq!(queued, 1, "the second prompt is the parent's");
    assert!(forked.iter().enumerate().all(|(at, record)| record.seq.0 == at as u64));
    // The whole of it differs from its parent by its beginning alone.
    let whole = fork(&parent, ForkAt::Head, &child(), NOW).expect("a fork");
    let found = compare(&parent, &whole);
    assert_eq!((found.same, found.differing), (parent.len() as u64 - 1, 1));
    let first = found.first.expect("a difference");
    assert_eq!(first.place.to_string(), "session/created");
    // And again: a fork of a fork.
    let again = fork(&whole, ForkAt::Turn(2), &SessionId::new("grandchild").expect("a name"), NOW);
    let again = again.expect("a fork");
    assert_eq!(state(&again).transcript().digest(), state(&parent).transcript().digest());
}

#[test]
fn a_place_that_is_not_there_is_named() {
    let parent = two_turns();
    let refused = |at: &str| {
        let at = at.parse().expect("a place");
        fork(&parent[..parent.len() - 1], at, &child(), NOW).expect_err("no fork").to_string()
    };
    assert_eq!(refused("3"), "session `s1` cannot be forked at turn 3: it has 2 turns");
    assert_eq!(refused("1.2"), "session `s1` cannot be forked at step 1.2: that turn has 1 step");
    assert!(refused("2").ends_with("that turn is open; name a step of it, or no place"));
    for text in ["", "0x", "1.", ".1", "-1", "1.1.1"] {
        assert!(text.parse::<ForkAt>().is_err(), "{text}");
    }
    let key = CallKey { turn: 1, step: 1, call: CallPath::top(0) };
    let created =
        SessionCreated { parent: Some(Parent { session: child(), call: Some(key) }), ..common::created() };
    let subagent = common::number([Draft::new(At::session(), created)]);
    assert_eq!(fork(&subagent, ForkAt::Head, &child(), NOW), Err(ForkError::Subagent(common::session())));
}
