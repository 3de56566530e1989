//! Random sessions on the law alone: prompts, steering, models, calls, people, cancels, kills.

mod common;

use common::{
    Tape,
    driver::{Driver, Seen},
};
use portcullis_runtime::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::{cell::RefCell, collections::BTreeMap};

fn add<K: Ord + Clone>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *all.entry(key.clone()).or_default() += count;
    }
}

// RECORDS.md, rules of the fold: each record discharges what `next` owed at its prefix. C-LOG-1, 3, 4, 8; C-TURN-5, 7, 8,
// 9; C-PIPE-1, 2; C-DUR-1, 2, 3. The driver asserts them at every record, `check` once more on the finished log.
#[test]
fn random_sessions_keep_every_rule_and_reach_every_end() {
    let seen = RefCell::new(Seen::default());
    let config = Config { cases: 600, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tapes = proptest::collection::vec(proptest::num::u16::ANY, 0..500);
    let played = runner.run(&tapes, |tape| {
        let mut driver = Driver::new(Tape::new(tape));
        driver.play();
        let mut seen = seen.borrow_mut();
        add(&mut seen.records, &driver.seen.records);
        add(&mut seen.ends, &driver.seen.ends);
        add(&mut seen.outcomes, &driver.seen.outcomes);
        add(&mut seen.points, &driver.seen.points);
        add(&mut seen.events, &driver.seen.events);
        Ok(())
    });
    if let Err(failed) = played {
        panic!("{failed}");
    }
    let seen = seen.into_inner();
    println!("{seen:#?}");

    // Nothing owes the records of children: bodies start them.
    let later = ["subagent/started", "subagent/ended"];
    for (kind, _) in Body::TYPES.iter().filter(|(kind, _)| !later.contains(kind)) {
        assert!(seen.records.contains_key(*kind), "no `{kind}` in any script");
    }
    assert!(seen.records.contains_key("own"));
    // `interrupted` is given by recovery that gives up, not by the law.
    for end in ["completed", "rejected", "aborted", "halted", "max_tokens", "continuation_cap", "error"] {
        assert!(seen.ends.contains_key(end), "no turn ended `{end}`");
    }
    for ended in [
        "completed",
        "tool_error",
        "unknown_tool",
        "invalid_arguments",
        "invalid_output",
        "hook_deny",
        "guard_deny",
        "approval_refused",
        "approval_cancelled",
        "approval_unavailable",
        "approval_expired",
        "deferral_expired",
        "handler_failure",
        "timeout",
        "cancelled_before_dispatch",
        "cancelled",
        "outcome_unknown",
    ] {
        assert!(seen.outcomes.contains_key(ended), "no call ended `{ended}`");
    }
    // Wrappers and observers decide nothing that is recorded; children have their own sessions.
    for point in [
        Point::SessionStart,
        Point::PromptSubmit,
        Point::Rewrite,
        Point::PreExecute,
        Point::Permission,
        Point::Guard,
        Point::PostExecute,
        Point::Batch,
        Point::Continuation,
        Point::Stop,
        Point::Compaction,
        Point::Compacted,
    ] {
        assert!(seen.points.contains_key(&point), "nothing was decided at {point}");
    }
    for event in [
        "killed",
        "killed within an append",
        "cancelled",
        "failed",
        "model failed",
        "left behind",
        "interrupted",
        "resumed",
        "overtaken",
        "held",
    ] {
        assert!(seen.events.contains_key(event), "it never happened: {event}");
    }
}
