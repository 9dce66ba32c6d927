//! Access patterns of a profile, reads beside writes.

use model::ResultDocument;

use crate::table::{Cell, Table};
use crate::{labels, tables};

/// Reads beside writes, one row for each access pattern, as CrystalDiskMark shows them; none unless every pattern was both
/// read and written.
pub(crate) fn reads_and_writes(document: &ResultDocument) -> Option<Table> {
    let heads: Vec<String> =
        (0..document.configurations.len()).map(|at| labels::head(document, at)).collect();
    let place = |pattern: &str, direction: &str| {
        heads.iter().position(|head| head.strip_suffix(direction).map(str::trim_end) == Some(pattern))
    };
    let mut patterns: Vec<(&str, usize, usize)> = Vec::new();
    for pattern in heads.iter().filter_map(|head| head.strip_suffix(" read")) {
        patterns.push((pattern, place(pattern, " read")?, place(pattern, " write")?));
    }
    if patterns.is_empty() || 2 * patterns.len() != heads.len() {
        return None;
    }
    let names = ["bytes_per_s", "rate_per_s", "response_ms.mean"];
    let median = |at: usize, name: &str| document.configurations[at].medians.get(name).copied();
    let scales = names.map(|name| {
        tables::metric(name, &document.traits)
            .quantity
            .scale((0..heads.len()).filter_map(|at| median(at, name)))
    });
    let columns: Vec<String> = scales
        .iter()
        .flat_map(|scale| ["read", "write"].map(|direction| format!(">{direction}, {}", scale.unit)))
        .collect();
    let columns: Vec<&str> = std::iter::once("pattern").chain(columns.iter().map(String::as_str)).collect();
    let mut table = Table::new("", &columns);
    for (pattern, read, write) in patterns {
        let mut cells = vec![Cell::words(pattern)];
        for (name, scale) in names.iter().zip(&scales) {
            cells.extend([read, write].map(|at| {
                let is_bound = document.configurations[at].at_least.contains(*name);
                let cell = |value| Cell::number(value, scale).bounded(is_bound);
                median(at, name).map_or_else(|| Cell::words("-"), cell)
            }));
        }
        table.row(cells);
    }
    Some(table)
}
