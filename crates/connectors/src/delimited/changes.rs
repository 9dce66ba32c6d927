//! A file with a line for each change. Writers append to it or replace it, so the part that was read is
//! identified by its length and hash.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead as _;
use std::path::Path;

use super::records::Records;
use super::{Delimited, Form, columns_of, header};
use crate::BATCH_BYTES;
use crate::delimited::settings::DelimitedDelta;
use crate::file::{fill, open, unreadable, wrong};
use metadir::agent::{AgentError, Import, Imported};
use metadir::hologram::{Builder, Hash};
use metadir::index_key::IndexKey;

/// How much of a file of changes was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    bytes: u64,
    hash: Hash,
}

impl Mark {
    pub(super) fn parse(text: &str) -> Option<Mark> {
        let (bytes, hash) = text.split_once(' ')?;
        Some(Mark {
            bytes: bytes.parse().ok()?,
            hash: Hash(u128::from_str_radix(hash, 16).ok()?.to_be_bytes()),
        })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {:?}", self.bytes, self.hash)
    }
}

/// The current state of a file of changes.
pub(super) struct Marks {
    /// The mark of the complete lines.
    pub(super) whole: Mark,
    /// The mark of the first bytes, as many as requested; none if the file is shorter.
    first: Option<Mark>,
    /// Number of lines in the first bytes.
    first_lines: u64,
    /// Number of lines in the whole file.
    lines: u64,
    /// Whether bytes follow the last complete line: a partly written line.
    is_unfinished: bool,
}

impl Marks {
    /// A file that does not exist counts as empty.
    pub(super) fn read(path: &Path, first_bytes: u64) -> Result<Marks, AgentError> {
        let mark = |hasher: &blake3::Hasher, bytes| {
            let mut hash = Hash([0; 16]);
            hash.0.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
            Mark { bytes, hash }
        };
        let mut hasher = blake3::Hasher::new();
        let mut bytes = 0;
        let whole = mark(&hasher, bytes);
        let mut marks = Marks { whole, first: None, first_lines: 0, lines: 0, is_unfinished: false };
        let Some(mut input) = open(path)? else { return Ok(marks) };
        loop {
            if bytes == first_bytes {
                marks.first = Some(mark(&hasher, bytes));
                marks.first_lines = marks.lines;
            }
            let buffer = fill(&mut input).map_err(|error| unreadable(path, error))?;
            if buffer.is_empty() {
                return Ok(marks);
            }
            let most = if bytes < first_bytes { first_bytes - bytes } else { u64::MAX };
            let part = &buffer[..buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
            let (lines, rest) = part.split_at(memchr::memrchr(b'\n', part).map_or(0, |at| at + 1));
            hasher.update(lines);
            if !lines.is_empty() {
                marks.whole = mark(&hasher, bytes + lines.len() as u64);
                marks.lines += memchr::memchr_iter(b'\n', lines).count() as u64;
            }
            hasher.update(rest);
            marks.is_unfinished = !rest.is_empty() || (lines.is_empty() && marks.is_unfinished);
            bytes += part.len() as u64;
            let used = part.len();
            input.consume(used);
        }
    }
}

/// Begins to read the new part of a file of changes.
pub(super) fn begin(
    agent: &Delimited,
    delta: &DelimitedDelta,
    since: &Mark,
) -> Result<Box<dyn Import>, AgentError> {
    let path = &delta.path;
    let delimiter = agent.settings.delimiter;
    let marks = Marks::read(path, since.bytes)?;
    // If lines were appended, the file still begins with the part that was read; otherwise it was replaced.
    let is_known = marks.first == Some(*since) && since.bytes > 0;
    let watermark = marks.whole.to_string();
    let none = || Box::new(NoChanges { watermark: watermark.clone() });
    let range = if is_known { since.bytes..marks.whole.bytes } else { 0..marks.whole.bytes };
    if range.is_empty() && !marks.is_unfinished {
        return Ok(none());
    }
    let columns = columns_of(path, delimiter)?;
    let Some(change) = columns.iter().position(|name| *name == delta.change_column) else {
        let all = columns.join(", ");
        let why = format!(
            "the column `{}` with the kind of change does not exist; it has {all}",
            delta.change_column
        );
        return Err(unreadable(path, why));
    };
    // A line must contain the complete object: a missing column would delete values.
    let of_objects = columns_of(agent.path(), delimiter)?;
    let missing: Vec<&str> =
        of_objects.iter().filter(|name| !columns.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let why = format!("it lacks {}, which {} has", missing.join(", "), agent.path().display());
        return Err(unreadable(path, format!("{why}; a line of changes holds the whole object")));
    }
    let mut form = agent.form(path, &columns)?;
    form.order.retain(|(_, at)| *at != change);
    let records = || -> Result<Option<Records>, AgentError> {
        let lines = if is_known { marks.first_lines } else { 0 };
        let mut records = Records::part(path, delimiter, range.clone(), lines)?;
        if let Some(records) = records.as_mut().filter(|_| !is_known) {
            header(records, path)?;
        }
        Ok(records)
    };
    let Some(mut first_time) = records()? else { return Ok(none()) };
    // Of several changes of an object, the last one has its current state.
    let mut last: HashMap<IndexKey, u64> = HashMap::new();
    let mut number = 0;
    while let Some(is_whole) = first_time.next()? {
        if let Ok(anchor) = form.anchor(&first_time, is_whole) {
            last.insert(anchor, number);
        }
        number += 1;
    }
    let unfinished = marks.is_unfinished.then_some(marks.lines + 1);
    let Some(records) = records()? else { return Ok(none()) };
    let builder = Builder::default();
    Ok(Box::new(ChangedRows { records, form, change, last, number: 0, unfinished, builder, watermark }))
}

struct NoChanges {
    watermark: String,
}

impl Import for NoChanges {
    fn read(&mut self, _most: usize, _batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        Ok(())
    }

    fn watermark(&self) -> Option<String> {
        Some(self.watermark.clone())
    }
}

struct ChangedRows {
    records: Records,
    form: Form,
    /// The index of the column with the kind of change.
    change: usize,
    /// The number of the last change of each object.
    last: HashMap<IndexKey, u64>,
    /// The number of the next change.
    number: u64,
    /// The number of the partly written line.
    unfinished: Option<u64>,
    builder: Builder,
    watermark: String,
}

impl Import for ChangedRows {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut bytes = 0;
        while batch.len() < most && bytes < BATCH_BYTES {
            let Some(is_whole) = self.records.next()? else {
                // A partial line may look complete. It is reported as an error, so the next import reads it
                // again.
                if let Some(line) = self.unfinished.take() {
                    let text =
                        "the last line has no end: the file may be half written; end it with a line feed";
                    batch.push(wrong(line, "parse-error", text));
                }
                break;
            };
            bytes += self.records.bytes().len();
            let number = self.number;
            self.number += 1;
            match self.form.anchor(&self.records, is_whole) {
                Ok(anchor) if self.last.get(&anchor) == Some(&number) => batch.push(self.changed(anchor)),
                Ok(_) => {}
                Err(wrong) => batch.push(wrong),
            }
        }
        Ok(())
    }

    fn watermark(&self) -> Option<String> {
        Some(self.watermark.clone())
    }
}

impl ChangedRows {
    fn changed(&mut self, anchor: IndexKey) -> Imported {
        let word = self.records.field(self.change).unwrap_or_default().trim_ascii().to_ascii_lowercase();
        match crate::change_of(&word) {
            Some(true) => Imported::Object(self.form.object(&self.records, anchor, &mut self.builder)),
            Some(false) => Imported::Gone(anchor),
            None => {
                let text = format!("{:?} is not add, update or delete", String::from_utf8_lossy(&word));
                wrong(self.records.line(), "missing-change-type", text)
            }
        }
    }
}
