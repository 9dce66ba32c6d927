//! Reads join rules and the precedence of flows.

use std::ops::Range;

use toml::de::DeValue;

use super::part::{Part, Reader, span_in};
use super::{ImportFlow, Inbound, Join, JoinPart, MetaverseType};
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
        let ignore_case = self.truth(part, "ignore_case");
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

    /// Each of several flows into an attribute has a precedence of its own; otherwise the order of imports would decide.
    /// What two rules have in common is one mistake.
    pub(super) fn precedences(&mut self, types: &[MetaverseType], inbound: &[Inbound]) {
        let mut clashes: Vec<Clash> = Vec::new();
        for (at, kind) in types.iter().enumerate() {
            let rules = || inbound.iter().enumerate().filter(|(_, rules)| rules.to == at);
            for (place, attribute) in kind.attributes.iter().enumerate() {
                let into = |flow: &&ImportFlow| flow.to == place;
                let flows: Vec<Ranked<'_>> = rules()
                    .flat_map(|(at, rules)| {
                        rules.flows.iter().filter(into).map(move |flow| (at, rules.agent, flow))
                    })
                    .collect();
                for (place, of) in flows.iter().enumerate() {
                    let Some(other) = clashing(&flows, place) else { continue };
                    let key = (of.0, other.0, of.2.precedence, other.2.precedence);
                    match clashes.iter_mut().find(|clash| clash.key == key) {
                        Some(clash) => clash.names.push(&attribute.name),
                        None => clashes.push(Clash {
                            key,
                            names: vec![&attribute.name],
                            span: of.2.span.clone(),
                            line: self.line(&other.2.span),
                        }),
                    }
                }
            }
        }
        for Clash { key: (_, _, rank, other), names, span, line } in clashes {
            let into = match names.as_slice() {
                [name] => format!("the flow into `{name}`"),
                [first, .., last] if names.len() == 2 => format!("the flows into `{first}` and `{last}`"),
                _ => format!("the flows into `{}`, `{}` and {} more", names[0], names[1], names.len() - 2),
            };
            let (have, that, has) = match names.len() {
                1 => ("has", "that of line", "has"),
                _ => ("have", "those from line", "have"),
            };
            let what = match (rank, other) {
                (0, 0) => format!("{into} {have} no precedence, and {that} {line} {has} none either"),
                (0, _) => format!("{into} {have} no precedence, but {that} {line} {has} {other}"),
                _ => format!("{into} {have} precedence {rank}, and so {has} {that} {line}"),
            };
            self.wrong(
                span,
                what,
                "write precedence = 1 in the [[inbound]] whose values win, 2 in the next one, or give single flows \
                 their own: { from = \"...\", precedence = 1 }",
            );
        }
    }
}

/// A flow with the index of its rules and that of their agent.
type Ranked<'a> = (usize, usize, &'a ImportFlow);

/// Flows of two rules into the same attributes, between which the order of imports would decide.
struct Clash<'a> {
    /// The indexes of the rules, and the precedences of the flows.
    key: (usize, usize, u32, u32),
    names: Vec<&'a str>,
    span: Range<usize>,
    line: usize,
}

/// The flow that makes the precedence of another one a mistake.
fn clashing<'a>(flows: &[Ranked<'a>], place: usize) -> Option<Ranked<'a>> {
    let (_, agent, flow) = flows.get(place)?;
    if flow.precedence == 0
        && let Some(ranked) = flows.iter().find(|(.., other)| other.precedence > 0)
    {
        return Some(*ranked);
    }
    // Within an agent, the order of the rules in the file decides.
    let is_same = |(_, of, other): &&Ranked<'_>| other.precedence == flow.precedence && of != agent;
    flows.get(..place)?.iter().find(is_same).copied()
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
