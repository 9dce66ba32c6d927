//! Claims with their evidence, reasons to doubt, and the verdict.

use serde::{Deserialize, Serialize};

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

/// Where a number comes from: a metric of a run over a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Trial id; empty when it is about the whole experiment.
    pub run: String,
    /// Metric title, such as `disk.queue_length{vda}` or `response.p99`.
    pub metric: String,
    /// Start of the stretch, seconds on the trial's clock.
    pub begin_s: f64,
    /// Its end.
    pub end_s: f64,
    /// What was seen.
    pub observed: Estimate,
    /// What would be seen if the claim were false, or the line a rule of thumb draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Estimate>,
    /// The same as a sentence with its unit.
    pub text: String,
}

/// A claim with evidence for and against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What sort of claim.
    pub kind: FindingKind,
    /// Which detector says so.
    pub detector: String,
    /// About which part, such as `disk vda` or `cpu`; empty for an observation about the run.
    pub resource: String,
    /// The claim as one sentence with numbers.
    pub text: String,
    /// Evidence for it.
    pub evidence: Vec<Evidence>,
    /// Evidence against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Evidence>,
    /// Trials it is about, by id; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<String>,
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
    /// A neighbour took CPU time (steal).
    Neighbour,
    /// The clock did not run evenly.
    Clock,
    /// The baseline drifted over the experiment.
    Drift,
    /// Another back end was used than the usual one.
    BackEnd,
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

/// Which limit binds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// A resource limits.
    Bottleneck {
        /// Which.
        resource: String,
        /// In a sentence with numbers.
        text: String,
        /// How it was proved; none when it rests on observation alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<String>,
    },
    /// Nothing was saturated: the system would carry more.
    NotSaturated {
        /// In a sentence with numbers.
        text: String,
    },
    /// The load generator was the limit; nothing else is claimed.
    GeneratorBound {
        /// In a sentence with numbers.
        text: String,
    },
    /// It cannot be said.
    Inconclusive {
        /// In a sentence.
        text: String,
        /// What was missing.
        missing: Vec<String>,
    },
}

impl Verdict {
    /// The sentence.
    pub fn text(&self) -> &str {
        match self {
            Verdict::Bottleneck { text, .. }
            | Verdict::NotSaturated { text }
            | Verdict::GeneratorBound { text }
            | Verdict::Inconclusive { text, .. } => text,
        }
    }
}
