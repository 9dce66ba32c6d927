//! Converts directory entries to objects.

use std::collections::HashMap;

use ldap::Dn;
use ldap::message::{Attribute as LdapAttribute, List};

use super::Directory;
use super::renamed::METADATA;
use metadir::agent::{DiscoveryError, Imported, ImportedObject, Names};
use metadir::hologram::{Attribute, Builder};
use metadir::index_key::IndexKey;

/// The option that marks a part of the values of an attribute: `member;range=0-1499`, in the last part
/// `member;range=1500-*`.
const RANGE: &str = ";range=";

/// Converts entries to objects.
pub(super) struct Entries {
    /// Every known attribute, by name.
    names: Names,
    /// Every known attribute, by lower-case name.
    folded: HashMap<String, Attribute>,
    builder: Builder,
}

/// The result of converting an entry.
pub(super) enum Entry {
    /// An object, or an error.
    Done(Imported),
    /// An object below an excluded name; its anchor, if it has one.
    Excluded(Option<IndexKey>),
    /// An object of which the server did not send all values.
    Cut(Cut),
}

/// An entry without all its values.
pub(super) struct Cut {
    pub(super) dn: String,
    pub(super) values: Vec<(Attribute, Vec<u8>)>,
    pub(super) more: Vec<PendingValues>,
}

/// Values that are still to be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingValues {
    /// The attribute description without the range.
    pub(super) name: String,
    pub(super) attribute: Attribute,
    /// The index of the first of them.
    pub(super) from: u64,
}

impl Entries {
    pub(super) fn new(names: &Names) -> Entries {
        let mut all: Vec<(&str, Attribute)> = names.iter().collect();
        // If names differ only in case, always the same one is chosen.
        all.sort_unstable_by(|one, other| other.0.cmp(one.0));
        let folded = all.into_iter().map(|(name, attribute)| (name.to_ascii_lowercase(), attribute));
        Entries { folded: folded.collect(), names: names.clone(), builder: Builder::default() }
    }

    /// The attribute of an attribute description from the server.
    fn attribute(&self, description: &str) -> Option<Attribute> {
        let named = |name: &str| {
            self.names.attribute(name).or_else(|| self.folded.get(&name.to_ascii_lowercase()).copied())
        };
        // Certificates have this option, but their attribute name does not.
        named(description).or_else(|| named(description.strip_suffix(";binary")?))
    }

    /// Converts an entry as it was received.
    pub(super) fn read<'a>(
        &mut self,
        directory: &Directory,
        dn: &str,
        attributes: List<'a, LdapAttribute<'a>>,
    ) -> Entry {
        let mut values: Vec<(Attribute, &'a [u8])> = Vec::with_capacity(64);
        let mut more = Vec::new();
        let is_wanted = |name: &str| directory.wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
        for found in attributes {
            // Delta imports ask for it to find renamed entries.
            if found.name.eq_ignore_ascii_case(METADATA) && !is_wanted(METADATA) {
                continue;
            }
            let (name, next) = match range(found.name) {
                Some(part) => part,
                None => (found.name, None),
            };
            let Some(attribute) = self.attribute(name) else { continue };
            let room = VALUES_MAX - values.len();
            values.extend(found.values.iter().take(room).map(|value| (attribute, value.0)));
            if values.len() == VALUES_MAX {
                let text = format!("it has {VALUES_MAX} values or more");
                let kind = "invalid-attribute-value";
                return Entry::Done(Imported::Error(DiscoveryError { place: dn.into(), kind, text }));
            }
            more.extend(next.map(|from| PendingValues { name: name.into(), attribute, from }));
        }
        if more.is_empty() {
            return self.object(directory, dn, &mut values);
        }
        let values = values.into_iter().map(|(attribute, value)| (attribute, value.to_vec())).collect();
        Entry::Cut(Cut { dn: dn.into(), values, more })
    }

    /// Converts an entry for which all values were requested.
    pub(super) fn completed(&mut self, directory: &Directory, cut: &Cut) -> Entry {
        let mut values = cut.values.iter().map(|(attribute, value)| (*attribute, value.as_slice())).collect();
        self.object(directory, &cut.dn, &mut values)
    }

    /// The key of an entry's anchor, or the error in it.
    pub(super) fn anchor(
        &self,
        directory: &Directory,
        values: &[(Attribute, &[u8])],
    ) -> Result<IndexKey, (&'static str, String)> {
        let mut parts = Vec::with_capacity(directory.anchor.len());
        for (name, attribute) in &directory.anchor {
            let mut of_it = values.iter().filter(|(found, value)| found == attribute && !value.is_empty());
            match (of_it.next(), of_it.next()) {
                (Some((_, value)), None) => parts.push(anchor_part(name, value)),
                (None, _) => {
                    return Err((
                        "missing-anchor",
                        format!("it has no {name}, or this account may not read it"),
                    ));
                }
                (Some(_), Some(_)) => {
                    return Err((
                        "multi-single-mismatch",
                        format!("{name} of the anchor has several values"),
                    ));
                }
            }
        }
        Ok(IndexKey::of_parts(parts.iter().map(Vec::as_slice)))
    }

    /// The key of the anchor of an entry of which nothing else is needed.
    pub(super) fn anchor_of<'a>(
        &self,
        directory: &Directory,
        attributes: List<'a, LdapAttribute<'a>>,
    ) -> Result<IndexKey, (&'static str, String)> {
        let mut values = Vec::new();
        for found in attributes {
            if let Some(attribute) = self.attribute(found.name) {
                let room = VALUES_MAX - values.len();
                values.extend(found.values.iter().take(room).map(|value| (attribute, value.0)));
            }
        }
        self.anchor(directory, &values)
    }

    fn object(&mut self, directory: &Directory, dn: &str, values: &mut Vec<(Attribute, &[u8])>) -> Entry {
        let wrong =
            |kind, text| Entry::Done(Imported::Error(DiscoveryError { place: dn.into(), kind, text }));
        let anchor = self.anchor(directory, values);
        // The canonical form of names, so that names from servers and from expressions are equal.
        let dn = match Dn::parse(dn) {
            Ok(dn) => dn,
            Err(error) => return wrong("invalid-dn", error.to_string()),
        };
        if directory.settings.exclude.iter().any(|above| dn.is_within(above)) {
            return Entry::Excluded(anchor.ok());
        }
        let anchor = match anchor {
            Ok(anchor) => anchor,
            Err((kind, text)) => return wrong(kind, text),
        };
        values.sort_unstable();
        self.builder.clear();
        for group in values.chunk_by(|one, other| one.0 == other.0) {
            match group {
                [(attribute, value)] => self.builder.push(*attribute, value),
                _ => self.builder.push_all(group[0].0, &mut group.iter().map(|(_, value)| *value).collect()),
            }
        }
        let image = self.builder.finish();
        Entry::Done(Imported::Object(ImportedObject { anchor, dn: dn.to_string(), image, line: None }))
    }
}

/// A part of an anchor in the form that is hashed.
fn anchor_part(name: &str, value: &[u8]) -> Vec<u8> {
    match name.eq_ignore_ascii_case(ENTRY_UUID) {
        true => value.to_ascii_lowercase(),
        false => value.to_vec(),
    }
}

/// Limit of the values of an entry, because each value needs memory, however short it is. With values of 16
/// bytes, the message size limit is reached earlier.
pub(super) const VALUES_MAX: usize = 4_000_000;

const ENTRY_UUID: &str = "entryUUID";

/// The key of the anchor of an object with an entryUUID, as in a content synchronization.
pub(super) fn anchor_of_uuid(uuid: &ldap::controls::Uuid) -> IndexKey {
    IndexKey::of_parts(std::iter::once(uuid.to_string().as_bytes()))
}

/// The name in a description with a range option, and the index of the first missing value; none if all
/// values came.
pub(super) fn range(description: &str) -> Option<(&str, Option<u64>)> {
    // Most descriptions have no option.
    description.find(';')?;
    let at = description.to_ascii_lowercase().find(RANGE)?;
    let (_, last) = description[at + RANGE.len()..].split_once('-')?;
    match last {
        "*" => Some((&description[..at], None)),
        number => Some((&description[..at], Some(number.parse::<u64>().ok()?.checked_add(1)?))),
    }
}
