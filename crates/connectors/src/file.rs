//! Shared code of the agents of text files: lines of bounded length, changes by anchor, and a new file that
//! replaces the old one when it is complete.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use files::{Directory, PRIVATE_FILE, Replacement};

use metadir::agent::{AgentError, DiscoveryError, ExportedObject, Imported, LineNumber, Refused};
use metadir::hologram::Attribute;
use metadir::index_key::IndexKey;
use metadir::object::Change;

/// The length limit of an object, bytes; a longer one is an error.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 20;
/// Number of bytes that are read or written at a time.
pub(super) const PIECE_BYTES: usize = 1 << 18;

/// The error of a file that cannot be read.
pub(super) fn unreadable(path: &Path, why: impl ToString) -> AgentError {
    AgentError::system(format!("reading {}", path.display()), why)
}

/// The error of an object in a file.
pub(super) fn wrong(line: u64, kind: &'static str, text: impl Into<String>) -> Imported {
    Imported::Error(DiscoveryError { place: format!("line {line}"), kind, text: text.into() })
}

/// A line number in the form that objects store.
pub(super) fn line_of(number: u64) -> Option<LineNumber> {
    u32::try_from(number).ok().and_then(LineNumber::new)
}

/// The message for an object that is too long.
pub(super) fn too_long() -> String {
    format!("longer than {} MiB", RECORD_BYTES_MAX >> 20)
}

/// Opens a file; none if it does not exist.
pub(super) fn open(path: &Path) -> Result<Option<BufReader<File>>, AgentError> {
    match files::open_regular(path) {
        Ok(file) => Ok(Some(BufReader::with_capacity(PIECE_BYTES, file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AgentError::system(format!("opening {}", path.display()), error)),
    }
}

/// Buffered input; empty at the end.
pub(super) fn fill(input: &mut impl BufRead) -> io::Result<&[u8]> {
    while let Err(error) = input.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    input.fill_buf()
}

/// The byte order mark that some programs write before UTF-8. It is no part of the first value.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of a file, read one by one into a buffer of bounded length.
pub(super) struct Lines {
    input: BufReader<File>,
    path: PathBuf,
    number: u64,
    text: Vec<u8>,
}

/// A line without its line end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its bytes; only the first ones if it is too long.
    pub(super) text: &'a [u8],
    /// Whether it is too long to be kept.
    pub(super) is_too_long: bool,
}

impl Lines {
    /// Opens the lines of a file; none if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Lines>, AgentError> {
        let input = open(path)?;
        Ok(input.map(|input| Lines { input, path: path.into(), number: 0, text: Vec::new() }))
    }

    /// The next line; none at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, AgentError> {
        self.text.clear();
        let (mut any, mut is_too_long) = (false, false);
        loop {
            let buffer = fill(&mut self.input).map_err(|error| unreadable(&self.path, error))?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let kept = part.len().min(RECORD_BYTES_MAX - self.text.len());
            is_too_long |= kept < part.len();
            self.text.extend_from_slice(&part[..kept]);
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        // All carriage returns before the line feed belong to the line end.
        let mut text = self.text.as_slice();
        while let Some(shorter) = text.strip_suffix(b"\r") {
            text = shorter;
        }
        let mark = if self.number == 1 { MARK } else { b"" };
        let text = text.strip_prefix(mark).unwrap_or(text);
        Ok(Some(Line { number: self.number, text, is_too_long }))
    }
}

/// An object of a text file, as an export writes it again.
pub(super) trait Object {
    /// Its anchor; none if it has none that can be read.
    fn anchor(&self) -> Option<IndexKey>;

    /// Appends it unchanged.
    fn unchanged(&self, out: &mut Vec<u8>);

    /// Appends it with a change; an error is why it cannot be written.
    fn changed(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String>;
}

/// The objects of a text file, as an export reads them.
pub(super) trait Objects {
    /// Passes the next object on; false after the last one.
    fn next(&mut self, to: &mut dyn FnMut(&dyn Object) -> Result<(), AgentError>)
    -> Result<bool, AgentError>;

    /// Appends a new object; an error is why it cannot be written.
    fn added(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String>;
}

/// Replaces a file by one with changes. `head` is its beginning, and `anchor` has the anchor attributes. Returns an
/// answer for each change.
pub(super) fn rewrite(
    path: &Path,
    head: &[u8],
    objects: &mut dyn Objects,
    changes: &[ExportedObject],
    anchor: &[Attribute],
) -> Result<Vec<Result<(), Refused>>, AgentError> {
    let mut changes = Changes::new(changes, anchor);
    let mut new = FileReplacement::begin(path)?;
    let failed = new.failed();
    new.write_all(head).map_err(&failed)?;
    let mut out = Vec::new();
    let mut write = |object: &dyn Object| {
        out.clear();
        match object.anchor().and_then(|anchor| changes.meet(anchor)) {
            Some((_, change)) if change.change == Change::Delete => {}
            Some((at, change)) => {
                if let Err(why) = object.changed(change, &mut out) {
                    changes.refuse(at, why);
                    out.clear();
                    object.unchanged(&mut out);
                }
            }
            None => object.unchanged(&mut out),
        }
        new.write_all(&out).map_err(&failed)
    };
    while objects.next(&mut write)? {}
    for (at, change) in changes.left() {
        out.clear();
        match objects.added(change, &mut out) {
            Ok(()) => new.write_all(&out).map_err(&failed)?,
            Err(why) => changes.refuse(at, why),
        }
    }
    new.finish()?;
    Ok(changes.answers())
}

/// Changes by the anchors of their objects, with an answer for each.
struct Changes<'a> {
    all: &'a [ExportedObject],
    of: HashMap<IndexKey, usize>,
    met: HashSet<usize>,
    answers: Vec<Result<(), Refused>>,
}

impl<'a> Changes<'a> {
    /// `anchor` has the anchor attributes. An update that changes one of them is refused: the object could
    /// not be found any more.
    fn new(all: &'a [ExportedObject], anchor: &[Attribute]) -> Changes<'a> {
        let answer = |change: &ExportedObject| match change.anchor {
            Some(_) if changes_anchor(change, anchor) => {
                Err(Refused("its anchor would change, which is not allowed".into()))
            }
            Some(_) => Err(Refused("no object with this anchor is in the file".into())),
            None => Err(Refused("it has no value for the anchor".into())),
        };
        let made = all.iter().enumerate().filter(|(_, change)| !changes_anchor(change, anchor));
        let of = made.filter_map(|(at, change)| Some((change.anchor?, at))).collect();
        Changes { all, of, met: HashSet::new(), answers: all.iter().map(answer).collect() }
    }

    /// The change of an object of the old file. It counts as done unless it is refused.
    fn meet(&mut self, anchor: IndexKey) -> Option<(usize, &'a ExportedObject)> {
        let at = *self.of.get(&anchor)?;
        // If two objects have the same anchor, a refusal for one of them remains.
        if self.met.insert(at) {
            self.answers[at] = Ok(());
        }
        Some((at, &self.all[at]))
    }

    /// Refuses a change.
    fn refuse(&mut self, at: usize, why: impl Into<String>) {
        self.answers[at] = Err(Refused(why.into()));
    }

    /// The objects to be added after all objects of the old file were met. They count as done unless they are
    /// refused.
    fn left(&mut self) -> Vec<(usize, &'a ExportedObject)> {
        let mut left = Vec::new();
        for (at, change) in self.all.iter().enumerate().filter(|(at, _)| !self.met.contains(at)) {
            match change.change {
                Change::Add if change.anchor.is_some() => {
                    self.answers[at] = Ok(());
                    left.push((at, change));
                }
                // It is already deleted.
                Change::Delete => self.answers[at] = Ok(()),
                _ => {}
            }
        }
        left
    }

    fn answers(self) -> Vec<Result<(), Refused>> {
        self.answers
    }
}

/// Whether an update changes or removes the value of an anchor attribute.
fn changes_anchor(change: &ExportedObject, anchor: &[Attribute]) -> bool {
    let mut touched = change.attributes.iter().filter(|(attribute, _)| anchor.contains(attribute));
    let is_other = |(attribute, values): &(Attribute, Vec<Vec<u8>>)| match values.as_slice() {
        [value] if anchor.len() == 1 => {
            change.anchor != Some(IndexKey::of_parts(std::iter::once(value.as_slice())))
        }
        [value] => change.image.first(*attribute).is_some_and(|known| known != value.as_slice()),
        _ => true,
    };
    change.change == Change::Update && touched.any(is_other)
}

/// A new file that replaces the old one when it is complete, so a reader never sees a partial file. It keeps
/// the mode and owner of the old file, and its byte order mark. Without an old file, only the owner can read it.
struct FileReplacement {
    path: PathBuf,
    /// Whether a mark comes first. None if something is written already.
    marked: Option<bool>,
    out: BufWriter<Replacement<'static>>,
}

impl FileReplacement {
    fn begin(path: &Path) -> Result<FileReplacement, AgentError> {
        let marked = match open(path)? {
            Some(mut old) => Some(fill(&mut old).map_err(|error| unreadable(path, error))?.starts_with(MARK)),
            None => Some(false),
        };
        let begun =
            Directory::of_file(path).and_then(|(folder, name)| folder.into_successor(name, PRIVATE_FILE));
        match begun {
            Ok(file) => {
                let out = BufWriter::with_capacity(PIECE_BYTES, file);
                Ok(FileReplacement { path: path.into(), marked, out })
            }
            Err(error) => Err(AgentError::system(format!("writing {}", path.display()), error)),
        }
    }

    /// The error of a file that cannot be written.
    fn failed(&self) -> impl Fn(io::Error) -> AgentError + use<> {
        let what = format!("writing {}", self.path.display());
        move |error| AgentError::system(what.clone(), error)
    }

    /// Replaces the old file.
    fn finish(self) -> Result<(), AgentError> {
        let failed = self.failed();
        let file = self.out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.finish_durably().map_err(failed)
    }
}

impl Write for FileReplacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty()
            && let Some(is_marked) = self.marked.take()
            // A value that begins with one would lose it when it is read.
            && (is_marked || bytes.starts_with(MARK))
        {
            self.out.write_all(MARK)?;
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The values of a field that holds several values.
pub(super) fn split<'a>(mut field: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    if !separator.is_empty() {
        while let Some(at) = memchr::memmem::find(field, separator) {
            parts.push(&field[..at]);
            field = &field[at + separator.len()..];
        }
    }
    parts.push(field);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Scratch;

    #[test]
    fn a_byte_order_mark_stays_and_no_value_is_taken_for_one() {
        let scratch = Scratch::new();
        for (at, (old, first, new)) in [
            (None, "a\n", "a\n"),
            (Some(""), "a\n", "a\n"),
            (Some("a\n"), "b\n", "b\n"),
            (Some("\u{feff}a\n"), "b\n", "\u{feff}b\n"),
            (Some("\u{feff}\u{feff}a\n"), "\u{feff}a\n", "\u{feff}\u{feff}a\n"),
            // A new first value that begins with a mark.
            (Some("a\n"), "\u{feff}\n", "\u{feff}\u{feff}\n"),
            (None, "\u{feff}\n", "\u{feff}\u{feff}\n"),
        ]
        .into_iter()
        .enumerate()
        {
            let path = scratch.join(at.to_string());
            if let Some(old) = old {
                std::fs::write(&path, old).unwrap();
            }
            let mut replacement = FileReplacement::begin(&path).unwrap();
            for part in ["", first, "c\n"] {
                replacement.write_all(part.as_bytes()).unwrap();
            }
            replacement.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{new}c\n"), "{old:?} {first:?}");
        }
    }

    #[test]
    fn lines_are_numbered_without_their_ends_and_long_ones_are_reported_and_passed() {
        let scratch = Scratch::new();
        let path = scratch.join("lines");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"\xef\xbb\xbfone\r\n\n").unwrap();
        for _ in 0..100 {
            file.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        file.write_all(b"\nlast").unwrap();
        let mut lines = Lines::open(&path).unwrap().unwrap();
        let mut reported = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let text = String::from_utf8_lossy(&line.text[..line.text.len().min(5)]).into_owned();
            reported.push((line.number, text, line.is_too_long));
        }
        let line = |number, text: &str, long| (number, text.to_string(), long);
        assert_eq!(
            reported,
            [line(1, "one", false), line(2, "", false), line(3, "xxxxx", true), line(4, "last", false)]
        );
        assert!(lines.text.capacity() < 2 * RECORD_BYTES_MAX, "{}", lines.text.capacity());
        assert!(Lines::open(&scratch.join("none")).unwrap().is_none());
    }

    #[test]
    fn fields_are_split_at_their_separators() {
        assert_eq!(split(b"a;b;;c", b";"), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(split(b"a, b", b", "), [&b"a"[..], b"b"]);
        assert_eq!(split(b"a", b";"), [b"a"]);
        assert_eq!(split(b"a;b", b""), [b"a;b"]);
    }
}
