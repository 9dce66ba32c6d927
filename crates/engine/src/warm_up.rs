//! Throughput during a warm-up.

use model::{Nanos, SECOND};

/// A round is over a little before its end, since intervals rarely end exactly with it.
const SHORTEST: f64 = 0.95;

/// Throughput of the warm-up in rounds, for any interval length.
pub(crate) struct WarmUpRates {
    pub(crate) rates: Vec<f64>,
    /// Completed operations of each round.
    pub(crate) counts: Vec<f64>,
    round_s: f64,
    completed: u64,
    length_s: f64,
}

impl WarmUpRates {
    /// Rates of rounds of this length.
    pub(crate) fn new(round: Nanos) -> Self {
        WarmUpRates {
            rates: Vec::new(),
            counts: Vec::new(),
            round_s: round as f64 / SECOND as f64,
            completed: 0,
            length_s: 0.0,
        }
    }

    /// Adds an interval.
    pub(crate) fn add(&mut self, completed: u64, length_s: f64) {
        self.completed += completed;
        self.length_s += length_s;
        if self.length_s >= SHORTEST * self.round_s {
            self.rates.push(self.completed as f64 / self.length_s);
            self.counts.push(self.completed as f64);
            (self.completed, self.length_s) = (0, 0.0);
        }
    }
}
