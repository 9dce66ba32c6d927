//! What the user wrote: a system, a load, what to change, what to watch, what is good enough.

mod figure;
mod read;
mod schema;
pub mod target;
mod write;

pub use figure::FigureName;
pub use read::{TOP as TOP_SETTINGS, set, variation};
pub use schema::schema;
pub use target::{Origin, Readiness, TARGET_SETTINGS, Target};
pub(crate) use write::value as toml_value;
pub use write::write;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run::WorkloadTraits;
use crate::{DesignKind, Goal, HostResource, Level, Nanos, SettingInfo, SettingKind, SettingPath, Settings};

/// Share of the operations that may fail where nothing else is stated.
pub const MAX_FAILURES: f64 = 0.01;

fn max_failures() -> f64 {
    MAX_FAILURES
}

/// An experiment, read and complete: every setting it needs has a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name, for people.
    pub name: String,
    /// What is good enough.
    pub goals: Vec<Goal>,
    /// Share of the operations that may fail, 0 to 1, where no goal says it.
    #[serde(default = "max_failures")]
    pub max_failures: f64,
    /// What to watch: `host`, `process:NAME`, `cgroup:PATH`.
    pub watch: Vec<String>,
    /// How often the counters are read, 10 ms to 1 min.
    pub sample_every: Nanos,
    /// How often each treatment is repeated.
    pub replicates: u32,
    /// Shuffles the order and makes the data.
    pub seed: u64,
    /// Whether to take a part of each resource afterwards, to prove which one limits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prove: bool,
    /// The folder that relative paths of the target and of its files are meant from: that of the experiment file. Empty
    /// is the present one.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub folder: PathBuf,
    /// The system under test, when it is another than the load's own process.
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
    /// Figures that stand in a table for each configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<FigureName>,
    /// What others have published, to stand beside what is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

fn is_empty(path: &std::path::Path) -> bool {
    path.as_os_str().is_empty()
}

/// The workload and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Its kind, such as `disk`.
    pub kind: String,
    /// Its settings, defaults filled in.
    pub settings: Settings,
}

/// Figures that somebody published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// What was measured there, in a few words.
    pub name: String,
    /// Where they were published.
    pub source: String,
    /// The varied setting that the rates are for; none where there are no rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<SettingPath>,
    /// Operations per second at each level, by the name of the operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates_per_s: BTreeMap<String, Vec<(Level, f64)>>,
    /// Figures that hang on no factor, as they stand in the file, in the unit of their name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(FigureName, f64)>,
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
    /// What else the factor was told, by the names of its [`FactorInfo::parameters`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
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
    /// Every metric of every source.
    pub metrics: Vec<&'static str>,
}

impl Vocabulary {
    /// The factor of a path.
    pub fn factor(&self, path: &str) -> Option<&FactorInfo> {
        self.factors.iter().find(|info| info.covers(path))
    }
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
    /// What sort of load it is.
    pub traits: &'static WorkloadTraits,
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
    /// The resource of the host that it changes; none for another kind of setting.
    pub resource: Option<HostResource>,
    /// Whether it needs `on = "..."`.
    pub needs_on: bool,
    /// What else it is told beside `on`.
    pub parameters: &'static [ParameterInfo],
    /// Whether a name of the user's may follow the path, as in `target.config.threads`, so that an experiment can vary
    /// several of this kind.
    pub named: bool,
}

impl FactorInfo {
    /// Is this the path of this factor, a name of the user's included?
    pub fn covers(&self, path: &str) -> bool {
        let name = || path.strip_prefix(self.path)?.strip_prefix('.');
        path == self.path || (self.named && name().is_some_and(|name| !name.is_empty()))
    }
}

/// A text that a factor is told in the table of its levels.
#[derive(Clone, Copy, Debug)]
pub struct ParameterInfo {
    /// Its key.
    pub name: &'static str,
    /// Whether the factor cannot do without.
    pub needed: bool,
    /// One sentence.
    pub about: &'static str,
}

#[cfg(test)]
mod tests;
