//! The table of goals.

use model::result::{GoalResult, TrialResult};
use model::run::WorkloadTraits;
use model::{DoubtKind, Ending, Goal, ResultDocument};

use crate::table::{Cell, Table};
use crate::text::{Quantity, plural, rate_word};

/// The quantity a goal's value is in.
fn goal_quantity(goal: &str, trial: Option<&TrialResult>, traits: &WorkloadTraits) -> Quantity {
    use model::goal::GoalMetric;
    // Behind what was not stated stands the setting it comes from: `failed <= 1% (max_failures)`.
    let goal = goal.split(" (").next().unwrap_or(goal);
    let names: Vec<&str> =
        trial.map_or(Vec::new(), |trial| trial.operations.iter().map(|each| each.name.as_str()).collect());
    // A goal on an operation that never completed: its name is the first word.
    let first = goal.split('.').next().unwrap_or("").trim();
    let names: Vec<&str> = names
        .into_iter()
        .chain([first])
        .filter(|name| !["response", "service", "lag", "throughput", "bytes_per_s"].contains(name))
        .collect();
    match Goal::parse(goal, &names).map(|goal| goal.metric) {
        Ok(
            GoalMetric::Response(_)
            | GoalMetric::Service(_)
            | GoalMetric::Lag(_)
            | GoalMetric::CpuPerOperation,
        ) => Quantity::Milliseconds,
        Ok(GoalMetric::Throughput) => Quantity::Rate(rate_word(traits)),
        Ok(GoalMetric::BytesPerSecond) => Quantity::BytesPerSecond,
        Ok(GoalMetric::Failed) => Quantity::Share,
        Ok(GoalMetric::Counter(name)) => Quantity::of(name.unit()),
        Err(_) => Quantity::Plain,
    }
}

/// Why goals are neither met nor missed, behind `because`.
pub(crate) fn why_undecided(document: &ResultDocument, goal: &GoalResult) -> String {
    let open = || goal.goals.iter().filter(|line| line.undecided);
    let trial = |id: &str| document.trials.iter().find(|trial| trial.trial == id);
    let is_incomplete = |id: &str| trial(id).is_some_and(|trial| trial.ending != Ending::Completed);
    let incomplete: Vec<&str> =
        open().map(|line| line.trial.as_str()).filter(|id| is_incomplete(id)).collect();
    match (incomplete.as_slice(), &document.unfinished) {
        ([], Some(unfinished)) => match unfinished.planned {
            Some(planned) => {
                format!("{} of {} completed", unfinished.completed, plural(planned as usize, "planned trial"))
            }
            None => "the experiment is not finished".into(),
        },
        ([], None) if document.doubts.iter().any(|doubt| doubt.kind == DoubtKind::Damaged) => {
            "the record is damaged".into()
        }
        ([], None) => "operations that were due had not ended".into(),
        ([one, others @ ..], _) if others.iter().all(|other| other == one) => {
            format!("trial {one} did not complete")
        }
        (several, _) => {
            let ids: std::collections::BTreeSet<&&str> = several.iter().collect();
            format!("{} did not complete", plural(ids.len(), "trial"))
        }
    }
}

/// How many conditions were not met: `1 of 6 conditions, and 3 are undecided`.
pub(crate) fn not_met(goal: &GoalResult) -> String {
    let of = plural(goal.goals.len(), "condition");
    match goal.missed_and_undecided() {
        (0, 0) => String::new(),
        (missed, 0) => format!("{missed} of {of}"),
        (0, undecided) => format!("{undecided} of {of}"),
        (missed, 1) => format!("{missed} of {of}, and 1 is undecided"),
        (missed, undecided) => format!("{missed} of {of}, and {undecided} are undecided"),
    }
}

/// Each goal and whether it was met.
pub(crate) fn goals(document: &ResultDocument) -> Option<Table> {
    let goal = document.goal.as_ref()?;
    let is_of_several = goal.goals.iter().any(|line| line.operation.is_some());
    let mut table = match is_of_several {
        true => Table::new("", &["goal", "worst", "trial", ">value", ""]),
        false => Table::new("", &["goal", "trial", ">value", ""]),
    };
    for line in &goal.goals {
        let trial = document.trials.iter().find(|trial| trial.trial == line.trial);
        let quantity = goal_quantity(&line.goal, trial, &document.traits);
        let value = match line.value {
            Some(value) => Cell::shown(value, quantity.show(value)).bounded(line.is_bound),
            None => Cell::words("nothing completed"),
        };
        let answer = match (line.met, line.undecided) {
            (true, _) => "met",
            (false, true) => "undecided",
            (false, false) => "missed",
        };
        let mut cells = vec![Cell::words(line.goal.clone())];
        if is_of_several {
            cells.push(Cell::words(line.operation.clone().unwrap_or_default()));
        }
        cells.extend([Cell::words(line.trial.clone()), value, Cell::words(answer)]);
        table.row(cells);
    }
    Some(table)
}
