//! Validation of references and of the types of agents.

use std::ops::Range;

use super::part::{Part, Reader, span_in, span_of};
use super::{AgentConfig, ExportFlow, Inbound, JoinPart, MetaverseType, Outbound, Projection, Source};
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
        let conditions =
            [("objects", rules.objects.as_ref()), ("filter", rules.filter.as_ref()), ("project", when)];
        let conditions = conditions.into_iter().filter_map(|(key, when)| Some((when?, span_of(part, key))));
        let joined = rules.joins.iter().flat_map(|join| {
            let parts = join.cs.iter().filter_map(JoinPart::expression);
            join.when.iter().chain(parts).map(|expression| (expression, join.span.clone()))
        });
        let flowing = rules.flows.iter().flat_map(|flow| {
            let candidates = flow.candidates.iter().flat_map(|candidates| &candidates.others);
            of_source(&flow.from)
                .into_iter()
                .chain(candidates)
                .map(|expression| (expression, flow.span.clone()))
        });
        self.not_read(conditions.chain(joined).chain(flowing), refers);
        let is_reference = |name: &String| {
            to.attributes.iter().any(|known| known.name == *name && known.kind == Type::Reference)
        };
        let compared =
            rules.joins.iter().flat_map(|join| join.cs.iter().zip(&join.mv).map(|pair| (pair, &join.span)));
        for ((cs, mv), span) in compared {
            let of_cs = matches!(cs, JoinPart::Attribute(name) if refers(name));
            if of_cs || mv.uses().iter().any(is_reference) {
                let what = format!("a join compares values, and `{cs}` = `{mv}` are references");
                self.wrong(span.clone(), what, "join by an attribute that is none");
            }
        }
        for flow in &rules.flows {
            let attribute = &to.attributes[flow.to];
            if self.untyped.contains(&format!("{}.{}", to.name, attribute.name)) {
                continue;
            }
            let from = matches!(&flow.from, Source::Direct(name) if refers(name));
            match (from, attribute.kind == Type::Reference) {
                (true, false) => {
                    let what = format!(
                        "{} of `references` flows into `{}`, which is not a reference",
                        shown(&flow.from),
                        attribute.name
                    );
                    let help = format!(
                        "give `{}` of [metaverse.{}] the type \"reference\"",
                        attribute.name, to.name
                    );
                    self.wrong(flow.span.clone(), what, help);
                }
                (false, true) => {
                    let what =
                        format!("`{}` is a reference, but {} is not one", attribute.name, shown(&flow.from));
                    let help = format!(
                        "add {} to `references` of [agents.{}], or let a reference flow",
                        shown(&flow.from),
                        agent.name
                    );
                    self.wrong(flow.span.clone(), what, help);
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
        let of_flows = |key, flows: &'_ [ExportFlow]| -> Vec<(Expression, Range<usize>)> {
            let named = flows.iter().filter_map(|flow| Some((of_source(&flow.from)?, &flow.to)));
            named.map(|(expression, to)| (expression.clone(), span_in(part, key, to))).collect()
        };
        let flowing = [of_flows("flow", &rules.flows), of_flows("initial", &rules.initial)].concat();
        let candidates = rules.dn_candidates.iter().flat_map(|candidates| &candidates.others);
        let when = rules.when.iter().map(|when| (when, span_of(part, "when")));
        let names = [&rules.dn].into_iter().chain(candidates).map(|name| (name, span_of(part, "dn")));
        let flowing = flowing.iter().map(|(expression, span)| (expression, span.clone()));
        let all: Vec<(&Expression, Range<usize>)> = when.chain(names).chain(flowing).collect();
        self.not_read(all.iter().cloned(), is_reference);
        for (expression, span) in all {
            let uses = expression.uses().iter().enumerate();
            let counted = uses.filter(|(at, _)| expression.read(*at) == Read::Connectors);
            for (_, name) in counted.filter(|(_, name)| !is_reference(name)) {
                let what = format!("`connectors({name})` counts objects, and `{name}` is not a reference");
                self.wrong(span.clone(), what, "write count(...) for the number of its values");
            }
        }
        self.placeholders(part, rules, agent, is_reference);
        for flow in &rules.flows {
            let is_untyped = |name: &String| self.untyped.contains(&format!("{}.{name}", from.name));
            if matches!(&flow.from, Source::Direct(name) if is_untyped(name)) {
                continue;
            }
            let span = span_in(part, "flow", &flow.to);
            let of_type = matches!(&flow.from, Source::Direct(name) if is_reference(name));
            match (of_type, refers(&flow.to)) {
                (true, false) => {
                    let what = format!(
                        "`{}` gets references, but it has values in [agents.{}]",
                        flow.to, agent.name
                    );
                    let help = format!("add it to `references` of [agents.{}]", agent.name);
                    self.wrong(span, what, help);
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
                    self.wrong(span, what, help);
                }
                _ => {}
            }
        }
        let initial = rules.initial.iter().filter(|flow| {
            refers(&flow.to) || matches!(&flow.from, Source::Direct(name) if is_reference(name))
        });
        for flow in initial {
            let what = format!("`{}` is a reference, which does not flow once", flow.to);
            self.wrong(span_in(part, "initial", &flow.to), what, "put it into `flow`");
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
                    span_in(part, "flow", &flow.to),
                    what,
                    "remove `empty`, or use default(...) in an expression",
                );
            } else if !agent.system.naming().is_reference(empty) {
                let what = format!("`empty` of `{}`, {empty:?}, is not the name of an object", flow.to);
                self.wrong(
                    span_in(part, "flow", &flow.to),
                    what,
                    "write a distinguished name, such as \"cn=nobody,dc=example\"",
                );
            }
        }
        for flow in rules.initial.iter().filter(|flow| flow.empty.is_some()) {
            let what = format!("`empty` of `{}` has no effect on a value that flows once", flow.to);
            self.wrong(span_in(part, "initial", &flow.to), what, "put it into `flow`");
        }
    }

    fn not_read<'a>(
        &mut self,
        expressions: impl Iterator<Item = (&'a Expression, Range<usize>)>,
        refers: impl Fn(&str) -> bool,
    ) {
        for (expression, span) in expressions {
            for name in expression.values_read().filter(|name| refers(name)) {
                let what = format!("an expression reads `{name}`, which refers to other objects");
                let help = "references flow as they are, and have no value here; count(...) is their number";
                self.wrong(span.clone(), what, help);
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
    ) {
        for (at, rules) in outbound.iter().enumerate() {
            let (agent, from) = (&agents[rules.agent].name, &types[rules.from].name);
            let is_same = |before: &&Outbound| (before.agent, before.from) == (rules.agent, rules.from);
            if let Some(before) = outbound[..at].iter().find(is_same) {
                let line = self.line(&before.span);
                let what =
                    format!("two [[outbound]] provision `{from}` to {agent}: the first is in line {line}");
                self.wrong(rules.span.clone(), what, "make one of them");
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
                    "{agent} gets objects of type `{from}`, and they would come in from there as `{}`",
                    types[taken.to].name
                );
                let help = "write a condition in `objects`: which objects this [[inbound]] is for";
                self.wrong(taken.span.clone(), what, help);
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
