//! Changes that are sent to the server together.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::{CsId, CsObject, MvId, MvObject, PendingImport, Reference};
use crate::store::row::seconds;
use crate::store::standing::{Effect, ImageChange, Pages};
use crate::store::{Failure, Key, SearchKey, Write};

/// Text without NUL characters, which the server rejects.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// The failure of an object, with its text as the server accepts it.
pub(super) struct FailedRow<'a> {
    pub(super) id: i64,
    pub(super) why: &'a Failure,
    pub(super) text: Cow<'a, str>,
}

/// Changes that can be made in any order: except failures, no two of them affect the same data.
#[derive(Default)]
pub(super) struct Round<'a> {
    pub(super) new_cs: Vec<&'a CsObject>,
    pub(super) cs: Vec<&'a CsObject>,
    /// Images that replace the images in the rows.
    pub(super) staged: Vec<(i64, Option<&'a Hologram>)>,
    /// Objects whose image in the row is stored separately, and the images that replace it.
    pub(super) moved: Vec<i64>,
    pub(super) kept: Vec<(i64, &'a Hologram)>,
    /// Objects whose separately stored image is restored, and objects that no longer need it.
    pub(super) restored: Vec<i64>,
    pub(super) settled_images: Vec<i64>,
    pub(super) deleted_cs: Vec<i64>,
    pub(super) failures: Vec<FailedRow<'a>>,
    pub(super) well: Vec<i64>,
    pub(super) new_mv: Vec<&'a MvObject>,
    pub(super) mv: Vec<&'a MvObject>,
    pub(super) deleted_mv: Vec<i64>,
    pub(super) new_keys: Vec<(Key, MvId)>,
    pub(super) deleted_keys: Vec<(Key, MvId)>,
    pub(super) new_search: Vec<(&'a SearchKey, MvId)>,
    pub(super) deleted_search: Vec<(&'a SearchKey, MvId)>,
    /// Objects whose join keys are deleted, and new join keys of objects.
    pub(super) unkeyed: Vec<i64>,
    pub(super) join_keys: Vec<(Key, CsId)>,
    /// Objects whose deletion is dropped, and objects with the new times of their deletions.
    pub(super) untimed: Vec<i64>,
    pub(super) timed: Vec<(i64, i64)>,
    pub(super) unnamed: Vec<i64>,
    pub(super) renamed: Vec<(i64, &'a str, Option<IndexKey>)>,
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
    Search(SearchKey, MvId),
    JoinKeys(CsId),
    Time(CsId),
    Name(CsId),
    /// One reference of an object, some reference, or all references.
    Reference(CsId, Attribute, IndexKey),
    SomeReference(CsId),
    AllReferences(CsId),
    Due(CsId),
}

impl<'a> Round<'a> {
    /// Whether a change is independent of the gathered ones; otherwise these must be made first.
    pub(super) fn has_room_for(&mut self, change: &Write) -> bool {
        let touches = match change {
            Write::NewCs(object) | Write::Cs(object) => Touched::Cs(object.id),
            Write::Staged { id, .. } | Write::Synchronized { id, .. } | Write::DeletedCs(id) => {
                Touched::Cs(*id)
            }
            Write::Failure { id, .. } => Touched::Failure(*id),
            Write::JoinKeys { id, .. } => Touched::JoinKeys(*id),
            Write::DeleteAt { id, .. } => Touched::Time(*id),
            Write::NewMv(object) | Write::Mv(object) => Touched::Mv(object.id),
            Write::DeletedMv(id) => Touched::Mv(*id),
            Write::NewKey(key, mv) | Write::DeletedKey(key, mv) => Touched::Key(*key, *mv),
            Write::NewSearch(key, mv) | Write::DeletedSearch(key, mv) => Touched::Search(key.clone(), *mv),
            Write::Renamed { id, .. } | Write::Unnamed(id) => Touched::Name(*id),
            Write::Reference(reference) => {
                Touched::Reference(reference.cs, reference.attribute, reference.target)
            }
            Write::SettledReferences(id) | Write::UnwantedReferences(id) => Touched::AllReferences(*id),
            Write::Due(id) | Write::Done(id) => Touched::Due(*id),
        };
        // The kinds of changes that must be made before this one.
        let after = match change {
            Write::Cs(object) => [
                Some(Touched::Name(object.id)),
                Some(Touched::JoinKeys(object.id)),
                Some(Touched::Time(object.id)),
                None,
            ],
            Write::Synchronized { id, .. } => {
                [Some(Touched::JoinKeys(*id)), Some(Touched::Time(*id)), None, None]
            }
            Write::Renamed { id, .. } | Write::Unnamed(id) => [Some(Touched::Cs(*id)), None, None, None],
            Write::Reference(reference) => [Some(Touched::AllReferences(reference.cs)), None, None, None],
            Write::SettledReferences(id) | Write::UnwantedReferences(id) => {
                [Some(Touched::SomeReference(*id)), None, None, None]
            }
            Write::DeletedCs(id) => [
                Some(Touched::SomeReference(*id)),
                Some(Touched::AllReferences(*id)),
                Some(Touched::JoinKeys(*id)),
                Some(Touched::Time(*id)),
            ],
            _ => [None, None, None, None],
        };
        if after.iter().flatten().any(|touched| self.touched.contains(touched)) {
            return false;
        }
        // Failures are written last, but an earlier failure must not survive these changes.
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
        }
    }

    /// Adds a change with its effect.
    pub(super) fn take(&mut self, change: &'a Write, effect: Effect) {
        let Effect { image, had_failed, drops_keys, drops_time, is_there } = effect;
        if let Some(id) = Pages::touched(change).filter(|_| drops_time) {
            self.untimed.push(id.0);
        }
        if let Some(id) = Pages::touched(change).filter(|_| drops_keys) {
            self.unkeyed.push(id.0);
        }
        match change {
            Write::Staged { id, .. } | Write::Synchronized { id, .. } | Write::DeletedCs(id) => match image {
                ImageChange::Kept => self.moved.push(id.0),
                ImageChange::Restored => self.restored.push(id.0),
                ImageChange::Settled => self.settled_images.push(id.0),
                ImageChange::Same | ImageChange::Replaced | ImageChange::Cleared => {}
            },
            _ => {}
        }
        let is_well = matches!(
            change,
            Write::Synchronized { .. } | Write::DeletedCs(_) | Write::Failure { why: None, .. }
        );
        if let Some(id) = Pages::touched(change).filter(|_| is_well && had_failed) {
            self.well.push(id.0);
        }
        match change {
            Write::NewCs(object) => {
                if let (ImageChange::Kept, Some(before)) = (image, &object.synchronized) {
                    self.kept.push((object.id.0, before));
                }
                self.new_cs.push(object);
            }
            Write::Cs(object) if is_there => {
                match (image, &object.synchronized) {
                    (ImageChange::Kept, Some(before)) => self.kept.push((object.id.0, before)),
                    (ImageChange::Settled, _) => self.settled_images.push(object.id.0),
                    _ => {}
                }
                self.cs.push(object);
            }
            Write::Staged { id, pending } => {
                if matches!(image, ImageChange::Kept | ImageChange::Replaced | ImageChange::Cleared) {
                    self.staged.push((id.0, pending.as_ref().and_then(PendingImport::image)));
                }
            }
            Write::DeletedCs(id) => self.deleted_cs.push(id.0),
            Write::Failure { id, why: Some(why) } if is_there => {
                self.failures.push(FailedRow { id: id.0, why, text: without_nul(&why.text) });
            }
            Write::Cs(_) | Write::Synchronized { .. } | Write::Failure { .. } => {}
            Write::JoinKeys { id, keys } => {
                self.join_keys.extend(keys.iter().filter(|_| is_there).map(|key| (*key, *id)));
            }
            Write::DeleteAt { id, at_unix_s } => {
                let at = at_unix_s.filter(|_| is_there);
                self.timed.extend(at.map(|at| (id.0, seconds(at))));
            }
            Write::NewMv(object) => self.new_mv.push(object),
            Write::Mv(object) => self.mv.push(object),
            Write::DeletedMv(id) => self.deleted_mv.push(id.0),
            Write::NewKey(key, mv) => self.new_keys.push((*key, *mv)),
            Write::DeletedKey(key, mv) => self.deleted_keys.push((*key, *mv)),
            Write::NewSearch(key, mv) => self.new_search.push((key, *mv)),
            Write::DeletedSearch(key, mv) => self.deleted_search.push((key, *mv)),
            Write::Renamed { id, dn, name } => self.renamed.push((id.0, dn, *name)),
            Write::Unnamed(id) => self.unnamed.push(id.0),
            Write::Reference(reference) => self.references.push(reference),
            Write::SettledReferences(id) => self.settled.push(id.0),
            Write::UnwantedReferences(id) => self.unwanted.push(id.0),
            Write::Due(id) => self.due.push(id.0),
            Write::Done(id) => self.done.push(id.0),
        }
    }
}
