//! The subset of BER that LDAP uses (RFC 4511, section 5.1): tags of one byte and definite lengths.
//!
//! Encoding appends to a buffer, decoding borrows from one; neither allocates. This module is independent of
//! LDAP.

use std::fmt;

/// Tag of BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// Tag of INTEGER.
pub const INTEGER: u8 = 0x02;
/// Tag of OCTET STRING.
pub const OCTETS: u8 = 0x04;
/// Tag of ENUMERATED.
pub const ENUMERATED: u8 = 0x0a;
/// Tag of SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// Tag of SET.
pub const SET: u8 = 0x31;

/// The tag of an APPLICATION type; `constructed` if it contains other elements.
pub const fn application(number: u8, constructed: bool) -> u8 {
    0x40 | (constructed as u8) << 5 | number
}

/// The tag of a context-specific type; `constructed` if it contains other elements.
pub const fn context(number: u8, constructed: bool) -> u8 {
    0x80 | (constructed as u8) << 5 | number
}

/// Why bytes are invalid. The error never contains any of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BerError(pub &'static str);

impl fmt::Display for BerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for BerError {}

/// The element is truncated.
const CUT: BerError = BerError("an element is longer than what holds it");

/// Appends elements to a buffer.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Encoder { out }
    }

    /// Appends an element with the content that `content` appends.
    pub fn constructed(&mut self, tag: u8, content: impl FnOnce(&mut Encoder<'_>)) {
        self.out.extend_from_slice(&[tag, 0]);
        let begin = self.out.len();
        content(&mut Encoder { out: self.out });
        let length = self.out.len() - begin;
        match u8::try_from(length) {
            Ok(short @ 0..=127) => self.out[begin - 1] = short,
            // So rare that moving the content costs less than computing its length first.
            _ => {
                let bytes = length.to_be_bytes();
                let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
                let bytes = &bytes[first..];
                self.out[begin - 1] = 0x80 | bytes.len() as u8;
                self.out.extend_from_slice(bytes);
                self.out[begin..].rotate_right(bytes.len());
            }
        }
    }

    /// Appends an element with these bytes.
    pub fn octets(&mut self, tag: u8, bytes: &[u8]) {
        self.out.push(tag);
        match u8::try_from(bytes.len()) {
            Ok(short @ 0..=127) => self.out.push(short),
            _ => {
                let length = bytes.len().to_be_bytes();
                let first = length.iter().position(|byte| *byte != 0).unwrap_or(0);
                self.out.push(0x80 | (length.len() - first) as u8);
                self.out.extend_from_slice(&length[first..]);
            }
        }
        self.out.extend_from_slice(bytes);
    }

    /// Appends an integer in the shortest form.
    pub fn integer(&mut self, tag: u8, value: i64) {
        let bytes = value.to_be_bytes();
        // A leading byte that only repeats the sign is omitted.
        let sign = if value < 0 { 0xff } else { 0 };
        let needless = |pair: &[u8]| pair[0] == sign && pair[1] & 0x80 == sign & 0x80;
        let first = bytes.windows(2).take_while(|pair| needless(pair)).count();
        self.octets(tag, &bytes[first..]);
    }

    /// Appends a Boolean.
    pub fn boolean(&mut self, tag: u8, value: bool) {
        self.octets(tag, &[if value { 0xff } else { 0 }]);
    }

    /// Appends elements that are already encoded.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}

/// Reads elements one after another.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes }
    }

    /// Whether all bytes are decoded.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The tag of the next element.
    pub fn tag(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// The bytes that are not decoded yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next element: its tag and its content.
    #[inline]
    pub fn element(&mut self) -> Result<(u8, &'a [u8]), BerError> {
        match header(self.bytes)? {
            Some(Header { tag, begin, length }) => {
                let end = begin.checked_add(length).ok_or(CUT)?;
                let content = self.bytes.get(begin..end).ok_or(CUT)?;
                self.bytes = &self.bytes[end..];
                Ok((tag, content))
            }
            None => Err(CUT),
        }
    }

    /// Skips the next element and returns it with its tag and length.
    #[inline]
    pub fn whole_element(&mut self) -> Result<&'a [u8], BerError> {
        let before = self.bytes;
        self.element()?;
        Ok(&before[..before.len() - self.bytes.len()])
    }

    /// The content of the next element, which must have this tag.
    #[inline]
    pub fn expect(&mut self, tag: u8) -> Result<&'a [u8], BerError> {
        match self.tag() {
            Some(found) if found == tag => Ok(self.element()?.1),
            Some(_) => Err(BerError("there is an element of another kind")),
            None => Err(BerError("an element is missing")),
        }
    }

    /// The content of the next element if it has this tag.
    #[inline]
    pub fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, BerError> {
        match self.tag() {
            Some(found) if found == tag => Ok(Some(self.element()?.1)),
            _ => Ok(None),
        }
    }

    /// A decoder of the elements in the next one, which must have this tag.
    pub fn constructed(&mut self, tag: u8) -> Result<Decoder<'a>, BerError> {
        Ok(Decoder { bytes: self.expect(tag)? })
    }

    /// A text in UTF-8.
    pub fn text(&mut self, tag: u8) -> Result<&'a str, BerError> {
        as_text(self.expect(tag)?)
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, tag: u8) -> Result<i64, BerError> {
        as_integer(self.expect(tag)?)
    }

    /// An integer from 0 to `u32::MAX`.
    #[inline]
    pub fn unsigned(&mut self, tag: u8) -> Result<u32, BerError> {
        u32::try_from(self.integer(tag)?).map_err(|_| BerError("a number is out of its range"))
    }

    /// A Boolean.
    pub fn boolean(&mut self, tag: u8) -> Result<bool, BerError> {
        as_boolean(self.expect(tag)?)
    }
}

/// The bytes as text.
#[inline]
pub fn as_text(bytes: &[u8]) -> Result<&str, BerError> {
    std::str::from_utf8(bytes).map_err(|_| BerError("a text is not UTF-8"))
}

/// The content of an INTEGER or ENUMERATED.
#[inline]
pub fn as_integer(bytes: &[u8]) -> Result<i64, BerError> {
    let (Some(first), 1..=8) = (bytes.first(), bytes.len()) else {
        return Err(BerError("a number has 0 bytes or more than 8"));
    };
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
}

/// The content of a BOOLEAN.
pub fn as_boolean(bytes: &[u8]) -> Result<bool, BerError> {
    match bytes {
        [byte] => Ok(*byte != 0),
        _ => Err(BerError("a boolean does not have 1 byte")),
    }
}

/// The tag and length of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its tag.
    pub tag: u8,
    /// The offset of its content, in bytes.
    pub begin: usize,
    /// The length of its content, in bytes.
    pub length: usize,
}

/// The header of the element at the start; `None` if it is incomplete.
#[inline]
pub fn header(bytes: &[u8]) -> Result<Option<Header>, BerError> {
    let [tag, rest @ ..] = bytes else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err(BerError("a tag has more than one byte"));
    }
    let [length, rest @ ..] = rest else { return Ok(None) };
    match length {
        0..=0x7f => Ok(Some(Header { tag: *tag, begin: 2, length: usize::from(*length) })),
        0x80 => Err(BerError("the length of an element is not given")),
        0x81..=0x88 => {
            let count = usize::from(length & 0x7f);
            let Some(bytes) = rest.get(..count) else { return Ok(None) };
            let length = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            let length = usize::try_from(length).map_err(|_| CUT)?;
            Ok(Some(Header { tag: *tag, begin: 2 + count, length }))
        }
        _ => Err(BerError("the length of an element has more than 8 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out));
        out
    }

    #[test]
    fn numbers_have_as_few_bytes_as_they_need() {
        let cases: &[(i64, &[u8])] = &[
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0, 0x80]),
            (256, &[1, 0]),
            (-1, &[0xff]),
            (-128, &[0x80]),
            (-129, &[0xff, 0x7f]),
            (i64::MAX, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (i64::MIN, &[0x80, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (value, bytes) in cases {
            let written = encoded(|to| to.integer(INTEGER, *value));
            assert_eq!(&written[2..], *bytes, "{value}");
            assert_eq!(Decoder::new(&written).integer(INTEGER), Ok(*value));
        }
    }

    #[test]
    fn lengths_are_written_short_and_read_in_any_form() {
        for (length, head) in [(127, &[4, 127][..]), (128, &[4, 0x81, 128]), (300, &[4, 0x82, 1, 44])] {
            let content = vec![7; length];
            let flat = encoded(|to| to.octets(OCTETS, &content));
            assert_eq!(flat, [head, &content].concat());
            assert_eq!(encoded(|to| to.constructed(OCTETS, |to| to.raw(&content))), flat);
            assert_eq!(Decoder::new(&flat).element(), Ok((4, &content[..])));
        }
        assert_eq!(Decoder::new(&[0x30, 0x84, 0, 0, 0, 1, 9]).element(), Ok((0x30, &[9][..])));
    }

    #[test]
    fn what_is_no_element_is_an_error() {
        for (bytes, what) in [
            (&[][..], "an element is longer than what holds it"),
            (&[4], "an element is longer than what holds it"),
            (&[4, 2, 0], "an element is longer than what holds it"),
            (&[4, 0x82, 1], "an element is longer than what holds it"),
            (&[4, 0x88, 255, 255, 255, 255, 255, 255, 255, 255], "an element is longer than what holds it"),
            (&[4, 0x80, 0, 0], "the length of an element is not given"),
            (&[4, 0x89, 0], "the length of an element has more than 8 bytes"),
            (&[0x1f, 0x85, 0], "a tag has more than one byte"),
        ] {
            assert_eq!(Decoder::new(bytes).element(), Err(BerError(what)), "{bytes:?}");
        }
        assert_eq!(as_integer(&[]), as_integer(&[0; 9]));
        assert!(as_boolean(&[]).is_err() && as_boolean(&[1, 1]).is_err());
    }

    proptest! {
        #[test]
        fn a_number_is_read_back(value: i64) {
            let written = encoded(|to| to.integer(ENUMERATED, value));
            prop_assert_eq!(Decoder::new(&written).integer(ENUMERATED), Ok(value));
        }
    }
}
