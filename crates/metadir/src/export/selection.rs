//! Which of the pending changes an export sends. An ordinary export leaves out what an undo took back, an undo
//! sends only what it restores. What is left out stays pending.

use std::collections::{HashMap, HashSet};

use crate::hologram::{Attribute, Hash, ValueList, Values};
use crate::index_key::IndexKey;
use crate::object::{Change, CsId, CsObject, Phase, Reference, ReferenceChange, Rename};
use crate::rules::AgentRules;
use crate::store::trail::{HeldPart, Hold};
use crate::store::{LookupKey, Store, StoreError};

/// Which of the pending changes an export sends.
pub(crate) enum Selection<'a> {
    /// All.
    All,
    /// Those that no undo took back. The number of the export among those that hold something back.
    NotHeld(u64),
    /// Those that an undo restores.
    Restored(&'a Restored),
}

/// What an undo restores.
#[derive(Debug, Default)]
pub(crate) struct Restored(pub(crate) HashMap<CsId, RestoredParts>);

/// What an undo restores of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoredParts {
    /// The object is added or deleted.
    pub(crate) is_whole: bool,
    pub(crate) is_renamed: bool,
    pub(crate) attributes: HashSet<Attribute>,
    pub(crate) references: HashSet<(Attribute, IndexKey)>,
}

/// The pending changes of an object that are left out.
#[derive(Debug, Default)]
pub(super) struct Parked {
    attributes: Vec<(Attribute, ValueList)>,
    rename: Option<Rename>,
    /// Whether references are left out.
    references: bool,
}

/// The keys under which the changes of an object are held: for its values the anchor if it is known, for
/// the whole object the name if there are names, because a system assigns another anchor to a new object.
pub(crate) fn hold_keys(
    space: &AgentRules,
    anchor: Option<IndexKey>,
    dn: &str,
) -> (Option<IndexKey>, Option<IndexKey>) {
    let name = space.naming.hash(dn);
    (anchor.or(name), name.or(anchor))
}

/// The hash of values.
pub(crate) fn values_hash(values: Values<'_>) -> Hash {
    Hash::of(values.as_bytes())
}

/// The anchors of the objects with these names, where references lead to names: an undo may rename the object
/// that a reference leads to.
///
/// # Errors
/// When the store fails.
pub(crate) fn target_anchors(
    store: &mut dyn Store,
    space: &AgentRules,
    targets: impl Iterator<Item = IndexKey>,
) -> Result<HashMap<IndexKey, IndexKey>, StoreError> {
    if !space.naming.refers_by_name() {
        return Ok(HashMap::new());
    }
    let targets: HashSet<IndexKey> = targets.collect();
    let targets: Vec<IndexKey> = targets.into_iter().collect();
    let found = store.find(space.id, LookupKey::Name, &targets)?;
    let known = targets.into_iter().zip(found);
    Ok(known.filter_map(|(target, found)| Some((target, found?.anchor?))).collect())
}

/// The hash of a changed reference.
pub(crate) fn reference_hash(target: IndexKey, change: ReferenceChange) -> Hash {
    let sign: &[u8] = if change == ReferenceChange::There { b"+" } else { b"-" };
    Hash::of(&[sign, target.as_bytes()].concat())
}

/// The hash of a new name.
pub(crate) fn name_hash(space: &AgentRules, dn: &str) -> Hash {
    Hash::of(space.naming.hash(dn).map_or(dn.as_bytes().to_vec(), |key| key.as_bytes().to_vec()).as_slice())
}

/// The hash of a whole object.
pub(crate) fn whole_hash() -> Hash {
    Hash([0; 16])
}

impl<'a> Selection<'a> {
    /// What an ordinary export sends.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn ordinary(store: &mut dyn Store, space: &AgentRules) -> Result<Selection<'a>, StoreError> {
        Ok(match store.trail().count_holds(space.id)? {
            0 => Selection::All,
            _ => Selection::NotHeld(store.trail().next_meeting(space.id)?),
        })
    }

    /// Removes from the pending changes of objects what is not sent. Objects of which nothing is left are
    /// removed, and returned if something of them is held.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn part(
        &self,
        store: &mut dyn Store,
        space: &AgentRules,
        objects: &mut Vec<CsObject>,
        references: &mut HashMap<CsId, Vec<Reference>>,
    ) -> Result<HashMap<CsId, Parked>, StoreError> {
        match self {
            Selection::All => Ok(HashMap::new()),
            Selection::Restored(restored) => {
                let mut parked = HashMap::new();
                objects.retain_mut(|object| {
                    let Some(parts) = restored.0.get(&object.id) else { return false };
                    let of = references.get_mut(&object.id).map_or(&mut [][..], Vec::as_mut_slice);
                    if !parts.is_whole {
                        let left = park(object, of, |part| !parts.has(part));
                        parked.insert(object.id, left);
                    }
                    is_left(object)
                });
                Ok(parked)
            }
            Selection::NotHeld(number) => not_held(store, space, *number, objects, references),
        }
    }
}

impl RestoredParts {
    fn has(&self, part: &PendingPart<'_>) -> bool {
        match part {
            PendingPart::Whole => false,
            PendingPart::Rename(_) => self.is_renamed,
            PendingPart::Attribute(attribute, _) => self.attributes.contains(attribute),
            PendingPart::Reference(reference, _) => {
                self.references.contains(&(reference.attribute, reference.target))
            }
        }
    }
}

/// A part of the pending change of an object.
enum PendingPart<'a> {
    /// The object is added or deleted.
    Whole,
    Rename(&'a str),
    Attribute(Attribute, Values<'a>),
    Reference(&'a Reference, ReferenceChange),
}

/// Removes the parts of a pending change that are not sent.
fn park(
    object: &mut CsObject,
    references: &mut [Reference],
    mut is_left_out: impl FnMut(&PendingPart<'_>) -> bool,
) -> Parked {
    let mut parked = Parked::default();
    let Some(export) = &mut object.pending_export else { return parked };
    if export.change != Change::Update && export.phase == Phase::Unapplied {
        if is_left_out(&PendingPart::Whole) {
            object.pending_export = None;
        }
        return parked;
    }
    export.attributes.retain(|pending| {
        let part = PendingPart::Attribute(pending.attribute, pending.values);
        if pending.phase == Phase::Unapplied && is_left_out(&part) {
            parked.attributes.push((pending.attribute, ValueList::copied(pending.values)));
            return None;
        }
        Some(pending.phase)
    });
    let is_unsent = export.rename.as_ref().is_some_and(|rename| {
        rename.phase == Phase::Unapplied && is_left_out(&PendingPart::Rename(&rename.dn))
    });
    if is_unsent {
        parked.rename = export.rename.take();
    }
    let mut is_unapplied = false;
    for reference in references.iter_mut() {
        let Some((change, Phase::Unapplied)) = reference.export else { continue };
        if is_left_out(&PendingPart::Reference(reference, change)) {
            reference.export = None;
            parked.references = true;
        } else {
            is_unapplied = true;
        }
    }
    if parked.references && !is_unapplied {
        export.references = None;
    }
    parked
}

/// Whether something of an object is left to be sent.
fn is_left(object: &CsObject) -> bool {
    object.pending_export.as_ref().is_some_and(crate::object::PendingExport::is_unapplied)
}

/// What is held for each of these objects; objects for which nothing is are left out.
///
/// # Errors
/// When the store fails.
pub(crate) fn held(
    store: &mut dyn Store,
    space: &AgentRules,
    objects: &[CsObject],
) -> Result<HashMap<CsId, Vec<Hold>>, StoreError> {
    let mut keys = Vec::with_capacity(objects.len());
    for object in objects {
        let (of_values, of_object) = hold_keys(space, object.anchor, &object.dn);
        let of_object = of_object.filter(|key| Some(*key) != of_values);
        keys.extend([of_values, of_object].into_iter().flatten().map(|key| (key, object.id)));
    }
    keys.sort_unstable();
    let mut wanted: Vec<IndexKey> = keys.iter().map(|(key, _)| *key).collect();
    wanted.dedup();
    let mut held: HashMap<CsId, Vec<Hold>> = HashMap::new();
    for hold in store.trail().holds(space.id, &wanted)? {
        let begin = keys.partition_point(|(key, _)| *key < hold.object);
        for (_, id) in keys[begin..].iter().take_while(|(key, _)| *key == hold.object) {
            held.entry(*id).or_default().push(hold);
        }
    }
    Ok(held)
}

/// The part of a change that a hold is about, and the hashes that its value may have.
fn held_part(
    space: &AgentRules,
    change: Change,
    part: &PendingPart<'_>,
    anchors: &HashMap<IndexKey, IndexKey>,
) -> (HeldPart, [Hash; 2]) {
    let (part, hash) = match part {
        PendingPart::Whole if change == Change::Add => (HeldPart::Add, whole_hash()),
        PendingPart::Whole => (HeldPart::Delete, whole_hash()),
        PendingPart::Rename(dn) => (HeldPart::Rename, name_hash(space, dn)),
        PendingPart::Attribute(attribute, values) => (HeldPart::Attribute(*attribute), values_hash(*values)),
        PendingPart::Reference(reference, change) => {
            let target = reference.target;
            let by_anchor = anchors.get(&target).map(|anchor| reference_hash(*anchor, *change));
            let by_name = reference_hash(target, *change);
            return (HeldPart::Attribute(reference.attribute), [by_name, by_anchor.unwrap_or(by_name)]);
        }
    };
    (part, [hash, hash])
}

/// Those of the holds of an object that hold back something of its pending change.
pub(crate) fn held_parts(
    space: &AgentRules,
    object: &CsObject,
    references: &[Reference],
    holds: &[Hold],
    anchors: &HashMap<IndexKey, IndexKey>,
) -> Vec<Hold> {
    let change = object.pending_export.as_ref().map_or(Change::Update, |export| export.change);
    let mut met = Vec::new();
    park(&mut object.clone(), &mut references.to_vec(), |part| {
        let (part, hashes) = held_part(space, change, part, anchors);
        let hold = holds.iter().find(|hold| hold.part == part && hashes.contains(&hold.hash));
        met.extend(hold);
        hold.is_some()
    });
    met
}

fn not_held(
    store: &mut dyn Store,
    space: &AgentRules,
    number: u64,
    objects: &mut Vec<CsObject>,
    references: &mut HashMap<CsId, Vec<Reference>>,
) -> Result<HashMap<CsId, Parked>, StoreError> {
    let held = held(store, space, objects)?;
    let (mut met, mut ended, mut parked) = (Vec::new(), Vec::new(), HashMap::new());
    if held.is_empty() {
        return Ok(parked);
    }
    let of_held = held.keys().filter_map(|id| references.get(id)).flatten();
    let targets = of_held.filter(|reference| reference.is_unapplied()).map(|reference| reference.target);
    let anchors = target_anchors(store, space, targets)?;
    objects.retain_mut(|object| {
        let Some(holds) = held.get(&object.id) else { return true };
        let change = object.pending_export.as_ref().map_or(Change::Update, |export| export.change);
        let of = references.get_mut(&object.id).map_or(&mut [][..], Vec::as_mut_slice);
        let before = met.len();
        let left = park(object, of, |part| {
            let (held_part, hashes) = held_part(space, change, part, &anchors);
            let of_part = holds.iter().filter(|hold| hold.part == held_part);
            if let Some(hold) = of_part.clone().find(|hold| hashes.contains(&hold.hash)) {
                met.push(Hold { met: number, ..*hold });
                return true;
            }
            // Another value is sent: the attribute is no longer held.
            let has_values = !matches!(part, PendingPart::Reference(..));
            ended.extend(of_part.copied().filter(|_| has_values));
            false
        });
        if met.len() == before {
            return true;
        }
        parked.insert(object.id, left);
        is_left(object)
    });
    store.trail().keep_holds(&met)?;
    store.trail().drop_holds(&ended)?;
    Ok(parked)
}

impl Parked {
    /// Returns what was left out to the pending change of an object whose other changes were accepted.
    pub(super) fn restore(self, object: &mut CsObject) {
        let Some(export) = &mut object.pending_export else { return };
        for (attribute, values) in &self.attributes {
            export.attributes.set(*attribute, Some(values.values()));
        }
        if self.rename.is_some() {
            export.rename = self.rename;
        }
        if self.references {
            export.references = Some(Phase::Unapplied);
        }
    }
}
