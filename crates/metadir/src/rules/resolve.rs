//! Resolves a configuration: assigns a number to every name.

use super::unique::{CandidateRule, UNIQUE, unique_attributes};
use super::{
    AgentRules, AttributeRules, CountRule, DeprovisionRule, Flow, FlowSource, Formula, InboundRules,
    JoinRule, KeyRule, OutboundRules, Placeholder, ProjectionRule, ReferenceFlow, Rules, TypeRules, Use,
    WriteOnlyRule, WriteOnlyValue, comparisons,
};
use crate::agent::Names;
use crate::config::{
    AgentConfig, Candidates, Config, Deprovision, ExportFlow, ImportFlow, Inbound, Join, JoinPart,
    MetaverseType, Outbound, Projection, Secrets, Source, WriteOnly, WriteOnlySource,
};
use crate::expression::{Expression, Read};
use crate::hologram::Attribute;
use crate::object::{AgentId, Phase};
use crate::schema::Type;
use crate::store::{NameKind, Store, StoreError};

/// Resolves a configuration: assigns a number to every name.
pub(crate) fn resolve(
    config: Config,
    of_agents: &[AgentConfig],
    store: &mut dyn Store,
    names: &mut Names,
) -> Result<Rules, StoreError> {
    let Config { types: of_types, inbound: of_inbound, outbound: of_outbound, secrets, .. } = config;
    let mut resolver = Resolver {
        store: &mut *store,
        names: &mut *names,
        of_types: &of_types,
        agents: Vec::new(),
        types: Vec::new(),
        places: Vec::new(),
        counted_for: None,
        counts: Vec::new(),
    };
    for agent in of_agents {
        resolver.agent(agent, &secrets)?;
    }
    for kind in &of_types {
        resolver.kind(kind, &secrets)?;
    }
    let (mut inbound, mut precedences) = (Vec::new(), Vec::<Vec<u32>>::new());
    for rules in of_inbound {
        precedences.push(rules.flows.iter().map(|flow| flow.precedence).collect());
        let references = &of_agents[rules.agent].references;
        inbound.push(resolver.inbound(inbound.len(), rules, references)?);
    }
    for attribute in resolver.types.iter_mut().flat_map(|kind| &mut kind.attributes) {
        attribute.contributors.sort_by_key(|(rules, flow)| precedences[*rules][*flow]);
        attribute.completed(&inbound);
    }
    let mut outbound = Vec::new();
    for rules in of_outbound {
        outbound.push(resolver.outbound(rules)?);
    }
    let Resolver { mut agents, types, .. } = resolver;
    for agent in &mut agents {
        summarize(agent, &types, &inbound, &outbound);
    }
    let is_correlated = agents.iter().any(|agent| agent.is_correlated);
    let systems = comparisons::Comparisons::new();
    let mut rules = Rules { systems, types, agents, inbound, outbound, is_correlated, secrets };
    let known = comparisons::known(store, &rules, names, of_agents)?;
    rules.compare_as(known, store, names)?;
    Ok(rules)
}

/// Fills in what the rules say about an agent.
fn summarize(
    agent: &mut AgentRules,
    types: &[TypeRules],
    inbound: &[InboundRules],
    outbound: &[OutboundRules],
) {
    let of_agent = || outbound.iter().filter(|rules| rules.agent == agent.id);
    let written = of_agent().flat_map(|rules| rules.flows.iter().chain(&rules.initial)).map(|flow| flow.to);
    let write_only = of_agent().flat_map(|rules| &rules.write_only).map(|rule| rule.to);
    let (written, write_only) = (distinct(written), distinct(write_only));
    let joins = agent.inbound.iter().any(|at| !inbound[*at].joins.is_empty());
    let is_correlated = joins && of_agent().next().is_some();
    let unique = unique_attributes(agent.id, outbound, inbound, types);
    (agent.written, agent.write_only, agent.unique) = (written, write_only, unique);
    (agent.joins, agent.is_correlated) = (joins, is_correlated);
}

fn distinct(attributes: impl Iterator<Item = Attribute>) -> Vec<Attribute> {
    let mut all: Vec<Attribute> = attributes.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Assigns numbers to names.
struct Resolver<'a> {
    store: &'a mut dyn Store,
    names: &'a mut Names,
    of_types: &'a [MetaverseType],
    agents: Vec<AgentRules>,
    types: Vec<TypeRules>,
    /// The attributes of each type by their index in the configuration.
    places: Vec<Vec<Attribute>>,
    /// The agent of the outbound rules that are resolved.
    counted_for: Option<(AgentId, String)>,
    /// The numbers of references that they read.
    counts: Vec<CountRule>,
}

impl Resolver<'_> {
    fn agent(&mut self, agent: &AgentConfig, secrets: &Secrets) -> Result<(), StoreError> {
        let anchor = self.attributes(&agent.anchor)?;
        let references = distinct(self.attributes(&agent.references)?.into_iter());
        let id = AgentId(self.store.name(NameKind::Agent, &agent.name)?);
        self.agents.push(AgentRules {
            id,
            name: agent.name.clone(),
            naming: agent.system.naming(),
            anchor,
            references,
            inbound: Vec::new(),
            gives_references: false,
            gets_references: false,
            placeholders: Vec::new(),
            written: Vec::new(),
            existing: agent.existing,
            recall: agent.recall,
            write_only: Vec::new(),
            secrets: secrets.clone(),
            identities: Vec::new(),
            joins: false,
            is_correlated: false,
            unique: Vec::new(),
        });
        Ok(())
    }

    fn kind(&mut self, kind: &MetaverseType, secrets: &Secrets) -> Result<(), StoreError> {
        let mut attributes = Vec::new();
        for attribute in &kind.attributes {
            attributes.push(AttributeRules {
                attribute: self.attribute(&attribute.name)?,
                kind: attribute.kind,
                several: attribute.several,
                is_secret: secrets.hides(&attribute.name),
                contributors: Vec::new(),
                copied: None,
            });
        }
        self.places.push(attributes.iter().map(|rules| rules.attribute).collect());
        let place = |at: &usize| attributes.get(*at).map(|rules: &AttributeRules| rules.attribute);
        let mut search: Vec<Attribute> = kind.search.iter().filter_map(place).collect();
        search.sort_unstable();
        attributes.sort_by_key(|rules| rules.attribute);
        self.types.push(TypeRules {
            search,
            kind: self.store.name(NameKind::Type, &kind.name)?,
            attributes,
            keys: Vec::new(),
            unique: Vec::new(),
            counts: Vec::new(),
            is_evaluated_without_references: false,
            deleted_with: kind.deleted_with.iter().map(|agent| self.agents[*agent].id).collect(),
        });
        Ok(())
    }

    /// The rules at an index for the objects of an agent with these reference attributes.
    fn inbound(
        &mut self,
        at: usize,
        rules: Inbound,
        references: &[String],
    ) -> Result<InboundRules, StoreError> {
        // References have no value here, but a number.
        let text = |name: &str| match references.iter().any(|reference| reference == name) {
            true => Type::Reference,
            false => Type::Text,
        };
        let mut joins = Vec::new();
        for join in rules.joins {
            joins.push(self.join(join, rules.to, text)?);
        }
        let mut flows = Vec::new();
        for (place, flow) in rules.flows.into_iter().enumerate() {
            let to = self.places[rules.to][flow.to];
            let attributes = &mut self.types[rules.to].attributes;
            if let Some(attribute) = attributes.iter_mut().find(|attribute| attribute.attribute == to) {
                attribute.contributors.push((at, place));
                self.agents[rules.agent].gives_references |= attribute.kind == Type::Reference;
            }
            flows.push(self.import_flow(flow, rules.to, to, text)?);
        }
        self.agents[rules.agent].inbound.push(at);
        Ok(InboundRules {
            agent: self.agents[rules.agent].id,
            to: rules.to,
            objects: rules.objects.map(|objects| self.formula(objects, text)).transpose()?,
            filter: rules.filter.map(|filter| self.formula(filter, text)).transpose()?,
            joins,
            multiple_connectors: rules.multiple_connectors,
            project: match rules.project {
                Projection::No => ProjectionRule::No,
                Projection::Always => ProjectionRule::Always,
                Projection::When(when) => ProjectionRule::When(Box::new(self.formula(when, text)?)),
            },
            flows,
        })
    }

    fn join(
        &mut self,
        join: Join,
        to: usize,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<JoinRule, StoreError> {
        let of_type = &self.of_types[to];
        let of_attribute = |name: &str| kind_of(of_type, name);
        Ok(JoinRule {
            cs: self.parts(join.cs, kind)?,
            mv: self.parts(join.mv, of_attribute)?,
            type_name: of_type.name.clone(),
            ignore_case: join.ignore_case,
            rule: 0,
            comparisons: Vec::new(),
            when: join.when.map(|when| self.formula(when, kind)).transpose()?,
        })
    }

    /// A flow into an attribute of the type at an index.
    fn import_flow(
        &mut self,
        flow: ImportFlow,
        of: usize,
        to: Attribute,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Flow, StoreError> {
        let mut candidates = None;
        if let Some(written) = flow.candidates {
            let of_type = &self.of_types[of];
            let name = format!("unique {}.{}", of_type.name, of_type.attributes[flow.to].name);
            let made = self.candidates(&name, &flow.from, written, kind)?;
            let rules = &mut self.types[of];
            if !rules.unique.contains(&made.rule) {
                rules.unique.push(made.rule);
                let parts = vec![FlowSource::Direct(to)];
                rules.keys.push(KeyRule { rule: made.rule, parts, comparisons: vec![UNIQUE] });
            }
            candidates = Some(Box::new(made));
        }
        Ok(Flow { to, from: self.from(flow.from, kind)?, candidates })
    }

    fn outbound(&mut self, rules: Outbound) -> Result<OutboundRules, StoreError> {
        let of_type = &self.of_types[rules.from];
        let kind = |name: &str| kind_of(of_type, name);
        let of_agent = &self.agents[rules.agent];
        let (agent, naming, anchor) = (of_agent.id, of_agent.naming, of_agent.anchor.clone());
        let agent_name = of_agent.name.clone();
        (self.counted_for, self.counts) = (Some((agent, agent_name.clone())), Vec::new());
        let (references, plain) = rules.flows.into_iter().partition::<Vec<_>, _>(
            |flow| matches!(&flow.from, Source::Direct(name) if kind(name) == Type::Reference),
        );
        let mut made = OutboundRules {
            agent,
            from: rules.from,
            when: rules.when.map(|when| self.formula(when, kind)).transpose()?,
            names: match rules.dn_candidates {
                None => None,
                Some(written) => {
                    let first = Source::Expression(rules.dn.clone());
                    Some(self.candidates(&format!("name in {agent_name}"), &first, written, kind)?)
                }
            },
            dn: self.formula(rules.dn, kind)?,
            delete_after_s: rules.delete_after_s,
            deprovision: self.deprovision(rules.deprovision)?,
            flows: self.export_flows(plain, kind)?,
            initial: self.export_flows(rules.initial, kind)?,
            write_only: self.write_only(rules.write_only, kind)?,
            references: self.reference_flows(references, rules.agent, rules.from)?,
            counts: Vec::new(),
            anchor,
            naming,
        };
        self.counted_for = None;
        made.counts = self.counts.iter().map(|count| count.attribute).collect();
        self.types[rules.from].add_counts(&self.counts);
        Ok(made)
    }

    fn deprovision(&mut self, way: Deprovision) -> Result<DeprovisionRule, StoreError> {
        let values = match way {
            Deprovision::Disconnect => return Ok(DeprovisionRule::Disconnect),
            Deprovision::Delete => return Ok(DeprovisionRule::Delete),
            Deprovision::Disable(values) => values,
        };
        let values = values.into_iter().map(|(name, value)| {
            let values = if value.is_empty() { Vec::new() } else { vec![value.into_bytes()] };
            Ok((self.attribute(&name)?, Phase::Unapplied, values))
        });
        Ok(DeprovisionRule::Disable(values.collect::<Result<_, StoreError>>()?))
    }

    fn export_flows(
        &mut self,
        listed: Vec<ExportFlow>,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Vec<Flow>, StoreError> {
        let flows = listed.into_iter().map(|flow| {
            let (to, from) = (self.attribute(&flow.to)?, self.from(flow.from, kind)?);
            Ok(Flow { to, from, candidates: None })
        });
        let mut flows: Vec<Flow> = flows.collect::<Result<_, StoreError>>()?;
        flows.sort_by_key(|flow| flow.to);
        Ok(flows)
    }

    /// The flows of references from a type to an agent.
    fn reference_flows(
        &mut self,
        listed: Vec<ExportFlow>,
        agent: usize,
        of: usize,
    ) -> Result<Vec<ReferenceFlow>, StoreError> {
        let naming = self.agents[agent].naming;
        let mut flows = Vec::new();
        for flow in listed {
            let Source::Direct(from) = flow.from else { continue };
            let empty = flow.empty.map(|value| Placeholder {
                target: naming.target(value.as_bytes()),
                value: value.into_bytes(),
            });
            flows.push(ReferenceFlow { to: self.attribute(&flow.to)?, from: self.attribute(&from)?, empty });
        }
        flows.sort_by_key(|flow| flow.to);
        let rules = &mut self.agents[agent];
        rules.gets_references |= !flows.is_empty();
        rules
            .placeholders
            .extend(flows.iter().filter_map(|flow| Some((flow.to, flow.empty.as_ref()?.target))));
        self.types[of].is_evaluated_without_references |= flows.iter().any(|flow| flow.empty.is_some());
        Ok(flows)
    }

    fn attributes(&mut self, names: &[String]) -> Result<Vec<Attribute>, StoreError> {
        names.iter().map(|name| self.attribute(name)).collect()
    }

    fn attribute(&mut self, name: &str) -> Result<Attribute, StoreError> {
        if let Some(known) = self.names.attribute(name) {
            return Ok(known);
        }
        let attribute = Attribute(self.store.name(NameKind::Attribute, name)?);
        self.names.insert(name, attribute);
        Ok(attribute)
    }

    fn formula(
        &mut self,
        expression: Expression,
        kind: impl Fn(&str) -> Type,
    ) -> Result<Formula, StoreError> {
        let mut uses = Vec::with_capacity(expression.uses().len());
        for (at, name) in expression.uses().iter().enumerate() {
            let (read, kind) = (expression.read(at), kind(name));
            uses.push(match (read, kind, self.counted_for.clone()) {
                (Read::Values, kind, _) => (self.attribute(name)?, Use::Values(kind)),
                // The number is an attribute of the metaverse object.
                (_, Type::Reference, Some((agent, agent_name))) => {
                    let connected_to = (read == Read::Connectors).then_some(agent);
                    let attribute = self.attribute(&CountRule::name(read, name, &agent_name))?;
                    let of = self.attribute(name)?;
                    self.counts.push(CountRule { attribute, of, connected_to });
                    (attribute, Use::Values(Type::Integer))
                }
                (_, Type::Reference, None) => (self.attribute(name)?, Use::CountOfDigest),
                (_, _, _) => (self.attribute(name)?, Use::Count),
            });
        }
        Ok(Formula { uses, expression })
    }

    fn parts(
        &mut self,
        parts: Vec<JoinPart>,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Vec<FlowSource>, StoreError> {
        let part = |part| match part {
            JoinPart::Attribute(name) => Ok(FlowSource::Direct(self.attribute(&name)?)),
            JoinPart::Expression(made) => Ok(FlowSource::Formula(self.formula(made, kind)?)),
        };
        parts.into_iter().map(part).collect()
    }

    fn from(&mut self, source: Source, kind: impl Fn(&str) -> Type) -> Result<FlowSource, StoreError> {
        Ok(match source {
            Source::Direct(name) => FlowSource::Direct(self.attribute(&name)?),
            Source::Constant(texts) => {
                FlowSource::Constant(texts.into_iter().map(String::into_bytes).collect())
            }
            Source::Expression(expression) => FlowSource::Formula(self.formula(expression, kind)?),
        })
    }

    /// The candidates for a unique value; `first` is the expression of the first one.
    fn candidates(
        &mut self,
        name: &str,
        first: &Source,
        written: Candidates,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<CandidateRule, StoreError> {
        let rule = self.store.name(NameKind::Key, name)?;
        let mut fixed = Vec::new();
        if let Source::Expression(first) = first {
            fixed.push(self.formula(first.clone(), kind)?);
        }
        let mut counted = None;
        for other in written.others {
            let is_counted = other.is_counted();
            let formula = self.formula(other, kind)?;
            match is_counted {
                true => counted = Some(formula),
                false => fixed.push(formula),
            }
        }
        Ok(CandidateRule { rule, fixed, counted, most: written.most })
    }

    fn write_only(
        &mut self,
        rules: Vec<WriteOnly>,
        kind: impl Fn(&str) -> Type + Copy,
    ) -> Result<Vec<WriteOnlyRule>, StoreError> {
        let mut all = Vec::with_capacity(rules.len());
        for rule in rules {
            let to = self.attribute(&rule.to)?;
            let from = match rule.from {
                WriteOnlySource::Flow(source) => WriteOnlyValue::Flow(self.from(source, kind)?),
                WriteOnlySource::Secret(place) => WriteOnlyValue::Secret(place),
                WriteOnlySource::Generated(generator) => WriteOnlyValue::Generated(generator),
            };
            all.push(WriteOnlyRule { to, on_return: rule.on_return, from });
        }
        all.sort_by_key(|rule| rule.to);
        Ok(all)
    }
}

/// The type of an attribute of a metaverse type.
fn kind_of(of: &MetaverseType, name: &str) -> Type {
    let found = of.attributes.iter().find(|attribute| attribute.name == name);
    found.map_or(Type::Text, |found| found.kind)
}
