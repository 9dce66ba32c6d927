//! The statistics of all claims: small functions, each tested with published or exactly known values.
//!
//! Callers must remove values that are not finite. Functions return `None` instead of a guess if there is too
//! little data.

mod change;
mod correlated;
mod distribution;
mod rank;
mod ratio;
mod series;

pub use change::change_points;
pub use correlated::{mean_ratio, steady_mean};
pub use distribution::{normal_cdf, normal_quantile, student_t_cdf, student_t_quantile};
pub use rank::{mann_whitney_p, median_interval, shift_interval, signed_rank_critical, signed_rank_interval};
pub use ratio::{
    Ratio, paired_ratio, replicates_to_settle, replicates_to_show, t_interval, unpaired_ratio, welch_interval,
};
pub use series::{autocorrelation, effective_sample_size, mser5};

/// The confidence level of every shown interval.
pub const CONFIDENCE: f64 = 0.95;

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample variance (divisor n - 1); needs two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    (values.len() >= 2)
        .then(|| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

/// The median: the middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// The values in ascending order.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in benchstat's documentation: times of two versions of a JSON encoder.
    pub(super) const JSON: ([f64; 10], [f64; 10]) = (
        [1726., 1723., 1707., 1707., 1713., 1729., 1736., 1707., 1705., 1774.],
        [1423., 1416., 1411., 1413., 1412., 1426., 1422., 1424., 1447., 1425.],
    );
    /// The same for a gob encoder.
    pub(super) const GOB: ([f64; 10], [f64; 10]) = (
        [3069., 3075., 3069., 3067., 3207., 3064., 3064., 3058., 3059., 3062.],
        [3075., 3065., 3059., 3065., 3060., 3081., 3186., 3135., 3087., 3062.],
    );

    #[test]
    fn medians_as_benchstat_publishes_them() {
        assert_eq!(median(&JSON.0), Some(1718.0));
        assert_eq!(median(&JSON.1), Some(1422.5));
        assert_eq!(median(&GOB.0), Some(3065.5));
        assert_eq!(median(&GOB.1), Some(3070.0));
        let change = median(&JSON.1).unwrap() / median(&JSON.0).unwrap() - 1.0;
        assert!((change + 0.172).abs() < 0.000_05, "benchstat prints -17.20 %");
        assert_eq!((median(&[]), mean(&[]), variance(&[1.0])), (None, None, None));
        assert_eq!(variance(&[1.0, 2.0, 3.0, 4.0]), Some(5.0 / 3.0));
    }
}
