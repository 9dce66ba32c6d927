//! The trials of an experiment, and the choice of the next one.

use serde::{Deserialize, Serialize};

use crate::{Experiment, Level, Nanos, SettingPath, Study, quantity};

/// One setting with a level that differs from the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The setting.
    pub factor: SettingPath,
    /// Its level.
    pub level: Level,
}

/// The settings that differ from the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// None.
    Baseline,
    /// Exactly one.
    OneChange(Change),
    /// Several settings: a cell of a grid.
    Combination(Vec<Change>),
    /// The recommended levels together, to confirm the prediction.
    Confirmation(Vec<Change>),
    /// One resource reduced or increased, to show whether throughput follows.
    Proof(Change),
    /// One load in a search for the limit of a configuration, or one level in a search for the smallest.
    Probe(Probe),
}

/// One load in a search for the limit, or one level in a search for the smallest one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The settings of the configuration that differ from the baseline; empty for the baseline.
    pub configuration: Vec<Change>,
    /// The load (`load.closed` with a number of users, or `load.open` with a rate), or the level of a factor.
    #[serde(alias = "load")]
    pub at: Change,
    /// The measured time.
    pub measure: Nanos,
    /// The time of the warm-up; none for that of the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Nanos>,
}

impl Treatment {
    /// The changed settings; empty for the baseline.
    pub fn changes(&self) -> &[Change] {
        match self {
            Treatment::Baseline => &[],
            Treatment::OneChange(change) | Treatment::Proof(change) => std::slice::from_ref(change),
            Treatment::Combination(changes) | Treatment::Confirmation(changes) => changes,
            Treatment::Probe(probe) => &probe.configuration,
        }
    }

    /// The treatment with these changes.
    pub fn of_changes(mut changes: Vec<Change>) -> Treatment {
        match (changes.len(), changes.pop()) {
            (1, Some(change)) => Treatment::OneChange(change),
            (_, Some(last)) => {
                changes.push(last);
                Treatment::Combination(changes)
            }
            (_, None) => Treatment::Baseline,
        }
    }

    /// The treatment whose configuration is measured: that of a search at all of its loads, otherwise itself.
    pub fn configuration(&self) -> Treatment {
        match self {
            Treatment::Probe(probe) => Treatment::of_changes(probe.configuration.clone()),
            other => other.clone(),
        }
    }

    /// A short label for a table head: `baseline`, `block_size=64KiB`, `cpus=2 block_size=8KiB`. The prefix
    /// `workload.` is omitted, because most factors belong to the workload.
    pub fn label(&self) -> String {
        let short = |change: &Change| {
            let path = change.factor.0.as_str();
            format!("{}={}", path.strip_prefix("workload.").unwrap_or(path), change.level)
        };
        match self {
            Treatment::Baseline => "baseline".into(),
            Treatment::Confirmation(changes) => {
                format!("confirmation: {}", changes.iter().map(short).collect::<Vec<_>>().join(" "))
            }
            Treatment::Proof(change) => format!("proof: {}", short(change)),
            Treatment::Probe(probe) => {
                let changes = probe.configuration.iter().map(short);
                let parts = changes.chain([short(&probe.at), quantity::duration(probe.measure)]);
                parts.collect::<Vec<_>>().join(" ").replace("load.", "")
            }
            other => other.changes().iter().map(short).collect::<Vec<_>>().join(" "),
        }
    }
}

/// One planned measurement: a treatment and its replicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its index in the order of execution, from 1.
    pub number: u32,
    /// The treatment.
    pub treatment: Treatment,
    /// The number of the replicate, from 1. Trials with the same number ran in the same round.
    pub replicate: u32,
}

impl Trial {
    /// The name of its folder: `003-host.cpus=2.r2`. It contains only letters, digits and `._=+-`.
    pub fn id(&self) -> String {
        let mut label: String = self
            .treatment
            .label()
            .chars()
            .map(|c| match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '=' | '-' => c,
                ' ' => '+',
                '/' => '-',
                _ => '_',
            })
            .collect();
        label.truncate(80);
        format!("{:03}-{label}.r{}", self.number, self.replicate)
    }
}

crate::choice! {
    /// How treatments are derived from the factors.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DesignKind {
        /// The baseline, and each level of each factor separately.
        OneFactorAtATime = "one-factor-at-a-time",
        /// Every combination of levels.
        Grid = "grid",
    }
}

/// One step of a plan: a trial and why it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The trial.
    pub trial: Trial,
    /// Why it is the next one.
    pub reason: String,
}

/// The next action of a design.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Execute this trial.
    Trial(Decision),
    /// No further trial is needed, with the reason.
    Enough(String),
}

/// Chooses the next trial from the runs so far. A pure function: an interrupted experiment is resumed by
/// passing the recorded runs again.
pub trait Design: Send + Sync {
    /// The next trial, or the end. `study` has all recorded runs, in order of execution.
    fn next(&self, study: &Study) -> Next;

    /// All trials in order, if they do not depend on the measurements.
    fn planned(&self) -> Option<Vec<Trial>>;
}

/// `plan.json`: all decisions, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `plimsoll.plan/1.0`.
    pub format: String,
    /// The experiment with defaults filled in. Its seed determines the random order and the data.
    pub experiment: Experiment,
    /// The decisions so far.
    pub decisions: Vec<Decision>,
    /// Why there were no further ones; none while the experiment is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_id_is_a_safe_folder_name() {
        let change = |path: &str, level| Change { factor: SettingPath(path.into()), level };
        for (treatment, expected) in [
            (Treatment::Baseline, "007-baseline.r2"),
            (Treatment::OneChange(change("host.cpus", Level::Count(2))), "007-host.cpus=2.r2"),
            (
                Treatment::Combination(vec![
                    change("workload.block_size", Level::Bytes(65536)),
                    change("host.disk.io_limit", Level::Rate(500.0)),
                ]),
                "007-block_size=64KiB+host.disk.io_limit=500-s.r2",
            ),
            (
                Treatment::Proof(change("host.cpu_quota", Level::Number(0.35))),
                "007-proof_+host.cpu_quota=0.35.r2",
            ),
            (
                Treatment::OneChange(change("workload.files", Level::Text("../a b".into()))),
                "007-files=..-a+b.r2",
            ),
            (
                Treatment::Probe(Probe {
                    configuration: vec![change("host.cpus", Level::Count(2))],
                    at: change("load.open", Level::Rate(2000.0)),
                    measure: 30_000_000_000,
                    warm_up: None,
                }),
                "007-host.cpus=2+open=2000-s+30s.r2",
            ),
        ] {
            assert_eq!(Trial { number: 7, treatment, replicate: 2 }.id(), expected);
        }
    }
}
