//! Rank tests and the intervals from their inversion: signed ranks for pairs, rank sums for two groups.
//! Neither assumes a distribution, and both are robust against a stalled run.

use model::Estimate;

use super::{median_of_sorted, normal_cdf, normal_quantile, sorted};

/// Above this many pairs the normal approximation of the signed ranks is used.
const EXACT_PAIRS: usize = 60;
/// Above this total number of values in both groups, the normal approximation of the rank sum is used.
const EXACT_VALUES: usize = 60;

/// The largest value of Wilcoxon's signed-rank statistic for `pairs` pairs that is significant at `1 -
/// confidence`, two-sided; none if even zero is not.
pub fn signed_rank_critical(pairs: usize, confidence: f64) -> Option<usize> {
    // probability[w]: that the ranks with a plus sign add up to w.
    let mut probability = vec![0.0; pairs * (pairs + 1) / 2 + 1];
    probability[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..probability.len()).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = 0.5 * (probability[sum] + with);
        }
    }
    let mut tail = 0.0;
    let within = probability
        .iter()
        .take_while(|probability| {
            tail += **probability;
            tail <= 0.5 * (1.0 - confidence) + 1e-12
        })
        .count();
    within.checked_sub(1)
}

/// The Hodges-Lehmann estimate of the centre of `differences` (the median of all pairwise means), with the
/// interval from the inversion of Wilcoxon's signed-rank test. Exact up to 60 differences. Requires 6 of them
/// for a confidence of 95 %, because all six on one side still have a probability of 2/64.
///
/// Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963); Hollander and Wolfe, section 3.3.
pub fn signed_rank_interval(differences: &[f64], confidence: f64) -> Option<Estimate> {
    let n = differences.len();
    let cut = if n <= EXACT_PAIRS {
        signed_rank_critical(n, confidence)?
    } else {
        let count = n as f64;
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        let z = normal_quantile(0.5 + 0.5 * confidence);
        (count * (count + 1.0) / 4.0 - z * deviation).floor() as usize
    };
    let means: Vec<f64> = (0..n)
        .flat_map(|i| (i..n).map(move |j| (i, j)))
        .map(|(i, j)| 0.5 * (differences[i] + differences[j]))
        .collect();
    between(&sorted(&means), cut)
}

/// The median of `values` with the narrowest symmetric interval between two order statistics that covers the
/// true median with a probability of at least `confidence`; and that probability. Requires 6 values for 95 %,
/// 8 for 99 %. Valid for any distribution.
///
/// Hollander and Wolfe, section 3.6.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(Estimate, f64)> {
    let n = values.len();
    // The probability that at most `cut` of n values are below the median, each with probability 0.5.
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut tail, mut best) = (0.0, None);
    for cut in 0..n {
        tail += chance;
        let covers = 1.0 - 2.0 * tail;
        if covers < confidence {
            break;
        }
        best = Some((between(&sorted(values), cut)?, covers));
        chance *= (n - cut) as f64 / (cut + 1) as f64;
    }
    best
}

/// The Hodges-Lehmann estimate of the shift from `a` to `b` (the median of all differences), with the
/// interval from the inversion of the rank-sum test. Requires at least 4 values on each side for a confidence
/// of 95 %.
///
/// Hollander and Wolfe, section 4.3.
pub fn shift_interval(a: &[f64], b: &[f64], confidence: f64) -> Option<Estimate> {
    let (n, m) = (a.len(), b.len());
    let cut = if n + m <= EXACT_VALUES {
        // Without ties all ranks differ; doubled ranks are always integers, see `rank_sum_tail`.
        let ranks: Vec<usize> = (1..=n + m).map(|rank| 2 * rank).collect();
        let least = n * (n + 1) / 2;
        let distribution = rank_sums(&ranks, n);
        let mut tail = 0.0;
        let within = (0..=n * m)
            .take_while(|u| {
                tail += distribution.get(2 * (u + least)).copied().unwrap_or(0.0);
                tail <= 0.5 * (1.0 - confidence) + 1e-12
            })
            .count();
        within.checked_sub(1)?
    } else {
        let (n, m) = (n as f64, m as f64);
        let z = normal_quantile(0.5 + 0.5 * confidence);
        (n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt()).max(0.0).floor() as usize
    };
    let differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    between(&sorted(&differences), cut)
}

/// The median of the sorted values, and the values at a distance of `cut` from either end.
fn between(sorted: &[f64], cut: usize) -> Option<Estimate> {
    let high = sorted.len().checked_sub(1 + cut)?;
    (cut <= high).then_some(Estimate {
        value: median_of_sorted(sorted)?,
        low: sorted[cut],
        high: sorted[high],
    })
}

/// The probability of each sum of `choose` of the (doubled) ranks, with all choices equally likely.
fn rank_sums(doubled_ranks: &[usize], choose: usize) -> Vec<f64> {
    let largest: usize = doubled_ranks.iter().sum();
    // ways[k][s]: of all choices of k of the ranks seen so far, the share with the sum s. Shares are used
    // instead of counts to avoid overflow.
    let mut ways = vec![vec![0.0; largest + 1]; choose + 1];
    ways[0][0] = 1.0;
    for (seen, &rank) in doubled_ranks.iter().enumerate() {
        for k in (1..=choose.min(seen + 1)).rev() {
            // k of seen + 1 ranks are chosen: the last one is among them with probability k / (seen + 1).
            let with = k as f64 / (seen + 1) as f64;
            let (below, from) = ways.split_at_mut(k);
            let (without, chosen) = (&mut from[0], &below[k - 1]);
            for sum in (0..=largest).rev() {
                let chosen = if sum >= rank { chosen[sum - rank] } else { 0.0 };
                without[sum] = (1.0 - with) * without[sum] + with * chosen;
            }
        }
    }
    ways.pop().unwrap_or_default()
}

/// Ranks from 1, doubled; equal values have the mean of their ranks.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut begin = 0;
    while begin < order.len() {
        let value = values[order[begin]];
        let end = begin + order[begin..].iter().take_while(|&&at| values[at] == value).count().max(1);
        for &at in &order[begin..end] {
            ranks[at] = begin + 1 + end;
        }
        begin = end;
    }
    ranks
}

/// The two-sided p-value of the Mann-Whitney U test: the probability of ranks at least as uneven if both
/// groups have the same distribution. Exact, including ties, up to 60 values in total; above that the normal
/// approximation with tie and continuity correction. None if a group is empty.
pub fn mann_whitney_p(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all = [a, b].concat();
    let ranks = doubled_ranks(&all);
    let observed: usize = ranks[..a.len()].iter().sum();
    let (n, m) = (a.len() as f64, b.len() as f64);
    if all.len() <= EXACT_VALUES {
        let distribution = rank_sums(&ranks, a.len());
        let below: f64 = distribution.iter().take(observed + 1).sum();
        let above: f64 = distribution.iter().skip(observed).sum();
        return Some((2.0 * below.min(above)).min(1.0));
    }
    let mut groups = std::collections::BTreeMap::new();
    for rank in &ranks {
        *groups.entry(rank).or_insert(0.0) += 1.0;
    }
    let total = n + m;
    let ties: f64 = groups.values().map(|count: &f64| count.powi(3) - count).sum();
    let deviation = (n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)))).sqrt();
    let distance = (observed as f64 / 2.0 - n * (total + 1.0) / 2.0).abs() - 0.5;
    match deviation > 0.0 && distance > 0.0 {
        true => Some(2.0 * normal_cdf(-distance / deviation)),
        false => Some(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GOB, JSON};
    use super::*;

    #[test]
    fn p_values_as_benchstat_publishes_them() {
        // benchstat prints three digits: json -17.20 % p=0.000, gob ~ p=0.446.
        assert!(mann_whitney_p(&JSON.0, &JSON.1).unwrap() < 0.0005);
        assert!((mann_whitney_p(&GOB.0, &GOB.1).unwrap() - 0.446).abs() < 0.0005);
    }

    #[test]
    fn critical_values_of_the_published_table() {
        // Wilcoxon's table, two-sided 5 %; fewer than six pairs are never significant.
        for (pairs, critical) in
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (11, 10), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            assert_eq!(signed_rank_critical(pairs, 0.95), Some(critical), "{pairs} pairs");
        }
        assert_eq!(signed_rank_critical(5, 0.95), None);
        assert_eq!((signed_rank_critical(7, 0.99), signed_rank_critical(8, 0.99)), (None, Some(0)));
        assert_eq!(signed_rank_critical(0, 0.95), None);
    }

    #[test]
    #[allow(clippy::approx_constant, reason = "3.14 is a measured value")]
    fn hollander_and_wolfe_example_3_1() {
        // Hamilton depression scale before and after a tranquilizer.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(b, a)| b - a).collect();
        let estimate = signed_rank_interval(&differences, 0.95).unwrap();
        assert!((estimate.value - 0.46).abs() < 1e-9, "{estimate:?}");
        assert!((estimate.low - 0.010).abs() < 1e-9 && (estimate.high - 0.786).abs() < 1e-9, "{estimate:?}");
    }

    #[test]
    fn hollander_and_wolfe_example_4_1() {
        // Permeability of a membrane at term and at 12 to 26 weeks.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert!((mann_whitney_p(&term, &early).unwrap() - 0.2544).abs() < 0.000_05);
        let estimate = shift_interval(&early, &term, 0.95).unwrap();
        assert!((estimate.value - 0.305).abs() < 1e-9, "{estimate:?}");
        assert!((estimate.low + 0.15).abs() < 1e-9 && (estimate.high - 0.76).abs() < 1e-9, "{estimate:?}");
    }

    #[test]
    fn the_exact_and_the_approximate_tests_meet() {
        let a: Vec<f64> = (0..30).map(|i| f64::from(i % 17)).collect();
        let b: Vec<f64> = (0..30).map(|i| f64::from(i % 17) + 1.5).collect();
        let exact = mann_whitney_p(&a, &b).unwrap();
        let more = [b.as_slice(), &[8.0]].concat();
        let approximate = mann_whitney_p(&a, &more).unwrap();
        assert!((exact - approximate).abs() < 0.02, "{exact} {approximate}");
        assert_eq!(mann_whitney_p(&[1.0; 80], &[1.0; 80]), Some(1.0));
        assert_eq!(mann_whitney_p(&[], &[1.0]), None);
    }

    #[test]
    fn too_few_give_no_interval() {
        assert_eq!(signed_rank_interval(&[1.0; 5], 0.95), None);
        assert!(shift_interval(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).is_none());
        assert!(shift_interval(&[1.0, 2.0, 3.0, 4.0], &[4.0, 5.0, 6.0, 7.0], 0.95).is_some());
    }

    proptest::proptest! {
        #[test]
        fn probabilities_add_up(ranks in proptest::collection::vec(1usize..30, 1..12), choose in 0usize..12) {
            let choose = choose.min(ranks.len());
            let total: f64 = rank_sums(&ranks, choose).iter().sum();
            proptest::prop_assert!((total - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_estimate_lies_inside(values in proptest::collection::vec(-1e6f64..1e6, 6..80)) {
            let estimate = signed_rank_interval(&values, 0.95).unwrap();
            proptest::prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        }
    }
}
