//! JSON supports neither NaN nor infinity, so such numbers are removed from a document before it is returned.

use model::cost::{Difference, DifferencePart};
use model::result::{ComparisonRow, CurvePoint, OperationResult, ResultDocument, TrialResult};
use model::run::Origin;
use model::sensitivity::Sensitivity;
use model::steps::{RequestSteps, Times};
use model::{Change, Estimate, Evidence, LatencySummary, Level};

/// Makes every number in the document finite. Optional numbers become absent. Rows, points and evidence are
/// removed if their main number is not finite. Times are absent where nothing was observed, and the number in flight where another
/// tool does not have it. All other numbers become zero.
pub(crate) fn clean(document: &mut ResultDocument) {
    // Only what another tool measured has gaps of this kind.
    let unknown = if document.origin == Origin::Imported { absent } else { zero };
    document.trials.iter_mut().for_each(|trial| clean_trial(trial, unknown));
    for configuration in &mut document.configurations {
        changes(&mut configuration.treatment.changes);
        changes(&mut configuration.treatment.levels);
        configuration.medians.retain(|_, value| value.is_finite());
        configuration.spreads.retain(|_, value| value.is_finite());
        configuration.costs.retain(|cost| cost.rate_per_s.is_finite() && finite(&cost.time_s));
        configuration.costs.iter_mut().for_each(|cost| cost.parts.retain(|part| finite(&part.each)));
        configuration.steps.iter_mut().for_each(|step| zero(&mut step.busy_s));
    }
    document.differences.retain_mut(clean_difference);
    document.comparison.retain_mut(clean_row);
    for curve in &mut document.curves {
        curve.points.retain_mut(clean_point);
    }
    document.curves.retain(|curve| curve.points.len() > 1);
    for figure in document.beside.iter_mut().flat_map(|row| row.measured.iter_mut().chain(&mut row.published))
    {
        figure.value = figure.value.filter(|value| value.is_finite());
    }
    document.sensitivity.iter_mut().for_each(clean_sensitivity);
    for steps in &mut document.request_steps {
        steps.per_operation = steps.per_operation.filter(|each| each.is_finite());
        clean_steps(&mut steps.request);
    }
    for finding in &mut document.findings {
        finding.evidence.retain_mut(clean_evidence);
        finding.against.retain_mut(clean_evidence);
        finding.used.iter_mut().for_each(zero);
    }
    for line in document.goal.iter_mut().flat_map(|goal| &mut goal.goals) {
        line.value = line.value.filter(|value| value.is_finite());
    }
}

fn clean_sensitivity(row: &mut Sensitivity) {
    let Sensitivity { round_trips, low, high, undelayed_ms, exchanges, connections, levels, .. } = row;
    for value in [round_trips, low, high, undelayed_ms, exchanges, connections] {
        *value = value.filter(|value| value.is_finite());
    }
    for level in levels {
        [&mut level.added_ms, &mut level.time_ms].into_iter().chain(&mut level.trials_ms).for_each(zero);
    }
}

fn clean_steps(request: &mut RequestSteps) {
    let times = |times: &mut Times| {
        let Times { mean, p50, p95, max } = times;
        [mean, p50, p95, max].into_iter().for_each(zero);
    };
    zero(&mut request.observed_s);
    times(&mut request.total_ms);
    times(&mut request.own_after_ms);
    for step in &mut request.steps {
        times(&mut step.own_before_ms);
        times(&mut step.takes_ms);
        [&mut step.begin_ms, &mut step.first_byte_ms, &mut step.adds_ms].into_iter().for_each(zero);
    }
    for of in &mut request.dependencies {
        [&mut of.per_request, &mut of.mean_ms].into_iter().for_each(zero);
    }
}

/// What is not finite is NaN, which is `null` in JSON.
fn absent(value: &mut f64) {
    if !value.is_finite() {
        *value = f64::NAN;
    }
}

fn zero(value: &mut f64) {
    if !value.is_finite() {
        *value = 0.0;
    }
}

fn clean_trial(trial: &mut TrialResult, unknown: fn(&mut f64)) {
    changes(&mut trial.treatment.changes);
    zero(&mut trial.measured_s);
    trial.operations.iter_mut().for_each(|operation| clean_operation(operation, unknown));
    trial.cpu_us_per_operation = trial.cpu_us_per_operation.filter(|value| value.is_finite());
    trial.generator_max_per_s = trial.generator_max_per_s.filter(|value| value.is_finite());
    trial.resources.retain(|used| used.mean.is_finite() && used.max.is_finite());
    for used in &mut trial.resources {
        zero(&mut used.saturated_at);
    }
    trial.facts.values_mut().for_each(level);
}

fn clean_operation(operation: &mut OperationResult, unknown: fn(&mut f64)) {
    operation.busy_s = operation.busy_s.filter(|seconds| seconds.is_finite());
    for value in [&mut operation.rate_per_s, &mut operation.bytes_per_s] {
        zero(value);
    }
    unknown(&mut operation.concurrency);
    for summary in [&mut operation.response_ms, &mut operation.service_ms, &mut operation.lag_ms] {
        let LatencySummary { min, mean, p50, p90, p95, p99, p999, max, at_least: _ } = summary;
        [min, mean, p50, p90, p95, p99, p999, max].into_iter().for_each(absent);
    }
}

fn clean_row(row: &mut ComparisonRow) -> bool {
    if !row.low.is_some_and(f64::is_finite) || !row.high.is_some_and(f64::is_finite) {
        row.low = None;
        row.high = None;
    }
    row.baseline.is_finite() && row.treatment.is_finite() && row.ratio.is_finite()
}

fn clean_point(point: &mut CurvePoint) -> bool {
    let CurvePoint { rate_per_s, bytes_per_s, mean_ms, p99_ms, .. } = point;
    [rate_per_s, bytes_per_s].into_iter().flatten().for_each(zero);
    [mean_ms, p99_ms].into_iter().flatten().for_each(absent);
    point.level.is_finite()
}

fn finite(estimate: &Estimate) -> bool {
    estimate.value.is_finite() && estimate.low.is_finite() && estimate.high.is_finite()
}

fn clean_difference(difference: &mut Difference) -> bool {
    let known = |part: &DifferencePart| {
        part.baseline.is_finite() && part.treatment.is_finite() && finite(&part.change)
    };
    difference.times.retain(known);
    difference.counts.retain(known);
    difference.unexplained_s.is_finite() && finite(&difference.time_s)
}

fn clean_evidence(evidence: &mut Evidence) -> bool {
    zero(&mut evidence.begin_s);
    zero(&mut evidence.end_s);
    evidence.expected = evidence.expected.filter(finite);
    finite(&evidence.observed)
}

fn changes(changes: &mut [Change]) {
    changes.iter_mut().for_each(|change| level(&mut change.level));
}

/// A level that is not a finite number is replaced by its text.
fn level(value: &mut Level) {
    match value {
        Level::Number(number)
        | Level::Rate(number)
        | Level::BytesPerSecond(number)
        | Level::Percent(number) => {
            if !number.is_finite() {
                *value = Level::Text("not a number".into());
            }
        }
        Level::List(levels) => levels.iter_mut().for_each(level),
        Level::Flag(_)
        | Level::Count(_)
        | Level::Bytes(_)
        | Level::Time(_)
        | Level::Text(_)
        | Level::Secret(_)
        | Level::Unlimited => {}
        Level::IoLimits(limits) => {
            let model::IoLimits { reads_per_s, writes_per_s, read_bytes_per_s, write_bytes_per_s } = limits;
            for limit in [reads_per_s, writes_per_s, read_bytes_per_s, write_bytes_per_s] {
                *limit = limit.filter(|limit| limit.is_finite());
            }
        }
    }
}
