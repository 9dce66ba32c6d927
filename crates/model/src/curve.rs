//! Throughput and times as functions of a varied number.

use serde::{Deserialize, Serialize};

/// A sweep: one line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The varied setting: `workload.block_size`, or `load` for steps within a run.
    pub factor: String,
    /// The other, fixed settings: `outstanding=8`; empty if there is only one line.
    pub series: String,
    /// The operation, if operations are consecutive; none for all of them.
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
    /// Number of replicates.
    pub replicates: u32,
    /// Operations per second: median, smallest, largest of the replicates.
    pub rate_per_s: [f64; 3],
    /// Bytes per second, likewise.
    pub bytes_per_s: [f64; 3],
    /// Mean response time in milliseconds, likewise.
    #[serde(with = "crate::interval::absent_three")]
    pub mean_ms: [f64; 3],
    /// 99th percentile of the response time in milliseconds, likewise.
    #[serde(with = "crate::interval::absent_three")]
    pub p99_ms: [f64; 3],
    /// `mean` and `p99` where only a lower bound is known, because operations are censored.
    #[serde(default, skip_serializing_if = "crate::interval::Statistics::is_empty")]
    pub at_least: crate::interval::Statistics,
    /// Whether operations that never ended were a large part of those in flight: the throughput may be limited by them alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unanswered: bool,
}
