//! Grace periods: deprovisioned objects that are deleted after a time.

use super::Synchronized;
use crate::object::{Change, CsObject, PendingExport, PendingImport, State};
use crate::rules::Rules;
use crate::store::{Store, StoreError, Write};

/// Stages the deletion of the objects whose grace period is over.
///
/// # Errors
/// When the store fails.
pub(super) fn end(
    store: &mut dyn Store,
    rules: &Rules,
    now_unix_s: u64,
    batch_objects: usize,
    done: &mut Synchronized,
) -> Result<(), StoreError> {
    loop {
        let due = store.deletions(now_unix_s, batch_objects)?;
        if due.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = due.iter().map(|(id, _)| *id).collect();
        // The rules may have changed since.
        let is_over = |object: &CsObject| {
            let mut of_agent = rules.outbound.iter().filter(|rules| rules.agent == object.agent);
            object.state == State::Deprovisioned
                && !matches!(object.pending_import, Some(PendingImport::Delete))
                && of_agent.any(|rules| rules.delete_after_s.is_some())
        };
        let mut writes = Vec::with_capacity(2 * ids.len());
        for object in store.cs(&ids)?.into_iter().filter(is_over) {
            done.statistics.count("provisioned-delete");
            let mut export = PendingExport::new(Change::Delete);
            export.stage(now_unix_s);
            let pending_export = Some(export);
            writes.push(Write::UnwantedReferences(object.id));
            writes.push(Write::Cs(CsObject { pending_export, ..object }));
        }
        writes.extend(ids.into_iter().map(|id| Write::DeleteAt { id, at_unix_s: None }));
        store.write(&writes)?;
        store.commit()?;
    }
}
