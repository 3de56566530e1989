//! Histories beside each other.

mod common;

use common::{calls, created, prompt, sealed};
use portcullis_runtime::{history::compare, *};
use std::sync::Arc;

/// A turn whose two calls return in the order given.
fn turn(name: &str, first: u32, said: &str, ms: u64) -> Vec<Arc<Record>> {
    let (turn, step) = (At::turn(1), At::step(1, 1));
    let call = |n: u32| At::call(1, 1, CallPath::top(n));
    let made = calls(&[("c0", "Look", "{}"), ("c1", "Look", "{}")]);
    let created = SessionCreated { id: SessionId::new(name).expect("a name"), ..created() };
    let returned = |n: u32| {
        let outcome = Arc::new(Outcome::completed(format!("{said} {n}")));
        Draft::new(call(n), ToolReturned { attempt: 1, outcome, ms })
    };
    let safe = |id: &str| ToolCall { concurrency_safe: true, ..sealed(id, "Look", "{}") };
    let user = UserMessage { content: "go".into(), source: Source::User, from: Seq(1) };
    common::number([
        Draft::new(At::session(), created),
        Draft::new(At::session(), prompt("go")),
        Draft::new(turn.clone(), TurnStart { takes: vec![Seq(1)] }),
        Draft::new(turn.clone(), user),
        Draft::new(step.clone(), StepStart {}),
        Draft::new(step.clone(), common::header("be brief")),
        Draft::new(step.clone(), ModelRequested { attempt: 1, digest: None }),
        Draft::new(step.clone(), AssistantMessage { usage: Some(Usage { input: ms, output: 1 }), ..made }),
        Draft::new(call(0), safe("c0")),
        Draft::new(call(0), ToolDispatched { attempt: 1 }),
        Draft::new(call(1), safe("c1")),
        Draft::new(call(1), ToolDispatched { attempt: 1 }),
        returned(first),
        returned(1 - first),
    ])
}

#[test]
fn order_times_usage_and_names_are_no_difference() {
    let (left, right) = (turn("a", 0, "saw", 5), turn("b", 1, "saw", 7));
    let found = compare(&left, &right);
    assert_eq!((found.same, found.differing, found.first), (left.len() as u64, 0, None));
}

#[test]
fn the_first_difference_is_named_and_all_are_counted() {
    let (left, right) = (turn("a", 0, "saw", 5), turn("b", 1, "heard", 5));
    let found = compare(&left, &right);
    assert_eq!((found.same, found.differing), (left.len() as u64 - 2, 2));
    let first = found.first.expect("a difference");
    assert_eq!(first.place.to_string(), "turn 1, step 1, call 0, tool/returned");
    assert_eq!((first.left.expect("a record").seq, first.right.expect("a record").seq), (Seq(12), Seq(13)));

    let short = &left[..left.len() - 1];
    for (one, other, is_left) in [(&left[..], short, true), (short, &left[..], false)] {
        let found = compare(one, other);
        assert_eq!((found.same, found.differing), (left.len() as u64 - 1, 1));
        let first = found.first.expect("a difference");
        assert_eq!((first.left.is_some(), first.right.is_some()), (is_left, !is_left));
    }
}
