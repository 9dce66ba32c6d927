//! The phases of an import, from the log of 389 Directory Server.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest line that is read.
const LINE_MAX: usize = 16 << 10;

/// What begins a phase, and its name: the messages are those of `bdb_import*.c` of version 2.3.
static BEGINNINGS: &[(&str, &str)] = &[
    ("Processing file", "reading and indexing"),
    ("Beginning pass number", "reading and indexing"),
    ("Finished scanning file", "indexing the rest"),
    ("Ending pass number", "ending the pass"),
    ("way merge of up to", "merging the passes"),
    ("Indexing complete.", "indexing the tree"),
    ("Flushing caches", "writing the database"),
    ("Import complete.", "closing"),
];

/// What a line of the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A phase begins.
    Phase(&'static str),
    /// A pass begins, the first or another one.
    Pass(u32),
    /// The import cache that the server chose, in bytes.
    Cache(u64),
    /// So many entries were left out.
    Skipped(u64),
}

/// Reads a line; what it says, in order.
pub(super) fn read(line: &str) -> Vec<Said> {
    let mut said = Vec::new();
    let after = |text: &str| line.split_once(text).map(|(_, rest)| rest.trim_start());
    let number = |text: Option<&str>| -> Option<u64> {
        let text = text?;
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        text.get(..end)?.parse().ok()
    };
    if let Some(number) = number(after("Beginning pass number")) {
        said.push(Said::Pass(u32::try_from(number).unwrap_or(u32::MAX)));
    }
    if let Some((_, name)) = BEGINNINGS.iter().find(|(text, _)| line.contains(text)) {
        said.push(Said::Phase(name));
    }
    if let Some(kilobytes) = number(after("Import allocates ")) {
        said.push(Said::Cache(kilobytes.saturating_mul(1024)));
    }
    if let Some(skipped) = number(after(" entries (").filter(|_| line.contains("Import complete."))) {
        said.push(Said::Skipped(skipped));
    }
    said
}

/// Reads the lines of a file that grows.
#[derive(Debug)]
pub(super) struct Follower {
    file: File,
    line: Vec<u8>,
}

impl Follower {
    pub(super) fn open(path: &Path) -> io::Result<Follower> {
        Ok(Follower { file: File::open(path)?, line: Vec::new() })
    }

    /// Passes on the lines that have come whole since the last call.
    pub(super) fn lines(&mut self, mut take: impl FnMut(&str)) -> io::Result<()> {
        let mut part = [0; 8192];
        loop {
            let count = match self.file.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in part.get(..count).unwrap_or_default() {
                if *byte == b'\n' {
                    take(&String::from_utf8_lossy(&self.line));
                    self.line.clear();
                } else if self.line.len() < LINE_MAX {
                    self.line.push(*byte);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_show_phases_and_passes() {
        let prefix = "[26/Nov/2026:08:05:13.286 +0000] - INFO - bdb_import - import userroot: ";
        for (line, expected) in [
            ("Beginning import job...", vec![]),
            ("Processing file \"/data/people.ldif\"", vec![Said::Phase("reading and indexing")]),
            ("Ending pass number 1 ...", vec![Said::Phase("ending the pass")]),
            ("Beginning pass number 2", vec![Said::Pass(2), Said::Phase("reading and indexing")]),
            ("Beginning 2-way merge of up to 27 files...", vec![Said::Phase("merging the passes")]),
            ("Import allocates 9396460KB import cache.", vec![Said::Cache(9_396_460 << 10)]),
            (
                "Import complete.  Processed 50002 entries in 18 seconds. (2777.89 entries/sec)",
                vec![Said::Phase("closing")],
            ),
            (
                "Import complete.  Processed 2 entries (1 were skipped) in 1 seconds. (2.00 entries/sec)",
                vec![Said::Phase("closing"), Said::Skipped(1)],
            ),
            ("Beginning pass number", vec![Said::Phase("reading and indexing")]),
            ("Import allocates 99999999999999999999999KB", vec![]),
        ] {
            assert_eq!(read(&format!("{prefix}{line}")), expected, "{line}");
        }
    }

    #[test]
    fn lines_come_whole() {
        let folder = testkit::Scratch::new();
        let path = folder.file("log", "one\ntw");
        let mut follower = Follower::open(&path).unwrap();
        let mut seen = Vec::new();
        follower.lines(|line| seen.push(line.to_string())).unwrap();
        assert_eq!(seen, ["one"]);
        let mut file = File::options().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, b"o\nthree\n").unwrap();
        follower.lines(|line| seen.push(line.to_string())).unwrap();
        assert_eq!(seen, ["one", "two", "three"]);
    }
}
