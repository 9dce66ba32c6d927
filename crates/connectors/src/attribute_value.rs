//! An attribute-value pair file: a text file with a line `name: value` for each value. An empty line ends an
//! object.

pub(crate) mod settings;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::BATCH_BYTES;
use crate::attribute_value::settings::AttributeValue as Settings;
use crate::file::{self, Lines, line_of, rewrite, too_long, unreadable, wrong};
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Imported, ImportedObject, Names,
    Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;
use metadir::naming::Naming;

/// `type = "attribute-value"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "attribute-value", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Anchor
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

    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        attributes(self, objects.anchor)
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(AttributeValue::new(self, objects.anchor, names)))
    }
}

/// The size limit of an object. Each of its lines needs memory besides its bytes.
const BLOCK_BYTES_MAX: usize = 64 << 20;
const LINE_COST: usize = 32;

pub(super) struct AttributeValue {
    settings: Settings,
    anchor: Vec<String>,
    names: Names,
}

/// The attributes from the settings, otherwise all attributes in the file.
pub(super) fn attributes(settings: &Settings, anchor: &[String]) -> Result<Vec<String>, AgentError> {
    if !settings.attributes.is_empty() {
        return Ok(settings.attributes.iter().chain(anchor).cloned().collect());
    }
    let mut known: HashSet<String> = HashSet::new();
    let mut all = Vec::new();
    let Some(mut lines) = Lines::open(&settings.path)? else { return Ok(all) };
    while let Some(line) = lines.next()? {
        let name = (!line.is_too_long).then(|| pair(line.text)).flatten().map(|(name, _)| name);
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = name.filter(|name| !known.contains(*name)) {
            known.insert(name.into());
            all.push(name.into());
        }
    }
    Ok(all)
}

/// The name and the value of a line.
fn pair(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b':', line)?;
    let (name, value) = (line[..at].trim_ascii(), &line[at + 1..]);
    (!name.is_empty()).then(|| (name, value.strip_prefix(b" ").unwrap_or(value)))
}

/// The lines of an object.
struct Block {
    /// The number of its first line.
    line: u64,
    text: Vec<u8>,
    /// The ranges of names and values in the text.
    pairs: Vec<(Range<usize>, Range<usize>)>,
    /// An error in the object: its line, its kind and its text.
    fault: Option<(u64, &'static str, String)>,
}

impl Block {
    fn new() -> Block {
        Block { line: 0, text: Vec::new(), pairs: Vec::new(), fault: None }
    }

    /// Reads the next object; returns false at the end of the file.
    fn read(&mut self, lines: &mut Lines) -> Result<bool, AgentError> {
        self.text.clear();
        self.pairs.clear();
        self.fault = None;
        let mut any = false;
        while let Some(line) = lines.next()? {
            if line.text.is_empty() && !line.is_too_long {
                if any {
                    break;
                }
                continue;
            }
            if !any {
                self.line = line.number;
            }
            any = true;
            self.take(line.number, if line.is_too_long { None } else { Some(line.text) });
        }
        Ok(any)
    }

    fn take(&mut self, number: u64, line: Option<&[u8]>) {
        if self.fault.is_some() {
            return;
        }
        let taken = match line {
            None => Err(("parse-error", too_long())),
            Some(line) if self.text.len() + line.len() + LINE_COST * self.pairs.len() > BLOCK_BYTES_MAX => {
                Err(("parse-error", format!("an object of more than {} MiB", BLOCK_BYTES_MAX >> 20)))
            }
            Some(line) => match (pair(line), std::str::from_utf8(line)) {
                (_, Err(_)) => Err(("invalid-attribute-value", "not UTF-8".to_string())),
                (None, _) => Err(("parse-error", "no line of the form `name: value`".to_string())),
                (Some(pair), _) => Ok(pair),
            },
        };
        match taken {
            Ok((name, value)) => {
                let begin = self.text.len();
                self.text.extend_from_slice(name);
                let middle = self.text.len();
                self.text.extend_from_slice(value);
                self.pairs.push((begin..middle, middle..self.text.len()));
            }
            Err((kind, text)) => self.fault = Some((number, kind, text)),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()]))
    }

    /// The key of the anchor; none if a part of the anchor has no value.
    fn anchor(&self, anchor: &[String]) -> Option<IndexKey> {
        let value = |name: &String| {
            let found = self.pairs().find(|(of, value)| *of == name.as_bytes() && !value.is_empty());
            found.map(|(_, value)| value)
        };
        let parts: Option<Vec<&[u8]>> = anchor.iter().map(value).collect();
        parts.map(|parts| IndexKey::of_parts(parts.into_iter()))
    }
}

impl AttributeValue {
    pub(super) fn new(settings: &Settings, anchor: &[String], names: &Names) -> AttributeValue {
        AttributeValue { settings: settings.clone(), anchor: anchor.to_vec(), names: names.clone() }
    }

    /// Appends the changed lines of an object; an error is why it cannot be written.
    fn lines(
        &self,
        old: Option<&Block>,
        changes: &[(Attribute, Vec<Vec<u8>>)],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mut line = |name: &[u8], value: &[u8]| write_pair(out, name, value);
        let new = |name: &[u8]| {
            changes.iter().find(|(attribute, _)| self.names.name(*attribute).as_bytes() == name)
        };
        let mut written = HashSet::new();
        let of_old = old.into_iter().flat_map(Block::pairs);
        // An attribute keeps its position.
        for (name, value) in of_old {
            match new(name) {
                None => line(name, value),
                Some((attribute, values)) => {
                    if written.insert(*attribute) {
                        values.iter().for_each(|value| line(name, value));
                    }
                }
            }
        }
        for (attribute, values) in changes {
            let name = self.names.name(*attribute);
            if values.iter().any(|value| value.contains(&b'\n') || value.ends_with(b"\r")) {
                return Err(format!("`{name}` has a line break, which this form cannot hold"));
            }
            if values.iter().any(|value| std::str::from_utf8(value).is_err()) {
                return Err(format!("`{name}` is not UTF-8"));
            }
            if name.contains([':', '\n', '\r']) {
                return Err(format!("`{name}` cannot be a name in this form"));
            }
            if written.insert(*attribute) {
                values.iter().for_each(|value| line(name.as_bytes(), value));
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

fn write_pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.push(b'\n');
}

impl Agent for AttributeValue {
    fn capabilities(&self) -> Capabilities {
        Capabilities { delta_import: false, rename: false, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let path = &self.settings.path;
        let lines = Lines::open(path)?
            .ok_or_else(|| unreadable(path, "it does not exist; a file without objects is empty"))?;
        let wanted = attributes(&self.settings, &self.anchor)?;
        let attribute = |name: String| Some((name.clone().into_bytes(), self.names.attribute(&name)?));
        Ok(Box::new(Blocks {
            lines,
            block: Block::new(),
            anchor: self.anchor.clone(),
            attributes: wanted.into_iter().filter_map(attribute).collect(),
            found: Vec::new(),
            builder: Builder::default(),
        }))
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let anchor: Vec<Attribute> =
            self.anchor.iter().filter_map(|name| self.names.attribute(name)).collect();
        let path = &self.settings.path;
        let mut old = Rewritten { agent: self, lines: Lines::open(path)?, block: Block::new() };
        rewrite(path, b"", &mut old, changes, &anchor)
    }
}

struct Rewritten<'a> {
    agent: &'a AttributeValue,
    /// None if there is no file yet.
    lines: Option<Lines>,
    block: Block,
}

impl file::Objects for Rewritten<'_> {
    fn next(
        &mut self,
        to: &mut dyn FnMut(&dyn file::Object) -> Result<(), AgentError>,
    ) -> Result<bool, AgentError> {
        let Some(lines) = &mut self.lines else { return Ok(false) };
        if !self.block.read(lines)? {
            return Ok(false);
        }
        if let Some((line, _, text)) = &self.block.fault {
            let why = format!("line {line}: {text}; correct it");
            return Err(unreadable(&self.agent.settings.path, why));
        }
        to(&*self)?;
        Ok(true)
    }

    fn added(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.lines(None, &change.attributes, out)
    }
}

impl file::Object for Rewritten<'_> {
    fn anchor(&self) -> Option<IndexKey> {
        self.block.anchor(&self.agent.anchor)
    }

    fn unchanged(&self, out: &mut Vec<u8>) {
        self.block.pairs().for_each(|(name, value)| write_pair(out, name, value));
        out.push(b'\n');
    }

    fn changed(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.lines(Some(&self.block), &change.attributes, out)
    }
}

struct Blocks {
    lines: Lines,
    block: Block,
    anchor: Vec<String>,
    attributes: HashMap<Vec<u8>, Attribute>,
    /// The attributes of an object with the ranges of their values.
    found: Vec<(Attribute, Range<usize>)>,
    builder: Builder,
}

impl Import for Blocks {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut bytes = 0;
        while batch.len() < most && bytes < BATCH_BYTES && self.block.read(&mut self.lines)? {
            bytes += self.block.text.len();
            batch.push(self.imported());
        }
        Ok(())
    }
}

impl Blocks {
    fn imported(&mut self) -> Imported {
        if let Some((line, kind, text)) = self.block.fault.take() {
            return wrong(line, kind, text);
        }
        let Some(anchor) = self.block.anchor(&self.anchor) else {
            return wrong(self.block.line, "missing-anchor", "a part of the anchor has no value");
        };
        let text = &self.block.text;
        self.found.clear();
        for (name, value) in &self.block.pairs {
            if let Some(attribute) = self.attributes.get(&text[name.clone()]) {
                self.found.push((*attribute, value.clone()));
            }
        }
        self.found.sort_by_key(|(attribute, _)| *attribute);
        self.builder.clear();
        for same in self.found.chunk_by(|one, other| one.0 == other.0) {
            match same {
                [(attribute, value)] => self.builder.push(*attribute, &text[value.clone()]),
                _ => {
                    let mut values = same.iter().map(|(_, value)| &text[value.clone()]).collect();
                    self.builder.push_all(same[0].0, &mut values);
                }
            }
        }
        let (image, line) = (self.builder.finish(), line_of(self.block.line));
        Imported::Object(ImportedObject { anchor, dn: String::new(), image, line })
    }
}
