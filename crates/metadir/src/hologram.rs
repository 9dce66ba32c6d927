//! The image of an object: its attributes and their values, as compact bytes. Images are compared by a hash
//! of 16 bytes.
//!
//! The bytes of a hologram are its entries in ascending order of attribute: the number of the attribute, then
//! its values. Values are `varint(count)` and, for each value, `varint(length)` and the bytes. Numbers are
//! unsigned LEB128. The values of an attribute are in ascending order without duplicates, so two images are
//! equal exactly when their bytes are. An attribute without a value is not included.

use std::fmt;
use std::sync::Arc;

/// An attribute: the number that the store assigns to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribute(pub u32);

/// A hash of a value of any length, where only equality matters: the first 16 bytes of its BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 16]);

impl Hash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Hash(short)
    }

    /// A hash from its stored bytes; none if there are not exactly 16.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hash> {
        Some(Hash(bytes.try_into().ok()?))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The image of an object. Clones share the bytes.
#[derive(Clone, Default)]
pub struct Hologram {
    bytes: Arc<[u8]>,
    /// The hash, if it is already computed.
    hash: Option<Hash>,
}

impl PartialEq for Hologram {
    fn eq(&self, other: &Hologram) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Hologram {}

/// Bytes that are not a hologram: the store is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the image of an object is damaged at byte {0}")]
pub struct Damaged(pub usize);

impl Hologram {
    /// An image from its bytes.
    ///
    /// # Errors
    /// When the bytes are not a hologram.
    pub fn from_bytes(bytes: &[u8]) -> Result<Hologram, Damaged> {
        let mut at = 0;
        let mut previous = None;
        while at < bytes.len() {
            let begin = at;
            let attribute = read_number(bytes, &mut at).ok_or(Damaged(begin))?;
            if previous.is_some_and(|previous| attribute <= previous) || attribute > u64::from(u32::MAX) {
                return Err(Damaged(begin));
            }
            previous = Some(attribute);
            // An attribute without a value must not be included.
            let count = read_number(bytes, &mut at).filter(|count| *count > 0).ok_or(Damaged(begin))?;
            for _ in 0..count {
                let length = read_number(bytes, &mut at).ok_or(Damaged(begin))?;
                at = usize::try_from(length)
                    .ok()
                    .and_then(|length| at.checked_add(length))
                    .filter(|end| *end <= bytes.len())
                    .ok_or(Damaged(begin))?;
            }
        }
        Ok(Hologram { bytes: bytes.into(), hash: None })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash that identifies the image.
    pub fn hash(&self) -> Hash {
        self.hash.unwrap_or_else(|| Hash::of(&self.bytes))
    }

    /// Computes the hash now, so that a later call of [`Self::hash`] does not wait.
    #[must_use]
    pub(crate) fn with_hash(self) -> Hologram {
        Hologram { hash: Some(self.hash()), ..self }
    }

    /// Whether the image has no attribute.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The attributes in ascending order, each with its values.
    pub fn iter(&self) -> impl Iterator<Item = (Attribute, Values<'_>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let attribute = read_number(&self.bytes, &mut at)?;
            let begin = at;
            skip_values(&self.bytes, &mut at);
            Some((Attribute(attribute as u32), Values(&self.bytes[begin..at])))
        })
    }

    /// The values of an attribute; none when it has none.
    pub fn get(&self, wanted: Attribute) -> Option<Values<'_>> {
        self.iter()
            .find(|(attribute, _)| *attribute >= wanted)
            .filter(|(found, _)| *found == wanted)
            .map(|(_, v)| v)
    }

    /// The first value of an attribute, which is the only one of a single-valued attribute.
    pub fn first(&self, wanted: Attribute) -> Option<&[u8]> {
        self.get(wanted)?.iter().next()
    }
}

/// An image with an index of its attributes, for many look-ups.
pub(crate) struct Opened<'a> {
    /// The image.
    pub(crate) image: &'a Hologram,
    entries: Vec<(Attribute, Values<'a>)>,
}

impl<'a> Opened<'a> {
    pub(crate) fn of(image: &'a Hologram) -> Opened<'a> {
        let mut entries = Vec::with_capacity(if image.is_empty() { 0 } else { 32 });
        entries.extend(image.iter());
        Opened { image, entries }
    }

    /// The values of an attribute; none when it has none.
    pub(crate) fn get(&self, wanted: Attribute) -> Option<Values<'a>> {
        let at = self.entries.binary_search_by_key(&wanted, |(attribute, _)| *attribute).ok()?;
        self.entries.get(at).map(|(_, values)| *values)
    }

    /// The first value of an attribute.
    pub(crate) fn first(&self, wanted: Attribute) -> Option<&'a [u8]> {
        self.get(wanted)?.iter().next()
    }
}

impl fmt::Debug for Hologram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The values of an attribute, in ascending order, encoded as in a hologram. Two are equal when their bytes
/// are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    /// No value.
    pub const NONE: Values<'static> = Values(&[0]);

    /// Reads the values at an offset and advances the offset past them; none if the bytes are invalid.
    pub(crate) fn read(bytes: &'a [u8], at: &mut usize) -> Option<Values<'a>> {
        let begin = *at;
        let count = read_number(bytes, at)?;
        for _ in 0..count {
            let length = usize::try_from(read_number(bytes, at)?).ok()?;
            *at = at.checked_add(length).filter(|end| *end <= bytes.len())?;
        }
        Some(Values(&bytes[begin..*at]))
    }

    /// The bytes, encoded as in a hologram.
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The values as a vector.
    pub fn to_vec(self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }

    /// The values.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut at = 0;
        let count = read_number(self.0, &mut at).unwrap_or(0);
        (0..count).map_while(move |_| {
            let length = read_number(self.0, &mut at)? as usize;
            let value = self.0.get(at..at.checked_add(length)?)?;
            at += length;
            Some(value)
        })
    }

    /// The number of values.
    pub fn count(self) -> usize {
        read_number(self.0, &mut 0).unwrap_or(0) as usize
    }

    /// A digest that represents the values in an image when they are stored elsewhere: their number and a
    /// hash.
    pub(crate) fn digest(self) -> Vec<u8> {
        let mut digest = Vec::with_capacity(20);
        write_number(&mut digest, self.count() as u64);
        digest.extend_from_slice(&Hash::of(self.0).0);
        digest
    }

    /// The number of values that a digest represents.
    pub(crate) fn count_of_digest(self) -> usize {
        self.iter().next().and_then(|digest| read_number(digest, &mut 0)).unwrap_or(0) as usize
    }
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// Owned values, encoded as in a hologram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueList(Vec<u8>);

impl ValueList {
    /// Encodes values in any order.
    pub fn of(values: &[Vec<u8>]) -> ValueList {
        let mut values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let mut bytes = Vec::with_capacity(values.iter().map(|value| value.len() + 2).sum::<usize>() + 1);
        write_values(&mut bytes, &mut values);
        ValueList(bytes)
    }

    /// A copy of values.
    pub(crate) fn copied(values: Values<'_>) -> ValueList {
        ValueList(values.0.to_vec())
    }

    /// The values.
    pub fn values(&self) -> Values<'_> {
        Values(&self.0)
    }
}

/// Writes values in ascending order without duplicates. Empty values are dropped.
fn write_values(bytes: &mut Vec<u8>, values: &mut Vec<&[u8]>) {
    values.retain(|value| !value.is_empty());
    values.sort_unstable();
    values.dedup();
    write_number(bytes, values.len() as u64);
    for value in values.iter() {
        write_number(bytes, value.len() as u64);
        bytes.extend_from_slice(value);
    }
}

/// Builds holograms one after the other, without an allocation for each.
#[derive(Debug, Default)]
pub struct Builder {
    bytes: Vec<u8>,
    last: Option<Attribute>,
}

impl Builder {
    /// Adds an attribute with one value. Attributes must come in ascending order. An empty value counts as no
    /// value, and the attribute is left out.
    pub fn push(&mut self, attribute: Attribute, value: &[u8]) {
        if !value.is_empty() {
            self.begin(attribute);
            write_number(&mut self.bytes, 1);
            write_number(&mut self.bytes, value.len() as u64);
            self.bytes.extend_from_slice(value);
        }
    }

    /// Adds an attribute with its values from another image.
    pub fn push_values(&mut self, attribute: Attribute, values: Values<'_>) {
        if values.count() > 0 {
            self.begin(attribute);
            self.bytes.extend_from_slice(values.0);
        }
    }

    /// Adds an attribute with several values, in any order.
    pub fn push_all(&mut self, attribute: Attribute, values: &mut Vec<&[u8]>) {
        if values.iter().any(|value| !value.is_empty()) {
            self.begin(attribute);
            write_values(&mut self.bytes, values);
        }
    }

    fn begin(&mut self, attribute: Attribute) {
        debug_assert!(self.last.is_none_or(|last| last < attribute), "attributes come in rising order");
        self.last = Some(attribute);
        write_number(&mut self.bytes, u64::from(attribute.0));
    }

    /// The bytes of the image so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the image so far and begins another.
    pub fn finish(&mut self) -> Hologram {
        let image = Hologram { bytes: self.bytes.as_slice().into(), hash: None };
        self.clear();
        image
    }

    /// Begins another image.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = None;
    }
}

impl FromIterator<(Attribute, Vec<Vec<u8>>)> for Hologram {
    /// An image of attributes in any order. The values of an attribute that comes twice are merged.
    fn from_iter<I: IntoIterator<Item = (Attribute, Vec<Vec<u8>>)>>(entries: I) -> Hologram {
        let mut together = std::collections::BTreeMap::<Attribute, Vec<Vec<u8>>>::new();
        for (attribute, values) in entries {
            together.entry(attribute).or_default().extend(values);
        }
        let mut builder = Builder::default();
        for (attribute, values) in &together {
            builder.push_all(*attribute, &mut values.iter().map(Vec::as_slice).collect());
        }
        builder.finish()
    }
}

pub(crate) fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn read_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn skip_values(bytes: &[u8], at: &mut usize) {
    let count = read_number(bytes, at).unwrap_or(0);
    for _ in 0..count {
        let length = read_number(bytes, at).unwrap_or(0) as usize;
        *at = at.saturating_add(length).min(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(entries: &[(u32, &[&str])]) -> Hologram {
        entries
            .iter()
            .map(|(attribute, values)| {
                (Attribute(*attribute), values.iter().map(|value| value.as_bytes().to_vec()).collect())
            })
            .collect()
    }

    #[test]
    fn values_are_found_and_absent_ones_are_none() {
        let image = image(&[(7, &["b", "a", "b"]), (300, &["x"]), (2, &[""])]);
        assert_eq!(image.first(Attribute(300)), Some(&b"x"[..]));
        let values: Vec<&[u8]> = image.get(Attribute(7)).unwrap().iter().collect();
        assert_eq!(values, [b"a", b"b"]);
        assert!(image.get(Attribute(2)).is_none() && image.get(Attribute(400)).is_none());
        assert_eq!(format!("{image:?}"), r#"{Attribute(7): ["a", "b"], Attribute(300): ["x"]}"#);
    }

    proptest! {
        #[test]
        fn the_order_in_which_values_come_does_not_matter(
            mut entries in proptest::collection::vec((0u32..50, proptest::collection::vec("[a-c]{0,2}", 0..4)), 0..12),
            seed in any::<u64>(),
        ) {
            let build = |entries: &[(u32, Vec<String>)]| -> Hologram {
                entries.iter().map(|(a, v)| (Attribute(*a), v.iter().map(|v| v.clone().into_bytes()).collect())).collect()
            };
            let first = build(&entries);
            let length = entries.len().max(1);
            entries.rotate_left(seed as usize % length);
            for (_, values) in &mut entries {
                values.reverse();
            }
            let second = build(&entries);
            prop_assert_eq!(&first, &second);
            prop_assert_eq!(Hologram::from_bytes(first.as_bytes()), Ok(second));
        }

        #[test]
        fn any_bytes_are_an_image_or_damaged(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(image) = Hologram::from_bytes(&bytes) {
                for (attribute, values) in image.iter() {
                    prop_assert_eq!(values.iter().count(), values.count());
                    prop_assert!(image.get(attribute).is_some());
                }
            }
        }
    }
}
