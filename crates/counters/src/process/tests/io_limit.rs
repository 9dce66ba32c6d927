//! The I/O limits of a process's groups: of other hosts from fixtures, of this one with a real group.

use model::SECOND;

use crate::fixture::{Host, Probe};
use crate::process::KIND;

const LIMITS: [&str; 4] = [
    "process.read_limit_per_s",
    "process.write_limit_per_s",
    "process.read_limit_bytes_per_s",
    "process.write_limit_bytes_per_s",
];

fn limits(probe: &Probe, instance: &str) -> [Option<f64>; 4] {
    LIMITS.map(|metric| probe.get(metric, instance))
}

#[test]
fn version_1_limits_the_group_alone_and_the_lowest_device_counts() {
    let host = Host::copy_of("vm");
    let mut probe = host.open(&KIND, &["slapd"]);
    probe.read();
    assert_eq!(limits(&probe, "slapd"), [Some(200.0), None, None, Some(1_048_576.0)]);
    let group = "sys/fs/cgroup/blkio/shop/blkio.throttle";
    host.write(&format!("{group}.read_iops_device"), "");
    host.write(&format!("{group}.write_bps_device"), "254:0 0\n");
    probe.read();
    assert_eq!(probe.get(LIMITS[0], "slapd"), Some(200.0), "not read again at once");
    probe.read();
    assert_eq!(limits(&probe, "slapd"), [None; 4]);
    // Moved to the root, whose limit is its own.
    host.replace("proc/812/cgroup", "blkio:/shop", "blkio:/");
    probe.read();
    assert_eq!(limits(&probe, "slapd"), [Some(50.0), None, None, None]);
}

#[test]
fn version_2_limits_with_every_group_above() {
    let host = Host::copy_of("metal");
    let mut probe = host.open(&KIND, &["slapd"]);
    probe.read();
    assert_eq!(limits(&probe, "slapd"), [Some(100.0), Some(250.0), Some(4_194_304.0), None]);
    // A container sees its own group as the root.
    host.write("proc/812/cgroup", "0::/\n");
    host.write("sys/fs/cgroup/io.max", "259:0 rbps=max wbps=7000 riops=max wiops=max\n");
    host.write("sys/fs/cgroup/io.stat", "259:0 rbytes=1 wbytes=1 rios=10 wios=1\n");
    host.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    probe.read();
    probe.read();
    assert_eq!(limits(&probe, "slapd"), [None, None, None, Some(7000.0)]);
    let of_group = |probe: &Probe| {
        ["process.disk_reads_per_s", "process.quota_cpus"].map(|metric| probe.get(metric, "slapd"))
    };
    assert_eq!(of_group(&probe), [None; 2], "the root of the host is nobody's group");
    host.write("sys/fs/cgroup/cgroup.type", "domain\n");
    let mut probe = host.open(&KIND, &["slapd"]);
    probe.read();
    host.replace("sys/fs/cgroup/io.stat", "rios=10", "rios=40");
    probe.read();
    assert_eq!(of_group(&probe), [Some(30.0), Some(2.0)]);
}

#[test]
fn a_limit_that_is_cut_off_is_none() {
    let host = Host::copy_of("metal");
    for text in ["259:0 riops=40", "riops=40\n", "259:0\nriops=40\n", "259:0 riops=x4\n", "259:0 riops=-1\n"]
    {
        host.write("sys/fs/cgroup/system.slice/io.max", "");
        host.write("sys/fs/cgroup/system.slice/slapd.service/io.max", text);
        let mut probe = host.open(&KIND, &["slapd"]);
        probe.read();
        assert_eq!(limits(&probe, "slapd"), [None; 4], "{text:?}");
    }
}

#[test]
fn a_group_whose_operations_the_kernel_does_not_count_has_none() {
    let host = Host::copy_of("vm");
    host.write("sys/fs/cgroup/blkio/shop/blkio.throttle.io_serviced", "Total 0\n");
    let mut probe = host.open(&KIND, &["slapd"]);
    probe.read();
    probe.read();
    assert_eq!(probe.get("process.disk_reads_per_s", "slapd"), None);
}

/// A process in a real group of version 1, which reads past the page cache.
#[test]
fn a_limit_of_this_host_and_the_reads_below_it_are_seen() {
    let Some(group) = RealGroup::make() else { return };
    let mut reader = group.start_reader(25);
    let name = reader.id().to_string();
    let mut probe = Probe::live(&KIND, &[&name]);
    probe.read();
    reader.step();
    probe.read_after(2 * SECOND);
    assert_eq!(limits(&probe, &name), [Some(200.0), None, None, Some(4_000_000.0)]);
    let reads = probe.get("process.disk_reads_per_s", &name).unwrap() * 2.0;
    assert!((25.0..=30.0).contains(&reads), "{reads} reads, 25 of them with dd");
}

/// A group with limits on the disk that this program is on, and a file there. Removed when dropped.
struct RealGroup {
    folder: std::path::PathBuf,
    file: std::path::PathBuf,
}

/// A shell in the group.
struct Reader(std::process::Child);

#[expect(clippy::disallowed_methods, reason = "the test makes what the source reads")]
impl RealGroup {
    /// Nothing where that is not possible or not allowed; says so.
    fn make() -> Option<RealGroup> {
        use std::os::unix::fs::MetadataExt;

        if testkit::lacks(testkit::Need::Cgroup("blkio", "io")) {
            return None;
        }
        let v1 = std::path::Path::new("/sys/fs/cgroup/blkio").is_dir();
        let parent = if v1 { "/sys/fs/cgroup/blkio" } else { "/sys/fs/cgroup" };
        let id = std::process::id();
        let group = RealGroup {
            folder: format!("{parent}/plimsoll-test-{id}").into(),
            file: std::env::current_exe().unwrap().with_file_name(format!("plimsoll-test-{id}.data")),
        };
        std::fs::create_dir(&group.folder).unwrap();
        std::fs::write(&group.file, vec![7_u8; 256 << 10]).unwrap();
        std::fs::File::open(&group.file).unwrap().sync_all().unwrap();
        let device = std::fs::metadata(&group.file).unwrap().dev();
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        if !v1 {
            std::fs::write(group.folder.join("io.max"), format!("{device} riops=200 wbps=4000000\n"))
                .unwrap();
            return Some(group);
        }
        for (file, limit) in [("read_iops_device", 200), ("write_bps_device", 4_000_000)] {
            let path = group.folder.join(format!("blkio.throttle.{file}"));
            std::fs::write(path, format!("{device} {limit}\n")).unwrap();
        }
        Some(group)
    }

    /// Starts a shell that moves itself into the group and reads so many blocks when asked to.
    fn start_reader(&self, blocks: u32) -> Reader {
        let file = self.file.display();
        // The first call of `dd` loads the program.
        let script = format!(
            "echo $$ > {group}/cgroup.procs && dd if={file} of=/dev/null bs=4096 count=1 iflag=direct 2>&1 && echo && read x &&
             dd if={file} of=/dev/null bs=4096 count={blocks} iflag=direct 2>/dev/null && echo && read x",
            group = self.folder.display()
        );
        let mut shell = std::process::Command::new("sh");
        let shell = shell.arg("-c").arg(script);
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut reader = Reader(shell.spawn().unwrap());
        reader.wait();
        reader
    }
}

#[expect(clippy::disallowed_methods, reason = "the test removes what it made")]
impl Drop for RealGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

impl Reader {
    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Until the shell writes an empty line.
    fn wait(&mut self) {
        use std::io::Read;

        let output = self.0.stdout.as_mut().unwrap();
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(b"\n\n") && all != b"\n" {
            assert_eq!(
                output.read(&mut byte).unwrap(),
                1,
                "the shell ended: {}",
                String::from_utf8_lossy(&all)
            );
            all.push(byte[0]);
        }
    }

    fn step(&mut self) {
        use std::io::Write;

        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.wait();
    }
}

/// Before its group, which can be removed only when it is empty.
impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
