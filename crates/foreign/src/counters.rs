//! Counters over time, as another system logged them.

use crate::{DateOrder, Fault};

/// Whose names the counters have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterFamily {
    /// Windows Performance Monitor, in English.
    PerformanceMonitor,
}

/// One counter of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterColumn {
    /// The system that has it; empty where the file does not say.
    pub host: String,
    /// Object, instance and counter: `Processor(_Total)\% Processor Time`. Names that are known are in English.
    pub path: String,
    /// As the file has it, where that differs.
    pub written: String,
}

/// A sample: all counters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The begin of its window, nanoseconds since 1970 UTC: the time of the sample before.
    pub begin_unix_ns: i64,
    /// Its end.
    pub end_unix_ns: i64,
    /// A value for each column; NaN where there is none.
    pub values: Vec<f64>,
}

/// A log of counters, read one sample after another.
pub trait CounterLog {
    /// Whose names the counters have.
    fn family(&self) -> CounterFamily;

    /// Reads the next sample; false at the end. What cannot be read is noted and left out.
    ///
    /// # Errors
    /// If nothing more can be read.
    fn next(&mut self, sample: &mut Sample) -> Result<bool, Fault>;

    /// The columns of the last sample, and a number that changes with them.
    fn columns(&self) -> (&[CounterColumn], usize);

    /// The order of day and month, and the seconds between local time and UTC, as far as the file has them.
    fn clock(&self) -> (Option<DateOrder>, Option<i64>);

    /// What was left out so far, each kind once with its first line and how often.
    fn notes(&self) -> Vec<Fault>;
}
