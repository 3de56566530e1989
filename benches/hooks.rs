//! What a hook command costs. Bars `hook-tax` and `hook-1gib`.
//!
//! By the wall clock: a host waits for its hooks. The command reads a payload of 1 KiB, as hooks do, and answers. For
//! `hook-tax`, the floor is tokio's command with the same pipes, stdin and group; for `hook-1gib`, the same hook from a
//! process that holds little: a child that began as a copy of its parent's page tables would pay for each gigabyte.

mod support;

use portcullis_process::{Spawn, Status};
use std::{
    process::{ExitCode, Stdio},
    sync::Once,
    time::{Duration, Instant},
};
use support::Bars;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

const SCRIPT: &str = r#"cat >/dev/null; echo '{"continue":true}'"#;
const ANSWER: &[u8] = b"{\"continue\":true}\n";
/// Runs on each side of a pair.
const RUNS: u32 = 4;

fn main() -> ExitCode {
    let Some(mut bars) = Bars::from_args() else { return ExitCode::SUCCESS };
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let payload = support::house::arguments(1024);
    if bars.wants("hook-tax") {
        let mut pairs = Vec::new();
        for pair in 0..=bars.pairs(200) {
            let taken = rt.block_on(async { (each(ours(&payload)).await, each(bare(&payload)).await) });
            // The first warms up.
            if pair > 0 {
                pairs.push(taken);
            }
        }
        bars.ratio("hook-tax", 1.15, "ns", &pairs);
    }
    if bars.wants("hook-1gib") {
        let mut pairs = Vec::new();
        for pair in 0..=bars.pairs(40) {
            let floor = rt.block_on(each(ours(&payload)));
            let held = resident();
            let subject = rt.block_on(each(ours(&payload)));
            drop(held);
            if pair > 0 {
                pairs.push((subject, floor));
            }
        }
        bars.ratio("hook-1gib", 1.5, "ns", &pairs);
    }
    bars.finish()
}

/// The time of one of so many runs.
async fn each(run: impl AsyncFn()) -> f64 {
    let start = Instant::now();
    for _ in 0..RUNS {
        run().await;
    }
    (start.elapsed() / RUNS).as_nanos() as f64
}

/// One GiB of memory that is really there, in pages of the common size: a kernel that hands out huge pages unasked would
/// make the measurement easier, so it is said when this one does.
fn resident() -> Vec<u8> {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        if setting.is_ok_and(|setting| setting.contains("[always]")) {
            println!(
                "note hook-1gib: this kernel hands out huge pages unasked; the bar is easier to meet here"
            );
        }
    });
    std::hint::black_box(vec![1; 1 << 30])
}

fn ours(payload: &str) -> impl AsyncFn() {
    async || run_ours(payload).await
}

fn bare(payload: &str) -> impl AsyncFn() {
    async || run_bare(payload).await
}

async fn run_ours(payload: &str) {
    let hook = Spawn::shell("/bin/sh", "-c", SCRIPT)
        .stdin(payload.as_bytes())
        .deadline(Duration::from_secs(60))
        .stdout_cap(1 << 20);
    let finished = portcullis_process::run(hook, std::future::pending()).await.expect("the hook starts");
    assert_eq!(finished.status, Status::Code(0));
    assert_eq!(finished.stdout.text(), str::from_utf8(ANSWER).expect("text"));
}

async fn run_bare(payload: &str) {
    let mut child = Command::new("/bin/sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the hook starts");
    let mut stdin = child.stdin.take().expect("piped");
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let write = async move {
        // Its end is what the hook waits for.
        stdin.write_all(payload.as_bytes()).await
    };
    let (written, out, err, status) =
        tokio::join!(write, stdout.read_to_end(&mut said), stderr.read_to_end(&mut complained), child.wait());
    written.and(out).and(err).expect("the pipes work");
    assert!(status.expect("reaped").success());
    assert_eq!(said, ANSWER);
}
