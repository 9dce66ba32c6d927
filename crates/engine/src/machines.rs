//! Port 4: other machines, which drive parts of the load and whose counters are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::run::MachineRun;
use model::{Ending, Level, Load, Nanos, Problems, Settings, Shape, Target};
use serde::{Deserialize, Serialize};

use crate::crew::Crew;
use crate::factor::Factor;
use crate::inputs::{Inputs, KeptInputs};
use crate::source::{Source, Unavailable};
use crate::workload::Combined;

/// What may be left of the agent of a machine that is lost.
pub const LEFT: &str = "if its agent was killed, `plimsoll restore` on that machine removes what it left";

/// A trial that machines take part in.
#[derive(Clone, Copy, Debug)]
pub struct MachineTrial<'a> {
    /// The kind of the workload.
    pub workload: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
    /// The load of all machines.
    pub load: &'a Load,
    /// Its shape; none for the default of the workload.
    pub shape: Option<&'a Shape>,
    /// The seed.
    pub seed: u64,
    /// How often the counters are read.
    pub sample_every: Nanos,
    /// The system under test, which may run on one of the machines.
    pub target: Option<&'a Target>,
    /// The files that the load reads.
    pub inputs: &'a Inputs,
}

/// A factor of a system under test that runs on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineFactor {
    /// Its path, such as `host.cpus`.
    pub path: String,
    /// The object of the factor on that machine, if it needs one.
    pub on: Option<String>,
    /// Its other parameters.
    pub parameters: BTreeMap<String, String>,
    /// The system under test, which is already running there.
    pub target: Target,
}

/// The facts of the load that each of these machines, by their names, has a part of. A fact of a single machine is
/// `machine.NAME.FACT`.
pub fn combine_facts(
    machines: &[(String, BTreeMap<String, Level>)],
    combined: &dyn Fn(&str) -> Combined,
) -> BTreeMap<String, Level> {
    let mut facts = BTreeMap::new();
    let names: BTreeSet<&String> = machines.iter().flat_map(|(_, facts)| facts.keys()).collect();
    for name in names {
        let levels: Vec<&Level> = machines.iter().filter_map(|(_, facts)| facts.get(name)).collect();
        match combine(&levels, machines.len(), combined(name)) {
            Some(level) => _ = facts.insert(name.clone(), level),
            None => {
                let of_each = machines.iter().filter_map(|(machine, facts)| {
                    Some((format!("machine.{machine}.{name}"), facts.get(name)?.clone()))
                });
                facts.extend(of_each);
            }
        }
    }
    facts
}

/// One level of those that some of the machines have.
fn combine(levels: &[&Level], machines: usize, combined: Combined) -> Option<Level> {
    let one = |values: Vec<u64>| match combined {
        Combined::Equal => None,
        Combined::Sum => Some(values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value))),
        Combined::Min => values.into_iter().min(),
        Combined::Max => values.into_iter().max(),
    };
    let all = |amount: fn(&Level) -> Option<u64>| {
        levels.iter().map(|level| amount(level)).collect::<Option<Vec<u64>>>().and_then(one)
    };
    if combined == Combined::Equal {
        let first = *levels.first()?;
        let is_equal = levels.len() == machines && levels.iter().all(|level| *level == first);
        return is_equal.then(|| first.clone());
    }
    let count = all(|level| if let Level::Count(count) = level { Some(*count) } else { None });
    let bytes = || all(|level| if let Level::Bytes(bytes) = level { Some(*bytes) } else { None });
    count.map(Level::Count).or_else(|| bytes().map(Level::Bytes))
}

/// The machines of an experiment, while it runs.
pub trait Machines {
    /// Whether any of them drives load.
    fn drive(&self) -> bool;

    /// How many machines take part, and how many the experiment has: a lost one may be left out.
    fn taking_part(&self) -> (usize, usize);

    /// The files of the load, which are sent to the machines that drive it; none if this host does.
    fn inputs(&self) -> Option<Arc<KeptInputs>>;

    /// Asks every machine whether it can take part in such a trial. Changes nothing.
    fn check(&mut self, trial: MachineTrial<'_>) -> Problems;

    /// Prepares a trial on every machine: its data exists, and its workers wait for the start. `operations` are the names of
    /// those of the load, each with whether it counts as throughput; `say` receives progress. Returns the facts that all machines report alike, and the others by machine.
    ///
    /// # Errors
    /// How the trial ended.
    fn prepare(
        &mut self,
        trial: MachineTrial<'_>,
        operations: &[(String, bool)],
        say: &mut dyn FnMut(&str),
    ) -> Result<BTreeMap<String, Level>, Ending>;

    /// The counters of each machine, with its name.
    fn sources(&mut self) -> Vec<(String, Box<dyn Source>)>;

    /// A factor on a machine. It is opened, journaled and undone there; an error says what the machine answered.
    ///
    /// # Errors
    /// When there is no such machine.
    fn factor(&mut self, machine: &str, factor: MachineFactor) -> Result<Box<dyn Factor>, Unavailable>;

    /// Drives the load of the prepared trial.
    fn crew(&mut self) -> &mut dyn Crew;

    /// Ends the trial on every machine. Returns what each of them did.
    fn finish(&mut self) -> Vec<MachineRun>;

    /// After [`Machines::finish`], the facts that each machine found with its part of the load; none if it did not end it.
    fn facts(&self) -> Vec<(String, BTreeMap<String, Level>)>;

    /// Ends the experiment on every machine. Returns what could not be removed or restored.
    fn end(&mut self) -> Vec<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_machines_are_those_of_the_load_where_they_can_be() {
        let facts = |opened: u64, least: u64, more: &[(&str, Level)]| {
            let all = [("connections.opened", Level::Count(opened)), ("entries_min", Level::Bytes(least))];
            all.iter().chain(more).map(|(name, level)| (name.to_string(), level.clone())).collect()
        };
        let text = |text: &str| Level::Text(text.into());
        let machines: Vec<(String, BTreeMap<String, Level>)> = vec![
            ("a".into(), facts(3, 7, &[("server", text("nginx")), ("address", text("10.0.0.1"))])),
            (
                "b".into(),
                facts(
                    4,
                    5,
                    &[("server", text("nginx")), ("address", text("10.0.0.2")), ("busy", Level::Count(2))],
                ),
            ),
            ("c".into(), facts(0, 6, &[("server", text("nginx")), ("address", text("10.0.0.2"))])),
        ];
        let combined = |name: &str| match name {
            "connections.opened" | "busy" => Combined::Sum,
            "entries_min" => Combined::Min,
            _ => Combined::Equal,
        };
        let expected = [
            ("busy", Level::Count(2)),
            ("connections.opened", Level::Count(7)),
            ("entries_min", Level::Bytes(5)),
            ("machine.a.address", text("10.0.0.1")),
            ("machine.b.address", text("10.0.0.2")),
            ("machine.c.address", text("10.0.0.2")),
            ("server", text("nginx")),
        ];
        let expected = expected.map(|(name, level)| (name.to_string(), level));
        assert_eq!(combine_facts(&machines, &combined), BTreeMap::from(expected));
        // What is no amount is one of each machine.
        assert!(combine_facts(&machines, &|_| Combined::Max).contains_key("machine.a.server"));
    }
}
