//! The join keys of candidates after the join rules changed, or after a store was upgraded, and the search
//! index after its attributes changed.

use crate::agent::Names;
use crate::object::{CsId, MvId};
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
    renew_search(store, rules, names, batch_objects)?;
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

/// The note with the attributes that the search index has.
const SEARCH_NOTE: &str = "search index";

/// Whether the search index of the store has the attributes of the rules.
///
/// # Errors
/// When the store fails.
pub(crate) fn is_indexed(store: &mut dyn Store, rules: &Rules, names: &Names) -> Result<bool, StoreError> {
    Ok(store.note(SEARCH_NOTE)?.unwrap_or_default() == rules.search_text(names))
}

/// Makes the search index again if its attributes changed. An interrupted pass is repeated.
fn renew_search(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    batch_objects: usize,
) -> Result<(), StoreError> {
    if is_indexed(store, rules, names)? {
        return Ok(());
    }
    store.clear_search()?;
    let mut after = MvId(0);
    let text = rules.search_text(names);
    while !text.is_empty() {
        let objects = store.mv_after(after, batch_objects)?;
        let Some(last) = objects.last() else { break };
        after = last.id;
        let mut writes = Vec::new();
        for object in &objects {
            let Some(kind) = rules.type_of(object.kind) else { continue };
            let keys = rules.types[kind].search_keys(&object.image);
            writes.extend(keys.into_iter().map(|key| Write::NewSearch(key, object.id)));
        }
        store.write(&writes)?;
        store.commit()?;
    }
    store.set_note(SEARCH_NOTE, (!text.is_empty()).then_some(&text))?;
    store.commit()
}
