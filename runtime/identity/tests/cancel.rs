//! The cancel tree and its causes in a plain build.
#![cfg(not(portcullis_loom))]

mod support;

use portcullis_identity::{Cancel, Cause};
use std::{sync::Arc, task::Poll, thread};
use support::{Flag, block_on, poll};

// C-ID-4, C-TURN-9: the first cause stays.
#[test]
fn the_first_cause_stays() {
    let cancel = Cancel::new();
    assert_eq!((cancel.cause(), cancel.is_cancelled()), (None, false));
    assert!(cancel.cancel(Cause::User));
    assert!(!cancel.clone().cancel(Cause::Deadline));
    assert_eq!((cancel.cause(), cancel.is_cancelled()), (Some(Cause::User), true));
}

#[test]
fn a_cancel_goes_down_and_never_up_or_sideways() {
    let root = Cancel::new();
    let (left, right) = (root.child(), root.child());
    let below = left.child();
    assert!(left.cancel(Cause::Deadline));
    assert_eq!(
        [&root, &left, &right, &below].map(Cancel::cause),
        [None, Some(Cause::Deadline), None, Some(Cause::Deadline)]
    );
    assert!(root.cancel(Cause::Shutdown));
    assert_eq!(
        [&root, &left, &right, &below].map(Cancel::cause),
        [Some(Cause::Shutdown), Some(Cause::Deadline), Some(Cause::Shutdown), Some(Cause::Deadline)]
    );
}

// C-PIPE-5: a signal can be tightened, never removed; here: no handle in between is needed.
#[test]
fn nothing_detaches_by_dropping_what_is_between() {
    let root = Cancel::new();
    let below = root.child().child().child();
    let waiter = root.child().child().cancelled();
    root.cancel(Cause::Halt);
    assert_eq!(below.cause(), Some(Cause::Halt));
    assert_eq!(block_on(waiter), Cause::Halt);
}

#[test]
fn a_child_made_after_a_cancel_is_born_cancelled() {
    let root = Cancel::new();
    root.cancel(Cause::Fenced);
    let child = root.child();
    assert_eq!(child.cause(), Some(Cause::Fenced));
    assert_eq!(child.child().cause(), Some(Cause::Fenced));
    assert!(!child.cancel(Cause::User));
    assert_eq!(root.try_child().unwrap_err(), Cause::Fenced);
    assert_eq!(root.children(), 0);
}

#[test]
fn a_child_leaves_with_its_last_handle() {
    let root = Cancel::new();
    for _ in 0..1000 {
        let child = root.child();
        let clone = child.clone();
        drop(child);
        assert_eq!(root.children(), 1, "a clone keeps it");
        let below = clone.child();
        drop(clone);
        assert_eq!(root.children(), 1, "a cell below keeps it");
        let mut waiter = below.cancelled();
        drop(below);
        assert!(poll(&mut waiter, &Flag::new()).is_pending());
        assert_eq!(root.children(), 1, "a waiter keeps it");
        drop(waiter);
        assert_eq!(root.children(), 0);
    }
}

// C-ID-4: no wake is lost.
#[test]
fn waiters_at_every_height_are_woken() {
    let root = Cancel::new();
    let cells = [root.clone(), root.child(), root.child().child()];
    let mut waiters = cells.map(|cell| (cell.cancelled(), Flag::new()));
    for (waiter, flag) in &mut waiters {
        assert!(poll(waiter, flag).is_pending());
    }
    let (mut gone, flag) = (root.cancelled(), Flag::new());
    assert!(poll(&mut gone, &flag).is_pending());
    drop(gone);
    assert_eq!(Arc::strong_count(&flag), 1, "a waiter that gave up leaves nothing");
    root.cancel(Cause::User);
    assert_eq!(flag.wakes(), 0);
    for (waiter, flag) in &mut waiters {
        assert_eq!(flag.wakes(), 1);
        assert_eq!(poll(waiter, flag), Poll::Ready(Cause::User));
    }
}

// C-ID-4, with real threads.
#[test]
fn children_born_during_a_cancel_are_cancelled() {
    for _ in 0..200 {
        let root = Cancel::new();
        let parents: Vec<_> = (0..3)
            .map(|_| {
                let root = root.clone();
                thread::spawn(move || (0..20).map(|_| root.child().child()).collect::<Vec<_>>())
            })
            .collect();
        root.cancel(Cause::User);
        for parent in parents {
            for child in parent.join().unwrap() {
                assert_eq!(block_on(child.cancelled()), Cause::User);
            }
        }
    }
}

#[test]
fn a_very_deep_tree_is_cancelled_and_dropped_without_recursion() {
    for cancelled in [true, false] {
        let root = Cancel::new();
        let mut leaf = root.child();
        for _ in 0..200_000 {
            leaf = leaf.child();
        }
        if cancelled {
            root.cancel(Cause::User);
            assert_eq!(leaf.cause(), Some(Cause::User));
        }
        drop(leaf);
        assert_eq!(root.children(), 0);
    }
}

// C-TURN-9: the cause is recorded, so its names are a format.
#[test]
fn causes_are_read_as_they_are_written() {
    for cause in Cause::ALL {
        assert_eq!(cause.to_string().parse(), Ok(cause));
        assert_eq!(cause.as_str(), cause.as_str().to_lowercase());
    }
    assert_eq!(Cause::ALL.map(Cause::as_str), ["user", "deadline", "parent", "shutdown", "halt", "fenced"]);
    let unknown = "User".parse::<Cause>().unwrap_err();
    assert_eq!(unknown.name, "User");
    assert!(unknown.to_string().contains("expected one of user deadline"));
}
