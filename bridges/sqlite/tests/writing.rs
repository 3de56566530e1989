//! Group commit, limits, and what one session's trouble does to others.

mod common;

use common::{claimed, length, named, write};
use portcullis_runtime::{
    At, Batch, Claim, CommandId, Draft, Journal, JournalError, PromptQueued, QueueKind, Seq, Source, Ticket,
    journal::conformance::prompts,
};
use portcullis_sqlite::{APPEND_BYTES, QUEUE_RECORDS, SqliteJournal};
use rusqlite::Connection;
use tokio::task::JoinSet;

// C-DUR-5
#[tokio::test]
async fn a_reopened_journal_has_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    write(&journal, &mut own, 5).await;
    let written = journal.read(&named("s"), Seq(0), 9).await.unwrap();
    let epoch = own.epoch;
    // Not released: its owner is gone with the journal.
    drop(journal);
    assert!(!folder.path().join("journal.db-wal").exists(), "a closed journal is one file");

    let journal = SqliteJournal::open(&file).unwrap();
    assert_eq!(journal.read(&named("s"), Seq(0), 9).await, Ok(written));
    let mut own = journal.claim(&named("s"), 2, Claim::OpenOnly).await.unwrap();
    assert_eq!((own.head, own.epoch), (Seq(5), epoch + 1));
    write(&journal, &mut own, 1).await;
}

// C-DUR-8: the name of a command is kept with the record that it caused, also beside data that stand apart, and a session
// has it once.
#[tokio::test]
async fn a_commands_name_is_kept_with_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let (mut own, mut other) = (claimed(&journal, "s").await, claimed(&journal, "t").await);
    let sent = |seq: u64, text: &str, name: &str| {
        let queued = PromptQueued { kind: QueueKind::Prompt, content: text.into(), source: Source::User };
        let draft = Draft::new(At::session(), queued).of_command(Some(CommandId::new(name).unwrap()));
        Batch { records: vec![draft.seal(Seq(seq), 1)], ..Batch::default() }
    };
    let large = "x".repeat(100_000);
    for (seq, text, name) in [(0, "small", "one"), (1, large.as_str(), "two")] {
        journal.append(&mut own, sent(seq, text, name)).unwrap().wait().await.unwrap();
    }
    journal.append(&mut other, sent(0, "small", "one")).unwrap().wait().await.unwrap();
    let read = journal.read(&named("s"), Seq(0), 9).await.unwrap();
    let keys: Vec<_> = read.iter().map(|r| r.key.as_ref().map(|key| key.as_str().to_owned())).collect();
    assert_eq!(keys, [Some("one".to_owned()), Some("two".to_owned())]);
    let again = journal.append(&mut own, sent(2, "again", "one")).unwrap().wait().await;
    assert!(again.is_err(), "{again:?}");
    assert_eq!(journal.read(&named("s"), Seq(0), 9).await.unwrap().len(), 2);
    drop(journal);
    let sql = Connection::open(&file).unwrap();
    let kept: i64 = sql
        .query_row("SELECT count(*) FROM records WHERE session = 's' AND key IN ('one', 'two')", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(kept, 2);
}

// C-DUR-5: many sessions share one sync
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_writers_share_commits() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("journal.db")).unwrap();
    let mut writers = JoinSet::new();
    for n in 0..32 {
        let journal = journal.clone();
        writers.spawn(async move {
            let mut own = claimed(&journal, &format!("writer-{n}")).await;
            for _ in 0..100 {
                write(&journal, &mut own, 1).await;
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let stats = journal.stats();
    assert_eq!(stats.records, 3200);
    println!("{} commits for {} records", stats.commits, stats.records);
    assert!(stats.commits * 16 <= stats.records, "{stats:?}");
}

// Back-pressure: what does not fit is refused whole, and what waits is written.
#[tokio::test]
async fn a_full_queue_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let (mut first, mut second) = (claimed(&journal, "first").await, claimed(&journal, "second").await);
    let hold = Connection::open(&file).unwrap();
    hold.execute_batch("BEGIN IMMEDIATE").unwrap();
    let one = journal.append(&mut first, prompts(Seq(0), 1)).unwrap();
    let most = journal.append(&mut second, prompts(Seq(0), QUEUE_RECORDS as u64 - 1)).unwrap();
    let head = second.head;
    assert_eq!(journal.append(&mut second, prompts(head, 2)).err(), Some(JournalError::Busy));
    assert_eq!(second.head, head, "a refused append moves nothing");
    hold.execute_batch("COMMIT").unwrap();

    one.wait().await.unwrap();
    most.wait().await.unwrap();
    write(&journal, &mut second, 2).await;
    assert_eq!(length(&journal, "second").await, QUEUE_RECORDS as u64 + 1);
}

#[tokio::test]
async fn an_append_beyond_the_limit_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("journal.db")).unwrap();
    let mut own = claimed(&journal, "s").await;
    let records = (APPEND_BYTES / 256 + 1) as u64;
    let refused = journal.append(&mut own, prompts(Seq(0), records)).err();
    assert!(matches!(refused, Some(JournalError::TooLarge { bytes }) if bytes > APPEND_BYTES), "{refused:?}");
    write(&journal, &mut own, 1).await;
}

#[tokio::test]
async fn records_out_of_number_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("journal.db")).unwrap();
    let mut own = claimed(&journal, "s").await;
    let refused = journal.append(&mut own, prompts(Seq(3), 1)).err();
    assert_eq!(refused, Some(JournalError::HeadMismatch { head: Seq(0) }));
    write(&journal, &mut own, 1).await;
}

// One session's row was tampered with: the transaction fails for it alone.
#[tokio::test]
async fn a_broken_session_does_not_break_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut owns = Vec::new();
    for n in 0..6 {
        owns.push(claimed(&journal, &format!("s-{n}")).await);
    }
    // Held, so that all of them but the first wait for one transaction.
    let foreign = Connection::open(&file).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let place =
        "INSERT INTO records (session, seq, epoch, type, v, time, record) VALUES ('s-2', 0, 0, '', 0, 0, '')";
    foreign.execute(place, []).unwrap();
    foreign.execute("UPDATE sessions SET epoch = 9, head = 4 WHERE session = 's-4'", []).unwrap();
    let append = |own| journal.append(own, prompts(Seq(0), 2)).unwrap();
    let tickets: Vec<Ticket> = owns.iter_mut().map(append).collect();
    foreign.execute_batch("COMMIT").unwrap();

    for (n, ticket) in tickets.into_iter().enumerate() {
        let settled = ticket.wait().await;
        match n {
            2 => assert!(matches!(settled, Err(JournalError::Corrupt { at: Seq(0), .. })), "{settled:?}"),
            4 => assert_eq!(settled, Err(JournalError::Fenced { epoch: 9 })),
            _ => assert_eq!(settled, Ok(Seq(2)), "s-{n}"),
        }
    }
    assert_eq!(length(&journal, "s-5").await, 2);
}

// Nobody waited; the last handle writes it all the same.
#[tokio::test]
async fn dropping_the_journal_writes_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    let mut last = None;
    for n in 0..500 {
        last = Some(journal.append(&mut own, prompts(Seq(n), 1)).unwrap());
    }
    drop(journal);
    assert!(last.is_some_and(|ticket| ticket.is_durable()));
    let journal = SqliteJournal::open(&file).unwrap();
    assert_eq!(length(&journal, "s").await, 500);
}

// The first failure sticks also when what follows it in the same transaction would do.
#[tokio::test]
async fn a_failure_sticks_within_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let (mut other, mut own) = (claimed(&journal, "other").await, claimed(&journal, "s").await);
    let hold = Connection::open(&file).unwrap();
    hold.execute_batch("BEGIN IMMEDIATE").unwrap();
    let other = journal.append(&mut other, prompts(Seq(0), 1)).unwrap();
    let good = journal.append(&mut own, prompts(Seq(0), 1)).unwrap();
    own.head = Seq(5);
    let bad = journal.append(&mut own, prompts(Seq(5), 1)).unwrap();
    own.head = Seq(1);
    let late = journal.append(&mut own, prompts(Seq(1), 1)).unwrap();
    let later = journal.append(&mut own, prompts(Seq(2), 7)).unwrap();
    hold.execute_batch("COMMIT").unwrap();

    assert_eq!(other.wait().await, Ok(Seq(1)));
    assert_eq!(good.wait().await, Ok(Seq(1)), "what came before the failure is durable");
    for ticket in [bad, late, later] {
        assert_eq!(ticket.wait().await, Err(JournalError::HeadMismatch { head: Seq(1) }));
    }
    assert_eq!(length(&journal, "s").await, 1);
}

// C-DUR-6: the fence is in the transaction, not only in what this process remembers
#[tokio::test]
async fn a_row_changed_by_another_program_fences() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&file).unwrap();
    let mut own = claimed(&journal, "s").await;
    write(&journal, &mut own, 2).await;
    let foreign = Connection::open(&file).unwrap();
    foreign.execute("UPDATE sessions SET epoch = epoch + 8", []).unwrap();
    let ticket = journal.append(&mut own, prompts(Seq(2), 1)).unwrap();
    assert_eq!(ticket.wait().await, Err(JournalError::Fenced { epoch: own.epoch + 8 }));
    assert_eq!(length(&journal, "s").await, 2);
}
