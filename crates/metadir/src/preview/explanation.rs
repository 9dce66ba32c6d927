//! Renders the trace of an object: each rule that the engine applied, with its result.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::agent::Names;
use crate::config::Secrets;
use crate::hologram::Attribute;
use crate::object::{AgentId, CsObject, MvId, State};
use crate::rules::{DeprovisionRule, Flow, FlowSource, Formula, ProjectionRule, Rules};
use crate::schema::Type;
use crate::secret::{HIDDEN, SecretValues, readable, shown};
use crate::synchronize::{ConnectedBy, Effect, FlowInOutcome, FlowOutOutcome, TraceEvent, called};

/// What a synchronization does with an object, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The applied rules as text, one line each, indented. Secret values are hidden.
    pub text: String,
    /// Why the synchronization of the object fails; none if it does not. Secret values are hidden.
    pub failure: Option<String>,
    /// The applied rules. Secret values are not hidden.
    pub events: Vec<TraceEvent>,
}

/// What a trace refers to.
pub(crate) struct Explained<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) names: &'a Names,
    pub(crate) secrets: &'a Secrets,
    /// The metaverse objects that references lead to, by the names of their objects.
    pub(crate) targets: BTreeMap<MvId, String>,
}

/// Lines with indentation.
struct Lines {
    text: String,
    secrets: SecretValues,
}

impl Lines {
    fn add(&mut self, depth: usize, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:width$}{}", "", text.as_ref(), width = 2 * depth);
    }
}

fn list(values: &[String]) -> String {
    values.join(", ")
}

impl Explained<'_> {
    /// The explanation of an object, in its state before its synchronization.
    pub(crate) fn explain(&self, object: &CsObject, events: Vec<TraceEvent>) -> Explanation {
        let mut lines = Lines { text: String::new(), secrets: self.secret_values(object, &events) };
        let agent = self.rules.agent(object.agent);
        let name = lines.secrets.without(&called(agent, object));
        lines.add(0, format!("{} {name}: {}", self.agent(object.agent), state_of(object)));
        let mut failure = None;
        let mut at = 0;
        while let Some(event) = events.get(at) {
            let before = at;
            if matches!(event, TraceEvent::FlowIn { .. } | TraceEvent::Kept { .. }) {
                at += self.flows_in(&mut lines, &events[at..]);
            } else {
                self.event(&mut lines, event);
                at += 1;
            }
            if let TraceEvent::Failed(why) = event {
                failure = Some(lines.secrets.without(why));
            }
            debug_assert!(at > before, "each event is rendered");
        }
        Explanation { text: lines.text, failure, events }
    }

    /// The secret values of an object and its trace.
    fn secret_values(&self, object: &CsObject, events: &[TraceEvent]) -> SecretValues {
        let mut secrets = SecretValues::default();
        let is_secret = |attribute| self.secrets.hides(self.names.name(attribute));
        let images = [object.image(), object.synchronized.as_ref()];
        for (attribute, values) in images.into_iter().flatten().flat_map(|image| image.iter()) {
            if is_secret(attribute) {
                values.iter().for_each(|value| secrets.add(value));
            }
        }
        for event in events {
            if let TraceEvent::FlowIn { attribute, values, .. }
            | TraceEvent::Kept { attribute, values, .. }
            | TraceEvent::FlowOut { attribute, values, .. } = event
                && is_secret(*attribute)
            {
                values.iter().for_each(|value| secrets.add(value));
            }
        }
        let inbound = self.rules.inbound.iter().flat_map(|rules| &rules.flows);
        let outbound = self.rules.outbound.iter().flat_map(|rules| rules.flows.iter().chain(&rules.initial));
        for flow in inbound.chain(outbound).filter(|flow| is_secret(flow.to)) {
            if let FlowSource::Constant(values) = &flow.from {
                values.iter().for_each(|value| secrets.add(value));
            }
        }
        secrets
    }

    fn agent(&self, id: AgentId) -> &str {
        self.rules.agent(id).map_or("", |agent| agent.name.as_str())
    }

    /// Values of an attribute in readable form.
    fn values(&self, lines: &Lines, attribute: Attribute, values: &[Vec<u8>]) -> String {
        let name = self.names.name(attribute);
        let all: Vec<String> = values
            .iter()
            .map(|value| lines.secrets.without(&shown(self.secrets.hides(name), value)))
            .collect();
        list(&all)
    }

    /// The source of a flow.
    fn source(&self, lines: &Lines, flow: &Flow) -> String {
        let is_hidden = self.secrets.hides(self.names.name(flow.to));
        match &flow.from {
            FlowSource::Direct(attribute) => self.names.name(*attribute).to_string(),
            FlowSource::Constant(_) if is_hidden => format!("constant {HIDDEN}"),
            FlowSource::Formula(_) if is_hidden => format!("expression {HIDDEN}"),
            FlowSource::Constant(values) => {
                let all: Vec<String> =
                    values.iter().map(|value| lines.secrets.without(&readable(value))).collect();
                format!("constant {}", list(&all))
            }
            FlowSource::Formula(formula) => lines.secrets.without(formula.source()),
        }
    }

    fn condition(lines: &Lines, holds: bool, formula: Option<&Formula>) -> String {
        let source = formula.map_or("", Formula::source);
        lines.secrets.without(&format!("{source} is {holds}"))
    }

    fn is_reference(&self, inbound: usize, attribute: Attribute) -> bool {
        let rules = self.rules.inbound.get(inbound).and_then(|rules| self.rules.types.get(rules.to));
        let mut attributes = rules.into_iter().flat_map(|kind| &kind.attributes);
        attributes.any(|of| of.attribute == attribute && of.kind == Type::Reference)
    }

    /// The flows of one attribute. Returns the number of events.
    fn flows_in(&self, lines: &mut Lines, events: &[TraceEvent]) -> usize {
        let attribute_of = |event: &TraceEvent| match event {
            TraceEvent::FlowIn { attribute, .. } | TraceEvent::Kept { attribute, .. } => Some(*attribute),
            _ => None,
        };
        let first = events.first().and_then(attribute_of);
        let of_attribute = events.iter().take_while(|event| attribute_of(event) == first);
        let (mut count, mut texts) = (0, Vec::new());
        for event in of_attribute {
            count += 1;
            texts.extend(self.flow_in(lines, event));
        }
        let name = first.map_or("", |attribute| self.names.name(attribute));
        match texts.as_slice() {
            [] => {}
            [one] => lines.add(2, format!("{name}: {one}")),
            several => {
                lines.add(2, format!("{name}:"));
                several.iter().for_each(|line| lines.add(3, line));
            }
        }
        count
    }

    fn flow_in(&self, lines: &Lines, event: &TraceEvent) -> Option<String> {
        match event {
            TraceEvent::Kept { attribute, values, agent } => {
                let from = agent.map_or("", |agent| self.agent(agent));
                let values = self.values(lines, *attribute, values);
                Some(format!("{values} from {from}: unchanged"))
            }
            TraceEvent::FlowIn { attribute, inbound, flow, precedence, values, outcome, .. } => {
                // References are separate events.
                if self.is_reference(*inbound, *attribute) && !matches!(outcome, FlowInOutcome::Failed(_)) {
                    return None;
                }
                let rules = self.rules.inbound.get(*inbound)?;
                let rank = precedence.map_or_else(String::new, |rank| format!(", precedence {rank}"));
                let source = self.source(lines, rules.flows.get(*flow)?);
                let from = format!("from {} ({source}{rank})", self.agent(rules.agent));
                let values = self.values(lines, *attribute, values);
                Some(match outcome {
                    FlowInOutcome::Taken => format!("{values} {from}"),
                    FlowInOutcome::NotPrecedent => format!("{values} {from}: not precedent"),
                    FlowInOutcome::Nothing => format!("nothing {from}"),
                    FlowInOutcome::Failed(why) => {
                        format!("fails {from}: {}", self.error(lines, *attribute, why))
                    }
                })
            }
            _ => None,
        }
    }

    /// The error of a flow. That of a secret attribute may contain a part of the value.
    fn error(&self, lines: &Lines, attribute: Attribute, why: &str) -> String {
        match self.secrets.hides(self.names.name(attribute)) {
            true => HIDDEN.into(),
            false => lines.secrets.without(why),
        }
    }

    fn event(&self, lines: &mut Lines, event: &TraceEvent) {
        let text = |lines: &Lines, text: &str| lines.secrets.without(text);
        match event {
            TraceEvent::Deleted { mv: Some(_) } => {
                lines.add(1, "it was deleted in its system: it is disconnected from the metaverse");
            }
            TraceEvent::Deleted { mv: None } => {
                lines.add(1, "it was deleted in its system: it is removed");
            }
            TraceEvent::Rested(_) => lines.add(1, "its import is accepted, and no value flows from it"),
            TraceEvent::NotImported => {
                lines.add(1, "its system was not imported since it was provisioned: no value flows from it");
            }
            TraceEvent::CandidateTried { object } => {
                let line = format!("{} may belong to it:", text(lines, object));
                lines.add(1, line);
            }
            TraceEvent::CandidateRefused { object, why } => {
                let line = text(lines, &format!("{object} is not joined: {why}"));
                lines.add(1, line);
            }
            TraceEvent::InboundChosen(_)
            | TraceEvent::FilterResult { .. }
            | TraceEvent::Projected { .. }
            | TraceEvent::Connected { .. }
            | TraceEvent::ReferencesIn { .. } => self.inbound(lines, event),
            TraceEvent::JoinSkipped { .. } | TraceEvent::JoinTried { .. } => self.join(lines, event),
            TraceEvent::GaveWay { object } => {
                let line = format!("{}, which was not sent yet, gives way", text(lines, object));
                lines.add(1, line);
            }
            TraceEvent::Replaced { cs } => {
                lines.add(
                    2,
                    format!("object {} was deleted in its system: another one takes its place", cs.0),
                );
            }
            TraceEvent::FlowsIn { .. } => lines.add(1, "into the metaverse:"),
            TraceEvent::FlowIn { .. } | TraceEvent::Kept { .. } => {}
            TraceEvent::MvDeleted(mv) => {
                lines.add(1, format!("object {} of the metaverse is deleted", mv.0));
            }
            TraceEvent::Released { object } => {
                let line = format!("{} becomes a disconnector", text(lines, object));
                lines.add(1, line);
            }
            TraceEvent::Failed(why) => {
                let line = text(lines, &format!("fails, so nothing of it is changed: {why}"));
                lines.add(1, line);
            }
            TraceEvent::OutboundCondition { .. }
            | TraceEvent::Named { .. }
            | TraceEvent::WriteOnly { .. }
            | TraceEvent::ReferencesOut { .. } => self.outbound(lines, event),
            TraceEvent::FlowOut { .. } => self.flow_out(lines, event),
            TraceEvent::Deprovisioned { .. } => self.deprovisioned(lines, event),
        }
    }

    fn inbound(&self, lines: &mut Lines, event: &TraceEvent) {
        let text = |lines: &Lines, text: &str| lines.secrets.without(text);
        match event {
            TraceEvent::InboundChosen(None) => {
                lines.add(1, "no [[inbound]] accepts it: no value flows from it");
            }
            TraceEvent::InboundChosen(Some(at)) => {
                if let Some(objects) = self.rules.inbound.get(*at).and_then(|rules| rules.objects.as_ref()) {
                    let line = format!("objects: {}", Self::condition(lines, true, Some(objects)));
                    lines.add(1, line);
                }
            }
            TraceEvent::FilterResult { inbound, holds } => {
                let filter = self.rules.inbound.get(*inbound).and_then(|rules| rules.filter.as_ref());
                let line = match holds {
                    None => "filter: not applied, because an administrator joined the object".into(),
                    Some(holds) => {
                        let then = if *holds { "excluded" } else { "included" };
                        format!("filter: {}: it is {then}", Self::condition(lines, *holds, filter))
                    }
                };
                lines.add(1, line);
            }
            TraceEvent::Projected { inbound, projects } => {
                let rule = self.rules.inbound.get(*inbound).map(|rules| &rules.project);
                let why = match rule {
                    Some(ProjectionRule::When(when)) => Self::condition(lines, *projects, Some(when)),
                    Some(ProjectionRule::Always) => "always".into(),
                    _ => "no".into(),
                };
                let then = match projects {
                    true => "it is projected to the metaverse",
                    false => "it stays a disconnector",
                };
                lines.add(1, format!("projection: {why}: {then}"));
            }
            TraceEvent::Connected { object, mv, by } => {
                let object = text(lines, object);
                match by {
                    // The first line says it.
                    ConnectedBy::Before | ConnectedBy::Projection => {}
                    ConnectedBy::Join => lines.add(1, format!("it joins object {} of the metaverse", mv.0)),
                    ConnectedBy::Return => lines.add(1, format!("{object} is connected again")),
                    ConnectedBy::Candidate => lines.add(1, format!("a join rule connects {object}")),
                }
            }
            TraceEvent::ReferencesIn { attribute, agent, to, .. } => {
                let unnamed = |mv: &MvId| format!("object {}", mv.0);
                let name = |mv: &MvId| self.targets.get(mv).cloned().unwrap_or_else(|| unnamed(mv));
                let names: Vec<String> = to.iter().map(name).collect();
                let (name, agent) = (self.names.name(*attribute), self.agent(*agent));
                let names = list(&names);
                let line =
                    text(lines, &format!("references into the metaverse: {name}: {names} from {agent}"));
                lines.add(1, line);
            }
            _ => {}
        }
    }

    fn join(&self, lines: &mut Lines, event: &TraceEvent) {
        let (TraceEvent::JoinSkipped { inbound, rule, .. } | TraceEvent::JoinTried { inbound, rule, .. }) =
            event
        else {
            return;
        };
        let join = self.rules.inbound.get(*inbound).and_then(|rules| rules.joins.get(*rule));
        let Some(join) = join else { return };
        let title = format!("join {}: {}", rule + 1, join.shown(self.names).replace('`', ""));
        let line = match event {
            TraceEvent::JoinSkipped { by_condition: true, .. } => {
                let condition = Self::condition(lines, false, join.when.as_ref());
                format!("{title}: not tried, because {condition}")
            }
            TraceEvent::JoinTried { values, found, .. } => {
                let values: Vec<String> = join
                    .cs
                    .iter()
                    .zip(values)
                    .map(|(part, value)| match part {
                        FlowSource::Direct(of) => shown(self.secrets.hides(self.names.name(*of)), value),
                        _ => readable(value),
                    })
                    .collect();
                let values = list(&values);
                match found.as_slice() {
                    [] => format!("{title} = {values}: no match"),
                    [one] => format!("{title} = {values}: object {} of the metaverse", one.0),
                    several => format!("{title} = {values}: {} matches, an ambiguous join", several.len()),
                }
            }
            _ => format!("{title}: not tried, because it has no single value"),
        };
        let line = lines.secrets.without(&line);
        lines.add(1, line);
    }

    fn outbound(&self, lines: &mut Lines, event: &TraceEvent) {
        let rules = |at: usize| self.rules.outbound.get(at);
        match event {
            TraceEvent::OutboundCondition { outbound, holds, effect, .. } => {
                let Some(rules) = rules(*outbound) else { return };
                let effect = match effect {
                    Effect::Provisions => "provisioned".into(),
                    Effect::FlowsTo(object) => format!("a connector, {object}"),
                    Effect::Nothing => "not provisioned".into(),
                    Effect::KeptApart => "not provisioned: an administrator disconnected its object".into(),
                    Effect::Deprovisions => "deprovisioned".to_string(),
                };
                let why = holds.map_or_else(String::new, |holds| {
                    format!(", because {}", Self::condition(lines, holds, rules.when.as_ref()))
                });
                let agent = self.agent(rules.agent);
                let line = lines.secrets.without(&format!("out to {agent}: {effect}{why}"));
                lines.add(1, line);
            }
            TraceEvent::Named { outbound, dn } => {
                let Some(rules) = rules(*outbound) else { return };
                let name = dn.as_deref().unwrap_or("no value, the name is unchanged");
                let line = format!("{NAME}: {name} ({})", rules.dn.source());
                let line = lines.secrets.without(&line);
                lines.add(2, line);
            }
            TraceEvent::WriteOnly { attribute, .. } => {
                lines.add(2, format!("{}: {HIDDEN} (write only)", self.names.name(*attribute)));
            }
            TraceEvent::ReferencesOut { outbound, attribute, values, waiting, .. } => {
                let Some(rules) = rules(*outbound) else { return };
                let waiting = match waiting {
                    0 => String::new(),
                    1 => ", 1 reference waits for its target".into(),
                    count => format!(", {count} references wait for their targets"),
                };
                let values = match values.is_empty() {
                    true => "nothing".into(),
                    false => self.values(lines, *attribute, values),
                };
                let (agent, name) = (self.agent(rules.agent), self.names.name(*attribute));
                lines.add(1, format!("references out to {agent}: {name}: {values}{waiting}"));
            }
            _ => {}
        }
    }

    fn flow_out(&self, lines: &mut Lines, event: &TraceEvent) {
        let TraceEvent::FlowOut { attribute, outbound, flow, once, values, outcome, .. } = event else {
            return;
        };
        let Some(rules) = self.rules.outbound.get(*outbound) else { return };
        let of_list = if *once { &rules.initial } else { &rules.flows };
        let flow = flow.and_then(|at| of_list.get(at));
        let source = match flow {
            Some(flow) => self.source(lines, flow),
            None => "it was set when the object was disabled".into(),
        };
        let once = if *once && flow.is_some() { ", once" } else { "" };
        let values = match values.is_empty() {
            true => "nothing".into(),
            false => self.values(lines, *attribute, values),
        };
        let (values, outcome) = match outcome {
            FlowOutOutcome::Staged | FlowOutOutcome::Nothing => (values, String::new()),
            FlowOutOutcome::Same => (values, ": unchanged".into()),
            FlowOutOutcome::Pending => (values, ": pending already".into()),
            FlowOutOutcome::Withdrawn => (values, ": the pending change is withdrawn".into()),
            FlowOutOutcome::NotPrecedent => (values, ": not precedent".into()),
            FlowOutOutcome::Failed(why) => {
                ("fails".into(), format!(": {}", self.error(lines, *attribute, why)))
            }
        };
        let name = self.names.name(*attribute);
        lines.add(2, format!("{name}: {values} ({source}{once}){outcome}"));
    }

    fn deprovisioned(&self, lines: &mut Lines, event: &TraceEvent) {
        let TraceEvent::Deprovisioned { outbound, object, was_sent, is_disabled } = event else { return };
        let Some(rules) = self.rules.outbound.get(*outbound) else { return };
        let what = match &rules.deprovision {
            _ if !was_sent => "was never sent, and is dropped",
            DeprovisionRule::Disconnect => "is disconnected",
            DeprovisionRule::Delete => "is deleted",
            DeprovisionRule::Disable(_) if *is_disabled => "is disabled already, and disconnected",
            DeprovisionRule::Disable(_) => "is disabled and disconnected",
        };
        let line = lines.secrets.without(&format!("{object} {what}"));
        lines.add(2, line);
        if let DeprovisionRule::Disable(values) = &rules.deprovision
            && *was_sent
            && !is_disabled
        {
            for pending in values.iter() {
                let values = self.values(lines, pending.attribute, &pending.values.to_vec());
                let values = if values.is_empty() { "nothing".into() } else { values };
                lines.add(3, format!("{}: {values}", self.names.name(pending.attribute)));
            }
        }
    }
}

/// The reported attribute name of an object's name.
const NAME: &str = "(name)";

/// The state of an object in words.
fn state_of(object: &CsObject) -> String {
    let of = object.mv.map_or_else(String::new, |mv| format!(" of object {} of the metaverse", mv.0));
    match object.state {
        State::Filtered => "the filter excluded it".into(),
        State::Connected => format!("a connector{of}"),
        State::ExplicitConnector => format!("a connector{of}, joined by an administrator"),
        State::Deprovisioned if of.is_empty() => {
            "deprovisioned; its metaverse object is deleted. Provisioning connects it again if a join rule matches"
                .into()
        }
        State::Deprovisioned => format!("a deprovisioned connector{of}; provisioning connects it again"),
        State::ExplicitDisconnector => "disconnected by an administrator: it is not synchronized".into(),
        State::Candidate => "a disconnector".into(),
    }
}
