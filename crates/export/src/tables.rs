//! A record as tables in Parquet files: the operations of its result, its intervals and its readings.

use std::io::{self, Write};

use model::{LatencySummary, ResultDocument, RunRecord, Study, Unit};

use crate::Identity;
use crate::parquet::{Cell, Kind, Table};

/// The columns of the operations.
static OPERATIONS: &[(&str, Kind)] = &[
    ("host", Kind::Text),
    ("experiment", Kind::Text),
    ("workload", Kind::Text),
    ("trial", Kind::Text),
    ("treatment", Kind::Text),
    ("replicate", Kind::Count),
    ("started_time", Kind::Time),
    ("measured_s", Kind::Real),
    ("load", Kind::Text),
    ("ending", Kind::Text),
    ("operation", Kind::Text),
    ("offered", Kind::Count),
    ("issued", Kind::Count),
    ("completed", Kind::Count),
    ("late", Kind::Count),
    ("failed", Kind::Count),
    ("rate_per_s", Kind::Real),
    ("bytes_per_s", Kind::Real),
    ("concurrency", Kind::Real),
    ("response_min_ms", Kind::Real),
    ("response_mean_ms", Kind::Real),
    ("response_p50_ms", Kind::Real),
    ("response_p90_ms", Kind::Real),
    ("response_p95_ms", Kind::Real),
    ("response_p99_ms", Kind::Real),
    ("response_p999_ms", Kind::Real),
    ("response_max_ms", Kind::Real),
    ("service_min_ms", Kind::Real),
    ("service_mean_ms", Kind::Real),
    ("service_p50_ms", Kind::Real),
    ("service_p90_ms", Kind::Real),
    ("service_p95_ms", Kind::Real),
    ("service_p99_ms", Kind::Real),
    ("service_p999_ms", Kind::Real),
    ("service_max_ms", Kind::Real),
    ("lag_min_ms", Kind::Real),
    ("lag_mean_ms", Kind::Real),
    ("lag_p50_ms", Kind::Real),
    ("lag_p90_ms", Kind::Real),
    ("lag_p95_ms", Kind::Real),
    ("lag_p99_ms", Kind::Real),
    ("lag_p999_ms", Kind::Real),
    ("lag_max_ms", Kind::Real),
    ("censored", Kind::Count),
    ("response_at_least", Kind::Text),
    ("service_at_least", Kind::Text),
    ("lag_at_least", Kind::Text),
];

/// The columns of the intervals.
static INTERVALS: &[(&str, Kind)] = &[
    ("host", Kind::Text),
    ("trial", Kind::Text),
    ("treatment", Kind::Text),
    ("begin_time", Kind::Time),
    ("end_time", Kind::Time),
    ("phase", Kind::Text),
    ("load", Kind::Real),
    ("operation", Kind::Text),
    ("offered", Kind::Count),
    ("issued", Kind::Count),
    ("completed", Kind::Count),
    ("late", Kind::Count),
    ("failed", Kind::Count),
    ("bytes", Kind::Count),
    ("concurrency", Kind::Real),
    ("response_min_ms", Kind::Real),
    ("response_mean_ms", Kind::Real),
    ("response_p50_ms", Kind::Real),
    ("response_p90_ms", Kind::Real),
    ("response_p95_ms", Kind::Real),
    ("response_p99_ms", Kind::Real),
    ("response_p999_ms", Kind::Real),
    ("response_max_ms", Kind::Real),
    ("service_min_ms", Kind::Real),
    ("service_mean_ms", Kind::Real),
    ("service_p50_ms", Kind::Real),
    ("service_p90_ms", Kind::Real),
    ("service_p95_ms", Kind::Real),
    ("service_p99_ms", Kind::Real),
    ("service_p999_ms", Kind::Real),
    ("service_max_ms", Kind::Real),
];

/// The columns of the readings: a row for each value that is not absent.
static READINGS: &[(&str, Kind)] = &[
    ("host", Kind::Text),
    ("trial", Kind::Text),
    ("treatment", Kind::Text),
    ("begin_time", Kind::Time),
    ("end_time", Kind::Time),
    ("metric", Kind::Text),
    ("instance", Kind::Text),
    ("unit", Kind::Text),
    ("value", Kind::Real),
];

/// A time of a trial's clock in microseconds since 1970.
fn time<'a>(started_unix_ns: u64, at_s: f64) -> Cell<'a> {
    Cell::Time(((at_s * 1e6).round() as i64).saturating_add((started_unix_ns / 1000) as i64))
}

/// The statistics in the order of their columns; nothing completed without a time.
fn times<'a>(of: &LatencySummary, completed: u64) -> impl Iterator<Item = Cell<'a>> {
    let parts = LatencySummary::PARTS.map(|part| of.part(part).filter(|_| completed > 0));
    parts.into_iter().map(|part| Cell::Real(part.unwrap_or(f64::NAN)))
}

fn text(text: &str) -> Cell<'_> {
    if text.is_empty() { Cell::Absent } else { Cell::Text(text) }
}

/// Writes the operations of each trial in its measured phase. Returns the number of rows.
///
/// # Errors
/// Those of `out`.
pub fn operations_parquet(document: &ResultDocument, out: &mut dyn Write) -> io::Result<u64> {
    let mut table = Table::begin(OPERATIONS, out)?;
    for trial in &document.trials {
        let ending = trial.ending.to_string();
        for of in trial.operations.iter().chain(&trial.derived) {
            let mut cells = vec![
                text(&document.host.name),
                text(&document.experiment),
                text(&document.workload),
                text(&trial.trial),
                text(&trial.treatment.label),
                Cell::Count(u64::from(trial.replicate)),
                time(trial.started_unix_ns, 0.0),
                Cell::Real(trial.measured_s),
                text(&trial.load),
                text(&ending),
                text(of.name.as_str()),
                of.offered.into(),
                of.issued.into(),
                Cell::Count(of.completed),
                of.late.into(),
                Cell::Count(of.failed),
                Cell::Real(of.rate_per_s),
                Cell::Real(of.bytes_per_s),
                Cell::Real(of.concurrency),
            ];
            let summaries = [&of.response_ms, &of.service_ms, &of.lag_ms];
            for summary in summaries {
                cells.extend(times(summary, of.judged()));
            }
            cells.push(Cell::Count(of.censored));
            // The statistics of which only a lower bound is known.
            let bounds = summaries.map(|summary| Vec::<String>::from(summary.at_least).join(" "));
            cells.extend(bounds.iter().map(|names| text(names)));
            table.push(&cells)?;
        }
    }
    table.finish()
}

/// Writes the intervals of all trials. Returns the number of rows.
///
/// # Errors
/// Those of `out`.
pub fn intervals_parquet(study: &Study, out: &mut dyn Write) -> io::Result<u64> {
    let mut table = Table::begin(INTERVALS, out)?;
    for RunRecord { run, intervals, .. } in &study.runs {
        let identity = Identity::of(study, run);
        for of in intervals {
            let mut cells = vec![
                text(&identity.host),
                text(&identity.trial),
                text(&identity.treatment),
                time(run.started_unix_ns, of.begin_s),
                time(run.started_unix_ns, of.end_s),
                text(of.phase.word()),
                Cell::Real(of.load),
                text(&of.operation),
                of.offered.into(),
                of.issued.into(),
                Cell::Count(of.completed),
                of.late.into(),
                Cell::Count(of.failed),
                Cell::Count(of.bytes),
                Cell::Real(of.concurrency),
            ];
            cells.extend(times(&of.response, of.completed).chain(times(&of.service, of.completed)));
            table.push(&cells)?;
        }
    }
    table.finish()
}

/// Writes the readings of all trials, one counter after the other. Returns the number of rows.
///
/// # Errors
/// Those of `out`.
pub fn readings_parquet(study: &Study, out: &mut dyn Write) -> io::Result<u64> {
    let mut table = Table::begin(READINGS, out)?;
    for RunRecord { run, readings, .. } in &study.runs {
        let identity = Identity::of(study, run);
        for (column, values) in readings.columns.iter().zip(&readings.values) {
            for (at, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                table.push(&[
                    text(&identity.host),
                    text(&identity.trial),
                    text(&identity.treatment),
                    time(run.started_unix_ns, readings.begin_s[at]),
                    time(run.started_unix_ns, readings.end_s[at]),
                    text(&column.metric.name),
                    text(&column.instance),
                    text(unit(column.metric.unit)),
                    Cell::Real(*value),
                ])?;
            }
        }
    }
    table.finish()
}

/// The unit of a value.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::PerSecond => "1/s",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes/s",
        Unit::Seconds => "s",
        Unit::Share => "share",
        Unit::Cpus => "cpus",
    }
}

#[cfg(test)]
mod tests;
