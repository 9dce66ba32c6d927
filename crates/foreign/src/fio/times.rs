//! The response times of an operation, of one job and of several together.

use hdrhistogram::Histogram;
use model::LatencySummary;
use serde_json::Value;

use super::{count_of, number_of};
use crate::checked::{COUNT_MAX, RESPONSE_NS_MAX};
use crate::load::of_percentiles;

/// Of which time a statistic is: from the submission, or from the end of the submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Total,
    Completion,
}

/// What a job reports.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Minimum, mean and maximum, milliseconds.
    range: Option<(Kind, [f64; 3])>,
    /// Percents with milliseconds.
    points: Vec<(f64, f64)>,
    /// Nanoseconds.
    bins: Option<Histogram<u64>>,
    /// Whether the bins were left out, as one of them cannot be.
    has_impossible_bins: bool,
    of_points: Option<Kind>,
}

impl Times {
    /// Reads the times of an object such as `read`.
    pub(super) fn of(operation: &Value) -> Times {
        let is_ns = operation.get("lat_ns").is_some() || operation.get("clat_ns").is_some();
        let (total, completion, unit_ns) =
            if is_ns { ("lat_ns", "clat_ns", 1) } else { ("lat", "clat", 1000) };
        let mut times = Times::default();
        for (kind, name) in [(Kind::Total, total), (Kind::Completion, completion)] {
            let Some(of) = operation.get(name) else { continue };
            times.read(kind, of, unit_ns);
        }
        times
    }

    fn read(&mut self, kind: Kind, of: &Value, unit_ns: u64) {
        let ms = |value: f64| value * unit_ns as f64 / 1e6;
        let part = |name: &str| of.get(name).and_then(number_of);
        // fio writes zeros for times that it did not measure.
        let is_measured = match of.get("N").and_then(count_of) {
            Some(count) => count > 0,
            None => part("max").is_some_and(|max| max > 0.0),
        };
        if !is_measured {
            return;
        }
        if self.range.is_none() {
            let range = ["min", "mean", "max"].map(|name| part(name).map_or(f64::NAN, ms));
            self.range = Some((kind, range));
        }
        if self.of_points.is_some() {
            return;
        }
        let points = of.get("percentile").and_then(Value::as_object).into_iter().flatten();
        let points =
            points.filter_map(|(percent, value)| Some((percent.parse().ok()?, ms(number_of(value)?))));
        // "0.00" fills places of percentiles that are not computed.
        self.points = points.filter(|(percent, _)| *percent > 0.0).collect();
        let bins = of.get("bins").and_then(Value::as_object).filter(|bins| !bins.is_empty());
        let histogram = bins.map(|bins| {
            let mut histogram = model::study::new_histogram();
            for (value, count) in bins {
                let ns = value.parse::<u64>().ok().and_then(|value| value.checked_mul(unit_ns));
                let ns = ns.filter(|ns| *ns <= RESPONSE_NS_MAX)?;
                let count = count_of(count).filter(|count| *count <= COUNT_MAX)?;
                // The histogram grows as needed, so that all values fit.
                histogram.record_n(ns.max(1), count).ok()?;
            }
            Some(histogram)
        });
        self.has_impossible_bins |= matches!(histogram, Some(None));
        self.bins = histogram.flatten();
        if !self.points.is_empty() || self.bins.is_some() {
            self.of_points = Some(kind);
        }
    }
}

/// The times of several jobs together.
#[derive(Debug, Default)]
pub(super) struct TotalTimes {
    jobs: usize,
    /// Jobs without a minimum, mean and maximum.
    without_range: usize,
    range: [f64; 3],
    weight: f64,
    points: Vec<(f64, f64)>,
    /// None if a job has no bins.
    bins: Option<Histogram<u64>>,
    has_impossible_bins: bool,
    kinds: Vec<Kind>,
    point_kinds: Vec<Kind>,
}

impl TotalTimes {
    /// Adds those of a job with so many operations.
    pub(super) fn add(&mut self, times: Times, count: u64) {
        let weight = count as f64;
        match times.range {
            Some((kind, [min, mean, max])) => {
                self.kinds.push(kind);
                self.range = match self.weight > 0.0 {
                    false => [min, mean, max],
                    true => {
                        let [low, average, high] = self.range;
                        let average = (average * self.weight + mean * weight) / (self.weight + weight);
                        [low.min(min), average, high.max(max)]
                    }
                };
                self.weight += weight;
            }
            None => self.without_range += 1,
        }
        self.point_kinds.extend(times.of_points);
        self.has_impossible_bins |= times.has_impossible_bins;
        self.bins = match (self.jobs, self.bins.take(), times.bins) {
            (0, _, new) => new,
            (_, Some(mut all), Some(new)) => all.add(new).is_ok().then_some(all),
            _ => None,
        };
        self.points = if self.jobs == 0 { times.points } else { Vec::new() };
        self.jobs += 1;
    }

    /// The statistics and the bins. What is doubtful is noted.
    pub(super) fn finish(
        self,
        operation: &str,
        notes: &mut Vec<String>,
    ) -> (LatencySummary, Option<Histogram<u64>>) {
        let mut times = of_percentiles(self.points.iter().copied());
        if self.weight > 0.0 && self.without_range == 0 {
            [times.min, times.mean, times.max] = self.range;
        }
        if self.kinds.contains(&Kind::Completion) {
            notes.push(format!(
                "{operation}: response times are completion latency (clat), without submission"
            ));
        } else if self.point_kinds.contains(&Kind::Completion) {
            notes.push(format!(
                "{operation}: percentiles are of completion latency (clat), without submission; \
                 mean and extremes are of lat"
            ));
        }
        if self.has_impossible_bins {
            notes.push(format!("{operation}: left out: bins with a time or a count that cannot be"));
        }
        let bins = self.bins.filter(|bins| !bins.is_empty());
        let mut computed = Vec::new();
        if let Some(bins) = &bins {
            let parts = [
                ("p50", &mut times.p50, 0.5),
                ("p90", &mut times.p90, 0.9),
                ("p95", &mut times.p95, 0.95),
                ("p99", &mut times.p99, 0.99),
                ("p999", &mut times.p999, 0.999),
            ];
            for (name, part, quantile) in parts {
                if part.is_nan() {
                    *part = bins.value_at_quantile(quantile) as f64 / 1e6;
                    computed.push(name);
                }
            }
        }
        if !computed.is_empty() {
            notes.push(format!("{operation}: {} are computed from the bins", computed.join(", ")));
        } else if self.jobs > 1 && bins.is_none() && !self.point_kinds.is_empty() {
            notes.push(format!(
                "{operation}: percentiles of {} jobs cannot be combined; \
                 run fio with --group_reporting or --output-format=json+",
                self.jobs
            ));
        }
        (times, bins)
    }
}
