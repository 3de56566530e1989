//! What these tests share.

#![allow(unreachable_pub, reason = "each test includes this file")]

use portcullis_runtime::{Claim, Journal, Ownership, Seq, SessionId, journal::conformance::prompts};
use portcullis_sqlite::SqliteJournal;

pub fn named(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub async fn claimed(journal: &SqliteJournal, name: &str) -> Ownership {
    journal.claim(&named(name), 1, Claim::CreateOrOpen).await.unwrap()
}

/// Appends `count` prompts and waits for them.
#[allow(dead_code, reason = "each test file uses its part")]
pub async fn write(journal: &SqliteJournal, own: &mut Ownership, count: u64) {
    let batch = prompts(own.head, count);
    assert_eq!(journal.append(own, batch).unwrap().wait().await, Ok(own.head));
}

/// How many records a session has, each of them read.
pub async fn length(journal: &SqliteJournal, name: &str) -> u64 {
    journal.read(&named(name), Seq(0), usize::MAX).await.unwrap().len() as u64
}
