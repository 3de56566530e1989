//! A hook command through our process bridge ÷ tokio's with the same pipes, stdin and group. Bar `hook-tax`.
//!
//! By the wall clock: a host waits for its hooks. The command reads a payload of 1 KiB, as hooks do, and answers.

mod support;

use portcullis_process::{Spawn, Status};
use std::{
    process::{ExitCode, Stdio},
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
    if !bars.wants("hook-tax") {
        return ExitCode::SUCCESS;
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let payload = support::house::arguments(1024);
    let mut pairs = Vec::new();
    for pair in 0..=bars.pairs(200) {
        let taken = rt.block_on(async {
            let start = Instant::now();
            for _ in 0..RUNS {
                ours(&payload).await;
            }
            let between = Instant::now();
            for _ in 0..RUNS {
                bare(&payload).await;
            }
            let end = Instant::now();
            let each = |time: Duration| (time / RUNS).as_nanos() as f64;
            (each(between - start), each(end - between))
        });
        // The first warms up.
        if pair > 0 {
            pairs.push(taken);
        }
    }
    bars.ratio("hook-tax", 1.15, "ns", &pairs);
    bars.finish()
}

async fn ours(payload: &str) {
    let hook = Spawn::shell("/bin/sh", "-c", SCRIPT)
        .stdin(payload.as_bytes())
        .deadline(Duration::from_secs(60))
        .stdout_cap(1 << 20);
    let finished = portcullis_process::run(hook, std::future::pending()).await.expect("the hook starts");
    assert_eq!(finished.status, Status::Code(0));
    assert_eq!(finished.stdout.text(), str::from_utf8(ANSWER).expect("text"));
}

async fn bare(payload: &str) {
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
