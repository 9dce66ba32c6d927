//! Runs steps of a metadirectory in tests.

use std::path::Path;

use plimsoll_metadir::config::{Step, StepKind};
use plimsoll_metadir::metadirectory::{Metadirectory, StepResult};
use plimsoll_metadir::stage::StepError;

/// The counters of a step.
pub(crate) type Did = Vec<(&'static str, u64)>;

pub(crate) fn try_run(
    directory: &mut Metadirectory,
    agent: usize,
    kind: StepKind,
) -> Result<StepResult, StepError> {
    directory.run(Step { agent, kind }, &mut |_| true)
}

/// Runs a step that must succeed.
pub(crate) fn run(directory: &mut Metadirectory, agent: usize, kind: StepKind) -> Did {
    let result = try_run(directory, agent, kind).unwrap();
    assert!(result.discovery_errors.is_empty() && result.failures.is_empty(), "{agent} {kind:?}: {result:?}");
    result.statistics.iter().collect()
}

/// The lines of a delimited file, sorted: attributes with a value, sorted by name. None if there is no file.
pub(crate) fn table(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let Some(header) = rows.next() else { return Vec::new() };
    let line = |row: Vec<&str>| {
        let mut cells: Vec<String> =
            header.iter().zip(row).map(|(name, value)| format!("{name}={value}")).collect();
        cells.retain(|cell| !cell.ends_with('='));
        cells.sort();
        cells.join(" ")
    };
    let mut lines: Vec<String> = rows.map(line).collect();
    lines.sort();
    lines
}
