//! A fixed-width text file: one line per object, attributes at fixed positions, counted in characters.

pub(crate) mod settings;

use std::path::Path;

use crate::BATCH_BYTES;
use crate::file::{self, Lines, line_of, rewrite, split, too_long, unreadable, wrong};
use crate::fixed_width::settings::{FixedColumn, FixedWidth as Settings};
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Imported, ImportedObject, Names,
    Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;
use metadir::naming::Naming;

/// `type = "fixed-width"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "fixed-width", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Anchor
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn file(&self) -> Option<(&'static str, &Path)> {
        Some(("path", &self.path))
    }

    fn relative_to(&mut self, folder: &Path) {
        self.path = folder.join(&self.path);
    }

    fn changes(&self) -> Changes {
        Changes::Files(vec![self.path.clone()])
    }

    fn attributes(&self, _objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        Ok(columns(self))
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(FixedWidth::new(self, objects.anchor, names)))
    }
}

pub(super) struct FixedWidth {
    settings: Settings,
    /// The columns of the anchor.
    anchor: Vec<usize>,
    names: Names,
}

pub(super) fn columns(settings: &Settings) -> Vec<String> {
    settings.columns.iter().map(|column| column.name.clone()).collect()
}

impl FixedWidth {
    pub(super) fn new(settings: &Settings, anchor: &[String], names: &Names) -> FixedWidth {
        let place = |name: &String| settings.columns.iter().position(|column| column.name == *name);
        FixedWidth {
            settings: settings.clone(),
            anchor: anchor.iter().filter_map(place).collect(),
            names: names.clone(),
        }
    }

    fn separator(&self) -> Option<&[u8]> {
        self.settings.value_separator.as_deref().filter(|text| !text.is_empty()).map(str::as_bytes)
    }

    /// The line of an object, based on its old line, or why it cannot be written.
    fn line(&self, old: Option<&[&str]>, change: &ExportedObject) -> Result<String, String> {
        for (attribute, _) in &change.attributes {
            let name = self.names.name(*attribute);
            if self.settings.columns.iter().all(|column| column.name != name) {
                return Err(format!("the file has no column `{name}`"));
            }
        }
        let mut line = String::new();
        let mut written = 0;
        for (at, column) in self.settings.columns.iter().enumerate() {
            let new =
                change.attributes.iter().find(|(attribute, _)| self.names.name(*attribute) == column.name);
            let joined;
            let text = match new {
                None => old.map_or("", |fields| fields[at]),
                Some((_, values)) => {
                    let separator = self.separator();
                    if values.len() > 1 && separator.is_none() {
                        let name = &column.name;
                        return Err(format!(
                            "`{name}` has several values, and the agent no `value_separator`"
                        ));
                    }
                    joined = values.join(separator.unwrap_or_default());
                    std::str::from_utf8(&joined).map_err(|_| format!("`{}` is not UTF-8", column.name))?
                }
            };
            if text.contains(['\n', '\r']) {
                return Err(format!("`{}` has a line break", column.name));
            }
            let characters = text.chars().count();
            if characters > column.width {
                let (name, width) = (&column.name, column.width);
                return Err(format!("`{name}` has {characters} characters, and its column holds {width}"));
            }
            line.extend(std::iter::repeat_n(' ', column.before - written));
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', column.width - characters));
            written = column.end();
        }
        Ok(line)
    }
}

/// The trimmed fields of a line, or the error in it.
fn fields<'a>(settings: &Settings, text: &'a [u8]) -> Result<Vec<&'a str>, (&'static str, String)> {
    let text = std::str::from_utf8(text).map_err(|_| ("invalid-attribute-value", "not UTF-8".to_string()))?;
    let characters = if text.is_ascii() { text.len() } else { text.chars().count() };
    let width = settings.columns.iter().map(FixedColumn::end).max().unwrap_or(0);
    if characters < width && !settings.short_lines {
        let text =
            format!("{characters} characters where the columns take {width}; `short_lines` would allow it");
        return Err(("parse-error", text));
    }
    let mut fields = Vec::with_capacity(settings.columns.len());
    let (mut rest, mut before) = (text, 0);
    for column in &settings.columns {
        rest = after(rest, column.before - before);
        let behind = after(rest, column.width);
        fields.push(rest[..rest.len() - behind.len()].trim_matches(' '));
        (rest, before) = (behind, column.end());
    }
    if !rest.trim_matches(' ').is_empty() {
        return Err((
            "parse-error",
            format!("there are characters after the last column, which ends at {width}"),
        ));
    }
    Ok(fields)
}

/// The text after a number of characters.
fn after(text: &str, characters: usize) -> &str {
    let at = match text.as_bytes().get(..characters) {
        Some(first) if first.is_ascii() => characters,
        _ => text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at),
    };
    &text[at..]
}

impl Agent for FixedWidth {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: false, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let path = &self.settings.path;
        let lines = Lines::open(path)?
            .ok_or_else(|| unreadable(path, "it does not exist; a file without objects is empty"))?;
        let mut order: Vec<(Attribute, usize)> = self
            .settings
            .columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((self.names.attribute(&column.name)?, at)))
            .collect();
        order.sort_unstable();
        Ok(Box::new(Rows {
            lines,
            settings: self.settings.clone(),
            anchor: self.anchor.clone(),
            order,
            separator: self.separator().map(<[u8]>::to_vec),
            builder: Builder::default(),
        }))
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let columns = self.anchor.iter().filter_map(|at| self.settings.columns.get(*at));
        let anchor: Vec<Attribute> =
            columns.filter_map(|column| self.names.attribute(&column.name)).collect();
        let path = &self.settings.path;
        let mut old = Rewritten { agent: self, lines: Lines::open(path)? };
        rewrite(path, b"", &mut old, changes, &anchor)
    }
}

struct Rewritten<'a> {
    agent: &'a FixedWidth,
    /// None if there is no file yet.
    lines: Option<Lines>,
}

impl file::Objects for Rewritten<'_> {
    fn next(
        &mut self,
        to: &mut dyn FnMut(&dyn file::Object) -> Result<(), AgentError>,
    ) -> Result<bool, AgentError> {
        let settings = &self.agent.settings;
        let Some(lines) = &mut self.lines else { return Ok(false) };
        let Some(line) = lines.next()? else { return Ok(false) };
        if line.is_too_long {
            let why = format!("line {} is {}; shorten it", line.number, too_long());
            return Err(unreadable(&settings.path, why));
        }
        let fields = fields(settings, line.text).ok();
        to(&RewrittenLine { agent: self.agent, text: line.text, fields })?;
        Ok(true)
    }

    fn added(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.line(None, change).map(|line| end(out, line.as_bytes()))
    }
}

/// A line of the file before.
struct RewrittenLine<'a> {
    agent: &'a FixedWidth,
    text: &'a [u8],
    /// None if the line cannot be read; it is kept unchanged.
    fields: Option<Vec<&'a str>>,
}

impl file::Object for RewrittenLine<'_> {
    fn anchor(&self) -> Option<IndexKey> {
        let fields = self.fields.as_ref()?;
        Some(IndexKey::of_parts(self.agent.anchor.iter().map(|at| fields[*at].as_bytes())))
    }

    fn unchanged(&self, out: &mut Vec<u8>) {
        end(out, self.text);
    }

    fn changed(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.line(self.fields.as_deref(), change).map(|line| end(out, line.as_bytes()))
    }
}

/// Appends a line.
fn end(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(line);
    out.push(b'\n');
}

struct Rows {
    lines: Lines,
    settings: Settings,
    anchor: Vec<usize>,
    /// Attributes in ascending order, each with its column.
    order: Vec<(Attribute, usize)>,
    separator: Option<Vec<u8>>,
    builder: Builder,
}

impl Import for Rows {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut bytes = 0;
        while batch.len() < most && bytes < BATCH_BYTES {
            let Some(line) = self.lines.next()? else { break };
            if line.is_too_long {
                batch.push(wrong(line.number, "parse-error", too_long()));
                continue;
            }
            if line.text.is_empty() {
                continue;
            }
            bytes += line.text.len();
            let fields = match fields(&self.settings, line.text) {
                Ok(fields) => fields,
                Err((kind, text)) => {
                    batch.push(wrong(line.number, kind, text));
                    continue;
                }
            };
            if self.anchor.iter().any(|at| fields[*at].is_empty()) {
                batch.push(wrong(line.number, "missing-anchor", "a part of the anchor has no value"));
                continue;
            }
            self.builder.clear();
            for (attribute, at) in &self.order {
                let field = fields[*at].as_bytes();
                match &self.separator {
                    Some(separator) => self.builder.push_all(*attribute, &mut split(field, separator)),
                    None => self.builder.push(*attribute, field),
                }
            }
            let anchor = IndexKey::of_parts(self.anchor.iter().map(|at| fields[*at].as_bytes()));
            let (image, line) = (self.builder.finish(), line_of(line.number));
            batch.push(Imported::Object(ImportedObject { anchor, dn: String::new(), image, line }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(short_lines: bool) -> Settings {
        let column = |name: &str, before, width| FixedColumn { name: name.into(), before, width };
        Settings {
            path: "people.txt".into(),
            columns: vec![column("id", 0, 4), column("name", 5, 6), column("room", 11, 3)],
            value_separator: None,
            short_lines,
        }
    }

    #[test]
    fn fields_stand_at_their_places() {
        for (line, expected) in [
            ("  17 Ada   A12", Ok(["17", "Ada", "A12"])),
            ("17   JürgenB 7   ", Ok(["17", "Jürgen", "B 7"])),
            ("ü    ößäüéè€", Err("parse-error")),
            ("17   Ada   A", Err("parse-error")),
            ("17   Ada   A12 x", Err("parse-error")),
            // Text between columns belongs to no column.
            ("17  xAda   A12", Ok(["17", "Ada", "A12"])),
        ] {
            let read = fields(&settings(false), line.as_bytes()).map_err(|(kind, _)| kind);
            assert_eq!(read, expected.map(|fields| fields.to_vec()), "{line}");
        }
        assert_eq!(fields(&settings(true), b"17   Ada").unwrap(), ["17", "Ada", ""]);
        assert_eq!(fields(&settings(true), b"").unwrap(), ["", "", ""]);
        assert_eq!(fields(&settings(true), b"\xff").unwrap_err().0, "invalid-attribute-value");
    }
}
