//! Random numbers as a function of (seed, number), and the distributions over blocks made from them.

use model::random::Random;
pub(super) use model::random::mix;

/// An odd number without a pattern in its bits.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random numbers that belong to one operation.
#[derive(Clone, Copy)]
pub(super) struct Draws(Random);

impl Draws {
    /// Those of operation `number` under `seed`; `attempt` distinguishes repeated choices.
    #[inline]
    pub(super) fn new(seed: u64, number: u64, attempt: u32) -> Self {
        Draws(Random::new(mix(seed ^ mix(number.wrapping_add(u64::from(attempt) << 56)))))
    }

    /// The next 64 random bits.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform from 0 to below 1.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Uniform in `0..n`.
    #[inline]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.below_u64(n)
    }

    /// True with the probability `threshold` / 2^64; `u64::MAX` is always.
    #[inline]
    pub(super) fn chance(&mut self, threshold: u64) -> bool {
        threshold == u64::MAX || (threshold > 0 && self.next() < threshold)
    }
}

/// A share of 0 to 1 as a threshold for [`Draws::chance`].
pub(super) fn threshold(share: f64) -> u64 {
    if share >= 1.0 { u64::MAX } else { (share.max(0.0) * u64::MAX as f64) as u64 }
}

/// Ranks 1..=n with probability proportional to rank^-s, exactly, in constant time and memory:
/// rejection-inversion, W. Hörmann and G. Derflinger, ACM TOMACS 6(3), 1996.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    n: u64,
    s: f64,
    area_first: f64,
    area_last: f64,
    accept: f64,
}

impl Zipf {
    /// Over `n` > 0 ranks with exponent `s` > 0.
    pub(super) fn new(n: u64, s: f64) -> Self {
        let mut zipf = Zipf { n, s, area_first: 0.0, area_last: 0.0, accept: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(n as f64 + 0.5);
        zipf.accept = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    /// Antiderivative of the density, (x^(1-s) - 1) / (1-s), and ln x at s = 1.
    fn area(&self, x: f64) -> f64 {
        let ln = x.ln();
        let t = (1.0 - self.s) * ln;
        if t.abs() > 1e-8 { t.exp_m1() / t * ln } else { (1.0 + t / 2.0) * ln }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.s)).max(-1.0);
        if t.abs() > 1e-8 { (t.ln_1p() / t * area).exp() } else { ((1.0 - t / 2.0) * area).exp() }
    }

    /// A rank, 0 the most frequent.
    pub(super) fn rank(&self, draws: &mut Draws) -> u64 {
        loop {
            let u = self.area_last + draws.0.unit() * (self.area_first - self.area_last);
            let x = self.area_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n as f64);
            if k - x <= self.accept || u >= self.area(k + 0.5) - self.density(k) {
                return (k as u64).min(self.n) - 1;
            }
        }
    }
}

/// A fixed one-to-one shuffle of `0..n`, so that hot ranks spread over the whole file. It does not depend on the
/// trial's seed: the hot blocks of a file stay the same ones from trial to trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scramble {
    n: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Scramble {
    /// Of `0..n`.
    pub(super) fn new(n: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(1);
        Scramble { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), key: 0 }
    }

    /// Of `0..n`, another one for each `key`.
    pub(super) fn keyed(n: u64, key: u64) -> Self {
        Scramble { key, ..Scramble::new(n) }
    }

    /// The image of `rank` < n in one of many shuffles with this key.
    #[inline]
    pub(super) fn place_in_pass(&self, rank: u64, pass: u64) -> u64 {
        // Each step is one-to-one in 0..n, and so are both together. Two keys, as one adds only one number to each step.
        let first = Scramble { key: mix(self.key ^ pass), ..*self };
        let second = Scramble { key: mix(first.key), ..*self };
        second.place(first.place(rank))
    }

    /// The image of `rank` < n. Steps that are bijections of the next power of two, repeated until inside.
    #[inline]
    pub(super) fn place(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            for factor in [0xd6e8_feb8_6659_fd93_u64, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db] {
                x = (x.wrapping_add(ODD ^ self.key)).wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_frequencies_follow_the_law() {
        const SAMPLES: u64 = 200_000;
        for (n, s) in [(10_u64, 0.5), (100, 1.0), (100, 1.2), (1000, 2.0)] {
            let zipf = Zipf::new(n, s);
            let mut counts = vec![0_u64; n as usize];
            for number in 0..SAMPLES {
                counts[zipf.rank(&mut Draws::new(7, number, 0)) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-s)).sum();
            let (mut chi_square, mut cells) = (0.0, 0.0);
            let (mut seen, mut expected) = (0.0, 0.0);
            for k in 1..=n {
                seen += counts[k as usize - 1] as f64;
                expected += SAMPLES as f64 * (k as f64).powf(-s) / total;
                if expected >= 20.0 || k == n {
                    chi_square += (seen - expected).powi(2) / expected;
                    cells += 1.0;
                    (seen, expected) = (0.0, 0.0);
                }
            }
            // Mean of chi-square is its degrees of freedom, deviation sqrt(2 df): six deviations is "not by chance".
            let degrees: f64 = cells - 1.0;
            assert!(chi_square < degrees + 6.0 * (2.0 * degrees).sqrt() + 10.0, "n {n} s {s}: {chi_square}");
        }
    }

    #[test]
    fn uniform_draws_are_uniform() {
        let mut counts = [0_u32; 64];
        for number in 0..128_000 {
            counts[Draws::new(3, number, 0).below(64) as usize] += 1;
        }
        let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - 2000.0).powi(2) / 2000.0).sum();
        assert!(chi_square < 63.0 + 6.0 * 11.3, "{chi_square}");
    }

    proptest::proptest! {
        #[test]
        fn a_scramble_is_one_to_one(n in 1_u64..3000) {
            let scramble = Scramble::new(n);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let place = scramble.place(rank) as usize;
                proptest::prop_assert!(!std::mem::replace(&mut seen[place], true));
            }
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let place = Scramble::keyed(n, n).place_in_pass(rank, 3) as usize;
                proptest::prop_assert!(!std::mem::replace(&mut seen[place], true));
            }
        }

        #[test]
        fn zipf_stays_inside(n in 1_u64..(1 << 45), s in 0.01_f64..8.0, seed in proptest::prelude::any::<u64>()) {
            let zipf = Zipf::new(n, s);
            for number in 0..50 {
                proptest::prop_assert!(zipf.rank(&mut Draws::new(seed, number, 0)) < n);
            }
        }
    }
}
