//! The processes of one selection and their sums.
//!
//! A rate is the sum of each process's increase since the previous sample, not the difference of two sums, so that
//! processes may start and end. One correction is needed: when a process ends and its parent waits for it, the kernel adds
//! all its totals to the parent's account. The part that was already counted is then subtracted.

use std::path::{Path, PathBuf};

use model::{Nanos, SECOND};

use super::parse::{self, Stat};
use super::sockets::{Listeners, inode};
use super::table::{MatchedProcess, numbered_entries};
use super::threads::{Summary, Threads};
use crate::reader::{Buffer, KernelFile};

/// Running totals of one process: user and system clock ticks, minor and major faults, then those of
/// [`parse::io`]. Children that ended and were waited for are included.
const QUANTITIES: usize = 10;
type Totals = [u64; QUANTITIES];
/// Index of the first total of `/proc/PID/io`.
const IO: usize = 4;

/// A process is gone only after its parent's account was made up, but the parent may have been read a moment before:
/// samples for which to look for it there.
const PATIENCE: u8 = 2;

/// The processes of one selection.
pub(super) struct Group {
    proc: PathBuf,
    members: Vec<Member>,
    departed: Vec<ExitedProcess>,
    carry: [f64; QUANTITIES],
    pub(super) threads: Threads,
    descriptors: usize,
    counts_open_files: bool,
    unreadable_io: usize,
    /// Ports on which a process of the group listens, and when that was last looked for.
    ports: Vec<u16>,
    listeners: Vec<u32>,
    /// When they were last searched for, and what was listening and who was in the group then.
    searched: Option<(Nanos, u64, Vec<u32>)>,
}

/// What waits at a group's listening sockets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Served {
    pub(super) waiting: u64,
    pub(super) waiting_limit: u64,
}

/// Minimum time between two searches for listening sockets.
const SEARCH_PAUSE: Nanos = SECOND;
/// Maximum number of descriptors of a process to inspect in a search: services open their listening sockets first.
const DESCRIPTORS_SEARCHED: usize = 1024;

struct Member {
    pid: u32,
    parent: u32,
    started: u64,
    stat: KernelFile,
    io: KernelFile,
    descriptors: PathBuf,
    /// Totals and the faults of its children at the previous sample.
    last: Option<(Totals, u64)>,
    /// Faults of children added since the previous sample, as far as no departed child explains them.
    children_faults: u64,
    /// The previous sample's time when the process did not exist then.
    born_after: Option<Nanos>,
    threads: u64,
}

/// A process that ended and whose account may yet be added to its parent's.
struct ExitedProcess {
    parent: u32,
    totals: Totals,
    patience: u8,
}

/// What the processes of a selection did since the previous sample and have now; NaN is absent.
pub(super) struct Sum {
    pub(super) increases: [f64; QUANTITIES],
    pub(super) processes: u64,
    pub(super) threads: u64,
    pub(super) resident_pages: u64,
    pub(super) open_files: f64,
}

impl Group {
    pub(super) fn new(
        proc: &Path,
        threads_a_sample: usize,
        descriptors: usize,
        counts_open_files: bool,
    ) -> Self {
        Group {
            proc: proc.to_path_buf(),
            members: Vec::new(),
            departed: Vec::new(),
            carry: [0.0; QUANTITIES],
            threads: Threads::new(proc.to_path_buf(), threads_a_sample, descriptors / 4 * 3),
            descriptors: descriptors / 4,
            counts_open_files,
            unreadable_io: 0,
            ports: Vec::new(),
            listeners: Vec::new(),
            searched: None,
        }
    }

    /// Adds a process.
    pub(super) fn take_in(&mut self, found: &MatchedProcess, previous: Option<Nanos>) {
        if self.members.iter().any(|member| member.pid == found.pid && member.started == found.started) {
            return;
        }
        let folder = self.proc.join(found.pid.to_string());
        self.members.push(Member {
            pid: found.pid,
            parent: 0,
            started: found.started,
            stat: KernelFile::at(folder.join("stat")),
            io: KernelFile::at(folder.join("io")),
            descriptors: folder.join("fd"),
            last: None,
            children_faults: 0,
            born_after: previous.filter(|_| found.is_born),
            threads: 0,
        });
    }

    /// Reads every process; nothing when none is left.
    pub(super) fn read(&mut self, now: Nanos, buffer: &mut Buffer) -> Option<Sum> {
        let mut sum = Sum {
            increases: [f64::NAN; QUANTITIES],
            processes: 0,
            threads: 0,
            resident_pages: 0,
            open_files: f64::NAN,
        };
        self.unreadable_io = 0;
        let keep_open = self.members.len() * Member::FILES <= self.descriptors;
        let mut index = 0;
        while index < self.members.len() {
            let member = &mut self.members[index];
            let last = member.last;
            if member.read(buffer, &mut sum, &mut self.unreadable_io) {
                if !keep_open {
                    member.stat.close();
                    member.io.close();
                }
                if self.counts_open_files {
                    sum.open_files =
                        member.open_files() + if sum.open_files.is_nan() { 0.0 } else { sum.open_files };
                }
                self.threads.list(member.pid, member.threads, member.born_after.take(), now, buffer);
                index += 1;
            } else {
                let gone = self.members.swap_remove(index);
                self.threads.forget(gone.pid);
                if let Some((totals, _)) = last {
                    self.departed.push(ExitedProcess { parent: gone.parent, totals, patience: PATIENCE });
                }
            }
        }
        self.settle(&mut sum);
        (sum.processes > 0).then_some(sum)
    }

    /// Subtracts totals of children that parents received although they were already counted.
    fn settle(&mut self, sum: &mut Sum) {
        let mut owed = [0.0; QUANTITIES];
        let members = &mut self.members;
        self.departed.retain_mut(|departed| {
            let Some(parent) = members.iter_mut().find(|member| member.pid == departed.parent) else {
                return false;
            };
            // Every process has page faults, so the faults of its children show whether the parent has waited for it.
            // It may also have disabled the accounting of children; then there is nothing to subtract.
            let faults = departed.totals[2];
            if parent.children_faults < faults {
                departed.patience -= 1;
                return departed.patience > 0;
            }
            parent.children_faults -= faults;
            for (owed, total) in owed.iter_mut().zip(departed.totals) {
                *owed += total as f64;
            }
            false
        });
        for ((increase, owed), carry) in sum.increases.iter_mut().zip(owed).zip(&mut self.carry) {
            // `io` is read a moment before `stat`, so it may lag one sample behind in what was added.
            let net = *increase - owed;
            *increase = if (net + *carry).is_nan() { f64::NAN } else { (net + *carry).max(0.0) };
            *carry = if net < 0.0 { net } else { 0.0 };
        }
        if self.unreadable_io > 0 {
            sum.increases[IO..].fill(f64::NAN);
        }
    }

    /// Processes whose `io` may not be read.
    pub(super) fn unreadable_io(&self) -> usize {
        self.unreadable_io
    }

    /// The process that was taken in first of those still there.
    pub(super) fn first_pid(&self) -> Option<u32> {
        self.members.first().map(|member| member.pid)
    }

    /// Looks for the ports the group's processes listen on, when that may have changed.
    pub(super) fn find_ports(&mut self, listening: &Listeners, now: Nanos) {
        if !listening.are_known() {
            return;
        }
        let members = || self.members.iter().map(|member| member.pid);
        // Looking through descriptors costs milliseconds where there are many: only when something began or ended.
        if let Some((at, known, of)) = &self.searched
            && (now.saturating_sub(*at) < SEARCH_PAUSE
                || (*known == listening.fingerprint() && members().eq(of.iter().copied())))
        {
            return;
        }
        self.searched = Some((now, listening.fingerprint(), members().collect()));
        self.ports.clear();
        self.listeners.clear();
        let mut numbers = Vec::new();
        for member in &self.members {
            if !numbered_entries(&member.descriptors, &mut numbers) {
                continue;
            }
            for number in numbers.iter().take(DESCRIPTORS_SEARCHED) {
                let Ok(link) = rustix::fs::readlink(member.descriptors.join(number.to_string()), Vec::new())
                else {
                    continue;
                };
                if let Some(found) = inode(link.as_bytes()).and_then(|inode| listening.find(inode))
                    && !self.listeners.contains(&found.inode)
                {
                    self.listeners.push(found.inode);
                    self.ports.push(found.port);
                }
            }
        }
    }

    /// Samples the next threads, of `count` according to the kernel.
    pub(super) fn read_threads(&mut self, count: u64, now: Nanos, buffer: &mut Buffer) -> Summary {
        let ports = self.searched.is_some().then_some(self.ports.as_slice());
        self.threads.read(count, now, ports, buffer)
    }

    /// What waits at the listening sockets of the group; nothing for a group that does not listen.
    pub(super) fn served(&self, listening: &Listeners) -> Option<Served> {
        if self.listeners.is_empty() {
            return None;
        }
        let mut served = Served::default();
        for listener in self.listeners.iter().filter_map(|inode| listening.find(*inode)) {
            served.waiting += u64::from(listener.waiting);
            served.waiting_limit += u64::from(listener.waiting_limit);
        }
        Some(served)
    }

    /// Each port on which the group listens, with the connections that wait there.
    pub(super) fn ports<'a>(&'a self, listening: &'a Listeners) -> impl Iterator<Item = (u16, u32)> + 'a {
        self.listeners
            .iter()
            .filter_map(|inode| listening.find(*inode))
            .map(|listener| (listener.port, listener.waiting))
    }

    /// Whether the group has no process.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl Member {
    /// Files read for a process.
    const FILES: usize = 2;

    /// Adds this process to the sum; false when it is gone.
    fn read(&mut self, buffer: &mut Buffer, sum: &mut Sum, unreadable_io: &mut usize) -> bool {
        let io = self.io.read_once(buffer).and_then(parse::io);
        let Some(stat) = self.stat.read_once(buffer).and_then(parse::stat) else { return false };
        if stat.started != self.started {
            return false;
        }
        self.parent = stat.parent;
        self.threads = stat.threads;
        if !stat.is_ended {
            sum.processes += 1;
            sum.threads = sum.threads.saturating_add(stat.threads);
            sum.resident_pages = sum.resident_pages.saturating_add(stat.resident_pages);
            *unreadable_io += usize::from(io.is_none());
        }
        let totals = totals(&stat, io, self.last.as_ref().map(|(totals, _)| totals));
        let children = stat.minor_faults[1];
        let before = match (self.last, self.born_after) {
            (None, Some(_)) => Some((Totals::default(), 0)),
            (last, _) => last,
        };
        self.children_faults = 0;
        if let Some((before, children_before)) = before {
            self.children_faults = children.saturating_sub(children_before);
            for ((increase, total), before) in sum.increases.iter_mut().zip(totals).zip(before) {
                let known = if increase.is_nan() { 0.0 } else { *increase };
                *increase = known + total.saturating_sub(before) as f64;
            }
        }
        self.last = Some((totals, children));
        true
    }

    /// Descriptors open, which since Linux 6.2 is the size of the folder that lists them; zero before.
    fn open_files(&self) -> f64 {
        match std::fs::metadata(&self.descriptors) {
            Ok(folder) if folder.len() > 0 => folder.len() as f64,
            _ => f64::NAN,
        }
    }
}

/// A process that has ended has no `io` any more; what it had stays as it was.
fn totals(stat: &Stat, io: Option<[u64; 6]>, before: Option<&Totals>) -> Totals {
    let mut totals = before.copied().unwrap_or_default();
    // Its own and those of the children it waited for.
    let both = |[own, children]: [u64; 2]| own.saturating_add(children);
    totals[0] = both(stat.user_ticks);
    totals[1] = both(stat.system_ticks);
    totals[2] = both(stat.minor_faults);
    totals[3] = both(stat.major_faults);
    if let Some(io) = io {
        totals[IO..].copy_from_slice(&io);
    }
    totals
}
