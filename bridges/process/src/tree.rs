//! Which processes belong to a child: found in the process table, told from their successors by start time.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal};

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Start time in clock ticks since boot. Together with the id it names a process for good.
    pub(crate) start: u64,
    /// Nothing of it runs any more; only its parent has not asked for its status yet.
    pub(crate) dead: bool,
}

impl Entry {
    /// Parses `/proc/PID/stat` (proc_pid_stat(5)). The name in parentheses may itself hold spaces and parentheses, so
    /// the fields are counted from the last one.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(' ')?;
        let (_, fields) = rest.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
        // A process whose first thread ended while others run on is shown as a zombie, with its threads counted.
        let threads: u64 = fields.get(17)?.parse().ok()?;
        Some(Self {
            pid: pid.parse().ok()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start: fields.get(19)?.parse().ok()?,
            dead: matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1,
        })
    }

    /// The entry of one process, if it exists.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        // The name is whatever the process calls itself, not necessarily UTF-8.
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The whole table, once through. Empty where there is no `/proc`.
    pub(crate) fn table() -> Vec<Self> {
        let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
        dir.flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Self::read)
            .collect()
    }
}

/// The processes known to belong to one child, which leads the tree and is not yet reaped.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    leader: u32,
    own: u32,
    /// Start time by id of every member seen so far, the leader excepted.
    known: BTreeMap<u32, u64>,
    /// Ids of groups and sessions that a member has led.
    led: BTreeSet<u32>,
}

impl Tree {
    pub(crate) fn new(leader: u32) -> Self {
        Self { leader, own: std::process::id(), known: BTreeMap::new(), led: BTreeSet::from([leader]) }
    }

    /// For a leader that was reaped behind our back: its id may be anybody's now. Members that are known stay known.
    pub(crate) fn forget_leader(&mut self) {
        self.led.remove(&self.leader);
        self.leader = 0;
    }

    /// Learns from a fresh table and returns the members that are alive, the leader excepted.
    ///
    /// A member is whoever descends from a member, or is in a group or session that one has led: that finds also those
    /// whose parents are gone. The leader's id cannot be anybody else's while it is not reaped. Any other id
    /// is given up as soon as the table shows it with another start time.
    pub(crate) fn learn(&mut self, table: &[Entry]) -> Vec<Entry> {
        for entry in table {
            if self.known.get(&entry.pid).is_some_and(|start| *start != entry.start) {
                self.known.remove(&entry.pid);
                self.led.remove(&entry.pid);
            }
        }
        loop {
            let before = self.known.len();
            for entry in table {
                if entry.pid <= 1 || entry.pid == self.own || self.known.contains_key(&entry.pid) {
                    continue;
                }
                let is_leader = entry.pid == self.leader;
                let belongs = (entry.parent == self.leader && self.leader != 0)
                    || self.known.contains_key(&entry.parent)
                    || self.led.contains(&entry.group)
                    || self.led.contains(&entry.session);
                if !is_leader && belongs {
                    self.known.insert(entry.pid, entry.start);
                    if entry.group == entry.pid || entry.session == entry.pid {
                        self.led.insert(entry.pid);
                    }
                }
            }
            if self.known.len() == before {
                break;
            }
        }
        for entry in table.iter().filter(|entry| entry.dead && entry.parent == self.own && self.knows(entry))
        {
            reaped(entry);
        }
        table.iter().filter(|entry| self.knows(entry) && !entry.dead).copied().collect()
    }

    /// Whether a member of this tree, the leader excepted, is still alive, by a look at the known ones only.
    pub(crate) fn any_alive(&self) -> bool {
        self.known
            .iter()
            .any(|(pid, start)| Entry::read(*pid).is_some_and(|entry| entry.start == *start && !entry.dead))
    }

    fn knows(&self, entry: &Entry) -> bool {
        self.known.get(&entry.pid) == Some(&entry.start)
    }

    /// Reaps members that have become children of this program, and forgets them and those that are gone. True when no
    /// member is left that may still become one.
    ///
    /// Only where this program is the first process of a container, or a subreaper, does it inherit orphans: and then
    /// nobody else would reap them.
    pub(crate) fn release(&mut self) -> bool {
        let own = self.own;
        // A dead member whose parent is about to die becomes ours with its parent's end, and not before.
        let may_leave: BTreeSet<u32> = self.known.keys().copied().chain([self.leader]).collect();
        self.known.retain(|pid, start| match Entry::read(*pid) {
            Some(entry) if entry.start == *start && entry.dead => {
                if entry.parent == own {
                    !reaped(&entry)
                } else {
                    may_leave.contains(&entry.parent)
                }
            }
            Some(entry) => entry.start == *start,
            None => false,
        });
        self.known.is_empty()
    }
}

/// Asks for the status of a dead process that is our child. The only failure is that it no longer is.
fn reaped(entry: &Entry) -> bool {
    let nohang = rustix::process::WaitOptions::NOHANG;
    as_pid(entry.pid).is_none_or(|pid| !matches!(rustix::process::waitpid(Some(pid), nohang), Ok(None)))
}

pub(crate) fn as_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Signals a process if it is still the one that was seen. Failures mean that it is gone, or not ours to
/// signal: the next look at the table tells.
pub(crate) fn signal(seen: &Entry, signal: Signal) {
    let Some(pid) = as_pid(seen.pid) else { return };
    let same = || Entry::read(seen.pid).is_some_and(|now| now.start == seen.start);
    #[cfg(target_os = "linux")]
    match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        // The descriptor holds on to one process; the comparison made after opening tells which.
        Ok(process) => {
            if same() {
                let _ = rustix::process::pidfd_send_signal(&process, signal);
            }
            return;
        }
        Err(rustix::io::Errno::SRCH) => return,
        // No such call (an old kernel, a sandbox) or no descriptor left: what follows is the next best.
        Err(_) => {}
    }
    if same() {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Signal, Tree, signal};

    fn entry(pid: u32, parent: u32, group: u32, session: u32, start: u64) -> Entry {
        Entry { pid, parent, group, session, start, dead: false }
    }

    fn pids(members: &[Entry]) -> Vec<u32> {
        members.iter().map(|entry| entry.pid).collect()
    }

    #[test]
    fn a_name_full_of_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) R 1 (b c)) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 9876 1 2";
        let parsed = Entry::parse(text);
        assert_eq!(
            parsed,
            Some(Entry { pid: 42, parent: 7, group: 40, session: 41, start: 9876, dead: false })
        );
    }

    #[test]
    fn a_zombie_is_dead_unless_threads_of_it_run() {
        let line =
            |threads: u32| format!("42 (x) Z 7 40 41 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 9876 1 2");
        assert_eq!(Entry::parse(&line(1)).map(|entry| entry.dead), Some(true));
        assert_eq!(Entry::parse(&line(2)).map(|entry| entry.dead), Some(false));
    }

    #[test]
    fn a_torn_line_is_no_entry() {
        for text in
            ["", "42", "42 (x", "42 (x) S 7 40", "x (x) S 7 40 41 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 9876"]
        {
            assert_eq!(Entry::parse(text), None, "{text}");
        }
    }

    #[test]
    fn our_own_entry_is_readable() {
        let own = Entry::read(std::process::id());
        assert!(own.is_some_and(|entry| !entry.dead && entry.start > 0));
    }

    // C-BRIDGE-7: every descendant found before the kill, those in sessions of their own included.
    #[test]
    fn members_are_found_by_parent_group_and_session_whatever_the_order() {
        let mut tree = Tree::new(100);
        let table = [
            entry(103, 102, 102, 102, 9), // child of the escapee, listed before its parent
            entry(102, 101, 102, 102, 8), // setsid: own group and session
            entry(101, 100, 100, 50, 7),
            entry(104, 1, 100, 50, 9),  // orphan in the leader's group
            entry(105, 1, 105, 102, 9), // orphan in the escapee's session
            entry(200, 50, 200, 50, 3), // a neighbour
            entry(100, 50, 100, 50, 6),
        ];
        assert_eq!(pids(&tree.learn(&table)), [103, 102, 101, 104, 105]);
    }

    #[test]
    fn a_member_born_after_its_session_leader_died_is_found() {
        let mut tree = Tree::new(100);
        tree.learn(&[entry(100, 50, 100, 50, 6), entry(102, 100, 102, 102, 8)]);
        assert_eq!(pids(&tree.learn(&[entry(100, 50, 100, 50, 6), entry(110, 1, 102, 102, 20)])), [110]);
    }

    #[test]
    fn a_reused_id_and_its_group_are_strangers() {
        let mut tree = Tree::new(100);
        assert_eq!(pids(&tree.learn(&[entry(102, 100, 102, 102, 8)])), [102]);
        let reused = [entry(102, 1, 102, 102, 30), entry(103, 102, 102, 102, 31)];
        assert_eq!(pids(&tree.learn(&reused)), [0u32; 0]);
    }

    #[test]
    fn a_leader_reaped_by_others_ties_nobody_new() {
        let mut tree = Tree::new(100);
        tree.learn(&[entry(100, 50, 100, 50, 6), entry(102, 100, 100, 50, 8)]);
        tree.forget_leader();
        let table = [
            entry(100, 1, 100, 100, 30),
            entry(101, 100, 100, 100, 31),
            entry(102, 1, 100, 50, 8),
            entry(2, 0, 0, 0, 0),
        ];
        assert_eq!(pids(&tree.learn(&table)), [102]);
    }

    // C-BRIDGE-7: a process that merely has the id of one we knew is never hit.
    #[test]
    fn a_signal_goes_only_to_the_process_that_was_seen() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sleep").arg("100").spawn()?;
        let Some(seen) = Entry::read(child.id()) else { panic!("the child is in the table") };
        signal(&Entry { start: seen.start + 1, ..seen }, Signal::KILL);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait()?.is_none());
        signal(&seen, Signal::KILL);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait()?), Some(9));
        Ok(())
    }

    #[test]
    fn a_dead_member_that_is_our_child_is_reaped_and_a_living_one_is_waited_for() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sleep").arg("100").spawn()?;
        let Some(seen) = Entry::read(child.id()) else { panic!("the child is in the table") };
        let mut tree = Tree::new(1);
        tree.known.insert(seen.pid, seen.start);
        assert!(!tree.release() && tree.any_alive());
        child.kill()?;
        while !tree.release() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(Entry::read(seen.pid).filter(|now| now.start == seen.start), None);
        assert!(child.wait().is_err(), "its status was taken");
        Ok(())
    }

    // C-BRIDGE-7: whoever dies before its parent is reaped when the parent is gone, and not forgotten before.
    #[test]
    fn a_dead_member_is_remembered_while_its_parent_may_leave_it_to_us() -> std::io::Result<()> {
        // A parent that never asks for its child's status.
        let mut parent = std::process::Command::new("sh").args(["-c", "sleep 0 & exec sleep 100"]).spawn()?;
        let child = loop {
            let table = Entry::table();
            if let Some(child) = table.iter().find(|entry| entry.parent == parent.id() && entry.dead) {
                break *child;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let mut tree = Tree::new(parent.id());
        tree.known.insert(child.pid, child.start);
        assert!(!tree.release(), "its parent, the leader, still lives");
        tree.forget_leader();
        assert!(tree.release(), "its parent is nobody of this tree");
        parent.kill()?;
        parent.wait().map(drop)
    }
}
