//! Records of bounded length. A longer record is truncated, and reading continues after it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::file::{PIECE_BYTES, RECORD_BYTES_MAX, fill, open, unreadable};
use metadir::agent::AgentError;

/// The limit of the fields in a record.
const FIELDS_MAX: usize = 1 << 16;

pub(super) struct Records {
    input: BufReader<Take<File>>,
    path: PathBuf,
    core: Reader,
    /// Number of lines before the part that is read here.
    lines_before: u64,
    line: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
}

impl Records {
    /// Opens the records of a file; none if it does not exist.
    pub(super) fn open(path: &Path, delimiter: u8) -> Result<Option<Records>, AgentError> {
        let Some(file) = open(path)? else { return Ok(None) };
        Ok(Some(Records::of(file.into_inner(), u64::MAX, path, delimiter)))
    }

    fn of(file: File, bytes: u64, path: &Path, delimiter: u8) -> Records {
        Records {
            input: BufReader::with_capacity(PIECE_BYTES, file.take(bytes)),
            path: path.into(),
            core: ReaderBuilder::new().delimiter(delimiter).build(),
            lines_before: 0,
            line: 0,
            bytes: vec![0; 1 << 12],
            ends: vec![0; 1 << 6],
            fields: 0,
        }
    }

    /// The records of a part of a file, which begins with a record, after the given number of lines.
    pub(super) fn part(
        path: &Path,
        delimiter: u8,
        bytes: std::ops::Range<u64>,
        lines_before: u64,
    ) -> Result<Option<Records>, AgentError> {
        let Some(file) = open(path)? else { return Ok(None) };
        let mut file = file.into_inner();
        file.seek(SeekFrom::Start(bytes.start)).map_err(|error| unreadable(path, error))?;
        let records = Records::of(file, bytes.end - bytes.start, path, delimiter);
        Ok(Some(Records { lines_before, ..records }))
    }

    /// Reads the next record; returns whether it was short enough to be kept. None at the end.
    pub(super) fn next(&mut self) -> Result<Option<bool>, AgentError> {
        self.pass_line_ends()?;
        self.line = self.lines_before + self.core.line();
        let (mut bytes, mut fields, mut is_whole) = (0, 0, true);
        loop {
            let input = fill(&mut self.input).map_err(|error| unreadable(&self.path, error))?;
            let (result, read, written, ended) =
                self.core.read_record(input, &mut self.bytes[bytes..], &mut self.ends[fields..]);
            self.input.consume(read);
            bytes += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() < RECORD_BYTES_MAX => {
                    self.bytes.resize(self.bytes.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < FIELDS_MAX => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    (bytes, fields, is_whole) = (0, 0, false);
                }
                ReadRecordResult::Record => {
                    self.fields = if is_whole { fields } else { 0 };
                    return Ok(Some(is_whole));
                }
                ReadRecordResult::End => {
                    self.fields = 0;
                    return Ok(None);
                }
            }
        }
    }

    /// Advances to the beginning of the next record: skips a line feed after a carriage return, and empty
    /// lines.
    fn pass_line_ends(&mut self) -> Result<(), AgentError> {
        loop {
            let input = fill(&mut self.input).map_err(|error| unreadable(&self.path, error))?;
            let ends = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if ends == 0 {
                return Ok(());
            }
            self.core.read_record(&input[..ends], &mut self.bytes, &mut self.ends);
            self.input.consume(ends);
        }
    }

    /// The number of the first line of the record, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The number of fields; 0 if the record is too long.
    pub(super) fn count(&self) -> usize {
        self.fields
    }

    pub(super) fn field(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.fields].get(at)?;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        self.bytes.get(begin..end)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.fields).map_while(|at| self.field(at))
    }

    /// The bytes of all its fields.
    pub(super) fn bytes(&self) -> &[u8] {
        let end = self.ends[..self.fields].last().copied().unwrap_or(0);
        self.bytes.get(..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_record_knows_its_line_whatever_ends_the_lines() {
        let scratch = Scratch::new();
        let path = scratch.join("lines.csv");
        for (text, expected) in [
            ("id,name\n1,a\n2,b", [1, 2, 3]),
            ("id,name\r\n1,a\r\n2,b\r\n", [1, 2, 3]),
            ("\r\n\nid,name\n\n\n1,\"a\r\n\nb\"\r\n\r\n2,b\n\n", [3, 6, 10]),
            ("\u{feff}id,name\n\r1,a\n2,b\n", [1, 2, 3]),
        ] {
            std::fs::write(&path, text).unwrap();
            let mut records = Records::open(&path, b',').unwrap().unwrap();
            for line in expected {
                assert_eq!((records.next().unwrap(), records.line()), (Some(true), line), "{text:?}");
            }
            assert_eq!((records.count(), records.next().unwrap()), (2, None), "{text:?}");
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_reported_and_takes_no_more_memory_than_it_may() {
        let scratch = Scratch::new();
        let path = scratch.join("long.csv");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"id,text\n1,\"a \"\"b\"\"\nc\"\n2,").unwrap();
        for _ in 0..100 {
            file.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        file.write_all(b"\n3,").unwrap();
        file.write_all(&vec![b','; 2 * FIELDS_MAX]).unwrap();
        file.write_all(b"\n4,ok").unwrap();
        let mut records = Records::open(&path, b',').unwrap().unwrap();
        let mut reported = Vec::new();
        while let Some(is_whole) = records.next().unwrap() {
            let fields: Vec<String> =
                records.fields().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            reported.push((records.line(), is_whole, fields.join("|")));
        }
        let record = |line, is_whole, fields: &str| (line, is_whole, fields.to_string());
        assert_eq!(
            reported,
            [
                record(1, true, "id|text"),
                record(2, true, "1|a \"b\"\nc"),
                record(4, false, ""),
                record(5, false, ""),
                record(6, true, "4|ok"),
            ]
        );
        assert!(records.bytes.len() <= RECORD_BYTES_MAX && records.ends.len() <= FIELDS_MAX);
    }
}
