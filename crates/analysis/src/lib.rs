//! The analysis: from runs to findings to the verdict, and from the runs so far to the next trial.
//!
//! It is pure: no I/O, no clock, no environment, no unseeded randomness. [`result`] is a function of the
//! record, so a later report on another machine has the same content as at the end of the run.
#![forbid(unsafe_code)]
#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "`!(a > b)` puts a NaN on the cautious side, `a <= b` does not"
)]

pub mod audit;
mod beside;
mod clean;
pub mod clock;
mod compare;
mod comparison;
mod configuration;
mod cost;
mod curve;
mod design;
mod detect;
mod doubt;
mod early;
mod facts;
mod gate;
mod goal;
pub mod law;
mod limit;
mod measured;
pub mod operation_io;
mod plan;
mod proof;
mod published;
pub mod random;
mod rounds;
mod sensitivity;
#[cfg(test)]
mod simulate;
pub mod sizing;
pub mod statistics;
mod steps;
mod thresholds;
mod trial;
mod unfinished;
mod verdict;
mod words;

pub use compare::{Side, compare};
pub use comparison::SMALLEST_CHANGE;
pub use configuration::{METRICS, metric, metrics};
pub use design::{configuration_count, design, trial_count};
pub use early::EarlyEnd;
pub use limit::TRIALS_MAX as SEARCH_TRIALS_MAX;
pub use verdict::judge;

use comparison::Pairing;
use model::result::{RESULT_FORMAT, ResultDocument, TreatmentResult, TrialResult};
use model::verdict::InconclusiveReason;
use model::{DoubtKind, Ending, Load, Study, Treatment, Verdict};

/// All published numbers, computed from the record. Missing data leads to weaker claims and doubts, never to
/// a failure; no number in the document is NaN or infinite.
pub fn result(study: &Study) -> ResultDocument {
    match limit::LimitSearch::of_study(study) {
        Some(search) => result_of_search(study, &search),
        None => judged(study),
    }
}

/// The result of a search for the limit: everything is judged by the trials at the limit.
fn result_of_search(study: &Study, search: &limit::LimitSearch) -> ResultDocument {
    let at_limit = search.at_limit(study);
    let runs: Vec<_> = at_limit.iter().filter_map(|at| study.runs.get(*at).cloned()).collect();
    let part = plan::part_of(study, if runs.is_empty() { study.runs.clone() } else { runs });
    let mut document = judged(&part);
    let judged_trials = std::mem::take(&mut document.trials);
    let cpus = f64::from(study.host.cpus);
    for record in &study.runs {
        let of_limit = judged_trials.iter().find(|trial| trial.trial == record.run.trial.id());
        document.trials.push(of_limit.cloned().unwrap_or_else(|| {
            let mut trial = trial::summarize(record, study.host.cpus);
            trial.doubts = doubt::of_trial(record, &trial, cpus);
            // The others are expected of a short trial, or of a load that is too large.
            trial.doubts.retain(|doubt| {
                matches!(doubt.kind, DoubtKind::Corrupted | DoubtKind::Damaged | DoubtKind::NotInForce)
            });
            trial
        }));
    }
    document.load = search.load();
    clean::clean(&mut document);
    document.limit = Some(search.result(study, &document));
    document.goal = None;
    document.unfinished = unfinished::of(study);
    document.doubts.extend(document.unfinished.iter().flat_map(doubt::unfinished));
    clean::clean(&mut document);
    document
}

/// The result of all runs of a study.
fn judged(study: &Study) -> ResultDocument {
    let plan = plan::plan_of(study);
    let mut document = ResultDocument {
        format: RESULT_FORMAT.into(),
        run: study.directory.clone(),
        experiment: plan.map(|plan| plan.name.clone()).unwrap_or_default(),
        workload: plan
            .map(|plan| plan.workload.kind.clone())
            .or_else(|| study.runs.first().map(|record| record.run.workload.clone()))
            .unwrap_or_default(),
        origin: study.runs.first().map(|record| record.run.origin).unwrap_or_default(),
        traits: study.runs.first().map(|record| record.run.traits.clone()).unwrap_or_default(),
        load: String::new(),
        host: study.host.clone(),
        trials: study.runs.iter().map(|record| trial::summarize(record, study.host.cpus)).collect(),
        configurations: Vec::new(),
        comparison: Vec::new(),
        differences: Vec::new(),
        curves: Vec::new(),
        published: Vec::new(),
        limit: None,
        sensitivity: Vec::new(),
        request_steps: Vec::new(),
        beside: Vec::new(),
        published_changes: Vec::new(),
        published_times: Vec::new(),
        proof: None,
        findings: Vec::new(),
        doubts: Vec::new(),
        verdict: Verdict::Inconclusive { reason: InconclusiveReason::NothingCompleted, lacks: Vec::new() },
        thresholds: Vec::new(),
        gate: None,
        unfinished: None,
        goal: None,
    };
    let recorded = document.trials.first().map(|trial| trial.load.clone());
    let load = recorded.or_else(|| Some(Load::read(&plan?.load).ok()?.shape?.describe()));
    document.load = load.unwrap_or_default();
    for (record, trial) in study.runs.iter().zip(&mut document.trials) {
        trial.doubts = doubt::of_trial(record, trial, f64::from(study.host.cpus));
        // A gate judges many pairs of trials, not the percentiles of one.
        if plan.is_some_and(|plan| plan.gate.is_some())
            && trial.whole().is_some_and(|whole| whole.completed > 0)
        {
            trial.doubts.retain(|doubt| doubt.kind != DoubtKind::FewSamples);
        }
        // A finished experiment has nothing to resume: this trial was repeated.
        if study.plan.as_ref().is_some_and(|plan| plan.enough.is_some()) {
            let cut_short = trial.doubts.iter_mut().filter(|doubt| doubt.kind == DoubtKind::CutShort);
            cut_short.for_each(|doubt| doubt.help.clear());
        }
    }
    clean::clean(&mut document);

    let groups = configuration::groups(study);
    let members: Vec<Vec<&TrialResult>> = groups
        .iter()
        .map(|group| group.trials.iter().filter_map(|at| document.trials.get(*at)).collect())
        .collect();
    let configurations = groups.iter().zip(&members).map(|(group, members)| {
        let levels = configuration::levels(study, &groups, group);
        let treatment = TreatmentResult { levels, ..trial::treatment(&group.treatment) };
        configuration::summary(treatment, members)
    });
    let configurations = configurations.collect();
    let baseline = groups.iter().position(|group| group.treatment == Treatment::Baseline);
    let comparison = baseline.map(|baseline| {
        let others = groups.iter().zip(&members).enumerate().filter(|(at, _)| *at != baseline);
        let others = others.filter(|(_, (group, _))| {
            !configuration::are_distinct_loads(&document.traits, &groups[baseline], group)
        });
        let rows = others.flat_map(|(_, (group, treated))| {
            comparison::rows(&group.treatment.label(), &members[baseline], treated, Pairing::Rounds)
        });
        rows.collect()
    });
    let curves = curve::curves(study, &groups, &document.trials);
    document.configurations = configurations;
    let samples: Vec<cost::Samples> =
        groups.iter().map(|group| cost::samples(study, group, &document.trials)).collect();
    for ((configuration, samples), group) in document.configurations.iter_mut().zip(&samples).zip(&groups) {
        configuration.costs = cost::costs(samples);
        let records = group.trials.iter().filter_map(|at| study.runs.get(*at));
        let completed = records.filter(|record| record.run.ending == Ending::Completed);
        configuration.operation_io = operation_io::of_trials(completed.clone());
        configuration.launches = facts::launches::summary(completed);
    }
    if let Some(baseline) = baseline {
        let others =
            document.configurations.iter().zip(&samples).enumerate().filter(|(at, _)| *at != baseline);
        let others = others.filter(|(at, _)| {
            !configuration::are_distinct_loads(&document.traits, &groups[baseline], &groups[*at])
        });
        let differences = others.flat_map(|(_, (configuration, treated))| {
            cost::differences(&configuration.treatment.label, &samples[baseline], treated)
        });
        document.differences = differences.collect();
    }
    // Response times at different limits say nothing about the configurations.
    let is_search = plan.is_some_and(|plan| !plan.limit.is_empty() || plan.smallest.is_some());
    document.comparison = comparison.filter(|_| !is_search).unwrap_or_default();
    document.curves = curves;
    document.published =
        plan.map(|plan| published::rows(plan, &document.curves, &document.trials)).unwrap_or_default();
    document.beside =
        plan.map(|plan| beside::rows(plan, study, &groups, &document.trials)).unwrap_or_default();
    document.published_times = plan.map(|plan| published::times(plan, &document.trials)).unwrap_or_default();
    document.sensitivity = sensitivity::sensitivities(study, &document.trials);
    document.request_steps = steps::steps(study, &groups, &document.trials);
    document.proof = proof::result(study, &document.trials);
    document.thresholds = thresholds::results(study, &document);
    clean::clean(&mut document);
    // From rows that are clean.
    document.published_changes =
        plan.map(|plan| published::changes(plan, &document.comparison)).unwrap_or_default();

    document.findings = detect::DETECTORS.iter().flat_map(|detect| detect(study, &document)).collect();
    document.unfinished = unfinished::of(study);
    document.doubts = doubt::of_study(study, &document);
    let mut configurations = std::mem::take(&mut document.configurations);
    for configuration in &mut configurations {
        verdict::judge_configuration(study, &document, configuration);
    }
    document.configurations = configurations;
    let observed = judge(study, &document);
    if let Some(proof) = &mut document.proof {
        proof.observed = Some(observed.clone());
    }
    document.verdict = proof::weigh(observed, &document);
    if document.proof.is_some() {
        verdict::take_over(study, &mut document);
    }
    document.goal = plan.and_then(|plan| goal::judge(plan, study, &document));
    document.gate = gate::result(study, &document.trials);
    clean::clean(&mut document);
    document
}

#[cfg(test)]
mod tests;
