//! Times in buckets of fixed bounds.

use hdrhistogram::Histogram;

/// The upper bounds in nanoseconds, inclusive: 1, 2.5 and 5 of each power of ten from 1 us to 100 s.
pub(crate) const BOUNDS_NS: [u64; 25] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// Seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Times by buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Buckets {
    /// How many are in each bucket; the last one has no upper bound.
    pub(crate) counts: [u64; BOUNDS_NS.len() + 1],
    /// How many there are.
    pub(crate) count: u64,
    /// Their sum in seconds.
    pub(crate) sum_s: f64,
}

impl Buckets {
    /// One kind of times: of operations that ended, and of those that never did.
    pub(crate) fn of(ended: &Histogram<u64>, never: Option<&Histogram<u64>>) -> Buckets {
        let mut buckets = Buckets::default();
        buckets.add(ended, never);
        buckets
    }

    /// Adds histograms of nanoseconds. How long an operation takes that never ended is not known: it is below no bound, and the
    /// sum has the time that it had.
    pub(crate) fn add(&mut self, ended: &Histogram<u64>, never: Option<&Histogram<u64>>) {
        self.add_ended(ended);
        if let Some(never) = never.filter(|never| !never.is_empty()) {
            let last = &mut self.counts[BOUNDS_NS.len()];
            *last = last.saturating_add(never.len());
            self.add_count(never);
        }
    }

    fn add_count(&mut self, histogram: &Histogram<u64>) {
        self.count = self.count.saturating_add(histogram.len());
        if !histogram.is_empty() {
            self.sum_s += histogram.mean() * histogram.len() as f64 / 1e9;
        }
    }

    fn add_ended(&mut self, histogram: &Histogram<u64>) {
        for step in histogram.iter_recorded() {
            // The histogram knows a time to three digits; a time on a bound belongs below it.
            let ns = histogram.lowest_equivalent(step.value_iterated_to());
            let at = BOUNDS_NS.partition_point(|bound| *bound < ns);
            self.counts[at] = self.counts[at].saturating_add(step.count_at_value());
        }
        self.add_count(histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_bucket_of_their_bound() {
        let mut histogram = model::study::new_histogram();
        for ns in [1, 1_000, 1_001, 2_500, 2_503, 100_000_000_000, 101_000_000_000] {
            histogram.record(ns).unwrap();
        }
        let none = model::study::new_histogram();
        let mut buckets = Buckets::of(&histogram, None);
        buckets.add(&none, Some(&none));
        assert_eq!((buckets.counts[0], buckets.counts[1], buckets.counts[2]), (2, 2, 1));
        assert_eq!((buckets.counts[24], buckets.counts[25], buckets.count), (1, 1, 7));
        assert!((buckets.sum_s - 201.0).abs() < 0.2, "{}", buckets.sum_s);
        // What had not ended after 2 us may have taken any time.
        let mut never = model::study::new_histogram();
        never.record_n(2_000, 3).unwrap();
        buckets.add(&none, Some(&never));
        assert_eq!((buckets.counts[1], buckets.counts[25], buckets.count), (2, 4, 10));
    }
}
