//! Changes that go to the server together.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::hologram::{Attribute, Hash};
use crate::object::{CsId, CsObject, MvId, MvObject, PendingImport, Reference};
use crate::store::{Key, Write};

/// Text as the server takes it: it keeps no NUL.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Changes that can be carried out in any order: none but a failure touches what another touches.
#[derive(Default)]
pub(super) struct Round<'a> {
    pub(super) new_cs: Vec<&'a CsObject>,
    pub(super) cs: Vec<&'a CsObject>,
    pub(super) staged: Vec<(i64, Option<&'a PendingImport>)>,
    pub(super) synchronized: Vec<(i64, i16, Option<i64>)>,
    pub(super) deleted_cs: Vec<i64>,
    pub(super) failures: Vec<(i64, Option<i16>, Option<Cow<'a, str>>)>,
    pub(super) new_mv: Vec<&'a MvObject>,
    pub(super) mv: Vec<&'a MvObject>,
    pub(super) deleted_mv: Vec<i64>,
    pub(super) new_keys: Vec<(Key, MvId)>,
    pub(super) deleted_keys: Vec<(Key, MvId)>,
    pub(super) unnamed: Vec<i64>,
    pub(super) renamed: Vec<(i64, &'a str, Option<Hash>)>,
    pub(super) references: Vec<&'a Reference>,
    pub(super) settled: Vec<i64>,
    pub(super) unwanted: Vec<i64>,
    pub(super) due: Vec<i64>,
    pub(super) done: Vec<i64>,
    touched: HashSet<Touched>,
}

#[derive(PartialEq, Eq, Hash)]
enum Touched {
    Cs(CsId),
    Failure(CsId),
    Mv(MvId),
    Key(Key, MvId),
    Name(CsId),
    /// One of the references of an object, any of them, and all.
    Reference(CsId, Attribute, Hash),
    SomeReference(CsId),
    AllReferences(CsId),
    Due(CsId),
}

impl<'a> Round<'a> {
    /// Takes a change up; false when it has to wait until the others are carried out.
    pub(super) fn take(&mut self, change: &'a Write) -> bool {
        let touches = match change {
            Write::NewCs(object) | Write::Cs(object) => Touched::Cs(object.id),
            Write::Staged { id, .. } | Write::Synchronized { id, .. } | Write::DeletedCs(id) => {
                Touched::Cs(*id)
            }
            Write::Failure { id, .. } => Touched::Failure(*id),
            Write::NewMv(object) | Write::Mv(object) => Touched::Mv(object.id),
            Write::DeletedMv(id) => Touched::Mv(*id),
            Write::NewKey(key, mv) | Write::DeletedKey(key, mv) => Touched::Key(*key, *mv),
            Write::Renamed { id, .. } | Write::Unnamed(id) => Touched::Name(*id),
            Write::Reference(reference) => {
                Touched::Reference(reference.cs, reference.attribute, reference.target)
            }
            Write::SettledReferences(id) | Write::UnwantedReferences(id) => Touched::AllReferences(*id),
            Write::Due(id) | Write::Done(id) => Touched::Due(*id),
        };
        // What a change of another kind must not come before.
        let after = match change {
            Write::Cs(object) => [Some(Touched::Name(object.id)), None],
            Write::Renamed { id, .. } | Write::Unnamed(id) => [Some(Touched::Cs(*id)), None],
            Write::Reference(reference) => [Some(Touched::AllReferences(reference.cs)), None],
            Write::SettledReferences(id) | Write::UnwantedReferences(id) => {
                [Some(Touched::SomeReference(*id)), None]
            }
            Write::DeletedCs(id) => [Some(Touched::SomeReference(*id)), Some(Touched::AllReferences(*id))],
            _ => [None, None],
        };
        if after.iter().flatten().any(|touched| self.touched.contains(touched)) {
            return false;
        }
        // Failures come last, but those that came before these do not outlive them.
        let ends_failure = match change {
            Write::NewCs(object) => Some(object.id),
            Write::Synchronized { id, .. } | Write::DeletedCs(id) => Some(*id),
            _ => None,
        };
        if ends_failure.is_some_and(|id| self.touched.contains(&Touched::Failure(id)))
            || !self.touched.insert(touches)
        {
            return false;
        }
        match change {
            Write::Reference(reference) => self.touched.insert(Touched::SomeReference(reference.cs)),
            Write::DeletedCs(id) => self.touched.insert(Touched::AllReferences(*id)),
            _ => true,
        };
        match change {
            Write::NewCs(object) => self.new_cs.push(object),
            Write::Cs(object) => self.cs.push(object),
            Write::Staged { id, pending } => self.staged.push((id.0, pending.as_ref())),
            Write::Synchronized { id, state, mv } => {
                self.synchronized.push((id.0, *state as i16, mv.map(|mv| mv.0)));
            }
            Write::DeletedCs(id) => self.deleted_cs.push(id.0),
            Write::Failure { id, why } => self.failures.push(match why {
                Some((kind, text)) => (id.0, Some(*kind as i16), Some(without_nul(text))),
                None => (id.0, None, None),
            }),
            Write::NewMv(object) => self.new_mv.push(object),
            Write::Mv(object) => self.mv.push(object),
            Write::DeletedMv(id) => self.deleted_mv.push(id.0),
            Write::NewKey(key, mv) => self.new_keys.push((*key, *mv)),
            Write::DeletedKey(key, mv) => self.deleted_keys.push((*key, *mv)),
            Write::Renamed { id, dn, name } => self.renamed.push((id.0, dn, *name)),
            Write::Unnamed(id) => self.unnamed.push(id.0),
            Write::Reference(reference) => self.references.push(reference),
            Write::SettledReferences(id) => self.settled.push(id.0),
            Write::UnwantedReferences(id) => self.unwanted.push(id.0),
            Write::Due(id) => self.due.push(id.0),
            Write::Done(id) => self.done.push(id.0),
        }
        true
    }
}
