//! Reads the text files of a record line by line, with at most one line in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use files::Directory;
use flate2::bufread::MultiGzDecoder;

use crate::limits::{Budget, FILE_TEXT_MAX, LINE_BYTES_MAX, UNREADABLE_LINES_MAX, too_large};

/// A file that is read line by line.
pub(crate) struct Lines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    text_left: u64,
    /// Whole lines so far, or the operations in them.
    count: u64,
    unreadable: u32,
    /// The damage found so far, in words.
    damage: Option<String>,
    is_over: bool,
}

/// A message with low priority: more serious damage replaces it.
const CUT_SHORT: &str = "an incomplete line was ignored";

impl Lines {
    /// Opens `name`, or `name.gz` if only that exists; none if neither exists. It is an error if the name is
    /// not a regular file.
    pub(crate) fn open(directory: &Directory, name: &str, budget: &mut Budget) -> io::Result<Option<Lines>> {
        match directory.open_file(name) {
            Ok(file) => return Ok(Some(Lines::of_file(file, budget)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match directory.open_file(format!("{name}.gz")) {
            Ok(file) => {
                budget.open(file.metadata()?.len());
                Ok(Some(Lines::of_gzip(BufReader::new(file))))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn of_file(file: File, budget: &mut Budget) -> io::Result<Lines> {
        budget.open(file.metadata()?.len());
        Ok(Lines::new(Box::new(BufReader::with_capacity(64 << 10, file))))
    }

    pub(crate) fn of_gzip(input: impl BufRead + 'static) -> Lines {
        Lines::new(Box::new(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(input))))
    }

    pub(crate) fn new(input: Box<dyn BufRead>) -> Lines {
        Lines {
            input,
            line: Vec::new(),
            text_left: FILE_TEXT_MAX,
            count: 0,
            unreadable: 0,
            damage: None,
            is_over: false,
        }
    }

    /// The next line, without its newline; none at the end or at a limit. A last line without a newline was
    /// truncated and is skipped.
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Option<&[u8]> {
        self.next_whole(budget).map(|line| &line[..line.len() - 1])
    }

    /// The next line with its newline.
    pub(crate) fn next_whole(&mut self, budget: &mut Budget) -> Option<&[u8]> {
        if self.is_over {
            return None;
        }
        self.line.clear();
        // One byte more than the limit, to detect a longer line.
        let most = (LINE_BYTES_MAX as u64 + 1).min(self.text_left.saturating_add(1));
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.line);
        let length = self.line.len();
        match read {
            Err(_) => {
                self.stop("it is damaged and was read up to the damage".into());
                return None;
            }
            Ok(0) => {
                self.is_over = true;
                return None;
            }
            Ok(_) => {}
        }
        if length as u64 > self.text_left {
            let mebibytes = FILE_TEXT_MAX >> 20;
            self.stop(format!("it has more than {mebibytes} MiB of text; the rest is ignored"));
        } else if length > LINE_BYTES_MAX {
            let mebibytes = LINE_BYTES_MAX >> 20;
            self.stop(format!("a line is longer than {mebibytes} MiB; this line and the rest are ignored"));
        } else if self.line.last() != Some(&b'\n') {
            self.stop(CUT_SHORT.into());
        } else if !budget.take_line(length) {
            self.full();
        } else {
            self.text_left -= length as u64;
            self.count += 1;
            return Some(&self.line);
        }
        None
    }

    /// Records that the last line was invalid and is skipped.
    pub(crate) fn unreadable(&mut self) {
        self.note(CUT_SHORT);
        self.unreadable += 1;
        if self.unreadable >= UNREADABLE_LINES_MAX {
            self.is_over = true;
            self.damage = Some(format!("{UNREADABLE_LINES_MAX} lines cannot be read; the rest is ignored"));
        }
    }

    /// Records that the memory limit was reached.
    pub(crate) fn full(&mut self) {
        self.stop(format!("{}, and the rest is left out", too_large()));
    }

    /// Records damage; the first damage is kept.
    pub(crate) fn note(&mut self, what: &str) {
        self.damage.get_or_insert_with(|| what.to_string());
    }

    /// Stops reading, which is more important than a skipped line.
    pub(crate) fn stop(&mut self, why: String) {
        self.is_over = true;
        match self.damage.as_deref() {
            Some(known) if known != CUT_SHORT => {}
            _ => self.damage = Some(why),
        }
    }

    /// The file is counted by this number of operations, not by its lines.
    pub(crate) fn count_as(&mut self, operations: u64) {
        self.count = operations;
    }

    /// The whole lines that were read, or the operations in them.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The damage of the file, after it was read.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: Vec<u8>) -> (usize, Option<String>) {
        let mut lines = Lines::new(Box::new(io::Cursor::new(bytes)));
        let mut budget = Budget::new();
        let mut count = 0;
        while lines.next(&mut budget).is_some() {
            count += 1;
        }
        (count, lines.damage().map(str::to_string))
    }

    #[test]
    fn lines_end_where_a_limit_is_reached() {
        assert_eq!(lines(b"a\nb\n".to_vec()), (2, None));
        assert_eq!(lines(b"a\nb".to_vec()), (1, Some(CUT_SHORT.into())));
        assert_eq!(lines(Vec::new()), (0, None));
        let mut long = vec![b'x'; LINE_BYTES_MAX];
        long.extend(b"\nb\n");
        let (count, damage) = lines(long);
        assert_eq!(count, 0);
        assert!(damage.unwrap().contains("longer than 2 MiB"));
        // 256 MiB of memory at 32 bytes per line.
        let (count, damage) = lines(vec![b'\n'; 9 << 20]);
        assert_eq!(count, 8 << 20);
        assert!(damage.unwrap().contains("more memory than its limit"));
    }

    #[test]
    fn a_gzip_of_one_long_line_is_left_out_after_its_limit() {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        let block = vec![b'0'; 1 << 20];
        for _ in 0..64 {
            encoder.write_all(&block).unwrap();
        }
        let mut lines = Lines::of_gzip(io::Cursor::new(encoder.finish().unwrap()));
        assert!(lines.next(&mut Budget::new()).is_none());
        assert!(lines.line.capacity() <= 2 * LINE_BYTES_MAX + (128 << 10), "{}", lines.line.capacity());
    }
}
