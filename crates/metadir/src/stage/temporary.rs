//! Objects to which an interrupted export gave a temporary name.

use super::Batch;
use crate::agent::{DiscoveryError, ImportedObject};
use crate::naming::temporary_key;
use crate::object::{Change, CsObject, PendingExport, Phase, Rename};
use crate::store::{StoreError, Write};

impl Batch<'_> {
    /// Stages nothing of objects with temporary names, because their naming values are temporary too. The next export
    /// gives them their names.
    pub(super) fn temporary(&mut self, objects: Vec<ImportedObject>) -> Result<(), StoreError> {
        if objects.is_empty() {
            return Ok(());
        }
        let anchors: Vec<_> = objects.iter().map(|object| object.anchor).collect();
        let mut known = Vec::new();
        for (object, head) in objects.into_iter().zip(self.store.heads(self.space.id, &anchors)?) {
            let Some(head) = head else {
                let text = "an interrupted export of another metadirectory, or of a store that was replaced, left this \
                            temporary name; rename or delete the object";
                self.staged.error(DiscoveryError {
                    place: object.dn,
                    kind: "temporary-name",
                    text: text.into(),
                });
                continue;
            };
            self.staged.present.insert(head.id);
            known.push(head.id);
        }
        known.sort_unstable();
        known.dedup();
        for mut object in self.store.cs(&known)? {
            if returns(&mut object) {
                self.writes.push(Write::Cs(object));
            }
        }
        Ok(())
    }
}

/// Records that an object has a temporary name, and that it is to be renamed. Returns whether something changes.
fn returns(object: &mut CsObject) -> bool {
    let key = Some(temporary_key(object.id.0));
    let export = object.pending_export.get_or_insert_with(|| PendingExport::new(Change::Update));
    let is_renamed = export.rename.as_ref().is_some_and(|rename| rename.phase == Phase::Unapplied);
    if object.name == key && (is_renamed || export.change == Change::Delete) {
        return false;
    }
    object.name = key;
    if export.change != Change::Delete {
        let dn = export.rename.take().map_or_else(|| object.dn.clone(), |rename| rename.dn);
        export.rename = Some(Rename { dn, phase: Phase::Unapplied });
    }
    true
}
