//! Rounds of trials: each has every treatment once, in an order shuffled by the experiment's seed.

use std::collections::BTreeMap;

use model::design::Next;
use model::{Decision, Design, Ending, Experiment, Study, Treatment, Trial};

use crate::plan::{TREATMENTS_MAX, treatments};
use crate::random::Random;

/// Number of failures after which a treatment is abandoned.
const FAILURES_MAX: usize = 2;

/// Rounds of shuffled treatments between a first and a last baseline.
pub(crate) struct Rounds {
    seed: u64,
    replicates: u32,
    /// Whether there may be fewer rounds.
    is_bound: bool,
    pub(crate) cut_short: bool,
    pub(crate) planned: Vec<(Treatment, u32)>,
}

impl Rounds {
    /// Of an experiment with so many trials, which may be more than are planned.
    pub(crate) fn new(experiment: &Experiment, trials: u64) -> Self {
        let replicates = experiment.replicates.max(1);
        let treatments = treatments(experiment);
        let mut random = Random::new(experiment.seed);
        let mut planned = Vec::new();
        for round in 1..=replicates {
            let mut order: Vec<Option<&Treatment>> = treatments.iter().map(Some).collect();
            random.shuffle(&mut order);
            // The baseline is first in the first round and last in the last one; otherwise its position is
            // random.
            let place = match round {
                1 => 0,
                last if last == replicates && experiment.gate.is_none() => order.len(),
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
            is_bound: experiment.gate.is_some(),
            cut_short: planned_count < trials,
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
            "the baseline again, to measure the drift".to_string()
        } else {
            let what = if baseline { "the baseline".into() } else { treatment.label() };
            let order = match (several, place) {
                (false, _) => String::new(),
                (true, 0) => ", which comes first".into(),
                (true, place) if place + 1 == self.planned.len() && baseline => {
                    ", which is repeated at the end to measure the drift".into()
                }
                (true, _) => format!(", order shuffled by seed {}", self.seed),
            };
            let at_most = if self.is_bound { "at most " } else { "" };
            format!("round {replicate} of {at_most}{}: {what}{order}", self.replicates)
        };
        match earlier {
            Some(Ending::Failed(why)) => reason.push_str(&format!("; repeated, because it failed: {why}")),
            Some(_) => reason.push_str("; repeated, because it was interrupted"),
            None => {}
        }
        reason
    }
}

/// The recorded runs of each treatment by its label, which is unique in an experiment.
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
                    return Next::Enough(format!("{text}; without it no comparison is possible"));
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
            text.push_str(&format!("; the design was limited to {TREATMENTS_MAX} treatments"));
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
