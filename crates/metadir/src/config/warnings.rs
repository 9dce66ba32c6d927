//! Warnings about settings that are allowed but probably unintended.

use super::{Config, Mistake, Outbound, Projection};

/// The warnings of a valid configuration.
pub(super) fn of(config: &Config) -> Vec<Mistake> {
    let types = 0..config.types.len();
    types.filter_map(|kind| endless(config, kind).or_else(|| without_objects(config, kind))).collect()
}

/// Warns about a type that no agent projects: it never has an object.
fn without_objects(config: &Config, at: usize) -> Option<Mistake> {
    let kind = &config.types[at];
    let mut inbound = config.inbound.iter().filter(|rules| rules.to == at).peekable();
    inbound.peek()?;
    let is_empty = inbound.all(|rules| matches!(rules.project, Projection::No));
    is_empty.then(|| Mistake {
        span: kind.span.clone(),
        what: format!("no [[inbound]] projects a `{}`: there will never be one", kind.name),
        help: "write project = true in the [[inbound]] of its source".into(),
    })
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
            "a `{kind_name}` does not end with what it came from: its connector in {keepers} keeps it, as the [[outbound]] there \
             holds also for one that has lost its values"
        ),
        help: format!(
            "write deleted_with = {sources} below it, or give that [[outbound]] a `when` that needs a value{example}"
        ),
    })
}
