//! The run of a load, as another tool reports it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use model::figure::{PERCENTILE_MS, SCRIPTED, STATED, TIME_STEP_MS};
use model::{Interval, LatencySummary, Level, Phase, Shape};

use crate::{Content, Fault};

/// The most runs of a file.
const RUNS_MAX: usize = 10_000;

/// One run of a load. What the tool does not report is absent.
#[derive(Clone, Debug, Default)]
pub struct LoadRun {
    /// The tool, such as `sqlio`.
    pub tool: &'static str,
    /// Its version; empty where the file does not say.
    pub version: String,
    /// The host that it ran on; empty where the file does not say.
    pub host: String,
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
    /// Those of single intervals, by the place of the interval, where each operation was logged. An operation has either these or
    /// one of the whole run.
    pub interval_times: BTreeMap<usize, Histogram<u64>>,
    /// The prefixes and numbers of the logs that fio wrote for its jobs.
    pub(crate) fio_logs: Vec<(String, u32)>,
    /// Milliseconds of a window in these logs; none for single operations, or if it is not known.
    pub(crate) fio_period_ms: Option<u64>,
    /// Whether they have the longest latency of a window instead of the mean.
    pub(crate) fio_logs_maximum: bool,
    /// Milliseconds before the load was measured.
    pub(crate) fio_ramp_ms: u64,
    /// Other facts, by name.
    pub facts: BTreeMap<String, Level>,
    /// What is doubtful about the report, in sentences.
    pub notes: Vec<String>,
}

/// What a tool says of an operation over a whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// Completed operations, successful or failed.
    pub(crate) completed: u64,
    /// Failed ones.
    pub(crate) failed: u64,
    /// Bytes of the successful ones.
    pub(crate) bytes: u64,
    /// Response times, milliseconds; NaN for what the tool does not say.
    pub(crate) times: LatencySummary,
    /// Mean number in flight; NaN if the tool does not say it.
    pub(crate) concurrency: f64,
}

impl LoadRun {
    /// Adds an operation that is known over the whole run only. `seconds` must be set before.
    pub(crate) fn add_whole(&mut self, operation: &str, of: Whole) {
        self.intervals.push(Interval {
            due: None,
            begin_s: 0.0,
            end_s: self.seconds,
            phase: Phase::Measure,
            load: self.shape.as_ref().map_or(1.0, |shape| shape.profile().largest()),
            operation: operation.into(),
            offered: None,
            issued: None,
            completed: of.completed,
            late: None,
            failed: of.failed,
            bytes: of.bytes,
            concurrency: of.concurrency,
            response: of.times,
            service: of.times,
        });
    }

    /// Keeps percentiles over the whole run, of one operation or of `all`, which the tool computed from more than the
    /// parts that are read.
    pub(crate) fn set_percentiles(&mut self, operation: &str, mut times: LatencySummary) {
        for (name, ms) in times.percentiles_mut() {
            if ms.is_finite() {
                self.facts.insert(format!("{PERCENTILE_MS}{operation}.{name}"), Level::Number(*ms));
            }
        }
    }

    /// Adds a figure that the tool prints besides, so that an audit can compare it with the others.
    pub(crate) fn state(&mut self, quantity: &str, text: String) {
        self.facts.insert(format!("{STATED}{quantity}"), Level::Text(text));
    }

    /// The times are multiples of this many milliseconds, cut off.
    pub(crate) fn set_time_step_ms(&mut self, step: f64) {
        self.facts.insert(TIME_STEP_MS.into(), Level::Number(step));
    }

    /// Users may think between their operations: the tool runs a script, and does not say how long.
    pub(crate) fn set_scripted(&mut self) {
        self.facts.insert(SCRIPTED.into(), Level::Flag(true));
    }

    /// Sets a setting by its name in `[workload]`.
    pub(crate) fn set(&mut self, name: &str, level: Level) {
        self.settings.insert(format!("workload.{name}"), level);
    }
}

/// The runs of a file, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    found: Vec<LoadRun>,
    fault: Option<Fault>,
}

impl Runs {
    /// Adds a run that begins in a line, or says what it lacks.
    pub(crate) fn add(&mut self, line: u64, run: Result<LoadRun, &'static str>) -> Result<(), Fault> {
        match run {
            Ok(_) if self.found.len() == RUNS_MAX => {
                return Err(Fault::at(line, "the file has more than 10,000 runs", "split it"));
            }
            Ok(run) => self.found.push(run),
            Err(missing) => {
                let what = format!("the run that begins here has no {missing}");
                if let Some(before) = self.found.last_mut() {
                    before.notes.push(format!("line {line}: {what}; it was left out"));
                }
                let help = "it was stopped, or the file was cut";
                self.fault.get_or_insert_with(|| Fault::at(line, what, help));
            }
        }
        Ok(())
    }

    /// All of them.
    pub(crate) fn finish(self, tool: &str) -> Result<Content, Fault> {
        match (self.found.is_empty(), self.fault) {
            (false, _) => Content::load(self.found),
            (true, Some(fault)) => Err(fault),
            (true, None) => {
                Err(Fault::at(0, format!("the file has no run of {tool}"), "was it stopped too early?"))
            }
        }
    }
}

/// Statistics from percentiles, such as `(99.0, 12.5)` for 12.5 ms; the rest is absent.
pub(crate) fn of_percentiles(points: impl IntoIterator<Item = (f64, f64)>) -> LatencySummary {
    let mut times = LatencySummary::ABSENT;
    for (percent, ms) in points {
        let near = |wanted: f64| (percent - wanted).abs() < 1e-6;
        let part = match () {
            () if near(0.0) => &mut times.min,
            () if near(50.0) => &mut times.p50,
            () if near(90.0) => &mut times.p90,
            () if near(95.0) => &mut times.p95,
            () if near(99.0) => &mut times.p99,
            () if near(99.9) => &mut times.p999,
            () if near(100.0) => &mut times.max,
            () => continue,
        };
        *part = ms;
    }
    times
}
