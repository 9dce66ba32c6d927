//! Inbound rules: filters, joins, projections and flows into the metaverse.

use std::collections::BTreeSet;

use super::convert::{Converter, Rules};
use super::export::{Join, Mapping};
use super::flows::{Direction, attributes_of, own_name, shown};
use super::write::{key, list, string};
use super::{Kind, filters, systems};
use metadir::schema::Type;

impl Converter<'_> {
    /// The rules for the objects of one type of an agent; none without a metaverse type.
    pub(super) fn inbound(
        &mut self,
        of: &Rules<'_>,
        object_type: &str,
        used: &mut BTreeSet<String>,
    ) -> Option<String> {
        let (export, agent) = (self.export, of.agent);
        let is_of = |other: &str| other == object_type;
        let projection = agent.projections.iter().find(|of| is_of(&of.object_type) && of.kind != "scripted");
        let flows: Vec<usize> = export
            .metaverse
            .flows
            .iter()
            .enumerate()
            .filter(|(_, flow)| flow.agent == agent.id && is_of(&flow.object_type))
            .map(|(at, _)| at)
            .collect();
        let searched =
            agent.joins.iter().filter(|join| is_of(&join.object_type)).find_map(|join| join.to_type.as_ref());
        let exported = agent.flows.iter().find(|flow| is_of(&flow.object_type)).map(|flow| &flow.from_type);
        let flowing = flows.first().map(|at| &export.metaverse.flows[*at].to_type);
        let to_type = projection.map(|of| &of.to_type).or(searched).or(exported).or(flowing)?.clone();
        self.types.entry(to_type.clone()).or_default();
        let mut lines = vec![
            "[[inbound]]".to_string(),
            format!("agent = {}", string(of.name)),
            format!("to = {}", string(&to_type)),
        ];
        if let Some(condition) = systems::objects(agent, object_type, of.types) {
            lines.push(format!("objects = {}", string(&condition)));
        }
        self.filters(of, object_type, used, &mut lines);
        let joins = agent.joins.iter().filter(|join| is_of(&join.object_type));
        let joins: Vec<String> = joins.filter_map(|join| self.join(of, join, &to_type, used)).collect();
        if !joins.is_empty() {
            lines.push(format!("join = [{}]", joins.join(", ")));
        }
        self.count_projections(of, object_type, &to_type);
        if projection.is_some() {
            lines.push("project = true".into());
        }
        let written = self.flows_in(of, object_type, &to_type, &flows, used);
        if !written.is_empty() {
            lines.push("[inbound.flow]".into());
            lines.extend(written);
        }
        Some(lines.join("\n"))
    }

    fn filters(
        &mut self,
        of: &Rules<'_>,
        object_type: &str,
        used: &mut BTreeSet<String>,
        lines: &mut Vec<String>,
    ) {
        let agent = of.agent;
        for filter in agent.filters.iter().filter(|filter| filter.object_type == object_type) {
            let result = filters::expression(filter);
            let count =
                if filter.kind == "scripted" { &mut self.counts.scripts } else { &mut self.counts.filters };
            count.add(result.is_ok());
            match result {
                Ok(condition) => {
                    used.extend(filter.alternatives.iter().flatten().map(|of| of.attribute.clone()));
                    lines.push(format!("filter = {}", string(&condition)));
                }
                Err(why) => {
                    let what = format!("the filter of {object_type} in \"{}\": {why}", agent.name);
                    let help = "write it as `filter`: objects for which it is true stay out";
                    self.note(&filter.place, Kind::NotConverted, what, help);
                }
            }
        }
    }

    fn count_projections(&mut self, of: &Rules<'_>, object_type: &str, to_type: &str) {
        let agent = of.agent;
        for projection in agent.projections.iter().filter(|of| of.object_type == object_type) {
            if projection.kind == "scripted" {
                self.counts.scripts.add(false);
                let what =
                    format!("the projection of {object_type} in \"{}\" is a rules extension", agent.name);
                let help = "write its condition as project = { when = \"...\" }";
                self.note(&projection.place, Kind::NotConverted, what, help);
            } else {
                self.counts.projections.add(projection.to_type == to_type);
            }
        }
    }

    /// The flows into a metaverse type, as they are written. A place holder stands for their precedence.
    fn flows_in(
        &mut self,
        of: &Rules<'_>,
        object_type: &str,
        to_type: &str,
        flows: &[usize],
        used: &mut BTreeSet<String>,
    ) -> Vec<String> {
        let (export, agent) = (self.export, of.agent);
        let mut written: Vec<String> = Vec::new();
        for at in flows.iter().copied() {
            let flow = &export.metaverse.flows[at];
            let subject = format!(
                "{} of {to_type}, from {} of {object_type} in \"{}\"",
                flow.to,
                shown(&flow.mapping),
                agent.name
            );
            let result = match flow.to_type == to_type {
                true => self.source(of, &flow.mapping, Direction::In, self.metaverse_kind(&flow.to)),
                false => Err(format!("{object_type} belongs to {to_type} and not to {}", flow.to_type)),
            };
            let Some(source) = self.count_flow((&flow.mapping, Direction::In), &flow.place, &subject, result)
            else {
                continue;
            };
            used.extend(attributes_of(&flow.mapping));
            self.use_attribute(to_type, &flow.to);
            if !flow.is_ranked {
                let what = format!("the flows into {} of {to_type} have equal precedence", flow.to);
                self.note(&flow.place, Kind::Review, what, "compare the precedence that their order gives");
            }
            self.ranks.entry((to_type.to_string(), flow.to.clone())).or_default().push(at);
            written.push(format!("{} = PRECEDENCE {at} {source}", key(&flow.to)));
        }
        written
    }

    fn join(
        &mut self,
        of: &Rules<'_>,
        join: &Join,
        to_type: &str,
        used: &mut BTreeSet<String>,
    ) -> Option<String> {
        let mut why = None;
        let [mut cs, mut mv] = [Vec::new(), Vec::new()];
        for (to, is_intrinsic, mapping) in &join.pairs {
            let from = match mapping {
                _ if *is_intrinsic => Err(format!("{to} is an identifier of the server itself")),
                _ if self.metaverse_kind(to) == Type::Reference => Err(format!("{to} is a reference")),
                Mapping::Direct(from) if of.references.contains(from) => {
                    Err(format!("{from} is a reference"))
                }
                Mapping::Direct(from) => Ok(from.clone()),
                Mapping::Intrinsic(from) if from == "dn" => {
                    own_name(of.agent).map(str::to_string).ok_or_else(|| "the name has several parts".into())
                }
                Mapping::Script { name, .. } => Err(format!("{name} is a function of a rules extension")),
                other => Err(format!("{} has no equivalent", shown(other))),
            };
            match from {
                Ok(from) => {
                    cs.push(from);
                    mv.push(to.clone());
                }
                Err(reason) => why = Some(reason),
            }
        }
        if let Some(other) = join.to_type.as_deref().filter(|of| *of != to_type) {
            why = Some(format!("{} belongs to {to_type} and not to {other}", join.object_type));
        }
        let is_script = join.pairs.iter().any(|(.., mapping)| matches!(mapping, Mapping::Script { .. }));
        let count = if is_script { &mut self.counts.scripts } else { &mut self.counts.joins };
        count.add(why.is_none() && !cs.is_empty());
        let subject = format!("the join of {} in \"{}\"", join.object_type, of.agent.name);
        if join.is_resolved {
            self.counts.scripts.add(false);
            let what = format!("{subject}: a rules extension chooses among several matches");
            let help = "several matches are an ambiguous join, which is reported";
            self.note(&join.place, Kind::NotConverted, what, help);
        }
        if let Some(why) = why {
            let help = "join by attributes that both sides have";
            self.note(&join.place, Kind::NotConverted, format!("{subject}: {why}"), help);
            return None;
        }
        for name in &mv {
            self.use_attribute(to_type, name);
        }
        used.extend(cs.iter().cloned());
        match (cs.as_slice(), mv.as_slice()) {
            ([], _) => None,
            ([cs], [mv]) => Some(format!("{{ cs = {}, mv = {} }}", string(cs), string(mv))),
            _ => Some(format!("{{ cs = {}, mv = {} }}", list(&cs), list(&mv))),
        }
    }
}
