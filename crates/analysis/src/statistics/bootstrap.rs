//! The bootstrap for series whose neighbouring values resemble each other: it draws blocks, not single values.

use model::Estimate;

use super::{CONFIDENCE, autocorrelation, mean, sorted};
use crate::random::Random;

/// Resamples drawn.
const RESAMPLES: usize = 1000;

/// How many neighbouring values make up a block: Carlstein's rule for a series with lag-1 autocorrelation `r`,
/// `(sqrt(6) r / (1 - r^2))^(2/3) n^(1/3)`, from 1 to a third of the series.
///
/// Carlstein, Annals of Statistics 14 (1986).
pub fn block_length(values: &[f64]) -> usize {
    let r = autocorrelation(values).unwrap_or(0.0).clamp(0.0, 0.99);
    let n = values.len() as f64;
    let length = (6.0_f64.sqrt() * r / (1.0 - r * r)).powf(2.0 / 3.0) * n.cbrt();
    (length.round() as usize).clamp(1, (values.len() / 3).max(1))
}

/// One mean of as many values, drawn in blocks that wrap around the end.
fn resampled_mean(values: &[f64], block: usize, random: &mut Random) -> f64 {
    let mut sum = 0.0;
    let mut taken = 0;
    while taken < values.len() {
        let begin = random.below(values.len());
        for step in 0..block.min(values.len() - taken) {
            sum += values[(begin + step) % values.len()];
        }
        taken += block;
    }
    sum / values.len() as f64
}

/// The mean of series `b` over the mean of series `a`, with the interval that the noise inside the two series leaves:
/// percentiles of a circular block bootstrap. It says nothing about how runs differ from each other. None when a
/// series has fewer than three values or a mean that is not positive.
pub fn mean_ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Estimate> {
    let usable = |values: &[f64]| mean(values).filter(|m| values.len() >= 3 && *m > 0.0 && m.is_finite());
    let value = usable(b)? / usable(a)?;
    let mut random = Random::new(seed);
    let (block_a, block_b) = (block_length(a), block_length(b));
    let ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| resampled_mean(b, block_b, &mut random) / resampled_mean(a, block_a, &mut random))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let ratios = sorted(&ratios);
    let at =
        |share: f64| ratios.get(((ratios.len() as f64 * share) as usize).min(ratios.len().saturating_sub(1)));
    let outside = 0.5 * (1.0 - CONFIDENCE);
    Some(Estimate { value, low: *at(outside)?, high: *at(1.0 - outside)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(random: &mut Random, n: usize, level: f64, r: f64) -> Vec<f64> {
        let scale = (1.0 - r * r).sqrt();
        let mut last = random.normal();
        (0..n)
            .map(|_| {
                last = r * last + scale * random.normal();
                level * (1.0 + 0.05 * last)
            })
            .collect()
    }

    #[test]
    fn blocks_follow_the_correlation() {
        let mut random = Random::new(5);
        assert_eq!(block_length(&[1.0; 30]), 1);
        // r = 0.5: (sqrt(6) 0.5 / 0.75)^(2/3) 400^(1/3) = 1.387 x 7.37 = 10.2.
        let length = block_length(&series(&mut random, 400, 100.0, 0.5));
        assert!((8..=13).contains(&length), "{length}");
    }

    #[test]
    fn the_interval_covers_the_true_ratio() {
        // 200 pairs of correlated series with the true ratio 1.1: the interval should cover it about 95 times in
        // 100; block bootstraps of correlated series are known to fall a little short.
        let mut random = Random::new(2024);
        let covered = (0..200)
            .filter(|seed| {
                let a = series(&mut random, 100, 100.0, 0.5);
                let b = series(&mut random, 100, 110.0, 0.5);
                let ratio = mean_ratio(&a, &b, *seed).unwrap();
                ratio.low <= 1.1 && 1.1 <= ratio.high
            })
            .count();
        assert!((172..=199).contains(&covered), "{covered} of 200");
        assert_eq!(mean_ratio(&[1.0, 2.0], &[1.0; 9], 0), None);
        assert_eq!(mean_ratio(&[0.0; 9], &[1.0; 9], 0), None);
    }
}
