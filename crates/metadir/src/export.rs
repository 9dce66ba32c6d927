//! Export: sends the pending changes to the connected system, always as differences.
//!
//! A change is recorded as sent only when its batch is committed. After a crash before the commit it is sent
//! again, so agents make every change idempotent. Nothing is marked before it is sent, because no code would
//! use the mark.
//!
//! If one change depends on another, the other is sent before it, in an earlier batch. An object depends on
//! the object above it in the hierarchy and on the objects it refers to. Objects that refer to each other are
//! added first; their references follow.
//!
//! While the system works on one batch, the results of the previous batch are stored and the next batch is
//! prepared. So after a crash the store lacks the results of at most two batches. If the next batch depends
//! on the results of the current one, it waits. It waits as a whole when names change or an object may be in
//! both batches; otherwise only those of its objects wait that refer to an object of the current batch.

mod due;
mod names;
mod plan;
mod record;
pub(crate) mod selection;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use self::names::NameMove;
use self::plan::Plan;
use self::record::Refusal;
use self::selection::{Parked, Selection};
use crate::Interrupt;
use crate::agent::{Agent, AgentError, ChangedValues, ExportedObject, Names, Refused};
use crate::config::Threshold;
use crate::existing::Answered;
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::naming::{Moves, Naming};
use crate::object::{
    Change, CsId, CsObject, MvId, MvObject, PendingAttribute, PendingExport, Phase, Reference,
    ReferenceChange, Rename, phase_of,
};
use crate::observer::Observer;
use crate::rules::{AgentRules, Rules};
use crate::stage::StepError;
use crate::statistics::Statistics;
use crate::store::{LookupKey, ObjectError, Population, ReferenceTarget, Store, Write, of_each, parts};
use crate::trail::Recorder;
use crate::write_only::{DueValue, Transmission};

/// The result of an export.
#[derive(Debug, Default)]
pub struct Exported {
    /// Counters.
    pub statistics: Statistics,
    /// The first objects that the system refused, with the reasons.
    pub refused: Vec<ObjectError>,
    /// Receives what is done.
    pub(crate) observer: Observer,
}

/// Limit of the refusals that are kept for display.
const REFUSALS_KEPT: usize = 100;

/// Limit of the references between objects to be added for which the dependency order is computed: 32 MiB.
const WAITS_AT_ONCE: usize = 2_000_000;

/// Sends the pending changes of a connector space. `done` has what was reached, also after an error.
///
/// # Errors
/// When the store or the system fails, a threshold is reached, or the export is interrupted. Committed work
/// is kept.
#[allow(clippy::too_many_arguments, reason = "everything that an export depends on")]
pub(crate) fn export(
    store: &mut dyn Store,
    rules: &Rules,
    space: &AgentRules,
    names: &Names,
    agent: &mut dyn Agent,
    is_preview: bool,
    interrupt: &Interrupt,
    batch_objects: usize,
    deletes: Threshold,
    selection: &Selection<'_>,
    done: &mut Exported,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), StepError> {
    let most = deletes.most(store.count_imported(space.id)?);
    let with_references = match selection {
        Selection::Restored(_) => !space.references.is_empty(),
        Selection::All | Selection::NotHeld(_) => space.gets_references,
    };
    let mut is_ordered = space.naming == Naming::Dn || with_references;
    let mut plan = Plan::new(store, space, selection, batch_objects, is_ordered)?;
    if plan.names_change_hands() && !is_ordered {
        is_ordered = true;
        plan = Plan::new(store, space, selection, batch_objects, is_ordered)?;
    }
    if plan.count_deletes > most {
        return Err(StepError::Threshold(format!(
            "{0} objects would be deleted in the connected system, more than the {most} that safety.export allows; \
            `plimsoll metadir preview` with --allow-deletes {0} lists them, and `run` with it carries it out once",
            plan.count_deletes
        )));
    }
    // Smaller pieces shorten the wait at the beginning and at the end, where only one of the two threads
    // works.
    let pieces = batch_objects.div_ceil(agent.piece_objects().max(1)).max(1);
    let piece = batch_objects.div_ceil(pieces).max(1);
    let (takes_changed_values, wants_image) = (agent.takes_changed_values(), agent.wants_image());
    let renames = agent.capabilities().rename;
    std::thread::scope(|scope| {
        let (to_agent, batches) = sync_channel::<(Vec<ExportedObject>, Vec<DueValue<'_>>)>(1);
        let (answered, answers) = sync_channel(1);
        let mut transmission = Transmission::new(space, names, interrupt.clone());
        let speaking = scope.spawn(move || {
            for (changes, due) in batches {
                let answer = transmission.send(agent, &changes, due);
                if answered.send((changes, answer)).is_err() {
                    break;
                }
            }
        });
        let mut sender = Sender {
            store,
            rules,
            is_preview,
            space,
            selection,
            with_references,
            takes_changed_values,
            wants_image,
            renames,
            moves: std::mem::take(&mut plan.moves),
            names,
            secret: names.iter().filter(|(name, _)| space.secrets.hides(name)).map(|(_, of)| of).collect(),
            held: std::mem::take(&mut plan.held),
            heirs: std::mem::take(&mut plan.heirs),
            referring: BTreeSet::new(),
            due: Vec::new(),
            previewed: Vec::new(),
            followed: HashSet::new(),
            postponed: Vec::new(),
            is_repeating: false,
            done,
            batch_objects: batch_objects as u64,
            count: 0,
            written: 0,
            committed: 0,
            progress,
            to_agent,
            answers,
            underway: None,
        };
        sender.done.statistics.count_many("export-held", sender.held.len() as u64);
        let sent = if is_ordered { sender.in_order(&plan, piece) } else { sender.as_they_are(piece) };
        let sent = sent.and_then(|()| sender.send_postponed());
        let ended = match sent.and_then(|()| sender.finish()) {
            // Changes that are under way cannot be withdrawn: their results are stored.
            Err(StepError::Interrupted) => sender.finish().and(Err(StepError::Interrupted)),
            // Answers that arrived before the error are valid.
            Err(error @ StepError::Agent(_)) => {
                sender.store.commit().map_err(StepError::from).and(Err(error))
            }
            ended => ended,
        };
        let ended = ended.and_then(|()| match selection {
            // What no export wants to send any more is not held.
            Selection::NotHeld(number) => {
                sender.store.trail().drop_unmet_holds(space.id, *number)?;
                Ok(sender.store.commit()?)
            }
            Selection::All | Selection::Restored(_) => Ok(()),
        });
        // No more batches follow, so the thread ends.
        drop(sender);
        speaking.join().map_err(|_| gone())?;
        ended
    })
}

/// Which objects of a batch are sent.
#[derive(Clone, Copy)]
enum BatchSelection {
    /// All; an object to be added is sent without the references whose targets do not exist yet.
    All,
    /// All except objects to be added whose reference targets do not exist yet.
    Whole,
    /// Objects that exist in the system.
    Made,
    /// All; they get temporary names.
    Temporary,
}

/// An object that waits for its reference targets.
struct WaitingObject {
    id: CsId,
    name: Option<IndexKey>,
}

struct Sender<'a> {
    store: &'a mut dyn Store,
    rules: &'a Rules,
    /// Whether nothing is sent.
    is_preview: bool,
    space: &'a AgentRules,
    selection: &'a Selection<'a>,
    /// Whether the references of objects are needed.
    with_references: bool,
    /// Objects of which something is held.
    held: HashSet<CsId>,
    /// New objects, by the objects whose names they get.
    heirs: HashMap<CsId, Vec<CsId>>,
    /// Objects with references to renamed objects, to be sent at the end.
    referring: BTreeSet<CsId>,
    /// Objects whose references must be evaluated, because they lead to new objects that got a name.
    due: Vec<CsId>,
    /// In a preview: the new names of objects, and the new objects whose references lead to these names already.
    previewed: Vec<NameMove>,
    followed: HashSet<CsId>,
    /// Refused changes whose unique values other objects have, to be sent again at the end.
    postponed: Vec<Refusal>,
    /// Whether the objects that are sent are counted already, or will be.
    is_repeating: bool,
    takes_changed_values: bool,
    wants_image: bool,
    renames: bool,
    moves: Moves,
    names: &'a Names,
    /// Attributes whose values are not stored in the trail.
    secret: HashSet<Attribute>,
    done: &'a mut Exported,
    /// Number of objects that are committed together.
    batch_objects: u64,
    /// Objects that are finished or under way; those whose results are written; and those whose results are
    /// committed.
    count: u64,
    written: u64,
    committed: u64,
    progress: &'a mut dyn FnMut(u64) -> bool,
    to_agent: SyncSender<(Vec<ExportedObject>, Vec<DueValue<'a>>)>,
    answers: Receiver<(Vec<ExportedObject>, Result<Answered, AgentError>)>,
    underway: Option<Batch<'a>>,
}

/// The results of a batch: its writes, the number of objects finished after it, and the accepted changes.
struct Settled {
    writes: Vec<Write>,
    count: u64,
    changes: Recorder,
    /// The objects that have new names.
    moved: Vec<NameMove>,
    /// The objects that gave up names for new objects.
    freed: Vec<CsId>,
}

/// A batch that is being sent.
#[derive(Default)]
struct Batch<'a> {
    /// Whether the objects get temporary names.
    is_temporary: bool,
    objects: Vec<(CsObject, Vec<Reference>, Option<Parked>)>,
    changes: Vec<ExportedObject>,
    /// The values that are never read, for these changes.
    due: Vec<DueValue<'a>>,
    /// The metaverse objects whose values some of them come from.
    mvs: HashMap<MvId, MvObject>,
    /// Keys of the objects that do not exist yet and that others wait for.
    missing: HashSet<IndexKey>,
    /// Writes for objects other than the ones that are sent.
    writes: Vec<Write>,
    /// Those of them that were renamed together with an object above them.
    moved: Vec<NameMove>,
    /// Number of finished objects after this batch, including earlier batches.
    count: u64,
}

/// The targets of new references, by their keys, as far as they are known.
#[derive(Default)]
struct Targets {
    known: HashMap<IndexKey, Option<ReferenceTarget>>,
    /// Whether unknown targets count as existing: an undo restores values that the system had.
    by_value: bool,
}

impl Targets {
    /// Targets that are not in the system yet, or no longer under their known name. While names change, every
    /// target may become one of these.
    fn missing(&self, which: BatchSelection) -> HashSet<IndexKey> {
        let is_there = |found: &ReferenceTarget| match (found.is_made, found.rename, which) {
            (false, ..) => false,
            // From the export of a new name on, an object is found by that name.
            (_, Some(Phase::Unapplied), BatchSelection::Made) | (_, Some(Phase::Unconfirmed) | None, _) => {
                true
            }
            (_, Some(Phase::Unapplied), _) => false,
        };
        let missing = self.known.iter().filter(|(_, found)| !found.as_ref().map_or(self.by_value, is_there));
        missing.map(|(target, _)| *target).collect()
    }

    /// Targets that are among the given objects.
    fn among(&self, objects: &HashSet<CsId>) -> HashSet<IndexKey> {
        let among =
            self.known.iter().filter(|(_, found)| found.is_some_and(|found| objects.contains(&found.id)));
        among.map(|(target, _)| *target).collect()
    }
}

impl<'a> Sender<'a> {
    fn as_they_are(&mut self, batch_objects: usize) -> Result<(), StepError> {
        let mut after = CsId(0);
        loop {
            let objects = self.store.cs_after(self.space.id, after, batch_objects, Population::Exporting)?;
            let Some(last) = objects.last() else { return Ok(()) };
            after = last.id;
            self.send(objects, HashMap::new(), BatchSelection::All)?;
        }
    }

    fn in_order(&mut self, plan: &Plan, batch_objects: usize) -> Result<(), StepError> {
        // Objects that are added without references whose targets do not exist yet.
        let mut partly = Vec::new();
        // Objects that wait for others and have none below them, by depth. They are deferred to the end,
        // because their targets may be deeper: a group may be above its members.
        let mut waiting: BTreeMap<usize, Vec<CsId>> = BTreeMap::new();
        self.free_names(plan, batch_objects)?;
        for (position, ids) in &plan.made {
            let layers =
                if position.is_renaming { vec![ids.clone()] } else { self.layers(ids, batch_objects)? };
            for mut left in layers {
                while !left.is_empty() {
                    let held = self.batches(&left, batch_objects, BatchSelection::Whole)?;
                    let is_stuck = held.len() == left.len();
                    left = held.iter().map(|held| held.id).collect();
                    if !is_stuck {
                        continue;
                    }
                    let (above, others): (Vec<WaitingObject>, Vec<WaitingObject>) = held
                        .into_iter()
                        .partition(|held| held.name.is_some_and(|name| plan.stands_above.contains(&name)));
                    let above: Vec<CsId> = above.iter().map(|held| held.id).collect();
                    left = others.iter().map(|held| held.id).collect();
                    if above.is_empty() {
                        waiting.entry(position.depth()).or_default().append(&mut left);
                    }
                    self.batches(&above, batch_objects, BatchSelection::All)?;
                    partly.extend(above);
                }
            }
            self.end_step(plan)?;
        }
        while !waiting.is_empty() {
            let mut is_stuck = true;
            for ids in waiting.values_mut().rev() {
                let held = self.batches(ids, batch_objects, BatchSelection::Whole)?;
                is_stuck &= held.len() == ids.len();
                *ids = held.iter().map(|held| held.id).collect();
            }
            waiting.retain(|_, ids| !ids.is_empty());
            // The objects refer to each other or to refused objects. The deepest come first: persons refer to
            // each other, and groups to persons.
            if is_stuck && let Some((_, ids)) = waiting.pop_last() {
                self.batches(&ids, batch_objects, BatchSelection::All)?;
                partly.extend(ids);
            }
        }
        // The objects that were added in part are still under way.
        self.drain()?;
        self.evaluate_due()?;
        self.follow_previewed()?;
        // Of an object that comes twice, nothing is left to be sent.
        let referring: Vec<CsId> = std::mem::take(&mut self.referring).into_iter().collect();
        for ids in [&plan.changed, &partly, &referring] {
            if !referring.is_empty() {
                self.drain()?;
            }
            self.batches(ids, batch_objects, BatchSelection::Made)?;
        }
        for ids in plan.deleted.values() {
            self.drain()?;
            self.batches(ids, batch_objects, BatchSelection::All)?;
        }
        for ids in plan.made_last.values() {
            self.end_step(plan)?;
            self.batches(ids, batch_objects, BatchSelection::All)?;
        }
        self.drain()?;
        self.evaluate_due()?;
        self.follow_previewed()?;
        let referring: Vec<CsId> = std::mem::take(&mut self.referring).into_iter().collect();
        self.batches(&referring, batch_objects, BatchSelection::Made)?;
        Ok(())
    }

    /// Sends objects in batches. Returns those that must be sent whole and cannot be sent yet.
    fn batches(
        &mut self,
        ids: &[CsId],
        batch_objects: usize,
        which: BatchSelection,
    ) -> Result<Vec<WaitingObject>, StepError> {
        let mut held = Vec::new();
        for batch in ids.chunks(batch_objects) {
            held.extend(self.batch(batch, which)?);
        }
        Ok(held)
    }

    /// Divides objects to be added, in ascending order, into layers. As far as possible, the targets of an
    /// object exist already or are in an earlier layer, so each object is read once.
    fn layers(&mut self, ids: &[CsId], batch_objects: usize) -> Result<Vec<Vec<CsId>>, StepError> {
        if !self.with_references {
            return Ok(vec![ids.to_vec()]);
        }
        // Index of an object that another waits for, and index of the waiting object.
        let mut waits: Vec<(usize, usize)> = Vec::new();
        let mut counts = vec![0_u32; ids.len()];
        for batch in ids.chunks(batch_objects) {
            for part in parts(self.store, batch, true)? {
                let references = of_each(self.store, part, true)?;
                let targets = self.targets(&references)?;
                for (id, of) in references {
                    let Ok(at) = ids.binary_search(&id) else { continue };
                    for reference in of.iter().filter(|of| of.is_unapplied()) {
                        let found = targets.known.get(&reference.target).copied().flatten();
                        let awaited = found.filter(|found| !found.is_made && found.id != id);
                        let Some(Ok(awaited)) = awaited.map(|found| ids.binary_search(&found.id)) else {
                            continue;
                        };
                        if waits.len() < WAITS_AT_ONCE {
                            waits.push((awaited, at));
                            counts[at] = counts[at].saturating_add(1);
                        } else {
                            // It is in the last layer.
                            counts[at] = u32::MAX;
                        }
                    }
                }
            }
        }
        waits.sort_unstable();
        let mut layers = Vec::new();
        let mut layer: Vec<usize> = (0..ids.len()).filter(|at| counts[*at] == 0).collect();
        let mut is_placed = vec![false; ids.len()];
        while !layer.is_empty() {
            let mut next = Vec::new();
            for awaited in &layer {
                is_placed[*awaited] = true;
                let begin = waits.partition_point(|(of, _)| of < awaited);
                for (_, at) in waits[begin..].iter().take_while(|(of, _)| of == awaited) {
                    if counts[*at] == u32::MAX {
                        continue;
                    }
                    counts[*at] -= 1;
                    if counts[*at] == 0 {
                        next.push(*at);
                    }
                }
            }
            next.sort_unstable();
            layers.push(layer.iter().map(|at| ids[*at]).collect());
            layer = next;
        }
        let left: Vec<CsId> = (0..ids.len()).filter(|at| !is_placed[*at]).map(|at| ids[at]).collect();
        layers.extend((!left.is_empty()).then_some(left));
        Ok(layers)
    }

    /// Sends a batch. Returns the objects that must be sent whole and cannot be sent yet.
    fn batch(&mut self, ids: &[CsId], which: BatchSelection) -> Result<Vec<WaitingObject>, StepError> {
        let mut held = Vec::new();
        for part in parts(self.store, ids, self.with_references)? {
            let objects = self.store.cs(part)?;
            let references = of_each(self.store, part, self.with_references)?;
            held.extend(self.send(objects, references, which)?);
        }
        Ok(held)
    }

    /// The targets of new references.
    fn targets(&mut self, references: &HashMap<CsId, Vec<Reference>>) -> Result<Targets, StepError> {
        let wanted = references.values().flatten();
        let wanted = wanted.filter(|of| of.export == Some((ReferenceChange::There, Phase::Unapplied)));
        let targets: HashSet<IndexKey> = wanted.map(|of| of.target).collect();
        let targets: Vec<IndexKey> = targets.into_iter().collect();
        let by = if self.space.naming.refers_by_name() { LookupKey::Name } else { LookupKey::Anchor };
        let found = self.store.find(self.space.id, by, &targets)?;
        let by_value = matches!(self.selection, Selection::Restored(_));
        // A placeholder need not be an object.
        let is_free = |target: &IndexKey| self.space.placeholders.iter().any(|(_, free)| free == target);
        let known = targets.into_iter().zip(found);
        let known = known.filter(|(target, found)| found.is_some() || !is_free(target));
        Ok(Targets { known: known.collect(), by_value })
    }

    /// Prepares objects while the batch before them is under way, and sends them when it is answered. Returns
    /// those that must be sent whole and cannot be sent yet.
    fn send(
        &mut self,
        mut objects: Vec<CsObject>,
        mut references: HashMap<CsId, Vec<Reference>>,
        which: BatchSelection,
    ) -> Result<Vec<WaitingObject>, StepError> {
        self.load_deleted(&objects, &mut references)?;
        let mut parked = self.part(&mut objects, &mut references)?;
        let mut targets = self.targets(&references)?;
        let open = match &self.underway {
            Some(underway) if !targets.known.is_empty() => {
                targets.among(&underway.objects.iter().map(|(object, ..)| object.id).collect())
            }
            _ => HashSet::new(),
        };
        let (mut batch, mut held, mut later) = (Batch::default(), Vec::new(), Vec::new());
        batch.is_temporary = matches!(which, BatchSelection::Temporary);
        batch.missing = targets.missing(which);
        batch.mvs = self.metaverse_objects(&objects)?;
        for object in objects {
            let of = references.remove(&object.id).unwrap_or_default();
            if of.iter().any(|of| is_held(of, &open)) {
                later.push((object, of));
            } else {
                let parked = parked.remove(&object.id);
                held.extend(self.prepare(object, of, parked, which, &mut batch));
            }
        }
        let settled = self.settle(&mut targets)?;
        batch.missing = targets.missing(which);
        for (object, of) in later {
            let parked = parked.remove(&object.id);
            held.extend(self.prepare(object, of, parked, which, &mut batch));
        }
        batch.count = self.count;
        let is_renaming = batch.changes.iter().any(|change| change.new_dn.is_some());
        if !batch.changes.is_empty() {
            let sent = (std::mem::take(&mut batch.changes), std::mem::take(&mut batch.due));
            self.to_agent.send(sent).map_err(|_| gone())?;
        }
        if !batch.objects.is_empty() || !batch.writes.is_empty() {
            self.underway = Some(batch);
        }
        self.keep(settled)?;
        // The following objects may have other names after this batch.
        if is_renaming {
            self.drain()?;
        }
        Ok(held)
    }

    /// Removes from the pending changes of objects what is not sent.
    fn part(
        &mut self,
        objects: &mut Vec<CsObject>,
        references: &mut HashMap<CsId, Vec<Reference>>,
    ) -> Result<HashMap<CsId, Parked>, StepError> {
        let parked = self.selection.part(self.store, self.space, objects, references)?;
        if let Selection::NotHeld(_) = self.selection {
            for id in parked.keys() {
                if self.held.insert(*id) {
                    self.done.statistics.count("export-held");
                }
            }
        }
        Ok(parked)
    }

    /// Loads the references of objects that are to be deleted, for the trail, where an export needs no others.
    fn load_deleted(
        &mut self,
        objects: &[CsObject],
        references: &mut HashMap<CsId, Vec<Reference>>,
    ) -> Result<(), StepError> {
        if self.with_references || self.space.references.is_empty() {
            return Ok(());
        }
        let is_deleted = |object: &&CsObject| {
            object.pending_export.as_ref().is_some_and(|export| export.change == Change::Delete)
        };
        let ids: Vec<CsId> = objects.iter().filter(is_deleted).map(|object| object.id).collect();
        if !ids.is_empty() {
            references.extend(of_each(self.store, &ids, true)?);
        }
        Ok(())
    }

    /// Adds an object to a batch. Returns it if it must be sent whole and cannot be sent yet.
    fn prepare(
        &mut self,
        object: CsObject,
        of: Vec<Reference>,
        parked: Option<Parked>,
        which: BatchSelection,
        batch: &mut Batch<'a>,
    ) -> Option<WaitingObject> {
        let export = object.pending_export.as_ref().filter(|export| export.is_unapplied())?;
        let is_new = export.is_not_made();
        match which {
            BatchSelection::Whole if is_new && of.iter().any(|of| is_held(of, &batch.missing)) => {
                return Some(WaitingObject { id: object.id, name: object.name });
            }
            BatchSelection::Made if is_new => return None,
            _ => {}
        }
        let change = match which {
            BatchSelection::Temporary => self.temporary(&object)?,
            _ => self.exported(&object, &of, &batch.missing)?,
        };
        self.count += u64::from(!self.is_repeating);
        if let Some(why) = self.lacks_name(&object) {
            self.refuse(&object, Refused(why), "export-failure", None, &mut batch.writes);
            return None;
        }
        let due = match self.due_values(&object, &change, batch) {
            Ok(due) => due,
            Err(why) => {
                self.refuse(&object, Refused(why), "export-failure", None, &mut batch.writes);
                return None;
            }
        };
        if change.new_dn.is_some() && !self.renames {
            let why = "the name of the object changed, but this system cannot rename objects";
            self.refuse(&object, Refused(why.into()), "export-failure", None, &mut batch.writes);
        } else if is_nothing(&change) && due.is_empty() {
            // It was renamed together with an object above it.
            let moved = accept(self.space, object, of, parked, &batch.missing, false, &mut batch.writes);
            batch.moved.extend(moved);
        } else {
            batch.objects.push((object, of, parked));
            batch.changes.push(change);
            batch.due.extend(due);
        }
        None
    }

    /// Waits for the batch under way. Returns its results. Objects
    /// that it added count as existing from now on.
    fn settle(&mut self, targets: &mut Targets) -> Result<Option<Settled>, StepError> {
        let Some(batch) = self.underway.take() else { return Ok(None) };
        let Batch { objects, missing, mut writes, count, mut moved, is_temporary, .. } = batch;
        let mut freed = Vec::new();
        if objects.is_empty() {
            return Ok(Some(Settled { writes, count, changes: Recorder::default(), moved, freed }));
        }
        let (changes, answers) = self.answers.recv().map_err(|_| gone())?;
        writes.reserve(objects.len());
        let mut made = HashSet::new();
        let Answered { answers, reported, conflicts, adopted, undelivered, .. } = answers?;
        let mut recorder = Recorder::default();
        for (at, (((object, of, parked), answer), change)) in
            objects.into_iter().zip(answers).zip(changes).enumerate()
        {
            if let Err(refused) = answer {
                let counter = if reported.contains(&at) { "existing-object" } else { "export-failure" };
                let refusal = self.refusal(&object, refused, counter, Some(&change));
                match conflicts.binary_search(&at).is_ok() {
                    true => self.postponed.push(refusal),
                    false => self.record_refusal(refusal, &mut writes),
                }
                continue;
            }
            if is_temporary {
                moved.extend(self.accept_temporary(object, parked, &change, &mut writes));
                continue;
            }
            if self.heirs.contains_key(&object.id) {
                freed.push(object.id);
            }
            self.done.statistics.count(match change.change {
                _ if change.new_dn.is_some() => "export-rename",
                Change::Add => "export-add",
                Change::Update => "export-update",
                Change::Delete => "export-delete",
            });
            if let Some(new) = &change.new_dn {
                self.moves.add(&object.dn, new);
                if object.is_temporarily_named() {
                    self.moves.add(&change.dn, new);
                }
            }
            if !targets.known.is_empty() {
                made.insert(object.id);
            }
            let before = adopted.iter().find(|(place, _)| *place == at).map(|(_, image)| image);
            self.record(&mut recorder, &object, &of, &change, before, &missing);
            match undelivered.iter().find(|(of, _)| *of == at) {
                None => moved.extend(accept(self.space, object, of, parked, &missing, false, &mut writes)),
                Some((_, why)) => {
                    let of_object = object.clone();
                    moved.extend(accept(self.space, of_object, of, parked, &missing, true, &mut writes));
                    self.refuse(&object, Refused(why.clone()), "export-failure", None, &mut writes);
                }
            }
        }
        for found in targets.known.values_mut().flatten() {
            found.is_made |= made.contains(&found.id);
        }
        Ok(Some(Settled { writes, count, changes: recorder, moved, freed }))
    }

    /// Stores the results of a batch.
    fn keep(&mut self, settled: Option<Settled>) -> Result<(), StepError> {
        let Some(Settled { mut writes, count, changes, moved, freed }) = settled else { return Ok(()) };
        self.take_names(&moved, &mut writes)?;
        self.store.write(&writes)?;
        self.follow(moved)?;
        self.hand_over(&freed)?;
        if let Some((ids, changes)) = changes.finish() {
            self.store.trail().keep_changes(self.space.id, &ids, &changes)?;
        }
        self.written = count;
        if self.written - self.committed < self.batch_objects { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<(), StepError> {
        self.store.commit()?;
        self.committed = self.written;
        self.done.observer.counted(&self.done.statistics);
        if (self.progress)(self.committed) { Ok(()) } else { Err(StepError::Interrupted) }
    }

    /// Waits for the batch under way and stores its results.
    fn drain(&mut self) -> Result<(), StepError> {
        let settled = self.settle(&mut Targets::default())?;
        self.keep(settled)
    }

    /// Does the same as [`Self::drain`] and commits.
    fn finish(&mut self) -> Result<(), StepError> {
        self.drain()?;
        if self.written > self.committed { self.commit() } else { Ok(()) }
    }

    /// The change to be sent for an object; none if all parts of it wait for others.
    fn exported(
        &self,
        object: &CsObject,
        references: &[Reference],
        missing: &HashSet<IndexKey>,
    ) -> Option<ExportedObject> {
        let export = object.pending_export.as_ref()?;
        // An object that no import has shown yet was sent with all its values.
        let is_read = |pending: &PendingAttribute<'_>| !self.space.is_write_only(pending.attribute);
        let read = || export.attributes.iter().filter(is_read);
        let sent = || read().map(|pending| (pending.attribute, pending.values.to_vec())).collect();
        let unapplied = read().filter(|pending| pending.phase == Phase::Unapplied);
        let mut attributes: Vec<_> =
            unapplied.map(|pending| (pending.attribute, pending.values.to_vec())).collect();
        let change = match (export.change, export.phase) {
            // It exists already; only the changes since then are sent.
            (Change::Add, Phase::Unconfirmed) => Change::Update,
            (change, _) => change,
        };
        let mut changed_values = Vec::new();
        if change != Change::Delete {
            for of_attribute in references.chunk_by(|one, other| one.attribute == other.attribute) {
                match changes_of(of_attribute, missing) {
                    None => {}
                    Some(changes) if change == Change::Update && self.takes_changed_values => {
                        changed_values.push(changes);
                    }
                    Some(changes) => attributes.push((changes.attribute, all_of(of_attribute, missing))),
                }
            }
            attributes.sort_by_key(|(attribute, _)| *attribute);
        }
        let (dn, new_dn) = match &export.rename {
            Some(Rename { dn, phase: Phase::Unconfirmed }) => (dn.clone(), None),
            rename => {
                let dn = self.current_name(object);
                let new = rename.as_ref().map(|rename| rename.dn.clone());
                let naming = self.space.naming;
                (dn.clone(), new.filter(|new| naming.hash(new) != naming.hash(&dn)))
            }
        };
        let is_renamed = export.rename.as_ref().is_some_and(|rename| rename.phase == Phase::Unapplied);
        let is_due = |pending: PendingAttribute<'_>| !is_read(&pending) && pending.phase == Phase::Unapplied;
        let is_due = export.attributes.iter().any(is_due);
        let is_empty = attributes.is_empty() && changed_values.is_empty() && !is_renamed && !is_due;
        (change != Change::Update || !is_empty).then_some(ExportedObject {
            change,
            anchor: object.anchor,
            dn,
            new_dn,
            attributes,
            changed_values,
            adopts: false,
            written: match is_renamed {
                true => self.written(object, export),
                false => Vec::new(),
            },
            image: match self.wants_image {
                true => object.image().cloned().unwrap_or_else(sent),
                false => Hologram::default(),
            },
        })
    }
}

impl Sender<'_> {
    /// The attributes that rules write, with the values that an object is to have.
    fn written(&self, object: &CsObject, export: &PendingExport) -> Vec<(Attribute, Vec<Vec<u8>>)> {
        let image = object.image().or(object.synchronized.as_ref());
        let values = |attribute| match export.attributes.get(attribute) {
            Some(pending) => pending.values.to_vec(),
            None => image.and_then(|image| image.get(attribute)).map(|of| of.to_vec()).unwrap_or_default(),
        };
        self.space.written.iter().map(|attribute| (*attribute, values(*attribute))).collect()
    }
}

/// The error when the thread of the agent ended early.
fn gone() -> StepError {
    AgentError::system("sending changes", "a thread panicked").into()
}

fn is_nothing(change: &ExportedObject) -> bool {
    change.change == Change::Update
        && change.new_dn.is_none()
        && change.attributes.is_empty()
        && change.changed_values.is_empty()
}

/// Records that the system made a change: the next import is to confirm it. `is_again` is whether the values that are
/// never read are to be sent again. Returns its new name.
fn accept(
    space: &AgentRules,
    mut object: CsObject,
    mut of: Vec<Reference>,
    parked: Option<Parked>,
    missing: &HashSet<IndexKey>,
    is_again: bool,
    writes: &mut Vec<Write>,
) -> Option<NameMove> {
    let mut moved = None;
    let export = object.pending_export.as_mut()?;
    export.phase = Phase::Unconfirmed;
    let is_add = export.change == Change::Add;
    export.attributes.retain(|of| match space.is_write_only(of.attribute) {
        true if is_again => Some(Phase::Unapplied),
        // If an import does not show the object, it is made again, with a value.
        true => is_add.then_some(Phase::Unconfirmed),
        false => Some(Phase::Unconfirmed),
    });
    if let Some(rename) = export.rename.as_mut().filter(|rename| rename.phase == Phase::Unapplied) {
        rename.phase = Phase::Unconfirmed;
        let name = space.naming.hash(&rename.dn);
        moved = NameMove::new(object.id, object.name, name, &rename.dn);
        object.name = name;
    }
    if export.references.is_some() {
        let is_sent = |of: &&mut Reference| of.is_unapplied() && !is_held(of, missing);
        for reference in of.iter_mut().filter(is_sent) {
            reference.export = reference.export.map(|(wanted, _)| (wanted, Phase::Unconfirmed));
            writes.push(Write::Reference(reference.clone()));
        }
        export.references = phase_of(&of);
    }
    if let Some(parked) = parked {
        parked.restore(&mut object);
    }
    if let Some(export) = object.pending_export.as_mut().filter(|export| !export.is_unapplied()) {
        export.since_unix_s = None;
    }
    if object.has_failed {
        writes.push(Write::Failure { id: object.id, why: None });
    }
    // No import confirms a value that is never read.
    object.pending_export = object.pending_export.filter(|export| !export.is_empty());
    writes.push(Write::Cs(object));
    moved
}

/// Whether a reference waits for its target.
fn is_held(reference: &Reference, missing: &HashSet<IndexKey>) -> bool {
    reference.export == Some((ReferenceChange::There, Phase::Unapplied))
        && missing.contains(&reference.target)
}

/// The changes to an attribute that refers to other objects; none if nothing changes.
fn changes_of(references: &[Reference], missing: &HashSet<IndexKey>) -> Option<ChangedValues> {
    let attribute: Attribute = references.first()?.attribute;
    let unapplied = references.iter().filter(|of| of.is_unapplied() && !is_held(of, missing));
    let (added, removed): (Vec<&Reference>, Vec<&Reference>) =
        unapplied.partition(|of| matches!(of.export, Some((ReferenceChange::There, _))));
    let values = |of: Vec<&Reference>| of.into_iter().map(|of| of.value.clone()).collect::<Vec<_>>();
    let changes = ChangedValues { attribute, added: values(added), removed: values(removed) };
    (!changes.added.is_empty() || !changes.removed.is_empty()).then_some(changes)
}

/// All values that a reference attribute is to have, in ascending order, without those whose targets are
/// missing.
fn all_of(references: &[Reference], missing: &HashSet<IndexKey>) -> Vec<Vec<u8>> {
    let there = references.iter().filter(|of| of.will_be_there() && !is_held(of, missing));
    let mut values: Vec<Vec<u8>> = there.map(|of| of.value.clone()).collect();
    values.sort_unstable();
    values
}
