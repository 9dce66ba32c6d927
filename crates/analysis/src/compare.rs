//! Compares runs that were not planned together: `plimsoll compare A B`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::result::{Configuration, RESULT_FORMAT, ResultDocument, TreatmentResult, TrialResult};
use model::verdict::{InconclusiveReason, Limit, Missing, SideVerdict, UnsaturatedReason};
use model::{Change, Doubt, DoubtKind, Ending, Level, RunRecord, SettingPath, Study, Verdict};

use crate::comparison::{Pairing, rows};
use crate::configuration::summary;
use crate::limit::LimitSearch;
use crate::plan::part_of;
use crate::{clean, doubt, result, unfinished};

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its label, for example the name of the run directory. Different for each side.
    pub label: &'a str,
    /// Its record.
    pub study: &'a Study,
    /// The selected trials: a trial's id, or the label of a configuration. None selects the only
    /// configuration, or the baseline if there are several.
    pub select: Option<&'a str>,
}

/// Compares sides: the first is the baseline, each other one a configuration. The side's label precedes trial
/// ids: `LABEL/ID`.
///
/// Sides of one run directory are compared by rounds, because they ran interleaved. Sides of different
/// directories ran at different times: their interval uses no pairs, and a doubt says so.
pub fn compare(sides: &[Side]) -> ResultDocument {
    let chosen: Vec<Cow<Study>> = sides.iter().map(select).collect();
    let mut documents: Vec<ResultDocument> = chosen.iter().map(|study| result(study)).collect();
    for (side, document) in sides.iter().zip(&mut documents) {
        relabel(document, side.label);
    }
    let one_directory = sides.windows(2).all(|pair| {
        let (a, b) = (pair[0].study, pair[1].study);
        std::ptr::eq(a, b) || (a.directory == b.directory && !a.directory.is_empty())
    });
    let pairing = if one_directory { Pairing::Rounds } else { Pairing::None };

    let mut combined = ResultDocument {
        proof: None,
        format: RESULT_FORMAT.into(),
        run: sides.iter().map(|side| side.study.directory.as_str()).collect::<Vec<_>>().join(", "),
        experiment: sides.iter().map(|side| side.label).collect::<Vec<_>>().join(" against "),
        workload: documents.first().map(|document| document.workload.clone()).unwrap_or_default(),
        origin: documents.first().map(|document| document.origin).unwrap_or_default(),
        traits: documents.first().map(|document| document.traits.clone()).unwrap_or_default(),
        load: documents.first().map(|document| document.load.clone()).unwrap_or_default(),
        host: documents.first().map(|document| document.host.clone()).unwrap_or_default(),
        trials: Vec::new(),
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
        thresholds: Vec::new(),
        findings: Vec::new(),
        doubts: Vec::new(),
        verdict: verdict(sides, &documents),
        gate: None,
        unfinished: None,
        goal: None,
    };
    let changes: Vec<Vec<Change>> =
        chosen.iter().map(|study| chosen.first().map_or_else(Vec::new, |a| changes(a, study))).collect();
    let completed: Vec<Vec<&TrialResult>> = documents
        .iter()
        .map(|document| document.trials.iter().filter(|trial| trial.ending == Ending::Completed).collect())
        .collect();
    for (at, side) in sides.iter().enumerate() {
        let treatment = TreatmentResult {
            label: side.label.into(),
            changes: changes[at].clone(),
            is_side: true,
            ..TreatmentResult::default()
        };
        // A side is one configuration of its run.
        let own = documents[at].configurations.iter().find(|configuration| !configuration.costs.is_empty());
        let costs = own.map(|own| own.costs.clone()).unwrap_or_default();
        let before = findings_before(&documents, at);
        let verdict = Some(moved(documents[at].verdict.clone(), before));
        let mut steps = own.map(|own| own.steps.clone()).unwrap_or_default();
        for step in &mut steps {
            step.verdict = moved(step.verdict.clone(), before);
        }
        let (used, next) = own.map_or((None, None), |own| (own.used, own.next.clone()));
        let launches = own.and_then(|own| own.launches.clone());
        let numbers = summary(treatment, &completed[at]);
        combined.configurations.push(Configuration {
            verdict,
            costs,
            launches,
            used,
            next,
            steps,
            ..numbers
        });
        if at > 0 {
            combined.comparison.extend(rows(side.label, &completed[0], &completed[at], pairing));
        }
    }
    combined.doubts = doubts(sides, &documents, &completed, one_directory);
    for (at, document) in documents.into_iter().enumerate() {
        combined.findings.extend(document.findings);
        combined.trials.extend(document.trials.into_iter().map(|mut trial| {
            trial.treatment.changes = changes[at].clone();
            trial.treatment.is_side = true;
            trial
        }));
    }
    combined.doubts.extend(doubt::back_ends(&combined));
    clean::clean(&mut combined);
    combined
}

/// The study with the selected runs only; copied only if some are excluded, because the readings may be
/// large.
fn select<'a>(side: &Side<'a>) -> Cow<'a, Study> {
    let configuration = |record: &RunRecord| record.run.trial.treatment.configuration().label();
    // The loads of a search differ on purpose: only those at its limit are compared.
    let at_limit: Option<BTreeSet<u32>> = LimitSearch::of_study(side.study).map(|search| {
        let at_limit = search.at_limit(side.study).into_iter();
        at_limit.map(|at| side.study.runs[at].run.trial.number).collect()
    });
    let is_at_limit = |record: &RunRecord| {
        let number = record.run.trial.number;
        let is_named = side.select.is_some_and(|name| record.run.trial.id() == name);
        is_named || at_limit.as_ref().is_none_or(|numbers| numbers.contains(&number))
    };
    let wanted: Box<dyn Fn(&RunRecord) -> bool> = match side.select {
        Some(name) => Box::new(move |record| record.run.trial.id() == name || configuration(record) == name),
        None => {
            let several =
                side.study.runs.windows(2).any(|pair| configuration(&pair[0]) != configuration(&pair[1]));
            Box::new(move |record| !several || record.run.trial.treatment.changes().is_empty())
        }
    };
    let wanted = |record: &RunRecord| wanted(record) && is_at_limit(record);
    if side.study.runs.iter().all(wanted) {
        return Cow::Borrowed(side.study);
    }
    let runs = side.study.runs.iter().filter(|record| wanted(record)).cloned().collect();
    Cow::Owned(part_of(side.study, runs))
}

/// Adds the side's label to every trial id, so that ids of different directories differ.
fn relabel(document: &mut ResultDocument, label: &str) {
    let rename = |id: &mut String| *id = format!("{label}/{id}");
    for trial in &mut document.trials {
        rename(&mut trial.trial);
        trial.treatment.label = label.into();
    }
    for finding in &mut document.findings {
        finding.trials.iter_mut().for_each(rename);
        let evidence = finding.evidence.iter_mut().chain(&mut finding.against);
        evidence.filter(|evidence| !evidence.run.is_empty()).for_each(|evidence| rename(&mut evidence.run));
        finding.side = Some(label.into());
    }
}

/// The settings that differ from those of the first side, by path.
fn changes(first: &Study, other: &Study) -> Vec<Change> {
    let settings = |study: &Study| -> BTreeMap<String, Level> {
        let Some(record) = study.runs.first() else { return BTreeMap::new() };
        let mut settings = record.run.asked.clone();
        settings.extend(record.run.in_force.clone());
        settings
    };
    let base = settings(first);
    settings(other)
        .into_iter()
        .filter(|(path, level)| base.get(path) != Some(level))
        .map(|(path, level)| Change { factor: SettingPath(path), level })
        .collect()
}

/// Number of findings of the sides before this one, which come first.
fn findings_before(documents: &[ResultDocument], at: usize) -> usize {
    documents.iter().take(at).map(|document| document.findings.len()).sum()
}

/// A verdict whose finding indexes are increased by `by`.
fn moved(verdict: Verdict, by: usize) -> Verdict {
    match verdict {
        Verdict::Bottleneck { limit, finding, proved } => {
            Verdict::Bottleneck { limit, finding: finding.map(|at| at + by), proved }
        }
        Verdict::GeneratorBound { finding } => Verdict::GeneratorBound { finding: finding + by },
        Verdict::NotSaturated { carried } => Verdict::NotSaturated {
            carried: match carried {
                UnsaturatedReason::AllThatUsersAsked { load, rate_per_s, mean_ms, is_bound, finding } => {
                    let finding = finding + by;
                    UnsaturatedReason::AllThatUsersAsked { load, rate_per_s, mean_ms, is_bound, finding }
                }
                UnsaturatedReason::StillGrowing { finding } => {
                    UnsaturatedReason::StillGrowing { finding: finding + by }
                }
                UnsaturatedReason::Waited { finding } => UnsaturatedReason::Waited { finding: finding + by },
                carried @ UnsaturatedReason::Offered { .. } => carried,
            },
        },
        Verdict::Inconclusive { reason: InconclusiveReason::SeveralSaturated { findings }, lacks } => {
            let findings = findings.into_iter().map(|at| at + by).collect();
            Verdict::Inconclusive { reason: InconclusiveReason::SeveralSaturated { findings }, lacks }
        }
        verdict @ Verdict::Inconclusive { .. } => verdict,
    }
}

/// One verdict if the sides agree, otherwise the verdict of each side.
fn verdict(sides: &[Side], documents: &[ResultDocument]) -> Verdict {
    let agree = documents.windows(2).all(|pair| match (&pair[0].verdict, &pair[1].verdict) {
        (Verdict::Bottleneck { limit: a, .. }, Verdict::Bottleneck { limit: b, .. }) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    });
    let first = documents.first().map(|document| &document.verdict);
    if let Some(verdict @ (Verdict::Bottleneck { .. } | Verdict::GeneratorBound { .. })) = first
        && agree
    {
        // The proof of one side does not apply to the comparison.
        return match verdict.clone() {
            Verdict::Bottleneck { limit: limit @ Limit::One { .. }, finding, .. } => {
                Verdict::Bottleneck { limit, finding, proved: false }
            }
            verdict => verdict,
        };
    }
    let each = sides.iter().zip(documents).enumerate().map(|(at, (side, document))| SideVerdict {
        label: side.label.into(),
        verdict: moved(document.verdict.clone(), findings_before(documents, at)),
    });
    let mut lacks: Vec<Missing> = documents
        .iter()
        .flat_map(|document| match &document.verdict {
            Verdict::Inconclusive { lacks, .. } => lacks.as_slice(),
            _ => &[],
        })
        .cloned()
        .collect();
    lacks.sort();
    lacks.dedup();
    Verdict::Inconclusive { reason: InconclusiveReason::Sides { sides: each.collect() }, lacks }
}

fn doubts(
    sides: &[Side],
    documents: &[ResultDocument],
    completed: &[Vec<&TrialResult>],
    one_directory: bool,
) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if !one_directory {
        doubts.push(Doubt::new(
            DoubtKind::Replication,
            "the runs are from different experiments and not interleaved: the difference includes \
            everything that changed between them",
            "vary the setting in one experiment: `[vary]` in its file, or `--vary`",
        ));
    }
    for (side, (document, trials)) in sides.iter().zip(documents.iter().zip(completed)) {
        let all = side.study.runs.len();
        match (trials.len(), side.select) {
            (0, Some(name)) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: no completed trial or configuration has the name `{name}`", side.label),
                "`plimsoll show` lists them",
            )),
            (0, None) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: no trial completed", side.label),
                "",
            )),
            (1, _) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: only one trial, so the variation between trials is not known", side.label),
                "repeat with `--replicates 5` or more",
            )),
            _ => {}
        }
        if side.select.is_none() && document.trials.len() < all {
            doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: the run has several configurations; the baseline was used", side.label),
                "name another one to compare it",
            ));
        }
        let unlike = |doubt: &&Doubt| doubt.kind != DoubtKind::Replication;
        // Of a part of a run, nothing else was planned.
        let of_run = unfinished::of(side.study).filter(|_| document.unfinished.is_none());
        let of_run = of_run.iter().flat_map(doubt::unfinished);
        let of_side = document.doubts.iter().filter(unlike).cloned().chain(of_run);
        doubts.extend(of_side.map(|mut doubt| {
            doubt.text = format!("{}: {}", side.label, doubt.text);
            doubt
        }));
    }
    let workloads: Vec<&str> = documents.iter().map(|document| document.workload.as_str()).collect();
    if workloads.windows(2).any(|pair| pair[0] != pair[1]) {
        doubts.push(Doubt::new(
            DoubtKind::Replication,
            format!("the workloads differ: {}", workloads.join(", ")),
            "",
        ));
    }
    doubts
}
