//! Doubts about a proof: it was requested but is missing, or has few rounds or failed runs.

use model::result::{ProofRow, ResultDocument};
use model::{Doubt, DoubtKind, Ending, RunRecord, Study, Treatment};

use crate::facts::FAILED_SHARE;
use crate::words;

pub(super) fn doubts(study: &Study, document: &ResultDocument) -> Vec<Doubt> {
    if !study.plan.as_ref().is_some_and(|plan| plan.experiment.prove) {
        return Vec::new();
    }
    let rows = document.proof.as_ref().map_or(&[][..], |proof| &proof.rows);
    if let Some(why) = missing(study, rows) {
        let text = format!("the requested proof was not possible: {why}");
        return vec![Doubt::new(DoubtKind::Replication, text, "")];
    }
    let mut doubts: Vec<Doubt> = rows.iter().filter_map(|row| not_completed(study, row)).collect();
    doubts.extend(failing(study, document));
    doubts
}

/// Why there is no proof; none if its trials began.
fn missing(study: &Study, rows: &[ProofRow]) -> Option<&'static str> {
    let is_proof = |record: &RunRecord| matches!(record.run.trial.treatment, Treatment::Proof(_));
    if study.runs.iter().any(is_proof) {
        return None;
    }
    let baseline = study.runs.iter().any(|record| {
        record.run.trial.treatment == Treatment::Baseline && record.run.ending == Ending::Completed
    });
    Some(match (baseline, rows.is_empty()) {
        (false, _) => "no trial of the baseline completed",
        (true, true) => "no resource could be reduced",
        (true, false) => "the record ends before its first round",
    })
}

/// The trials of `factor` in the proof.
fn trials<'a>(study: &'a Study, factor: &'a str) -> impl Iterator<Item = &'a RunRecord> {
    study.runs.iter().filter(move |record| {
        matches!(&record.run.trial.treatment, Treatment::Proof(change) if change.factor.0 == factor)
    })
}

/// Trials of a resource that did not complete.
fn not_completed(study: &Study, row: &ProofRow) -> Option<Doubt> {
    let all = trials(study, &row.factor).count();
    let broken: Vec<&RunRecord> =
        trials(study, &row.factor).filter(|record| record.run.ending != Ending::Completed).collect();
    let why = broken.iter().find_map(|record| match &record.run.ending {
        Ending::Failed(why) => Some(format!(", the first with: {why}")),
        _ => None,
    });
    let text = format!(
        "the proof of {} has only {}: {} of {all} trials with the reduced resource did not complete{}",
        row.factor,
        words::count(row.rounds as usize, "round"),
        broken.len(),
        why.unwrap_or_default()
    );
    (!broken.is_empty()).then(|| Doubt::new(DoubtKind::Replication, text, ""))
}

/// Trials of the proof with failed operations, which are not counted as throughput: throughput would seem to
/// follow the resource.
fn failing(study: &Study, document: &ResultDocument) -> Option<Doubt> {
    let failing = study.runs.iter().zip(&document.trials).filter(|(record, trial)| {
        matches!(record.run.trial.treatment, Treatment::Proof(_))
            && trial.whole().is_some_and(|whole| whole.fails_beyond(FAILED_SHARE))
    });
    let ids: Vec<&str> = failing.map(|(_, trial)| trial.trial.as_str()).collect();
    let first = ids.first()?;
    let text = format!(
        "in {} of the proof more than {} of the operations failed, the first {first}: these trials are \
        ignored",
        words::count(ids.len(), "trial"),
        words::percent(FAILED_SHARE)
    );
    Some(Doubt::new(DoubtKind::Failures, text, "find out why operations fail with less of the resource"))
}
