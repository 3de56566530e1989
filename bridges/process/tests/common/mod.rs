//! What the tests share: patient waiting, and looks at the process table that do not go through the crate.
#![allow(dead_code)] // Each test binary uses its own part.

use portcullis_process::Spawn;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a loaded machine; reached only by a defect.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs on a current-thread runtime, as an arbiter would.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("the future hangs") })
}

/// A hook in `dir`.
pub(crate) fn sh(dir: &Path, text: &str) -> Spawn {
    Spawn::shell("/bin/sh", "-c", text).cwd(dir)
}

/// A future that never cancels.
pub(crate) fn never() -> std::future::Pending<()> {
    std::future::pending()
}

/// Polls until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Completes when all these files hold a line.
pub(crate) async fn written(dir: &Path, names: &[&str]) {
    while !names.iter().all(|name| pid_in(dir, name).is_some()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The process id a script wrote.
pub(crate) fn pid_in(dir: &Path, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(dir.join(name)).ok()?;
    text.strip_suffix('\n')?.trim().parse().ok()
}

/// The state letter of a process, if there is one.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    String::from_utf8_lossy(&stat).rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process runs. Somebody else's zombie does not.
pub(crate) fn alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Children of this process, zombies included.
pub(crate) fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { continue };
        let stat = String::from_utf8_lossy(&stat).into_owned();
        if stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&own) {
            found.push(pid);
        }
    }
    found
}

/// Ends a process that a test left alive on purpose.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was alive");
}
