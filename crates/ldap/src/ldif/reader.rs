//! Reads LDIF, one record at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::record::{ControlItem, Item, bad, build};
use super::{LdifError, Record, is_attribute};
use crate::text::is_description_byte;

/// Base64 with optional padding, which some writers omit.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The memory that a line needs besides its bytes.
const LINE_COST: usize = 64;

const UTF_16: &str = "convert it, for instance with: iconv -f UTF-16 -t UTF-8";
const NO_COLON: &str = "write `name: value`, and begin a line that goes on with a blank";

/// The limits and options of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The length limit of an unfolded line, in bytes; also of a value read from a file. 16 MiB.
    pub line_bytes_max: usize,
    /// The size limit of a record, in bytes, with 64 added for each line. 256 MiB.
    pub record_bytes_max: usize,
    /// Whether values are read from files in `name:< file:///path`. Default: false, because an untrusted LDIF
    /// file could otherwise read any file of the user.
    pub read_file_urls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { line_bytes_max: 16 << 20, record_bytes_max: 256 << 20, read_file_urls: false }
    }
}

/// Reads the records of a file one after another, in memory of one record.
///
/// ```
/// use plimsoll_ldap::ldif::{Body, Options, Reader};
///
/// let file = b"version: 1\n\ndn: uid=ann,dc=example,dc=com\nuid: ann\ncn:: QW5u\n";
/// let mut reader = Reader::new(&file[..], Options::default());
/// while let Some(record) = reader.next()? {
///     assert_eq!(record.dn, "uid=ann,dc=example,dc=com");
///     assert_eq!(record.body, Body::Entry(vec![("uid", &b"ann"[..]), ("cn", &b"Ann"[..])]));
/// }
/// # Ok::<(), plimsoll_ldap::ldif::LdifError>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    options: Options,
    /// Number of lines read so far.
    line: u64,
    /// The bytes of this record: unfolded lines with values decoded in place, followed by the contents of
    /// files.
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// The buffer for decoding base64 before it is copied back.
    decoded: Vec<u8>,
    begun: bool,
    ended: bool,
}

/// A line after unfolding.
#[derive(Clone, Debug)]
struct Line {
    number: u64,
    text: Range<usize>,
}

impl Reader<BufReader<File>> {
    /// Opens a file.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        Ok(Reader::new(BufReader::with_capacity(256 << 10, File::open(path)?), options))
    }
}

impl<R: BufRead> Reader<R> {
    /// A reader of `input`, which should have a large buffer.
    pub fn new(input: R, options: Options) -> Self {
        Reader {
            input,
            options,
            line: 0,
            bytes: Vec::new(),
            lines: Vec::new(),
            decoded: Vec::new(),
            begun: false,
            ended: false,
        }
    }

    /// Number of lines read so far.
    pub fn lines(&self) -> u64 {
        self.line
    }

    /// Bytes of allocated memory.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.decoded.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// The next record; `None` at the end. After an error that is not the last one, the next call continues
    /// after the invalid record.
    #[expect(
        clippy::should_implement_trait,
        reason = "a record borrows from the reader, which an Iterator's item cannot"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, LdifError> {
        if self.ended {
            return Ok(None);
        }
        let gathered = self.gather();
        if let Err(error) = &gathered
            && error.last
        {
            self.ended = true;
        }
        if !gathered? {
            self.ended = true;
            return Ok(None);
        }
        let begin = self.lines.first().map_or(self.line, |line| line.number);
        let (controls, items) = self.take_apart()?;
        build(&self.bytes, begin, &controls, &items).map(Some)
    }

    /// Reads the lines of the next record; returns false at the end of the file.
    fn gather(&mut self) -> Result<bool, LdifError> {
        // Frees the memory of a huge record.
        if self.bytes.capacity() > 4 << 20 {
            self.bytes = Vec::new();
            self.decoded = Vec::new();
        }
        loop {
            self.bytes.clear();
            self.lines.clear();
            let at_begin = !std::mem::replace(&mut self.begun, true);
            if let Some(error) = self.gather_lines()? {
                return Err(error);
            }
            let Some(first) = self.lines.first() else { return Ok(false) };
            if !at_begin {
                return Ok(true);
            }
            // The version may be a separate paragraph or directly before the first record.
            let text = &self.bytes[first.text.clone()];
            if let Some(version) = text.strip_prefix(b"version:") {
                if version.trim_ascii() != b"1" {
                    let what = "this version of LDIF is not supported".to_string();
                    return Err(LdifError {
                        line: first.number,
                        what,
                        help: "version 1 is supported (RFC 2849)",
                        last: true,
                    });
                }
                self.lines.remove(0);
                if self.lines.is_empty() {
                    continue;
                }
            }
            return Ok(true);
        }
    }

    /// Reads lines until a blank one after at least one other line. An invalid record is returned as a value
    /// after all of it was read; a failure of the input is an error.
    fn gather_lines(&mut self) -> Result<Option<LdifError>, LdifError> {
        let mut fault: Option<LdifError> = None;
        let mut in_comment = false;
        let mut any = false;
        loop {
            if self.line > 0 && fault.is_none() && !in_comment {
                any |= self.take_plain_lines()?;
            }
            let Some(first) = self.peek()? else { return Ok(fault) };
            self.line += 1;
            let number = self.line;
            let continues = first == b' ';
            if continues {
                self.input.consume(1);
            }
            let comment = first == b'#' || (continues && in_comment);
            if comment {
                self.take_line(0)?;
                in_comment = true;
                continue;
            }
            in_comment = false;
            let keep = fault.is_none();
            let begin = self.bytes.len();
            let last = self.lines.last().map(|line| line.text.start);
            let line_begin = if continues { last.unwrap_or(begin) } else { begin };
            let spent = begin + LINE_COST * (self.lines.len() + 1);
            let line_room = self.options.line_bytes_max.saturating_sub(begin - line_begin);
            let record_room = self.options.record_bytes_max.saturating_sub(spent);
            let whole = self.take_line(if keep { line_room.min(record_room) } else { 0 })?;
            // If nothing was kept, only an empty line is complete.
            if self.bytes.len() == begin && whole && !continues {
                if any {
                    return Ok(fault);
                }
                continue;
            }
            any = true;
            if !keep {
                continue;
            }
            if !whole {
                let (what, help) = if record_room < line_room {
                    (
                        format!("this record is longer than {} bytes", self.options.record_bytes_max),
                        "raise the limit of a record",
                    )
                } else {
                    (
                        format!("this line is longer than {} bytes", self.options.line_bytes_max),
                        "raise the limit of a line",
                    )
                };
                fault = Some(LdifError { line: number, what, help, last: false });
                continue;
            }
            if continues {
                match self.lines.last_mut() {
                    Some(line) => line.text.end = self.bytes.len(),
                    None => {
                        let what =
                            "a line that begins with a blank continues the line before, and there is none"
                                .into();
                        fault = Some(LdifError { line: number, what, help: "remove the blank", last: false });
                    }
                }
            } else {
                self.lines.push(Line { number, text: begin..self.bytes.len() });
            }
        }
    }

    /// Takes the lines that are in the buffer as a whole and need no closer look: neither blank nor comments, within the
    /// limits. Most lines are. Returns whether there was one.
    fn take_plain_lines(&mut self) -> Result<bool, LdifError> {
        let buffer = fill(&mut self.input, self.line + 1)?;
        let mut used = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[used..]) {
            let line = &buffer[used..used + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let begin = self.bytes.len();
            let room =
                self.options.record_bytes_max.saturating_sub(begin + LINE_COST * (self.lines.len() + 1));
            match (line, self.lines.last_mut()) {
                (_, _) if line.len() > room => break,
                ([] | [b'#', ..], _) | ([b' ', ..], None) => break,
                ([b' ', rest @ ..], Some(last)) => {
                    if begin - last.text.start + rest.len() > self.options.line_bytes_max {
                        break;
                    }
                    self.bytes.extend_from_slice(rest);
                    last.text.end = self.bytes.len();
                }
                (plain, _) => {
                    if plain.len() > self.options.line_bytes_max {
                        break;
                    }
                    self.bytes.extend_from_slice(plain);
                    self.lines.push(Line { number: self.line + 1, text: begin..self.bytes.len() });
                }
            }
            self.line += 1;
            used += length + 1;
        }
        self.input.consume(used);
        Ok(used > 0)
    }

    /// The first byte of the next line. `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, LdifError> {
        if self.line == 0 {
            self.skip_mark()?;
        }
        let line = self.line + 1;
        let buffer = fill(&mut self.input, line)?;
        Ok(buffer.first().copied())
    }

    /// Skips a byte order mark.
    fn skip_mark(&mut self) -> Result<(), LdifError> {
        let buffer = fill(&mut self.input, 1)?;
        match buffer {
            [0xef, 0xbb, 0xbf, ..] => self.input.consume(3),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err(LdifError {
                    line: 1,
                    what: "this file is UTF-16".into(),
                    help: UTF_16,
                    last: true,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads to the end of the line and keeps up to `room` bytes; returns whether all bytes were kept.
    fn take_line(&mut self, room: usize) -> Result<bool, LdifError> {
        let begin = self.bytes.len();
        let mut whole = true;
        // Whether the last discarded byte was a carriage return, which belongs to the line end.
        let mut lost_return = false;
        loop {
            let buffer = fill(&mut self.input, self.line)?;
            if buffer.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let kept = part.len().min(room - (self.bytes.len() - begin));
            self.bytes.extend_from_slice(&part[..kept]);
            match &part[kept..] {
                [] => {}
                [b'\r'] if whole && !lost_return => lost_return = true,
                _ => (whole, lost_return) = (false, false),
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !lost_return && self.bytes.len() > begin && self.bytes.last() == Some(&b'\r') {
            self.bytes.pop();
        }
        Ok(whole)
    }

    /// Splits lines at their colons and decodes values.
    fn take_apart(&mut self) -> Result<(Vec<ControlItem>, Vec<Item>), LdifError> {
        let lines = std::mem::take(&mut self.lines);
        let parts = self.take_lines_apart(&lines);
        self.lines = lines;
        parts
    }

    fn take_lines_apart(&mut self, lines: &[Line]) -> Result<(Vec<ControlItem>, Vec<Item>), LdifError> {
        let mut controls = Vec::new();
        let mut items: Vec<Item> = Vec::with_capacity(lines.len());
        for Line { number, text } in lines {
            let number = *number;
            let line = &self.bytes[text.clone()];
            if line == b"-" {
                items.push(Item {
                    line: number,
                    name: text.start..text.start,
                    value: text.start..text.start,
                });
                continue;
            }
            let colon = match line.iter().position(|byte| !is_description_byte(byte)) {
                Some(colon) if line[colon] == b':' && line[0].is_ascii_alphanumeric() => colon,
                _ => colon(line, number)?,
            };
            let name = text.start..text.start + colon;
            // Controls are allowed only between the DN and the change type.
            if items.len() == 1 && line[..colon].eq_ignore_ascii_case(b"control") {
                let control = self.control(number, name.end + 1..text.end)?;
                controls.push(control);
                continue;
            }
            let value = self.value(number, &name, name.end + 1..text.end)?;
            items.push(Item { line: number, name, value });
        }
        Ok((controls, items))
    }

    /// Parses `OID`, then optionally `true` or `false`, then optionally a value in the form of an attribute
    /// value.
    fn control(&mut self, line: u64, text: Range<usize>) -> Result<ControlItem, LdifError> {
        let written = &self.bytes[text.clone()];
        let length = memchr::memchr(b':', written).unwrap_or(written.len());
        let words = &written[..length];
        let begin = words.len() - words.trim_ascii_start().len();
        let oid_length = words[begin..].iter().position(|byte| *byte == b' ').unwrap_or(words.len() - begin);
        let oid = text.start + begin..text.start + begin + oid_length;
        let is_oid = oid_length > 0
            && self.bytes[oid.clone()].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let critical = match words[begin + oid_length..].trim_ascii() {
            b"true" => Some(true),
            b"false" | b"" => Some(false),
            _ => None,
        };
        let (true, Some(critical)) = (is_oid, critical) else {
            let help = "write `control: 1.2.3 true`, and `: value` after it if it has a value";
            return Err(bad(line, "this control cannot be read", help));
        };
        let value = if length < written.len() {
            Some(self.value(line, &oid, text.start + length + 1..text.end)?)
        } else {
            None
        };
        Ok(ControlItem { oid, critical, value })
    }

    /// Decodes the value after a colon: plain, base64 after a second colon, or from a file after `<`.
    fn value(
        &mut self,
        line: u64,
        name: &Range<usize>,
        text: Range<usize>,
    ) -> Result<Range<usize>, LdifError> {
        let written = &self.bytes[text.clone()];
        let (mark, rest) = match written.first() {
            Some(&mark @ (b':' | b'<')) => (mark, &written[1..]),
            _ => (b' ', written),
        };
        let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
        let place = text.end - rest.len() + blanks..text.end;
        match mark {
            b':' => {
                self.decoded.clear();
                if BASE64.decode_vec(self.bytes[place.clone()].trim_ascii_end(), &mut self.decoded).is_err() {
                    let name = String::from_utf8_lossy(&self.bytes[name.clone()]);
                    let what = format!("the value of {name} is not base64");
                    return Err(bad(line, what, "write one colon for plain text, two for base64"));
                }
                let decoded = place.start..place.start + self.decoded.len();
                // Never longer than the encoded text.
                self.bytes[decoded.clone()].copy_from_slice(&self.decoded);
                Ok(decoded)
            }
            b'<' => self.file(line, place),
            _ => Ok(place),
        }
    }

    /// Appends the content of the file that a URL names to the record's bytes.
    fn file(&mut self, line: u64, url: Range<usize>) -> Result<Range<usize>, LdifError> {
        let url = String::from_utf8_lossy(&self.bytes[url]).into_owned();
        if !self.options.read_file_urls {
            let help = "allow it if you trust who wrote this file, or put the value here in base64";
            return Err(bad(
                line,
                format!("the value is in another file, {url}, and reading it is not allowed"),
                help,
            ));
        }
        let help = "write file:///the/path/of/a/file";
        let after =
            url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).and_then(|_| url.get(5..));
        let path = after
            .map(|after| after.strip_prefix("//localhost").or(after.strip_prefix("//")).unwrap_or(after));
        let Some(path) = path.filter(|path| path.starts_with('/')).and_then(percent_decoded) else {
            return Err(bad(line, format!("{url} does not name a file of this machine"), help));
        };
        let begin = self.bytes.len();
        let room = self.options.line_bytes_max.min(self.options.record_bytes_max.saturating_sub(begin));
        // One byte more than the limit, to detect a longer file.
        let limit = (room as u64).saturating_add(1);
        let read = open_file(Path::new(&path)).and_then(|file| file.take(limit).read_to_end(&mut self.bytes));
        match read {
            Ok(length) if length <= room => Ok(begin..begin + length),
            Ok(_) => Err(bad(
                line,
                format!("{path} has more than {room} bytes"),
                "raise the limits of a line and a record",
            )),
            Err(error) => Err(bad(line, format!("{path} cannot be read: {error}"), "")),
        }
    }
}

/// Opens a regular file; a pipe or a device might never end.
fn open_file(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// The place of the colon after a name that is not as plain as most.
fn colon(line: &[u8], number: u64) -> Result<usize, LdifError> {
    let Some(colon) = memchr::memchr(b':', line) else {
        return Err(bad(number, "this line has no colon", NO_COLON));
    };
    if !is_attribute(&line[..colon]) {
        let what = "the text before the colon is not a name of an attribute";
        return Err(bad(number, what, "a name has letters, digits, `-`, `.`, `_` and `;`"));
    }
    Ok(colon)
}

/// Buffered input; empty at the end.
fn fill<R: BufRead>(input: &mut R, line: u64) -> Result<&[u8], LdifError> {
    // Repeated after an interrupted system call; the second call costs nothing and satisfies the borrow
    // checker.
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot_read(line, &error)),
        }
    }
    input.fill_buf().map_err(|error| cannot_read(line, &error))
}

fn cannot_read(line: u64, error: &io::Error) -> LdifError {
    LdifError { line, what: format!("the file cannot be read: {error}"), help: "", last: true }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
