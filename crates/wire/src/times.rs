//! Times of operations: their distribution in constant memory.

use hdrhistogram::Histogram;
use model::wire::WireTimes;

/// Times are exact to so many digits in percentiles; mean and maximum are exact.
const DIGITS: u8 = 3;

/// Longer times count as this long in percentiles: one day.
const LONGEST_NS: u64 = 86_400_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Times {
    /// None until the first value, and if a histogram cannot be made.
    histogram: Option<Histogram<u32>>,
    count: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Times {
    pub(crate) fn record(&mut self, ns: u64) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok();
        }
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// In milliseconds; none without a value.
    pub(crate) fn milliseconds(&self) -> Option<WireTimes> {
        if self.count == 0 {
            return None;
        }
        let quantile = |share: f64| {
            let ns = self.histogram.as_ref().map_or(0, |of| of.value_at_quantile(share));
            ns.min(self.max_ns) as f64 / 1e6
        };
        Some(WireTimes {
            count: self.count,
            mean: self.total_ns as f64 / self.count as f64 / 1e6,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: self.max_ns as f64 / 1e6,
        })
    }
}
