//! A fold that is kept and taken up again is the fold.

mod common;

use common::{
    driver::{logs, same},
    session,
};
use portcullis_runtime::{
    law::{Kept, Mark, Snapshot, State, Written},
    *,
};
use std::sync::Arc;

/// What a store does with snapshots.
#[derive(Default, Clone)]
struct Shelf {
    kept: Option<Kept>,
}

impl Shelf {
    fn keep(&mut self, snapshot: &Snapshot) -> Written {
        let written = snapshot.write();
        let mut kept = self.kept.take().unwrap_or(Kept { state: Vec::new(), chunks: Vec::new() });
        kept.state = written.state.clone();
        if written.first {
            kept.chunks.clear();
        }
        kept.chunks.push(written.chunk.clone());
        self.kept = Some(kept);
        snapshot.is_kept(&written);
        written
    }
}

/// Folds a log and keeps it at each `every`th rest; `see` is shown where, with what the store holds then.
fn keeping(log: &[Arc<Record>], every: usize, mut see: impl FnMut(usize, &State, &Shelf, &Written)) -> usize {
    let (mut state, mut shelf, mut mark, mut rests) = (State::new(), Shelf::default(), None::<Mark>, 0);
    for (at, record) in log.iter().enumerate() {
        state.apply(record).expect("valid");
        let Some(snapshot) = Snapshot::of(&state, mark.clone()) else { continue };
        rests += 1;
        if rests % every == 0 {
            let written = shelf.keep(&snapshot);
            mark = Some(snapshot.mark());
            see(at + 1, &state, &shelf, &written);
        }
    }
    rests
}

// C-DUR-1, 3: opened from a snapshot, a session is what its whole log says, then and at every record behind.
#[test]
fn a_restored_fold_is_the_fold() {
    let (mut restored, mut added) = (0, 0);
    for log in logs(60) {
        for every in [1, 3] {
            keeping(&log, every, |head, state, shelf, written| {
                let kept = shelf.kept.clone().expect("kept");
                let (mut again, mark) = kept.restore(&session()).expect("fits");
                same(&again, state, None);
                assert_eq!(mark.head(), state.head());
                assert_eq!(again.transcript().digest(), state.transcript().digest());
                let mut goes_on = state.clone();
                for record in &log[head..] {
                    again.apply(record).expect("valid");
                    goes_on.apply(record).expect("valid");
                }
                same(&again, &goes_on, None);
                assert_eq!(again.transcript().digest(), goes_on.transcript().digest());
                restored += 1;
                added += usize::from(!written.first);
            });
        }
    }
    println!("{restored} restored, {added} of them added to what was kept");
    assert!(restored > 1000 && added > 800);
}

// What is added is what is new: the cost of a snapshot does not grow with the history.
#[test]
fn only_new_messages_are_written() {
    let mut compared = 0;
    for log in logs(40) {
        let mut before = 0;
        keeping(&log, 1, |_, state, shelf, written| {
            let len = state.transcript().len();
            let counts = shelf
                .kept
                .iter()
                .flat_map(|kept| &kept.chunks)
                .map(|chunk| u64::from_le_bytes(*chunk.first_chunk::<8>().expect("a count")) as usize);
            let kept: usize = counts.sum();
            assert!(kept <= len, "messages behind the last step are in the state");
            if !written.first {
                let new = u64::from_le_bytes(*written.chunk.first_chunk::<8>().expect("a count")) as usize;
                assert_eq!(before + new, kept);
                compared += 1;
            }
            before = kept;
        });
    }
    assert!(compared > 300);
}

// C-DUR-1: one restored goes on where it was made; a store that failed to keep one gets all of it with the next.
#[test]
fn a_snapshot_that_was_not_kept_is_not_built_on() {
    let (mut lost, mut firsts, mut added) = (0, 0, 0);
    for log in logs(20) {
        let (mut state, mut shelf, mut mark, mut rests) = (State::new(), Shelf::default(), None::<Mark>, 0);
        let mut sound = true;
        for record in &log {
            state.apply(record).expect("valid");
            let Some(snapshot) = Snapshot::of(&state, mark.clone()) else { continue };
            mark = Some(snapshot.mark());
            rests += 1;
            if rests % 3 == 0 {
                sound = false;
                lost += 1;
                continue;
            }
            let first = shelf.keep(&snapshot).first;
            // A summary begins anew, too.
            assert!(first || sound && rests > 1);
            sound = true;
            firsts += usize::from(first);
            added += usize::from(!first);
            let (again, _) = shelf.kept.clone().expect("kept").restore(&session()).expect("fits");
            same(&again, &state, None);
        }
    }
    assert!(lost > 50 && firsts > 50 && added > 50, "{lost} lost, {firsts} firsts, {added} added");
}

// C-DUR-9: a byte that is not as it was written makes it none; so does another session's name, or a part that is missing.
#[test]
fn what_does_not_fit_is_no_snapshot() {
    let log = logs(20).into_iter().max_by_key(Vec::len).expect("a log");
    let mut last = None;
    keeping(&log, 4, |_, _, shelf, _| last = Some(shelf.clone()));
    let kept = last.and_then(|shelf: Shelf| shelf.kept).expect("kept");
    assert!(kept.clone().restore(&session()).is_ok() && kept.chunks.len() > 1);
    let refused = |kept: Kept, why: &str| {
        let unfit = kept.restore(&session()).expect_err(why).to_string();
        assert!(unfit.contains("the log is read whole"), "{unfit}");
    };
    let parts = 1 + kept.chunks.len();
    for part in 0..parts {
        let len = if part == 0 { kept.state.len() } else { kept.chunks[part - 1].len() };
        for at in (0..len).step_by((len / 40).max(1)) {
            let change = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut changed = kept.clone();
                change(if part == 0 { &mut changed.state } else { &mut changed.chunks[part - 1] });
                changed
            };
            refused(change(&|bytes| bytes[at] ^= 4), "a flipped bit");
            refused(change(&|bytes| bytes.truncate(at)), "cut short");
        }
    }
    for part in 0..kept.chunks.len() {
        let mut without = kept.clone();
        without.chunks.remove(part);
        refused(without, "a part is missing");
    }
    let mut swapped = kept.clone();
    swapped.chunks.swap(0, 1);
    refused(swapped, "in another order");
    let other = SessionId::new("another").expect("a name");
    assert!(kept.restore(&other).expect_err("of another").to_string().contains("s1"));
}
