//! Text in any of the encodings that tools write: UTF-8 with or without a mark, UTF-16, code page 1252.

use std::io::{self, BufRead as _, BufReader, Read};

use crate::{Fault, HEAD_BYTES, Source};

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// UTF-8, in which bytes that are none are those of code page 1252.
    Utf8,
    Utf16 {
        is_big: bool,
    },
}

/// A stream as UTF-8.
pub(crate) struct Text<R> {
    from: R,
    encoding: Option<Encoding>,
    chunk: Vec<u8>,
    /// Bytes that are not decoded yet.
    raw: Vec<u8>,
    /// Decoded text, of which the first `taken` bytes were read.
    text: Vec<u8>,
    taken: usize,
    is_at_end: bool,
}

impl<R: Read> Text<R> {
    pub(crate) fn new(from: R) -> Self {
        Text {
            from,
            encoding: None,
            chunk: vec![0; CHUNK],
            raw: Vec::new(),
            text: Vec::new(),
            taken: 0,
            is_at_end: false,
        }
    }

    /// Reads UTF-8 where it is wanted. None if it must be decoded first; then the bytes wait for that.
    fn read_directly(&mut self, out: &mut [u8]) -> io::Result<Option<usize>> {
        if self.encoding != Some(Encoding::Utf8) || !self.raw.is_empty() || self.is_at_end || out.is_empty() {
            return Ok(None);
        }
        let count = match self.from.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            other => other?,
        };
        if count == 0 || std::str::from_utf8(&out[..count]).is_ok() {
            self.is_at_end = count == 0;
            return Ok(Some(count));
        }
        self.raw.extend_from_slice(&out[..count]);
        Ok(None)
    }

    /// Decodes the next bytes; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.taken = 0;
        while self.text.is_empty() {
            if self.is_at_end && self.raw.is_empty() {
                return Ok(false);
            }
            if !self.is_at_end {
                let count = loop {
                    match self.from.read(&mut self.chunk) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        other => break other?,
                    }
                };
                self.raw.extend_from_slice(&self.chunk[..count]);
                self.is_at_end = count == 0;
            }
            if self.encoding.is_none() {
                if self.raw.len() < 4 && !self.is_at_end {
                    continue;
                }
                let (encoding, mark) = recognized(&self.raw);
                self.encoding = Some(encoding);
                self.raw.drain(..mark);
            }
            let used = match self.encoding {
                Some(Encoding::Utf16 { is_big }) => utf16(&self.raw, is_big, self.is_at_end, &mut self.text),
                _ => utf8(&self.raw, self.is_at_end, &mut self.text),
            };
            self.raw.drain(..used);
        }
        Ok(true)
    }
}

impl<R: Read> Read for Text<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() {
            if let Some(count) = self.read_directly(out)? {
                return Ok(count);
            }
            if !self.fill()? {
                return Ok(0);
            }
        }
        let there = &self.text[self.taken..];
        let count = there.len().min(out.len());
        out[..count].copy_from_slice(&there[..count]);
        self.taken += count;
        Ok(count)
    }
}

/// The first bytes of a stream, and the whole stream again.
pub(crate) fn peek<R: Read + 'static>(mut from: R) -> Result<(Vec<u8>, Source), Fault> {
    let mut head = Vec::new();
    from.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(|error| Fault::of_file(&error))?;
    let whole = Box::new(io::Cursor::new(head.clone()).chain(from));
    Ok((head, whole))
}

/// The first bytes of a file as text; a character that is cut at the end is left out.
pub(crate) fn decoded(bytes: &[u8]) -> String {
    let (encoding, mark) = recognized(bytes);
    let mut text = Vec::new();
    match encoding {
        Encoding::Utf16 { is_big } => _ = utf16(&bytes[mark..], is_big, false, &mut text),
        Encoding::Utf8 => _ = utf8(&bytes[mark..], false, &mut text),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The encoding, and the length of its mark.
fn recognized(bytes: &[u8]) -> (Encoding, usize) {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
        [0xff, 0xfe, ..] => (Encoding::Utf16 { is_big: false }, 2),
        [0xfe, 0xff, ..] => (Encoding::Utf16 { is_big: true }, 2),
        // Latin letters without a mark.
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => (Encoding::Utf16 { is_big: false }, 0),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => (Encoding::Utf16 { is_big: true }, 0),
        _ => (Encoding::Utf8, 0),
    }
}

/// Decodes what is whole, and returns how many bytes that was.
fn utf8(mut bytes: &[u8], is_all: bool, out: &mut Vec<u8>) -> usize {
    let length = bytes.len();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(_) => {
                out.extend_from_slice(bytes);
                return length;
            }
            Err(error) => {
                let (good, rest) = bytes.split_at(error.valid_up_to());
                out.extend_from_slice(good);
                let wrong = match error.error_len() {
                    // The end of the bytes is in the middle of a character.
                    None if !is_all => return length - rest.len(),
                    None => rest.len(),
                    Some(wrong) => wrong,
                };
                for byte in &rest[..wrong] {
                    let mut buffer = [0; 4];
                    out.extend_from_slice(windows_1252(*byte).encode_utf8(&mut buffer).as_bytes());
                }
                bytes = &rest[wrong..];
            }
        }
    }
}

/// The same of UTF-16.
fn utf16(bytes: &[u8], is_big: bool, is_all: bool, out: &mut Vec<u8>) -> usize {
    let unit = |pair: &[u8]| match is_big {
        true => u16::from_be_bytes([pair[0], pair[1]]),
        false => u16::from_le_bytes([pair[0], pair[1]]),
    };
    let mut whole = bytes.len() / 2 * 2;
    // A pair of surrogates may be cut.
    if !is_all && whole >= 2 && (0xd800..0xdc00).contains(&unit(&bytes[whole - 2..whole])) {
        whole -= 2;
    }
    let units = bytes[..whole].chunks_exact(2).map(unit);
    for character in char::decode_utf16(units) {
        let mut buffer = [0; 4];
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
    if is_all { bytes.len() } else { whole }
}

/// A character of code page 1252 (Microsoft, "Windows 1252"): Latin 1 except for these.
fn windows_1252(byte: u8) -> char {
    const FROM_80: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => FROM_80[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// The longest line that is read whole.
pub(crate) const LINE_BYTES_MAX: u64 = 1 << 20;

/// The lines of a file.
pub(crate) struct Lines {
    from: BufReader<Text<Source>>,
    bytes: Vec<u8>,
    number: u64,
}

/// A line.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Its text without its end.
    pub(crate) text: &'a str,
    /// Whether it was too long and is cut.
    pub(crate) is_cut: bool,
}

impl Lines {
    pub(crate) fn new(from: Source) -> Lines {
        Lines { from: BufReader::with_capacity(CHUNK, Text::new(from)), bytes: Vec::new(), number: 0 }
    }

    /// The next line; none at the end. Of a line that is longer than 1 MiB, the rest is left out.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, Fault> {
        self.bytes.clear();
        let mut limited = self.from.by_ref().take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut self.bytes).map_err(|error| Fault::of_file(&error))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_cut = read as u64 == LINE_BYTES_MAX && self.bytes.last() != Some(&b'\n');
        if is_cut {
            self.skip_line().map_err(|error| Fault::of_file(&error))?;
            // A character may be cut.
            let whole = std::str::from_utf8(&self.bytes).map_or_else(|error| error.valid_up_to(), str::len);
            self.bytes.truncate(whole);
        }
        // The text is decoded, so it is UTF-8.
        let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
        Ok(Some(Line { number: self.number, text: text.trim_end_matches(['\r', '\n']), is_cut }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let there = self.from.fill_buf()?;
            let end = there.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(there.len(), |end| end + 1);
            self.from.consume(used);
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let text = format!("a\r\n{}\nb", "é".repeat(LINE_BYTES_MAX as usize));
        let mut lines = Lines::new(Box::new(io::Cursor::new(text.into_bytes())));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, line.text.len(), line.is_cut));
        }
        assert_eq!(found, [(1, 1, false), (2, LINE_BYTES_MAX as usize, true), (3, 1, false)]);
    }

    /// Hands out a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn read(bytes: &[u8]) -> String {
        let mut text = String::new();
        Text::new(Slow(bytes)).read_to_string(&mut text).unwrap();
        let mut whole = String::new();
        Text::new(bytes).read_to_string(&mut whole).unwrap();
        assert_eq!(text, whole);
        text
    }

    #[test]
    fn the_encodings_of_tools_are_read() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let text = "Prozessorzeit (%) für é 𝄞, €";
        let little: Vec<u8> = units(text).iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units(text).iter().flat_map(|unit| unit.to_be_bytes()).collect();
        assert_eq!(read(text.as_bytes()), text);
        assert_eq!(read(&[&[0xef, 0xbb, 0xbf], text.as_bytes()].concat()), text);
        assert_eq!(read(&[&[0xff, 0xfe][..], &little].concat()), text);
        assert_eq!(read(&[&[0xfe, 0xff][..], &big].concat()), text);
        assert_eq!(read(&little), text);
        assert_eq!(read(b"Verf\xfcgbare MB, 5 \x80"), "Verfügbare MB, 5 €");
        assert_eq!(read(b"a\xe2\x82"), "aâ‚");
        assert_eq!(read(b""), "");
        assert_eq!(read(&[0xff, 0xfe, b'a', 0, 0x34]), "a");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_text(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            read(&bytes);
            decoded(&bytes);
        }
    }
}
