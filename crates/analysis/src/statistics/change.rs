//! Change points of a series: divisive segmentation by energy distance, with a permutation test.

use super::{autocorrelation, mean};
use crate::random::Random;

/// Length limit of a series. Callers average longer ones, because the cost grows with the square of the
/// length.
const LONGEST: usize = 240;
/// Number of permutations that the best split is compared with.
const SHUFFLES: usize = 199;
/// Significance level: a split counts if at most this share of the permutations has one as strong.
const SIGNIFICANCE: f64 = 0.05;
/// Number of standard errors that a change must exceed: more than the usual two, because its position was
/// chosen to maximize it.
const CERTAIN: f64 = 3.5;
/// Number of values required on either side of a split, so that a single stall is not a change.
const SHORTEST: usize = 2;

/// The change points of a series: each is the index of the first value after a change, in ascending order.
///
/// Each segment is split where the energy distance of its two parts, weighted by their sizes, is largest. The
/// split is kept if few permutations have one as strong, and if the medians of the two parts differ by at
/// least `least_change` of the larger one. Changes that the correlation of neighbouring values explains are
/// removed. The permutations are seeded. A series is truncated to its first 240 values.
///
/// Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data",
/// Journal of the American Statistical Association 109 (2014).
pub fn change_points(values: &[f64], least_change: f64, seed: u64) -> Vec<usize> {
    let values = &values[..values.len().min(LONGEST)];
    let mut random = Random::new(seed);
    let mut found = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((begin, end)) = open.pop() {
        let segment = &values[begin..end];
        let Some((at, strength)) = best_split(segment) else { continue };
        if !matters(&segment[..at], &segment[at..], least_change) {
            continue;
        }
        let mut shuffled = segment.to_vec();
        let as_strong = (0..SHUFFLES)
            .filter(|_| {
                random.shuffle(&mut shuffled);
                best_split(&shuffled).is_some_and(|(_, other)| other >= strength)
            })
            .count();
        if (as_strong + 1) as f64 / (SHUFFLES + 1) as f64 <= SIGNIFICANCE {
            found.push(begin + at);
            open.push((begin, begin + at));
            open.push((begin + at, end));
        }
    }
    found.sort_unstable();
    prune(values, &mut found);
    found
}

/// Removes changes that the autocorrelation of the series explains: the least certain one, repeatedly, until
/// each change has [`CERTAIN`] standard errors. The correlation and the spread are computed from all values
/// relative to the means of their stretches, the spread as a share of the mean.
fn prune(values: &[f64], found: &mut Vec<usize>) {
    // A shorter series does not show its autocorrelation.
    while !found.is_empty() && values.len() >= 20 {
        let ends = || found.iter().copied().chain([values.len()]);
        let begins = std::iter::once(0).chain(found.iter().copied());
        let stretches: Vec<&[f64]> = begins.zip(ends()).map(|(begin, end)| &values[begin..end]).collect();
        let means: Vec<f64> = stretches.iter().filter_map(|stretch| mean(stretch)).collect();
        let mut distances = Vec::with_capacity(values.len());
        for (stretch, mean) in stretches.iter().zip(&means) {
            let scale = mean.abs().max(f64::MIN_POSITIVE);
            distances.extend(stretch.iter().map(|value| (value - mean) / scale));
        }
        // Each mean that was subtracted removed some correlation and variance (Kendall, Biometrika 41, 1954).
        let n = distances.len() as f64;
        let lost = stretches.len() as f64 / n;
        let seen = autocorrelation(&distances).unwrap_or(0.0);
        let r = ((seen + lost) / (1.0 - 4.0 * lost).max(0.2)).clamp(0.0, 0.9);
        let slower = (1.0 + r) / (1.0 - r);
        let variance = distances.iter().map(|d| d * d).sum::<f64>() / n / (1.0 - lost * slower).max(0.2);
        let error = |at: usize| means[at] * means[at] * variance * slower / stretches[at].len() as f64;
        let certainty = |at: &usize| (means[at + 1] - means[*at]).abs() / (error(*at) + error(at + 1)).sqrt();
        let Some(least) = (0..found.len()).min_by(|a, b| certainty(a).total_cmp(&certainty(b))) else {
            return;
        };
        if !(certainty(&least) < CERTAIN) {
            return;
        }
        found.remove(least);
    }
}

fn matters(before: &[f64], after: &[f64], least_change: f64) -> bool {
    match (super::median(before), super::median(after)) {
        (Some(a), Some(b)) => (a - b).abs() >= least_change * a.abs().max(b.abs()),
        _ => false,
    }
}

/// The split with the largest weighted energy distance, and that distance.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * SHORTEST {
        return None;
    }
    let distance_sum = |from: f64, to: &[f64]| to.iter().map(|value| (value - from).abs()).sum::<f64>();
    // Sums of distances within the left part, within the right part, and across. Moving one value from right
    // to left changes each sum by that value's distances to both parts.
    let (mut left, mut across) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| distance_sum(values[i], &values[i + 1..])).sum();
    let mut best: Option<(usize, f64)> = None;
    for at in 1..n {
        let moved = values[at - 1];
        let to_left = distance_sum(moved, &values[..at - 1]);
        let to_right = distance_sum(moved, &values[at..]);
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        if at < SHORTEST || n - at < SHORTEST {
            continue;
        }
        let (size, rest) = (at as f64, (n - at) as f64);
        let pairs = |size: f64| 0.5 * size * (size - 1.0);
        let energy = 2.0 * across / (size * rest) - left / pairs(size) - right / pairs(rest);
        let strength = size * rest / (size + rest) * energy;
        if best.is_none_or(|(_, strongest)| strength > strongest) {
            best = Some((at, strength));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES_1: [f64; 11] = [1.02, 0.95, 0.99, 1.00, 1.12, 0.90, 0.50, 0.51, 0.48, 0.48, 0.55];
    const SERIES_2: [f64; 11] = [2.02, 2.03, 2.01, 2.04, 1.82, 1.85, 1.79, 1.81, 1.80, 1.76, 1.78];

    #[test]
    fn the_example_series_of_hunter() {
        for seed in 0..10 {
            assert_eq!(change_points(&SERIES_1, 0.0, seed), [6]);
            assert_eq!(change_points(&SERIES_2, 0.0, seed), [4]);
            // The second change is only 11 %.
            assert_eq!(change_points(&SERIES_1, 0.2, seed), [6]);
            assert!(change_points(&SERIES_2, 0.2, seed).is_empty());
        }
    }

    #[test]
    fn noise_and_single_stalls_are_no_change() {
        let mut random = Random::new(8);
        let found = (0..100)
            .filter(|seed| {
                let mut values: Vec<f64> = (0..40).map(|_| 100.0 + random.unit()).collect();
                values[20] = 10.0;
                !change_points(&values, 0.0, *seed).is_empty()
            })
            .count();
        assert!(found <= 12, "{found} false alarms in 100 at a significance of 5 %");
        assert!(change_points(&[], 0.0, 1).is_empty() && change_points(&[5.0; 50], 0.0, 1).is_empty());
        assert!(change_points(&[f64::NAN; 20], 0.0, 1).is_empty());
    }

    #[test]
    fn values_that_resemble_their_neighbours_are_no_change() {
        // AR(1) with a coefficient of 0.6 wanders; few of 100 such series may be reported to have changed.
        let mut random = Random::new(12);
        let found = (0..100)
            .filter(|seed| {
                let mut last = random.normal();
                let values: Vec<f64> = (0..60)
                    .map(|_| {
                        last = 0.6 * last + 0.8 * random.normal();
                        100.0 + 5.0 * last
                    })
                    .collect();
                !change_points(&values, 0.0, *seed).is_empty()
            })
            .count();
        assert!(found <= 20, "{found} false alarms in 100");
    }

    #[test]
    fn three_levels_have_two_changes() {
        let mut random = Random::new(9);
        let values: Vec<f64> =
            (0..60).map(|i| [1500.0, 700.0, 200.0][i / 20] * (1.0 + 0.1 * random.unit())).collect();
        assert_eq!(change_points(&values, 0.2, 4), [20, 40]);
    }
}
