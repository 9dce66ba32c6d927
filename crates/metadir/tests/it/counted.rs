//! A store that counts its writes.

use std::sync::{Arc, Mutex};

use plimsoll_metadir::hologram::Attribute;
use plimsoll_metadir::index_key::IndexKey;
use plimsoll_metadir::object::{AgentId, CsId, CsObject, MvId, MvObject, Reference};
use plimsoll_metadir::store::{
    Gauges, Head, Key, Link, LookupKey, NameKind, Numbers, Population, ReferenceTarget, StepRecord, Store,
    StoreError, Trail, Write,
};

/// The writes since the last query.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<Write>>>);

impl Written {
    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A store, and the writes to it.
pub(crate) struct Counted {
    pub(crate) store: Box<dyn Store>,
    pub(crate) written: Written,
    /// Number of objects per batch.
    pub(crate) piece_objects: usize,
}

type Answer<T> = Result<T, StoreError>;

impl Store for Counted {
    fn trail(&mut self) -> &mut dyn Trail {
        self.store.trail()
    }

    fn name(&mut self, kind: NameKind, name: &str) -> Answer<u32> {
        self.store.name(kind, name)
    }
    fn names(&mut self, kind: NameKind) -> Answer<Vec<(u32, String)>> {
        self.store.names(kind)
    }
    fn rename(&mut self, kind: NameKind, from: &str, to: &str) -> Answer<()> {
        self.store.rename(kind, from, to)
    }
    fn piece_objects(&self) -> usize {
        self.piece_objects
    }
    fn ids(&self) -> Arc<Numbers> {
        self.store.ids()
    }
    fn heads(&mut self, agent: AgentId, anchors: &[IndexKey]) -> Answer<Vec<Option<Head>>> {
        self.store.heads(agent, anchors)
    }
    fn cs(&mut self, ids: &[CsId]) -> Answer<Vec<CsObject>> {
        self.store.cs(ids)
    }
    fn ids_after(
        &mut self,
        agent: AgentId,
        after: CsId,
        most: usize,
        population: Population,
    ) -> Answer<Vec<CsId>> {
        self.store.ids_after(agent, after, most, population)
    }
    fn mv(&mut self, ids: &[MvId]) -> Answer<Vec<MvObject>> {
        self.store.mv(ids)
    }
    fn mv_after(&mut self, after: MvId, most: usize) -> Answer<Vec<MvObject>> {
        self.store.mv_after(after, most)
    }
    fn drop_keys(&mut self, rule: u32) -> Answer<()> {
        self.store.drop_keys(rule)
    }
    fn search(
        &mut self,
        attribute: Attribute,
        after: (&[u8], MvId),
        before: &[u8],
        most: usize,
    ) -> Answer<Vec<(Vec<u8>, MvId)>> {
        self.store.search(attribute, after, before, most)
    }
    fn clear_search(&mut self) -> Answer<()> {
        self.store.clear_search()
    }
    fn failure(&mut self, id: CsId) -> Answer<Option<String>> {
        self.store.failure(id)
    }
    fn mv_with(&mut self, keys: &[Key]) -> Answer<Vec<Vec<MvId>>> {
        self.store.mv_with(keys)
    }
    fn cs_with(&mut self, keys: &[Key]) -> Answer<Vec<Vec<CsId>>> {
        self.store.cs_with(keys)
    }
    fn deletions(&mut self, until_unix_s: u64, most: usize) -> Answer<Vec<(CsId, u64)>> {
        self.store.deletions(until_unix_s, most)
    }

    fn has_join_keys(&mut self) -> Answer<bool> {
        self.store.has_join_keys()
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        keys: &[IndexKey],
    ) -> Answer<Vec<Option<ReferenceTarget>>> {
        self.store.find(agent, by, keys)
    }
    fn links(&mut self, of: &[MvId]) -> Answer<Vec<Link>> {
        self.store.links(of)
    }
    fn references(&mut self, of: &[CsId]) -> Answer<Vec<Reference>> {
        self.store.references(of)
    }
    fn count_references(&mut self, of: &[CsId]) -> Answer<Vec<u64>> {
        self.store.count_references(of)
    }
    fn referring(&mut self, agent: AgentId, targets: &[IndexKey]) -> Answer<Vec<CsId>> {
        self.store.referring(agent, targets)
    }
    fn due(&mut self, most: usize) -> Answer<Vec<CsId>> {
        self.store.due(most)
    }
    fn write(&mut self, changes: &[Write]) -> Answer<()> {
        self.written.0.lock().unwrap().extend_from_slice(changes);
        self.store.write(changes)
    }
    fn count_imported(&mut self, agent: AgentId) -> Answer<u64> {
        self.store.count_imported(agent)
    }
    fn count_mv(&mut self) -> Answer<u64> {
        self.store.count_mv()
    }
    fn note(&mut self, name: &str) -> Answer<Option<String>> {
        self.store.note(name)
    }
    fn set_note(&mut self, name: &str, text: Option<&str>) -> Answer<()> {
        self.store.set_note(name, text)
    }
    fn keep_step(&mut self, step: &StepRecord) -> Answer<()> {
        self.store.keep_step(step)
    }
    fn history(&mut self, most: usize) -> Answer<Vec<StepRecord>> {
        self.store.history(most)
    }
    fn gauges(&mut self, agent: AgentId) -> Answer<Gauges> {
        self.store.gauges(agent)
    }
    fn commit(&mut self) -> Answer<()> {
        self.store.commit()
    }
    fn roll_back(&mut self) -> Answer<()> {
        self.store.roll_back()
    }
}
