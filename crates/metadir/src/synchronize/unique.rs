//! Unique values: the first candidate that nobody has.
//!
//! A value that is still one of the candidates is kept, so nobody is renamed because an earlier candidate became free.
//! Owners are found by keys of the metaverse: of the attribute, or of the names that are pending for a system. The
//! names that a system has are found in its connector space.

use std::collections::BTreeSet;

use super::exchange::Claim;
use super::failed::Failed;
use super::work::{Undo, Work};
use crate::hologram::Hologram;
use crate::index_key::IndexKey;
use crate::object::{AgentId, CsId, CsObject, MvId, Phase};
use crate::rules::{CandidateRule, OutboundRules, TypeRules, UNIQUE};
use crate::store::{FailureKind, Key, LookupKey, StoreError, Write};

/// The largest number of candidates that are looked up with one query.
const AT_ONCE: u64 = 512;

/// The chosen value of a flow: the indexes of the rules and of the flow, the connector, and the value.
pub(super) type Chosen = (usize, usize, CsId, Option<String>);

impl Work<'_> {
    /// The unique values that the connectors of a metaverse object give to it.
    pub(super) fn chosen(&mut self, id: MvId, kind: &TypeRules) -> Result<Vec<Chosen>, Failed> {
        let mut chosen = Vec::new();
        if kind.unique.is_empty() {
            return Ok(chosen);
        }
        let rules = self.rules;
        let mut images: Vec<(CsId, Hologram, usize)> = Vec::new();
        for object in self.connected(id) {
            let Some(image) = &object.synchronized else { continue };
            if let Some(inbound) = rules.inbound_for(object.agent, image)? {
                images.push((object.id, image.clone(), inbound));
            }
        }
        let old = self.mvs.get(&id).and_then(|mv| mv.object.as_ref()).map(|object| object.image.clone());
        let old = old.unwrap_or_default();
        for attribute in &kind.attributes {
            for (place, at) in &attribute.contributors {
                let Some(candidates) = &rules.inbound[*place].flows[*at].candidates else { continue };
                for (cs, image, _) in images.iter().filter(|(.., inbound)| inbound == place) {
                    let has =
                        old.first(attribute.attribute).and_then(|value| std::str::from_utf8(value).ok());
                    let name = self.names.name(attribute.attribute);
                    let value = self.unique_value(id, candidates, image, has, name)?;
                    chosen.push((*place, *at, *cs, value));
                }
            }
        }
        Ok(chosen)
    }

    fn unique_value(
        &mut self,
        id: MvId,
        candidates: &CandidateRule,
        image: &Hologram,
        has: Option<&str>,
        name: &str,
    ) -> Result<Option<String>, Failed> {
        let key = |value: &str| (candidates.rule, UNIQUE.key(value.as_bytes()));
        if let Some(has) = has
            && (self.rejected.is_empty() || !self.rejected.contains_key(&(id, key(has))))
            && candidates.has(image, has, |one, other| one == other)?
        {
            return Ok(Some(has.into()));
        }
        let mut last = None;
        for value in candidates.fixed(image)? {
            match self.owner(id, key(&value))? {
                None => {
                    self.chosen.push((id, key(&value)));
                    return Ok(Some(value));
                }
                Some(owner) => last = Some((value, owner)),
            }
        }
        // Without a value there is nothing to be unique.
        let Some((first, _)) = &last else { return Ok(None) };
        let begin = key(first);
        let (mut n, mut size) = (self.next_counter(begin), CandidateRule::FIRST);
        loop {
            let values = candidates.counted(image, n, size)?;
            if values.is_empty() {
                // A smaller one may be free again.
                if self.counters.remove(&begin).is_some() {
                    n = 2;
                    continue;
                }
                return Err(self.exhausted(name, last));
            }
            let keys: Vec<Key> = values.iter().map(|value| key(value)).collect();
            self.look_up_keys(&keys)?;
            if self.rejected.keys().any(|(of, _)| *of == id) {
                // The batch is processed again if one of them is taken: then all are known.
                self.asked.extend(&keys);
            }
            for value in values {
                n += 1;
                match self.owner(id, key(&value))? {
                    None => {
                        self.counters.insert(begin, n);
                        self.chosen.push((id, key(&value)));
                        return Ok(Some(value));
                    }
                    Some(owner) => last = Some((value, owner)),
                }
            }
            size = (2 * size).min(AT_ONCE);
        }
    }

    /// The first candidate for a name that no other object has or is to have. `id` is the connector; none if it is to
    /// be made: then the first candidate is only assumed to be free, which is checked at the end of the batch.
    pub(super) fn unique_name(
        &mut self,
        id: Option<CsId>,
        mv: MvId,
        image: &Hologram,
        rules: &OutboundRules,
        candidates: &CandidateRule,
    ) -> Result<Option<String>, Failed> {
        let hash = |name: &str| rules.naming.hash(name);
        let mut last = None;
        for name in candidates.fixed(image)? {
            let Some(hash) = hash(&name) else { return Ok(Some(name)) };
            match self.holder(id, mv, rules.agent, candidates.rule, hash, id.is_some())? {
                None => return Ok(Some(name)),
                Some(holder) => last = Some((name, holder)),
            }
        }
        let Some((first, _)) = &last else { return Ok(None) };
        let Some(begin) = hash(first).map(|hash| (candidates.rule, hash)) else { return Ok(None) };
        let (mut n, mut size) = (self.next_counter(begin), CandidateRule::FIRST);
        loop {
            let names = candidates.counted(image, n, size)?;
            if names.is_empty() {
                // A smaller one may be free again.
                if self.counters.remove(&begin).is_some() {
                    n = 2;
                    continue;
                }
                return Err(self.exhausted("dn", last));
            }
            let hashes: Vec<IndexKey> = names.iter().filter_map(|name| hash(name)).collect();
            let keys: Vec<Key> = hashes.iter().map(|hash| (candidates.rule, *hash)).collect();
            self.look_up_keys(&keys)?;
            self.look_up_names(rules.agent, &hashes)?;
            for name in names {
                n += 1;
                let Some(hash) = hash(&name) else { return Ok(Some(name)) };
                match self.holder(id, mv, rules.agent, candidates.rule, hash, true)? {
                    None => {
                        self.counters.insert(begin, n);
                        return Ok(Some(name));
                    }
                    Some(holder) => last = Some((name, holder)),
                }
            }
            size = (2 * size).min(AT_ONCE);
        }
    }

    /// Whether a connector keeps its name, or the one that is pending: it is still one of its candidates.
    pub(super) fn keeps_name(
        &mut self,
        object: &CsObject,
        image: &Hologram,
        rules: &OutboundRules,
        candidates: &CandidateRule,
    ) -> Result<bool, Failed> {
        let pending = object.pending_export.as_ref().and_then(|export| export.rename.as_ref());
        let name = pending.map_or(object.dn.as_str(), |rename| rename.dn.as_str());
        let is_same = |one: &str, other: &str| rules.naming.hash(one) == rules.naming.hash(other);
        if object.name.is_none() && pending.is_none() || !candidates.has(image, name, is_same)? {
            return Ok(false);
        }
        // The system refused it: perhaps another object has it by now.
        let is_refused = object.has_failed && pending.is_some_and(|rename| rename.phase == Phase::Unapplied);
        let (Some(hash), Some(mv)) = (rules.naming.hash(name), object.mv) else { return Ok(true) };
        Ok(!is_refused
            || self.holder(Some(object.id), mv, rules.agent, candidates.rule, hash, true)?.is_none())
    }

    /// Records that a connector is to get a name, so that no other object gets it.
    pub(super) fn reserve(
        &mut self,
        object: &CsObject,
        rules: &OutboundRules,
        candidates: &CandidateRule,
        name: &str,
    ) {
        let Some(mv) = object.mv else { return };
        let pending = object.pending_export.as_ref().and_then(|export| export.rename.as_ref());
        let before = pending.and_then(|rename| rules.naming.hash(&rename.dn));
        let after = rules.naming.hash(name);
        for (hash, is_won) in [(before, false), (object.name, false), (after, true)] {
            let Some(key) = hash.map(|hash| (candidates.rule, hash)) else { continue };
            let changed = self.rekeyed.entry(key).or_default();
            self.undo.push(Undo::Rekeyed(key, changed.clone()));
            changed.retain(|(of, _)| *of != mv);
            changed.push((mv, is_won));
            self.writes.push(if is_won { Write::NewKey(key, mv) } else { Write::DeletedKey(key, mv) });
        }
    }

    /// The first counter that was not found taken in this batch.
    fn next_counter(&self, begin: Key) -> u64 {
        self.counters.get(&begin).copied().unwrap_or(2)
    }

    /// Rejects unique values that a metaverse object got, if an object of a connector space has them that belongs to
    /// nobody, and chooses others. Returns whether there were any. Objects that belong to it are connected by now.
    pub(super) fn reject_taken(&mut self, id: MvId) -> Result<bool, Failed> {
        if self.chosen.is_empty() {
            return Ok(false);
        }
        let rules = self.rules;
        let is_checked = |(_, key): &(MvId, Key)| {
            rules.agents.iter().any(|agent| agent.unique.iter().any(|of| of.1 == key.0))
        };
        let chosen: Vec<(MvId, Key)> =
            std::mem::take(&mut self.chosen).into_iter().filter(is_checked).collect();
        let mut taken: Vec<u32> = Vec::new();
        for (mv, key) in chosen.into_iter().filter(|(mv, _)| *mv == id) {
            self.asked.push(key);
            let found =
                [self.known.found.get(&key), self.candidates.get(&key)].into_iter().flatten().flatten();
            let has = |cs: &&CsId| {
                let object = self.css.get(cs).and_then(|cs| cs.object.as_ref());
                object.filter(|object| object.mv.is_none() && object.state.has_join_keys()).is_some_and(
                    |object| {
                        let image = object.image();
                        image.is_some_and(|image| rules.unique_keys(object.agent, image).any(|of| of == key))
                    },
                )
            };
            if let Some(by) = found.copied().find(|cs| has(&cs)) {
                self.rejected.insert((mv, key), by);
                taken.push(key.0);
            }
        }
        if taken.is_empty() {
            return Ok(false);
        }
        let kind = self.mvs.get(&id).and_then(|mv| rules.type_of(mv.object.as_ref()?.kind));
        let Some(kind) = kind.map(|kind| &rules.types[kind]) else { return Ok(false) };
        for (place, flow) in kind.attributes.iter().flat_map(|of| &of.contributors) {
            let inbound = &rules.inbound[*place];
            let candidates = inbound.flows[*flow].candidates.as_ref();
            if candidates.is_some_and(|candidates| taken.contains(&candidates.rule)) {
                self.flow_in(id, kind, inbound.agent)?;
            }
        }
        Ok(true)
    }

    /// Another metaverse object with a key, or an object of a connector space that belongs to nobody.
    fn owner(&mut self, id: MvId, key: Key) -> Result<Option<String>, StoreError> {
        if let Some(by) = self.rejected.get(&(id, key)) {
            return Ok(Some(self.called_by(*by)));
        }
        let owner = self.found_by(key)?.into_iter().find(|other| *other != id);
        let Some(owner) = owner else { return Ok(None) };
        self.load_mv(&[owner])?;
        let called = self.linked(owner).next().map(|object| self.called(object));
        Ok(Some(called.unwrap_or_else(|| format!("object {} of the metaverse", owner.0))))
    }

    /// Another object that has a name, or is to have it. `looks_up` is whether the connector space is asked.
    fn holder(
        &mut self,
        id: Option<CsId>,
        mv: MvId,
        agent: AgentId,
        rule: u32,
        hash: IndexKey,
        looks_up: bool,
    ) -> Result<Option<String>, StoreError> {
        let claim = (agent, Claim::Name(hash));
        let known = [self.known.taken.get(&claim), self.claims.get(&claim)];
        let mut by = known.into_iter().flatten().copied().find(|by| Some(*by) != id);
        if by.is_none() && looks_up {
            self.look_up_names(agent, &[hash])?;
            let found = self.named.get(&(agent, hash)).copied().flatten();
            // It may have another name in this batch.
            let has = |object: &CsObject| object.name == Some(hash);
            by = found.filter(|by| {
                let loaded = self.css.get(by);
                Some(*by) != id && loaded.is_none_or(|cs| cs.object.as_ref().is_some_and(has))
            });
        }
        if let Some(by) = by {
            let called =
                self.css.get(&by).and_then(|cs| cs.object.as_ref()).map(|object| self.called(object));
            return Ok(Some(called.unwrap_or_else(|| "another object of the system".into())));
        }
        // A name that is pending for another object. The key may be older than the name.
        let pending: BTreeSet<MvId> = self.found_by((rule, hash))?;
        for other in pending.into_iter().filter(|other| *other != mv) {
            self.load_mv(&[other])?;
            let naming = self.rules.agent(agent).map(|agent| agent.naming);
            let is_it = |object: &&CsObject| {
                let rename = object.pending_export.as_ref().and_then(|export| export.rename.as_ref());
                object.agent == agent
                    && (object.name == Some(hash)
                        || rename.is_some_and(|rename| {
                            naming.is_some_and(|naming| naming.hash(&rename.dn) == Some(hash))
                        }))
            };
            if let Some(object) = self.linked(other).find(is_it) {
                return Ok(Some(self.called(object)));
            }
        }
        Ok(None)
    }

    fn look_up_keys(&mut self, keys: &[Key]) -> Result<(), StoreError> {
        let missing: Vec<Key> = keys.iter().copied().filter(|key| !self.found_by.contains_key(key)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.lookup.mv_with_all(&missing)?;
        self.found_by.extend(missing.into_iter().zip(found.into_iter().map(|ids| ids.into_iter().collect())));
        Ok(())
    }

    fn look_up_names(&mut self, agent: AgentId, hashes: &[IndexKey]) -> Result<(), StoreError> {
        let missing: Vec<IndexKey> =
            hashes.iter().copied().filter(|hash| !self.named.contains_key(&(agent, *hash))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.lookup.find(agent, LookupKey::Name, &missing)?;
        let found = missing.into_iter().zip(found);
        self.named.extend(found.map(|(hash, found)| ((agent, hash), found.map(|found| found.id))));
        Ok(())
    }

    fn exhausted(&self, name: &str, last: Option<(String, String)>) -> Failed {
        let last = last.map_or_else(String::new, |(value, owner)| {
            let value =
                if self.is_hidden(name) { crate::config::HIDDEN.to_string() } else { format!("{value:?}") };
            format!(": the last one, {value}, belongs to {owner}")
        });
        let why = format!(
            "every candidate for `{name}` is taken{last}; add a candidate with `n`, or increase `most`"
        );
        Failed::Object(FailureKind::Flow, why)
    }

    fn is_hidden(&self, name: &str) -> bool {
        self.rules.agents.first().is_some_and(|agent| agent.secrets.hides(name))
    }
}
