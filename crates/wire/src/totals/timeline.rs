//! Operations over time, in a bounded number of intervals.

use model::wire::{WireSeries, WireTimeline};

use crate::operation::{Kind, Operation};

/// The most intervals; when a capture is longer, they become wider.
const INTERVALS_MAX: usize = 600;

/// The first length of an interval, nanoseconds. Then it is 2 and 5 times as long in turn: 200 ms, 1 s, 2 s, 10 s.
const INTERVAL_NS: u64 = 100_000_000;
const FACTORS: [usize; 2] = [2, 5];

#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    operations: u64,
    bytes: u64,
    total_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    interval_ns: u64,
    widened: usize,
    series: Vec<Vec<Interval>>,
    /// Number of intervals so far.
    length: usize,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Timeline { interval_ns: INTERVAL_NS, widened: 0, series: vec![Vec::new(); Kind::COUNT], length: 0 }
    }

    /// Adds an operation that ended at this time after the begin of the capture.
    pub(crate) fn add(&mut self, operation: &Operation, end_ns: u64) {
        let mut place = (end_ns / self.interval_ns) as usize;
        while place >= INTERVALS_MAX {
            self.widen();
            place = (end_ns / self.interval_ns) as usize;
        }
        self.length = self.length.max(place + 1);
        let series = &mut self.series[operation.kind.index()];
        if series.len() <= place {
            series.resize(place + 1, Interval::default());
        }
        let interval = &mut series[place];
        interval.operations += 1;
        interval.bytes += operation.request_bytes + operation.response_bytes;
        interval.total_ns = interval.total_ns.saturating_add(operation.time_ns().unwrap_or(0));
    }

    fn widen(&mut self) {
        let factor = FACTORS[self.widened % FACTORS.len()];
        self.widened += 1;
        self.interval_ns = self.interval_ns.saturating_mul(factor as u64);
        self.length = self.length.div_ceil(factor);
        for series in &mut self.series {
            let wide: Vec<Interval> = series
                .chunks(factor)
                .map(|part| {
                    part.iter().fold(Interval::default(), |sum, of| Interval {
                        operations: sum.operations + of.operations,
                        bytes: sum.bytes + of.bytes,
                        total_ns: sum.total_ns.saturating_add(of.total_ns),
                    })
                })
                .collect();
            *series = wide;
        }
    }

    pub(crate) fn finish(mut self, seconds: f64) -> WireTimeline {
        // A long enough chart with as few points as its width shows well.
        while self.length > 120 && self.interval_ns < 1_000_000_000 && seconds > 60.0 {
            self.widen();
        }
        let mut series = Vec::new();
        for (kind, mut intervals) in Kind::all().zip(self.series) {
            if intervals.is_empty() {
                continue;
            }
            intervals.resize(self.length, Interval::default());
            series.push(WireSeries {
                protocol: kind.protocol().name().into(),
                kind: kind.name().into(),
                operations: intervals.iter().map(|of| of.operations).collect(),
                bytes: intervals.iter().map(|of| of.bytes).collect(),
                mean_ms: intervals
                    .iter()
                    .map(|of| of.total_ns as f64 / of.operations.max(1) as f64 / 1e6)
                    .collect(),
            });
        }
        WireTimeline { interval_s: self.interval_ns as f64 / 1e9, series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Endpoint;

    #[test]
    fn a_long_capture_has_wider_intervals_and_the_same_sums() {
        let end = Endpoint::default();
        let mut operation = Operation::new(Kind::SEARCH, 1, (end, end));
        operation.response_bytes = 7;
        let mut timeline = Timeline::new();
        for second in 0..5000 {
            timeline.add(&operation, second * 1_000_000_000);
        }
        let timeline = timeline.finish(5000.0);
        assert_eq!(timeline.interval_s, 10.0);
        let series = &timeline.series[0];
        assert_eq!((series.operations.len(), series.operations[17], series.bytes[17]), (500, 10, 70));
        assert_eq!(series.operations.iter().sum::<u64>(), 5000);
    }

    #[test]
    fn any_time_is_in_an_interval() {
        let end = Endpoint::default();
        let operation = Operation::new(Kind::SEARCH, 1, (end, end));
        let mut timeline = Timeline::new();
        for end_ns in [0, u64::MAX, u64::MAX / 3] {
            timeline.add(&operation, end_ns);
        }
        assert_eq!(timeline.finish(1.0).series[0].operations.iter().sum::<u64>(), 3);
    }
}
