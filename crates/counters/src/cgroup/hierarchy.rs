//! The files of a group and their formats, in both versions.

use std::path::PathBuf;

use engine::source::HostRoot;

use crate::mounts::Mount;
use crate::reader::{Buffer, KernelFile, fields, lines, named_numbers, number};

/// Version 1 gives "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// The mounted hierarchies of a host.
pub(super) struct Hierarchies {
    root: HostRoot,
    mounts: Vec<Hierarchy>,
}

struct Hierarchy {
    folder: String,
    /// Empty for version 2.
    controllers: Vec<String>,
}

impl Hierarchies {
    /// Picks the hierarchies out of all mounts.
    pub(super) fn find(root: &HostRoot, mounts: &[Mount]) -> Self {
        let hierarchies = mounts.iter().filter_map(|mount| {
            let controllers = match mount.kind.as_str() {
                "cgroup2" => Vec::new(),
                "cgroup" => mount.options.split(',').map(String::from).collect(),
                _ => return None,
            };
            Some(Hierarchy { folder: mount.folder.clone(), controllers })
        });
        Hierarchies { root: root.clone(), mounts: hierarchies.collect() }
    }

    /// True when there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// A file of a group under version 1 (`controller`) or 2 (none), when that hierarchy is mounted.
    pub(super) fn file(&self, group: Place<'_>, controller: Option<&str>, name: &str) -> Option<KernelFile> {
        Some(KernelFile::at(self.path(group, controller, name)?))
    }

    fn path(&self, group: Place<'_>, controller: Option<&str>, name: &str) -> Option<PathBuf> {
        // An agent reads groups of a coordinator: none is outside the hierarchy.
        let group = group.under(controller).filter(|group| !group.split('/').any(|part| part == ".."))?;
        let hierarchy = self.mounts.iter().find(|hierarchy| match controller {
            None => hierarchy.controllers.is_empty(),
            Some(wanted) => hierarchy.controllers.iter().any(|controller| controller == wanted),
        })?;
        // The group may be given as a path in the file system.
        let group = self.mounts.iter().find_map(|mount| group.strip_prefix(&mount.folder)).unwrap_or(group);
        let folder = PathBuf::from(hierarchy.folder.trim_start_matches('/'));
        let path = folder.join(group.trim_start_matches('/')).join(name);
        Some(self.root.join(path))
    }

    /// Whether a group is the root of its hierarchy, which has no limits and counts the operations of all processes.
    /// In a container the visible root may be a group of the host, which has files that the real root lacks.
    fn is_root(&self, group: Place<'_>, controller: Option<&str>) -> bool {
        let exists = |name| self.path(group, controller, name).is_some_and(|path| path.exists());
        group.under(controller) == Some("/")
            && match controller {
                None => !exists("cgroup.type"),
                Some(_) => !exists("cgroup.procs") || exists("release_agent"),
            }
    }

    /// The files of a group that show how its limits on CPU time, memory or disk operations throttle it.
    pub(super) fn limit_files(&self, group: Place<'_>) -> Files {
        let file = |controller, name| match self.is_root(group, controller) {
            true => None,
            false => self.file(group, controller, name),
        };
        let v1 = |controller, name| file(Some(controller), name);
        let v2 = |name| file(None, name);
        Files {
            v2_cpu: v2("cpu.stat"),
            v2_quota: v2("cpu.max"),
            v2_memory: v2("memory.current"),
            v2_memory_limit: v2("memory.max"),
            v2_io: v2("io.stat"),
            v1_cpu: v1("cpu", "cpu.stat"),
            v1_quota: v1("cpu", "cpu.cfs_quota_us"),
            v1_period: v1("cpu", "cpu.cfs_period_us"),
            v1_memory: v1("memory", "memory.usage_in_bytes"),
            v1_memory_limit: v1("memory", "memory.limit_in_bytes"),
            // A limit of version 1 counts only the operations of the group itself, not of its child groups.
            v1_io_operations: v1("blkio", "blkio.throttle.io_serviced"),
            ..Files::default()
        }
    }

    /// The files that count the requests of a group and its child groups, version 2 first, each with its name.
    pub(super) fn io_files(&self, group: Place<'_>) -> [(&'static str, Files); 2] {
        let file = |controller, name| match self.is_root(group, controller) {
            true => None,
            false => self.file(group, controller, name),
        };
        let v1 = |name| file(Some("blkio"), name);
        let v2 = Files { v2_io: file(None, "io.stat"), ..Files::default() };
        let v1 = Files {
            v1_io_bytes: v1("blkio.throttle.io_service_bytes_recursive"),
            v1_io_operations: v1("blkio.throttle.io_serviced_recursive"),
            ..Files::default()
        };
        [("io.stat", v2), ("blkio.throttle", v1)]
    }

    /// The files of version 2 that hold the stalls of processor, memory and I/O; none without version 2.
    pub(super) fn pressure_files(&self, group: &str) -> Option<[KernelFile; 3]> {
        Some([
            self.file(Place::Everywhere(group), None, "cpu.pressure")?,
            self.file(Place::Everywhere(group), None, "memory.pressure")?,
            self.file(Place::Everywhere(group), None, "io.pressure")?,
        ])
    }

    /// All other files of a group.
    pub(super) fn files(&self, group: Place<'_>) -> Files {
        let v1 = |controller, name| self.file(group, Some(controller), name);
        let v2 = |name| self.file(group, None, name);
        Files {
            v2_cpu: v2("cpu.stat"),
            v2_quota: v2("cpu.max"),
            v2_memory: v2("memory.current"),
            v2_memory_limit: v2("memory.max"),
            v2_memory_events: v2("memory.events"),
            v2_io: v2("io.stat"),
            v1_usage: v1("cpuacct", "cpuacct.usage"),
            v1_usage_user: v1("cpuacct", "cpuacct.usage_user"),
            v1_usage_system: v1("cpuacct", "cpuacct.usage_sys"),
            v1_cpu: v1("cpu", "cpu.stat"),
            v1_quota: v1("cpu", "cpu.cfs_quota_us"),
            v1_period: v1("cpu", "cpu.cfs_period_us"),
            v1_memory: v1("memory", "memory.usage_in_bytes"),
            v1_memory_limit: v1("memory", "memory.limit_in_bytes"),
            v1_memory_hits: v1("memory", "memory.failcnt"),
            v1_oom: v1("memory", "memory.oom_control"),
            v1_io_bytes: v1("blkio", "blkio.throttle.io_service_bytes_recursive"),
            v1_io_operations: v1("blkio", "blkio.throttle.io_serviced_recursive"),
        }
    }
}

/// The location of a group in the hierarchies.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// At this path in each of them.
    Everywhere(&'a str),
    /// The location of a process, by its `/proc/PID/cgroup`.
    OfProcess(&'a str),
}

impl<'a> Place<'a> {
    /// The path under a controller of version 1, or in version 2 (none).
    pub(super) fn under(self, controller: Option<&str>) -> Option<&'a str> {
        let text = match self {
            Place::Everywhere(path) => return Some(path),
            Place::OfProcess(text) => text,
        };
        // `4:cpu,cpuacct:/a/b` in version 1, `0::/a/b` in version 2.
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let found = match controller {
                None => controllers.is_empty(),
                Some(wanted) => controllers.split(',').any(|controller| controller == wanted),
            };
            found.then_some(path)
        })
    }
}

/// The files of one group; nothing where the hierarchy is not mounted.
#[derive(Default)]
pub(super) struct Files {
    v2_cpu: Option<KernelFile>,
    v2_quota: Option<KernelFile>,
    v2_memory: Option<KernelFile>,
    v2_memory_limit: Option<KernelFile>,
    v2_memory_events: Option<KernelFile>,
    v2_io: Option<KernelFile>,
    v1_usage: Option<KernelFile>,
    v1_usage_user: Option<KernelFile>,
    v1_usage_system: Option<KernelFile>,
    v1_cpu: Option<KernelFile>,
    v1_quota: Option<KernelFile>,
    v1_period: Option<KernelFile>,
    v1_memory: Option<KernelFile>,
    v1_memory_limit: Option<KernelFile>,
    v1_memory_hits: Option<KernelFile>,
    v1_oom: Option<KernelFile>,
    v1_io_bytes: Option<KernelFile>,
    v1_io_operations: Option<KernelFile>,
}

/// The values of the files; none if no hierarchy has them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CgroupValues {
    /// Nanoseconds of CPU time: total, user, system.
    pub(super) cpu_ns: [Option<u64>; 3],
    /// The quota over its period.
    pub(crate) quota_cpus: Option<f64>,
    /// Periods, periods throttled, nanoseconds throttled.
    pub(crate) throttling: [Option<u64>; 3],
    pub(crate) memory_used: Option<u64>,
    pub(crate) memory_limit: Option<u64>,
    /// Times at the limit, kills.
    pub(super) memory_events: [Option<u64>; 2],
    /// Bytes read, bytes written, reads, writes.
    pub(crate) io: [Option<u64>; 4],
}

impl Files {
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> CgroupValues {
        let mut found = CgroupValues::default();
        self.read_v2(buffer, &mut found);
        self.read_v1(buffer, &mut found);
        found
    }

    fn read_v2(&mut self, buffer: &mut Buffer, found: &mut CgroupValues) {
        // A group without the cpu controller has the first three lines only.
        if let Some(text) = read(&mut self.v2_cpu, buffer) {
            for (name, value) in named_numbers(text) {
                match name {
                    b"usage_usec" => found.cpu_ns[0] = value.checked_mul(1000),
                    b"user_usec" => found.cpu_ns[1] = value.checked_mul(1000),
                    b"system_usec" => found.cpu_ns[2] = value.checked_mul(1000),
                    b"nr_periods" => found.throttling[0] = Some(value),
                    b"nr_throttled" => found.throttling[1] = Some(value),
                    b"throttled_usec" => found.throttling[2] = value.checked_mul(1000),
                    _ => {}
                }
            }
        }
        if let Some(text) = read(&mut self.v2_quota, buffer) {
            let mut fields = fields(text.trim_ascii_end()).map(number);
            found.quota_cpus = quota(fields.next().flatten(), fields.next().flatten());
        }
        found.memory_used = read_number(&mut self.v2_memory, buffer);
        found.memory_limit = read_number(&mut self.v2_memory_limit, buffer);
        if let Some(text) = read(&mut self.v2_memory_events, buffer) {
            for (name, value) in named_numbers(text) {
                match name {
                    b"max" => found.memory_events[0] = Some(value),
                    b"oom_kill" => found.memory_events[1] = Some(value),
                    _ => {}
                }
            }
        }
        if let Some(text) = read(&mut self.v2_io, buffer) {
            found.io = v2_io(text);
        }
    }

    fn read_v1(&mut self, buffer: &mut Buffer, found: &mut CgroupValues) {
        for (value, file) in found.cpu_ns.iter_mut().zip([
            &mut self.v1_usage,
            &mut self.v1_usage_user,
            &mut self.v1_usage_system,
        ]) {
            // Version 2 counts CPU time even if version 1 has the controller and the processes.
            *value = read_number(file, buffer).or(*value);
        }
        if found.throttling == [None; 3]
            && let Some(text) = read(&mut self.v1_cpu, buffer)
        {
            for (name, value) in named_numbers(text) {
                match name {
                    b"nr_periods" => found.throttling[0] = Some(value),
                    b"nr_throttled" => found.throttling[1] = Some(value),
                    b"throttled_time" => found.throttling[2] = Some(value),
                    _ => {}
                }
            }
        }
        if found.quota_cpus.is_none() {
            let micros = read_number(&mut self.v1_quota, buffer);
            found.quota_cpus = quota(micros, read_number(&mut self.v1_period, buffer));
        }
        if found.memory_used.is_none() {
            found.memory_used = read_number(&mut self.v1_memory, buffer);
            found.memory_limit =
                read_number(&mut self.v1_memory_limit, buffer).filter(|&limit| limit < NO_LIMIT);
        }
        if found.memory_events == [None; 2] {
            found.memory_events[0] = read_number(&mut self.v1_memory_hits, buffer);
            if let Some(text) = read(&mut self.v1_oom, buffer) {
                let kills = named_numbers(text).find(|(name, _)| *name == b"oom_kill");
                found.memory_events[1] = kills.map(|(_, value)| value);
            }
        }
        if found.io == [None; 4] {
            if let Some(text) = read(&mut self.v1_io_bytes, buffer) {
                [found.io[0], found.io[1]] = v1_io(text);
            }
            if let Some(text) = read(&mut self.v1_io_operations, buffer) {
                [found.io[2], found.io[3]] = v1_io(text);
            }
        }
    }
}

fn read<'b>(file: &mut Option<KernelFile>, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
    file.as_mut()?.read(buffer)
}

fn read_number(file: &mut Option<KernelFile>, buffer: &mut Buffer) -> Option<u64> {
    number(read(file, buffer)?.trim_ascii())
}

/// Microseconds of CPU time per period in microseconds; "max" and -1 mean no quota.
fn quota(quota_us: Option<u64>, period_us: Option<u64>) -> Option<f64> {
    match (quota_us?, period_us?) {
        (_, 0) => None,
        (quota, period) => Some(quota as f64 / period as f64),
    }
}

/// `254:0 rbytes=1 wbytes=2 rios=3 wios=4 ...`, one line for each device. A group that did no I/O has no line.
fn v2_io(text: &[u8]) -> [Option<u64>; 4] {
    let mut totals = [0_u64; 4];
    for field in lines(text).flat_map(fields) {
        let keys: [&[u8]; 4] = [b"rbytes=", b"wbytes=", b"rios=", b"wios="];
        for (total, key) in totals.iter_mut().zip(keys) {
            if let Some(value) = field.strip_prefix(key).and_then(number) {
                *total = total.saturating_add(value);
            }
        }
    }
    totals.map(Some)
}

/// `254:0 Read 1`, `254:0 Write 2`, ... for each device, then a total. Before the first limit on a device is set, Linux 6.10
/// and newer count nothing and list no device.
fn v1_io(text: &[u8]) -> [Option<u64>; 2] {
    let mut totals: [Option<u64>; 2] = [None; 2];
    for line in lines(text) {
        let mut fields = fields(line).skip(1);
        let index = match fields.next() {
            Some(b"Read") => 0,
            Some(b"Write") => 1,
            _ => continue,
        };
        if let Some(count) = fields.next().and_then(number) {
            totals[index] = Some(totals[index].unwrap_or(0).saturating_add(count));
        }
    }
    totals
}
