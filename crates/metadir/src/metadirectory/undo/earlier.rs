//! What earlier runs sent before an import showed it.
//!
//! An export records the old values of the last import. If an earlier export sent other values since that import, these
//! are the old ones. The history says which runs did, and the trail what they sent.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::hologram::{Attribute, ValueList};
use crate::object::{AgentId, Change, CsId};
use crate::store::trail::ChangeFilter;
use crate::store::{StepRecord, Store, StoreError};
use crate::trail::{Changes, LoggedAttribute, LoggedChange, LoggedReferences};

/// The last values that earlier runs sent, by object and attribute.
#[derive(Debug, Default)]
pub(super) struct EarlierChanges {
    sent: HashMap<(CsId, Attribute), LoggedAttribute>,
    /// Of each reference, whether it was added; otherwise it was removed.
    references: HashMap<CsId, HashMap<(Attribute, Vec<u8>), bool>>,
    added: HashSet<CsId>,
}

impl EarlierChanges {
    /// Reads what was sent to an agent between its last complete import before a run and that run. `first` is the number
    /// of the run's first batch of changes.
    pub(super) fn before(
        store: &mut dyn Store,
        (agent, name): (AgentId, &str),
        run: u64,
        first: u64,
    ) -> Result<EarlierChanges, StoreError> {
        let mut earlier = EarlierChanges::default();
        let history = store.history(usize::MAX >> 1)?;
        let Some((import, exports_after)) = last_import(&history, name, run) else { return Ok(earlier) };
        let filter = ChangeFilter { agent: Some(agent), ..ChangeFilter::default() };
        let mut before = first;
        while let Some(batch) = store.trail().changes(filter, before, true)? {
            before = batch.number;
            if batch.run < import || batch.run == import && !exports_after {
                break;
            }
            let damaged = |damage| StoreError::Damaged { id: batch.number as i64, damage };
            for change in Changes::of(&batch.changes) {
                earlier.add(change.map_err(damaged)?);
            }
        }
        Ok(earlier)
    }

    /// Adds a change that is earlier than all others, except in its own batch, where an object has one change.
    fn add(&mut self, change: LoggedChange) {
        if change.change == Change::Add {
            self.added.insert(change.id);
        }
        for of in change.references {
            let known = self.references.entry(change.id).or_default();
            for (values, is_added) in [(of.added, true), (of.removed, false)] {
                values.into_iter().for_each(|value| {
                    known.entry((of.attribute, value)).or_insert(is_added);
                });
            }
        }
        for of in change.attributes {
            if let Entry::Vacant(entry) = self.sent.entry((change.id, of.attribute)) {
                entry.insert(of);
            }
        }
    }

    /// Corrects the old values of a change.
    pub(super) fn correct(&self, change: &mut LoggedChange) {
        for of in &mut change.attributes {
            match self.sent.get(&(change.id, of.attribute)) {
                Some(sent) if sent.is_secret => of.old = None,
                // Otherwise an import has shown the values of the object since.
                Some(sent) if of.old == sent.old || of.old.is_none() => of.old = Some(sent.new.clone()),
                None if of.old.is_none() && !of.is_secret && self.added.contains(&change.id) => {
                    of.old = Some(ValueList::of(&[]));
                }
                _ => {}
            }
        }
        if change.change == Change::Delete {
            self.add_sent(change);
            self.correct_references(change);
        }
    }

    /// Corrects the references that a deleted object had.
    fn correct_references(&self, change: &mut LoggedChange) {
        let Some(sent) = self.references.get(&change.id) else { return };
        for ((attribute, value), is_added) in sent {
            let place = change.references.iter().position(|of| of.attribute == *attribute);
            match (place, is_added) {
                (Some(at), true) if !change.references[at].removed.contains(value) => {
                    change.references[at].removed.push(value.clone());
                }
                (Some(at), false) => change.references[at].removed.retain(|known| known != value),
                (None, true) => {
                    let (added, removed) = (Vec::new(), vec![value.clone()]);
                    change.references.push(LoggedReferences { attribute: *attribute, added, removed });
                }
                _ => {}
            }
        }
    }

    /// Adds the attributes that only the earlier runs gave to a deleted object.
    fn add_sent(&self, change: &mut LoggedChange) {
        let known: HashSet<Attribute> = change.attributes.iter().map(|of| of.attribute).collect();
        let sent =
            self.sent.iter().filter(|((id, attribute), _)| *id == change.id && !known.contains(attribute));
        let none = ValueList::of(&[]);
        change.attributes.extend(sent.filter(|(_, sent)| sent.new != none).map(|((_, attribute), sent)| {
            let old = (!sent.is_secret).then(|| sent.new.clone());
            LoggedAttribute { attribute: *attribute, old, new: none.clone(), is_secret: sent.is_secret }
        }));
        change.attributes.sort_by_key(|of| of.attribute);
    }
}

/// The run of an agent's last complete import before its first export in a run, and whether that run exported to the
/// agent after the import. The history is given newest first. None if the history does not go back so far.
fn last_import(history: &[StepRecord], agent: &str, run: u64) -> Option<(u64, bool)> {
    let of_agent = history.iter().rev().filter(|step| step.agent == agent);
    let mut last = None;
    for step in of_agent {
        match step.step.as_str() {
            "export" | "undo" if step.number >= run => break,
            "export" | "undo" => {
                if let Some((import, exports_after)) = &mut last {
                    *exports_after |= *import == step.number;
                }
            }
            "full-import" | "delta-import" if step.number <= run && !step.outcome.starts_with("stopped") => {
                last = Some((step.number, false));
            }
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_import_before_the_first_export_of_a_run_counts() {
        let step = |number, agent: &str, step: &str, outcome: &str| StepRecord {
            number,
            agent: agent.into(),
            step: step.into(),
            outcome: outcome.into(),
            ..StepRecord::default()
        };
        let mut history = vec![
            step(1, "a", "full-import", "success"),
            step(1, "a", "export", "success"),
            step(2, "b", "full-import", "success"),
            step(2, "a", "export", "success"),
            step(3, "a", "full-import", "stopped-connectivity"),
            step(3, "a", "export", "success"),
            step(4, "a", "export", "success"),
            step(4, "a", "delta-import", "completed-warnings"),
            step(5, "a", "export", "success"),
        ];
        history.reverse();
        let import_of = |run| last_import(&history, "a", run);
        assert_eq!(import_of(1), Some((1, false)));
        assert_eq!(import_of(2), Some((1, true)));
        assert_eq!(import_of(4), Some((1, true)));
        assert_eq!(import_of(5), Some((4, false)));
        assert_eq!(last_import(&history, "b", 1), None);
    }
}
