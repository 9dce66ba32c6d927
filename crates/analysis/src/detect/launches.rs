//! A command started again and again: how the first launch compares with the later ones.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Phase, Study};

use super::{Claim, gather};
use crate::measured::Measured;
use crate::statistics::median;
use crate::words;

pub(super) const NAME: &str = "launches";

/// Launches after the first that make a median.
const LATER_MIN: u64 = 2;
/// How much slower the first must be to be worth a word.
const SLOWER_FACTOR: f64 = 1.2;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, |measured, trial| {
        let launches = measured.record.run.workload == "command";
        claim(measured, trial).filter(|_| launches).into_iter().collect()
    })
}

/// The operation `first` of the trial, warm-up included, against the median of the intervals of `later`.
fn claim(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let launches = |operation: &'static str| {
        measured.record.intervals.iter().filter(move |interval| {
            let driven = matches!(interval.phase, Phase::WarmUp | Phase::Measure);
            driven && interval.operation == operation && interval.completed > 0
        })
    };
    let first = launches("first").next()?;
    let later = launches("later").fold(0, |sum: u64, interval| sum.saturating_add(interval.completed));
    let means: Vec<f64> = launches("later").map(|interval| interval.response.mean).collect();
    let typical = median(&means).filter(|typical| later >= LATER_MIN && *typical > 0.0)?;
    let took = first.response.mean;
    let factor = took / typical;
    let numbers = format!(
        "The first launch took {}, the {} later ones {} (median)",
        words::ms(took),
        words::whole(later),
        words::ms(typical)
    );
    let text = if factor >= SLOWER_FACTOR {
        format!("{numbers}: x{factor:.1}.")
    } else {
        format!("{numbers}: the first was not slower.")
    };
    let found = Evidence {
        run: trial.trial.clone(),
        metric: "response_ms.mean".into(),
        begin_s: first.begin_s,
        end_s: first.end_s,
        observed: Estimate::exact(took),
        expected: Some(Estimate::exact(typical)),
        text: numbers,
    };
    Some(Claim {
        kind: FindingKind::Observation,
        resource: String::new(),
        text,
        strength: factor,
        evidence: vec![found],
        against: Vec::new(),
    })
}
