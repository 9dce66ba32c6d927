//! How a connected system names its objects, and how its objects refer to each other.

use ldap::dn::{Dn, Rdn, Value};

use crate::hologram::Hash;
use crate::index_key::IndexKey;

/// The beginning of a temporary name.
const TEMPORARY: &str = "plimsoll-temporary-";

/// How a connected system names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By their anchor: objects have no other name and refer to each other by the anchor. If they do, the
    /// anchor has one attribute.
    Anchor,
    /// By a name that an object has before its system assigns an anchor. Names are case-insensitive. Objects
    /// refer to each other by the anchor.
    Name,
    /// By a distinguished name, which includes the position in the hierarchy. Objects refer to each other by
    /// it.
    Dn,
}

impl Naming {
    /// The key of a name: the same for all its spellings. None if objects have no names.
    pub fn hash(self, name: &str) -> Option<IndexKey> {
        match self {
            _ if name.is_empty() => None,
            Naming::Anchor => None,
            Naming::Name => Some(IndexKey::of(name.to_lowercase().as_bytes())),
            Naming::Dn => Some(IndexKey::of(&dn_key(name))),
        }
    }

    /// Whether objects refer to each other by their names.
    pub fn refers_by_name(self) -> bool {
        self == Naming::Dn
    }

    /// The key of the object that a value refers to.
    pub(crate) fn target(self, value: &[u8]) -> IndexKey {
        let by_name = match std::str::from_utf8(value) {
            Ok(name) if self.refers_by_name() => self.hash(name),
            _ => None,
        };
        by_name.unwrap_or_else(|| IndexKey::of_parts(std::iter::once(value)))
    }

    /// Whether a text can refer to an object.
    pub(crate) fn is_reference(self, text: &str) -> bool {
        !text.is_empty() && (!self.refers_by_name() || Dn::parse(text).is_ok())
    }

    /// The temporary name of an object that exchanges its name with others. It depends on the name and on the number
    /// of the object only, so a repeated export gives the same. `now` is where the object is: another object above it
    /// may have been renamed. None if objects have no names.
    pub(crate) fn temporary(self, name: &str, id: i64, now: &str) -> Option<String> {
        let hash = Hash::of(format!("{id} {name}").as_bytes());
        let digits: String = hash.0[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let value = format!("{TEMPORARY}{digits}");
        match self {
            Naming::Anchor => None,
            Naming::Name => Some(value),
            Naming::Dn => {
                let now = Dn::parse(now).ok()?;
                let attribute = now.rdn()?.parts().first()?.attribute.clone();
                Some(now.renamed(Rdn::new(attribute, value), None).to_string())
            }
        }
    }

    /// Whether a name is a temporary one.
    pub(crate) fn is_temporary(self, name: &str) -> bool {
        let begins =
            |value: &Value| matches!(value, Value::Bytes(bytes) if bytes.starts_with(TEMPORARY.as_bytes()));
        match self {
            Naming::Anchor => false,
            Naming::Name => name.starts_with(TEMPORARY),
            Naming::Dn => {
                name.contains(TEMPORARY)
                    && Dn::parse(name).is_ok_and(|dn| {
                        dn.rdn().is_some_and(|rdn| rdn.parts().iter().any(|part| begins(&part.value)))
                    })
            }
        }
    }

    /// The depth of a name: the number of names above it.
    pub(crate) fn depth(self, name: &str) -> usize {
        match self {
            Naming::Dn => Dn::parse(name).map_or(0, |dn| dn.rdns().len()),
            Naming::Anchor | Naming::Name => 0,
        }
    }

    /// The depth of a name and the key of its parent.
    pub(crate) fn place(self, name: &str) -> (usize, Option<IndexKey>) {
        match self {
            Naming::Dn => Dn::parse(name).map_or((0, None), |dn| {
                (dn.rdns().len(), dn.parent().map(|above| IndexKey::of(&above.key())))
            }),
            Naming::Anchor | Naming::Name => (0, None),
        }
    }
}

/// The key that stands for the name of an object while it has a temporary one. No name has such a key.
pub(crate) fn temporary_key(id: i64) -> IndexKey {
    IndexKey::of(&[&b"\0temporary"[..], &id.to_be_bytes()].concat())
}

/// The normalized form of a distinguished name. A text that is not one equals only itself.
pub(crate) fn dn_key(name: &str) -> Vec<u8> {
    Dn::parse(name).map_or_else(|_| name.as_bytes().to_vec(), |dn| dn.key())
}

/// Renamed objects that may have others below them, to find those by their current names.
#[derive(Debug, Default)]
pub(crate) struct Moves(std::collections::HashMap<Vec<u8>, (Dn, Dn)>);

impl Moves {
    /// Records that an object has a new name.
    pub(crate) fn add(&mut self, from: &str, to: &str) {
        if let (Ok(from), Ok(to)) = (Dn::parse(from), Dn::parse(to)) {
            self.0.insert(from.key(), (from, to));
        }
    }

    /// The current name of an object after the nearest renamed object above it; none if none was renamed.
    pub(crate) fn name_after(&self, name: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let dn = Dn::parse(name).ok()?;
        let above = std::iter::successors(dn.parent(), Dn::parent).find_map(|above| self.0.get(&above.key()));
        above.and_then(|(from, to)| Some(dn.moved(from, to)?.to_string()))
    }
}

/// Whether a text is a valid attribute description, with options.
pub fn is_attribute_name(name: &str) -> bool {
    let is_in_place = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';' | b'_');
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(is_in_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_hash_however_it_is_written() {
        let dn = |name| Naming::Dn.hash(name).unwrap();
        assert_eq!(dn("cn=Ada Byron,ou=People,dc=plim"), dn("CN=ada  byron, OU=people, dc=PLIM"));
        assert_ne!(dn("cn=Ada,dc=plim"), dn("cn=Alan,dc=plim"));
        assert_ne!(dn("no name"), dn("No name"));
        assert_eq!(Naming::Name.hash("Ada"), Naming::Name.hash("aDA"));
        assert_eq!((Naming::Anchor.hash("x"), Naming::Dn.hash("")), (None, None));
    }

    #[test]
    fn references_are_by_name_or_by_anchor() {
        assert_eq!(Naming::Dn.target(b"CN=Ada"), Naming::Dn.hash("cn=ada").unwrap());
        let anchor = IndexKey::of_parts([&b"17"[..]].into_iter());
        assert_eq!(Naming::Anchor.target(b"17"), anchor);
        assert_eq!(Naming::Name.target(b"17"), anchor);
    }

    #[test]
    fn a_temporary_name_is_recognized_and_stays_in_its_place() {
        let name = "uid=ada+cn=Ada,ou=b,dc=c";
        let temporary = Naming::Dn.temporary(name, 7, name).unwrap();
        assert!(
            temporary.starts_with("uid=plimsoll-temporary-") && temporary.ends_with(",ou=b,dc=c"),
            "{temporary}"
        );
        assert!(Naming::Dn.is_temporary(&temporary) && !Naming::Dn.is_temporary(name));
        // The container above it was renamed meanwhile.
        let moved = Naming::Dn.temporary(name, 7, "uid=ada,ou=x,dc=c").unwrap();
        assert_eq!(moved, temporary.replace("ou=b", "ou=x"));
        assert_ne!(Naming::Dn.temporary(name, 8, name).unwrap(), temporary);
        assert!(!Naming::Dn.is_temporary(&format!("cn=below,{temporary}")));
        let temporary = Naming::Name.temporary("ada", 7, "ada").unwrap();
        assert!(Naming::Name.is_temporary(&temporary) && !Naming::Name.is_temporary("ada"));
        assert_eq!(Naming::Anchor.temporary("ada", 7, "ada"), None);
    }

    #[test]
    fn what_stands_below_moves_along() {
        let mut moves = Moves::default();
        assert_eq!(moves.name_after("cn=a,ou=b,dc=c"), None);
        moves.add("ou=b,dc=c", "ou=x,dc=y");
        assert_eq!(moves.name_after("cn=a,OU=B,dc=c").as_deref(), Some("cn=a,ou=x,dc=y"));
        assert_eq!(moves.name_after("ou=b,dc=c"), None);
        assert_eq!(moves.name_after("cn=a,dc=c"), None);
        assert_eq!(Naming::Dn.depth("cn=a,ou=b,dc=c"), 3);
    }
}
