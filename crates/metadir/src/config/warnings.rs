//! Warnings about settings that are allowed but probably unintended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::part::Reader;
use super::{Config, Inbound, Mistake, Outbound, Projection, Source, Step, StepKind};
use crate::naming::Naming;
use crate::schema::Type;

/// The warnings of a valid configuration.
pub(super) fn of(config: &Config) -> Vec<Mistake> {
    let types = 0..config.types.len();
    let mut all: Vec<Mistake> =
        types.filter_map(|kind| endless(config, kind).or_else(|| without_objects(config, kind))).collect();
    for warnings in [several_into_one, members_elsewhere, without_anchor, steps_out_of_order] {
        all.extend(warnings(config));
    }
    all
}

/// Warns about a type that no agent projects: it never has an object.
fn without_objects(config: &Config, at: usize) -> Option<Mistake> {
    let kind = &config.types[at];
    let mut inbound = config.inbound.iter().filter(|rules| rules.to == at).peekable();
    let is_used = inbound.peek().is_some() || config.outbound.iter().any(|rules| rules.from == at);
    let is_empty = inbound.all(|rules| matches!(rules.project, Projection::No));
    (is_used && is_empty).then(|| Mistake {
        span: kind.span.clone(),
        what: format!("no [[inbound]] projects a `{}`: there will never be one", kind.name),
        help: "write project = true in the [[inbound]] of its source".into(),
    })
}

/// Warns about an attribute with several values that flows out, and from there into an attribute with one.
fn several_into_one(config: &Config) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for rules in &config.inbound {
        for flow in &rules.flows {
            let (to, Source::Direct(name)) = (&config.types[rules.to].attributes[flow.to], &flow.from) else {
                continue;
            };
            let mut written = config.outbound.iter().filter(|other| other.agent == rules.agent);
            let several = written.find_map(|other| {
                let flow = other.flows.iter().find(|flow| flow.to == *name)?;
                let Source::Direct(from) = &flow.from else { return None };
                config.types[other.from].attributes.iter().find(|known| known.name == *from && known.several)
            });
            if let Some(several) = several.filter(|_| !to.several) {
                mistakes.push(Mistake {
                    span: flow.span.clone(),
                    what: format!(
                        "`{name}` gets several values from `{}`, and `{}` takes one: objects with more fail",
                        several.name, to.name
                    ),
                    help: format!("append [] to the type of `{}`, or let another attribute flow", to.name),
                });
            }
        }
    }
    mistakes
}

/// Warns about members that cannot be found: a reference leads to an object of its own system, and the system has
/// objects of one type only.
fn members_elsewhere(config: &Config) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (at, agent) in config.agents.iter().enumerate() {
        let inbound: Vec<_> = config.inbound.iter().filter(|rules| rules.agent == at).collect();
        let provisions_other = |to| config.outbound.iter().any(|rules| rules.agent == at && rules.from != to);
        let Some(first) = inbound.first() else { continue };
        if inbound.iter().any(|rules| rules.to != first.to)
            || provisions_other(first.to)
            || config.types.len() < 2
        {
            continue;
        }
        let kind = &config.types[first.to];
        for flow in inbound.iter().flat_map(|rules| &rules.flows) {
            let to = &kind.attributes[flow.to];
            if to.kind == Type::Reference && to.several {
                mistakes.push(Mistake {
                    span: flow.span.clone(),
                    what: format!(
                        "`{}` can lead to objects of `{}` only, and these are all of the type `{}`",
                        to.name, agent.name, kind.name
                    ),
                    help: "a reference leads to an object of the same system: import both types by one agent"
                        .into(),
                });
            }
        }
    }
    mistakes
}

/// Warns about objects that cannot be added, because no flow sets the attribute that identifies them.
fn without_anchor(config: &Config) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for rules in &config.outbound {
        let agent = &config.agents[rules.agent];
        let is_set = |name: &String| rules.flows.iter().chain(&rules.initial).any(|flow| flow.to == *name);
        if agent.system.naming() != Naming::Anchor {
            continue;
        }
        if let Some(name) = agent.anchor.iter().find(|name| !is_set(name)) {
            mistakes.push(Mistake {
                span: rules.span.clone(),
                what: format!(
                    "no flow sets `{name}`, the anchor of [agents.{}]: no object can be added",
                    agent.name
                ),
                help: format!("write a flow, such as {name} = \"employeeId\""),
            });
        }
    }
    mistakes
}

/// Warns about runs whose steps are in an order in which they miss the changes of the same run.
fn steps_out_of_order(config: &Config) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut warn = |span: &Range<usize>, what: String, help: &str| {
        mistakes.push(Mistake { span: span.clone(), what, help: help.into() });
    };
    for run in &config.runs {
        let is_import = |kind| matches!(kind, StepKind::FullImport | StepKind::DeltaImport);
        let is_synchronization =
            |kind| matches!(kind, StepKind::FullSynchronization | StepKind::DeltaSynchronization);
        for agent in 0..config.agents.len() {
            let name = &config.agents[agent].name;
            let last = |is: &dyn Fn(&Step) -> bool| run.steps.iter().rposition(is);
            let first = |is: &dyn Fn(&Step) -> bool| run.steps.iter().position(is);
            let synchronized = last(&|step| step.agent == agent && is_synchronization(step.kind));
            let imported = first(&|step| step.agent == agent && is_import(step.kind));
            if let (Some(synchronized), Some(imported)) = (synchronized, imported)
                && synchronized < imported
            {
                let what = format!("the run `{}` synchronizes {name} before it imports {name}", run.name);
                warn(&run.span, what, "write the import first, so that this run processes what it imports");
            }
            let exported = last(&|step| step.agent == agent && step.kind == StepKind::Export);
            let others = first(&|step| step.agent != agent && is_synchronization(step.kind));
            let own = first(&|step| step.agent == agent && is_synchronization(step.kind));
            if let (Some(exported), Some(others)) = (exported, others)
                && exported < others
                && own.is_none_or(|own| exported < own)
            {
                let what = format!("the run `{}` exports to {name} before it synchronizes", run.name);
                warn(
                    &run.span,
                    what,
                    "write the export after the synchronizations, so that it sends their changes",
                );
            }
            let has_rules = config.outbound.iter().any(|rules| rules.agent == agent);
            if exported.is_some() && !has_rules {
                let what = format!("the run `{}` exports to {name}, which has no [[outbound]]", run.name);
                warn(&run.span, what, "remove the step, or write an [[outbound]] for the agent");
            }
        }
        if run.steps.is_empty() {
            let what = format!("the run `{}` has no steps", run.name);
            warn(&run.span, what, "write [\"AGENT full-import\", \"AGENT delta-synchronization\"]");
        }
    }
    mistakes
}

impl Reader {
    /// Warns about attributes that rules read and no inbound flow sets. Types without objects have their own warning.
    pub(super) fn never_set(&mut self, config: &Config) {
        let mut places: BTreeMap<(usize, &str), Vec<&Range<usize>>> = BTreeMap::new();
        let read = std::mem::take(&mut self.read);
        for (at, name, span) in &read {
            let mut inbound = config.inbound.iter().filter(|rules| rules.to == *at);
            let is_set = |rules: &Inbound| {
                rules.flows.iter().any(|flow| config.types[*at].attributes[flow.to].name == *name)
            };
            let has_objects = config
                .inbound
                .iter()
                .any(|rules| rules.to == *at && !matches!(rules.project, Projection::No));
            if has_objects && !inbound.any(is_set) {
                places.entry((*at, name)).or_default().push(span);
            }
        }
        for ((at, name), mut spans) in places {
            spans.sort_by_key(|span| span.start);
            let lines: BTreeSet<usize> = spans[1..].iter().map(|span| self.line(span)).collect();
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let also = match lines.len() {
                0 => String::new(),
                1 => format!("; line {} reads it too", lines[0]),
                _ => format!("; lines {} read it too", lines.join(", ")),
            };
            let what = format!("no flow sets `{name}` of `{}`: it never has a value", config.types[at].name);
            self.warn(spans[0].clone(), what, format!("write a flow into `{name}` in an [[inbound]]{also}"));
        }
    }
}

/// Warns about a type without `deleted_with` whose objects are never deleted: a provisioned connector
/// outlives all sources of values, so the metaverse object is kept too.
fn endless(config: &Config, at: usize) -> Option<Mistake> {
    let kind = &config.types[at];
    if !kind.deleted_with.is_empty() {
        return None;
    }
    let inbound = || config.inbound.iter().filter(|rules| rules.to == at);
    let outbound = || config.outbound.iter().filter(|rules| rules.from == at);
    let projects = |agent: usize| {
        inbound().any(|rules| rules.agent == agent && !matches!(rules.project, Projection::No))
    };
    // A provisioned object may contribute values of its own, which remain when the values of the sources are
    // gone.
    let may_stay = |attribute: &String| {
        let place = kind.attributes.iter().position(|known| known.name == *attribute);
        inbound().any(|rules| {
            outbound().any(|to| to.agent == rules.agent)
                && rules.flows.iter().any(|flow| Some(flow.to) == place)
        })
    };
    let holds_without_values = |rules: &Outbound| match &rules.when {
        None => true,
        Some(when) => !when.uses().iter().any(may_stay) && when.holds(|_| None).unwrap_or(false),
    };
    // An agent that projects is a source itself; its objects are meant to exist as long as the source has
    // them.
    let keeps = |agent: usize| {
        let mut rules = outbound().filter(|rules| rules.agent == agent).peekable();
        !projects(agent) && rules.peek().is_some() && rules.all(holds_without_values)
    };
    let agents = 0..config.agents.len();
    let sources: Vec<usize> = agents.clone().filter(|agent| projects(*agent)).collect();
    let keepers: Vec<usize> = agents.filter(|agent| keeps(*agent)).collect();
    if sources.is_empty() || keepers.is_empty() {
        return None;
    }
    let mut named =
        outbound().filter(|rules| keepers.contains(&rules.agent)).flat_map(|rules| rules.dn.uses());
    let example = named.find(|name| !may_stay(name));
    let example = example.map_or(String::new(), |name| format!(", such as has(mv.{name})"));
    let name = |agent: &usize| &config.agents[*agent].name;
    let sources = match sources.as_slice() {
        [one] => format!("{:?}", name(one)),
        several => format!("{:?}", several.iter().map(name).collect::<Vec<_>>()),
    };
    let keepers: Vec<String> = keepers.iter().map(|agent| format!("`{}`", name(agent))).collect();
    let (keepers, kind_name) = (keepers.join(" and "), &kind.name);
    Some(Mistake {
        span: kind.span.clone(),
        what: format!(
            "a `{kind_name}` is never deleted: its connector in {keepers} stays when all its values are gone"
        ),
        help: format!(
            "write deleted_with = {sources} below it, or a `when` that needs a value in that [[outbound]]{example}"
        ),
    })
}
