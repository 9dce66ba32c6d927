//! How much of a record is read. A run directory may come from somebody else: a small file must not take the memory or
//! the time of whoever looks at it.
//!
//! The numbers rest on the longest run that is plausible: 24 hours with an interval and a sample each second, 8 operations
//! and 750 columns of counters (a host with 64 CPUs). It has 691,200 rows of intervals (190 MB in memory, 166 MB as text)
//! and 64.8 million readings (518 MB in memory, 300 MB as text); its histogram logs, when it was killed before they were
//! folded, have 691,200 lines each and together 3 GB.

/// The longest line. A histogram takes at most 0.7 MB, 16,384 titles of counters take about 1 MB.
pub(crate) const LINE_BYTES_MAX: usize = 2 << 20;

/// Text of one file, decompressed.
pub(crate) const FILE_TEXT_MAX: u64 = 4 << 30;

/// Text of all files of a record, decompressed.
pub(crate) const RECORD_TEXT_MAX: u64 = 32 << 30;

/// Memory that a record may take however small its files are.
const MEMORY_MIN: u64 = 256 << 20;

/// Memory that a record may take for each byte of its files besides. An hour of 900 counters has 26 MB of readings in a file
/// of 1.8 MB, which is 14 for a byte.
const MEMORY_PER_BYTE: u64 = 64;

/// Memory that a record may take however large its files are.
const MEMORY_MAX: u64 = 4 << 30;

/// What a line is counted as in memory at least, so that files of empty lines end too.
const LINE_COST: u64 = 32;

/// Lines of a file that cannot be read, before the rest of it is left out.
pub(crate) const UNREADABLE_LINES_MAX: u32 = 10_000;

/// Columns of counters in a trial.
pub(crate) const COLUMNS_MAX: usize = 16_384;

/// Operations in a trial.
pub(crate) const OPERATIONS_MAX: usize = 256;

/// Columns of the heatmap of an operation; neighbours are added up beyond.
pub(crate) const HEAT_COLUMNS_MAX: usize = 2048;

/// Folders of trials.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// Entries of any list in `run.json` and `plan.json`, the trials excepted.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// Levels of all factors multiplied, and decisions.
pub(crate) const PLANNED_MAX: usize = 20_000;

/// `run.json`, `host.json`.
pub(crate) const FACTS_BYTES_MAX: u64 = 4 << 20;

/// `metrics.json`.
pub(crate) const METRICS_BYTES_MAX: u64 = 16 << 20;

/// `plan.json`: 10,000 trials with five changes each take 20 MB.
pub(crate) const PLAN_BYTES_MAX: u64 = 32 << 20;

/// Values in memory for a byte of JSON, at most: a list of empty texts has 3 bytes for each of 24.
const JSON_EXPANSION: u64 = 8;

/// What a reading counts as in memory: its column has some space to grow.
pub(crate) const READING_COST: u64 = 10;

/// What a row of intervals counts as in memory, besides the name of its operation: the list doubles when it grows.
pub(crate) const INTERVAL_COST: u64 = 512;

/// Text that is read of one histogram's payload: 54 powers of two with 1024 counts of at most 9 bytes, and its header.
pub(crate) const HISTOGRAM_BYTES_MAX: u64 = 40 + 54 * 1024 * 9;

/// Operations that a log counts of one operation of a trial: 24 hours at 800 million a second. The sums of all trials that a
/// record has memory for stay far below what overflows.
pub(crate) const COUNTED_MAX: u64 = 1 << 46;

/// Memory of the three histograms of an operation.
pub(crate) const OPERATION_COST: u64 = 3 * 54 * 1024 * 8;

/// What is left of the memory and the text that a record may take.
#[derive(Debug)]
pub(crate) struct Budget {
    /// What the sizes of its files allow.
    allowed: u64,
    taken: u64,
    text_left: u64,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { allowed: MEMORY_MIN, taken: 0, text_left: RECORD_TEXT_MAX }
    }

    /// For what this process wrote itself.
    pub(crate) fn unlimited() -> Budget {
        Budget { allowed: u64::MAX, taken: 0, text_left: u64::MAX }
    }

    /// A file of this size is about to be read.
    pub(crate) fn open(&mut self, bytes: u64) {
        // From here on what it holds is weighed against all files that were opened.
        self.allowed = self.allowed.saturating_add(bytes.saturating_mul(MEMORY_PER_BYTE)).min(MEMORY_MAX);
    }

    /// Takes memory; false, and nothing is taken, when it is not left.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.allowed {
            return false;
        }
        self.taken = taken;
        true
    }

    /// A JSON file of this size is about to be parsed.
    pub(crate) fn take_json(&mut self, bytes: usize) -> bool {
        self.take((bytes as u64).saturating_mul(JSON_EXPANSION))
    }

    /// Text of one line was read; false when that was more than a record may have.
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

/// What was left out where a limit was reached, in words.
pub(crate) fn too_large() -> String {
    format!(
        "the record takes more memory than its size allows ({} MiB and {MEMORY_PER_BYTE} bytes for each byte of its \
         files, at most {} MiB)",
        MEMORY_MIN >> 20,
        MEMORY_MAX >> 20
    )
}
