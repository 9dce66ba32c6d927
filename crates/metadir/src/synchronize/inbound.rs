//! Inbound synchronization: joins, projection, and the flow of values into the metaverse.

use std::collections::BTreeSet;

use super::failed::Failed;
use super::inflow::Inflow;
use super::trace::TraceEvent;
use super::work::{Mv, Undo, Work};
use crate::hologram::{Hologram, Opened};
use crate::object::{AgentId, CsObject, Lineages, MvId, MvObject, PendingImport};
use crate::rules::TypeRules;
use crate::store::{FailureKind, Key, StoreError, Write};

impl Work<'_> {
    /// The metaverse object that the first matching join rule finds. If this rule finds several, the join is
    /// ambiguous, and no further rule is tried.
    pub(super) fn join(&mut self, image: &Hologram, inbound: usize) -> Result<Option<MvId>, Failed> {
        let rules = &self.rules.inbound[inbound];
        let kind = self.rules.types[rules.to].kind;
        for (at, join) in rules.joins.iter().enumerate() {
            let key = if join.is_tried(image)? { Some(join.key(image)?) } else { None };
            let Some(Some(key)) = key else {
                let by_condition = key.is_none();
                self.trace(|| TraceEvent::JoinSkipped { inbound, rule: at, by_condition });
                continue;
            };
            let candidates: Vec<MvId> = self.found_by(key)?.into_iter().collect();
            self.load_mv(&candidates)?;
            let of_kind = |id: &&MvId| {
                self.mvs.get(id).and_then(|mv| mv.object.as_ref()).is_some_and(|object| object.kind == kind)
            };
            let found: Vec<MvId> = candidates.iter().filter(of_kind).copied().collect();
            if self.trace.is_some() {
                let values = join.values(image)?.unwrap_or_default();
                let found = found.clone();
                self.trace(|| TraceEvent::JoinTried { inbound, rule: at, values, found });
            }
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Some(*one)),
                several => {
                    let values = join.values(image)?.unwrap_or_default();
                    let values = join.shown_values(self.names, &self.rules.secrets, &values);
                    let why = format!(
                        "the join by {} finds {} objects of the metaverse with {}: make the values unique, or \
                         add a condition (`when`) to join rule {}",
                        join.shown(self.names),
                        several.len(),
                        values,
                        at + 1
                    );
                    return Err(Failed::Object(FailureKind::AmbiguousJoin, why));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn found_by(&mut self, key: Key) -> Result<BTreeSet<MvId>, StoreError> {
        if !self.found_by.contains_key(&key) {
            let found = self.lookup.mv_with(key)?.into_iter().collect();
            self.found_by.insert(key, found);
        }
        let mut found = self.found_by.get(&key).cloned().unwrap_or_default();
        for (id, is_won) in self.rekeyed.get(&key).into_iter().flatten() {
            if *is_won {
                found.insert(*id)
            } else {
                found.remove(id)
            };
        }
        Ok(found)
    }

    pub(super) fn project(&mut self, kind: &TypeRules) -> MvId {
        let id = MvId(self.numbers.take(1));
        let (image, lineage, connectors) = (Hologram::default(), Lineages::default(), Vec::new());
        let object = MvObject { id, kind: kind.kind, image, lineage, connectors };
        self.undo.push(Undo::Mv(id, None));
        self.mvs.insert(id, Mv { object: Some(object), is_new: true, ..Mv::default() });
        id
    }

    /// Recomputes the attributes that an agent contributes to. Returns true if one changed.
    pub(super) fn flow_in(&mut self, id: MvId, kind: &TypeRules, agent: AgentId) -> Result<bool, Failed> {
        self.trace(|| TraceEvent::FlowsIn { mv: id, agent });
        let chosen = self.chosen(id, kind)?;
        let Some(mv) = self.mvs.get(&id) else { return Ok(false) };
        let Some(old) = &mv.object else { return Ok(false) };
        let mut replaced = Vec::new();
        let mut connectors = Vec::with_capacity(mv.connectors.len());
        for id in &mv.connectors {
            if let Some(object) = self.css.get(id).and_then(|cs| cs.object.as_ref())
                && object.state.is_connected()
                && let Some(image) = &object.synchronized
            {
                if self.is_replaced(object) {
                    replaced.push(*id);
                } else if let Some(inbound) = self.rules.inbound_for(object.agent, image)? {
                    connectors.push((*id, inbound, Opened::of(image)));
                }
            }
        }
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.extend(replaced.iter().map(|id| TraceEvent::Replaced { cs: *id }));
        }
        connectors.sort_unstable_by_key(|(id, ..)| *id);
        let mut builder = std::mem::take(&mut self.builder);
        builder.clear();
        let mut lineage = std::mem::take(&mut self.lineage);
        lineage.clear();
        let mut inflow = Inflow {
            rules: self.rules,
            names: self.names,
            settings: self.settings,
            agent,
            chosen: &chosen,
            connectors: &connectors,
            old: Opened::of(&old.image),
            builder: &mut builder,
            lineage: &mut lineage,
            trace: self.trace.as_deref_mut(),
        };
        let mut of_old = old.lineage.iter().peekable();
        for rules in &kind.attributes {
            let attribute = rules.attribute;
            while of_old.next_if(|line| line.attribute < attribute).is_some() {}
            inflow.attribute(rules, of_old.next_if(|line| line.attribute == attribute))?;
        }
        drop(of_old);
        let is_same = builder.as_bytes() == old.image.as_bytes();
        let made = lineage.finish();
        let is_same_lineage = made == old.lineage;
        let old_image = (!is_same || !is_same_lineage).then(|| old.image.clone());
        let image = (!is_same).then(|| builder.finish());
        (self.builder, self.lineage) = (builder, lineage);
        let Some(old_image) = old_image else { return Ok(false) };
        if let Some(image) = &image {
            self.rekey(id, kind, &old_image, image);
        }
        if let Some(mv) = self.mv_mut(id) {
            mv.is_changed = true;
            if let Some(object) = &mut mv.object {
                (object.image, object.lineage) = (image.unwrap_or(old_image), made);
            }
        }
        Ok(!is_same)
    }

    /// Whether an object was deleted in its system, and another connector of its agent takes its place.
    fn is_replaced(&self, object: &CsObject) -> bool {
        matches!(object.pending_import, Some(PendingImport::Delete))
            && object.mv.is_some_and(|mv| {
                self.connected(mv).any(|other| {
                    other.agent == object.agent
                        && !matches!(other.pending_import, Some(PendingImport::Delete))
                })
            })
    }

    /// Updates the search keys of an object.
    fn renew_search(&mut self, id: MvId, kind: &TypeRules, old: &Hologram, new: &Hologram) {
        if kind.search.is_empty() {
            return;
        }
        let (before, after) = (kind.search_keys(old), kind.search_keys(new));
        let lost = before.iter().filter(|key| !after.contains(key));
        self.writes.extend(lost.map(|key| Write::DeletedSearch(key.clone(), id)));
        let won = after.into_iter().filter(|key| !before.contains(key));
        self.writes.extend(won.map(|key| Write::NewSearch(key, id)));
    }

    /// Updates the join keys and search keys of an object.
    pub(super) fn rekey(&mut self, id: MvId, kind: &TypeRules, old: &Hologram, new: &Hologram) {
        self.renew_search(id, kind, old, new);
        let (before, after) = (kind.keys(old), kind.keys(new));
        let lost = before.iter().filter(|key| !after.contains(key)).map(|key| (*key, false));
        let won = after.iter().filter(|key| !before.contains(key)).map(|key| (*key, true));
        for (key, is_won) in lost.chain(won) {
            self.has_new_keys |= is_won;
            let rekeyed = self.rekeyed.entry(key).or_default();
            self.undo.push(Undo::Rekeyed(key, rekeyed.clone()));
            rekeyed.retain(|(of, _)| *of != id);
            rekeyed.push((id, is_won));
            self.writes.push(if is_won { Write::NewKey(key, id) } else { Write::DeletedKey(key, id) });
        }
        self.keys = Some((id, after));
    }
}
