//! Several files are one journal.

use portcullis_runtime::{
    Claim, Journal, Seq, SessionId,
    journal::conformance::{self, prompts},
};
use portcullis_sqlite::{OpenError, ShardedJournal, SqliteJournal};
use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

fn four() -> NonZero<u16> {
    NonZero::new(4).unwrap()
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

async fn write(journal: &impl Journal, name: &str) {
    let mut own = journal.claim(&id(name), 1, Claim::CreateOrOpen).await.unwrap();
    journal.append(&mut own, prompts(Seq(0), 3)).unwrap().wait().await.unwrap();
    journal.release(own).await.unwrap();
}

// C-DUR-5, C-DUR-6, C-DUR-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_conform() {
    let folder = tempfile::tempdir().unwrap();
    let made = AtomicU32::new(0);
    let suite = conformance::all(|| async {
        let n = made.fetch_add(1, Ordering::Relaxed);
        let journal = ShardedJournal::open(folder.path().join(format!("new/{n}")), four());
        Arc::new(journal.expect("a new journal")) as Arc<dyn Journal>
    });
    tokio::time::timeout(Duration::from_secs(120), suite).await.expect("an answer to everything");
}

// C-DUR-5: a session tree lives in one file, and different ones are spread over all.
#[tokio::test]
async fn a_tree_is_in_one_file_and_trees_are_spread() {
    let folder = tempfile::tempdir().unwrap();
    let journal = ShardedJournal::open(folder.path(), four()).unwrap();
    let mut filled = BTreeMap::<usize, u32>::new();
    for n in 0..400 {
        let root = journal.shard_of(&id(&format!("run-{n}")));
        *filled.entry(root).or_default() += 1;
        for child in [".1-1-0-0", ".1-1-0-0.2-1-3-0"] {
            assert_eq!(journal.shard_of(&id(&format!("run-{n}{child}"))), root);
        }
    }
    assert!(filled.len() == 4 && filled.values().all(|count| *count > 60), "{filled:?}");

    let names: Vec<String> = (0..12).map(|n| format!("run-{n}")).collect();
    for name in &names {
        write(&journal, name).await;
        write(&journal, &format!("{name}.1-1-0-0")).await;
    }
    assert_eq!(journal.stats().records, 72);
    let heads = journal.sessions().await.unwrap();
    assert_eq!(heads.len(), 24);
    assert!(heads.is_sorted_by(|a, b| a.session < b.session));
    let reading = ShardedJournal::read_only(folder.path()).unwrap();
    for head in &heads {
        assert_eq!(reading.read(&head.session, Seq(1), 10).await.unwrap().len(), 2);
        let file = folder.path().join(format!("shard-{}.db", journal.shard_of(&head.session)));
        let alone = SqliteJournal::read_only(file).unwrap();
        assert_eq!(alone.read(&head.session, Seq(0), 10).await.unwrap().len(), 3);
    }
}

// C-DUR-9: what is in a file stays there, so another number of files, or one that is gone, is said; nothing is made anew.
#[tokio::test]
async fn another_number_of_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = ShardedJournal::open(folder.path(), four()).unwrap();
    let taken = ShardedJournal::open(folder.path(), four());
    assert!(matches!(taken, Err(OpenError::AlreadyOwned { .. })), "{taken:?}");
    drop(made);

    let two = ShardedJournal::open(folder.path(), NonZero::new(2).unwrap()).unwrap_err();
    assert!(matches!(two, OpenError::Shards { found: 4, asked: 2, .. }), "{two}");
    std::fs::remove_file(folder.path().join("shard-2.db")).unwrap();
    let missing = ShardedJournal::open(folder.path(), four()).unwrap_err();
    assert!(matches!(&missing, OpenError::Missing { file } if file.ends_with("shard-2.db")), "{missing}");
    assert!(!folder.path().join("shard-2.db").exists(), "nothing was made in its place");

    // A folder whose making was cut short is made to its end.
    let cut = tempfile::tempdir().unwrap();
    drop(ShardedJournal::open(cut.path(), four()).unwrap());
    std::fs::remove_file(cut.path().join("shards")).unwrap();
    std::fs::remove_file(cut.path().join("shard-3.db")).unwrap();
    write(&ShardedJournal::open(cut.path(), four()).unwrap(), "s").await;
    std::fs::write(cut.path().join("shards"), "many").unwrap();
    let odd = ShardedJournal::open(cut.path(), four()).unwrap_err();
    assert!(matches!(odd, OpenError::NotAJournal { .. }), "{odd}");
}
