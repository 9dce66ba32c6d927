//! Rows of comma-separated values (RFC 4180) in the files of a record. A cell in quotation marks may contain
//! commas, quotation marks and line breaks.

use csv_core::{ReadRecordResult, Reader};

use crate::limits::{Budget, LINE_BYTES_MAX};
use crate::lines::Lines;

/// Appends a row; its cells are quoted if necessary.
pub(crate) fn write<I>(out: &mut Vec<u8>, cells: I) -> csv::Result<()>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(cells)?;
    Ok(writer.flush()?)
}

/// The cells of the last row. Its memory is reused for the next one.
#[derive(Debug)]
pub(crate) struct Row {
    reader: Reader,
    /// The concatenated cells.
    text: Vec<u8>,
    text_length: usize,
    /// The end of each cell in `text`.
    ends: Vec<usize>,
    count: usize,
}

impl Row {
    /// A buffer without a row.
    pub(crate) fn new() -> Row {
        Row { reader: Reader::new(), text: Vec::new(), text_length: 0, ends: Vec::new(), count: 0 }
    }

    /// Reads the next row; returns false at the end or at a limit. A truncated row is skipped.
    pub(crate) fn read(&mut self, lines: &mut Lines, budget: &mut Budget) -> bool {
        (self.text_length, self.count) = (0, 0);
        self.reader.reset();
        let mut length = 0;
        while let Some(line) = lines.next_whole(budget) {
            // An empty line is a row too; the parser would skip it.
            if line == b"\n" && length == 0 {
                return true;
            }
            length += line.len();
            if length > LINE_BYTES_MAX {
                let mebibytes = LINE_BYTES_MAX >> 20;
                lines
                    .stop(format!("a row is longer than {mebibytes} MiB; this row and the rest are ignored"));
                return false;
            }
            if (length == line.len() && self.split(line)) || self.take(line) {
                if std::str::from_utf8(&self.text[..self.text_length]).is_err() {
                    lines.note("it contains bytes that are not text and was read up to them");
                }
                return true;
            }
        }
        if length > 0 {
            lines.unreadable();
        }
        false
    }

    /// Splits a whole row without quotation marks, which is faster; false if it has any.
    fn split(&mut self, line: &[u8]) -> bool {
        let Some((b'\n', cells)) = line.split_last() else { return false };
        if cells.iter().any(|byte| matches!(byte, b'"' | b'\r' | b'\n')) {
            return false;
        }
        self.text.resize(self.text.len().max(cells.len()), 0);
        self.ends.clear();
        let mut length = 0;
        for byte in cells {
            if *byte == b',' {
                self.ends.push(length);
            } else {
                self.text[length] = *byte;
                length += 1;
            }
        }
        self.ends.push(length);
        (self.text_length, self.count) = (length, self.ends.len());
        true
    }

    /// Parses a line, which must not be empty: the parser treats empty input as the end of the file. Returns
    /// true at the end of the row.
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

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The cells, in order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends[..self.count]).map(|(begin, end)| &self.text[*begin..*end])
    }
}

/// The number in a cell.
pub(crate) fn number<T: std::str::FromStr>(cell: &[u8]) -> Option<T> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

/// Powers of ten that a number with a point is divided by.
const POWERS: [f64; 16] =
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The number in a cell. One of up to 15 digits, as readings have, is exact as an integer, and so is the power of ten: the
/// quotient is the nearest number, as that of the general way.
pub(crate) fn reading(cell: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match cell {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut whole, mut point) = (0_u64, None);
    if digits.len() > 15 {
        return number(cell);
    }
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => whole = 10 * whole + u64::from(byte - b'0'),
            b'.' if point.is_none() && at > 0 => point = Some(at),
            _ => return number(cell),
        }
    }
    let decimals = match point {
        Some(at) => digits.len() - at - 1,
        None if digits.is_empty() => return None,
        None => 0,
    };
    let value = whole as f64 / POWERS[decimals];
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rows of a text, and whether the whole text is valid.
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

    #[test]
    fn readings_are_the_nearest_numbers() {
        for text in [
            "",
            "-",
            "0",
            "-7",
            "12.5",
            "1.",
            ".5",
            "-.5",
            "1e3",
            "1.2.3",
            "x",
            "123456789012345",
            "0.1234567890123",
            "1234567890123456",
        ] {
            assert_eq!(reading(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_reading_is_that_of_the_general_way(text in "-?[0-9]{0,9}\\.?[0-9]{0,9}") {
            prop_assert_eq!(reading(text.as_bytes()), text.parse::<f64>().ok());
        }

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
