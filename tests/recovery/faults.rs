//! C-TURN-10, C-DUR-1: the journal fails before, after or instead of an append of the root session. The session leaves memory
//! with whoever waits told; opened again, it finishes the same turn.

use crate::{
    house::{Mind, Ran, Staff, builder, finish, play, root},
    logs::stored,
    once::ran_nothing_twice,
    run,
    story::{Blurred, Story, lawful, same},
    tape::{Tape, logs},
};
use portcullis::{JournalError, MemoryJournal, journal::Fault};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Nothing here waits for time to pass; this is for what would never come.
const NEVER: Duration = Duration::from_secs(120);

fn fault(kind: usize) -> Fault {
    match kind {
        0 => Fault::Before(JournalError::StorageFull),
        1 => Fault::After(JournalError::Indeterminate("the connection was lost".into())),
        _ => Fault::Instead(JournalError::Busy),
    }
}

/// Breaks the n-th append of the root session, and no other.
fn breaking(n: usize, kind: usize) -> MemoryJournal {
    let appends = Arc::new(AtomicUsize::new(0));
    MemoryJournal::with_faults(move |session, batch| {
        let counts = *session == root() && !batch.records.is_empty();
        (counts && appends.fetch_add(1, Ordering::Relaxed) == n).then(|| fault(kind))
    })
}

#[tokio::test]
async fn a_journal_that_fails_at_any_append_costs_no_more_than_a_kill() {
    let (unkilled, _) = run(Mind::Fixed, Staff::Same, &[]).await;
    let whole = logs(&unkilled);
    let appends = unkilled.iter().filter(|(session, _)| *session == root()).count();
    let mut faults = 0;
    for n in 0..appends {
        // Each kind at every third append, so that all of them are met.
        let kind = n % 3;
        let at = format!("{:?} at append {n}", fault(kind));
        let (broken, ran) = (breaking(n, kind), Ran::default());
        let first = play(builder(Mind::Fixed, Staff::Same, &ran), broken.clone(), Path::new("/"));
        let played = tokio::time::timeout(NEVER, first).await.unwrap_or_else(|_| panic!("{at}: it hangs"));
        assert!(!played, "{at}: nobody noticed");
        faults += 1;
        let before = stored(&broken).await;
        let (tape, ran) = (Tape::holding(before.clone()), Ran::default());
        let second = finish(builder(Mind::Fixed, Staff::Same, &ran), tape.clone(), Path::new("/"));
        tokio::time::timeout(NEVER, second).await.unwrap_or_else(|_| panic!("{at}: it hangs afterwards"));
        let after = stored(&tape).await;
        lawful(&after);
        ran_nothing_twice(&before, &ran, &at);
        let mut blurred = Blurred::default();
        blurred.add(&before);
        same(&Story::of(&after, &blurred), &Story::of(&whole, &blurred), &at);
    }
    println!("{faults} faults in {appends} appends");
}
