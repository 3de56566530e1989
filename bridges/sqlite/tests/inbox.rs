//! The inbox of a file that another process has.

use portcullis_runtime::{
    At, Batch, Claim, CommandId, Draft, InboxCommand, Journal, JournalError, Posted, PromptQueued, QueueKind,
    Seq, SessionId, Source,
};
use portcullis_sqlite::SqliteJournal;

fn id(name: &str) -> CommandId {
    CommandId::new(name).unwrap()
}

fn prompt(text: &str) -> InboxCommand {
    InboxCommand::Prompt { content: text.into() }
}

// C-DUR-8: from beside the owner, durable when it is answered, once under its name, and still there after both have gone.
#[tokio::test]
async fn a_command_comes_from_beside_the_owner_and_outlives_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let session = SessionId::new("s").unwrap();
    let owner = SqliteJournal::open(&path).unwrap();
    let guest = SqliteJournal::beside(&path).unwrap();
    let unknown = guest.submit(&session, &id("a"), &prompt("1")).await;
    assert_eq!(unknown, Err(JournalError::NotFound(session.clone())));

    let mut own = owner.claim(&session, 1, Claim::CreateOrOpen).await.unwrap();
    assert_eq!(guest.submit(&session, &id("a"), &prompt("1")).await, Ok(Posted::Waits));
    assert_eq!(guest.submit(&session, &id("a"), &prompt("2")).await, Ok(Posted::Waits));
    assert_eq!(owner.posted().await, Ok(vec![session.clone()]), "its owner sees it");
    assert_eq!(owner.pending(&session).await, Ok(vec![(id("a"), prompt("1"))]));
    // The owner writes on, behind the guest's transactions.
    let body = PromptQueued { kind: QueueKind::Prompt, content: "1".into(), source: Source::User };
    let caused = Draft::new(At::session(), body).of_command(Some(id("a"))).seal(Seq(0), 1);
    owner.append(&mut own, Batch::of(vec![caused])).unwrap().wait().await.unwrap();
    assert_eq!(guest.submit(&session, &id("a"), &prompt("3")).await, Ok(Posted::Taken(Seq(0))));
    assert_eq!(guest.submit(&session, &id("b"), &prompt("4")).await, Ok(Posted::Waits));
    drop((guest, owner));

    let again = SqliteJournal::open(&path).unwrap();
    assert_eq!(again.torn_tail(), None);
    let pending = again.pending(&session).await.unwrap();
    assert_eq!(pending, [(id("a"), prompt("1")), (id("b"), prompt("4"))], "nobody took them out");
    again.taken(&session, &id("a"), None).await.unwrap();
    assert_eq!(again.pending(&session).await, Ok(vec![(id("b"), prompt("4"))]));
}

// C-DUR-8: whoever only reads writes to no inbox either.
#[tokio::test]
async fn a_reader_puts_nothing_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let session = SessionId::new("s").unwrap();
    let owner = SqliteJournal::open(&path).unwrap();
    let _own = owner.claim(&session, 1, Claim::CreateOrOpen).await.unwrap();
    let reading = SqliteJournal::read_only(&path).unwrap();
    let refused = reading.submit(&session, &id("a"), &prompt("1")).await;
    assert!(matches!(refused, Err(JournalError::AlreadyOwned(_))), "{refused:?}");
    assert_eq!(owner.posted().await, Ok(Vec::new()));
}

// C-DUR-8: a command that this version cannot read is of no kind that it knows, and holds up nothing behind it.
#[tokio::test]
async fn what_cannot_be_read_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let session = SessionId::new("s").unwrap();
    let owner = SqliteJournal::open(&path).unwrap();
    let _own = owner.claim(&session, 1, Claim::CreateOrOpen).await.unwrap();
    for command in ["a", "b"] {
        owner.submit(&session, &id(command), &prompt(command)).await.unwrap();
    }
    drop(owner);
    let file = rusqlite::Connection::open(&path).unwrap();
    let newer = r#"{"kind":"cancel","cause":"of a kind to come"}"#;
    let changed = file.execute("UPDATE commands SET body = ?1 WHERE command = 'a'", [newer]).unwrap();
    assert_eq!(changed, 1);
    drop(file);
    let again = SqliteJournal::open(&path).unwrap();
    let pending = again.pending(&session).await.unwrap();
    assert_eq!(pending, [(id("a"), InboxCommand::Unknown), (id("b"), prompt("b"))]);
}
