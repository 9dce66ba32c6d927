//! Random numbers as functions of their purpose: there is no state, so each can be computed independently.

/// The odd number nearest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of one purpose of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    /// The key of a purpose.
    pub(crate) fn new(seed: u64, purpose: u64) -> Key {
        Key(mix(mix(seed ^ GOLDEN).wrapping_add(purpose.wrapping_mul(GOLDEN))))
    }

    /// The key of one of many items, for example a day or a group.
    pub(crate) fn of(self, which: u64) -> Key {
        Key(self.draw(which))
    }

    /// 64 bits for `index`: the output of SplitMix64 at that index.
    #[inline]
    pub(crate) fn draw(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
    }
}

/// Reduces a random number to one below `count`, without a division.
#[inline]
pub(crate) fn below(draw: u64, count: u64) -> u64 {
    ((u128::from(draw) * u128::from(count)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // First outputs of SplitMix64 from state 1234567, as in the reference implementation.
        let key = Key(1_234_567);
        assert_eq!(key.draw(0), 6_457_827_717_110_365_317);
        assert_eq!(key.draw(1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn purposes_do_not_follow_each_other() {
        let draws = |purpose| (0..4).map(|at| Key::new(7, purpose).draw(at)).collect::<Vec<_>>();
        assert!(draws(1).iter().all(|draw| !draws(2).contains(draw)));
        assert_ne!(Key::new(1, 1).draw(0), Key::new(2, 1).draw(0));
    }

    #[test]
    fn below_stays_below() {
        assert_eq!(below(0, 7), 0);
        assert_eq!(below(u64::MAX, 7), 6);
        assert_eq!(below(u64::MAX / 2 + 1, 8), 4);
    }
}
