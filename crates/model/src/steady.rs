//! The steady-state rule, which ends a warm-up and judges the measured time.

/// Number of windows in the steady-state rule.
pub const STEADY_WINDOWS: usize = 5;
/// Limit of the range of these windows, as a share of their mean.
pub const STEADY_RANGE: f64 = 0.20;
/// Limit of the rise or fall of the fitted line across these windows, as a share of their mean.
pub const STEADY_SLOPE: f64 = 0.10;

/// Most rounds of a warm-up that ends when throughput is steady.
pub const STEADY_ROUNDS_MAX: u32 = 25;

/// How much the last five windows differ from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excursion {
    /// Highest less lowest, as a share of the mean.
    pub range: f64,
    /// Rise or fall of the fitted line across the windows, as a share of the mean; not negative.
    pub slope: f64,
}

impl Excursion {
    /// Measures the last five windows. None for fewer than five or a mean that is not positive.
    pub fn of_last(windows: &[f64]) -> Option<Self> {
        let last = &windows[windows.len().checked_sub(STEADY_WINDOWS)?..];
        let mean = Some(last.iter().sum::<f64>() / last.len() as f64);
        let mean = mean.filter(|mean| *mean > 0.0 && mean.is_finite())?;
        let highest = last.iter().copied().fold(f64::MIN, f64::max);
        let lowest = last.iter().copied().fold(f64::MAX, f64::min);
        let middle = (STEADY_WINDOWS - 1) as f64 / 2.0;
        let (rise, run) = last.iter().enumerate().fold((0.0, 0.0), |(rise, run), (at, value)| {
            let x = at as f64 - middle;
            (rise + x * (value - mean), run + x * x)
        });
        let slope = (rise / run * (STEADY_WINDOWS - 1) as f64).abs();
        Some(Excursion { range: (highest - lowest) / mean, slope: slope / mean })
    }

    /// Whether the range is at most 20 % and the slope at most 10 %.
    ///
    /// The rule is from the Solid State Storage Performance Test Specification (SNIA).
    pub fn is_steady(self) -> bool {
        self.range <= STEADY_RANGE && self.slope <= STEADY_SLOPE
    }
}

/// Whether the last five windows are steady. None where that cannot be judged.
pub fn steady(windows: &[f64]) -> Option<bool> {
    Excursion::of_last(windows).map(Excursion::is_steady)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_rule() {
        for (windows, expected) in [
            (vec![100.0; 5], Some(true)),
            // A range of exactly 20 % without slope; then a slightly larger one.
            (vec![90.0, 110.0, 100.0, 110.0, 90.0], Some(true)),
            (vec![89.0, 111.0, 100.0, 111.0, 89.0], Some(false)),
            // A rise of exactly 10 % of the mean over the five windows; then a slightly larger one.
            (vec![95.0, 97.5, 100.0, 102.5, 105.0], Some(true)),
            (vec![94.8, 97.4, 100.0, 102.6, 105.2], Some(false)),
            // Only the last five count.
            (vec![5.0, 100.0, 100.0, 100.0, 100.0, 100.0], Some(true)),
            (vec![100.0; 4], None),
            (vec![0.0; 5], None),
            (vec![f64::NAN; 5], None),
        ] {
            assert_eq!(steady(&windows), expected, "{windows:?}");
        }
    }
}
