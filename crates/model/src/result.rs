//! All published numbers: `result.json`, the `--json` output of every measuring command, and the data of the
//! terminal and the page. The names are a public interface: names may be added, but not renamed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cost::{Difference, OperationCost};
pub use crate::curve::{Curve, CurvePoint};
use crate::neighbour::NeighbourRate;
use crate::operation_io::ServerOperationIo;
use crate::run::{MachineRun, Origin, WorkloadTraits};
use crate::sensitivity::Sensitivity;
use crate::steps::RequestSteps;
use crate::verdict::Closest;
use crate::write_cache::CopyResult;
use crate::{
    Change, Doubt, Ending, Estimate, Finding, Host, HostResource, LatencySummary, Level, Unit, Verdict,
};

/// The format identifier of a result document.
pub const RESULT_FORMAT: &str = "plimsoll.result/1";

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultDocument {
    /// [`RESULT_FORMAT`].
    pub format: String,
    /// The run directory.
    pub run: String,
    /// The experiment's name.
    pub experiment: String,
    /// The kind of the workload.
    pub workload: String,
    /// Whether load was driven or the system was only watched.
    #[serde(default)]
    pub origin: Origin,
    /// The traits of the workload.
    #[serde(default)]
    pub traits: WorkloadTraits,
    /// The load in words: "32 in flight".
    pub load: String,
    /// The host.
    pub host: Host,
    /// Every trial in order of execution.
    pub trials: Vec<TrialResult>,
    /// Each configuration with its replicates combined, the baseline first.
    pub configurations: Vec<Configuration>,
    /// Each configuration compared with the baseline, metric by metric.
    pub comparison: Vec<ComparisonRow>,
    /// Why each configuration is faster or slower than the baseline: the difference in the cost of an
    /// operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Throughput and latency as functions of a varied number: block size, queue depth, load.
    pub curves: Vec<Curve>,
    /// Measurements compared with published figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedRow>,
    /// The requested figures and the published figures without a factor, for each configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<FigureRow>,
    /// Changes against the baseline beside published ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published_changes: Vec<PublishedChange>,
    /// Published response times beside the measured ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published_times: Vec<PublishedTime>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The effect of reducing and increasing each resource on throughput; none unless a proof was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofResult>,
    /// Doubts about the whole experiment; those about one trial are in its result.
    pub doubts: Vec<Doubt>,
    /// The verdict: the limit.
    pub verdict: Verdict,
    /// The largest load that meets each goal; none without a search for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<crate::LimitResult>,
    /// How much the time of each operation depends on the delay of each dependency; empty unless delays were varied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<Sensitivity>,
    /// The steps of a request in each configuration; empty unless the load and the system have dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_steps: Vec<ConfigurationSteps>,
    /// Thresholds of counters that administrators know, for the baseline: a second opinion, which decides nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdResult>,
    /// Whether the one change makes the system slower; none without a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<crate::GateResult>,
    /// What was planned and is not in the record; none if everything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// Whether the goals were met; none without goals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalResult>,
}

/// An experiment of which not every planned trial is in the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Trials that completed.
    pub completed: u64,
    /// Planned trials; none if their number depends on results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// The planned trials that have not begun, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
    /// The trials that began, and of which the record has nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// How bad a value is according to a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Beyond the first threshold.
    Warning,
    /// Beyond the second one.
    Critical,
}

/// A counter beside its threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The counter of Performance Monitor.
    pub counter: String,
    /// The worst instance; empty if there is only one.
    pub instance: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Mean over the measured phase: median over the trials of the baseline.
    pub value: f64,
    /// Beyond it there is a warning.
    pub warning: f64,
    /// Beyond it the value is called critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<f64>,
    /// Whether smaller values are worse.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_least: bool,
    /// How bad it is; none if it is within both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// The steps of a request in one configuration: those of its trials together. Means are weighted by the requests of each
/// trial, and so are medians and percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationSteps {
    /// The label of the configuration.
    pub configuration: String,
    /// Whether `steps` are shown: enough requests have this order, and an operation is one exchange of the load.
    pub is_ordered: bool,
    /// Exchanges of the load per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_operation: Option<f64>,
    /// The steps.
    #[serde(flatten)]
    pub request: RequestSteps,
}

/// A treatment, as label and as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreatmentResult {
    /// `baseline`, `block_size=64KiB`.
    pub label: String,
    /// The differences from the baseline.
    pub changes: Vec<Change>,
    /// Every varied setting with its level in this configuration, also for the baseline. Empty if nothing is
    /// varied, for a side of a comparison, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Change>,
    /// Whether it is a side of a comparison of runs: it has the name of its run, and `changes` are the
    /// differences of its settings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_side: bool,
}

/// The numbers of one trial in the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its id, which is the name of its folder.
    pub trial: String,
    /// The differences from the baseline.
    pub treatment: TreatmentResult,
    /// The number of the replicate.
    pub replicate: u32,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// The measured time, seconds.
    pub measured_s: f64,
    /// The load in words.
    pub load: String,
    /// Seconds in which operations were due, if that is shorter than the measured time: the number of operations was limited,
    /// and the last ones ended later. Rates are over the measured time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_s: Option<f64>,
    /// Whether it is an open load that was completed as offered, so that its throughput says nothing about the system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
    /// Each operation; if there are several, `all` is the last one.
    pub operations: Vec<OperationResult>,
    /// Operations that are derived from these: parts of their time, for example until a connection is open, and several
    /// of them together, for example a transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<OperationResult>,
    /// CPU microseconds of the generator's threads per operation; none if no operation completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_operation: Option<f64>,
    /// Operations per second for which the CPUs of the generator's threads would be enough at this cost, with one CPU for
    /// each thread, as far as the host has them: the headroom of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_max_per_s: Option<f64>,
    /// The machines that took part, besides the one that coordinated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineRun>,
    /// Resource use in the measured phase, the most saturated resource first.
    pub resources: Vec<ResourceUse>,
    /// What a copy moved, and what it showed of a write-back cache; none for other workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyResult>,
    /// Facts that the workload found about its target.
    pub facts: BTreeMap<String, Level>,
    /// The operations by kind as the client and others counted them; empty if only the client did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<KindCounts>,
    /// Doubts about these numbers.
    pub doubts: Vec<Doubt>,
    /// How it ended: `completed`, `interrupted`, `failed: why`, `running` for a killed trial.
    #[serde(with = "ending_text")]
    pub ending: Ending,
}

/// The operations of one kind as several sides counted them, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCounts {
    /// The kind, such as `search`.
    pub kind: String,
    /// Of the load.
    pub client: u64,
    /// In the statistics of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u64>,
    /// In the trace of the server's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<u64>,
}

/// Serializes the ending of a trial as one text.
mod ending_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Ending;

    const FAILED: &str = "failed: ";

    pub(super) fn serialize<S: Serializer>(ending: &Ending, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(ending)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ending, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "running" => Ending::Running,
            "completed" => Ending::Completed,
            "interrupted" => Ending::Interrupted,
            other => Ending::Failed(other.strip_prefix(FAILED).unwrap_or(other).into()),
        })
    }
}

impl TrialResult {
    /// The operation that represents the whole trial: `all`, or the first one that does not only serve other
    /// operations.
    pub fn whole(&self) -> Option<&OperationResult> {
        let all = self.operations.iter().find(|operation| operation.name == Operation::All);
        all.or_else(|| self.operations.first())
    }

    /// Mean number of operations in flight, of all kinds.
    pub fn in_flight(&self) -> f64 {
        let named = self.operations.iter().filter(|operation| operation.name != Operation::All);
        named.map(|operation| operation.concurrency).sum()
    }

    /// Whether operations completed and all of them failed.
    pub fn failed_wholly(&self) -> bool {
        self.whole().is_some_and(OperationResult::failed_wholly)
    }
}

/// The operation of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Operation {
    /// The operation with this name.
    Named(String),
    /// All operations of the trial together.
    #[default]
    All,
}

impl Operation {
    /// The name of all operations together.
    pub const ALL: &str = "all";

    /// Its name, or the name for all.
    pub fn as_str(&self) -> &str {
        match self {
            Operation::Named(name) => name,
            Operation::All => Operation::ALL,
        }
    }

    /// Whether it is the operation with this name.
    pub fn is(&self, name: &str) -> bool {
        matches!(self, Operation::Named(own) if own == name)
    }
}

impl From<String> for Operation {
    fn from(name: String) -> Self {
        if name == Operation::ALL { Operation::All } else { Operation::Named(name) }
    }
}

impl From<Operation> for String {
    fn from(operation: Operation) -> Self {
        operation.as_str().to_string()
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One operation's numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// The operation.
    pub name: Operation,
    /// Arrivals that were due; none in a foreign result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<u64>,
    /// Operations handed to the system; none in a foreign result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued: Option<u64>,
    /// Completed operations, successful or failed.
    pub completed: u64,
    /// Operations issued more than 1 ms after their intended time; none in a foreign result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Failed operations.
    pub failed: u64,
    /// Seconds in which it was active, if operations are consecutive like the steps of a synchronization; its
    /// rate then refers to these seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_s: Option<f64>,
    /// Successful operations per second: IOPS for a disk.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean number in flight, measured. NaN (`null`) in a foreign result that does not have it.
    #[serde(with = "crate::interval::absent")]
    pub concurrency: f64,
    /// Response time: from the intended start to completion.
    pub response_ms: LatencySummary,
    /// Service time: from the actual start to completion.
    pub service_ms: LatencySummary,
    /// Lag: from the intended start to the actual start.
    pub lag_ms: LatencySummary,
    /// What became of the operations that were due in the measured time; none in a foreign result and in documents of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<crate::interval::Due>,
    /// Operations that were due in the measured time and had not ended when the wait for them was over.
    #[serde(default)]
    pub censored: u64,
}

impl OperationResult {
    /// Number of operations that have a time.
    pub fn timed(&self) -> u64 {
        self.due.map_or(self.completed, |due| due.ended)
    }

    /// Number of operations that the distribution and the goals are about, censored ones included.
    pub fn judged(&self) -> u64 {
        self.timed().saturating_add(self.censored)
    }

    /// The smallest and the largest share of them that may have failed; none if there are none.
    pub fn failed_share(&self) -> Option<(f64, f64)> {
        let judged = self.judged();
        let failed = self.due.map_or(self.failed, |due| due.failed);
        let share = |failed: u64| failed as f64 / judged as f64;
        (judged > 0).then(|| (share(failed), share(failed.saturating_add(self.censored))))
    }

    /// Whether more than this share of them failed, even if all that are censored succeed.
    pub fn fails_beyond(&self, share: f64) -> bool {
        self.failed_share().is_some_and(|(least, _)| least > share)
    }

    /// Whether operations ended and all of them failed.
    pub fn failed_wholly(&self) -> bool {
        let all = |ended: u64, failed: u64| ended > 0 && failed >= ended;
        match self.due {
            Some(due) if due.ended > 0 => all(due.ended, due.failed),
            _ => all(self.completed, self.failed),
        }
    }
}

/// The use of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Metric.
    pub metric: String,
    /// Instance; empty if there is only one.
    pub instance: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Mean over the measured phase.
    pub mean: f64,
    /// Largest sample.
    pub max: f64,
    /// The value at which it is saturated; 0 if it does not indicate saturation.
    #[serde(alias = "full_at")]
    pub saturated_at: f64,
}

/// A treatment with its replicates combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The differences from the baseline.
    pub treatment: TreatmentResult,
    /// The ids of its completed trials.
    pub trials: Vec<String>,
    /// Median over the replicates of each metric of [`ComparisonRow::metric`].
    pub medians: BTreeMap<String, f64>,
    /// The metrics of `medians` of which only a lower bound is known, because operations are censored; parts of the time and
    /// transactions as `derived_ms.NAME`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub at_least: BTreeSet<String>,
    /// Relative spread of each metric over the replicates (half the range divided by the median), 0 for one
    /// replicate.
    pub spreads: BTreeMap<String, f64>,
    /// The mean time of each derived operation, milliseconds: median over the replicates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub derived_ms: BTreeMap<String, f64>,
    /// The cost of one operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<OperationCost>,
    /// The I/O of the operations of each server that was traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operation_io: Vec<ServerOperationIo>,
    /// Times and usage of the launches of a command; none of another workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<LaunchSummary>,
    /// The limit; if operations are consecutive, that of the longest step. None if no trial completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The used share of the limit: median over the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The resource closest to saturation after the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Closest>,
    /// Each step that did something, if operations are consecutive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepVerdict>,
    /// The phases of an import, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Number of passes of an import: median over the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<f64>,
    /// The loads of a neighbour beside the system under test; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbour: Vec<NeighbourRate>,
}

/// How long a phase of an import took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// Its name, such as `merging the passes`.
    pub name: String,
    /// Median over the trials, seconds; of several passes together.
    pub seconds: f64,
}

/// The launches of a command over all trials of a configuration that completed: those after the first of each trial, or the
/// first ones where there are no others. Failed launches are not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchSummary {
    /// How many.
    pub launches: u64,
    /// Mean time of one, milliseconds.
    pub mean_ms: f64,
    /// Standard deviation of the times, milliseconds; none of one launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_ms: Option<f64>,
    /// Median time, milliseconds.
    pub median_ms: f64,
    /// Shortest time, milliseconds.
    pub min_ms: f64,
    /// Longest time, milliseconds.
    pub max_ms: f64,
    /// Mean CPU time in user mode, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_ms: Option<f64>,
    /// Mean CPU time in the kernel, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_ms: Option<f64>,
    /// Most memory that a launch had resident, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

impl Configuration {
    /// The longest step; none if operations are not consecutive.
    pub fn longest_step(&self) -> Option<&StepVerdict> {
        self.steps.iter().max_by(|a, b| a.busy_s.total_cmp(&b.busy_s))
    }
}

/// The limit while one operation is active, if operations are consecutive like the steps of a
/// synchronization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepVerdict {
    /// The operation.
    pub operation: Operation,
    /// Seconds in which it was active: median over the trials.
    pub busy_s: f64,
    /// The limit.
    pub verdict: Verdict,
    /// The used share of the limit: median over the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The resource closest to saturation after the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Closest>,
}

/// The answer of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Better than the baseline: the whole interval is on the better side.
    #[serde(rename = "better")]
    Better,
    /// Worse than the baseline.
    #[serde(rename = "worse")]
    Worse,
    /// The whole interval is within the smallest relevant change.
    #[serde(rename = "same")]
    Same,
    /// Neither a difference nor its absence is shown.
    #[serde(rename = "can't tell")]
    CantTell,
}

impl Answer {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Answer::Better => "better",
            Answer::Worse => "worse",
            Answer::Same => "same",
            Answer::CantTell => "can't tell",
        }
    }
}

/// One metric of one configuration compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// Label of the treatment.
    pub configuration: String,
    /// `rate_per_s`, `bytes_per_s`, `response_ms.p50`, `response_ms.p99`, `cpu_us_per_operation`, ...
    pub metric: String,
    /// Whether a larger value is better.
    pub higher_is_better: bool,
    /// Median of the baseline's replicates.
    pub baseline: f64,
    /// Median of the configuration's replicates.
    pub treatment: f64,
    /// Whether `baseline` is only a lower bound, because operations are censored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline_is_bound: bool,
    /// Whether `treatment` is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub treatment_is_bound: bool,
    /// Treatment divided by baseline, from pairs of the same round.
    pub ratio: f64,
    /// Lower end of its 95 % interval; none if there is no finite interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end; none if there is no finite interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The smallest relative change that is relevant for this metric, which decides `same`: 0.03 is 3 %. None
    /// if unknown; charts then show no band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<f64>,
    /// The answer.
    pub answer: Answer,
    /// Number of compared pairs.
    pub pairs: u32,
    /// The method of the interval, in words.
    pub method: String,
    /// If the answer is `can't tell`: the approximate number of replicates that show a difference of this
    /// size with a probability of 80 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates_to_settle: Option<u32>,
    /// Likewise, the approximate number that shows a true difference of 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates_to_show: Option<u32>,
}

/// A measured operation rate at one level, compared with published figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// The operation.
    pub operation: String,
    /// The varied setting.
    pub factor: String,
    /// Its level, as written.
    pub level: String,
    /// The other settings: `commit_objects=10000`; empty if only one configuration was measured.
    pub series: String,
    /// Measured operations per second: median of the replicates.
    pub measured_per_s: f64,
    /// The published figures for this level.
    pub published: Vec<PublishedFigure>,
    /// The measured rate divided by the largest published one.
    pub times_largest: f64,
}

/// One figure: the value of each configuration and the published values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// A metric such as `disk.flush_s`, or a measurement of an operation, such as `export.busy_s`.
    pub metric: String,
    /// The instance of the metric; empty if there is only one, or none was read.
    pub instance: String,
    /// Unit of the values.
    pub unit: Unit,
    /// The measured value of each configuration: median of the replicates, over the measured phase.
    pub measured: Vec<FigureValue>,
    /// The published values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<FigureValue>,
    /// For rates and times of operations: how many times better the worst measured value is than the best
    /// published one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
}

/// A value of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureValue {
    /// The label of the configuration, or of the published measurement.
    pub name: String,
    /// The source of the publication; empty for a measured value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The value; none if it was not read or not published.
    pub value: Option<f64>,
}

/// A change against the baseline, and the published one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedChange {
    /// Label of the treatment.
    pub configuration: String,
    /// `rate_per_s`, or `export.rate_per_s` of an operation.
    pub metric: String,
    /// Treatment divided by baseline, as measured.
    pub ratio: f64,
    /// Lower end of its 95 % interval; none if there is no finite interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What was measured there.
    pub name: String,
    /// The source of the publication.
    pub source: String,
    /// The published ratio.
    pub published: f64,
}

/// A published response time beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedTime {
    /// The title of the publication.
    pub name: String,
    /// Its source.
    pub source: String,
    /// The varied setting.
    pub factor: String,
    /// Its level, as written.
    pub level: String,
    /// `response.p50`, or `login.response.p50` of an operation.
    pub metric: String,
    /// The shortest and the longest published time, milliseconds.
    pub published_ms: [f64; 2],
    /// The median over the trials of this configuration, milliseconds; none if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ms: Option<f64>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// What was measured.
    pub name: String,
    /// The source of the publication.
    pub source: String,
    /// Operations per second.
    pub rate_per_s: f64,
}

/// The effect of reducing and increasing each resource on throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofResult {
    /// The remaining share of a reduced resource. For an increased resource, the original amount is this
    /// share of the new one.
    pub share: f64,
    /// The host of the resources; empty for that of the load.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Each changed resource; an increased resource has a second row.
    pub rows: Vec<ProofRow>,
    /// Resources that could not be changed, with the reasons.
    #[serde(alias = "not_turned")]
    pub not_varied: Vec<NotVaried>,
    /// One minus the sum of the elasticities of the reduced resources: the share of the limit in resources
    /// that were not changed. In a closed system the elasticities of throughput with respect to all service
    /// rates and the think time add up to one.
    pub residual: Option<Estimate>,
    /// The verdict without the proof.
    pub observed: Option<Verdict>,
}

/// One change of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRow {
    /// The path of the factor.
    pub factor: String,
    /// The resource.
    pub resource: HostResource,
    /// The direction of the change.
    #[serde(rename = "turn")]
    pub direction: Direction,
    /// The level in the baseline.
    pub in_force: String,
    /// The changed level.
    pub level: String,
    /// Number of rounds in which both levels were measured.
    pub rounds: u32,
    /// The throughput at the changed level divided by that of the neighbouring baseline, geometric mean of
    /// the rounds; none without rounds.
    pub throughput_ratio: Option<f64>,
    /// The elasticity d ln throughput / d ln resource with its 95 % interval; none for fewer than two rounds.
    pub elasticity: Option<Estimate>,
    /// The answer.
    pub answer: ProofAnswer,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Reduced: shows whether the resource is needed.
    #[serde(rename = "taken")]
    Reduced,
    /// Increased: shows whether more of it would help.
    #[serde(rename = "given")]
    Raised,
}

impl Direction {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Reduced => "taken",
            Direction::Raised => "given",
        }
    }
}

/// The answer of a proof about a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofAnswer {
    /// Throughput follows the resource: the whole interval is above 0.5.
    Confirmed,
    /// Throughput follows the resource in part.
    Contributing,
    /// Throughput does not follow the resource: the whole interval is below 0.2.
    Rejected,
    /// The interval is too wide for an answer.
    Unclear,
}

impl ProofAnswer {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            ProofAnswer::Confirmed => "confirmed",
            ProofAnswer::Contributing => "contributing",
            ProofAnswer::Rejected => "rejected",
            ProofAnswer::Unclear => "unclear",
        }
    }
}

/// A resource that could not be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotVaried {
    /// The path of the factor.
    pub factor: String,
    /// The reason, and what would help.
    pub why: String,
}

/// Whether the goals were met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// Whether every planned trial completed and met every goal.
    pub met: bool,
    /// Whether the user stated a goal; otherwise the only goal is the limit of failed operations.
    #[serde(default)]
    pub stated: bool,
    /// Each goal in each trial.
    pub goals: Vec<GoalLine>,
}

impl GoalResult {
    /// How many conditions were missed, and how many are undecided.
    pub fn missed_and_undecided(&self) -> (usize, usize) {
        let open = self.goals.iter().filter(|line| !line.met);
        let undecided = open.clone().filter(|line| line.undecided).count();
        (open.count() - undecided, undecided)
    }

    /// Whether no goal was missed, and not all are met: censored operations decide at least one, or a trial did not complete, did
    /// not run, or is damaged.
    pub fn is_undecided(&self) -> bool {
        !self.met && self.goals.iter().all(|line| line.met || line.undecided)
    }
}

/// One goal in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalLine {
    /// The goal as written.
    pub goal: String,
    /// The trial.
    pub trial: String,
    /// The value, in milliseconds, per second or as a share; none if no operation completed.
    pub value: Option<f64>,
    /// The operation that has it, where the goal is one for each of several: the worst one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Whether the goal was met; false without a value.
    pub met: bool,
    /// Whether `value` is a bound that the true value can only be worse than, because operations are censored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Whether the goal is neither met nor missed: censored operations decide it, the trial did not complete, or its record is
    /// damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}
