//! Intake and nursery in a plain build.
#![cfg(not(portcullis_loom))]

mod support;

use portcullis_identity::{Cancel, Cause, Intake, Nursery};
use std::{
    sync::{Arc, Mutex},
    task::Poll,
    thread,
};
use support::{Flag, block_on, poll};

// C-ID-4: nothing is accepted after the close.
#[test]
fn a_closed_door_lets_nobody_in_and_drains() {
    let intake = Intake::new();
    let first = intake.enter().unwrap();
    let second = intake.clone().enter().unwrap();
    let (mut drained, flag) = (intake.drained(), Flag::new());
    assert!(poll(&mut drained, &flag).is_pending());
    assert_eq!(intake.inside(), 2);
    assert_eq!(intake.close(), 2);
    assert!(intake.is_closed());
    assert!(intake.enter().is_none());
    drop(first);
    assert_eq!(flag.wakes(), 0);
    assert!(poll(&mut drained, &flag).is_pending());
    drop(second);
    assert_eq!(flag.wakes(), 1);
    assert!(poll(&mut drained, &flag).is_ready());
    assert_eq!(intake.close(), 0);
    assert!(poll(&mut intake.drained(), &Flag::new()).is_ready());
}

#[test]
fn an_open_and_empty_door_is_not_drained() {
    let intake = Intake::new();
    drop(intake.enter());
    let (mut drained, flag) = (intake.drained(), Flag::new());
    assert!(poll(&mut drained, &flag).is_pending());
    let (mut gone, left) = (intake.drained(), Flag::new());
    assert!(poll(&mut gone, &left).is_pending());
    drop(gone);
    assert_eq!(Arc::strong_count(&left), 1, "a waiter that gave up leaves nothing");
    assert_eq!(intake.close(), 0);
    assert_eq!((flag.wakes(), left.wakes()), (1, 0));
}

// C-ID-4, with real threads: what was accepted is received.
#[test]
fn no_accepted_message_is_lost() {
    for _ in 0..100 {
        let intake = Intake::new();
        let queue = Arc::new(Mutex::new(Vec::new()));
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let (intake, queue) = (intake.clone(), queue.clone());
                thread::spawn(move || {
                    let mut accepted = 0;
                    for _ in 0..50 {
                        let Some(_entered) = intake.enter() else { break };
                        queue.lock().unwrap().push(sender);
                        accepted += 1;
                    }
                    accepted
                })
            })
            .collect();
        thread::yield_now();
        intake.close();
        block_on(intake.drained());
        let received = std::mem::take(&mut *queue.lock().unwrap()).len();
        let accepted: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        assert_eq!(received, accepted);
        assert!(queue.lock().unwrap().is_empty());
    }
}

// C-ID-4: spawn against cancel.
#[test]
fn a_cancelled_nursery_cancels_its_children_and_takes_no_more() {
    let root = Cancel::new();
    let nursery = Nursery::below(&root);
    let (a, b) = (nursery.spawn().unwrap(), nursery.spawn().unwrap());
    assert!(a.cancel().cancel(Cause::Deadline));
    assert_eq!((nursery.cause(), nursery.children()), (None, 2));
    let (mut emptied, flag) = (Box::pin(nursery.emptied()), Flag::new());
    assert!(poll(&mut emptied, &flag).is_pending());
    assert!(nursery.cancel(Cause::Halt));
    assert!(!nursery.cancel(Cause::User));
    assert_eq!((a.cancel().cause(), b.cancel().cause()), (Some(Cause::Deadline), Some(Cause::Halt)));
    assert_eq!(nursery.spawn().unwrap_err(), Cause::Halt);
    assert!(poll(&mut emptied, &flag).is_pending());
    drop(a);
    assert!(poll(&mut emptied, &flag).is_pending());
    let before = flag.wakes();
    drop(b);
    assert_eq!(flag.wakes(), before + 1);
    assert_eq!(poll(&mut emptied, &flag), Poll::Ready(Cause::Halt));
    assert_eq!(root.cause(), None, "a nursery's cancel does not go up");
}

#[test]
fn a_cancel_from_above_reaches_the_nursery() {
    let root = Cancel::new();
    let nursery = Nursery::below(&root);
    let child = nursery.spawn().unwrap();
    root.cancel(Cause::Shutdown);
    assert_eq!(child.cancel().cause(), Some(Cause::Shutdown));
    assert_eq!(nursery.spawn().unwrap_err(), Cause::Shutdown);
    drop(child);
    assert_eq!(block_on(nursery.emptied()), Cause::Shutdown);
    assert_eq!(nursery.spawn().unwrap_err(), Cause::Shutdown, "also after it was waited for");
}

#[test]
fn an_empty_nursery_is_emptied_by_its_cancel_alone() {
    let nursery = Nursery::below(&Cancel::new());
    drop(nursery.spawn().unwrap());
    let (mut emptied, flag) = (Box::pin(nursery.emptied()), Flag::new());
    assert!(poll(&mut emptied, &flag).is_pending(), "children may still come");
    nursery.cancel(Cause::User);
    assert_eq!(flag.wakes(), 1);
    assert_eq!(poll(&mut emptied, &flag), Poll::Ready(Cause::User));
}
