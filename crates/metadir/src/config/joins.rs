//! Reads join rules and the precedence of flows.

use std::ops::Range;

use toml::de::DeValue;

use super::part::{Part, Reader, span_in};
use super::{Inbound, Join, JoinPart, MetaverseType};
use crate::expression::Expression;

/// The largest number of values that a join rule compares together.
const PARTS_MAX: usize = 8;

impl Reader {
    /// The join rules of an `[[inbound]]`.
    pub(super) fn joins(&mut self, part: &Part<'_>, to: Option<&MetaverseType>) -> Vec<Join> {
        let listed = self.list(part, "join");
        listed.iter().filter_map(|join| self.join(join, to)).collect()
    }

    fn join(&mut self, part: &Part<'_>, to: Option<&MetaverseType>) -> Option<Join> {
        self.keys(part, &["cs", "mv", "ignore_case", "when"]);
        let (cs, mv) = (self.join_parts(part, "cs"), self.join_parts(part, "mv"));
        let ignore_case = self.truth(part, "ignore_case").unwrap_or(false);
        let when = self.expression(part, "when", "cs");
        let (cs, mv) = (cs?, mv?);
        let mut is_known = true;
        for name in mv.iter().flat_map(JoinPart::uses) {
            if let Some(to) = to
                && to.place(name).is_none()
            {
                self.unknown_attribute(span_in(part, "mv", name), name, to);
                is_known = false;
            }
        }
        if cs.len() != mv.len() {
            let what = format!("a join compares {} values with {}", cs.len(), mv.len());
            self.wrong(part.span.clone(), what, "give `cs` and `mv` equally many, in the same order");
            return None;
        }
        is_known.then_some(Join { cs, mv, ignore_case, when, span: part.span.clone() })
    }

    /// An attribute, `{ expression = "..." }`, or a list of these.
    fn join_parts(&mut self, part: &Part<'_>, key: &'static str) -> Option<Vec<JoinPart>> {
        let help = "write an attribute, { expression = \"...\" }, or a list of these";
        let Some(value) = part.get(key) else {
            let help = format!("write {key} = \"ATTRIBUTE\", {{ expression = \"...\" }}, or a list of these");
            self.wrong(part.span.clone(), format!("{} has no `{key}`", part.what), help);
            return None;
        };
        let values = match value.get_ref() {
            DeValue::Array(listed) => listed.iter().collect(),
            _ => vec![value],
        };
        if values.is_empty() || values.len() > PARTS_MAX {
            let what = format!("`{key}` of a join is a list of {} values", values.len());
            self.wrong(value.span(), what, format!("a join compares 1 to {PARTS_MAX} values"));
            return None;
        }
        let mut parts = Vec::new();
        for value in &values {
            match value.get_ref() {
                DeValue::String(name) => {
                    self.is_no_expression(&value.span(), name, key);
                    parts.push(JoinPart::Attribute(name.to_string()));
                }
                DeValue::Table(table) => {
                    let made = Part::new(table, format!("`{key}` of a join"), value.span());
                    self.keys(&made, &["expression"]);
                    if made.lacks("expression") {
                        self.wrong(value.span(), format!("{} has no `expression`", made.what), help);
                    }
                    parts.extend(self.expression(&made, "expression", key).map(JoinPart::Expression));
                }
                _ => self.wrong(value.span(), format!("`{key}` of a join is not an attribute"), help),
            }
        }
        (parts.len() == values.len()).then_some(parts)
    }

    /// If one of several flows into an attribute has a precedence, each has its own; otherwise the order of
    /// imports would decide.
    pub(super) fn precedences(&mut self, types: &[MetaverseType], inbound: &[Inbound]) {
        for (at, kind) in types.iter().enumerate() {
            for (place, attribute) in kind.attributes.iter().enumerate() {
                let rules = inbound.iter().filter(|rules| rules.to == at);
                let flows: Vec<(u32, usize, Range<usize>)> = rules
                    .flat_map(|rules| rules.flows.iter().map(|flow| (flow, rules.agent)))
                    .filter(|(flow, _)| flow.to == place)
                    .map(|(flow, agent)| (flow.precedence, agent, flow.span.clone()))
                    .collect();
                self.ranks(&attribute.name, &flows);
            }
        }
    }

    fn ranks(&mut self, name: &str, flows: &[(u32, usize, Range<usize>)]) {
        let help = "give each flow its own, such as { from = \"...\", precedence = 1 }: 1 wins over 2";
        let ranked = flows.iter().find(|(rank, ..)| *rank > 0);
        for (at, (rank, agent, span)) in flows.iter().enumerate() {
            let what = match (rank, ranked) {
                (0, Some((other, _, place))) => {
                    let line = self.line(place);
                    format!("the flow into `{name}` has no precedence, but that of line {line} has {other}")
                }
                (0, None) => continue,
                // Within an agent, the order of the rules in the file decides.
                _ => match flows[..at].iter().find(|(other, of, _)| other == rank && of != agent) {
                    Some((_, _, place)) => {
                        let line = self.line(place);
                        format!(
                            "the flow into `{name}` has precedence {rank}, and so has that of line {line}"
                        )
                    }
                    None => continue,
                },
            };
            self.wrong(span.clone(), what, help);
        }
    }
}

impl JoinPart {
    /// The attributes that it reads.
    pub fn uses(&self) -> &[String] {
        match self {
            JoinPart::Attribute(name) => std::slice::from_ref(name),
            JoinPart::Expression(expression) => expression.uses(),
        }
    }

    /// Its expression, if it has one.
    pub(super) fn expression(&self) -> Option<&Expression> {
        match self {
            JoinPart::Attribute(_) => None,
            JoinPart::Expression(expression) => Some(expression),
        }
    }
}

impl std::fmt::Display for JoinPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinPart::Attribute(name) => f.write_str(name),
            JoinPart::Expression(expression) => f.write_str(expression.source()),
        }
    }
}
