//! The child itself: watched without being reaped, so that its group id stays its own, and ended when dropped.

use crate::finished::Status;
use crate::tree::{Entry, Tree, signal};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io;
use std::process::Child;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Looks at the table that a dropped run allows itself: one finds the tree, the others who was born meanwhile.
const DROP_ROUNDS: usize = 3;

/// Owns the child until it is reaped. Dropped before that, it kills the child, its group and its descendants.
pub(crate) struct Leader {
    child: Option<Child>,
    pid: Pid,
    watch: Watch,
    tree: Tree,
}

impl Leader {
    /// Takes over a child that leads its own group. On failure the child is killed and reaped.
    pub(crate) fn new(child: Child) -> io::Result<Self> {
        let pid = Pid::from_child(&child);
        let tree = Tree::new(child.id());
        let mut leader = Self { child: Some(child), pid, watch: Watch::Poll, tree };
        leader.watch = Watch::open(pid)?;
        Ok(leader)
    }

    pub(crate) fn child_mut(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Completes when the child has exited; it is not reaped by that. May be called again and dropped at will.
    pub(crate) async fn exited(&self) {
        self.watch.exited(self.pid).await;
    }

    /// Whether the child has exited, at this moment.
    pub(crate) fn has_exited(&self) -> bool {
        has_exited(self.pid)
    }

    /// Signals the group, and returns its id if it did.
    pub(crate) fn signal_group(&self, signal: Signal) -> Option<u32> {
        let child = self.child.as_ref().filter(|_| is_ours(self.pid))?;
        // An empty group, or members of another user: the process table tells what is left.
        let _ = rustix::process::kill_process_group(self.pid, signal);
        Some(child.id())
    }

    /// See [`Tree::learn`].
    pub(crate) fn learn(&mut self, table: &[Entry]) -> Vec<Entry> {
        if !is_ours(self.pid) {
            self.tree.forget_leader();
        }
        self.tree.learn(table)
    }

    /// See [`Tree::any_alive`].
    pub(crate) fn any_alive(&self) -> bool {
        self.tree.any_alive()
    }

    /// Reaps a child that has exited. One that has not goes to the reaper thread, and its status stays unknown.
    pub(crate) fn reap(mut self) -> Status {
        let Some(mut child) = self.child.take() else { return Status::Unknown };
        match child.try_wait() {
            Ok(Some(status)) => status.into(),
            Ok(None) => {
                hand_over(Orphan { child, tree: std::mem::take(&mut self.tree), looks: 0 });
                Status::Unknown
            }
            Err(_) => Status::Unknown,
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.child.is_none() {
            return;
        }
        for round in 0..DROP_ROUNDS {
            // The search comes before the kill: orphans lose the tie to their parent.
            let found = self.learn(&Entry::table());
            if round > 0 && found.is_empty() {
                break;
            }
            self.signal_group(Signal::KILL);
            for member in found {
                signal(&member, Signal::KILL);
            }
        }
        let Some(mut child) = self.child.take() else { return };
        let left = matches!(child.try_wait(), Ok(None)) || !self.tree.release();
        if left {
            hand_over(Orphan { child, tree: std::mem::take(&mut self.tree), looks: 0 });
        }
    }
}

/// Looks for the exit without taking it.
fn peek(pid: Pid) -> rustix::io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), look)).map(|found| found.is_some())
}

/// A child that is no longer ours to wait for is gone: the host ignores SIGCHLD, and the kernel reaped it.
fn has_exited(pid: Pid) -> bool {
    peek(pid).unwrap_or(true)
}

/// Whether the child is unreaped, so that its id cannot be anybody else's.
fn is_ours(pid: Pid) -> bool {
    peek(pid).is_ok()
}

/// How the exit is noticed.
enum Watch {
    /// A descriptor that becomes readable with the exit.
    #[cfg(target_os = "linux")]
    Descriptor(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    /// Asking again and again: for kernels and sandboxes without such descriptors.
    Poll,
}

impl Watch {
    /// The safe constructor is deprecated because a type may lie about its descriptor; an `OwnedFd` does not, and
    /// the replacement is unsafe, which this workspace forbids.
    #[cfg(target_os = "linux")]
    #[allow(deprecated)]
    fn open(pid: Pid) -> io::Result<Self> {
        use rustix::io::Errno;
        use tokio::io::{Interest, unix::AsyncFd};
        match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(fd) => Ok(Self::Descriptor(AsyncFd::with_interest(fd, Interest::READABLE)?)),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
            Err(_) => Ok(Self::Poll),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open(_: Pid) -> io::Result<Self> {
        Ok(Self::Poll)
    }

    async fn exited(&self, pid: Pid) {
        #[cfg(target_os = "linux")]
        if let Self::Descriptor(fd) = self
            && fd.readable().await.is_ok()
        {
            return;
        }
        let mut pause = Duration::from_millis(1);
        while !has_exited(pid) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// A killed child, and the members of its tree that this program may have to reap.
struct Orphan {
    child: Child,
    tree: Tree,
    looks: u32,
}

impl Orphan {
    /// Reaps what can be. False when nothing is left to do. The child is waited for as long as it takes; others only for
    /// a while, as they may not be ours to end.
    fn still_there(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        let child = matches!(self.child.try_wait(), Ok(None));
        let others = !self.tree.release() && self.looks < 60;
        child || others
    }
}

/// Gives a killed child to the thread that reaps without anybody waiting. Should that thread not start, the child stays
/// a zombie until this program ends; blocking here would be worse.
fn hand_over(orphan: Orphan) {
    static REAPER: OnceLock<Option<Sender<Orphan>>> = OnceLock::new();
    let reaper = REAPER.get_or_init(|| {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("portcullis-reaper".to_owned());
        thread.spawn(move || reap_for_ever(&receiver)).ok().map(|_| sender)
    });
    if let Some(reaper) = reaper {
        // The thread ends only with the program.
        let _ = reaper.send(orphan);
    }
}

fn reap_for_ever(orphans: &Receiver<Orphan>) {
    let mut waiting: Vec<Orphan> = Vec::new();
    let mut pause = Duration::from_millis(1);
    loop {
        let next = if waiting.is_empty() {
            orphans.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orphans.recv_timeout(pause)
        };
        match next {
            Ok(orphan) => {
                waiting.push(orphan);
                pause = Duration::from_millis(1);
            }
            Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(Duration::from_secs(1)),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.retain_mut(Orphan::still_there);
    }
}

#[cfg(test)]
mod tests {
    use super::{Watch, has_exited};
    use rustix::process::Pid;

    #[test]
    fn the_exit_is_noticed_without_descriptors_and_without_reaping() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sleep").arg("0.1").spawn()?;
        let pid = Pid::from_child(&child);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Watch::Poll.exited(pid));
        runtime.block_on(async {
            Watch::open(pid)?.exited(pid).await;
            Ok::<_, std::io::Error>(())
        })?;
        assert!(has_exited(pid));
        assert!(child.wait()?.success());
        Ok(())
    }
}
