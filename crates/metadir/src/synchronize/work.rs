//! Processes a batch of objects in memory.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::arena::Arena;
use super::exchange::{Loaded, Lookup, Outgoing, Worked, Written};
use super::failed::Failed;
use super::{FAILURES_KEPT, Settings, Synchronized};
use crate::agent::Names;
use crate::hologram::{Builder, Hologram, Opened};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{
    AgentId, CsId, CsObject, Lineage, LineageBuilder, Lineages, MvId, MvObject, PendingImport, State,
};
use crate::rules::{ProjectionRule, Rules, TypeRules};
use crate::schema::Type;
use crate::store::{FailureKind, Key, Numbers, StoreError, Write, value_key};

/// A metaverse object with its connectors, in its state in this batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Mv {
    /// None if it is deleted.
    pub(super) object: Option<MvObject>,
    is_new: bool,
    pub(super) is_changed: bool,
    /// The connectors; the list in the object is not used.
    pub(super) connectors: Vec<CsId>,
}

/// A connector space object, in its state in this batch.
#[derive(Clone, Debug)]
pub(super) struct Cs {
    /// None if it is deleted.
    pub(super) object: Option<CsObject>,
    is_new: bool,
    /// Whether it changed in addition to the synchronization of its pending import.
    pub(super) is_changed: bool,
    is_synchronized: bool,
    /// Whether its references changed.
    pub(super) refers_anew: bool,
    /// Whether its pending reference changes are to be dropped.
    pub(super) is_unwanted: bool,
}

impl Cs {
    pub(super) fn of(object: CsObject, is_new: bool) -> Cs {
        Cs {
            object: Some(object),
            is_new,
            is_changed: false,
            is_synchronized: false,
            refers_anew: false,
            is_unwanted: false,
        }
    }
}

/// The parts of an object that the synchronization of its pending import changes, in their previous state.
pub(super) struct PreviousState {
    state: State,
    mv: Option<MvId>,
    synchronized: Option<Hologram>,
    pending_import: Option<PendingImport>,
    is_changed: bool,
    is_synchronized: bool,
    refers_anew: bool,
}

impl PreviousState {
    fn of(cs: &Cs, object: &CsObject) -> PreviousState {
        PreviousState {
            state: object.state,
            mv: object.mv,
            synchronized: object.synchronized.clone(),
            pending_import: object.pending_import.clone(),
            is_changed: cs.is_changed,
            is_synchronized: cs.is_synchronized,
            refers_anew: cs.refers_anew,
        }
    }

    fn restore(self, cs: &mut Cs) {
        let PreviousState {
            state,
            mv,
            synchronized,
            pending_import,
            is_changed,
            is_synchronized,
            refers_anew,
        } = self;
        if let Some(object) = cs.object.take() {
            cs.object = Some(CsObject { state, mv, synchronized, pending_import, ..object });
        }
        (cs.is_changed, cs.is_synchronized, cs.refers_anew) = (is_changed, is_synchronized, refers_anew);
    }
}

/// A unique value of a connector space object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Claim {
    Anchor(IndexKey),
    Name(IndexKey),
}

/// A batch that is being processed.
pub(super) struct Work<'a> {
    lookup: &'a mut dyn Lookup,
    pub(super) rules: &'a Rules,
    names: &'a Names,
    pub(super) settings: &'a Settings,
    numbers: &'a Numbers,
    done: Synchronized,
    pub(super) mvs: Arena<MvId, Mv>,
    pub(super) css: Arena<CsId, Cs>,
    /// The objects of the batch, in ascending order.
    pub(super) batch: Vec<CsId>,
    /// The metaverse objects with a join key, according to the store.
    found_by: HashMap<Key, BTreeSet<MvId>>,
    /// The changes of join keys in this batch: the object, and whether it has the key.
    rekeyed: HashMap<Key, Vec<(MvId, bool)>>,
    /// Anchors and names that objects have from this batch on.
    claims: HashSet<(AgentId, Claim)>,
    /// Claims that belong to existing objects.
    taken: HashSet<(AgentId, Claim)>,
    /// Metaverse objects with changed connectors or changed keys.
    pub(super) relinked: BTreeSet<MvId>,
    /// Whether an outbound flow writes references.
    pub(super) has_references: bool,
    /// The keys of disconnected connectors.
    pub(super) parted: BTreeSet<(AgentId, IndexKey)>,
    keys: Vec<Write>,
    failures: Vec<Write>,
    /// How to undo the current object if it fails, and what to count if it does not.
    pub(super) undo: Vec<Undo>,
    pub(super) counts: Vec<&'static str>,
    builder: Builder,
    lineage: LineageBuilder,
}

pub(super) enum Undo {
    Mv(MvId, Option<Box<Mv>>),
    Cs(CsId, Option<Box<Cs>>),
    Settled(CsId, PreviousState),
    Rekeyed(Key, Vec<(MvId, bool)>),
    Claim((AgentId, Claim)),
    Keys(usize),
}

impl<'a> Work<'a> {
    /// `taken` has the claims that are known to belong to existing objects.
    pub(super) fn new(
        lookup: &'a mut dyn Lookup,
        rules: &'a Rules,
        names: &'a Names,
        settings: &'a Settings,
        numbers: &'a Numbers,
        taken: HashSet<(AgentId, Claim)>,
    ) -> Self {
        Work {
            lookup,
            rules,
            names,
            settings,
            numbers,
            done: Synchronized::default(),
            mvs: Arena::default(),
            css: Arena::default(),
            batch: Vec::new(),
            found_by: HashMap::new(),
            rekeyed: HashMap::new(),
            claims: HashSet::new(),
            taken,
            relinked: BTreeSet::new(),
            has_references: rules.have_references(),
            parted: BTreeSet::new(),
            keys: Vec::new(),
            failures: Vec::new(),
            undo: Vec::new(),
            counts: Vec::new(),
            builder: Builder::default(),
            lineage: LineageBuilder::default(),
        }
    }

    /// Processes a batch. Deletions are made only if `may_leave` is set.
    pub(super) fn run(mut self, loaded: Loaded, may_leave: bool) -> Result<Worked, StoreError> {
        self.load(loaded);
        let leaving = self.all(may_leave)?;
        Ok(self.finish(leaving))
    }

    fn load(&mut self, loaded: Loaded) {
        // Each object may be projected and provisioned.
        self.mvs.reserve(loaded.objects.len());
        self.css.reserve(2 * loaded.objects.len() + loaded.connectors.len());
        self.claims.reserve(loaded.objects.len());
        let found = loaded.found.into_iter().map(|ids| ids.into_iter().collect());
        self.found_by.extend(loaded.keys.into_iter().zip(found));
        for object in loaded.objects {
            self.batch.push(object.id);
            self.take_up_cs(object);
        }
        self.take_up_mvs(loaded.mvs);
        for connector in loaded.connectors {
            self.take_up_cs(connector);
        }
    }

    /// Adds metaverse objects; returns those of their connectors that are not loaded yet.
    fn take_up_mvs(&mut self, mvs: Vec<MvObject>) -> Vec<CsId> {
        let mut unknown = Vec::new();
        for mut object in mvs {
            let mut connectors = std::mem::take(&mut object.connectors);
            connectors.sort_unstable();
            unknown.extend(connectors.iter().copied().filter(|id| self.css.get(id).is_none()));
            self.mvs.insert(object.id, Mv { object: Some(object), connectors, ..Mv::default() });
        }
        unknown
    }

    fn take_up_cs(&mut self, object: CsObject) {
        if self.css.get(&object.id).is_none() {
            self.css.insert(object.id, Cs::of(object, false));
        }
    }

    fn load_mv(&mut self, ids: &[MvId]) -> Result<(), StoreError> {
        let missing: Vec<MvId> = ids.iter().copied().filter(|id| self.mvs.get(id).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mvs = self.lookup.mv(&missing)?;
        let unknown = self.take_up_mvs(mvs);
        for connector in self.lookup.cs(&unknown)? {
            self.take_up_cs(connector);
        }
        Ok(())
    }

    /// Synchronizes each object of the batch. If `may_leave` is not set, returns the objects whose deletions
    /// are deferred.
    fn all(&mut self, may_leave: bool) -> Result<Vec<CsId>, StoreError> {
        let mut leaving = Vec::new();
        for id in self.batch.clone() {
            self.undo.clear();
            self.undo.push(Undo::Keys(self.keys.len()));
            self.counts.clear();
            match self.object(id, may_leave) {
                Ok(true) => self.counts.drain(..).for_each(|what| self.done.statistics.count(what)),
                Ok(false) => {
                    self.take_back();
                    leaving.push(id);
                }
                Err(Failed::Store(error)) => return Err(error),
                Err(Failed::Object(kind, why)) => {
                    self.take_back();
                    self.done.statistics.count(match kind {
                        FailureKind::AmbiguousJoin => "ambiguous-join",
                        _ => "flow-failure",
                    });
                    if self.done.failures.len() < FAILURES_KEPT {
                        self.done.failures.push((id, why.clone()));
                    }
                    self.failures.push(Write::Failure { id, why: Some((kind, why)) });
                }
            }
        }
        Ok(leaving)
    }

    /// Claims unique values for an object; returns false if another object has one of them.
    pub(super) fn claim(&mut self, agent: AgentId, claims: &[Claim]) -> bool {
        let mine: Vec<(AgentId, Claim)> = claims.iter().map(|claim| (agent, *claim)).collect();
        if mine.iter().any(|claim| self.taken.contains(claim) || self.claims.contains(claim)) {
            return false;
        }
        for claim in mine {
            self.undo.push(Undo::Claim(claim));
            self.claims.insert(claim);
        }
        true
    }

    fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Mv(id, Some(mv)) => self.mvs.insert(id, *mv),
                Undo::Mv(id, None) => self.mvs.remove(&id),
                Undo::Cs(id, Some(cs)) => self.css.insert(id, *cs),
                Undo::Cs(id, None) => self.css.remove(&id),
                Undo::Settled(id, before) => {
                    if let Some(cs) = self.css.get_mut(&id) {
                        before.restore(cs);
                    }
                }
                Undo::Rekeyed(key, ids) => drop(self.rekeyed.insert(key, ids)),
                Undo::Claim(claim) => drop(self.claims.remove(&claim)),
                Undo::Keys(count) => self.keys.truncate(count),
            }
        }
    }

    /// An object for modification; its previous state is kept until the current object is done.
    pub(super) fn cs_mut(&mut self, id: CsId) -> Option<&mut Cs> {
        let cs = self.css.get_mut(&id)?;
        if !self.undo.iter().any(|undo| matches!(undo, Undo::Cs(kept, _) if *kept == id)) {
            self.undo.push(Undo::Cs(id, Some(Box::new(cs.clone()))));
        }
        Some(cs)
    }

    pub(super) fn mv_mut(&mut self, id: MvId) -> Option<&mut Mv> {
        let mv = self.mvs.get_mut(&id)?;
        if !self.undo.iter().any(|undo| matches!(undo, Undo::Mv(kept, _) if *kept == id)) {
            self.undo.push(Undo::Mv(id, Some(Box::new(mv.clone()))));
        }
        Some(mv)
    }

    /// Synchronizes an object. Returns false if something would be deleted and deletions are deferred.
    fn object(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        let rules = self.rules;
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(true) };
        let (agent, mut mv) = (object.agent, object.mv);
        let has_changed = object.pending_import.is_some();
        if object.pending_import == Some(PendingImport::Delete) {
            if mv.is_some() && !may_leave {
                return Ok(false);
            }
            let gives = rules.agent(agent).is_some_and(|agent| !agent.inbound.is_empty());
            if mv.is_some() && gives {
                self.counts.push("connector-delete");
            }
            self.disconnect(id, None)?;
            return Ok(true);
        }
        // An object that was provisioned and not imported yet has no image.
        let image = object.image().cloned();
        let taken = match &image {
            Some(image) => rules.inbound_for(agent, image)?,
            None => None,
        };
        let (Some(image), Some(inbound)) = (image, taken) else {
            return self.show(id, may_leave);
        };
        let inbound = &rules.inbound[inbound];
        if let Some(filter) = &inbound.filter
            && filter.holds(&image)?
        {
            if mv.is_some() {
                if !may_leave {
                    return Ok(false);
                }
                self.counts.push("connector-filtered");
                self.disconnect(id, Some(State::Filtered))?;
            } else {
                self.counts.push("disconnector-filtered");
            }
            self.settle(id, State::Filtered, None);
            return Ok(true);
        }
        let kind = &rules.types[inbound.to];
        let is_other = |mv: &MvObject| mv.kind != kind.kind;
        if mv.and_then(|mv| self.mvs.get(&mv)?.object.as_ref()).is_some_and(is_other) {
            // Other rules apply to it now: it is disconnected and processed like a new one.
            if !may_leave {
                return Ok(false);
            }
            self.counts.push("connector-delete-add");
            self.disconnect(id, Some(State::Disconnected))?;
            mv = None;
        }
        let was_connected = mv.is_some();
        if mv.is_none() {
            mv = self.join(&image, inbound)?;
            let projects = match &inbound.project {
                ProjectionRule::No => false,
                ProjectionRule::Always => true,
                ProjectionRule::When(when) => mv.is_none() && when.holds(&image)?,
            };
            if mv.is_some() {
                self.counts.push("disconnector-joined");
            } else if projects {
                mv = Some(self.project(kind));
                self.counts.push("disconnector-projected");
            }
            if let Some(of) = mv
                && let Some(joined) = self.mv_mut(of)
            {
                joined.connectors.push(id);
                joined.is_changed = true;
                self.relink(of);
            }
        }
        let Some(mv) = mv else {
            self.counts.push("disconnector-remains");
            self.settle(id, State::Disconnected, None);
            return Ok(true);
        };
        self.settle(id, State::Connected, Some(mv));
        let changed = self.flow_in(mv, kind, agent)?;
        if was_connected {
            self.counts.push(if changed { "connector-flow" } else { "connector-no-flow" });
        }
        let may_differ = changed || has_changed && self.is_target(agent);
        if may_differ || self.settings.full || !was_connected {
            self.provision(mv, may_leave)
        } else {
            Ok(true)
        }
    }

    /// Processes an object without inbound rules: its imported image is accepted, and nothing flows from it.
    fn show(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(true) };
        let (agent, state, mv) = (object.agent, object.state, object.mv);
        let has_changed = object.pending_import.is_some();
        self.settle(id, state, mv);
        let rules = self.rules;
        let kind = mv.and_then(|mv| {
            let kind = self.mvs.get(&mv)?.object.as_ref()?.kind;
            Some((mv, rules.types.iter().find(|rules| rules.kind == kind)?))
        });
        let changed = match kind {
            // Inbound rules may have accepted it before.
            Some((mv, kind)) if rules.agent(agent).is_some_and(|agent| !agent.inbound.is_empty()) => {
                self.flow_in(mv, kind, agent)?.then_some(mv)
            }
            _ => None,
        };
        self.counts.push(match (mv, changed) {
            (Some(_), Some(_)) => "connector-flow",
            (Some(_), None) => "connector-no-flow",
            (None, _) => "disconnector-remains",
        });
        let may_differ = changed.or(mv.filter(|_| has_changed && self.is_target(agent)));
        may_differ.map_or(Ok(true), |mv| self.provision(mv, may_leave))
    }

    /// Whether there are outbound flows to an agent: changes made outside the metadirectory are then
    /// corrected.
    fn is_target(&self, agent: AgentId) -> bool {
        self.rules.outbound.iter().any(|rules| rules.agent == agent)
    }

    /// Marks the imported image as synchronized.
    fn settle(&mut self, id: CsId, state: State, mv: Option<MvId>) {
        let rules = self.rules;
        let Some(cs) = self.css.get_mut(&id) else { return };
        let Some(before) = cs.object.as_ref().map(|object| PreviousState::of(cs, object)) else { return };
        self.undo.push(Undo::Settled(id, before));
        let Some(object) = &mut cs.object else { return };
        let moved = object.state != state || object.mv != mv;
        let mut is_found_by_another = false;
        match object.pending_import.take() {
            // Deletions are handled elsewhere.
            Some(PendingImport::Delete) => {}
            None => cs.is_changed |= moved,
            Some(pending) => {
                let is_renamed = matches!(pending, PendingImport::Renamed(_));
                let (PendingImport::Add(image)
                | PendingImport::Update(image)
                | PendingImport::Renamed(image)) = pending
                else {
                    return;
                };
                if let Some(agent) = rules.agent(object.agent) {
                    let before = object.synchronized.as_ref();
                    cs.refers_anew |= agent
                        .references
                        .iter()
                        .any(|of| image.get(*of) != before.and_then(|before| before.get(*of)));
                    // The first import provides its anchor.
                    let has_anchor_now = agent.naming == Naming::Name && before.is_none();
                    is_found_by_another = is_renamed || has_anchor_now;
                }
                object.synchronized = Some(image);
                cs.is_synchronized = true;
            }
        }
        object.state = state;
        object.mv = mv;
        if let Some(mv) = mv.filter(|_| is_found_by_another) {
            self.relink(mv);
        }
    }

    /// Marks the references to an object for evaluation.
    pub(super) fn relink(&mut self, mv: MvId) {
        if self.has_references {
            self.relinked.insert(mv);
        }
    }

    /// The metaverse object that a join rule finds.
    fn join(&mut self, image: &Hologram, rules: &crate::rules::InboundRules) -> Result<Option<MvId>, Failed> {
        let kind = self.rules.types[rules.to].kind;
        let mut ambiguous = None;
        for join in &rules.joins {
            if let Some(when) = &join.when
                && !when.holds(image)?
            {
                continue;
            }
            let Some(values) = image.get(join.cs) else { continue };
            let (Some(value), 1) = (values.iter().next(), values.count()) else { continue };
            let key = (join.rule, value_key(value, join.ignore_case));
            let candidates: Vec<MvId> = self.found_by(key)?.into_iter().collect();
            self.load_mv(&candidates)?;
            let of_kind = |id: &&MvId| {
                self.mvs.get(id).and_then(|mv| mv.object.as_ref()).is_some_and(|object| object.kind == kind)
            };
            let found: Vec<&MvId> = candidates.iter().filter(of_kind).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Some(**one)),
                several => {
                    let name = self.names.name(join.cs);
                    ambiguous = Some(format!(
                        "the join by `{name}` finds {} objects of the metaverse with {:?}",
                        several.len(),
                        String::from_utf8_lossy(value)
                    ));
                }
            }
        }
        match ambiguous {
            Some(why) => Err(Failed::Object(FailureKind::AmbiguousJoin, why)),
            None => Ok(None),
        }
    }

    fn found_by(&mut self, key: Key) -> Result<BTreeSet<MvId>, StoreError> {
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

    fn project(&mut self, kind: &TypeRules) -> MvId {
        let id = MvId(self.numbers.take(1));
        let (image, lineage, connectors) = (Hologram::default(), Lineages::default(), Vec::new());
        let object = MvObject { id, kind: kind.kind, image, lineage, connectors };
        self.undo.push(Undo::Mv(id, None));
        self.mvs.insert(id, Mv { object: Some(object), is_new: true, ..Mv::default() });
        id
    }

    /// The number of a new connector space object.
    pub(super) fn new_cs(&self) -> CsId {
        CsId(self.numbers.take(1))
    }

    /// Recomputes the attributes that an agent contributes to. Returns true if one changed.
    fn flow_in(&mut self, id: MvId, kind: &TypeRules, agent: AgentId) -> Result<bool, Failed> {
        let Some(mv) = self.mvs.get(&id) else { return Ok(false) };
        let Some(old) = &mv.object else { return Ok(false) };
        let mut connectors = Vec::with_capacity(mv.connectors.len());
        for id in &mv.connectors {
            if let Some(object) = self.css.get(id).and_then(|cs| cs.object.as_ref())
                && let Some(image) = &object.synchronized
                && let Some(inbound) = self.rules.inbound_for(object.agent, image)?
            {
                connectors.push((*id, inbound, Opened::of(image)));
            }
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
            if !rules.contributors.iter().any(concerns) {
                if let Some(values) = old_image.get(attribute) {
                    builder.push_values(attribute, values);
                    line.into_iter().for_each(|line| lineage.push(line));
                }
                continue;
            }
            for (place, flow) in &rules.contributors {
                let inbound = &self.rules.inbound[*place];
                let flow = &inbound.flows[*flow];
                let mut of_rules = connectors.iter().filter(|(_, taken_by, _)| taken_by == place);
                let Some((connector, _, image)) = of_rules.next() else { continue };
                if of_rules.next().is_some() {
                    let why = format!(
                        "`{}` would come from several connectors of one agent: ambiguous-import-flow-from-multiple-connectors",
                        self.names.name(attribute)
                    );
                    return Err(Failed::Object(FailureKind::Flow, why));
                }
                if let (crate::rules::FlowSource::Direct(source), Type::Reference) = (&flow.from, rules.kind)
                {
                    // References are separate rows and not a part of the image.
                    let count = image.get(*source).map_or(0, |values| values.count_of_digest());
                    if count > 1 && !rules.several {
                        let why =
                            format!("`{}` refers to one object, not {count}", self.names.name(attribute));
                        return Err(Failed::Object(FailureKind::Flow, why));
                    }
                    continue;
                }
                let from = Lineage {
                    attribute,
                    agent: inbound.agent,
                    cs: *connector,
                    at_unix_s: self.settings.now_unix_s,
                };
                let kept = |same: bool| match line {
                    Some(line) if same && line.cs == from.cs => line,
                    _ => from,
                };
                // Most values are text that is copied unchanged.
                if let (crate::rules::FlowSource::Direct(source), Type::Text) = (&flow.from, rules.kind) {
                    let Some(values) = image.get(*source) else { continue };
                    if values.count() > 1 && !rules.several {
                        let why = format!(
                            "`{}` takes one value, not {}",
                            self.names.name(attribute),
                            values.count()
                        );
                        return Err(Failed::Object(FailureKind::Flow, why));
                    }
                    builder.push_values(attribute, values);
                    lineage.push(kept(old_image.get(attribute) == Some(values)));
                    break;
                }
                let fitted = flow
                    .values(image.image)
                    .map_err(|failed| failed.to_string())
                    .and_then(|values| rules.fitted(values, self.names.name(attribute)));
                let values = match fitted {
                    Ok(values) => values,
                    Err(why) => {
                        return Err(Failed::Object(FailureKind::Flow, why));
                    }
                };
                if !values.is_empty() {
                    let same = old_image
                        .get(attribute)
                        .is_some_and(|old| old.iter().eq(values.iter().map(Vec::as_slice)));
                    builder.push_all(attribute, &mut values.iter().map(Vec::as_slice).collect());
                    lineage.push(kept(same));
                    break;
                }
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

    /// Updates the join keys of an object.
    fn rekey(&mut self, id: MvId, kind: &TypeRules, old: &Hologram, new: &Hologram) {
        let (before, after) = (kind.keys(old), kind.keys(new));
        let lost = before.iter().filter(|key| !after.contains(key)).map(|key| (*key, false));
        let won = after.iter().filter(|key| !before.contains(key)).map(|key| (*key, true));
        for (key, is_won) in lost.chain(won) {
            let rekeyed = self.rekeyed.entry(key).or_default();
            self.undo.push(Undo::Rekeyed(key, rekeyed.clone()));
            rekeyed.retain(|(of, _)| *of != id);
            rekeyed.push((id, is_won));
            self.keys.push(if is_won { Write::NewKey(key, id) } else { Write::DeletedKey(key, id) });
        }
    }

    pub(super) fn unlink(&mut self, object: &CsObject) {
        let Some(id) = object.mv else { return };
        if let Some(mv) = self.mv_mut(id) {
            mv.connectors.retain(|connector| *connector != object.id);
            mv.is_changed = true;
        }
        self.relink(id);
        let agent = self.rules.agent(object.agent).filter(|agent| agent.gives_references);
        let target = agent.and_then(|agent| agent.target(object.anchor, object.name));
        self.parted.extend(target.map(|target| (object.agent, target)));
    }

    /// Disconnects a connector from its metaverse object. Its contributed values are recalled, and the
    /// deletion rule may delete the metaverse object. The connector gets the state `stays`, or is deleted if
    /// there is none.
    fn disconnect(&mut self, id: CsId, stays: Option<State>) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        self.unlink(&object);
        if let Some(cs) = self.cs_mut(id) {
            cs.is_changed = true;
            match (stays, &mut cs.object) {
                (Some(state), Some(object)) => {
                    object.state = state;
                    object.mv = None;
                }
                (None, object) => *object = None,
                (Some(_), None) => {}
            }
        }
        let Some(mv) = object.mv else { return Ok(()) };
        let Some(held) = self.mvs.get(&mv) else { return Ok(()) };
        let Some(of) = &held.object else { return Ok(()) };
        let Some(kind) = self.rules.types.iter().find(|kind| kind.kind == of.kind) else { return Ok(()) };
        let ends = match kind.deleted_with.is_empty() {
            true => held.connectors.is_empty(),
            false => kind.deleted_with.contains(&object.agent),
        };
        if ends {
            return self.end(mv, kind);
        }
        self.flow_in(mv, kind, object.agent)?;
        self.provision(mv, true)?;
        // The provisioned connectors may have been the last ones.
        let is_alone = self.mvs.get(&mv).is_some_and(|mv| mv.object.is_some() && mv.connectors.is_empty());
        if is_alone && kind.deleted_with.is_empty() { self.end(mv, kind) } else { Ok(()) }
    }

    /// Deletes a metaverse object and deprovisions its connectors.
    fn end(&mut self, id: MvId, kind: &TypeRules) -> Result<(), Failed> {
        let Some(mv) = self.mv_mut(id) else { return Ok(()) };
        let (Some(object), connectors) = (mv.object.take(), std::mem::take(&mut mv.connectors)) else {
            return Ok(());
        };
        mv.is_changed = true;
        self.rekey(id, kind, &object.image, &Hologram::default());
        let rules = self.rules;
        for connector in connectors {
            let agent = self.css.get(&connector).and_then(|cs| Some(cs.object.as_ref()?.agent));
            let outbound = rules.outbound.iter().find(|outbound| {
                Some(outbound.agent) == agent && rules.types[outbound.from].kind == kind.kind
            });
            self.deprovision(connector, outbound)?;
        }
        self.counts.push("metaverse-delete");
        Ok(())
    }

    /// The result of the batch.
    fn finish(self, leaving: Vec<CsId>) -> Worked {
        let due = self.due();
        let targets = self.targets();
        let Work { mvs, css, keys, failures, batch, claims, done, .. } = self;
        let mut written =
            Written { batch: Vec::new(), cs: HashSet::new(), mvs: HashSet::new(), keys: Vec::new() };
        let mut writes = Vec::with_capacity(mvs.len() + css.len() + keys.len());
        // These come first, because other objects may take their names.
        writes.extend(
            css.all().filter(|(_, cs)| cs.object.is_none() && !cs.is_new).map(|(id, _)| Write::DeletedCs(id)),
        );
        for (id, mv) in mvs.into_all() {
            let object = mv.object.map(|object| MvObject { connectors: mv.connectors, ..object });
            let count = writes.len();
            match (object, mv.is_new) {
                (Some(object), true) => writes.push(Write::NewMv(object)),
                (Some(object), false) if mv.is_changed => writes.push(Write::Mv(object)),
                (None, false) => writes.push(Write::DeletedMv(id)),
                _ => {}
            }
            if writes.len() > count && !mv.is_new {
                written.mvs.insert(id);
            }
        }
        let failed: HashSet<CsId> = failures
            .iter()
            .filter_map(|write| match write {
                Write::Failure { id, .. } => Some(*id),
                _ => None,
            })
            .collect();
        for (id, cs) in css.into_all() {
            // New objects could not have been read, and the batch's own objects belong to no other batch.
            if !cs.is_new && batch.binary_search(&id).is_err() {
                written.cs.insert(id);
            }
            if cs.object.is_some() && cs.is_unwanted {
                writes.push(Write::UnwantedReferences(id));
            }
            if cs.object.is_some() && cs.refers_anew {
                writes.push(Write::SettledReferences(id));
            }
            match cs.object {
                None => {}
                Some(object) if cs.is_new => writes.push(Write::NewCs(object)),
                Some(object) => {
                    let is_well =
                        object.has_failed && batch.binary_search(&id).is_ok() && !failed.contains(&id);
                    if cs.is_changed {
                        writes.push(Write::Cs(object));
                    } else if cs.is_synchronized {
                        writes.push(Write::Synchronized { id, state: object.state, mv: object.mv });
                    }
                    if is_well {
                        writes.push(Write::Failure { id, why: None });
                    }
                }
            }
        }
        written.keys.extend(keys.iter().filter_map(|write| match write {
            Write::NewKey(key, _) | Write::DeletedKey(key, _) => Some(*key),
            _ => None,
        }));
        writes.extend(keys);
        writes.extend(failures);
        let mut of_agents = BTreeMap::<AgentId, (Vec<IndexKey>, Vec<IndexKey>)>::new();
        for (agent, claim) in claims {
            let (anchors, names) = of_agents.entry(agent).or_default();
            match claim {
                Claim::Anchor(anchor) => anchors.push(anchor),
                Claim::Name(name) => names.push(name),
            }
        }
        written.batch = batch;
        let outgoing = Outgoing { claims: of_agents, writes, due, targets };
        Worked { done, leaving, written, outgoing }
    }
}
