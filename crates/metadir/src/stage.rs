//! Staging: what an import finds goes into the connector space, and nowhere else.

use std::collections::HashSet;

use crate::agent::{DiscoveryError, Import, Imported, ImportedObject};
use crate::hologram::{Hash, Hologram};
use crate::object::{AgentId, Change, CsId, CsObject, PendingImport, Phase, State};
use crate::statistics::Statistics;
use crate::store::{FailureKind, Head, Population, Store, StoreError, Write};

/// Errors of a source that are kept to be shown.
pub const ERRORS_KEPT: usize = 100;

/// What a full import found.
#[derive(Debug, Default)]
pub struct Staged {
    /// Counters.
    pub statistics: Statistics,
    /// The first errors of the source.
    pub errors: Vec<DiscoveryError>,
    seen: Seen,
}

impl Staged {
    fn error(&mut self, error: DiscoveryError) {
        self.statistics.count("discovery-errors");
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(error);
        }
    }

    /// Objects that were there.
    pub fn seen(&self) -> u64 {
        self.seen.count
    }
}

/// Objects that a full import met, by their numbers: a bit for each.
#[derive(Debug, Default)]
struct Seen {
    bits: Vec<u64>,
    count: u64,
}

impl Seen {
    /// Whether it is met for the first time.
    fn insert(&mut self, id: CsId) -> bool {
        let at = id.0.max(0) as usize;
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        let (word, bit) = (&mut self.bits[at / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    fn contains(&self, id: CsId) -> bool {
        let at = id.0.max(0) as usize;
        self.bits.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

/// Why a step ended before its work was done.
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
    /// Somebody asked for it.
    #[error("interrupted; what was committed stays, and the next run goes on from there")]
    Interrupted,
}

/// Stages all that an import finds, in batches of so many. `progress` is told how many objects are done after each batch,
/// and says whether to go on.
///
/// # Errors
/// When the store or the system fails, or it is interrupted; what was committed stays.
pub fn stage(
    store: &mut dyn Store,
    agent: AgentId,
    import: &mut dyn Import,
    batch_objects: usize,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Staged, StepError> {
    let mut staged = Staged::default();
    let mut writes = Vec::with_capacity(batch_objects);
    let mut done = 0;
    // The next batch is read while this one is written.
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        scope.spawn(move || {
            loop {
                let mut batch = Vec::with_capacity(batch_objects);
                let read = import.read(batch_objects, &mut batch);
                let is_last = read.is_err() || batch.is_empty();
                if sender.send(read.map(|()| batch)).is_err() || is_last {
                    break;
                }
            }
        });
        for read in receiver {
            let mut batch = read?;
            if batch.is_empty() {
                break;
            }
            done += batch.len() as u64;
            stage_batch(store, agent, &mut batch, &mut staged, &mut writes)?;
            store.write(&writes)?;
            writes.clear();
            store.commit()?;
            if !progress(done) {
                return Err(StepError::Interrupted);
            }
        }
        Ok(staged)
    })
}

fn stage_batch(
    store: &mut dyn Store,
    agent: AgentId,
    batch: &mut Vec<Imported>,
    staged: &mut Staged,
    writes: &mut Vec<Write>,
) -> Result<(), StepError> {
    let mut objects: Vec<ImportedObject> = Vec::with_capacity(batch.len());
    let mut anchors: Vec<Hash> = Vec::with_capacity(batch.len());
    let mut met: HashSet<Hash> = HashSet::with_capacity(batch.len());
    let duplicate = |object: &ImportedObject| DiscoveryError {
        place: if object.dn.is_empty() { format!("anchor {:?}", object.anchor) } else { object.dn.clone() },
        kind: "duplicate-object",
        text: "an object with this anchor came before; the first is kept".into(),
    };
    let mut gone = Vec::new();
    for imported in batch.drain(..) {
        match imported {
            Imported::Object(object) if met.insert(object.anchor) => {
                anchors.push(object.anchor);
                objects.push(object);
            }
            Imported::Object(object) => staged.error(duplicate(&object)),
            Imported::Gone(anchor) => gone.push(anchor),
            Imported::Error(error) => staged.error(error),
        }
    }
    let heads = store.heads(agent, &anchors)?;
    let new = heads.iter().filter(|head| head.is_none()).count();
    let mut new_ids = (store.new_ids(new)?..).map(CsId);
    let mut exporting = Vec::new();
    for (object, head) in objects.into_iter().zip(heads) {
        let Some(head) = head else {
            let Some(id) = new_ids.next() else { continue };
            staged.seen.insert(id);
            staged.statistics.count("stage-add");
            writes.push(Write::NewCs(CsObject {
                id,
                agent,
                anchor: Some(object.anchor),
                dn: object.dn,
                state: State::Disconnected,
                mv: None,
                synchronized: None,
                pending_import: Some(PendingImport::Add(object.image)),
                pending_export: None,
                has_failed: false,
            }));
            continue;
        };
        if !staged.seen.insert(head.id) {
            staged.error(duplicate(&object));
        } else if head.is_exporting {
            exporting.push((head.id, object.image));
        } else {
            restage(&head, object.image, staged, writes);
        }
    }
    confirm(store, exporting, staged, writes)?;
    let heads = store.heads(agent, &gone)?;
    for head in heads.into_iter().flatten() {
        staged.statistics.count("stage-delete");
        writes.push(Write::Staged { id: head.id, pending: Some(PendingImport::Delete) });
    }
    Ok(())
}

/// An object that is there comes again.
fn restage(head: &Head, image: Hologram, staged: &mut Staged, writes: &mut Vec<Write>) {
    let hash = image.hash();
    if head.synchronized == Some(hash) {
        if head.is_pending {
            // It came back to what it was.
            staged.statistics.count("stage-update");
            writes.push(Write::Staged { id: head.id, pending: None });
        } else {
            staged.statistics.count("stage-no-change");
        }
    } else if head.pending == Some(hash) {
        staged.statistics.count("stage-no-change");
    } else {
        let pending = match head.synchronized {
            None => PendingImport::Add(image),
            Some(_) => PendingImport::Update(image),
        };
        staged.statistics.count("stage-update");
        writes.push(Write::Staged { id: head.id, pending: Some(pending) });
    }
}

/// Objects with changes on their way to the system come back from it: what they show is confirmed, what they show otherwise
/// is sent again.
fn confirm(
    store: &mut dyn Store,
    exporting: Vec<(CsId, Hologram)>,
    staged: &mut Staged,
    writes: &mut Vec<Write>,
) -> Result<(), StepError> {
    let ids: Vec<CsId> = exporting.iter().map(|(id, _)| *id).collect();
    let mut images: std::collections::HashMap<CsId, Hologram> = exporting.into_iter().collect();
    for mut object in store.cs(&ids)? {
        let (Some(image), Some(mut pending)) = (images.remove(&object.id), object.pending_export.take())
        else {
            continue;
        };
        let mut failure = None;
        if pending.phase == Phase::Unconfirmed {
            match pending.change {
                // The object is there: its coming is confirmed, its attributes are looked at one by one.
                Change::Add => pending.change = Change::Update,
                Change::Delete => {
                    pending.phase = Phase::Unapplied;
                    failure = Some("the object was deleted and is still there");
                }
                Change::Update => {}
            }
        }
        let mut confirmed = 0;
        pending.attributes.retain_mut(|attribute| {
            let is_shown = attribute.is_in(image.get(attribute.attribute));
            match (attribute.phase, is_shown) {
                (Phase::Unconfirmed, false) => {
                    attribute.phase = Phase::Unapplied;
                    failure = Some("an attribute that was exported shows another value");
                }
                (Phase::Unconfirmed, true) => confirmed += 1,
                // What is still to be sent is there already.
                (Phase::Unapplied, true) if pending.change == Change::Update => {}
                _ => return true,
            }
            !is_shown
        });
        if confirmed > 0 {
            staged.statistics.count("confirmed");
        }
        if let Some(why) = failure {
            staged.statistics.count("exported-change-not-reimported");
            writes
                .push(Write::Failure { id: object.id, why: Some((FailureKind::NotReimported, why.into())) });
        }
        let is_done = pending.change == Change::Update && pending.attributes.is_empty();
        object.pending_export = (!is_done).then_some(pending);
        let same = object.synchronized.as_ref() == Some(&image);
        object.pending_import = match (&object.synchronized, same) {
            (_, true) => None,
            (None, _) => Some(PendingImport::Add(image)),
            (Some(_), _) => Some(PendingImport::Update(image)),
        };
        staged.statistics.count(if same { "stage-no-change" } else { "stage-update" });
        writes.push(Write::Cs(object));
    }
    Ok(())
}

/// After a full import without errors: what was not met is gone.
///
/// # Errors
/// When the store fails, or too few objects were met: then nothing is staged for deletion.
pub fn obsolete(
    store: &mut dyn Store,
    agent: AgentId,
    staged: &mut Staged,
    least_share: f64,
    batch_objects: usize,
) -> Result<(), StepError> {
    let known = store.count_imported(agent)?;
    let met = staged.seen();
    if (met as f64) < least_share * known as f64 {
        return Err(StepError::Threshold(format!(
            "the source shows {met} objects where the connector space knows {known}, fewer than the {:.0} % that \
             safety.import.least_share asks for; if that is right, run it once with a smaller share",
            least_share * 100.0
        )));
    }
    let mut after = CsId(0);
    loop {
        let objects = store.cs_after(agent, after, batch_objects, Population::All)?;
        let Some(last) = objects.last() else { return Ok(()) };
        after = last.id;
        let mut writes = Vec::new();
        for object in objects.into_iter().filter(|object| !staged.seen.contains(object.id)) {
            let CsObject { id, synchronized, pending_import, pending_export, .. } = &object;
            match (synchronized, pending_import, pending_export) {
                (_, Some(PendingImport::Delete), _) => {}
                // It was sent and does not show: it is sent again.
                (None, None, Some(export)) => {
                    if export.change == Change::Add && export.phase == Phase::Unconfirmed {
                        let mut object = object;
                        if let Some(export) = &mut object.pending_export {
                            export.phase = Phase::Unapplied;
                            export.attributes.iter_mut().for_each(|pending| pending.phase = Phase::Unapplied);
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
        store.write(&writes)?;
        store.commit()?;
    }
}
