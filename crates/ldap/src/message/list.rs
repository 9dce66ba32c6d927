//! Repeated elements in a message.

use std::fmt;

use crate::ber::{BerError, Decoder, Encoder};

/// A type that can be in a [`List`].
pub trait Element<'a>: Copy {
    /// Encodes the element.
    fn encode(&self, to: &mut Encoder<'_>);

    /// Decodes an element.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, BerError>;
}

/// A list of elements: a slice to be sent, or received bytes.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Source<'a, T>);

#[derive(Clone, Copy)]
enum Source<'a, T> {
    Slice(&'a [T]),
    /// Consecutive elements, each of which was validated.
    Encoded(&'a [u8]),
}

impl<'a, T: Element<'a>> List<'a, T> {
    /// No elements.
    pub const NONE: Self = List(Source::Slice(&[]));

    /// Validates all elements, so that iteration cannot fail.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, BerError> {
        let mut from = Decoder::new(bytes);
        while !from.is_empty() {
            T::decode(&mut from)?;
        }
        Ok(List(Source::Encoded(bytes)))
    }

    pub(crate) fn encode(&self, to: &mut Encoder<'_>, tag: u8) {
        to.constructed(tag, |to| match self.0 {
            Source::Slice(slice) => slice.iter().for_each(|element| element.encode(to)),
            Source::Encoded(bytes) => to.raw(bytes),
        });
    }

    /// The elements, in order.
    pub fn iter(&self) -> Elements<'a, T> {
        Elements(self.0)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            Source::Slice(slice) => slice.is_empty(),
            Source::Encoded(bytes) => bytes.is_empty(),
        }
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        List(Source::Slice(slice))
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for List<'a, T> {
    fn from(slice: &'a [T; N]) -> Self {
        List(Source::Slice(slice))
    }
}

impl<'a, T> From<&'a Vec<T>> for List<'a, T> {
    fn from(slice: &'a Vec<T>) -> Self {
        List(Source::Slice(slice))
    }
}

impl<'a, T: Element<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Elements<'a, T>;

    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

/// Compares the elements.
impl<'a, T: Element<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over a [`List`].
pub struct Elements<'a, T>(Source<'a, T>);

impl<T> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Elements")
    }
}

impl<'a, T: Element<'a>> Iterator for Elements<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Source::Slice(slice) => {
                let (first, rest) = slice.split_first()?;
                *slice = rest;
                Some(*first)
            }
            Source::Encoded(bytes) => {
                let mut from = Decoder::new(bytes);
                let element = T::decode(&mut from).ok()?;
                *bytes = from.rest();
                Some(element)
            }
        }
    }
}
