//! A command started again and again: how the first launch compares with the later ones.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Interval, Phase, Study};

use super::{Claim, gather};
use crate::measured::Measured;
use crate::statistics::median;
use crate::words;

pub(super) const NAME: &str = "launches";

/// Launches after the first that make a median.
const LATER_MIN: usize = 2;
/// How much slower the first must be to be worth a word.
const SLOWER_FACTOR: f64 = 1.2;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, |measured, trial| {
        if measured.record.run.workload != "command" {
            return Vec::new();
        }
        trial
            .operations
            .iter()
            .filter(|operation| operation.name != "all")
            .filter_map(|operation| claim(measured, trial, &operation.name))
            .collect()
    })
}

/// The first launch of the trial, warm-up included, against the median of the later intervals.
fn claim(measured: &Measured, trial: &TrialResult, operation: &str) -> Option<Claim> {
    let done: Vec<&Interval> = measured
        .record
        .intervals
        .iter()
        .filter(|interval| matches!(interval.phase, Phase::WarmUp | Phase::Measure))
        .filter(|interval| interval.operation == operation && interval.completed > 0)
        .collect();
    let (first, later) = done.split_first()?;
    let means: Vec<f64> = later.iter().map(|interval| interval.response.mean).collect();
    let launches = later.iter().fold(0, |sum: u64, interval| sum.saturating_add(interval.completed));
    let typical = median(&means).filter(|typical| means.len() >= LATER_MIN && *typical > 0.0)?;
    // Several launches in the first interval: its mean is of all of them, and says the least it can be.
    let (who, took) = match first.completed {
        1 => ("The first launch".to_string(), first.response.mean),
        several => (format!("The first {several} launches"), first.response.mean),
    };
    let factor = took / typical;
    let numbers = format!(
        "{who} of `{operation}` took {}, the {launches} later ones {} (median)",
        words::ms(took),
        words::ms(typical)
    );
    let text = if factor >= SLOWER_FACTOR {
        format!("{numbers}: x{factor:.1}. What it needs was not yet in memory.")
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
