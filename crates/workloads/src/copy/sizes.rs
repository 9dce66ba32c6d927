//! The sizes of many generated files.

use model::random::mix;

/// How the sizes of files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    Equal,
    LogNormal,
}

/// The standard deviation of the logarithm of file sizes on desktop computers, about 2.46 ("Generating realistic Impressions
/// for file-system benchmarking", FAST 2009, from a study of 60,000 file systems).
const SIGMA: f64 = 2.46;

/// The sizes of `count` files that add up to `total`, in a fixed order that mixes small and large files. No file is empty if
/// `total` is at least `count`.
pub(super) fn sizes(total: u64, count: u32, spread: Spread) -> Vec<u64> {
    let count = u64::from(count.max(1));
    let weight = |index: u64| match spread {
        Spread::Equal => 1.0,
        // Quantiles instead of random numbers: the same sizes whatever the seed.
        Spread::LogNormal => (SIGMA * normal_quantile((index as f64 + 0.5) / count as f64)).exp(),
    };
    let whole: f64 = (0..count).map(weight).sum();
    let spare = total.saturating_sub(count);
    // One byte each, and the rest by weight; what rounding leaves belongs to the largest file.
    let least = u64::from(total >= count);
    let mut sizes: Vec<u64> =
        (0..count).map(|index| least + (spare as f64 * weight(index) / whole) as u64).collect();
    let given: u64 = sizes.iter().sum();
    if let Some(largest) = sizes.last_mut() {
        *largest = (*largest + total.saturating_sub(given)).saturating_sub(given.saturating_sub(total));
    }
    let mut order: Vec<(u64, u64)> =
        sizes.into_iter().enumerate().map(|(index, size)| (mix(index as u64), size)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, size)| size).collect()
}

/// The quantile of the standard normal distribution for 0 < p < 1, within 4.5e-4 (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let tail = p.min(1.0 - p).max(f64::MIN_POSITIVE);
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let distance = t - numerator / denominator;
    if p < 0.5 { -distance } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in
            [(0.5, 0.0), (0.841_345, 1.0), (0.158_655, -1.0), (0.975, 1.959_964), (0.000_1, -3.719_016)]
        {
            assert!((normal_quantile(p) - z).abs() < 4.5e-4, "{p}");
        }
    }

    /// The published package: 22,000 files of about 2 GB, among them of 72 MB, 62 MB and 1.7 MB.
    #[test]
    fn a_package_has_some_large_files_and_many_small_ones() {
        let mut sizes = sizes(2_000_000_000, 22_000, Spread::LogNormal);
        sizes.sort_unstable();
        assert_eq!(sizes.iter().sum::<u64>(), 2_000_000_000);
        let [median, largest] = [sizes[11_000], sizes[21_999]];
        assert!((3_500..7_000).contains(&median), "{median}");
        assert!((40_000_000..150_000_000).contains(&largest), "{largest}");
    }

    proptest! {
        #[test]
        fn sizes_add_up(total in 0_u64..1 << 45, count in 1_u32..5_000, equal: bool) {
            let spread = if equal { Spread::Equal } else { Spread::LogNormal };
            let sizes = sizes(total, count, spread);
            prop_assert_eq!(sizes.iter().sum::<u64>(), total);
            prop_assert_eq!(sizes.len(), count as usize);
            prop_assert!(total < u64::from(count) || sizes.iter().all(|size| *size > 0));
        }
    }
}
