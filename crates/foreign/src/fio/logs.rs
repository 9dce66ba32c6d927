//! Logs of fio: `PREFIX_bw.N.log` and the like, the course of a load over time.
//!
//! A line is `msec, value, direction, block size[, offset[, priority[, issue time]]]`. The direction is 0 for reads, 1 for writes
//! and 2 for trims. With `log_avg_msec`, a line has the mean of a window that ends at its time, and its block size is 0; otherwise
//! it is one operation. What the value is, is only in the name of the file: KiB/s (`bw`), operations/s (`iops`), or a latency
//! (`lat`, `clat`) in nanoseconds, in fio 2 in microseconds. `N` is the number of the job, from 1 over all jobs and copies.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use model::{Interval, LatencySummary, Phase};

use super::OPERATIONS;
use crate::input::Lines;
use crate::{Checked, Content, Fault, Format, LoadRun, Options, Source, number};

pub(crate) static FORMAT: Format = Format {
    name: "fio logs",
    about: "fio bw, iops, lat and clat logs: the course of the load, best beside the JSON of the same run",
    recognize: |head| recognize(head),
    open,
};

/// Lines that must be those of a log.
const HEAD_LINES: usize = 3;

/// The most means of windows of a log: 11 days of a read and a write each second.
const MEANS_MAX: usize = 2_000_000;

/// The shortest window in which single operations are counted, milliseconds, and the most windows.
const WIDTH_MS: u64 = 100;
const WINDOWS_MAX: usize = 4096;

/// Different latencies that are kept, before windows are joined.
const LATENCIES_MAX: usize = 1 << 20;

/// Times above this many milliseconds are times since 1970 (`log_unix_epoch`).
const EPOCH_MS: u64 = 100_000_000_000;

/// What a log has of each window and each direction, as far as its file says.
#[derive(Debug)]
pub struct FioLog {
    /// Means of windows, each with its end in milliseconds and its direction.
    means: Vec<(u64, u8, f64)>,
    /// Single operations by window and direction.
    singles: BTreeMap<(u64, u8), Singles>,
    width_ms: u64,
    latencies: usize,
    /// The first and the last time, milliseconds.
    first_ms: u64,
    last_ms: u64,
    /// Lines that could not be read, and the first of them.
    unread: (u64, u64),
    /// Whether each single operation has the value 1, as in a log of IOPS.
    are_ones: bool,
}

/// Operations of a window.
#[derive(Debug, Default)]
struct Singles {
    count: u64,
    bytes: u64,
    /// How many operations have this value, rounded to 0.1 %.
    values: BTreeMap<u64, u64>,
}

/// The largest time, milliseconds: the year 2200, if it is since 1970.
const MS_MAX: u64 = 7_258_118_400_000;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    ms: u64,
    value: u64,
    direction: u8,
    bytes: u64,
}

fn row(line: &str, has_two: bool) -> Option<Row> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (ms, value) = (next().filter(|ms| *ms <= MS_MAX)?, next()?);
    if has_two {
        next()?;
    }
    let (direction, bytes) = (next()?, next()?);
    let is_number = |field: &str| {
        let hex = field.strip_prefix("0x");
        hex.map_or_else(|| field.parse::<u64>().is_ok(), |digits| u64::from_str_radix(digits, 16).is_ok())
    };
    let rest: Vec<&str> = fields.collect();
    let direction = u8::try_from(direction).ok().filter(|direction| *direction <= 2)?;
    let is_row = rest.len() <= 3 && rest.into_iter().all(is_number);
    is_row.then_some(Row { ms, value, direction, bytes })
}

/// Whether the lines have a mean and a maximum (`log_window_value=both`).
fn has_two(line: &str) -> bool {
    row(line, false).is_none() && row(line, true).is_some()
}

fn recognize(head: &str) -> bool {
    let mut lines = head.lines().map(str::trim_end).filter(|line| !line.is_empty()).peekable();
    // The blanks are those of fio: a table of numbers has none.
    let is_row =
        |line: &str| line.contains(", ") && (row(line, false).is_some() || row(line, true).is_some());
    let whole = head.ends_with('\n') || head.len() < crate::HEAD_BYTES;
    whole && lines.peek().is_some() && lines.take(HEAD_LINES).all(is_row)
        || (!whole && head.lines().take(HEAD_LINES).all(is_row))
}

fn open(from: Source, _: &Options) -> Result<Content, Fault> {
    let mut log = FioLog {
        means: Vec::new(),
        singles: BTreeMap::new(),
        width_ms: WIDTH_MS,
        latencies: 0,
        first_ms: u64::MAX,
        last_ms: 0,
        unread: (0, 0),
        are_ones: true,
    };
    let mut lines = Lines::new(from);
    let mut two = None;
    while let Some(line) = lines.next()? {
        let text = line.text.trim();
        if text.is_empty() {
            continue;
        }
        let two = *two.get_or_insert_with(|| has_two(text));
        match row(text, two).filter(|_| !line.is_cut) {
            Some(row) => log.add(row, line.number)?,
            None => {
                log.unread.0 += 1;
                if log.unread.1 == 0 {
                    log.unread.1 = line.number;
                }
            }
        }
    }
    match log.first_ms {
        u64::MAX => Err(Fault::at(0, "the log of fio has no value", "was fio stopped too early?")),
        _ => Ok(Content::FioLog(Box::new(log))),
    }
}

impl FioLog {
    fn add(&mut self, row: Row, line: u64) -> Result<(), Fault> {
        (self.first_ms, self.last_ms) = (self.first_ms.min(row.ms), self.last_ms.max(row.ms));
        if row.bytes == 0 {
            if self.means.len() == MEANS_MAX {
                return Err(Fault::at(line, "the log has more than 2,000,000 windows", "split it"));
            }
            self.means.push((row.ms, row.direction, row.value as f64));
            return Ok(());
        }
        self.are_ones &= row.value == 1;
        let key = (row.ms / self.width_ms, row.direction);
        let single = self.singles.entry(key).or_default();
        single.count += 1;
        single.bytes = single.bytes.saturating_add(row.bytes);
        let before = single.values.len();
        *single.values.entry(rounded(row.value)).or_default() += 1;
        self.latencies += single.values.len() - before;
        while self.singles.len() > WINDOWS_MAX || (self.latencies > LATENCIES_MAX && self.singles.len() > 3) {
            self.widen();
        }
        Ok(())
    }

    /// Doubles the width of the windows of single operations.
    fn widen(&mut self) {
        self.width_ms *= 2;
        for ((window, direction), of) in std::mem::take(&mut self.singles) {
            let into = self.singles.entry((window / 2, direction)).or_default();
            into.count += of.count;
            into.bytes = into.bytes.saturating_add(of.bytes);
            of.values.into_iter().for_each(|(value, count)| *into.values.entry(value).or_default() += count);
        }
        self.latencies = self.singles.values().map(|of| of.values.len()).sum();
    }
}

/// A value with 11 significant bits.
fn rounded(value: u64) -> u64 {
    let shift = (64 - value.leading_zeros()).saturating_sub(11);
    value >> shift << shift
}

/// What the values of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bandwidth,
    Iops,
    Latency,
    Completion,
    Submission,
}

/// The prefix, the kind and the number of the job in the name of a log.
fn parts(name: &str) -> Option<(&str, Kind, Option<u32>)> {
    let name = name.rsplit(['/', '\\']).next()?;
    let stem = name.strip_suffix(".log")?;
    let (stem, number) = match stem.rsplit_once('.') {
        Some((rest, number)) if number.parse::<u32>().is_ok() => (rest, number.parse().ok()),
        _ => (stem, None),
    };
    let (prefix, kind) = stem.rsplit_once('_')?;
    let kind = match kind {
        "bw" => Kind::Bandwidth,
        "iops" => Kind::Iops,
        "lat" => Kind::Latency,
        "clat" => Kind::Completion,
        "slat" => Kind::Submission,
        _ => return None,
    };
    Some((prefix, kind, number))
}

/// Whether a file has a name that fio gives to a log. Those of latencies of submission are often empty.
pub fn is_fio_log_name(name: &str) -> bool {
    parts(name).is_some()
}

/// A log with what its name says.
struct Named {
    name: String,
    prefix: String,
    kind: Kind,
    job: Option<u32>,
    log: FioLog,
}

/// Gives the runs of fio their course over time. Logs that are of none of them are runs of their own.
///
/// # Errors
/// A file and what is wrong with it.
pub fn join_fio_logs(
    logs: Vec<(String, FioLog)>,
    runs: &mut Vec<(String, Checked<LoadRun>)>,
) -> Result<(), (String, Fault)> {
    let mut by_run: BTreeMap<Option<usize>, BTreeMap<String, Vec<Named>>> = BTreeMap::new();
    for (name, log) in logs {
        let Some((prefix, kind, job)) = parts(&name) else {
            let what = "the values of a log of fio have no name, and the name of the file does not say what they are";
            let help = "give it the name that fio gave: PREFIX_bw.1.log, PREFIX_iops.1.log, PREFIX_lat.1.log";
            return Err((name, Fault::at(0, what, help)));
        };
        let named = Named { prefix: prefix.to_string(), kind, job, log, name: name.clone() };
        let of = run_of(&named, runs);
        // Without a run, the logs of a prefix are one.
        let key = if of.is_some() { String::new() } else { named.prefix.clone() };
        by_run.entry(of).or_default().entry(key).or_default().push(named);
    }
    for (of, groups) in by_run {
        for (prefix, logs) in groups {
            match of {
                Some(at) => {
                    let run = &mut runs[at].1;
                    let names: Vec<&str> = logs.iter().map(|log| log.name.as_str()).collect();
                    let joined = course(&logs, Some(&**run))
                        .and_then(|course| run.change(|run| course.beside(run, &names)));
                    if let Err(what) = joined {
                        run.note(format!("{}: not used: {what}", logs[0].name));
                    }
                }
                None => {
                    let name = logs[0].name.clone();
                    let course = course(&logs, None).map_err(|what| (name.clone(), what))?;
                    let run = Checked::of(course.alone(prefix)).map_err(|what| (name.clone(), what))?;
                    runs.push((name, run));
                }
            }
        }
    }
    Ok(())
}

/// The run that wrote a log: that of its job, or the only one with its prefix.
fn run_of(log: &Named, runs: &[(String, Checked<LoadRun>)]) -> Option<usize> {
    let has = |run: &LoadRun, job: Option<u32>| {
        run.fio_logs
            .iter()
            .any(|(prefix, number)| *prefix == log.prefix && job.is_none_or(|job| job == *number))
    };
    let of = |job: Option<u32>| {
        let mut found = (0..runs.len()).filter(|at| has(&runs[*at].1, job));
        found.next().filter(|_| found.next().is_none())
    };
    of(None).or_else(|| of(Some(log.job?)))
}

/// A window of an operation, summed over jobs.
#[derive(Clone, Debug, Default)]
struct Window {
    completed: f64,
    bytes: f64,
    has_iops: bool,
    has_bandwidth: bool,
    /// The sum of latencies weighted with operations, and the weights; the longest.
    latency: (f64, f64),
    longest: f64,
    times: BTreeMap<u64, u64>,
}

/// The course of a load.
struct Course {
    /// Seconds of a window.
    width_s: f64,
    windows: BTreeMap<u64, BTreeMap<u8, Window>>,
    /// When the last value was logged, seconds.
    end_s: f64,
    began_unix_ns: Option<i64>,
    notes: Vec<String>,
}

fn course(logs: &[Named], run: Option<&LoadRun>) -> Result<Course, Fault> {
    let unused = |what: &str| Fault::at(0, what, "import the iops and bw logs of the same run too");
    let used: Vec<&Named> = logs.iter().filter(|log| log.kind != Kind::Submission).collect();
    let mut notes = Vec::new();
    for log in &used {
        if log.log.unread.0 > 0 {
            let (count, line) = log.log.unread;
            notes.push(format!("{}: line {line}: {count} lines are no values and were left out", log.name));
        }
    }
    // Logs of latencies: lat is preferred to clat.
    let latency =
        if used.iter().any(|log| log.kind == Kind::Latency) { Kind::Latency } else { Kind::Completion };
    if latency == Kind::Completion && used.iter().any(|log| log.kind == Kind::Completion) {
        notes.push("response times over time are completion latency (clat), without submission".into());
    }
    let used: Vec<&Named> =
        used.into_iter().filter(|log| log.kind < Kind::Latency || log.kind == latency).collect();
    let are_singles = |log: &&&Named| log.log.means.is_empty() && !log.log.singles.is_empty();
    let factor = match run.is_some_and(|run| run.version.starts_with("2.")) {
        true => 1000,
        false => 1,
    };
    if run.is_none() && used.iter().any(|log| log.kind >= Kind::Latency) {
        notes.push("latencies are nanoseconds, as fio 3 writes them; for logs of fio 2, import the JSON of the run too".into());
    }
    // Times since 1970, or since the begin of the job.
    let first_ms = used.iter().map(|log| log.log.first_ms).min().unwrap_or(0);
    let is_epoch = first_ms > EPOCH_MS;
    let singles: Vec<&Named> = used.iter().filter(are_singles).copied().collect();
    let mut course =
        Course { width_s: 0.0, windows: BTreeMap::new(), end_s: 0.0, began_unix_ns: None, notes };
    if !singles.is_empty() {
        // One log of each job counts the operations; that of latencies has these too.
        let counted = |kind: Kind| {
            singles.iter().any(|log| log.kind == kind && (kind != Kind::Iops || log.log.are_ones))
        };
        let kind = [latency, Kind::Iops, Kind::Bandwidth].into_iter().find(|kind| counted(*kind));
        let kind =
            kind.ok_or_else(|| unused("the log has neither single operations nor means of windows"))?;
        let chosen: Vec<&&Named> = singles.iter().filter(|log| log.kind == kind).collect();
        let last_ms = chosen.iter().map(|log| log.log.last_ms).max().unwrap_or(0);
        let origin_ms = origin(first_ms, 0, is_epoch, run);
        let seconds = last_ms.saturating_sub(origin_ms) as f64 / 1e3;
        // Windows of a second, or a tenth of a short run; those of the logs are powers of two of 100 ms.
        let width_ms = chosen.iter().map(|log| log.log.width_ms).max().unwrap_or(WIDTH_MS);
        let wanted_ms = if seconds > 20.0 { 1000 } else { 200 };
        let fewest = (last_ms.saturating_sub(origin_ms) / width_ms / WINDOWS_MAX as u64).saturating_add(1);
        let width_ms = width_ms.saturating_mul((wanted_ms / width_ms).max(fewest).next_power_of_two());
        course.width_s = width_ms as f64 / 1e3;
        for log in chosen {
            for ((window, direction), of) in &log.log.singles {
                let ms = (window * log.log.width_ms).saturating_sub(origin_ms);
                let into = course.windows.entry(ms / width_ms).or_default().entry(*direction).or_default();
                into.completed += of.count as f64;
                into.bytes += of.bytes as f64;
                (into.has_iops, into.has_bandwidth) = (true, true);
                if kind >= Kind::Latency {
                    for (value, count) in &of.values {
                        *into.times.entry(value.saturating_mul(factor)).or_default() += count;
                    }
                }
            }
        }
        course.began_unix_ns =
            is_epoch.then(|| i64::try_from(origin_ms).ok()?.checked_mul(1_000_000)).flatten();
        return Ok(course);
    }
    let stated = run.and_then(|run| run.fio_period_ms).filter(|ms| *ms > 0);
    let period_ms = stated.or_else(|| used.iter().filter_map(|log| period(&log.log)).max()).unwrap_or(1000);
    let origin_ms = origin(first_ms, period_ms, is_epoch, run);
    course.began_unix_ns = is_epoch.then(|| i64::try_from(origin_ms).ok()?.checked_mul(1_000_000)).flatten();
    // Many short windows are joined.
    let last_ms = used.iter().map(|log| log.log.last_ms).max().unwrap_or(0);
    let joined = (last_ms.saturating_sub(origin_ms) / period_ms / WINDOWS_MAX as u64).saturating_add(1);
    course.width_s = period_ms as f64 / 1e3 * joined as f64;
    for log in used.iter().filter(|log| log.kind < Kind::Latency) {
        for row in rows(&log.log, origin_ms, period_ms) {
            course.end_s = course.end_s.max(row.end_s);
            for (window, seconds) in course.parts(&row) {
                let into = course.windows.entry(window).or_default().entry(row.direction).or_default();
                match log.kind {
                    Kind::Iops => {
                        (into.completed, into.has_iops) = (into.completed + row.value * seconds, true)
                    }
                    _ => (into.bytes, into.has_bandwidth) = (into.bytes + row.value * 1024.0 * seconds, true),
                }
            }
        }
    }
    if course.windows.is_empty() {
        return Err(unused("means of latencies without rates are no course of a load"));
    }
    course.complete(run)?;
    let is_max = run.is_some_and(|run| run.fio_logs_maximum);
    for log in used.iter().filter(|log| log.kind >= Kind::Latency) {
        for row in rows(&log.log, origin_ms, period_ms) {
            let value_ms = row.value * factor as f64 / 1e6;
            for (window, seconds) in course.parts(&row) {
                let of = course.windows.get_mut(&window).and_then(|of| of.get_mut(&row.direction));
                let Some(into) = of else { continue };
                match is_max {
                    true => into.longest = into.longest.max(value_ms),
                    // The jobs have about as many operations each.
                    false => {
                        into.latency = (into.latency.0 + value_ms * seconds, into.latency.1 + seconds);
                    }
                }
            }
        }
    }
    Ok(course)
}

/// A mean with the time that it is of, seconds since the begin of the load.
struct Mean {
    begin_s: f64,
    end_s: f64,
    direction: u8,
    value: f64,
}

/// The means of a log. Each is of the time since the one before of its direction: fio may be late. Windows without operations are
/// not logged, so that a longer time is not all of a window.
fn rows(log: &FioLog, origin_ms: u64, period_ms: u64) -> impl Iterator<Item = Mean> {
    let mut before = [origin_ms; 3];
    log.means.iter().filter_map(move |(ms, direction, value)| {
        let last = before.get_mut(usize::from(*direction))?;
        let from = match ms.saturating_sub(*last) < period_ms.saturating_mul(2) {
            true => *last,
            false => ms.saturating_sub(period_ms),
        };
        *last = *ms;
        let seconds = |ms: u64| ms.saturating_sub(origin_ms) as f64 / 1e3;
        (*ms > from).then_some(Mean {
            begin_s: seconds(from),
            end_s: seconds(*ms),
            direction: *direction,
            value: *value,
        })
    })
}

/// When the load began, on the clock of the logs. `period_ms` is the length of the window that ends at the first time.
fn origin(first_ms: u64, period_ms: u64, is_epoch: bool, run: Option<&LoadRun>) -> u64 {
    let begin_ms = first_ms.saturating_sub(period_ms);
    match run {
        _ if is_epoch => begin_ms,
        // Times are since the start of the job, whose ramp is not logged.
        Some(run) => run.fio_ramp_ms.min(begin_ms + period_ms / 2),
        // An unknown ramp.
        None if begin_ms / 2 > period_ms.max(1000) => begin_ms,
        None => 0,
    }
}

/// Milliseconds from one window to the next: what is most frequent.
fn period(log: &FioLog) -> Option<u64> {
    let times: BTreeSet<u64> = log.means.iter().map(|(ms, ..)| *ms).collect();
    let times: Vec<u64> = times.into_iter().collect();
    let mut steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_unstable();
    // The last window of a job is shorter, and windows without operations are left out.
    steps.get(steps.len() / 2).copied().or(times.first().copied()).filter(|step| *step > 0)
}

impl Course {
    /// The windows that a time is in, each with the seconds there.
    fn parts(&self, of: &Mean) -> impl Iterator<Item = (u64, f64)> + use<> {
        let (width_s, begin_s, end_s) = (self.width_s, of.begin_s, of.end_s);
        // A time has at most two periods, and a window is at least one.
        let first = number::count((begin_s / width_s).floor()).unwrap_or(u64::MAX);
        (first..first.saturating_add(4)).filter_map(move |window| {
            let from_s = window as f64 * width_s;
            let seconds = end_s.min(from_s + width_s) - begin_s.max(from_s);
            (seconds > 1e-9).then_some((window, seconds))
        })
    }

    /// Computes operations of bytes or bytes of operations, with the block size, where a log is missing.
    fn complete(&mut self, run: Option<&LoadRun>) -> Result<(), Fault> {
        let block =
            run.and_then(|run| run.settings.get("workload.block_size")).and_then(model::Level::as_number);
        let all = || self.windows.values().flat_map(BTreeMap::values);
        let (has_iops, has_bytes) = (all().any(|of| of.has_iops), all().any(|of| of.has_bandwidth));
        if !has_iops && block.is_none() {
            let what = "a bw log alone has no operations, as its block size is not known";
            return Err(Fault::at(0, what, "import the iops log, or the JSON of the same run too"));
        }
        if !has_iops {
            self.notes.push("operations over time are computed from bytes and the block size".into());
        }
        for of in self.windows.values_mut().flat_map(BTreeMap::values_mut) {
            match block {
                Some(block) if !has_iops => of.completed = of.bytes / block,
                Some(block) if !has_bytes => of.bytes = of.completed * block,
                _ => {}
            }
        }
        Ok(())
    }

    /// Its intervals, up to the end of the run, with histograms of those that have single operations.
    fn intervals(&self, load: f64, end_s: f64) -> Vec<(Interval, Option<Histogram<u64>>)> {
        let mut found = Vec::new();
        let directions: BTreeSet<u8> = self.windows.values().flat_map(|of| of.keys().copied()).collect();
        let last = self.windows.keys().next_back().copied().unwrap_or(0);
        let idle = Window::default();
        for window in 0..=last {
            let begin_s = window as f64 * self.width_s;
            let until_s = (begin_s + self.width_s).min(end_s);
            // What ended within the last milliseconds has no window of its own.
            if until_s - begin_s < 0.25 * self.width_s {
                continue;
            }
            // Windows without operations are not logged.
            for direction in &directions {
                let of = self.windows.get(&window).and_then(|of| of.get(direction)).unwrap_or(&idle);
                let histogram = of.histogram();
                let times = match &histogram {
                    Some(histogram) => LatencySummary::of(histogram),
                    None if of.completed.round() < 1.0 => LatencySummary::default(),
                    None => LatencySummary {
                        mean: if of.latency.1 > 0.0 { of.latency.0 / of.latency.1 } else { f64::NAN },
                        max: if of.longest > 0.0 { of.longest } else { f64::NAN },
                        ..LatencySummary::ABSENT
                    },
                };
                let operation = OPERATIONS.get(usize::from(*direction)).copied().unwrap_or("trim");
                let interval = Interval {
                    due: None,
                    begin_s,
                    end_s: until_s,
                    phase: Phase::Measure,
                    load,
                    operation: operation.into(),
                    offered: None,
                    issued: None,
                    completed: number::count(of.completed).unwrap_or(u64::MAX),
                    late: None,
                    failed: 0,
                    bytes: number::count(of.bytes).unwrap_or(u64::MAX),
                    concurrency: f64::NAN,
                    response: times,
                    service: times,
                };
                found.push((interval, histogram));
            }
        }
        found
    }

    /// Whether it has nothing but means of windows.
    fn has_means(&self) -> bool {
        self.windows.values().flat_map(BTreeMap::values).all(|of| of.times.is_empty())
    }

    /// A run that has nothing else.
    fn alone(self, prefix: String) -> LoadRun {
        let last = self.windows.keys().next_back().copied().unwrap_or(0);
        let mut run = LoadRun {
            tool: "fio",
            label: prefix,
            workload: "disk",
            seconds: match self.end_s > 0.0 {
                true => self.end_s,
                false => (last + 1) as f64 * self.width_s,
            },
            began_unix_ns: self.began_unix_ns,
            ..LoadRun::default()
        };
        run.notes.extend(self.notes.iter().cloned());
        for (interval, histogram) in self.intervals(1.0, run.seconds) {
            run.interval_times.extend(histogram.map(|histogram| (run.intervals.len(), histogram)));
            run.intervals.push(interval);
        }
        run
    }

    /// Replaces the one interval of each operation of a run by its course. The totals remain those of the run.
    fn beside(self, run: &mut LoadRun, names: &[&str]) {
        let load = run.intervals.first().map_or(1.0, |interval| interval.load);
        let mut intervals = self.intervals(load, run.seconds);
        let known: BTreeSet<String> = intervals.iter().map(|(of, _)| of.operation.clone()).collect();
        if intervals.is_empty() {
            run.notes.push("the logs end before their first window".into());
            return;
        }
        let whole = std::mem::take(&mut run.intervals);
        let end_s = intervals.iter().map(|(of, _)| of.end_s).fold(0.0, f64::max);
        let last_begin_s = intervals.iter().map(|(of, _)| of.begin_s).fold(0.0, f64::max);
        let is_open = run.seconds - end_s > 0.25 * self.width_s;
        let mut points = Vec::new();
        for total in &whole {
            let of = |(interval, _): &(Interval, _)| interval.operation == total.operation;
            let logged = intervals.iter().filter(|one| of(one));
            let (completed, bytes) = logged.fold((0_u64, 0_u64), |(completed, bytes), (interval, _)| {
                (completed.saturating_add(interval.completed), bytes.saturating_add(interval.bytes))
            });
            if !run.histograms.contains_key(&total.operation) {
                points.push((total.operation.clone(), total.response));
            }
            let rest = (total.completed.saturating_sub(completed), total.bytes.saturating_sub(bytes));
            match intervals.iter_mut().rev().find(|one| of(one)) {
                // What the logs do not have, as the last window is not logged, or is rounded.
                Some((last, _)) if !is_open && known.contains(&total.operation) => {
                    (last.completed, last.bytes) = (last.completed + rest.0, last.bytes + rest.1);
                    last.failed = total.failed.min(last.completed);
                }
                _ => {
                    let (begin_s, seconds) =
                        if is_open { (end_s, run.seconds) } else { (last_begin_s, end_s) };
                    // Its mean is that of the run, whose percentiles are those of no window.
                    let mean = |of: LatencySummary| match self.has_means() {
                        true => LatencySummary { mean: of.mean, ..LatencySummary::ABSENT },
                        false => of,
                    };
                    let rest = Interval {
                        response: mean(total.response),
                        service: mean(total.service),
                        begin_s,
                        end_s: seconds,
                        completed: rest.0,
                        bytes: rest.1,
                        failed: total.failed.min(rest.0),
                        ..total.clone()
                    };
                    intervals.push((rest, None));
                }
            }
        }
        // Operations of the same interval are adjacent.
        intervals.sort_by(|(a, _), (b, _)| a.begin_s.total_cmp(&b.begin_s).then(a.end_s.total_cmp(&b.end_s)));
        let has_times = intervals.iter().any(|(_, histogram)| histogram.is_some());
        if has_times {
            // The operations of the logs are all, so that the bins of the whole run would be counted twice.
            run.histograms.retain(|operation, _| !known.contains(operation));
        } else {
            // The percentiles of the whole run, as its JSON has no bins.
            for (operation, times) in points {
                run.set_percentiles(&operation, times);
            }
        }
        for (interval, histogram) in intervals {
            run.interval_times.extend(histogram.map(|histogram| (run.intervals.len(), histogram)));
            run.intervals.push(interval);
        }
        run.notes.extend(self.notes);
        run.notes.push(format!("the course over time is that of {}", names.join(", ")));
        run.began_unix_ns = run.began_unix_ns.or(self.began_unix_ns);
    }
}

impl Window {
    fn histogram(&self) -> Option<Histogram<u64>> {
        if self.times.is_empty() {
            return None;
        }
        let mut histogram = model::study::new_histogram();
        for (value, count) in &self.times {
            // It grows as needed; only a value that no clock counts to is refused.
            let _ = histogram.record_n(*value, *count);
        }
        (!histogram.is_empty()).then_some(histogram)
    }
}

#[cfg(test)]
mod tests;
