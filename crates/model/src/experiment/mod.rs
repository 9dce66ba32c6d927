//! The experiment that the user wrote: a system, a load, factors, watched processes and goals.

mod dependency;
mod figure;
mod machines;
mod range;
mod read;
mod schema;
pub mod target;
mod write;

pub use dependency::{Dependency, LISTEN, LISTEN_ANYWHERE, Proxies};
pub use figure::FigureName;
pub use machines::{MACHINE_SETTINGS, MachineList, NameOfMachine, OnLoss};
pub use read::{TOP as TOP_SETTINGS, set, variation};
pub use schema::schema;
pub use target::{Origin, Readiness, TARGET_SETTINGS, Target};
pub(crate) use write::value as toml_value;
pub use write::write;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::problem::near_word;
use crate::run::WorkloadTraits;
use crate::secret::authority_bytes;
use crate::{
    DesignKind, Gate, Goal, HostResource, Level, Nanos, Secret, SecretParts, SettingInfo, SettingKind,
    SettingPath, Settings,
};

/// The default limit of the share of failed operations.
pub const MAX_FAILURES: f64 = 0.01;

fn max_failures() -> f64 {
    MAX_FAILURES
}

/// A complete experiment: every required setting has a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name, for display.
    pub name: String,
    /// The goals.
    pub goals: Vec<Goal>,
    /// Limit of the share of failed operations, 0 to 1, unless a goal states it.
    #[serde(default = "max_failures")]
    pub max_failures: f64,
    /// What is watched: `host`, `process:NAME`, `cgroup:PATH`, a counter of Performance Monitor that
    /// [`Vocabulary::watched`] knows, or an exporter of another host ([`watched_url`]).
    pub watch: Vec<Secret>,
    /// The sampling interval of the counters, 10 ms to 1 min.
    pub sample_every: Nanos,
    /// Number of replicates of each treatment.
    pub replicates: u32,
    /// The seed of the random order and of the data.
    pub seed: u64,
    /// Whether each resource is changed afterwards, to prove which one is the limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prove: bool,
    /// The folder against which relative paths of the target and its files are resolved: that of the
    /// experiment file. If empty, the working directory.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub folder: PathBuf,
    /// The system under test, if it is not the load's own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Other machines that take part.
    #[serde(default, skip_serializing_if = "MachineList::is_empty")]
    pub machines: MachineList,
    /// The dependencies of the system under test, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// The workload.
    pub workload: WorkloadSpec,
    /// The load: settings of [`crate::load::LOAD_SETTINGS`].
    pub load: Settings,
    /// The goals of a search for the limit, parsed from [`crate::load::LIMIT`]; empty without a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit: Vec<Goal>,
    /// The factor of which the smallest level that meets the goals is searched for; one of `vary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<SettingPath>,
    /// The factors.
    pub vary: Vec<Variation>,
    /// How treatments are derived from the factors.
    pub design: DesignKind,
    /// The gate: whether the one change of `vary` makes the system slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Figures for the table of configurations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<FigureName>,
    /// Published figures, to be compared with the measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

impl Experiment {
    /// That of a record whose load Plimsoll did not drive: nothing is asked of it.
    pub fn recorded(name: &str, workload: &str) -> Experiment {
        Experiment {
            name: name.into(),
            goals: Vec::new(),
            max_failures: MAX_FAILURES,
            watch: Vec::new(),
            sample_every: crate::SECOND,
            replicates: 1,
            seed: 0,
            prove: false,
            folder: PathBuf::new(),
            target: None,
            machines: MachineList::default(),
            dependencies: Vec::new(),
            workload: WorkloadSpec { kind: workload.into(), settings: Settings::default() },
            load: Settings::default(),
            limit: Vec::new(),
            smallest: None,
            vary: Vec::new(),
            design: DesignKind::OneFactorAtATime,
            gate: None,
            show: Vec::new(),
            published: Vec::new(),
        }
    }
}

impl Experiment {
    /// The level of a setting of the workload, the load or the target, as the experiment states it; none for a factor.
    pub fn level(&self, path: &SettingPath) -> Option<&Level> {
        let settings = match path.area() {
            "workload" => &self.workload.settings,
            "load" => &self.load,
            "target" => &self.target.as_ref()?.settings,
            _ => return None,
        };
        settings.level(path.name())
    }

    /// Whether a setting of the target is varied: it is started for each trial then.
    pub fn varies_target(&self) -> bool {
        self.vary.iter().any(|variation| variation.factor.is_of_target())
    }
}

impl SettingPath {
    /// Whether it is a setting of the target, such as `target.directory`, and not a factor, such as `target.config`.
    pub fn is_of_target(&self) -> bool {
        self.area() == "target" && target::varied().any(|info| info.name == self.name())
    }
}

fn is_empty(path: &std::path::Path) -> bool {
    path.as_os_str().is_empty()
}

/// A workload and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Its kind, such as `disk`.
    pub kind: String,
    /// Its settings, defaults filled in.
    pub settings: Settings,
}

/// Published figures of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// What was measured, in a few words.
    pub name: String,
    /// The source of the publication.
    pub source: String,
    /// The varied setting of the rates; none without rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<SettingPath>,
    /// Operations per second at each level, by the name of the operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates_per_s: BTreeMap<String, Vec<(Level, f64)>>,
    /// Figures without a factor, in the order of the file, in the unit of their name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(FigureName, f64)>,
    /// Changes against a baseline, in the order of the file: `rate_per_s` or `OPERATION.rate_per_s`, and the ratio.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<(String, f64)>,
    /// The largest loads that meet a goal, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<PublishedLimits>,
    /// Response times, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<PublishedTimes>,
}

/// Published response times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedTimes {
    /// The operation; none for all operations together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// `mean`, `p50`, `p95` or another part of [`crate::LatencySummary`].
    pub part: String,
    /// Each level of the factor with the shortest and the longest time that were published, milliseconds.
    pub times_ms: Vec<(Level, [f64; 2])>,
}

impl PublishedTimes {
    /// `response.p50`, or `login.response.p50` of an operation.
    pub fn metric(&self) -> String {
        let operation = self.operation.as_ref().map_or(String::new(), |operation| format!("{operation}."));
        format!("{operation}response.{}", self.part)
    }
}

/// The published largest loads that meet a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedLimits {
    /// The text of the goal, which is that of a goal of the search.
    pub goal: String,
    /// Each level of the factor with the smallest and the largest load that were published; without the smallest one,
    /// the other is an upper bound.
    pub loads: Vec<(Level, [Option<f64>; 2])>,
}

/// A factor and its levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// The setting.
    pub factor: SettingPath,
    /// Its level in the baseline; none keeps the present level.
    pub baseline: Option<Level>,
    /// The other levels.
    pub levels: Vec<Level>,
    /// The object of the factor (a device, an address), if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The other parameters of the factor, by the names in [`FactorInfo::parameters`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Secret>,
    /// 1-based line in the experiment file, 0 when it came from a flag.
    #[serde(default, skip)]
    pub line: u32,
}

/// The content that experiments may have in this build. The program composes it from its registries, so that
/// the parser knows every workload and factor without depending on them.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Workloads.
    pub workloads: Vec<WorkloadInfo>,
    /// Factors.
    pub factors: Vec<FactorInfo>,
    /// The words before the colon in `watch`, such as `process`; `host` is always valid.
    pub selectors: Vec<&'static str>,
    /// Every metric of every source.
    pub metrics: Vec<&'static str>,
    /// What is watched for a counter of Performance Monitor.
    pub watched: Option<WatchedFor>,
    /// Checks an entry that names an exporter; the error is the problem and what to write.
    pub exporter: Option<CheckExporter>,
    /// Reads what names a machine.
    pub machine: Option<NameOfMachine>,
}

/// The URL in an entry of `watch` that names an exporter: `http://HOST:9100/metrics`, `NAME=https://HOST/metrics`, with
/// what follows it. None for another entry.
pub fn watched_url(entry: &str) -> Option<&str> {
    let is_url = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
    let is_name = |name: &str| !name.contains([':', '/', ' ']);
    let named = || Some(entry.split_once('=')?).filter(|(name, _)| is_name(name)).map(|(_, url)| url);
    [Some(entry), named()].into_iter().flatten().find(is_url)
}

/// The host that counters of an exporter are shown with: the `NAME` of its entry, or host and port of its URL. None for
/// another entry.
pub fn watched_host(entry: &str) -> Option<&str> {
    let url = watched_url(entry)?;
    let name = entry[..entry.len() - url.len()].strip_suffix('=');
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let authority = &after[..authority_bytes(after, &['/', '?', '#', ' '])];
    Some(name.unwrap_or_else(|| authority.rsplit_once('@').map_or(authority, |(_, host)| host)))
}

/// An exporter whose host is already the name of another one: its entry, the problem and what to write.
pub fn watched_twice(entries: &[String]) -> Option<(&str, String, String)> {
    let hosts: Vec<Option<&str>> = entries.iter().map(|entry| watched_host(entry)).collect();
    let again = (0..hosts.len()).find(|at| hosts[*at].is_some() && hosts[..*at].contains(&hosts[*at]))?;
    let host = hosts[again].unwrap_or_default();
    let what = format!("two exporters have the name {host}");
    let help = "give one of them another name: NAME=http://HOST:PORT/metrics".to_string();
    Some((entries[again].as_str(), what, help))
}

/// An entry of `watch` as it is kept: that of an exporter can have a password or a token.
pub fn watched(entry: &str) -> Secret {
    match watched_url(entry) {
        Some(_) => Secret::new(entry, SecretParts::Url),
        None => Secret::plain(entry),
    }
}

/// Finds what is watched for a counter of Performance Monitor, such as `Process(slapd)\Working Set`; none for what is
/// no path of one. The error is the problem and what to write.
pub type WatchedFor = fn(&str) -> Option<Result<Watched, (String, String)>>;

/// Checks an entry of `watch` that names an exporter. The error is the problem, without secrets, and what to write.
pub type CheckExporter = fn(&str) -> Result<(), (String, String)>;

/// What is watched for a counter of Performance Monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// `host`, or an entry such as `process:slapd`.
    pub entry: String,
    /// The metric that provides the counter.
    pub metric: &'static str,
    /// The difference between both, in a sentence; may be empty.
    pub about: &'static str,
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.metric, self.entry)?;
        if self.about.is_empty() { Ok(()) } else { write!(f, ". {}", self.about) }
    }
}

impl Vocabulary {
    /// The factor with this path.
    pub fn factor(&self, path: &str) -> Option<&FactorInfo> {
        self.factors.iter().find(|info| info.covers(path))
    }

    /// The factor that sets the delay of the proxy of a dependency.
    pub fn dependency_factor(&self) -> Option<&FactorInfo> {
        self.factors.iter().find(|info| info.of_dependency)
    }

    /// Whether an entry of `watch` can be watched; what is watched, where it is a counter of Performance Monitor.
    ///
    /// # Errors
    /// The problem and what to write.
    pub fn watch_entry(&self, entry: &str) -> Result<Option<Watched>, (String, String)> {
        if watched_url(entry).is_some() {
            return self.exporter.map_or(Ok(()), |check| check(entry)).map(|()| None);
        }
        let known = || ["host"].into_iter().chain(self.selectors.iter().copied());
        let word = match entry.split_once(':') {
            Some((word, selection)) if self.selectors.contains(&word) && !selection.is_empty() => {
                return Ok(None);
            }
            Some((word, _)) => word,
            None if entry == "host" => return Ok(None),
            None => entry,
        };
        if let Some(found) = self.watched.and_then(|watched| watched(entry)) {
            return found.map(Some);
        }
        let what = format!("`{entry}` cannot be watched");
        let help = match near_word(word, known()) {
            Some(near) if near != word => format!("did you mean `{near}`?"),
            _ => {
                let all: Vec<String> = self.selectors.iter().map(|word| format!("{word}:...")).collect();
                format!("write one of host, {}, http://HOST:PORT/metrics", all.join(", "))
            }
        };
        Err((what, help))
    }
}

/// The description of a workload for the experiment file.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// Its name: `disk` in `[workload.disk]`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Its settings.
    pub settings: &'static [SettingInfo],
    /// The operations that it can report, for goals such as `read.throughput`.
    pub operations: &'static [&'static str],
    /// Its traits.
    pub traits: &'static WorkloadTraits,
}

impl WorkloadInfo {
    /// Whether these settings give it operations whose names are not in `operations`.
    pub fn has_further_operations(&self, settings: &Settings) -> bool {
        self.traits.operations_from.iter().any(|name| match settings.level(name) {
            Some(Level::List(levels)) => !levels.is_empty(),
            level => level.is_some(),
        })
    }
}

/// The description of a factor for the experiment file.
#[derive(Clone, Copy, Debug)]
pub struct FactorInfo {
    /// Its path, such as `host.cpus`.
    pub path: &'static str,
    /// The accepted levels.
    pub kind: SettingKind,
    /// One sentence.
    pub about: &'static str,
    /// The host resource that it changes; none for other settings.
    pub resource: Option<HostResource>,
    /// Whether it requires `on = "..."`.
    pub needs_on: bool,
    /// Its parameters besides `on`.
    pub parameters: &'static [ParameterInfo],
    /// Whether a user-defined name may follow the path, as in `target.config.threads`, so that an experiment
    /// can vary several of this kind.
    pub named: bool,
    /// Whether it sets the delay of the proxy of a dependency, which is the name that follows the path.
    pub of_dependency: bool,
}

impl FactorInfo {
    /// Whether a path belongs to this factor, including a user-defined name.
    pub fn covers(&self, path: &str) -> bool {
        let name = || path.strip_prefix(self.path)?.strip_prefix('.');
        path == self.path || (self.named && name().is_some_and(|name| !name.is_empty()))
    }
}

/// A parameter of a factor, in the table of its levels.
#[derive(Clone, Copy, Debug)]
pub struct ParameterInfo {
    /// Its key.
    pub name: &'static str,
    /// Whether it is required.
    pub needed: bool,
    /// Whether it is a command line: credentials in it are hidden in everything that is recorded or shown.
    pub is_command: bool,
    /// One sentence.
    pub about: &'static str,
}

#[cfg(test)]
mod tests;
