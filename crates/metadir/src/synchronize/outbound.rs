//! Outbound synchronization: the effects of a metaverse object on the other connector spaces.

use super::failed::Failed;
use super::work::{Claim, Cs, Undo, Work};
use crate::agent::anchor_key;
use crate::hologram::{Attribute, Hologram, Opened, Values};
use crate::naming::Naming;
use crate::object::{Change, CsId, CsObject, MvId, PendingAttributes, PendingExport, Phase, Rename, State};
use crate::rules::{DeprovisionRule, OutboundRules};
use crate::store::FailureKind;

/// A new name for a connector.
struct Renaming {
    /// The name that it has from now on, if it changes.
    has: Option<String>,
    /// The rename that is pending for the system.
    wanted: Option<Rename>,
}

impl Work<'_> {
    /// Applies the outbound rules to a metaverse object. Returns false if something would be deleted and
    /// deletions are deferred.
    pub(super) fn provision(&mut self, id: MvId, may_leave: bool) -> Result<bool, Failed> {
        let rules = self.rules;
        let object = self.mvs.get(&id).and_then(|mv| mv.object.as_ref());
        let Some((kind, image)) = object.map(|object| (object.kind, object.image.clone())) else {
            return Ok(true);
        };
        for outbound in rules.outbound.iter().filter(|out| rules.types[out.from].kind == kind) {
            let wanted = match &outbound.when {
                Some(when) => when.holds(&image)?,
                None => true,
            };
            let connectors = self.mvs.get(&id).map_or(&[][..], |mv| &mv.connectors);
            let of_agent = connectors.iter().copied().filter(|id| {
                let object = self.css.get(id).and_then(|cs| cs.object.as_ref());
                object.is_some_and(|object| object.agent == outbound.agent)
            });
            let mut of_agent: Vec<CsId> = of_agent.collect();
            match (wanted, of_agent.is_empty()) {
                (true, true) => self.provision_new(id, &image, outbound)?,
                (true, false) => {
                    for connector in of_agent {
                        self.flow_out(connector, &image, outbound)?;
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
        let Some(dn) = name_of(image, rules)? else {
            let why = "the name of an object is one value, and there is none";
            return Err(Failed::Object(FailureKind::Flow, why.into()));
        };
        let mut flowing = Vec::with_capacity(rules.flows.len() + rules.initial.len());
        let opened = Opened::of(image);
        for flow in rules.flows.iter().chain(&rules.initial) {
            flowing.push((flow.to, flow.flowing(&opened)?));
        }
        flowing.retain(|(_, values)| values.values() != Values::NONE);
        // A stable sort: permanent flows come before initial ones.
        flowing.sort_by_key(|(attribute, _)| *attribute);
        flowing.dedup_by_key(|(attribute, _)| *attribute);
        let mut attributes = PendingAttributes::with_capacity(image.as_bytes().len() + flowing.len());
        for (attribute, values) in &flowing {
            attributes.push(*attribute, Phase::Unapplied, values.values());
        }
        let of_anchor = |wanted: &Attribute| {
            let (_, values) = flowing.iter().find(|(attribute, _)| attribute == wanted)?;
            values.values().iter().next()
        };
        let anchor: Option<Vec<&[u8]>> = rules.anchor.iter().map(of_anchor).collect();
        let anchor = anchor.map(|parts| anchor_key(parts.into_iter()));
        let name = rules.naming.hash(&dn);
        let claims: Vec<Claim> = anchor.map(Claim::Anchor).into_iter().chain(name.map(Claim::Name)).collect();
        if !self.claim(rules.agent, &claims) {
            return Err(is_taken(&dn));
        }
        let id = self.new_cs();
        let object = CsObject {
            id,
            agent: rules.agent,
            anchor,
            dn,
            name,
            state: State::Connected,
            mv: Some(mv),
            synchronized: None,
            pending_import: None,
            pending_export: Some(PendingExport { attributes, ..PendingExport::new(Change::Add) }),
            has_failed: false,
        };
        self.undo.push(Undo::Cs(id, None));
        self.css.insert(id, Cs::of(object, true));
        if let Some(held) = self.mv_mut(mv) {
            held.connectors.push(id);
            held.is_changed = true;
        }
        self.relink(mv);
        self.counts.push("provisioned-add");
        Ok(())
    }

    /// Compares the wanted values of a connector with its current or pending ones, and stages the difference.
    fn flow_out(&mut self, id: CsId, image: &Hologram, rules: &OutboundRules) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(()) };
        let mut wanted = Vec::with_capacity(rules.flows.len());
        let opened = Opened::of(image);
        for flow in &rules.flows {
            wanted.push((flow.to, flow.flowing(&opened)?));
        }
        let mut export = object.pending_export.clone();
        if export.as_ref().is_some_and(|export| export.change == Change::Delete) {
            // It is wanted again: the pending deletion is dropped.
            export = None;
        }
        for (attribute, values) in wanted {
            let values = values.values();
            let has = object.synchronized.as_ref().and_then(|image| image.get(attribute));
            let is_there = values == has.unwrap_or(Values::NONE);
            let pending = export.as_ref().and_then(|export| export.attributes.get(attribute));
            let is_sent = pending.is_some_and(|pending| pending.phase == Phase::Unconfirmed);
            match pending {
                Some(pending) if pending.values == values => continue,
                None if is_there => continue,
                _ => {}
            }
            let export = export.get_or_insert_with(|| PendingExport::new(Change::Update));
            // The sent change may have been made, so it must be reverted.
            let is_no_more = export.change == Change::Update && is_there && !is_sent;
            export.attributes.set(attribute, (!is_no_more).then_some(values));
        }
        let rename = if rules.naming == Naming::Anchor { None } else { self.rename(id, image, rules)? };
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(()) };
        let is_renamed = rename.is_some();
        if let Some(Renaming { wanted, .. }) = &rename
            && (wanted.is_some() || export.is_some())
        {
            export.get_or_insert_with(|| PendingExport::new(Change::Update)).rename = wanted.clone();
        }
        let export = export.filter(|export| !export.is_empty());
        let flows = export != object.pending_export;
        if flows || is_renamed {
            self.counts.push(if is_renamed { "provisioned-rename" } else { "outbound-flow" });
            if let Some(cs) = self.cs_mut(id) {
                cs.is_changed = true;
                if let Some(object) = &mut cs.object {
                    object.pending_export = export;
                    if let Some(Renaming { has: Some(dn), .. }) = rename {
                        object.name = rules.naming.hash(&dn);
                        object.dn = dn;
                    }
                }
            }
        }
        Ok(())
    }

    /// The new name of a connector, if the rules give another name than the current or pending one.
    fn rename(
        &mut self,
        id: CsId,
        image: &Hologram,
        rules: &OutboundRules,
    ) -> Result<Option<Renaming>, Failed> {
        // Without a value for the name, the connector keeps its name.
        let Some(wanted) = name_of(image, rules)? else { return Ok(None) };
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(None) };
        let hash = rules.naming.hash(&wanted);
        let export = object.pending_export.as_ref();
        let pending = export.and_then(|export| export.rename.as_ref());
        if hash == pending.map_or(object.name, |rename| rules.naming.hash(&rename.dn)) {
            return Ok(None);
        }
        let renamed = Rename { dn: wanted.clone(), phase: Phase::Unapplied };
        let is_named = hash == object.name;
        match pending {
            // It already has the other name, as far as is known.
            Some(Rename { dn, phase: Phase::Unconfirmed }) => {
                let (dn, name) = (dn.clone(), rules.naming.hash(dn));
                let claims: Vec<Claim> = name.map(Claim::Name).into_iter().collect();
                if !self.claim(rules.agent, &claims) {
                    return Err(is_taken(&dn));
                }
                Ok(Some(Renaming { has: Some(dn), wanted: Some(renamed) }))
            }
            _ if export.is_some_and(PendingExport::is_not_made) => {
                let claims: Vec<Claim> = hash.map(Claim::Name).into_iter().collect();
                if !self.claim(rules.agent, &claims) {
                    return Err(is_taken(&wanted));
                }
                Ok(Some(Renaming { has: Some(wanted), wanted: None }))
            }
            _ if is_named => Ok(Some(Renaming { has: None, wanted: None })),
            _ => Ok(Some(Renaming { has: None, wanted: Some(renamed) })),
        }
    }

    /// Deprovisions a connector.
    pub(super) fn deprovision(&mut self, id: CsId, rules: Option<&OutboundRules>) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let was_sent = object.synchronized.is_some()
            || object.pending_import.is_some()
            || object.pending_export.as_ref().is_some_and(|export| export.phase == Phase::Unconfirmed);
        self.unlink(&object);
        let rule = rules.map_or(&DeprovisionRule::Disconnect, |rules| &rules.deprovision);
        // A sent and unconfirmed change may still appear.
        let change = match &object.pending_export {
            Some(export) if export.change == Change::Add => Change::Add,
            _ => Change::Update,
        };
        let export = match rule {
            DeprovisionRule::Disconnect => None,
            DeprovisionRule::Delete => Some(PendingExport::new(Change::Delete)),
            DeprovisionRule::Disable(attributes) => Some(PendingExport {
                phase: Phase::Unconfirmed,
                attributes: attributes.clone(),
                ..PendingExport::new(change)
            }),
        };
        let had_references = object.pending_export.as_ref().is_some_and(|export| export.references.is_some());
        if let Some(cs) = self.cs_mut(id) {
            cs.is_changed = true;
            cs.is_unwanted |= had_references;
            match (was_sent, &mut cs.object) {
                (false, object) => *object = None,
                (true, Some(object)) => {
                    object.mv = None;
                    object.state = State::Disconnected;
                    object.pending_export = export;
                }
                (true, None) => {}
            }
        }
        self.counts.push(match rule {
            DeprovisionRule::Disconnect => "provisioned-disconnect",
            DeprovisionRule::Delete => "provisioned-delete",
            DeprovisionRule::Disable(_) => "provisioned-disable",
        });
        Ok(())
    }
}

/// The name from the rules; none if an attribute that they need has no value.
fn name_of(image: &Hologram, rules: &OutboundRules) -> Result<Option<String>, Failed> {
    match rules.dn.evaluate(image)?.as_slice() {
        [] => Ok(None),
        [dn] => Ok(Some(String::from_utf8_lossy(dn).into_owned())),
        several => {
            let why = format!("the name of an object is one value, not {}", several.len());
            Err(Failed::Object(FailureKind::Flow, why))
        }
    }
}

fn is_taken(dn: &str) -> Failed {
    let why = format!(
        "an object {dn:?} is in the connector space already, and not joined: a join rule of its agent would take it"
    );
    Failed::Object(FailureKind::Flow, why)
}
