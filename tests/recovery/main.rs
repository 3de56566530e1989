//! C-DUR-1, 2, 3: the process is gone after any append; the reopened session finishes the same turn.
//!
//! The journal's order of appends over the whole tree of sessions is recorded once. Then, for each of its prefixes, another
//! runtime finds exactly that prefix and plays the script to its end.

mod cancel;
mod faults;
mod house;
mod logs;
mod once;
mod park;
mod story;
mod tape;

use house::{Mind, Ran, Staff, builder, finish, key_of};
use logs::Logs;
use once::{each, ran_nothing_twice};
use portcullis::{Body, Decision, Ended, Gate, GuardVerdict, Record, encode, replay};
use std::{collections::BTreeSet, path::Path, sync::Arc};
use story::{Blurred, Story, lawful, same, unknown};
use tape::{Append, Tape, logs};

/// A whole run from these appends on.
async fn run(mind: Mind, staff: Staff, from: &[Append]) -> (Vec<Append>, Ran) {
    let (tape, ran) = (Tape::after(from), Ran::default());
    finish(builder(mind, staff, &ran), tape.clone(), Path::new("/")).await;
    (tape.appends(), ran)
}

/// Each appended log of a prefix is a prefix of the log that came of it.
fn stands(before: &Logs, after: &Logs) {
    for (session, records) in before {
        assert!(after[session].starts_with(records), "{session}");
    }
}

/// C-DUR-7: a session that was killed and taken up again plays again, life by life, and nothing is called for it.
async fn replays(log: &[Arc<Record>], at: &str) {
    let lives = 1 + log.iter().filter(|record| matches!(record.body, Body::SessionResumed(_))).count();
    let replayed = replay(log.to_vec()).await.unwrap_or_else(|error| panic!("{at}: {error}"));
    if let Some(divergence) = &replayed.divergence {
        let line = |record: &Option<Arc<Record>>| record.as_ref().map(|record| encode(record));
        let near = log.iter().skip(divergence.seq.0.saturating_sub(15) as usize).take(30);
        let near: Vec<String> = near.map(|record| encode(record)).collect();
        let (was, is) = (line(&divergence.recorded), line(&divergence.replayed));
        panic!("{at}: record {}\nrecorded {was:?}\nreplayed {is:?}\nin\n{}", divergence.seq, near.join("\n"));
    }
    assert_eq!((replayed.records, replayed.lives), (log.len() as u64, lives as u64), "{at}");
    assert_eq!(replayed.called, 0, "{at}");
}

// C-DUR-3, with deterministic handlers: killed after any append, the history comes out as an unkilled run's.
#[tokio::test]
async fn killed_after_any_append_the_history_is_that_of_an_unkilled_run() {
    let (unkilled, ran) = run(Mind::Fixed, Staff::Same, &[]).await;
    let whole = logs(&unkilled);
    lawful(&whole);
    ran_nothing_twice(&Logs::new(), &ran, "unkilled");
    let records: usize = whole.values().map(Vec::len).sum();
    assert!(records > 200 && whole.len() == 2, "{records} records in {} sessions", whole.len());
    let mut unknowns = 0;
    for n in 0..=unkilled.len() {
        let before = logs(&unkilled[..n]);
        let (appends, ran) = run(Mind::Fixed, Staff::Same, &unkilled[..n]).await;
        let after = logs(&appends);
        lawful(&after);
        stands(&before, &after);
        ran_nothing_twice(&before, &ran, &format!("kill {n}"));
        let mut blurred = Blurred::default();
        blurred.add(&before);
        let told = unknown(&after);
        // C-DUR-2: exactly what was under way is unknown, and the model is told what to do about it.
        assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), blurred.unknown, "kill {n}");
        assert!(
            told.values().all(|text| text.contains("check before you do it again")),
            "kill {n}: {told:?}"
        );
        unknowns += told.len();
        for (session, log) in after.iter().filter(|_| n % 3 == 0) {
            replays(log, &format!("kill {n}, {session}")).await;
        }
        let (is, was) = (Story::of(&after, &blurred), Story::of(&whole, &blurred));
        same(&is, &was, &format!("kill {n}"));
    }
    assert!(unknowns > 8, "{unknowns} bodies were cut off");
    println!("{} boundaries, {records} records, {unknowns} outcomes unknown", unkilled.len());
}

// C-DUR-3: killed again on the way, at another place each time.
#[tokio::test]
async fn killed_twice_the_history_is_still_that() {
    let (unkilled, _) = run(Mind::Fixed, Staff::Same, &[]).await;
    let whole = logs(&unkilled);
    for n in (0..unkilled.len()).step_by(3) {
        let (first, _) = run(Mind::Fixed, Staff::Same, &unkilled[..n]).await;
        let more = first.len() - n;
        let again = n + (n * 7919) % more;
        let before = logs(&first[..again]);
        let (second, ran) = run(Mind::Fixed, Staff::Same, &first[..again]).await;
        let after = logs(&second);
        lawful(&after);
        ran_nothing_twice(&before, &ran, &format!("kill {n}, then {again}"));
        let mut blurred = Blurred::default();
        blurred.add(&logs(&first[..n]));
        blurred.add(&before);
        let (is, was) = (Story::of(&after, &blurred), Story::of(&whole, &blurred));
        same(&is, &was, &format!("kill {n}, then {again}"));
    }
}

// C-DUR-1, 3: what was committed stands though its handler would now say otherwise.
#[tokio::test]
async fn what_was_committed_stands_though_the_dice_fall_otherwise() {
    let mut otherwise = 0;
    for seed in 1..=3 {
        let (first, _) = run(Mind::Dice(seed), Staff::Same, &[]).await;
        for n in (0..=first.len()).step_by(2) {
            let before = logs(&first[..n]);
            let mind = Mind::Dice(seed * 1000 + n as u64);
            let (appends, ran) = run(mind, Staff::Same, &first[..n]).await;
            let after = logs(&appends);
            lawful(&after);
            stands(&before, &after);
            ran_nothing_twice(&before, &ran, &format!("seed {seed}, kill {n}"));
            otherwise += denials_hold(&before, &after, mind);
        }
    }
    assert!(otherwise >= 20, "the dice fell otherwise {otherwise} times only");
    println!("{otherwise} committed gates stood though their handler would have said otherwise");
}

/// A call whose denial was committed is denied. Counts the gates of the first process that this mind would have judged
/// otherwise.
fn denials_hold(before: &Logs, after: &Logs, mind: Mind) -> usize {
    let mut otherwise = 0;
    let decided = each(before).flat_map(|(session, record)| {
        let decisions = record.body.decisions().into_iter().flat_map(|decisions| decisions.each());
        decisions.map(move |d| (session, record, d))
    });
    for (session, record, d) in decided {
        let denied = match &d.decision {
            Decision::PreExecute(gate) => {
                let now = house::dice_gate(mind, &key_of(session, &record.at, &d));
                let same = matches!(
                    (gate, &now),
                    (Gate::Allow, Gate::Allow)
                        | (Gate::Ask { .. }, Gate::Ask { .. })
                        | (Gate::Deny { .. }, Gate::Deny { .. })
                );
                otherwise += usize::from(!same);
                matches!(gate, Gate::Deny { .. })
            }
            Decision::Guard(verdict) => matches!(verdict, GuardVerdict::Deny { .. }),
            _ => false,
        };
        if !denied {
            continue;
        }
        let result = after[session].iter().find_map(|r| match &r.body {
            Body::ToolResult(result) if r.at == record.at => Some(&result.outcome),
            _ => None,
        });
        // A nested call whose parent did not come back is cancelled rather than denied; neither runs.
        let held = matches!(
            result,
            Some(Ended::HookDeny { .. } | Ended::GuardDeny { .. } | Ended::CancelledBeforeDispatch { .. })
        );
        assert!(held, "{:?} was denied and is {result:?}", record.at);
    }
    otherwise
}

// C-DUR-1: also when handlers were added, removed or reordered meanwhile.
#[tokio::test]
async fn what_was_committed_stands_under_another_configuration() {
    let (first, _) = run(Mind::Fixed, Staff::Same, &[]).await;
    for n in (0..=first.len()).step_by(2) {
        let before = logs(&first[..n]);
        let (appends, ran) = run(Mind::Fixed, Staff::Changed, &first[..n]).await;
        let after = logs(&appends);
        lawful(&after);
        stands(&before, &after);
        ran_nothing_twice(&before, &ran, &format!("kill {n}"));
        denials_hold(&before, &after, Mind::Fixed);
    }
}
