//! The join keys of candidates and of metaverse objects after the join rules changed, or after a store was
//! upgraded, and the search index after its attributes changed.

use crate::agent::Names;
use crate::object::{CsId, MvId, MvObject};
use crate::rules::{Rules, TypeRules};
use crate::store::{Population, Store, StoreError, Write};

/// The note with the join rules that the stored keys of candidates come from.
const NOTE: &str = "join rules of candidates";
/// The note with the rules of the join keys that metaverse objects have.
const METAVERSE: &str = "join keys of the metaverse";

/// Stores the join keys of all candidates and of metaverse objects again if the join rules changed. An
/// interrupted pass is repeated.
///
/// # Errors
/// When the store fails.
pub(crate) fn renew(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    batch_objects: usize,
) -> Result<(), StoreError> {
    renew_metaverse(store, rules, batch_objects)?;
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
            let is_found = |is_new: bool| agent.has_keys_when_new() || !is_new;
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

/// The rules of the join keys of the metaverse, as text.
fn key_rules(rules: &Rules) -> String {
    let mut all: Vec<u32> =
        rules.types.iter().flat_map(|kind| kind.keys.iter().map(|key| key.rule)).collect();
    all.sort_unstable();
    all.dedup();
    all.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Whether all metaverse objects have their join keys.
///
/// # Errors
/// When the store fails.
pub(crate) fn are_keys_built(store: &mut dyn Store, rules: &Rules) -> Result<bool, StoreError> {
    Ok(store.note(METAVERSE)?.as_ref() == Some(&key_rules(rules)))
}

/// Gives metaverse objects the keys of new join rules. A rule that was removed before and came back is new:
/// its keys were not maintained.
fn renew_metaverse(store: &mut dyn Store, rules: &Rules, batch_objects: usize) -> Result<(), StoreError> {
    let text = key_rules(rules);
    let had = store.note(METAVERSE)?;
    if had.as_deref() == Some(&text) {
        return Ok(());
    }
    let parsed = |text: &str| text.split(' ').filter_map(|rule| rule.parse().ok()).collect::<Vec<u32>>();
    let (all, had) = (parsed(&text), parsed(&had.unwrap_or_default()));
    for rule in had.iter().filter(|rule| !all.contains(rule)) {
        store.drop_keys(*rule)?;
    }
    let new: Vec<u32> = all.into_iter().filter(|rule| !had.contains(rule)).collect();
    for rule in &new {
        store.drop_keys(*rule)?;
    }
    if !new.is_empty() {
        each_mv(store, rules, batch_objects, |kind, object| {
            let keys = kind.keys(&object.image).into_iter().filter(|(rule, _)| new.contains(rule));
            keys.map(|key| Write::NewKey(key, object.id)).collect()
        })?;
    }
    store.set_note(METAVERSE, Some(&text))?;
    store.commit()
}

/// Writes what a function gives for each metaverse object of a type that has rules, batch by batch.
fn each_mv(
    store: &mut dyn Store,
    rules: &Rules,
    batch_objects: usize,
    writes_of: impl Fn(&TypeRules, &MvObject) -> Vec<Write>,
) -> Result<(), StoreError> {
    let mut after = MvId(0);
    loop {
        let objects = store.mv_after(after, batch_objects)?;
        let Some(last) = objects.last() else { return Ok(()) };
        after = last.id;
        let of_rules = |object: &MvObject| rules.type_of(object.kind).map(|kind| &rules.types[kind]);
        let writes = objects.iter().filter_map(|object| Some(writes_of(of_rules(object)?, object)));
        store.write(&writes.flatten().collect::<Vec<_>>())?;
        store.commit()?;
    }
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
    let text = rules.search_text(names);
    if !text.is_empty() {
        each_mv(store, rules, batch_objects, |kind, object| {
            let keys = kind.search_keys(&object.image).into_iter();
            keys.map(|key| Write::NewSearch(key, object.id)).collect()
        })?;
    }
    store.set_note(SEARCH_NOTE, (!text.is_empty()).then_some(&text))?;
    store.commit()
}
