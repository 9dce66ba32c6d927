//! Facts about this machine, as plain data: the input of `doctor`.

use std::path::PathBuf;

use model::run::ClockInfo;
use model::{Host, SourceStatus};

/// All facts. An unknown fact is `None` or an error text; it is never zero.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Kernel, processors, memory, hypervisor, disks.
    pub(crate) host: Host,
    /// Frequency governors in use; empty when the kernel shows none.
    pub(crate) governors: Vec<String>,
    /// The kernel's clock source, such as `tsc`.
    pub(crate) kernel_clock: String,
    /// The clock that measures operations.
    pub(crate) clock: ClockInfo,
    /// Setup flags that io_uring accepts, or why it is not available.
    pub(crate) io_uring: Result<Vec<String>, String>,
    /// `kernel.io_uring_disabled`: 0 everyone, 1 a group, 2 nobody; none where the kernel has no such switch.
    pub(crate) io_uring_disabled: Option<u32>,
    /// Limit of locked memory in bytes; none is unlimited.
    pub(crate) locked_bytes_max: Option<u64>,
    /// Limit of open files; none is unlimited.
    pub(crate) files_max: Option<u64>,
    /// The location for a load.
    pub(crate) place: Place,
    /// Free bytes where runs are recorded, or why that folder cannot be written.
    pub(crate) record_free_bytes: Result<u64, String>,
    /// `cgroup v2`, `cgroup v1`, both, or empty.
    pub(crate) cgroups: String,
    /// The factors: path, and why it cannot be varied.
    pub(crate) factors: Vec<(String, Result<(), String>)>,
    /// May the page cache be dropped?
    pub(crate) drop_caches: Result<(), String>,
    /// What kernel tracing needs.
    pub(crate) tracing: Tracing,
    /// Every source, opened and read once.
    pub(crate) sources: Vec<SourceStatus>,
    /// Limitations of the sources.
    pub(crate) source_limits: Vec<String>,
    /// Pressure stall information is kept.
    pub(crate) pressure: bool,
    /// Time waited for a processor is kept for each thread.
    pub(crate) schedstat: bool,
    /// The same is kept for the host as a whole (`/proc/schedstat`).
    pub(crate) host_schedstat: bool,
    /// This program was built without optimization.
    pub(crate) debug_build: bool,
    /// How noisy it is; none when it could not be measured.
    pub(crate) noise: Option<Noise>,
}

/// A folder, file or device and its storage.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// As the user named it.
    pub(crate) path: PathBuf,
    /// Whether it exists; for a file that does not exist, its folder is checked.
    pub(crate) exists: bool,
    /// Why it cannot be checked, if so.
    pub(crate) unreadable: Option<String>,
    /// Such as `ext4`; none for a block device.
    pub(crate) file_system: Option<String>,
    /// Whole disks below it.
    pub(crate) disks: Vec<String>,
    /// What direct I/O must be aligned to, in bytes; none where the kernel does not say.
    pub(crate) direct_alignment: Option<u32>,
    /// Whether a block was read with direct I/O.
    pub(crate) direct: Result<(), String>,
    /// Free space; none for a block device.
    pub(crate) free_bytes: Option<u64>,
}

/// The rights of kernel tracing.
#[derive(Clone, Debug)]
pub(crate) struct Tracing {
    /// The folder of trace events can be read; else why not.
    pub(crate) tracefs: Result<(), String>,
    /// The kernel describes its own types (`/sys/kernel/btf/vmlinux`).
    pub(crate) btf: bool,
    /// `kernel.perf_event_paranoid`; none when the kernel has no such switch.
    pub(crate) perf_event_paranoid: Option<i32>,
    /// This process has the right to load programs into the kernel and to trace it.
    pub(crate) privileged: bool,
}

/// The speed variation of a program with constant work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Noise {
    /// How long it was measured.
    pub(crate) seconds: f64,
    /// The measuring loop's own cost of one operation that does nothing, in processor time.
    pub(crate) loop_ns: f64,
    /// Throughput lost in the median window against the fastest ones, 0 to 1.
    pub(crate) median_loss: f64,
    /// Throughput lost in the worst window.
    pub(crate) worst_loss: f64,
    /// How long a window is.
    pub(crate) window_ms: u64,
    /// Share of CPU time that the hypervisor gave to others (steal); none if not counted.
    pub(crate) steal_share: Option<f64>,
    /// Share of the time in which the measuring thread waited for a CPU; none if not counted.
    pub(crate) run_wait_share: Option<f64>,
    /// Smallest detectable change of throughput, 0 to 1, with 6 rounds of this length.
    pub(crate) smallest_change: f64,
    /// Length of each of these rounds in seconds.
    pub(crate) round_s: f64,
    /// The same with 18 rounds.
    pub(crate) smallest_change_18: f64,
    /// Share of one processor that reading every counter of the host once a second takes.
    pub(crate) sampler_share: Option<f64>,
}
