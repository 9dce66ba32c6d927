//! The tags of an XML file, one after the other, in constant memory. Text between them is skipped.

use std::io::{BufRead, BufReader, Read};

use crate::Fault;
use crate::input::Text;

/// The longest tag.
const TAG_BYTES_MAX: usize = 1 << 20;

/// A start tag or an end tag.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The line where it begins, from 1.
    pub(crate) line: u64,
    pub(crate) name: String,
    /// `</name>`.
    pub(crate) is_end: bool,
    /// `<name/>`.
    pub(crate) is_empty: bool,
    pub(crate) attributes: Vec<(String, String)>,
}

impl Tag {
    /// An attribute by one of its names.
    pub(crate) fn get(&self, names: &[&str]) -> Option<&str> {
        let found = self.attributes.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, value)| value.as_str())
    }
}

/// The tags of a stream.
pub(crate) struct Tags<R: Read> {
    from: BufReader<Text<R>>,
    line: u64,
    bytes: Vec<u8>,
    /// The file ended in a tag or comment.
    pub(crate) is_cut: bool,
}

impl<R: Read> Tags<R> {
    pub(crate) fn new(from: R) -> Self {
        Tags { from: BufReader::new(Text::new(from)), line: 1, bytes: Vec::new(), is_cut: false }
    }

    fn byte(&mut self) -> Result<Option<u8>, Fault> {
        let there = self.from.fill_buf().map_err(|error| Fault::of_file(&error))?;
        let Some(byte) = there.first().copied() else { return Ok(None) };
        self.from.consume(1);
        self.line += u64::from(byte == b'\n');
        Ok(Some(byte))
    }

    /// Skips all until after a `<`; false at the end.
    fn skip_text(&mut self) -> Result<bool, Fault> {
        loop {
            let there = self.from.fill_buf().map_err(|error| Fault::of_file(&error))?;
            if there.is_empty() {
                return Ok(false);
            }
            let found = there.iter().position(|byte| *byte == b'<');
            let used = found.map_or(there.len(), |at| at + 1);
            self.line += there[..used].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.from.consume(used);
            if found.is_some() {
                return Ok(true);
            }
        }
    }

    /// Skips all until after `end`; false if it is missing.
    fn skip_until(&mut self, end: &[u8]) -> Result<bool, Fault> {
        let mut last = Vec::new();
        while let Some(byte) = self.byte()? {
            if last.len() == end.len() {
                last.remove(0);
            }
            last.push(byte);
            if last == end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next tag; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Tag>, Fault> {
        while self.skip_text()? {
            let line = self.line;
            self.bytes.clear();
            let (mut quote, mut brackets) = (None, 0_u32);
            let is_whole = loop {
                let Some(byte) = self.byte()? else { break false };
                match (quote, byte) {
                    (None, b'>') if brackets == 0 => break true,
                    (None, b'"' | b'\'') => quote = Some(byte),
                    (Some(open), _) if open == byte => quote = None,
                    // The own definitions of a document type.
                    (None, b'[') => brackets += 1,
                    (None, b']') => brackets = brackets.saturating_sub(1),
                    _ => {}
                }
                self.bytes.push(byte);
                match self.bytes.as_slice() {
                    b"!--" => break self.skip_until(b"-->")?,
                    b"![CDATA[" => break self.skip_until(b"]]>")?,
                    b"?" => break self.skip_until(b"?>")?,
                    bytes if bytes.len() >= TAG_BYTES_MAX => {
                        return Err(Fault::at(
                            line,
                            "the tag is longer than 1 MiB",
                            "a quotation mark without its other one may be the reason",
                        ));
                    }
                    _ => {}
                }
            };
            if !is_whole {
                self.is_cut = true;
                return Ok(None);
            }
            if !matches!(self.bytes.first(), None | Some(b'!' | b'?')) {
                return Ok(Some(parsed(&String::from_utf8_lossy(&self.bytes), line)));
            }
        }
        Ok(None)
    }
}

/// The name and the attributes of a tag without its brackets.
fn parsed(text: &str, line: u64) -> Tag {
    let is_end = text.starts_with('/');
    let text = text.trim_start_matches('/');
    let is_empty = text.ends_with('/');
    let text = text.trim_end_matches('/');
    let (name, mut rest) = text.split_once(|sign: char| sign.is_ascii_whitespace()).unwrap_or((text, ""));
    let mut attributes = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|sign| matches!(sign, '"' | '\'')) else { break };
        let Some((value, after)) = after[1..].split_once(quote) else { break };
        attributes.push((name.trim().to_string(), unescaped(value)));
        rest = after;
    }
    Tag { line, name: name.to_string(), is_end, is_empty, attributes }
}

/// A value with its entities replaced; an unknown one stays.
fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() <= 10);
        let sign = entity.and_then(|(name, _)| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => {
                let digits = name.strip_prefix('#')?;
                let code = match digits.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => digits.parse().ok()?,
                };
                char::from_u32(code)
            }
        });
        rest = match (sign, entity) {
            (Some(sign), Some((_, after))) => {
                out.push(sign);
                after
            }
            _ => {
                out.push('&');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> (Vec<String>, bool) {
        let mut tags = Tags::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(tag) = tags.next().unwrap() {
            let attributes: Vec<String> =
                tag.attributes.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            let (begin, end) = (if tag.is_end { "/" } else { "" }, if tag.is_empty { "/" } else { "" });
            found.push(format!("{}:{begin}{}{}{end}", tag.line, tag.name, attributes.concat()));
        }
        (found, tags.is_cut)
    }

    #[test]
    fn tags_have_attributes_and_lines() {
        for (text, expected, is_cut) in [
            (
                "<?xml version=\"1.0\"?>\n<!DOCTYPE a [ <!ENTITY x '>'> ]>\n<a b='1' c = \"x&amp;&#65;&#x42;&y;\">\n t <d/></a>",
                vec!["3:a b=1 c=x&AB&y;", "4:d/", "4:/a"],
                false,
            ),
            ("<!-- <x> -->\n<a\n b=\">\"/><![CDATA[<b>]]><c>", vec!["2:a b=>/", "3:c"], false),
            ("<a><b c=\"1", vec!["1:a"], true),
            ("<a><!-- b", vec!["1:a"], true),
            ("text", vec![], false),
            ("<a b=c d>", vec!["1:a"], false),
        ] {
            assert_eq!(all(text), (expected.into_iter().map(String::from).collect(), is_cut), "{text}");
        }
    }

    #[test]
    fn a_tag_without_an_end_is_refused() {
        let text = format!("\n<a b=\"{}", "x".repeat(TAG_BYTES_MAX));
        assert_eq!(Tags::new(text.as_bytes()).next().unwrap_err().line, 2);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "[<>/!?'\"=&;#xa \\n\\[\\]-]{0,80}") {
            all(&text);
        }
    }
}
