//! Rows of delimited text, with the lines where they begin.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr;

use crate::Fault;

/// Bytes that are read at a time.
const CHUNK: usize = 128 << 10;

/// The longest row, and the most cells in one.
const ROW_BYTES_MAX: usize = 16 << 20;
const CELLS_MAX: usize = 1 << 18;

/// A place in a row, which is shorter than 2^32.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Rows of a stream of UTF-8.
pub(crate) struct Rows<R> {
    from: R,
    delimiter: u8,
    reader: Reader,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// The cells of a row that is not whole in the buffer, one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Where each cell of the row begins and ends, in `buffer` or in `bytes`.
    spans: Vec<(u32, u32)>,
    /// Line feeds so far.
    feeds: u64,
}

/// A row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The line where it begins, from 1.
    pub(crate) line: u64,
    bytes: &'a [u8],
    spans: &'a [(u32, u32)],
}

impl<'a> Row<'a> {
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn cell(&self, at: usize) -> Option<&'a [u8]> {
        let (begin, end) = *self.spans.get(at)?;
        self.bytes.get(begin as usize..end as usize)
    }

    pub(crate) fn cells(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).filter_map(move |at| self.cell(at))
    }
}

impl<R: Read> Rows<R> {
    pub(crate) fn new(from: R, delimiter: u8) -> Self {
        Rows {
            from,
            delimiter,
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            buffer: vec![0; CHUNK],
            begin: 0,
            end: 0,
            bytes: vec![0; 4096],
            ends: vec![0; 64],
            spans: Vec::new(),
            feeds: 0,
        }
    }

    /// The next row that is not empty; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>, Fault> {
        if let Some(line) = self.simple() {
            return Ok(Some(Row { line, bytes: &self.buffer, spans: &self.spans }));
        }
        // A row that is cut by the end of the buffer may be whole after it is moved to its begin.
        if 0 < self.begin && self.begin < self.end {
            self.fill_up()?;
            if let Some(line) = self.simple() {
                return Ok(Some(Row { line, bytes: &self.buffer, spans: &self.spans }));
            }
        }
        let (mut bytes, mut cells) = (0, 0);
        let (mut line, mut has_begun) = (self.feeds + 1, false);
        loop {
            // No bytes mean the end.
            if self.begin == self.end {
                self.fill()?;
            }
            let input = &self.buffer[self.begin..self.end];
            let (result, read, written, ended) =
                self.reader.read_record(input, &mut self.bytes[bytes..], &mut self.ends[cells..]);
            let feeds = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let used = &input[..read];
            if !has_begun {
                // The end of the row before, and empty lines.
                let between = used.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
                line += feeds(&used[..between.unwrap_or(read)]);
                has_begun = between.is_some();
            }
            self.feeds += feeds(used);
            self.begin += read;
            bytes += written;
            cells += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() < ROW_BYTES_MAX => {
                    self.bytes.resize(2 * self.bytes.len(), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < CELLS_MAX => {
                    self.ends.resize(2 * self.ends.len(), 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(Fault::at(
                        line,
                        "the row is longer than 16 MiB, or has more than 262,144 cells",
                        "a quotation mark without its other one may be the reason",
                    ));
                }
                ReadRecordResult::Record => {
                    let begins = [0].into_iter().chain(self.ends[..cells].iter().copied());
                    let spans = begins.zip(&self.ends[..cells]);
                    self.spans.clear();
                    self.spans.extend(spans.map(|(begin, end)| (place(begin), place(*end))));
                    return Ok(Some(Row { line, bytes: &self.bytes, spans: &self.spans }));
                }
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// The next row if it is whole in the buffer, and if quotation marks are only around whole cells: its line; its cells are left
    /// where they are. Almost all rows are so, and this is faster than the general way.
    fn simple(&mut self) -> Option<u64> {
        let there = &self.buffer[self.begin..self.end];
        // The end of the row before, and empty lines.
        let begin = there.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
        let feeds = there[..begin].iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = memchr(b'\n', &there[begin..])?;
        let row = &there[begin..begin + length];
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        if memchr(b'\r', row).is_some() {
            return None;
        }
        let first = self.begin + begin;
        self.spans.clear();
        let mut at = 0;
        loop {
            let (from, to) = if row.get(at) == Some(&b'"') {
                let end = at + 1 + position(&row[at + 1..], b'"')?;
                (at + 1, end)
            } else {
                let end = position(&row[at..], self.delimiter).map_or(row.len(), |length| at + length);
                if row[at..end].contains(&b'"') {
                    return None;
                }
                (at, end)
            };
            if self.spans.len() == CELLS_MAX {
                return None;
            }
            self.spans.push((place(first + from), place(first + to)));
            at = if from > at { to + 1 } else { to };
            match row.get(at) {
                None => break,
                Some(delimiter) if *delimiter == self.delimiter => at += 1,
                Some(_) => return None,
            }
        }
        let line = self.feeds + feeds + 1;
        self.feeds += feeds + 1;
        self.begin += begin + length + 1;
        Some(line)
    }

    fn fill(&mut self) -> Result<(), Fault> {
        (self.begin, self.end) = (0, 0);
        self.read_more().map(drop)
    }

    /// Moves what is left to the begin of the buffer, and reads until it is full or the stream ends.
    fn fill_up(&mut self) -> Result<(), Fault> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        while self.end < self.buffer.len() && self.read_more()? > 0 {}
        Ok(())
    }

    /// Reads once into the free part of the buffer; returns how much.
    fn read_more(&mut self) -> Result<usize, Fault> {
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::of_file(&error)),
                Ok(read) => {
                    self.end += read;
                    return Ok(read);
                }
            }
        }
    }
}

/// Where a byte first is. Cells are short, so that looking at eight bytes at a time is faster than a call of the library.
fn position(bytes: &[u8], of: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        // A byte that is equal becomes zero, and the lowest zero has the lowest high bit.
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(of));
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at..].iter().position(|byte| *byte == of).map(|rest| at + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of all rows with their lines, from pieces of this size.
    fn all(text: &[u8], size: usize) -> Vec<(u64, Vec<Vec<u8>>)> {
        let mut rows = Rows::new(text, b',');
        rows.buffer.truncate(size);
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            found.push((row.line, row.cells().map(<[u8]>::to_vec).collect()));
        }
        found
    }

    proptest::proptest! {
        #[test]
        fn rows_that_are_whole_are_as_those_in_pieces(text in "([ab,\"\r\n]|\"ab\",|\"a\"\r\n){0,30}") {
            // In pieces of a byte, no row is whole.
            proptest::prop_assert_eq!(all(text.as_bytes(), CHUNK), all(text.as_bytes(), 1));
        }
    }

    #[test]
    fn rows_have_their_lines() {
        let text = "a,b\r\n\r\n\"c\nd\",e\nf";
        let mut rows = Rows::new(text.as_bytes(), b',');
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cells: Vec<String> = row.cells().map(|cell| String::from_utf8_lossy(cell).into()).collect();
            found.push((row.line, cells.join("|")));
        }
        assert_eq!(found, [(1, "a|b".into()), (3, "c\nd|e".into()), (5, "f".into())]);
    }
}
