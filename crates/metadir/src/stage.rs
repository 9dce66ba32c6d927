//! Staging: writes the result of an import into the connector space, and nowhere else.

pub(crate) mod guard;
mod temporary;

use std::collections::{HashMap, HashSet};

use crate::agent::{DiscoveryError, Import, Imported, ImportedObject, Names};
use crate::existing::is_pending;
use crate::hologram::{Attribute, Builder, Hologram};
use crate::index_key::IndexKey;
use crate::object::{
    Change, CsId, CsObject, PendingExport, PendingImport, Phase, Reference, ReferenceChange, State, phase_of,
};
use crate::observer::Observer;
use crate::rules::{AgentRules, Rules};
use crate::statistics::Statistics;
use crate::store::{
    Failure, FailureKind, Head, LookupKey, ObjectError, Population, ReferenceTarget, Store, StoreError,
    Write, of_each, parts,
};

/// Limit of the source errors that are kept for display.
pub const ERRORS_KEPT: usize = 100;

/// Number of batches that are read ahead and sorted together.
const WINDOW_BATCHES: usize = 4;
/// Number of batches that wait for staging.
const BATCHES_AHEAD: usize = 2;

/// The result of a full import.
#[derive(Debug, Default)]
pub struct Staged {
    /// Counters.
    pub statistics: Statistics,
    /// The first errors of the source.
    pub errors: Vec<DiscoveryError>,
    /// The number of the import among those whose discovery errors are stored.
    pub(crate) discovery: u64,
    /// Receives what is done.
    pub(crate) observer: Observer,
    /// The errors of the current batch.
    batch_errors: Vec<DiscoveryError>,
    seen: SeenObjects,
    /// Objects that the source reported only as unchanged; one of them may have changed.
    present: SeenObjects,
    /// Keys of the names that objects of the current batch no longer have.
    left: Vec<IndexKey>,
}

impl Staged {
    /// The result of an import that has not begun.
    pub(crate) fn observed(observer: Observer) -> Staged {
        Staged { observer, ..Staged::default() }
    }

    fn error(&mut self, error: DiscoveryError) {
        self.statistics.count("discovery-errors");
        self.observer.failed(|| ObjectError::from(&error));
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(error.clone());
        }
        self.batch_errors.push(error);
    }

    /// Number of objects with a smaller number that exist in the source.
    fn seen_before(&self, first: CsId) -> u64 {
        self.seen.count_before(&self.present, first)
    }

    /// Whether an object exists in the source.
    fn has_seen(&self, id: CsId) -> bool {
        self.seen.contains(id) || self.present.contains(id)
    }

    /// Number of objects that exist in the source.
    pub fn seen(&self) -> u64 {
        self.seen.count_with(&self.present)
    }
}

/// The objects that a full import met, as a bit set of their numbers.
#[derive(Debug, Default)]
struct SeenObjects {
    bits: Vec<u64>,
}

impl SeenObjects {
    /// Adds an object; returns whether it is met for the first time.
    fn insert(&mut self, id: CsId) -> bool {
        let at = id.0.max(0) as usize;
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        let (word, bit) = (&mut self.bits[at / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn contains(&self, id: CsId) -> bool {
        let at = id.0.max(0) as usize;
        self.bits.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Number of objects below a number in at least one of the two sets.
    fn count_before(&self, other: &SeenObjects, first: CsId) -> u64 {
        let word = |of: &SeenObjects, at: usize| of.bits.get(at).copied().unwrap_or(0);
        let first = first.0.max(0) as usize;
        let words = self.bits.len().max(other.bits.len()).min(first / 64 + 1);
        let count = |at: usize| {
            let mask = if at < first / 64 { u64::MAX } else { (1 << (first % 64)) - 1 };
            u64::from(((word(self, at) | word(other, at)) & mask).count_ones())
        };
        (0..words).map(count).sum()
    }

    /// Number of objects in at least one of the two sets.
    fn count_with(&self, other: &SeenObjects) -> u64 {
        let word = |of: &SeenObjects, at: usize| of.bits.get(at).copied().unwrap_or(0);
        let words = self.bits.len().max(other.bits.len());
        (0..words).map(|at| u64::from((word(self, at) | word(other, at)).count_ones())).sum()
    }
}

/// Why a step ended early.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The connected system failed.
    #[error(transparent)]
    Agent(#[from] crate::agent::AgentError),
    /// A limit of `[safety]` was reached; nothing was deleted.
    #[error("stopped before the first deletion: {0}")]
    Threshold(String),
    /// The configuration changed in a way that this step cannot follow; nothing was done.
    #[error("{0}")]
    RulesChanged(String),
    /// Changes cannot be undone; nothing was sent.
    #[error("{0} changes cannot be undone, and nothing was sent")]
    Conflicts(usize),
    /// A limit of changes of `[safety]` was reached; nothing was changed.
    #[error("stopped before the first change: {0}")]
    Updates(String),
    /// The user interrupted the step.
    #[error("interrupted; committed changes are kept, and the next run continues from there")]
    Interrupted,
}

/// Stages everything that an import finds, in batches of the given size. `progress` receives the number of
/// finished objects after each batch and returns whether to continue. `staged` has what was reached, also
/// after an error.
///
/// # Errors
/// When the store or the system fails, or the step is interrupted. Committed work is kept.
#[allow(clippy::too_many_arguments, reason = "everything that a staging step depends on")]
pub(crate) fn stage(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    space: &AgentRules,
    import: &mut dyn Import,
    is_full: bool,
    batch_objects: usize,
    staged: &mut Staged,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), StepError> {
    staged.discovery = store.trail().next_discovery(space.id)?;
    let mut done = 0;
    // The next batch is read while this one is written.
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(BATCHES_AHEAD);
        scope.spawn(move || {
            let mut batches = 1;
            loop {
                let mut window = Vec::with_capacity(batches * batch_objects);
                let read = import.read(batches * batch_objects, &mut window);
                let is_last = read.is_err() || window.is_empty();
                if is_full {
                    window.sort_by_key(order);
                }
                let mut rest = window.into_iter();
                loop {
                    let batch = rest.by_ref().take(batch_objects);
                    let batch: Vec<Arrived> = batch.map(|imported| Arrived::of(imported, space)).collect();
                    if batch.is_empty() {
                        break;
                    }
                    if sender.send(Ok(batch)).is_err() {
                        return;
                    }
                }
                if let Err(error) = read {
                    let _ = sender.send(Err(error));
                }
                if is_last {
                    break;
                }
                // The first window is small, so that the store does not wait for it.
                batches = if is_full { (2 * batches).min(WINDOW_BATCHES) } else { 1 };
            }
        });
        for read in receiver {
            let batch = read?;
            done += batch.len() as u64;
            Batch::new(store, rules, names, space, staged).stage(batch)?;
            let errors = std::mem::take(&mut staged.batch_errors);
            if !errors.is_empty() {
                store.trail().discovered(space.id, staged.discovery, &errors)?;
            }
            store.commit()?;
            staged.observer.counted(&staged.statistics);
            if !progress(done) {
                return Err(StepError::Interrupted);
            }
        }
        Ok(())
    })
}

/// The order of staging. A full import is sorted by anchor within the batches that are read ahead, so that a
/// batch writes neighbouring index pages even if anchors are random. Errors come before objects. The changes
/// of a delta import keep their order.
fn order(imported: &Imported) -> (u8, Option<IndexKey>) {
    match imported {
        Imported::Error(_) => (0, None),
        Imported::Object(object) => (1, Some(object.anchor)),
        Imported::Newer(_) => (2, None),
        Imported::Gone(_) | Imported::Present(_) => (3, None),
    }
}

/// An imported item with everything that can be computed without the store. It is prepared while the batch
/// before it is staged.
enum Arrived {
    Object(Incoming),
    /// An interrupted export gave it a temporary name.
    Temporary(ImportedObject),
    Gone(IndexKey),
    Present(IndexKey),
    Error(DiscoveryError),
}

impl Arrived {
    fn of(imported: Imported, space: &AgentRules) -> Arrived {
        match imported {
            Imported::Object(object) | Imported::Newer(object) if space.naming.is_temporary(&object.dn) => {
                Arrived::Temporary(object)
            }
            Imported::Object(object) => Arrived::Object(Incoming::new(object, space)),
            Imported::Newer(object) => {
                Arrived::Object(Incoming { is_again: true, ..Incoming::new(object, space) })
            }
            Imported::Gone(anchor) => Arrived::Gone(anchor),
            Imported::Present(anchor) => Arrived::Present(anchor),
            Imported::Error(error) => Arrived::Error(error),
        }
    }
}

/// An imported object with data that the agent does not provide.
struct Incoming {
    object: ImportedObject,
    /// The key of its name.
    name: Option<IndexKey>,
    /// Whether the same object may have come before in this import.
    is_again: bool,
    /// The image with its references, if the object has any: the object itself then has a digest instead.
    whole: Option<Hologram>,
}

impl Incoming {
    fn new(mut object: ImportedObject, space: &AgentRules) -> Incoming {
        let name = space.naming.hash(&object.dn);
        let mut whole = None;
        // What is never read is not stored either, even if the system shows it.
        if space.write_only.iter().any(|attribute| object.image.get(*attribute).is_some()) {
            let mut builder = Builder::default();
            for (attribute, values) in
                object.image.iter().filter(|(attribute, _)| !space.is_write_only(*attribute))
            {
                builder.push_values(attribute, values);
            }
            object.image = builder.finish();
        }
        if space.refers(&object.image) {
            let mut builder = Builder::default();
            for (attribute, values) in object.image.iter() {
                if space.references.contains(&attribute) {
                    builder.push(attribute, &values.digest());
                } else {
                    builder.push_values(attribute, values);
                }
            }
            whole = Some(std::mem::replace(&mut object.image, builder.finish()));
        }
        object.image = object.image.with_hash();
        Incoming { object, name, is_again: false, whole }
    }
}

/// The items of a batch by kind.
struct Distinct {
    objects: Vec<Incoming>,
    /// Objects that an interrupted export gave temporary names.
    temporary: Vec<ImportedObject>,
    /// Anchors of deleted objects.
    gone: Vec<IndexKey>,
    /// Anchors of objects that are reported as unchanged.
    present: Vec<IndexKey>,
}

/// A batch that is being staged.
struct Batch<'a> {
    store: &'a mut dyn Store,
    rules: &'a Rules,
    names: &'a Names,
    space: &'a AgentRules,
    staged: &'a mut Staged,
    /// Writes that release names come first, then writes that assign names, then all others.
    unnamed: Vec<Write>,
    renamed: Vec<Write>,
    writes: Vec<Write>,
    /// Objects whose references changed or may have changed.
    referring: Vec<(CsId, Option<Hologram>)>,
}

impl<'a> Batch<'a> {
    fn new(
        store: &'a mut dyn Store,
        rules: &'a Rules,
        names: &'a Names,
        space: &'a AgentRules,
        staged: &'a mut Staged,
    ) -> Self {
        let (unnamed, renamed, referring) = (Vec::new(), Vec::new(), Vec::new());
        Batch { store, rules, names, space, staged, unnamed, renamed, writes: Vec::new(), referring }
    }

    fn stage(mut self, batch: Vec<Arrived>) -> Result<(), StepError> {
        self.writes.reserve(batch.len());
        let Distinct { objects, temporary, gone, present } = self.distinct(batch);
        let exporting = self.objects(objects)?;
        self.confirm(exporting)?;
        for head in self.store.heads(self.space.id, &present)?.into_iter().flatten() {
            self.staged.present.insert(head.id);
        }
        for head in self.store.heads(self.space.id, &gone)?.into_iter().flatten() {
            self.staged.statistics.count("stage-delete");
            self.writes.push(Write::Staged { id: head.id, pending: Some(PendingImport::Delete) });
        }
        self.temporary(temporary)?;
        self.refer()?;
        for writes in [&self.unnamed, &self.renamed, &self.writes] {
            self.store.write(writes)?;
        }
        Ok(())
    }

    /// Sorts the items of a batch by their kind. Of several objects with one anchor or name, the first one counts.
    fn distinct(&mut self, batch: Vec<Arrived>) -> Distinct {
        let mut objects: Vec<Incoming> = Vec::with_capacity(batch.len());
        let mut met: HashSet<IndexKey> = HashSet::with_capacity(batch.len());
        let mut named: HashSet<IndexKey> = HashSet::new();
        let (mut gone, mut present, mut temporary) = (Vec::new(), Vec::new(), Vec::new());
        for arrived in batch {
            match arrived {
                Arrived::Object(came) if came.is_again => {
                    if met.contains(&came.object.anchor) {
                        continue;
                    }
                    if came.name.is_none_or(|name| named.insert(name)) {
                        met.insert(came.object.anchor);
                        objects.push(came);
                    } else {
                        // Another object came with its name: it was renamed meanwhile, and the next import
                        // shows it.
                        present.push(came.object.anchor);
                    }
                }
                Arrived::Object(came) if met.insert(came.object.anchor) => match came.name {
                    Some(name) if !named.insert(name) => {
                        let first = objects.iter().rfind(|first| first.name == Some(name));
                        self.staged.error(duplicate(&came.object, "name", first));
                    }
                    _ => objects.push(came),
                },
                Arrived::Object(came) => {
                    let first = objects.iter().rfind(|first| first.object.anchor == came.object.anchor);
                    self.staged.error(duplicate(&came.object, "anchor", first));
                }
                Arrived::Temporary(object) => temporary.push(object),
                Arrived::Gone(anchor) => gone.push(anchor),
                Arrived::Present(anchor) => present.push(anchor),
                Arrived::Error(error) => self.staged.error(error),
            }
        }
        Distinct { objects, temporary, gone, present }
    }

    /// Stages the objects of a batch. Returns those that are compared with what is to be exported.
    fn objects(&mut self, objects: Vec<Incoming>) -> Result<Vec<(CsId, Incoming)>, StepError> {
        let anchors: Vec<IndexKey> = objects.iter().map(|came| came.object.anchor).collect();
        let heads = self.store.heads(self.space.id, &anchors)?;
        let mut held = self.holders(&objects, &heads)?;
        self.keep_apart(&objects, &mut held)?;
        let is_new = |(came, head): &(&Incoming, &Option<Head>)| {
            let holder = came.name.and_then(|name| held.get(&name));
            head.is_none() && holder.is_none_or(|holder| holder.anchor.is_some())
        };
        let new = objects.iter().zip(&heads).filter(is_new).count();
        let mut new_ids = (self.store.ids().take(new)..).map(CsId);
        let mut exporting = Vec::new();
        for (came, head) in objects.into_iter().zip(heads) {
            let holder = came.name.and_then(|name| held.get(&name));
            match (head, holder) {
                (Some(head), _) if !self.staged.seen.insert(head.id) => {
                    if !came.is_again {
                        self.staged.error(duplicate(&came.object, "anchor", None));
                    }
                }
                (Some(head), _) => {
                    let is_renamed = came.name.is_some() && came.name != head.name;
                    if let (true, Some(holder)) = (is_renamed, holder) {
                        self.unname(holder.id, came.name);
                    }
                    if head.is_exporting {
                        exporting.push((head.id, came));
                    } else {
                        self.restage(&head, came, is_renamed);
                    }
                }
                // It was provisioned; this import shows its anchor for the first time.
                (None, Some(ReferenceTarget { id, anchor: None, .. })) => {
                    self.staged.seen.insert(*id);
                    exporting.push((*id, came));
                }
                (None, holder) => {
                    if let Some(holder) = holder {
                        self.unname(holder.id, came.name);
                    }
                    if let Some(id) = new_ids.next() {
                        self.add(id, came);
                    }
                }
            }
        }
        Ok(exporting)
    }

    /// Finds the objects that hold the names of objects that are not known by them.
    fn holders(
        &mut self,
        objects: &[Incoming],
        heads: &[Option<Head>],
    ) -> Result<HashMap<IndexKey, ReferenceTarget>, StoreError> {
        let others = objects.iter().zip(heads);
        let names: Vec<IndexKey> = others
            .filter(|(came, head)| head.is_none_or(|head| head.name != came.name))
            .filter_map(|(came, _)| came.name)
            .collect();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.find(self.space.id, LookupKey::Name, &names)?;
        Ok(names.into_iter().zip(found).filter_map(|(name, found)| Some((name, found?))).collect())
    }

    /// Keeps a pending new object that was not sent apart from an imported one that only has its name: the
    /// imported object then takes the name, and counts as another one.
    fn keep_apart(
        &mut self,
        objects: &[Incoming],
        held: &mut HashMap<IndexKey, ReferenceTarget>,
    ) -> Result<(), StoreError> {
        let ids: Vec<CsId> =
            held.values().filter(|of| of.anchor.is_none() && !of.is_made).map(|of| of.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let pending: HashMap<IndexKey, CsObject> =
            self.store.cs(&ids)?.into_iter().filter_map(|object| Some((object.name?, object))).collect();
        for came in objects {
            let Some((name, object)) = came.name.and_then(|name| Some((name, pending.get(&name)?))) else {
                continue;
            };
            let export = object.pending_export.as_ref();
            let is_it = export.is_some_and(|export| {
                is_pending(self.space, self.names, &export.attributes, &came.object.image)
            });
            if let (false, Some(holder)) = (is_it, held.get_mut(&name)) {
                // With an anchor, it would not be taken for the imported object.
                holder.anchor = Some(name);
            }
        }
        Ok(())
    }

    /// Removes a name from the object that had it before.
    fn unname(&mut self, other: CsId, name: Option<IndexKey>) {
        self.unnamed.push(Write::Unnamed(other));
        self.left(name);
    }

    /// Stages a new object.
    fn add(&mut self, id: CsId, came: Incoming) {
        self.staged.seen.insert(id);
        self.staged.statistics.count("stage-add");
        let references = came.whole.iter().flat_map(|whole| shown(self.space, id, whole));
        let references: Vec<Write> = references.map(Write::Reference).collect();
        let keys = self.join_keys(id, &came.object.image);
        self.writes.push(Write::NewCs(CsObject {
            id,
            agent: self.space.id,
            anchor: Some(came.object.anchor),
            dn: came.object.dn,
            name: came.name,
            state: State::Candidate,
            mv: None,
            synchronized: None,
            pending_import: Some(PendingImport::Add(came.object.image)),
            pending_export: None,
            has_failed: false,
        }));
        self.writes.extend(keys);
        self.writes.extend(references);
    }

    /// The join keys of an object that provisioning is to find before it is synchronized. Other objects get
    /// theirs when they are synchronized and join nothing.
    fn join_keys(&self, id: CsId, image: &Hologram) -> Option<Write> {
        let space = self.space;
        space
            .has_keys_when_new()
            .then(|| Write::JoinKeys { id, keys: self.rules.join_keys(space.id, Some(image)) })
    }

    /// Stages an object that is already in the connector space.
    fn restage(&mut self, head: &Head, came: Incoming, is_renamed: bool) {
        let Incoming { object: ImportedObject { image, dn, .. }, name, whole, .. } = came;
        let hash = image.hash();
        if is_renamed {
            self.renamed.push(Write::Renamed { id: head.id, dn, name });
            self.left(head.name);
        } else if head.pending == Some(hash) {
            self.staged.statistics.count("stage-no-change");
            return;
        }
        let is_back = head.synchronized == Some(hash) && !is_renamed && !head.is_renamed;
        if is_back && !head.is_pending {
            self.staged.statistics.count("stage-no-change");
            return;
        }
        self.staged.statistics.count(if is_renamed { "stage-rename" } else { "stage-update" });
        let keys = if head.has_join_keys { self.join_keys(head.id, &image) } else { None };
        let pending = match head.synchronized {
            // It has its synchronized image again.
            _ if is_back => None,
            None => Some(PendingImport::Add(image)),
            Some(_) if is_renamed || head.is_renamed => Some(PendingImport::Renamed(image)),
            Some(_) => Some(PendingImport::Update(image)),
        };
        self.writes.push(Write::Staged { id: head.id, pending });
        self.writes.extend(keys);
        if !self.space.references.is_empty() {
            self.referring.push((head.id, whole));
        }
    }

    /// Marks the objects whose references use a name that now belongs to another object or to none.
    fn left(&mut self, name: Option<IndexKey>) {
        if let Some(name) = name
            && self.space.naming.refers_by_name()
            && self.space.gives_references
        {
            self.staged.left.push(name);
        }
    }

    /// Compares imported objects with their pending exports: shown changes are confirmed, other changes are
    /// sent again.
    fn confirm(&mut self, exporting: Vec<(CsId, Incoming)>) -> Result<(), StepError> {
        let ids: Vec<CsId> = exporting.iter().map(|(id, _)| *id).collect();
        let mut all: HashMap<CsId, Incoming> = exporting.into_iter().collect();
        let naming = self.space.naming;
        let with_references = !self.space.references.is_empty();
        for part in parts(self.store, &ids, with_references)? {
            let mut references = of_each(self.store, part, with_references)?;
            for mut object in self.store.cs(part)? {
                let Some(Incoming { object: came, name, whole, .. }) = all.remove(&object.id) else {
                    continue;
                };
                let mut confirmed = 0;
                let mut failure: Option<(Option<Attribute>, &'static str)> = None;
                let is_known = object.anchor.replace(came.anchor).is_some();
                let rename = object.pending_export.as_ref().and_then(|export| export.rename.as_ref());
                let is_sent = rename.is_some_and(|rename| rename.phase == Phase::Unconfirmed);
                let is_renamed = name.is_some() && (name != object.name || is_sent);
                if is_renamed {
                    // From the export of a new name on, the key is that of the new one.
                    self.left(if is_sent { naming.hash(&object.dn) } else { object.name });
                    (object.dn, object.name) = (came.dn, name);
                }
                let known = references.remove(&object.id).unwrap_or_default();
                let known = self.compare(object.id, known, whole.as_ref(), &mut confirmed, &mut failure);
                if let Some(mut pending) = object.pending_export.take() {
                    pending.references = phase_of(&known);
                    if let Some(rename) = &mut pending.rename {
                        match (rename.phase, naming.hash(&rename.dn) == name) {
                            (phase, true) => {
                                confirmed += u64::from(phase == Phase::Unconfirmed);
                                pending.rename = None;
                            }
                            (Phase::Unconfirmed, false) => {
                                rename.phase = Phase::Unapplied;
                                failure =
                                    Some((None, "the exported new name of the object was not confirmed"));
                            }
                            (Phase::Unapplied, false) => {}
                        }
                    }
                    let (count, why) = confirm_attributes(self.space, &mut pending, &came.image);
                    confirmed += count;
                    failure = failure.or(why);
                    object.pending_export = (!pending.is_empty()).then_some(pending);
                }
                if confirmed > 0 {
                    self.staged.statistics.count("confirmed");
                }
                if let Some((attribute, why)) = failure {
                    self.staged.statistics.count("exported-change-not-reimported");
                    let kind = FailureKind::NotReimported;
                    let why = Some(Failure { kind, attribute, text: why.into() });
                    self.writes.push(Write::Failure { id: object.id, why });
                }
                let same = object.synchronized.as_ref() == Some(&came.image);
                let was_renamed = is_renamed && is_known
                    || matches!(object.pending_import, Some(PendingImport::Renamed(_)));
                object.pending_import = match (&object.synchronized, same) {
                    (None, _) => Some(PendingImport::Add(came.image)),
                    (Some(_), _) if was_renamed => Some(PendingImport::Renamed(came.image)),
                    (Some(_), true) => None,
                    (Some(_), false) => Some(PendingImport::Update(came.image)),
                };
                self.staged.statistics.count(match (is_renamed && is_known, same) {
                    (true, _) => "stage-rename",
                    (false, true) => "stage-no-change",
                    (false, false) => "stage-update",
                });
                self.writes.push(Write::Cs(object));
            }
        }
        Ok(())
    }

    /// Compares the references of the imported objects with the stored ones.
    fn refer(&mut self) -> Result<(), StepError> {
        let referring = std::mem::take(&mut self.referring);
        let ids: Vec<CsId> = referring.iter().map(|(id, _)| *id).collect();
        let mut all = referring.into_iter();
        for part in parts(self.store, &ids, true)? {
            let mut references = of_each(self.store, part, true)?;
            for (id, whole) in all.by_ref().take(part.len()) {
                let known = references.remove(&id).unwrap_or_default();
                self.compare(id, known, whole.as_ref(), &mut 0, &mut None);
            }
        }
        let left = std::mem::take(&mut self.staged.left);
        let referring = self.store.referring(self.space.id, &left)?;
        self.writes.extend(referring.into_iter().map(Write::Due));
        Ok(())
    }

    /// Compares the references of an object with those of its imported image, and returns the resulting
    /// references.
    fn compare(
        &mut self,
        id: CsId,
        known: Vec<Reference>,
        whole: Option<&Hologram>,
        confirmed: &mut u64,
        failure: &mut Option<(Option<Attribute>, &'static str)>,
    ) -> Vec<Reference> {
        let mut new: HashMap<(Attribute, IndexKey), Reference> = HashMap::new();
        for reference in whole.into_iter().flat_map(|whole| shown(self.space, id, whole)) {
            new.insert((reference.attribute, reference.target), reference);
        }
        let mut all = Vec::with_capacity(known.len().max(new.len()));
        let mut is_drifted = false;
        for before in known {
            let is_imported = new.remove(&(before.attribute, before.target)).is_some();
            let mut after = Reference { is_imported, ..before.clone() };
            match before.export {
                None => is_drifted |= before.is_imported != is_imported,
                Some((wanted, phase)) => {
                    let is_done = is_imported == (wanted == ReferenceChange::There);
                    let was_sent = phase == Phase::Unconfirmed;
                    *confirmed += u64::from(is_done && was_sent);
                    if was_sent && !is_done {
                        *failure = Some((Some(before.attribute), "an exported reference was not confirmed"));
                    }
                    after.export = (!is_done).then_some((wanted, Phase::Unapplied));
                }
            }
            if after != before {
                self.writes.push(Write::Reference(after.clone()));
            }
            all.push(after);
        }
        is_drifted |= !new.is_empty();
        self.writes.extend(new.values().cloned().map(Write::Reference));
        all.extend(new.into_values());
        // References that flow into the metaverse from here are compared at synchronization.
        if is_drifted && self.space.gets_references && !self.space.gives_references {
            self.writes.push(Write::Due(id));
        }
        all
    }
}

/// The error of an object that came twice, with the place of the first one if it is in this batch.
fn duplicate(object: &ImportedObject, what: &str, first: Option<&Incoming>) -> DiscoveryError {
    let place = match object.line {
        Some(line) => format!("line {line}"),
        None if object.dn.is_empty() => format!("anchor {:?}", object.anchor),
        None => object.dn.clone(),
    };
    let text = match first.and_then(|first| first.object.line) {
        Some(line) => format!("the object on line {line} has the same {what} and is kept"),
        None => format!("an earlier object has the same {what}; the first is kept"),
    };
    DiscoveryError { place, kind: "duplicate-object", text }
}

/// The references in an image.
fn shown<'a>(space: &'a AgentRules, id: CsId, whole: &'a Hologram) -> impl Iterator<Item = Reference> + 'a {
    let attributes = whole.iter().filter(|(attribute, _)| space.references.contains(attribute));
    attributes.flat_map(move |(attribute, values)| {
        let mut met = HashSet::new();
        values.iter().filter_map(move |value| {
            let target = space.naming.target(value);
            // One name may have several spellings.
            met.insert(target).then(|| Reference {
                cs: id,
                agent: space.id,
                attribute,
                target,
                value: value.to_vec(),
                is_synchronized: false,
                is_imported: true,
                export: None,
            })
        })
    })
}

/// Updates the pending attributes of an object after an import showed it; the name and references are handled
/// elsewhere. Returns the number of confirmed changes and the kind of the first difference.
fn confirm_attributes(
    space: &AgentRules,
    pending: &mut PendingExport,
    image: &Hologram,
) -> (u64, Option<(Option<Attribute>, &'static str)>) {
    let mut failure = None;
    match (pending.change, pending.phase) {
        // The object exists: the add is confirmed, and its attributes are compared one by one.
        (Change::Add, _) => pending.change = Change::Update,
        (Change::Delete, Phase::Unconfirmed) => {
            pending.phase = Phase::Unapplied;
            failure = Some((None, "the deleted object still exists"));
        }
        (Change::Delete, Phase::Unapplied) | (Change::Update, _) => {}
    }
    let mut confirmed = 0;
    let change = pending.change;
    pending.attributes.retain(|attribute| {
        // No import shows it: it is to be sent, or was accepted.
        if space.is_write_only(attribute.attribute) {
            return (attribute.phase == Phase::Unapplied).then_some(Phase::Unapplied);
        }
        match (attribute.phase, attribute.is_in(image.get(attribute.attribute))) {
            (Phase::Unconfirmed, false) => {
                failure = Some((Some(attribute.attribute), "an exported attribute has another value"));
                Some(Phase::Unapplied)
            }
            (Phase::Unconfirmed, true) => {
                confirmed += 1;
                None
            }
            // The system already has the value that is to be sent.
            (Phase::Unapplied, true) if change == Change::Update => None,
            (Phase::Unapplied, _) => Some(Phase::Unapplied),
        }
    });
    (confirmed, failure)
}

/// Stages the deletion of all objects that were not met, after a complete import without errors.
///
/// # Errors
/// When the store fails, or too few objects were met: then no deletion is staged.
pub(crate) fn obsolete(
    store: &mut dyn Store,
    space: &AgentRules,
    staged: &mut Staged,
    least_share: f64,
    batch_objects: usize,
) -> Result<(), StepError> {
    let known = store.count_imported(space.id)?;
    let met = staged.seen();
    if (met as f64) < least_share * known as f64 {
        return Err(StepError::Threshold(format!(
            "the source has {met} objects, but the connector space has {known}: fewer than the {:.0} % \
            of safety.import.least_share; if this is correct, run it once with a smaller share",
            least_share * 100.0
        )));
    }
    let mut after = CsId(0);
    loop {
        let ids = store.ids_after(space.id, after, batch_objects, Population::All)?;
        let Some(last) = ids.last() else { return Ok(()) };
        after = *last;
        let is_met = |id: &CsId| staged.seen.contains(*id) || staged.present.contains(*id);
        let missing: Vec<CsId> = ids.into_iter().filter(|id| !is_met(id)).collect();
        if missing.is_empty() {
            continue;
        }
        let mut writes = Vec::new();
        let mut unseen = Vec::new();
        for object in store.cs(&missing)? {
            let CsObject { id, synchronized, pending_import, pending_export, .. } = &object;
            match (synchronized, pending_import, pending_export) {
                (_, Some(PendingImport::Delete), _) => {}
                // It was sent, but the import does not show it: it is sent again.
                (None, None, Some(export)) => {
                    if export.change == Change::Add && export.phase == Phase::Unconfirmed {
                        let mut object = object;
                        if let Some(export) = &mut object.pending_export {
                            export.phase = Phase::Unapplied;
                            // A password is sent again only if the object is made again.
                            export.attributes.retain(|of| match space.is_write_only(of.attribute) {
                                true => Some(of.phase),
                                false => Some(Phase::Unapplied),
                            });
                            if export.references.is_some() {
                                export.references = Some(Phase::Unapplied);
                                unseen.push(object.id);
                            }
                        }
                        staged.statistics.count("exported-change-not-reimported");
                        writes.push(Write::Cs(object));
                    }
                }
                (None, None, None) => {}
                _ => {
                    staged.statistics.count("stage-delete");
                    writes.push(Write::Staged { id: *id, pending: Some(PendingImport::Delete) });
                }
            }
        }
        for part in parts(store, &unseen, true)? {
            let sent = store.references(part)?.into_iter().filter_map(|reference| {
                let (wanted, _) = reference.export?;
                Some(Reference { export: Some((wanted, Phase::Unapplied)), ..reference })
            });
            writes.extend(sent.map(Write::Reference));
        }
        store.write(&writes)?;
        store.commit()?;
    }
}
