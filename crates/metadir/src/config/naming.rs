//! The names that outbound rules give to objects, and the spelling of attributes.

use std::collections::BTreeMap;
use std::ops::Range;

use ldap::Dn;

use super::part::Reader;
use super::{AgentConfig, Outbound};
use crate::naming::Naming;

/// Checks that the name of a provisioned object is a distinguished name below a base of its directory, as far as the
/// expression shows it.
pub(super) fn in_directory(rules: &Outbound, agent: &AgentConfig) -> Result<(), (String, String)> {
    if agent.system.naming() != Naming::Dn || rules.dn.ends_with_attribute() {
        return Ok(());
    }
    let names: Vec<String> = rules.dn.uses().iter().map(|name| name.to_uppercase()).collect();
    let Some(example) = rules.dn.text(2, |at| names.get(at).map(String::as_str)) else { return Ok(()) };
    let bases = agent.system.bases();
    let base = bases.first().map_or_else(|| "ou=people,dc=example,dc=com".into(), ToString::to_string);
    let help = format!("write an expression such as rdn('cn', mv.name) + ',{base}'");
    let Ok(dn) = Dn::parse(&example) else {
        return Err((format!("`dn` gives {example:?}, which is not a distinguished name"), help));
    };
    if bases.is_empty() || bases.iter().any(|base| dn.is_within(base)) {
        return Ok(());
    }
    Err((format!("`dn` gives {example}, which is not below a `base` of [agents.{}]", agent.name), help))
}

impl Reader {
    /// Reports attributes of a directory that are written in several ways: they are one attribute, and values come
    /// under one spelling only.
    pub(super) fn spellings(&mut self, agents: &[AgentConfig]) {
        let mut known: BTreeMap<(usize, String), (String, Range<usize>)> = BTreeMap::new();
        for (at, agent) in agents.iter().enumerate() {
            for name in agent.anchor.iter().chain(&agent.references) {
                known.insert((at, name.to_ascii_lowercase()), (name.clone(), agent.span.clone()));
            }
        }
        let mut spelled = std::mem::take(&mut self.spelled);
        spelled.retain(|(agent, ..)| agents[*agent].system.ignores_case_of_attributes());
        // What is exported is written as the directory shows it, so it comes first.
        spelled.sort_by_key(|(_, _, is_exported, _)| !is_exported);
        for (agent, name, _, span) in spelled {
            let first = known
                .entry((agent, name.to_ascii_lowercase()))
                .or_insert_with(|| (name.clone(), span.clone()))
                .clone();
            if first.0 != name {
                let line = self.line(&first.1);
                let what =
                    format!("`{name}` and `{}` of line {line} are one attribute of a directory", first.0);
                self.wrong_once(
                    span,
                    what,
                    "write the same spelling everywhere: the one that the directory shows",
                );
            }
        }
    }
}
