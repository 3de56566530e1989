//! Nothing accumulates. Alone in its binary: it counts what the whole process holds.
#![cfg(target_os = "linux")]

mod common;

use common::{block_on, children, never, sh, wait_until};
use portcullis_process::{Ending, Spawn, SpawnError, run};
use std::time::Duration;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// One run of each kind: by itself, over its deadline, not at all, dropped.
async fn round(dir: &std::path::Path, n: usize) {
    match n % 4 {
        0 => assert!(
            run(sh(dir, "cat; echo x").stdin(b"in".as_slice()), never()).await.unwrap().status.is_success()
        ),
        1 => {
            let spec = sh(dir, "exec sleep 100").deadline(Duration::from_millis(20));
            assert_eq!(run(spec, never()).await.unwrap().ending, Ending::TimedOut);
        }
        2 => {
            let spec = Spawn::new("/bin/true").cwd(dir.join("missing"));
            assert!(matches!(run(spec, never()).await, Err(SpawnError::NotADirectory(_))));
        }
        _ => {
            let spec = sh(dir, "exec sleep 100").stdin(vec![0; 1 << 20]);
            let dropped = tokio::time::timeout(Duration::from_millis(20), run(spec, never())).await;
            assert!(dropped.is_err());
        }
    }
}

// C-BRIDGE-7: no zombie stays.
#[test]
fn fifty_runs_leave_no_descriptor_and_no_child() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        for n in 0..4 {
            round(dir.path(), n).await;
        }
        let before = descriptors();
        for n in 0..50 {
            round(dir.path(), n).await;
        }
        assert_eq!(descriptors(), before);
    });
    wait_until("all children are reaped", || children().is_empty());
}
