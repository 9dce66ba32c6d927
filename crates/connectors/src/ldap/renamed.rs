//! Entries with a changed name in Active Directory. The server changes the values that refer to them, such as those of
//! `member`, and the names of the entries below them. It does not count that as changes of these other entries.

use ldap::Filter;
use ldap::filter::Assertion;
use ldap::message::{Attribute, List};

/// When each attribute of an entry was changed.
pub(super) const METADATA: &str = "replPropertyMetaData";
/// The number of the attribute `name` in it. Each rename and each move writes this attribute.
const NAME: u32 = 0x0009_0001;
/// Its header, and the part of each attribute, in bytes.
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 48;

/// Names per filter.
const NAMES_MAX: usize = 50;

/// Collects entries that were renamed or moved.
#[derive(Debug)]
pub(super) struct Renamed {
    /// Later changes count.
    since: u64,
    /// The new names of objects.
    names: Vec<String>,
    /// The new names of containers.
    containers: Vec<String>,
}

impl Renamed {
    pub(super) fn since(usn: u64) -> Renamed {
        Renamed { since: usn, names: Vec::new(), containers: Vec::new() }
    }

    /// A filter for containers.
    pub(super) fn containers() -> Filter {
        let class = |name: &str| {
            Filter::Equal(Assertion { attribute: "objectClass".into(), value: name.as_bytes().into() })
        };
        Filter::Or(vec![class("organizationalUnit"), class("container")])
    }

    /// Adds an object if its name has changed.
    pub(super) fn add<'a>(&mut self, dn: &str, attributes: List<'a, Attribute<'a>>) {
        if is_renamed(attributes, self.since) {
            self.add_below(dn);
        }
    }

    /// Adds an object below a container whose name has changed.
    pub(super) fn add_below(&mut self, dn: &str) {
        self.names.push(dn.into());
    }

    /// Adds a container if its name has changed.
    pub(super) fn add_container<'a>(&mut self, dn: &str, attributes: List<'a, Attribute<'a>>) {
        if is_renamed(attributes, self.since) {
            self.containers.push(dn.into());
        }
    }

    /// The containers so far.
    pub(super) fn take_containers(&mut self) -> Vec<String> {
        std::mem::take(&mut self.containers)
    }

    /// Filters for the objects that refer to the entries so far by these attributes.
    pub(super) fn referring(&mut self, objects: &Filter, references: &[String]) -> Vec<Filter> {
        let names = std::mem::take(&mut self.names);
        if references.is_empty() {
            return Vec::new();
        }
        let filter = |names: &[String]| {
            let equal = |attribute: &String, name: &String| {
                Filter::Equal(Assertion { attribute: attribute.clone(), value: name.as_bytes().into() })
            };
            let all =
                references.iter().flat_map(|attribute| names.iter().map(move |name| equal(attribute, name)));
            Filter::And(vec![objects.clone(), Filter::Or(all.collect())])
        };
        names.chunks(NAMES_MAX).map(filter).collect()
    }
}

/// Whether the name of an entry was changed after a change number.
fn is_renamed<'a>(attributes: List<'a, Attribute<'a>>, since: u64) -> bool {
    let metadata = attributes.iter().find(|found| found.name.eq_ignore_ascii_case(METADATA));
    let value = metadata.and_then(|found| found.values.iter().next());
    value.is_some_and(|value| has_later_name(value.0, since))
}

/// Whether metadata has a later change of the name. The name of a new entry is not changed.
fn has_later_name(metadata: &[u8], since: u64) -> bool {
    let Some((header, attributes)) = metadata.split_at_checked(HEADER_BYTES) else { return false };
    let is_name_changed = |attribute: &[u8]| {
        let changes = number(&attribute[4..8]);
        number(&attribute[..4]) == u64::from(NAME) && changes > 1 && number(&attribute[40..48]) > since
    };
    number(&header[..4]) == 1 && attributes.chunks_exact(ATTRIBUTE_BYTES).any(is_name_changed)
}

/// A number with the low byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The metadata of an entry with the change counts and change numbers of two attributes.
    fn metadata(parts: &[(u32, u32, u64)]) -> Vec<u8> {
        let mut bytes = [1, 0, parts.len() as u32, 0].map(u32::to_le_bytes).concat();
        for (attribute, changes, usn) in parts {
            bytes.extend([attribute.to_le_bytes(), changes.to_le_bytes()].concat());
            // The time, the server and its number of the change.
            bytes.extend([0; 32]);
            bytes.extend(usn.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_later_change_of_the_name_is_a_rename() {
        let of = |changes, usn| metadata(&[(3, 9, 9000), (NAME, changes, usn)]);
        assert!(has_later_name(&of(2, 501), 500));
        for (metadata, why) in [
            (of(2, 500), "an earlier rename"),
            (of(1, 501), "a new entry"),
            (metadata(&[(3, 2, 501)]), "another attribute"),
            (of(2, 501)[..111].to_vec(), "cut"),
        ] {
            assert!(!has_later_name(&metadata, 500), "{why}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_server_sends_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            has_later_name(&bytes, 0);
        }
    }
}
