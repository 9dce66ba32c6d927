//! What diskspd 2 prints, as text (`-Rtext`) or XML (`-Rxml`): a run for each time span.
//!
//! MiB are 2^20 bytes, latencies milliseconds. Percentiles need `-L`; without it diskspd reports no latency.

mod text;
mod xml;

use model::{LatencySummary, Level, Shape};

use crate::load::{Whole, of_percentiles};
use crate::{Format, LoadRun};

pub(crate) static FORMAT: Format = Format {
    name: "diskspd",
    about: "diskspd text and XML: operations, bytes, latencies, CPU and settings of each time span",
    recognize: |head| xml::is_it(head) || text::is_it(head),
    open: |from, _| {
        let (is_xml, whole) = xml::recognize(from)?;
        if is_xml { xml::open(whole) } else { text::open(whole) }
    },
};

/// The most runs of a file, and the most targets of one.
const RUNS_MAX: usize = 10_000;
const TARGETS_MAX: usize = 10_000;

/// Operations in flight of a thread, threads of a target, and the size of a block where none is stated.
const OUTSTANDING_DEFAULT: u64 = 2;

/// What a time span is to do.
#[derive(Debug, Default)]
struct Plan {
    duration_s: u64,
    warm_up_s: u64,
    cool_down_s: u64,
    /// Threads that all targets share; 0 if each target has its own.
    pool_threads: u64,
    /// Operations in flight of a thread of the pool, over all targets; 0 if each target has its own.
    pool_outstanding: u64,
    targets: Vec<Target>,
}

/// What is done to a file or disk.
#[derive(Clone, Debug, Default)]
struct Target {
    path: String,
    block_bytes: Option<u64>,
    random_percent: Option<f64>,
    is_interlocked: bool,
    /// The distance of blocks where access is sequential.
    stride_bytes: Option<u64>,
    write_percent: Option<f64>,
    outstanding: Option<u64>,
    threads: Option<u64>,
    is_cached: Option<bool>,
    is_write_through: Option<bool>,
    offset_bytes: Option<u64>,
    size_bytes: Option<u64>,
    limit: Option<String>,
}

/// What a time span had.
#[derive(Debug, Default)]
struct Outcome {
    line: u64,
    /// From 1.
    number: usize,
    seconds: Option<f64>,
    threads: Option<u64>,
    /// Of reads, writes and both.
    reads: Part,
    writes: Part,
    total: Part,
    /// Names such as `usage` with percent.
    cpu: Vec<(&'static str, f64)>,
    file_bytes: Option<u64>,
    has_error: bool,
}

/// What operations of one kind had.
#[derive(Debug, Default)]
struct Part {
    completed: Option<u64>,
    bytes: u64,
    mean_ms: Option<f64>,
    deviation_ms: Option<f64>,
    points: Vec<(f64, f64)>,
}

impl Part {
    fn times(&self) -> LatencySummary {
        let mut times = of_percentiles(self.points.iter().copied());
        times.mean = self.mean_ms.unwrap_or(f64::NAN);
        times
    }
}

/// What is the same for all; none if there is none or values differ.
fn common<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

impl Plan {
    fn threads(&self) -> u64 {
        let own = self.targets.iter().fold(0_u64, |sum, of| sum.saturating_add(of.threads.unwrap_or(1)));
        if self.pool_threads > 0 { self.pool_threads } else { own }
    }

    fn in_flight(&self) -> u64 {
        let of = |target: &Target| target.outstanding.unwrap_or(OUTSTANDING_DEFAULT).max(1);
        match (self.pool_threads, self.pool_outstanding) {
            (0, _) => self.targets.iter().fold(0_u64, |sum, target| {
                sum.saturating_add(of(target).saturating_mul(target.threads.unwrap_or(1)))
            }),
            (threads, 0) => {
                let all = self.targets.iter().fold(0_u64, |sum, target| sum.saturating_add(of(target)));
                threads.saturating_mul(all)
            }
            (threads, outstanding) => threads.saturating_mul(outstanding),
        }
    }

    /// The settings of the disk workload, as far as they are the same for all targets.
    fn apply(&self, run: &mut LoadRun) {
        let targets = || self.targets.iter();
        let mut set = |name: &str, level: Option<Level>| {
            if let Some(level) = level {
                run.set(name, level);
            }
        };
        let word = |is: bool, yes: &str, no: &str| Level::Text(if is { yes } else { no }.into());
        let bytes = |part: fn(&Target) -> Option<u64>| common(targets().map(part));
        set("block_size", bytes(|of| of.block_bytes).map(Level::Bytes));
        let random = common(targets().map(|of| of.random_percent));
        set(
            "access",
            random.filter(|of| *of <= 0.0 || *of >= 100.0).map(|of| word(of > 0.0, "random", "sequential")),
        );
        if random == Some(0.0) {
            let interlocked = common(targets().map(|of| Some(of.is_interlocked)));
            set("streams", interlocked.map(|is| word(is, "shared", "per-thread")));
            let strides =
                common(targets().map(|of| of.stride_bytes.filter(|stride| Some(*stride) != of.block_bytes)));
            set("stride", strides.map(Level::Bytes));
        }
        set(
            "read_percent",
            common(targets().map(|of| of.write_percent)).map(|of| Level::Percent(100.0 - of)),
        );
        set("cache", common(targets().map(|of| of.is_cached)).map(|is| word(is, "page-cache", "direct")));
        set("write_through", common(targets().map(|of| of.is_write_through)).map(Level::Flag));
        set("offset", bytes(|of| of.offset_bytes).map(Level::Bytes));
        set("size", bytes(|of| of.size_bytes).map(Level::Bytes));
        let outstanding = match self.pool_outstanding {
            0 => bytes(|of| Some(of.outstanding.unwrap_or(OUTSTANDING_DEFAULT))),
            outstanding => Some(outstanding),
        };
        set("outstanding", outstanding.map(Level::Count));
        set("threads", Some(Level::Count(self.threads())));
        set("files", Some(Level::List(targets().map(|of| Level::Text(of.path.clone())).collect())));
        if let Some(percent) = random.filter(|of| *of > 0.0 && *of < 100.0) {
            run.facts.insert("diskspd.random".into(), Level::Percent(percent));
            run.notes.push(format!("{percent} % of the operations are random, the others sequential"));
        }
        for limit in targets().filter_map(|of| of.limit.as_ref()).take(1) {
            run.notes.push(format!("the load of each thread is limited to {limit}"));
        }
        if self.targets.len() > 1 {
            run.notes.push(format!("settings are those that all {} targets have", self.targets.len()));
        }
    }
}

impl Outcome {
    /// The run; else what is missing. `began_unix_ns` is when diskspd began with this time span.
    fn finish(
        self,
        plan: Option<&Plan>,
        version: &str,
        began_unix_ns: Option<i64>,
    ) -> Result<LoadRun, &'static str> {
        if self.has_error {
            return Err("measurement: diskspd was interrupted before");
        }
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0).ok_or("test time")?;
        let has_parts = self.reads.completed.is_some() || self.writes.completed.is_some();
        if !has_parts && self.total.completed.is_none() {
            return Err("line with its operations");
        }
        let plan = plan.filter(|plan| !plan.targets.is_empty());
        let mut run = LoadRun {
            tool: "diskspd",
            version: version.to_string(),
            line: self.line,
            label: format!("time span {}", self.number),
            workload: "disk",
            seconds,
            shape: plan.map(|plan| Shape::closed(plan.in_flight())),
            ..LoadRun::default()
        };
        if let Some(plan) = plan {
            let warm_up_ns = i64::try_from(plan.warm_up_s.saturating_mul(1_000_000_000)).unwrap_or(i64::MAX);
            run.began_unix_ns = began_unix_ns.and_then(|began| began.checked_add(warm_up_ns));
            if run.began_unix_ns.is_some() {
                let what = "the begin is computed from the start of diskspd and the warm-up; creating files delays it";
                run.notes.push(what.into());
            }
            plan.apply(&mut run);
        }
        if let (None, Some(threads)) = (plan, self.threads.filter(|threads| *threads > 0)) {
            run.set("threads", Level::Count(threads));
        }
        if let (false, Some(bytes)) = (run.settings.contains_key("workload.size"), self.file_bytes) {
            run.set("size", Level::Bytes(bytes));
        }
        let written = common(plan.iter().flat_map(|plan| &plan.targets).map(|of| of.write_percent));
        let both = match written {
            Some(0.0) => "read",
            Some(100.0) => "write",
            _ => "mixed",
        };
        let parts = match has_parts {
            true => vec![("read", &self.reads), ("write", &self.writes)],
            false => vec![(both, &self.total)],
        };
        if !has_parts {
            run.notes.push("the tables of reads and writes are missing".into());
        }
        for (operation, part) in parts {
            let Some(completed) = part.completed.filter(|completed| *completed > 0) else { continue };
            let times = part.times();
            let whole = Whole { completed, failed: 0, bytes: part.bytes, times, concurrency: f64::NAN };
            run.add_whole(operation, whole);
            if let Some(ns) = part.deviation_ms.and_then(|ms| crate::number::count(ms * 1e6)) {
                run.facts.insert(format!("diskspd.{operation}.latency_stddev"), Level::Time(ns));
            }
        }
        if run.intervals.is_empty() {
            return Err("operation that completed");
        }
        if run.intervals.len() > 1 {
            run.set_percentiles("all", self.total.times());
        }
        for (name, percent) in self.cpu {
            run.facts.insert(format!("diskspd.cpu.{name}"), Level::Percent(percent));
        }
        Ok(run)
    }
}

/// When a time span began: after those before it.
fn began_of(started_unix_ns: Option<i64>, before: &[Plan]) -> Option<i64> {
    before.iter().try_fold(started_unix_ns?, |begin, plan| {
        let seconds = plan.duration_s.checked_add(plan.warm_up_s)?.checked_add(plan.cool_down_s)?;
        begin.checked_add(i64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?)
    })
}

/// Nanoseconds since 1970 of `2014/12/31 17:04:05 UTC`.
fn start_of(text: &str) -> Option<i64> {
    crate::date::unix_ns(text.trim().strip_suffix("UTC")?.as_bytes(), crate::DateOrder::MonthFirst)
}

/// A number that is finite and not negative, with the decimal sign of any locale.
fn number_of(text: &str) -> Option<f64> {
    crate::number::printed(text.trim().trim_end_matches('%')).filter(|value| *value >= 0.0)
}

#[cfg(test)]
mod tests;
