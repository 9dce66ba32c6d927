//! What an audit finds in a result.

use serde::{Deserialize, Serialize};

use crate::figure::Span;

/// The format identifier of an audit.
pub const AUDIT_FORMAT: &str = "plimsoll.audit/1";

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The result cannot be relied on for what it says.
    Doubtful,
    /// Figures that cannot all be right.
    Contradiction,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// The rate times the elapsed time is not the count.
    Count,
    /// The rate times the block size is not the throughput.
    Throughput,
    /// The throughput times the elapsed time is not the data.
    Data,
    /// Little's law: the rate times the response time is more than is in flight.
    MoreInFlight,
    /// Little's law: the rate times the response time is much less than is in flight.
    LessInFlight,
    /// A percentile, or an end of the range, is larger than one above it.
    Order,
    /// The mean is outside what the percentiles allow.
    Mean,
    /// No times between the ends of the range have this mean and this deviation.
    Deviation,
    /// The deviation is half of the range, but the mean is not its middle.
    HalfRange,
    /// One quantity is stated with several values.
    Differs,
    /// The shares of a histogram do not add up to 100 %.
    Shares,
    /// The mean is not that of the histogram.
    HistogramMean,
    /// More operations failed than there were.
    Failed,
    /// It is said to be so many times faster, but the rates or the times say otherwise.
    TimesFaster,
    /// It is said to be so many percent slower, but the rates say otherwise.
    PercentSlower,
    /// For the same count, the ratio of the rates is not that of the times.
    RatioOfTimes,
    /// Rate and response time in percent of the base, at as many in flight, are not the inverse of each other.
    EqualInFlight,
    /// The rate is above a stated ceiling.
    Ceiling,
    /// The rate or the throughput is above a limit that the user named.
    Limit,
    /// Two results have the same figures.
    Identical,
    /// Too few operations for a percentile.
    FewSamples,
    /// The measured time is short.
    Short,
    /// The begin of the measured time has another rate than the rest: a warm-up.
    WarmUp,
    /// Nothing was completed for a while.
    Stall,
    /// The percentiles leave out what an open load would have waited in stalls.
    HiddenWaiting,
    /// The first trial differs from its replicates: caches.
    FirstTrial,
    /// A reason to trust a number less, which is in each result too.
    Doubt {
        /// The observation.
        text: String,
        /// What to try; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        help: String,
    },
}

/// A figure that a finding names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedFigure {
    /// What it is of: `rate`, `p99`.
    pub name: String,
    /// As stated, or as measured.
    pub text: String,
}

/// A finding of an audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// What is wrong.
    pub kind: AuditKind,
    /// How much it matters.
    pub severity: Severity,
    /// The result: a trial, a row, or the name that the report gives it.
    pub of: String,
    /// The line of the file, from 1; 0 where there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u64,
    /// The figures that do not fit.
    pub figures: Vec<NamedFigure>,
    /// What follows from all but the last of them, in the base unit; none if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Span>,
    /// The same, as shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub follows_text: String,
}

fn is_zero(line: &u64) -> bool {
    *line == 0
}

/// The audit of a file or run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// [`AUDIT_FORMAT`].
    pub format: String,
    /// The file or the run directory.
    pub of: String,
    /// Number of results in it.
    pub results: usize,
    /// Number of figures that were compared.
    pub figures: usize,
    /// What was found, the contradictions first.
    pub findings: Vec<AuditFinding>,
}

impl Audit {
    /// The largest severity; none if nothing was found.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
