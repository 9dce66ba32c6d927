//! Claims with their evidence, and doubts.

use serde::{Deserialize, Serialize};

use crate::{Claim, Operation, Resource, Unit};

/// A number with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// A value without uncertainty.
    pub fn exact(value: f64) -> Self {
        Estimate { value, low: value, high: value }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// This resource is a limit.
    Limits,
    /// This resource is not a limit.
    RuledOut,
    /// An event that affects the interpretation of the numbers: a cache was exhausted, a rate changed.
    Observation,
}

/// The meaning of a reference value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The value, or the range, beyond which the finding would not be true.
    Threshold,
    /// A common rule of thumb, which is shown but not used for the judgement.
    RuleOfThumb,
    /// The same metric at other times of the trial.
    OtherTimes,
}

/// A measured number: a metric of a trial over a period of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The id of the trial; empty for the whole experiment.
    pub run: String,
    /// Metric title, such as `disk.queue_length{vda}` or `response.p99`.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Start of the period, seconds on the trial's clock.
    pub begin_s: f64,
    /// End of the period.
    pub end_s: f64,
    /// The observed value.
    pub observed: Estimate,
    /// The reference value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Estimate>,
    /// The meaning of `expected`; none means a threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// The two levels of the varied setting; none if it is about one trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Levels>,
}

impl Evidence {
    /// An observed value of a metric in a trial between two times, without uncertainty.
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

    /// Adds the value, or the range, beyond which the finding would not be true.
    pub fn threshold(self, expected: Estimate) -> Self {
        Evidence { expected: Some(expected), comparison: Some(Comparison::Threshold), ..self }
    }

    /// Adds a rule of thumb as the reference value.
    pub fn rule_of_thumb(self, expected: Estimate) -> Self {
        Evidence { expected: Some(expected), comparison: Some(Comparison::RuleOfThumb), ..self }
    }

    /// Adds the value of the same metric at other times of the trial, if it was read then.
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
    /// The higher level.
    pub to: String,
    /// The other settings; empty if there is only one curve.
    pub series: String,
    /// The throughput at the higher level divided by that at the lower one.
    pub throughput_ratio: f64,
}

/// A finding: a claim with evidence for and against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of claim.
    pub kind: FindingKind,
    /// Which detector found it.
    pub detector: Detector,
    /// The resource; none for an observation about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Resource>,
    /// The side of a comparison of runs; none within one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// The step, if operations are consecutive; none for all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Operation>,
    /// The claim, with the numbers of the trial that shows it most clearly.
    pub claim: Claim,
    /// Evidence for it.
    pub evidence: Vec<Evidence>,
    /// Evidence against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Evidence>,
    /// The ids of its trials; empty for all trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<String>,
    /// For a limit: the share of it that was used in each of these trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<f64>,
    /// Number of trials that were examined.
    #[serde(default)]
    pub of_trials: usize,
}

/// The detectors, each for one kind of sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// Whether the load generator was the limit.
    Generator,
    /// Pauses of the service.
    Pauses,
    /// The activity of the service's threads.
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
    /// The responses of a server.
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

/// Why a number is less reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// Throughput was not steady in the measured time.
    Unsteady,
    /// Little's law is violated: the measured concurrency differs from throughput times response time.
    LittlesLaw,
    /// Fewer operations were issued than offered.
    NotIssued,
    /// Operations that were due in the measured time had not ended when the wait for them was over.
    Censored,
    /// Far more operations ended after the measured time than were in flight in it on average.
    Backlog,
    /// The generator lacked CPU time.
    Generator,
    /// Reads or writes did not reach the device.
    NotTheDevice,
    /// Blocks read were holes or never written.
    Holes,
    /// A cache below the file system answered part of the operations.
    HiddenCache,
    /// Written data may still be in a volatile cache.
    VolatileCache,
    /// The written data compresses or repeats.
    Compressible,
    /// Paths that are meant to be separate are on the same device.
    SharedDevice,
    /// A setting differs from the requested one.
    NotInForce,
    /// Nothing went through the proxy of a dependency.
    NoTraffic,
    /// A counter source could not be read.
    MissingSource,
    /// Operations failed.
    Failures,
    /// The data that was read differs from the written data.
    Corrupted,
    /// The server sent responses that no request asked for.
    Unsolicited,
    /// Responses may be incomplete: nothing says where they end.
    Incomplete,
    /// Searches succeeded and found nothing.
    NothingFound,
    /// The certificate of the server was not verified.
    Unverified,
    /// Some addresses of a server got no load, because they did not accept a connection.
    LeftOut,
    /// The load and the server counted different numbers of operations.
    CountsDiffer,
    /// The trial ended early.
    CutShort,
    /// Too few replicates, or trials not interleaved.
    Replication,
    /// Too little time or too few operations for the percentile.
    FewSamples,
    /// The measured time has too few intervals or samples of the counters for a judgement.
    Short,
    /// The response times include the load generator's own delay.
    OwnLag,
    /// Another virtual machine took CPU time (steal).
    Neighbour,
    /// The clock was uneven.
    Clock,
    /// The baseline drifted over the experiment.
    Drift,
    /// A back end other than the usual one was used.
    BackEnd,
    /// The compared configurations were driven by different back ends.
    BackEndsDiffer,
    /// The record is damaged or incomplete.
    Damaged,
}

/// A doubt: a reason why a number is less reliable, shown next to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// The kind of doubt.
    pub kind: DoubtKind,
    /// The observation, with numbers.
    pub text: String,
    /// What to try next; empty if nothing helps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
}

impl Doubt {
    /// A doubt with its help text.
    pub fn new(kind: DoubtKind, text: impl Into<String>, help: impl Into<String>) -> Self {
        Doubt { kind, text: text.into(), help: help.into() }
    }
}
