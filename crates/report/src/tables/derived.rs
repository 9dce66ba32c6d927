//! Parts of operations, such as what a server reports of its time, and several operations together, such as transactions.

use model::result::TrialResult;
use model::{LatencySummary, ResultDocument};

use super::{SIDE_BY_SIDE, letter};
use crate::labels;
use crate::table::{Cell, Table};
use crate::text::Quantity;

/// Most columns of the means by configuration.
const COLUMNS_MAX: usize = 8;

/// What is in the name of a part that the server reports.
const OF_SERVER: &str = ":server:";

/// The times of these operations in a trial; none if there are none.
pub(crate) fn derived(trial: &TrialResult) -> Option<Table> {
    let parts =
        |summary: &LatencySummary| LatencySummary::PARTS.map(|part| summary.part(part).unwrap_or(f64::NAN));
    let scale = Quantity::Milliseconds
        .scale(trial.derived.iter().flat_map(|operation| parts(&operation.response_ms)));
    let unit = format!("time, {}", scale.unit);
    let heads = [&unit, ">count", "?>min", ">mean", ">p50", ">p90", "?>p95", ">p99", ">p99.9", ">max"];
    let mut table = Table::new("", &heads);
    for operation in &trial.derived {
        let count = operation.completed as f64;
        let mut cells =
            vec![Cell::words(operation.name.as_str()), Cell::number(count, &Quantity::Count.scale([count]))];
        let summary = &operation.response_ms;
        cells.extend(LatencySummary::PARTS.map(|part| Cell::statistic(summary, part, &scale)));
        table.row(cells);
    }
    (!trial.derived.is_empty()).then_some(table)
}

/// Their mean times in each configuration; none where there are not several to compare.
pub(crate) fn derived_means(document: &ResultDocument) -> Option<Table> {
    let names = names(document);
    if names.len() < 2 || document.configurations.len() < 2 || document.limit.is_some() {
        return None;
    }
    let shown = names.get(..COLUMNS_MAX).unwrap_or(&names);
    let means = document
        .configurations
        .iter()
        .flat_map(|each| shown.iter().filter_map(|name| each.derived_ms.get(*name)));
    let scale = Quantity::Milliseconds.scale(means.copied());
    let mut heads = vec![format!("mean, {}", scale.unit)];
    heads.extend(shown.iter().map(|name| format!(">{name}")));
    let mut table = Table::new("parts of the time", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    let has_letters = !labels::letters(document).is_empty();
    for (at, configuration) in document.configurations.iter().enumerate() {
        let label = match has_letters && document.configurations.len() <= SIDE_BY_SIDE {
            true => letter(at),
            false => labels::labelled(document, &configuration.treatment.label),
        };
        let value = |name: &str| configuration.derived_ms.get(name).copied().unwrap_or(f64::NAN);
        let mut cells = vec![Cell::words(label)];
        let is_bound = |name: &str| configuration.at_least.contains(&format!("derived_ms.{name}"));
        cells.extend(shown.iter().map(|name| Cell::number(value(name), &scale).bounded(is_bound(name))));
        table.row(cells);
    }
    if names.len() > shown.len() {
        table.note = format!("and {} more", names.len() - shown.len());
    }
    Some(table)
}

/// The part of the server's own time that changed most towards the change of throughput: its name, and the means before and
/// after, milliseconds.
pub(crate) fn server_part<'d>(
    document: &'d ResultDocument,
    label: &str,
    is_faster: bool,
) -> Option<(&'d str, f64, f64)> {
    let baseline = document.configurations.first()?;
    let treatment = document.configurations.iter().find(|each| each.treatment.label == label)?;
    let changes = baseline.derived_ms.iter().filter_map(|(name, before)| {
        let (_, part) = name.split_once(OF_SERVER)?;
        Some((part, *before, *treatment.derived_ms.get(name)?))
    });
    changes
        .filter(|(_, before, after)| (after < before) == is_faster)
        .filter(|(_, before, after)| (after - before).abs() >= 0.1 * before.max(*after))
        .max_by(|a, b| (a.2 - a.1).abs().total_cmp(&(b.2 - b.1).abs()))
}

/// The names of those that were completed, in the order of the trials.
fn names(document: &ResultDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let done = document.trials.iter().flat_map(|trial| &trial.derived);
    for operation in done.filter(|operation| operation.completed > 0) {
        if !names.contains(&operation.name.as_str()) {
            names.push(operation.name.as_str());
        }
    }
    names
}
