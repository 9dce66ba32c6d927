//! The join keys of candidates after the join rules changed, or after a store was upgraded.

use crate::agent::Names;
use crate::object::CsId;
use crate::rules::Rules;
use crate::store::{Population, Store, StoreError, Write};

/// The note with the join rules that the stored keys come from.
const NOTE: &str = "join rules of candidates";

/// Stores the join keys of all candidates again if the join rules changed. An interrupted pass is repeated.
///
/// # Errors
/// When the store fails.
pub(crate) fn renew(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    batch_objects: usize,
) -> Result<(), StoreError> {
    let text = rules.join_text(names);
    if store.note(NOTE)?.as_deref() == Some(&text) {
        return Ok(());
    }
    for agent in &rules.agents {
        let mut after = CsId(0);
        loop {
            let objects = store.cs_after(agent.id, after, batch_objects, Population::Keyed)?;
            let Some(last) = objects.last() else { break };
            after = last.id;
            // Linked objects are found by their links. Others are found after their first synchronization,
            // unless they are provisioned.
            let is_found = |is_new: bool| agent.is_correlated || !is_new;
            let writes: Vec<Write> = objects
                .iter()
                .map(|object| {
                    let is_found = object.mv.is_none() && is_found(object.synchronized.is_none());
                    let image = object.image().filter(|_| is_found);
                    Write::JoinKeys { id: object.id, keys: rules.join_keys(agent.id, image) }
                })
                .collect();
            store.write(&writes)?;
            store.commit()?;
        }
    }
    store.set_note(NOTE, Some(&text))?;
    store.commit()
}
