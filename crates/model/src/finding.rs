//! Claims with their evidence, and reasons to doubt.

use serde::{Deserialize, Serialize};

use crate::{Claim, Operation, Resource, Unit};

/// A number with the interval it is believed to lie in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Best single value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// A value known as exactly as it is written.
    pub fn exact(value: f64) -> Self {
        Estimate { value, low: value, high: value }
    }
}

/// What a finding claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// This resource limits.
    Limits,
    /// This resource does not limit.
    RuledOut,
    /// Something happened that changes how numbers should be read: a cache ran out, a rate changed.
    Observation,
}

/// What an observed number is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The value, or the range, from which on the finding would not hold.
    Threshold,
    /// What administrators go by; shown, and judges nothing.
    RuleOfThumb,
    /// The same metric at other times of the trial.
    OtherTimes,
}

/// Where a number comes from: a metric of a trial over a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Trial id; empty when it is about the whole experiment.
    pub run: String,
    /// Metric title, such as `disk.queue_length{vda}` or `response.p99`.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Start of the stretch, seconds on the trial's clock.
    pub begin_s: f64,
    /// Its end.
    pub end_s: f64,
    /// What was seen.
    pub observed: Estimate,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Estimate>,
    /// What `expected` is; a threshold where it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// From which level of a varied setting to which; none where it is about one trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Levels>,
}

impl Evidence {
    /// What was seen of a metric of a trial between two times, known as exactly as it is written.
    pub fn new(run: &str, metric: impl Into<String>, unit: Unit, span_s: (f64, f64), observed: f64) -> Self {
        Evidence {
            run: run.into(),
            metric: metric.into(),
            unit,
            begin_s: span_s.0,
            end_s: span_s.1,
            observed: Estimate::exact(observed),
            expected: None,
            comparison: None,
            between: None,
        }
    }

    /// Compared with the value, or the range, from which on the finding would not hold.
    pub fn threshold(self, expected: Estimate) -> Self {
        Evidence { expected: Some(expected), comparison: Some(Comparison::Threshold), ..self }
    }

    /// Compared with what administrators go by.
    pub fn rule_of_thumb(self, expected: Estimate) -> Self {
        Evidence { expected: Some(expected), comparison: Some(Comparison::RuleOfThumb), ..self }
    }

    /// Compared with the same metric at other times of the trial, where it was read then.
    pub fn other_times(self, value: Option<f64>) -> Self {
        match value {
            Some(value) => Evidence {
                expected: Some(Estimate::exact(value)),
                comparison: Some(Comparison::OtherTimes),
                ..self
            },
            None => self,
        }
    }
}

/// Two levels of a varied setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// The setting.
    pub factor: String,
    /// The lower level as written.
    pub from: String,
    /// The higher one.
    pub to: String,
    /// The other settings; empty when there is one curve.
    pub series: String,
    /// How many times the throughput of the lower one the higher one has.
    pub throughput_ratio: f64,
}

/// A claim with evidence for and against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What sort of claim.
    pub kind: FindingKind,
    /// Which detector found it.
    pub detector: Detector,
    /// About which resource; none for an observation about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Resource>,
    /// The side of a comparison of runs that it is about; none within one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// The step that it is about, where operations follow one another; none for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Operation>,
    /// What it claims, with the numbers of the trial that shows it most clearly.
    pub claim: Claim,
    /// Evidence for it.
    pub evidence: Vec<Evidence>,
    /// Evidence against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Evidence>,
    /// Trials it is about, by id; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<String>,
    /// Of a limit: how much of it was used in each of these trials, as a share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<f64>,
    /// How many trials were looked at for it.
    #[serde(default)]
    pub of_trials: usize,
}

/// What looks at a record for one kind of sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// Whether the load generator was the limit.
    Generator,
    /// Pauses of the service.
    Pauses,
    /// What the threads of the service did.
    Service,
    /// Disks.
    Disk,
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// The network.
    Network,
    /// Throughput over a varied load.
    Load,
    /// Changes of throughput.
    Steadiness,
    /// Launches of a command.
    Launches,
    /// What a server answered.
    Responses,
}

impl Detector {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Detector::Generator => "generator",
            Detector::Pauses => "pauses",
            Detector::Service => "service",
            Detector::Disk => "disk",
            Detector::Cpu => "cpu",
            Detector::Memory => "memory",
            Detector::Network => "network",
            Detector::Load => "load",
            Detector::Steadiness => "steadiness",
            Detector::Launches => "launches",
            Detector::Responses => "responses",
        }
    }
}

/// Why a number deserves less trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Throughput was not steady in the measured time.
    Unsteady,
    /// Recorded concurrency and throughput times response time disagree.
    LittlesLaw,
    /// Fewer operations were issued than offered.
    NotIssued,
    /// The generator was short of CPU or of time.
    Generator,
    /// Reads or writes did not reach the device.
    NotTheDevice,
    /// Blocks read were holes or never written.
    Holes,
    /// A cache below the file system answered part of the operations.
    HiddenCache,
    /// Data written may still be in a volatile cache.
    VolatileCache,
    /// The written data compresses or repeats.
    Compressible,
    /// A setting in force is not the one asked for.
    NotInForce,
    /// A counter source could not be read.
    MissingSource,
    /// Operations failed.
    Failures,
    /// What was read back is not what was written.
    Corrupted,
    /// The trial ended early.
    CutShort,
    /// Too few replicates, or trials not interleaved.
    Replication,
    /// Too little time or too few operations for the percentile shown.
    FewSamples,
    /// The measured time holds too few intervals or samples of the counters to judge by.
    Short,
    /// The load generator's own delay is in the response times.
    OwnLag,
    /// A neighbour took CPU time (steal).
    Neighbour,
    /// The clock did not run evenly.
    Clock,
    /// The baseline drifted over the experiment.
    Drift,
    /// Another back end was used than the usual one.
    BackEnd,
    /// Configurations that are compared were driven by different back ends.
    BackEndsDiffer,
    /// The record is damaged or incomplete.
    Damaged,
}

/// A reason to trust a number less, shown beside the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// Which.
    pub kind: DoubtKind,
    /// What was seen, with numbers.
    pub text: String,
    /// What to try next; empty when nothing can be done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
}

impl Doubt {
    /// A doubt with what to try next.
    pub fn new(kind: DoubtKind, text: impl Into<String>, help: impl Into<String>) -> Self {
        Doubt { kind, text: text.into(), help: help.into() }
    }
}
