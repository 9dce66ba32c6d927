//! Constant facts of a run: the machine, its CPUs, memory and disks.

use std::collections::BTreeMap;
use std::fs;

use engine::source::HostRoot;
use model::Host;

/// The format word of `host.json`.
pub const HOST_FORMAT: &str = "plimsoll.host/1.0";

/// Queue settings of a block device that change what a disk measurement means.
const QUEUE_SETTINGS: [&str; 8] = [
    "rotational",
    "scheduler",
    "nr_requests",
    "write_cache",
    "fua",
    "logical_block_size",
    "io_poll",
    "max_sectors_kb",
];

/// Describes a host. Unreadable facts stay empty.
pub fn host(root: &HostRoot) -> Host {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map(|text| text.trim().to_string()).unwrap_or_default()
    };
    let cpuinfo = read("proc/cpuinfo");
    let cpu_field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
    };
    let os = read("etc/os-release");
    let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("").trim_matches('"');
    let memory_kib: u64 = read("proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    Host {
        format: HOST_FORMAT.into(),
        plimsoll: env!("CARGO_PKG_VERSION").into(),
        name: read("proc/sys/kernel/hostname"),
        os: os.to_string(),
        kernel: read("proc/sys/kernel/osrelease"),
        cpu_model: cpu_field("model name").to_string(),
        cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory_bytes: memory_kib.saturating_mul(1024),
        hypervisor: hypervisor(&cpuinfo, &read("sys/class/dmi/id/sys_vendor"), &read("sys/hypervisor/type")),
        disks: disks(root),
    }
}

fn hypervisor(cpuinfo: &str, vendor: &str, kind: &str) -> String {
    if !kind.is_empty() {
        return kind.to_string();
    }
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or("");
    match flags.split_whitespace().any(|flag| flag == "hypervisor") {
        true if vendor.is_empty() => "virtual machine".into(),
        true => format!("virtual machine ({vendor})"),
        false => String::new(),
    }
}

fn disks(root: &HostRoot) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut disks = BTreeMap::new();
    let Ok(entries) = fs::read_dir(root.join("sys/block")) else { return disks };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let read =
            |file: &str| fs::read_to_string(entry.path().join(file)).map(|text| text.trim().to_string()).ok();
        let sectors: u64 = read("size").and_then(|text| text.parse().ok()).unwrap_or(0);
        if sectors == 0 {
            continue;
        }
        let mut facts: BTreeMap<String, String> = QUEUE_SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.to_string(), read(&format!("queue/{setting}"))?)))
            .collect();
        facts.insert("size_bytes".into(), sectors.saturating_mul(512).to_string());
        if let Some(model) = read("device/model") {
            facts.insert("model".into(), model);
        }
        disks.insert(name, facts);
    }
    disks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Host as Fixture;

    #[test]
    fn sizes_no_machine_has_do_not_overflow() {
        let fixture = Fixture::copy_of("vm");
        fixture.write("proc/meminfo", format!("MemTotal: {} kB\n", u64::MAX));
        fixture.write("sys/block/vda/size", format!("{}\n", u64::MAX));
        let host = host(&fixture.root());
        assert_eq!(host.memory_bytes, u64::MAX);
        assert_eq!(host.disks["vda"]["size_bytes"], u64::MAX.to_string());
    }

    #[test]
    fn this_machine_is_described() {
        let host = host(&HostRoot::live());
        assert!(host.cpus > 0 && host.memory_bytes > 1 << 20 && !host.kernel.is_empty(), "{host:?}");
    }

    #[test]
    fn an_empty_tree_is_an_unknown_host() {
        let host = host(&HostRoot::at("/nonexistent"));
        assert_eq!((host.cpus, host.memory_bytes), (0, 0));
    }

    #[test]
    fn a_guest_is_recognized_by_its_flag() {
        assert_eq!(hypervisor("flags\t\t: fpu hypervisor", "QEMU", ""), "virtual machine (QEMU)");
        assert_eq!(hypervisor("flags\t\t: fpu", "Dell", ""), "");
    }
}
