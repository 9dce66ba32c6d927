//! What a test needs from the machine. A test that cannot run ends only through [`lacks`]: it checks whether
//! the need is missing, and records the skip, so that the suite can report it. `.ci/skipped` prints what was recorded.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, OFlags, access};

use crate::{Scratch, samba};

/// Names the file to which each skip is added.
pub const SKIPPED: &str = "PLIMSOLL_SKIPPED";

/// A requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// Root permissions.
    Root,
    /// A program with this name. It can be installed, so CI does not accept that it is missing.
    Program(&'a str),
    /// A program of a package from a registry, which may be out of reach.
    Package(&'a str),
    /// Samba with all that a domain controller of Active Directory needs. Like a program, it can be installed.
    DomainController,
    /// To listen on the ports of LDAP on a loopback address: nobody else does, and this user may.
    LdapPorts,
    /// To mount a file system in memory.
    Mount,
    /// To make namespaces of the network and of mounts.
    NetworkNamespace,
    /// To make a loop device.
    LoopDevice,
    /// A file system with a block device below it.
    BlockDevice(&'a Path),
    /// A file system that reads and writes past the page cache.
    DirectIo(&'a Path),
    /// A controller of control groups, by its names in the two versions, in a hierarchy that may be changed.
    Cgroup(&'a str, &'a str),
    /// A controller in the hierarchy of cgroup v2, which may be changed.
    CgroupV2(&'a str),
    /// This number of CPUs.
    Cpus(usize),
    /// `io_uring`: neither the kernel nor a filter of system calls forbids it.
    IoUring,
    /// Linux of this version or newer.
    Linux(u32, u32),
    /// To choose the number of the next process.
    ProcessNumber,
    /// To load programs into the kernel and to attach them to functions and tracepoints.
    KernelTracing,
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Root => write!(f, "root"),
            Need::Program(name) => write!(f, "the program {name}"),
            Need::Package(name) => write!(f, "the program {name}, from a registry"),
            Need::DomainController => {
                write!(f, "the packages samba, samba-ad-provision and samba-dsdb-modules")
            }
            Need::LdapPorts => write!(f, "the ports 389, 636, 3268 and 3269 on loopback"),
            Need::Mount => write!(f, "the right to mount"),
            Need::NetworkNamespace => write!(f, "the right to make a network namespace"),
            Need::LoopDevice => write!(f, "loop devices"),
            Need::BlockDevice(_) => write!(f, "a file system on a block device"),
            Need::DirectIo(_) => write!(f, "a file system with direct I/O"),
            Need::Cgroup(v1, v2) if v1 == v2 => write!(f, "the cgroup controller {v1}, writable"),
            Need::Cgroup(v1, v2) => write!(f, "the cgroup controller {v1} (v1) or {v2} (v2), writable"),
            Need::CgroupV2(name) => write!(f, "cgroup v2 with the controller {name}, writable"),
            Need::Cpus(count) => write!(f, "{count} CPUs"),
            Need::IoUring => write!(f, "io_uring"),
            Need::Linux(major, minor) => write!(f, "Linux {major}.{minor} or newer"),
            Need::ProcessNumber => write!(f, "write access to {LAST_PROCESS}"),
            Need::KernelTracing => write!(f, "root with eBPF, tracefs and the process ids of the host"),
        }
    }
}

const LAST_PROCESS: &str = "/proc/sys/kernel/ns_last_pid";

impl Need<'_> {
    /// Whether this machine meets it.
    pub fn is_met(self) -> bool {
        match self {
            Need::Root => rustix::process::geteuid().is_root(),
            Need::Program(name) | Need::Package(name) => program(name).is_some(),
            Need::DomainController => samba::is_installed(),
            Need::LdapPorts => samba::has_ports(),
            Need::Mount => can_mount(),
            Need::NetworkNamespace => succeeds("unshare", &["--net", "--mount", "true"]),
            Need::LoopDevice => rustix::process::geteuid().is_root() && succeeds("losetup", &["--find"]),
            Need::BlockDevice(path) => {
                fs::metadata(path).is_ok_and(|data| rustix::fs::major(data.dev()) != 0)
            }
            Need::DirectIo(path) => has_direct_io(path),
            Need::Cgroup(v1, v2) => has_controller_v1(v1) || has_controller_v2(v2),
            Need::CgroupV2(name) => has_controller_v2(name),
            Need::Cpus(count) => std::thread::available_parallelism().is_ok_and(|have| have.get() >= count),
            Need::IoUring => may_use_io_uring(),
            Need::Linux(major, minor) => kernel_version().is_some_and(|version| version >= (major, minor)),
            // Its mode allows everyone to write, but the kernel only root.
            Need::ProcessNumber => {
                fs::read(LAST_PROCESS).and_then(|number| fs::write(LAST_PROCESS, number)).is_ok()
            }
            Need::KernelTracing => may_trace_the_kernel(),
        }
    }
}

/// Whether this machine lacks something without which the test cannot run. Then the test is recorded as skipped and has to
/// return.
#[must_use = "a test that is recorded as skipped returns"]
pub fn lacks(need: Need<'_>) -> bool {
    lacks_for(need, "whole")
}

/// Whether this machine lacks something that a part of the test needs. Then the test is recorded as skipped in part.
pub fn partly_lacks(need: Need<'_>) -> bool {
    lacks_for(need, "part")
}

#[expect(clippy::print_stdout, reason = "who runs one test by hand learns why it ended")]
fn lacks_for(need: Need<'_>, extent: &str) -> bool {
    if need.is_met() {
        return false;
    }
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let test = format!("{package} {}", thread.name().unwrap_or("a thread without a name"));
    println!("skipped: needs {need}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        record(Path::new(&path), &test, need, extent);
    }
    true
}

/// Adds one line to the file: the test, the need, who can help (`install` or `machine`), and how much of the test was skipped.
fn record(path: &Path, test: &str, need: Need<'_>, extent: &str) {
    let remedy =
        if matches!(need, Need::Program(_) | Need::DomainController) { "install" } else { "machine" };
    let line = format!("{test}\t{need}\t{remedy}\t{extent}\n");
    // One write: tests of several processes add to the same file.
    let added = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = added {
        panic!("{test} was skipped and {} cannot record it: {error}", path.display());
    }
}

/// Where a program is. Servers are where only the search path of root leads; Debian has those of PostgreSQL in a folder for
/// each version, of which the newest counts.
pub fn program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut postgresql: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        })
        .collect();
    postgresql.sort_unstable();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let newest_first = postgresql.into_iter().rev().map(|(_, folder)| folder);
    let others = ["/usr/sbin", "/sbin", "/usr/libexec"].map(PathBuf::from);
    let mut folders = newest_first.chain(std::env::split_paths(&search_path)).chain(others);
    folders.find_map(|folder| {
        let path = folder.join(name);
        (path.is_file() && access(&path, Access::EXEC_OK).is_ok()).then_some(path)
    })
}

fn succeeds(name: &str, arguments: &[&str]) -> bool {
    let Some(program) = program(name) else { return false };
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Mounts in a namespace of its own, which takes the mount along when it ends.
fn can_mount() -> bool {
    let folder = Scratch::new();
    let path = folder.path().display().to_string();
    rustix::process::geteuid().is_root()
        && succeeds("unshare", &["--mount", "mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", &path])
}

fn has_direct_io(folder: &Path) -> bool {
    let scratch = Scratch::inside(folder);
    let path = scratch.file("direct", [0; 4096]);
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).is_ok()
}

const CGROUPS: &str = "/sys/fs/cgroup";

fn has_controller_v1(name: &str) -> bool {
    let path = Path::new(CGROUPS).join(name);
    path.join("cgroup.procs").is_file() && access(&path, Access::WRITE_OK).is_ok()
}

/// A group of v2 that holds processes cannot hand controllers down, so a new one is made beside that of this process, unless
/// that is the root of the whole hierarchy, which alone lacks `cgroup.type`.
fn has_controller_v2(name: &str) -> bool {
    let tops = [PathBuf::from(CGROUPS), Path::new(CGROUPS).join("unified")];
    let Some(top) = tops.into_iter().find(|top| top.join("cgroup.controllers").is_file()) else {
        return false;
    };
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return false };
    let own = top.join(own);
    let is_root = own == top || own == top.join("");
    let place = match own.parent() {
        _ if is_root && !top.join("cgroup.type").exists() => top,
        Some(parent) if !is_root => parent.to_path_buf(),
        _ => return false,
    };
    let controllers = fs::read_to_string(place.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|listed| listed == name)
        && ["", "cgroup.procs", "cgroup.subtree_control"]
            .iter()
            .all(|file| access(place.join(file), Access::WRITE_OK).is_ok())
}

/// A container has process ids of its own, and mostly a filter of system calls.
fn may_trace_the_kernel() -> bool {
    const TRACEPOINT: &str = "/sys/kernel/tracing/events/block/block_rq_issue/format";
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    rustix::process::geteuid().is_root()
        && !is_filtered()
        && namespace.as_os_str() == "pid:[4026531836]"
        && fs::read(TRACEPOINT).is_ok()
        && Path::new("/sys/bus/event_source/devices/uprobe/type").exists()
}

fn is_filtered() -> bool {
    fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.trim_end() == "Seccomp:\t2"))
}

/// False too where a filter of system calls is in force, as in most containers: it may forbid what the kernel allows.
fn may_use_io_uring() -> bool {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    // The file is there since Linux 6.6.
    let is_disabled = disabled.is_ok_and(|text| text.trim() != "0");
    !is_filtered() && !is_disabled && Need::Linux(5, 11).is_met()
}

fn kernel_version() -> Option<(u32, u32)> {
    let system = rustix::system::uname();
    let release = system.release().to_str().ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_is_not_lacked_and_what_is_not_is() {
        assert!(!lacks(Need::Program("sh")));
        assert!(!partly_lacks(Need::Cpus(1)) && !lacks(Need::Linux(3, 10)));
        assert!(!Need::Program("no-such-program").is_met());
        assert!(!Need::Linux(999, 0).is_met() && !Need::Cpus(1 << 20).is_met());
        assert!(!Need::CgroupV2("no-such-controller").is_met());
        assert!(!Need::Cgroup("no-such-controller", "no-such-controller").is_met());
        // A file system in memory has no device.
        assert!(!Need::BlockDevice(Path::new("/proc")).is_met());
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(Need::Root.is_met(), is_root);
    }

    #[test]
    fn each_skip_is_a_line_of_the_file() {
        let folder = Scratch::new();
        let path = folder.join("skipped");
        record(&path, "plimsoll-a b::c", Need::Program("slapd"), "whole");
        record(&path, "plimsoll-a b::d", Need::CgroupV2("io"), "part");
        assert_eq!(
            folder.text("skipped"),
            "plimsoll-a b::c\tthe program slapd\tinstall\twhole\n\
             plimsoll-a b::d\tcgroup v2 with the controller io, writable\tmachine\tpart\n"
        );
    }
}
