//! Every number that is shown anywhere: `result.json`, the `--json` of every measuring command, and what the
//! terminal and the page draw. Names in it are public interface: more may be added, nothing renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cost::{Difference, OperationCost};
use crate::run::{Origin, WorkloadTraits};
use crate::verdict::Closest;
use crate::{
    Change, Doubt, Ending, Estimate, Finding, Host, HostResource, LatencySummary, Level, Unit, Verdict,
};

/// The format word of a result document.
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
    /// The workload's kind.
    pub workload: String,
    /// Whether load was driven, or the system only watched.
    #[serde(default)]
    pub origin: Origin,
    /// What sort of load the workload is.
    #[serde(default)]
    pub traits: WorkloadTraits,
    /// The load in words: "32 in flight".
    pub load: String,
    /// Where it ran.
    pub host: Host,
    /// Every trial in order of execution.
    pub trials: Vec<TrialResult>,
    /// Each configuration, replicates taken together, the baseline first.
    pub configurations: Vec<Configuration>,
    /// Each configuration against the baseline, metric by metric.
    pub comparison: Vec<ComparisonRow>,
    /// Why each configuration is faster or slower than the baseline: the difference of the cost of an operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Throughput and latency against a varied number: block size, queue depth, load.
    pub curves: Vec<Curve>,
    /// What is measured beside what others have published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedRow>,
    /// Figures that were asked for, and those that others have published for no factor, of each configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BesideRow>,
    /// What was found out.
    pub findings: Vec<Finding>,
    /// What taking a part of each resource, and giving more of it, did to throughput; none unless it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofResult>,
    /// Doubts about the experiment as a whole; those about one trial stand with it.
    pub doubts: Vec<Doubt>,
    /// Which limit binds.
    pub verdict: Verdict,
    /// Whether it was good enough; none when no goal was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalResult>,
}

/// A treatment in words and in data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreatmentResult {
    /// `baseline`, `block_size=64KiB`.
    pub label: String,
    /// What differs from the baseline.
    pub changes: Vec<Change>,
    /// Every setting that the experiment varies, with its level in this configuration: of the baseline too. Empty where
    /// nothing is varied, for a side of a comparison, and in documents of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Change>,
    /// True for a side of a comparison of runs: it is named after its run, and `changes` are what its settings differ in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_side: bool,
}

/// One trial's numbers, all of the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its id, which is its folder.
    pub trial: String,
    /// What differs from the baseline.
    pub treatment: TreatmentResult,
    /// Which repetition.
    pub replicate: u32,
    /// Start, RFC 3339-free: nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Seconds measured.
    pub measured_s: f64,
    /// The load in words.
    pub load: String,
    /// Each operation; when there are several, `all` comes last.
    pub operations: Vec<OperationResult>,
    /// CPU microseconds of the generator's threads per operation; none when nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_operation: Option<f64>,
    /// Resources over the measured phase, most saturated first.
    pub resources: Vec<ResourceUse>,
    /// What the workload found out about what it drives.
    pub facts: BTreeMap<String, Level>,
    /// Reasons to trust these numbers less.
    pub doubts: Vec<Doubt>,
    /// How it ended: `completed`, `interrupted`, `failed: why`, `running` for a killed one.
    #[serde(with = "ending_text")]
    pub ending: Ending,
}

/// How a trial ended, as one text.
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
    /// The operation that stands for the whole trial: `all`, or the only one that is no support of others, which comes
    /// first.
    pub fn whole(&self) -> Option<&OperationResult> {
        let all = self.operations.iter().find(|operation| operation.name == Operation::All);
        all.or_else(|| self.operations.first())
    }

    /// Operations in flight on average, of every kind.
    pub fn in_flight(&self) -> f64 {
        let named = self.operations.iter().filter(|operation| operation.name != Operation::All);
        named.map(|operation| operation.concurrency).sum()
    }

    /// True when operations completed and every one of them failed.
    pub fn failed_wholly(&self) -> bool {
        self.whole().is_some_and(|whole| whole.completed > 0 && whole.failed >= whole.completed)
    }
}

/// Which operation numbers are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Operation {
    /// The one of this name.
    Named(String),
    /// All operations of the trial together.
    #[default]
    All,
}

impl Operation {
    /// The word for all of them.
    pub const ALL: &str = "all";

    /// Its name, or the word for all.
    pub fn as_str(&self) -> &str {
        match self {
            Operation::Named(name) => name,
            Operation::All => Operation::ALL,
        }
    }

    /// Whether it is the one of this name.
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
    /// Which one.
    pub name: Operation,
    /// Arrivals that were due.
    pub offered: u64,
    /// Handed to the system.
    pub issued: u64,
    /// Done, well or failed.
    pub completed: u64,
    /// Issued more than 1 ms after their intended time.
    pub late: u64,
    /// Failed.
    pub failed: u64,
    /// Seconds in which it was the one at work, where operations follow one another as the steps of a synchronization do;
    /// its rate is then over these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_s: Option<f64>,
    /// Done well per second: IOPS for a disk.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean number in flight, measured.
    pub concurrency: f64,
    /// Intended start to done.
    pub response_ms: LatencySummary,
    /// Issued to done.
    pub service_ms: LatencySummary,
    /// Intended to issued.
    pub lag_ms: LatencySummary,
}

/// How much of a resource was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Metric.
    pub metric: String,
    /// Instance; empty when there is only one.
    pub instance: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Mean over the measured phase.
    pub mean: f64,
    /// Largest sample.
    pub max: f64,
    /// The value at which it is full; 0 when it is no sign of saturation.
    pub full_at: f64,
}

/// A treatment with its replicates taken together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// What differs from the baseline.
    pub treatment: TreatmentResult,
    /// Ids of its trials that completed.
    pub trials: Vec<String>,
    /// Median over the replicates of each metric of [`ComparisonRow::metric`].
    pub medians: BTreeMap<String, f64>,
    /// Relative spread over the replicates of each (half the range over the median), 0 for one replicate.
    pub spreads: BTreeMap<String, f64>,
    /// What one operation costs in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<OperationCost>,
    /// Which limit binds in it, of the step that took longest where operations follow one another; none when none of its
    /// trials completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How much of the limit was used, as a share: median over the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The resource that came closest to saturation after the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Closest>,
    /// Each step that did something, where operations follow one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepVerdict>,
}

impl Configuration {
    /// The step that took longest; none where operations do not follow one another.
    pub fn longest_step(&self) -> Option<&StepVerdict> {
        self.steps.iter().max_by(|a, b| a.busy_s.total_cmp(&b.busy_s))
    }
}

/// Which limit binds while one operation is at work, where operations follow one another as the steps of a synchronization do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepVerdict {
    /// Which one.
    pub operation: Operation,
    /// Seconds in which it was the one at work: median over the trials.
    pub busy_s: f64,
    /// Which limit binds.
    pub verdict: Verdict,
    /// How much of the limit was used, as a share: median over the trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The resource that came closest to saturation after the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Closest>,
}

/// What a comparison answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Better than the baseline, the whole interval says so.
    #[serde(rename = "better")]
    Better,
    /// Worse.
    #[serde(rename = "worse")]
    Worse,
    /// The whole interval lies inside the smallest change that matters.
    #[serde(rename = "same")]
    Same,
    /// No difference shown, nor its absence.
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

/// One metric of one configuration against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// Label of the treatment.
    pub configuration: String,
    /// `rate_per_s`, `bytes_per_s`, `response_ms.p50`, `response_ms.p99`, `cpu_us_per_operation`, ...
    pub metric: String,
    /// True when a larger value is better.
    pub higher_is_better: bool,
    /// Median of the baseline's replicates.
    pub baseline: f64,
    /// Median of the configuration's replicates.
    pub treatment: f64,
    /// Treatment over baseline, from pairs of the same round.
    pub ratio: f64,
    /// Lower end of its 95 % interval; equal to `high` never: none is given as 0 and infinity is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end; none when one pair cannot give an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The smallest relative change that matters for this metric, which decides `same`: 0.03 is 3 %. None when
    /// it is not known; the charts then draw no band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<f64>,
    /// In a word.
    pub answer: Answer,
    /// Pairs compared.
    pub pairs: u32,
    /// How the interval was made, in words.
    pub method: String,
    /// When it cannot be told: about how many replicates would settle a difference of this size, with a chance of four
    /// in five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates_to_settle: Option<u32>,
    /// Likewise: about how many would show a true difference of 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates_to_show: Option<u32>,
}

/// A sweep: one line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The varied setting: `workload.block_size`, or `load` for steps inside a run.
    pub factor: String,
    /// The other settings held fixed: `outstanding=8`; empty when there is only one line.
    pub series: String,
    /// The operation it is about, where operations follow one another; none for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Points in order of the level.
    pub points: Vec<CurvePoint>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The level as a number (bytes, users, per second).
    pub level: f64,
    /// The level as written.
    pub label: String,
    /// Replicates behind it.
    pub replicates: u32,
    /// Operations per second: median, smallest, largest of the replicates.
    pub rate_per_s: [f64; 3],
    /// Bytes per second, likewise.
    pub bytes_per_s: [f64; 3],
    /// Mean response time in milliseconds, likewise.
    pub mean_ms: [f64; 3],
    /// 99th percentile of the response time in milliseconds, likewise.
    pub p99_ms: [f64; 3],
}

/// What was measured of one operation at one level, beside what others have published for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// The operation.
    pub operation: String,
    /// The varied setting.
    pub factor: String,
    /// Its level, as written.
    pub level: String,
    /// The other settings: `commit_objects=10000`; empty when only one configuration was measured.
    pub series: String,
    /// Operations per second measured: median of the replicates.
    pub measured_per_s: f64,
    /// What was published for this level.
    pub published: Vec<PublishedFigure>,
    /// What was measured over the largest that was published.
    pub times_largest: f64,
}

/// One figure: of each configuration, and what others have published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideRow {
    /// A metric such as `disk.flush_s`, or what was measured of an operation, such as `export.busy_s`.
    pub metric: String,
    /// Which instance of the metric; empty when there is only one, or none was read.
    pub instance: String,
    /// Unit of the values.
    pub unit: Unit,
    /// What was measured, for each configuration: median of the replicates, over the measured phase.
    pub measured: Vec<BesideFigure>,
    /// What was published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<BesideFigure>,
    /// Of rates and times of operations: how many times better the weakest that was measured is than the best that was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
}

/// A figure of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideFigure {
    /// Label of the configuration, or what was measured there.
    pub name: String,
    /// Where it was published; empty where it was measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The value; none where it was not read, or not published.
    pub value: Option<f64>,
}

/// A figure that somebody published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// What was measured there.
    pub name: String,
    /// Where it was published.
    pub source: String,
    /// Operations per second.
    pub rate_per_s: f64,
}

/// What taking a part of each resource, and giving more of it, did to throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofResult {
    /// The share of a resource that was left where a part was taken; where more was given, what was in force is this share
    /// of it.
    pub share: f64,
    /// Each resource that was turned; one of which more was given has a second row for that.
    pub rows: Vec<ProofRow>,
    /// Resources that could not be turned, and why.
    pub not_turned: Vec<NotTurned>,
    /// One less the elasticities of what was taken: the share of the limit that lies in what was not turned. In a closed system the
    /// elasticities of throughput to all service rates and to the think time add up to one.
    pub residual: Option<Estimate>,
    /// The verdict as it would stand without the proof.
    pub observed: Option<Verdict>,
}

/// One resource that was turned, one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRow {
    /// The factor's path.
    pub factor: String,
    /// Which resource it changes.
    pub resource: HostResource,
    /// Which way.
    pub turn: Turn,
    /// What was in force.
    pub in_force: String,
    /// What was put in force instead.
    pub level: String,
    /// Rounds in which both were measured.
    pub rounds: u32,
    /// Throughput under it over that of the baseline beside it, the geometric mean of the rounds; none without one.
    pub throughput_ratio: Option<f64>,
    /// d ln throughput / d ln resource with its 95 % interval; none before two rounds.
    pub elasticity: Option<Estimate>,
    /// In a word.
    pub answer: ProofAnswer,
}

/// Which way a resource is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// A part of it was taken: shows whether it is needed.
    Taken,
    /// More of it was given: shows whether more would help.
    Given,
}

impl Turn {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Turn::Taken => "taken",
            Turn::Given => "given",
        }
    }
}

/// What a proof answers about a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofAnswer {
    /// Throughput follows it: the whole interval lies above 0.5.
    Confirmed,
    /// Throughput follows it in part.
    Contributing,
    /// Throughput does not follow it: the whole interval lies below 0.2.
    Rejected,
    /// The interval is too wide to say.
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

/// A resource that could not be turned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotTurned {
    /// The factor's path.
    pub factor: String,
    /// Why, and what would help.
    pub why: String,
}

/// Whether what was stated as good enough was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// Every goal met by every trial.
    pub met: bool,
    /// Whether the user stated a goal; else it is that too many operations failed.
    #[serde(default)]
    pub stated: bool,
    /// Each goal and trial.
    pub goals: Vec<GoalLine>,
}

/// One goal against one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalLine {
    /// The goal as written.
    pub goal: String,
    /// The trial.
    pub trial: String,
    /// The value, in milliseconds, per second or as a share; none when nothing completed.
    pub value: Option<f64>,
    /// Whether it was met; false when there is no value.
    pub met: bool,
}
