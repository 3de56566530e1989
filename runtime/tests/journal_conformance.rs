//! The memory journal keeps every rule of journals.

use portcullis_runtime::{
    JournalError, MemoryJournal,
    journal::{Fault, Journal, conformance},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

// C-DUR-6
#[tokio::test]
async fn memory_conforms() {
    conformance::all(|| async { Arc::new(MemoryJournal::new()) as Arc<dyn Journal> }).await;
}

// C-DUR-9
#[tokio::test]
async fn a_failed_append_sticks() {
    for error in [JournalError::StorageFull, JournalError::Unavailable("injected".into())] {
        let appends = AtomicU64::new(0);
        let fault = Fault::Before(error.clone());
        let journal = MemoryJournal::with_faults(move |_, _| {
            (appends.fetch_add(1, Ordering::Relaxed) == 2).then(|| fault.clone())
        });
        conformance::breaking(&journal, error, |seq| conformance::prompts(seq, 2)).await;
    }
}
