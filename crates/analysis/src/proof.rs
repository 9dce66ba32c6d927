//! Proof of a bottleneck: reduce one resource and see whether throughput follows; then increase it, if
//! possible, and see whether that helps.
//!
//! The elasticity of throughput with respect to a resource is d ln X / d ln resource. In a closed system of
//! queues, X is homogeneous of degree one in all service rates. So the elasticities with respect to all of
//! them and to the think time add up to 1 (Euler's theorem): what remains after the changed resources is the
//! share of the unchanged ones. A resource that is the only limit has 1, one that is not a limit has 0.
//!
//! Where two limits meet, X has a corner: reducing either resource lowers it, increasing one alone does not
//! raise it. A reduction shows that a resource is needed, an increase that more of it would help; only both
//! together distinguish a limit from a corner.
//!
//! Each round measures the baseline and each resource once, in an order shuffled by the seed, so that drift
//! affects all alike. A resource is dropped when its interval is conclusive.

use std::collections::BTreeSet;

use model::design::Next;
use model::finding::FindingKind;
use model::resource::Detail;
use model::result::{Direction, NotVaried, ProofAnswer, ProofResult, ProofRow, ResultDocument, TrialResult};
use model::verdict::{InconclusiveReason, JointEvidence, Limit, Missing};
use model::{
    Change, Decision, Design, Ending, Estimate, Experiment, HostResource, Interval, IoLimits, Level,
    PROOF_SHARE, Resource, ResourceClass, Run, RunRecord, Settable, SettingPath, Shape, Study, Treatment,
    Trial, Verdict, metrics,
};

use crate::facts::FAILED_SHARE;
use crate::facts::service::{services, waits_for_cpus};
use crate::measured::Measured;
use crate::random::Random;
use crate::statistics::{CONFIDENCE, mean, t_interval};

/// Number of rounds of one change that are required for an answer, and the maximum number.
const ROUNDS: (u32, u32) = (4, 8);
/// Limit of the trials in a proof, so that its duration is acceptable: four rounds of two reduced resources,
/// and four of their increases.
const TRIALS_MAX: usize = 24;
/// If the whole interval of an elasticity is above this, the bottleneck is proved.
const CONFIRMED: f64 = 0.5;
/// If the whole interval is below this, the resource is ruled out.
const REJECTED: f64 = 0.2;
/// The confidence level of the interval for a confirmation. It is checked after each round, and a wrong proof
/// is worse than none, so it is higher than that of the shown interval and of a rejection.
const DECISIVE: f64 = 0.99;
/// No resource has an elasticity much above 1: an interval that reaches this shows that something else
/// changed too.
const IMPLAUSIBLE: f64 = 1.6;
/// If the whole interval of an elasticity is below this, the resource is certainly only a part of the limit.
const PARTIAL: f64 = 0.8;
/// Number of failures after which a resource is abandoned.
const FAILURES_MAX: usize = 2;
/// If the sum of all elasticities exceeds this, two limits meet at a corner, where each reduction has its
/// full effect.
const CORNER: f64 = 1.3;
/// A share between this and its inverse is too close to 1 to show an effect.
const NEARLY_ALL: f64 = 0.9;
/// The share of an open load that counts as complete: some operations are in flight at both ends.
const CARRIED: f64 = 0.97;

/// A resource with the direction of its change.
#[derive(Clone, Debug, PartialEq)]
struct ResourceChange {
    factor: String,
    resource: HostResource,
    direction: Direction,
    in_force: Level,
    level: Level,
    /// The level is based on what the service received, not on the configured level.
    starved: bool,
}

impl ResourceChange {
    fn treatment(&self) -> Treatment {
        Treatment::Proof(Change { factor: SettingPath(self.factor.clone()), level: self.level.clone() })
    }

    /// The changed amount as a share of the present one.
    fn share(&self) -> Option<f64> {
        match (self.direction, &self.level) {
            // Exact except for whole CPUs, which are rounded; the present level may be unlimited.
            (Direction::Reduced, level) if !matches!(level, Level::Count(_)) => Some(PROOF_SHARE),
            (_, level) => share_of(level, &self.in_force),
        }
        .filter(|share| *share > 0.0 && !(NEARLY_ALL..=1.0 / NEARLY_ALL).contains(share))
    }
}

fn share_of(level: &Level, whole: &Level) -> Option<f64> {
    let limits = |level: &Level| {
        let one = IoLimits::from_level(level)?;
        Some([one.reads_per_s, one.writes_per_s, one.read_bytes_per_s, one.write_bytes_per_s])
    };
    let of_limits = || {
        let both = limits(level)?.into_iter().zip(limits(whole)?);
        both.filter_map(|(level, whole)| Some(level? / whole?)).next()
    };
    let of_numbers = || Some(level.as_number()? / whole.as_number()?);
    of_numbers().or_else(of_limits)
}

/// The resources that can be changed, according to the first completed baseline.
fn settable(study: &Study) -> Option<&RunRecord> {
    study.runs.iter().find(|record| {
        let run = &record.run;
        run.trial.treatment == Treatment::Baseline
            && run.ending == Ending::Completed
            && !run.settable.is_empty()
    })
}

/// The reductions and possible increases, one resource after the other.
fn resource_changes(study: &Study) -> Vec<ResourceChange> {
    let Some(record) = settable(study) else { return Vec::new() };
    let mut changes: Vec<ResourceChange> = Vec::new();
    let resources: BTreeSet<HostResource> =
        record.run.settable.keys().filter_map(|factor| resource_of(record, factor)).collect();
    for resource in resources {
        // Two factors for the same resource would count it twice: a quota is preferred to whole CPUs, because
        // it is finer.
        let factors = record.run.settable.iter().filter_map(|(factor, settable)| match settable {
            Settable::Yes { in_force, reduced, raised } if resource_of(record, factor) == Some(resource) => {
                Some((factor, in_force, reduced, raised))
            }
            _ => None,
        });
        let change = |factor: &String, direction, in_force: &Level, level: &Level, starved| ResourceChange {
            factor: factor.clone(),
            resource,
            direction,
            in_force: in_force.clone(),
            level: level.clone(),
            starved,
        };
        let taken = factors.clone().find_map(|(factor, in_force, reduced, _)| {
            let starved = starved_level(record, factor);
            let level = starved.as_ref().or(reduced.as_ref())?;
            Some(change(factor, Direction::Reduced, in_force, level, starved.is_some()))
        });
        // Only the first limiting resource is increased: increasing another one would not overcome it.
        let given = factors
            .filter(|(_, in_force, _, _)| **in_force != Level::Unlimited)
            .map(|(factor, in_force, _, raised)| {
                let raised = raised.as_ref().filter(|_| !is_starved(record, factor, in_force));
                raised.map(|level| change(factor, Direction::Raised, in_force, level, false))
            })
            .next()
            .flatten();
        changes.extend(taken.into_iter().chain(given).filter(|one| one.share().is_some()));
    }
    changes
}

/// The reduced level if the service received less CPU time than configured, because others used the rest: a
/// share of what it received, because otherwise the reduction would have no effect.
fn starved_level(record: &RunRecord, factor: &str) -> Option<Level> {
    let Some(Settable::Yes { in_force, reduced, .. }) = record.run.settable.get(factor) else { return None };
    // If a quota is used up, the service received all of it.
    if !is_starved(record, factor, in_force) {
        return None;
    }
    let level = PROOF_SHARE * waiting_with(record, factor)?;
    let smaller = matches!(reduced, Some(Level::Number(number)) if level > 0.0 && level < *number);
    // Two digits, because a quota is set in whole milliseconds per period.
    smaller.then(|| Level::Number(((level * 100.0).round() / 100.0).max(0.01)))
}

/// Whether others use a part of a resource for which the service waits.
fn is_starved(record: &RunRecord, factor: &str, in_force: &Level) -> bool {
    let had = waiting_with(record, factor);
    had.zip(in_force.as_number()).is_some_and(|(had, in_force)| had < NEARLY_ALL * in_force)
}

/// The CPUs that the services used while most of their operations waited for more; none if they did not, or
/// for another resource. On a busy machine, a service that waits for something else also waits for a CPU
/// occasionally.
fn waiting_with(record: &RunRecord, factor: &str) -> Option<f64> {
    if resource_of(record, factor) != Some(HostResource::Cpu) {
        return None;
    }
    let measured = Measured::of(record);
    let in_flight = measured.intervals().map(|i| i.concurrency * (i.end_s - i.begin_s)).sum::<f64>();
    waits_for_cpus(&measured, in_flight / measured.length_s())
        .then(|| of_services(record, metrics::PROCESS_BUSY_CPUS))
        .flatten()
}

/// Whether an open load was completed as offered.
fn carried_all(record: &RunRecord) -> bool {
    let counts = Measured::of(record)
        .intervals()
        .map(|i| (i.completed - i.failed.min(i.completed), i.offered.unwrap_or(0)));
    let (well, offered) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    matches!(record.run.load.shape, Some(Shape::Open { .. })) && well as f64 >= CARRIED * offered as f64
}

/// A metric of all watched services together, over the measured phase.
fn of_services(record: &RunRecord, metric: &str) -> Option<f64> {
    let measured = Measured::of(record);
    measured.sum(metric, &services(&measured))
}

/// The host resource that a factor changes, according to the record.
fn resource_of(record: &RunRecord, factor: &str) -> Option<HostResource> {
    record.run.factor_resources.get(factor).copied()
}

/// The design of the experiment, followed by the rounds of the proof.
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
        let changes = resource_changes(study);
        if changes.is_empty() {
            return Next::Enough(format!("{before}; no resource could be changed for a proof"));
        }
        for round in 1..=TRIALS_MAX as u32 {
            let replicate = self.rounds_before + round;
            let mut wanted: Vec<(Treatment, String)> = changes
                .iter()
                .filter(|change| is_wanted(study, &changes, change, replicate))
                .map(|change| (change.treatment(), question(change)))
                .collect();
            if wanted.is_empty() {
                return Next::Enough(format!("{before}; the proof is settled after {} rounds", round - 1));
            }
            wanted.push((Treatment::Baseline, "the baseline beside it".into()));
            // A round that cannot be completed is not begun.
            let of_proof = self.rounds_before + 1..replicate;
            let before_it = study.runs.iter().filter(|record| of_proof.contains(&record.run.trial.replicate));
            if before_it.count() + wanted.len() > TRIALS_MAX {
                break;
            }
            Random::new(self.seed ^ u64::from(replicate)).shuffle(&mut wanted);
            for (treatment, question) in wanted {
                let tried = |ending: fn(&Ending) -> bool| {
                    study.runs.iter().any(|record| {
                        let Run { trial, ending: how, .. } = &record.run;
                        trial.treatment == treatment && trial.replicate == replicate && ending(how)
                    })
                };
                // A change that failed in this round is not repeated in it.
                if tried(|ending| matches!(ending, Ending::Completed | Ending::Failed(_))) {
                    continue;
                }
                let highest = study.runs.iter().map(|record| record.run.trial.number).max().unwrap_or(0);
                let number = highest.max(study.runs.len() as u32).saturating_add(1);
                let reason = format!("proof, round {round}: {question}");
                return Next::Trial(Decision { trial: Trial { number, treatment, replicate }, reason });
            }
        }
        Next::Enough(format!("{before}; the proof used all of its {TRIALS_MAX} trials"))
    }

    fn planned(&self) -> Option<Vec<Trial>> {
        None
    }
}

/// The question of a trial in the proof.
fn question(change: &ResourceChange) -> String {
    let ResourceChange { factor, level, .. } = change;
    match change.direction {
        Direction::Reduced => format!("does throughput follow when {factor} is reduced to {level}?"),
        Direction::Raised => format!("does throughput follow when {factor} is raised to {level}?"),
    }
}

/// Whether a round requires a change: until it is conclusive; an increase only if the reduction did not rule
/// the resource out.
fn is_wanted(study: &Study, changes: &[ResourceChange], change: &ResourceChange, replicate: u32) -> bool {
    let taken = changes.iter().find(|one| {
        change.direction == Direction::Raised
            && one.direction == Direction::Reduced
            && one.resource == change.resource
    });
    let is_its_turn = taken.is_none_or(|taken| {
        is_over(study, taken, replicate)
            && answer(&elasticities(study, taken, replicate, rate_of_record)).1 != ProofAnswer::Rejected
    });
    is_its_turn && !is_over(study, change, replicate)
}

/// Whether no further round of a change is needed: the rounds before `replicate` are conclusive, their
/// maximum number is reached, or the change failed too often.
fn is_over(study: &Study, change: &ResourceChange, replicate: u32) -> bool {
    let treatment = change.treatment();
    let failures = study.runs.iter().filter(|record| {
        record.run.trial.treatment == treatment
            && record.run.trial.replicate < replicate
            && matches!(record.run.ending, Ending::Failed(_))
    });
    let tried = tried(study, change, replicate).len() as u32;
    let elasticities = elasticities(study, change, replicate, rate_of_record);
    let is_in_vain = tried >= ROUNDS.0 && elasticities.is_empty();
    if failures.count() >= FAILURES_MAX || tried >= ROUNDS.1 || is_in_vain {
        return true;
    }
    let (elasticity, answer) = answer(&elasticities);
    let is_decided = match answer {
        ProofAnswer::Confirmed | ProofAnswer::Rejected => true,
        // It may still prove to be the whole limit.
        ProofAnswer::Contributing => elasticity.is_some_and(|elasticity| elasticity.high < PARTIAL),
        ProofAnswer::Unclear => false,
    };
    elasticities.len() >= ROUNDS.0 as usize && is_decided
}

/// The rounds before `replicate` with this change.
fn tried(study: &Study, change: &ResourceChange, replicate: u32) -> Vec<u32> {
    let treatment = change.treatment();
    let trials = study.runs.iter().map(|record| &record.run.trial);
    let mut rounds: Vec<u32> = trials
        .filter(|trial| trial.treatment == treatment && trial.replicate < replicate)
        .map(|trial| trial.replicate)
        .collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

/// Successful operations per second in the measured phase of a record.
fn rate_of_record(study: &Study, at: usize) -> Option<f64> {
    let measured = Measured::of(study.runs.get(at)?);
    let of_load = measured.intervals().filter(|one| !measured.is_supporting(&one.operation));
    let well: f64 = of_load.map(|i| i.completed.saturating_sub(i.failed) as f64).sum();
    (measured.length_s() > 0.0).then(|| well / measured.length_s())
}

/// The elasticity in each round before `replicate` in which the baseline and the changed trial completed
/// without too many failures.
fn elasticities(
    study: &Study,
    change: &ResourceChange,
    replicate: u32,
    rate: impl Fn(&Study, usize) -> Option<f64>,
) -> Vec<f64> {
    pairs(study, change, replicate, rate).into_iter().map(|(elasticity, _)| elasticity).collect()
}

/// The same, with the logarithm of the throughput ratio.
fn pairs(
    study: &Study,
    change: &ResourceChange,
    replicate: u32,
    rate: impl Fn(&Study, usize) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let treatment = change.treatment();
    let find = |wanted: &Treatment, round: u32| {
        let at = study.runs.iter().position(|record| {
            let run = &record.run;
            run.trial.treatment == *wanted && run.trial.replicate == round && run.ending == Ending::Completed
        })?;
        let record = study.runs.get(at)?;
        Some((record, rate(study, at).filter(|rate| *rate > 0.0 && !failing(record))?))
    };
    let share = |baseline: &RunRecord, changed: &RunRecord| match change.direction {
        // For a shared resource, the reduction is relative to what the service received in the neighbouring
        // baseline.
        Direction::Reduced if change.starved => {
            let had = of_services(baseline, metrics::PROCESS_BUSY_CPUS)?;
            Some(change.level.as_number()? / had).filter(|share| *share < NEARLY_ALL)
        }
        // The service did not receive the increase, because others used it.
        Direction::Raised if is_starved(changed, &change.factor, &change.level) => None,
        // The offered load was completed: how far throughput would have increased is unknown.
        Direction::Raised if carried_all(changed) && !carried_all(baseline) => None,
        _ => change.share(),
    };
    let pairs = tried(study, change, replicate).into_iter().filter_map(|round| {
        let ((baseline, base), (changed, rate)) =
            (find(&Treatment::Baseline, round)?, find(&treatment, round)?);
        let effect = (rate / base).ln();
        Some((effect / share(baseline, changed)?.ln(), effect))
    });
    pairs.filter(|(elasticity, _)| elasticity.is_finite()).collect()
}

/// Whether too many operations failed for a statement about limits.
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

/// The results of the proof; none if no proof was requested.
pub(crate) fn result(study: &Study, trials: &[TrialResult]) -> Option<ProofResult> {
    let record = settable(study)?;
    let rate = |_: &Study, at: usize| trials.get(at)?.whole().map(|whole| whole.rate_per_s);
    let changes = resource_changes(study);
    let rows = changes.iter().filter_map(|change| {
        if change.direction == Direction::Raised && tried(study, change, u32::MAX).is_empty() {
            return None;
        }
        let (elasticities, effects): (Vec<f64>, Vec<f64>) =
            pairs(study, change, u32::MAX, rate).into_iter().unzip();
        let (elasticity, answer) = answer(&elasticities);
        Some(ProofRow {
            resource: change.resource,
            factor: change.factor.clone(),
            direction: change.direction,
            in_force: change.in_force.to_string(),
            level: change.level.to_string(),
            rounds: elasticities.len() as u32,
            throughput_ratio: mean(&effects).map(f64::exp),
            elasticity,
            answer: match answer {
                // More memory helps only after it is filled, which may take longer than a trial.
                ProofAnswer::Rejected
                    if (change.direction, change.resource) == (Direction::Raised, HostResource::Memory) =>
                {
                    ProofAnswer::Unclear
                }
                answer => answer,
            },
        })
    });
    let rows: Vec<ProofRow> = rows.collect();
    let not_varied = record.run.settable.iter().filter_map(|(factor, settable)| match settable {
        Settable::No(why) => {
            let resource = resource_of(record, factor)?;
            let is_open = changes.iter().all(|change| change.resource != resource);
            is_open.then(|| NotVaried { factor: factor.clone(), why: why.clone() })
        }
        Settable::Yes { .. } => None,
    });
    let taken = rows.iter().filter(|row| row.direction == Direction::Reduced);
    let elasticities: Vec<Estimate> = taken.filter_map(|row| row.elasticity).collect();
    let half = elasticities.iter().map(|e| ((e.high - e.low) / 2.0).powi(2)).sum::<f64>().sqrt();
    let left = 1.0 - elasticities.iter().map(|e| e.value).sum::<f64>();
    let residual =
        (!elasticities.is_empty()).then_some(Estimate { value: left, low: left - half, high: left + half });
    let target = study.plan.as_ref().and_then(|plan| plan.experiment.target.as_ref());
    let host = target.and_then(model::Target::machine).unwrap_or_default().to_string();
    Some(ProofResult {
        share: PROOF_SHARE,
        host,
        not_varied: not_varied.collect(),
        rows,
        residual,
        observed: None,
    })
}

/// The conclusion about a resource from its reduction and its increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conclusion {
    /// It is a limit.
    Limits,
    /// It is needed, but an increase alone has no effect: another limit is at or slightly above it.
    AtCorner,
    /// One of its changes shows that it is not a limit.
    RuledOut,
    /// No conclusion.
    Open,
}

/// The conclusion about a resource. A reduction proves that it is needed, an increase that more of it helps.
/// Throughput is concave in a resource, so each further increase has less effect. An increase therefore
/// confirms a limit only if the reduction is compatible.
fn standing(taken: Option<&ProofRow>, given: Option<&ProofRow>) -> Conclusion {
    let is = |row: Option<&ProofRow>, answer| row.is_some_and(|row| row.answer == answer);
    let allowed = taken.and_then(|row| row.elasticity).is_none_or(|elasticity| elasticity.high > CONFIRMED);
    // Increasing the only limit increases throughput nearly as much; for memory, only after it is filled.
    let is_little = |row: &&ProofRow| {
        row.answer == ProofAnswer::Unclear
            && row.resource != HostResource::Memory
            && row.elasticity.is_some_and(|elasticity| elasticity.high < CONFIRMED)
    };
    let gains_little = is(given, ProofAnswer::Rejected) || given.as_ref().is_some_and(is_little);
    match () {
        () if is(taken, ProofAnswer::Confirmed) && gains_little => Conclusion::AtCorner,
        () if is(taken, ProofAnswer::Confirmed) => Conclusion::Limits,
        () if is(taken, ProofAnswer::Rejected) || is(given, ProofAnswer::Rejected) => Conclusion::RuledOut,
        () if is(given, ProofAnswer::Confirmed) && allowed => Conclusion::Limits,
        () => Conclusion::Open,
    }
}

/// A changed resource with its conclusion.
struct JudgedResource {
    resource: HostResource,
    standing: Conclusion,
}

fn weighed(proof: &ProofResult) -> Vec<JudgedResource> {
    let rows: Vec<&ProofRow> = proof.rows.iter().filter(|row| row.rounds > 0).collect();
    let of_a_resource = rows.chunk_by(|one, other| one.resource == other.resource);
    of_a_resource
        .filter_map(|rows| {
            let of = |direction| rows.iter().copied().find(|row| row.direction == direction);
            let standing = standing(of(Direction::Reduced), of(Direction::Raised));
            Some(JudgedResource { resource: rows.first()?.resource, standing })
        })
        .collect()
}

/// The verdict after the proof: rejected resources are no longer named, confirmed ones are.
pub(crate) fn weigh(verdict: Verdict, document: &ResultDocument) -> Verdict {
    let Some(proof) = &document.proof else { return verdict };
    let weighed = weighed(proof);
    if matches!(verdict, Verdict::GeneratorBound { .. }) || weighed.is_empty() {
        return verdict;
    }
    let with = |wanted: Conclusion| {
        let found = weighed.iter().filter(move |one| one.standing == wanted);
        found.map(|one| one.resource).collect::<Vec<HostResource>>()
    };
    let (limits, at_corner) = (with(Conclusion::Limits), with(Conclusion::AtCorner));
    let seen = verdict.resource().cloned();
    let named = seen.as_ref().and_then(|resource| resource.of_factor(&proof.host));
    let proved = |limit, finding| Verdict::Bottleneck { limit, finding, proved: true };
    let of_flushes =
        |seen: &Resource| seen.class == ResourceClass::Disk && seen.detail == Some(Detail::Flushes);
    let together = |resources, sign| proved(Limit::Together { resources, sign }, None);
    let taken = || proof.rows.iter().filter(|row| row.direction == Direction::Reduced);
    let sum: f64 = taken().filter_map(|row| row.elasticity).map(|elasticity| elasticity.value).sum();
    // Each resource alone may be unproved. That throughput needs several together is conclusive, unless
    // increasing one of them helps.
    let needed: Vec<HostResource> = taken()
        .filter(|row| row.elasticity.is_some_and(|found| found.low > CONFIRMED))
        .map(|row| row.resource)
        .collect();
    let helps = proof.rows.iter().any(|row| {
        let gains = matches!(row.answer, ProofAnswer::Confirmed | ProofAnswer::Contributing);
        row.direction == Direction::Raised && gains
    });
    match (limits.as_slice(), at_corner.as_slice()) {
        ([_, _, ..], _) if sum > CORNER => together(limits, JointEvidence::EachFollowed),
        ([], [_, _, ..]) => together(at_corner, JointEvidence::RaisingOneGainedNothing),
        _ if needed.len() >= 2 && sum > CORNER && !helps => {
            together(needed, JointEvidence::ReducingEitherCosts)
        }
        ([first, ..], _) => {
            let (resource, finding) = best_name(&verdict, document, *first);
            proved(Limit::One { resource, close_above: at_corner }, finding)
        }
        // A limit on operations that is as high as the disk's own rate makes flushes no shorter, and flushes
        // were observed.
        ([], [HostResource::Disk]) if seen.as_ref().is_some_and(of_flushes) => {
            let (resource, finding) = best_name(&verdict, document, HostResource::Disk);
            proved(Limit::One { resource, close_above: Vec::new() }, finding)
        }
        ([], [one]) => {
            let is_known =
                named != Some(*one) && named.is_none_or(|named| !with(Conclusion::RuledOut).contains(&named));
            let limit = Limit::CloseTo { resource: *one, other: seen.filter(|_| is_known) };
            proved(limit, None)
        }
        ([], []) => match verdict {
            Verdict::Bottleneck { limit, finding, .. } => {
                // If fewer CPUs have no effect, this is compatible with one thread that uses one CPU all the
                // time.
                let is_varied = seen.as_ref().is_some_and(|one| one.class != ResourceClass::SingleThread);
                let of_named = weighed.iter().find(|one| is_varied && Some(one.resource) == named);
                match (of_named, seen) {
                    (Some(one), Some(resource)) if one.standing == Conclusion::RuledOut => {
                        Verdict::Inconclusive {
                            reason: InconclusiveReason::Disproved { resource },
                            lacks: vec![Missing::OtherFactor],
                        }
                    }
                    _ => proved(limit, finding),
                }
            }
            verdict => verdict,
        },
    }
}

/// The name of the resource in the verdict or in a detector's finding, which is more specific than its class;
/// and that finding.
fn best_name(
    verdict: &Verdict,
    document: &ResultDocument,
    proved: HostResource,
) -> (Resource, Option<usize>) {
    let host = document.proof.as_ref().map_or("", |proof| proof.host.as_str());
    let is_it = |resource: &Resource| resource.of_factor(host) == Some(proved);
    if let (Verdict::Bottleneck { finding, .. }, Some(resource)) = (verdict, verdict.resource())
        && is_it(resource)
    {
        return (resource.clone(), *finding);
    }
    let mut findings = document.findings.iter().enumerate();
    let found = findings.find_map(|(at, finding)| {
        let resource = finding.about.as_ref().filter(|about| is_it(about))?;
        (finding.kind == FindingKind::Limits).then(|| (resource.clone(), Some(at)))
    });
    found.unwrap_or_else(|| {
        let class = match proved {
            HostResource::Cpu => ResourceClass::Cpu,
            HostResource::Memory => ResourceClass::Memory,
            HostResource::Disk => ResourceClass::Disk,
            HostResource::Network => ResourceClass::Network,
        };
        (Resource::of_host(class).on(host), None)
    })
}
