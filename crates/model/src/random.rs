//! Seeded pseudo-random numbers: the same seed gives the same numbers on every machine and in every version.
//! Arrival times, data and the order of the trials are functions of a seed. A run that is resumed years later
//! must continue the same sequence, so the generator is implemented here instead of taken from a library.

/// The increment of SplitMix64: the odd number nearest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014). It has 64
/// bits of state, passes BigCrush, and accepts every seed.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts from `seed`.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// An independent stream of a seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Random(mix(seed ^ mix(stream.wrapping_add(GOLDEN))))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A uniform number below `bound`, with a bias of at most `bound` / 2^64 (Lemire 2019); 0 if `bound` is
    /// 0.
    #[inline]
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The same for an index.
    pub fn below(&mut self, bound: usize) -> usize {
        self.below_u64(bound as u64) as usize
    }

    /// A uniform number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniform number from 0 (excluded) to 1 (included).
    #[inline]
    pub fn open_unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// An approximately normal value with mean 0 and standard deviation 1: the sum of twelve uniform ones.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Shuffles the items; all orders are equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
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
        // The reference output of splitmix64.c for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for value in expected {
            assert_eq!(random.next_u64(), value);
        }
    }

    #[test]
    fn every_order_of_three_is_about_equally_likely() {
        let mut random = Random::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial with n = 6000, p = 1/6.
        assert!(counts.values().all(|&count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn open_units_are_above_zero() {
        let mut random = Random::stream(1, 2);
        let mean = (0..10_000)
            .map(|_| random.open_unit())
            .inspect(|unit| assert!(*unit > 0.0 && *unit <= 1.0))
            .sum::<f64>();
        assert!((mean / 10_000.0 - 0.5).abs() < 0.02);
    }

    /// The values of recorded seeds must not change.
    #[test]
    fn streams_stay_as_they_are() {
        let mut random = Random::stream(7, 3);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [7_250_273_413_821_410_515, 16_474_944_268_897_792_596]
        );
        assert_eq!(random.below_u64(1000), 34);
    }
}
