//! LDIF: people as entries of class inetOrgPerson (RFC 2798) below `ou=people`, groups as groupOfNames below
//! `ou=groups`, after the entries above them. There is no line `version: 1`: OpenLDAP's slapadd refuses it,
//! and no other program needs it.

use ldap::ldif::{write_attribute, write_dn};

use crate::attributes::{ATTRIBUTES, Record, index_of, uid};
use crate::groups::Group;
use crate::population::Population;

/// The entry above all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    dn: String,
    /// Its classes, and the attribute of its relative name.
    classes: &'static [&'static str],
    attribute: String,
    value: String,
    /// A further attribute that its classes require.
    also: Option<(&'static str, String)>,
}

impl Base {
    /// Parses a distinguished name that begins with `dc=`, `o=` or `ou=`. Fails with a suggestion.
    pub fn parse(dn: &str) -> Result<Base, String> {
        let wrong = |why: &str| {
            format!(
                "the base `{dn}` {why}: write a distinguished name such as dc=example,dc=com or ou=test,o=example"
            )
        };
        let dn = dn.trim();
        if dn.contains(['\\', '"', '+', '#', '<', '>', ';']) || dn.chars().any(char::is_control) {
            return Err(wrong("has a letter that needs escaping"));
        }
        let parts: Vec<(&str, &str)> = dn
            .split(',')
            .map(|part| part.split_once('=').map(|(name, value)| (name.trim(), value.trim())))
            .collect::<Option<_>>()
            .filter(|parts: &Vec<(&str, &str)>| {
                parts.iter().all(|(name, value)| is_name(name) && !value.is_empty())
            })
            .ok_or_else(|| wrong("is not one"))?;
        let (attribute, value) = parts[0];
        let (classes, also): (&[&str], _) = match attribute.to_ascii_lowercase().as_str() {
            "dc" => (&["top", "organization", "dcObject"], Some(("o", value.to_string()))),
            "o" => (&["top", "organization"], None),
            "ou" => (&["top", "organizationalUnit"], None),
            _ => return Err(wrong("begins with neither dc=, o= nor ou=")),
        };
        let dn = parts.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",");
        Ok(Base { dn, classes, attribute: attribute.to_string(), value: value.to_string(), also })
    }

    /// The name of the entry above all people.
    fn people(&self) -> String {
        format!("ou=people,{}", self.dn)
    }

    /// The name of the entry above all groups.
    fn groups(&self) -> String {
        format!("ou=groups,{}", self.dn)
    }

    pub(super) fn write_above_people(&self, out: &mut Vec<u8>) {
        write_dn(out, &self.dn);
        write_classes(self.classes, out);
        write_attribute(out, &self.attribute, self.value.as_bytes());
        if let Some((name, value)) = &self.also {
            write_attribute(out, name, value.as_bytes());
        }
        out.push(b'\n');
        write_unit(&self.people(), "people", out);
    }

    pub(super) fn write_above_groups(&self, out: &mut Vec<u8>) {
        write_unit(&self.groups(), "groups", out);
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn write_classes(classes: &[&str], out: &mut Vec<u8>) {
    for class in classes {
        write_attribute(out, "objectClass", class.as_bytes());
    }
}

fn write_unit(dn: &str, name: &str, out: &mut Vec<u8>) {
    write_dn(out, dn);
    write_classes(&["top", "organizationalUnit"], out);
    write_attribute(out, "ou", name.as_bytes());
    out.push(b'\n');
}

/// Writes the entries of people or groups.
pub(super) struct Entries<'a> {
    base: &'a Base,
    people: String,
    /// A reused buffer.
    text: String,
    /// The last written manager and their DN, which neighbouring people share.
    manager: Option<u64>,
    manager_dn: String,
}

impl<'a> Entries<'a> {
    pub(super) fn new(base: &'a Base) -> Entries<'a> {
        Entries { base, people: base.people(), text: String::new(), manager: None, manager_dn: String::new() }
    }

    pub(super) fn person(&mut self, people: &Population, record: &Record, out: &mut Vec<u8>) {
        self.text.clear();
        dn(people, record.index(), &self.people, &mut self.text);
        write_dn(out, &self.text);
        write_classes(&["top", "person", "organizationalPerson", "inetOrgPerson"], out);
        for (attribute, value) in record.values() {
            let Some(name) = attribute.ldap else { continue };
            if name == "manager" {
                self.manager(people, value, out);
            } else if !value.is_empty() {
                write_attribute(out, name, value.as_bytes());
            }
        }
        // Attributes that the name and the classes require beyond the first ones.
        let beyond = ATTRIBUTES.iter().enumerate().skip(record.len());
        for (at, attribute) in beyond.filter(|of| matches!(of.1.name, "uid" | "sn" | "cn")) {
            self.text.clear();
            people.write_value(record.index(), at, &mut self.text);
            write_attribute(out, attribute.name, self.text.as_bytes());
        }
        out.push(b'\n');
    }

    fn manager(&mut self, people: &Population, employee_number: &str, out: &mut Vec<u8>) {
        let Some(manager) = index_of(employee_number) else { return };
        if self.manager != Some(manager) {
            self.manager = Some(manager);
            self.manager_dn.clear();
            dn(people, manager, &self.people, &mut self.manager_dn);
        }
        write_attribute(out, "manager", self.manager_dn.as_bytes());
    }

    pub(super) fn group(&mut self, group: &Group, out: &mut Vec<u8>) {
        write_dn(out, &format!("cn={},{}", group.name, self.base.groups()));
        write_classes(&["top", "groupOfNames"], out);
        write_attribute(out, "cn", group.name.as_bytes());
        write_attribute(out, "description", group.description.as_bytes());
    }

    pub(super) fn member(&mut self, people: &Population, member: u64, out: &mut Vec<u8>) {
        self.text.clear();
        dn(people, member, &self.people, &mut self.text);
        write_attribute(out, "member", self.text.as_bytes());
    }
}

/// The DN of person `index`. User names are letters and digits, which need no escapes.
fn dn(people: &Population, index: u64, above: &str, out: &mut String) {
    out.push_str("uid=");
    uid(index, people.first_name(index), out);
    out.push(',');
    out.push_str(above);
}
