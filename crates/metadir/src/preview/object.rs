//! Explains how the rules process an object: each rule that applies, with its result.

use std::fmt::Write as _;

use super::{shown, shown_of};
use crate::agent::Names;
use crate::config::{AgentConfig, HIDDEN, Secrets};
use crate::hologram::Hologram;
use crate::object::{CsId, CsObject, MvObject, State};
use crate::rules::{
    DeprovisionRule, Flow, FlowSource, Formula, InboundRules, OutboundRules, ProjectionRule, Rules, TypeRules,
};
use crate::store::{Store, StoreError};
use crate::synchronize::called;

/// The data for an explanation.
pub(crate) struct ExplanationInput<'a> {
    pub(crate) store: &'a mut dyn Store,
    pub(crate) rules: &'a Rules,
    pub(crate) names: &'a Names,
    pub(crate) agents: &'a [AgentConfig],
    pub(crate) secrets: &'a Secrets,
}

/// The lines of an explanation, each with its indentation.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn add_line(&mut self, depth: usize, text: impl AsRef<str>) {
        let _ = writeln!(self.0, "{:width$}{}", "", text.as_ref(), width = 2 * depth);
    }
}

impl ExplanationInput<'_> {
    /// Explains the result of the rules for an object, from the filter to the exported values. `called` is
    /// the key in the request.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn explain(&mut self, called: &str, object: &CsObject) -> Result<String, StoreError> {
        let mut lines = Lines::default();
        let agent = self.agent(object.agent);
        let of = object.mv.map_or_else(String::new, |mv| format!(" of object {} of the metaverse", mv.0));
        let state = match object.state {
            State::Filtered => "the filter excludes it".into(),
            State::Connected => format!("a connector{of}"),
            State::ExplicitConnector => format!("a connector{of}, joined by an administrator"),
            State::Deprovisioned if of.is_empty() => {
                "deprovisioned; its metaverse object is deleted. Provisioning connects it again if a join rule matches"
                    .into()
            }
            State::Deprovisioned => format!("a deprovisioned connector{of}; provisioning connects it again"),
            State::ExplicitDisconnector => "disconnected by an administrator: it is not synchronized".into(),
            State::Candidate => "a disconnector".into(),
        };
        lines.add_line(0, format!("{agent}: {called}: {state}"));
        let Some(image) = object.image().cloned() else {
            lines.add_line(1, "it was deleted in its system: it is disconnected from the metaverse");
            return Ok(lines.0);
        };
        if matches!(object.state, State::Deprovisioned | State::ExplicitDisconnector) {
            return self.connected(lines, object, None);
        }
        let rules = self.rules;
        let inbound = match rules.inbound_for(object.agent, &image) {
            Ok(Some(at)) => at,
            Ok(None) => {
                lines.add_line(1, "no [[inbound]] matches it: it is not synchronized");
                return self.connected(lines, object, None);
            }
            Err(failed) => {
                lines.add_line(1, format!("[[inbound]] cannot be chosen: {failed}"));
                return Ok(lines.0);
            }
        };
        let of = &rules.inbound[inbound];
        if let Some(filter) = of.filter.as_ref().filter(|_| object.state != State::ExplicitConnector) {
            match filter.holds(&image) {
                Ok(true) => {
                    lines.add_line(1, format!("filter: {} is true: it is excluded", filter.source()));
                    return Ok(lines.0);
                }
                Ok(false) => {
                    lines.add_line(1, format!("filter: {} is false: it is included", filter.source()))
                }
                Err(failed) => {
                    lines.add_line(1, format!("filter: {failed}: reported, the object is unchanged"));
                    return Ok(lines.0);
                }
            }
        }
        let joined = match object.mv {
            Some(_) => None,
            None => match self.join(&mut lines, of, &image)? {
                Some(found) => found,
                None => return Ok(lines.0),
            },
        };
        self.connected(lines, object, Some((inbound, joined)))
    }

    /// The metaverse object that a join rule finds. The inner value is none if the object is projected; the
    /// outer value is none if it is neither joined nor projected.
    fn join(
        &mut self,
        lines: &mut Lines,
        rules: &InboundRules,
        image: &Hologram,
    ) -> Result<Option<Option<MvObject>>, StoreError> {
        let kind = self.rules.types[rules.to].kind;
        for (at, join) in rules.joins.iter().enumerate() {
            let shown = join.shown(self.names).replace('`', "");
            let title = format!("join {}: {shown}", at + 1);
            if let Some(when) = &join.when
                && !matches!(when.holds(image), Ok(true))
            {
                lines.add_line(1, format!("{title}: not tried, because {} is false", when.source()));
                continue;
            }
            let (key, values) = match (join.key(image), join.values(image)) {
                (Ok(Some(key)), Ok(Some(values))) => (key, values),
                (Err(failed), _) | (_, Err(failed)) => {
                    lines.add_line(1, format!("{title}: {failed}: reported, not joined"));
                    return Ok(None);
                }
                _ => {
                    lines.add_line(1, format!("{title}: not tried, because it has no single value"));
                    continue;
                }
            };
            let found = self.store.mv_with(&[key])?;
            let found: Vec<_> = found.into_iter().flatten().collect();
            let mut found = self.store.mv(&found)?;
            found.retain(|object| object.kind == kind);
            let value = shown_all(&values);
            match found.len() {
                0 => lines.add_line(1, format!("{title} = {value}: no match")),
                1 => {
                    let found = found.swap_remove(0);
                    lines.add_line(
                        1,
                        format!("{title} = {value}: joins object {} of the metaverse", found.id.0),
                    );
                    return Ok(Some(Some(found)));
                }
                several => {
                    let text = format!(
                        "{title} = {value}: {several} matches, an ambiguous join: reported, not joined"
                    );
                    lines.add_line(1, text);
                    return Ok(None);
                }
            }
        }
        let projects = match &rules.project {
            ProjectionRule::No => Err("no: it stays a disconnector".to_string()),
            ProjectionRule::Always => Ok("always: it is projected to the metaverse".to_string()),
            ProjectionRule::When(when) => match when.holds(image) {
                Ok(true) => Ok(format!("{} is true: it is projected to the metaverse", when.source())),
                Ok(false) => Err(format!("{} is false: it stays a disconnector", when.source())),
                Err(failed) => Err(failed.to_string()),
            },
        };
        match projects {
            Ok(why) => {
                lines.add_line(1, format!("projection: {why}"));
                Ok(Some(None))
            }
            Err(why) => {
                lines.add_line(1, format!("projection: {why}"));
                Ok(None)
            }
        }
    }

    /// The flows of an object that is or becomes a connector: inbound, then outbound.
    fn connected(
        &mut self,
        mut lines: Lines,
        object: &CsObject,
        inbound: Option<(usize, Option<MvObject>)>,
    ) -> Result<String, StoreError> {
        let of_object: Vec<_> = object.mv.into_iter().collect();
        let linked = self.store.mv(&of_object)?.pop();
        let (to, joined) = match inbound {
            Some((at, joined)) => (Some(self.rules.inbound[at].to), joined),
            None => (None, None),
        };
        let mv = linked.or(joined);
        let kind = match (&mv, to) {
            (Some(mv), _) => self.rules.types.iter().find(|kind| kind.kind == mv.kind),
            (None, Some(to)) => self.rules.types.get(to),
            (None, None) => None,
        };
        let Some(kind) = kind else { return Ok(lines.0) };
        let ids = mv.as_ref().map_or(&[][..], |mv| &mv.connectors);
        let (mut connectors, deprovisioned): (Vec<CsObject>, Vec<CsObject>) =
            self.store.cs(ids)?.into_iter().partition(|connector| connector.state.is_connected());
        let rests = matches!(object.state, State::Deprovisioned | State::ExplicitDisconnector);
        if !rests && connectors.iter().all(|connector| connector.id != object.id) {
            connectors.push(object.clone());
        }
        lines.add_line(1, "into the metaverse:");
        let mut made = Vec::new();
        for attribute in &kind.attributes {
            let name = self.names.name(attribute.attribute);
            let mut is_taken = false;
            let mut sink = Vec::new();
            for (rank, (inbound, flow)) in attribute.contributors.iter().enumerate() {
                let of = &self.rules.inbound[*inbound];
                let flow = &of.flows[*flow];
                let mut of_agent = connectors.iter().filter(|connector| connector.agent == of.agent);
                let Some(image) = of_agent.find_map(CsObject::image) else { continue };
                let agent = self.agent(of.agent);
                let how = self.how(flow);
                let rank = if attribute.contributors.len() > 1 {
                    format!(", precedence {}", rank + 1)
                } else {
                    String::new()
                };
                let values = flow.values(image).map_err(|failed| failed.to_string());
                let values = values.and_then(|values| attribute.fitted(values, name));
                let origin = format!("from {agent} ({how}{rank})");
                match values {
                    Err(why) => sink.push(format!("fails {origin}: {why}")),
                    Ok(values) if values.is_empty() => sink.push(format!("nothing {origin}")),
                    Ok(values) => {
                        let shown: Vec<String> =
                            values.iter().map(|value| shown_of(self.secrets, name, value)).collect();
                        let loses = if is_taken { ": not precedent" } else { "" };
                        sink.push(format!("{} {origin}{loses}", shown.join(", ")));
                        if !is_taken {
                            made.push((attribute.attribute, values));
                        }
                        is_taken = true;
                    }
                }
            }
            match sink.as_slice() {
                [] => {}
                [one] => lines.add_line(2, format!("{name}: {one}")),
                several => {
                    lines.add_line(2, format!("{name}:"));
                    several.iter().for_each(|line| lines.add_line(3, line));
                }
            }
        }
        let image: Hologram = made.into_iter().collect();
        for outbound in self.rules.outbound.iter().filter(|out| self.rules.types[out.from].kind == kind.kind)
        {
            let has = connectors
                .iter()
                .find(|connector| connector.agent == outbound.agent && connector.mv.is_some());
            let found = match has {
                Some(_) => None,
                None => self.found(outbound, kind, &image, &deprovisioned)?,
            };
            self.out(&mut lines, outbound, &image, has, found);
        }
        Ok(lines.0)
    }

    /// The object that provisioning connects instead of making a new one, and why.
    fn found(
        &mut self,
        outbound: &OutboundRules,
        kind: &TypeRules,
        image: &Hologram,
        deprovisioned: &[CsObject],
    ) -> Result<Option<String>, StoreError> {
        let agent = self.rules.agent(outbound.agent);
        let called = |object: &CsObject| called(agent, object);
        if let Some(object) = deprovisioned.iter().find(|object| object.agent == outbound.agent) {
            return Ok(Some(format!("{} is connected again", called(object))));
        }
        let ids: Vec<CsId> = self.store.cs_with(&kind.keys(image))?.into_iter().flatten().collect();
        let is_of = |object: &CsObject| {
            let inbound = object.image().and_then(|image| self.rules.correlation(object.agent, image));
            object.agent == outbound.agent
                && object.mv.is_none()
                && inbound.is_some_and(|inbound| self.rules.types[inbound.to].kind == kind.kind)
        };
        let found = self.store.cs(&ids)?.into_iter().find(|object| is_of(object));
        Ok(found.map(|object| format!("a join rule connects {}", called(&object))))
    }

    /// The result for a metaverse object in a connector space.
    fn out(
        &self,
        lines: &mut Lines,
        rules: &OutboundRules,
        image: &Hologram,
        has: Option<&CsObject>,
        found: Option<String>,
    ) {
        let agent = self.agent(rules.agent);
        let condition = rules.when.as_ref().map(|when| (when.holds(image), when.source()));
        let is_wanted = match &condition {
            None => true,
            Some((Ok(holds), _)) => *holds,
            Some((Err(failed), _)) => {
                lines.add_line(1, format!("out to {agent}: {failed}"));
                return;
            }
        };
        let why = match &condition {
            None => String::new(),
            Some((_, source)) if is_wanted => format!(", because {source} is true"),
            Some((_, source)) => format!(", because {source} is false"),
        };
        match (is_wanted, has) {
            (false, None) => {
                lines.add_line(1, format!("out to {agent}: not provisioned{why}"));
                return;
            }
            (false, Some(_)) => {
                let what = match &rules.deprovision {
                    DeprovisionRule::Disconnect => "disconnected",
                    DeprovisionRule::Delete => "deleted",
                    DeprovisionRule::Disable(_) => "disabled and disconnected",
                };
                lines.add_line(1, format!("out to {agent}: {what}{why}"));
                return;
            }
            (true, None) => match &found {
                Some(found) => lines.add_line(1, format!("out to {agent}: {found}{why}")),
                None => lines.add_line(1, format!("out to {agent}: provisioned{why}")),
            },
            (true, Some(_)) => lines.add_line(1, format!("out to {agent}: a connector{why}")),
        }
        let named = values_of(&rules.dn, image);
        lines.add_line(2, format!("(name): {named} ({})", rules.dn.source()));
        let initial =
            rules.initial.iter().filter(|_| has.is_none() && found.is_none()).map(|flow| (flow, ", once"));
        if has.is_none() && found.is_none() {
            let never_read = rules.write_only.iter().map(|rule| self.names.name(rule.to));
            never_read.for_each(|name| lines.add_line(2, format!("{name}: {HIDDEN} (write only)")));
        }
        for (flow, once) in rules.flows.iter().map(|flow| (flow, "")).chain(initial) {
            let name = self.names.name(flow.to);
            let text = match flow.values(image) {
                Err(failed) => format!("fails: {failed}"),
                Ok(values) if values.is_empty() => "nothing".into(),
                Ok(values) => values
                    .iter()
                    .map(|value| shown_of(self.secrets, name, value))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            lines.add_line(2, format!("{name}: {text} ({}{once})", self.how(flow)));
        }
    }

    fn agent(&self, id: crate::object::AgentId) -> &str {
        let at = self.rules.agents.iter().position(|rules| rules.id == id);
        at.and_then(|at| self.agents.get(at)).map_or("", |agent| agent.name.as_str())
    }

    /// A description of the source of a flow.
    fn how(&self, flow: &Flow) -> String {
        let is_secret = self.secrets.hides(self.names.name(flow.to));
        match &flow.from {
            FlowSource::Direct(attribute) => self.names.name(*attribute).to_string(),
            FlowSource::Constant(_) if is_secret => format!("constant {HIDDEN}"),
            FlowSource::Formula(_) if is_secret => format!("expression {HIDDEN}"),
            FlowSource::Constant(values) => format!("constant {}", shown_all(values)),
            FlowSource::Formula(formula) => formula.source().to_string(),
        }
    }
}

fn values_of(formula: &Formula, image: &Hologram) -> String {
    match formula.evaluate(image) {
        Ok(values) => shown_all(&values),
        Err(failed) => format!("fails: {failed}"),
    }
}

fn shown_all(values: &[Vec<u8>]) -> String {
    values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ")
}
