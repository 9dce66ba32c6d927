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

/// Times in milliseconds. All zero when nothing completed. NaN (`null` in JSON) where a foreign result does not have the
/// statistic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

    /// The summary of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return LatencySummary::default();
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
        }
    }

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
    };

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
}

impl Interval {
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
