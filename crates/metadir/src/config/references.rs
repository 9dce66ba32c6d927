//! Validation of references and of the types of agents.

use super::part::{Part, Reader, span_of};
use super::{AgentConfig, Inbound, JoinPart, MetaverseType, Outbound, Projection, Source};
use crate::agent::System;
use crate::expression::{Expression, Read};
use crate::schema::Type;

impl Reader {
    /// A reference value is one attribute, so an anchor that is used for references must have exactly one
    /// attribute.
    pub(super) fn reference_by_anchor(
        &mut self,
        part: &Part<'_>,
        system: &dyn System,
        anchor: &[String],
        references: &[String],
    ) {
        if !references.is_empty() && anchor.len() > 1 && !system.naming().refers_by_name() {
            let what = format!(
                "objects of {} refer to others by the anchor, which has several attributes",
                part.what
            );
            self.wrong(
                span_of(part, "references"),
                what,
                "name one attribute in `anchor`, or no `references`",
            );
        }
    }

    /// References flow unchanged from reference attributes into attributes of the type reference.
    pub(super) fn references_in(
        &mut self,
        part: &Part<'_>,
        rules: &Inbound,
        agent: &AgentConfig,
        to: &MetaverseType,
    ) {
        let refers = |name: &str| agent.references.iter().any(|known| known == name);
        let when = match &rules.project {
            Projection::When(when) => Some(when),
            Projection::No | Projection::Always => None,
        };
        let joined = rules.joins.iter().filter_map(|join| join.when.as_ref());
        let flowing = rules.flows.iter().filter_map(|flow| of_source(&flow.from));
        let candidates = rules.flows.iter().filter_map(|flow| flow.candidates.as_ref());
        let flowing = flowing.chain(candidates.flat_map(|candidates| &candidates.others));
        let parts = rules.joins.iter().flat_map(|join| &join.cs).filter_map(JoinPart::expression);
        let joined = joined.chain(parts);
        let all =
            [&rules.objects, &rules.filter].into_iter().flatten().chain(when).chain(joined).chain(flowing);
        self.not_read(part, all, refers);
        let is_reference = |name: &String| {
            to.attributes.iter().any(|known| known.name == *name && known.kind == Type::Reference)
        };
        for (cs, mv) in rules.joins.iter().flat_map(|join| join.cs.iter().zip(&join.mv)) {
            let of_cs = matches!(cs, JoinPart::Attribute(name) if refers(name));
            if of_cs || mv.uses().iter().any(is_reference) {
                let what = format!("a join compares values, and `{cs}` = `{mv}` are references");
                self.wrong(span_of(part, "join"), what, "join by an attribute that is none");
            }
        }
        for flow in &rules.flows {
            let attribute = &to.attributes[flow.to];
            let from = matches!(&flow.from, Source::Direct(name) if refers(name));
            match (from, attribute.kind == Type::Reference) {
                (true, false) => {
                    let what = format!(
                        "{} is named in `references` of [agents.{}], and flows into `{}`, which is not a reference",
                        shown(&flow.from),
                        agent.name,
                        attribute.name
                    );
                    let help = format!(
                        "give `{}` of [metaverse.{}] the type \"reference\"",
                        attribute.name, to.name
                    );
                    self.wrong(span_of(part, "flow"), what, help);
                }
                (false, true) => {
                    let what =
                        format!("`{}` is a reference, and {} is none", attribute.name, shown(&flow.from));
                    let help =
                        format!("let an attribute flow that `references` of [agents.{}] names", agent.name);
                    self.wrong(span_of(part, "flow"), what, help);
                }
                _ => {}
            }
        }
    }

    /// References flow unchanged into reference attributes.
    pub(super) fn references_out(
        &mut self,
        part: &Part<'_>,
        rules: &Outbound,
        agent: &AgentConfig,
        from: &MetaverseType,
    ) {
        let refers = |name: &str| agent.references.iter().any(|known| known == name);
        let is_reference = |name: &str| {
            from.attributes.iter().any(|known| known.name == name && known.kind == Type::Reference)
        };
        let flowing = rules.flows.iter().chain(&rules.initial).filter_map(|flow| of_source(&flow.from));
        let candidates = rules.dn_candidates.iter().flat_map(|candidates| &candidates.others);
        let all: Vec<&Expression> =
            rules.when.iter().chain([&rules.dn]).chain(candidates).chain(flowing).collect();
        self.not_read(part, all.iter().copied(), is_reference);
        for expression in all {
            let uses = expression.uses().iter().enumerate();
            let counted = uses.filter(|(at, _)| expression.read(*at) == Read::Connectors);
            for (_, name) in counted.filter(|(_, name)| !is_reference(name)) {
                let what = format!("`connectors({name})` counts objects, and `{name}` is not a reference");
                self.wrong(part.span.clone(), what, "count(...) is the number of its values");
            }
        }
        self.placeholders(part, rules, agent, is_reference);
        for flow in &rules.flows {
            let of_type = matches!(&flow.from, Source::Direct(name) if is_reference(name));
            match (of_type, refers(&flow.to)) {
                (true, false) => {
                    let what = format!("`{}` gets references", flow.to);
                    let help = format!("name it in `references` of [agents.{}]", agent.name);
                    self.wrong(span_of(part, "flow"), what, help);
                }
                (false, true) => {
                    let what = format!(
                        "`{}` refers to objects, and {} is not a reference",
                        flow.to,
                        shown(&flow.from)
                    );
                    let help = format!(
                        "let an attribute of [metaverse.{}] of the type \"reference\" flow",
                        from.name
                    );
                    self.wrong(span_of(part, "flow"), what, help);
                }
                _ => {}
            }
        }
        let initial = rules.initial.iter().filter(|flow| {
            refers(&flow.to) || matches!(&flow.from, Source::Direct(name) if is_reference(name))
        });
        for flow in initial {
            let what = format!("`{}` is a reference, which does not flow once", flow.to);
            self.wrong(span_of(part, "initial"), what, "put it into `flow`");
        }
    }

    /// A reference that is sent while there is none is a name or an anchor of the system.
    fn placeholders(
        &mut self,
        part: &Part<'_>,
        rules: &Outbound,
        agent: &AgentConfig,
        is_reference: impl Fn(&str) -> bool,
    ) {
        for flow in &rules.flows {
            let Some(empty) = &flow.empty else { continue };
            if !matches!(&flow.from, Source::Direct(name) if is_reference(name)) {
                let what =
                    format!("`empty` of `{}` is for references, and {} is none", flow.to, shown(&flow.from));
                self.wrong(
                    span_of(part, "flow"),
                    what,
                    "remove `empty`, or use default(...) in an expression",
                );
            } else if !agent.system.naming().is_reference(empty) {
                let what = format!("`empty` of `{}`, {empty:?}, is not the name of an object", flow.to);
                self.wrong(
                    span_of(part, "flow"),
                    what,
                    "write a distinguished name, such as \"cn=nobody,dc=example\"",
                );
            }
        }
        for flow in rules.initial.iter().filter(|flow| flow.empty.is_some()) {
            let what = format!("`empty` of `{}` has no effect on a value that flows once", flow.to);
            self.wrong(span_of(part, "initial"), what, "put it into `flow`");
        }
    }

    fn not_read<'a>(
        &mut self,
        part: &Part<'_>,
        expressions: impl Iterator<Item = &'a Expression>,
        refers: impl Fn(&str) -> bool,
    ) {
        for expression in expressions {
            for name in expression.values_read().filter(|name| refers(name)) {
                let what = format!("`{}` reads `{name}`, which refers to other objects", expression.source());
                let help = "references flow as they are, and have no value here; count(...) is their number";
                self.wrong(part.span.clone(), what, help);
            }
        }
    }

    /// An agent provisions a type only once, and the objects of a type that it provisions must not be
    /// imported as another type.
    pub(super) fn types_of_agents(
        &mut self,
        types: &[MetaverseType],
        agents: &[AgentConfig],
        inbound: &[Inbound],
        outbound: &[Outbound],
        root: &Part<'_>,
    ) {
        for (at, rules) in outbound.iter().enumerate() {
            let (agent, from) = (&agents[rules.agent].name, &types[rules.from].name);
            if outbound[..at].iter().any(|before| (before.agent, before.from) == (rules.agent, rules.from)) {
                let what = format!("two [[outbound]] provision `{from}` to {agent}");
                self.wrong(span_of(root, "outbound"), what, "make one of them");
            }
            let takes_all = |rules_in: &&Inbound| {
                rules_in.agent == rules.agent && rules_in.to != rules.from && rules_in.objects.is_none()
            };
            // Earlier rules may accept the object: whether they do is decided by an expression, which cannot
            // be checked here.
            let of_type = |rules_in: &Inbound| rules_in.agent == rules.agent && rules_in.to == rules.from;
            let mut left = inbound.iter().take_while(|rules_in| !of_type(rules_in));
            if let Some(taken) = left.find(takes_all) {
                let what = format!(
                    "objects of type `{from}` are provisioned to {agent}, and would come in from there as `{}`",
                    types[taken.to].name
                );
                let help = "say with `objects` in [[inbound]] which objects it is for";
                self.wrong(span_of(root, "inbound"), what, help);
            }
        }
    }
}

fn of_source(source: &Source) -> Option<&Expression> {
    match source {
        Source::Expression(expression) => Some(expression),
        Source::Direct(_) | Source::Constant(_) => None,
    }
}

fn shown(source: &Source) -> String {
    match source {
        Source::Direct(name) => format!("`{name}`"),
        // It may be a secret.
        Source::Constant(_) => "the constant".into(),
        Source::Expression(expression) => format!("`{}`", expression.source()),
    }
}
