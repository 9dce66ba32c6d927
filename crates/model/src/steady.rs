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

/// Limit of the dispersion of five counts: the quantile of 99.9 % of the chi-squared distribution with four degrees of freedom.
const DISPERSION_MAX: f64 = 18.47;
/// Limit of the trend of five counts in standard deviations: 99.9 % of the normal distribution, two-sided.
const TREND_MAX: f64 = 3.29;

/// Whether the last five counts differ no more than those of independent events at a constant rate do by chance in 999 of 1000
/// cases: few operations per window never look steady. Fisher's index of dispersion, and the trend of Poisson counts
/// (Cox and Lewis, The Statistical Analysis of Series of Events, 1966).
pub fn differ_by_chance(counts: &[f64]) -> bool {
    let Some(first) = counts.len().checked_sub(STEADY_WINDOWS) else { return false };
    let last = &counts[first..];
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    if !(mean > 0.0 && mean.is_finite()) {
        return false;
    }
    let middle = (STEADY_WINDOWS - 1) as f64 / 2.0;
    let (mut dispersion, mut trend, mut spread) = (0.0, 0.0, 0.0);
    for (at, count) in last.iter().enumerate() {
        let x = at as f64 - middle;
        dispersion += (count - mean).powi(2) / mean;
        trend += x * (count - mean);
        spread += x * x;
    }
    dispersion <= DISPERSION_MAX && trend.abs() <= TREND_MAX * (mean * spread).sqrt()
}

/// Whether the last five windows are steady: by the rule, or as far as so few operations can show. `window_s` is their length.
/// None where that cannot be judged.
pub fn steady(rates_per_s: &[f64], window_s: f64) -> Option<bool> {
    let excursion = Excursion::of_last(rates_per_s)?;
    let counts: Vec<f64> = rates_per_s.iter().map(|rate| rate * window_s).collect();
    Some(excursion.is_steady() || differ_by_chance(&counts))
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
            // Of a million operations each, so that chance has no part in it.
            assert_eq!(steady(&windows, 1e4), expected, "{windows:?}");
        }
    }

    #[test]
    fn few_operations_differ_by_chance() {
        for (counts, expected) in [
            // Of a load that was steady, two seconds each.
            ([40.0, 36.0, 36.0, 36.0, 32.0], true),
            ([76.0, 116.0, 120.0, 116.0, 112.0], true),
            ([12.0, 20.0, 20.0, 16.0, 12.0], true),
            // A trend, and a system that did nothing for one window.
            ([10.0, 15.0, 20.0, 25.0, 30.0], false),
            ([20.0, 22.0, 0.0, 19.0, 21.0], false),
            // Twice the difference is no chance with ten times the operations.
            ([400.0, 360.0, 360.0, 360.0, 320.0], true),
            ([800.0, 600.0, 600.0, 600.0, 500.0], false),
        ] {
            assert_eq!(differ_by_chance(&counts), expected, "{counts:?}");
            assert_eq!(steady(&counts, 1.0), Some(expected), "{counts:?}");
        }
        assert!(
            !differ_by_chance(&[1.0; 4]) && !differ_by_chance(&[0.0; 5]) && !differ_by_chance(&[f64::NAN; 5])
        );
    }

    #[test]
    fn counts_of_random_events_are_steady_in_999_of_1000_cases() {
        let mut random = crate::random::Random::new(1);
        for mean in [5.0, 40.0, 300.0] {
            let mut poisson = || {
                let (mut count, mut time) = (0.0, -random.open_unit().ln());
                while time < mean {
                    (count, time) = (count + 1.0, time - random.open_unit().ln());
                }
                count
            };
            let refused =
                (0..4000).filter(|_| !differ_by_chance(&std::array::from_fn::<f64, 5, _>(|_| poisson())));
            let refused = refused.count();
            assert!(refused <= 16, "{refused} of 4000 with {mean} events");
        }
    }
}
