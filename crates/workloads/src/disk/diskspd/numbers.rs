//! What diskspd reports of a run, measured.

use hdrhistogram::Histogram;
use model::study::new_histogram;

/// What was read, or written, by one thread on one target.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Times from issue to completion.
    pub latency_ns: Histogram<u64>,
    /// Operations per second in each interval of the measured time.
    pub rates_per_s: Vec<f64>,
}

impl Default for Transfers {
    fn default() -> Self {
        Transfers { operations: 0, bytes: 0, latency_ns: new_histogram(), rates_per_s: Vec::new() }
    }
}

impl Transfers {
    /// Adds others of the same run.
    pub fn add(&mut self, other: &Transfers) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        // A histogram that grows takes any other.
        let added = self.latency_ns.add(&other.latency_ns);
        debug_assert!(added.is_ok());
        let intervals = self.rates_per_s.len().max(other.rates_per_s.len());
        self.rates_per_s.resize(intervals, 0.0);
        for (ours, theirs) in self.rates_per_s.iter_mut().zip(&other.rates_per_s) {
            *ours += theirs;
        }
    }

    /// Mean latency; 0 without operations, as in diskspd.
    pub(super) fn mean_ms(&self) -> f64 {
        self.latency_ns.mean() / 1e6
    }

    /// Standard deviation of the latency; none without operations.
    pub(super) fn deviation_ms(&self) -> Option<f64> {
        (!self.latency_ns.is_empty()).then(|| self.latency_ns.stdev() / 1e6)
    }

    /// Standard deviation of operations per second between the intervals.
    pub(super) fn rate_deviation(&self) -> f64 {
        if self.rates_per_s.is_empty() {
            return 0.0;
        }
        let count = self.rates_per_s.len() as f64;
        let mean = self.rates_per_s.iter().sum::<f64>() / count;
        (self.rates_per_s.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}

/// One thread's work on one target.
#[derive(Clone, Debug, Default)]
pub struct StreamNumbers {
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
}

impl StreamNumbers {
    /// Reads and writes together.
    pub(super) fn total(&self) -> Transfers {
        let mut total = self.read.clone();
        total.add(&self.write);
        total
    }

    /// Several streams together.
    pub(super) fn sum<'a>(streams: impl IntoIterator<Item = &'a StreamNumbers>) -> StreamNumbers {
        let mut sum = StreamNumbers::default();
        for stream in streams {
            sum.read.add(&stream.read);
            sum.write.add(&stream.write);
        }
        sum
    }
}

/// User, kernel and idle time of all CPUs on average.
pub(super) fn means(cpus: &[CpuUse]) -> [f64; 3] {
    let count = cpus.len() as f64;
    let mean = |part: fn(&CpuUse) -> f64| cpus.iter().map(part).sum::<f64>() / count;
    [mean(|cpu| cpu.user), mean(|cpu| cpu.kernel), mean(|cpu| cpu.idle)]
}

/// How a CPU spent the measured time, in percent; NaN where it is not known. The time that a hypervisor gave to others is in
/// none of the parts.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuUse {
    /// Its number.
    pub number: u32,
    /// In programs.
    pub user: f64,
    /// In the kernel, with interrupts.
    pub kernel: f64,
    /// Idle, waiting for I/O included.
    pub idle: f64,
}

/// All numbers of a report.
#[derive(Clone, Debug, Default)]
pub struct DiskspdNumbers {
    /// Name of the host.
    pub host: String,
    /// Start of the run, `2026/11/21 19:30:05 UTC`.
    pub start: String,
    /// CPUs of the host.
    pub cpu_count: u32,
    /// Measured time; 0 when the run ended before it.
    pub seconds: f64,
    /// Those that were read.
    pub cpus: Vec<CpuUse>,
    /// In the order of [`super::DiskspdRun::streams`].
    pub streams: Vec<StreamNumbers>,
}
