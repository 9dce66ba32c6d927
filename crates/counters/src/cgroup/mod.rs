//! Control groups, version 1 and 2: resource usage, limits, and throttling.
//!
//! Each value comes from whichever hierarchy has it, so that a host with both (pressure in the one, controllers in
//! the other) is read completely. A group need not exist yet; its values are absent until then.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::mounts;
use crate::pressure::Stall;
use crate::reader::{Buffer, KernelFile};
use crate::series::{Clock, Columns, Counters, Tick, metrics};

pub(crate) use group_io::GroupIo;
use hierarchy::{CgroupValues, Files, Hierarchies, Place};
pub(crate) use membership::Membership;

mod group_io;
mod hierarchy;
mod io_limit;
mod membership;
#[cfg(test)]
mod tests;

metrics! {
    Busy => MetricInfo::new("cgroup.busy_cpus", Unit::Cpus, Rate, "CPUs kept busy by the group."),
    User => MetricInfo::new("cgroup.user_cpus", Unit::Cpus, Rate, "CPUs busy in user mode of the group's processes."),
    System => MetricInfo::new("cgroup.system_cpus", Unit::Cpus, Rate,
        "CPUs busy in the kernel on behalf of the group."),
    Quota => MetricInfo::new("cgroup.quota_cpus", Unit::Cpus, Gauge,
        "CPU quota of the group, in CPUs; absent without a quota."),
    Periods => MetricInfo::new("cgroup.periods_per_s", Unit::PerSecond, Rate,
        "Quota periods in which the group was ready to run."),
    ThrottledShare => MetricInfo::new("cgroup.throttled_share", Unit::Share, Mean,
        "Share of the quota periods in which the quota was used up and the group was throttled.")
        .weighed_by("cgroup.periods_per_s").saturated_at(1.0),
    ThrottledCpus => MetricInfo::new("cgroup.throttled_cpus", Unit::Cpus, Rate,
        "Mean number of CPUs on which the quota throttled the group: seconds throttled per second."),
    MemoryUsed => MetricInfo::new("cgroup.memory_used_bytes", Unit::Bytes, Gauge,
        "Memory charged to the group, including its page cache."),
    MemoryLimit => MetricInfo::new("cgroup.memory_limit_bytes", Unit::Bytes, Gauge,
        "Memory limit of the group; absent without a limit."),
    MemoryLimitHits => MetricInfo::new("cgroup.memory_limit_hits_per_s", Unit::PerSecond, Rate,
        "Times the group reached its memory limit, so that pages had to be reclaimed."),
    OomKills => MetricInfo::new("cgroup.oom_kills_per_s", Unit::PerSecond, Rate,
        "Processes of the group killed because memory was exhausted."),
    Reads => MetricInfo::new("cgroup.reads_per_s", Unit::PerSecond, Rate,
        "Read operations sent to block devices, the sum over all devices."),
    Writes => MetricInfo::new("cgroup.writes_per_s", Unit::PerSecond, Rate,
        "Write operations sent to block devices, the sum over all devices."),
    ReadBytes => MetricInfo::new("cgroup.read_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read from block devices."),
    WriteBytes => MetricInfo::new("cgroup.write_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written to block devices."),
    CpuSome => MetricInfo::new("cgroup.cpu_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread of the group was ready to run but waited for a CPU.")
        .saturated_at(1.0),
    CpuFull => MetricInfo::new("cgroup.cpu_full_share", Unit::Share, Mean,
        "Share of time in which the group was ready to run but none of its threads ran, as under a quota.")
        .saturated_at(1.0),
    MemorySome => MetricInfo::new("cgroup.memory_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread of the group waited for memory.").saturated_at(1.0),
    MemoryFull => MetricInfo::new("cgroup.memory_full_share", Unit::Share, Mean,
        "Share of time in which all threads of the group that were not idle waited for memory.").saturated_at(1.0),
    IoSome => MetricInfo::new("cgroup.io_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread of the group waited for I/O.").saturated_at(1.0),
    IoFull => MetricInfo::new("cgroup.io_full_share", Unit::Share, Mean,
        "Share of time in which all threads of the group that were not idle waited for I/O.").saturated_at(1.0),
}

/// The source `cgroup`.
pub const KIND: SourceKind = SourceKind {
    name: "cgroup",
    about: "Resource usage of a control group, its limits, and how often they throttled it.",
    metrics: METRICS,
    selector: "cgroup",
    open,
};

fn open(root: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut buffer = Buffer::new();
    let text = KernelFile::new(root, "proc/mounts")
        .read(&mut buffer)
        .ok_or_else(|| Unavailable("/proc/mounts cannot be read; is /proc mounted?".into()))?;
    let hierarchies = Hierarchies::find(root, &mounts::parse(text));
    if hierarchies.is_empty() {
        return Err(Unavailable("no cgroup hierarchy is mounted; mount one on /sys/fs/cgroup".into()));
    }
    let mut groups: Vec<Group> = Vec::new();
    for selected in selected {
        // `NAME=PATH` names the group NAME; a name has no slash, but a path may contain `=`.
        let (name, path) = match selected.split_once('=') {
            Some((name, path)) if !name.contains('/') => (name, path),
            _ => (selected.as_str(), selected.as_str()),
        };
        if !groups.iter().any(|group| group.columns.instance() == name) {
            groups.push(Group::new(name, path, &hierarchies));
        }
    }
    match groups.is_empty() {
        true => {
            Err(Unavailable("name a group to watch, such as \"cgroup:/system.slice/slapd.service\"".into()))
        }
        false => Ok(Box::new(Groups { clock: Clock::default(), buffer, groups })),
    }
}

struct Groups {
    clock: Clock,
    buffer: Buffer,
    groups: Vec<Group>,
}

struct Group {
    columns: Columns<Metric>,
    files: Files,
    use_of_cpus: Counters<3>,
    throttling: Counters<3>,
    events: Counters<2>,
    io: Counters<4>,
    stalls: Vec<Stall<Metric>>,
    exists: bool,
}

impl Source for Groups {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        for group in &mut self.groups {
            group.read(&tick, &mut self.buffer, out);
        }
        Ok(())
    }

    fn limits(&self) -> String {
        let missing = self.groups.iter().filter(|group| !group.exists);
        missing
            .map(|group| format!("there is no cgroup `{}`", group.columns.instance()))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Group {
    fn new(name: &str, path: &str, hierarchies: &Hierarchies) -> Self {
        let stalls = hierarchies
            .pressure_files(path)
            .into_iter()
            .flatten()
            .zip([
                (Metric::CpuSome, Metric::CpuFull),
                (Metric::MemorySome, Metric::MemoryFull),
                (Metric::IoSome, Metric::IoFull),
            ])
            .map(|(file, (some, full))| Stall::new(file, some, full))
            .collect();
        Group {
            columns: Columns::new(name),
            files: hierarchies.files(Place::Everywhere(path)),
            use_of_cpus: Counters::new(),
            throttling: Counters::new(),
            events: Counters::new(),
            io: Counters::new(),
            stalls,
            exists: false,
        }
    }

    fn read(&mut self, tick: &Tick, buffer: &mut Buffer, out: &mut Readings) {
        let found = self.files.read(buffer);
        self.exists = found != CgroupValues::default();
        let columns = &mut self.columns;

        let used = self.use_of_cpus.advance(tick, found.cpu_ns);
        for (metric, ns) in [Metric::Busy, Metric::User, Metric::System].into_iter().zip(used) {
            columns.set(out, metric, ns / 1e9 / tick.seconds);
        }
        columns.set(out, Metric::Quota, found.quota_cpus.unwrap_or(f64::NAN));
        let [periods, throttled, throttled_ns] = self.throttling.advance(tick, found.throttling);
        columns.set(out, Metric::Periods, periods / tick.seconds);
        columns.set(out, Metric::ThrottledShare, throttled / periods);
        columns.set(out, Metric::ThrottledCpus, throttled_ns / 1e9 / tick.seconds);

        columns.set_count(out, Metric::MemoryUsed, found.memory_used);
        columns.set_count(out, Metric::MemoryLimit, found.memory_limit);
        let [hits, kills] = self.events.advance(tick, found.memory_events);
        columns.set(out, Metric::MemoryLimitHits, hits / tick.seconds);
        columns.set(out, Metric::OomKills, kills / tick.seconds);

        let io = self.io.advance(tick, found.io);
        for (metric, increase) in
            [Metric::ReadBytes, Metric::WriteBytes, Metric::Reads, Metric::Writes].into_iter().zip(io)
        {
            columns.set(out, metric, increase / tick.seconds);
        }
        for stall in &mut self.stalls {
            stall.read(tick, buffer, columns, out);
        }
    }
}
