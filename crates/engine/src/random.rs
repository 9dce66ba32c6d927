//! Seeded random numbers for arrival times and data.

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, and every seed is a good one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(mix(seed ^ mix(stream.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number above 0 and at most 1.
    #[inline]
    pub fn open_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// The output function of SplitMix64: a bijection that spreads every bit.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // First outputs of SplitMix64 from state 1234567, as in the reference implementation.
        let mut random = Random(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn units_are_above_zero() {
        let mut random = Random::new(1, 2);
        let mean = (0..10_000)
            .map(|_| random.open_unit())
            .inspect(|unit| assert!(*unit > 0.0 && *unit <= 1.0))
            .sum::<f64>();
        assert!((mean / 10_000.0 - 0.5).abs() < 0.02);
    }
}
