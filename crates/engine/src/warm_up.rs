//! Throughput while a warm-up lasts.

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
