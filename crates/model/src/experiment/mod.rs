//! What the user wrote: a system, a load, what to change, what to watch, what is good enough.

mod read;
mod schema;
mod write;

pub use read::{TOP as TOP_SETTINGS, set, variation};
pub use schema::schema;
pub(crate) use write::value as toml_value;
pub use write::write;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::{DesignKind, Goal, Level, SettingInfo, SettingKind, SettingPath, Settings};

/// An experiment, read and complete: every setting it needs has a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name, for people.
    pub name: String,
    /// What is good enough.
    pub goals: Vec<Goal>,
    /// What to watch: `host`, `process:NAME`, `cgroup:PATH`.
    pub watch: Vec<String>,
    /// How often the counters are read, 10 ms to 1 min.
    pub sample_every: Nanos,
    /// How often each treatment is repeated.
    pub replicates: u32,
    /// Shuffles the order and makes the data.
    pub seed: u64,
    /// The system under test, when Plimsoll starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// What is driven.
    pub workload: WorkloadSpec,
    /// How the load arrives; settings of [`crate::load::LOAD_SETTINGS`].
    pub load: Settings,
    /// What is varied.
    pub vary: Vec<Variation>,
    /// How treatments are made from it.
    pub design: DesignKind,
}

/// The workload and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Its kind, such as `disk`.
    pub kind: String,
    /// Its settings, defaults filled in.
    pub settings: Settings,
}

/// A system under test that Plimsoll starts and stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The command line that starts it.
    pub start: String,
    /// When it is ready: `tcp://HOST:PORT`, `http://...`, or `line:REGEX` on its output.
    pub ready: String,
}

/// A factor and its levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Which setting.
    pub factor: SettingPath,
    /// Its level in the baseline; none leaves what is in force.
    pub baseline: Option<Level>,
    /// The other levels.
    pub levels: Vec<Level>,
    /// What it acts on (a device, an address), when the factor needs to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

/// What can be written in an experiment on this build: composed by the program from its registries, so that
/// the reader of experiments knows every workload and factor without depending on them.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Workloads.
    pub workloads: Vec<WorkloadInfo>,
    /// Factors.
    pub factors: Vec<FactorInfo>,
    /// Words before the colon in `watch`, such as `process`; `host` is always one.
    pub selectors: Vec<&'static str>,
}

/// A kind of workload as far as an experiment file is concerned.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// Its name: the `disk` of `[workload.disk]`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Its settings.
    pub settings: &'static [SettingInfo],
    /// The operations it can report, for goals such as `read.throughput`.
    pub operations: &'static [&'static str],
}

/// A factor as far as an experiment file is concerned.
#[derive(Clone, Copy, Debug)]
pub struct FactorInfo {
    /// Its path, such as `host.cpus`.
    pub path: &'static str,
    /// What levels it takes.
    pub kind: SettingKind,
    /// One sentence.
    pub about: &'static str,
    /// Whether it needs `on = "..."`.
    pub needs_on: bool,
}

#[cfg(test)]
mod tests;
