//! The steady-state rule: by which a warm-up ends, and by which the measured time is judged.

/// Windows that the steady-state rule looks at.
pub const STEADY_WINDOWS: usize = 5;
/// Largest range of those windows, as a share of their mean.
pub const STEADY_RANGE: f64 = 0.20;
/// Largest rise or fall of the fitted line across those windows, as a share of their mean.
pub const STEADY_SLOPE: f64 = 0.10;

/// Whether the last five windows are steady: they differ by at most 20 % of their mean, and the line fitted to
/// them rises or falls by at most 10 % of it. None with fewer than five windows or a mean that is not positive.
///
/// The rule of the Solid State Storage Performance Test Specification (SNIA).
pub fn steady(windows: &[f64]) -> Option<bool> {
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
    let excursion = (rise / run * (STEADY_WINDOWS - 1) as f64).abs();
    Some(highest - lowest <= STEADY_RANGE * mean && excursion <= STEADY_SLOPE * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_rule() {
        for (windows, expected) in [
            (vec![100.0; 5], Some(true)),
            // Range exactly 20 %, no slope; then a little more.
            (vec![90.0, 110.0, 100.0, 110.0, 90.0], Some(true)),
            (vec![89.0, 111.0, 100.0, 111.0, 89.0], Some(false)),
            // A rise of exactly 10 % of the mean across the five; then a little more.
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
