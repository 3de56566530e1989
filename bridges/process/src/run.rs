//! From start to end: one child, its limits, and the clean-up it needs.

use crate::error::SpawnError;
use crate::finished::{Ending, Finished};
use crate::leader::Leader;
use crate::permits::Permits;
use crate::pump::{Pump, Step};
use crate::spec::{HeldPipe, Leftover, Spawn};
use crate::tree::{Entry, signal};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Descendants that ignore TERM do not make the caller wait the whole grace once the child itself is gone.
const STRAGGLERS: Duration = Duration::from_millis(500);
/// How often the process table is asked whether stragglers are gone.
const LOOK: Duration = Duration::from_millis(20);
/// How often KILL is repeated on whoever appears meanwhile, and on whoever takes long to die.
const KILL_ROUNDS: u32 = 50;
/// How long the child may take to vanish after KILL. More means that it hangs in the kernel.
const REAP: Duration = Duration::from_secs(5);
/// After the end of everything found, a pipe still open belongs to somebody out of reach.
const LAST_BYTES: Duration = Duration::from_millis(100);
/// Steps allowed for emptying the pipes of a child that is done, at the moment of its deadline.
const IN_TIME_STEPS: usize = 160;

/// How many children were started.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// How many children this process has started through here so far: what says that something started none.
pub fn started() -> u64 {
    STARTED.load(Ordering::Relaxed)
}

/// Starts `spec` and waits until it and its pipes are done with, it has passed its deadline, or `cancel` completes.
///
/// In the last two cases the child and all it started are ended before this returns: TERM at once, KILL after the grace
/// (if only descendants are left, after half a second at most); without a grace, KILL at once. Use [`std::future::pending`] where nothing cancels.
/// While all [`Permits`] are taken it waits its turn; a cancel ends that wait too.
///
/// Dropping the future kills the child and its descendants at once.
///
/// # Errors
///
/// [`SpawnError`] if the child was not started. Whatever a started child does is told by [`Finished`].
///
/// # Panics
///
/// Outside of a tokio runtime with I/O and time enabled; the child is killed then.
pub async fn run(spec: Spawn, cancel: impl Future<Output = ()> + Send) -> Result<Finished, SpawnError> {
    let mut cancel = pin!(cancel);
    let permits = spec.permits.clone().unwrap_or_else(Permits::shared);
    let _place = tokio::select! {
        biased;
        () = &mut cancel => return Err(SpawnError::Cancelled),
        place = permits.acquire() => place,
    };
    let mut running = Running::start(&spec)?;
    let stop = running.until_stop(cancel).await;
    running.conclude(stop).await
}

/// Why `until_stop` returned.
enum Stop {
    /// The child has exited, and its pipes are closed or given up.
    Exited {
        pipe_held: bool,
    },
    Deadline,
    Cancel,
}

struct Running<'a> {
    spec: &'a Spawn,
    started: Instant,
    pump: Pump,
    leader: Leader,
    ended: BTreeSet<u32>,
}

impl<'a> Running<'a> {
    fn start(spec: &'a Spawn) -> Result<Self, SpawnError> {
        let (mut command, program, cwd) = spec.command()?;
        let child = command.spawn().map_err(|error| SpawnError::from_spawn(error, &program, cwd))?;
        STARTED.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        // From here on every way out, a panic included, goes through the leader's drop.
        let mut leader = Leader::new(child).map_err(SpawnError::from_setup)?;
        let pump = match leader.child_mut() {
            Some(child) => Pump::new(child, spec).map_err(SpawnError::from_setup)?,
            None => return Err(SpawnError::Io(std::io::Error::other("the child was lost"))),
        };
        Ok(Self { spec, started, pump, leader, ended: BTreeSet::new() })
    }

    async fn until_stop(&mut self, mut cancel: Pin<&mut (impl Future<Output = ()> + Send)>) -> Stop {
        let deadline = self.spec.deadline.and_then(|limit| self.started.checked_add(limit));
        let mut deadline = pin!(at(deadline));
        let mut exited = false;
        let mut last_byte = Instant::now();
        loop {
            if exited && self.pump.is_eof() {
                return Stop::Exited { pipe_held: false };
            }
            let silence = match self.spec.held_pipe {
                HeldPipe::Silence(length) if exited => last_byte.checked_add(length),
                _ => None,
            };
            // Limits come first: a flood is always ready. Silence comes last: bytes that are there break it.
            tokio::select! {
                biased;
                () = &mut deadline => {
                    return if self.finished_in_time().await { Stop::Exited { pipe_held: false } } else { Stop::Deadline };
                }
                () = &mut cancel => return Stop::Cancel,
                () = self.leader.exited(), if !exited => {
                    exited = true;
                    last_byte = Instant::now();
                }
                step = self.pump.step() => {
                    if step == Step::Output {
                        last_byte = Instant::now();
                    }
                }
                () = at(silence) => return Stop::Exited { pipe_held: true },
            }
        }
    }

    /// A thread that was held up may see the deadline and the end at the same moment. Who is done by then is not
    /// blamed for our delay.
    async fn finished_in_time(&mut self) -> bool {
        // More than any pipe holds: a holder who floods cannot keep us here.
        for _ in 0..IN_TIME_STEPS {
            if self.pump.is_eof() || !self.leader.has_exited() {
                break;
            }
            tokio::select! {
                biased;
                _ = tokio::task::unconstrained(self.pump.step()) => {}
                () = std::future::ready(()) => return false,
            }
        }
        self.pump.is_eof() && self.leader.has_exited()
    }

    async fn conclude(mut self, stop: Stop) -> Result<Finished, SpawnError> {
        let (ending, mut pipe_held) = match stop {
            Stop::Exited { pipe_held } => (Ending::Exited, pipe_held),
            Stop::Deadline => (Ending::TimedOut, false),
            Stop::Cancel => (Ending::Cancelled, false),
        };
        let survivors = if ending != Ending::Exited {
            let survivors = self.end().await;
            pipe_held = !self.last_bytes().await;
            survivors
        } else if self.spec.leftover == Leftover::End {
            // The output is complete by the caller's rule: what a dying straggler says is not part of it.
            self.pump.close();
            self.end().await
        } else {
            BTreeSet::new()
        };
        let took = self.started.elapsed();
        let (stdout, stderr) = self.pump.into_captured();
        Ok(Finished {
            ending,
            status: self.leader.reap(),
            stdout,
            stderr,
            took,
            pipe_held,
            ended: self.ended.into_iter().collect(),
            survivors: survivors.into_iter().collect(),
        })
    }

    /// Ends the child and all that can be found of what it started. Returns who is alive nevertheless.
    async fn end(&mut self) -> BTreeSet<u32> {
        let found = self.look().await;
        if found.is_empty() && self.leader.has_exited() {
            return BTreeSet::new();
        }
        let mut alive = found;
        if !self.spec.grace.is_zero() {
            self.signal(&alive, Signal::TERM);
            self.wait_for_term().await;
            alive = self.look().await;
        }
        for _ in 0..KILL_ROUNDS {
            if alive.is_empty() && self.leader.has_exited() {
                return BTreeSet::new();
            }
            self.signal(&alive, Signal::KILL);
            self.pump.serve(sleep(LOOK)).await;
            alive = self.look().await;
        }
        let mut survivors: BTreeSet<u32> = alive.iter().map(|entry| entry.pid).collect();
        if self.pump.serve(tokio::time::timeout(REAP, self.leader.exited())).await.is_err() {
            survivors.extend(self.leader.child_mut().map(|child| child.id()));
        }
        survivors
    }

    /// Waits out the grace, but no longer than there is somebody to wait for.
    async fn wait_for_term(&mut self) {
        let leader = &self.leader;
        let all_gone = async {
            leader.exited().await;
            let stragglers = async {
                while leader.any_alive() {
                    sleep(LOOK).await;
                }
            };
            // Who is left gets no more than this; running out of it is as good as their end.
            let _ = tokio::time::timeout(STRAGGLERS, stragglers).await;
        };
        let _ = self.pump.serve(tokio::time::timeout(self.spec.grace, all_gone)).await;
    }

    /// Members of the tree that are alive now, the child excepted.
    async fn look(&mut self) -> Vec<Entry> {
        // Reading the table of a busy machine takes milliseconds: not on a thread that serves others.
        let table = match self.pump.serve(tokio::task::spawn_blocking(Entry::table)).await {
            Ok(table) => table,
            // The runtime is shutting down.
            Err(_) => Entry::table(),
        };
        self.leader.learn(&table)
    }

    /// One signal to the group as a whole and to each member outside of it, so that nobody gets it twice.
    fn signal(&mut self, members: &[Entry], which: Signal) {
        let group = self.leader.signal_group(which);
        for member in members {
            if group != Some(member.group) {
                signal(member, which);
            }
            self.ended.insert(member.pid);
        }
    }

    /// Takes what is left in the pipes of ended processes. False if somebody still holds one.
    async fn last_bytes(&mut self) -> bool {
        let until = Instant::now() + LAST_BYTES;
        while !self.pump.is_eof() {
            // Bounded as a whole: a holder out of reach may be the one who floods.
            if tokio::time::timeout_at(until, self.pump.step()).await.is_err() {
                return false;
            }
        }
        true
    }
}

/// Completes at `instant`, or never.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
