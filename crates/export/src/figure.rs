//! The figures of an interval of an operation that OpenMetrics and OTLP carry.

use model::{Interval, LatencySummary, Unit};

use crate::name::Name;

/// How a figure relates to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureKind {
    /// Counted in each interval; the formats have the sum since the begin of the trial.
    Counted,
    /// The value of the interval.
    Value,
}

/// A figure of an interval.
pub(crate) struct Figure {
    name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) kind: FigureKind,
    /// One sentence.
    pub(crate) about: &'static str,
    /// The value; none if it is not known.
    pub(crate) value: fn(&Interval) -> Option<f64>,
}

impl Figure {
    pub(crate) fn name(&self) -> Name {
        Name::new(self.name, self.unit)
    }
}

const fn figure(
    name: &'static str,
    unit: Unit,
    kind: FigureKind,
    about: &'static str,
    value: fn(&Interval) -> Option<f64>,
) -> Figure {
    Figure { name, unit, kind, about, value }
}

fn count(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// A time in seconds; none if nothing completed, or if another tool does not report it.
pub(crate) fn time(of: &Interval, ms: f64) -> Option<f64> {
    // Times of the record are whole nanoseconds: 0.379136 ms is 0.000379136 s.
    Some((ms * 1e6).round() / 1e9).filter(|seconds| of.completed > 0 && seconds.is_finite())
}

/// All of them but the percentiles.
pub(crate) static FIGURES: &[Figure] = &[
    figure(
        "operations.completed",
        Unit::Count,
        FigureKind::Counted,
        "Completed operations, successful or failed",
        |of| count(Some(of.completed)),
    ),
    figure("operations.failed", Unit::Count, FigureKind::Counted, "Failed operations", |of| {
        count(Some(of.failed))
    }),
    figure("operations.offered", Unit::Count, FigureKind::Counted, "Arrivals that were due", |of| {
        count(of.offered)
    }),
    figure(
        "operations.issued",
        Unit::Count,
        FigureKind::Counted,
        "Operations that were issued to the system",
        |of| count(of.issued),
    ),
    figure(
        "operations.late",
        Unit::Count,
        FigureKind::Counted,
        "Operations issued more than 1 ms after their intended time",
        |of| count(of.late),
    ),
    // A load that moves no bytes has none, and another tool may not report them.
    figure(
        "operations.moved_bytes",
        Unit::Bytes,
        FigureKind::Counted,
        "Bytes moved by successful operations",
        |of| count(Some(of.bytes).filter(|bytes| *bytes > 0)),
    ),
    figure(
        "operations.in_flight",
        Unit::Count,
        FigureKind::Value,
        "Mean number of operations in flight",
        |of| Some(of.concurrency).filter(|value| value.is_finite()),
    ),
    figure(
        "load",
        Unit::Count,
        FigureKind::Value,
        "Requested load at the end of the interval: users, or operations per second",
        |of| Some(of.load).filter(|value| value.is_finite()),
    ),
    figure(
        "response.mean",
        Unit::Seconds,
        FigureKind::Value,
        "Mean response time: from the intended start to completion",
        |of| time(of, of.response.mean),
    ),
    figure(
        "service.mean",
        Unit::Seconds,
        FigureKind::Value,
        "Mean service time: from the actual start to completion",
        |of| time(of, of.service.mean),
    ),
];

/// Percentiles of an interval: the name, what it is, and its times.
pub(crate) type Percentiles = (&'static str, &'static str, fn(&Interval) -> &LatencySummary);

/// The percentiles of an interval.
pub(crate) static PERCENTILES: [Percentiles; 2] = [
    (
        "response.quantile",
        "Quantiles of the response time in each interval, 0 is the minimum and 1 the maximum",
        |of| &of.response,
    ),
    (
        "service.quantile",
        "Quantiles of the service time in each interval, 0 is the minimum and 1 the maximum",
        |of| &of.service,
    ),
];

/// A quantile and its time in milliseconds.
type Quantile = (&'static str, fn(&LatencySummary) -> f64);

/// The quantiles of a summary.
pub(crate) static QUANTILES: [Quantile; 7] = [
    ("0", |of| of.min),
    ("0.5", |of| of.p50),
    ("0.9", |of| of.p90),
    ("0.95", |of| of.p95),
    ("0.99", |of| of.p99),
    ("0.999", |of| of.p999),
    ("1", |of| of.max),
];

/// The histograms of an operation: the name, and what it is.
pub(crate) static HISTOGRAMS: [(&str, &str); 3] = [
    ("response.time", "Response times: from the intended start to completion"),
    ("service.time", "Service times: from the actual start to completion"),
    ("lag.time", "Lags: from the intended to the actual start"),
];
