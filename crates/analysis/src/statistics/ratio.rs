//! The ratio of two configurations with its interval.
//!
//! Ratios are compared as logarithms, so that "twice" and "half" have the same distance from "equal". Runs of
//! the same round are compared with each other, so that drift over an experiment cancels out.

use model::Estimate;

use super::{
    CONFIDENCE, mean, normal_cdf, shift_interval, signed_rank_interval, student_t_quantile, variance,
};

/// Number of pairs that the signed-rank interval requires; with fewer, Student's t is used.
const SIGNED_RANK_PAIRS: usize = 6;
/// Number of runs on each side that the rank-sum interval requires; with fewer, Welch's t is used.
const RANK_SUM_RUNS: usize = 4;

/// A ratio with its interval and the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The point estimate.
    pub value: f64,
    /// The 95 % interval; none if there are too few runs.
    pub interval: Option<(f64, f64)>,
    /// Number of compared pairs; without pairs, number of runs of the smaller side.
    pub pairs: u32,
    /// Standard deviation of the logarithm of the ratio of one pair; none for one pair.
    pub spread: Option<f64>,
    /// The method of the interval.
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

/// The mean with its interval by Student's t; requires two values.
pub fn t_interval(values: &[f64], confidence: f64) -> Option<Estimate> {
    let (mean, variance) = (mean(values)?, variance(values)?);
    let n = values.len() as f64;
    let half = student_t_quantile(0.5 + 0.5 * confidence, n - 1.0) * (variance / n).sqrt();
    Some(Estimate { value: mean, low: mean - half, high: mean + half })
}

/// The difference of the means, `b` minus `a`, with its interval by Welch's t, which does not assume equal
/// variances; requires two values on each side.
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

/// Treatment divided by baseline, from pairs `(baseline, treatment)` of the same round. Pairs with a value
/// that is not positive have no ratio and are omitted; none without pairs.
///
/// With at least 6 pairs: the Hodges-Lehmann estimate with the exact signed-rank interval. With 2 to 5: the
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

/// `b` divided by `a` if the runs were not paired. Values that are not positive are omitted; none if a side
/// is empty.
///
/// With at least 4 runs on each side: the Hodges-Lehmann shift with its rank-sum interval. With 2 or 3:
/// Welch's t. With one: the ratio without an interval.
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

/// The statistical power of a planned experiment.
const POWER: f64 = 0.8;
/// The efficiency of a signed-rank test relative to Student's t, for normal noise (Pitman's efficiency, 3 /
/// pi).
const RANK_EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// The total number of pairs that decide whether there is a difference, with a probability of 80 %. The
/// interval around the logarithm `log_ratio` then either excludes zero or is within `matters` on both sides.
/// `spread` is the standard deviation of the logarithms of `pairs` ratios. None above 10,000 or if the spread
/// is unknown.
pub fn replicates_to_settle(log_ratio: f64, spread: f64, pairs: u32, matters: f64) -> Option<u32> {
    replicates_to_show(log_ratio.abs().max(matters - log_ratio.abs()), spread, pairs)
}

/// The total number of pairs that show a difference with a probability of 80 %, if the true logarithm of the
/// ratio is `log_difference`. The spread is itself an estimate from `pairs` pairs and may be too small by
/// chance. So the probability is averaged over the possible true values. None above 10,000 or if the spread
/// is unknown.
///
/// Julious and Owen, "Sample size calculations for clinical studies allowing for uncertainty about the
/// variance", Pharmaceutical Statistics 5 (2006).
pub fn replicates_to_show(log_difference: f64, spread: f64, pairs: u32) -> Option<u32> {
    const MOST: u32 = 10_000;
    if !(log_difference > 0.0 && spread >= 0.0 && spread.is_finite() && pairs >= 2) {
        return None;
    }
    let enough = |planned: u32| {
        let n = f64::from(planned);
        let critical = student_t_quantile(0.5 + 0.5 * CONFIDENCE, n - 1.0);
        let seen = if planned as usize >= SIGNED_RANK_PAIRS { n * RANK_EFFICIENCY } else { n };
        // In units of the estimated spread: the true one is smaller by the factor `s`, with the density of s.
        let distance = log_difference * seen.sqrt() / spread;
        distance == f64::INFINITY || expected_power(distance, critical, f64::from(pairs - 1)) >= POWER
    };
    if !enough(MOST) {
        return None;
    }
    let (mut low, mut high) = (2, MOST);
    if enough(low) {
        return Some(low);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The mean probability that a normal value at a distance of `distance` estimated standard deviations exceeds
/// `critical`. The mean is over the possible true standard deviations, given an estimate with `degrees` of
/// freedom.
fn expected_power(distance: f64, critical: f64, degrees: f64) -> f64 {
    // s, the estimate divided by the true value: its square times the degrees has a chi-squared distribution.
    let width = 8.0 / (2.0 * degrees).sqrt();
    let (from, to) = ((1.0 - width).max(0.0), 1.0 + width);
    const STEPS: u32 = 200;
    let (mut chance, mut total) = (0.0, 0.0);
    for step in 0..STEPS {
        let s = from + (to - from) * (f64::from(step) + 0.5) / f64::from(STEPS);
        let density = ((degrees - 1.0) * s.ln() - 0.5 * degrees * (s * s - 1.0)).exp();
        chance += density * normal_cdf(distance * s - critical);
        total += density;
    }
    chance / total
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
        // With a well-known spread: the textbook's (t(0.975) + z(0.8))^2 (s / d)^2, 10 pairs for a difference
        // of one spread, slightly more for ranks.
        assert!(matches!(replicates_to_show(0.1, 0.1, 10_000), Some(10..=11)));
        assert!(matches!(replicates_to_show(0.05, 0.1, 10_000), Some(34..=37)));
        // Decided means clearly different, or clearly within what matters.
        assert_eq!(replicates_to_settle(0.1, 0.1, 9, 0.03), replicates_to_show(0.1, 0.1, 9));
        assert_eq!(replicates_to_settle(0.0, 0.03, 9, 0.03), replicates_to_show(0.03, 0.03, 9));
        // The less is known about the spread, the more pairs are required.
        let by_known: Vec<u32> =
            [2, 3, 5, 10, 1000].iter().map(|pairs| replicates_to_show(0.1, 0.1, *pairs).unwrap()).collect();
        assert!(
            by_known.windows(2).all(|pair| pair[0] >= pair[1]) && by_known[1] > by_known[4],
            "{by_known:?}"
        );
        assert_eq!(replicates_to_show(0.1, 0.0, 5), Some(2));
        assert_eq!(replicates_to_show(0.01, 100.0, 5), None);
        assert_eq!(replicates_to_settle(f64::NAN, f64::NAN, 5, 0.03), None);
        assert_eq!(replicates_to_show(0.1, 0.1, 1), None);
    }
}
