//! Inbound synchronization: joins, projection, and the flow of values into the metaverse.

use std::collections::BTreeSet;

use super::failed::Failed;
use super::trace::{Offer, TraceEvent};
use super::unique::Chosen;
use super::work::{Mv, Undo, Work};
use crate::hologram::{Builder, Hologram, Opened};
use crate::object::{
    AgentId, CsId, CsObject, Lineage, LineageBuilder, Lineages, MvId, MvObject, PendingImport,
};
use crate::rules::{AttributeRules, Flow, FlowSource, TypeRules};
use crate::schema::Type;
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
        let old_image = Opened::of(&old.image);
        let mut of_old = old.lineage.iter().peekable();
        for rules in &kind.attributes {
            let attribute = rules.attribute;
            while of_old.next_if(|line| line.attribute < attribute).is_some() {}
            let line = of_old.next_if(|line| line.attribute == attribute);
            let concerns = |(rules, _): &(usize, usize)| self.rules.inbound[*rules].agent == agent;
            // The agent may have given it by a flow that is not in the rules any more.
            let was_given = || line.is_some_and(|line| line.agent == agent);
            if !rules.contributors.iter().any(concerns) && !was_given() {
                if let Some(values) = old_image.get(attribute) {
                    builder.push_values(attribute, values);
                    line.into_iter().for_each(|line| lineage.push(line));
                    // A number of references comes from no agent.
                    if let Some(trace) = self.trace.as_deref_mut().filter(|_| line.is_some()) {
                        let agent = line.map(|line| line.agent);
                        trace.push(TraceEvent::Kept { attribute, values: values.to_vec(), agent });
                    }
                }
                continue;
            }
            let mut is_given = false;
            for (rank, (place, number)) in rules.contributors.iter().enumerate() {
                let inbound = &self.rules.inbound[*place];
                let flow = &inbound.flows[*number];
                let of_rules = || connectors.iter().filter(|(_, taken_by, _)| taken_by == place);
                if connectors.len() > 1
                    && !inbound.multiple_connectors
                    && !is_given
                    && of_rules().nth(1).is_some()
                {
                    let why = format!(
                        "`{}` would come from several connectors of one agent: ambiguous-import-flow-from-multiple-connectors",
                        self.names.name(attribute)
                    );
                    return Err(Failed::Flow(attribute, why));
                }
                for (connector, _, image) in of_rules() {
                    let from = Lineage {
                        attribute,
                        agent: inbound.agent,
                        cs: *connector,
                        at_unix_s: self.settings.now_unix_s,
                    };
                    if flow.candidates.is_some() {
                        let is_it = |(of, by, cs, _): &&Chosen| (of, by, cs) == (place, number, connector);
                        let value = chosen.iter().find(is_it).and_then(|(.., value)| value.as_deref());
                        let begin = builder.as_bytes().len();
                        if let Some(value) = value.filter(|_| !is_given) {
                            let is_same = old_image.first(attribute) == Some(value.as_bytes());
                            builder.push(attribute, value.as_bytes());
                            lineage.push(match line {
                                Some(line) if is_same && line.cs == from.cs => line,
                                _ => from,
                            });
                        }
                        if let Some(trace) = self.trace.as_deref_mut() {
                            let given = Ok(value.is_some());
                            trace.push(Offer::of(rules, rank, from).event(&given, &builder, begin, is_given));
                        }
                        is_given |= value.is_some();
                        if is_given && self.trace.is_none() {
                            break;
                        }
                        continue;
                    }
                    if is_given {
                        let event = self.loser(flow, rules, rank, image, &old_image, line, from);
                        self.trace.iter_mut().for_each(|trace| trace.push(event.clone()));
                        continue;
                    }
                    let begin = builder.as_bytes().len();
                    let given =
                        self.give(flow, rules, image, &old_image, line, from, &mut builder, &mut lineage);
                    if let Some(trace) = self.trace.as_deref_mut() {
                        trace.push(Offer::of(rules, rank, from).event(&given, &builder, begin, false));
                    }
                    is_given = given.map_err(|failed| failed.to(attribute))?;
                    if is_given && self.trace.is_none() {
                        break;
                    }
                }
                if is_given && self.trace.is_none() {
                    break;
                }
            }
            if !is_given
                && let (Some(line), Some(values)) = (line, old_image.get(attribute))
                && self.is_kept(&line, rules, connectors.iter().map(|(id, ..)| *id))
            {
                builder.push_values(attribute, values);
                lineage.push(line);
            }
        }
        let is_same = builder.as_bytes() == old.image.as_bytes();
        drop(of_old);
        let made = lineage.finish();
        self.lineage = lineage;
        let is_same_lineage = made == old.lineage;
        let old_image = old.image.clone();
        if is_same && is_same_lineage {
            self.builder = builder;
            return Ok(false);
        }
        let image = if is_same { old_image.clone() } else { builder.finish() };
        self.builder = builder;
        if !is_same {
            self.rekey(id, kind, &old_image, &image);
        }
        if let Some(mv) = self.mv_mut(id) {
            mv.is_changed = true;
            if let Some(object) = &mut mv.object {
                (object.image, object.lineage) = (image, made);
            }
        }
        Ok(!is_same)
    }

    /// For an explanation: what a flow would give that is not precedent.
    #[cold]
    #[allow(clippy::too_many_arguments, reason = "the state of the loop over the attributes")]
    fn loser(
        &self,
        flow: &Flow,
        rules: &AttributeRules,
        rank: usize,
        image: &Opened<'_>,
        old: &Opened<'_>,
        line: Option<Lineage>,
        from: Lineage,
    ) -> TraceEvent {
        let (mut builder, mut lineage) = (Builder::default(), LineageBuilder::default());
        let would = self.give(flow, rules, image, old, line, from, &mut builder, &mut lineage);
        Offer::of(rules, rank, from).event(&would, &builder, 0, true)
    }

    /// Adds the values that a flow gives to an attribute. Returns false if there are none.
    #[allow(clippy::too_many_arguments, reason = "the state of the loop over the attributes")]
    #[inline(always)]
    fn give(
        &self,
        flow: &Flow,
        rules: &AttributeRules,
        image: &Opened<'_>,
        old: &Opened<'_>,
        line: Option<Lineage>,
        from: Lineage,
        builder: &mut Builder,
        lineage: &mut LineageBuilder,
    ) -> Result<bool, Failed> {
        let attribute = rules.attribute;
        let wrong = |why: String| Err(Failed::Object(FailureKind::Flow, why));
        if let (FlowSource::Direct(source), Type::Reference) = (&flow.from, rules.kind) {
            // References are separate rows and not a part of the image.
            let count = image.get(*source).map_or(0, |values| values.count_of_digest());
            return match count > 1 && !rules.several {
                true => wrong(format!("`{}` refers to one object, not {count}", self.names.name(attribute))),
                false => Ok(false),
            };
        }
        let kept = |same: bool| match line {
            Some(line) if same && line.cs == from.cs => line,
            _ => from,
        };
        // Most values are text that is copied unchanged.
        if let (FlowSource::Direct(source), Type::Text) = (&flow.from, rules.kind) {
            let Some(values) = image.get(*source) else { return Ok(false) };
            let count = values.count();
            if count > 1 && !rules.several {
                return wrong(format!("`{}` takes one value, not {count}", self.names.name(attribute)));
            }
            builder.push_values(attribute, values);
            lineage.push(kept(old.get(attribute) == Some(values)));
            return Ok(true);
        }
        let fitted = flow
            .values(image.image)
            .map_err(|failed| failed.to_string())
            .and_then(|values| rules.fitted(values, self.names.name(attribute)));
        let values = match fitted {
            Ok(values) => values,
            Err(why) => return wrong(why),
        };
        if values.is_empty() {
            return Ok(false);
        }
        let same = old.get(attribute).is_some_and(|old| old.iter().eq(values.iter().map(Vec::as_slice)));
        builder.push_all(attribute, &mut values.iter().map(Vec::as_slice).collect());
        lineage.push(kept(same));
        Ok(true)
    }

    /// Whether a value stays although nothing gives it any more: its agent does not recall values, and its
    /// object is disconnected or the flow is not in the rules any more.
    fn is_kept(
        &self,
        line: &Lineage,
        rules: &AttributeRules,
        mut connectors: impl Iterator<Item = CsId>,
    ) -> bool {
        let recalls = match self.rules.agent(line.agent) {
            Some(agent) => agent.recall,
            None => self.settings.recalls_removed,
        };
        let contributes = |(place, _): &(usize, usize)| self.rules.inbound[*place].agent == line.agent;
        !recalls && (!rules.contributors.iter().any(contributes) || connectors.all(|id| id != line.cs))
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
    }
}
