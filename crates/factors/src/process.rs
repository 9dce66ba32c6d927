//! Processes in `/proc`: threads, descendants, start times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::process_stat::ProcessStat;
use engine::source::HostRoot;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

/// The required fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// False for a zombie.
    pub is_alive: bool,
    /// Process id of the parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// The kernel's flags, `PF_*`.
    pub flags: u64,
    /// The start time, in clock ticks since boot.
    pub started_ticks: u64,
}

/// The CPUs of a thread with this flag cannot be changed, for example an io_uring worker.
pub const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

impl Stat {
    fn from(stat: &ProcessStat<'_>) -> Option<Stat> {
        Some(Stat {
            is_alive: !matches!(stat.state, b'Z' | b'X'),
            parent: stat.parent()?,
            group: stat.group()?,
            session: u32::try_from(stat.number(6)?).ok()?,
            flags: stat.number(9)?,
            started_ticks: stat.started_ticks()?,
        })
    }

    /// The fields of a process; none if it ended.
    pub fn of(root: &HostRoot, process: u32) -> Option<Stat> {
        Stat::from(&ProcessStat::of(root, process)?)
    }

    /// The fields of one thread of a process; none if it ended.
    pub fn of_thread(root: &HostRoot, process: u32, thread: u32) -> Option<Stat> {
        Stat::from(&ProcessStat::of_thread(root, process, thread)?)
    }
}

/// A living process, referenced by a descriptor: a signal never reaches another process with the same id.
#[derive(Debug)]
pub struct ProcessHandle {
    /// Its id.
    pub process: u32,
    started_ticks: u64,
    descriptor: std::os::fd::OwnedFd,
}

impl ProcessHandle {
    /// References a process if `condition` is true for it. The descriptor is opened before the check, and the
    /// process is alive after it, so the checked data belongs to this process.
    pub fn if_it(
        root: &HostRoot,
        process: u32,
        condition: impl FnOnce(&Stat) -> bool,
    ) -> Option<ProcessHandle> {
        let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let stat = Stat::of(root, process).filter(condition)?;
        // The descriptor becomes readable when the process ends.
        let mut poll = [PollFd::new(&descriptor, PollFlags::IN)];
        let has_ended = rustix::event::poll(&mut poll, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0);
        (!has_ended).then_some(ProcessHandle { process, started_ticks: stat.started_ticks, descriptor })
    }

    /// Its id and start time, which together identify a process.
    pub fn started(&self) -> (u32, u64) {
        (self.process, self.started_ticks)
    }

    /// Sends a signal. It is not an error if the process ended meanwhile.
    ///
    /// # Errors
    /// When this user lacks the permission.
    pub fn signal(&self, signal: Signal) -> std::io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.descriptor, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl ProcessHandle {
    /// Sends a signal to the process group that it leads. It is not an error if all of it ended meanwhile.
    ///
    /// # Errors
    /// When this user lacks the permission.
    pub fn signal_group(&self, signal: Signal) -> std::io::Result<()> {
        let Some(group) = i32::try_from(self.process).ok().and_then(Pid::from_raw) else { return Ok(()) };
        match rustix::process::kill_process_group(group, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Processes that this one started beside the target: they are not among its descendants, so that no limit of the load or
/// the target is theirs.
static BESIDE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn all_beside() -> MutexGuard<'static, BTreeSet<u32>> {
    BESIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process beside the target, until this is dropped.
pub(crate) struct Beside(u32);

/// Leaves a process out of all descendants.
pub(crate) fn beside(process: u32) -> Beside {
    all_beside().insert(process);
    Beside(process)
}

impl Drop for Beside {
    fn drop(&mut self) {
        all_beside().remove(&self.0);
    }
}

/// The ids of all processes, in order.
pub fn all(root: &HostRoot) -> Vec<u32> {
    numbered(root, "proc")
}

/// The threads of a process; none if it ended.
pub fn threads(root: &HostRoot, process: u32) -> Vec<u32> {
    numbered(root, &format!("proc/{process}/task"))
}

/// These processes and all their descendants, each once, parents before children, without those that ended and without
/// neighbours.
pub fn with_descendants(root: &HostRoot, processes: &[u32]) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut alive = BTreeSet::new();
    let beside = all_beside().clone();
    for process in all(root).into_iter().filter(|process| !beside.contains(process)) {
        if let Some(stat) = Stat::of(root, process) {
            alive.insert(process);
            children.entry(stat.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next: Vec<u32> = processes.iter().copied().filter(|process| alive.contains(process)).collect();
    while !next.is_empty() {
        next.retain(|process| seen.insert(*process));
        found.extend(&next);
        next = next.iter().filter_map(|process| children.get(process)).flatten().copied().collect();
    }
    found
}

/// The entries of a folder with numeric names, in order.
fn numbered(root: &HostRoot, folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    fn stat(process: u32, parent: u32) -> String {
        format!(
            "{process} (a (b) c) S {parent} 1 1 0 -1 67108864 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0",
            process * 100
        )
    }

    #[test]
    fn a_name_with_parentheses_does_not_mislead() {
        let parse = |text: &str| Stat::from(&ProcessStat::parse(text.as_bytes())?);
        let parsed = parse(&stat(7, 3)).unwrap();
        assert_eq!(
            parsed,
            Stat {
                is_alive: true,
                parent: 3,
                group: 1,
                session: 1,
                flags: PF_NO_SETAFFINITY,
                started_ticks: 700
            }
        );
        for torn in ["", "7 (a", "7 (a) S", "7 (a) S x 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9"] {
            assert_eq!(parse(torn), None, "{torn}");
        }
    }

    #[test]
    fn descendants_follow_their_parents() {
        let host = Scratch::new();
        for (process, parent) in [(10, 1), (11, 10), (12, 11), (5, 11), (20, 1)] {
            host.file(&format!("proc/{process}/stat"), stat(process, parent));
        }
        let root = HostRoot::at(host.path());
        assert_eq!(with_descendants(&root, &[10]), [10, 11, 5, 12]);
        assert_eq!(with_descendants(&root, &[11, 10, 99]), [11, 10, 5, 12]);
    }

    #[test]
    fn a_signal_never_reaches_a_process_that_took_the_number() {
        let root = HostRoot::live();
        let start = || std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let mut first = start();
        let held = ProcessHandle::if_it(&root, first.id(), |stat| stat.is_alive).unwrap();
        assert!(ProcessHandle::if_it(&root, first.id(), |_| false).is_none());
        held.signal(Signal::KILL).unwrap();
        assert!(!first.wait().unwrap().success());
        // Its id is unused now; the descriptor still refers to the ended process.
        held.signal(Signal::KILL).unwrap();
        assert!(ProcessHandle::if_it(&root, first.id(), |_| true).is_none());
        assert!(ProcessHandle::if_it(&root, u32::MAX, |_| true).is_none());
    }

    #[test]
    fn this_very_process_is_there() {
        let root = HostRoot::live();
        let this = std::process::id();
        assert!(Stat::of(&root, this).unwrap().started_ticks > 0);
        assert!(threads(&root, this).contains(&this));
    }
}
