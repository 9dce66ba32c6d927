//! Which trial comes next: pure functions from the experiment and the runs so far.
//!
//! Trials are carried out in rounds, one per replicate: each round has every treatment once, in an order shuffled by
//! the experiment's seed, so that what drifts over the experiment meets every treatment alike. The first trial
//! and the last are the baseline, which shows how much did drift.

use std::collections::BTreeMap;

use model::design::Next;
use model::{
    Change, Decision, Design, DesignKind, Ending, Experiment, Level, Study, Treatment, Trial, Variation,
};

use crate::random::Random;

/// Treatments a design makes at most. A larger grid is cut short, and says so when it ends.
const TREATMENTS_MAX: usize = 10_000;
/// Failures after which a treatment is given up.
const FAILURES_MAX: usize = 2;

/// The design of an experiment.
pub fn design(experiment: &Experiment) -> Box<dyn Design> {
    Box::new(Rounds::new(experiment))
}

/// How many trials an experiment takes when all of them complete, without making them.
pub fn trial_count(experiment: &Experiment) -> u64 {
    let replicates = u64::from(experiment.replicates.max(1));
    let levels = |variation: &Variation| other_levels(experiment, variation).len() as u64;
    let treatments = match experiment.design {
        DesignKind::OneFactorAtATime => experiment.vary.iter().map(levels).fold(0, u64::saturating_add),
        DesignKind::Grid => experiment
            .vary
            .iter()
            .fold(1_u64, |cells, v| cells.saturating_mul(levels(v) + 1))
            .saturating_sub(1),
    };
    let closing = u64::from(replicates == 1 && treatments > 0);
    treatments.saturating_add(1).saturating_mul(replicates).saturating_add(closing)
}

/// The experiment a study was planned from.
pub(crate) fn plan_of(study: &Study) -> Option<&Experiment> {
    study.plan.as_ref().map(|plan| &plan.experiment)
}

/// The level of a factor in the baseline, when the experiment says it: where it is varied, or among the settings of
/// the workload or the load.
pub(crate) fn baseline_level<'a>(experiment: &'a Experiment, variation: &'a Variation) -> Option<&'a Level> {
    variation.baseline.as_ref().or_else(|| {
        let settings = match variation.factor.area() {
            "workload" => &experiment.workload.settings,
            "load" => &experiment.load,
            _ => return None,
        };
        settings.get(variation.factor.name())
    })
}

/// The levels of a factor that differ from its baseline and from each other.
fn other_levels<'a>(experiment: &'a Experiment, variation: &'a Variation) -> Vec<&'a Level> {
    let baseline = baseline_level(experiment, variation);
    let mut levels: Vec<&Level> = Vec::new();
    for level in &variation.levels {
        if baseline != Some(level) && !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}

/// Every treatment of an experiment but the baseline, in the order of the file.
pub(crate) fn treatments(experiment: &Experiment) -> Vec<Treatment> {
    let axes: Vec<Vec<Change>> = experiment
        .vary
        .iter()
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

/// The treatment of a cell; none for the baseline's.
fn treatment_of(mut cell: Vec<Change>) -> Option<Treatment> {
    match cell.len() {
        0 => None,
        1 => cell.pop().map(Treatment::OneChange),
        _ => Some(Treatment::Combination(cell)),
    }
}

/// Rounds of shuffled treatments between a first and a last baseline.
struct Rounds {
    seed: u64,
    replicates: u32,
    cut_short: bool,
    planned: Vec<(Treatment, u32)>,
}

impl Rounds {
    fn new(experiment: &Experiment) -> Self {
        let replicates = experiment.replicates.max(1);
        let treatments = treatments(experiment);
        let mut random = Random::new(experiment.seed);
        let mut planned = Vec::new();
        for round in 1..=replicates {
            let mut order: Vec<Option<&Treatment>> = treatments.iter().map(Some).collect();
            random.shuffle(&mut order);
            // The baseline opens the first round and closes the last one; in between it takes its chance.
            let place = match round {
                1 => 0,
                last if last == replicates => order.len(),
                _ => random.below(order.len() + 1),
            };
            order.insert(place, None);
            let named = |treatment: Option<&Treatment>| treatment.cloned().unwrap_or(Treatment::Baseline);
            planned.extend(order.into_iter().map(|treatment| (named(treatment), round)));
        }
        if replicates == 1 && !treatments.is_empty() {
            planned.push((Treatment::Baseline, 2));
        }
        let planned_count = planned.len() as u64;
        Rounds {
            seed: experiment.seed,
            replicates,
            cut_short: planned_count < trial_count(experiment),
            planned,
        }
    }

    fn reason(
        &self,
        treatment: &Treatment,
        replicate: u32,
        place: usize,
        earlier: Option<&Ending>,
    ) -> String {
        let baseline = *treatment == Treatment::Baseline;
        let several = self.planned.iter().any(|(treatment, _)| *treatment != Treatment::Baseline);
        let mut reason = if replicate > self.replicates {
            "the baseline again, to show how much drifted".to_string()
        } else {
            let what = if baseline { "the baseline".into() } else { treatment.label() };
            let order = match (several, place) {
                (false, _) => String::new(),
                (true, 0) => ", which comes first".into(),
                (true, place) if place + 1 == self.planned.len() && baseline => {
                    ", which also comes last to show how much drifted".into()
                }
                (true, _) => format!(", order shuffled by seed {}", self.seed),
            };
            format!("round {replicate} of {}: {what}{order}", self.replicates)
        };
        match earlier {
            Some(Ending::Failed(why)) => reason.push_str(&format!("; once more, as it failed: {why}")),
            Some(_) => reason.push_str("; once more, as it was interrupted"),
            None => {}
        }
        reason
    }
}

/// What the recorded runs say about each treatment, looked up by its label, which is unique in an experiment.
#[derive(Default)]
struct Recorded<'a> {
    completed: Vec<u32>,
    endings: BTreeMap<u32, &'a Ending>,
    failures: usize,
    last_failure: &'a str,
}

fn recorded(study: &Study) -> BTreeMap<String, Recorded<'_>> {
    let mut by_label: BTreeMap<String, Recorded> = BTreeMap::new();
    for run in study.runs.iter().map(|record| &record.run) {
        let entry = by_label.entry(run.trial.treatment.label()).or_default();
        entry.endings.insert(run.trial.replicate, &run.ending);
        match &run.ending {
            Ending::Completed => entry.completed.push(run.trial.replicate),
            Ending::Failed(why) => {
                entry.failures += 1;
                entry.last_failure = why;
            }
            Ending::Running | Ending::Interrupted => {}
        }
    }
    by_label
}

impl Design for Rounds {
    fn next(&self, study: &Study) -> Next {
        let recorded = recorded(study);
        let mut given_up: Vec<String> = Vec::new();
        let mut done = 0;
        for (place, (treatment, replicate)) in self.planned.iter().enumerate() {
            let label = treatment.label();
            let seen = recorded.get(&label);
            if seen.is_some_and(|seen| seen.completed.contains(replicate)) {
                done += 1;
                continue;
            }
            if let Some(seen) = seen.filter(|seen| seen.failures >= FAILURES_MAX) {
                let text = format!("{label} failed {} times, last: {}", seen.failures, seen.last_failure);
                if *treatment == Treatment::Baseline {
                    return Next::Enough(format!("{text}; without it there is nothing to compare with"));
                }
                if !given_up.contains(&text) {
                    given_up.push(text);
                }
                continue;
            }
            let highest = study.runs.iter().map(|record| record.run.trial.number).max().unwrap_or(0);
            let number = highest.max(study.runs.len() as u32).saturating_add(1);
            let earlier = seen.and_then(|seen| seen.endings.get(replicate).copied());
            let mut reason = self.reason(treatment, *replicate, place, earlier);
            if !given_up.is_empty() {
                reason.push_str(&format!("; given up: {}", given_up.join("; ")));
            }
            let trial = Trial { number, treatment: treatment.clone(), replicate: *replicate };
            return Next::Trial(Decision { trial, reason });
        }
        let mut text = match given_up.is_empty() {
            true => format!("all {done} trials are done"),
            false => {
                format!("{done} of {} trials are done; given up: {}", self.planned.len(), given_up.join("; "))
            }
        };
        if self.cut_short {
            text.push_str(&format!("; the design was cut short at {TREATMENTS_MAX} treatments"));
        }
        Next::Enough(text)
    }

    fn planned(&self) -> Option<Vec<Trial>> {
        let trial = |(place, (treatment, replicate)): (usize, &(Treatment, u32))| Trial {
            number: place as u32 + 1,
            treatment: treatment.clone(),
            replicate: *replicate,
        };
        Some(self.planned.iter().enumerate().map(trial).collect())
    }
}
