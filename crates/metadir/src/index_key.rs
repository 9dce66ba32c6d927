//! The key of a value in an index of the store.
//!
//! The key of a short value is the value itself. The key of a long value is its first bytes and a hash of all
//! of it. So keys are equal when their values are, have a bounded length, and sort like the values as far as
//! the first bytes decide. Objects with ascending numbers are neighbours in the index, and a batch of them
//! touches few of its pages. A hash alone would spread them over all pages, and the cost of a batch would
//! grow with the size of the directory.

use std::fmt;

use crate::hologram::Hash;

/// The key of a value in an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexKey {
    /// The bytes, padded with zeros.
    bytes: [u8; IndexKey::LENGTH_MAX],
    length: u8,
}

impl IndexKey {
    /// Length of the longest key, bytes.
    pub const LENGTH_MAX: usize = 32;
    /// Bytes of a long value that precede its hash.
    const BEGINNING: usize = 16;

    /// The key of a value.
    pub fn of(value: &[u8]) -> IndexKey {
        let mut bytes = [0; IndexKey::LENGTH_MAX];
        let length = value.len().min(IndexKey::LENGTH_MAX);
        if value.len() <= IndexKey::LENGTH_MAX {
            bytes[..length].copy_from_slice(value);
        } else {
            bytes[..IndexKey::BEGINNING].copy_from_slice(&value[..IndexKey::BEGINNING]);
            bytes[IndexKey::BEGINNING..].copy_from_slice(&Hash::of(value).0);
        }
        IndexKey { bytes, length: length as u8 }
    }

    /// The key of several values together. It sorts by the first value, then by the second.
    pub fn of_parts<'a>(mut parts: impl Iterator<Item = &'a [u8]>) -> IndexKey {
        let first = parts.next().unwrap_or_default();
        let Some(second) = parts.next() else { return IndexKey::of(first) };
        let mut whole = Vec::with_capacity(64);
        for part in [first, second].into_iter().chain(parts) {
            // A zero byte ends a part. A zero byte inside a part is followed by 255, so no two lists of parts
            // have the same bytes.
            for byte in part {
                whole.push(*byte);
                if *byte == 0 {
                    whole.push(255);
                }
            }
            whole.extend_from_slice(&[0, 0]);
        }
        IndexKey::of(&whole)
    }

    /// As bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// A key from its stored bytes; none if there are too many.
    pub fn from_bytes(kept: &[u8]) -> Option<IndexKey> {
        let mut bytes = [0; IndexKey::LENGTH_MAX];
        bytes.get_mut(..kept.len())?.copy_from_slice(kept);
        Some(IndexKey { bytes, length: kept.len() as u8 })
    }
}

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_equal_when_their_values_are_and_in_their_order(
            a in proptest::collection::vec(any::<u8>(), 0..50),
            b in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let (of_a, of_b) = (IndexKey::of(&a), IndexKey::of(&b));
            prop_assert_eq!(of_a == of_b, a == b);
            prop_assert_eq!(IndexKey::from_bytes(of_a.as_bytes()), Some(of_a));
            if a[..a.len().min(16)] != b[..b.len().min(16)] {
                prop_assert_eq!(of_a.as_bytes().cmp(of_b.as_bytes()), a.cmp(&b));
            }
        }

        #[test]
        fn parts_are_distinguished(
            a in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..4), 1..4),
            b in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..4), 1..4),
        ) {
            prop_assume!(a.len() == b.len());
            let key = |parts: &[Vec<u8>]| IndexKey::of_parts(parts.iter().map(Vec::as_slice));
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }
    }
}
