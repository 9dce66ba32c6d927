//! Outbound synchronization: the effects of a metaverse object on the other connector spaces.

use super::failed::Failed;
use super::work::{Claim, Cs, Undo, Work};
use crate::agent::anchor_key;
use crate::hologram::{Attribute, Hologram, Opened, Values};
use crate::naming::Naming;
use crate::object::{Change, CsId, CsObject, MvId, PendingAttributes, PendingExport, Phase, Rename, State};
use crate::rules::{CandidateRule, DeprovisionRule, FlowValues, OutboundRules};
use crate::store::{FailureKind, Write};

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
        self.gather(id)?;
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
            let (mut of_agent, mut is_kept_apart) = (Vec::new(), false);
            for object in self.linked(id).filter(|object| object.agent == outbound.agent) {
                match object.state.is_connected() {
                    true => of_agent.push(object.id),
                    // An administrator disconnected it: no other object takes its place.
                    false => is_kept_apart |= object.state == State::ExplicitDisconnector,
                }
            }
            match (wanted, of_agent.first()) {
                (true, None) if is_kept_apart => {}
                (true, None) => self.provision_new(id, &image, outbound)?,
                // Values flow to the first connector of an agent only: others have names of their own.
                (true, Some(connector)) => self.flow_out(*connector, &image, outbound)?,
                (false, None) => {}
                (false, Some(_)) => {
                    if !may_leave && !of_agent.iter().all(|connector| self.is_disabled(*connector, outbound))
                    {
                        return Ok(false);
                    }
                    for connector in of_agent {
                        self.deprovision(connector, outbound)?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether an object that was not connected before has the values of a disabled object already.
    fn is_disabled(&self, id: CsId, rules: &OutboundRules) -> bool {
        let DeprovisionRule::Disable(values) = &rules.deprovision else { return false };
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return false };
        let Some(image) = object.image().filter(|_| object.pending_export.is_none()) else { return false };
        values.iter().all(|value| value.is_in(image.get(value.attribute)))
    }

    fn provision_new(&mut self, mv: MvId, image: &Hologram, rules: &OutboundRules) -> Result<(), Failed> {
        let dn = match &rules.names {
            Some(candidates) => self.unique_name(None, mv, image, rules, candidates)?,
            None => name_of(image, rules)?,
        };
        let Some(dn) = dn else {
            let why = "the name of an object is one value, and there is none";
            return Err(Failed::Object(FailureKind::Flow, why.into()));
        };
        let mut flowing = Vec::with_capacity(rules.flows.len() + rules.initial.len());
        let opened = Opened::of(image);
        for flow in rules.flows.iter().chain(&rules.initial) {
            flowing.push((flow.to, flow.flowing(&opened)?));
        }
        flowing.retain(|(_, values)| values.values() != Values::NONE);
        flowing.extend(rules.write_only.iter().map(|rule| (rule.to, FlowValues::Copied(Values::NONE))));
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
        let id = self.new_cs();
        if let Some(by) = self.claim(id, rules.agent, &claims) {
            return Err(self.is_taken(&dn, by, rules));
        }
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
        let is_back = self.returned.contains(&id);
        if is_back && self.css.get(&id).and_then(|cs| cs.object.as_ref()).is_some_and(is_gone) {
            return self.remake(id, image, rules);
        }
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(()) };
        let mut wanted = Vec::with_capacity(rules.flows.len());
        let opened = Opened::of(image);
        for flow in &rules.flows {
            wanted.push((flow.to, flow.flowing(&opened)?));
        }
        if let (true, DeprovisionRule::Disable(values)) = (is_back, &rules.deprovision) {
            // The values that disabled it are replaced, also those that no flow sets.
            let others = values.iter().map(|value| value.attribute);
            let others = others.filter(|attribute| rules.flows.iter().all(|flow| flow.to != *attribute));
            for attribute in others {
                let initial = rules.initial.iter().find(|flow| flow.to == attribute);
                let value = initial.map(|flow| flow.flowing(&opened)).transpose()?;
                wanted.push((attribute, value.unwrap_or(FlowValues::Copied(Values::NONE))));
            }
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
        for rule in rules.write_only.iter().filter(|rule| is_back && rule.on_return) {
            let export = export.get_or_insert_with(|| PendingExport::new(Change::Update));
            export.attributes.set(rule.to, Some(Values::NONE));
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
        let wanted = match &rules.names {
            Some(candidates) => self.rename_to(id, image, rules, candidates)?,
            None => name_of(image, rules)?,
        };
        let Some(wanted) = wanted else { return Ok(None) };
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
                if let Some(by) = self.claim(id, rules.agent, &claims) {
                    return Err(self.is_taken(&dn, by, rules));
                }
                Ok(Some(Renaming { has: Some(dn), wanted: Some(renamed) }))
            }
            _ if export.is_some_and(PendingExport::is_not_made) => {
                let claims: Vec<Claim> = hash.map(Claim::Name).into_iter().collect();
                if let Some(by) = self.claim(id, rules.agent, &claims) {
                    return Err(self.is_taken(&wanted, by, rules));
                }
                Ok(Some(Renaming { has: Some(wanted), wanted: None }))
            }
            _ if is_named => Ok(Some(Renaming { has: None, wanted: None })),
            _ => Ok(Some(Renaming { has: None, wanted: Some(renamed) })),
        }
    }

    /// The new name of a connector that has candidates; none if it keeps its name.
    fn rename_to(
        &mut self,
        id: CsId,
        image: &Hologram,
        rules: &OutboundRules,
        candidates: &CandidateRule,
    ) -> Result<Option<String>, Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(None) };
        let Some(mv) = object.mv else { return Ok(None) };
        if self.keeps_name(&object, image, rules, candidates)? {
            return Ok(None);
        }
        let wanted = self.unique_name(Some(id), mv, image, rules, candidates)?;
        if let Some(wanted) = &wanted {
            self.reserve(&object, rules, candidates, wanted);
        }
        Ok(wanted)
    }

    /// Deprovisions a connector. It keeps its link while the metaverse object exists.
    pub(super) fn deprovision(&mut self, id: CsId, rules: &OutboundRules) -> Result<(), Failed> {
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let was_sent = object.synchronized.is_some()
            || object.pending_import.is_some()
            || object.pending_export.as_ref().is_some_and(|export| export.phase == Phase::Unconfirmed);
        let is_disabled = self.is_disabled(id, rules);
        let rule = &rules.deprovision;
        self.counts.push(match rule {
            DeprovisionRule::Disconnect => "provisioned-disconnect",
            DeprovisionRule::Delete => "provisioned-delete",
            DeprovisionRule::Disable(_) if is_disabled => "disconnector-deprovisioned",
            DeprovisionRule::Disable(_) => "provisioned-disable",
        });
        if !was_sent {
            self.forget(&object);
            return Ok(());
        }
        self.part(&object);
        // A sent and unconfirmed change may still appear.
        let change = match &object.pending_export {
            Some(export) if export.change == Change::Add => Change::Add,
            _ => Change::Update,
        };
        let export = match rule {
            DeprovisionRule::Disconnect => None,
            DeprovisionRule::Delete => Some(PendingExport::new(Change::Delete)),
            DeprovisionRule::Disable(_) if is_disabled => None,
            DeprovisionRule::Disable(attributes) => Some(PendingExport {
                phase: Phase::Unconfirmed,
                attributes: attributes.clone(),
                ..PendingExport::new(change)
            }),
        };
        let had_references = object.pending_export.as_ref().is_some_and(|export| export.references.is_some());
        let link = object.mv.filter(|mv| self.mvs.get(mv).is_some_and(|mv| mv.object.is_some()));
        if let Some(cs) = self.cs_mut(id) {
            cs.is_changed = true;
            cs.is_unwanted |= had_references;
            if let Some(object) = &mut cs.object {
                object.mv = link;
                object.state = State::Deprovisioned;
                object.pending_export = export;
            }
        }
        if let Some(mv) = link.and_then(|mv| self.mv_mut(mv)) {
            mv.is_changed = true;
        }
        if let Some(after_s) = rules.delete_after_s {
            let at_unix_s = Some(self.settings.now_unix_s.saturating_add(after_s));
            self.writes.push(Write::DeleteAt { id, at_unix_s });
        }
        Ok(())
    }

    /// Provisions a connector again whose deletion was sent: the system is to make it anew.
    fn remake(&mut self, id: CsId, image: &Hologram, rules: &OutboundRules) -> Result<(), Failed> {
        let Some(old) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let Some(mv) = old.mv else { return Ok(()) };
        self.forget(&old);
        self.provision_new(mv, image, rules)
    }

    /// Why a name or an anchor cannot be given to a new object.
    fn is_taken(&self, dn: &str, by: CsId, rules: &OutboundRules) -> Failed {
        let agent = self.rules.agent(rules.agent);
        let name = agent.map_or("", |agent| agent.name.as_str());
        let Some(holder) = self.css.get(&by).and_then(|cs| cs.object.as_ref()) else {
            let why = format!("the name {dn:?} in {name} is taken by another object of this batch");
            return Failed::Object(FailureKind::Flow, why);
        };
        let belongs = match holder.state {
            State::Connected | State::ExplicitConnector => {
                "which is a connector of another object of the metaverse: give each its own name".to_string()
            }
            State::Filtered => {
                "which the filter of its [[inbound]] excludes: change the filter or the name".into()
            }
            State::ExplicitDisconnector => {
                format!("which an administrator disconnected: see plimsoll metadir release {name}")
            }
            State::Deprovisioned => {
                format!("which was deprovisioned; {}", self.no_join(holder, rules.from))
            }
            State::Candidate => format!("which belongs to nobody; {}", self.no_join(holder, rules.from)),
        };
        let why = format!("the name {dn:?} is taken by {}, {belongs}", self.called(holder));
        Failed::Object(FailureKind::Flow, why)
    }

    /// Why no join rule connects an object.
    fn no_join(&self, holder: &CsObject, kind: usize) -> String {
        let name = self.rules.agent(holder.agent).map_or("", |agent| agent.name.as_str());
        let Some(image) = holder.image() else { return "it was deleted in its system".into() };
        let inbound = match self.rules.inbound_for(holder.agent, image) {
            Ok(Some(at)) => &self.rules.inbound[at],
            _ => return format!("no [[inbound]] of {name} accepts it: write one with `join`"),
        };
        if inbound.to != kind {
            return "its [[inbound]] accepts it as another type".into();
        }
        if inbound.joins.is_empty() {
            return format!("the [[inbound]] of {name} has no `join`: write one, or delete the object there");
        }
        let mut reasons = Vec::new();
        for (at, join) in inbound.joins.iter().enumerate() {
            let shown = join.shown(self.names);
            let reason = match (join.is_tried(image), join.values(image)) {
                (Ok(false), _) => "its condition is false".to_string(),
                (Err(failed), _) | (_, Err(failed)) => failed.to_string(),
                (_, Ok(None)) => format!("{shown} has no single value there"),
                (_, Ok(Some(values))) => {
                    let values: Vec<String> =
                        values.iter().map(|value| format!("{:?}", String::from_utf8_lossy(value))).collect();
                    format!("{shown} is {} there", values.join(" and "))
                }
            };
            reasons.push(format!("rule {}: {reason}", at + 1));
        }
        format!("no join rule matched ({})", reasons.join("; "))
    }
}

/// Whether the deletion of an object was sent and is not confirmed.
fn is_gone(object: &CsObject) -> bool {
    object
        .pending_export
        .as_ref()
        .is_some_and(|export| export.change == Change::Delete && export.phase == Phase::Unconfirmed)
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
