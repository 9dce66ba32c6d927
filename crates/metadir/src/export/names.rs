//! Names that change hands in an export, and the references to renamed objects.
//!
//! Each step is committed before the next one is sent: after a crash, a repeated rename or deletion would otherwise
//! meet the object that got the name since.

use std::collections::{BTreeMap, HashMap};

use super::plan::Plan;
use super::selection::{Parked, Selection};
use super::{BatchSelection, Sender};
use crate::agent::ExportedObject;
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::naming::{Naming, temporary_key};
use crate::object::{
    Change, CsId, CsObject, MvId, PendingExport, Phase, Reference, ReferenceChange, phase_of,
};
use crate::stage::StepError;
use crate::store::{LookupKey, StoreError, Write, of_each, parts};
use crate::synchronize::evaluate_references;

/// Limit of the changes of a call in which objects exchange unique values.
const POSTPONED_AT_ONCE: usize = 10_000;

/// A new name of an object: the key by which references find it changes.
pub(super) struct NameMove {
    id: CsId,
    from: Option<IndexKey>,
    to: IndexKey,
    dn: String,
}

impl NameMove {
    pub(super) fn new(id: CsId, from: Option<IndexKey>, to: Option<IndexKey>, dn: &str) -> Option<NameMove> {
        Some(NameMove { id, from, to: to?, dn: dn.into() })
    }
}

impl<'a> Sender<'a> {
    /// Frees the names that others take: with temporary names, and with deletions.
    pub(super) fn free_names(&mut self, plan: &Plan, batch_objects: usize) -> Result<(), StepError> {
        self.name_new(&plan.unnamed)?;
        for ids in plan.temporary.values() {
            self.is_repeating = true;
            self.batches(ids, batch_objects, BatchSelection::Temporary)?;
            self.is_repeating = false;
            self.end_step(plan)?;
        }
        for ids in plan.deleted_first.values() {
            self.batches(ids, batch_objects, BatchSelection::All)?;
            self.end_step(plan)?;
        }
        Ok(())
    }

    /// Waits for the batch under way, and commits its results if later changes take names that it frees.
    pub(super) fn end_step(&mut self, plan: &Plan) -> Result<(), StepError> {
        self.drain()?;
        if plan.names_change_hands() { self.commit() } else { Ok(()) }
    }

    /// Sends refused changes again whose unique values other objects had, until no more of them are accepted.
    pub(super) fn send_postponed(&mut self) -> Result<(), StepError> {
        self.drain()?;
        loop {
            let postponed = std::mem::take(&mut self.postponed);
            if postponed.is_empty() {
                return Ok(());
            }
            // Values are exchanged within a call only.
            let mut ids: Vec<CsId> = postponed.iter().map(|refusal| refusal.id).collect();
            ids.sort_unstable();
            self.commit()?;
            self.is_repeating = true;
            self.batches(&ids, POSTPONED_AT_ONCE, BatchSelection::All)?;
            self.is_repeating = false;
            self.drain()?;
            if self.postponed.len() == ids.len() {
                let mut writes = Vec::new();
                for refusal in std::mem::take(&mut self.postponed) {
                    self.record_refusal(refusal, &mut writes);
                }
                self.store.write(&writes)?;
                return self.commit();
            }
        }
    }

    /// The current name of an object. An object above it may have been renamed, which changes its name too.
    pub(super) fn current_name(&self, object: &CsObject) -> String {
        let dn = self.moves.name_after(&object.dn).unwrap_or_else(|| object.dn.clone());
        match object.is_temporarily_named() {
            true => self.space.naming.temporary(&object.dn, object.id.0, &dn).unwrap_or(dn),
            false => dn,
        }
    }

    /// The change that gives an object a temporary name.
    pub(super) fn temporary(&self, object: &CsObject) -> Option<ExportedObject> {
        let export = object.pending_export.as_ref()?;
        let dn = self.current_name(object);
        let new_dn = Some(self.space.naming.temporary(&object.dn, object.id.0, &dn)?);
        Some(ExportedObject {
            change: Change::Update,
            anchor: object.anchor,
            dn,
            new_dn,
            attributes: Vec::new(),
            changed_values: Vec::new(),
            adopts: false,
            written: self.written(object, export),
            image: match self.wants_image {
                true => object.image().cloned().unwrap_or_default(),
                false => Hologram::default(),
            },
        })
    }

    /// Records that an object has a temporary name. Its new name remains to be sent, and `dn` remains the old name.
    pub(super) fn accept_temporary(
        &mut self,
        mut object: CsObject,
        parked: Option<Parked>,
        change: &ExportedObject,
        writes: &mut Vec<Write>,
    ) -> Option<NameMove> {
        self.done.statistics.count("export-temporary-name");
        self.moves.add(&object.dn, change.new_dn.as_deref()?);
        let key = temporary_key(object.id.0);
        let moved = NameMove::new(object.id, object.name, Some(key), &object.dn);
        object.name = Some(key);
        if let Some(parked) = parked {
            parked.restore(&mut object);
        }
        writes.push(Write::Cs(object));
        moved
    }

    /// Why an object cannot be sent: another object has its name or its anchor.
    pub(super) fn lacks_name(&self, object: &CsObject) -> Option<String> {
        if !object.pending_export.as_ref().is_some_and(PendingExport::is_not_made) {
            // Where the name is the address of the object, its change would reach the other one.
            let is_lost = object.name.is_none() && self.space.naming == Naming::Dn;
            let why = "another object has the name {:?} now, and the new name of this one is not known: run a full-import";
            return is_lost.then(|| why.replace("{:?}", &format!("{:?}", object.dn)));
        }
        self.space.awaited(object).next()?;
        let called = match object.dn.is_empty() {
            true => self.space.anchor_text(object),
            false => object.dn.clone(),
        };
        Some(format!(
            "another object has the name {called:?} and keeps it: if it was to be renamed or deleted, its error says why \
             that failed; otherwise give one of them another name"
        ))
    }

    /// Removes the names of renamed objects from others that had them, and from those of them that got the name of
    /// another one: a server may tell names apart that are the same here, and a preview accepts everything.
    pub(super) fn take_names(&mut self, moved: &[NameMove], writes: &mut [Write]) -> Result<(), StoreError> {
        if moved.is_empty() {
            return Ok(());
        }
        let mut owners: HashMap<IndexKey, CsId> = HashMap::new();
        for of in moved {
            owners.entry(of.to).or_insert(of.id);
        }
        for write in writes {
            if let Write::Cs(object) = write
                && let Some(owner) = object.name.and_then(|name| owners.get(&name))
                && *owner != object.id
            {
                object.name = None;
            }
        }
        let keys: Vec<IndexKey> = moved.iter().map(|of| of.to).collect();
        let found = self.store.find(self.space.id, LookupKey::Name, &keys)?;
        let others = moved.iter().zip(found).filter_map(|(of, found)| Some((of.id, found?.id)));
        let writes: Vec<Write> =
            others.filter(|(id, by)| id != by).map(|(_, by)| Write::Unnamed(by)).collect();
        self.store.write(&writes)
    }

    /// Gives the names of objects that were renamed or deleted to new objects.
    pub(super) fn hand_over(&mut self, freed: &[CsId]) -> Result<(), StoreError> {
        let heirs: Vec<CsId> = freed.iter().filter_map(|id| self.heirs.get(id)).flatten().copied().collect();
        self.name_new(&heirs)
    }

    /// Gives new objects their names and anchors, unless an object has them that is not deleted.
    fn name_new(&mut self, ids: &[CsId]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        for mut object in self.store.cs(&sorted)? {
            let before = (object.anchor, object.name);
            for (by, key) in self.space.awaited(&object) {
                if let Some(holder) = self.store.find(self.space.id, by, &[key])?.pop().flatten()
                    && !self.gives_up(holder.id, by)?
                {
                    continue;
                }
                match by {
                    LookupKey::Anchor => object.anchor = Some(key),
                    LookupKey::Name => object.name = Some(key),
                }
            }
            if before != (object.anchor, object.name) {
                let due = self.referring_to(&object)?;
                let writes = due.iter().copied().map(Write::Due).chain([Write::Cs(object)]);
                self.store.write(&writes.collect::<Vec<_>>())?;
                self.due.extend(due);
            }
        }
        Ok(())
    }

    /// Takes a name or an anchor from an object whose deletion was sent. Returns false for other objects.
    fn gives_up(&mut self, holder: CsId, by: LookupKey) -> Result<bool, StoreError> {
        let Some(mut holder) = self.store.cs(&[holder])?.pop() else { return Ok(true) };
        let export = holder.pending_export.as_ref();
        if !export.is_some_and(|of| of.change == Change::Delete && of.phase == Phase::Unconfirmed) {
            return Ok(false);
        }
        match by {
            LookupKey::Anchor => holder.anchor = None,
            LookupKey::Name => holder.name = None,
        }
        self.store.write(&[Write::Cs(holder)])?;
        Ok(true)
    }

    /// The objects of the sources whose references lead to a new object: without a name it was no target.
    fn referring_to(&mut self, object: &CsObject) -> Result<Vec<CsId>, StoreError> {
        let mv: Vec<_> = object.mv.into_iter().collect();
        let connectors: Vec<CsId> = self.store.mv(&mv)?.into_iter().flat_map(|mv| mv.connectors).collect();
        let mut due = Vec::new();
        for connector in self.store.cs(&connectors)? {
            let Some(agent) = self.rules.agent(connector.agent).filter(|agent| agent.gives_references) else {
                continue;
            };
            let target: Vec<IndexKey> = agent.target(connector.anchor, connector.name).into_iter().collect();
            due.extend(self.store.referring(agent.id, &target)?);
        }
        Ok(due)
    }

    /// Evaluates references to new objects that got a name, and sends them at the end of this export.
    pub(super) fn evaluate_due(&mut self) -> Result<(), StepError> {
        if self.due.is_empty() {
            return Ok(());
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_unix_s = now.map_or(0, |since| since.as_secs());
        evaluate_references(self.store, self.rules, self.names, self.batch_objects as usize, now_unix_s)?;
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable();
        due.dedup();
        let mut mvs: Vec<MvId> = self.store.cs(&due)?.iter().filter_map(CsObject::connected_to).collect();
        mvs.sort_unstable();
        mvs.dedup();
        let mut ids: Vec<CsId> = self.store.mv(&mvs)?.into_iter().flat_map(|mv| mv.connectors).collect();
        ids.sort_unstable();
        let connectors = self.store.cs(&ids)?;
        let of_space = connectors.iter().filter(|object| object.agent == self.space.id);
        self.referring.extend(of_space.map(|object| object.id));
        Ok(())
    }

    /// Makes references lead to the new names of objects, in the transaction of these names. A preview reports each
    /// change of a reference, so it does this at the end, except for new objects, which are sent before.
    pub(super) fn follow(&mut self, moved: Vec<NameMove>) -> Result<(), StepError> {
        self.lead_to(&moved, self.is_preview)?;
        if self.is_preview {
            self.previewed.extend(moved);
        }
        Ok(())
    }

    /// The same for the names of a preview: temporary ones are left out.
    pub(super) fn follow_previewed(&mut self) -> Result<(), StepError> {
        let mut last: HashMap<CsId, NameMove> = HashMap::new();
        for of in std::mem::take(&mut self.previewed) {
            let from = last.get(&of.id).map_or(of.from, |before| before.from);
            last.insert(of.id, NameMove { from, ..of });
        }
        self.lead_to(&last.into_values().collect::<Vec<_>>(), false)
    }

    /// Makes references lead to the new names of objects. They are sent at the end, also where the system may have
    /// changed them itself.
    fn lead_to(&mut self, moved: &[NameMove], only_new: bool) -> Result<(), StepError> {
        if moved.is_empty() || self.space.references.is_empty() || !self.space.naming.refers_by_name() {
            return Ok(());
        }
        let names: HashMap<IndexKey, &NameMove> =
            moved.iter().filter_map(|of| Some((of.from?, of))).collect();
        let keys: Vec<IndexKey> = names.keys().copied().collect();
        let referring = self.store.referring(self.space.id, &keys)?;
        for part in parts(self.store, &referring, true)? {
            let mut references = of_each(self.store, part, true)?;
            let mut writes = Vec::new();
            for mut object in self.store.cs(part)? {
                if only_new && !object.is_not_made() || !only_new && self.followed.contains(&object.id) {
                    continue;
                }
                if only_new {
                    self.followed.insert(object.id);
                }
                let mut all = references.remove(&object.id).unwrap_or_default();
                let is_managed = |of: &Reference| self.is_managed(&object, of);
                let changed = lead_to(&mut all, &names, is_managed);
                writes.extend(changed.into_iter().map(Write::Reference));
                let before = object.pending_export.as_ref().and_then(|export| export.references);
                let after = phase_of(&all);
                if after == Some(Phase::Unapplied) {
                    self.referring.insert(object.id);
                }
                if before != after {
                    let mut export =
                        object.pending_export.take().unwrap_or_else(|| PendingExport::new(Change::Update));
                    export.references = after;
                    object.pending_export = (!export.is_empty()).then_some(export);
                    writes.push(Write::Cs(object));
                }
            }
            self.store.write(&writes)?;
        }
        Ok(())
    }

    /// Whether the rules write a reference of an object. What an undo restores has its final value already.
    fn is_managed(&self, object: &CsObject, of: &Reference) -> bool {
        let attribute = of.attribute;
        let is_restored = match self.selection {
            Selection::Restored(restored) => {
                let parts = restored.0.get(&object.id);
                parts.is_some_and(|of_object| of_object.references.contains(&(attribute, of.target)))
            }
            Selection::All | Selection::NotHeld(_) => false,
        };
        let mut outbound = self.rules.outbound.iter().filter(|out| out.agent == self.space.id);
        let export = object.pending_export.as_ref();
        !is_restored
            && object.state.is_connected()
            && export.is_none_or(|export| export.change != Change::Delete)
            && outbound.any(|out| out.references.iter().any(|flow| flow.to == attribute))
    }
}

/// Replaces the targets of references. Returns those that change.
fn lead_to(
    all: &mut Vec<Reference>,
    names: &HashMap<IndexKey, &NameMove>,
    is_managed: impl Fn(&Reference) -> bool,
) -> Vec<Reference> {
    use ReferenceChange::{Gone, There};
    // All leave their targets before one arrives: objects may exchange their names.
    let mut arriving = Vec::new();
    let mut before: BTreeMap<usize, Option<Reference>> = BTreeMap::new();
    for (at, of) in all.iter_mut().enumerate() {
        let Some(to) = names.get(&of.target) else { continue };
        let moves = is_managed(of) && of.will_be_there();
        if !moves && !of.is_synchronized {
            continue;
        }
        before.insert(at, Some(of.clone()));
        arriving.push((at, *to, of.is_synchronized, moves));
        of.is_synchronized = false;
        if moves {
            of.export = match of.export {
                // It was never sent.
                Some((There, Phase::Unapplied)) if !of.is_imported => None,
                _ => Some((Gone, Phase::Unapplied)),
            };
        }
    }
    if arriving.is_empty() {
        return Vec::new();
    }
    let mut places: HashMap<(Attribute, IndexKey), usize> =
        all.iter().enumerate().map(|(at, of)| ((of.attribute, of.target), at)).collect();
    for (from, to, is_synchronized, moves) in arriving {
        let at = *places.entry((all[from].attribute, to.to)).or_insert_with(|| {
            let (value, target) = (to.dn.clone().into_bytes(), to.to);
            all.push(Reference { value, target, is_imported: false, export: None, ..all[from].clone() });
            before.insert(all.len() - 1, None);
            all.len() - 1
        });
        before.entry(at).or_insert_with(|| Some(all[at].clone()));
        let of = &mut all[at];
        of.is_synchronized |= is_synchronized;
        if moves {
            of.value = to.dn.clone().into_bytes();
            of.export = match of.export {
                None | Some((Gone, Phase::Unapplied)) if of.is_imported => None,
                Some((There, phase)) => Some((There, phase)),
                _ => Some((There, Phase::Unapplied)),
            };
        }
    }
    let is_changed = |(at, before): (usize, Option<Reference>)| {
        (before.as_ref() != Some(&all[at])).then(|| all[at].clone())
    };
    before.into_iter().filter_map(is_changed).collect()
}
