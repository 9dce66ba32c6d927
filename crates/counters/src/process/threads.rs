//! Data per thread: state, context switches, time in the run queue.
//!
//! The kernel needs several microseconds to describe a thread, so only some of many threads are sampled each time,
//! in rotation. A thread's rates are those since its last sample, and are used until its next one.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use engine::system_call::{self, Call};
use model::{Nanos, SECOND};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::parse::{self, State};
use super::sockets::{self, End, connection};
use super::table::{listing_interval, numbered_entries};
use crate::reader::{Buffer, KernelFile};

/// Maximum number of threads per sample, over all selections.
pub(super) const THREADS_A_SAMPLE: usize = 32;
/// Samples that follow each other faster than this look at a fifth as many, when they cannot look at all.
const FAST: Nanos = SECOND / 2;
/// Threads sampled when a process is added, so that its first rates are available at once.
const THREADS_AT_FIRST: usize = 2048;

/// Descriptors of an event loop that are looked at for the service it waits for.
const SOCKETS_OF_A_LOOP: usize = 16;

/// The threads of all processes of one selection.
pub(super) struct Threads {
    proc: PathBuf,
    pub(super) list: Vec<Thread>,
    lists: Vec<Listing>,
    cursor: usize,
    tids: Vec<u32>,
    known: Vec<u32>,
    /// Threads to look at in one sample at most, and how many files may stay open for them.
    budget: usize,
    descriptors: usize,
    read_at: Option<Nanos>,
    looked_at: usize,
    pub(super) waits: WaitCounts,
    /// Handles of processes whose descriptors were looked at; none where that is not allowed.
    processes: Vec<(u32, Option<OwnedFd>)>,
    /// Those shown by themselves, by the time they were last looked at.
    tracked: Vec<(Option<Nanos>, usize)>,
}

/// The handle of a process, opened when it is first needed.
fn handle(processes: &mut Vec<(u32, Option<OwnedFd>)>, pid: u32) -> Option<&OwnedFd> {
    let at = match processes.iter().position(|(known, _)| *known == pid) {
        Some(at) => at,
        None => {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let opened = raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            processes.push((pid, opened));
            processes.len() - 1
        }
    };
    processes.get(at)?.1.as_ref()
}

/// What was last listed of one process.
struct Listing {
    pid: u32,
    threads: u64,
    at: Nanos,
}

pub(super) struct Thread {
    pid: u32,
    tid: u32,
    /// `/proc/PID/task/TID`.
    pub(super) folder: PathBuf,
    status: KernelFile,
    schedstat: KernelFile,
    syscall: KernelFile,
    last: Option<ThreadSample>,
    pub(super) rates: Option<Rates>,
    pub(super) moment: Option<Moment>,
    /// The place of a thread that is shown by itself, in [`super::tracked::Tracked`].
    pub(super) place: Option<usize>,
}

/// The state of a thread at its last sample.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    state: State,
    /// False for a sleeping thread whose call may not be read.
    pub(super) is_known: bool,
    pub(super) wait: Option<WaitReason>,
}

/// What a sleeping thread waits for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WaitReason {
    /// A lock, or work from another thread, at this address.
    Lock(u64),
    Timer,
    Events,
    Accept,
    /// A client's request or its readiness to take the answer.
    Client,
    /// The answer of a service this one has connected to, or its readiness to take a request.
    Peer(SocketAddr),
    Transfer,
    Flush,
    Other,
}

/// How many kinds of wait there are.
pub(super) const WAITS: usize = WaitReason::Other.index() + 1;

impl WaitReason {
    /// The place of this kind in [`WaitCounts::counts`].
    const fn index(self) -> usize {
        match self {
            WaitReason::Lock(_) => 0,
            WaitReason::Timer => 1,
            WaitReason::Events => 2,
            WaitReason::Accept => 3,
            WaitReason::Client => 4,
            WaitReason::Peer(_) => 5,
            WaitReason::Transfer => 6,
            WaitReason::Flush => 7,
            WaitReason::Other => 8,
        }
    }
}

/// Wait reasons of the sampled threads.
pub(super) struct WaitCounts {
    counts: [u32; WAITS],
    /// Addresses of the locks waited for.
    locks: Vec<u64>,
    /// Peers of the connections that threads wait for.
    pub(super) peers: Vec<(SocketAddr, u32)>,
    /// Threads whose call could be read.
    known: u32,
}

impl WaitCounts {
    fn new() -> Self {
        WaitCounts { counts: [0; WAITS], locks: Vec::new(), peers: Vec::new(), known: 0 }
    }

    fn clear(&mut self) {
        (self.counts, self.known) = ([0; WAITS], 0);
        self.locks.clear();
        self.peers.clear();
    }

    /// Threads waiting at the address that most wait at.
    fn most_at_one_lock(&mut self) -> usize {
        self.locks.sort_unstable();
        self.locks.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0)
    }

    fn count(&mut self, moment: Moment) {
        self.known += u32::from(moment.is_asleep() && moment.is_known);
        let Some(wait) = moment.wait else { return };
        self.counts[wait.index()] += 1;
        match wait {
            WaitReason::Lock(address) => self.locks.push(address),
            WaitReason::Peer(peer) => self.count_peer(peer),
            _ => {}
        }
    }

    fn count_peer(&mut self, peer: SocketAddr) {
        match self.peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, count)) => *count += 1,
            None => self.peers.push((peer, 1)),
        }
    }
}

impl Moment {
    fn is_asleep(self) -> bool {
        matches!(self.state, State::Sleeping | State::DiskWait)
    }
}

/// Running totals of one thread: nanoseconds run and waited, voluntary and involuntary switches.
struct ThreadSample {
    at: Nanos,
    totals: Totals,
    /// How often it was given a CPU.
    slices: Option<u64>,
}

/// Nothing for what the kernel does not keep: it can be built without `schedstat`.
type Totals = [Option<u64>; 4];
/// The same per second; NaN for nothing.
type Rates = [f64; 4];

/// Sums over all threads of a selection; NaN if unknown.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    /// Threads running, sleeping, waiting for a disk, and others.
    pub(super) states: [f64; 4],
    /// Threads by what they wait for, in the order of [`WaitReason`]; and those at the lock that most wait for.
    pub(super) waits: [f64; WAITS],
    pub(super) most_at_one_lock: f64,
    /// Number of threads that one sampled thread represents.
    pub(super) weight: f64,
    /// Seconds waited in the run queue per second.
    pub(super) waiting: f64,
    /// Voluntary and involuntary context switches per second.
    pub(super) switches: [f64; 2],
    /// CPU seconds per second of the thread that ran most.
    pub(super) busiest: f64,
}

impl Threads {
    pub(super) fn new(proc: PathBuf, budget: usize, descriptors: usize) -> Self {
        Threads {
            proc,
            list: Vec::new(),
            lists: Vec::new(),
            cursor: 0,
            tids: Vec::new(),
            known: Vec::new(),
            budget,
            descriptors,
            read_at: None,
            looked_at: 0,
            waits: WaitCounts::new(),
            processes: Vec::new(),
            tracked: Vec::new(),
        }
    }

    /// Whether only some threads are sampled each time.
    pub(super) fn are_sampled(&self) -> bool {
        self.list.len() > self.budget
    }

    /// Number of threads per sample, and in total.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.looked_at, self.list.len())
    }

    /// Removes an ended process.
    pub(super) fn forget(&mut self, pid: u32) {
        self.list.retain(|thread| thread.pid != pid);
        self.processes.retain(|(known, _)| *known != pid);
        self.lists.retain(|listing| listing.pid != pid);
    }

    /// Lists the threads of a process when their number changed since the last time and the listing is worth its
    /// cost. `born_after`: the time of the previous sample for a process that did not exist then.
    pub(super) fn list(
        &mut self,
        pid: u32,
        count: u64,
        born_after: Option<Nanos>,
        now: Nanos,
        buffer: &mut Buffer,
    ) {
        let listing = self.lists.iter_mut().find(|listing| listing.pid == pid);
        // A thread of a process that was there before began to exist after the last listing.
        let mut since = born_after;
        match listing {
            Some(listing) => {
                let is_due = now.saturating_sub(listing.at) >= listing_interval(count as usize);
                if listing.threads == count || !is_due {
                    return;
                }
                since = Some(listing.at);
                (listing.threads, listing.at) = (count, now);
            }
            None => self.lists.push(Listing { pid, threads: count, at: now }),
        }
        let folder = self.proc.join(pid.to_string()).join("task");
        if !numbered_entries(&folder, &mut self.tids) {
            return;
        }
        let tids = &self.tids;
        self.list.retain(|thread| thread.pid != pid || tids.binary_search(&thread.tid).is_ok());
        self.known.clear();
        self.known.extend(self.list.iter().filter(|thread| thread.pid == pid).map(|thread| thread.tid));
        self.known.sort_unstable();
        let first_new = self.list.len();
        for &tid in &self.tids {
            if self.known.binary_search(&tid).is_err() {
                let last = since.map(|at| ThreadSample { at, totals: [Some(0); 4], slices: None });
                self.list.push(Thread::new(pid, tid, &folder, last));
            }
        }
        if since.is_none() {
            let keep_open = self.keeps_open();
            for thread in self.list[first_new..].iter_mut().take(THREADS_AT_FIRST) {
                thread.sample(now, buffer, keep_open);
            }
        }
    }

    fn keeps_open(&self) -> bool {
        self.list.len() * Thread::FILES <= self.descriptors
    }

    /// Samples some of the individually shown threads, in rotation. Returns their number.
    fn look_at_tracked(
        &mut self,
        looks: usize,
        now: Nanos,
        ports: Option<&[u16]>,
        buffer: &mut Buffer,
    ) -> usize {
        let tracked = self.list.iter().enumerate().filter(|(_, thread)| thread.place.is_some());
        self.tracked.clear();
        self.tracked.extend(tracked.map(|(index, thread)| (thread.last.as_ref().map(|look| look.at), index)));
        // The least recently sampled ones first.
        self.tracked.sort_unstable();
        let looks = looks.min(self.tracked.len());
        for at in 0..looks {
            let (_, index) = self.tracked[at];
            self.look_at(index, now, ports, buffer);
        }
        looks
    }

    /// Samples one thread, at most once per sample; none if it has ended.
    fn look_at(
        &mut self,
        index: usize,
        now: Nanos,
        ports: Option<&[u16]>,
        buffer: &mut Buffer,
    ) -> Option<Moment> {
        let (keep_open, is_sampled) = (self.keeps_open(), self.are_sampled());
        let thread = &mut self.list[index];
        if thread.is_seen(now) {
            return thread.moment;
        }
        // Most threads of a large process have slept since their last turn, long ago.
        if is_sampled && thread.has_slept_since(now, buffer, keep_open) {
            return thread.moment;
        }
        thread.moment = match thread.sample(now, buffer, keep_open) {
            Some(state) => Some(thread.moment(state, ports, &mut self.processes, buffer, keep_open)),
            // The number alone would not show that it is gone when another one has come.
            None => {
                let pid = thread.pid;
                for listing in self.lists.iter_mut().filter(|listing| listing.pid == pid) {
                    listing.threads = 0;
                }
                None
            }
        };
        self.list[index].moment
    }

    /// Samples the next threads. `count` is their number according to the kernel.
    /// `ports`: where the process itself listens, by which clients are reported from peers; none while that is not known.
    pub(super) fn read(
        &mut self,
        count: u64,
        now: Nanos,
        ports: Option<&[u16]>,
        buffer: &mut Buffer,
    ) -> Summary {
        let is_fast = self.read_at.replace(now).is_some_and(|before| now.saturating_sub(before) < FAST);
        self.looked_at = match self.list.len() {
            all if all <= self.budget => all,
            _ if is_fast => self.budget.div_ceil(5),
            _ => self.budget,
        };
        if self.are_sampled() {
            // Those shown by themselves wait for peers and files more often than others, which takes twice as long to see.
            let shown = self.look_at_tracked((self.looked_at + 1) / 4, now, ports, buffer);
            self.looked_at -= 2 * shown;
        }
        let mut states = [0_u32; 4];
        self.waits.clear();
        let step = step(self.list.len());
        for _ in 0..self.looked_at {
            self.cursor = (self.cursor + step) % self.list.len();
            if let Some(moment) = self.look_at(self.cursor, now, ports, buffer) {
                states[moment.state as usize] += 1;
                self.waits.count(moment);
            }
        }
        let seen = f64::from(states.iter().sum::<u32>());
        let (mut total, mut known, mut busiest) = ([0.0; 4], 0.0, f64::NAN);
        for rates in self.list.iter().filter_map(|thread| thread.rates) {
            known += 1.0;
            busiest = rates[0].max(busiest);
            for (total, rate) in total.iter_mut().zip(rates) {
                *total += rate;
            }
        }
        // 0/0 is NaN: absent, as it should be.
        let [_ran, waiting, voluntary, involuntary] = total.map(|total| total * (count as f64 / known));
        let asleep = f64::from(states[State::Sleeping as usize] + states[State::DiskWait as usize]);
        let weight = count as f64 / seen;
        // Calls that may not be read leave all of it absent.
        let is_known = f64::from(self.waits.known) >= asleep;
        let waits = if is_known { weight } else { f64::NAN };
        Summary {
            waits: self.waits.counts.map(|threads| f64::from(threads) * waits),
            most_at_one_lock: self.waits.most_at_one_lock() as f64 * waits,
            weight,
            states: states.map(|state| f64::from(state) * weight),
            waiting: waiting / 1e9,
            switches: [voluntary, involuntary],
            // No thread runs for longer than time passes: it was read later after the clock than the time before.
            busiest: if busiest > 1e9 { 1.0 } else { busiest / 1e9 },
        }
    }
}

/// From one thread to the next that is looked at: after as many steps as there are threads each has had its turn, and those of
/// a few steps lie evenly among all. The workers of a pool take requests in turn, so that those at work are neighbours in the
/// list: looks at neighbours would see all of them at work, or none.
fn step(threads: usize) -> usize {
    let is_coprime = |step: &usize| {
        let (mut a, mut b) = (threads, *step);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let begin = ((threads as f64 / std::f64::consts::GOLDEN_RATIO) as usize).max(1);
    (1..=begin).rev().find(is_coprime).unwrap_or(1)
}

/// Who is at the other ends of the descriptors that an event loop waits for: a service, unless one of them serves clients.
fn other_ends(process: &OwnedFd, descriptors: impl Iterator<Item = u32>) -> WaitReason {
    let mut waits_for = WaitReason::Events;
    for descriptor in descriptors.take(SOCKETS_OF_A_LOOP) {
        match sockets::end(process, descriptor) {
            End::Clients => return WaitReason::Events,
            End::Connection(peer) if waits_for == WaitReason::Events => waits_for = WaitReason::Peer(peer),
            End::Connection(_) | End::Other => {}
        }
    }
    waits_for
}

impl Thread {
    /// Files read for a thread.
    const FILES: usize = 3;

    fn new(pid: u32, tid: u32, folder: &Path, last: Option<ThreadSample>) -> Self {
        let folder = folder.join(tid.to_string());
        Thread {
            pid,
            tid,
            status: KernelFile::at(folder.join("status")),
            schedstat: KernelFile::at(folder.join("schedstat")),
            syscall: KernelFile::at(folder.join("syscall")),
            folder,
            last,
            rates: None,
            moment: None,
            place: None,
        }
    }

    /// Updates the rates; none if the thread has ended.
    fn sample(&mut self, now: Nanos, buffer: &mut Buffer, keep_open: bool) -> Option<State> {
        let found = self.totals(buffer);
        if !keep_open {
            self.status.close();
            self.schedstat.close();
        }
        let Some((state, totals, slices)) = found else {
            self.rates = None;
            return None;
        };
        if let Some(last) = &self.last
            && last.at < now
        {
            let seconds = (now - last.at) as f64 / 1e9;
            self.rates = Some(std::array::from_fn(|index| match (last.totals[index], totals[index]) {
                (Some(before), Some(total)) if total >= before => (total - before) as f64 / seconds,
                _ => f64::NAN,
            }));
        }
        self.last = Some(ThreadSample { at: now, totals, slices });
        Some(state)
    }

    /// True for a thread that slept at the last look and was not given a CPU since: it sleeps in the same call, or has just
    /// become ready for the first time since. Its other files, which cost more to read, say nothing new.
    fn has_slept_since(&mut self, now: Nanos, buffer: &mut Buffer, keep_open: bool) -> bool {
        let (Some(moment), Some(last)) = (self.moment, &mut self.last) else { return false };
        // A kernel that keeps no such account counts none.
        if !moment.is_asleep() || !moment.is_known || last.slices.is_none_or(|slices| slices == 0) {
            return false;
        }
        let [.., slices] = self.schedstat.read_once(buffer).map(parse::schedstat).unwrap_or_default();
        if !keep_open {
            self.schedstat.close();
        }
        if slices != last.slices {
            return false;
        }
        last.at = now;
        self.rates = Some(last.totals.map(|total| total.map_or(f64::NAN, |_| 0.0)));
        true
    }

    /// What it does, in a state that was just read.
    fn moment(
        &mut self,
        state: State,
        ports: Option<&[u16]>,
        processes: &mut Vec<(u32, Option<OwnedFd>)>,
        buffer: &mut Buffer,
        keep_open: bool,
    ) -> Moment {
        let mut moment = Moment { state, is_known: true, wait: None };
        if !moment.is_asleep() {
            return moment;
        }
        let text = self.syscall.read_once(buffer);
        moment.is_known = text.is_some();
        // None when it woke up between the two looks.
        let call = text.and_then(system_call::call);
        if !keep_open {
            self.syscall.close();
        }
        moment.wait = call.map(|call| match call {
            Call::Futex(address) => WaitReason::Lock(address),
            Call::Timer => WaitReason::Timer,
            Call::Events => WaitReason::Events,
            Call::Epoll(_) | Call::Poll(..) => self.events(call, ports, processes, buffer),
            Call::Accept => WaitReason::Accept,
            Call::Transfer => WaitReason::Transfer,
            Call::WriteAt(descriptor) => self.written(descriptor, buffer),
            Call::Flush => WaitReason::Flush,
            Call::Other => WaitReason::Other,
            Call::Read(descriptor) => self.other_end(descriptor, state, ports, processes),
            Call::Write(descriptor) => match self.other_end(descriptor, state, ports, processes) {
                WaitReason::Transfer => self.written(descriptor, buffer),
                wait => wait,
            },
        });
        moment
    }

    /// What an event loop waits for. In a program that serves nobody, no client can send anything: what comes is the answer of
    /// a service it has connected to.
    fn events(
        &self,
        call: Call,
        ports: Option<&[u16]>,
        processes: &mut Vec<(u32, Option<OwnedFd>)>,
        buffer: &mut Buffer,
    ) -> WaitReason {
        if ports.is_none_or(|ports| !ports.is_empty()) {
            return WaitReason::Events;
        }
        let Some(process) = handle(processes, self.pid) else { return WaitReason::Events };
        match call {
            Call::Epoll(descriptor) => {
                let mut file = KernelFile::at(self.folder.join(format!("fdinfo/{descriptor}")));
                let text = file.read_once(buffer).unwrap_or_default();
                other_ends(process, system_call::watched(text))
            }
            Call::Poll(address, count) => {
                let mut array = [0; SOCKETS_OF_A_LOOP * system_call::POLLED_BYTES];
                let wanted = count.min(SOCKETS_OF_A_LOOP as u64) as usize * system_call::POLLED_BYTES;
                let memory = File::open(self.folder.join("mem"));
                let read = memory.and_then(|memory| memory.read_at(&mut array[..wanted], address));
                other_ends(process, system_call::polled(&array[..read.unwrap_or(0)]))
            }
            _ => WaitReason::Events,
        }
    }

    /// What a thread waits for that writes to a file: opened with `O_DSYNC` or `O_SYNC`, each write is a flush too.
    fn written(&self, descriptor: u32, buffer: &mut Buffer) -> WaitReason {
        let mut file = KernelFile::at(self.folder.join(format!("fdinfo/{descriptor}")));
        let is_synced = file.read_once(buffer).is_some_and(system_call::is_synced);
        if is_synced { WaitReason::Flush } else { WaitReason::Transfer }
    }

    /// What a thread waits for that reads from or writes to a descriptor.
    fn other_end(
        &self,
        descriptor: u32,
        state: State,
        ports: Option<&[u16]>,
        processes: &mut Vec<(u32, Option<OwnedFd>)>,
    ) -> WaitReason {
        let link = self.folder.join(format!("fd/{descriptor}"));
        let Ok(link) = rustix::fs::readlink(&link, Vec::new()) else { return WaitReason::Other };
        if sockets::inode(link.as_bytes()).is_none() {
            let is_file = state == State::DiskWait || link.as_bytes().starts_with(b"/");
            return if is_file { WaitReason::Transfer } else { WaitReason::Other };
        }
        match handle(processes, self.pid).and_then(|process| connection(process, descriptor)) {
            Some((port, _)) if ports.is_some_and(|ports| ports.contains(&port)) => WaitReason::Client,
            Some((_, peer)) => WaitReason::Peer(peer),
            None => WaitReason::Other,
        }
    }

    /// Whether it was sampled now.
    pub(super) fn is_seen(&self, now: Nanos) -> bool {
        self.moment.is_some() && self.last.as_ref().is_some_and(|look| look.at == now)
    }

    fn totals(&mut self, buffer: &mut Buffer) -> Option<(State, Totals, Option<u64>)> {
        // First what shows later whether it ran after this look began.
        let [ran, waited, slices] =
            self.schedstat.read_once(buffer).map(parse::schedstat).unwrap_or_default();
        let (state, voluntary, involuntary) = parse::status(self.status.read_once(buffer)?)?;
        Some((state, [ran, waited, Some(voluntary), Some(involuntary)], slices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_visit_every_thread_and_lie_evenly() {
        for threads in 1..=600 {
            let step = step(threads);
            let visited: std::collections::BTreeSet<usize> =
                (0..threads).map(|at| at * step % threads).collect();
            assert_eq!(visited.len(), threads, "of {threads}");
        }
        // Half of the workers of a pool are at work, neighbours in the list, wherever they are: of a few looks about half find
        // one at work. Looks at neighbours would find none or all.
        for threads in [64, 100, 128, 500] {
            let step = step(threads);
            for first_at_work in 0..threads {
                let at_work = |at: usize| (at + threads - first_at_work) % threads < threads / 2;
                let seen = (0..8).filter(|look| at_work(look * step % threads)).count();
                assert!(
                    (3..=5).contains(&seen),
                    "{seen} of 8 looks at {threads} threads from {first_at_work}"
                );
            }
        }
    }
}
