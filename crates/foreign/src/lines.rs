//! Whole small files, and what was left out of larger ones.

use std::io::Read as _;

use crate::input::Text;
use crate::{Fault, Source};

/// All of a file that has at most `bytes_max` bytes as UTF-8.
pub(crate) fn whole(from: Source, bytes_max: usize) -> Result<String, Fault> {
    let mut text = Vec::new();
    Text::new(from)
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|error| Fault::of_file(&error))?;
    if text.len() > bytes_max {
        let what = format!("the file is larger than {} MiB", bytes_max >> 20);
        return Err(Fault::at(0, what, "a summary of this tool is smaller: is it the right file?"));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Lines that could not be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unread {
    pub(crate) count: u64,
    pub(crate) first_line: u64,
}

impl Unread {
    pub(crate) fn add(&mut self, line: u64) {
        if self.count == 0 {
            self.first_line = line;
        }
        self.count += 1;
    }

    /// Adds a sentence about them, if there are any.
    pub(crate) fn note(&self, notes: &mut Vec<String>) {
        match self.count {
            0 => {}
            1 => notes.push(format!("line {} cannot be read; it was left out", self.first_line)),
            count => notes.push(format!(
                "{count} lines cannot be read, the first is {}; they were left out",
                self.first_line
            )),
        }
    }
}

/// A count with its noun: `1 request`, `2 requests`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{LINE_BYTES_MAX, Lines};

    #[test]
    fn long_lines_are_cut_and_numbers_stay() {
        let long = "x".repeat(LINE_BYTES_MAX as usize + 10);
        let text = format!("a\r\n{long}\nlast");
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(text.into_bytes())));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, line.text.len(), line.text.chars().next()));
        }
        assert_eq!(found, [(1, 1, Some('a')), (2, 1 << 20, Some('x')), (3, 4, Some('l'))]);
    }

    #[test]
    fn a_large_file_is_refused() {
        let source = || -> Source { Box::new(std::io::Cursor::new(vec![b' '; (1 << 20) + 1])) };
        assert!(whole(source(), 1 << 20).is_err());
        assert_eq!(whole(source(), 2 << 20).unwrap().len(), (1 << 20) + 1);
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let mut unread = Unread::default();
        let mut notes = Vec::new();
        unread.note(&mut notes);
        unread.add(7);
        unread.note(&mut notes);
        unread.add(9);
        unread.note(&mut notes);
        assert_eq!(
            notes,
            [
                "line 7 cannot be read; it was left out",
                "2 lines cannot be read, the first is 7; they were left out"
            ]
        );
    }
}
