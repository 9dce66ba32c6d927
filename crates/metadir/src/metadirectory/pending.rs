//! Pending exports: what waits to be sent to a connected system.

use std::collections::{BTreeMap, HashMap};

use super::Metadirectory;
use crate::export::selection::{held, held_parts, target_anchors};
use crate::object::{Change, CsId, CsObject, Phase, Reference, ReferenceChange};
use crate::preview::{Difference, NAME, Place, shown, shown_of};
use crate::stage::StepError;
use crate::store::trail::{HeldPart, KeptFailure, Times};
use crate::store::{Population, StoreError, of_each, parts};

/// An object with changes that wait to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// What is to be sent.
    pub difference: Difference,
    /// Since when, seconds since 1970; none if it is not known.
    pub since_unix_s: Option<u64>,
    /// What an undo holds back: an attribute, the name or the whole object, and the number of the run that was
    /// undone.
    pub held: Vec<(String, u64)>,
    /// The last error of the object and when it happened, if it failed.
    pub failed: Option<(String, Times)>,
}

impl Metadirectory {
    /// Calls `each` with the changes that wait to be sent to an agent, until it returns false. With a key,
    /// only with those of the object with this name or anchor. Returns false if there is no such object.
    ///
    /// # Errors
    /// When the store fails.
    pub fn pending(
        &mut self,
        agent: usize,
        key: Option<&str>,
        each: &mut dyn FnMut(PendingChange) -> bool,
    ) -> Result<bool, StepError> {
        if let Some(key) = key {
            let Some(object) = self.object(agent, key)? else { return Ok(false) };
            self.pending_of(agent, vec![object], each)?;
            return Ok(true);
        }
        let (mut after, mut most) = (CsId(0), 128);
        loop {
            let space = self.rules.agents[agent].id;
            let mut objects = self.store.cs_after(space, after, most, Population::Exporting)?;
            let Some(last) = objects.last() else { return Ok(true) };
            after = last.id;
            most = self.batch_objects.max(1);
            objects.retain(is_waiting);
            if !self.pending_of(agent, objects, each)? {
                return Ok(true);
            }
        }
    }

    /// The number of objects with changes that wait to be sent to an agent.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count_pending(&mut self, agent: usize) -> Result<u64, StepError> {
        let (mut count, mut after) = (0, CsId(0));
        loop {
            let space = self.rules.agents[agent].id;
            let most = self.batch_objects.max(1);
            let objects = self.store.cs_after(space, after, most, Population::Exporting)?;
            let Some(last) = objects.last() else { return Ok(count) };
            after = last.id;
            count += objects.iter().filter(|object| is_waiting(object)).count() as u64;
        }
    }

    fn pending_of(
        &mut self,
        agent: usize,
        objects: Vec<CsObject>,
        each: &mut dyn FnMut(PendingChange) -> bool,
    ) -> Result<bool, StoreError> {
        let ids: Vec<CsId> = objects.iter().map(|object| object.id).collect();
        let failures = self.store.trail().failures(&ids)?.into_iter();
        let mut failures: HashMap<CsId, KeptFailure> = failures.map(|failed| (failed.cs, failed)).collect();
        let refer = !self.rules.agents[agent].references.is_empty();
        let space = &self.rules.agents[agent];
        let mut held = held(self.store.as_mut(), space, &objects)?;
        let mut objects = objects.into_iter();
        for part in parts(self.store.as_mut(), &ids, refer)? {
            let mut references = of_each(self.store.as_mut(), part, refer)?;
            let unapplied = references.values().flatten().filter(|of| of.is_unapplied() && !held.is_empty());
            let space = &self.rules.agents[agent];
            let anchors = target_anchors(self.store.as_mut(), space, unapplied.map(|of| of.target))?;
            for object in objects.by_ref().take(part.len()).filter(is_waiting) {
                let of = references.remove(&object.id).unwrap_or_default();
                let failed = failures.remove(&object.id).map(|failed| (failed.failure.text, failed.times));
                let since_unix_s = object.pending_export.as_ref().and_then(|export| export.since_unix_s);
                let difference = self.waiting(agent, &object, &of);
                let held = held.remove(&object.id).map_or_else(Vec::new, |holds| {
                    let holds = held_parts(space, &object, &of, &holds, &anchors);
                    holds.into_iter().map(|hold| (self.part_name(hold.part), hold.run)).collect()
                });
                if !each(PendingChange { difference, since_unix_s, held, failed }) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn part_name(&self, part: HeldPart) -> String {
        match part {
            HeldPart::Add | HeldPart::Delete => "the object".into(),
            HeldPart::Rename => NAME.into(),
            HeldPart::Attribute(attribute) => self.names.name(attribute).to_string(),
        }
    }

    /// The changes of an object that wait to be sent.
    fn waiting(&self, agent: usize, object: &CsObject, references: &[Reference]) -> Difference {
        let mut attributes = Vec::new();
        let mut change = Change::Update;
        if let Some(export) = &object.pending_export {
            if export.phase == Phase::Unapplied {
                change = export.change;
            }
            for pending in export.attributes.iter().filter(|pending| pending.phase == Phase::Unapplied) {
                let name = self.names.name(pending.attribute);
                let has = object.image().and_then(|image| image.get(pending.attribute));
                let has = has
                    .map(|values| values.iter().map(|value| shown_of(&self.secrets, name, value)).collect());
                let will = pending.values.iter().map(|value| shown_of(&self.secrets, name, value)).collect();
                attributes.push((name.to_string(), has.unwrap_or_default(), will));
            }
            if let Some(rename) = export.rename.as_ref().filter(|rename| rename.phase == Phase::Unapplied) {
                attributes.push((NAME.into(), vec![object.dn.clone()], vec![rename.dn.clone()]));
            }
        }
        let mut referred: BTreeMap<_, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for reference in references.iter().filter(|reference| reference.is_unapplied()) {
            let (gone, come) = referred.entry(reference.attribute).or_default();
            let is_new = matches!(reference.export, Some((ReferenceChange::There, _)));
            if is_new { come } else { gone }.push(shown(&reference.value));
        }
        for (attribute, (gone, come)) in referred {
            attributes.push((self.names.name(attribute).to_string(), gone, come));
        }
        let place = Place::Exported(self.agents[agent].name.clone());
        Difference { place, change, object: self.called_by(object), attributes }
    }
}

fn is_waiting(object: &CsObject) -> bool {
    object.pending_export.as_ref().is_some_and(crate::object::PendingExport::is_unapplied)
}
