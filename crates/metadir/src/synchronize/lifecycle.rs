//! How the links between connector space objects and metaverse objects begin and end.
//!
//! A deprovisioned object keeps its link: it stays among the connectors of its metaverse object, in the state
//! [`State::Deprovisioned`]. It gives no values, has no effect on the deletion of the metaverse object, and
//! nothing refers to it. Provisioning connects it again. An object that an administrator disconnected keeps
//! its link too, so that nothing is provisioned in its place.

use super::failed::Failed;
use super::trace::TraceEvent;
use super::work::Work;
use crate::hologram::Hologram;
use crate::object::{AgentId, CsId, CsObject, MvId, PendingImport, State};
use crate::rules::{AgentRules, InboundRules, TypeRules};
use crate::store::FailureKind;

impl Work<'_> {
    /// The objects that are connected to a metaverse object.
    pub(super) fn connected(&self, mv: MvId) -> impl Iterator<Item = &CsObject> {
        self.linked(mv).filter(|object| object.state.is_connected())
    }

    /// The objects that are linked to a metaverse object, including deprovisioned ones.
    pub(super) fn linked(&self, mv: MvId) -> impl Iterator<Item = &CsObject> {
        let ids = self.mvs.get(&mv).map_or(&[][..], |mv| &mv.connectors);
        ids.iter().filter_map(|id| self.css.get(id)?.object.as_ref())
    }

    /// Connects an object to a metaverse object. Its imported image counts as synchronized.
    pub(super) fn connect(&mut self, id: CsId, mv: MvId) {
        if let Some(held) = self.mv_mut(mv) {
            if !held.connectors.contains(&id) {
                held.connectors.push(id);
            }
            held.is_changed = true;
        }
        self.relink(mv);
        self.settle(id, State::Connected, Some(mv));
    }

    /// Makes sure that an object can become a connector: unless the rules allow several connectors of its
    /// agent, another one must not exist. A provisioned connector that its system does not have yet gives
    /// way.
    pub(super) fn make_room(&mut self, mv: MvId, agent: AgentId, rules: &InboundRules) -> Result<(), Failed> {
        if rules.multiple_connectors {
            return Ok(());
        }
        let is_other = |object: &&CsObject| {
            object.agent == agent && !matches!(object.pending_import, Some(PendingImport::Delete))
        };
        let Some(other) = self.connected(mv).find(is_other).cloned() else { return Ok(()) };
        if other.is_not_made() {
            self.trace_of(|work| TraceEvent::GaveWay { object: work.called(&other) });
            self.forget(&other);
            return Ok(());
        }
        let why = format!(
            "{} is connected to the same object of the metaverse already: correct the value by which they join, \
             or set multiple_connectors = true in this [[inbound]]",
            self.called(&other)
        );
        Err(Failed::Object(FailureKind::AmbiguousJoin, why))
    }

    /// An object as an administrator knows it: its agent, and its name or anchor.
    pub(super) fn called(&self, object: &CsObject) -> String {
        let agent = self.rules.agent(object.agent);
        let name = agent.map_or("", |agent| agent.name.as_str());
        format!("{name} {}", called(agent, object))
    }

    /// Deletes an object that has no effect on other objects.
    pub(super) fn forget(&mut self, object: &CsObject) {
        self.unlink(object);
        if let Some(cs) = self.cs_mut(object.id) {
            cs.is_changed = true;
            cs.object = None;
        }
    }

    /// Removes an object from its metaverse object.
    pub(super) fn unlink(&mut self, object: &CsObject) {
        let Some(id) = object.mv else { return };
        if let Some(mv) = self.mv_mut(id) {
            mv.connectors.retain(|connector| *connector != object.id);
            mv.is_changed = true;
        }
        self.part(object);
    }

    /// Marks the references to an object that is no longer connected.
    pub(super) fn part(&mut self, object: &CsObject) {
        if let Some(mv) = object.mv {
            self.relink(mv);
        }
        let agent = self.rules.agent(object.agent).filter(|agent| agent.gives_references);
        let target = agent.and_then(|agent| agent.target(object.anchor, object.name));
        self.parted.extend(target.map(|target| (object.agent, target)));
    }

    /// Synchronizes an object that is not connected and does not join by itself: it was deprovisioned or
    /// disconnected by an administrator.
    pub(super) fn rest(&mut self, id: CsId, may_leave: bool) -> Result<bool, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(true) };
        if matches!(object.pending_import, Some(PendingImport::Delete)) {
            self.trace(|| TraceEvent::Deleted { mv: object.mv });
            self.forget(&object);
            return Ok(true);
        }
        self.trace(|| TraceEvent::Rested(object.state));
        self.counts.push(match object.state {
            State::Deprovisioned => "disconnector-deprovisioned",
            _ => "disconnector-explicit",
        });
        self.settle(id, object.state, object.mv);
        match object.mv {
            Some(mv) if self.settings.full => self.provision(mv, may_leave),
            _ => Ok(true),
        }
    }

    /// Disconnects a connector from its metaverse object. Its contributed values are recalled, and the
    /// deletion rule may delete the metaverse object. The connector gets the state `stays`, or is deleted if
    /// there is none.
    pub(super) fn disconnect(&mut self, id: CsId, stays: Option<State>) -> Result<(), Failed> {
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
        if stays == Some(State::ExplicitDisconnector) {
            self.keep_link(id, mv);
        }
        let Some(held) = self.mvs.get(&mv) else { return Ok(()) };
        let Some(of) = &held.object else { return Ok(()) };
        let Some(kind) = self.rules.types.iter().find(|kind| kind.kind == of.kind) else {
            // Its type is not in the rules any more: it ends with its last connector.
            let is_alone = self.connected(mv).next().is_none();
            return if is_alone { self.end(mv, None) } else { Ok(()) };
        };
        if self.ends_without(mv, kind, object.agent) {
            return self.end(mv, Some(kind));
        }
        self.flow_in(mv, kind, object.agent)?;
        self.provision(mv, true)?;
        // The provisioned connectors may have been the last ones.
        let is_alone =
            self.mvs.get(&mv).is_some_and(|mv| mv.object.is_some()) && self.connected(mv).next().is_none();
        if is_alone { self.end(mv, Some(kind)) } else { Ok(()) }
    }

    /// Links an object that an administrator disconnected: it takes the place of a provisioned object.
    fn keep_link(&mut self, id: CsId, mv: MvId) {
        if let Some(held) = self.mv_mut(mv) {
            held.connectors.push(id);
        }
        if let Some(object) = self.cs_mut(id).and_then(|cs| cs.object.as_mut()) {
            object.mv = Some(mv);
        }
    }

    /// Whether a metaverse object ends because it lost a connector of an agent: that was its last connector,
    /// or its last one of the agents in `deleted_with`.
    fn ends_without(&self, mv: MvId, kind: &TypeRules, agent: AgentId) -> bool {
        let decides = |agent: &AgentId| kind.deleted_with.contains(agent);
        let mut left = self.connected(mv).map(|object| object.agent).peekable();
        left.peek().is_none() || decides(&agent) && !left.any(|agent| decides(&agent))
    }

    /// Deletes a metaverse object and deprovisions its connectors.
    fn end(&mut self, id: MvId, kind: Option<&TypeRules>) -> Result<(), Failed> {
        let Some(mv) = self.mv_mut(id) else { return Ok(()) };
        let (Some(object), connectors) = (mv.object.take(), std::mem::take(&mut mv.connectors)) else {
            return Ok(());
        };
        mv.is_changed = true;
        self.trace(|| TraceEvent::MvDeleted(id));
        if let Some(kind) = kind {
            self.rekey(id, kind, &object.image, &Hologram::default());
        }
        let (rules, of_type) = (self.rules, object.kind);
        for connector in connectors {
            let Some(object) = self.css.get(&connector).and_then(|cs| cs.object.as_ref()) else { continue };
            if !object.state.is_connected() {
                if let Some(cs) = self.cs_mut(connector) {
                    cs.is_changed = true;
                    cs.object.iter_mut().for_each(|object| object.mv = None);
                }
                self.note_candidate(connector);
                continue;
            }
            let agent = object.agent;
            let outbound = rules
                .outbound
                .iter()
                .position(|outbound| outbound.agent == agent && rules.types[outbound.from].kind == of_type);
            match outbound {
                Some(outbound) => self.deprovision(connector, outbound)?,
                // It was not provisioned, and may join another object.
                None => self.release(connector),
            }
            self.note_candidate(connector);
        }
        self.counts.push("metaverse-delete");
        Ok(())
    }

    /// Makes a connector a candidate.
    fn release(&mut self, id: CsId) {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return };
        self.trace_of(|work| TraceEvent::Released { object: work.called(&object) });
        self.unlink(&object);
        if let Some(cs) = self.cs_mut(id) {
            cs.is_changed = true;
            if let Some(object) = &mut cs.object {
                (object.state, object.mv) = (State::Candidate, None);
            }
        }
        self.counts.push("connector-released");
    }
}

/// The name of an object, otherwise its anchor.
pub(crate) fn called(agent: Option<&AgentRules>, object: &CsObject) -> String {
    let pending = object.pending_export.as_ref().map(|export| &export.attributes);
    let image = object.image().or(object.synchronized.as_ref());
    let part = |attribute| {
        let of_image = image.and_then(|image| image.first(attribute)).map(<[u8]>::to_vec);
        of_image.or_else(|| Some(pending?.get(attribute)?.values.iter().next()?.to_vec()))
    };
    let parts: Vec<String> = agent
        .into_iter()
        .flat_map(|agent| &agent.anchor)
        .filter_map(|attribute| Some(String::from_utf8_lossy(&part(*attribute)?).into_owned()))
        .collect();
    match (object.dn.is_empty(), parts.is_empty()) {
        (false, _) => format!("{:?}", object.dn),
        (true, false) => format!("{:?}", parts.join(" + ")),
        (true, true) => format!("object {}", object.id.0),
    }
}
