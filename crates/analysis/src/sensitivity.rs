//! How the time of an operation depends on the delay of each dependency: a line by least squares through the trials, each
//! trial one value, against the round trip that the proxy really added.
//!
//! Its slope is the number of round trips that an operation waits for, one after the other: the mean response time is the
//! sum of its parts, so each of these round trips makes it longer by the delay.

use std::collections::BTreeMap;

use model::sensitivity::facts::{ADDED_DOWN, ADDED_UP, BYTES, MEASURED_CONNECTIONS, MEASURED_EXCHANGES};
use model::sensitivity::{LevelTime, NEGLIGIBLE, Sensitivity, SensitivityAnswer, TimeMeasure};
use model::{Ending, Experiment, Level, Operation, Study, Treatment};

use crate::law::line;
use crate::plan::plan_of;
use crate::statistics::{CONFIDENCE, mean, median, student_t_quantile};
use model::result::{OperationResult, TrialResult};

/// A deviation from the line below this share of the range of times, and of the largest delay, is none.
const STRAIGHT_SHARE: f64 = 0.1;

/// One trial at a level of delay.
struct Value {
    level: Level,
    added_ms: f64,
    time_ms: f64,
}

/// The sensitivity of each operation to each dependency whose delay was varied: by operation, the largest first.
pub(crate) fn sensitivities(study: &Study, trials: &[TrialResult]) -> Vec<Sensitivity> {
    let factors = delays(study, trials);
    let mut operations: Vec<(Operation, TimeMeasure)> = Vec::new();
    for operation in trials.iter().flat_map(shown) {
        let measure = measure(operation);
        if !operations.iter().any(|(known, _)| *known == operation.name) {
            operations.push((operation.name.clone(), measure));
        }
    }
    // The time of steps that follow one another is that of each.
    if operations.iter().any(|(_, measure)| *measure == TimeMeasure::Elapsed) {
        operations.retain(|(_, measure)| *measure == TimeMeasure::Elapsed);
    }
    let mut all = Vec::new();
    for (operation, measure) in operations {
        let mut rows: Vec<Sensitivity> = factors
            .iter()
            .filter_map(|factor| sensitivity(study, trials, factor, (&operation, measure)))
            .collect();
        let size = |row: &Sensitivity| row.round_trips.unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
        all.extend(rows);
    }
    all
}

/// The factors that were varied and delay a dependency: their proxies report the added delay.
fn delays(study: &Study, trials: &[TrialResult]) -> Vec<String> {
    let mut factors: Vec<String> = Vec::new();
    for change in study.runs.iter().flat_map(|record| record.run.trial.treatment.changes()) {
        let path = &change.factor.0;
        let fact = format!("{path}.{ADDED_UP}");
        if !factors.contains(path) && trials.iter().any(|trial| trial.facts.contains_key(&fact)) {
            factors.push(path.clone());
        }
    }
    factors.sort();
    factors
}

/// Operations, and those that consist of others, such as transactions; not the parts of operations, such as `get:connect`.
fn shown(trial: &TrialResult) -> impl Iterator<Item = &OperationResult> {
    let whole = trial.derived.iter().filter(|operation| !operation.name.as_str().contains(':'));
    trial.operations.iter().chain(whole)
}

fn measure(operation: &OperationResult) -> TimeMeasure {
    if operation.busy_s.is_some() { TimeMeasure::Elapsed } else { TimeMeasure::Response }
}

fn time_ms(operation: &OperationResult, measure: TimeMeasure) -> Option<f64> {
    let completed = operation.completed as f64;
    let time_ms = match measure {
        TimeMeasure::Response => operation.response_ms.mean,
        TimeMeasure::Elapsed => operation.busy_s? * 1e3 / completed,
    };
    (completed > 0.0 && time_ms.is_finite()).then_some(time_ms)
}

fn ms(trial: &TrialResult, factor: &str, fact: &str) -> Option<f64> {
    match trial.facts.get(&format!("{factor}.{fact}"))? {
        Level::Time(ns) => Some(*ns as f64 / 1e6),
        _ => None,
    }
}

fn count(trial: &TrialResult, factor: &str, fact: &str) -> Option<f64> {
    match trial.facts.get(&format!("{factor}.{fact}"))? {
        Level::Count(count) | Level::Bytes(count) => Some(*count as f64),
        _ => None,
    }
}

/// The trials in which at most this factor differs from the baseline, with its level.
fn trials_of<'a>(
    study: &'a Study,
    trials: &'a [TrialResult],
    factor: &'a str,
) -> impl Iterator<Item = (Level, &'a TrialResult)> {
    study.runs.iter().zip(trials).filter_map(move |(record, trial)| {
        let run = &record.run;
        let level = match &run.trial.treatment {
            Treatment::Baseline => run.asked.get(factor).cloned().unwrap_or(Level::Time(0)),
            Treatment::OneChange(change) if change.factor.0 == factor => change.level.clone(),
            _ => return None,
        };
        (run.ending == Ending::Completed).then_some((level, trial))
    })
}

fn sensitivity(
    study: &Study,
    trials: &[TrialResult],
    factor: &str,
    (operation, measure): (&Operation, TimeMeasure),
) -> Option<Sensitivity> {
    let mut values = Vec::new();
    let (mut has_traffic, mut exchanges, mut connections) = (false, Vec::new(), Vec::new());
    for (level, trial) in trials_of(study, trials, factor) {
        has_traffic |= count(trial, factor, BYTES).is_some_and(|bytes| bytes > 0.0);
        let found = shown(trial).find(|of| of.name == *operation);
        let Some(time_ms) = found.and_then(|of| time_ms(of, measure)) else { continue };
        let added = ms(trial, factor, ADDED_UP).zip(ms(trial, factor, ADDED_DOWN));
        let Some(added_ms) = added.map(|(up, down)| up + down) else { continue };
        if trial.treatment.changes.is_empty() {
            let completed = trial.whole().map_or(0.0, |whole| whole.completed as f64);
            let per_operation = |fact| count(trial, factor, fact).map(|count| count / completed);
            exchanges.extend(per_operation(MEASURED_EXCHANGES).filter(|each| each.is_finite()));
            connections.extend(per_operation(MEASURED_CONNECTIONS).filter(|each| each.is_finite()));
        }
        values.push(Value { level, added_ms, time_ms });
    }
    let levels = by_level(&values);
    if levels.len() < 2 {
        return None;
    }
    // A trial in which only one kind of operation completed has no sum of all.
    let is_whole = trials.iter().all(|trial| trial.whole().is_none_or(|whole| whole.name == *operation));
    let mut row = Sensitivity {
        operation: operation.clone(),
        measure,
        dependency: name(plan_of(study), factor),
        factor: factor.into(),
        answer: SensitivityAnswer::NoTraffic,
        round_trips: None,
        low: None,
        high: None,
        undelayed_ms: None,
        exchanges: median(&exchanges).filter(|_| is_whole && measure == TimeMeasure::Response),
        connections: median(&connections).filter(|_| is_whole && measure == TimeMeasure::Response),
        levels,
    };
    if has_traffic {
        fit(&mut row, &values)?;
    }
    Some(row)
}

fn name(plan: Option<&Experiment>, factor: &str) -> String {
    let dependency = plan.and_then(|plan| plan.dependency(factor)).map(|dependency| dependency.name.clone());
    dependency.unwrap_or_else(|| factor.rsplit('.').next().unwrap_or(factor).to_string())
}

/// The values at each level, in the order of the added delay.
fn by_level(values: &[Value]) -> Vec<LevelTime> {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for value in values {
        groups.entry(value.level.to_string()).or_default().push(value);
    }
    let of = |group: Vec<&Value>| {
        let added: Vec<f64> = group.iter().map(|value| value.added_ms).collect();
        let trials_ms: Vec<f64> = group.iter().map(|value| value.time_ms).collect();
        Some(LevelTime { added_ms: mean(&added)?, time_ms: mean(&trials_ms)?, trials_ms })
    };
    let mut levels: Vec<LevelTime> = groups.into_values().filter_map(of).collect();
    levels.sort_by(|a, b| a.added_ms.total_cmp(&b.added_ms));
    levels
}

/// Fits the line, and finds the answer. None if the delays do not differ.
fn fit(row: &mut Sensitivity, values: &[Value]) -> Option<()> {
    let rows: Vec<Vec<f64>> = values.iter().map(|value| vec![1.0, value.added_ms]).collect();
    let times: Vec<f64> = values.iter().map(|value| value.time_ms).collect();
    let solution = line(&rows, &times)?;
    let (undelayed_ms, slope) = (*solution.parameters.first()?, *solution.parameters.get(1)?);
    if !undelayed_ms.is_finite() || !slope.is_finite() {
        return None;
    }
    row.undelayed_ms = Some(undelayed_ms);
    row.round_trips = Some(slope);
    let quantile = |degrees: usize| student_t_quantile(0.5 + CONFIDENCE / 2.0, degrees as f64);
    let stderr = solution.stderr(&[0.0, 1.0]).filter(|_| solution.degrees > 0);
    if let Some(half) =
        stderr.map(|stderr| stderr * quantile(solution.degrees)).filter(|half| half.is_finite())
    {
        (row.low, row.high) = (Some(slope - half), Some(slope + half));
    }
    row.answer = match row.low.zip(row.high) {
        _ if !is_straight(&row.levels, undelayed_ms, slope, quantile) => SensitivityAnswer::NotLinear,
        Some((low, _)) if low > 0.0 => SensitivityAnswer::Depends,
        Some((_, high)) if high <= NEGLIGIBLE => SensitivityAnswer::None,
        _ => SensitivityAnswer::Unclear,
    };
    Some(())
}

/// Whether the mean at each level is on the line, as far as the scatter of the trials shows.
fn is_straight(levels: &[LevelTime], undelayed_ms: f64, slope: f64, quantile: impl Fn(usize) -> f64) -> bool {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else { return true };
    let range_ms = last.added_ms - first.added_ms;
    let degrees: usize = levels.iter().map(|level| level.trials_ms.len().saturating_sub(1)).sum();
    let squares =
        |level: &LevelTime| level.trials_ms.iter().map(|time| (time - level.time_ms).powi(2)).sum::<f64>();
    let scatter_ms = match degrees {
        0 => 0.0,
        _ => (levels.iter().map(squares).sum::<f64>() / degrees as f64).sqrt() * quantile(degrees),
    };
    let allowed_ms = STRAIGHT_SHARE * range_ms * slope.abs().max(1.0);
    levels.iter().all(|level| {
        let deviation_ms = (level.time_ms - undelayed_ms - slope * level.added_ms).abs();
        deviation_ms <= allowed_ms.max(scatter_ms / (level.trials_ms.len() as f64).sqrt())
    })
}
