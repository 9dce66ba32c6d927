//! Runs that were not planned together, side by side: `plimsoll compare A B`.

use std::collections::BTreeMap;

use model::result::{RESULT_FORMAT, ResultDocument, TreatmentResult, TrialResult};
use model::{Change, Doubt, DoubtKind, Level, RunRecord, SettingPath, Study, Verdict};

use crate::comparison::{Pairing, rows};
use crate::configuration::summary;
use crate::{clean, result};

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What it is called, such as the run directory's name. Different for each side.
    pub label: &'a str,
    /// Where it is recorded.
    pub study: &'a Study,
    /// Which of its trials: a trial's id, or the label of a configuration. None takes the only configuration, or
    /// the baseline when there are several.
    pub select: Option<&'a str>,
}

/// Compares sides: the first is the baseline, each other one a configuration. Trial ids are preceded by the side's
/// label, `LABEL/ID`.
///
/// Sides of one run directory are compared by rounds, as they ran interleaved. Sides of different ones ran at different
/// times: their interval does not pair runs, and a doubt says so.
pub fn compare(sides: &[Side]) -> ResultDocument {
    let chosen: Vec<Study> = sides.iter().map(select).collect();
    let mut documents: Vec<ResultDocument> = chosen.iter().map(result).collect();
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
        load: documents.first().map(|document| document.load.clone()).unwrap_or_default(),
        host: documents.first().map(|document| document.host.clone()).unwrap_or_default(),
        trials: Vec::new(),
        configurations: Vec::new(),
        comparison: Vec::new(),
        curves: Vec::new(),
        published: Vec::new(),
        beside: Vec::new(),
        findings: Vec::new(),
        doubts: Vec::new(),
        verdict: verdict(sides, &documents),
        goal: None,
    };
    let changes: Vec<Vec<Change>> =
        chosen.iter().map(|study| chosen.first().map_or_else(Vec::new, |a| changes(a, study))).collect();
    let completed: Vec<Vec<&TrialResult>> = documents
        .iter()
        .map(|document| document.trials.iter().filter(|trial| trial.ending == "completed").collect())
        .collect();
    for (at, side) in sides.iter().enumerate() {
        let treatment = TreatmentResult { label: side.label.into(), changes: changes[at].clone() };
        combined.configurations.push(summary(treatment, &completed[at]));
        if at > 0 {
            combined.comparison.extend(rows(side.label, &completed[0], &completed[at], pairing));
        }
    }
    combined.doubts = doubts(sides, &documents, &completed, one_directory);
    for (at, document) in documents.into_iter().enumerate() {
        combined.findings.extend(document.findings);
        combined.trials.extend(document.trials.into_iter().map(|mut trial| {
            trial.treatment.changes = changes[at].clone();
            trial
        }));
    }
    clean::clean(&mut combined);
    combined
}

/// The study with the chosen runs only.
fn select(side: &Side) -> Study {
    let configuration = |record: &RunRecord| record.run.trial.treatment.label();
    let wanted: Box<dyn Fn(&RunRecord) -> bool> = match side.select {
        Some(name) => Box::new(move |record| record.run.trial.id() == name || configuration(record) == name),
        None => {
            let several =
                side.study.runs.windows(2).any(|pair| configuration(&pair[0]) != configuration(&pair[1]));
            Box::new(move |record| !several || record.run.trial.treatment.changes().is_empty())
        }
    };
    Study {
        directory: side.study.directory.clone(),
        host: side.study.host.clone(),
        plan: side.study.plan.clone(),
        runs: side.study.runs.iter().filter(|record| wanted(record)).cloned().collect(),
        damage: side.study.damage.clone(),
    }
}

/// Puts the side's label before every trial id, so that ids of two directories cannot be confused.
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
        finding.text = format!("{label}: {}", finding.text);
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

/// One verdict when the sides agree; else both sentences.
fn verdict(sides: &[Side], documents: &[ResultDocument]) -> Verdict {
    let agree = documents.windows(2).all(|pair| match (&pair[0].verdict, &pair[1].verdict) {
        (Verdict::Bottleneck { resource: a, .. }, Verdict::Bottleneck { resource: b, .. }) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    });
    let texts: Vec<String> = sides
        .iter()
        .zip(documents)
        .map(|(side, document)| format!("{}: {}", side.label, document.verdict.text()))
        .collect();
    let text = texts.join(" ");
    let missing = || {
        let all = documents.iter().filter_map(|document| match &document.verdict {
            Verdict::Inconclusive { missing, .. } => Some(missing.clone()),
            _ => None,
        });
        let mut missing: Vec<String> = all.flatten().collect();
        missing.sort();
        missing.dedup();
        missing
    };
    match documents.first().map(|document| &document.verdict) {
        Some(Verdict::Bottleneck { resource, .. }) if agree => {
            Verdict::Bottleneck { resource: resource.clone(), text, proof: None }
        }
        Some(Verdict::NotSaturated { .. }) if agree => Verdict::NotSaturated { text },
        Some(Verdict::GeneratorBound { .. }) if agree => Verdict::GeneratorBound { text },
        _ => Verdict::Inconclusive { text, missing: missing() },
    }
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
            "the runs are from different experiments: they were not interleaved, and whatever changed between them \
             is part of the difference",
            "vary the setting in one experiment: `[vary]` in its file, or `--vary`",
        ));
    }
    for (side, (document, trials)) in sides.iter().zip(documents.iter().zip(completed)) {
        let all = side.study.runs.len();
        match (trials.len(), side.select) {
            (0, Some(name)) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: no completed trial or configuration is called `{name}`", side.label),
                "`plimsoll show` lists them",
            )),
            (0, None) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: no trial completed", side.label),
                "",
            )),
            (1, _) => doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: one run only, so how much runs differ by themselves is not known", side.label),
                "repeat with `--replicates 5` or more",
            )),
            _ => {}
        }
        if side.select.is_none() && document.trials.len() < all {
            doubts.push(Doubt::new(
                DoubtKind::Replication,
                format!("{}: of several configurations the baseline was taken", side.label),
                "name another one to compare it",
            ));
        }
        let unlike = |doubt: &&Doubt| doubt.kind != DoubtKind::Replication;
        doubts.extend(document.doubts.iter().filter(unlike).cloned().map(|mut doubt| {
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
