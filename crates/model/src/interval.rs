//! The measurements in one interval of a run, and events.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Level;

/// The part of a trial an instant belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Data and payloads are created; nothing is measured.
    Prepare,
    /// The load runs, but is not counted yet.
    WarmUp,
    /// The load runs and is counted.
    Measure,
    /// No new operations; the engine waits for those in flight.
    CoolDown,
    /// The changes of the factors are undone.
    Restore,
}

impl Phase {
    /// Its name in files and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::WarmUp => "warm_up",
            Phase::Measure => "measure",
            Phase::CoolDown => "cool_down",
            Phase::Restore => "restore",
        }
    }

    /// The phase with this name.
    pub fn from_word(word: &str) -> Option<Phase> {
        [Phase::Prepare, Phase::WarmUp, Phase::Measure, Phase::CoolDown, Phase::Restore]
            .into_iter()
            .find(|phase| phase.word() == word)
    }
}

/// Some of the statistics of a summary, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Statistics(u8);

impl Statistics {
    /// None of them.
    pub const NONE: Statistics = Statistics(0);

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Whether the one with this name, as in [`LatencySummary::PARTS`], is among them.
    pub fn has(self, name: &str) -> bool {
        LatencySummary::PARTS.iter().position(|part| *part == name).is_some_and(|at| self.0 & 1 << at != 0)
    }

    /// Those of either.
    pub fn or(self, other: Statistics) -> Statistics {
        Statistics(self.0 | other.0)
    }

    /// Adds the one with this name.
    pub fn add(&mut self, name: &str) {
        if let Some(at) = LatencySummary::PARTS.iter().position(|part| *part == name) {
            self.0 |= 1 << at;
        }
    }
}

impl From<Vec<String>> for Statistics {
    fn from(names: Vec<String>) -> Self {
        let mut statistics = Statistics::default();
        names.iter().for_each(|name| statistics.add(name));
        statistics
    }
}

impl From<Statistics> for Vec<String> {
    fn from(statistics: Statistics) -> Self {
        LatencySummary::PARTS.into_iter().filter(|name| statistics.has(name)).map(String::from).collect()
    }
}

/// Times in milliseconds. NaN (`null` in JSON) where there is no value: nothing was observed, or a foreign result does not have
/// the statistic. A distribution without observations has no statistic at all: see [`LatencySummary::ABSENT`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Shortest.
    #[serde(with = "absent")]
    pub min: f64,
    /// Arithmetic mean.
    #[serde(with = "absent")]
    pub mean: f64,
    /// Median.
    #[serde(with = "absent")]
    pub p50: f64,
    /// 90th percentile.
    #[serde(with = "absent")]
    pub p90: f64,
    /// 95th percentile.
    #[serde(with = "absent")]
    pub p95: f64,
    /// 99th percentile.
    #[serde(with = "absent")]
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(with = "absent")]
    pub p999: f64,
    /// Longest.
    #[serde(with = "absent")]
    pub max: f64,
    /// The statistics of which only a lower bound is known, because operations are censored: they took longer than they were
    /// observed. The true value is at least the stated one.
    #[serde(default, skip_serializing_if = "Statistics::is_empty")]
    pub at_least: Statistics,
}

/// A number that may be absent: NaN in memory, `null` in JSON.
pub(crate) mod absent {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| value.is_finite()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// The same for the median, the smallest and the largest value.
pub(crate) mod absent_three {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(values: &[f64; 3], to: S) -> Result<S::Ok, S::Error> {
        values.map(|value| Some(value).filter(|value| value.is_finite())).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 3], D::Error> {
        Ok(<[Option<f64>; 3]>::deserialize(from)?.map(|value| value.unwrap_or(f64::NAN)))
    }
}

impl Default for LatencySummary {
    /// [`LatencySummary::ABSENT`]: zero would be a time.
    fn default() -> Self {
        LatencySummary::ABSENT
    }
}

impl LatencySummary {
    /// The percentiles, with their names.
    pub fn percentiles_mut(&mut self) -> [(&'static str, &mut f64); 5] {
        [
            ("p50", &mut self.p50),
            ("p90", &mut self.p90),
            ("p95", &mut self.p95),
            ("p99", &mut self.p99),
            ("p999", &mut self.p999),
        ]
    }

    /// The summary of a histogram of nanoseconds; absent if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return LatencySummary::ABSENT;
        }
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |q: f64| ms(histogram.value_at_quantile(q));
        LatencySummary {
            min: ms(histogram.min()),
            mean: histogram.mean() / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: ms(histogram.max()),
            at_least: Statistics::default(),
        }
    }

    /// The summary of operations of which some are censored: `ended` has the times of those that ended, `censored` the time
    /// that each of the others had, both in nanoseconds. A statistic is exact where no time that the censored operations can
    /// still have changes it (type I right censoring; Kalbfleisch and Prentice, The Statistical Analysis of Failure Time
    /// Data, 2002, section 1.4). Otherwise it is a lower bound, and named in `at_least`.
    pub fn of_censored(ended: &Histogram<u64>, censored: &Histogram<u64>) -> Self {
        if censored.is_empty() {
            return LatencySummary::of(ended);
        }
        let mut all = ended.clone();
        // Only a histogram with a fixed size can fail, and these grow.
        let added = all.add(censored);
        debug_assert!(added.is_ok());
        let mut summary = LatencySummary::of(&all);
        summary.at_least.add("mean");
        summary.at_least.add("max");
        if ended.is_empty() || censored.min() < ended.min() {
            summary.at_least.add("min");
        }
        for (name, share) in LatencySummary::SHARES {
            // Even if no censored operation had ended yet, as many operations are this fast.
            let rank = (share * all.len() as f64).ceil();
            let value = all.value_at_quantile(share);
            if (ended.count_between(0, value) as f64) < rank {
                summary.at_least.add(name);
            }
        }
        summary
    }

    /// The percentiles: the name, and the share of the operations that are as fast.
    pub const SHARES: [(&'static str, f64); 5] =
        [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

    /// Times of which nothing is known.
    pub const ABSENT: LatencySummary = LatencySummary {
        min: f64::NAN,
        mean: f64::NAN,
        p50: f64::NAN,
        p90: f64::NAN,
        p95: f64::NAN,
        p99: f64::NAN,
        p999: f64::NAN,
        max: f64::NAN,
        at_least: Statistics::NONE,
    };

    /// The statistic with this name, and whether it is only a lower bound; none if there is no value.
    pub fn bounded(&self, name: &str) -> Option<(f64, bool)> {
        let value = self.part(name).filter(|value| value.is_finite())?;
        Some((value, self.at_least.has(name)))
    }

    /// The statistic with this name: `p95`, `mean`, ...
    pub fn part(&self, name: &str) -> Option<f64> {
        Some(match name {
            "min" => self.min,
            "mean" => self.mean,
            "p50" => self.p50,
            "p90" => self.p90,
            "p95" => self.p95,
            "p99" => self.p99,
            "p999" => self.p999,
            "max" => self.max,
            _ => return None,
        })
    }

    /// The names that [`LatencySummary::part`] supports, in order.
    pub const PARTS: [&'static str; 8] = ["min", "mean", "p50", "p90", "p95", "p99", "p999", "max"];
}

/// One interval of one operation: a line of `intervals.csv`. Times are seconds on the trial's clock, which
/// begins with the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
    /// The phase of the trial.
    pub phase: Phase,
    /// The intended load at the end of the interval: users, or operations per second.
    pub load: f64,
    /// The name of the operation, for example `read`.
    pub operation: String,
    /// Arrivals that were due; none in a foreign result.
    pub offered: Option<u64>,
    /// Operations handed to the system; none in a foreign result.
    pub issued: Option<u64>,
    /// Completed operations, successful or failed.
    pub completed: u64,
    /// Operations issued more than 1 ms after their intended time; none in a foreign result.
    pub late: Option<u64>,
    /// Failed operations (a part of `completed`).
    pub failed: u64,
    /// Bytes moved by successful operations.
    pub bytes: u64,
    /// Mean number in flight, computed from the measured time in flight, not from rates. NaN in a foreign result that does
    /// not have it.
    #[serde(with = "absent")]
    pub concurrency: f64,
    /// Response time: from the intended start to completion.
    pub response: LatencySummary,
    /// Service time: from the actual start to completion.
    pub service: LatencySummary,
    /// What became of the operations that were due in the measured time; none in a foreign result and in records of
    /// older versions, where the times are those of the operations that completed in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
}

/// Operations that were due in the measured time, whether they ended in it or later. The distribution of the times and the
/// goals are about these; throughput is about those that completed in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Due {
    /// Those that ended in this interval: as many have a time.
    pub ended: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those that had not ended when the wait for them was over. Only an interval after the measured time has any.
    pub censored: u64,
    /// Those of them that were never handed to the system.
    pub unsent: u64,
    /// Operations that were due while all operations that may be in flight were, and were issued later or never: they waited
    /// for the system, not for the load generator.
    pub held: u64,
    /// The time that the operations in flight at the end of the interval were in flight until then, all together: seconds.
    pub in_flight_s: f64,
}

impl Due {
    /// Adds the operations of another interval or operation. `in_flight_s` is added too: it is a sum over operations.
    pub fn add(&mut self, other: &Due) {
        for (ours, theirs) in [
            (&mut self.ended, other.ended),
            (&mut self.failed, other.failed),
            (&mut self.censored, other.censored),
            (&mut self.unsent, other.unsent),
            (&mut self.held, other.held),
        ] {
            *ours = ours.saturating_add(theirs);
        }
        self.in_flight_s += other.in_flight_s;
    }
}

impl Interval {
    /// Number of operations whose times the histograms of this interval have.
    pub fn timed(&self) -> u64 {
        match (&self.due, self.phase) {
            (Some(due), Phase::Measure | Phase::CoolDown) => due.ended,
            _ => self.completed,
        }
    }

    /// Length in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_s - self.begin_s
    }

    /// Successful operations per second.
    pub fn rate_per_s(&self) -> f64 {
        let length = self.length_s();
        if length > 0.0 { self.completed.saturating_sub(self.failed) as f64 / length } else { 0.0 }
    }

    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        let length = self.length_s();
        if length > 0.0 { self.bytes as f64 / length } else { 0.0 }
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A phase began.
    Phase,
    /// A setting was set or undone.
    Setting,
    /// The first operation that failed in a certain way.
    Error,
    /// Throughput became steady or unsteady.
    Steadiness,
    /// A source became unreadable or readable again.
    Source,
    /// A message of the workload: a pass ended, a command printed its first line.
    Workload,
    /// A launch of a command was completed; see [`crate::Launch`].
    Launch,
    /// The trial was interrupted or ended early.
    Ended,
}

/// An event: a line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds on the trial's clock; negative during the preparation.
    pub at_s: f64,
    /// Its kind.
    pub kind: EventKind,
    /// One sentence.
    pub text: String,
    /// Its numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Level>,
}
