//! A command started again and again: how the first launch compares with the later ones.

use model::result::{ResultDocument, TrialResult};
use model::run::GeneratorRole;
use model::{Claim, Detector, Estimate, Evidence, Finding, FindingKind, Phase, Study, Unit};

use super::{Sign, gather};
use crate::measured::Measured;

/// The operation of the first launch, and that of the later ones.
const FIRST: &str = "first";
const LATER: &str = "later";
/// Launches after the first that make a median.
const LATER_MIN: u64 = 2;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Launches, study, document, |measured, trial| {
        let traits = &measured.record.run.traits;
        let launches = traits.generator == GeneratorRole::Starts && traits.operations_apart;
        sign(measured, trial).filter(|_| launches).into_iter().collect()
    })
}

/// The first launch, warm-up included, compared with the median of the later ones.
fn sign(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let launches = |operation: &'static str| {
        measured.record.intervals.iter().filter(move |interval| {
            let driven = matches!(interval.phase, Phase::WarmUp | Phase::Measure);
            driven && interval.operation == operation && interval.completed > 0
        })
    };
    let first = launches(FIRST).next()?;
    let later = launches(LATER).fold(0, |sum: u64, interval| sum.saturating_add(interval.completed));
    // The same median as in the table of the trial.
    let of_later = trial.operations.iter().find(|operation| operation.name.is(LATER))?;
    let later_ms = of_later.response_ms.p50;
    if later < LATER_MIN || !(later_ms > 0.0) {
        return None;
    }
    let first_ms = first.response.mean;
    let metric = "response_ms.mean";
    let found =
        Evidence::new(&trial.trial, metric, Unit::Seconds, (first.begin_s, first.end_s), first_ms / 1e3)
            .threshold(Estimate::exact(later_ms / 1e3));
    let claim = Claim::FirstLaunch { first_ms, later_ms, later };
    Some(Sign::new(FindingKind::Observation, None, claim, first_ms / later_ms).with([found]))
}
