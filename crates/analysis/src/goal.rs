//! Whether the goals were met.

use model::experiment::FigureName;
use model::metric::split_instance;
use model::result::{GoalLine, GoalResult, OperationResult, ResultDocument, TrialResult};
use model::{Ending, Experiment, Goal, Operation, RunRecord, Study, goal::GoalMetric};

use crate::cost;
use crate::measured::Measured;

/// Each goal in each trial; none if no goal was stated and failures are within the limit. A trial that was
/// repeated because it was interrupted or failed is judged by its repetition. One that did not complete decides nothing: what it
/// would have measured then is not known. Neither does one whose record lost something.
pub(crate) fn judge(experiment: &Experiment, study: &Study, document: &ResultDocument) -> Option<GoalResult> {
    let same = |a: &TrialResult, b: &TrialResult| {
        a.treatment.label == b.treatment.label && a.replicate == b.replicate
    };
    let judged = document
        .trials
        .iter()
        .enumerate()
        .filter(|(at, trial)| !document.trials[at + 1..].iter().any(|later| same(trial, later)))
        .map(|(_, trial)| trial);
    let decides = |trial: &TrialResult| trial.ending == Ending::Completed && study.damage.is_empty();
    let line = |goal: &Goal, trial: &TrialResult| {
        let exact = |value: f64| (value, value);
        let range = match &goal.metric {
            GoalMetric::Counter(name) => {
                record_of(study, trial).and_then(|of| counter_of(of, name)).map(exact)
            }
            GoalMetric::CpuPerOperation => record_of(study, trial)
                .and_then(|of| cost::cpu_s(of, trial, goal.operation.as_deref()))
                .map(|seconds| exact(seconds * 1e3)),
            _ => range(goal, trial),
        };
        // With censored operations, the smallest and the largest possible value may decide differently.
        let (best, worst) = match (range, goal.at_most) {
            (Some((low, high)), true) => (Some(low), Some(high)),
            (Some((low, high)), false) => (Some(high), Some(low)),
            (None, _) => (None, None),
        };
        let decides = decides(trial);
        let met = decides && worst.is_some_and(|value| goal.met_by(value));
        GoalLine {
            goal: goal.text.clone(),
            trial: trial.trial.clone(),
            value: range.map(|range| range.0),
            operation: worst_operation(goal, trial),
            met,
            is_bound: best != worst,
            undecided: !met && (!decides || best.is_some_and(|value| goal.met_by(value))),
        }
    };
    let stated = &experiment.goals;
    let mut goals: Vec<GoalLine> =
        judged.clone().flat_map(|trial| stated.iter().map(|goal| line(goal, trial))).collect();
    // A stated goal about failures replaces the default limit, whether it is higher or lower.
    if !stated.iter().any(|goal| goal.metric == GoalMetric::Failed) {
        let few = Goal::few_failures(experiment.max_failures);
        // Of a trial that decides nothing, only failures that are too many are worth a line.
        let is_met_so_far = |line: &GoalLine| line.value.is_some_and(|value| few.met_by(value));
        let missed = judged.map(|trial| (line(&few, trial), decides(trial)));
        let missed = missed.filter(|(line, decides)| {
            line.value.is_some() && !line.met && (*decides || !is_met_so_far(line))
        });
        goals.extend(missed.map(|(line, _)| line));
    }
    (!goals.is_empty()).then(|| GoalResult {
        met: document.unfinished.is_none() && goals.iter().all(|line| line.met),
        stated: !stated.is_empty(),
        goals,
    })
}

fn record_of<'a>(study: &'a Study, trial: &TrialResult) -> Option<&'a RunRecord> {
    study.runs.iter().find(|record| record.run.trial.id() == trial.trial)
}

/// The mean of a counter in the measured phase of a run; without an instance, that of the host.
pub(crate) fn counter_of(record: &RunRecord, name: &FigureName) -> Option<f64> {
    let measured = Measured::of(record);
    match &name.instance {
        Some(instance) => {
            let (host, instance) = split_instance(instance);
            measured.on(host).mean(&name.metric, instance)
        }
        None => measured.host_mean(&name.metric),
    }
}

/// The value of a goal's metric, as in [`range`]; a lower bound with censored operations.
pub(crate) fn value(goal: &Goal, trial: &TrialResult) -> Option<f64> {
    range(goal, trial).map(|range| range.0)
}

/// Whether that value is only a bound, because operations are censored.
pub(crate) fn is_bound(goal: &Goal, trial: &TrialResult) -> bool {
    range(goal, trial).is_some_and(|(low, high)| low != high)
}

/// The smallest and the largest value that a goal's metric may have. A goal without an operation applies to every operation:
/// for times and failures the worst value counts, for throughput the total.
fn range(goal: &Goal, trial: &TrialResult) -> Option<(f64, f64)> {
    let whole = trial.whole()?;
    if goal.operation.is_none() && matches!(goal.metric, GoalMetric::Throughput | GoalMetric::BytesPerSecond)
    {
        return goal.range(whole);
    }
    let several = trial.operations.len() > 1;
    let single = |operation: &&OperationResult| !several || operation.name != Operation::All;
    // A derived operation counts only where it is named.
    let derived = trial.derived.iter().filter(|_| goal.operation.is_some());
    let judged: Vec<&OperationResult> = trial.operations.iter().filter(single).chain(derived).collect();
    // Operations that were due, and of which nothing has such a time, have no value that could meet the goal.
    let is_of = |of: &OperationResult| goal.operation.as_ref().is_none_or(|name| of.name.is(name));
    let is_time =
        matches!(goal.metric, GoalMetric::Response(_) | GoalMetric::Service(_) | GoalMetric::Lag(_));
    let lacks = |of: &&&OperationResult| {
        is_time && is_of(of) && of.due.is_some() && of.judged() > 0 && goal.range(of).is_none()
    };
    if judged.iter().any(|of| lacks(&of)) {
        return None;
    }
    let values = judged.into_iter().filter_map(|operation| goal.range(operation));
    let worse = |a: f64, b: f64| if goal.at_most { a.max(b) } else { a.min(b) };
    values
        .filter(|(low, _)| low.is_finite())
        .reduce(|worst, value| (worse(worst.0, value.0), worse(worst.1, value.1)))
}

/// The operation whose value is that of a goal, where the goal names none and several are judged.
fn worst_operation(goal: &Goal, trial: &TrialResult) -> Option<String> {
    let is_total = matches!(goal.metric, GoalMetric::Throughput | GoalMetric::BytesPerSecond);
    if goal.operation.is_some() || is_total || trial.operations.len() < 2 {
        return None;
    }
    let single = trial.operations.iter().filter(|operation| operation.name != Operation::All);
    let values = single.filter_map(|operation| Some((operation, goal.range(operation)?)));
    let worst = values.filter(|(_, (low, _))| low.is_finite()).reduce(|worst, other| {
        let is_worse = if goal.at_most { other.1.1 > worst.1.1 } else { other.1.0 < worst.1.0 };
        if is_worse { other } else { worst }
    });
    worst.map(|(operation, _)| operation.name.as_str().to_string())
}
