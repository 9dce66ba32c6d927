//! Which limit binds. Better no answer than a confident wrong one: what is missing is named.

use std::collections::BTreeSet;

use model::claim::LaunchState;
use model::launch::Doing;
use model::result::{ResultDocument, TrialResult};
use model::run::Origin;
use model::verdict::{Carried, Closest, Limit, Unclear};
use model::{
    Claim, Detector, DoubtKind, Ending, Finding, FindingKind, Missing, Resource, ResourceClass, SourceState,
    Study, Treatment, Verdict, metrics,
};

use crate::curve::{gain, load_curves};
use crate::facts::generator::{RUN_WAIT_SHARE, Shares};
use crate::facts::launches::{are_seen, is_of_a_command};
use crate::facts::{FAILED_SHARE, ISSUED_SHARE};
use crate::measured::Measured;

/// Standard deviations by which operations in flight at the edges of a phase may differ from their mean.
const EDGES: f64 = 3.0;

/// The verdict of a study from what was found. It is about the baseline, when a trial of it completed: the treatments
/// say what would change.
///
/// In this order: a trial in which more than 1 % of the operations fail says nothing; the load generator was the limit, and
/// nothing else is claimed; a resource was, in most of the trials and no other in as many; an open load was carried whole;
/// else it cannot be said.
pub fn judge(study: &Study, document: &ResultDocument) -> Verdict {
    let unclear = |reason, lacks| Verdict::Inconclusive { reason, lacks };
    if document.origin == Origin::Watched {
        return unclear(Unclear::OnlyWatched, Vec::new());
    }
    let completed = completed(study, document);
    let is_baseline = |at: &usize| study.runs[*at].run.trial.treatment == Treatment::Baseline;
    let baseline: Vec<usize> = completed.iter().copied().filter(is_baseline).collect();
    let judged = if baseline.is_empty() { completed } else { baseline };
    if judged.is_empty() {
        let ended = study.runs.iter().any(|record| record.run.ending == Ending::Completed);
        return match ended {
            true => unclear(Unclear::NothingRecorded, vec![Missing::Intervals]),
            false => unclear(Unclear::NothingCompleted, vec![Missing::CompletedTrial]),
        };
    }
    of_trials(study, document, judged)
}

/// The verdict of one configuration, by the label of its treatment; none when none of its trials completed.
pub(crate) fn of_configuration(study: &Study, document: &ResultDocument, label: &str) -> Option<Verdict> {
    let is_of_it = |at: &usize| document.trials[*at].treatment.label == label;
    let judged: Vec<usize> = completed(study, document).into_iter().filter(is_of_it).collect();
    (document.origin == Origin::Driven && !judged.is_empty()).then(|| of_trials(study, document, judged))
}

/// Trials that completed with operations, by their places.
fn completed(study: &Study, document: &ResultDocument) -> Vec<usize> {
    (0..study.runs.len().min(document.trials.len()))
        .filter(|at| study.runs[*at].run.ending == Ending::Completed)
        .filter(|at| document.trials[*at].whole().is_some_and(|whole| whole.completed > 0))
        .collect()
}

/// The verdict of trials that completed, at least one.
fn of_trials(study: &Study, document: &ResultDocument, mut judged: Vec<usize>) -> Verdict {
    let unclear = |reason, lacks| Verdict::Inconclusive { reason, lacks };
    let mut doubts = document.trials.iter().flat_map(|trial| &trial.doubts);
    if doubts.any(|doubt| doubt.kind == DoubtKind::Corrupted) {
        return unclear(Unclear::Corrupted, Vec::new());
    }
    let failing = |at: &usize| {
        let whole = document.trials[*at].whole();
        whole.is_some_and(|whole| whole.failed as f64 > FAILED_SHARE * whole.completed as f64)
    };
    if judged.iter().all(|at| document.trials[*at].failed_wholly()) {
        return unclear(Unclear::AllFailed, vec![Missing::Success]);
    }
    if judged.iter().all(failing) {
        return unclear(Unclear::TooManyFailed, vec![Missing::FewerFailures]);
    }
    judged.retain(|at| !failing(at));
    let share_of = |finding: &Finding| shown_in(finding, document, &judged) as f64 / judged.len() as f64;
    let limits = document.findings.iter().enumerate().filter(|(_, one)| one.kind == FindingKind::Limits);
    let mut limits: Vec<(usize, &Finding, f64)> =
        limits.map(|(at, finding)| (at, finding, share_of(finding))).collect();
    limits.retain(|(_, _, share)| *share >= 0.5);
    if let Some((finding, ..)) = limits.iter().find(|(_, finding, _)| finding.detector == Detector::Generator)
    {
        return Verdict::GeneratorBound { finding: *finding };
    }
    // A service that waits for another one is as fast as that: where the other one's limit is seen, it is the limit.
    let waits = |finding: &Finding| {
        finding.about.as_ref().is_some_and(|about| about.class == ResourceClass::Downstream)
    };
    if limits.iter().any(|(_, finding, _)| !waits(finding)) {
        limits.retain(|(_, finding, _)| !waits(finding));
    }
    limits.sort_by(|a, b| b.2.total_cmp(&a.2));
    // Two detectors that name the same resource agree.
    let mut named = BTreeSet::new();
    limits.retain(|(_, finding, _)| named.insert(finding.about.clone()));
    let bottleneck = |at: usize, finding: &Finding| {
        let resource = finding.about.clone()?;
        let limit = Limit::One { resource, close_above: Vec::new() };
        Some(Verdict::Bottleneck { limit, finding: Some(at), proved: false })
    };
    let alone = match limits.as_slice() {
        [] => None,
        [(at, finding, _)] => bottleneck(*at, finding),
        [(at, first, share), (_, _, next), ..] if share > next => bottleneck(*at, first),
        several => {
            let findings = several.iter().map(|(at, ..)| *at).collect();
            return unclear(Unclear::SeveralSaturated { findings }, vec![Missing::OneChangedAlone]);
        }
    };
    if let Some(verdict) = alone {
        return verdict;
    }
    if let Some(carried) = asleep(document, &judged) {
        return Verdict::NotSaturated { carried };
    }
    if let Some(carried) = limited_by_the_load(study, document, &judged) {
        return Verdict::NotSaturated { carried };
    }
    if judged.iter().all(|at| is_carried(study, document, *at)) {
        return Verdict::NotSaturated { carried: offered(document, &judged) };
    }
    inconclusive(study, document, &judged)
}

/// In how many of these trials a finding shows.
fn shown_in(finding: &Finding, document: &ResultDocument, trials: &[usize]) -> usize {
    trials.iter().filter(|at| finding.trials.contains(&document.trials[**at].trial)).count()
}

/// Whether an open load was carried whole.
fn is_carried(study: &Study, document: &ResultDocument, at: usize) -> bool {
    let measured = Measured::of(&study.runs[at]);
    let Some(whole) = document.trials[at].whole().filter(|_| measured.is_open()) else { return false };
    // What was in flight as the phase began and as it ended is counted on one side only. Of a load that is
    // carried that is a number about the mean with its chance; of one that is not, the backlog is far beyond.
    let edges = EDGES * whole.concurrency.max(0.0).sqrt() + 2.0;
    let enough = |part: u64, of: u64| part as f64 >= (ISSUED_SHARE * of as f64).min(of as f64 - edges);
    whole.offered > 0
        && enough(whole.issued, whole.offered)
        && enough(whole.completed.saturating_sub(whole.failed), whole.offered)
}

/// A command that slept for most of its time in most of the trials: no resource limits it.
fn asleep(document: &ResultDocument, judged: &[usize]) -> Option<Carried> {
    let sleeps = |finding: &Finding| matches!(&finding.claim, Claim::Launch(launch) if launch.state == LaunchState::Waits(Doing::Asleep));
    let finding = document.findings.iter().position(sleeps)?;
    let trials = shown_in(&document.findings[finding], document, judged);
    (2 * trials > judged.len()).then_some(Carried::Waited { finding })
}

/// A closed load whose users are the limit: the service had threads that waited for work, and nothing queued.
fn limited_by_the_load(study: &Study, document: &ResultDocument, judged: &[usize]) -> Option<Carried> {
    // An engine that drives itself asks for as much as it can do: its load is never the limit.
    if judged.iter().any(|at| study.runs[*at].run.operations_in_turn) {
        return None;
    }
    let shows_room =
        |finding: &Finding| finding.kind == FindingKind::RuledOut && finding.detector == Detector::Service;
    let has_room = |at: &usize| {
        let trial = &document.trials[*at].trial;
        document.findings.iter().any(|finding| shows_room(finding) && finding.trials.contains(trial))
    };
    let is_closed =
        |at: &usize| matches!(study.runs[*at].run.load.shape.as_ref(), Some(model::Shape::Closed { .. }));
    // A moment in which others took the CPU lets a few connections wait, whatever the load.
    let with_room = judged.iter().filter(|at| is_closed(at) && has_room(at)).count();
    if 3 * with_room < 2 * judged.len() {
        return None;
    }
    // More users that gave no more throughput were not the limit, whatever room the threads had.
    if load_curves(document).filter_map(gain).any(|gain| !gain.grew) {
        return None;
    }
    let trial = document.trials.get(*judged.first()?)?;
    let whole = trial.whole()?;
    Some(Carried::AllThatUsersAsked {
        load: trial.load.clone(),
        rate_per_s: whole.rate_per_s,
        mean_ms: whole.response_ms.mean,
        finding: document.findings.iter().position(shows_room)?,
    })
}

/// The load that was carried whole, and the resource that came closest to saturation.
fn offered(document: &ResultDocument, judged: &[usize]) -> Carried {
    let trials: Vec<&TrialResult> = judged.iter().map(|at| &document.trials[*at]).collect();
    let slowest = trials
        .iter()
        .filter_map(|trial| trial.whole())
        .max_by(|a, b| a.response_ms.p99.total_cmp(&b.response_ms.p99));
    let closest = trials
        .iter()
        .flat_map(|trial| &trial.resources)
        // How much of its space a file system uses says nothing about how fast it is.
        .filter(|used| used.full_at > 0.0 && !used.metric.starts_with("filesystem."))
        .max_by(|a, b| (a.mean / a.full_at).total_cmp(&(b.mean / b.full_at)));
    Carried::Offered {
        rate_per_s: slowest.map_or(0.0, |whole| whole.rate_per_s),
        p99_ms: slowest.map_or(0.0, |whole| whole.response_ms.p99),
        closest: closest.map(|used| Closest {
            metric: used.metric.clone(),
            instance: used.instance.clone(),
            share: used.mean / used.full_at,
        }),
    }
}

fn inconclusive(study: &Study, document: &ResultDocument, judged: &[usize]) -> Verdict {
    let mut lacks = BTreeSet::new();
    for at in judged {
        let record = &study.runs[*at];
        let measured = Measured::of(record);
        for status in record.run.sources.iter().filter(|status| status.state != SourceState::Active) {
            lacks.insert(Missing::Source(status.source.clone()));
        }
        match Shares::of(record) {
            None => {
                lacks.insert(Missing::GeneratorCpu);
            }
            Some(shares) if shares.waited > RUN_WAIT_SHARE => {
                lacks.insert(Missing::GeneratorUndisturbed);
            }
            Some(_) => {}
        }
        if measured.host_mean(metrics::CPU_BUSY_SHARE).is_none() {
            lacks.insert(Missing::CpuUse);
        }
        if measured.is_storage() && measured.devices().is_empty() {
            lacks.insert(Missing::Device);
        } else if measured.is_storage()
            && measured.sum(metrics::DISK_QUEUE_LENGTH, &measured.devices()).is_none()
        {
            lacks.insert(Missing::DeviceQueue);
        }
    }
    if lacks.is_empty() {
        let measured = || judged.iter().map(|at| Measured::of(&study.runs[*at]));
        if !measured().all(|measured| is_of_a_command(&measured)) {
            lacks.insert(Missing::WhereOperationsWaited);
        } else if !measured().any(|measured| are_seen(&measured)) {
            lacks.insert(Missing::Looks);
        }
    }
    let mut ruled_out: Vec<Resource> = document
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::RuledOut)
        .filter_map(|finding| finding.about.clone())
        .collect();
    ruled_out.dedup();
    let some_limit = document.findings.iter().find_map(|finding| {
        let trials = shown_in(finding, document, judged);
        let resource =
            finding.about.as_ref().filter(|_| finding.kind == FindingKind::Limits && trials > 0)?;
        Some((resource.clone(), trials))
    });
    let reason = match some_limit {
        Some((resource, trials)) => {
            Unclear::InSomeTrials { resource, trials, of_trials: judged.len(), ruled_out }
        }
        None => Unclear::NothingSaturated { ruled_out },
    };
    Verdict::Inconclusive { reason, lacks: lacks.into_iter().collect() }
}
