//! Integers by Zipf's law: rank k is k^-s times as likely as rank 1.
//!
//! Drawn without a table by rejection-inversion: W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM Transactions on Modeling and Computer Simulation 6(3), 1996.

use model::random::Random;

/// A distribution of the ranks from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral of the hat up to 1.5 less its first value, and up to the last rank.
    low: f64,
    high: f64,
    /// A rank that is so close to its variate is accepted without computing anything.
    close: f64,
}

impl Zipf {
    /// `ranks` is at least 1; with an exponent of 0 all are equally likely.
    pub(super) fn new(ranks: u64, exponent: f64) -> Zipf {
        let of = |x: f64| integral(x, exponent);
        Zipf {
            ranks,
            exponent,
            low: of(1.5) - 1.0,
            high: of(ranks as f64 + 0.5),
            close: 2.0 - inverse(of(2.5) - 2f64.powf(-exponent), exponent),
        }
    }

    /// A rank.
    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = inverse(area, self.exponent);
            let rank = x.round().clamp(1.0, self.ranks as f64);
            let is_below = || area >= integral(rank + 0.5, self.exponent) - rank.powf(-self.exponent);
            if rank - x <= self.close || is_below() {
                return (rank as u64).clamp(1, self.ranks);
            }
        }
    }
}

/// The integral of x^-s, up to a constant: (x^(1-s) - 1) / (1 - s), and ln x where s is 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let (log, power) = (x.ln(), 1.0 - exponent);
    match (power * log).abs() < 1e-8 {
        true => log,
        false => (power * log).exp_m1() / power,
    }
}

/// The inverse of [`integral`].
fn inverse(area: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    match (power * area).abs() < 1e-8 {
        true => area.exp(),
        // Rounding must not lead out of the domain.
        false => ((power * area).max(-1.0).ln_1p() / power).exp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the shares of the first ranks with the law, by the chi-squared statistic.
    #[test]
    fn ranks_are_as_likely_as_the_law_says() {
        const DRAWS: u32 = 200_000;
        for (ranks, exponent) in [(10_u64, 1.0), (10, 0.0), (8, 2.5), (1000, 0.99), (1_000_000, 1.1)] {
            let zipf = Zipf::new(ranks, exponent);
            let mut random = Random::new(11);
            let mut counts = [0_u32; 8];
            for _ in 0..DRAWS {
                let rank = zipf.rank(&mut random);
                assert!((1..=ranks).contains(&rank));
                if let Some(count) = counts.get_mut(rank as usize - 1) {
                    *count += 1;
                }
            }
            let sum: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
            let squared: f64 = (1..=8)
                .zip(counts)
                .map(|(rank, count)| {
                    let expected = f64::from(DRAWS) * f64::from(rank).powf(-exponent) / sum;
                    (f64::from(count) - expected).powi(2) / expected
                })
                .sum();
            // Eight ranks exceed 26 in one of a thousand series.
            assert!(squared < 26.0, "{ranks} {exponent}: {squared}, {counts:?}");
        }
        assert_eq!(Zipf::new(1, 1.0).rank(&mut Random::new(1)), 1);
    }
}
