//! A delimited text file (RFC 4180): one line per object, attributes in columns, names in the first line.

mod changes;
mod records;
pub(crate) mod settings;

use std::path::Path;

use csv::WriterBuilder;

use self::changes::{Mark, Marks};
use self::records::Records;
use crate::BATCH_BYTES;
use crate::delimited::settings::Delimited as Settings;
use crate::file::{self, line_of, rewrite, split, too_long, unreadable, wrong};
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Imported, ImportedObject, Names,
    Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;
use metadir::naming::Naming;

/// `type = "delimited"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "delimited", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Anchor
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn has_delta_import(&self) -> Result<(), &'static str> {
        self.delta.as_ref().map(drop).ok_or("write full-import, or a file of changes in `delta` of the agent")
    }

    fn file(&self) -> Option<(&'static str, &Path)> {
        Some(("path", &self.path))
    }

    fn relative_to(&mut self, folder: &Path) {
        self.path = folder.join(&self.path);
        if let Some(delta) = &mut self.delta {
            delta.path = folder.join(&delta.path);
        }
    }

    fn changes(&self) -> Changes {
        let delta = self.delta.iter().map(|delta| delta.path.clone());
        Changes::Files(std::iter::once(self.path.clone()).chain(delta).collect())
    }

    fn attributes(&self, _objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        columns(self)
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Delimited::new(self, objects.anchor, names)))
    }
}

/// The buffer of a line that is written.
const LINE_BYTES: usize = 1 << 10;

pub(super) struct Delimited {
    settings: Settings,
    anchor: Vec<String>,
    names: Names,
}

/// The names in the first line; none if the file does not exist yet, as for a target.
pub(super) fn columns(settings: &Settings) -> Result<Vec<String>, AgentError> {
    columns_of(&settings.path, settings.delimiter)
}

fn columns_of(path: &Path, delimiter: u8) -> Result<Vec<String>, AgentError> {
    let Some(mut records) = Records::open(path, delimiter)? else { return Ok(Vec::new()) };
    header(&mut records, path)
}

/// Reads the first line.
fn header(records: &mut Records, path: &Path) -> Result<Vec<String>, AgentError> {
    match records.next()? {
        None => Ok(Vec::new()),
        Some(true) => records.fields().map(|name| text(path, name)).collect(),
        Some(false) => Err(unreadable(path, format!("the first line is {}", too_long()))),
    }
}

fn text(path: &Path, name: &[u8]) -> Result<String, AgentError> {
    // Some programs write a byte order mark before UTF-8.
    let name = name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name);
    String::from_utf8(name.to_vec()).map_err(|_| unreadable(path, "the first line is not UTF-8"))
}

impl Delimited {
    pub(super) fn new(settings: &Settings, anchor: &[String], names: &Names) -> Delimited {
        Delimited { settings: settings.clone(), anchor: anchor.to_vec(), names: names.clone() }
    }

    fn path(&self) -> &Path {
        &self.settings.path
    }

    /// The mapping of attributes to the columns of a file.
    fn form(&self, path: &Path, columns: &[String]) -> Result<Form, AgentError> {
        let mut order: Vec<(Attribute, usize)> = columns
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some((self.names.attribute(name)?, at)))
            .collect();
        order.sort_unstable();
        // If a column name is repeated, the first column counts.
        order.dedup_by_key(|(attribute, _)| *attribute);
        let separator = self.settings.value_separator.as_deref().filter(|text| !text.is_empty());
        Ok(Form {
            columns: columns.len(),
            anchor: anchor_columns(path, &self.anchor, columns)?,
            order,
            value_separator: separator.map(|text| text.as_bytes().to_vec()),
        })
    }

    /// Appends a line.
    fn write(&self, fields: impl Iterator<Item = impl AsRef<[u8]>>, out: &mut Vec<u8>) {
        let mut writer = WriterBuilder::new();
        let mut writer = writer
            .delimiter(self.settings.delimiter)
            .flexible(true)
            .buffer_capacity(LINE_BYTES)
            .from_writer(out);
        // A vector accepts every write.
        let _ = writer.write_record(fields);
        let _ = writer.flush();
    }

    fn line(&self, header: &[String], old: Option<&Records>, change: &ExportedObject) -> Vec<Vec<u8>> {
        let separator = self.settings.value_separator.as_deref().unwrap_or(",").as_bytes();
        header
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let new = change.attributes.iter().find(|(attribute, _)| self.names.name(*attribute) == name);
                match new {
                    Some((_, values)) => values.join(separator),
                    None => old.and_then(|old| old.field(at)).unwrap_or_default().to_vec(),
                }
            })
            .collect()
    }
}

/// The indexes of the anchor columns in a file.
fn anchor_columns(path: &Path, anchor: &[String], columns: &[String]) -> Result<Vec<usize>, AgentError> {
    let place = |name: &String| {
        columns.iter().position(|column| column == name).ok_or_else(|| {
            let all = columns.join(", ");
            unreadable(path, format!("the column `{name}` of the anchor does not exist; it has {all}"))
        })
    };
    anchor.iter().map(place).collect()
}

impl Agent for Delimited {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: self.settings.delta.is_some(), rename: false, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let path = self.path();
        // The current content of the file of changes counts as read: the file itself is at least as new.
        let watermark = match &self.settings.delta {
            Some(delta) => Some(Marks::read(&delta.path, 0)?.whole.to_string()),
            None => None,
        };
        let named = "a file without objects has a first line with the names of its columns";
        let Some(mut records) = Records::open(path, self.settings.delimiter)? else {
            return Err(unreadable(path, format!("it does not exist; {named}")));
        };
        let columns = header(&mut records, path)?;
        if columns.is_empty() {
            return Err(unreadable(path, format!("it is empty; {named}")));
        }
        let form = self.form(path, &columns)?;
        Ok(Box::new(Rows { records, form, builder: Builder::default(), watermark }))
    }

    fn delta_import(&mut self, since: &str) -> Result<Box<dyn Import>, AgentError> {
        let Some(delta) = &self.settings.delta else {
            return Err(AgentError::NotSupported("it has no `delta`: run a full-import".into()));
        };
        let since = Mark::parse(since).ok_or_else(|| {
            AgentError::NotSupported(
                "the watermark of the file of changes is not known: run a full-import".into(),
            )
        })?;
        changes::begin(self, delta, &since)
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let path = self.path();
        let mut records = Records::open(path, self.settings.delimiter)?;
        let before = match &mut records {
            Some(records) => header(records, path)?,
            None => Vec::new(),
        };
        let mut header = before.clone();
        let written = changes.iter().flat_map(|change| &change.attributes);
        for (attribute, _) in written {
            let name = self.names.name(*attribute);
            if header.iter().all(|column| column != name) {
                header.push(name.to_string());
            }
        }
        let records = records.filter(|_| !before.is_empty());
        let key = match records.is_some() {
            true => anchor_columns(path, &self.anchor, &before)?,
            false => Vec::new(),
        };
        let anchor: Vec<Attribute> =
            self.anchor.iter().filter_map(|name| self.names.attribute(name)).collect();
        let mut head = Vec::new();
        self.write(header.iter(), &mut head);
        let mut old = Rewritten { agent: self, records, columns: before.len(), key, header };
        rewrite(path, &head, &mut old, changes, &anchor)
    }
}

/// The lines of the file before.
struct Rewritten<'a> {
    agent: &'a Delimited,
    /// None if there is no file yet, or an empty one.
    records: Option<Records>,
    /// Number of its columns.
    columns: usize,
    /// The indexes of its anchor columns.
    key: Vec<usize>,
    /// The columns of the new file.
    header: Vec<String>,
}

impl file::Objects for Rewritten<'_> {
    fn next(
        &mut self,
        to: &mut dyn FnMut(&dyn file::Object) -> Result<(), AgentError>,
    ) -> Result<bool, AgentError> {
        let Rewritten { agent, records, columns, key, header } = self;
        let Some(records) = records else { return Ok(false) };
        let Some(is_whole) = records.next()? else { return Ok(false) };
        if !is_whole {
            let why = format!("line {} is {}; shorten it", records.line(), too_long());
            return Err(unreadable(agent.path(), why));
        }
        to(&RewrittenLine { agent, record: records, columns: *columns, key, header })?;
        Ok(true)
    }

    fn added(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.write(self.agent.line(&self.header, None, change).iter(), out);
        Ok(())
    }
}

/// A line of the file before.
struct RewrittenLine<'a> {
    agent: &'a Delimited,
    record: &'a Records,
    columns: usize,
    key: &'a [usize],
    header: &'a [String],
}

impl file::Object for RewrittenLine<'_> {
    fn anchor(&self) -> Option<IndexKey> {
        Some(IndexKey::of_parts(self.key.iter().map(|at| self.record.field(*at).unwrap_or_default())))
    }

    fn unchanged(&self, out: &mut Vec<u8>) {
        // New columns are empty in every line.
        let more = (self.columns..self.header.len()).map(|_| &b""[..]);
        self.agent.write(self.record.fields().chain(more), out);
    }

    fn changed(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.write(self.agent.line(self.header, Some(self.record), change).iter(), out);
        Ok(())
    }
}

/// The mapping of attributes to columns.
struct Form {
    columns: usize,
    anchor: Vec<usize>,
    /// Attributes in ascending order, each with its column.
    order: Vec<(Attribute, usize)>,
    value_separator: Option<Vec<u8>>,
}

impl Form {
    /// The anchor of a line, or the error in the line.
    fn anchor(&self, records: &Records, is_whole: bool) -> Result<IndexKey, Imported> {
        let line = records.line();
        if !is_whole {
            return Err(wrong(line, "parse-error", too_long()));
        }
        if records.count() != self.columns {
            let text = format!("{} fields where the first line names {}", records.count(), self.columns);
            return Err(wrong(line, "parse-error", text));
        }
        if std::str::from_utf8(records.bytes()).is_err() {
            return Err(wrong(line, "invalid-attribute-value", "not UTF-8"));
        }
        let anchor = || self.anchor.iter().map(|at| records.field(*at).unwrap_or_default());
        if anchor().any(<[u8]>::is_empty) {
            return Err(wrong(line, "missing-anchor", "a part of the anchor has no value"));
        }
        Ok(IndexKey::of_parts(anchor()))
    }

    fn object(&self, records: &Records, anchor: IndexKey, builder: &mut Builder) -> ImportedObject {
        builder.clear();
        for (attribute, at) in &self.order {
            let field = records.field(*at).unwrap_or_default();
            match &self.value_separator {
                Some(separator) => builder.push_all(*attribute, &mut split(field, separator)),
                None => builder.push(*attribute, field),
            }
        }
        let (image, line) = (builder.finish(), line_of(records.line()));
        ImportedObject { anchor, dn: String::new(), image, line }
    }
}

struct Rows {
    records: Records,
    form: Form,
    builder: Builder,
    watermark: Option<String>,
}

impl Import for Rows {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut bytes = 0;
        while batch.len() < most && bytes < BATCH_BYTES {
            let Some(is_whole) = self.records.next()? else { break };
            bytes += self.records.bytes().len();
            batch.push(match self.form.anchor(&self.records, is_whole) {
                Ok(anchor) => Imported::Object(self.form.object(&self.records, anchor, &mut self.builder)),
                Err(wrong) => wrong,
            });
        }
        Ok(())
    }

    fn watermark(&self) -> Option<String> {
        self.watermark.clone()
    }
}
