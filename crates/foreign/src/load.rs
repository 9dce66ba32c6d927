//! The run of a load, as another tool reports it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use model::{Interval, Level, Shape};

/// One run of a load. What the tool does not report is absent.
#[derive(Clone, Debug, Default)]
pub struct LoadRun {
    /// The tool, such as `sqlio`.
    pub tool: &'static str,
    /// Its version; empty where the file does not say.
    pub version: String,
    /// The line where it begins, from 1; 0 where there is none.
    pub line: u64,
    /// What distinguishes it from others in the same file; may be empty.
    pub label: String,
    /// The kind of Plimsoll's workload that does the same, such as `disk`.
    pub workload: &'static str,
    /// When it began, nanoseconds since 1970 UTC.
    pub began_unix_ns: Option<i64>,
    /// Seconds that were measured.
    pub seconds: f64,
    /// The load.
    pub shape: Option<Shape>,
    /// Settings by their paths in an experiment, such as `workload.block_size`.
    pub settings: BTreeMap<String, Level>,
    /// The operations over time, at least one interval for each. Times are seconds since its begin.
    pub intervals: Vec<Interval>,
    /// Response times by operation, nanoseconds, where the tool has them in buckets.
    pub histograms: BTreeMap<String, Histogram<u64>>,
    /// Other facts, by name.
    pub facts: BTreeMap<String, Level>,
    /// What is doubtful about the report, in sentences.
    pub notes: Vec<String>,
}
