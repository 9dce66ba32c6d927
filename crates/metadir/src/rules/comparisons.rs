//! How join rules compare values. A join rule without `ignore_case` compares as the systems of its attributes do.
//!
//! The keys of the metaverse for one attribute are the same for all agents that join by it. So all of them compare
//! in the same way, whichever is imported first: if one system ignores case, all do.

use std::collections::HashMap;

use super::joins::{JoinRule, KeyRule};
use super::{FlowSource, Rules};
use crate::agent::Names;
use crate::comparison::Comparison;
use crate::config::AgentConfig;
use crate::hologram::Attribute;
use crate::object::AgentId;
use crate::store::{NameKind, Store, StoreError};

/// How the systems of agents compare the values of attributes; exactly if there is no entry.
pub(crate) type Comparisons = HashMap<(AgentId, Attribute), Comparison>;

/// The note with what the system of an agent said last.
pub(crate) fn note(agent: AgentId) -> String {
    format!("comparisons of agent {}", agent.0)
}

/// How the systems compare, as they said last. A system that did not say anything yet compares as its kind does.
///
/// # Errors
/// When the store fails.
pub(crate) fn known(
    store: &mut dyn Store,
    rules: &Rules,
    names: &Names,
    agents: &[AgentConfig],
) -> Result<Comparisons, StoreError> {
    let mut known = Comparisons::new();
    for (config, agent) in agents.iter().zip(&rules.agents) {
        let text = store.note(&note(agent.id))?.unwrap_or_default();
        let said: HashMap<&str, Comparison> = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(name, comparison)| Some((name, Comparison::named(comparison)?)))
            .collect();
        for attribute in rules.compared_by_system(agent.id) {
            let said = said.get(names.name(attribute)).copied();
            known.insert((agent.id, attribute), said.unwrap_or_else(|| config.system.comparison()));
        }
    }
    Ok(known)
}

impl JoinRule {
    /// The attributes of the connector space whose comparison the system decides, by their places.
    fn of_system(&self) -> impl Iterator<Item = (usize, Attribute)> {
        let parts = self.cs.iter().enumerate().filter(|_| self.ignore_case.is_none());
        parts.filter_map(|(at, part)| match part {
            FlowSource::Direct(attribute) => Some((at, *attribute)),
            FlowSource::Constant(_) | FlowSource::Formula(_) => None,
        })
    }
}

impl Rules {
    /// The attributes of an agent that join rules compare as its system does, in ascending order.
    pub(crate) fn compared_by_system(&self, agent: AgentId) -> Vec<Attribute> {
        let rules = self.inbound.iter().filter(|inbound| inbound.agent == agent);
        let joins = rules.flat_map(|inbound| &inbound.joins);
        let mut all: Vec<Attribute> = joins.flat_map(|join| join.of_system().map(|(_, of)| of)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How the system of an agent compares the attributes of its join rules, without those that are compared
    /// exactly.
    pub(crate) fn compared_as<'n>(&self, agent: AgentId, names: &'n Names) -> Vec<(&'n str, Comparison)> {
        let compared = |of| Some((names.name(of), *self.systems.get(&(agent, of))?));
        let all = self.compared_by_system(agent).into_iter().filter_map(compared);
        all.filter(|(_, comparison)| *comparison != Comparison::Exact).collect()
    }

    /// Compares as the systems do. Another comparison is another rule in the store, so that its keys are built
    /// again.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn compare_as(
        &mut self,
        systems: Comparisons,
        store: &mut dyn Store,
        names: &Names,
    ) -> Result<(), StoreError> {
        self.systems = systems;
        let mut loosest: HashMap<(usize, String), Vec<Comparison>> = HashMap::new();
        for inbound in &self.inbound {
            for join in inbound.joins.iter().filter(|join| join.ignore_case.is_none()) {
                let of_rule = loosest.entry((inbound.to, join.mv_text(names))).or_default();
                of_rule.resize(join.cs.len(), Comparison::Exact);
                for (at, attribute) in join.of_system() {
                    let of_system =
                        self.systems.get(&(inbound.agent, attribute)).copied().unwrap_or_default();
                    of_rule[at] = of_rule[at].max(of_system);
                }
            }
        }
        let mut keys: Vec<Vec<KeyRule>> = self.types.iter().map(|_| Vec::new()).collect();
        for inbound in &mut self.inbound {
            for join in &mut inbound.joins {
                let mv = join.mv_text(names);
                let explicit = |ignores| if ignores { Comparison::Case } else { Comparison::Exact };
                join.comparisons = match join.ignore_case {
                    Some(ignores) => vec![explicit(ignores); join.cs.len()],
                    None => loosest.get(&(inbound.to, mv.clone())).cloned().unwrap_or_default(),
                };
                let name = format!("{}.{mv}{}", join.type_name, suffix(&join.comparisons));
                join.rule = store.name(NameKind::Key, &name)?;
                if keys[inbound.to].iter().all(|known| known.rule != join.rule) {
                    keys[inbound.to].push(join.key_rule());
                }
            }
        }
        for (kind, mut keys) in self.types.iter_mut().zip(keys) {
            let unique = kind.keys.drain(..).filter(|key| kind.unique.contains(&key.rule));
            keys.extend(unique);
            kind.keys = keys;
        }
        for agent in &mut self.agents {
            let joins = agent.inbound.iter().flat_map(|at| &self.inbound[*at].joins);
            agent.identities = joins.filter_map(JoinRule::identity).collect();
        }
        Ok(())
    }
}

/// What distinguishes a rule from the rule that compares the same values exactly.
fn suffix(comparisons: &[Comparison]) -> String {
    let is_all = |wanted| comparisons.iter().all(|comparison| *comparison == wanted);
    let mut names: Vec<&str> = comparisons.iter().map(|comparison| comparison.name()).collect();
    match () {
        () if is_all(Comparison::Exact) => String::new(),
        () if is_all(Comparison::Case) => " without case".into(),
        () => {
            if names.iter().all(|name| *name == names[0]) {
                names.truncate(1);
            }
            format!(" {}", names.join(", "))
        }
    }
}
