//! Outbound synchronization: the effects of a metaverse object on the other connector spaces.

use super::exchange::Claim;
use super::failed::Failed;
use super::trace::{Effect, FlowOutOutcome, TraceEvent, was_sent};
use super::work::{Cs, Undo, Work};
use crate::hologram::{Attribute, Hologram, Opened, Values};
use crate::index_key::IndexKey;
use crate::naming::Naming;
use crate::object::{Change, CsId, CsObject, MvId, PendingAttributes, PendingExport, Phase, Rename, State};
use crate::rules::{CandidateRule, DeprovisionRule, Flow, FlowValues, OutboundRules};
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
        for (place, outbound) in rules.outbound.iter().enumerate() {
            if rules.types[outbound.from].kind != kind {
                continue;
            }
            let Some(wanted) = outbound.is_wanted(&image)? else {
                // The number of references is computed when all objects of the step are processed.
                self.relink(id);
                continue;
            };
            let holds = outbound.when.as_ref().map(|_| wanted);
            let (mut of_agent, mut is_kept_apart) = (Vec::new(), false);
            for object in self.linked(id).filter(|object| object.agent == outbound.agent) {
                match object.state.is_connected() {
                    true => of_agent.push(object.id),
                    // An administrator disconnected it: no other object takes its place.
                    false => is_kept_apart |= object.state == State::ExplicitDisconnector,
                }
            }
            self.trace_of(|work| {
                let effect = match (wanted, of_agent.first()) {
                    (true, None) if is_kept_apart => Effect::KeptApart,
                    (true, None) => Effect::Provisions,
                    (true, Some(connector)) => Effect::FlowsTo(work.called_by(*connector)),
                    (false, None) => Effect::Nothing,
                    (false, Some(_)) => Effect::Deprovisions,
                };
                TraceEvent::OutboundCondition { mv: id, outbound: place, holds, effect }
            });
            match (wanted, of_agent.first()) {
                (true, None) if is_kept_apart => {}
                (true, None) => self.provision_new(id, &image, place)?,
                // Values flow to the first connector of an agent only: others have names of their own.
                (true, Some(connector)) => self.flow_out(*connector, &image, place)?,
                (false, None) => {}
                (false, Some(_)) => {
                    if !may_leave && !of_agent.iter().all(|connector| self.is_disabled(*connector, outbound))
                    {
                        return Ok(false);
                    }
                    for connector in of_agent {
                        self.deprovision(connector, place)?;
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

    /// The values of a flow. If it fails, the trace says which one.
    fn flowing<'a>(
        &mut self,
        flow: &Flow,
        image: &Opened<'a>,
        event: impl FnOnce(FlowOutOutcome) -> TraceEvent,
    ) -> Result<FlowValues<'a>, Failed> {
        let values = flow.flowing(image);
        if let Err(failed) = &values {
            self.trace(|| event(FlowOutOutcome::Failed(failed.to_string())));
        }
        values.map_err(|failed| Failed::from(failed).to(flow.to))
    }

    fn provision_new(&mut self, mv: MvId, image: &Hologram, outbound: usize) -> Result<(), Failed> {
        let rules = &self.rules.outbound[outbound];
        let opened = Opened::of(image);
        let dn = match &rules.names {
            Some(candidates) => self.unique_name(None, mv, image, rules, candidates)?,
            None => name_of(&opened, rules)?,
        };
        self.trace(|| TraceEvent::Named { outbound, dn: dn.clone() });
        let Some(dn) = dn else {
            let why = "the name of an object is one value, and there is none";
            return Err(Failed::Object(FailureKind::Flow, why.into()));
        };
        let mut flowing = Vec::with_capacity(rules.flows.len() + rules.initial.len());
        for (at, flow) in rules.flows.iter().chain(&rules.initial).enumerate() {
            let sent = self.flowing(flow, &opened, |outcome| new_flow(rules, outbound, at, None, outcome))?;
            flowing.push((flow.to, sent));
        }
        self.trace_new_flows(outbound, &flowing);
        flowing.retain(|(_, values)| values.values() != Values::NONE);
        for rule in &rules.write_only {
            self.trace(|| TraceEvent::WriteOnly { attribute: rule.to, outbound });
        }
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
        let mut anchor = anchor.map(|parts| IndexKey::of_parts(parts.into_iter()));
        let mut name = rules.naming.hash(&dn);
        let id = self.new_cs();
        for claim in anchor.map(Claim::Anchor).into_iter().chain(name.map(Claim::Name)) {
            match (self.claim(id, rules.agent, &[claim]), claim) {
                (None, _) => {}
                (Some(by), _) if !self.gives_up(by, claim, rules) => {
                    return Err(self.is_taken(&dn, by, rules));
                }
                // The export gives it to the new object when the system has it free.
                (Some(_), Claim::Anchor(_)) => anchor = None,
                (Some(_), Claim::Name(_)) => name = None,
            }
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

    /// Traces the values of a new object, before those that do not flow are left out.
    fn trace_new_flows(&mut self, outbound: usize, flowing: &[(Attribute, FlowValues<'_>)]) {
        if self.trace.is_none() {
            return;
        }
        let rules = &self.rules.outbound[outbound];
        for (at, (attribute, values)) in flowing.iter().enumerate() {
            let values = values.values();
            let mut before = flowing.iter().take(at);
            let is_taken =
                before.any(|(other, values)| other == attribute && values.values() != Values::NONE);
            let outcome = match () {
                () if values == Values::NONE => FlowOutOutcome::Nothing,
                () if is_taken => FlowOutOutcome::NotPrecedent,
                () => FlowOutOutcome::Staged,
            };
            let mut event = new_flow(rules, outbound, at, None, outcome);
            if let TraceEvent::FlowOut { values: shown, .. } = &mut event {
                *shown = values.to_vec();
            }
            self.trace(|| event);
        }
    }

    /// Compares the wanted values of a connector with its current or pending ones, and stages the difference.
    fn flow_out(&mut self, id: CsId, image: &Hologram, outbound: usize) -> Result<(), Failed> {
        let rules = &self.rules.outbound[outbound];
        let is_back = self.returned.contains(&id);
        if is_back && self.css.get(&id).and_then(|cs| cs.object.as_ref()).is_some_and(is_gone) {
            return self.remake(id, image, outbound);
        }
        let mut wanted = Vec::with_capacity(rules.flows.len());
        let opened = Opened::of(image);
        for (at, flow) in rules.flows.iter().enumerate() {
            let sent =
                self.flowing(flow, &opened, |outcome| new_flow(rules, outbound, at, Some(id), outcome))?;
            wanted.push((flow.to, sent));
        }
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.as_ref()) else { return Ok(()) };
        if is_back {
            reset_disabling(rules, &opened, &mut wanted)?;
        }
        let mut export = object.pending_export.clone();
        if export.as_ref().is_some_and(|export| export.change == Change::Delete) {
            // It is wanted again: the pending deletion is dropped.
            export = None;
        }
        if let Some(export) = &mut export {
            self.drop_unruled(export, rules);
        }
        stage_values(object, &wanted, &mut export, |at, attribute, values, outcome| {
            if let Some(trace) = self.trace.as_deref_mut() {
                let initial = || rules.initial.iter().position(|flow| flow.to == attribute);
                let once = at >= rules.flows.len();
                let flow = if once { initial() } else { Some(at) };
                let (cs, values) = (Some(id), values.to_vec());
                trace.push(TraceEvent::FlowOut { attribute, outbound, flow, once, cs, values, outcome });
            }
        });
        for rule in rules.write_only.iter().filter(|rule| is_back && rule.on_return) {
            let export = export.get_or_insert_with(|| PendingExport::new(Change::Update));
            export.attributes.set(rule.to, Some(Values::NONE));
            if let Some(trace) = self.trace.as_deref_mut() {
                trace.push(TraceEvent::WriteOnly { attribute: rule.to, outbound });
            }
        }
        let rename = if rules.naming == Naming::Anchor { None } else { self.rename(id, &opened, outbound)? };
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

    /// Drops the pending values that no rule gives any more.
    fn drop_unruled(&self, export: &mut PendingExport, rules: &OutboundRules) {
        let Some(agent) = self.rules.agent(rules.agent) else { return };
        let is_ruled = |attribute: Attribute| {
            agent.written.binary_search(&attribute).is_ok()
                || agent.is_write_only(attribute)
                || matches!(&rules.deprovision, DeprovisionRule::Disable(values) if values.get(attribute).is_some())
        };
        let is_left = |phase, attribute| phase == Phase::Unapplied && !is_ruled(attribute);
        if export.attributes.iter().any(|pending| is_left(pending.phase, pending.attribute)) {
            export
                .attributes
                .retain(|pending| (!is_left(pending.phase, pending.attribute)).then_some(pending.phase));
        }
    }

    /// The new name of a connector, if the rules give another name than the current or pending one.
    fn rename(&mut self, id: CsId, image: &Opened<'_>, outbound: usize) -> Result<Option<Renaming>, Failed> {
        let rules = &self.rules.outbound[outbound];
        // Without a value for the name, the connector keeps its name.
        let wanted = match &rules.names {
            Some(candidates) => self.rename_to(id, image.image, rules, candidates)?,
            None => name_of(image, rules)?,
        };
        self.trace(|| TraceEvent::Named { outbound, dn: wanted.clone() });
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
                let waits = object.name.is_none() && rules.naming.hash(&object.dn) == hash;
                let claims: Vec<Claim> = hash.map(Claim::Name).into_iter().collect();
                if let Some(by) = self.claim(id, rules.agent, &claims) {
                    return match claims.iter().all(|claim| waits && self.gives_up(by, *claim, rules)) {
                        true => Ok(None),
                        false => Err(self.is_taken(&wanted, by, rules)),
                    };
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
    pub(super) fn deprovision(&mut self, id: CsId, outbound: usize) -> Result<(), Failed> {
        let rules = &self.rules.outbound[outbound];
        let Some(object) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let was_sent = was_sent(&object);
        let is_disabled = self.is_disabled(id, rules);
        self.trace_of(|work| {
            let object = work.called(&object);
            TraceEvent::Deprovisioned { outbound, object, was_sent, is_disabled }
        });
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
                // Another object may have its old name by now.
                if let Some(Rename { dn, phase: Phase::Unconfirmed }) =
                    object.pending_export.take().and_then(|export| export.rename)
                {
                    object.dn = dn;
                }
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
    fn remake(&mut self, id: CsId, image: &Hologram, outbound: usize) -> Result<(), Failed> {
        let Some(old) = self.css.get(&id).and_then(|cs| cs.object.clone()) else { return Ok(()) };
        let Some(mv) = old.mv else { return Ok(()) };
        self.forget(&old);
        self.provision_new(mv, image, outbound)
    }

    /// Whether an object gives up a name or an anchor with its pending export.
    fn gives_up(&self, by: CsId, claim: Claim, rules: &OutboundRules) -> bool {
        let holder = self.css.get(&by).and_then(|cs| cs.object.as_ref());
        let Some(export) = holder.and_then(|holder| holder.pending_export.as_ref()) else { return false };
        let is_renamed = |rename: &Rename| rules.naming.hash(&rename.dn).map(Claim::Name) != Some(claim);
        export.change == Change::Delete
            || matches!(claim, Claim::Name(_)) && export.rename.as_ref().is_some_and(is_renamed)
    }

    /// Why a name or an anchor cannot be given to a new object.
    fn is_taken(&self, dn: &str, by: CsId, rules: &OutboundRules) -> Failed {
        let agent = self.rules.agent(rules.agent);
        let name = agent.map_or("", |agent| agent.name.as_str());
        let Some(holder) = self.css.get(&by).and_then(|cs| cs.object.as_ref()) else {
            return Failed::Taken(format!(
                "the name {dn:?} in {name} is taken by another object of this batch"
            ));
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
        Failed::Taken(format!("the name {dn:?} is taken by {}, {belongs}", self.called(holder)))
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
                    format!(
                        "{shown} is {} there",
                        join.shown_values(self.names, &self.rules.secrets, &values)
                    )
                }
            };
            reasons.push(format!("rule {}: {reason}", at + 1));
        }
        format!("no join rule matched ({})", reasons.join("; "))
    }
}

/// The event for a flow of an object, by its index among the permanent and the initial flows.
fn new_flow(
    rules: &OutboundRules,
    outbound: usize,
    at: usize,
    cs: Option<CsId>,
    outcome: FlowOutOutcome,
) -> TraceEvent {
    let permanent = rules.flows.len();
    let once = at >= permanent;
    let (list, at) = if once { (&rules.initial, at - permanent) } else { (&rules.flows, at) };
    let attribute = list.get(at).map_or(Attribute(0), |flow| flow.to);
    TraceEvent::FlowOut { attribute, outbound, flow: Some(at), once, cs, values: Vec::new(), outcome }
}

/// Whether the deletion of an object was sent and is not confirmed.
fn is_gone(object: &CsObject) -> bool {
    object
        .pending_export
        .as_ref()
        .is_some_and(|export| export.change == Change::Delete && export.phase == Phase::Unconfirmed)
}

/// The name from the rules; none if an attribute that they need has no value.
fn name_of(image: &Opened<'_>, rules: &OutboundRules) -> Result<Option<String>, Failed> {
    match rules.dn.evaluate_opened(image)?.as_slice() {
        [] => Ok(None),
        [dn] => Ok(Some(String::from_utf8_lossy(dn).into_owned())),
        several => {
            let why = format!("the name of an object is one value, not {}", several.len());
            Err(Failed::Object(FailureKind::Flow, why))
        }
    }
}

/// Adds what replaces the values that disabled an object, also those that no flow sets.
fn reset_disabling<'a>(
    rules: &'a OutboundRules,
    image: &Opened<'a>,
    wanted: &mut Vec<(Attribute, FlowValues<'a>)>,
) -> Result<(), Failed> {
    let DeprovisionRule::Disable(values) = &rules.deprovision else { return Ok(()) };
    let others = values.iter().map(|value| value.attribute);
    for attribute in others.filter(|attribute| rules.flows.iter().all(|flow| flow.to != *attribute)) {
        let initial = rules.initial.iter().find(|flow| flow.to == attribute);
        let value = initial.map(|flow| flow.flowing(image)).transpose()?;
        wanted.push((attribute, value.unwrap_or(FlowValues::Copied(Values::NONE))));
    }
    Ok(())
}

/// Compares wanted values with the current or pending ones, and stages the differences. `trace` receives the index of
/// each value and what becomes of it.
#[inline(always)]
fn stage_values(
    object: &CsObject,
    wanted: &[(Attribute, FlowValues<'_>)],
    export: &mut Option<PendingExport>,
    mut trace: impl FnMut(usize, Attribute, Values<'_>, FlowOutOutcome),
) {
    for (at, (attribute, values)) in wanted.iter().enumerate() {
        let (attribute, values) = (*attribute, values.values());
        let has = object.synchronized.as_ref().and_then(|image| image.get(attribute));
        let is_there = values == has.unwrap_or(Values::NONE);
        let pending = export.as_ref().and_then(|export| export.attributes.get(attribute));
        let is_sent = pending.is_some_and(|pending| pending.phase == Phase::Unconfirmed);
        match pending {
            Some(pending) if pending.values == values => {
                trace(at, attribute, values, FlowOutOutcome::Pending);
                continue;
            }
            None if is_there => {
                trace(at, attribute, values, FlowOutOutcome::Same);
                continue;
            }
            _ => {}
        }
        let export = export.get_or_insert_with(|| PendingExport::new(Change::Update));
        // The sent change may have been made, so it must be reverted.
        let is_no_more = export.change == Change::Update && is_there && !is_sent;
        let outcome = if is_no_more { FlowOutOutcome::Withdrawn } else { FlowOutOutcome::Staged };
        trace(at, attribute, values, outcome);
        export.attributes.set(attribute, (!is_no_more).then_some(values));
    }
}
