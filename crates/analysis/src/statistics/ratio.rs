//! How many times as much: the ratio of two configurations with its interval.
//!
//! Ratios are compared as logarithms, so that "twice" and "half" are equally far from "the same". Runs of the same
//! round are compared with each other, so that what drifts over an experiment cancels out.

use model::Estimate;

use super::{CONFIDENCE, mean, shift_interval, signed_rank_interval, student_t_quantile, variance};

/// Pairs needed for the interval by signed ranks; with fewer, Student's t.
const SIGNED_RANK_PAIRS: usize = 6;
/// Runs needed on each side for the interval by rank sums; with fewer, Welch's t.
const RANK_SUM_RUNS: usize = 4;

/// A ratio, how sure it is, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Best single value.
    pub value: f64,
    /// The 95 % interval; none when the runs are too few to give one.
    pub interval: Option<(f64, f64)>,
    /// Pairs compared, or the runs of the smaller side when there were no pairs.
    pub pairs: u32,
    /// Standard deviation of the logarithm of the ratio of one pair; none for one pair.
    pub spread: Option<f64>,
    /// How the interval was made.
    pub method: &'static str,
}

impl Ratio {
    fn of_logs(estimate: Estimate, pairs: usize, spread: Option<f64>, method: &'static str) -> Self {
        Ratio {
            value: estimate.value.exp(),
            interval: Some((estimate.low.exp(), estimate.high.exp())),
            pairs: pairs as u32,
            spread,
            method,
        }
    }
}

/// The mean with its interval by Student's t; needs two values.
pub fn t_interval(values: &[f64], confidence: f64) -> Option<Estimate> {
    let (mean, variance) = (mean(values)?, variance(values)?);
    let n = values.len() as f64;
    let half = student_t_quantile(0.5 + 0.5 * confidence, n - 1.0) * (variance / n).sqrt();
    Some(Estimate { value: mean, low: mean - half, high: mean + half })
}

/// How far the mean of `b` lies above that of `a`, with its interval by Welch's t, which does not assume the same
/// spread on both sides; needs two values on each.
pub fn welch_interval(a: &[f64], b: &[f64], confidence: f64) -> Option<Estimate> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (share_a, share_b) = (variance(a)? / n, variance(b)? / m);
    let difference = mean(b)? - mean(a)?;
    let squared = share_a + share_b;
    let degrees = squared * squared / (share_a * share_a / (n - 1.0) + share_b * share_b / (m - 1.0));
    let half = match degrees.is_finite() {
        true => student_t_quantile(0.5 + 0.5 * confidence, degrees) * squared.sqrt(),
        false => 0.0,
    };
    Some(Estimate { value: difference, low: difference - half, high: difference + half })
}

/// Treatment over baseline from pairs `(baseline, treatment)` of the same round. Pairs in which a value is not
/// positive have no ratio and are left out; none when no pair is left.
///
/// With 6 pairs and more: the Hodges-Lehmann estimate with the exact interval by signed ranks. With 2 to 5: the
/// geometric mean with the interval by Student's t. One pair has a ratio but no interval.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite())
        .map(|(a, b)| (b / a).ln())
        .collect();
    let spread = variance(&logs).map(f64::sqrt);
    if logs.len() >= SIGNED_RANK_PAIRS {
        let estimate = signed_rank_interval(&logs, CONFIDENCE)?;
        return Some(Ratio::of_logs(estimate, logs.len(), spread, "pairs of a round, signed ranks"));
    }
    if let Some(estimate) = t_interval(&logs, CONFIDENCE) {
        return Some(Ratio::of_logs(estimate, logs.len(), spread, "pairs of a round, Student's t"));
    }
    let value = logs.first()?.exp();
    Some(Ratio { value, interval: None, pairs: 1, spread: None, method: "one pair, no interval" })
}

/// `b` over `a` when the runs of the two were not carried out side by side. Values that are not positive are left
/// out; none when a side is empty.
///
/// With 4 runs and more on each side: the Hodges-Lehmann shift with its interval by rank sums. With 2 or 3: Welch's
/// t. With one: the ratio without an interval.
pub fn unpaired_ratio(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let logs = |values: &[f64]| -> Vec<f64> {
        values.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect()
    };
    let (a, b) = (logs(a), logs(b));
    let smaller = a.len().min(b.len());
    let spread = variance(&a).zip(variance(&b)).map(|(a, b)| (a + b).sqrt());
    if smaller >= RANK_SUM_RUNS {
        let estimate = shift_interval(&a, &b, CONFIDENCE)?;
        return Some(Ratio::of_logs(estimate, smaller, spread, "runs not paired, rank sums"));
    }
    if let Some(estimate) = welch_interval(&a, &b, CONFIDENCE) {
        return Some(Ratio::of_logs(estimate, smaller, spread, "runs not paired, Welch's t"));
    }
    let value = (super::median(&b)? - super::median(&a)?).exp();
    let method = "runs not paired, too few for an interval";
    Some(Ratio { value, interval: None, pairs: smaller as u32, spread: None, method })
}

/// About how many pairs would settle whether there is a difference: enough that an interval around the logarithm
/// `log_ratio` either leaves out zero or lies inside `matters` on both sides, when the logarithms of the pairs'
/// ratios spread by `spread`. None past 10,000.
pub fn replicates_to_settle(log_ratio: f64, spread: f64, matters: f64) -> Option<u32> {
    let half_needed = log_ratio.abs().max(matters - log_ratio.abs());
    let half_of = |pairs: u32| {
        let n = f64::from(pairs);
        student_t_quantile(0.5 + 0.5 * CONFIDENCE, n - 1.0) * spread / n.sqrt()
    };
    const MOST: u32 = 10_000;
    if !(half_of(MOST) < half_needed) {
        return None;
    }
    let (mut low, mut high) = (1, MOST);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if half_of(middle) < half_needed { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_worked_by_hand() {
        // Mean 3, variance 2.5, t(0.975, 4) = 2.776: 3 +- 2.776 sqrt(2.5 / 5).
        let estimate = t_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        assert!((estimate.high - 3.0 - 1.963).abs() < 0.001, "{estimate:?}");
        // Equal variances and sizes: Welch has the 8 degrees of freedom of the pooled test, t = 2.306.
        let estimate = welch_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 4.0, 5.0, 6.0, 7.0], 0.95).unwrap();
        assert!(
            (estimate.value - 2.0).abs() < 1e-12 && (estimate.high - 4.306).abs() < 0.001,
            "{estimate:?}"
        );
        assert_eq!(t_interval(&[1.0], 0.95), None);
        assert_eq!(welch_interval(&[1.0, 1.0], &[2.0, 2.0], 0.95), Some(Estimate::exact(1.0)));
    }

    #[test]
    fn what_cannot_be_a_ratio_is_left_out() {
        let ratio =
            paired_ratio(&[(100.0, 200.0), (0.0, 5.0), (f64::NAN, 1.0), (3.0, f64::INFINITY)]).unwrap();
        assert_eq!((ratio.value, ratio.interval, ratio.pairs), (2.0, None, 1));
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(unpaired_ratio(&[1.0], &[]), None);
        assert!((unpaired_ratio(&[2.0], &[3.0]).unwrap().value - 1.5).abs() < 1e-12);
    }

    #[test]
    fn the_method_follows_the_number_of_pairs() {
        let pairs =
            |n: u32| -> Vec<(f64, f64)> { (0..n).map(|i| (1.0, 2.0 + 0.01 * f64::from(i % 3))).collect() };
        for (n, method) in [(2, "Student"), (5, "Student"), (6, "signed ranks"), (30, "signed ranks")] {
            let ratio = paired_ratio(&pairs(n)).unwrap();
            let (low, high) = ratio.interval.unwrap();
            assert!(ratio.method.contains(method) && low > 1.0 && high < 4.0, "{n}: {ratio:?}");
        }
    }

    #[test]
    fn replicates_that_would_settle() {
        // Half-width wanted 0.1, spread 0.1: t(0.975, n-1) / sqrt(n) < 1 first holds at 7 pairs (2.447 / 2.646).
        assert_eq!(replicates_to_settle(0.1, 0.1, 0.03), Some(7));
        // No difference at all: half-width wanted 0.03, spread 0.03, the same 7.
        assert_eq!(replicates_to_settle(0.0, 0.03, 0.03), Some(7));
        assert_eq!(replicates_to_settle(0.01, 100.0, 0.03), None);
        assert_eq!(replicates_to_settle(f64::NAN, f64::NAN, 0.03), None);
    }
}
