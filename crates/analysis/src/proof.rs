//! Proof of a bottleneck: take a part of one resource and see whether throughput follows.
//!
//! The elasticity of throughput to a resource is d ln X / d ln resource. In a closed system of queues X is homogeneous of
//! degree one in all service rates, so the elasticities to all of them and to the think time add up to 1 (Euler's
//! theorem): what the turned resources leave over is the share of what was not turned. A resource that limits alone has
//! 1, one that does not limit has 0.
//!
//! Each round measures the baseline and each resource once, in an order shuffled by the seed, so that what drifts over
//! the experiment meets all alike. A resource drops out once its interval says enough.

use model::design::Next;
use model::result::{NotTurned, ProofAnswer, ProofResult, ProofRow, ResultDocument, TrialResult};
use model::{
    Change, Decision, Design, Ending, Estimate, Experiment, Interval, Level, PROOF_SHARE, Run, RunRecord,
    SettingPath, Study, Treatment, Trial, Turnable, Verdict,
};

use crate::measured::Measured;
use crate::random::Random;
use crate::statistics::{CONFIDENCE, t_interval};
use crate::verdict::FAILED_SHARE;
use crate::words;

/// Rounds before anything is said, and after which no more is asked.
const ROUNDS: (u32, u32) = (4, 8);
/// An elasticity above this, with its whole interval, is a bottleneck proved.
const CONFIRMED: f64 = 0.5;
/// One below this, with its whole interval, rules the resource out.
const REJECTED: f64 = 0.2;
/// The confidence of the interval that confirms. It is looked at after each round, and a wrong proof is worse than none, so
/// it must err less often than the one that is shown and that rejects.
const DECISIVE: f64 = 0.99;
/// No resource has an elasticity much above 1: an interval that reaches this shows that something else changed too.
const IMPLAUSIBLE: f64 = 1.6;
/// An elasticity with its interval below this is a part of the limit for sure.
const PARTIAL: f64 = 0.8;
/// Failures after which a resource is given up.
const FAILURES_MAX: usize = 2;
/// More than this for the sum of all elasticities: two limits at a corner, where taking either hurts fully.
const CORNER: f64 = 1.3;
/// The share left of what a starved service had, above which too little was taken to see anything.
const STARVED_SHARE: f64 = 0.9;
/// Seconds its threads waited for a CPU per second, from which a service got all the CPU there was.
const STARVED: f64 = 0.5;

/// A resource of which a part is taken.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    factor: String,
    in_force: Level,
    reduced: Level,
    /// The level was taken from what the service got, not from what is in force.
    starved: bool,
}

/// What could be turned, as the first baseline that completed says.
fn turnable(study: &Study) -> Option<&RunRecord> {
    study.runs.iter().find(|record| {
        let run = &record.run;
        run.trial.treatment == Treatment::Baseline
            && run.ending == Ending::Completed
            && !run.turnable.is_empty()
    })
}

fn candidates(study: &Study) -> Vec<Candidate> {
    let Some(record) = turnable(study) else { return Vec::new() };
    let found = record.run.turnable.iter().filter_map(|(factor, turnable)| match turnable {
        Turnable::Yes { in_force, reduced } => {
            let starved = starved(record, factor);
            Some(Candidate {
                factor: factor.clone(),
                in_force: in_force.clone(),
                starved: starved.is_some(),
                reduced: starved.unwrap_or_else(|| reduced.clone()),
            })
        }
        Turnable::No(_) => None,
    });
    let mut candidates: Vec<Candidate> = found.filter(|one| resource_of(&one.factor) != OTHER).collect();
    // Two ways to take the same resource would count it twice: whole processors give way to a quota, which is finer.
    let quota = candidates.iter().any(|one| one.factor == "host.cpu_quota");
    candidates.retain(|one| !(quota && one.factor == "host.cpus"));
    candidates
}

/// The level to take when the service got less CPU than is in force, because others had the rest: a share of what it
/// got, or nothing would be taken from it.
fn starved(record: &RunRecord, factor: &str) -> Option<Level> {
    if resource_of(factor) != "cpu" {
        return None;
    }
    let Some(Turnable::Yes { reduced, .. }) = record.run.turnable.get(factor) else { return None };
    let (busy, waited) =
        (of_services(record, "process.busy_cpus")?, of_services(record, "process.run_queue_length")?);
    let level = PROOF_SHARE * busy;
    let smaller = matches!(reduced, Level::Number(number) if level > 0.0 && level < *number);
    // Two digits: a quota is set in whole milliseconds of a period.
    (waited >= STARVED && smaller).then(|| Level::Number(((level * 100.0).round() / 100.0).max(0.01)))
}

/// What is none of the resources of a host.
const OTHER: &str = "other";

/// A metric of all watched services together, over the measured phase.
fn of_services(record: &RunRecord, metric: &str) -> Option<f64> {
    let measured = Measured::of(record);
    measured.sum(metric, &crate::detect::services(&measured))
}

/// The resource a factor turns, in the words of the detectors.
pub(crate) fn resource_of(factor: &str) -> &'static str {
    match factor {
        path if path.contains("cpu") => "cpu",
        path if path.contains("memory") => "memory",
        path if path.contains("disk") => "disk",
        path if path.contains("network") => "network",
        _ => OTHER,
    }
}

/// The design of the experiment itself, then the rounds of the proof.
pub(crate) struct Proving {
    seed: u64,
    /// The last round of the experiment itself.
    rounds_before: u32,
    first: Box<dyn Design>,
}

impl Proving {
    pub(crate) fn new(experiment: &Experiment, first: Box<dyn Design>) -> Self {
        let planned = first.planned().unwrap_or_default();
        let rounds_before = planned.iter().map(|trial| trial.replicate).max().unwrap_or(0);
        Proving { seed: experiment.seed, rounds_before, first }
    }
}

impl Design for Proving {
    fn next(&self, study: &Study) -> Next {
        let before = match self.first.next(study) {
            Next::Enough(why) => why,
            next => return next,
        };
        let candidates = candidates(study);
        if candidates.is_empty() {
            return Next::Enough(format!("{before}; nothing could be taken away for a proof"));
        }
        for round in 1..=ROUNDS.1 {
            let replicate = self.rounds_before + round;
            let mut treatments: Vec<Treatment> = candidates
                .iter()
                .filter(|candidate| !settled(study, candidate, replicate))
                .map(treatment)
                .collect();
            if treatments.is_empty() {
                return Next::Enough(format!("{before}; the proof is settled after {} rounds", round - 1));
            }
            treatments.push(Treatment::Baseline);
            Random::new(self.seed ^ u64::from(replicate)).shuffle(&mut treatments);
            for treatment in treatments {
                let tried = |ending: fn(&Ending) -> bool| {
                    study.runs.iter().any(|record| {
                        let Run { trial, ending: how, .. } = &record.run;
                        trial.treatment == treatment && trial.replicate == replicate && ending(how)
                    })
                };
                // One that failed in this round is left out of it.
                if tried(|ending| matches!(ending, Ending::Completed | Ending::Failed(_))) {
                    continue;
                }
                let highest = study.runs.iter().map(|record| record.run.trial.number).max().unwrap_or(0);
                let number = highest.max(study.runs.len() as u32).saturating_add(1);
                let reason = match &treatment {
                    Treatment::Proof(change) => format!(
                        "proof, round {round}: does throughput follow when {} is cut to {}?",
                        change.factor.0, change.level
                    ),
                    _ => format!("proof, round {round}: the baseline beside it"),
                };
                return Next::Trial(Decision { trial: Trial { number, treatment, replicate }, reason });
            }
        }
        Next::Enough(format!("{before}; the proof took all of its {} rounds", ROUNDS.1))
    }

    fn planned(&self) -> Option<Vec<Trial>> {
        None
    }
}

fn treatment(candidate: &Candidate) -> Treatment {
    Treatment::Proof(Change {
        factor: SettingPath(candidate.factor.clone()),
        level: candidate.reduced.clone(),
    })
}

/// Whether the rounds before `replicate` say enough of a candidate, or it cannot be turned after all.
fn settled(study: &Study, candidate: &Candidate, replicate: u32) -> bool {
    let treatment = treatment(candidate);
    let failures = study.runs.iter().filter(|record| {
        record.run.trial.treatment == treatment
            && record.run.trial.replicate < replicate
            && matches!(record.run.ending, Ending::Failed(_))
    });
    if failures.count() >= FAILURES_MAX {
        return true;
    }
    let elasticities = elasticities(study, candidate, replicate, rate_of_record);
    let (elasticity, answer) = answer(&elasticities);
    let is_decided = match answer {
        ProofAnswer::Confirmed | ProofAnswer::Rejected => true,
        // It may yet turn out to be all of it.
        ProofAnswer::Contributing => elasticity.is_some_and(|elasticity| elasticity.high < PARTIAL),
        ProofAnswer::Unclear => false,
    };
    elasticities.len() >= ROUNDS.0 as usize && is_decided
}

/// Operations done well per second of the measured phase of a record.
fn rate_of_record(study: &Study, at: usize) -> Option<f64> {
    let measured = Measured::of(study.runs.get(at)?);
    let well: u64 = measured.intervals().map(|i| i.completed.saturating_sub(i.failed)).sum();
    (measured.length_s() > 0.0).then(|| well as f64 / measured.length_s())
}

/// The elasticity in each round before `replicate` in which the baseline and the candidate completed, and what they did
/// did not fail.
fn elasticities(
    study: &Study,
    candidate: &Candidate,
    replicate: u32,
    rate: impl Fn(&Study, usize) -> Option<f64>,
) -> Vec<f64> {
    let treatment = treatment(candidate);
    let find = |wanted: &Treatment, round: u32| {
        let at = study.runs.iter().position(|record| {
            let run = &record.run;
            run.trial.treatment == *wanted && run.trial.replicate == round && run.ending == Ending::Completed
        })?;
        Some((at, rate(study, at).filter(|rate| *rate > 0.0 && !failing(&study.runs[at]))?))
    };
    // Of a resource that others share, what is left is told by what the service had of it in the baseline beside.
    let share = |baseline: usize| match (candidate.starved, candidate.reduced.as_number()) {
        (true, Some(level)) => {
            let had = of_services(study.runs.get(baseline)?, "process.busy_cpus")?;
            Some(level / had).filter(|share| *share < STARVED_SHARE)
        }
        _ => Some(PROOF_SHARE),
    };
    let mut rounds: Vec<u32> = study
        .runs
        .iter()
        .filter(|record| record.run.trial.treatment == treatment)
        .map(|record| record.run.trial.replicate)
        .filter(|round| *round < replicate)
        .collect();
    rounds.sort_unstable();
    rounds.dedup();
    let pairs = rounds.into_iter().filter_map(|round| {
        let ((at, base), (_, reduced)) = (find(&Treatment::Baseline, round)?, find(&treatment, round)?);
        Some((reduced / base).ln() / share(at)?.ln())
    });
    pairs.filter(|elasticity| elasticity.is_finite()).collect()
}

/// Whether so many operations failed that the rest says nothing about what limits.
fn failing(record: &RunRecord) -> bool {
    let sum =
        |of: fn(&Interval) -> u64| Measured::of(record).intervals().map(of).map(|n| n as f64).sum::<f64>();
    sum(|interval| interval.failed) > FAILED_SHARE * sum(|interval| interval.completed)
}

fn answer(elasticities: &[f64]) -> (Option<Estimate>, ProofAnswer) {
    let interval = |confidence| t_interval(elasticities, confidence);
    let Some((elasticity, decisive)) = interval(CONFIDENCE).zip(interval(DECISIVE)) else {
        return (None, ProofAnswer::Unclear);
    };
    let (low, high) = (decisive.low, elasticity.high);
    let answer = match () {
        () if low > CONFIRMED && high > IMPLAUSIBLE => ProofAnswer::Unclear,
        () if low > CONFIRMED => ProofAnswer::Confirmed,
        () if high < REJECTED => ProofAnswer::Rejected,
        () if low > REJECTED => ProofAnswer::Contributing,
        () => ProofAnswer::Unclear,
    };
    (Some(elasticity), answer)
}

/// What the rounds of the proof showed; none when no proof was asked for.
pub(crate) fn result(study: &Study, trials: &[TrialResult]) -> Option<ProofResult> {
    let record = turnable(study)?;
    let rate = |_: &Study, at: usize| trials.get(at)?.whole().map(|whole| whole.rate_per_s);
    let rows: Vec<ProofRow> = candidates(study)
        .into_iter()
        .map(|candidate| {
            let elasticities = elasticities(study, &candidate, u32::MAX, rate);
            let (elasticity, answer) = answer(&elasticities);
            ProofRow {
                resource: resource_of(&candidate.factor).into(),
                factor: candidate.factor,
                in_force: candidate.in_force.to_string(),
                reduced: candidate.reduced.to_string(),
                rounds: elasticities.len() as u32,
                elasticity,
                answer,
            }
        })
        .collect();
    let not_turned = record.run.turnable.iter().filter_map(|(factor, turnable)| match turnable {
        Turnable::No(why) if resource_of(factor) != OTHER => {
            Some(NotTurned { factor: factor.clone(), why: why.clone() })
        }
        _ => None,
    });
    let turned: Vec<Estimate> = rows.iter().filter_map(|row| row.elasticity).collect();
    let half = turned.iter().map(|e| ((e.high - e.low) / 2.0).powi(2)).sum::<f64>().sqrt();
    let left = 1.0 - turned.iter().map(|e| e.value).sum::<f64>();
    let residual =
        (!turned.is_empty()).then_some(Estimate { value: left, low: left - half, high: left + half });
    Some(ProofResult { share: PROOF_SHARE, not_turned: not_turned.collect(), rows, residual, observed: None })
}

/// The verdict once the proof has spoken: what it rejected is no longer named, what it confirmed is.
pub(crate) fn weigh(verdict: Verdict, document: &ResultDocument) -> Verdict {
    let Some(proof) = &document.proof else { return verdict };
    if matches!(verdict, Verdict::GeneratorBound { .. }) || proof.rows.iter().all(|row| row.rounds == 0) {
        return verdict;
    }
    let with = |wanted: ProofAnswer| proof.rows.iter().filter(move |row| row.answer == wanted);
    let named = match &verdict {
        Verdict::Bottleneck { resource, .. } => class(resource).to_string(),
        _ => String::new(),
    };
    let confirmed: Vec<&ProofRow> = with(ProofAnswer::Confirmed).collect();
    let sum: f64 = proof.rows.iter().filter_map(|row| row.elasticity).map(|e| e.value).sum();
    if confirmed.len() >= 2 && sum > CORNER {
        let names: Vec<&str> = confirmed.iter().map(|row| row.resource.as_str()).collect();
        return Verdict::Bottleneck {
            resource: format!("mixed: {}", names.join(" and ")),
            text: format!(
                "More than one limit binds at once: {}. Raising one alone would gain little.",
                confirmed.iter().map(|row| shown(row)).collect::<Vec<_>>().join("; ")
            ),
            proof: Some(sentence(proof)),
        };
    }
    if let Some(row) = confirmed.first() {
        // The detector that looked at this resource has the better words for it.
        let finding = document.findings.iter().find(|finding| {
            finding.kind == model::FindingKind::Limits && class(&finding.resource) == row.resource
        });
        let (resource, text) = match (&verdict, finding) {
            (Verdict::Bottleneck { resource, text, .. }, _) if named == row.resource => {
                (resource.clone(), text.clone())
            }
            (_, Some(finding)) => (finding.resource.clone(), finding.text.clone()),
            _ => (row.resource.clone(), format!("The {} limited this run.", row.resource)),
        };
        return Verdict::Bottleneck { resource, text, proof: Some(sentence(proof)) };
    }
    if let Verdict::Bottleneck { resource, text, .. } = verdict {
        let rejected = with(ProofAnswer::Rejected).find(|row| row.resource == named);
        return match rejected {
            Some(row) => Verdict::Inconclusive {
                text: format!(
                    "It looked as if the {resource} limited, but {}. {}",
                    shown(row),
                    sentence(proof)
                ),
                missing: vec!["what limits instead: it was not among what was turned".into()],
            },
            None => Verdict::Bottleneck { resource, text, proof: Some(sentence(proof)) },
        };
    }
    verdict
}

/// What sort of resource a name is of, in the words of [`resource_of`]; the name itself for what no factor turns.
fn class(resource: &str) -> &str {
    match resource.split([' ', ':']).next().unwrap_or_default() {
        "I/O" => "disk",
        "single" => "cpu",
        first @ ("cpu" | "memory" | "disk" | "network") => first,
        _ => resource,
    }
}

fn shown(row: &ProofRow) -> String {
    let Some(e) = row.elasticity else { return format!("{} was not measured", row.factor) };
    let cut = format!("with {} cut from {} to {}", row.factor, row.in_force, row.reduced);
    let interval = format!("elasticity {:.2} [{:.2}, {:.2}]", e.value, e.low, e.high);
    match row.answer {
        ProofAnswer::Confirmed => format!("{cut} throughput followed ({interval})"),
        ProofAnswer::Contributing => format!("{cut} throughput followed in part ({interval})"),
        ProofAnswer::Rejected => format!("{cut} throughput did not follow ({interval})"),
        ProofAnswer::Unclear => format!("{cut} it cannot be said whether throughput followed ({interval})"),
    }
}

/// The whole proof in a sentence.
fn sentence(proof: &ProofResult) -> String {
    let rows: Vec<String> = proof.rows.iter().filter(|row| row.rounds > 0).map(shown).collect();
    let mut text = rows.join("; ");
    if let Some(left) = proof.residual.filter(|left| left.low > REJECTED) {
        text.push_str(&format!(
            "; {} of the limit lies in what was not turned: the service itself, what it calls, or the load",
            words::percent(left.value.clamp(0.0, 1.0))
        ));
    }
    text.push('.');
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}
