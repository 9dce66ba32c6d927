//! The verdict as data: which resource is the limit. `report` writes the sentences.

use serde::{Deserialize, Serialize};

use crate::{HostResource, Resource};

/// The verdict: which resource is the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// One resource, or several together, are the limit.
    Bottleneck {
        /// The limit.
        limit: Limit,
        /// The index of its finding in the findings of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finding: Option<usize>,
        /// Whether it was proved: throughput followed when the resource was changed. See the proof in the
        /// result.
        proved: bool,
    },
    /// Nothing was saturated: the system has headroom.
    NotSaturated {
        /// How this is known.
        carried: UnsaturatedReason,
    },
    /// The load generator was the limit; nothing else is claimed.
    GeneratorBound {
        /// The index of its finding in the findings of the result.
        finding: usize,
    },
    /// The limit is unknown.
    Inconclusive {
        /// The reason.
        reason: InconclusiveReason,
        /// The missing data.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lacks: Vec<Missing>,
    },
}

impl Verdict {
    /// The one limiting resource; none if there is none, or several.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Verdict::Bottleneck { limit: Limit::One { resource, .. }, .. } => Some(resource),
            _ => None,
        }
    }

    /// Whether the system answered nothing any more in a fifth of the measured time or longer: that the others met a goal decides
    /// nothing.
    pub fn lacks_answers(&self) -> bool {
        match self {
            Verdict::Inconclusive {
                reason: InconclusiveReason::StoppedAnswering { at_s, measured_s, answered_later: false, .. },
                ..
            } => measured_s - at_s >= 0.2 * measured_s,
            _ => false,
        }
    }
}

/// The limiting resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// One resource.
    One {
        /// The resource.
        resource: Resource,
        /// Resources whose limits are only slightly higher.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        close_above: Vec<HostResource>,
    },
    /// Several resources together, as a proof shows.
    Together {
        /// The resources.
        resources: Vec<HostResource>,
        /// The evidence.
        sign: JointEvidence,
    },
    /// A resource and another limit close to it: reducing the resource lowers throughput, increasing it alone
    /// has no effect.
    CloseTo {
        /// The resource that was changed.
        resource: HostResource,
        /// The other limit; none if it was not changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<Resource>,
    },
}

/// The evidence that several resources are the limit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JointEvidence {
    /// Throughput fully follows each of them.
    EachFollowed,
    /// Increasing one of them alone had no effect.
    RaisingOneGainedNothing,
    /// Throughput falls when either is reduced.
    ReducingEitherCosts,
}

/// How it is known that nothing was saturated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsaturatedReason {
    /// An open load was completed as offered.
    Offered {
        /// Operations per second.
        rate_per_s: f64,
        /// 99th percentile of the response time, milliseconds.
        #[serde(with = "crate::interval::absent")]
        p99_ms: f64,
        /// Whether it is only a lower bound, because operations are censored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_bound: bool,
        /// The resource that came closest to saturation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closest: Option<Closest>,
    },
    /// The users of a closed load offered no more load.
    AllThatUsersAsked {
        /// The load in words.
        load: String,
        /// Operations per second.
        rate_per_s: f64,
        /// Mean response time, milliseconds.
        #[serde(with = "crate::interval::absent")]
        mean_ms: f64,
        /// Whether it is only a lower bound, because operations are censored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_bound: bool,
        /// The index of the finding with the headroom in the findings of the result.
        finding: usize,
    },
    /// The launched command waited by itself, for example for a timeout.
    Waited {
        /// The index of its finding in the findings of the result.
        finding: usize,
    },
    /// Throughput still grew at the largest load of a sweep.
    StillGrowing {
        /// The index of the sweep's finding in the findings of the result.
        finding: usize,
    },
}

/// How close a resource was to saturation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closest {
    /// The metric.
    pub metric: String,
    /// The instance; empty if there is only one.
    pub instance: String,
    /// The value as a share of the saturation value.
    pub share: f64,
    /// The resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
}

/// Why the limit is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InconclusiveReason {
    /// The system was only watched, without load.
    OnlyWatched,
    /// Another tool measured, and there are no counters of the system.
    NoCounters,
    /// The data that was read differs from the written data.
    Corrupted,
    /// The load and the server counted different numbers of operations.
    CountsDiffer,
    /// No trial completed.
    NothingCompleted,
    /// No trial with completed operations was recorded.
    NothingRecorded,
    /// The system stopped answering: from then on nothing succeeded until the end of the measured time.
    StoppedAnswering {
        /// Seconds since the start of the measured time.
        at_s: f64,
        /// The measured time, seconds.
        measured_s: f64,
        /// Mean number of operations that waited for an answer.
        in_flight: f64,
        /// Whether it answered some of them after the measured time.
        #[serde(default)]
        answered_later: bool,
    },
    /// Operations that never ended were a large part of those in flight.
    NeverAnswered {
        /// How many.
        operations: u64,
        /// Their share of the time that all operations were in flight.
        share: f64,
    },
    /// Every operation failed.
    AllFailed,
    /// Too many operations failed for a judgement.
    TooManyFailed,
    /// Several resources were saturated.
    SeveralSaturated {
        /// The indexes of their findings in the findings of the result.
        findings: Vec<usize>,
    },
    /// A resource was saturated only in some of the trials.
    InSomeTrials {
        /// The resource.
        resource: Resource,
        /// Number of trials with saturation.
        trials: usize,
        /// Number of judged trials.
        of_trials: usize,
        /// Resources that are ruled out.
        ruled_out: Vec<Resource>,
    },
    /// No resource was seen to be saturated.
    NothingSaturated {
        /// Resources that are ruled out.
        ruled_out: Vec<Resource>,
    },
    /// The suspected limit is not one, as the proof shows.
    Disproved {
        /// The suspected resource.
        resource: Resource,
    },
    /// The compared runs have different verdicts, or verdicts of their own.
    Sides {
        /// Each side and its verdict.
        sides: Vec<SideVerdict>,
    },
}

/// The verdict of one side of a comparison of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideVerdict {
    /// The side.
    pub label: String,
    /// Its verdict.
    pub verdict: Verdict,
}

/// The missing data or measurement for a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A completed trial.
    CompletedTrial,
    /// The intervals of a trial, with operations.
    Intervals,
    /// A run with successful operations.
    Success,
    /// A run with at most 1 % failed operations.
    FewerFailures,
    /// An experiment that changes one of the saturated resources separately.
    OneChangedAlone,
    /// Counters of a source that could not be read.
    Source(String),
    /// Counters of the system that another tool measured.
    ImportedCounters,
    /// CPU time of the load generator's threads.
    GeneratorCpu,
    /// A run in which the load generator does not wait for a CPU.
    GeneratorUndisturbed,
    /// The utilization of the CPUs.
    CpuUse,
    /// A longer trial: the kernel counts CPU time in clock ticks of 10 ms.
    LongerTrial,
    /// The block device of the files.
    Device,
    /// The queue of the block device of the files.
    DeviceQueue,
    /// A counter that shows where the operations waited.
    WhereOperationsWaited,
    /// A proof: the activity of the watched services' threads indicates no single resource.
    Proof,
    /// Runs with other loads, which show where throughput stops growing. Contains the workload's setting for
    /// the amount of load.
    OtherLoads(String),
    /// Samples of the counters while a step was active.
    SamplesOfStep,
    /// Enough samples of what the launched command waits for.
    Looks,
    /// More operations than the warm-up uses up.
    MoreOperations,
    /// A system that answers until the end of the measured time.
    Answers,
    /// Another factor: the limit was not among the changed resources.
    OtherFactor,
}
