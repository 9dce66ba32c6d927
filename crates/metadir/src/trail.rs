//! The trail of changes: what connected systems accepted, as compact bytes, one piece for each batch of an
//! export.
//!
//! Numbers are unsigned LEB128, texts are `varint(length)` and the bytes, values are as in a hologram. A
//! change is: the object, its kind, its anchor, its name, its new name, its attributes and its references. An
//! attribute has a byte of facts: whether its old values are known, whether there were any, and whether it is
//! secret. A secret attribute has no values in the trail.

use std::collections::HashSet;

use crate::hologram::{Attribute, Damaged, Hologram, Opened, ValueList, Values, read_number, write_number};
use crate::index_key::IndexKey;
use crate::object::{Change, CsId};

const OLD_KNOWN: u8 = 1;
const OLD_VALUES: u8 = 2;
const SECRET: u8 = 4;

/// A change that a connected system accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// The connector space object.
    pub id: CsId,
    /// The kind of change.
    pub change: Change,
    /// The key of its anchor, if it was known.
    pub anchor: Option<IndexKey>,
    /// Its name before the change; empty if it had none.
    pub dn: String,
    /// Its name or anchor as users know it.
    pub called: String,
    /// Its new name, if it was renamed.
    pub new_dn: Option<String>,
    /// The attributes that changed, in ascending order; those of a deleted object without new values.
    pub attributes: Vec<LoggedAttribute>,
    /// The references that changed.
    pub references: Vec<LoggedReferences>,
}

/// A changed attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedAttribute {
    /// The attribute.
    pub attribute: Attribute,
    /// The old values; none if they are unknown.
    pub old: Option<ValueList>,
    /// The new values.
    pub new: ValueList,
    /// Whether the values are secret: then there are none here.
    pub is_secret: bool,
}

/// Changed references of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedReferences {
    /// The attribute.
    pub attribute: Attribute,
    /// The added values.
    pub added: Vec<Vec<u8>>,
    /// The removed values.
    pub removed: Vec<Vec<u8>>,
}

/// What identifies the object of a change.
pub(crate) struct Subject<'a> {
    pub(crate) id: CsId,
    pub(crate) change: Change,
    pub(crate) anchor: Option<IndexKey>,
    pub(crate) dn: &'a str,
    pub(crate) called: &'a str,
    pub(crate) new_dn: Option<&'a str>,
}

/// Gathers the changes of a batch.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    ids: Vec<u8>,
    bytes: Vec<u8>,
    attributes: Vec<u8>,
}

impl Recorder {
    /// The objects, and their changes; none if there are none.
    pub(crate) fn finish(self) -> Option<(Vec<u8>, Vec<u8>)> {
        (!self.ids.is_empty()).then_some((self.ids, self.bytes))
    }

    /// Adds a change. `changed` are its attributes with their new values, in ascending order; `old` is the
    /// image before it, none if that is not known. Attributes that `secret` contains are added without values.
    pub(crate) fn add<'a>(
        &mut self,
        subject: &Subject<'_>,
        changed: impl Iterator<Item = (Attribute, Values<'a>)>,
        old: Option<&Hologram>,
        references: &[LoggedReferences],
        secret: &HashSet<Attribute>,
    ) {
        write_number(&mut self.ids, subject.id.0.max(0) as u64);
        write_number(&mut self.bytes, subject.id.0.max(0) as u64);
        self.bytes.push(subject.change as u8);
        self.bytes.push(u8::from(subject.anchor.is_some()) | u8::from(subject.new_dn.is_some()) << 1);
        if let Some(anchor) = &subject.anchor {
            put(&mut self.bytes, anchor.as_bytes());
        }
        put(&mut self.bytes, subject.dn.as_bytes());
        put(&mut self.bytes, if subject.called == subject.dn { &[] } else { subject.called.as_bytes() });
        if let Some(new) = subject.new_dn {
            put(&mut self.bytes, new.as_bytes());
        }
        let old = old.map(Opened::of);
        self.attributes.clear();
        let mut count = 0;
        for (attribute, new) in changed {
            count += 1;
            write_number(&mut self.attributes, u64::from(attribute.0));
            let before = old.as_ref().map(|old| old.get(attribute));
            if secret.contains(&attribute) {
                self.attributes.push(SECRET);
                continue;
            }
            let known = if before.is_some() { OLD_KNOWN } else { 0 };
            let before = before.flatten();
            self.attributes.push(known | if before.is_some() { OLD_VALUES } else { 0 });
            if let Some(before) = before {
                self.attributes.extend_from_slice(before.as_bytes());
            }
            self.attributes.extend_from_slice(new.as_bytes());
        }
        write_number(&mut self.bytes, count);
        self.bytes.extend_from_slice(&self.attributes);
        write_number(&mut self.bytes, references.len() as u64);
        for changed in references {
            write_number(&mut self.bytes, u64::from(changed.attribute.0));
            for values in [&changed.added, &changed.removed] {
                write_number(&mut self.bytes, values.len() as u64);
                values.iter().for_each(|value| put(&mut self.bytes, value));
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    write_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

/// The objects of a batch, in the order of their changes.
pub fn ids(bytes: &[u8]) -> impl Iterator<Item = CsId> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || Some(CsId(read_number(bytes, &mut at)? as i64)))
}

/// The changes of a batch.
#[derive(Debug)]
pub struct Changes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Changes<'a> {
    /// Decodes the changes of a batch.
    pub fn of(bytes: &'a [u8]) -> Changes<'a> {
        Changes { bytes, at: 0 }
    }

    fn number(&mut self) -> Option<u64> {
        read_number(self.bytes, &mut self.at)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    fn string(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.text()?).ok()?.to_string())
    }

    fn attribute(&mut self) -> Option<Attribute> {
        Some(Attribute(u32::try_from(self.number()?).ok()?))
    }

    fn values(&mut self) -> Option<ValueList> {
        Some(ValueList::copied(Values::read(self.bytes, &mut self.at)?))
    }

    fn all(&mut self) -> Option<Vec<Vec<u8>>> {
        (0..self.number()?).map(|_| Some(self.text()?.to_vec())).collect()
    }

    fn changed(&mut self) -> Option<LoggedAttribute> {
        let (attribute, facts) = (self.attribute()?, self.byte()?);
        if facts & SECRET != 0 {
            return Some(LoggedAttribute { attribute, old: None, new: ValueList::of(&[]), is_secret: true });
        }
        let old = match (facts & OLD_KNOWN != 0, facts & OLD_VALUES != 0) {
            (false, _) => None,
            (true, false) => Some(ValueList::of(&[])),
            (true, true) => Some(self.values()?),
        };
        Some(LoggedAttribute { attribute, old, new: self.values()?, is_secret: false })
    }

    fn read(&mut self) -> Option<LoggedChange> {
        let id = CsId(self.number()? as i64);
        let change = Change::of(self.byte()?.into())?;
        let facts = self.byte()?;
        let anchor = if facts & 1 == 0 { None } else { Some(IndexKey::from_bytes(self.text()?)?) };
        let (dn, mut called) = (self.string()?, self.string()?);
        let new_dn = if facts & 2 == 0 { None } else { Some(self.string()?) };
        if called.is_empty() {
            called.clone_from(&dn);
        }
        let mut attributes = Vec::new();
        for _ in 0..self.number()? {
            attributes.push(self.changed()?);
        }
        let mut references = Vec::new();
        for _ in 0..self.number()? {
            let attribute = self.attribute()?;
            references.push(LoggedReferences { attribute, added: self.all()?, removed: self.all()? });
        }
        Some(LoggedChange { id, change, anchor, dn, called, new_dn, attributes, references })
    }
}

impl Iterator for Changes<'_> {
    type Item = Result<LoggedChange, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let begin = self.at;
        let read = self.read().ok_or(Damaged(begin));
        if read.is_err() {
            self.at = self.bytes.len();
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_change_is_read_as_it_was_recorded() {
        let (name, mail, room, password) = (Attribute(1), Attribute(2), Attribute(5), Attribute(9));
        let value = |text: &str| ValueList::of(&[text.as_bytes().to_vec()]);
        let old: Hologram = [(name, vec![b"Ada".to_vec()])].into_iter().collect();
        let new = [(name, value("Ada B")), (mail, value("a@b")), (password, value("hidden"))];
        let referred =
            [LoggedReferences { attribute: room, added: vec![b"cn=x".to_vec()], removed: Vec::new() }];
        let subject = Subject {
            id: CsId(700),
            change: Change::Update,
            anchor: Some(IndexKey::of(b"17")),
            dn: "cn=Ada",
            called: "cn=Ada",
            new_dn: Some("cn=Ada B"),
        };
        let mut recorder = Recorder::default();
        let changed = || new.iter().map(|(attribute, values)| (*attribute, values.values()));
        let secret = HashSet::from([password]);
        recorder.add(&subject, changed(), Some(&old), &referred, &secret);
        let other = Subject { id: CsId(3), dn: "", called: "17", new_dn: None, anchor: None, ..subject };
        recorder.add(&other, changed(), None, &[], &secret);
        let (of_batch, bytes) = recorder.finish().unwrap();
        assert_eq!(ids(&of_batch).collect::<Vec<_>>(), [CsId(700), CsId(3)]);
        let [first, second] = Changes::of(&bytes).collect::<Result<Vec<_>, _>>().unwrap().try_into().unwrap();
        assert_eq!(first.references, referred);
        assert_eq!((first.new_dn.as_deref(), first.called.as_str()), (Some("cn=Ada B"), "cn=Ada"));
        let none = ValueList::of(&[]);
        let logged = |attribute, old, new, is_secret| LoggedAttribute { attribute, old, new, is_secret };
        assert_eq!(
            first.attributes,
            [
                logged(name, Some(value("Ada")), value("Ada B"), false),
                logged(mail, Some(none.clone()), value("a@b"), false),
                logged(password, None, none, true),
            ]
        );
        assert!(second.attributes.iter().all(|of| of.old.is_none()) && second.called == "17");
        assert!(!bytes.windows(6).any(|window| window == b"hidden"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_changes_or_damaged(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            Changes::of(&bytes).for_each(drop);
            ids(&bytes).for_each(drop);
        }
    }
}
