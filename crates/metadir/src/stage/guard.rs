//! Stops a full import that finds too few of the known objects, and a synchronization of too many changes, before
//! anything follows from it.

use super::{Staged, StepError};
use crate::agent::Names;
use crate::config::Safety;
use crate::hologram::Attribute;
use crate::object::{CsId, CsObject, PendingImport, State};
use crate::rules::{AgentRules, Flow, Rules};
use crate::store::{Population, Store, StoreError, Write};

/// The state before a full import.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// New objects have this number or a larger one.
    first: CsId,
    /// Number of objects that earlier imports brought.
    known: u64,
}

/// The name of the note with the state before an import. It remains if the import is interrupted.
fn note(space: &AgentRules) -> String {
    format!("import of {} began at", space.name)
}

/// Notes the state before a full import and returns it; after an interrupted import, that before the first one.
///
/// # Errors
/// When the store fails.
pub(crate) fn begin(store: &mut dyn Store, space: &AgentRules) -> Result<Before, StoreError> {
    let note = note(space);
    let noted = store.note(&note)?.and_then(|text| {
        let (first, known) = text.split_once(' ')?;
        Some(Before { first: CsId(first.parse().ok()?), known: known.parse().ok()? })
    });
    if let Some(before) = noted {
        return Ok(before);
    }
    let before = Before { first: CsId(store.ids().next()), known: store.count_imported(space.id)? };
    // An initial import has nothing to compare with. Otherwise the first batch commits the note.
    if before.known > 0 {
        store.set_note(&note, Some(&format!("{} {}", before.first.0, before.known)))?;
    }
    Ok(before)
}

/// Checks how many of the known objects a full import found. If there are too few, the new objects that it
/// staged are removed: with other anchors they would be the same people a second time.
///
/// # Errors
/// When the store fails, or too few of the known objects were found.
pub(crate) fn end(
    store: &mut dyn Store,
    space: &AgentRules,
    staged: &Staged,
    before: Before,
    least_share: f64,
    batch_objects: usize,
) -> Result<(), StepError> {
    if before.known == 0 {
        return Ok(());
    }
    let is_enough = |found: u64, known: u64| found as f64 >= least_share * known as f64;
    let mut problem = None;
    // Counted exactly only if it may be too few: an initial import knows nothing.
    if !is_enough(staged.seen_before(before.first), before.known) {
        let all = store.count_imported(space.id)?;
        let new = new_objects(store, space, before.first, batch_objects)?;
        let known = all.saturating_sub(new.len() as u64);
        let seen_new = new.iter().filter(|id| staged.has_seen(**id)).count() as u64;
        let found = staged.seen().saturating_sub(seen_new);
        // Objects that could not be read may be known ones; they are reported.
        let unread = staged.statistics.of("discovery-errors");
        if !is_enough(found + unread, known) {
            for part in new.chunks(batch_objects) {
                store.write(&part.iter().copied().map(Write::DeletedCs).collect::<Vec<_>>())?;
                store.commit()?;
            }
            problem = Some(format!(
                "the import found {found} of the {known} known objects, and {} new ones: fewer than the {:.0} % of \
                 safety.import.least_share. The new ones were not kept. If the values of the anchor changed, \
                 restore them or start with an empty store; if the source is right, run it once with a smaller share",
                new.len(),
                least_share * 100.0
            ));
        }
    }
    // Committed with what follows, unless the step ends here.
    store.set_note(&note(space), None)?;
    match problem {
        None => Ok(()),
        Some(problem) => {
            store.commit()?;
            Err(StepError::Threshold(problem))
        }
    }
}

/// Checks the staged changes of an agent before a synchronization applies them: how many objects change, and in how
/// many an attribute that rules read changes or loses its value. A source with an empty column clears nobody.
///
/// # Errors
/// When the store fails, or there are more changes than `[safety]` allows.
pub(crate) fn updates(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    space: &AgentRules,
    safety: &Safety,
    batch_objects: usize,
) -> Result<(), StepError> {
    let known = store.count_imported(space.id)?;
    let (most, lost_most) = (safety.synchronization_updates.most(known), safety.lost_most(known));
    let mut read: Vec<Attribute> =
        space.inbound.iter().flat_map(|at| &rules.inbound[*at].flows).flat_map(Flow::reads).collect();
    read.sort_unstable();
    read.dedup();
    let limit = |attribute: Attribute| safety.attribute_updates.get(names.name(attribute)).copied();
    // Mostly there are fewer changes than any limit, or only new objects.
    let pending = store.gauges(space.id)?.pending_imports[1];
    let least = read.iter().filter_map(|attribute| limit(*attribute)).chain([most, lost_most]).min();
    if least.is_some_and(|least| pending <= least) {
        return Ok(());
    }
    let (mut changed, mut lost) = (vec![0_u64; read.len()], vec![0_u64; read.len()]);
    let (mut count, mut after) = (0_u64, CsId(0));
    loop {
        let objects = store.cs_after(space.id, after, batch_objects, Population::Pending)?;
        let Some(last) = objects.last() else { break };
        after = last.id;
        for object in objects.iter().filter(|object| object.state.is_connected()) {
            let (Some(before), Some(now)) = (&object.synchronized, object.image()) else { continue };
            if object.pending_import.is_none() {
                continue;
            }
            count += 1;
            for (at, attribute) in read.iter().enumerate() {
                let (before, now) = (before.get(*attribute), now.get(*attribute));
                changed[at] += u64::from(before != now);
                lost[at] += u64::from(before.is_some() && now.is_none());
            }
        }
    }
    let help = |count: u64| {
        format!(
            "If the source is right, `plimsoll metadir preview` with --allow-updates {count} lists the changes, and `run` \
             with it carries them out once; otherwise correct the source and import it again"
        )
    };
    let name = &space.name;
    for (at, attribute) in read.iter().enumerate() {
        let called = names.name(*attribute);
        if lost[at] > lost_most {
            return Err(StepError::Updates(format!(
                "`{called}` would lose its value in {} of {known} objects of {name}, more than the {lost_most} that \
                 safety.synchronization allows (`lost`). {}",
                lost[at],
                help(lost[at])
            )));
        }
        if let Some(most) = limit(*attribute).filter(|most| changed[at] > *most) {
            return Err(StepError::Updates(format!(
                "`{called}` would change in {} of {known} objects of {name}, more than the {most} that \
                 safety.synchronization allows (`attributes`). {}",
                changed[at],
                help(changed[at])
            )));
        }
    }
    if count > most {
        return Err(StepError::Updates(format!(
            "{count} of {known} objects of {name} would change, more than the {most} that safety.synchronization allows \
             (`updates`). {}",
            help(count)
        )));
    }
    Ok(())
}

/// The objects that only imports since a number brought.
fn new_objects(
    store: &mut dyn Store,
    space: &AgentRules,
    first: CsId,
    batch_objects: usize,
) -> Result<Vec<CsId>, StoreError> {
    let is_new = |object: &CsObject| {
        object.state == State::Candidate
            && object.synchronized.is_none()
            && object.pending_export.is_none()
            && matches!(object.pending_import, Some(PendingImport::Add(_)))
    };
    let (mut new, mut after) = (Vec::new(), CsId(first.0 - 1));
    loop {
        let objects = store.cs_after(space.id, after, batch_objects, Population::Pending)?;
        let Some(last) = objects.last() else { return Ok(new) };
        after = last.id;
        new.extend(objects.iter().filter(|object| is_new(object)).map(|object| object.id));
    }
}
