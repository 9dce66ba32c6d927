//! Single requests, as logs of tools have them, to a run with intervals and histograms.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use model::{Interval, LatencySummary, Phase, SecretParts};

use crate::checked::{BEGIN_UNIX_NS, BYTES_MAX, RESPONSE_NS_MAX};
use crate::lines::counted;
use crate::{Fault, LoadRun};

/// The most operations with different names; the others are together.
const OPERATIONS_MAX: usize = 200;
const OTHERS: &str = "(other)";

/// The longest name of an operation; what is beyond is left out.
const NAME_BYTES_MAX: usize = 512;

/// The most intervals; when a log is longer, they become ten times as wide.
const INTERVALS_MAX: usize = 5_000;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) operation: &'a str,
    /// When it began, nanoseconds since 1970 UTC.
    pub(crate) begin_unix_ns: i64,
    pub(crate) took_ns: u64,
    pub(crate) has_failed: bool,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    completed: u64,
    failed: u64,
    bytes: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Part {
    fn add(&mut self, other: &Part) {
        self.min_ns = if self.completed == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.completed += other.completed;
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

struct OfOperation {
    parts: BTreeMap<i64, Part>,
    times: Histogram<u64>,
}

/// All requests of a log. Memory is bounded by the number of operations and intervals, not of requests.
pub(crate) struct Requests {
    operations: BTreeMap<String, OfOperation>,
    /// Length of an interval.
    interval_ns: i64,
    first_ns: Option<i64>,
    last_ns: i64,
    in_flight_ns: f64,
    /// Requests whose numbers cannot be.
    impossible: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            operations: BTreeMap::new(),
            interval_ns: 1_000_000_000,
            first_ns: None,
            last_ns: i64::MIN,
            in_flight_ns: 0.0,
            impossible: 0,
        }
    }
}

impl Requests {
    /// Adds a request. It counts in the interval in which it ended. One whose numbers cannot be is counted apart.
    pub(crate) fn add(&mut self, request: &Request<'_>) {
        let is_possible = request.took_ns <= RESPONSE_NS_MAX
            && request.bytes <= BYTES_MAX
            && BEGIN_UNIX_NS.contains(&request.begin_unix_ns);
        if !is_possible {
            self.impossible += 1;
            return;
        }
        let end_ns = request.begin_unix_ns.saturating_add(i64::try_from(request.took_ns).unwrap_or(i64::MAX));
        self.first_ns =
            Some(self.first_ns.map_or(request.begin_unix_ns, |first| first.min(request.begin_unix_ns)));
        self.last_ns = self.last_ns.max(end_ns);
        self.in_flight_ns += request.took_ns as f64;
        let name = &request.operation[..request.operation.floor_char_boundary(NAME_BYTES_MAX)];
        // Tools name requests by their URL, which may have a password or key.
        let shown = name.contains("://").then(|| SecretParts::Url.hide(name));
        let name = shown.as_deref().unwrap_or(name);
        let name = match self.operations.len() >= OPERATIONS_MAX && !self.operations.contains_key(name) {
            true => OTHERS,
            false => name,
        };
        if !self.operations.contains_key(name) {
            let new = OfOperation { parts: BTreeMap::new(), times: model::study::new_histogram() };
            self.operations.insert(name.to_string(), new);
        }
        let Some(of) = self.operations.get_mut(name) else { return };
        // The histogram grows as needed, so that all values fit.
        let _ = of.times.record(request.took_ns.max(1));
        let part = Part {
            completed: 1,
            failed: u64::from(request.has_failed),
            bytes: request.bytes,
            total_ns: request.took_ns,
            min_ns: request.took_ns,
            max_ns: request.took_ns,
        };
        of.parts.entry(end_ns.div_euclid(self.interval_ns)).or_default().add(&part);
        if of.parts.len() > INTERVALS_MAX {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(10);
        for of in self.operations.values_mut() {
            let mut wide: BTreeMap<i64, Part> = BTreeMap::new();
            for (place, part) in &of.parts {
                wide.entry(place.div_euclid(10)).or_default().add(part);
            }
            of.parts = wide;
        }
    }

    /// Adds all requests of another log.
    pub(crate) fn merge(&mut self, mut other: Requests) {
        while self.interval_ns < other.interval_ns {
            self.widen();
        }
        while other.interval_ns < self.interval_ns {
            other.widen();
        }
        for (name, of) in other.operations {
            let Some(known) = self.operations.get_mut(&name) else {
                self.operations.insert(name, of);
                continue;
            };
            // Both grow as needed.
            let _ = known.times.add(&of.times);
            for (place, part) in &of.parts {
                known.parts.entry(*place).or_default().add(part);
            }
        }
        self.first_ns = self.first_ns.into_iter().chain(other.first_ns).min();
        self.last_ns = self.last_ns.max(other.last_ns);
        self.in_flight_ns += other.in_flight_ns;
        self.impossible += other.impossible;
    }

    /// The run; none without requests.
    ///
    /// # Errors
    /// If the numbers of all requests cannot be.
    pub(crate) fn finish(self, tool: &'static str, workload: &'static str) -> Result<Option<LoadRun>, Fault> {
        const POSSIBLE: &str = "longer than a day, not in 1970 to 2200, or of more than an exbibyte";
        let impossible = counted(self.impossible, "request");
        let Some(first_ns) = self.first_ns else {
            return match self.impossible {
                0 => Ok(None),
                _ => Err(Fault::at(0, format!("{impossible} cannot be: {POSSIBLE}"), "the file is damaged")),
            };
        };
        let seconds = |ns: i64| ns.saturating_sub(first_ns) as f64 / 1e9;
        let whole_s = seconds(self.last_ns).max(1e-9);
        let mut run =
            LoadRun { tool, workload, began_unix_ns: Some(first_ns), seconds: whole_s, ..LoadRun::default() };
        run.set_scripted();
        if self.impossible > 0 {
            run.notes.push(format!("left out: {impossible} that cannot be: {POSSIBLE}"));
        }
        if tool != "k6" {
            run.set_time_step_ms(1.0);
        }
        let concurrency = self.in_flight_ns / 1e9 / whole_s;
        let total: f64 = self.in_flight_ns.max(1.0);
        let places = self.operations.values().flat_map(|of| of.parts.keys());
        let (low, high) = places.fold((i64::MAX, i64::MIN), |(low, high), at| (low.min(*at), high.max(*at)));
        // Without gaps, so that an interval in which nothing ended is one; a log with long gaps has only those with requests.
        let is_dense = high.saturating_sub(low) < INTERVALS_MAX as i64;
        let mut ends: Vec<i64> = match is_dense {
            true => (low..=high).collect(),
            false => self.operations.values().flat_map(|of| of.parts.keys().copied()).collect(),
        };
        ends.sort_unstable();
        ends.dedup();
        for place in ends {
            let begin_s = seconds(place.saturating_mul(self.interval_ns).max(first_ns));
            let end_s = seconds(place.saturating_add(1).saturating_mul(self.interval_ns).min(self.last_ns));
            let is_idle = self.operations.values().all(|of| !of.parts.contains_key(&place));
            for (at, (operation, of)) in self.operations.iter().enumerate() {
                let part = match of.parts.get(&place) {
                    Some(part) => *part,
                    // One row shows that nothing ended.
                    None if is_idle && at == 0 => Part::default(),
                    None => continue,
                };
                let ms = |ns: u64| ns as f64 / 1e6;
                let times = match part.completed {
                    0 => LatencySummary::default(),
                    completed => LatencySummary {
                        min: ms(part.min_ns),
                        mean: ms(part.total_ns) / completed as f64,
                        max: ms(part.max_ns),
                        ..LatencySummary::ABSENT
                    },
                };
                let of_all = of.times.mean() * of.times.len() as f64 / total;
                run.intervals.push(Interval {
                    due: None,
                    begin_s,
                    end_s: end_s.max(begin_s),
                    phase: Phase::Measure,
                    load: concurrency,
                    operation: operation.clone(),
                    offered: None,
                    issued: None,
                    completed: part.completed,
                    late: None,
                    failed: part.failed,
                    bytes: part.bytes,
                    concurrency: concurrency * of_all,
                    response: times,
                    service: times,
                });
            }
        }
        run.histograms = self.operations.into_iter().map(|(name, of)| (name, of.times)).collect();
        Ok(Some(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_intervals_and_a_histogram() {
        let mut requests = Requests::default();
        let second = 1_000_000_000;
        for at in 0..10_i64 {
            requests.add(&Request {
                operation: "login",
                begin_unix_ns: 1_000 * second + at * second / 2,
                took_ns: 100_000_000 + 1_000_000 * at as u64,
                has_failed: at == 3,
                bytes: 10,
            });
        }
        let run = requests.finish("jmeter", "http").unwrap().unwrap();
        assert_eq!(run.began_unix_ns, Some(1_000 * second));
        assert!((run.seconds - 4.609).abs() < 1e-9, "{}", run.seconds);
        assert_eq!(run.intervals.len(), 5);
        let counts: Vec<(u64, u64)> = run.intervals.iter().map(|of| (of.completed, of.failed)).collect();
        assert_eq!(counts, [(2, 0), (2, 1), (2, 0), (2, 0), (2, 0)]);
        assert_eq!(run.intervals[0].response.min, 100.0);
        assert!(run.intervals[0].response.p99.is_nan());
        assert_eq!(run.histograms["login"].len(), 10);
        // Little's law: 10 requests of 104.5 ms in 4.609 s.
        assert!(
            (run.intervals[0].concurrency - 1.045 / 4.609).abs() < 1e-3,
            "{}",
            run.intervals[0].concurrency
        );
        assert_eq!(run.intervals[4].end_s, run.seconds);
    }

    #[test]
    fn two_logs_are_one() {
        let second = 1_000_000_000;
        let request = |operation, at: i64| Request {
            operation,
            begin_unix_ns: (1 + at) * second,
            took_ns: 500_000_000,
            has_failed: false,
            bytes: 1,
        };
        let (mut one, mut other) = (Requests::default(), Requests::default());
        for at in 0..20 {
            one.add(&request("a", at));
        }
        for at in 0..60_000 {
            other.add(&request("a", at));
        }
        other.add(&request("http://u:secret@h/?token=secret", -1));
        one.merge(other);
        let run = one.finish("jmeter", "http").unwrap().unwrap();
        assert_eq!(run.intervals.iter().map(|of| of.completed).sum::<u64>(), 60_021);
        assert_eq!(run.began_unix_ns, Some(0));
        assert_eq!(run.histograms["a"].len(), 60_020);
        assert!(run.histograms.keys().all(|name| !name.contains("secret")), "{:?}", run.histograms.keys());
    }

    #[test]
    fn a_log_of_years_has_a_bounded_number_of_intervals() {
        let mut requests = Requests::default();
        for at in 0..30_000_i64 {
            let name = format!("page {}", at % 500);
            requests.add(&Request {
                operation: &name,
                begin_unix_ns: at * 3_600_000_000_000,
                took_ns: 5,
                has_failed: false,
                bytes: 0,
            });
        }
        requests.add(&Request {
            operation: &"é".repeat(400),
            begin_unix_ns: 0,
            took_ns: 1,
            has_failed: false,
            bytes: 0,
        });
        let run = requests.finish("jmeter", "http").unwrap().unwrap();
        assert_eq!(run.histograms.len(), OPERATIONS_MAX + 1);
        assert_eq!(run.intervals.iter().map(|of| of.completed).sum::<u64>(), 30_001);
        assert!(Requests::default().finish("jmeter", "http").unwrap().is_none());
    }
}
