//! Unique values: their candidates, and where they flow.

use super::{FlowSource, Formula, InboundRules, OutboundRules, TypeRules};
use crate::comparison::Comparison;
use crate::expression::Failed;
use crate::hologram::{Attribute, Hologram};
use crate::object::AgentId;

/// How unique values of the metaverse are compared.
pub(crate) const UNIQUE: Comparison = Comparison::Case;

/// Candidates for a unique value, in order.
#[derive(Debug)]
pub(crate) struct CandidateRule {
    /// The key rule by which the owners of values are found.
    pub(crate) rule: u32,
    pub(super) fixed: Vec<Formula>,
    /// The last one, if it names the counter.
    pub(super) counted: Option<Formula>,
    /// The largest value of the counter.
    pub(super) most: u64,
}

impl CandidateRule {
    /// The number of further candidates that are computed at a time, at first.
    pub(crate) const FIRST: u64 = 16;

    /// The candidates without a counter that have a value.
    ///
    /// # Errors
    /// When an expression fails.
    pub(crate) fn fixed(&self, image: &Hologram) -> Result<Vec<String>, Failed> {
        self.fixed.iter().filter_map(|formula| formula.counted(0, image).transpose()).collect()
    }

    /// The candidates with a range of the counter: empty at the end, or without a value.
    ///
    /// # Errors
    /// When the expression fails.
    pub(crate) fn counted(&self, image: &Hologram, from: u64, count: u64) -> Result<Vec<String>, Failed> {
        let Some(formula) = &self.counted else { return Ok(Vec::new()) };
        let end = from.saturating_add(count).min(self.most.saturating_add(1));
        (from..end).map_while(|n| formula.counted(n, image).transpose()).collect()
    }

    /// Whether a value is one of the candidates.
    ///
    /// # Errors
    /// When an expression fails.
    pub(crate) fn has(
        &self,
        image: &Hologram,
        value: &str,
        is_same: impl Fn(&str, &str) -> bool,
    ) -> Result<bool, Failed> {
        if self.fixed(image)?.iter().any(|candidate| is_same(candidate, value)) {
            return Ok(true);
        }
        let Some(formula) = &self.counted else { return Ok(false) };
        let is_at = |n: u64| -> Result<bool, Failed> {
            Ok(formula.counted(n, image)?.is_some_and(|candidate| is_same(&candidate, value)))
        };
        if formula.expression.shows_counter() {
            // The counter is a part of a row of digits in the value.
            for row in value.split(|of: char| !of.is_ascii_digit()).filter(|row| !row.is_empty()) {
                for begin in 0..row.len() {
                    for end in begin + 1..=row.len().min(begin + 7) {
                        let n = row[begin..end].parse().unwrap_or(0);
                        if (2..=self.most).contains(&n) && is_at(n)? {
                            return Ok(true);
                        }
                    }
                }
            }
            return Ok(false);
        }
        for n in 2..=self.most {
            if is_at(n)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The attributes of an agent to which unique values of the metaverse flow unchanged, with the rule of their keys.
pub(super) fn unique_attributes(
    agent: AgentId,
    outbound: &[OutboundRules],
    inbound: &[InboundRules],
    types: &[TypeRules],
) -> Vec<(Attribute, u32)> {
    let mut unique = Vec::new();
    for rules in outbound.iter().filter(|rules| rules.agent == agent) {
        for flow in rules.flows.iter().chain(&rules.initial) {
            let FlowSource::Direct(from) = flow.from else { continue };
            let attributes = &types[rules.from].attributes;
            let of_flow = attributes.iter().filter(|of| of.attribute == from).flat_map(|of| &of.contributors);
            let candidates =
                of_flow.filter_map(|(place, flow)| inbound[*place].flows[*flow].candidates.as_ref());
            unique.extend(candidates.map(|candidates| (flow.to, candidates.rule)));
        }
    }
    unique.sort_unstable();
    unique.dedup();
    unique
}
