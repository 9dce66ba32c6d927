//! The verdict: which resource is the limit. No answer is better than a confident wrong one: missing data is
//! named.

use std::collections::BTreeSet;

use model::claim::{LaunchState, ServiceState};
use model::launch::Doing;
use model::result::{Configuration, OperationResult, ResultDocument, StepVerdict, TrialResult};
use model::run::Origin;
use model::verdict::{Closest, InconclusiveReason, Limit, UnsaturatedReason};
use model::{
    Claim, Detector, DoubtKind, Ending, Finding, FindingKind, Missing, Operation, Resource, ResourceClass,
    RunRecord, SourceState, Study, Treatment, Verdict, metrics,
};

use crate::curve::{gain, load_curves};
use crate::doubt::INTERVALS_MIN;
use crate::facts::generator::Shares;
use crate::facts::launches::{are_seen, is_of_a_command};
use crate::facts::service::{Service, services};
use crate::facts::stopped::{Stopped, never_answered};
use crate::facts::{FAILED_SHARE, all_issued, headroom};
use crate::measured::{Measured, STEPS_MAX, Step};
use crate::statistics::median;
/// Shorter trials have no CPU utilization: the kernel counts CPU time in clock ticks of 10 ms.
const CPU_COUNTED_S: f64 = 0.1;

/// The verdict of a study from its findings. It is about the baseline, if one of its trials completed; the
/// treatments show what would change. If operations are consecutive, it is that of the longest step.
///
/// The rules, in this order. A trial with more than 1 % failed operations is not judged. If the load
/// generator was the limit, nothing else is claimed. A resource is the limit if it is in most of the trials
/// and no other one is in as many. An open load may have been completed as offered. Otherwise the limit is
/// unknown.
pub fn judge(study: &Study, document: &ResultDocument) -> Verdict {
    let unclear = |reason, lacks| Verdict::Inconclusive { reason, lacks };
    if document.origin == Origin::Watched {
        return unclear(InconclusiveReason::OnlyWatched, Vec::new());
    }
    if document.origin == Origin::Imported && study.runs.iter().all(|record| record.readings.end_s.is_empty())
    {
        return unclear(InconclusiveReason::NoCounters, vec![Missing::ImportedCounters]);
    }
    let completed = completed(study, document);
    let is_baseline = |at: &usize| study.runs[*at].run.trial.treatment.configuration() == Treatment::Baseline;
    let baseline: Vec<usize> = completed.iter().copied().filter(is_baseline).collect();
    let judged = if baseline.is_empty() { completed } else { baseline };
    if judged.is_empty() {
        let ended = || study.runs.iter().filter(|record| record.run.ending == Ending::Completed);
        let never = ended().find_map(|record| never_answered(&Measured::of(record)));
        if let Some((operations, share)) = never {
            return unclear(InconclusiveReason::NeverAnswered { operations, share }, Vec::new());
        }
        return match ended().next().is_some() {
            true => unclear(InconclusiveReason::NothingRecorded, vec![why_nothing(study, document)]),
            false => unclear(InconclusiveReason::NothingCompleted, vec![Missing::CompletedTrial]),
        };
    }
    let steps = steps(study, document, &judged);
    match longest(&steps) {
        Some(step) => step.verdict.clone(),
        None => of_trials(study, document, judged, None),
    }
}

/// What is missing if no operation completed in the measured time.
fn why_nothing(study: &Study, document: &ResultDocument) -> Missing {
    let is_used_up = |record: &RunRecord| all_issued(record).is_some();
    match () {
        () if study.runs.iter().all(is_used_up) => Missing::MoreOperations,
        () if document.trials.iter().any(|trial| trial.in_flight() >= 0.5) => Missing::Answers,
        () => Missing::Intervals,
    }
}

/// The limit of a configuration and of each step, and the next resource. A configuration without completed
/// trials has no verdict.
pub(crate) fn judge_configuration(study: &Study, document: &ResultDocument, of: &mut Configuration) {
    let is_of_it = |at: &usize| of.trials.contains(&document.trials[*at].trial);
    let judged: Vec<usize> = completed(study, document).into_iter().filter(is_of_it).collect();
    let has_counters = judged.iter().any(|at| !study.runs[*at].readings.end_s.is_empty());
    if document.origin == Origin::Watched
        || judged.is_empty()
        || (document.origin == Origin::Imported && !has_counters)
    {
        return;
    }
    of.steps = steps(study, document, &judged);
    match longest(&of.steps) {
        Some(step) => {
            of.verdict = Some(step.verdict.clone());
            (of.used, of.next) = (step.used, step.next.clone());
        }
        None => {
            let verdict = of_trials(study, document, judged.clone(), None);
            of.used = used(&verdict, document, &judged);
            of.next = next(study, &judged, None, &verdict);
            of.verdict = Some(verdict);
        }
    }
}

/// Sets the proved verdict for the baseline and its longest step: a page must not contradict itself.
pub(crate) fn take_over(study: &Study, document: &mut ResultDocument) {
    let verdict = document.verdict.clone();
    let is_other = |of: &Configuration| {
        of.treatment.changes.is_empty() && of.verdict.as_ref().is_some_and(|own| *own != verdict)
    };
    let Some(place) = document.configurations.iter().position(is_other) else { return };
    let judged: Vec<usize> = (completed(study, document).into_iter())
        .filter(|at| document.configurations[place].trials.contains(&document.trials[*at].trial))
        .collect();
    let step = longest(&document.configurations[place].steps).map(|step| step.operation.clone());
    let used = used(&verdict, document, &judged);
    let next = next(study, &judged, step.as_ref(), &verdict);
    let baseline = &mut document.configurations[place];
    if let Some(of) = baseline.steps.iter_mut().find(|of| Some(&of.operation) == step.as_ref()) {
        (of.verdict, of.used, of.next) = (verdict.clone(), used, next.clone());
    }
    (baseline.verdict, baseline.used, baseline.next) = (Some(verdict), used, next);
}

/// The limit of each step with consecutive operations; empty for other work, and without steps that did
/// nothing.
fn steps(study: &Study, document: &ResultDocument, judged: &[usize]) -> Vec<StepVerdict> {
    let busy_s = |at: &usize, step: &Operation| {
        let mut operations = document.trials[*at].operations.iter();
        operations.find(|operation| operation.name == *step && operation.completed > 0)?.busy_s
    };
    let mut names: Vec<&Operation> = Vec::new();
    for operation in judged.iter().flat_map(|at| &document.trials[*at].operations) {
        if operation.busy_s.is_some() && !names.contains(&&operation.name) {
            names.push(&operation.name);
        }
    }
    let of_step = |name: &&Operation| {
        let of: Vec<usize> = judged.iter().copied().filter(|at| busy_s(at, name).is_some()).collect();
        let times: Vec<f64> = of.iter().filter_map(|at| busy_s(at, name)).collect();
        let busy_s = median(&times)?;
        let verdict = of_trials(study, document, of.clone(), Some(name));
        Some(StepVerdict {
            operation: (*name).clone(),
            busy_s,
            used: used(&verdict, document, &of),
            next: next(study, &of, Some(name), &verdict),
            verdict,
        })
    };
    names.iter().take(STEPS_MAX).filter_map(of_step).collect()
}

/// The longest step.
fn longest(steps: &[StepVerdict]) -> Option<&StepVerdict> {
    steps.iter().max_by(|a, b| a.busy_s.total_cmp(&b.busy_s))
}

/// The used share of the limit in these trials: the median.
fn used(verdict: &Verdict, document: &ResultDocument, judged: &[usize]) -> Option<f64> {
    let at = match verdict {
        Verdict::Bottleneck { finding, .. } => (*finding)?,
        Verdict::GeneratorBound { finding } => *finding,
        Verdict::NotSaturated { .. } | Verdict::Inconclusive { .. } => return None,
    };
    let finding = document.findings.get(at)?;
    let is_judged = |id: &String| judged.iter().any(|at| document.trials[*at].trial == *id);
    let used = finding.trials.iter().zip(&finding.used).filter(|(id, _)| is_judged(id));
    median(&used.map(|(_, used)| *used).collect::<Vec<f64>>())
}

/// The next resource after the limit, over the time in which the step was active.
fn next(study: &Study, judged: &[usize], step: Option<&Operation>, verdict: &Verdict) -> Option<Closest> {
    let whole: Vec<Measured> = judged.iter().map(|at| Measured::of(&study.runs[*at])).collect();
    let generator = Resource::of_host(ResourceClass::LoadGenerator);
    let limit = match verdict {
        Verdict::GeneratorBound { .. } => Some(&generator),
        // With several limits together, none is named, so the next one is unknown.
        Verdict::Bottleneck { .. } => Some(verdict.resource()?),
        Verdict::NotSaturated { .. } | Verdict::Inconclusive { .. } => None,
    };
    let Some(step) = step else { return headroom::closest(whole, limit) };
    let steps: Vec<(Measured, Step)> = whole
        .into_iter()
        .filter_map(|measured| {
            let of_step = measured.steps().into_iter().find(|known| known.operation == *step)?;
            Some((measured, of_step))
        })
        .collect();
    headroom::closest(steps.iter().map(|(measured, step)| measured.during(step)), limit)
}

/// Indexes of the completed trials with operations.
fn completed(study: &Study, document: &ResultDocument) -> Vec<usize> {
    (0..study.runs.len().min(document.trials.len()))
        .filter(|at| study.runs[*at].run.ending == Ending::Completed)
        .filter(|at| document.trials[*at].whole().is_some_and(|whole| whole.completed > 0))
        .collect()
}

/// The verdict of at least one completed trial: of all operations, or of one step.
fn of_trials(
    study: &Study,
    document: &ResultDocument,
    mut judged: Vec<usize>,
    step: Option<&Operation>,
) -> Verdict {
    let unclear = |reason, lacks| Verdict::Inconclusive { reason, lacks };
    let mut doubts = document.trials.iter().flat_map(|trial| &trial.doubts);
    if doubts.any(|doubt| doubt.kind == DoubtKind::Corrupted) {
        return unclear(InconclusiveReason::Corrupted, Vec::new());
    }
    let differs =
        |trial: &TrialResult| trial.doubts.iter().any(|doubt| doubt.kind == DoubtKind::CountsDiffer);
    if judged.iter().all(|at| differs(&document.trials[*at])) {
        return unclear(InconclusiveReason::CountsDiffer, Vec::new());
    }
    // The steps of work that ends by itself end with it.
    if let Some((reason, true)) = unanswered(study, &judged).filter(|_| step.is_none()) {
        return unclear(reason, vec![Missing::Answers]);
    }
    let failing = |at: &usize| {
        let done = done(&document.trials[*at], step);
        done.is_some_and(|done| done.fails_beyond(FAILED_SHARE))
    };
    let failed_wholly = |at: &usize| {
        let done = done(&document.trials[*at], step);
        done.is_some_and(OperationResult::failed_wholly)
    };
    if judged.iter().all(failed_wholly) {
        return unclear(InconclusiveReason::AllFailed, vec![Missing::Success]);
    }
    if judged.iter().all(failing) {
        return unclear(InconclusiveReason::TooManyFailed, vec![Missing::FewerFailures]);
    }
    judged.retain(|at| !failing(at));
    let limits = document.findings.iter().enumerate();
    let limits: Vec<(usize, &Finding)> =
        limits.filter(|(_, one)| one.kind == FindingKind::Limits && is_about(one, step)).collect();
    let share = |trials: usize| trials as f64 / judged.len() as f64;
    // Findings about one resource agree, although each may be about some of the trials.
    let share_of_resource = |finding: &Finding| {
        let same: Vec<&Finding> =
            limits.iter().filter(|(_, one)| one.about == finding.about).map(|(_, one)| *one).collect();
        let shown = |at: &&usize| same.iter().any(|one| shown_in(one, document, &[**at]) > 0);
        share(judged.iter().filter(shown).count())
    };
    let mut limits: Vec<(usize, &Finding, f64)> =
        limits.iter().map(|(at, finding)| (*at, *finding, share_of_resource(finding))).collect();
    limits.retain(|(_, finding, share)| *share >= 0.5 && shown_in(finding, document, &judged) > 0);
    if let Some((finding, ..)) = limits.iter().find(|(_, finding, _)| finding.detector == Detector::Generator)
    {
        return Verdict::GeneratorBound { finding: *finding };
    }
    // A service that waits for another one is as fast as that one: if a limit of the other one is found, it
    // is the limit.
    let waits = |finding: &Finding| {
        finding.about.as_ref().is_some_and(|about| about.class == ResourceClass::Downstream)
    };
    if limits.iter().any(|(_, finding, _)| !waits(finding)) {
        limits.retain(|(_, finding, _)| !waits(finding));
    }
    let own = |finding: &Finding| shown_in(finding, document, &judged);
    limits.sort_by(|a, b| b.2.total_cmp(&a.2).then(own(b.1).cmp(&own(a.1))));
    // Two detectors with the same resource agree.
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
            return unclear(
                InconclusiveReason::SeveralSaturated { findings },
                vec![Missing::OneChangedAlone],
            );
        }
    };
    if let Some(verdict) = alone {
        return verdict;
    }
    if let Some((reason, _)) = unanswered(study, &judged).filter(|_| step.is_none()) {
        return unclear(reason, vec![Missing::Answers]);
    }
    if step.is_some() {
        return inconclusive(study, document, &judged, step);
    }
    if let Some(carried) = asleep(document, &judged) {
        return Verdict::NotSaturated { carried };
    }
    if let Some(carried) = limited_by_the_load(study, document, &judged) {
        return Verdict::NotSaturated { carried };
    }
    if judged.iter().all(|at| document.trials[*at].is_carried) {
        return Verdict::NotSaturated { carried: offered(study, document, &judged) };
    }
    inconclusive(study, document, &judged, None)
}

/// Why the means of these trials do not describe the system: in half of them or more it stopped answering, or operations that
/// never ended were a large part of those in flight. And whether that is so much that no other limit is looked for.
fn unanswered(study: &Study, judged: &[usize]) -> Option<(InconclusiveReason, bool)> {
    let measured = || judged.iter().map(|at| Measured::of(&study.runs[*at]));
    let are_most = |count: usize| 2 * count >= judged.len();
    let stops: Vec<Stopped> = measured().filter_map(|of| Stopped::of(&of)).collect();
    let first = stops.iter().min_by(|a, b| a.at_s.total_cmp(&b.at_s)).filter(|_| are_most(stops.len()));
    if let Some(Stopped { at_s, measured_s, in_flight, answered_later }) = first.copied() {
        let takes_most = are_most(stops.iter().filter(|stop| stop.takes_most()).count());
        let reason = InconclusiveReason::StoppedAnswering { at_s, measured_s, in_flight, answered_later };
        return Some((reason, takes_most));
    }
    let never: Vec<(u64, f64)> = measured().filter_map(|of| never_answered(&of)).collect();
    let most = never.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| are_most(never.len()));
    most.map(|(operations, share)| {
        (InconclusiveReason::NeverAnswered { operations: *operations, share: *share }, false)
    })
}

/// Whether the activity of the threads of a watched service was recorded.
fn has_seen_services(measured: &Measured) -> bool {
    let spans = measured.spans();
    services(measured).into_iter().any(|name| Service::of(measured, name, &spans).is_some())
}

/// The operations of a trial in a step; without a step, all of them.
fn done<'a>(trial: &'a TrialResult, step: Option<&Operation>) -> Option<&'a OperationResult> {
    match step {
        Some(step) => trial.operations.iter().find(|operation| operation.name == *step),
        None => trial.whole(),
    }
}

/// Whether a finding is about a step, or about all operations.
fn is_about(finding: &Finding, step: Option<&Operation>) -> bool {
    finding.step.is_none() || finding.step.as_ref() == step
}

/// Number of these trials in which a finding occurs.
fn shown_in(finding: &Finding, document: &ResultDocument, trials: &[usize]) -> usize {
    trials.iter().filter(|at| finding.trials.contains(&document.trials[**at].trial)).count()
}

/// A command or a tool that slept most of its time in most of the trials: no resource is its limit.
fn asleep(document: &ResultDocument, judged: &[usize]) -> Option<UnsaturatedReason> {
    let sleeps = |finding: &Finding| match &finding.claim {
        Claim::Launch(launch) => launch.state == LaunchState::Waits(Doing::Asleep),
        Claim::Service(service) => matches!(service.state, ServiceState::WaitsForItself { .. }),
        _ => false,
    };
    let finding = document.findings.iter().position(sleeps)?;
    let trials = shown_in(&document.findings[finding], document, judged);
    (2 * trials > judged.len()).then_some(UnsaturatedReason::Waited { finding })
}

/// A closed load whose users are the limit: threads of the service waited for work, and nothing queued.
fn limited_by_the_load(
    study: &Study,
    document: &ResultDocument,
    judged: &[usize],
) -> Option<UnsaturatedReason> {
    // An engine or an import does as much as it can: its load is never the limit.
    let is_its_own = |at: &usize| {
        let run = &study.runs[*at].run;
        run.operations_in_turn || run.traits.grouped
    };
    if judged.iter().any(is_its_own) {
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
    // When others use the CPU for a moment, some connections wait, at any load.
    let with_room = judged.iter().filter(|at| is_closed(at) && has_room(at)).count();
    if 3 * with_room < 2 * judged.len() {
        return None;
    }
    // If more users did not increase throughput, the number of users was not the limit, even if threads were
    // idle.
    if load_curves(document).filter_map(gain).any(|gain| !gain.grew) {
        return None;
    }
    let trial = document.trials.get(*judged.first()?)?;
    let whole = trial.whole()?;
    Some(UnsaturatedReason::AllThatUsersAsked {
        load: trial.load.clone(),
        rate_per_s: whole.rate_per_s,
        mean_ms: whole.response_ms.mean,
        is_bound: whole.response_ms.at_least.has("mean"),
        finding: document.findings.iter().position(shows_room)?,
    })
}

/// The open load that was completed as offered, and the resource closest to saturation.
fn offered(study: &Study, document: &ResultDocument, judged: &[usize]) -> UnsaturatedReason {
    let trials: Vec<&TrialResult> = judged.iter().map(|at| &document.trials[*at]).collect();
    let slowest = trials
        .iter()
        .filter_map(|trial| Some((*trial, trial.whole()?)))
        .max_by(|a, b| a.1.response_ms.p99.total_cmp(&b.1.response_ms.p99));
    UnsaturatedReason::Offered {
        rate_per_s: slowest.map_or(0.0, |(trial, whole)| offered_rate(trial, whole)),
        p99_ms: slowest.map_or(f64::NAN, |(_, whole)| whole.response_ms.p99),
        is_bound: slowest.is_some_and(|(_, whole)| whole.response_ms.at_least.has("p99")),
        closest: headroom::closest(judged.iter().map(|at| Measured::of(&study.runs[*at])), None),
    }
}

/// The rate of the operations that were due, if they ended before the measured time; otherwise that of the completed ones.
fn offered_rate(trial: &TrialResult, whole: &OperationResult) -> f64 {
    match whole.offered.zip(trial.offered_s) {
        Some((offered, offered_s)) => offered as f64 / offered_s,
        None => whole.rate_per_s,
    }
}

fn inconclusive(
    study: &Study,
    document: &ResultDocument,
    judged: &[usize],
    step: Option<&Operation>,
) -> Verdict {
    let mut lacks = BTreeSet::new();
    for at in judged {
        let record = &study.runs[*at];
        let whole = Measured::of(record);
        let of_step = whole.steps().into_iter().find(|known| Some(&known.operation) == step);
        let measured = of_step.as_ref().map_or(whole, |step| whole.during(step));
        let samples = of_step.as_ref().map_or(0, |_| measured.samples());
        if step.is_some() && samples < INTERVALS_MIN {
            lacks.insert(Missing::SamplesOfStep);
            if samples == 0 {
                continue;
            }
        }
        for status in record.run.sources.iter().filter(|status| status.state != SourceState::Active) {
            lacks.insert(Missing::Source(status.source.clone()));
        }
        match Shares::of(record) {
            // Of another tool it is known only if its host was watched.
            None if document.origin == Origin::Imported => {}
            None => {
                lacks.insert(Missing::GeneratorCpu);
            }
            Some(shares) if shares.are_delayed() => {
                lacks.insert(Missing::GeneratorUndisturbed);
            }
            Some(_) => {}
        }
        let is_known = |host: &str| measured.on(host).host_mean(metrics::CPU_BUSY_SHARE).is_some();
        if !is_known("") && !measured.hosts().into_iter().any(is_known) {
            let is_short = measured.length_s() < CPU_COUNTED_S;
            lacks.insert(match document.origin {
                Origin::Imported => Missing::ImportedCounters,
                _ if is_short => Missing::LongerTrial,
                _ => Missing::CpuUse,
            });
        }
        if document.origin == Origin::Imported {
            continue;
        }
        let of_files = if measured.is_storage() { measured.of_files() } else { Vec::new() };
        for measured in of_files {
            if measured.devices().is_empty() {
                lacks.insert(Missing::Device);
            } else if measured.sum(metrics::DISK_QUEUE_LENGTH, &measured.devices()).is_none() {
                lacks.insert(Missing::DeviceQueue);
            }
        }
    }
    let mut ruled_out: Vec<Resource> = document
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::RuledOut && is_about(finding, step))
        .filter_map(|finding| finding.about.clone())
        .collect();
    ruled_out.dedup();
    // Of another tool it is what it is.
    if lacks.is_empty() && document.origin != Origin::Imported {
        let measured = || judged.iter().map(|at| Measured::of(&study.runs[*at]));
        // File operations wait at the device or in the kernel: there is no process to examine.
        let is_storage = measured().all(|measured| measured.is_storage() && measured.is_closed());
        let load = document.traits.load_settings.first().filter(|_| is_storage);
        if let Some(load) = load.filter(|_| load_curves(document).next().is_none()) {
            lacks.insert(Missing::OtherLoads(load.to_string()));
        } else if document.proof.is_none() && measured().all(|measured| has_seen_services(&measured)) {
            lacks.insert(Missing::Proof);
        } else if !measured().all(|measured| is_of_a_command(&measured)) {
            lacks.insert(Missing::WhereOperationsWaited);
        } else if !measured().any(|measured| are_seen(&measured)) {
            lacks.insert(Missing::Looks);
        }
    }
    let some_limit = document.findings.iter().find_map(|finding| {
        let trials = shown_in(finding, document, judged);
        let resource = finding
            .about
            .as_ref()
            .filter(|_| finding.kind == FindingKind::Limits && is_about(finding, step) && trials > 0)?;
        Some((resource.clone(), trials))
    });
    let reason = match some_limit {
        Some((resource, trials)) => {
            InconclusiveReason::InSomeTrials { resource, trials, of_trials: judged.len(), ruled_out }
        }
        None => InconclusiveReason::NothingSaturated { ruled_out },
    };
    Verdict::Inconclusive { reason, lacks: lacks.into_iter().collect() }
}
