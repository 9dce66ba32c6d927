//! The numbers of others are checked before anything is computed with them.
//!
//! A reader gives its runs to [`Content::load`], and there is no other way to a [`Checked`] run. So no reader can pass on a time that
//! is infinite, or a count that was cut off at the largest integer.

use std::fmt::Display;
use std::ops::{Deref, RangeInclusive};

use model::{Interval, LatencySummary, Level, Secret, SecretParts, Shape};

use crate::{Content, Fault, LoadRun};

/// The longest run: ten years.
const RUN_S_MAX: f64 = 315_576_000.0;
pub(crate) const RUN_NS_MAX: i64 = 315_576_000_000_000_000;

/// The longest response time: a day.
pub(crate) const RESPONSE_NS_MAX: u64 = 86_400_000_000_000;
const RESPONSE_MS_MAX: f64 = 86_400_000.0;

/// The most operations: as many as a record can have in a log, 24 hours at 800 million per second.
pub(crate) const COUNT_MAX: u64 = 1 << 46;

/// The most bytes: an exbibyte.
pub(crate) const BYTES_MAX: u64 = 1 << 60;

/// The highest rates: a thousand times what a large machine reaches.
const RATE_PER_S_MAX: f64 = 1e12;
const BYTES_PER_S_MAX: f64 = 1e15;

/// The smallest load: one operation in ten years.
const LOAD_MIN: f64 = 1.0 / RUN_S_MAX;

/// The most operations in flight.
const IN_FLIGHT_MAX: f64 = 1e9;

/// The largest of other numbers.
const NUMBER_MAX: f64 = 1e15;

/// The largest share: that of 100,000 CPUs.
const PERCENT_MAX: f64 = 1e7;

/// The most signs that are shown of a number that cannot be.
const SHOWN_MAX: usize = 24;

/// When a run can have begun: 1970 to 2200.
pub(crate) const BEGIN_UNIX_NS: RangeInclusive<i64> = 0..=7_258_118_400_000_000_000;

/// The largest value of a counter: 2^64 in bytes, bits or picoseconds, with some room.
pub(crate) const COUNTER_MAX: f64 = 1e21;

/// The smallest one. What can be negative is a difference or a temperature; a size that is below it was cut off.
pub(crate) const COUNTER_MIN: f64 = -1e15;

/// Something of another tool whose numbers were checked: each is finite, and one that can be.
#[derive(Clone, Debug)]
pub struct Checked<T>(T);

impl<T> Deref for Checked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Checked<LoadRun> {
    /// Checks a run. Settings and facts that cannot be are left out, which is noted.
    ///
    /// # Errors
    /// Which of its figures cannot be.
    pub(crate) fn of(mut run: LoadRun) -> Result<Self, Fault> {
        let mut left_out = Vec::new();
        run.settings.retain(|name, level| is_kept(name, level, &mut left_out));
        run.facts.retain(|name, level| is_kept(name, level, &mut left_out));
        run.settings.iter_mut().chain(&mut run.facts).for_each(|(name, level)| hide(name, level));
        if let Some(shape) = run.shape.take_if(|shape| !is_shape(shape)) {
            left_out.push(format!("the load {}", shape.describe()));
            run.intervals.iter_mut().for_each(|interval| interval.load = 1.0);
        }
        if let Some(began) = run.began_unix_ns.take_if(|began| !BEGIN_UNIX_NS.contains(began)) {
            left_out.push(format!("the begin {} s since 1970", began / 1_000_000_000));
        }
        let words = |what: String| format!("left out: {what} is not possible");
        run.notes.extend(left_out.into_iter().map(words));
        figures(&run)
            .map_err(|what| Fault::at(run.line, what, "the file is damaged, or of another version"))?;
        Ok(Checked(run))
    }

    /// Another reader of the same run, such as of its logs, changes it.
    ///
    /// # Errors
    /// Which figure is then none that can be; the run is as it was.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut LoadRun)) -> Result<(), Fault> {
        let mut run = self.0.clone();
        change(&mut run);
        *self = Checked::of(run)?;
        Ok(())
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, text: String) {
        self.0.notes.push(text);
    }

    /// Sets the host that it ran on.
    pub fn set_host(&mut self, host: String) {
        self.0.host = host;
    }

    /// Sets when it began, nanoseconds since 1970 UTC.
    ///
    /// # Errors
    /// If it is not in 1970 to 2200.
    pub fn set_begin(&mut self, unix_ns: i64) -> Result<(), Fault> {
        if !BEGIN_UNIX_NS.contains(&unix_ns) {
            let what =
                impossible("the begin", format!("{} s since 1970", unix_ns / 1_000_000_000), "1970 to 2200");
            return Err(Fault::at(self.line, what, ""));
        }
        self.0.began_unix_ns = Some(unix_ns);
        Ok(())
    }
}

impl Content {
    /// The runs of a file, in their order. Those that are not possible are left out, which the first of the others notes.
    ///
    /// # Errors
    /// Why the first one is not possible, if none is.
    pub(crate) fn load(runs: Vec<LoadRun>) -> Result<Content, Fault> {
        let (mut kept, mut faults) = (Vec::new(), Vec::new());
        for run in runs {
            match Checked::of(run) {
                Ok(run) => kept.push(run),
                Err(fault) => faults.push(fault),
            }
        }
        match (kept.first_mut(), faults.is_empty()) {
            (Some(first), _) => {
                faults.iter().for_each(|fault| first.note(format!("left out: {fault}")));
                Ok(Content::Load(kept))
            }
            (None, false) => Err(faults.swap_remove(0)),
            (None, true) => Err(Fault::at(0, "the file has no run", "was it stopped too early?")),
        }
    }
}

/// Whether a setting or a fact can be; else it is named.
fn is_kept(name: &str, level: &Level, left_out: &mut Vec<String>) -> bool {
    let is_possible = is_level(level);
    if !is_possible {
        let shown = level.to_string();
        let short = &shown[..shown.floor_char_boundary(SHOWN_MAX)];
        let more = if short.len() < shown.len() { "..." } else { "" };
        left_out.push(format!("{name} {short}{more}"));
    }
    is_possible
}

fn is_level(level: &Level) -> bool {
    let within = |value: f64, most: f64| (-most..=most).contains(&value);
    match level {
        Level::Count(count) => *count <= BYTES_MAX,
        Level::Bytes(bytes) => *bytes <= BYTES_MAX,
        Level::Number(number) => within(*number, NUMBER_MAX),
        Level::Time(ns) => *ns as f64 <= RUN_S_MAX * 1e9,
        Level::Rate(rate) => within(*rate, RATE_PER_S_MAX),
        Level::BytesPerSecond(rate) => within(*rate, BYTES_PER_S_MAX),
        Level::Percent(percent) => (0.0..=PERCENT_MAX).contains(percent),
        Level::List(levels) => levels.iter().all(is_level),
        Level::Flag(_) | Level::Text(_) | Level::Secret(_) | Level::IoLimits(_) | Level::Unlimited => true,
    }
}

fn is_shape(shape: &Shape) -> bool {
    let most = match shape {
        Shape::Closed { .. } => IN_FLIGHT_MAX,
        Shape::Open { .. } => RATE_PER_S_MAX,
    };
    let largest = shape.profile().largest();
    (LOAD_MIN..=most).contains(&largest)
}

/// Hides credentials in a text that another program has written, such as the options of a job.
fn hide(name: &str, level: &mut Level) {
    match level {
        Level::Text(text) => {
            let last = name.rsplit('.').next().unwrap_or_default();
            let secret = Secret::of_level(last, text);
            let secret = secret.unwrap_or_else(|| Secret::new(text, SecretParts::Command));
            if secret.why_hidden().is_some() {
                *text = secret.to_string();
            }
        }
        Level::List(levels) => levels.iter_mut().for_each(|level| hide(name, level)),
        _ => {}
    }
}

/// Checks the figures of a run; else says which cannot be.
fn figures(run: &LoadRun) -> Result<(), String> {
    let seconds = run.seconds;
    // None is known where it is zero.
    if seconds != 0.0 && !(1e-9..=RUN_S_MAX).contains(&seconds) {
        return Err(impossible("the run time", format!("{seconds:e} s"), "1 ns to 10 years"));
    }
    let (mut completed, mut bytes) = (0_u64, 0_u64);
    for interval in &run.intervals {
        of_interval(interval)?;
        completed = completed.saturating_add(interval.completed);
        bytes = bytes.saturating_add(interval.bytes);
    }
    let counted = run.histograms.values().chain(run.interval_times.values());
    let counted = counted.fold(0_u64, |sum, times| sum.saturating_add(times.len()));
    if completed.max(counted) > COUNT_MAX {
        let most = format!("at most {COUNT_MAX}");
        return Err(impossible("the number of operations", completed.max(counted), &most));
    }
    if bytes > BYTES_MAX {
        return Err(impossible("the number of bytes", bytes, &format!("at most {BYTES_MAX}")));
    }
    if seconds > 0.0 {
        for (what, sum, most) in
            [("operations", completed, RATE_PER_S_MAX), ("bytes", bytes, BYTES_PER_S_MAX)]
        {
            if sum as f64 / seconds > most {
                let rate = format!("{sum} {what} in {seconds:e} s");
                return Err(impossible("the rate", rate, &format!("at most {most:e} per second")));
            }
        }
    }
    Ok(())
}

fn of_interval(interval: &Interval) -> Result<(), String> {
    let (begin_s, end_s) = (interval.begin_s, interval.end_s);
    if !(0.0..=RUN_S_MAX).contains(&begin_s) || !(begin_s..=RUN_S_MAX).contains(&end_s) {
        return Err(impossible("an interval", format!("{begin_s:e} s to {end_s:e} s"), "within the run"));
    }
    if interval.failed > interval.completed {
        let most = format!("at most the {} that completed", interval.completed);
        return Err(impossible("the number of failed operations", interval.failed, &most));
    }
    let concurrency = interval.concurrency;
    if !concurrency.is_nan() && !(0.0..=IN_FLIGHT_MAX).contains(&concurrency) {
        let most = format!("at most {IN_FLIGHT_MAX:e}");
        return Err(impossible("the mean number in flight", format!("{concurrency:e}"), &most));
    }
    of_times(&interval.response)?;
    of_times(&interval.service)
}

fn of_times(times: &LatencySummary) -> Result<(), String> {
    let LatencySummary { min, mean, p50, p90, p95, p99, p999, max, at_least: _ } = *times;
    for (name, ms) in [
        ("shortest", min),
        ("mean", mean),
        ("p50", p50),
        ("p90", p90),
        ("p95", p95),
        ("p99", p99),
        ("p99.9", p999),
        ("longest", max),
    ] {
        if !ms.is_nan() && !(0.0..=RESPONSE_MS_MAX).contains(&ms) {
            let what = format!("the {name} response time");
            return Err(impossible(&what, format!("{ms:e} ms"), "0 ms to a day"));
        }
    }
    Ok(())
}

fn impossible(what: &str, value: impl Display, possible: &str) -> String {
    format!("{what} is not possible: {value} ({possible})")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::load::Whole;

    /// A run of 10 s with 1000 operations.
    fn run() -> LoadRun {
        let mut run = LoadRun { tool: "fio", seconds: 10.0, line: 7, ..LoadRun::default() };
        let times = LatencySummary { mean: 5.0, p99: 9.0, max: 12.0, ..LatencySummary::ABSENT };
        run.add_whole(
            "read",
            Whole { completed: 1000, failed: 0, bytes: 4_096_000, times, concurrency: f64::NAN },
        );
        run
    }

    #[test]
    fn a_figure_that_cannot_be_is_a_reason_to_refuse_a_run() {
        assert!(Checked::of(run()).is_ok());
        type Spoil = fn(&mut LoadRun);
        let cases: [(&str, Spoil); 13] = [
            ("the run time is not possible: 1e305 s", |run| run.seconds = 1e305),
            ("the run time is not possible: NaN s", |run| run.seconds = f64::NAN),
            ("the run time is not possible: -1e0 s", |run| run.seconds = -1.0),
            ("the run time is not possible: 1e-320 s", |run| run.seconds = 1e-320),
            ("the rate is not possible: 4096000 bytes", |run| run.seconds = 1e-9),
            ("the number of operations", |run| run.intervals[0].completed = u64::MAX),
            ("the number of bytes", |run| run.intervals[0].bytes = 1 << 63),
            ("the number of failed operations", |run| run.intervals[0].failed = 1001),
            ("the p99 response time", |run| run.intervals[0].response.p99 = f64::INFINITY),
            ("the mean response time", |run| run.intervals[0].service.mean = -1.0),
            ("the mean number in flight", |run| run.intervals[0].concurrency = 1e300),
            ("an interval", |run| run.intervals[0].end_s = f64::INFINITY),
            ("the number of operations", |run| {
                let mut times: Histogram<u64> = model::study::new_histogram();
                times.record_n(1, 1 << 50).unwrap();
                run.histograms.insert("read".into(), times);
            }),
        ];
        for (expected, change) in cases {
            let mut run = run();
            change(&mut run);
            let fault = Checked::of(run).unwrap_err();
            assert!(fault.what.starts_with(expected) && fault.line == 7, "{expected}: {fault}");
        }
    }

    #[test]
    fn what_another_program_wrote_has_no_credentials_in_the_record() {
        let mut run = run();
        for (name, text, shown) in [
            ("fio.option.http_pass", "S3CRET", "***"),
            ("fio.option.http_s3_key", "S3CRET", "***"),
            ("fio.option.http_swift_auth_token", "S3CRET", "***"),
            ("fio.option.exec_prerun", "mysql -pS3CRET -e x", "mysql -p*** -e x"),
            ("fio.option.filename", "/dev/vdb", "/dev/vdb"),
            ("fio.option.bs", "4k", "4k"),
        ] {
            run.facts.insert(name.into(), Level::Text(text.into()));
            let checked = Checked::of(run.clone()).unwrap();
            assert_eq!(checked.facts[name], Level::Text(shown.into()), "{name}");
        }
    }

    #[test]
    fn what_else_cannot_be_is_left_out_and_noted() {
        let mut run = run();
        run.shape = Some(Shape::closed(u64::MAX));
        run.began_unix_ns = Some(-1);
        run.set("size", Level::Bytes(1 << 63));
        run.set("threads", Level::Count(4));
        run.facts.insert("fio.usr_cpu".into(), Level::Percent(f64::NAN));
        run.facts.insert("number".into(), Level::Number(1e308));
        let run = Checked::of(run).unwrap();
        assert_eq!((run.shape.as_ref(), run.began_unix_ns), (None, None));
        assert_eq!(run.settings.keys().collect::<Vec<_>>(), ["workload.threads"]);
        assert!(run.facts.is_empty());
        let notes = run.notes.join("\n");
        for part in [
            "workload.size",
            "fio.usr_cpu NaN%",
            "number 100000000000000000000000...",
            "the load",
            "the begin",
        ] {
            assert!(notes.contains(&format!("left out: {part}")), "{part}: {notes}");
        }
    }

    #[test]
    fn runs_that_cannot_be_are_left_out_of_a_file() {
        let mut odd = run();
        odd.seconds = f64::INFINITY;
        let Ok(Content::Load(runs)) = Content::load(vec![odd.clone(), run()]) else { panic!("no runs") };
        assert_eq!(runs.len(), 1);
        assert!(runs[0].notes.iter().any(|note| note.starts_with("left out: line 7: the run time")));
        assert!(Content::load(vec![odd]).is_err());
        assert!(Content::load(Vec::new()).is_err());
    }

    #[test]
    fn a_begin_is_a_time_in_these_centuries() {
        let mut run = Checked::of(run()).unwrap();
        assert!(run.set_begin(1_600_000_000_000_000_000).is_ok());
        assert!([-1, i64::MAX].into_iter().all(|unix_ns| run.set_begin(unix_ns).is_err()));
        assert_eq!(run.began_unix_ns, Some(1_600_000_000_000_000_000));
        // A change to figures that cannot be leaves it as it was.
        assert!(run.change(|run| run.seconds = f64::NAN).is_err());
        assert_eq!(run.seconds, 10.0);
    }
}
