//! A file of entries in the LDAP Data Interchange Format (RFC 2849). The name of an entry is its attribute
//! `dn`.

pub(crate) mod settings;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ldap::ldif::{Body, LdifError, Options, Reader, Record, write_attribute, write_dn};

use crate::BATCH_BYTES;
use crate::file::{self, RECORD_BYTES_MAX, line_of, open, rewrite, unreadable, wrong};
use crate::ldif::settings::Ldif as Settings;
use metadir::agent::{
    Agent, AgentError, Capabilities, Changes, ExportedObject, Import, Imported, ImportedObject, Names,
    Objects, Refused, System,
};
use metadir::config::SystemKind;
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;
use metadir::naming::Naming;

/// `type = "ldif"`.
pub(crate) const KIND: SystemKind =
    SystemKind { name: "ldif", keys: settings::KEYS, anchor: None, read: settings::read };

impl System for Settings {
    fn naming(&self) -> Naming {
        Naming::Dn
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

    fn ignores_case_of_attributes(&self) -> bool {
        true
    }

    fn attributes(&self, objects: &Objects<'_>) -> Result<Vec<String>, AgentError> {
        attributes(self, objects.anchor)
    }

    fn open(&self, objects: &Objects<'_>, names: &Names) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(Ldif::new(self, objects.anchor, names)))
    }
}

/// The attribute that has the name of an entry.
const DN: &str = "dn";
/// The size limit of an entry; a group of a million members is smaller.
const ENTRY_BYTES_MAX: usize = 128 << 20;

type Entries = Reader<BufReader<File>>;

pub(super) struct Ldif {
    settings: Settings,
    anchor: Vec<String>,
    names: Names,
}

/// Opens the entries of a file; none if it does not exist.
fn entries(settings: &Settings) -> Result<Option<Entries>, AgentError> {
    let options = Options {
        line_bytes_max: RECORD_BYTES_MAX,
        record_bytes_max: ENTRY_BYTES_MAX,
        read_file_urls: false,
    };
    Ok(open(&settings.path)?.map(|input| Reader::new(input, options)))
}

/// The attributes from the settings, otherwise all attributes in the file. The first spelling of a name
/// counts.
pub(super) fn attributes(settings: &Settings, anchor: &[String]) -> Result<Vec<String>, AgentError> {
    let mut all: Vec<String> = vec![DN.into()];
    all.extend(anchor.iter().chain(&settings.attributes).cloned());
    let mut known: HashSet<String> = all.iter().map(|name| name.to_ascii_lowercase()).collect();
    if settings.attributes.is_empty()
        && let Some(mut entries) = entries(settings)?
    {
        let mut lower = String::new();
        loop {
            match entries.next() {
                Ok(None) => break,
                Ok(Some(Record { body: Body::Entry(attributes) | Body::Add(attributes), .. })) => {
                    for (name, _) in attributes {
                        lower.clear();
                        lower.push_str(name);
                        lower.make_ascii_lowercase();
                        if !known.contains(&lower) {
                            known.insert(lower.clone());
                            all.push(name.into());
                        }
                    }
                }
                Ok(Some(_)) => {}
                Err(error) if error.last => return Err(unreadable(&settings.path, error)),
                Err(_) => {}
            }
        }
    }
    Ok(all)
}

/// The key of the anchor; none if a part of the anchor has no value.
fn anchor_of(anchor: &[String], dn: &str, attributes: &[(&str, &[u8])]) -> Option<IndexKey> {
    let part = |name: &String| match name.eq_ignore_ascii_case(DN) {
        true => Some(dn.as_bytes()).filter(|dn| !dn.is_empty()),
        false => {
            let mut of_name = attributes.iter().filter(|(of, _)| of.eq_ignore_ascii_case(name));
            of_name.find(|(_, value)| !value.is_empty()).map(|(_, value)| *value)
        }
    };
    let parts: Option<Vec<&[u8]>> = anchor.iter().map(part).collect();
    parts.map(|parts| IndexKey::of_parts(parts.into_iter()))
}

impl Ldif {
    pub(super) fn new(settings: &Settings, anchor: &[String], names: &Names) -> Ldif {
        Ldif { settings: settings.clone(), anchor: anchor.to_vec(), names: names.clone() }
    }

    /// Appends a changed entry; an error is why it cannot be written.
    fn entry(
        &self,
        old: &[(&str, &[u8])],
        dn: &str,
        change: &ExportedObject,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if dn.is_empty() {
            return Err("it has no name".into());
        }
        write_dn(out, dn);
        let changes =
            || change.attributes.iter().map(|(attribute, values)| (self.names.name(*attribute), values));
        let mut written = HashSet::new();
        // An attribute keeps its position.
        for (name, value) in old {
            match changes().find(|(of, _)| of.eq_ignore_ascii_case(name)) {
                None => write_attribute(out, name, value),
                Some((of, values)) => {
                    if written.insert(of) {
                        values.iter().for_each(|value| write_attribute(out, name, value));
                    }
                }
            }
        }
        for (name, values) in changes().filter(|(name, _)| !name.eq_ignore_ascii_case(DN)) {
            let is_in_place = |byte: u8| byte.is_ascii_alphanumeric() || b"-.;_".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_in_place) {
                return Err(format!("`{name}` cannot be the name of an attribute"));
            }
            if written.insert(name) {
                values.iter().for_each(|value| write_attribute(out, name, value));
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

fn failed_entry(settings: &Settings, error: &LdifError) -> AgentError {
    unreadable(&settings.path, format!("{error}; correct it"))
}

impl Agent for Ldif {
    fn capabilities(&self) -> Capabilities {
        let rename = self.anchor.iter().all(|name| !name.eq_ignore_ascii_case(DN));
        Capabilities { delta_import: false, rename, confirm: true }
    }

    fn full_import(&mut self) -> Result<Box<dyn Import>, AgentError> {
        let missing = "it does not exist; a file without objects is empty";
        let entries = entries(&self.settings)?.ok_or_else(|| unreadable(&self.settings.path, missing))?;
        let wanted = attributes(&self.settings, &self.anchor)?;
        let attribute = |name: String| Some((name.to_ascii_lowercase(), self.names.attribute(&name)?));
        Ok(Box::new(Read {
            entries,
            settings: self.settings.clone(),
            anchor: self.anchor.clone(),
            dn: self.names.attribute(DN),
            attributes: wanted.into_iter().filter_map(attribute).collect(),
            builder: Builder::default(),
        }))
    }

    fn export(&mut self, changes: &[ExportedObject]) -> Result<Vec<Result<(), Refused>>, AgentError> {
        let anchor: Vec<Attribute> =
            self.anchor.iter().filter_map(|name| self.names.attribute(name)).collect();
        let mut old = Rewritten { agent: self, entries: entries(&self.settings)? };
        rewrite(&self.settings.path, b"", &mut old, changes, &anchor)
    }
}

struct Rewritten<'a> {
    agent: &'a Ldif,
    /// None if there is no file yet.
    entries: Option<Entries>,
}

impl file::Objects for Rewritten<'_> {
    fn next(
        &mut self,
        to: &mut dyn FnMut(&dyn file::Object) -> Result<(), AgentError>,
    ) -> Result<bool, AgentError> {
        let settings = &self.agent.settings;
        let Some(entries) = &mut self.entries else { return Ok(false) };
        let record = entries.next().map_err(|error| failed_entry(settings, &error))?;
        let Some(record) = record else { return Ok(false) };
        let (Body::Entry(attributes) | Body::Add(attributes)) = &record.body else {
            let why = format!("line {}: a change is not an entry; remove it", record.line);
            return Err(unreadable(&settings.path, why));
        };
        to(&Entry { agent: self.agent, dn: record.dn, attributes })?;
        Ok(true)
    }

    fn added(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        self.agent.entry(&[], &change.dn, change, out)
    }
}

/// An entry of the file before.
struct Entry<'a> {
    agent: &'a Ldif,
    dn: &'a str,
    attributes: &'a [(&'a str, &'a [u8])],
}

impl file::Object for Entry<'_> {
    fn anchor(&self) -> Option<IndexKey> {
        anchor_of(&self.agent.anchor, self.dn, self.attributes)
    }

    fn unchanged(&self, out: &mut Vec<u8>) {
        write_dn(out, self.dn);
        self.attributes.iter().for_each(|(name, value)| write_attribute(out, name, value));
        out.push(b'\n');
    }

    fn changed(&self, change: &ExportedObject, out: &mut Vec<u8>) -> Result<(), String> {
        let dn = change.new_dn.as_deref().unwrap_or(self.dn);
        self.agent.entry(self.attributes, dn, change, out)
    }
}

struct Read {
    entries: Entries,
    settings: Settings,
    anchor: Vec<String>,
    dn: Option<Attribute>,
    /// The attributes by lower-case names.
    attributes: HashMap<String, Attribute>,
    builder: Builder,
}

impl Import for Read {
    fn read(&mut self, most: usize, batch: &mut Vec<Imported>) -> Result<(), AgentError> {
        let mut bytes = 0;
        let mut lower = String::new();
        while batch.len() < most && bytes < BATCH_BYTES {
            let record = match self.entries.next() {
                Ok(None) => break,
                Ok(Some(record)) => record,
                Err(error) if error.last => return Err(unreadable(&self.settings.path, error)),
                Err(error) => {
                    batch.push(wrong(error.line, "parse-error", error.what));
                    continue;
                }
            };
            let (Body::Entry(attributes) | Body::Add(attributes)) = &record.body else {
                batch.push(wrong(record.line, "parse-error", "a change, where entries are read"));
                continue;
            };
            let Some(anchor) = anchor_of(&self.anchor, record.dn, attributes) else {
                batch.push(wrong(record.line, "missing-anchor", "a part of the anchor has no value"));
                continue;
            };
            let mut found: Vec<(Attribute, &[u8])> =
                self.dn.map(|attribute| (attribute, record.dn.as_bytes())).into_iter().collect();
            for (name, value) in attributes {
                lower.clear();
                lower.push_str(name);
                lower.make_ascii_lowercase();
                if let Some(attribute) = self.attributes.get(&lower) {
                    found.push((*attribute, *value));
                }
            }
            found.sort_by_key(|(attribute, _)| *attribute);
            self.builder.clear();
            for same in found.chunk_by(|one, other| one.0 == other.0) {
                match same {
                    [(attribute, value)] => self.builder.push(*attribute, value),
                    _ => {
                        let mut values = same.iter().map(|(_, value)| *value).collect();
                        self.builder.push_all(same[0].0, &mut values);
                    }
                }
            }
            let image = self.builder.finish();
            bytes += image.as_bytes().len();
            let line = line_of(record.line);
            batch.push(Imported::Object(ImportedObject { anchor, dn: record.dn.into(), image, line }));
        }
        Ok(())
    }
}
