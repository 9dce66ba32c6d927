//! Control groups, version 1 and 2: use, limits, and how often the limits held something back.
//!
//! Each value comes from whichever hierarchy has it, so that a host with both (pressure in the one, controllers in
//! the other) is read whole. A group need not exist yet; its values are absent until it does.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::mounts;
use crate::pressure::Stall;
use crate::reader::{Buffer, KernelFile};
use crate::series::{Clock, Columns, Counters, Tick, metrics};

use hierarchy::{Files, Found, Hierarchies, Place};
pub(crate) use membership::Membership;

mod hierarchy;
mod io_limit;
mod membership;
#[cfg(test)]
mod tests;

metrics! {
    Busy => MetricInfo::new("cgroup.busy_cpus", Unit::Cpus, Rate, "Processors kept busy by the group."),
    User => MetricInfo::new("cgroup.user_cpus", Unit::Cpus, Rate, "Processors kept busy in programs of the group."),
    System => MetricInfo::new("cgroup.system_cpus", Unit::Cpus, Rate,
        "Processors kept busy in the kernel on the group's behalf."),
    Quota => MetricInfo::new("cgroup.quota_cpus", Unit::Cpus, Gauge,
        "Processors the group may keep busy at most; absent without a quota."),
    Periods => MetricInfo::new("cgroup.periods_per_s", Unit::PerSecond, Rate,
        "Periods of the quota in which the group wanted to run."),
    ThrottledShare => MetricInfo::new("cgroup.throttled_share", Unit::Share, Mean,
        "The share of those periods in which the quota was used up.")
        .weighed_by("cgroup.periods_per_s").full_at(1.0),
    ThrottledCpus => MetricInfo::new("cgroup.throttled_cpus", Unit::Cpus, Rate,
        "Processors on which the group was held back by its quota, on average: seconds throttled per second."),
    MemoryUsed => MetricInfo::new("cgroup.memory_used_bytes", Unit::Bytes, Gauge,
        "Memory charged to the group, its page cache included."),
    MemoryLimit => MetricInfo::new("cgroup.memory_limit_bytes", Unit::Bytes, Gauge,
        "Memory the group may be charged at most; absent without a limit."),
    MemoryLimitHits => MetricInfo::new("cgroup.memory_limit_hits_per_s", Unit::PerSecond, Rate,
        "Times the group met its memory limit and had to give up pages first."),
    OomKills => MetricInfo::new("cgroup.oom_kills_per_s", Unit::PerSecond, Rate,
        "Processes of the group killed because no memory was left."),
    Reads => MetricInfo::new("cgroup.reads_per_s", Unit::PerSecond, Rate,
        "Read operations handed to block devices, all devices together."),
    Writes => MetricInfo::new("cgroup.writes_per_s", Unit::PerSecond, Rate,
        "Write operations handed to block devices, all devices together."),
    ReadBytes => MetricInfo::new("cgroup.read_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read from block devices."),
    WriteBytes => MetricInfo::new("cgroup.write_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written to block devices."),
    CpuSome => MetricInfo::new("cgroup.cpu_some_share", Unit::Share, Mean,
        "The share of time in which at least one thread of the group was ready to run and had no processor.")
        .full_at(1.0),
    CpuFull => MetricInfo::new("cgroup.cpu_full_share", Unit::Share, Mean,
        "The share of time in which the group was ready to run and none of it ran, as under a quota.")
        .full_at(1.0),
    MemorySome => MetricInfo::new("cgroup.memory_some_share", Unit::Share, Mean,
        "The share of time in which at least one thread of the group waited for memory.").full_at(1.0),
    MemoryFull => MetricInfo::new("cgroup.memory_full_share", Unit::Share, Mean,
        "The share of time in which every thread of the group that had work waited for memory.").full_at(1.0),
    IoSome => MetricInfo::new("cgroup.io_some_share", Unit::Share, Mean,
        "The share of time in which at least one thread of the group waited for I/O.").full_at(1.0),
    IoFull => MetricInfo::new("cgroup.io_full_share", Unit::Share, Mean,
        "The share of time in which every thread of the group that had work waited for I/O.").full_at(1.0),
}

/// The source `cgroup`.
pub const KIND: SourceKind = SourceKind {
    name: "cgroup",
    about: "What a control group uses, what it may use, and how often its limits held it back.",
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
        // `NAME=PATH` calls the group NAME; a name has no slash, while a path may have `=`.
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
        self.exists = found != Found::default();
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
