//! Which limit binds, as data. `report` writes the sentences.

use serde::{Deserialize, Serialize};

use crate::{HostResource, Resource};

/// Which limit binds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// A resource limits, or several at once.
    Bottleneck {
        /// Which.
        limit: Limit,
        /// The finding it rests on, by its place in the findings of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finding: Option<usize>,
        /// True when it was proved: throughput followed the resource when that was changed. See the proof of the result.
        proved: bool,
    },
    /// Nothing was saturated: the system would carry more.
    NotSaturated {
        /// How that is known.
        carried: Carried,
    },
    /// The load generator was the limit; nothing else is claimed.
    GeneratorBound {
        /// The finding it rests on, by its place in the findings of the result.
        finding: usize,
    },
    /// It cannot be said.
    Inconclusive {
        /// Why not.
        reason: Unclear,
        /// What was missing.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lacks: Vec<Missing>,
    },
}

impl Verdict {
    /// The one resource that limits; none when there is none, or several.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Verdict::Bottleneck { limit: Limit::One { resource, .. }, .. } => Some(resource),
            _ => None,
        }
    }
}

/// What limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// One resource.
    One {
        /// Which.
        resource: Resource,
        /// Resources that would limit just above it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        close_above: Vec<HostResource>,
    },
    /// Several at once, as a proof shows.
    Together {
        /// Which.
        resources: Vec<HostResource>,
        /// How that was seen.
        sign: Together,
    },
    /// A resource and something else, close to each other: less of it costs throughput, more of it alone gains nothing.
    CloseTo {
        /// The resource that was changed.
        resource: HostResource,
        /// What limits beside it; none for what was not changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<Resource>,
    },
}

/// How it shows that several resources limit at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Together {
    /// Throughput follows each of them fully.
    EachFollowed,
    /// Raising one alone gained nothing.
    RaisingOneGainedNothing,
    /// Throughput falls when either is reduced.
    ReducingEitherCosts,
}

/// How it is known that nothing was saturated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// An open load was carried whole.
    Offered {
        /// Operations per second.
        rate_per_s: f64,
        /// 99th percentile of the response time, milliseconds.
        p99_ms: f64,
        /// The resource that came closest to saturation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closest: Option<Closest>,
    },
    /// The users of a closed load asked for no more.
    AllThatUsersAsked {
        /// The load in words.
        load: String,
        /// Operations per second.
        rate_per_s: f64,
        /// Mean response time, milliseconds.
        mean_ms: f64,
        /// The finding that shows the headroom, by its place in the findings of the result.
        finding: usize,
    },
    /// The command that was launched waited by itself, as for a time that it chose.
    Waited {
        /// The finding that shows it, by its place in the findings of the result.
        finding: usize,
    },
    /// Throughput still grew with the load at the largest load of a sweep.
    StillGrowing {
        /// The finding of the sweep, by its place in the findings of the result.
        finding: usize,
    },
}

/// How close a resource came to saturation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closest {
    /// The metric.
    pub metric: String,
    /// Which instance; empty when there is only one.
    pub instance: String,
    /// Share of the value at which it is saturated.
    pub share: f64,
    /// Which resource that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
}

/// Why it cannot be said what limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unclear {
    /// Nothing was driven, only watched.
    OnlyWatched,
    /// What was read back is not what was written.
    Corrupted,
    /// No trial completed.
    NothingCompleted,
    /// Of no trial that completed an operation was recorded.
    NothingRecorded,
    /// Every operation failed.
    AllFailed,
    /// More of the operations failed than a judgement bears.
    TooManyFailed,
    /// Several resources were saturated.
    SeveralSaturated {
        /// Their findings, by their places in the findings of the result.
        findings: Vec<usize>,
    },
    /// A resource was saturated in some of the trials only.
    InSomeTrials {
        /// Which.
        resource: Resource,
        /// In how many trials.
        trials: usize,
        /// Of how many that were judged.
        of_trials: usize,
        /// Resources that were ruled out.
        ruled_out: Vec<Resource>,
    },
    /// No resource was seen to be saturated.
    NothingSaturated {
        /// Resources that were ruled out.
        ruled_out: Vec<Resource>,
    },
    /// What looked like the limit is none, as the proof shows.
    Disproved {
        /// What looked like it.
        resource: Resource,
    },
    /// The runs that are compared have different verdicts, or each its own.
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

/// What was missing for a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A trial that completed.
    CompletedTrial,
    /// The intervals of a trial, with operations.
    Intervals,
    /// A run whose operations succeed.
    Success,
    /// A run in which at most 1 % of the operations fail.
    FewerFailures,
    /// An experiment that changes one of the saturated resources alone.
    OneChangedAlone,
    /// Counters that could not be read, by their source.
    Source(String),
    /// CPU time of the load generator's threads.
    GeneratorCpu,
    /// A run in which the load generator does not wait for a CPU.
    GeneratorUndisturbed,
    /// How busy the CPUs were.
    CpuUse,
    /// The device behind the files.
    Device,
    /// The queue of the device behind the files.
    DeviceQueue,
    /// A counter of where the operations waited.
    WhereOperationsWaited,
    /// A proof: what the threads of the watched services did points to no single resource.
    Proof,
    /// Runs with other loads, which show where throughput stops growing: the setting of the workload that says how much load
    /// there is.
    OtherLoads(String),
    /// Samples of the counters while a step was at work.
    SamplesOfStep,
    /// Enough looks at what the launched command waits for.
    Looks,
    /// What limits instead: it was not among what was changed.
    OtherFactor,
}
