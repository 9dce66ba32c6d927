//! How long an import of so many entries takes, from imports of fewer that were measured.

use model::import_time::{HeldOutSize, IMPORT_TIME_FORMAT, ImportLaw, ImportSize};
use model::result::{ResultDocument, TrialResult};
use model::{Ending, EntriesGoal, ImportTime, ImportTimeDocument, Level};

use crate::law::growth::{AMOUNTS_MIN, Work, amounts, predict};
use crate::statistics::median;

/// The setting with the number of entries, and the facts of an import.
const ENTRIES: &str = "workload.entries";
const LDIF_ENTRIES: &str = "ldif.entries";
const DATABASE_BYTES: &str = "database.bytes";

/// Answers for each configuration with enough numbers of entries. `memory_bytes` is that of the host.
pub fn import_time(document: &ResultDocument, goal: &EntriesGoal, memory_bytes: u64) -> ImportTimeDocument {
    let mut groups: Vec<(String, Vec<&TrialResult>)> = Vec::new();
    for trial in document.trials.iter().filter(|trial| trial.ending == Ending::Completed) {
        let changes = trial.treatment.changes.iter().filter(|change| change.factor.0 != ENTRIES);
        let label: Vec<String> =
            changes.map(|change| format!("{}={}", change.factor.name(), change.level)).collect();
        let label = label.join(", ");
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, trials)) => trials.push(trial),
            None => groups.push((label, vec![trial])),
        }
    }
    let most = groups.iter().map(|(_, trials)| amounts(&works(trials)).len()).max().unwrap_or(0);
    let configurations: Vec<ImportTime> = groups
        .iter()
        .filter_map(|(label, trials)| configuration(label, trials, goal, memory_bytes))
        .collect();
    let refusal = match most {
        _ if !configurations.is_empty() => String::new(),
        0 => "no import was completed; repeat the run, and let it end".into(),
        1.. if most < AMOUNTS_MIN => format!(
            "{most} different number{} of entries measured, and {AMOUNTS_MIN} are needed to see how the time grows, four to check \
             the prediction: vary entries, such as --vary entries=25000,50000,100000,200000",
            if most == 1 { " was" } else { "s were" }
        ),
        _ => "no law describes how the time grows with the entries; measure more replicates of each number"
            .into(),
    };
    ImportTimeDocument {
        format: IMPORT_TIME_FORMAT.into(),
        run: document.run.clone(),
        experiment: document.experiment.clone(),
        goal: goal.clone(),
        configurations,
        refusal,
    }
}

fn entries(trial: &TrialResult) -> Option<f64> {
    match trial.facts.get(LDIF_ENTRIES) {
        Some(Level::Count(entries)) if *entries > 0 => Some(*entries as f64),
        _ => None,
    }
}

fn works(trials: &[&TrialResult]) -> Vec<Work> {
    let work = |trial: &&TrialResult| {
        let work = Work { amount: entries(trial)?, seconds: trial.measured_s };
        (work.seconds > 0.0 && work.seconds.is_finite()).then_some(work)
    };
    trials.iter().filter_map(work).collect()
}

fn configuration(
    label: &str,
    trials: &[&TrialResult],
    goal: &EntriesGoal,
    memory_bytes: u64,
) -> Option<ImportTime> {
    let works = works(trials);
    let measured = amounts(&works);
    let largest = *measured.last()?;
    let answer = predict(&works, goal.entries)?;
    let size = |amount: f64| {
        let times: Vec<f64> =
            works.iter().filter(|work| work.amount == amount).map(|work| work.seconds).collect();
        Some(ImportSize { entries: amount, seconds: median(&times)?, trials: times.len() as u32 })
    };
    let sizes: Vec<ImportSize> = measured.iter().filter_map(|amount| size(*amount)).collect();
    let smaller: Vec<Work> = works.iter().filter(|work| work.amount < largest).copied().collect();
    let held_out = predict(&smaller, largest).and_then(|answer| {
        let measured_s = sizes.last()?.seconds;
        let error = answer.seconds.value / measured_s - 1.0;
        Some(HeldOutSize { entries: largest, predicted_s: answer.seconds, measured_s, error })
    });
    let bytes_per_entry = trials.iter().filter(|trial| entries(trial) == Some(largest)).find_map(|trial| {
        match trial.facts.get(DATABASE_BYTES) {
            Some(Level::Bytes(bytes)) => Some(*bytes as f64 / largest),
            _ => None,
        }
    });
    Some(ImportTime {
        configuration: label.into(),
        sizes,
        seconds: answer.seconds,
        distance: goal.entries / largest,
        laws: answer
            .laws
            .into_iter()
            .map(|(formula, seconds, weight)| ImportLaw { formula, seconds, weight })
            .collect(),
        held_out,
        database_bytes: bytes_per_entry.map(|bytes| bytes * goal.entries),
        memory_bytes: (memory_bytes > 0).then_some(memory_bytes as f64),
    })
}
