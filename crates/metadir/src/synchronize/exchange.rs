//! What a batch reads from the store, and what it writes.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashSet, HashSetExt as _};

use super::Synchronized;
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, MvObject};
use crate::rules::{Rules, UNIQUE};
use crate::store::{Key, LookupKey, ReferenceTarget, Store, StoreError, Write};

/// A unique value of a connector space object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Claim {
    Anchor(IndexKey),
    Name(IndexKey),
}

/// Look-ups that a batch may need during processing, in addition to its loaded data.
pub(super) trait Lookup {
    fn mv_with(&mut self, key: Key) -> Result<Vec<MvId>, StoreError>;
    fn mv_with_all(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError>;
    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        keys: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError>;
    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError>;
    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError>;
}

/// A store that is queried on the same thread.
pub(super) struct LocalStore<'a>(pub(super) &'a mut dyn Store);

impl Lookup for LocalStore<'_> {
    fn mv_with(&mut self, key: Key) -> Result<Vec<MvId>, StoreError> {
        Ok(self.0.mv_with(&[key])?.into_iter().flatten().collect())
    }

    fn mv_with_all(&mut self, keys: &[Key]) -> Result<Vec<Vec<MvId>>, StoreError> {
        self.0.mv_with(keys)
    }

    fn find(
        &mut self,
        agent: AgentId,
        by: LookupKey,
        keys: &[IndexKey],
    ) -> Result<Vec<Option<ReferenceTarget>>, StoreError> {
        self.0.find(agent, by, keys)
    }

    fn mv(&mut self, ids: &[MvId]) -> Result<Vec<MvObject>, StoreError> {
        self.0.mv(ids)
    }

    fn cs(&mut self, ids: &[CsId]) -> Result<Vec<CsObject>, StoreError> {
        self.0.cs(ids)
    }
}

/// The objects of a batch, and the data that they need.
pub(super) struct Loaded {
    pub(super) objects: Vec<CsObject>,
    /// The join keys of the objects, in ascending order, and the metaverse objects with each.
    pub(super) keys: Vec<Key>,
    pub(super) found: Vec<Vec<MvId>>,
    pub(super) mvs: Vec<MvObject>,
    pub(super) connectors: Vec<CsObject>,
}

impl Loaded {
    /// Loads the data that objects need, with few queries.
    pub(super) fn of(
        store: &mut dyn Store,
        rules: &Rules,
        objects: Vec<CsObject>,
    ) -> Result<Loaded, StoreError> {
        let linked: Vec<MvId> = objects.iter().filter_map(|object| object.mv).collect();
        let mut keys: Vec<Key> = Vec::new();
        for object in objects.iter().filter(|object| object.mv.is_none()) {
            // A condition that fails here fails again when the object is processed.
            let inbound = object.image().and_then(|image| rules.inbound_for(object.agent, image).ok()?);
            let (Some(image), Some(inbound)) = (object.image(), inbound) else { continue };
            let inbound = &rules.inbound[inbound];
            keys.extend(inbound.joins.iter().filter_map(|join| join.key(image).ok()?));
            for candidates in inbound.flows.iter().filter_map(|flow| flow.candidates.as_ref()) {
                let first = candidates.fixed(image).ok().and_then(|values| values.into_iter().next());
                keys.extend(first.map(|value| (candidates.rule, UNIQUE.key(value.as_bytes()))));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let found = store.mv_with(&keys)?;
        let mut ids: Vec<MvId> = linked.into_iter().chain(found.iter().flatten().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mvs = store.mv(&ids)?;
        let own: HashSet<CsId> = match mvs.is_empty() {
            true => HashSet::new(),
            false => objects.iter().map(|object| object.id).collect(),
        };
        let connectors = mvs.iter().flat_map(|mv| &mv.connectors).copied();
        let connectors: Vec<CsId> = connectors.filter(|id| !own.contains(id)).collect();
        Ok(Loaded { keys, found, mvs, connectors: store.cs(&connectors)?, objects })
    }

    /// Adds the objects that earlier attempts found.
    pub(super) fn add(&mut self, store: &mut dyn Store, known: &Known) -> Result<(), StoreError> {
        let ids: Vec<CsId> = known.taken.values().chain(known.found.values().flatten()).copied().collect();
        self.connectors.extend(store.cs(&ids)?);
        Ok(())
    }

    /// The objects of the batch.
    pub(super) fn ids(&self) -> Vec<CsId> {
        self.objects.iter().map(|object| object.id).collect()
    }

    /// The last object; none if there are none.
    pub(super) fn last(&self) -> Option<CsId> {
        self.objects.last().map(|object| object.id)
    }

    /// Whether the writes of a batch change some of this data.
    pub(super) fn is_touched_by(&self, written: &Written) -> bool {
        let all = self.objects.iter().chain(&self.connectors);
        all.into_iter().any(|object| written.has(object.id))
            || self.mvs.iter().any(|object| written.mvs.contains(&object.id))
            || written.keys.iter().any(|key| self.keys.binary_search(key).is_ok())
    }
}

/// What a batch changes: objects, and added or removed join keys.
pub(super) struct Written {
    /// The objects of the batch, in ascending order.
    pub(super) batch: Vec<CsId>,
    /// Other connector space objects.
    pub(super) cs: HashSet<CsId>,
    pub(super) mvs: HashSet<MvId>,
    pub(super) keys: Vec<Key>,
}

impl Written {
    fn has(&self, id: CsId) -> bool {
        self.batch.binary_search(&id).is_ok() || self.cs.contains(&id)
    }
}

/// The result of a batch.
pub(super) struct Worked {
    pub(super) done: Synchronized,
    /// Objects whose deletions are deferred.
    pub(super) leaving: Vec<CsId>,
    /// Objects of the batch that failed.
    pub(super) failed: Vec<CsId>,
    pub(super) written: Written,
    pub(super) outgoing: Outgoing,
}

/// What the processing of a batch assumes not to exist, and what exists.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Anchors and names, with the existing objects that have them.
    pub(super) taken: HashMap<(AgentId, Claim), CsId>,
    /// Join keys, with the objects that are found by them.
    pub(super) found: HashMap<Key, Vec<CsId>>,
}

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.found.is_empty()
    }

    pub(super) fn extend(&mut self, other: Known) {
        self.taken.extend(other.taken);
        self.found.extend(other.found);
    }
}

/// The writes of a batch.
pub(super) struct Outgoing {
    pub(super) claims: BTreeMap<AgentId, (Vec<IndexKey>, Vec<IndexKey>)>,
    /// Join keys that no objects are assumed to have, except the known ones.
    pub(super) asked: Vec<Key>,
    pub(super) writes: Vec<Write>,
    pub(super) due: BTreeSet<CsId>,
    /// Targets whose references must be evaluated again.
    pub(super) targets: BTreeMap<AgentId, Vec<IndexKey>>,
}

impl Outgoing {
    /// What exists although the batch assumed otherwise: objects with the join keys that it asked for, and
    /// objects with the anchors and names of new connectors, which this batch does not release.
    pub(super) fn unknown(&self, store: &mut dyn Store, known: &Known) -> Result<Known, StoreError> {
        let mut unknown = Known::default();
        let mut asked: Vec<Key> = Vec::new();
        if !self.asked.is_empty() && store.has_join_keys()? {
            asked.extend(self.asked.iter().filter(|key| !known.found.contains_key(*key)));
            asked.sort_unstable();
            asked.dedup();
        }
        for (key, found) in asked.iter().zip(store.cs_with(&asked)?) {
            if !found.is_empty() {
                unknown.found.insert(*key, found);
            }
        }
        for (agent, (anchors, names)) in &self.claims {
            let heads = store.heads(*agent, anchors)?;
            let anchors = anchors.iter().zip(heads);
            let anchors = anchors.filter_map(|(anchor, head)| Some((Claim::Anchor(*anchor), head?.id)));
            let found = store.find(*agent, LookupKey::Name, names)?;
            let names = names.iter().zip(found);
            let names = names.filter_map(|(name, found)| Some((Claim::Name(*name), found?.id)));
            unknown.taken.extend(anchors.chain(names).map(|(claim, by)| ((*agent, claim), by)));
        }
        unknown.taken.retain(|claim, _| !known.taken.contains_key(claim));
        if !unknown.taken.is_empty() {
            let leaving = self.writes.iter().filter_map(|write| match write {
                Write::DeletedCs(id) => Some(*id),
                _ => None,
            });
            let leaving: HashSet<CsId> = leaving.collect();
            unknown.taken.retain(|_, by| !leaving.contains(by));
        }
        Ok(unknown)
    }

    /// Writes the batch to the store.
    pub(super) fn write(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        store.write(&self.writes)?;
        let mut due = self.due.clone();
        for (agent, targets) in &self.targets {
            due.extend(store.referring(*agent, targets)?);
        }
        store.write(&due.into_iter().map(Write::Due).collect::<Vec<_>>())
    }
}
