//! Counters beside the thresholds that administrators know.

use model::ResultDocument;
use model::result::{Severity, ThresholdResult};

use crate::labels::instance;
use crate::table::{Cell, Table};
use crate::text::Quantity;

/// Every threshold for which there are counters; none if there are none.
pub(crate) fn thresholds(document: &ResultDocument) -> Option<Table> {
    if document.thresholds.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "thresholds of PAL, a second opinion",
        &["counter", "?instance", ">mean", ">warning", ">critical", "PAL says"],
    );
    for row in &document.thresholds {
        table.row(vec![
            Cell::words(row.counter.clone()),
            Cell::words(instance(&row.instance)),
            value(row, row.value),
            value(row, row.warning),
            row.critical.map_or_else(Cell::default, |critical| value(row, critical)),
            Cell::words(match row.severity {
                None => "within",
                Some(Severity::Warning) => "warning",
                Some(Severity::Critical) => "critical",
            }),
        ]);
    }
    table.note = "They know neither the load nor the system, and decide nothing here. Source: PAL 2 (Performance Analysis of \
                  Logs), Quick System Overview 1.9; PAL compares each part of a log, this is the mean."
        .into();
    Some(table)
}

fn value(row: &ThresholdResult, value: f64) -> Cell {
    Cell::shown(value, Quantity::of(row.unit).show(value))
}
