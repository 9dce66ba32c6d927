//! Requested and published figures of each configuration.

use std::collections::BTreeMap;

use model::experiment::FigureName;
use model::metric::split_instance;
use model::result::{FigureRow, FigureValue, TrialResult};
use model::{Experiment, Study, Unit};

use crate::configuration::Group;
use crate::measured::Measured;
use crate::statistics::median;

/// A row for each figure: those of `show` first, then those that were only published, in the order of the
/// file.
pub(crate) fn rows(
    experiment: &Experiment,
    study: &Study,
    groups: &[Group],
    trials: &[TrialResult],
) -> Vec<FigureRow> {
    let published =
        experiment.published.iter().flat_map(|published| published.figures.iter().map(|(name, _)| name));
    let mut names: Vec<&FigureName> = Vec::new();
    for name in experiment.show.iter().chain(published) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(|name| row(experiment, study, groups, trials, name)).collect()
}

fn row(
    experiment: &Experiment,
    study: &Study,
    groups: &[Group],
    trials: &[TrialResult],
    name: &FigureName,
) -> FigureRow {
    let instance =
        name.instance.clone().or_else(|| largest_instance(study, groups, name)).unwrap_or_default();
    let measured: Vec<FigureValue> = groups
        .iter()
        .filter(|group| !group.trials.is_empty())
        .map(|group| {
            let values = group.trials.iter().filter_map(|at| match name.of_operation() {
                Some((operation, part)) => of_operation(trials.get(*at)?, operation, part),
                None => mean_of(study, *at, name, &instance),
            });
            let label = group.treatment.label();
            FigureValue { name: label, source: String::new(), value: median(&values.collect::<Vec<f64>>()) }
        })
        .collect();
    let published: Vec<FigureValue> = experiment
        .published
        .iter()
        .filter(|published| !published.figures.is_empty())
        .map(|published| {
            let figure = published.figures.iter().find(|(of, _)| of == name);
            FigureValue {
                name: published.name.clone(),
                source: published.source.clone(),
                value: figure.map(|(_, value)| *value),
            }
        })
        .collect();
    let times = times(name, &measured, &published);
    FigureRow { metric: name.metric.clone(), instance, unit: name.unit(), measured, published, times }
}

/// How many times better the worst measured value is than the best published one. "Better" is defined only
/// for rates and times of operations.
fn times(name: &FigureName, measured: &[FigureValue], published: &[FigureValue]) -> Option<f64> {
    name.of_operation()?;
    let values = |of: &[FigureValue]| of.iter().filter_map(|figure| figure.value).collect::<Vec<f64>>();
    let (measured, published) = (values(measured), values(published));
    let least = |of: &[f64]| of.iter().copied().reduce(f64::min);
    let most = |of: &[f64]| of.iter().copied().reduce(f64::max);
    let times = match name.unit() {
        Unit::PerSecond => least(&measured)? / most(&published)?,
        _ => least(&published)? / most(&measured)?,
    };
    times.is_finite().then_some(times)
}

fn of_operation(trial: &TrialResult, operation: &str, part: &str) -> Option<f64> {
    let of = trial.operations.iter().find(|of| of.name.is(operation) && of.completed > 0)?;
    match part {
        "busy_s" => of.busy_s.or(Some(trial.measured_s)),
        _ => Some(of.rate_per_s),
    }
}

fn means<'a>(study: &'a Study, at: usize, metric: &str) -> Vec<(&'a str, f64)> {
    let Some(record) = study.runs.get(at) else { return Vec::new() };
    let measured = Measured::of(record);
    measured
        .all_columns()
        .filter(|(_, column)| column.metric.name == metric)
        .filter_map(|(at, column)| Some((column.instance.as_str(), measured.column(at)?)))
        .collect()
}

fn mean_of(study: &Study, at: usize, name: &FigureName, instance: &str) -> Option<f64> {
    means(study, at, &name.metric).into_iter().find(|(of, _)| *of == instance).map(|(_, mean)| mean)
}

/// The instance with the largest mean over all trials, because most of many disks are idle.
fn largest_instance(study: &Study, groups: &[Group], name: &FigureName) -> Option<String> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for at in groups.iter().flat_map(|group| &group.trials) {
        for (instance, mean) in means(study, *at, &name.metric) {
            *sums.entry(instance).or_default() += mean;
        }
    }
    // One of another host is named.
    if sums.keys().any(|instance| split_instance(instance).0.is_empty()) {
        sums.retain(|instance, _| split_instance(instance).0.is_empty());
    }
    let largest = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(largest.0.to_string())
}
