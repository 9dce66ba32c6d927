//! Properties of a series of equally long windows: the end of its start-up phase, and the information in each
//! additional value.

use super::{mean, variance};

/// Number of values to remove from the start so that the mean of the rest has the least error (MSER-5):
/// batches of five, smallest `variance / number of remaining batches`. None for fewer than four batches, or
/// if the best cut is beyond half of the series, which means that the end of the start-up was not seen.
///
/// White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation" (WSC
/// 2000).
pub fn mser5(values: &[f64]) -> Option<usize> {
    const BATCH: usize = 5;
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    if batches.len() < 4 {
        return None;
    }
    let score = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        variance(rest).map(|variance| variance * (n - 1.0) / (n * n))
    };
    // At least two batches must remain: the score of a single one is zero.
    let (cut, _) = (0..batches.len() - 2)
        .filter_map(|cut| Some((cut, score(cut)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (cut <= batches.len() / 2).then_some(cut * BATCH)
}

/// The lag-1 autocorrelation, -1 to 1. None for fewer than three values or if all are equal.
pub fn autocorrelation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 3)?;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let product: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    (square > 0.0).then(|| (product / square).clamp(-1.0, 1.0))
}

/// Number of independent values with the same information about the mean: `n (1 - r) / (1 + r)` with the
/// lag-1 autocorrelation `r`, at least 1, at most `n`.
pub fn effective_sample_size(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    match autocorrelation(values) {
        Some(r) if r > 0.0 => (n * (1.0 - r) / (1.0 + r)).max(1.0),
        _ => n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_start_up_is_cut_where_it_ends() {
        // Ten start-up values, then equal batches; then with noise, for which slightly more may be removed.
        let start: Vec<f64> = (0..10).map(|i| 20.0 + 6.0 * f64::from(i)).collect();
        let alike = (0..90).map(|i| 100.0 + f64::from(i % 5));
        assert_eq!(mser5(&start.iter().copied().chain(alike).collect::<Vec<_>>()), Some(10));
        let mut random = Random::new(3);
        let noise = (0..90).map(|_| 100.0 + random.unit());
        let cut = mser5(&start.iter().copied().chain(noise).collect::<Vec<_>>()).unwrap();
        assert!((10..=50).contains(&cut), "{cut}");
        let flat: Vec<f64> = (0..100).map(|i| 100.0 + f64::from(i % 5)).collect();
        assert_eq!(mser5(&flat), Some(0));
        // Still increasing at the end: no steady part was seen.
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((mser5(&rising), mser5(&[1.0; 19])), (None, None));
    }

    #[test]
    fn autocorrelation_known_exactly() {
        // -1, 1, -1, 1: products -1, -1, -1 divided by the sum of squares 4.
        assert_eq!(autocorrelation(&[-1.0, 1.0, -1.0, 1.0]), Some(-0.75));
        assert_eq!(autocorrelation(&[1.0, 2.0, 3.0]), Some(0.0));
        assert_eq!(autocorrelation(&[7.0; 9]), None);
        assert_eq!(effective_sample_size(&[-1.0, 1.0, -1.0, 1.0]), 4.0);

        // AR(1) with coefficient 0.8: 20,000 values have the information of 2,222.
        let mut random = Random::new(11);
        let mut last = 0.0;
        let values: Vec<f64> = (0..20_000)
            .map(|_| {
                last = 0.8 * last + random.unit() - 0.5;
                last
            })
            .collect();
        assert!((autocorrelation(&values).unwrap() - 0.8).abs() < 0.02);
        assert!((effective_sample_size(&values) / 2222.0 - 1.0).abs() < 0.12);
    }
}
