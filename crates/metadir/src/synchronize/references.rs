//! References between objects, in the connector spaces to which the objects are provisioned.
//!
//! A reference of one object to another is a row in its connector space, see [`Reference`]. The metaverse has
//! no copy of it. The values of a metaverse attribute of type reference are the metaverse objects that the
//! references of a connector lead to. The first connector by precedence with such a reference decides.
//!
//! So the values change with every change of a join. The connectors whose references lead to a changed
//! object, or did before, must be evaluated again. They are stored as due in the same transaction, and
//! evaluated when a step has processed its objects. By then every possible target exists, in whatever order
//! the objects came, also if objects refer to each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::recount::{Recount, Recounts};
use super::trace::TraceEvent;
use super::work::Work;
use super::{Settings, Synchronized, Task, carry_out, too_many};
use crate::agent::Names;
use crate::hologram::{Attribute, Hologram};
use crate::index_key::IndexKey;
use crate::object::{
    AgentId, Change, CsId, CsObject, MvId, MvObject, PendingExport, PendingImport, Phase, Reference,
    ReferenceChange, phase_of,
};
use crate::rules::{CountRule, FlowSource, OutboundRules, ReferenceFlow, Rules};
use crate::schema::Type;
use crate::stage::StepError;
use crate::store::{
    Failure, FailureKind, Link, LookupKey, ObjectError, Store, StoreError, Write, of_each, parts,
};

impl Work<'_> {
    /// Connectors whose references must be evaluated because of this batch.
    pub(super) fn due(&self) -> BTreeSet<CsId> {
        let mut due = BTreeSet::new();
        if !self.has_references {
            return due;
        }
        let mut mvs = self.relinked.clone();
        for id in &self.batch {
            let Some(cs) = self.css.get(id) else { continue };
            let Some(object) = &cs.object else { continue };
            let Some(mv) = object.connected_to() else { continue };
            if cs.refers_anew && self.rules.agent(object.agent).is_some_and(|agent| agent.gives_references) {
                due.insert(*id);
            }
            if self.settings.full {
                mvs.insert(mv);
            }
        }
        for mv in mvs {
            let objects = self.connected(mv);
            let is_always = self.is_evaluated_without_references(mv);
            let referring = objects.filter(|object| is_always || refers(self.rules, object));
            due.extend(referring.map(|object| object.id).next());
        }
        due.extend(&self.unsettled);
        due
    }

    fn is_evaluated_without_references(&self, mv: MvId) -> bool {
        let kind = self.mvs.get(&mv).and_then(|mv| self.rules.type_of(mv.object.as_ref()?.kind));
        kind.is_some_and(|kind| self.rules.types[kind].is_evaluated_without_references)
    }

    /// The keys of objects whose referring objects must be evaluated because of this batch.
    pub(super) fn targets(&self) -> BTreeMap<AgentId, Vec<IndexKey>> {
        let mut targets = BTreeMap::<AgentId, Vec<IndexKey>>::new();
        if !self.has_references {
            return targets;
        }
        let objects = self.relinked.iter().flat_map(|mv| self.connected(*mv));
        let now = objects.filter_map(|object| {
            let agent = self.rules.agent(object.agent).filter(|agent| agent.gives_references)?;
            Some((object.agent, agent.target(object.anchor, object.name)?))
        });
        for (agent, target) in now.chain(self.parted.iter().copied()) {
            targets.entry(agent).or_default().push(target);
        }
        for of_agent in targets.values_mut() {
            of_agent.sort_unstable();
            of_agent.dedup();
        }
        targets
    }
}

/// Whether an object has references, or is about to.
fn refers(rules: &Rules, object: &CsObject) -> bool {
    let image = object.synchronized.as_ref();
    image.zip(rules.agent(object.agent)).is_some_and(|(image, agent)| agent.refers(image))
        || object.pending_export.as_ref().is_some_and(|export| export.references.is_some())
}

/// How often a metaverse object is evaluated in a step, before its rules count as contradictory. Each group inside a
/// group may need another evaluation.
const EVALUATIONS_MAX: u32 = 100;

/// What all evaluations of a step depend on.
struct Evaluation<'a> {
    rules: &'a Rules,
    names: &'a Names,
    settings: &'a Settings,
    /// How often each object got other numbers of references.
    recounted: HashMap<MvId, u32>,
    /// Connectors of objects to which the rules could not be applied: they stay due.
    waiting: BTreeSet<CsId>,
}

/// Evaluates all due references. `removed` is the number of objects that the step removed before, with its limit: more is
/// an error. Without it one object is synchronized by a command: what exceeds the limit stays due for a step. `trace`
/// receives the references of each evaluated object.
pub(super) fn bring(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    settings: &Settings,
    removed: Option<(u64, u64)>,
    done: &mut Synchronized,
    mut trace: Option<&mut Vec<TraceEvent>>,
) -> Result<(), StepError> {
    let (recounted, waiting) = (HashMap::new(), BTreeSet::new());
    let mut all_leaving = BTreeSet::<CsId>::new();
    // An explanation keeps nothing, so nothing needs to wait.
    let explains = removed.is_none() && trace.is_some();
    let mut evaluation = Evaluation { rules, names, settings, recounted, waiting };
    loop {
        // What removes nothing comes first, as everywhere in a synchronization.
        let mut leaving = Vec::new();
        loop {
            let most = settings.batch_objects + evaluation.waiting.len();
            let mut due = store.due(most)?;
            due.retain(|id| !evaluation.waiting.contains(id));
            if due.is_empty() {
                break;
            }
            leaving.extend(evaluation.run(store, &due, explains, done, trace.as_deref_mut())?);
        }
        if leaving.is_empty() {
            return Ok(());
        }
        all_leaving.extend(&leaving);
        // The limit is a share of the objects before the step.
        let (before, most) = match removed {
            Some(removed) => removed,
            None => (0, settings.deletes.most(store.count_mv()?)),
        };
        let count = before + all_leaving.len() as u64;
        if count > most {
            return if removed.is_some() { Err(too_many(count, most)) } else { Ok(()) };
        }
        for part in leaving.chunks(settings.batch_objects) {
            evaluation.waiting.retain(|id| !part.contains(id));
            evaluation.run(store, part, true, done, trace.as_deref_mut())?;
        }
    }
}

impl Evaluation<'_> {
    /// Evaluates due connectors and commits. Returns the connectors of objects whose removals are deferred.
    fn run(
        &mut self,
        store: &mut dyn Store,
        due: &[CsId],
        may_leave: bool,
        done: &mut Synchronized,
        mut trace: Option<&mut Vec<TraceEvent>>,
    ) -> Result<Vec<CsId>, StepError> {
        let mut mvs: Vec<MvId> = store.cs(due)?.iter().filter_map(CsObject::connected_to).collect();
        mvs.sort_unstable();
        mvs.dedup();
        let recounts = evaluate(store, self.rules, self.settings, &mvs, done, trace.as_deref_mut())?;
        store.write(&due.iter().copied().map(Write::Done).collect::<Vec<_>>())?;
        let recounts = self.without_cycles(store, recounts, done)?;
        if recounts.is_empty() {
            store.commit()?;
            return Ok(Vec::new());
        }
        // One commit: an object whose new numbers are not applied stays due.
        // The objects are not synchronized again: only their numbers changed.
        let settings = Settings { full: false, ..*self.settings };
        let objects = store.cs(&recounts.values().map(|of| of.connector).collect::<Vec<_>>())?;
        let mut events = trace.is_some().then(Vec::new);
        let (leaving, failed) = carry_out(
            store,
            self.rules,
            self.names,
            &settings,
            Task::Recount(&recounts),
            done,
            objects,
            may_leave,
            events.as_mut(),
        )?;
        if let Some(trace) = trace {
            drop_outdated(trace, &recounts);
            trace.extend(events.into_iter().flatten());
        }
        self.waiting.extend(leaving.iter().chain(&failed));
        Ok(leaving)
    }

    /// Leaves out objects whose numbers change without end: a condition that is false because of its own effect.
    fn without_cycles(
        &mut self,
        store: &mut dyn Store,
        mut recounts: Recounts,
        done: &mut Synchronized,
    ) -> Result<Recounts, StoreError> {
        let mut failures = Vec::new();
        recounts.retain(|mv, recount| {
            let times = self.recounted.entry(*mv).or_default();
            *times += 1;
            if *times > EVALUATIONS_MAX {
                failures.push(recount.connector);
            }
            *times <= EVALUATIONS_MAX
        });
        if failures.is_empty() {
            return Ok(recounts);
        }
        for object in store.cs(&failures)? {
            let text = "the number of its references changes whenever its rules are applied: correct the condition \
                        (`when`) that counts them";
            let why = Failure::new(FailureKind::Flow, text);
            done.statistics.count("flow-failure");
            done.report(ObjectError {
                object: self.rules.called(&object),
                kind: why.kind.name().into(),
                attribute: None,
                text: text.into(),
            });
            store.write(&[Write::Failure { id: object.id, why: Some(why) }])?;
        }
        Ok(recounts)
    }
}

/// Drops what was traced of the outbound rules of objects with other numbers of references by now.
fn drop_outdated(trace: &mut Vec<TraceEvent>, recounts: &Recounts) {
    let mut is_outdated = false;
    trace.retain(|event| match event {
        TraceEvent::OutboundCondition { mv, .. } => {
            is_outdated = recounts.contains_key(mv);
            !is_outdated
        }
        TraceEvent::Named { .. }
        | TraceEvent::FlowOut { .. }
        | TraceEvent::WriteOnly { .. }
        | TraceEvent::Deprovisioned { .. } => !is_outdated,
        _ => true,
    });
}

/// A metaverse object with its connectors.
struct MvConnectors {
    id: MvId,
    /// The index of its type.
    kind: usize,
    image: Hologram,
    connectors: Vec<CsObject>,
}

impl MvConnectors {
    /// The destinations of its references: the rules and the connectors.
    fn targets<'a>(
        &'a self,
        rules: &'a Rules,
    ) -> impl Iterator<Item = (&'a OutboundRules, &'a CsObject)> + 'a {
        let flowing =
            rules.outbound.iter().filter(move |out| out.from == self.kind && !out.references.is_empty());
        flowing.flat_map(move |out| {
            // As with values, references flow to the first connector of an agent.
            let of_agent = self.connectors.iter().filter(move |object| object.agent == out.agent);
            of_agent.filter(|object| !is_ending(object)).take(1).map(move |object| (out, object))
        })
    }

    /// The sources of an attribute's values by precedence: the connector and its attribute.
    fn sources(&self, rules: &Rules, attribute: Attribute) -> Vec<(&CsObject, Attribute)> {
        let kind = &rules.types[self.kind];
        let of = kind.attributes.iter().find(|of| of.attribute == attribute);
        let contributors = of.into_iter().flat_map(|of| &of.contributors);
        contributors
            .flat_map(|(place, flow)| {
                let inbound = &rules.inbound[*place];
                let from = match &inbound.flows[*flow].from {
                    FlowSource::Direct(from) => Some(*from),
                    FlowSource::Constant(_) | FlowSource::Formula(_) => None,
                };
                let takes = |object: &&CsObject| {
                    let image = object.synchronized.as_ref().filter(|_| object.agent == inbound.agent);
                    image.is_some_and(|image| rules.inbound_for(object.agent, image) == Ok(Some(*place)))
                };
                from.and_then(|from| Some((self.connectors.iter().find(takes)?, from)))
            })
            .collect()
    }

    /// Its reference attributes.
    fn attributes<'a>(&self, rules: &'a Rules) -> impl Iterator<Item = Attribute> + 'a {
        let attributes = rules.types[self.kind].attributes.iter();
        attributes.filter(|of| of.kind == Type::Reference).map(|of| of.attribute)
    }

    fn takes_several(&self, rules: &Rules, attribute: Attribute) -> bool {
        let attributes = &rules.types[self.kind].attributes;
        attributes.iter().any(|of| of.attribute == attribute && of.several)
    }
}

fn is_ending(object: &CsObject) -> bool {
    let deleted = object.pending_export.as_ref().is_some_and(|export| export.change == Change::Delete);
    deleted || object.pending_import == Some(PendingImport::Delete)
}

/// Evaluates the references of metaverse objects, in parts that fit into memory. Returns those whose numbers of
/// references changed.
fn evaluate(
    store: &mut dyn Store,
    rules: &Rules,
    settings: &Settings,
    mvs: &[MvId],
    done: &mut Synchronized,
    mut trace: Option<&mut Vec<TraceEvent>>,
) -> Result<Recounts, StoreError> {
    let objects = store.mv(mvs)?;
    let mut held = loaded(store, rules, objects)?;
    let is_counted = |held: &MvConnectors| !rules.types[held.kind].counts.is_empty();
    held.retain(|held| is_counted(held) || held.targets(rules).next().is_some());
    // An object with all its connectors belongs to one part, which begins with the first connector.
    let ids: Vec<CsId> = held.iter().flat_map(|held| &held.connectors).map(|object| object.id).collect();
    let begins: BTreeSet<CsId> =
        parts(store, &ids, true)?.into_iter().filter_map(|part| part.first().copied()).collect();
    let (mut part, mut recounts) = (Vec::new(), Recounts::new());
    for of in held {
        if of.connectors.iter().any(|object| begins.contains(&object.id)) && !part.is_empty() {
            recounts.extend(look_at(store, rules, settings, &part, done, trace.as_deref_mut())?);
            part.clear();
        }
        part.push(of);
    }
    recounts.extend(look_at(store, rules, settings, &part, done, trace)?);
    Ok(recounts)
}

/// A value of a reference attribute, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceValue {
    /// The attribute of the metaverse.
    pub attribute: Attribute,
    /// The metaverse object that it leads to.
    pub to: MvId,
    /// The agent that contributes it.
    pub agent: AgentId,
    /// The connector space object that it comes from.
    pub cs: CsId,
}

/// The references of a metaverse object.
pub(crate) fn given(
    store: &mut dyn Store,
    rules: &Rules,
    of: MvId,
) -> Result<Vec<ReferenceValue>, StoreError> {
    let objects = store.mv(&[of])?;
    Ok(given_by(store, rules, &objects)?.into_iter().flat_map(|(_, values)| values).collect())
}

/// The references of several metaverse objects. Objects of types without rules are left out.
pub(crate) fn given_by(
    store: &mut dyn Store,
    rules: &Rules,
    objects: &[MvObject],
) -> Result<Vec<(MvId, Vec<ReferenceValue>)>, StoreError> {
    let held = loaded(store, rules, objects.to_vec())?;
    let resolved = resolve(store, rules, &held)?;
    let values_of = |held: &MvConnectors| {
        let of_attribute = |attribute| {
            let (given, _) = lead(rules, &resolved, held, attribute);
            given.into_iter().flat_map(move |(source, to)| {
                let (agent, cs) = (source.agent, source.id);
                to.into_iter().map(move |to| ReferenceValue { attribute, to, agent, cs })
            })
        };
        held.attributes(rules).flat_map(of_attribute).collect()
    };
    Ok(held.iter().map(|held| (held.id, values_of(held))).collect())
}

/// Metaverse objects of types with rules, each with its connectors.
fn loaded(
    store: &mut dyn Store,
    rules: &Rules,
    objects: Vec<MvObject>,
) -> Result<Vec<MvConnectors>, StoreError> {
    let mut held = BTreeMap::new();
    let mut connectors = Vec::new();
    for object in objects {
        if let Some(kind) = rules.type_of(object.kind) {
            connectors.extend(object.connectors);
            let of = MvConnectors { id: object.id, kind, image: object.image, connectors: Vec::new() };
            held.insert(object.id, of);
        }
    }
    for connector in store.cs(&connectors)? {
        if let Some(of) = connector.connected_to().and_then(|mv| held.get_mut(&mv)) {
            of.connectors.push(connector);
        }
    }
    Ok(held.into_values().collect())
}

/// The targets of the references of a part.
#[derive(Default)]
struct Resolved {
    /// The references of each connector.
    references: HashMap<CsId, Vec<Reference>>,
    mvs: HashMap<(AgentId, IndexKey), MvId>,
    links: HashMap<MvId, Vec<Link>>,
}

fn resolve(store: &mut dyn Store, rules: &Rules, part: &[MvConnectors]) -> Result<Resolved, StoreError> {
    let ids: Vec<CsId> = part.iter().flat_map(|held| &held.connectors).map(|object| object.id).collect();
    let mut resolved = Resolved { references: of_each(store, &ids, true)?, ..Resolved::default() };
    let mut asked = BTreeMap::<AgentId, BTreeSet<IndexKey>>::new();
    for held in part {
        for (source, attribute) in held.attributes(rules).flat_map(|from| held.sources(rules, from)) {
            let targets = shown(&resolved.references, source.id, attribute).map(|reference| reference.target);
            asked.entry(source.agent).or_default().extend(targets);
        }
    }
    for (agent, targets) in asked {
        let targets: Vec<IndexKey> = targets.into_iter().collect();
        let by_name = rules.agent(agent).is_some_and(|agent| agent.naming.refers_by_name());
        let found = store.find(agent, if by_name { LookupKey::Name } else { LookupKey::Anchor }, &targets)?;
        let known = targets.into_iter().zip(found);
        resolved.mvs.extend(
            known.filter_map(|(target, found)| Some(((agent, target), found.and_then(|found| found.mv)?))),
        );
    }
    let mvs: BTreeSet<MvId> = resolved.mvs.values().copied().collect();
    for link in store.links(&mvs.into_iter().collect::<Vec<_>>())? {
        resolved.links.entry(link.mv).or_default().push(link);
    }
    Ok(resolved)
}

/// The synchronized targets of an object's reference attribute.
fn shown(
    references: &HashMap<CsId, Vec<Reference>>,
    id: CsId,
    attribute: Attribute,
) -> impl Iterator<Item = &Reference> {
    let all = references.get(&id).into_iter().flatten();
    all.filter(move |reference| reference.attribute == attribute && reference.is_synchronized)
}

/// A reference that a connector lacks.
struct New {
    /// The index of the connector among those that change.
    at: usize,
    attribute: Attribute,
    target: IndexKey,
    /// The object that it leads to; for a placeholder, its value.
    to: Result<CsId, Vec<u8>>,
}

/// A connector with its references, also the new ones, and the writes of those that change.
type Changing<'a> = (&'a CsObject, Vec<Reference>, Vec<Write>);

fn look_at(
    store: &mut dyn Store,
    rules: &Rules,
    settings: &Settings,
    part: &[MvConnectors],
    done: &mut Synchronized,
    trace: Option<&mut Vec<TraceEvent>>,
) -> Result<Recounts, StoreError> {
    let resolved = resolve(store, rules, part)?;
    let mut connectors: Vec<Changing<'_>> = Vec::new();
    let mut new: Vec<New> = Vec::new();
    let mut traced: Vec<TraceEvent> = Vec::new();
    for held in part {
        for (out, connector) in held.targets(rules) {
            let mut all = resolved.references.get(&connector.id).cloned().unwrap_or_default();
            let mut changed = Vec::new();
            for flow in &out.references {
                let (wanted, waiting) = required_references(rules, &resolved, held, out.agent, flow.from);
                (0..waiting).for_each(|_| done.statistics.count("reference-waiting"));
                if trace.is_some() {
                    let outbound = rules.outbound.iter().position(|other| std::ptr::eq(other, out));
                    let (cs, attribute, values) = (connector.id, flow.to, Vec::new());
                    let outbound = outbound.unwrap_or_default();
                    traced.push(TraceEvent::ReferencesOut { outbound, cs, attribute, values, waiting });
                }
                let several = held.takes_several(rules, flow.from);
                let missing = compare(flow, several, wanted, &mut all, &mut changed);
                let at = connectors.len();
                let as_new = |(target, to)| New { at, attribute: flow.to, target, to };
                new.extend(missing.into_iter().map(as_new));
            }
            connectors.push((connector, all, changed));
        }
    }
    add_new(store, rules, new, &mut connectors)?;
    if let Some(trace) = trace {
        trace.extend(traced.into_iter().map(|event| with_values(event, &connectors)));
    }
    for connector in connectors {
        write_changes(store, settings, connector, done)?;
    }
    Ok(part.iter().filter_map(|held| recount(rules, &resolved, held)).collect())
}

/// Compares the references of a connector with the wanted ones, and changes those that differ. Returns those that it
/// lacks.
fn compare(
    flow: &ReferenceFlow,
    takes_several: bool,
    mut wanted: HashMap<IndexKey, CsId>,
    all: &mut [Reference],
    changed: &mut Vec<Write>,
) -> Vec<(IndexKey, Result<CsId, Vec<u8>>)> {
    if !takes_several && wanted.len() > 1 {
        let first = wanted.iter().min_by_key(|(_, to)| **to).map(|(target, to)| (*target, *to));
        wanted = first.into_iter().collect();
    }
    let mut placeholder = flow.empty.as_ref().filter(|_| wanted.is_empty());
    for reference in all.iter_mut().filter(|reference| reference.attribute == flow.to) {
        let is_placeholder =
            placeholder.take_if(|placeholder| placeholder.target == reference.target).is_some();
        let is_wanted = wanted.remove(&reference.target).is_some() || is_placeholder;
        let export = next(reference.is_imported, reference.export, is_wanted);
        if export != reference.export {
            reference.export = export;
            changed.push(Write::Reference(reference.clone()));
        }
    }
    let placeholder = placeholder.map(|of| (of.target, Err(of.value.clone())));
    wanted.into_iter().map(|(target, to)| (target, Ok(to))).chain(placeholder).collect()
}

/// Adds the new references, whose values come from the referenced objects.
fn add_new(
    store: &mut dyn Store,
    rules: &Rules,
    new: Vec<New>,
    connectors: &mut [Changing<'_>],
) -> Result<(), StoreError> {
    let mut ids: Vec<CsId> = new.iter().filter_map(|new| new.to.as_ref().ok().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    let objects: HashMap<CsId, CsObject> =
        store.cs(&ids)?.into_iter().map(|object| (object.id, object)).collect();
    for New { at, attribute, target, to } in new {
        let Some((connector, all, changed)) = connectors.get_mut(at) else { continue };
        let agent = rules.agent(connector.agent);
        let value = match to {
            Ok(to) => agent.zip(objects.get(&to)).and_then(|(agent, object)| agent.value_of(object)),
            Err(placeholder) => Some(placeholder),
        };
        let Some(value) = value else { continue };
        let reference = Reference {
            cs: connector.id,
            agent: connector.agent,
            attribute,
            target,
            value,
            is_synchronized: false,
            is_imported: false,
            export: Some((ReferenceChange::There, Phase::Unapplied)),
        };
        changed.push(Write::Reference(reference.clone()));
        all.push(reference);
    }
    Ok(())
}

/// The event with the values that the attribute is to have.
fn with_values(mut event: TraceEvent, connectors: &[Changing<'_>]) -> TraceEvent {
    if let TraceEvent::ReferencesOut { cs, attribute, values, .. } = &mut event {
        let of_object = connectors.iter().find(|(connector, ..)| connector.id == *cs);
        let all = of_object.into_iter().flat_map(|(_, all, _)| all);
        let stay = all.filter(|of| of.attribute == *attribute && of.will_be_there());
        values.extend(stay.map(|reference| reference.value.clone()));
        values.sort_unstable();
    }
    event
}

fn write_changes(
    store: &mut dyn Store,
    settings: &Settings,
    (connector, all, changed): Changing<'_>,
    done: &mut Synchronized,
) -> Result<(), StoreError> {
    let before = connector.pending_export.as_ref().and_then(|export| export.references);
    let after = phase_of(&all);
    if !changed.is_empty() {
        done.statistics.count("outbound-references");
        store.write(&changed)?;
    }
    if before == after {
        return Ok(());
    }
    let mut connector = connector.clone();
    let mut export = connector.pending_export.take().unwrap_or_else(|| PendingExport::new(Change::Update));
    export.references = after;
    export.stage(settings.now_unix_s);
    connector.pending_export = (!export.is_empty()).then_some(export);
    store.write(&[Write::Cs(connector)])
}

/// The numbers of references of an object, if they changed.
fn recount(rules: &Rules, resolved: &Resolved, held: &MvConnectors) -> Option<(MvId, Recount)> {
    let kind = &rules.types[held.kind];
    let connector = held.connectors.iter().find(|_| !kind.counts.is_empty())?.id;
    let count = |rule: &CountRule| {
        let all = match rule.connected_to {
            Some(agent) => required_references(rules, resolved, held, agent, rule.of).0.len(),
            None => lead(rules, resolved, held, rule.of).0.map_or(0, |(_, mvs)| mvs.len()),
        };
        let most = if held.takes_several(rules, rule.of) { all } else { 1 };
        all.min(most) as u64
    };
    Some((held.id, Recount::of(kind, &held.image, connector, count)?))
}

/// The references that a connector of an agent is to have: the targets by key, with the connectors they lead to. And the
/// number of references that wait for a target.
fn required_references(
    rules: &Rules,
    resolved: &Resolved,
    held: &MvConnectors,
    to: AgentId,
    from: Attribute,
) -> (HashMap<IndexKey, CsId>, usize) {
    let agent = rules.agent(to);
    let (given, mut waiting) = lead(rules, resolved, held, from);
    let mut wanted = HashMap::new();
    for mv in given.into_iter().flat_map(|(_, mvs)| mvs) {
        let links = resolved.links.get(&mv).into_iter().flatten();
        let links = links.filter(|link| link.agent == to).take(1);
        let there = links.filter_map(|link| Some((agent?.target(link.anchor, link.name)?, link.cs)));
        let before = wanted.len();
        wanted.extend(there);
        waiting += usize::from(wanted.len() == before);
    }
    (wanted, waiting)
}

/// The objects whose references are the value of an attribute, the targets, and the number of references
/// without a target.
fn lead<'a>(
    rules: &Rules,
    resolved: &Resolved,
    held: &'a MvConnectors,
    attribute: Attribute,
) -> (Option<(&'a CsObject, BTreeSet<MvId>)>, usize) {
    let mut waiting = 0;
    for (source, from) in held.sources(rules, attribute) {
        let mut mvs = BTreeSet::new();
        let placeholders = rules.placeholders(source.agent, from);
        let references = shown(&resolved.references, source.id, from);
        for reference in references.filter(|of| !placeholders.contains(&of.target)) {
            match resolved.mvs.get(&(source.agent, reference.target)) {
                Some(mv) => {
                    mvs.insert(*mv);
                }
                None => waiting += 1,
            }
        }
        if !mvs.is_empty() {
            return (Some((source, mvs)), waiting);
        }
    }
    (None, waiting)
}

/// The next pending change of a reference, depending on whether it exists, whether a change is pending, and
/// whether it is wanted.
fn next(
    is_there: bool,
    export: Option<(ReferenceChange, Phase)>,
    is_wanted: bool,
) -> Option<(ReferenceChange, Phase)> {
    use Phase::{Unapplied, Unconfirmed};
    use ReferenceChange::{Gone, There};
    match (is_wanted, export, is_there) {
        (true, Some((There, _)), _) | (false, Some((Gone, _)), _) => export,
        // The sent change may have been made.
        (true, Some((Gone, Unconfirmed)), _) | (true, _, false) => Some((There, Unapplied)),
        (false, Some((There, Unconfirmed)), _) | (false, _, true) => Some((Gone, Unapplied)),
        (true, _, true) | (false, _, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_leads_to_what_is_wanted() {
        let phases = [Phase::Unapplied, Phase::Unconfirmed];
        let pending = [ReferenceChange::There, ReferenceChange::Gone]
            .into_iter()
            .flat_map(|wanted| phases.map(|phase| Some((wanted, phase))));
        for export in pending.chain([None]) {
            for is_there in [true, false] {
                for is_wanted in [true, false] {
                    let after = next(is_there, export, is_wanted);
                    let will_be = after.map_or(is_there, |(wanted, _)| wanted == ReferenceChange::There);
                    assert_eq!(will_be, is_wanted, "{is_there} {export:?}");
                    // A second evaluation changes nothing, and a sent change is not forgotten.
                    assert_eq!(next(is_there, after, is_wanted), after);
                    if let Some((_, Phase::Unconfirmed)) = export {
                        assert!(after.is_some());
                    }
                }
            }
        }
    }
}
