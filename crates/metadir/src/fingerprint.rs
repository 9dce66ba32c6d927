//! The fingerprint of the rules that the objects of an agent were synchronized with.
//!
//! The store keeps it for each agent. If the configuration differs from it, the objects that were synchronized
//! before lack the effect of the new rules, and only a full synchronization of the agent gives it to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::Comparison;
use crate::config::{AgentConfig, Candidates, Config, Inbound, JoinPart, Projection, Source};
use crate::expression::Expression;
use crate::hologram::Hash;
use crate::object::AgentId;

/// The parts of the rules by their names. A name has segments: what it is, and what it applies to. Agents are
/// named by their numbers, so that a renamed agent is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(BTreeMap<String, String>);

/// Separates the segments of a name, and the members of a list.
const SEPARATOR: char = '\t';

fn joined(segments: &[&str]) -> String {
    segments.join("\t")
}

fn expression(of: Option<&Expression>) -> String {
    of.map_or_else(String::new, |of| of.source().to_string())
}

/// A source of values. Of a constant only a hash, because it may be secret.
fn source(of: &Source) -> String {
    match of {
        Source::Direct(name) => format!("`{name}`"),
        Source::Constant(values) => {
            let all: Vec<u8> = values.iter().flat_map(|value| [value.as_bytes(), &[0]].concat()).collect();
            format!("constant {:02x?}", Hash::of(&all).0)
        }
        Source::Expression(of) => format!("`{}`", of.source()),
    }
}

/// A source with what is tried after it.
fn with_candidates(first: &str, candidates: Option<&Candidates>) -> String {
    let others = candidates.iter().flat_map(|candidates| &candidates.others);
    std::iter::once(first.to_string())
        .chain(others.map(|other| format!("`{}`", other.source())))
        .collect::<Vec<_>>()
        .join(" or ")
}

fn join_part(of: &JoinPart) -> &str {
    match of {
        JoinPart::Attribute(name) => name,
        JoinPart::Expression(of) => of.source(),
    }
}

impl Fingerprint {
    /// The rules for the objects of an agent: the inbound rules, the outbound rules of the types that it
    /// projects, and the types that are provisioned to the agent. `id` is the number of an agent.
    pub(crate) fn of(config: &Config, at: usize, id: impl Fn(usize) -> AgentId) -> Fingerprint {
        let mut parts = Fingerprint::default();
        let mut types = BTreeSet::new();
        for (place, rules) in config.inbound.iter().enumerate().filter(|(_, rules)| rules.agent == at) {
            parts.inbound(config, at, place, &id);
            types.insert(rules.to);
        }
        for rules in &config.outbound {
            let to = id(rules.agent).0.to_string();
            let kind = config.types[rules.from].name.as_str();
            if rules.agent == at {
                parts.add(&["provisioned", kind], String::new());
            }
            if !types.contains(&rules.from) || !is_brought(config, at, rules.from) {
                continue;
            }
            parts.add(&["provisioning", &to, kind], String::new());
            parts.add(&["condition", &to, kind], expression(rules.when.as_ref()));
            let name = with_candidates(rules.dn.source(), rules.dn_candidates.as_ref());
            parts.add(&["name", &to, kind], name);
            for flow in &rules.flows {
                let empty = flow.empty.as_ref().map(|empty| format!(", and {empty:?} without a value"));
                let from = source(&flow.from) + &empty.unwrap_or_default();
                parts.add(&["outbound flow", &to, kind, &flow.to], from);
            }
        }
        parts
    }

    /// The parts of an inbound rule.
    fn inbound(&mut self, config: &Config, at: usize, place: usize, id: &impl Fn(usize) -> AgentId) {
        let rules = &config.inbound[place];
        let kind = &config.types[rules.to];
        let name = kind.name.as_str();
        let of_agent = config.inbound[..place].iter().filter(|rules| rules.agent == at);
        let number = of_agent.count().to_string();
        let several = if rules.multiple_connectors { "several connectors" } else { "" };
        self.add(&["objects", name, &number], expression(rules.objects.as_ref()));
        self.add(&["filter", name, &number], expression(rules.filter.as_ref()));
        self.add(&["multiple connectors", name, &number], several.into());
        let projection = match &rules.project {
            Projection::No => "no".to_string(),
            Projection::Always => "always".into(),
            Projection::When(when) => when.source().into(),
        };
        self.add(&["projection", name, &number], projection);
        let joins = rules.joins.iter().map(|join| {
            let side = |parts: &[JoinPart]| parts.iter().map(join_part).collect::<Vec<_>>().join(" and ");
            let case = if join.ignore_case == Some(true) { " without case" } else { "" };
            let when = expression(join.when.as_ref());
            let when = if when.is_empty() { String::new() } else { format!(" when {when}") };
            format!("{} = {}{case}{when}", side(&join.cs), side(&join.mv))
        });
        self.add(&["joins", name, &number], joins.collect::<Vec<_>>().join("; "));
        for flow in &rules.flows {
            let attribute = &kind.attributes[flow.to];
            let to = attribute.name.as_str();
            let from = with_candidates(&source(&flow.from), flow.candidates.as_ref());
            self.add(&["flow", name, to, &number], from);
            let values = if attribute.several { "several values" } else { "one value" };
            self.add(&["attribute", name, to], format!("{values} of type {}", attribute.kind.name()));
            let mut contributors: Vec<(u32, String)> = Vec::new();
            for other in config.inbound.iter().filter(|other| other.to == rules.to) {
                let flows = other.flows.iter().filter(|other| other.to == flow.to);
                contributors.extend(flows.map(|flow| (flow.precedence, id(other.agent).0.to_string())));
            }
            contributors.sort_by_key(|(precedence, _)| *precedence);
            let contributors: Vec<&str> = contributors.iter().map(|(_, agent)| agent.as_str()).collect();
            self.add(&["precedence", name, to], joined(&contributors));
        }
    }

    /// Sets how the system compares the attributes of join rules.
    pub(crate) fn set_comparisons(&mut self, compared: Vec<(&str, Comparison)>) {
        self.0.retain(|part, _| part.split(SEPARATOR).next() != Some("comparison"));
        for (attribute, comparison) in compared {
            self.add(&["comparison", attribute], comparison.name().into());
        }
    }

    fn add(&mut self, name: &[&str], text: String) {
        self.0.insert(joined(name), text);
    }

    /// The form in which the store keeps it.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Reads it back; none if the text has another form.
    pub(crate) fn from_text(text: &str) -> Option<Fingerprint> {
        serde_json::from_str(text).ok().map(Fingerprint)
    }

    /// Notes that some objects were synchronized with other rules since: only a full synchronization brings all
    /// objects to the same rules again.
    pub(crate) fn mix(&mut self) {
        self.add(&["mixed"], String::new());
    }

    /// Whether objects that were synchronized with these rules lack an effect of other rules.
    pub(crate) fn differs_from(&self, now: &Fingerprint) -> bool {
        self.changed(now).next().is_some()
    }

    /// The names of the parts that differ.
    fn changed<'a>(&'a self, now: &'a Fingerprint) -> impl Iterator<Item = &'a String> {
        let all: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        all.into_iter().filter(|part| {
            let (old, new) = (self.0.get(*part), now.0.get(*part));
            match part.split(SEPARATOR).next() {
                Some("precedence") if are_in_order(old, new) => false,
                // The objects of the metaverse bring the new ones.
                Some("provisioned") => new.is_none(),
                _ => old != new,
            }
        })
    }

    /// What changed, as parts of a sentence. `name` is the name of an agent with a number, `of` the agent
    /// itself.
    pub(crate) fn changes(
        &self,
        now: &Fingerprint,
        of: &AgentConfig,
        name: impl Fn(&str) -> String,
    ) -> Vec<String> {
        let changes = self.changed(now).filter_map(|part| {
            let (old, new) = (self.0.get(part), now.0.get(part));
            let segments: Vec<&str> = part.split(SEPARATOR).collect();
            change(&segments, old.map(String::as_str), new.map(String::as_str), of, &name)
        });
        changes.collect()
    }
}

/// Whether a full synchronization of an agent brings all its objects of a type to the outbound rules. One of an
/// agent that only joins adds nothing to that of the agents that project, unless nobody projects.
fn is_brought(config: &Config, at: usize, kind: usize) -> bool {
    let projects = |rules: &&Inbound| rules.to == kind && !matches!(rules.project, Projection::No);
    let mut projecting = config.inbound.iter().filter(projects).map(|rules| rules.agent).peekable();
    projecting.peek().is_none() || projecting.any(|agent| agent == at)
}

/// Whether the contributors that both lists have are in the same order: new ones bring their values when their
/// own objects are synchronized.
fn are_in_order(old: Option<&String>, new: Option<&String>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let common = |of: &str, other: &str| -> Vec<String> {
        let other: Vec<&str> = other.split(SEPARATOR).collect();
        of.split(SEPARATOR).filter(|agent| other.contains(agent)).map(String::from).collect()
    };
    common(old, new) == common(new, old)
}

/// What a changed part means; none if another part says it.
fn change(
    segments: &[&str],
    old: Option<&str>,
    new: Option<&str>,
    of: &AgentConfig,
    name: &impl Fn(&str) -> String,
) -> Option<String> {
    let agent = &of.name;
    let shown = |text: &str| match text {
        "" => "none".to_string(),
        text => format!("{text:?}"),
    };
    // A hash says nothing to a reader.
    let from = |text: &str| if text.starts_with("constant") { "a constant".into() } else { text.to_string() };
    Some(match segments {
        ["joins", kind, _] => match (old, new) {
            (Some(_), Some(new)) => format!(
                "the join rules of {agent} for {kind} are now {}: objects that are not connected are joined by \
                 them, and existing links stay",
                shown(new)
            ),
            (None, _) => format!("{agent} has an [[inbound]] for {kind}"),
            (_, None) => {
                format!("{agent} has no [[inbound]] for {kind} any more: its objects are disconnected")
            }
        },
        [what @ ("objects" | "filter" | "projection"), kind, _] => {
            let (old, new) = (old?, new?);
            format!("the {what} of {agent} for {kind} is {} instead of {}", shown(new), shown(old))
        }
        ["multiple connectors", kind, _] => match new? {
            "" => format!("{agent} may have one connector of a {kind} only"),
            _ => format!("{agent} may have several connectors of a {kind}"),
        },
        ["flow", kind, attribute, _] => match (old, new) {
            (Some(old), Some(new)) => {
                let (old, new) = (from(old), from(new));
                format!("`{attribute}` of {kind} comes from {new} of {agent} instead of {old}")
            }
            (None, Some(new)) => format!("`{attribute}` of {kind} comes from {} of {agent}", from(new)),
            _ if of.recall => {
                format!("`{attribute}` of {kind} does not come from {agent} any more: its values are removed")
            }
            _ => format!("`{attribute}` of {kind} does not come from {agent} any more: its values are kept"),
        },
        ["attribute", kind, attribute] => format!("`{attribute}` of {kind} takes {}, not {}", new?, old?),
        ["precedence", kind, attribute] => {
            let order: Vec<String> = new?.split(SEPARATOR).map(name).collect();
            format!("the precedence for `{attribute}` of {kind} is {}", order.join(", "))
        }
        ["provisioning", to, kind] if old.is_none() => format!("a {kind} is provisioned to {}", name(to)),
        ["provisioned", kind] => {
            format!("a {kind} is not provisioned to {agent} any more: its objects there stay, disconnected")
        }
        ["condition", to, kind] => {
            let (old, new) = (old?, new?);
            format!("a {kind} is provisioned to {} when {}, not {}", name(to), shown(new), shown(old))
        }
        ["name", to, kind] => {
            let (old, new) = (old?, new?);
            format!("the name of a {kind} in {} is {} instead of {}", name(to), shown(new), shown(old))
        }
        ["comparison", attribute] => {
            format!("join rules compare `{attribute}` of {agent} {}", new.unwrap_or("exactly"))
        }
        ["mixed"] => {
            format!("some objects were synchronized with other rules than those of {agent} meanwhile")
        }
        ["outbound flow", to, kind, attribute] => match (old, new) {
            (Some(_), Some(new)) => {
                format!("`{attribute}` in {} comes from {} of {kind}", name(to), from(new))
            }
            (None, Some(new)) => format!("`{attribute}` in {} comes from {} of {kind}", name(to), from(new)),
            _ => format!("`{attribute}` in {} is not written any more, and keeps its values", name(to)),
        },
        _ => return None,
    })
}
