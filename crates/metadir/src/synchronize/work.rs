//! Processes a batch of objects in memory.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::arena::Arena;
use super::exchange::{Claim, Known, Loaded, Lookup, Worked};
use super::failed::Failed;
use super::trace::{ConnectedBy, TraceEvent};
use super::{Settings, Synchronized, Task};
use crate::agent::Names;
use crate::hologram::{Builder, Hologram};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{AgentId, CsId, CsObject, LineageBuilder, MvId, MvObject, PendingImport, State};
use crate::rules::{ProjectionRule, Rules};
use crate::store::{Failure, FailureKind, Key, Numbers, ObjectError, StoreError, Write};

/// A metaverse object with its connectors, in its state in this batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Mv {
    /// None if it is deleted.
    pub(super) object: Option<MvObject>,
    pub(super) is_new: bool,
    pub(super) is_changed: bool,
    /// The connectors; the list in the object is not used.
    pub(super) connectors: Vec<CsId>,
}

/// A connector space object, in its state in this batch.
#[derive(Clone, Debug)]
pub(super) struct Cs {
    /// None if it is deleted.
    pub(super) object: Option<CsObject>,
    pub(super) is_new: bool,
    /// Whether it changed in addition to the synchronization of its pending import.
    pub(super) is_changed: bool,
    pub(super) is_synchronized: bool,
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
    pub(super) is_synchronized: bool,
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

/// A batch that is being processed.
pub(super) struct Work<'a> {
    pub(super) lookup: &'a mut dyn Lookup,
    pub(super) rules: &'a Rules,
    pub(super) names: &'a Names,
    /// What is done with the objects of the batch.
    pub(super) task: Task<'a>,
    pub(super) settings: &'a Settings,
    pub(super) numbers: &'a Numbers,
    pub(super) done: Synchronized,
    pub(super) mvs: Arena<MvId, Mv>,
    pub(super) css: Arena<CsId, Cs>,
    /// The objects of the batch, in ascending order.
    pub(super) batch: Vec<CsId>,
    /// The metaverse objects with a join key, according to the store.
    pub(super) found_by: HashMap<Key, BTreeSet<MvId>>,
    /// The changes of join keys in this batch: the object, and whether it has the key.
    pub(super) rekeyed: HashMap<Key, Vec<(MvId, bool)>>,
    /// Anchors and names that objects have from this batch on, and these objects.
    pub(super) claims: HashMap<(AgentId, Claim), CsId>,
    /// Names that were looked up in a connector space, with the objects that have them in the store.
    pub(super) named: HashMap<(AgentId, IndexKey), Option<CsId>>,
    /// For a value that candidates begin with: the first counter that was not found taken.
    pub(super) counters: HashMap<Key, u64>,
    /// Unique values that the current object got.
    pub(super) chosen: Vec<(MvId, Key)>,
    /// Unique values that objects of connector spaces have that belong to nobody, with these objects.
    pub(super) rejected: HashMap<(MvId, Key), CsId>,
    /// What earlier attempts to process the batch found in the store.
    pub(super) known: &'a Known,
    /// Join keys for which the batch assumes that only the known objects have them.
    pub(super) asked: Vec<Key>,
    /// Objects that became candidates in this batch, by their join keys.
    pub(super) candidates: HashMap<Key, Vec<CsId>>,
    /// Whether the current object gave a join key to a metaverse object.
    pub(super) has_new_keys: bool,
    /// The metaverse object whose image was changed last for the current object, with its join keys.
    pub(super) keys: Option<(MvId, Vec<Key>)>,
    /// Objects that must be evaluated again, because the rules could not be applied with new numbers of references.
    pub(super) unsettled: BTreeSet<CsId>,
    /// Deprovisioned objects that the current object connected again.
    pub(super) returned: HashSet<CsId>,
    /// Metaverse objects with changed connectors or changed keys.
    pub(super) relinked: BTreeSet<MvId>,
    /// Whether an outbound flow writes references.
    pub(super) has_references: bool,
    /// The keys of disconnected connectors.
    pub(super) parted: BTreeSet<(AgentId, IndexKey)>,
    /// Changed join keys, and times of deletions.
    pub(super) writes: Vec<Write>,
    pub(super) failures: Vec<Write>,
    /// How to undo the current object if it fails, and what to count if it does not.
    pub(super) undo: Vec<Undo>,
    pub(super) counts: Vec<&'static str>,
    pub(super) builder: Builder,
    pub(super) lineage: LineageBuilder,
    /// Receives each applied rule, for an explanation.
    pub(super) trace: Option<&'a mut Vec<TraceEvent>>,
}

pub(super) enum Undo {
    Mv(MvId, Option<Box<Mv>>),
    Cs(CsId, Option<Box<Cs>>),
    Settled(CsId, PreviousState),
    Rekeyed(Key, Vec<(MvId, bool)>),
    Claim((AgentId, Claim)),
    /// The numbers of writes, and of failures.
    Writes(usize, usize),
}

impl<'a> Work<'a> {
    /// `known` is what earlier attempts to process the batch found in the store.
    pub(super) fn new(
        lookup: &'a mut dyn Lookup,
        rules: &'a Rules,
        names: &'a Names,
        settings: &'a Settings,
        numbers: &'a Numbers,
        known: &'a Known,
    ) -> Self {
        Work {
            lookup,
            rules,
            names,
            task: Task::Synchronize,
            settings,
            numbers,
            done: Synchronized::default(),
            mvs: Arena::default(),
            css: Arena::default(),
            batch: Vec::new(),
            found_by: HashMap::new(),
            rekeyed: HashMap::new(),
            claims: HashMap::new(),
            named: HashMap::new(),
            counters: HashMap::new(),
            chosen: Vec::new(),
            rejected: HashMap::new(),
            known,
            asked: Vec::new(),
            candidates: HashMap::new(),
            has_new_keys: false,
            keys: None,
            unsettled: BTreeSet::new(),
            returned: HashSet::new(),
            relinked: BTreeSet::new(),
            has_references: rules.have_references(),
            parted: BTreeSet::new(),
            writes: Vec::new(),
            failures: Vec::new(),
            undo: Vec::new(),
            counts: Vec::new(),
            builder: Builder::default(),
            lineage: LineageBuilder::default(),
            trace: None,
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

    pub(super) fn load_mv(&mut self, ids: &[MvId]) -> Result<(), StoreError> {
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
            self.undo.push(Undo::Writes(self.writes.len(), self.failures.len()));
            self.counts.clear();
            self.has_new_keys = false;
            self.keys = None;
            self.returned.clear();
            self.chosen.clear();
            let result = self.carry_out(id, may_leave);
            if matches!(self.task, Task::Recount(_)) && !matches!(result, Ok(true)) {
                self.unsettled.insert(id);
            }
            match result {
                Ok(true) => self.counts.drain(..).for_each(|what| self.done.statistics.count(what)),
                Ok(false) => {
                    self.take_back();
                    leaving.push(id);
                }
                Err(Failed::Taken(_)) if self.task == Task::Synchronize && !may_leave => {
                    self.take_back();
                    self.done.waiting.push(id);
                }
                Err(failed) => {
                    let why = failed.kept()?;
                    self.take_back();
                    self.trace(|| TraceEvent::Failed(why.text.clone()));
                    self.done.statistics.count(match why.kind {
                        FailureKind::AmbiguousJoin => "ambiguous-join",
                        _ => "flow-failure",
                    });
                    self.done.failures.push(self.error(id, &why));
                    self.failures.push(Write::Failure { id, why: Some(why) });
                }
            }
        }
        Ok(leaving)
    }

    /// A failure by the name or anchor of its object.
    fn error(&self, id: CsId, why: &Failure) -> ObjectError {
        let object = self.css.get(&id).and_then(|cs| cs.object.as_ref());
        ObjectError {
            object: object.map_or_else(|| format!("object {}", id.0), |object| self.rules.called(object)),
            kind: why.kind.name().into(),
            attribute: why.attribute.map(|attribute| self.names.name(attribute).into()),
            text: why.text.clone(),
        }
    }

    /// Claims unique values for an object. If another object has one of them, returns that object.
    pub(super) fn claim(&mut self, id: CsId, agent: AgentId, claims: &[Claim]) -> Option<CsId> {
        let mine: Vec<(AgentId, Claim)> = claims.iter().map(|claim| (agent, *claim)).collect();
        let is_other = |by: &&CsId| **by != id;
        let all = mine.iter().flat_map(|claim| [self.known.taken.get(claim), self.claims.get(claim)]);
        if let Some(by) = all.flatten().find(is_other) {
            return Some(*by);
        }
        for claim in mine {
            self.undo.push(Undo::Claim(claim));
            self.claims.insert(claim, id);
        }
        None
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
                Undo::Writes(writes, failures) => {
                    self.writes.truncate(writes);
                    self.failures.truncate(failures);
                }
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
    pub(super) fn object(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        let rules = self.rules;
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(true) };
        let (agent, state, mut mv) = (object.agent, object.state, object.mv);
        if matches!(state, State::Deprovisioned | State::ExplicitDisconnector) {
            return self.rest(id, may_leave);
        }
        let has_changed = object.pending_import.is_some();
        if object.pending_import == Some(PendingImport::Delete) {
            if mv.is_some() && !may_leave {
                return Ok(false);
            }
            let gives = rules.agent(agent).is_some_and(|agent| !agent.inbound.is_empty());
            if mv.is_some() && gives {
                self.counts.push("connector-delete");
            }
            self.trace(|| TraceEvent::Deleted { mv });
            self.disconnect(id, None)?;
            return Ok(true);
        }
        // An object that was provisioned and not imported yet has no image.
        let image = object.image().cloned();
        let taken = match &image {
            Some(image) => rules.inbound_for(agent, image)?,
            None => None,
        };
        self.trace(|| match &image {
            Some(_) => TraceEvent::InboundChosen(taken),
            None => TraceEvent::NotImported,
        });
        let (Some(image), Some(place)) = (image, taken) else {
            return self.show(id, may_leave);
        };
        let inbound = &rules.inbound[place];
        if self.is_filtered(place, &image, state)? {
            return self.exclude(id, mv, may_leave);
        }
        let kind = &rules.types[inbound.to];
        let is_other = |mv: &MvObject| mv.kind != kind.kind;
        if mv.and_then(|mv| self.mvs.get(&mv)?.object.as_ref()).is_some_and(is_other) {
            // Other rules apply to it now: it is disconnected and processed like a new one.
            if !may_leave {
                return Ok(false);
            }
            self.counts.push("connector-delete-add");
            self.disconnect(id, Some(State::Candidate))?;
            mv = None;
        }
        let was_connected = mv.is_some();
        if mv.is_none() {
            mv = self.join_or_project(id, agent, &image, place)?;
        }
        let Some(mv) = mv else {
            self.counts.push("disconnector-remains");
            self.settle(id, State::Candidate, None);
            self.note_candidate(id);
            return Ok(true);
        };
        if was_connected {
            self.trace_connected(id, mv, ConnectedBy::Before);
            self.settle(id, state, Some(mv));
        } else {
            self.connect(id, mv);
        }
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

    /// The metaverse object that a join rule finds for an object, or that it is projected to.
    fn join_or_project(
        &mut self,
        id: CsId,
        agent: AgentId,
        image: &Hologram,
        place: usize,
    ) -> Result<Option<MvId>, Failed> {
        let rules = self.rules;
        let inbound = &rules.inbound[place];
        if let Some(mv) = self.join(image, place)? {
            self.make_room(mv, agent, inbound)?;
            self.counts.push("disconnector-joined");
            self.trace_connected(id, mv, ConnectedBy::Join);
            return Ok(Some(mv));
        }
        let projects = match &inbound.project {
            ProjectionRule::No => false,
            ProjectionRule::Always => true,
            ProjectionRule::When(when) => when.holds(image)?,
        };
        self.trace(|| TraceEvent::Projected { inbound: place, projects });
        if !projects {
            return Ok(None);
        }
        self.counts.push("disconnector-projected");
        Ok(Some(self.project(&rules.types[inbound.to])))
    }

    /// Excludes an object that the filter is true for. Returns false if its disconnection is deferred.
    fn exclude(&mut self, id: CsId, mv: Option<MvId>, may_leave: bool) -> Result<bool, Failed> {
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
        Ok(true)
    }

    /// Whether the filter of inbound rules excludes an object.
    fn is_filtered(&mut self, place: usize, image: &Hologram, state: State) -> Result<bool, Failed> {
        let Some(filter) = &self.rules.inbound[place].filter else { return Ok(false) };
        let holds = match state {
            // An administrator joined it.
            State::ExplicitConnector => None,
            _ => Some(filter.holds(image)?),
        };
        self.trace(|| TraceEvent::FilterResult { inbound: place, holds });
        Ok(holds == Some(true))
    }

    /// Processes an object without inbound rules: its imported image is accepted, and nothing flows from it.
    fn show(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(true) };
        let (agent, state, mv) = (object.agent, object.state, object.mv);
        let has_changed = object.pending_import.is_some();
        if let Some(of) = mv
            && state == State::Connected
            && !self.is_ruled(of, agent)
        {
            // The rules that connected it are gone.
            if !may_leave {
                return Ok(false);
            }
            let stays = (!object.is_not_made()).then_some(State::Candidate);
            self.counts.push("connector-released");
            self.disconnect(id, stays)?;
            if stays.is_some() {
                self.settle(id, State::Candidate, None);
            }
            return Ok(true);
        }
        if let Some(mv) = mv {
            self.trace_connected(id, mv, ConnectedBy::Before);
        }
        self.settle(id, state, mv);
        let rules = self.rules;
        let kind = mv.and_then(|mv| {
            let kind = self.mvs.get(&mv)?.object.as_ref()?.kind;
            Some((mv, rules.types.iter().find(|rules| rules.kind == kind)?))
        });
        let gives = self.settings.full || rules.agent(agent).is_some_and(|agent| !agent.inbound.is_empty());
        let changed = match kind {
            // Inbound rules may have accepted it before.
            Some((mv, kind)) if gives => self.flow_in(mv, kind, agent)?.then_some(mv),
            _ => None,
        };
        self.counts.push(match (mv, changed) {
            (Some(_), Some(_)) => "connector-flow",
            (Some(_), None) => "connector-no-flow",
            (None, _) => "disconnector-remains",
        });
        let may_differ =
            changed.or(mv.filter(|_| self.settings.full || has_changed && self.is_target(agent)));
        may_differ.map_or(Ok(true), |mv| self.provision(mv, may_leave))
    }

    /// Whether outbound rules provision a metaverse object to an agent.
    fn is_ruled(&self, mv: MvId, agent: AgentId) -> bool {
        let kind = self.mvs.get(&mv).and_then(|mv| self.rules.type_of(mv.object.as_ref()?.kind));
        self.rules.outbound.iter().any(|rules| rules.agent == agent && Some(rules.from) == kind)
    }

    /// Whether there are outbound flows to an agent: changes made outside the metadirectory are then
    /// corrected.
    fn is_target(&self, agent: AgentId) -> bool {
        self.rules.outbound.iter().any(|rules| rules.agent == agent)
    }

    /// Marks the imported image as synchronized.
    pub(super) fn settle(&mut self, id: CsId, state: State, mv: Option<MvId>) {
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

    /// The number of a new connector space object.
    pub(super) fn new_cs(&self) -> CsId {
        CsId(self.numbers.take(1))
    }
}

impl Work<'_> {
    /// Adds an event, if someone wants them.
    #[inline]
    pub(super) fn trace(&mut self, event: impl FnOnce() -> TraceEvent) {
        if self.trace.is_some() {
            self.push_event(|_| event());
        }
    }

    /// Adds an event. A run has no trace: this code is kept out of the code that it executes for each object.
    #[cold]
    #[inline(never)]
    fn push_event(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        let event = event(self);
        if let Some(trace) = &mut self.trace {
            trace.push(event);
        }
    }

    /// The same, with an event that needs the objects of the batch.
    #[inline]
    pub(super) fn trace_of(&mut self, event: impl FnOnce(&Self) -> TraceEvent) {
        if self.trace.is_some() {
            self.push_event(event);
        }
    }

    /// An object as an administrator knows it, by its number.
    pub(super) fn called_by(&self, id: CsId) -> String {
        match self.css.get(&id).and_then(|cs| cs.object.as_ref()) {
            Some(object) => self.called(object),
            None => format!("object {}", id.0),
        }
    }

    /// Adds an event about the connection of an object.
    pub(super) fn trace_connected(&mut self, id: CsId, mv: MvId, by: ConnectedBy) {
        self.trace_of(|work| TraceEvent::Connected { object: work.called_by(id), mv, by });
    }
}
