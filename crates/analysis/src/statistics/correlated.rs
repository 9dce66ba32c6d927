//! Means of autocorrelated series, which have less information than their number of values suggests.

use model::Estimate;

use super::{CONFIDENCE, autocorrelation, mean, student_t_quantile, variance};

/// Limit of the autocorrelation: above it, a series has no steady mean.
const CORRELATION_MAX: f64 = 0.95;

/// The mean of a series, the variance of that mean, and its degrees of freedom. None for fewer than six
/// values.
///
/// The series is treated as AR(1) with `m = n (1 - r) / (1 + r)` independent values. The estimate of r is too
/// low by about `(1 + 4 r) / n` (Kendall, Biometrika 41, 1954) and the sample variance by `(n / m - 1) / (n -
/// 1)`. Both are corrected; otherwise the coverage of intervals from short series is much too low.
fn mean_of_correlated(values: &[f64]) -> Option<(f64, f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 6 {
        return None;
    }
    let seen = autocorrelation(values).unwrap_or(0.0);
    let r = ((n * seen + 1.0) / (n - 4.0)).clamp(0.0, CORRELATION_MAX);
    let independent = (n * (1.0 - r) / (1.0 + r)).max(2.0);
    let spread = variance(values)? * (n - 1.0) / (n - n / independent);
    Some((mean(values)?, spread / independent, independent - 1.0))
}

/// The mean of a series with the interval for the noise within it; none for fewer than six values.
pub fn steady_mean(values: &[f64]) -> Option<Estimate> {
    let (value, variance, degrees) = mean_of_correlated(values)?;
    let half = student_t_quantile(0.5 + 0.5 * CONFIDENCE, degrees) * variance.sqrt();
    (value.is_finite() && half.is_finite()).then_some(Estimate {
        value,
        low: value - half,
        high: value + half,
    })
}

/// The mean of series `b` divided by the mean of series `a`, with an interval for the noise within the two
/// series. It does not include differences between runs. None if a series has fewer than six values or a mean
/// that is not positive.
pub fn mean_ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let relative = |values: &[f64]| {
        let (mean, variance, degrees) = mean_of_correlated(values)?;
        (mean > 0.0 && mean.is_finite()).then_some((mean, variance / (mean * mean), degrees))
    };
    let ((mean_a, share_a, degrees_a), (mean_b, share_b, degrees_b)) = (relative(a)?, relative(b)?);
    // Welch's degrees of freedom for the sum of two variances.
    let squared = share_a + share_b;
    let degrees = squared * squared / (share_a * share_a / degrees_a + share_b * share_b / degrees_b);
    let half = match degrees.is_finite() {
        true => student_t_quantile(0.5 + 0.5 * CONFIDENCE, degrees) * squared.sqrt(),
        false => 0.0,
    };
    let value = mean_b / mean_a;
    Some(Estimate { value, low: value * (-half).exp(), high: value * half.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_values_have_the_usual_interval() {
        // Negative autocorrelation: only the small bias of a short series is corrected.
        let a: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { 99.0 } else { 101.0 }).collect();
        let b: Vec<f64> = a.iter().map(|value| 1.1 * value).collect();
        let ratio = mean_ratio(&a, &b).unwrap();
        // A deviation of 1 % each over 400 values, z = 1.96: sqrt(2) 0.01 / 20.
        assert!(
            (ratio.value - 1.1).abs() < 1e-12 && (ratio.high / ratio.value - 1.001_39).abs() < 1e-4,
            "{ratio:?}"
        );
        assert_eq!(mean_ratio(&[1.0; 5], &[1.0; 9]), None);
        assert_eq!(mean_ratio(&[0.0; 9], &[1.0; 9]), None);
        assert_eq!(mean_ratio(&[2.0; 9], &[1.0; 9]), Some(Estimate::exact(0.5)));
    }
}
