mod common;
use common::*;
use portcullis_runtime::{*, journal::conformance::prompts};
use portcullis_sqlite::SqliteJournal;
use rusqlite::{Connection, params};
use std::time::Instant;

fn bare(total: usize, batch: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("j.db");
    drop(SqliteJournal::open(&file).unwrap());
    let mut c = Connection::open(&file).unwrap();
    c.execute_batch("PRAGMA synchronous=FULL").unwrap();
    let mut seq = 0u64;
    let records = prompts(Seq(0), total as u64).records;
    let t = Instant::now();
    for chunk in records.chunks(batch) {
        let tx = c.transaction().unwrap();
        {
            let mut st = tx.prepare_cached("INSERT INTO records (session, seq, epoch, type, v, time, turn, step, call, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)").unwrap();
            for (i, r) in chunk.iter().enumerate() {
                let s = format!("writer-{}", i % 64);
                st.execute(params![s, seq as i64, 1, r.body.kind(), 1, r.time as i64, None::<i64>, None::<i64>, None::<String>, encode(r)]).unwrap();
                seq += 1;
            }
        }
        tx.commit().unwrap();
    }
    total as f64 / t.elapsed().as_secs_f64()
}

async fn ours(writers: usize, bursts: usize, burst: usize) -> (f64, portcullis_sqlite::Stats) {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("j.db")).unwrap();
    let mut owns = Vec::new();
    for n in 0..writers { owns.push(claimed(&journal, &format!("writer-{n}")).await); }
    let t = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for mut own in owns {
        let journal = journal.clone();
        set.spawn(async move {
            for _ in 0..bursts {
                let mut last = None;
                for _ in 0..burst { let b = prompts(own.head, 1); last = Some(journal.append(&mut own, b).unwrap()); }
                last.unwrap().wait().await.unwrap();
            }
        });
    }
    while let Some(r) = set.join_next().await { r.unwrap(); }
    ((writers * bursts * burst) as f64 / t.elapsed().as_secs_f64(), journal.stats())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tax() {
    for _ in 0..3 {
        let b = bare(6400, 32);
        let (o, s) = ours(32, 200, 1).await;
        println!("32x1: bare {b:.0}/s ours {o:.0}/s tax {:.2} {s:?}", b / o);
        let b = bare(65536, 1024);
        let (o, s) = ours(64, 64, 16).await;
        println!("64x16: bare {b:.0}/s ours {o:.0}/s tax {:.2} {s:?}", b / o);
    }
}
