//! When a warm-up is over.

/// Intervals that must agree.
pub const WINDOWS: usize = 5;
/// Largest range of throughput over the windows, as a share of its mean.
pub const RANGE_MAX: f64 = 0.20;
/// Largest change along the fitted line over the windows, as a share of the mean.
pub const TREND_MAX: f64 = 0.10;

/// True when the last [`WINDOWS`] throughputs are steady: the rule of the SNIA Performance Test Specification, range
/// within 20 % of the mean and the fitted line within 10 %.
pub fn is_steady(rates: &[f64]) -> bool {
    let Some(start) = rates.len().checked_sub(WINDOWS) else { return false };
    let last = &rates[start..];
    let mean = last.iter().sum::<f64>() / WINDOWS as f64;
    if mean <= 0.0 {
        return false;
    }
    let (low, high) =
        last.iter().fold((f64::MAX, f64::MIN), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let middle = (WINDOWS - 1) as f64 / 2.0;
    let (mut cross, mut square) = (0.0, 0.0);
    for (at, rate) in last.iter().enumerate() {
        let x = at as f64 - middle;
        cross += x * (rate - mean);
        square += x * x;
    }
    let change = cross / square * (WINDOWS - 1) as f64;
    high - low <= RANGE_MAX * mean && change.abs() <= TREND_MAX * mean
}

/// Throughput of the warm-up in windows of at least a second, whatever the interval.
#[derive(Default)]
pub(crate) struct WarmUpRates {
    pub(crate) rates: Vec<f64>,
    completed: u64,
    length_s: f64,
}

impl WarmUpRates {
    pub(crate) fn add(&mut self, completed: u64, length_s: f64) {
        self.completed += completed;
        self.length_s += length_s;
        if self.length_s >= 0.95 {
            self.rates.push(self.completed as f64 / self.length_s);
            (self.completed, self.length_s) = (0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_is_narrow_and_level() {
        for (rates, expected) in [
            (vec![100.0; 4], false),
            (vec![100.0, 101.0, 99.0, 100.0, 100.0], true),
            (vec![50.0, 100.0, 101.0, 99.0, 100.0, 100.0], true),
            (vec![90.0, 95.0, 100.0, 105.0, 110.0], false),
            (vec![100.0, 100.0, 130.0, 100.0, 100.0], false),
            (vec![0.0; 5], false),
        ] {
            assert_eq!(is_steady(&rates), expected, "{rates:?}");
        }
    }
}
