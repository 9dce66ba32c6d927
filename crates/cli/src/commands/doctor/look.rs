//! Collects the facts for `doctor`. It writes nothing except one block in an unnamed file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use engine::clock::{Checkpoint, Clock};
use engine::factor::FactorTarget;
use engine::mounts::mounts;
use engine::sampler::Sampler;
use engine::source::HostRoot;
use model::setting::SettingKind;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::facts::{Facts, Noise, Place, Tracing};
use crate::registry::REGISTRY;

/// What the sources and the clock reported while the noise was measured.
pub(super) struct Observed {
    pub(super) sampler: Sampler,
    pub(super) noise: Option<Noise>,
    pub(super) checkpoint: Checkpoint,
}

/// Everything about this machine and about `on`.
pub(super) fn inspect(on: &Path, observed: Observed) -> Facts {
    let root = HostRoot::live();
    Facts {
        host: counters::host(&root),
        governors: governors(),
        kernel_clock: text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        clock: Clock::get().info(observed.checkpoint),
        io_uring: workloads::disk::probe_io_uring()
            .map(|flags| flags.iter().map(ToString::to_string).collect())
            .map_err(|error| error.to_string()),
        io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
        locked_bytes_max: getrlimit(Resource::Memlock).current,
        files_max: getrlimit(Resource::Nofile).current,
        place: place(on),
        record_free_bytes: record_free_bytes(),
        cgroups: cgroups(),
        factors: factors(&root, on),
        drop_caches: may_write("/proc/sys/vm/drop_caches"),
        tracing: tracing(),
        sources: observed.sampler.status(),
        source_limits: observed.sampler.limits(),
        pressure: fs::read("/proc/pressure/cpu").is_ok(),
        schedstat: fs::read("/proc/self/schedstat").is_ok(),
        host_schedstat: fs::File::open("/proc/schedstat").is_ok(),
        debug_build: cfg!(debug_assertions),
        noise: observed.noise,
    }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn number<T: std::str::FromStr>(path: &str) -> Option<T> {
    text(path)?.parse().ok()
}

fn may_write(path: &str) -> Result<(), String> {
    access(path, Access::WRITE_OK).map_err(|error| std::io::Error::from(error).to_string())
}

fn governors() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu") else { return Vec::new() };
    let found: BTreeSet<String> = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|governor| governor.trim().to_string())
        .collect();
    found.into_iter().collect()
}

fn place(on: &Path) -> Place {
    let unknown = Place {
        path: on.to_path_buf(),
        exists: on.exists(),
        unreadable: None,
        file_system: None,
        disks: Vec::new(),
        direct_alignment: None,
        direct: Ok(()),
        free_bytes: None,
    };
    let storage = match workloads::disk::probe_storage(on) {
        Ok(storage) => storage,
        Err(error) => return Place { unreadable: Some(error.to_string()), ..unknown },
    };
    let space = statvfs(on).or_else(|_| match on.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => statvfs(folder),
        _ => statvfs("."),
    });
    // For a block device, statvfs reports the space of the file system that contains its device node.
    let space = space.ok().filter(|_| storage.file_system.is_some());
    Place {
        file_system: storage.file_system,
        disks: storage.disks,
        direct_alignment: storage.direct_alignment,
        direct: storage.direct,
        free_bytes: space.map(|space| space.f_bavail * space.f_frsize),
        ..unknown
    }
}

fn record_free_bytes() -> Result<u64, String> {
    let folder = if Path::new("runs").is_dir() { "runs" } else { "." };
    may_write(folder)?;
    let space = statvfs(folder).map_err(|error| std::io::Error::from(error).to_string())?;
    Ok(space.f_bavail * space.f_frsize)
}

fn cgroups() -> String {
    let mounts = mounts(&HostRoot::live()).unwrap_or_default();
    let has = |kind: &str| mounts.iter().any(|mount| mount.file_system == kind);
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => "cgroup v1 and v2".into(),
        (true, false) => "cgroup v1".into(),
        (false, true) => "cgroup v2".into(),
        (false, false) => String::new(),
    }
}

/// Checks for each factor whether it can set a moderate level for this process and for the storage of `on`.
fn factors(root: &HostRoot, on: &Path) -> Vec<(String, Result<(), String>)> {
    let target = FactorTarget {
        files: vec![on.to_path_buf()],
        ..FactorTarget::of(root.clone(), vec![std::process::id()])
    };
    REGISTRY
        .factors
        .iter()
        // Whether those that must be reported what to act on work depends on what they are reported.
        .filter(|kind| {
            let parameters = kind.info.parameters.iter();
            !kind.info.needs_on && !parameters.into_iter().any(|parameter| parameter.needed)
        })
        .filter_map(|kind| {
            let sample = match kind.info.kind {
                SettingKind::Count { min, .. } => min.max(1).to_string(),
                SettingKind::IoLimit | SettingKind::Rate => "1000/s".into(),
                SettingKind::Bytes | SettingKind::MemoryLimit => "1GiB".into(),
                SettingKind::CpuLimit => "0.5".into(),
                SettingKind::Choice([first, ..]) => first.to_string(),
                SettingKind::Time => "1ms".into(),
                SettingKind::Percent => "50%".into(),
                _ => return None,
            };
            let level = kind.info.kind.parse(&sample).ok()?;
            let answer = (kind.open)(&target).and_then(|factor| factor.check(&level));
            Some((kind.info.path.to_string(), answer.map_err(|why| why.0)))
        })
        .collect()
}

fn tracing() -> Tracing {
    let folders = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let open = folders.iter().map(fs::read_dir).find(Result::is_ok);
    let tracefs = match open {
        Some(_) => Ok(()),
        None => Err(match fs::read_dir("/sys/kernel/tracing") {
            Ok(_) => "tracefs is not mounted at /sys/kernel/tracing".into(),
            Err(error) => format!("/sys/kernel/tracing: {error}"),
        }),
    };
    Tracing {
        tracefs,
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
        privileged: text("/proc/self/status").is_some_and(|status| may_trace(&status)),
    }
}

/// CAP_SYS_ADMIN, or CAP_BPF with CAP_PERFMON: the capabilities to load a tracing program.
fn may_trace(status: &str) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    effective & SYS_ADMIN != 0 || effective & PERFMON_AND_BPF == PERFMON_AND_BPF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracing_needs_one_great_right_or_two_small_ones() {
        for (mask, expected) in [
            ("000001ffffffffff", true),
            ("0000000000200000", true),
            ("000000c000000000", true),
            ("0000008000000000", false),
            ("0000000000000000", false),
            ("not a number", false),
        ] {
            assert_eq!(may_trace(&format!("Name:\tplimsoll\nCapEff:\t{mask}\n")), expected, "{mask}");
        }
        assert!(!may_trace(""));
    }
}
