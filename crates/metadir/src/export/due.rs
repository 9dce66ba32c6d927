//! Values that are sent with a change and never read.

use std::collections::HashMap;

use super::{Batch, Sender};
use crate::agent::ExportedObject;
use crate::expression::Failed;
use crate::hologram::Opened;
use crate::object::{Change, CsObject, MvId, MvObject, Phase};
use crate::rules::{Rules, WriteOnlyRule, WriteOnlyValue};
use crate::stage::StepError;
use crate::write_only::DueValue;

impl<'a> Sender<'a> {
    /// The metaverse objects of objects to which such values are to be sent.
    pub(super) fn metaverse_objects(
        &mut self,
        objects: &[CsObject],
    ) -> Result<HashMap<MvId, MvObject>, StepError> {
        if self.space.write_only.is_empty() || self.is_preview {
            return Ok(HashMap::new());
        }
        let space = self.space;
        let is_due = |object: &&CsObject| {
            let mut pending = object.pending_export.iter().flat_map(|export| export.attributes.iter());
            pending.any(|of| space.is_write_only(of.attribute))
        };
        let ids: Vec<MvId> = objects.iter().filter(is_due).filter_map(|object| object.mv).collect();
        Ok(self.store.mv(&ids)?.into_iter().map(|object| (object.id, object)).collect())
    }

    /// The values that are to be sent with a change.
    pub(super) fn due_values(
        &self,
        object: &CsObject,
        change: &ExportedObject,
        batch: &Batch<'_>,
    ) -> Result<Vec<DueValue<'a>>, String> {
        let rules: &'a Rules = self.rules;
        let mv = object.mv.and_then(|mv| batch.mvs.get(&mv));
        let (Some(export), Some(mv)) = (&object.pending_export, mv) else { return Ok(Vec::new()) };
        let of_object = rules
            .outbound
            .iter()
            .find(|out| out.agent == self.space.id && rules.types[out.from].kind == mv.kind);
        let mut due = Vec::new();
        for pending in export.attributes.iter() {
            let of_attribute = |rule: &&WriteOnlyRule| rule.to == pending.attribute;
            let Some(rule) = of_object.and_then(|of| of.write_only.iter().find(of_attribute)) else {
                continue;
            };
            // An object that is made again needs a value again.
            let is_due = pending.phase == Phase::Unapplied;
            if !is_due && change.change != Change::Add || change.change == Change::Delete {
                continue;
            }
            let values = match &rule.from {
                WriteOnlyValue::Flow(from) => {
                    let failed = |failed: Failed| {
                        let of = self.space.name.as_str();
                        format!("a value in `write_only` of {of} cannot be computed: {}", failed.why)
                    };
                    Some(from.flowing(&Opened::of(&mv.image)).map_err(failed)?.values().to_vec())
                }
                WriteOnlyValue::Secret(_) | WriteOnlyValue::Generated(_) => None,
            };
            due.push(DueValue { at: batch.changes.len(), rule, values, is_due });
        }
        Ok(due)
    }
}
