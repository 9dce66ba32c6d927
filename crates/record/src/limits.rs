//! Limits of reading a record. A run directory may come from an untrusted source: a small file must not use
//! much memory or time of the reader.
//!
//! The limits are based on the longest plausible run: 24 hours with one interval and one sample per second, 8
//! operations and 750 counters (a host with 64 CPUs). It has 691,200 rows of intervals (190 MB in memory, 166
//! MB as text) and 64.8 million readings (300 MB as text; 128 MiB in memory, as neighbouring samples are combined).
//! If it was killed before its histogram logs were folded, they have 691,200 lines each, 3 GB in total.
//!
//! What is read is counted as if all of it stayed in memory, so that a small file cannot take much time. What stays in
//! memory of all trials is counted apart: it has a lower limit.

/// The length limit of a line. A histogram takes at most 0.7 MB, 16,384 counter titles about 1 MB.
pub(crate) const LINE_BYTES_MAX: usize = 2 << 20;

/// The size limit of one file, decompressed.
pub(crate) const FILE_TEXT_MAX: u64 = 4 << 30;

/// The size limit of all files of a record, decompressed.
pub(crate) const RECORD_TEXT_MAX: u64 = 32 << 30;

/// The memory that a record may use regardless of its size.
const MEMORY_MIN: u64 = 256 << 20;

/// The additional memory that a record may use per byte of its files. An hour of 900 counters has 26 MB of
/// readings in a file of 1.8 MB, a factor of 14.
const MEMORY_PER_BYTE: u64 = 64;

/// The limit of what is counted of a record of any size.
const MEMORY_MAX: u64 = 4 << 30;

/// The limit of what stays in memory. A command that judges and shows it takes less than a gibibyte.
pub(crate) const KEPT_MAX: u64 = 640 << 20;

/// The memory of the histograms of all trials, above which they have two significant digits instead of three.
pub(crate) const HISTOGRAMS_MAX: u64 = 256 << 20;

/// The least cost of a line in memory, to limit files of empty lines.
const LINE_COST: u64 = 32;

/// Limit of the unreadable lines in a file; the rest of the file is then ignored.
pub(crate) const UNREADABLE_LINES_MAX: u32 = 10_000;

/// Limit of the counters in a trial.
pub(crate) const COLUMNS_MAX: usize = 16_384;

/// Limit of the operations in a trial: those above it are not read back.
pub const OPERATIONS_MAX: usize = 256;

/// Limit of the columns in an operation's heatmap; above it, neighbouring columns are merged.
pub(crate) const HEAT_COLUMNS_MAX: usize = 2048;

/// Limit of the trial folders.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// Limit of the entries in a list of `run.json` and `plan.json`, except the trials.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// Limit of the product of all factor levels, and of the decisions.
pub(crate) const PLANNED_MAX: usize = 20_000;

/// The size limit of `run.json` and `host.json`.
pub(crate) const FACTS_BYTES_MAX: u64 = 4 << 20;

/// The size limit of `metrics.json`.
pub(crate) const METRICS_BYTES_MAX: u64 = 16 << 20;

/// The size limit of `steps.json`: 200 steps take 120 kB.
pub(crate) const STEPS_BYTES_MAX: u64 = 1 << 20;

/// The size limit of `plan.json`: 10,000 trials with five changes each take 20 MB.
pub(crate) const PLAN_BYTES_MAX: u64 = 32 << 20;

/// Limit of the memory per byte of JSON: a list of empty texts uses 24 bytes for each 3.
const JSON_EXPANSION: u64 = 8;

/// The cost of a reading in memory, including spare capacity of its column.
pub(crate) const READING_COST: u64 = 10;

/// The most readings of a trial in memory, 128 MiB: of a longer log, neighbouring samples are combined.
pub(crate) const READINGS_MAX: usize = 16 << 20;

/// The same of all trials together, 256 MiB.
pub(crate) const RECORD_READINGS_MAX: usize = 32 << 20;

/// The cost of an interval row in memory, without the name of its operation: the list doubles when it grows.
pub(crate) const INTERVAL_COST: u64 = 512;

/// The size limit of a histogram payload: 54 powers of two with 1024 counts of at most 9 bytes, and a header.
pub(crate) const HISTOGRAM_BYTES_MAX: u64 = 40 + 54 * 1024 * 9;

/// Limit of the count of an operation in the log of a trial: 24 hours at 800 million per second. The sums
/// over all trials that fit into memory are far from an overflow.
pub(crate) const COUNTED_MAX: u64 = 1 << 46;

/// The memory of the three histograms of an operation.
pub(crate) const OPERATION_COST: u64 = 3 * 54 * 1024 * 8;

/// The remaining memory and text size of a record.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The memory limit from the sizes of its files.
    allowed: u64,
    taken: u64,
    /// What a part of a trial may take at most, so that what stays in memory is within its limit.
    most: u64,
    /// What stays in memory of the trials that were read.
    kept: u64,
    kept_max: u64,
    /// The memory of histograms above which they are coarse.
    histograms_max: u64,
    text_left: u64,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget::of(KEPT_MAX, HISTOGRAMS_MAX)
    }

    /// The budget for files that this process wrote itself.
    pub(crate) fn unlimited() -> Budget {
        let all = u64::MAX;
        Budget { allowed: all, text_left: all, ..Budget::of(all, all) }
    }

    /// One with other limits of what stays in memory.
    pub(crate) fn of(kept_max: u64, histograms_max: u64) -> Budget {
        let (allowed, text_left) = (MEMORY_MIN, RECORD_TEXT_MAX);
        Budget { allowed, taken: 0, most: u64::MAX, kept: 0, kept_max, histograms_max, text_left }
    }

    /// Whether histograms of so many bytes are coarse.
    pub(crate) fn makes_coarse(&self, bytes: u64) -> bool {
        bytes > self.histograms_max
    }

    /// Announces a file of this size.
    pub(crate) fn open(&mut self, bytes: u64) {
        // From here on, the content counts toward the limit of all opened files.
        self.allowed = self.allowed.saturating_add(bytes.saturating_mul(MEMORY_PER_BYTE)).min(MEMORY_MAX);
    }

    /// Takes memory; returns false, without taking any, if not enough is left.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.allowed.min(self.most) {
            return false;
        }
        self.taken = taken;
        true
    }

    /// Returns memory that was taken.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// What is counted so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// What is read next stays in memory, beside so much of the same trial: it has the rest of the limit.
    pub(crate) fn keep_beside(&mut self, bytes: u64) {
        let rest = self.kept_max.saturating_sub(self.kept).saturating_sub(bytes);
        self.most = self.taken.saturating_add(rest);
    }

    /// What is read next does not stay in memory as it is.
    pub(crate) fn keep_none(&mut self) {
        self.most = u64::MAX;
    }

    /// A trial was read, since so much was counted: this much of it stays in memory. False if that is too much.
    pub(crate) fn keep(&mut self, taken_before: u64, bytes: u64) -> bool {
        self.keep_none();
        self.taken = self.taken.min(taken_before.saturating_add(bytes));
        self.kept = self.kept.saturating_add(bytes);
        self.kept <= self.kept_max
    }

    /// A trial that was kept is not.
    pub(crate) fn drop_kept(&mut self, bytes: u64) {
        self.kept = self.kept.saturating_sub(bytes);
        self.release(bytes);
    }

    /// Announces a JSON file of this size that is to be parsed.
    pub(crate) fn take_json(&mut self, bytes: usize) -> bool {
        self.take((bytes as u64).saturating_mul(JSON_EXPANSION))
    }

    /// Counts the text of one line; returns false if the limit is exceeded.
    pub(crate) fn take_line(&mut self, bytes: usize) -> bool {
        match self.text_left.checked_sub(bytes as u64) {
            Some(left) => {
                self.text_left = left;
                self.take(LINE_COST)
            }
            None => false,
        }
    }
}

/// The message about data that was omitted because of a limit.
pub(crate) fn too_large() -> String {
    format!(
        "the record needs more memory than its limit ({} MiB and {MEMORY_PER_BYTE} bytes per byte of its \
        files while a trial is read, {} MiB for all trials)",
        MEMORY_MIN >> 20,
        KEPT_MAX >> 20
    )
}
