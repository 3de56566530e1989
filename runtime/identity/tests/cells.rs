//! Settle, seal, finish and sequence in a plain build.
#![cfg(not(portcullis_loom))]

mod support;

use portcullis_identity::{Finish, Finished, Mint, ReserveError, Seal, Sequence, Settle};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::Poll,
    thread,
};
use support::{Flag, block_on, poll};

// C-ID-4: settled once; the loser gets its value back.
#[test]
fn the_first_value_stands() {
    let settle = Settle::new();
    assert_eq!(settle.get(), None);
    assert_eq!(settle.settle("first"), Ok(()));
    assert_eq!(settle.clone().settle("second"), Err("second"));
    assert_eq!(settle.get(), Some("first"));
    assert!(settle.is_settled());
    assert_eq!(poll(&mut settle.wait(), &Flag::new()), Poll::Ready("first"));
    assert_eq!(Settle::settled(1).settle(2), Err(2));
}

// C-ID-4: no wake is lost, whatever the number of waiters.
#[test]
fn every_waiter_is_woken_once_with_the_value() {
    let settle = Settle::new();
    let mut waits: Vec<_> = (0..100).map(|_| (settle.wait(), Flag::new())).collect();
    for (wait, flag) in &mut waits {
        assert!(poll(wait, flag).is_pending());
        assert!(poll(wait, flag).is_pending(), "a second poll does not take a second seat");
    }
    settle.settle(7).unwrap();
    for (wait, flag) in &mut waits {
        assert_eq!(flag.wakes(), 1);
        assert_eq!(poll(wait, flag), Poll::Ready(7));
        assert_eq!(poll(wait, flag), Poll::Ready(7), "ready for good");
    }
}

// C-ID-4: a waiter that moved to another task is woken there.
#[test]
fn the_last_waker_counts() {
    let settle = Settle::new();
    let (old, new) = (Flag::new(), Flag::new());
    let mut wait = settle.wait();
    assert!(poll(&mut wait, &old).is_pending());
    assert!(poll(&mut wait, &new).is_pending());
    assert_eq!(Arc::strong_count(&old), 1, "the old waker is gone");
    settle.settle(()).unwrap();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
}

// C-ID-4: a waiter that gives up leaves nothing, and takes nobody with it.
#[test]
fn a_dropped_waiter_leaves_the_cell() {
    let settle = Settle::new();
    let (gone, stays) = (Flag::new(), Flag::new());
    let mut leaving = settle.wait();
    let mut staying = settle.wait();
    assert!(poll(&mut leaving, &gone).is_pending());
    assert!(poll(&mut staying, &stays).is_pending());
    drop(leaving);
    assert_eq!(Arc::strong_count(&gone), 1);
    settle.settle(1).unwrap();
    assert_eq!((gone.wakes(), stays.wakes()), (0, 1));
}

// C-ID-4, with real threads.
#[test]
fn threads_that_wait_all_get_the_winners_value() {
    for _ in 0..200 {
        let settle = Settle::new();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let wait = settle.wait();
                thread::spawn(move || block_on(wait))
            })
            .collect();
        let rival = {
            let settle = settle.clone();
            thread::spawn(move || settle.settle(1))
        };
        let mine = settle.settle(2);
        let theirs = rival.join().unwrap();
        assert!(mine.is_ok() != theirs.is_ok());
        let winner = if mine.is_ok() { 2 } else { 1 };
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), winner);
        }
    }
}

// C-ID-4: sealed once, and not changed after.
#[test]
fn a_seal_refuses_late_revisions_and_second_tokens() {
    let mint = Mint::new(1);
    let seal = Seal::new("requested");
    assert!(seal.sealed().is_none());
    assert_eq!(seal.revise("rewritten"), Ok("requested"));
    let token = mint.root();
    let sealed = seal.seal(token.clone()).unwrap();
    assert_eq!((sealed.token.id(), sealed.value), (token.id(), "rewritten"));
    assert_eq!(seal.revise("too late"), Err("too late"));
    let second = mint.root();
    assert_eq!(seal.seal(second.clone()).unwrap_err().id(), second.id());
    let kept = seal.sealed().unwrap();
    assert_eq!((kept.token.id(), kept.value), (token.id(), "rewritten"));
}

// C-ID-4: cancel against complete.
#[test]
fn a_call_is_finished_once() {
    let finish = Finish::new();
    assert_eq!(finish.how(), None);
    assert!(finish.clone().cancel());
    assert!(!finish.complete() && !finish.cancel());
    assert_eq!(finish.how(), Some(Finished::Cancelled));
    let finish = Finish::new();
    assert!(finish.complete());
    assert!(!finish.cancel() && !finish.complete());
    assert_eq!(finish.how(), Some(Finished::Completed));
}

// C-ID-4, C-LOG-1: numbers without gaps.
#[test]
fn numbers_are_contiguous_and_a_queue_is_in_their_order() {
    let sequence = Sequence::starting_at(10);
    assert_eq!(sequence.reserve(3), Ok(10..13));
    assert_eq!(sequence.reserve(0), Ok(13..13));
    let queue = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 1..=4 {
            let (sequence, queue) = (&sequence, &queue);
            scope.spawn(move || {
                for _ in 0..500 {
                    sequence.reserve_with(n, |numbers| queue.lock().unwrap().extend(numbers)).unwrap();
                }
            });
        }
    });
    let expected: Vec<u64> = (13..13 + 500 * 10).collect();
    assert_eq!(*queue.lock().unwrap(), expected);
    assert_eq!(sequence.next(), 13 + 500 * 10);
}

// C-ID-4: after a failed append no number is handed out.
#[test]
fn a_poisoned_sequence_refuses() {
    let sequence = Sequence::starting_at(0);
    sequence.reserve(2).unwrap();
    assert!(sequence.poison());
    assert!(!sequence.poison());
    let refused = sequence.reserve_with(1, |_| unreachable!()).map(|(): ()| ());
    assert_eq!(refused, Err(ReserveError::Poisoned { next: 2 }));
    assert!(refused.unwrap_err().to_string().contains("record 2"));
    assert_eq!(sequence.next(), 2);
}

#[test]
fn an_enqueue_that_panics_poisons_its_sequence() {
    let sequence = Sequence::starting_at(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| sequence.reserve_with(1, |_| panic!("queue"))));
    assert!(panicked.is_err());
    assert!(sequence.is_poisoned());
    assert_eq!(sequence.reserve(1).unwrap_err().code(), "poisoned");
}

#[test]
fn a_sequence_does_not_wrap() {
    let sequence = Sequence::starting_at(u64::MAX - 1);
    assert_eq!(sequence.reserve(2), Err(ReserveError::Exhausted));
    assert_eq!(sequence.reserve(1), Ok(u64::MAX - 1..u64::MAX));
    assert_eq!(sequence.reserve(1).unwrap_err().code(), "exhausted");
}

// C-ID-4: a `Clone` that panics under the lock takes the cell away from nobody.
#[test]
fn a_value_that_panics_does_not_break_its_cell() {
    struct Once(Arc<Mutex<bool>>);
    impl Clone for Once {
        fn clone(&self) -> Self {
            assert!(std::mem::replace(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()), true), "once");
            Once(self.0.clone())
        }
    }
    let settle = Settle::settled(Once(Arc::default()));
    assert!(catch_unwind(AssertUnwindSafe(|| settle.get())).is_err());
    assert!(settle.get().is_some());
}
