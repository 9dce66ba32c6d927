//! Measurements compared with published figures.

use model::experiment::Published;
use model::result::{
    ComparisonRow, Curve, CurvePoint, PublishedChange, PublishedFigure, PublishedRow, PublishedTime,
    TrialResult,
};
use model::{Ending, Experiment, Level, Variation};

use crate::plan::{level_of, treatments};
use crate::statistics::median;

/// Each published change beside the measured one of each configuration that was compared with the baseline: of those that
/// change its factor, if it names one.
pub(crate) fn changes(experiment: &Experiment, comparison: &[ComparisonRow]) -> Vec<PublishedChange> {
    let mut all = Vec::new();
    let treatments = treatments(experiment);
    for published in &experiment.published {
        let is_meant = |label: &str| match &published.factor {
            None => true,
            Some(factor) => treatments.iter().any(|treatment| {
                treatment.label() == label
                    && treatment.changes().iter().any(|change| change.factor == *factor)
            }),
        };
        for (metric, ratio) in &published.changes {
            let rows = comparison.iter().filter(|row| row.metric == *metric && is_meant(&row.configuration));
            all.extend(rows.map(|row| PublishedChange {
                configuration: row.configuration.clone(),
                metric: metric.clone(),
                ratio: row.ratio,
                low: row.low,
                high: row.high,
                name: published.name.clone(),
                source: published.source.clone(),
                published: *ratio,
            }));
        }
    }
    all
}

/// Each published response time beside the measured one of the configuration in which only this factor has this level.
pub(crate) fn times(experiment: &Experiment, trials: &[TrialResult]) -> Vec<PublishedTime> {
    let mut rows = Vec::new();
    for published in &experiment.published {
        let variation =
            experiment.vary.iter().find(|variation| Some(&variation.factor) == published.factor.as_ref());
        let Some(variation) = variation else { continue };
        for times in &published.times {
            for (level, published_ms) in &times.times_ms {
                let is_there = |trial: &&TrialResult| {
                    trial.ending == Ending::Completed
                        && level_of(experiment, &trial.treatment.changes, variation) == Some(level)
                };
                let time = |trial: &TrialResult| match &times.operation {
                    None => trial.whole()?.response_ms.part(&times.part),
                    Some(name) => {
                        trial.operations.iter().find(|of| of.name.is(name))?.response_ms.part(&times.part)
                    }
                };
                let measured: Vec<f64> = trials.iter().filter(is_there).filter_map(time).collect();
                rows.push(PublishedTime {
                    name: published.name.clone(),
                    source: published.source.clone(),
                    factor: variation.factor.0.clone(),
                    level: level.to_string(),
                    metric: times.metric(),
                    published_ms: *published_ms,
                    measured_ms: median(&measured).filter(|time| time.is_finite()),
                });
            }
        }
    }
    rows
}

/// A row for each operation, level and configuration with a published figure: in the order of the curves, and then of the levels
/// that are no numbers, which have no curve.
pub(crate) fn rows(experiment: &Experiment, curves: &[Curve], trials: &[TrialResult]) -> Vec<PublishedRow> {
    let mut operations: Vec<&String> =
        experiment.published.iter().flat_map(|published| published.rates_per_s.keys()).collect();
    operations.sort();
    operations.dedup();
    let of_operation = |operation: &str, curve: &Curve| -> Vec<PublishedRow> {
        let Some(series) = series(curve, operation) else { return Vec::new() };
        curve.points.iter().filter_map(|point| row(experiment, operation, curve, series, point)).collect()
    };
    let mut rows: Vec<PublishedRow> = curves
        .iter()
        .flat_map(|curve| operations.iter().flat_map(move |operation| of_operation(operation, curve)))
        .collect();
    for variation in &experiment.vary {
        let levels = variation.baseline.iter().chain(&variation.levels);
        for level in levels.filter(|level| level.as_number().is_none()) {
            let row = |operation: &&String| row_of_level(experiment, operation, variation, level, trials);
            rows.extend(operations.iter().copied().filter_map(|operation| row(&operation)));
        }
    }
    rows
}

/// The measured rate is that of the trials in which only this factor has this level.
fn row_of_level(
    experiment: &Experiment,
    operation: &str,
    variation: &Variation,
    level: &Level,
    trials: &[TrialResult],
) -> Option<PublishedRow> {
    let of_factor = experiment.published.iter().filter(|of| of.factor.as_ref() == Some(&variation.factor));
    let published = figures(of_factor, operation, |published| published == level);
    let is_there = |trial: &&TrialResult| {
        trial.ending == Ending::Completed
            && level_of(experiment, &trial.treatment.changes, variation) == Some(level)
    };
    let rate =
        |trial: &TrialResult| Some(trial.operations.iter().find(|of| of.name.is(operation))?.rate_per_s);
    let measured: Vec<f64> = trials.iter().filter(is_there).filter_map(rate).collect();
    row_with(operation, (&variation.factor.0, level.to_string(), ""), median(&measured)?, published)
}

/// The published figures of an operation at a level.
fn figures<'a>(
    published: impl Iterator<Item = &'a Published>,
    operation: &str,
    is_level: impl Fn(&Level) -> bool,
) -> Vec<PublishedFigure> {
    let figure = |published: &Published| {
        let (_, rate) = published.rates_per_s.get(operation)?.iter().find(|(level, _)| is_level(level))?;
        Some(PublishedFigure {
            name: published.name.clone(),
            source: published.source.clone(),
            rate_per_s: *rate,
        })
    };
    published.filter_map(figure).collect()
}

/// A row; none without a published figure or a measured rate.
fn row_with(
    operation: &str,
    (factor, level, series): (&str, String, &str),
    measured_per_s: f64,
    published: Vec<PublishedFigure>,
) -> Option<PublishedRow> {
    let largest = published.iter().map(|figure| figure.rate_per_s).fold(0.0, f64::max);
    let times_largest = measured_per_s / largest;
    (largest > 0.0 && times_largest.is_finite()).then(|| PublishedRow {
        operation: operation.into(),
        factor: factor.into(),
        level,
        series: series.into(),
        measured_per_s,
        published,
        times_largest,
    })
}

/// The text after the operation's name in the name of a curve; none for another operation.
fn series<'a>(curve: &'a Curve, operation: &str) -> Option<&'a str> {
    curve.operation.as_ref().filter(|of| *of == operation)?;
    let rest = curve.series.strip_prefix(operation).unwrap_or_default();
    Some(rest.trim_start_matches(", "))
}

fn row(
    experiment: &Experiment,
    operation: &str,
    curve: &Curve,
    series: &str,
    point: &CurvePoint,
) -> Option<PublishedRow> {
    let of_factor = experiment
        .published
        .iter()
        .filter(|published| published.factor.as_ref().is_some_and(|factor| factor.0 == curve.factor));
    let published = figures(of_factor, operation, |level| level.as_number() == Some(point.level));
    row_with(operation, (&curve.factor, point.label.clone(), series), point.rate_per_s[0], published)
}
