//! A gate: the rounds of a comparison of two versions, and its answer.
//!
//! Both versions are measured once in each round. The logarithms of the ratios of the rounds give the Hodges-Lehmann
//! estimate with its signed-rank interval, which no trend of the machine and no single stalled trial can shift. The
//! probability of a false alarm is [`FALSE_ALARM`] over all metrics, divided evenly (Bonferroni).
//!
//! The number of rounds is not chosen beforehand, because it depends on the noise: there are enough when the interval is so
//! narrow that the stated slowdown would be found with the probability [`POWER`]. Only the width is looked at, not the
//! place, and only after certain rounds. So the answer cannot be reached by waiting for it: a fixed-width interval (Chow and
//! Robbins, Annals of Mathematical Statistics 36, 1965). The tests simulate both probabilities.

use model::design::Next;
use model::gate::{FALSE_ALARM, GateLine, GateMetric, POWER, ROUNDS_MIN};
use model::goal::GoalMetric;
use model::result::{OperationResult, TrialResult};
use model::{Design, Ending, Experiment, Gate, GateAnswer, GateResult, RunRecord, Study, Trial};

use crate::cost;
use crate::goal::counter_of;
use crate::plan::treatments;
use crate::rounds::Rounds;
use crate::statistics::{median, normal_quantile, signed_rank_interval};
use crate::trial;

/// Between two looks at the noise, this part more of the rounds.
const LOOK_EVERY: f64 = 0.15;

/// A slowdown below this share of the stated one is not called one, however narrow its interval is.
const RELEVANT_SHARE: f64 = 0.5;

/// The confidence with which a slowdown of the stated size is excluded, if the noise is too large to find one.
const EXCLUDED_BY: f64 = 0.95;

/// The rounds of a gate.
pub(crate) struct GateRounds {
    gate: Gate,
    rounds: Rounds,
}

impl GateRounds {
    pub(crate) fn new(experiment: &Experiment, gate: &Gate) -> Self {
        let most = Experiment { replicates: gate.rounds_max, ..experiment.clone() };
        let rounds = Rounds::new(&most, 2 * u64::from(gate.rounds_max));
        GateRounds { gate: gate.clone(), rounds }
    }
}

impl Design for GateRounds {
    fn next(&self, study: &Study) -> Next {
        let next = self.rounds.next(study);
        let Next::Trial(decision) = &next else { return next };
        // The first trial of a round: all others are complete.
        let complete = decision.trial.replicate.saturating_sub(1);
        let begins = !study.runs.iter().any(|record| {
            record.run.trial.replicate == decision.trial.replicate && record.run.ending == Ending::Completed
        });
        if !begins || !is_look(complete) {
            return next;
        }
        let trials: Vec<TrialResult> =
            study.runs.iter().map(|record| trial::summarize(record, study.host.cpus)).collect();
        let lines = || {
            self.gate.metrics.iter().map(|metric| line(&self.gate, metric, &pairs(metric, study, &trials)))
        };
        // No further round would have it either.
        if let Some(absent) = lines().find(|line| line.pairs == 0) {
            return Next::Enough(format!("no round has {} in both configurations", absent.metric.text));
        }
        match lines().all(|line| line.finds.is_some_and(|finds| finds <= self.gate.slowdown)) {
            true => Next::Enough(format!(
                "{complete} rounds find a slowdown of {}% four times in five",
                crate::words::number(self.gate.slowdown * 100.0)
            )),
            false => next,
        }
    }

    fn planned(&self) -> Option<Vec<Trial>> {
        None
    }
}

/// Whether the noise is looked at after this many rounds.
fn is_look(rounds: u32) -> bool {
    let mut look = ROUNDS_MIN;
    while look < rounds {
        look += (f64::from(look) * LOOK_EVERY) as u32;
    }
    look == rounds
}

/// The result of the gate of an experiment; none without one.
pub(crate) fn result(study: &Study, trials: &[TrialResult]) -> Option<GateResult> {
    let experiment = crate::plan::plan_of(study)?;
    let gate = experiment.gate.as_ref()?;
    let metrics = gate.metrics.iter().map(|metric| {
        let line = line(gate, metric, &pairs(metric, study, trials));
        match has_bounds(metric, trials) {
            // A bound of the true value shows neither a slowdown nor its absence.
            true => GateLine { is_bound: true, answer: GateAnswer::CantTell, low: None, high: None, ..line },
            false => line,
        }
    });
    let metrics: Vec<GateLine> = metrics.collect();
    let any = |answer: GateAnswer| metrics.iter().any(|line| line.answer == answer);
    let answer = match () {
        () if any(GateAnswer::Slower) => GateAnswer::Slower,
        () if any(GateAnswer::CantTell) => GateAnswer::CantTell,
        () => GateAnswer::Passed,
    };
    Some(GateResult {
        answer,
        slowdown: gate.slowdown,
        false_alarm: FALSE_ALARM,
        configuration: treatments(experiment).first().map(|treatment| treatment.label()).unwrap_or_default(),
        metrics,
        rounds_max: gate.rounds_max,
    })
}

/// The values of the baseline and of the other configuration in each round that has both.
fn pairs(metric: &GateMetric, study: &Study, trials: &[TrialResult]) -> Vec<(f64, f64)> {
    let values: Vec<(u32, bool, f64)> = study
        .runs
        .iter()
        .zip(trials)
        .filter(|(record, _)| record.run.ending == Ending::Completed)
        .filter_map(|(record, trial)| {
            let value = value(metric, record, trial).filter(|value| *value > 0.0 && value.is_finite())?;
            let is_base = record.run.trial.treatment.changes().is_empty();
            Some((record.run.trial.replicate, is_base, value))
        })
        .collect();
    let bases = values.iter().filter(|(_, is_base, _)| *is_base);
    bases
        .filter_map(|(round, _, base)| {
            let head = values.iter().find(|(of, is_base, _)| of == round && !is_base)?;
            Some((*base, head.2))
        })
        .collect()
}

/// The value of a metric in a trial. Without an operation, that of all operations together.
fn value(metric: &GateMetric, record: &RunRecord, trial: &TrialResult) -> Option<f64> {
    match &metric.metric {
        GoalMetric::Counter(name) => return counter_of(record, name),
        GoalMetric::CpuPerOperation => {
            return cost::cpu_s(record, trial, metric.operation.as_deref()).map(|s| s * 1e3);
        }
        _ => {}
    }
    metric.value(operation_of(metric, trial)?)
}

/// The operation that a metric is of: all together where it names none.
fn operation_of<'t>(metric: &GateMetric, trial: &'t TrialResult) -> Option<&'t OperationResult> {
    match &metric.operation {
        None => trial.whole(),
        Some(name) => trial.operations.iter().chain(&trial.derived).find(|of| of.name.is(name)),
    }
}

/// Whether a value of the metric is only a bound in any trial, because operations are censored.
fn has_bounds(metric: &GateMetric, trials: &[TrialResult]) -> bool {
    let ranges = trials.iter().filter_map(|trial| metric.metric.range(operation_of(metric, trial)?));
    ranges.into_iter().any(|(low, high)| low != high)
}

/// One metric, from its pairs of base and head.
fn line(gate: &Gate, metric: &GateMetric, pairs: &[(f64, f64)]) -> GateLine {
    let higher_is_better = metric.higher_is_better();
    let logs: Vec<f64> = pairs
        .iter()
        .map(|(base, head)| if higher_is_better { (base / head).ln() } else { (head / base).ln() })
        .collect();
    let side = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
    let alarm = FALSE_ALARM / gate.metrics.len().max(1) as f64;
    let interval = signed_rank_interval(&logs, 1.0 - 2.0 * alarm);
    let estimate = interval.map(|of| of.value).or_else(|| median(&logs)).unwrap_or(0.0);
    let finds = interval.map(|of| {
        // An interval of this width around the true slowdown excludes zero with the stated probability.
        let half = 0.5 * (of.high - of.low);
        (half * (1.0 + normal_quantile(POWER) / normal_quantile(1.0 - alarm))).exp_m1()
    });
    let at_most = signed_rank_interval(&logs, 2.0 * EXCLUDED_BY - 1.0).map(|of| of.high.exp_m1());
    let is_excluded = at_most.is_some_and(|at_most| at_most < gate.slowdown);
    let answer = match (interval, finds) {
        (Some(of), _) if of.low > 0.0 && estimate.exp_m1() >= RELEVANT_SHARE * gate.slowdown => {
            GateAnswer::Slower
        }
        (Some(_), Some(finds)) if finds <= gate.slowdown || is_excluded => GateAnswer::Passed,
        _ => GateAnswer::CantTell,
    };
    let rounds_needed = finds.filter(|finds| *finds > gate.slowdown).map(|finds| {
        let times = finds.ln_1p() / gate.slowdown.ln_1p();
        (pairs.len() as f64 * times * times).ceil().min(1e6) as u32
    });
    GateLine {
        metric: metric.clone(),
        higher_is_better,
        base: side(|pair| pair.0),
        head: side(|pair| pair.1),
        slowdown: estimate.exp_m1(),
        low: interval.map(|of| of.low.exp_m1()),
        high: interval.map(|of| of.high.exp_m1()),
        at_most,
        finds,
        pairs: pairs.len() as u32,
        rounds_needed,
        is_bound: false,
        answer,
    }
}

#[cfg(test)]
mod tests;
