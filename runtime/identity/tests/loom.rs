//! The models: every interleaving of up to three threads over the very types that ship. `scripts/loom` runs them, then
//! each seeded fault. The closure of a model ends with its assertions, made when all threads are joined: a fault is
//! to be caught by what the model says, not by a deadlock. All of this proves C-ID-4.
#![cfg(portcullis_loom)]

mod support;

use loom::{
    sync::{Arc, Mutex, atomic::AtomicU64},
    thread,
};
use portcullis_identity::{
    Cancel, Cause, Finish, Finished, Intake, Mint, Nursery, Orphan, Seal, Sequence, Settle,
};
use std::{
    collections::BTreeSet,
    io::Write,
    sync::{
        Arc as StdArc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};
use support::{Flag, poll};

/// Explores `model` to the end and prints how many executions that took.
fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let executions = StdArc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    // Whatever the environment says: a bound would make the exploration a sample.
    builder.preemption_bound = None;
    builder.max_permutations = None;
    builder.max_duration = None;
    let counter = executions.clone();
    builder.check(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        model();
    });
    let executions = executions.load(Ordering::SeqCst);
    // Not `println!`, which the test harness swallows when a test passes.
    let _ = writeln!(std::io::stdout(), "model {name}: {executions} executions");
    assert!(executions > 1, "C-ID-4: model {name} explored nothing");
}

#[test]
fn mint() {
    explore("mint", || {
        let mint = Arc::new(Mint::new(7));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let mint = mint.clone();
                thread::spawn(move || mint.root().id())
            })
            .collect();
        let mut ids = BTreeSet::from([mint.root().id()]);
        ids.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        assert_eq!(ids.len(), 3, "C-ID-4: two calls got one token");
        assert!(ids.iter().all(|id| id.nonce == 7), "C-ID-4: a token without its mint's nonce");
    });
}

#[test]
fn lineage() {
    explore("lineage", || {
        let mint = Arc::new(Mint::new(7));
        let parent = mint.root();
        // One nested call that ends at once, the end of the parent, and one nested call that outlives them all.
        let brief = {
            let (mint, parent) = (mint.clone(), parent.clone());
            thread::spawn(move || mint.nested(&parent).map(|child| mint.end(&child).unwrap().outlived_parent))
        };
        let ending = {
            let (mint, parent) = (mint.clone(), parent.clone());
            thread::spawn(move || mint.end(&parent).unwrap().open_children)
        };
        let lasting = mint.nested(&parent);

        let brief = brief.join().unwrap();
        let counted = ending.join().unwrap();
        let lasting = lasting.map(|child| {
            assert_eq!(child.parent(), Some(parent.id()), "C-ID-4: a child names another parent");
            mint.end(&child).unwrap().outlived_parent
        });
        assert_ne!(lasting, Ok(false), "C-ID-4: a nested call outlived its parent and was told it had not");
        let outlived = [brief, lasting].iter().filter(|child| **child == Ok(true)).count();
        assert_eq!(counted, outlived as u64, "C-ID-4: a nested call outlived its parent unnoticed");
        assert_eq!(
            mint.nested(&parent).err(),
            Some(Orphan::ParentEnded),
            "C-ID-4: a call was nested under one that had ended"
        );
    });
}

#[test]
fn seal() {
    explore("seal", || {
        let mint = Mint::new(7);
        let (mine, other) = (mint.root(), mint.root());
        let seal = Arc::new(Seal::new("draft"));
        let rewriter = {
            let seal = seal.clone();
            thread::spawn(move || seal.revise("rewritten").is_ok())
        };
        let sealer = {
            let seal = seal.clone();
            thread::spawn(move || seal.seal(other).ok())
        };
        let here = seal.seal(mine).ok();

        let revised = rewriter.join().unwrap();
        let there = sealer.join().unwrap();
        assert!(here.is_some() != there.is_some(), "C-ID-4: not sealed exactly once");
        let granted = here.or(there).unwrap();
        let kept = seal.sealed().unwrap();
        assert_eq!(granted.token.id(), kept.token.id(), "C-ID-4: a value under another call's token");
        assert_eq!(granted.value, kept.value, "C-ID-4: a sealed value changed");
        let expected = if revised { "rewritten" } else { "draft" };
        assert_eq!(kept.value, expected, "C-ID-4: the seal and the rewriter disagree on who was first");
    });
}

#[test]
fn settle() {
    explore("settle", || {
        let settle = Settle::new();
        let threads: Vec<_> = [1, 2]
            .map(|value| {
                let settle = settle.clone();
                thread::spawn(move || settle.settle(value))
            })
            .into_iter()
            .collect();
        let early = settle.get();

        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let last = settle.get();
        match answers[..] {
            [Ok(()), Err(2)] => assert_eq!(last, Some(1), "C-ID-4: the loser's value stands"),
            [Err(1), Ok(())] => assert_eq!(last, Some(2), "C-ID-4: the loser's value stands"),
            _ => panic!("C-ID-4: not settled exactly once: {answers:?}"),
        }
        assert!(early.is_none() || early == last, "C-ID-4: a settled value changed");
        assert_eq!(settle.settle(3), Err(3), "C-ID-4: settled again");
    });
}

#[test]
fn wake() {
    explore("wake", || {
        let settle = Settle::new();
        let settler = {
            let settle = settle.clone();
            thread::spawn(move || settle.settle(1))
        };
        // A waiter that gives up must neither keep its seat nor take another's.
        let impatient = {
            let settle = settle.clone();
            thread::spawn(move || {
                let flag = Flag::new();
                let first = poll(&mut settle.wait(), &flag);
                (first, flag)
            })
        };
        let flag = Flag::new();
        let mut wait = settle.wait();
        let first = poll(&mut wait, &flag);

        settler.join().unwrap().unwrap();
        let (other, left) = impatient.join().unwrap();
        if first.is_pending() {
            assert_eq!(flag.wakes(), 1, "C-ID-4: a wake was lost");
        }
        assert_eq!(poll(&mut wait, &flag), Poll::Ready(1), "C-ID-4: a waiter was woken for nothing");
        assert_eq!(StdArc::strong_count(&left), 1, "C-ID-4: a waiter that left is still seated");
        assert!(matches!(other, Poll::Pending | Poll::Ready(1)), "C-ID-4: a waiter saw another value");
    });
}

#[test]
fn finish() {
    explore("finish", || {
        let finish = Finish::new();
        let result = Arc::new(AtomicU64::new(0));
        let completer = {
            let (finish, result) = (finish.clone(), result.clone());
            thread::spawn(move || {
                // Relaxed: it is the claim that has to publish it.
                result.store(1, Ordering::Relaxed);
                finish.complete()
            })
        };
        let canceller = {
            let finish = finish.clone();
            thread::spawn(move || finish.cancel())
        };
        let early = finish.how();
        if early == Some(Finished::Completed) {
            assert_eq!(result.load(Ordering::Relaxed), 1, "C-ID-4: completed before its result was there");
        }

        let won = (completer.join().unwrap(), canceller.join().unwrap());
        let expected = match won {
            (true, false) => Finished::Completed,
            (false, true) => Finished::Cancelled,
            _ => panic!("C-ID-4: a call was finished {} times", won.0 as u8 + won.1 as u8),
        };
        assert_eq!(finish.how(), Some(expected), "C-ID-4: the loser's finish stands");
        assert!(early.is_none() || early == Some(expected), "C-ID-4: a finish changed");
        assert!(!finish.complete() && !finish.cancel(), "C-ID-4: finished again");
    });
}

#[test]
fn intake() {
    explore("intake", || {
        let intake = Intake::new();
        let queue = Arc::new(Mutex::new(Vec::new()));
        let senders: Vec<_> = (0..2)
            .map(|message| {
                let (intake, queue) = (intake.clone(), queue.clone());
                thread::spawn(move || {
                    let Some(entered) = intake.enter() else { return false };
                    queue.lock().unwrap().push(message);
                    drop(entered);
                    true
                })
            })
            .collect();
        intake.close();
        let flag = Flag::new();
        let mut drained = intake.drained();
        let first = poll(&mut drained, &flag);
        let mut taken = match first {
            Poll::Ready(()) => std::mem::take(&mut *queue.lock().unwrap()),
            Poll::Pending => Vec::new(),
        };

        let accepted = senders.into_iter().map(|sender| sender.join().unwrap());
        let accepted = accepted.filter(|accepted| *accepted).count();
        if first.is_pending() {
            assert_eq!(flag.wakes(), 1, "C-ID-4: the receiver was not woken when the last sender left");
            assert!(poll(&mut drained, &flag).is_ready(), "C-ID-4: the receiver was woken too early");
            taken = std::mem::take(&mut *queue.lock().unwrap());
        }
        assert_eq!(taken.len(), accepted, "C-ID-4: a message was accepted and never received");
        assert!(intake.enter().is_none(), "C-ID-4: a sender entered after the close");
    });
}

#[test]
fn sequence() {
    explore("sequence", || {
        let sequence = Arc::new(Sequence::starting_at(5));
        let queue = Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = [1, 2]
            .map(|n| {
                let (sequence, queue) = (sequence.clone(), queue.clone());
                thread::spawn(move || {
                    sequence.reserve_with(n, |numbers| queue.lock().unwrap().extend(numbers)).is_ok()
                })
            })
            .into_iter()
            .collect();
        let first = sequence.poison();
        let at_poison = sequence.next();

        let granted: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let queue = queue.lock().unwrap();
        let expected: Vec<u64> = (5..5 + u64::from(granted[0]) + 2 * u64::from(granted[1])).collect();
        assert_eq!(*queue, expected, "C-ID-4: the journal has a gap, a repeat or another order");
        assert!(first, "C-ID-4: poisoned by nobody");
        assert_eq!(sequence.next(), at_poison, "C-ID-4: a number was handed out after the poison");
        assert!(sequence.reserve(1).is_err(), "C-ID-4: a poisoned sequence handed out a number");
    });
}

#[test]
fn cancel() {
    explore("cancel", || {
        let root = Cancel::new();
        let older = root.child();
        let canceller = {
            let root = root.clone();
            thread::spawn(move || root.cancel(Cause::User))
        };
        // A cell below the root is cancelled alone, for its own cause.
        let alone = {
            let older = older.clone();
            thread::spawn(move || older.cancel(Cause::Deadline))
        };
        // Two generations are born; only the waiter on the lower one stays.
        let flag = Flag::new();
        let mut waiter = root.child().child().cancelled();
        let first = poll(&mut waiter, &flag);

        assert!(canceller.join().unwrap(), "C-ID-4: the only cancel of the root was refused");
        let alone = alone.join().unwrap();
        let expected = if alone { Cause::Deadline } else { Cause::User };
        assert_eq!(older.cause(), Some(expected), "C-ID-4: the first cause did not stay");
        match first {
            Poll::Ready(cause) => assert_eq!(cause, Cause::User, "C-ID-4: born with another cause"),
            Poll::Pending => assert_eq!(flag.wakes(), 1, "C-ID-4: a cancel missed a waiter below"),
        }
        assert_eq!(poll(&mut waiter, &flag), Poll::Ready(Cause::User), "C-ID-4: a child was missed");
    });
}

#[test]
fn nursery() {
    explore("nursery", || {
        let root = Cancel::new();
        let nursery = Nursery::below(&root);
        let canceller = {
            let root = root.clone();
            thread::spawn(move || root.cancel(Cause::Shutdown))
        };
        let spawner = {
            let nursery = nursery.clone();
            thread::spawn(move || nursery.spawn())
        };
        let here = nursery.spawn();

        canceller.join().unwrap();
        let there = spawner.join().unwrap();
        let children: Vec<_> = [here, there]
            .into_iter()
            .filter_map(|spawned| match spawned {
                Ok(child) => Some(child),
                Err(cause) => {
                    assert_eq!(cause, Cause::Shutdown, "C-ID-4: refused for another cause");
                    None
                }
            })
            .collect();
        for child in &children {
            assert_eq!(
                child.cancel().cause(),
                Some(Cause::Shutdown),
                "C-ID-4: a child was spawned and missed by the cancel"
            );
        }
        assert_eq!(nursery.children(), children.len(), "C-ID-4: the nursery lost count");
        assert_eq!(nursery.spawn().err(), Some(Cause::Shutdown), "C-ID-4: spawned after the cancel");
    });
}

/// The wait for the last child against a spawn, a cancel and the child's leaving.
#[test]
fn nursery_emptied() {
    explore("nursery_emptied", || {
        let nursery = Nursery::below(&Cancel::new());
        let gone = StdArc::new(AtomicUsize::new(0));
        let child = {
            let (nursery, gone) = (nursery.clone(), gone.clone());
            thread::spawn(move || match nursery.spawn() {
                Ok(child) => {
                    gone.fetch_add(1, Ordering::SeqCst);
                    drop(child);
                    true
                }
                Err(_) => false,
            })
        };
        nursery.cancel(Cause::Halt);
        let flag = Flag::new();
        let mut emptied = Box::pin(nursery.emptied());
        let first = poll(&mut emptied, &flag);
        let gone_at_first = gone.load(Ordering::SeqCst);

        let spawned = child.join().unwrap();
        if first.is_pending() {
            assert_eq!(flag.wakes(), 1, "C-ID-4: nobody was told that the last child left");
            assert!(poll(&mut emptied, &flag).is_ready(), "C-ID-4: told too early");
        } else {
            assert_eq!(
                gone_at_first,
                usize::from(spawned),
                "C-ID-4: a child was running in an empty nursery"
            );
        }
    });
}
