//! The JSON documents in what fio printed, between lines of other text.
//!
//! fio writes messages before its result, writes one document for each status interval, and prints floating-point numbers
//! (`nan`, `inf`) and control characters that are not JSON.

use std::io::{BufRead as _, BufReader, Read as _};

use serde_json::Value;

use crate::input::Text;
use crate::{Fault, Source};

/// The longest document.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// One document.
pub(super) struct Document {
    /// The line where it begins, from 1.
    pub(super) line: u64,
    pub(super) root: Value,
    /// Whether it ends too early; what is whole of it is in `root`.
    pub(super) is_cut: bool,
}

/// Reads one document after another.
pub(super) struct Documents {
    lines: BufReader<Text<Source>>,
    /// The line that is being read, its number, and where the rest begins.
    line: Vec<u8>,
    number: u64,
    at: usize,
    is_over: bool,
}

impl Documents {
    pub(super) fn new(from: Source) -> Self {
        let lines = BufReader::new(Text::new(from));
        Documents { lines, line: Vec::new(), number: 0, at: 0, is_over: false }
    }

    /// The next document; none at the end. After an error in a document the next one can be read.
    pub(super) fn next(&mut self) -> Result<Option<Document>, Fault> {
        let mut scanner = Scanner::default();
        let mut begin = 0;
        while !self.is_over {
            if self.at >= self.line.len() && !self.next_line()? {
                break;
            }
            let rest = &self.line[self.at..];
            if begin == 0 {
                let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                if rest.get(blank) != Some(&b'{') {
                    self.at = self.line.len();
                    continue;
                }
                begin = self.number;
            } else if self.at == 0 && rest.trim_ascii_end() == b"{" {
                // Only a document begins without indentation: the one before was cut.
                return scanner.cut(begin).map(Some);
            }
            let used = rest.iter().position(|byte| scanner.ends_with(*byte));
            self.at += used.map_or(rest.len(), |at| at + 1);
            if used.is_some() {
                return scanner.whole(begin).map(Some);
            }
            if scanner.text.len() > DOCUMENT_BYTES_MAX {
                self.is_over = true;
                return Err(Fault::at(begin, "the document is longer than 64 MiB", "use --group_reporting"));
            }
        }
        if begin == 0 { Ok(None) } else { scanner.cut(begin).map(Some) }
    }

    fn next_line(&mut self) -> Result<bool, Fault> {
        self.line.clear();
        self.at = 0;
        let limited = self.lines.by_ref().take(DOCUMENT_BYTES_MAX as u64).read_until(b'\n', &mut self.line);
        self.is_over = !matches!(limited, Ok(1..));
        self.number += 1;
        limited.map(|read| read > 0).map_err(|error| Fault::of_file(&error))
    }
}

/// Collects the text of a document, and makes it valid JSON.
#[derive(Default)]
struct Scanner {
    text: Vec<u8>,
    /// A number or a word that has not ended yet.
    word: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// The length of the text up to the last whole element of a list of the document, such as a job.
    whole: usize,
}

impl Scanner {
    /// Adds a byte; true if the document ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.is_in_string {
            self.text.push(if byte < b' ' { b' ' } else { byte });
            match (self.is_escaped, byte) {
                (true, _) => self.is_escaped = false,
                (false, b'\\') => self.is_escaped = true,
                (false, b'"') => self.is_in_string = false,
                _ => {}
            }
            return false;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'(' | b')' | b'#') {
            self.word.push(byte);
            return false;
        }
        let word = self.word.to_ascii_lowercase();
        let digits = word.trim_ascii_start();
        let unsigned = digits.strip_prefix(b"-").or_else(|| digits.strip_prefix(b"+")).unwrap_or(digits);
        let is_no_number = ["nan", "inf", "1.#"].iter().any(|name| unsigned.starts_with(name.as_bytes()));
        self.text.extend_from_slice(if is_no_number { b"null" } else { &self.word });
        self.word.clear();
        self.text.push(byte);
        match byte {
            b'"' => self.is_in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 2 && byte == b'}' {
                    self.whole = self.text.len();
                }
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }

    fn whole(self, line: u64) -> Result<Document, Fault> {
        match serde_json::from_slice(&self.text) {
            Ok(root) => Ok(Document { line, root, is_cut: false }),
            Err(error) => {
                let line = line + (error.line() as u64).saturating_sub(1);
                Err(Fault::at(line, format!("is not JSON: {error}"), "write the result again"))
            }
        }
    }

    /// What is whole of a document that ends too early.
    fn cut(mut self, line: u64) -> Result<Document, Fault> {
        let fault = || {
            Fault::at(
                line,
                "the document that begins here has no end",
                "fio was stopped, or the file was cut",
            )
        };
        if self.whole == 0 {
            return Err(fault());
        }
        self.text.truncate(self.whole);
        self.text.extend_from_slice(b"]}");
        let root = serde_json::from_slice(&self.text).map_err(|_| fault())?;
        Ok(Document { line, root, is_cut: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(u64, String, bool), String>> {
        let mut documents = Documents::new(Box::new(std::io::Cursor::new(text.as_bytes().to_vec())));
        let mut found = Vec::new();
        loop {
            match documents.next() {
                Ok(None) => return found,
                Ok(Some(of)) => found.push(Ok((of.line, of.root.to_string(), of.is_cut))),
                Err(fault) => found.push(Err(fault.to_string())),
            }
        }
    }

    #[test]
    fn documents_are_found_between_other_text() {
        let whole = |line, text: &str| Ok((line, text.to_string(), false));
        for (text, expected) in [
            ("", vec![]),
            ("fio: pid=1, err=2/file:f\n{\n  \"a\" : 1\n}\n", vec![whole(2, r#"{"a":1}"#)]),
            (
                "{\"a\":1}{\"a\":2}\n,\n{\"a\":3}",
                vec![whole(1, r#"{"a":1}"#), whole(1, r#"{"a":2}"#), whole(3, r#"{"a":3}"#)],
            ),
            (
                "{\n\"a\" : -nan, \"b\" : [inf, -1.5e3, 1.#INF, nan(ind)]}",
                vec![whole(1, r#"{"a":null,"b":[null,-1500.0,null,null]}"#)],
            ),
            ("{\"a\" : \"x\ty } \\\" {\"}", vec![whole(1, r#"{"a":"x y } \" {"}"#)]),
            (
                "{\n\"jobs\" : [\n {\"a\" : {}\n },\n {\"a\"",
                vec![Ok((1, r#"{"jobs":[{"a":{}}]}"#.into(), true))],
            ),
            (
                "{\n\"jobs\" : [\n  {\n{\n\"a\" : 1\n}\n",
                vec![Err("line 1: the document that begins here has no end".into()), whole(4, r#"{"a":1}"#)],
            ),
            (
                "{\n\"a\" : x\n}\n{\"a\":1}\n",
                vec![
                    Err("line 2: is not JSON: expected value at line 2 column 7".into()),
                    whole(4, r#"{"a":1}"#),
                ],
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "[{}\\[\\]\",:a1n\\\\ \n-]{0,60}") {
            read(&text);
        }
    }
}
