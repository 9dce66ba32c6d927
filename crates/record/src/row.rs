//! Rows of comma-separated values (RFC 4180) in the files of a record. A cell in quotation marks may hold commas, quotation
//! marks and line breaks.

use csv_core::{ReadRecordResult, Reader};

use crate::limits::{Budget, LINE_BYTES_MAX};
use crate::lines::Lines;

/// Appends cells and the end of the row, each quoted where it must be.
pub(crate) fn write<I>(out: &mut Vec<u8>, cells: I) -> csv::Result<()>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(cells)?;
    Ok(writer.flush()?)
}

/// The cells of the row that was read last. Its memory is used again for the next.
#[derive(Debug)]
pub(crate) struct Row {
    reader: Reader,
    /// The cells, one after the other.
    text: Vec<u8>,
    text_length: usize,
    /// Where each cell ends in `text`.
    ends: Vec<usize>,
    count: usize,
}

impl Row {
    /// No row yet.
    pub(crate) fn new() -> Row {
        Row { reader: Reader::new(), text: Vec::new(), text_length: 0, ends: Vec::new(), count: 0 }
    }

    /// Reads the next row; false at the end, and where a limit is reached. A row that was cut short is left out.
    pub(crate) fn read(&mut self, lines: &mut Lines, budget: &mut Budget) -> bool {
        (self.text_length, self.count) = (0, 0);
        self.reader.reset();
        let mut length = 0;
        while let Some(line) = lines.next_whole(budget) {
            // The empty row is one too: it would be passed over.
            if line == b"\n" && length == 0 {
                return true;
            }
            length += line.len();
            if length > LINE_BYTES_MAX {
                let mebibytes = LINE_BYTES_MAX >> 20;
                lines.stop(format!("a row is longer than {mebibytes} MiB, and it and the rest is left out"));
                return false;
            }
            if self.take(line) {
                if std::str::from_utf8(&self.text[..self.text_length]).is_err() {
                    lines.note("it has bytes that are not text, and was read as far as it goes");
                }
                return true;
            }
        }
        if length > 0 {
            lines.unreadable();
        }
        false
    }

    /// Takes a line, which is never empty: the reader takes that for the end of the file; true at the end of the row.
    fn take(&mut self, mut input: &[u8]) -> bool {
        loop {
            let (result, read, written, ended) = self.reader.read_record(
                input,
                &mut self.text[self.text_length..],
                &mut self.ends[self.count..],
            );
            input = &input[read..];
            self.text_length += written;
            self.count += ended;
            match result {
                ReadRecordResult::InputEmpty => return false,
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len() + 256, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len() + 32, 0),
                ReadRecordResult::Record | ReadRecordResult::End => return true,
            }
        }
    }

    /// How many cells it has.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The cells in their order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends[..self.count]).map(|(begin, end)| &self.text[*begin..*end])
    }
}

/// A number of a cell.
pub(crate) fn number<T: std::str::FromStr>(cell: &[u8]) -> Option<T> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rows of a text, and whether all of it could be read.
    fn rows(text: &[u8]) -> (Vec<Vec<Vec<u8>>>, bool) {
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.to_vec())));
        let (mut row, mut budget) = (Row::new(), Budget::new());
        let mut all = Vec::new();
        while row.read(&mut lines, &mut budget) {
            all.push(row.cells().map(<[u8]>::to_vec).collect());
        }
        (all, lines.damage().is_none())
    }

    #[test]
    fn cells_of_older_records_are_read_as_they_stand() {
        let (all, whole) = rows(b"a,b \"c\",\n\nd\n");
        assert!(whole);
        assert_eq!(
            all,
            [vec![b"a".to_vec(), b"b \"c\"".to_vec(), b"".to_vec()], vec![], vec![b"d".to_vec()]]
        );
    }

    #[test]
    fn a_quotation_mark_that_nothing_closes_ends_at_a_limit() {
        let mut text = b"a,\"b".to_vec();
        text.extend(b"\nc,d".repeat(LINE_BYTES_MAX / 4 + 1));
        assert_eq!(rows(&text), (Vec::new(), false));
        assert_eq!(rows(b"a,\"b\nc,d\n"), (Vec::new(), false));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_a_cut_row_is_left_out(
            cells in prop::collection::vec(prop::collection::vec("[a,\"\r\nö ]{0,6}", 2..5), 1..4),
        ) {
            let mut text = Vec::new();
            for row in &cells {
                write(&mut text, row).unwrap();
            }
            let written: Vec<Vec<Vec<u8>>> =
                cells.iter().map(|row| row.iter().map(|cell| cell.as_bytes().to_vec()).collect()).collect();
            prop_assert_eq!(rows(&text), (written.clone(), true));
            for cut in 0..text.len() {
                let (all, whole) = rows(&text[..cut]);
                prop_assert!(all.len() < written.len());
                prop_assert_eq!(&all[..], &written[..all.len()]);
                let mut so_far = Vec::new();
                written[..all.len()].iter().for_each(|row| write(&mut so_far, row).unwrap());
                prop_assert_eq!(whole, so_far.len() == cut);
            }
        }
    }
}
