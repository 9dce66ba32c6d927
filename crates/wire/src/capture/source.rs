//! Bytes of a stream, a piece at a time, with their offset.

use std::io::{ErrorKind, Read};

use super::CaptureError;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 18;

/// A buffered stream.
pub(super) struct Source<R> {
    from: R,
    buffer: Vec<u8>,
    /// The bytes that are read and not consumed.
    begin: usize,
    end: usize,
    /// Offset of `begin` in the stream.
    offset: u64,
    is_at_end: bool,
}

impl<R: Read> Source<R> {
    pub(super) fn new(from: R) -> Self {
        Source { from, buffer: Vec::new(), begin: 0, end: 0, offset: 0, is_at_end: false }
    }

    /// Bytes before the next one.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until `length` bytes are there; false if the stream ends before.
    #[inline]
    pub(super) fn fill(&mut self, length: usize) -> Result<bool, CaptureError> {
        if self.end - self.begin >= length { Ok(true) } else { self.read(length) }
    }

    #[cold]
    fn read(&mut self, length: usize) -> Result<bool, CaptureError> {
        while self.end - self.begin < length {
            if self.is_at_end {
                return Ok(false);
            }
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
            if self.buffer.len() < length.max(CHUNK) {
                self.buffer.resize(length.max(CHUNK), 0);
            }
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(format!("cannot be read: {error}"))),
            }
        }
        Ok(true)
    }

    /// The bytes that are there.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// The next bytes, which [`fill`](Source::fill) found.
    #[inline]
    pub(super) fn taken(&mut self, length: usize) -> &[u8] {
        let begin = self.begin;
        self.begin = (begin + length).min(self.end);
        self.offset += (self.begin - begin) as u64;
        &self.buffer[begin..self.begin]
    }

    /// Skips bytes, of which not all need to fit into memory; false if the stream ends before.
    pub(super) fn skip(&mut self, mut length: u64) -> Result<bool, CaptureError> {
        while length > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let step = length.min((self.end - self.begin) as u64);
            self.taken(step as usize);
            length -= step;
        }
        Ok(true)
    }

    /// An error at the next byte.
    pub(super) fn error(&self, what: impl Into<String>) -> CaptureError {
        CaptureError { offset: self.offset, what: what.into() }
    }
}
