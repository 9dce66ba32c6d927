//! The file that is imported: its entries, and how many of them lie before an offset.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use engine::workload::LoadError;
use ldap::ldif;
use people::{Base, Format, Population, Sink, write_people};

use super::settings::Entries;

/// The distance of two offsets whose number of entries is kept.
const BLOCK_BYTES: u64 = 256 << 10;

/// How many bytes are read before progress is reported.
const REPORT_BYTES: u64 = 64 << 20;

/// The name of the suffix of generated people.
const PEOPLE_BASE: &str = "dc=example,dc=com";

/// All trials import the same people.
const PEOPLE_SEED: u64 = 1;

/// A file of entries.
#[derive(Debug)]
pub(super) struct LdifFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    /// The entries that begin before each multiple of [`BLOCK_BYTES`].
    before_block: Vec<u64>,
    /// The name of the first entry.
    pub(super) suffix: String,
}

/// Receives progress in words; returns false to stop.
type Say<'a> = &'a mut dyn FnMut(&str) -> bool;

fn stopped() -> LoadError {
    LoadError::new("the preparation was stopped", "")
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> LoadError {
    move |error| LoadError::new(format!("{}: {error}", path.display()), "")
}

impl LdifFile {
    /// The file to import. One that is generated or cut is written into `folder`.
    pub(super) fn prepare(entries: &Entries, folder: &Path, say: Say<'_>) -> Result<LdifFile, LoadError> {
        match entries {
            Entries::People(count, attributes) => {
                let path = folder.join("people.ldif");
                generate(&path, *count, *attributes, say)?;
                LdifFile::scan(&path, None, say)
            }
            Entries::File(path, None) => LdifFile::scan(path, None, say),
            Entries::File(path, Some(count)) => {
                let whole = LdifFile::scan(path, Some(*count), say)?;
                if whole.entries < *count {
                    let what =
                        format!("{} has {} entries, and `entries` is {count}", path.display(), whole.entries);
                    return Err(LoadError::new(what, "lower `entries`, or leave it out"));
                }
                let first = folder.join("first.ldif");
                copy(path, &first, whole.bytes, say)?;
                Ok(LdifFile { path: first, ..whole })
            }
        }
    }

    /// Counts the entries of a file, up to a number of them: its bytes are then those of these entries.
    fn scan(path: &Path, at_most: Option<u64>, say: Say<'_>) -> Result<LdifFile, LoadError> {
        let failed = failed(path);
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(&failed)?);
        let mut counter = Counter { at_most: at_most.unwrap_or(u64::MAX), ..Counter::default() };
        let mut reported = 0;
        loop {
            let bytes = reader.fill_buf().map_err(&failed)?;
            if bytes.is_empty() || counter.take(bytes) {
                break;
            }
            let length = bytes.len();
            reader.consume(length);
            if counter.offset >= reported + REPORT_BYTES {
                reported = counter.offset;
                if !say(&format!("counting the entries of the LDIF file: {} MB", reported / 1_000_000)) {
                    return Err(stopped());
                }
            }
        }
        if counter.entries == 0 {
            let what = format!("{} has no entries", path.display());
            return Err(LoadError::new(what, "an entry begins with a line such as dn: dc=example,dc=com"));
        }
        let bytes = counter.end.unwrap_or(counter.offset);
        let suffix = first_name(path)?;
        let Counter { entries, before_block, .. } = counter;
        // The tool runs in another folder.
        let path = std::path::absolute(path).map_err(&failed)?;
        Ok(LdifFile { path, bytes, entries, before_block, suffix })
    }

    /// Entries that a program has read that has read so many bytes.
    pub(super) fn entries_before(&self, offset: u64) -> u64 {
        let block = (offset / BLOCK_BYTES) as usize;
        let at = |block: usize| self.before_block.get(block).copied().unwrap_or(self.entries);
        let (below, above) = (at(block), at(block + 1));
        let share = (offset % BLOCK_BYTES) as f64 / BLOCK_BYTES as f64;
        let inside = (above.saturating_sub(below) as f64 * share) as u64;
        if offset >= self.bytes { self.entries } else { (below + inside).min(self.entries) }
    }
}

/// Counts lines that begin with `dn:`.
#[derive(Debug, Default)]
struct Counter {
    at_most: u64,
    entries: u64,
    before_block: Vec<u64>,
    offset: u64,
    /// Bytes of the present line that belong to `dn:`; none if the line is another one.
    matched: Option<u8>,
    is_in_line: bool,
    /// Where the entries end, if there are more than were asked for.
    end: Option<u64>,
}

impl Counter {
    /// Counts in the next bytes. Returns true if there are more entries than were asked for.
    fn take(&mut self, bytes: &[u8]) -> bool {
        const NAME: &[u8; 3] = b"dn:";
        let mut at = 0;
        while at < bytes.len() {
            if !self.is_in_line {
                self.is_in_line = true;
                self.matched = Some(0);
            }
            while let Some(matched) = self.matched {
                let Some(byte) = bytes.get(at) else { break };
                let Some(wanted) = NAME.get(usize::from(matched)) else { break };
                if byte.to_ascii_lowercase() != *wanted {
                    self.matched = None;
                } else if matched == 2 {
                    let begin = self.offset + at as u64 - 2;
                    if self.entries == self.at_most {
                        self.end = Some(begin);
                        return true;
                    }
                    self.mark(begin);
                    self.entries += 1;
                    self.matched = None;
                } else {
                    self.matched = Some(matched + 1);
                    at += 1;
                }
            }
            match memchr::memchr(b'\n', bytes.get(at..).unwrap_or_default()) {
                Some(end) => {
                    at += end + 1;
                    self.is_in_line = false;
                }
                None => break,
            }
        }
        self.offset += bytes.len() as u64;
        false
    }

    /// Keeps the number of entries before the blocks up to this offset.
    fn mark(&mut self, begin: u64) {
        while self.before_block.len() as u64 * BLOCK_BYTES <= begin {
            self.before_block.push(self.entries);
        }
    }
}

/// The name of the first entry, which is taken as the suffix of the database.
fn first_name(path: &Path) -> Result<String, LoadError> {
    let reader = ldif::Reader::open(path, ldif::Options::default()).map_err(failed(path))?;
    let mut reader = reader;
    let of_ldif = |error: ldif::LdifError| {
        LoadError::new(format!("{}:{}: {}", path.display(), error.line, error.what), error.help)
    };
    let record = reader.next().map_err(of_ldif)?;
    let Some(record) = record else {
        return Err(LoadError::new(format!("{} has no entries", path.display()), ""));
    };
    let name = record.dn.to_string();
    match ldap::Dn::parse(&name) {
        Ok(dn) if !dn.is_root() => Ok(name),
        Ok(_) => Err(LoadError::new(
            format!("{}:{}: the first entry has no name", path.display(), record.line),
            "",
        )),
        Err(error) => {
            let what = format!(
                "{}:{}: `{name}` is not a distinguished name: {}",
                path.display(),
                record.line,
                error.what
            );
            Err(LoadError::new(what, error.help))
        }
    }
}

fn generate(path: &Path, count: u64, attributes: usize, say: Say<'_>) -> Result<(), LoadError> {
    let failed = failed(path);
    let mut file = File::create(path).map_err(&failed)?;
    let mut reported = 0;
    let mut go_on = |_: u64, bytes: u64| {
        let is_due = bytes >= reported + REPORT_BYTES;
        if is_due {
            reported = bytes;
        }
        !is_due || say(&format!("generating people: {} MB", bytes / 1_000_000))
    };
    let base = Base::parse(PEOPLE_BASE).map_err(|error| LoadError::new(error, ""))?;
    let mut sink = Sink::new(&mut file, &mut go_on);
    let written =
        write_people(&Population::new(PEOPLE_SEED, count), attributes, &Format::Ldif(base), &mut sink)
            .map_err(&failed)?;
    if written.whole { Ok(()) } else { Err(stopped()) }
}

/// Copies the first bytes of a file.
fn copy(from: &Path, to: &Path, bytes: u64, say: Say<'_>) -> Result<(), LoadError> {
    let mut source = File::open(from).map_err(failed(from))?.take(bytes);
    let mut target = BufWriter::new(File::create(to).map_err(failed(to))?);
    let mut copied = 0;
    while copied < bytes {
        let part = std::io::copy(&mut source.by_ref().take(REPORT_BYTES), &mut target).map_err(failed(to))?;
        if part == 0 {
            break;
        }
        copied += part;
        if !say(&format!("copying the first entries: {} MB", copied / 1_000_000)) {
            return Err(stopped());
        }
    }
    target.flush().map_err(failed(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, chunk: usize, at_most: u64) -> Counter {
        let mut counter = Counter { at_most, ..Counter::default() };
        text.as_bytes().chunks(chunk).any(|part| counter.take(part));
        counter
    }

    #[test]
    fn entries_are_counted_however_the_file_is_cut() {
        let text =
            "version: 1\n\ndn: a=1\na: dn:\nb:\n dn: folded\n\nDN:: YT0y\n\n# dn: no\ndn:a=3\r\ndna: no\n";
        for chunk in 1..text.len() + 1 {
            let all = count(text, chunk, u64::MAX);
            assert_eq!((all.entries, all.end, all.offset), (3, None, text.len() as u64), "{chunk}");
            let two = count(text, chunk, 2);
            assert_eq!((two.entries, two.end), (2, Some(text.find("dn:a=3").unwrap() as u64)), "{chunk}");
        }
        assert_eq!(count("", 1, 5).entries, 0);
    }

    #[test]
    fn the_offset_shows_how_many_entries_were_read() {
        let folder = testkit::Scratch::new();
        let mut say = |_: &str| true;
        let people = Entries::People(3_000, 25);
        let file = LdifFile::prepare(&people, folder.path(), &mut say).unwrap();
        // The organization and its unit are entries too.
        assert_eq!((file.entries, file.suffix.as_str()), (3_002, "dc=example,dc=com"));
        let text = std::fs::read_to_string(&file.path).unwrap();
        assert_eq!(file.bytes, text.len() as u64);
        for share in 1..10 {
            let offset = text.len() * share / 10;
            let read = text.as_bytes()[..offset].windows(4).filter(|four| *four == b"\ndn:").count() as f64;
            let estimated = file.entries_before(offset as u64) as f64;
            assert!((estimated - read).abs() <= 8.0, "{estimated} of {read}");
        }
        assert_eq!(file.entries_before(file.bytes), 3_002);
        assert_eq!(file.entries_before(u64::MAX), 3_002);
        assert_eq!(file.entries_before(0), 0);

        let first = Entries::File(file.path.clone(), Some(100));
        let cut = LdifFile::prepare(&first, folder.path(), &mut say).unwrap();
        let read = std::fs::read_to_string(&cut.path).unwrap();
        assert_eq!((cut.entries, cut.bytes), (100, read.len() as u64));
        assert_eq!(read.matches("\ndn:").count() + 1, 100);
        assert!(text.starts_with(&read));
        let more = Entries::File(file.path, Some(3_003));
        let error = LdifFile::prepare(&more, folder.path(), &mut say).unwrap_err();
        assert!(error.what.contains("has 3002 entries, and `entries` is 3003"), "{error}");
    }

    #[test]
    fn a_file_without_entries_is_an_error() {
        let folder = testkit::Scratch::new();
        for (text, what) in [
            ("", "has no entries"),
            ("version: 1\n", "has no entries"),
            ("dn: nonsense\ncn: a\n", ":1: `nonsense` is not a distinguished name"),
            ("dn:\ncn: a\n", ":1: the first entry has no name"),
        ] {
            let path = folder.file("x.ldif", text);
            let error = LdifFile::scan(&path, None, &mut |_| true).unwrap_err();
            assert!(error.what.contains(what), "{error}");
        }
    }
}
