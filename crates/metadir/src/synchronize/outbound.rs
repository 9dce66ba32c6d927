//! The way out: what an object of the metaverse asks of the other connector spaces.

use super::{Cs, Failed, Undo, Work};
use crate::agent::anchor_hash;
use crate::config::Deprovision;
use crate::hologram::{Attribute, Hologram};
use crate::object::{Change, CsId, CsObject, MvId, PendingAttribute, PendingExport, Phase, State};
use crate::rules::OutboundRules;
use crate::store::FailureKind;

impl Work<'_> {
    /// What an object of the metaverse asks of the other connector spaces. False when it would take something away and may
    /// not yet.
    pub(super) fn provision(&mut self, id: MvId, may_leave: bool) -> Result<bool, Failed> {
        let rules = self.rules;
        let Some(object) = self.mvs.get(&id).and_then(|mv| mv.object.clone()) else { return Ok(true) };
        for outbound in rules.outbound.iter().filter(|out| rules.types[out.from].kind == object.kind) {
            let wanted = match &outbound.when {
                Some(when) => when.holds(&object.image)?,
                None => true,
            };
            let connectors = self.mvs.get(&id).map(|mv| mv.connectors.clone()).unwrap_or_default();
            let mut of_agent: Vec<CsId> = connectors
                .into_iter()
                .filter(|id| {
                    let object = self.css.get(id).and_then(|cs| cs.object.as_ref());
                    object.is_some_and(|object| object.agent == outbound.agent)
                })
                .collect();
            match (wanted, of_agent.is_empty()) {
                (true, true) => self.provision_new(id, &object.image, outbound)?,
                (true, false) => {
                    for connector in of_agent {
                        self.flow_out(connector, &object.image, outbound)?;
                    }
                }
                (false, true) => {}
                (false, false) => {
                    if !may_leave {
                        return Ok(false);
                    }
                    for connector in of_agent.drain(..) {
                        self.deprovision(connector, Some(outbound))?;
                    }
                }
            }
        }
        Ok(true)
    }

    fn provision_new(&mut self, mv: MvId, image: &Hologram, rules: &OutboundRules) -> Result<(), Failed> {
        let named = rules.dn.evaluate(image)?;
        let [dn] = named.as_slice() else {
            let why = format!("the name of an object is one value, not {}", named.len());
            return Err(Failed::Object(FailureKind::Flow, why));
        };
        let dn = String::from_utf8_lossy(dn).into_owned();
        let mut attributes = Vec::with_capacity(rules.flows.len() + rules.initial.len());
        for flow in rules.flows.iter().chain(&rules.initial) {
            let values = flow.values(image)?;
            if !values.is_empty() {
                attributes.push(PendingAttribute { attribute: flow.to, phase: Phase::Unapplied, values });
            }
        }
        attributes.sort_by_key(|pending| pending.attribute);
        attributes.dedup_by_key(|pending| pending.attribute);
        let of_anchor = |wanted: &Attribute| {
            let pending = attributes.iter().find(|pending| pending.attribute == *wanted)?;
            pending.values.first().map(Vec::as_slice)
        };
        let anchor: Option<Vec<&[u8]>> = rules.anchor.iter().map(of_anchor).collect();
        let anchor = anchor.map(|parts| anchor_hash(parts.into_iter()));
        if let Some(anchor) = anchor {
            let anchor = (rules.agent, anchor);
            if self.taken.contains(&anchor) || self.anchors.contains(&anchor) {
                let why = format!("an object {dn:?} is in the connector space already, and not joined");
                return Err(Failed::Object(FailureKind::Flow, why));
            }
            self.undo.push(Undo::Anchor(anchor));
            self.anchors.insert(anchor);
        }
        let id = CsId(self.store.new_ids(1)?);
        let object = CsObject {
            id,
            agent: rules.agent,
            anchor,
            dn,
            state: State::Connected,
            mv: Some(mv),
            synchronized: None,
            pending_import: None,
            pending_export: Some(PendingExport { change: Change::Add, phase: Phase::Unapplied, attributes }),
            has_failed: false,
        };
        self.undo.push(Undo::Cs(id, None));
        self.css
            .insert(id, Cs { object: Some(object), is_new: true, is_changed: false, is_synchronized: false });
        self.cs_order.push(id);
        if let Some(mv) = self.mv_mut(mv) {
            mv.connectors.push(id);
        }
        self.counts.push("provisioned-add");
        Ok(())
    }

    /// Compares what a connector shall have with what it has or will have, and stages the difference.
    fn flow_out(&mut self, id: CsId, image: &Hologram, rules: &OutboundRules) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(()) };
        let mut wanted = Vec::with_capacity(rules.flows.len());
        for flow in &rules.flows {
            wanted.push((flow.to, flow.values(image)?));
        }
        let mut export = object.pending_export.clone();
        if export.as_ref().is_some_and(|export| export.change == Change::Delete) {
            // It is wanted again after all.
            export = None;
        }
        for (attribute, values) in wanted {
            let pending = export.as_mut().and_then(|export| {
                let found = export.attributes.iter().position(|pending| pending.attribute == attribute)?;
                Some((export, found))
            });
            let has = object.synchronized.as_ref().and_then(|image| image.get(attribute));
            let wanted = PendingAttribute { attribute, phase: Phase::Unapplied, values };
            match pending {
                Some((export, at)) => {
                    if export.attributes[at].values == wanted.values {
                        continue;
                    }
                    if export.change == Change::Update
                        && wanted.is_in(has)
                        && export.attributes[at].phase == Phase::Unapplied
                    {
                        export.attributes.remove(at);
                    } else {
                        export.attributes[at] = wanted;
                    }
                }
                None if wanted.is_in(has) => {}
                None => {
                    let export = export.get_or_insert_with(|| PendingExport {
                        change: Change::Update,
                        phase: Phase::Unapplied,
                        attributes: Vec::new(),
                    });
                    let at = export.attributes.partition_point(|pending| pending.attribute < attribute);
                    export.attributes.insert(at, wanted);
                }
            }
        }
        let export = export.filter(|export| export.change == Change::Add || !export.attributes.is_empty());
        if export != object.pending_export {
            self.counts.push("outbound-flow");
            if let Some(cs) = self.cs_mut(id) {
                cs.is_changed = true;
                if let Some(object) = &mut cs.object {
                    object.pending_export = export;
                }
            }
        }
        Ok(())
    }

    /// A connector is wanted no longer.
    pub(super) fn deprovision(&mut self, id: CsId, rules: Option<&OutboundRules>) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let was_sent = object.synchronized.is_some()
            || object.pending_import.is_some()
            || object.pending_export.as_ref().is_some_and(|export| export.phase == Phase::Unconfirmed);
        self.unlink(&object);
        let deletes = rules.is_some_and(|rules| rules.deprovision == Deprovision::Delete);
        if let Some(cs) = self.cs_mut(id) {
            cs.is_changed = true;
            match (was_sent, &mut cs.object) {
                (false, object) => *object = None,
                (true, Some(object)) => {
                    object.mv = None;
                    object.state = State::Disconnected;
                    object.pending_export = deletes.then(|| PendingExport {
                        change: Change::Delete,
                        phase: Phase::Unapplied,
                        attributes: Vec::new(),
                    });
                }
                (true, None) => {}
            }
        }
        self.counts.push(if deletes { "provisioned-delete" } else { "provisioned-disconnect" });
        Ok(())
    }
}
