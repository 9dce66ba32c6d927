//! The plan of an experiment: its treatments, and the levels of its factors in the baseline.

use model::{Change, DesignKind, Experiment, Level, RunRecord, Study, Treatment, Variation};

/// Limit of the treatments of a design. A larger grid is truncated, which is reported at its end.
pub(crate) const TREATMENTS_MAX: usize = 10_000;
/// The experiment of a study's plan.
pub(crate) fn plan_of(study: &Study) -> Option<&Experiment> {
    study.plan.as_ref().map(|plan| &plan.experiment)
}

/// A part of a study that is judged alone: these runs, and nothing else was planned.
pub(crate) fn part_of(study: &Study, runs: Vec<RunRecord>) -> Study {
    let mut plan = study.plan.clone();
    if let Some(plan) = &mut plan {
        plan.decisions.retain(|decision| runs.iter().any(|record| record.run.trial == decision.trial));
        plan.enough.get_or_insert_with(|| "a part of the experiment".into());
    }
    Study {
        directory: study.directory.clone(),
        host: study.host.clone(),
        plan,
        runs,
        damage: study.damage.clone(),
    }
}

/// The level of a factor in the baseline, if the experiment states it in its variation or in its settings.
pub(crate) fn baseline_level<'a>(experiment: &'a Experiment, variation: &'a Variation) -> Option<&'a Level> {
    variation.baseline.as_ref().or_else(|| experiment.level(&variation.factor))
}

/// The level of one factor where only it may be changed; none if others are.
pub(crate) fn level_of<'a>(
    experiment: &'a Experiment,
    changes: &'a [Change],
    variation: &'a Variation,
) -> Option<&'a Level> {
    match changes {
        [] => baseline_level(experiment, variation),
        [change] if change.factor == variation.factor => Some(&change.level),
        _ => None,
    }
}

/// The levels of a factor that differ from its baseline and from each other.
pub(crate) fn other_levels<'a>(experiment: &'a Experiment, variation: &'a Variation) -> Vec<&'a Level> {
    let baseline = baseline_level(experiment, variation);
    let mut levels: Vec<&Level> = Vec::new();
    for level in &variation.levels {
        if baseline != Some(level) && !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}

/// The factors whose levels are compared: all but one of which the smallest level is searched for.
pub(crate) fn compared(experiment: &Experiment) -> impl Iterator<Item = &Variation> {
    experiment.vary.iter().filter(|variation| Some(&variation.factor) != experiment.smallest.as_ref())
}

/// Every treatment of an experiment except the baseline, in the order of the file.
pub(crate) fn treatments(experiment: &Experiment) -> Vec<Treatment> {
    let axes: Vec<Vec<Change>> = compared(experiment)
        .map(|variation| {
            let change = |level: &Level| Change { factor: variation.factor.clone(), level: level.clone() };
            other_levels(experiment, variation).into_iter().map(change).collect()
        })
        .collect();
    match experiment.design {
        DesignKind::OneFactorAtATime => {
            axes.into_iter().flatten().map(Treatment::OneChange).take(TREATMENTS_MAX).collect()
        }
        DesignKind::Grid => {
            let mut cells: Vec<Vec<Change>> = vec![Vec::new()];
            for axis in axes {
                cells = cells
                    .into_iter()
                    .flat_map(|cell| {
                        let with = |change: &Change| {
                            let mut cell = cell.clone();
                            cell.push(change.clone());
                            cell
                        };
                        let changed: Vec<_> = axis.iter().map(with).collect();
                        std::iter::once(cell).chain(changed)
                    })
                    .take(TREATMENTS_MAX + 1)
                    .collect();
            }
            cells.into_iter().filter_map(treatment_of).collect()
        }
    }
}

/// The treatment of a cell; none for that of the baseline.
fn treatment_of(mut cell: Vec<Change>) -> Option<Treatment> {
    match cell.len() {
        0 => None,
        1 => cell.pop().map(Treatment::OneChange),
        _ => Some(Treatment::Combination(cell)),
    }
}
