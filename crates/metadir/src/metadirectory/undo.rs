//! Undo: the exact inverse of what a run exported, computed from the trail.
//!
//! The inverse is staged as pending exports in one transaction, the last change first, and sent by an export
//! that leaves all other pending changes out. What the run set is held from then on, because the rules
//! would send it again. After a crash the same command computes the inverse again: what already has its old
//! value needs nothing.

mod earlier;

use std::collections::{HashMap, HashSet};

use self::earlier::EarlierChanges;

use super::{Metadirectory, StepResult, judged, now_unix_s, user};
use crate::config::{Step, StepKind};
use crate::export::selection::{
    Restored, Selection, hold_keys, name_hash, reference_hash, target_anchors, values_hash, whole_hash,
};
use crate::export::{Exported, export};
use crate::hologram::{Attribute, Hash, ValueList, Values};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{
    Change, CsId, CsObject, PendingAttributes, PendingExport, PendingImport, Phase, Reference,
    ReferenceChange, Rename, State,
};
use crate::rules::AgentRules;
use crate::stage::StepError;
use crate::statistics::Statistics;
use crate::store::trail::{ChangeFilter, HeldPart, Hold, Origin};
use crate::store::{LookupKey, StepRecord, Store, StoreError, Write, of_each};
use crate::trail::{Changes, LoggedChange};

/// What an undo does with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoOptions {
    /// Whether the agents are imported first, so that later changes by others are seen.
    pub imports: bool,
    /// Whether changes with a conflict are left as they are. Otherwise a conflict refuses the undo.
    pub skips_conflicts: bool,
}

/// A change that is not undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The agent.
    pub agent: String,
    /// The object.
    pub object: String,
    /// The attribute, if it is about one.
    pub attribute: Option<String>,
    /// Why.
    pub why: String,
}

/// Why a run was not undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The trail has no changes of the run.
    #[error(
        "run {run} exported nothing{}, or its trail is no longer kept: plimsoll metadir history lists the runs",
        if *.is_of_agent { " to this agent" } else { "" }
    )]
    Nothing {
        /// The number of the run.
        run: u64,
        /// Whether only one agent was meant.
        is_of_agent: bool,
    },
    /// Some changes cannot be undone.
    #[error(
        "{} changes cannot be undone, and nothing was sent: run it with --skip-conflicts to undo the others",
        .0.len()
    )]
    Conflicts(Vec<Conflict>),
    /// A step failed.
    #[error(transparent)]
    Step(StepError),
}

impl From<StepError> for UndoError {
    fn from(error: StepError) -> UndoError {
        UndoError::Step(error)
    }
}

impl From<StoreError> for UndoError {
    fn from(error: StoreError) -> UndoError {
        UndoError::Step(error.into())
    }
}

/// The result of an undo.
#[derive(Debug, Default)]
pub struct Undone {
    /// The steps that were carried out.
    pub steps: Vec<StepRecord>,
    /// The changes that were left as they are.
    pub conflicts: Vec<Conflict>,
}

impl Metadirectory {
    /// Computes the inverse of what a run exported, without sending it. In a
    /// [preview](Metadirectory::preview) each change is reported.
    ///
    /// # Errors
    /// When there is nothing to undo, or a step fails.
    pub fn preview_undo(
        &mut self,
        run: u64,
        agent: Option<usize>,
        imports: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Undone, UndoError> {
        let (agents, mut undone) = self.begin_undo(run, agent, imports, progress)?;
        for at in agents {
            undone.conflicts.extend(self.stage_undo(run, at)?.conflicts);
        }
        Ok(undone)
    }

    /// The agents that a run exported to, with their imports, which show what changed since.
    fn begin_undo(
        &mut self,
        run: u64,
        agent: Option<usize>,
        imports: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(Vec<usize>, Undone), UndoError> {
        let agents = self.undone_agents(run, agent)?;
        let mut undone = Undone::default();
        for at in agents.iter().filter(|_| imports) {
            let step = Step { agent: *at, kind: StepKind::FullImport };
            undone.steps.push(self.run_recorded(&format!("undo {run}"), step, progress)?);
        }
        Ok((agents, undone))
    }

    /// Takes back what a run exported, and records it in the history. Thresholds apply as to an export.
    /// `progress` receives the number of finished objects of a step and returns whether to continue.
    ///
    /// # Errors
    /// When there is nothing to undo, a change has a conflict, or a step fails. The changes that were sent
    /// are kept, and the same call continues.
    pub fn undo(
        &mut self,
        run: u64,
        agent: Option<usize>,
        options: UndoOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Undone, UndoError> {
        let (agents, mut undone) = self.begin_undo(run, agent, options.imports, progress)?;
        let name = format!("undo {run}");
        // No agent is changed if another one has a conflict.
        if !options.skips_conflicts && agents.len() > 1 {
            let mut conflicts = Vec::new();
            for at in &agents {
                conflicts.extend(self.stage_undo(run, *at)?.conflicts);
                self.store.roll_back()?;
            }
            if !conflicts.is_empty() {
                return Err(UndoError::Conflicts(conflicts));
            }
        }
        for at in agents {
            let agent = self.agents[at].name.clone();
            let mut conflicts = Vec::new();
            let step = self.recorded(&name, agent, "undo", |directory| {
                directory.undo_of_agent(run, at, options.skips_conflicts, &mut conflicts, progress)
            });
            undone.steps.push(match step {
                Err(StepError::Conflicts(_)) => return Err(UndoError::Conflicts(conflicts)),
                step => step?,
            });
            undone.conflicts.extend(conflicts);
        }
        Ok(undone)
    }

    /// Lets exports send again what the undo of a run took back, and records it in the history. Returns the number of changes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn release_undo(&mut self, run: u64) -> Result<u64, StepError> {
        let number = self.begin_run()?;
        let count = self.store.trail().release_holds(run)?;
        let record = StepRecord {
            number,
            run: "release-undo".into(),
            user: user(),
            step: "release-undo".into(),
            started_unix_s: now_unix_s(),
            outcome: "success".into(),
            text: format!("run {run}"),
            counters: vec![("released".into(), count)],
            ..StepRecord::default()
        };
        self.store.keep_step(&record)?;
        self.store.commit()?;
        Ok(count)
    }

    /// The indexes of the agents to which a run exported something.
    fn undone_agents(&mut self, run: u64, agent: Option<usize>) -> Result<Vec<usize>, UndoError> {
        let ids = self.store.trail().changed_agents(run)?;
        let is_of = |at: &usize| ids.contains(&self.rules.agents[*at].id) && agent.is_none_or(|of| of == *at);
        let agents: Vec<usize> = (0..self.rules.agents.len()).filter(is_of).collect();
        if agents.is_empty() {
            return Err(UndoError::Nothing { run, is_of_agent: agent.is_some() });
        }
        Ok(agents)
    }

    fn undo_of_agent(
        &mut self,
        run: u64,
        at: usize,
        skips_conflicts: bool,
        conflicts: &mut Vec<Conflict>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepResult, StepError> {
        let number = self.current_run()?;
        let step = format!("{} undo", self.agents[at].name);
        self.store.trail().set_origin(Origin { run: number, step, at_unix_s: now_unix_s() });
        self.reached = Statistics::default();
        let result = self.send_undo(run, at, skips_conflicts, conflicts, progress);
        if result.is_err() {
            self.store.roll_back()?;
        }
        result.map_err(|error| self.with_path(judged(error, &self.interrupt)))
    }

    fn send_undo(
        &mut self,
        run: u64,
        at: usize,
        skips_conflicts: bool,
        conflicts: &mut Vec<Conflict>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<StepResult, StepError> {
        let mut agent = self.open_agent(at, false)?;
        let inverse = self.stage_undo(run, at)?;
        *conflicts = inverse.conflicts;
        if !skips_conflicts && !conflicts.is_empty() {
            return Err(StepError::Conflicts(conflicts.len()));
        }
        let deletes = self.safety.export_deletes;
        let (store, space) = (self.store.as_mut(), &self.rules.agents[at]);
        let most = deletes.most(store.count_imported(space.id)?);
        // Checked before the inverse is committed: a later export must not send it.
        if inverse.deletes > most {
            return Err(StepError::Threshold(format!(
                "{0} objects would be deleted in the connected system, more than the {most} that safety.export \
                allows; `plimsoll metadir undo {run}` lists them, and --apply --allow-deletes {0} carries it out",
                inverse.deletes
            )));
        }
        store.commit()?;
        self.observer.begin();
        let mut done = Exported { observer: self.observer.clone(), ..Exported::default() };
        let (rules, names, agent, interrupt) = (&self.rules, &self.names, agent.as_mut(), &self.interrupt);
        let (is_preview, batch) = (self.unsent.is_some(), self.batch_objects);
        let restored = Selection::Restored(&inverse.restored);
        let ended = export(
            store, rules, space, names, agent, is_preview, interrupt, batch, deletes, &restored, &mut done,
            progress,
        );
        done.statistics.count_many("undo-conflict", conflicts.len() as u64);
        self.reached = done.statistics.clone();
        ended?;
        let result =
            StepResult { statistics: done.statistics, failures: done.refused, ..StepResult::default() };
        Ok(result.with_errors(self.observer.so_far()))
    }

    /// Stages the inverse of what a run exported to an agent, without a commit.
    fn stage_undo(&mut self, run: u64, at: usize) -> Result<Inverse, StoreError> {
        let names = &self.names;
        let space = &self.rules.agents[at];
        let filter = ChangeFilter { run: Some(run), agent: Some(space.id), since_unix_s: 0 };
        let mut inverse = Inverse::default();
        let has_holds = self.store.trail().count_holds(space.id)? > 0;
        // Objects that the run changed several times: a restored value may be one that is held since.
        let mut seen: HashSet<CsId> = HashSet::new();
        let first = self.store.trail().changes(filter, 0, false)?.map_or(0, |batch| batch.number);
        let of_agent = (space.id, space.name.as_str());
        let earlier = EarlierChanges::before(self.store.as_mut(), of_agent, run, first)?;
        let mut before = i64::MAX as u64;
        while let Some(batch) = self.store.trail().changes(filter, before, true)? {
            before = batch.number;
            let damaged = |damage| StoreError::Damaged { id: batch.number as i64, damage };
            let mut changes: Vec<LoggedChange> =
                Changes::of(&batch.changes).collect::<Result<_, _>>().map_err(damaged)?;
            changes.reverse();
            changes.iter_mut().for_each(|change| earlier.correct(change));
            let mut inverting = Inverting::new(self.store.as_mut(), space, run, &changes, &mut inverse)?;
            for change in &changes {
                inverting.invert(change, |attribute| names.name(attribute).to_string());
            }
            let Inverting { writes, holds, released, .. } = inverting;
            self.store.write(&writes)?;
            let is_again = changes.iter().filter(|change| !seen.insert(change.id)).count() > 0;
            if has_holds || is_again {
                self.store.trail().drop_holds(&released)?;
            }
            self.store.trail().keep_holds(&holds)?;
        }
        Ok(inverse)
    }
}

/// The staged inverse of a run.
#[derive(Default)]
struct Inverse {
    restored: Restored,
    conflicts: Vec<Conflict>,
    deletes: u64,
    /// The new objects in place of deleted ones.
    anew: HashMap<CsId, CsId>,
}

/// The objects of a batch whose changes are inverted.
struct Inverting<'a> {
    space: &'a AgentRules,
    run: u64,
    inverse: &'a mut Inverse,
    objects: HashMap<CsId, CsObject>,
    references: HashMap<CsId, Vec<Reference>>,
    /// The objects that have the names or the anchors of missing ones.
    holders: HashMap<CsId, CsId>,
    /// The anchors of the objects that changed references lead to.
    anchors: HashMap<IndexKey, IndexKey>,
    /// Numbers for new objects.
    numbers: std::ops::RangeFrom<i64>,
    writes: Vec<Write>,
    holds: Vec<Hold>,
    released: Vec<Hold>,
}

impl<'a> Inverting<'a> {
    fn new(
        store: &mut dyn Store,
        space: &'a AgentRules,
        run: u64,
        changes: &[LoggedChange],
        inverse: &'a mut Inverse,
    ) -> Result<Inverting<'a>, StoreError> {
        let mut ids: Vec<CsId> =
            changes.iter().map(|of| inverse.anew.get(&of.id).copied().unwrap_or(of.id)).collect();
        // Who has the names now: the objects themselves, others, or nobody.
        let mut holders = HashMap::new();
        let by = if space.naming == Naming::Anchor { LookupKey::Anchor } else { LookupKey::Name };
        let whole = changes.iter().filter(|of| of.change != Change::Update);
        let named = whole.filter_map(|of| Some((of.id, hold_keys(space, of.anchor, &of.dn).1?)));
        let (of_changes, keys): (Vec<CsId>, Vec<_>) = named.unzip();
        for (id, found) in of_changes.into_iter().zip(store.find(space.id, by, &keys)?) {
            if let Some(found) = found {
                holders.insert(id, found.id);
                ids.push(found.id);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let objects = store.cs(&ids)?.into_iter().map(|object| (object.id, object)).collect();
        let references = of_each(store, &ids, !space.references.is_empty())?;
        let referred = changes.iter().flat_map(|change| &change.references);
        let referred = referred.flat_map(|of| of.added.iter().chain(&of.removed));
        let anchors = target_anchors(store, space, referred.map(|value| space.naming.target(value)))?;
        let new = changes.iter().filter(|of| of.change == Change::Delete).count();
        let numbers = if new > 0 { store.ids().take(new).. } else { 0.. };
        let (writes, holds, released) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Inverting {
            space,
            run,
            inverse,
            objects,
            references,
            holders,
            anchors,
            numbers,
            writes,
            holds,
            released,
        })
    }

    fn hold(&mut self, change: &LoggedChange, part: HeldPart, hash: Hash) -> Option<Hold> {
        let (of_values, of_object) = hold_keys(self.space, change.anchor, &change.dn);
        let object = match part {
            HeldPart::Add | HeldPart::Delete => of_object?,
            HeldPart::Rename | HeldPart::Attribute(_) => of_values?,
        };
        Some(Hold { agent: self.space.id, object, part, hash, run: self.run, met: 0 })
    }

    /// Holds back what the run sent, and releases what is restored.
    fn holds(&mut self, change: &LoggedChange, part: HeldPart, sent: Hash) {
        let hold = self.hold(change, part, sent);
        self.holds.extend(hold);
    }

    fn releases(&mut self, change: &LoggedChange, part: HeldPart, restored: Hash) {
        let hold = self.hold(change, part, restored);
        self.released.extend(hold);
    }

    fn conflict(&mut self, change: &LoggedChange, attribute: Option<String>, why: impl Into<String>) {
        let (agent, object) = (self.space.name.clone(), change.called.clone());
        self.inverse.conflicts.push(Conflict { agent, object, attribute, why: why.into() });
    }

    /// Stages the inverse of a change.
    fn invert(&mut self, change: &LoggedChange, name: impl Fn(Attribute) -> String) {
        let id = self.inverse.anew.get(&change.id).copied().unwrap_or(change.id);
        match change.change {
            Change::Update => self.restore_values(change, id, name),
            Change::Add => self.take_away(change, id, name),
            Change::Delete => self.make_again(change, id, name),
        }
    }

    /// The values of an attribute, as far as they are known: those that this undo stages, those that were
    /// sent, or those of the last import.
    fn current<'b>(&self, object: &'b CsObject, attribute: Attribute) -> Values<'b> {
        let parts = self.inverse.restored.0.get(&object.id);
        let is_staged = parts.is_some_and(|parts| parts.is_whole || parts.attributes.contains(&attribute));
        let pending = object.pending_export.as_ref().and_then(|export| export.attributes.get(attribute));
        match pending {
            Some(pending) if is_staged || pending.phase == Phase::Unconfirmed => pending.values,
            _ => object.image().and_then(|image| image.get(attribute)).unwrap_or(Values::NONE),
        }
    }

    /// Whether the system has a reference, or has it after this undo.
    fn has(&self, reference: &Reference) -> bool {
        let parts = self.inverse.restored.0.get(&reference.cs);
        let is_staged = parts.is_some_and(|parts| {
            parts.is_whole || parts.references.contains(&(reference.attribute, reference.target))
        });
        match reference.export {
            Some((change, phase)) if is_staged || phase == Phase::Unconfirmed => {
                change == ReferenceChange::There
            }
            _ => reference.is_imported,
        }
    }

    /// Takes back the values, the name and the references of an object.
    fn restore_values(&mut self, change: &LoggedChange, id: CsId, name: impl Fn(Attribute) -> String) {
        let Some(mut object) = self.objects.get(&id).cloned() else {
            return self.conflict(change, None, "the object does not exist any more");
        };
        let is_staged = self.inverse.restored.0.get(&id).is_some_and(|parts| parts.is_whole);
        if !is_staged && is_ending(&object) {
            return self.conflict(change, None, "the object was deleted since, or waits to be deleted");
        }
        let mut export = object.pending_export.take().unwrap_or_else(|| PendingExport::new(Change::Update));
        object.pending_export = Some(export.clone());
        let mut attributes = HashSet::new();
        for of in &change.attributes {
            let called = || Some(name(of.attribute));
            let Some(old) = &of.old else {
                let why = if of.is_secret { "its values are secret" } else { "its old values are not known" };
                self.conflict(change, called(), why);
                continue;
            };
            let current = self.current(&object, of.attribute);
            if current != old.values() {
                if current != of.new.values() {
                    let why = format!("it was changed since, to {}", shown(current));
                    self.conflict(change, called(), why);
                    continue;
                }
                export.attributes.set(of.attribute, Some(old.values()));
                attributes.insert(of.attribute);
            }
            self.holds(change, HeldPart::Attribute(of.attribute), values_hash(of.new.values()));
            self.releases(change, HeldPart::Attribute(of.attribute), values_hash(old.values()));
        }
        let is_renamed = self.restore_name(change, &mut object, &mut export);
        let references = self.restore_references(change, id);
        if attributes.is_empty() && !is_renamed && references.is_empty() {
            return;
        }
        if !references.is_empty() {
            export.references = Some(Phase::Unapplied);
        }
        let parts = self.inverse.restored.0.entry(id).or_default();
        parts.attributes.extend(attributes);
        parts.references.extend(references);
        parts.is_renamed |= is_renamed;
        object.pending_export = Some(export);
        self.reconnect(&mut object);
        self.put(object);
    }

    /// Connects a deprovisioned object again, so that the rules decide about it once more. What they want is
    /// held and reported, not forgotten.
    fn reconnect(&mut self, object: &mut CsObject) {
        if object.state == State::Deprovisioned && object.mv.is_some() {
            object.state = State::Connected;
            self.writes.push(Write::Due(object.id));
        }
    }

    /// Stages the old name of an object. Returns whether it has another one now.
    fn restore_name(
        &mut self,
        change: &LoggedChange,
        object: &mut CsObject,
        export: &mut PendingExport,
    ) -> bool {
        let Some(new) = &change.new_dn else { return false };
        let naming = self.space.naming;
        let is_staged = self.inverse.restored.0.get(&object.id).is_some_and(|parts| parts.is_renamed);
        let sent = export.rename.as_ref().filter(|rename| is_staged || rename.phase == Phase::Unconfirmed);
        let current = sent.map_or(object.dn.clone(), |rename| rename.dn.clone());
        let (is_old, is_new) =
            (naming.hash(&current) == naming.hash(&change.dn), naming.hash(&current) == naming.hash(new));
        if !is_old && !is_new {
            self.conflict(change, None, format!("it was renamed since, to {current}"));
            return false;
        }
        self.holds(change, HeldPart::Rename, name_hash(self.space, new));
        self.releases(change, HeldPart::Rename, name_hash(self.space, &change.dn));
        if is_old {
            return false;
        }
        // The sent name is the one that it has.
        (object.dn, object.name) = (current.clone(), naming.hash(&current));
        export.rename = Some(Rename { dn: change.dn.clone(), phase: Phase::Unapplied });
        true
    }

    /// Stages the inverse of changed references, by their values. Returns those that change.
    fn restore_references(&mut self, change: &LoggedChange, id: CsId) -> Vec<(Attribute, IndexKey)> {
        let mut changed = Vec::new();
        let mut all = self.references.remove(&id).unwrap_or_default();
        for of in &change.references {
            let (there, gone) = (ReferenceChange::There, ReferenceChange::Gone);
            let sent = of.added.iter().map(|value| (value, there, gone));
            let sent = sent.chain(of.removed.iter().map(|value| (value, gone, there)));
            for (value, sent, back) in sent {
                let target = self.space.naming.target(value);
                // By the object, because its name may be restored too.
                let part = HeldPart::Attribute(of.attribute);
                let anchor = self.anchors.get(&target).copied().unwrap_or(target);
                self.holds(change, part, reference_hash(anchor, sent));
                self.releases(change, part, reference_hash(anchor, back));
                self.releases(change, part, reference_hash(target, back));
                let place =
                    all.iter().position(|known| known.attribute == of.attribute && known.target == target);
                let has = place.is_some_and(|at| self.has(&all[at]));
                if has == (back == there) {
                    continue;
                }
                let new = Reference { value: value.clone(), ..bare(id, self.space, of.attribute, target) };
                let mut reference = place.map_or(new, |at| all[at].clone());
                reference.export = Some((back, Phase::Unapplied));
                match place {
                    Some(at) => all[at] = reference.clone(),
                    None => all.push(reference.clone()),
                }
                self.writes.push(Write::Reference(reference));
                changed.push((of.attribute, target));
            }
        }
        self.references.insert(id, all);
        if !changed.is_empty() {
            // The rules decide about them again: what they want is held.
            self.writes.push(Write::Due(id));
        }
        changed
    }

    /// Deletes an object that the run added.
    fn take_away(&mut self, change: &LoggedChange, id: CsId, name: impl Fn(Attribute) -> String) {
        self.holds(change, HeldPart::Add, whole_hash());
        self.releases(change, HeldPart::Delete, whole_hash());
        let holder = self.holders.get(&change.id).copied();
        let found = [Some(id), holder].into_iter().flatten().find_map(|id| self.objects.get(&id));
        let Some(object) = found.cloned() else { return };
        let export = object.pending_export.as_ref();
        let is_deleted = export.is_some_and(|export| export.change == Change::Delete);
        let is_gone = object.pending_import == Some(PendingImport::Delete)
            || is_deleted && export.is_some_and(|export| export.phase == Phase::Unconfirmed)
            || object.is_not_made();
        if is_gone {
            return;
        }
        let before = self.inverse.conflicts.len();
        for of in change.attributes.iter().filter(|of| !of.is_secret && !is_deleted) {
            let current = self.current(&object, of.attribute);
            if current != of.new.values() {
                let why = format!("it was changed since, to {}: the object is not deleted", shown(current));
                self.conflict(change, Some(name(of.attribute)), why);
            }
        }
        for of in change.references.iter().filter(|_| !is_deleted) {
            let known = self.references.get(&object.id).into_iter().flatten();
            let has: HashSet<_> = known
                .filter(|known| known.attribute == of.attribute && self.has(known))
                .map(|known| known.target)
                .collect();
            if has != of.added.iter().map(|value| self.space.naming.target(value)).collect() {
                let why = "its references were changed since: the object is not deleted";
                self.conflict(change, Some(name(of.attribute)), why);
            }
        }
        if self.inverse.conflicts.len() > before {
            return;
        }
        self.inverse.deletes += 1;
        self.inverse.restored.0.entry(object.id).or_default().is_whole = true;
        self.writes.push(Write::UnwantedReferences(object.id));
        self.put(CsObject { pending_export: Some(PendingExport::new(Change::Delete)), ..object });
    }

    /// Makes an object again that the run deleted.
    fn make_again(&mut self, change: &LoggedChange, id: CsId, name: impl Fn(Attribute) -> String) {
        self.holds(change, HeldPart::Delete, whole_hash());
        self.releases(change, HeldPart::Add, whole_hash());
        let holder = self.holders.get(&change.id).copied();
        // This undo deletes the object that got the name; the export then gives the name to the restored one.
        let waits = holder.is_some_and(|holder| {
            let parts = self.inverse.restored.0.get(&holder);
            holder != id
                && parts.is_some_and(|parts| parts.is_whole)
                && self.objects.get(&holder).is_some_and(is_ending)
        });
        let holder = holder.filter(|_| !waits);
        let found = [Some(id), holder].into_iter().flatten().find_map(|id| self.objects.get(&id));
        let found = found.cloned();
        if let Some(object) = found.as_ref().filter(|object| !is_ending(object) && !object.is_not_made()) {
            let is_same = change.attributes.iter().all(|of| {
                let old = of.old.as_ref().map_or(Values::NONE, ValueList::values);
                of.is_secret || self.is_assigned(of.attribute) || self.current(object, of.attribute) == old
            });
            if !is_same {
                self.conflict(change, None, "another object has its name now");
            }
            return;
        }
        if let (Some(object), Some(holder)) = (&found, holder)
            && object.id != holder
        {
            return self.conflict(change, None, "another object has its name now");
        }
        let mut values: Vec<(Attribute, Phase, Vec<Vec<u8>>)> = Vec::new();
        for of in &change.attributes {
            if of.is_secret {
                self.conflict(
                    change,
                    Some(name(of.attribute)),
                    "its values are secret: they are not restored",
                );
            } else if let Some(old) = of.old.as_ref().filter(|_| !self.is_assigned(of.attribute)) {
                values.push((of.attribute, Phase::Unapplied, old.values().to_vec()));
            }
        }
        let attributes: PendingAttributes = values.into_iter().collect();
        let by_anchor = self.space.naming == Naming::Anchor;
        let is_known = found.is_some();
        let number = self.numbers.next().unwrap_or_default();
        let id = found.as_ref().map_or(CsId(number), |object| object.id);
        let references = self.make_references(change, id);
        let mut object = CsObject {
            id,
            agent: self.space.id,
            anchor: change.anchor.filter(|_| by_anchor && !waits),
            dn: change.dn.clone(),
            name: self.space.naming.hash(&change.dn).filter(|_| !waits),
            state: found.as_ref().map_or(State::Candidate, |object| object.state),
            mv: found.as_ref().and_then(|object| object.mv),
            synchronized: None,
            pending_import: None,
            pending_export: Some(PendingExport {
                attributes,
                references: references.then_some(Phase::Unapplied),
                ..PendingExport::new(Change::Add)
            }),
            has_failed: false,
        };
        self.inverse.restored.0.entry(id).or_default().is_whole = true;
        self.reconnect(&mut object);
        if is_known {
            return self.put(object);
        }
        self.inverse.anew.insert(change.id, id);
        self.writes.push(Write::NewCs(object.clone()));
        self.objects.insert(id, object);
    }

    /// Stages the references of an object that is made again. Returns whether it has any.
    fn make_references(&mut self, change: &LoggedChange, id: CsId) -> bool {
        let mut wanted: HashMap<_, &Vec<u8>> = HashMap::new();
        for of in &change.references {
            let values = of.removed.iter();
            wanted.extend(values.map(|value| ((of.attribute, self.space.naming.target(value)), value)));
        }
        let known = self.references.remove(&id).unwrap_or_default();
        for before in known.iter().filter(|known| !wanted.contains_key(&(known.attribute, known.target))) {
            let gone =
                Reference { is_synchronized: false, is_imported: false, export: None, ..before.clone() };
            self.writes.push(Write::Reference(gone));
        }
        let made: Vec<Reference> = wanted
            .into_iter()
            .map(|((attribute, target), value)| Reference {
                value: value.clone(),
                export: Some((ReferenceChange::There, Phase::Unapplied)),
                ..bare(id, self.space, attribute, target)
            })
            .collect();
        let has = !made.is_empty();
        self.writes.extend(made.iter().cloned().map(Write::Reference));
        self.references.insert(id, made);
        if has {
            self.writes.push(Write::Due(id));
        }
        has
    }

    /// Whether the system assigns the values of an attribute: they cannot be restored.
    fn is_assigned(&self, attribute: Attribute) -> bool {
        self.space.naming != Naming::Anchor
            && self.space.anchor.contains(&attribute)
            && !self.space.written.contains(&attribute)
    }

    fn put(&mut self, object: CsObject) {
        self.writes.push(Write::Cs(object.clone()));
        self.objects.insert(object.id, object);
    }
}

/// A reference of which nothing is known.
fn bare(cs: CsId, space: &AgentRules, attribute: Attribute, target: IndexKey) -> Reference {
    Reference {
        cs,
        agent: space.id,
        attribute,
        target,
        value: Vec::new(),
        is_synchronized: false,
        is_imported: false,
        export: None,
    }
}

/// Whether an object was deleted, or a deletion is pending.
fn is_ending(object: &CsObject) -> bool {
    object.pending_import == Some(PendingImport::Delete)
        || object.pending_export.as_ref().is_some_and(|export| export.change == Change::Delete)
}

fn shown(values: Values<'_>) -> String {
    let all: Vec<String> = values.iter().map(crate::preview::shown).collect();
    if all.is_empty() { "nothing".into() } else { all.join(", ") }
}
