//! What is known about this machine, as plain data: everything `doctor` judges.

use std::path::PathBuf;

use model::run::ClockInfo;
use model::{Host, SourceStatus};

/// All of it. What could not be found out is `None` or an error in words; absent is not zero.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Kernel, processors, memory, hypervisor, disks.
    pub(crate) host: Host,
    /// Frequency governors in use; empty when the kernel shows none.
    pub(crate) governors: Vec<String>,
    /// The kernel's clock source, such as `tsc`.
    pub(crate) kernel_clock: String,
    /// The clock operations are timed with.
    pub(crate) clock: ClockInfo,
    /// Setup flags io_uring accepts, or why there is none.
    pub(crate) io_uring: Result<Vec<String>, String>,
    /// `kernel.io_uring_disabled`: 0 everyone, 1 a group, 2 nobody; none where the kernel has no such switch.
    pub(crate) io_uring_disabled: Option<u32>,
    /// Most bytes this process may lock in memory, and most files it may have open; none is unlimited.
    pub(crate) locked_bytes_max: Option<u64>,
    /// Most open files.
    pub(crate) files_max: Option<u64>,
    /// Where a load would read and write.
    pub(crate) place: Place,
    /// Free bytes where runs are recorded, or why that folder cannot be written.
    pub(crate) record_free_bytes: Result<u64, String>,
    /// `cgroup v2`, `cgroup v1`, both, or empty.
    pub(crate) cgroups: String,
    /// What can be turned: path of the factor, and why not.
    pub(crate) factors: Vec<(String, Result<(), String>)>,
    /// May the page cache be dropped?
    pub(crate) drop_caches: Result<(), String>,
    /// What kernel tracing needs.
    pub(crate) tracing: Tracing,
    /// Every source, opened and read once.
    pub(crate) sources: Vec<SourceStatus>,
    /// What the sources leave out.
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

/// A folder, file or device and what it lies on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// As the user named it.
    pub(crate) path: PathBuf,
    /// It is there; a file that is yet to be made is judged by its folder.
    pub(crate) exists: bool,
    /// Why it cannot be looked at; none when it could.
    pub(crate) unreadable: Option<String>,
    /// Such as `ext4`; none for a block device.
    pub(crate) file_system: Option<String>,
    /// Whole disks below it.
    pub(crate) disks: Vec<String>,
    /// What direct I/O must be aligned to, in bytes; none where the kernel does not say.
    pub(crate) direct_alignment: Option<u32>,
    /// Whether a block was read with direct I/O.
    pub(crate) direct: Result<(), String>,
    /// Free space; none where that is no notion, as on a block device.
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

/// How much a program that does the same thing all the time is held up here.
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
    /// Share of processor time the hypervisor gave to others; none when not counted.
    pub(crate) steal_share: Option<f64>,
    /// Share of the time the measuring thread was ready to run and had no processor; none when not counted.
    pub(crate) run_wait_share: Option<f64>,
    /// Smallest change of throughput that can be told from chance, 0 to 1, with 6 rounds of this length.
    pub(crate) smallest_change: f64,
    /// Seconds of each of the rounds it is about.
    pub(crate) round_s: f64,
    /// The same with 18 rounds.
    pub(crate) smallest_change_18: f64,
    /// Share of one processor that reading every counter of the host once a second takes.
    pub(crate) sampler_share: Option<f64>,
}
