//! A text file with a line for each object and its attributes in columns, as RFC 4180 has it; the first line names them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Reader, ReaderBuilder, WriterBuilder};

use super::{
    Agent, AgentError, Capabilities, DiscoveryError, ExportedObject, Import, Imported, ImportedObject, Names,
    Refused, anchor_key,
};
use crate::config::Delimited as Settings;
use crate::hologram::{Attribute, Builder};
use crate::index_key::IndexKey;
use crate::object::Change;

/// A record longer than this is no object.
const RECORD_BYTES_MAX: usize = 16 << 20;

pub(super) struct Delimited {
    path: PathBuf,
    delimiter: u8,
    value_separator: Option<Vec<u8>>,
    anchor: Vec<String>,
    names: Names,
}

/// The names in the first line; none when the file is not there yet, as that of a target.
pub(super) fn columns(settings: &Settings) -> Result<Vec<String>, AgentError> {
    columns_of(&settings.path, settings.delimiter)
}

fn columns_of(path: &Path, delimiter: u8) -> Result<Vec<String>, AgentError> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(AgentError::system(format!("opening {}", path.display()), error)),
        Ok(_) => {
            let mut reader = reader(path, delimiter)?;
            let headers = reader.byte_headers().map_err(|error| unreadable(path, &error))?;
            headers.iter().map(|name| text(path, name)).collect()
        }
    }
}

fn text(path: &Path, name: &[u8]) -> Result<String, AgentError> {
    // Some programs begin UTF-8 with a mark.
    let name = name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name);
    String::from_utf8(name.to_vec())
        .map_err(|_| AgentError::system(format!("reading {}", path.display()), "the first line is not UTF-8"))
}

fn unreadable(path: &Path, error: &csv::Error) -> AgentError {
    AgentError::system(format!("reading {}", path.display()), error)
}

fn reader(path: &Path, delimiter: u8) -> Result<Reader<File>, AgentError> {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(delimiter).flexible(true).buffer_capacity(1 << 18);
    builder.from_path(path).map_err(|error| unreadable(path, &error))
}

impl Delimited {
    pub(super) fn new(settings: &Settings, anchor: &[String], names: &Names) -> Delimited {
        Delimited {
            path: settings.path.clone(),
            delimiter: settings.delimiter,
            value_separator: settings.value_separator.as_ref().map(|text| text.as_bytes().to_vec()),
            anchor: anchor.to_vec(),
            names: names.clone(),
        }
    }

    /// The columns of the anchor among those of the file.
    fn anchor_columns(&self, columns: &[String]) -> Result<Vec<usize>, AgentError> {
        let place = |name: &String| {
            columns.iter().position(|column| column == name).ok_or_else(|| {
                let why =
                    format!("the column `{name}` of the anchor is not there; it has {}", columns.join(", "));
                AgentError::system(format!("reading {}", self.path.display()), why)
            })
        };
        self.anchor.iter().map(place).collect()
    }
}

impl Agent for Delimited {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: false, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let columns = columns_of(&self.path, self.delimiter)?;
        if columns.is_empty() {
            let why = "it is not there, or its first line is empty; a file without objects has the names of its columns";
            return Err(AgentError::system(format!("reading {}", self.path.display()), why));
        }
        let anchor = self.anchor_columns(&columns)?;
        let mut order: Vec<(Attribute, usize)> = columns
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some((self.names.attribute(name)?, at)))
            .collect();
        order.sort_unstable();
        // Of a column that is named twice the first counts.
        order.dedup_by_key(|(attribute, _)| *attribute);
        Ok(Box::new(Lines {
            reader: reader(&self.path, self.delimiter)?,
            path: self.path.clone(),
            columns: columns.len(),
            anchor,
            order,
            value_separator: self.value_separator.clone(),
            record: ByteRecord::new(),
            builder: Builder::default(),
        }))
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let before = columns_of(&self.path, self.delimiter)?;
        let mut header = before.clone();
        let written = changes.iter().flat_map(|change| &change.attributes);
        for (attribute, _) in written {
            let name = self.names.name(*attribute);
            if header.iter().all(|column| column != name) {
                header.push(name.to_string());
            }
        }
        let mut answers =
            vec![Err(Refused("no object with this anchor is in the file".into())); changes.len()];
        let mut of: HashMap<IndexKey, usize> = HashMap::new();
        for (at, change) in changes.iter().enumerate() {
            match change.anchor {
                Some(anchor) => {
                    of.insert(anchor, at);
                }
                None => answers[at] = Err(Refused("it has no value for the anchor".into())),
            }
        }
        // A new file takes the place of the old one when it is whole, so that a reader never sees half of it.
        let new = self.path.with_extension("new");
        let failed = |error: &dyn ToString| {
            AgentError::system(format!("writing {}", new.display()), error.to_string())
        };
        let file = File::create(&new).map_err(|error| failed(&error))?;
        let mut writer = WriterBuilder::new()
            .delimiter(self.delimiter)
            .flexible(true)
            .from_writer(BufWriter::with_capacity(1 << 18, file));
        writer.write_record(&header).map_err(|error| failed(&error))?;
        let mut written = vec![false; changes.len()];
        if !before.is_empty() {
            let anchor = self.anchor_columns(&before)?;
            let mut old = reader(&self.path, self.delimiter)?;
            let mut record = ByteRecord::new();
            while old.read_byte_record(&mut record).map_err(|error| unreadable(&self.path, &error))? {
                let hash = anchor_key(anchor.iter().map(|at| record.get(*at).unwrap_or_default()));
                let change = of.get(&hash).map(|at| (*at, &changes[*at]));
                if let Some((at, change)) = change {
                    written[at] = true;
                    answers[at] = Ok(());
                    if change.change == Change::Delete {
                        continue;
                    }
                    let record = self.line(&header, Some(&record), change);
                    writer.write_byte_record(&record).map_err(|error| failed(&error))?;
                } else {
                    // Columns that are new are empty in every line.
                    (before.len()..header.len()).for_each(|_| record.push_field(b""));
                    writer.write_byte_record(&record).map_err(|error| failed(&error))?;
                }
            }
        }
        for (at, change) in changes.iter().enumerate().filter(|(at, _)| !written[*at]) {
            match change.change {
                Change::Add if change.anchor.is_some() => {
                    writer
                        .write_byte_record(&self.line(&header, None, change))
                        .map_err(|error| failed(&error))?;
                    answers[at] = Ok(());
                }
                // It is gone already.
                Change::Delete => answers[at] = Ok(()),
                _ => {}
            }
        }
        let mut file = writer.into_inner().map_err(|error| failed(&error))?;
        file.flush().map_err(|error| failed(&error))?;
        file.get_ref().sync_all().map_err(|error| failed(&error))?;
        fs::rename(&new, &self.path).map_err(|error| failed(&error))?;
        Ok(answers)
    }
}

impl Delimited {
    fn line(&self, header: &[String], old: Option<&ByteRecord>, change: &ExportedObject) -> ByteRecord {
        let separator = self.value_separator.clone().unwrap_or_else(|| b",".to_vec());
        header
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let new = change.attributes.iter().find(|(attribute, _)| self.names.name(*attribute) == name);
                match new {
                    Some((_, values)) => values.join(separator.as_slice()),
                    None => old.and_then(|old| old.get(at)).unwrap_or_default().to_vec(),
                }
            })
            .collect()
    }
}

struct Lines {
    reader: Reader<File>,
    path: PathBuf,
    columns: usize,
    anchor: Vec<usize>,
    /// Attributes in rising order, each with its column.
    order: Vec<(Attribute, usize)>,
    value_separator: Option<Vec<u8>>,
    record: ByteRecord,
    builder: Builder,
}

impl Import for Lines {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        while batch.len() < most {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => batch.push(self.imported()),
                Ok(false) => break,
                Err(error) => return Err(unreadable(&self.path, &error)),
            }
        }
        Ok(())
    }
}

impl Lines {
    fn imported(&mut self) -> Imported {
        let record = &self.record;
        let line = record.position().map_or(0, csv::Position::line);
        let error = |kind, text: String| {
            Imported::Error(DiscoveryError { place: format!("line {line}"), kind, text })
        };
        if record.len() != self.columns {
            let text = format!("{} fields where the first line names {}", record.len(), self.columns);
            return error("parse-error", text);
        }
        if record.as_slice().len() > RECORD_BYTES_MAX {
            return error("parse-error", format!("longer than {} MiB", RECORD_BYTES_MAX >> 20));
        }
        if std::str::from_utf8(record.as_slice()).is_err() {
            return error("invalid-attribute-value", "not UTF-8".into());
        }
        let anchor = || self.anchor.iter().map(|at| &record[*at]);
        if anchor().any(<[u8]>::is_empty) {
            return error("missing-anchor", "a part of the anchor has no value".into());
        }
        self.builder.clear();
        for (attribute, at) in &self.order {
            let field = &record[*at];
            match &self.value_separator {
                Some(separator) if contains(field, separator) => {
                    self.builder.push_all(*attribute, &mut split(field, separator));
                }
                _ => self.builder.push(*attribute, field),
            }
        }
        let anchor = anchor_key(anchor());
        Imported::Object(ImportedObject { anchor, dn: String::new(), image: self.builder.finish() })
    }
}

fn contains(field: &[u8], separator: &[u8]) -> bool {
    !separator.is_empty() && field.windows(separator.len()).any(|window| window == separator)
}

fn split<'a>(mut field: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = field.windows(separator.len()).position(|window| window == separator) {
        parts.push(&field[..at]);
        field = &field[at + separator.len()..];
    }
    parts.push(field);
    parts
}
