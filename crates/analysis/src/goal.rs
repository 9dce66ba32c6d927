//! Whether what was stated as good enough was reached.

use model::result::{GoalLine, GoalResult, OperationResult, ResultDocument, TrialResult};
use model::{Goal, goal::GoalMetric};

/// Each goal against each trial; none when no goal was stated. A trial that was repeated later, because it was
/// interrupted or failed, is judged by its repetition.
pub(crate) fn judge(goals: &[Goal], document: &ResultDocument) -> Option<GoalResult> {
    if goals.is_empty() {
        return None;
    }
    let same = |a: &TrialResult, b: &TrialResult| {
        a.treatment.label == b.treatment.label && a.replicate == b.replicate
    };
    let judged = document
        .trials
        .iter()
        .enumerate()
        .filter(|(at, trial)| !document.trials[at + 1..].iter().any(|later| same(trial, later)));
    let goals: Vec<GoalLine> = judged
        .flat_map(|(_, trial)| {
            goals.iter().map(|goal| {
                let value = value(goal, trial);
                GoalLine {
                    goal: goal.text.clone(),
                    trial: trial.trial.clone(),
                    value,
                    met: value.is_some_and(|value| goal.met_by(value)),
                }
            })
        })
        .collect();
    Some(GoalResult { met: !goals.is_empty() && goals.iter().all(|line| line.met), goals })
}

/// The value a goal looks at. A goal that names no operation holds for every one: of times and failures the worst
/// counts, of throughput the whole.
pub(crate) fn value(goal: &Goal, trial: &TrialResult) -> Option<f64> {
    let whole = trial.whole()?;
    if goal.operation.is_none() && matches!(goal.metric, GoalMetric::Throughput | GoalMetric::BytesPerSecond)
    {
        return goal.value(whole);
    }
    let several = trial.operations.len() > 1;
    let single = |operation: &&OperationResult| !several || !std::ptr::eq(*operation, whole);
    let values = trial.operations.iter().filter(single).filter_map(|operation| goal.value(operation));
    values
        .filter(|value| value.is_finite())
        .reduce(|worst, value| if goal.at_most { worst.max(value) } else { worst.min(value) })
}
