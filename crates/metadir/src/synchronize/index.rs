//! The join keys of candidates after the join rules changed, or after a store was upgraded, and the keys of unique values
//! after rules got candidates.

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
    renew_unique(store, rules, batch_objects)?;
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

/// The note with the rules whose unique values have keys in the store.
const UNIQUE_NOTE: &str = "keys of unique values";

/// Stores the keys of unique values if the rules have other ones than before. An interrupted pass is repeated.
fn renew_unique(store: &mut dyn Store, rules: &Rules, batch_objects: usize) -> Result<(), StoreError> {
    let mut all: Vec<u32> = rules.types.iter().flat_map(|kind| &kind.unique).copied().collect();
    all.sort_unstable();
    let text = format!("{all:?}");
    let known = store.note(UNIQUE_NOTE)?;
    if known.as_deref().unwrap_or("[]") == text {
        return Ok(());
    }
    // Every metaverse object has a connector.
    for agent in rules.agents.iter().filter(|_| !all.is_empty()) {
        let mut after = CsId(0);
        loop {
            let objects = store.cs_after(agent.id, after, batch_objects, Population::All)?;
            let Some(last) = objects.last() else { break };
            after = last.id;
            let mut ids: Vec<MvId> = objects.iter().filter_map(|object| object.mv).collect();
            ids.sort_unstable();
            ids.dedup();
            let mut writes = Vec::new();
            for object in store.mv(&ids)? {
                let kind = rules.types.iter().find(|kind| kind.kind == object.kind);
                let keys = kind.into_iter().flat_map(|kind| {
                    let keys = kind.keys(&object.image);
                    keys.into_iter().filter(|(rule, _)| kind.unique.contains(rule)).collect::<Vec<_>>()
                });
                writes.extend(keys.map(|key| Write::NewKey(key, object.id)));
            }
            store.write(&writes)?;
            store.commit()?;
        }
    }
    store.set_note(UNIQUE_NOTE, Some(&text))?;
    store.commit()
}
