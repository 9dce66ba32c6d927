//! Student's t and the normal distribution.

/// The natural logarithm of the gamma function for `x > 0`: Lanczos' approximation with g = 7 and nine terms,
/// relative error below 1e-13.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = COEFFICIENTS[1..]
        .iter()
        .enumerate()
        .fold(COEFFICIENTS[0], |sum, (at, coefficient)| sum + coefficient / (x + at as f64 + 1.0));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularized incomplete beta function by its continued fraction (modified Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for step in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + step * d);
            c = away_from_zero(1.0 + step / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// The probability that Student's t with `degrees` of freedom is at most `t`.
pub fn student_t_cdf(t: f64, degrees: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(degrees / (degrees + t * t), 0.5 * degrees, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile `p` of Student's t with `degrees` of freedom, by bisection. `p` must be between 0 and 1
/// (excluded), `degrees` positive.
pub fn student_t_quantile(p: f64, degrees: f64) -> f64 {
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, degrees);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_t_cdf(high, degrees) < p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if student_t_cdf(middle, degrees) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The probability that a standard normal value is at most `z`; absolute error below 7.5e-8 (Abramowitz and
/// Stegun 26.2.17).
pub fn normal_cdf(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile `p` of the standard normal distribution, by bisection. `p` must be between 0 and 1 (excluded).
pub fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_every_textbook_prints() {
        for (p, degrees, expected) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 3.0, 3.182),
            (0.975, 4.0, 2.776),
            (0.975, 10.0, 2.228),
            (0.975, 30.0, 2.042),
            (0.95, 5.0, 2.015),
            (0.995, 9.0, 3.250),
            (0.975, 1e6, 1.960),
        ] {
            let value = student_t_quantile(p, degrees);
            assert!((value - expected).abs() < 0.000_51, "t({p}, {degrees}) = {value}");
            assert!((student_t_quantile(1.0 - p, degrees) + value).abs() < 1e-9);
        }
        // With one degree of freedom it is the Cauchy distribution, whose integral is known.
        assert!((student_t_cdf(1.0, 1.0) - 0.75).abs() < 1e-12);
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_344_75), (1.959_964, 0.975), (-3.0, 0.001_349_9)] {
            assert!((normal_cdf(z) - expected).abs() < 1e-7, "{z}");
        }
    }
}
