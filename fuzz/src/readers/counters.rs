//! The kernel's files: a host that is a copy of a fixture, and one file of it that is not what it should be. The first
//! byte says which file; what follows is its content, up to a zero byte for the first reading and behind it for the next.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use engine::source::HostRoot;
use model::{Readings, SECOND};

/// The files that are fuzzed and the source that reads each; `host` is the description of the host.
const FILES: [(&str, &str); 34] = [
    ("proc/stat", "cpu"),
    ("proc/loadavg", "cpu"),
    ("proc/meminfo", "memory"),
    ("proc/vmstat", "memory"),
    ("proc/diskstats", "disk"),
    ("proc/net/dev", "network"),
    ("proc/net/snmp", "network"),
    ("proc/net/netstat", "network"),
    ("proc/net/softnet_stat", "network"),
    ("proc/pressure/cpu", "pressure"),
    ("proc/pressure/io", "pressure"),
    ("proc/pressure/memory", "pressure"),
    ("proc/mounts", "cgroup"),
    ("proc/mounts", "filesystem"),
    ("proc/812/stat", "process"),
    ("proc/812/io", "process"),
    ("proc/812/cmdline", "process"),
    ("proc/812/cgroup", "process"),
    ("proc/812/task/815/status", "process"),
    ("proc/812/task/815/schedstat", "process"),
    ("proc/812/task/815/comm", "process"),
    ("proc/812/task/815/syscall", "process"),
    ("sys/fs/cgroup/cpu/shop/cpu.stat", "cgroup"),
    ("sys/fs/cgroup/unified/shop/cpu.pressure", "cgroup"),
    ("sys/fs/cgroup/memory/shop/memory.oom_control", "cgroup"),
    ("sys/fs/cgroup/blkio/shop/blkio.throttle.io_service_bytes_recursive", "cgroup"),
    ("sys/fs/cgroup/blkio/shop/blkio.throttle.read_iops_device", "process"),
    ("sys/fs/cgroup/unified/shop/io.max", "process"),
    ("proc/cpuinfo", "host"),
    ("proc/meminfo", "host"),
    ("etc/os-release", "host"),
    ("sys/block/vda/size", "host"),
    ("proc/diskstats", "volume"),
    ("sys/block/dm-0/dm/name", "volume"),
];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = super::folder("counters");
    copy(&super::top().join("crates/counters/fixtures/vm"), &folder);
    folder
});

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the scratch folder can be written");
    for entry in std::fs::read_dir(from).expect("the fixtures are there").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).expect("a fixture can be copied")),
        }
    }
}

/// Reads an input; panics on a fault of the reader.
pub fn run(bytes: &[u8]) {
    let Some((first, content)) = bytes.split_first() else { return };
    let (file, source) = FILES[usize::from(*first) % FILES.len()];
    // Later contents are those of later readings, after the whole file was read once.
    let contents: Vec<&[u8]> = content.splitn(3, |byte| *byte == 0).collect();
    let path = FOLDER.join(file);
    let whole = std::fs::read(&path).ok();
    let write = |content: &[u8]| {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("the scratch folder can be written");
        }
        std::fs::write(&path, content).expect("the scratch folder can be written");
    };
    write(contents[0]);
    read(source, file, &contents[1..], &write);
    match whole {
        Some(whole) => write(&whole),
        None => drop(std::fs::remove_file(&path)),
    }
}

fn read(source: &str, file: &str, contents: &[&[u8]], write: &dyn Fn(&[u8])) {
    let root = HostRoot::at(FOLDER.as_path());
    let Some(kind) = counters::SOURCES.iter().find(|kind| kind.name == source) else {
        counters::host(&root);
        return;
    };
    let selected: Vec<String> = match kind.selector {
        "process" => vec!["slapd".into(), "1".into()],
        "cgroup" => vec!["shop".into()],
        _ => Vec::new(),
    };
    let Ok(mut source) = (kind.open)(&root, &selected) else { return };
    let mut readings = Readings::new();
    let mut sample = |now| {
        readings.clear();
        let _ = source.read(now, &mut readings);
        for (column, value) in readings.columns().iter().zip(readings.values()) {
            assert!(value.is_nan() || *value >= 0.0, "{file}: {} is {value}", column.title());
        }
    };
    sample(0);
    for (at, content) in (1..).zip(contents) {
        write(content);
        sample(at * SECOND);
    }
}
