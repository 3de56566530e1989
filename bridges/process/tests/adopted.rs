//! A host that inherits orphans, as the first process of a container does. Alone in its binary: being a subreaper is a
//! property of the whole process.
#![cfg(target_os = "linux")]

mod common;

use common::{block_on, children, never, pid_in, sh, wait_until, written};
use portcullis_process::{Ending, run};

// C-BRIDGE-7: no zombie stays, though nobody but this process would reap them.
#[test]
fn orphans_that_become_ours_are_reaped() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("Linux allows it");
    let text = "setsid sh -c 'trap \"\" TERM; echo $$ > deep; while :; do sleep 0.1; done' & \
                sleep 100 & echo $$ > lead; wait";

    let dir = tempfile::tempdir().unwrap();
    let finished = block_on(run(sh(dir.path(), text), written(dir.path(), &["lead", "deep"]))).unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
    assert!(finished.ended.contains(&pid_in(dir.path(), "deep").unwrap()));
    assert!(finished.survivors.is_empty());
    assert_eq!(children(), [0u32; 0]);

    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let task = tokio::spawn(run(sh(dir.path(), text), never()));
        written(dir.path(), &["lead", "deep"]).await;
        task.abort();
        let _ = task.await;
    });
    wait_until("the orphans are reaped", || children().is_empty());
}
