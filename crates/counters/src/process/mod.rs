//! Processes by name or PID, with their descendants: resource usage and wait states of their threads.
//!
//! The run-queue wait of the service's own threads is the best sign of too few CPUs: unlike the
//! host's utilization, it shows which process needs them.

use std::net::SocketAddr;

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};
use rustix::process::{Resource, getrlimit};

use crate::cgroup::Membership;
use crate::reader::Buffer;
use crate::series::{Clock, Columns, Counters, Tick, metrics};

use group::Group;
pub use listening::listening_on;
use sockets::Listeners;
pub(crate) use table::numbered_entries;
use table::{MOST_SELECTIONS, MatchedProcess, Selector, Table};
use threads::{Summary, THREADS_A_SAMPLE, WAITS};
use tracked::Tracked;

mod group;
mod listening;
mod parse;
mod sockets;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod tracked;

/// The kernel gives the processor time of a process in hundredths of a second.
const TICK_S: f64 = 0.01;

metrics! {
    Busy => MetricInfo::new("process.busy_cpus", Unit::Cpus, Rate, "CPUs kept busy.")
        .known_as(r"Process\% Processor Time", "").quantum(TICK_S),
    User => MetricInfo::new("process.user_cpus", Unit::Cpus, Rate, "CPUs busy in user mode.")
        .known_as(r"Process\% User Time", "").quantum(TICK_S),
    System => MetricInfo::new("process.system_cpus", Unit::Cpus, Rate,
        "CPUs busy in the kernel on behalf of the process.")
        .known_as(r"Process\% Privileged Time", "").quantum(TICK_S),
    BusiestThread => MetricInfo::new("process.busiest_thread_cpus", Unit::Cpus, Rate,
        "CPU usage of the busiest thread, in CPUs: near 1 while others are idle, this single thread is the limit.")
        .saturated_at(1.0),
    QueueLength => MetricInfo::new("process.run_queue_length", Unit::Count, Mean,
        "Mean number of threads that are ready to run but wait for a CPU or are throttled by a quota: seconds waited per second."),
    Processes => MetricInfo::new("process.processes", Unit::Count, Gauge,
        "Processes in this instance, including descendants."),
    Threads => MetricInfo::new("process.threads", Unit::Count, Gauge, "Threads of all these processes.")
        .known_as(r"Process\Thread Count", ""),
    Running => MetricInfo::new("process.running_threads", Unit::Count, Gauge,
        "Threads running or ready to run at this moment."),
    Sleeping => MetricInfo::new("process.sleeping_threads", Unit::Count, Gauge,
        "Threads waiting for a lock, a connection, a timer or asynchronous I/O at this moment."),
    DiskWait => MetricInfo::new("process.disk_wait_threads", Unit::Count, Gauge,
        "Threads in uninterruptible sleep at this moment, usually waiting for a disk."),
    LockWait => MetricInfo::new("process.lock_wait_threads", Unit::Count, Gauge,
        "Threads asleep until another thread wakes them: waiting for a lock, or idle in a pool."),
    SameLockWait => MetricInfo::new("process.same_lock_wait_threads", Unit::Count, Gauge,
        "Of these, the threads that wait at the same address: the most contended lock or the largest idle pool."),
    TimerWait => MetricInfo::new("process.timer_wait_threads", Unit::Count, Gauge,
        "Threads waiting for a timer."),
    EventWait => MetricInfo::new("process.event_wait_threads", Unit::Count, Gauge,
        "Threads waiting for an event on several file descriptors: event loops of servers."),
    AcceptWait => MetricInfo::new("process.accept_wait_threads", Unit::Count, Gauge,
        "Threads waiting to accept a connection: idle threads of a pool."),
    ClientWait => MetricInfo::new("process.client_wait_threads", Unit::Count, Gauge,
        "Threads waiting for a client: for its request, or until it has read more of the response."),
    PeerWait => MetricInfo::new("process.peer_wait_threads", Unit::Count, Gauge,
        "Threads waiting for the response of a service that this process has connected to, by the address of the service and in total."),
    TransferWait => MetricInfo::new("process.transfer_wait_threads", Unit::Count, Gauge,
        "Threads waiting for a file read or write, or for asynchronous I/O."),
    FlushWait => MetricInfo::new("process.flush_wait_threads", Unit::Count, Gauge,
        "Threads waiting for a flush of written data to stable storage."),
    OtherWait => MetricInfo::new("process.other_wait_threads", Unit::Count, Gauge,
        "Threads asleep for any other reason."),
    ThreadCpus => MetricInfo::new("process.thread_cpus", Unit::Cpus, Rate,
        "CPU usage of one thread, in CPUs: near 1, this thread is the limit. Up to 8 threads that are not idle, by name."),
    ThreadReady => MetricInfo::new("process.thread_ready_share", Unit::Share, Mean,
        "Share of time in which one thread was ready to run but waited for a CPU or was throttled by a quota."),
    ThreadFlush => MetricInfo::new("process.thread_flush_wait_share", Unit::Share, Gauge,
        "Whether one thread waits for a flush to stable storage at this moment, 1 or 0: the mean is the share of time."),
    ThreadTransfer => MetricInfo::new("process.thread_transfer_wait_share", Unit::Share, Gauge,
        "Whether one thread waits for a file read or write or for asynchronous I/O at this moment, 1 or 0."),
    ThreadPeer => MetricInfo::new("process.thread_peer_wait_share", Unit::Share, Gauge,
        "Whether one thread waits for the response of a service that this process has connected to at this moment, 1 or 0."),
    ThreadLock => MetricInfo::new("process.thread_lock_wait_share", Unit::Share, Gauge,
        "Whether one thread sleeps until another thread wakes it, for a lock or for work, at this moment, 1 or 0."),
    ThreadTimer => MetricInfo::new("process.thread_timer_wait_share", Unit::Share, Gauge,
        "Whether one thread waits for a timer at this moment, 1 or 0."),
    ThreadIdle => MetricInfo::new("process.thread_idle_share", Unit::Share, Gauge,
        "Whether one thread waits for work at this moment: an event, a connection or a client's request, 1 or 0."),
    AcceptQueue => MetricInfo::new("process.accept_queue_connections", Unit::Count, Gauge,
        "Established connections that this process has not yet accepted: work that waits for a free thread."),
    AcceptQueueLimit => MetricInfo::new("process.accept_queue_limit", Unit::Count, Gauge,
        "Limit of the accept queue; further connections are refused."),
    Quota => MetricInfo::new("process.quota_cpus", Unit::Cpus, Gauge,
        "CPU quota of the process's cgroup, in CPUs; absent without a quota."),
    ThrottledShare => MetricInfo::new("process.throttled_share", Unit::Share, Mean,
        "Share of the quota periods in which the quota was used up and the process was throttled.").saturated_at(1.0),
    MemoryLimit => MetricInfo::new("process.memory_limit_bytes", Unit::Bytes, Gauge,
        "Memory limit of the process's cgroup, which includes its page cache; absent without a limit."),
    MemoryCharged => MetricInfo::new("process.memory_charged_bytes", Unit::Bytes, Gauge,
        "Memory charged against that limit, including the page cache; absent without a limit."),
    ReadLimit => MetricInfo::new("process.read_limit_per_s", Unit::PerSecond, Gauge,
        "Limit of reads per second of the process's cgroup and its parents: the lowest limit of any device; absent without a limit."),
    WriteLimit => MetricInfo::new("process.write_limit_per_s", Unit::PerSecond, Gauge,
        "Limit of writes per second of the process's cgroup and its parents: the lowest limit of any device; absent without a limit."),
    ReadBytesLimit => MetricInfo::new("process.read_limit_bytes_per_s", Unit::BytesPerSecond, Gauge,
        "Limit of bytes read per second of the process's cgroup and its parents: the lowest limit of any device; absent without a limit."),
    WriteBytesLimit => MetricInfo::new("process.write_limit_bytes_per_s", Unit::BytesPerSecond, Gauge,
        "Limit of bytes written per second of the process's cgroup and its parents: the lowest limit of any device; absent without a limit."),
    DiskReads => MetricInfo::new("process.disk_reads_per_s", Unit::PerSecond, Rate,
        "Reads that the process's cgroup sent to disks: these count against the limit; absent outside a cgroup or if the kernel does not count them."),
    DiskWrites => MetricInfo::new("process.disk_writes_per_s", Unit::PerSecond, Rate,
        "Writes that the process's cgroup sent to disks; absent outside a cgroup or if the kernel does not count them."),
    OtherState => MetricInfo::new("process.other_threads", Unit::Count, Gauge,
        "Threads stopped, traced or exiting at this moment."),
    Voluntary => MetricInfo::new("process.voluntary_switches_per_s", Unit::PerSecond, Rate,
        "Voluntary context switches: a thread gave up its CPU to wait.")
        .known_as(r"Thread\Context Switches/sec", ""),
    Involuntary => MetricInfo::new("process.involuntary_switches_per_s", Unit::PerSecond, Rate,
        "Involuntary context switches: the scheduler took the CPU from a thread that was still running."),
    Resident => MetricInfo::new("process.resident_bytes", Unit::Bytes, Gauge,
        "Resident memory; memory shared between processes counts for each of them.")
        .known_as(r"Process\Working Set", ""),
    MinorFaults => MetricInfo::new("process.minor_faults_per_s", Unit::PerSecond, Rate,
        "Minor page faults: no device was read."),
    MajorFaults => MetricInfo::new("process.major_faults_per_s", Unit::PerSecond, Rate,
        "Major page faults: the page was read from a device."),
    ReadBytes => MetricInfo::new("process.read_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read from storage; reads from the page cache are not counted."),
    WriteBytes => MetricInfo::new("process.write_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written to storage, or to the page cache to be written later."),
    ReadCalls => MetricInfo::new("process.read_calls_per_s", Unit::PerSecond, Rate,
        "System calls that read from files or pipes.")
        .known_as(r"Process\IO Read Operations/sec", ""),
    WriteCalls => MetricInfo::new("process.write_calls_per_s", Unit::PerSecond, Rate,
        "System calls that wrote to files or pipes.")
        .known_as(r"Process\IO Write Operations/sec", ""),
    ReadCallBytes => MetricInfo::new("process.read_call_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read by system calls, including the page cache.")
        .known_as(r"Process\IO Read Bytes/sec", ""),
    WriteCallBytes => MetricInfo::new("process.write_call_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written by system calls, including the page cache.")
        .known_as(r"Process\IO Write Bytes/sec", ""),
    OpenFiles => MetricInfo::new("process.open_descriptors", Unit::Count, Gauge,
        "Open file descriptors: files, sockets and pipes.")
        .known_as(r"Process\Handle Count", ""),
}

/// The source `process`.
pub const KIND: SourceKind = SourceKind {
    name: "process",
    about: "Resource usage and wait states of processes and their descendants; `self` is only Plimsoll's own process.",
    metrics: METRICS,
    selector: "process",
    open,
};

/// The metrics of the totals a [`Group`] adds up after user and system time, in its order.
const TOTALS: [Metric; 8] = [
    Metric::MinorFaults,
    Metric::MajorFaults,
    Metric::ReadCallBytes,
    Metric::WriteCallBytes,
    Metric::ReadCalls,
    Metric::WriteCalls,
    Metric::ReadBytes,
    Metric::WriteBytes,
];

/// The metrics of I/O limits, in the order of [`crate::cgroup::IoRates`].
const IO_LIMITS: [Metric; 4] =
    [Metric::ReadLimit, Metric::WriteLimit, Metric::ReadBytesLimit, Metric::WriteBytesLimit];

const STATES: [Metric; 4] = [Metric::Running, Metric::Sleeping, Metric::DiskWait, Metric::OtherState];

/// The metrics of what threads wait for, in the order of [`threads::WaitReason`].
const WAIT_METRICS: [Metric; WAITS] = [
    Metric::LockWait,
    Metric::TimerWait,
    Metric::EventWait,
    Metric::AcceptWait,
    Metric::ClientWait,
    Metric::PeerWait,
    Metric::TransferWait,
    Metric::FlushWait,
    Metric::OtherWait,
];

/// Addresses waited for that get a column of their own.
const MOST_PEERS: usize = 8;
/// Ports of a process that have columns of their own.
const MOST_PORTS: usize = 8;

fn open(root: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut names: Vec<&String> = Vec::new();
    for name in selected {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Err(Unavailable("name a process to watch, such as \"process:slapd\"".into()));
    }
    if names.len() > MOST_SELECTIONS {
        return Err(Unavailable(format!("at most {MOST_SELECTIONS} processes can be watched by name")));
    }
    let proc = root.join("proc");
    if std::fs::read_dir(&proc).is_err() {
        return Err(Unavailable("/proc cannot be read; is it mounted?".into()));
    }
    // The load generator keeps half of the allowed open files.
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |soft| soft as usize / 2);
    let (threads, descriptors) = ((THREADS_A_SAMPLE / names.len()).max(1), descriptors / names.len());
    let mut buffer = Buffer::new();
    let selections = names
        .iter()
        .map(|name| Selection {
            group: Group::new(&proc, threads, descriptors, root.is_live()),
            columns: Columns::new(named(name).0),
            peers: Vec::new(),
            ports: Vec::new(),
            tracked: Tracked::default(),
            limits: Membership::new(root, &mut buffer),
            periods: Counters::new(),
            disk: Counters::new(),
        })
        .collect();
    Ok(Box::new(Processes {
        root: root.clone(),
        listeners: Listeners::new(root.is_live()),
        clock: Clock::default(),
        buffer,
        table: Table::new(root, names.iter().map(|name| Selector::parse(named(name).1)).collect()),
        found: Vec::new(),
        selections,
        ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
        page_bytes: rustix::param::page_size() as f64,
    }))
}

/// `NAME=WHAT` watches WHAT as NAME, so that its name stays the same when its process id changes between trials.
fn named(selected: &str) -> (&str, &str) {
    selected.split_once('=').unwrap_or((selected, selected))
}

struct Processes {
    root: HostRoot,
    listeners: Listeners,
    clock: Clock,
    buffer: Buffer,
    table: Table,
    found: Vec<MatchedProcess>,
    selections: Vec<Selection>,
    ticks_per_s: f64,
    page_bytes: f64,
}

struct Selection {
    group: Group,
    columns: Columns<Metric>,
    /// Columns of what threads wait for, by address.
    peers: Vec<(SocketAddr, Columns<Metric>)>,
    /// Columns of what waits at each port.
    ports: Vec<(u16, Columns<Metric>)>,
    tracked: Tracked,
    limits: Membership,
    periods: Counters<2>,
    disk: Counters<2>,
}

impl Selection {
    fn set_waits(&mut self, out: &mut Readings, threads: &Summary) {
        for (metric, count) in WAIT_METRICS.into_iter().zip(threads.waits) {
            self.columns.set(out, metric, count);
        }
        self.columns.set(out, Metric::SameLockWait, threads.most_at_one_lock);
        for (peer, _) in &self.group.threads.waits.peers {
            if self.peers.len() < MOST_PEERS && self.peers.iter().all(|(known, _)| known != peer) {
                let columns = Columns::new(&format!("{} to {peer}", self.columns.instance()));
                self.peers.push((*peer, columns));
            }
        }
        for (peer, columns) in &mut self.peers {
            let found = self.group.threads.waits.peers.iter().find(|(known, _)| known == peer);
            let count = found.map_or(0.0, |(_, count)| f64::from(*count));
            columns.set(out, Metric::PeerWait, count * threads.weight);
        }
    }

    fn set_queues(&mut self, out: &mut Readings, listeners: &Listeners) {
        if let Some(served) = self.group.served(listeners) {
            self.columns.set(out, Metric::AcceptQueue, served.waiting as f64);
            self.columns.set(out, Metric::AcceptQueueLimit, served.waiting_limit as f64);
        }
        for (port, _) in self.group.ports(listeners) {
            if self.ports.len() < MOST_PORTS && self.ports.iter().all(|(known, _)| *known != port) {
                let columns = Columns::new(&format!("{} port {port}", self.columns.instance()));
                self.ports.push((port, columns));
            }
        }
        for (port, columns) in &mut self.ports {
            let at_port = self.group.ports(listeners).filter(|(known, _)| known == port);
            columns.set(out, Metric::AcceptQueue, at_port.map(|(_, waiting)| f64::from(waiting)).sum());
        }
    }

    fn set_limits(&mut self, out: &mut Readings, tick: &Tick, root: &HostRoot, buffer: &mut Buffer) {
        let found = self.group.first_pid().and_then(|pid| self.limits.limits(root, pid, tick.now, buffer));
        let (found, io_limits) = found.unwrap_or_default();
        let [periods, throttled, _] = found.throttling;
        let [periods, throttled] = self.periods.advance(tick, [periods, throttled]);
        if let Some(quota_cpus) = found.quota_cpus {
            self.columns.set(out, Metric::Quota, quota_cpus);
            // Without a period in which it was ready to run it was not throttled.
            let share = if periods == 0.0 { 0.0 } else { throttled / periods };
            self.columns.set(out, Metric::ThrottledShare, share);
        }
        let [_, _, reads, writes] = found.io;
        let [reads, writes] = self.disk.advance(tick, [reads, writes]);
        self.columns.set(out, Metric::DiskReads, reads / tick.seconds);
        self.columns.set(out, Metric::DiskWrites, writes / tick.seconds);
        for (metric, limit) in IO_LIMITS.into_iter().zip(io_limits) {
            self.columns.set_count(out, metric, limit);
        }
        if found.memory_limit.is_some() {
            self.columns.set_count(out, Metric::MemoryLimit, found.memory_limit);
            self.columns.set_count(out, Metric::MemoryCharged, found.memory_used);
        }
    }
}

impl Source for Processes {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        self.found.clear();
        self.table.update(now, &mut self.buffer, &mut self.found);
        for found in &self.found {
            if let Some(selection) = self.selections.get_mut(found.selection) {
                selection.group.take_in(found, tick.previous);
            }
        }
        // Plimsoll itself is not a service.
        if self.selections.iter().any(|selection| selection.columns.instance() != "self") {
            self.listeners.refresh(now);
        }
        for selection in &mut self.selections {
            let Selection { group, columns, .. } = selection;
            let Some(sum) = group.read(now, &mut self.buffer) else { continue };
            let [user, system, totals @ ..] = sum.increases.map(|increase| increase / tick.seconds);
            columns.set(out, Metric::Busy, (user + system) / self.ticks_per_s);
            columns.set(out, Metric::User, user / self.ticks_per_s);
            columns.set(out, Metric::System, system / self.ticks_per_s);
            for (metric, rate) in TOTALS.into_iter().zip(totals) {
                columns.set(out, metric, rate);
            }
            columns.set(out, Metric::Processes, sum.processes as f64);
            columns.set(out, Metric::Threads, sum.threads as f64);
            columns.set(out, Metric::Resident, sum.resident_pages as f64 * self.page_bytes);
            columns.set(out, Metric::OpenFiles, sum.open_files);

            if columns.instance() != "self" {
                group.find_ports(&self.listeners, now);
            }
            let threads = group.read_threads(sum.threads, now, &mut self.buffer);
            for (metric, count) in STATES.into_iter().zip(threads.states) {
                columns.set(out, metric, count);
            }
            columns.set(out, Metric::QueueLength, threads.waiting);
            columns.set(out, Metric::Voluntary, threads.switches[0]);
            columns.set(out, Metric::Involuntary, threads.switches[1]);
            columns.set(out, Metric::BusiestThread, threads.busiest);
            selection.set_waits(out, &threads);
            let Selection { group, columns, tracked, .. } = selection;
            if columns.instance() != "self" {
                tracked.set(out, columns.instance(), &mut group.threads, now, &mut self.buffer);
            }
            if self.listeners.are_fresh(now) {
                selection.set_queues(out, &self.listeners);
            }
            selection.set_limits(out, &tick, &self.root, &mut self.buffer);
        }
        Ok(())
    }

    fn limits(&self) -> String {
        let mut limits = Vec::new();
        for Selection { group, columns, .. } in &self.selections {
            let name = columns.instance();
            if group.is_empty() {
                limits.push(format!("no process `{name}` is running"));
            }
            if group.threads.are_sampled() {
                let (some, all) = group.threads.counts();
                limits.push(format!(
                    "{some} of the {all} threads of `{name}` are sampled each time, in turn: thread \
                    states are estimates, run-queue wait and context switches are averaged over {} \
                    samples",
                    all.div_ceil(some.max(1))
                ));
            }
            match group.unreadable_io() {
                0 => {}
                some => limits.push(format!(
                    "the I/O counters of `{name}` are absent: {some} of its processes belong to another \
                    user; run as that user or as root"
                )),
            }
        }
        limits.join("; ")
    }
}
