//! Each configuration compared with the baseline, metric by metric.
//!
//! Trials of the same round are paired, and their ratios give the interval; see [`crate::statistics`].
//! "Better" and "worse" require the whole 95 % interval on one side of "no difference". "Same" requires the
//! whole interval within [`SMALLEST_CHANGE`]. Everything else is "can't tell".

use model::result::{Answer, ComparisonRow, TrialResult};

use crate::configuration::{FAILED_SHARE, is_bound, metric, metrics};
use crate::statistics::{
    Ratio, median, paired_ratio, replicates_to_settle, replicates_to_show, unpaired_ratio,
};

/// The smallest relevant change: 3 % in either direction. An interval within it is "same", even if it shows
/// that the two values are not exactly equal.
pub const SMALLEST_CHANGE: f64 = 0.03;

/// The difference for which the required number of replicates is reported: 5 %.
const SHOWN_CHANGE: f64 = 0.05;

/// How the trials of two configurations are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// By round: trials with the same replicate number ran at nearly the same time.
    Rounds,
    /// Not paired: they ran at different times.
    None,
}

/// All rows of one configuration compared with the baseline. Metrics that either side lacks have no row.
pub(crate) fn rows(
    label: &str,
    baseline: &[&TrialResult],
    treatment: &[&TrialResult],
    pairing: Pairing,
) -> Vec<ComparisonRow> {
    let both: Vec<&TrialResult> = baseline.iter().chain(treatment).copied().collect();
    metrics(&both)
        .into_iter()
        .filter_map(|(name, higher_is_better)| {
            row(label, &name, higher_is_better, baseline, treatment, pairing)
        })
        .collect()
}

fn row(
    label: &str,
    name: &str,
    higher_is_better: bool,
    baseline: &[&TrialResult],
    treatment: &[&TrialResult],
    pairing: Pairing,
) -> Option<ComparisonRow> {
    // A proof adds trials of the baseline that no other is paired with, perhaps hours later: the medians are those of the pairs
    // then, as the ratio is. With the one at the end of a design, they are those that a table shows.
    let (paired_baseline, paired_treatment): (Vec<_>, Vec<_>) = match pairing {
        Pairing::Rounds => partners(baseline, treatment).unzip(),
        Pairing::None => (Vec::new(), Vec::new()),
    };
    let (baseline, treatment) = match paired_baseline.len() {
        2.. if baseline.len() > paired_baseline.len() + 1 => (&*paired_baseline, &*paired_treatment),
        _ => (baseline, treatment),
    };
    let medians_of = |trials: &[&TrialResult]| {
        median(&trials.iter().filter_map(|trial| metric(trial, name)).collect::<Vec<_>>())
    };
    let (baseline_median, treatment_median) = (medians_of(baseline)?, medians_of(treatment)?);
    if name == FAILED_SHARE && baseline_median == 0.0 && treatment_median == 0.0 {
        return None;
    }
    let comparable = |trial: &TrialResult| match name {
        FAILED_SHARE => failed_share(trial),
        _ => metric(trial, name),
    };
    let ratio = match pairing {
        Pairing::Rounds => paired_ratio(&pairs(baseline, treatment, &comparable)),
        Pairing::None => {
            let values = |trials: &[&TrialResult]| -> Vec<f64> {
                trials.iter().filter_map(|trial| comparable(trial)).collect()
            };
            unpaired_ratio(&values(baseline), &values(treatment))
        }
    };
    // Without pairs, the ratio of the medians is used, unless the divisor is zero.
    let [baseline_is_bound, treatment_is_bound] =
        [baseline, treatment].map(|of| of.iter().any(|trial| is_bound(trial, name)));
    let is_bound = baseline_is_bound || treatment_is_bound;
    let ratio = match ratio {
        Some(ratio) if is_bound => Ratio {
            interval: None,
            spread: None,
            method: "a value is only a bound, because operations are censored",
            ..ratio
        },
        Some(ratio) => ratio,
        None if baseline_median > 0.0 => Ratio {
            value: treatment_median / baseline_median,
            interval: None,
            pairs: 0,
            spread: None,
            method: "no pair of the same round, no interval",
        },
        None => return None,
    };
    let answer = answer(ratio.interval, higher_is_better);
    let replicates_to_settle = match (answer, ratio.spread) {
        (Answer::CantTell, Some(spread)) => {
            let needed = replicates_to_settle(ratio.value.ln(), spread, ratio.pairs, SMALLEST_CHANGE.ln_1p());
            needed.map(|needed| needed.max(ratio.pairs + 1))
        }
        _ => None,
    };
    let replicates_to_show = match (answer, ratio.spread) {
        (Answer::CantTell, Some(spread)) => replicates_to_show(SHOWN_CHANGE.ln_1p(), spread, ratio.pairs),
        _ => None,
    };
    Some(ComparisonRow {
        configuration: label.into(),
        metric: name.into(),
        higher_is_better,
        baseline: baseline_median,
        treatment: treatment_median,
        baseline_is_bound,
        treatment_is_bound,
        ratio: ratio.value,
        low: ratio.interval.map(|(low, _)| low),
        high: ratio.interval.map(|(_, high)| high),
        smallest_change: Some(SMALLEST_CHANGE),
        answer,
        pairs: ratio.pairs,
        method: ratio.method.into(),
        replicates_to_settle,
        replicates_to_show,
    })
}

/// The answer of the interval of a ratio.
pub(crate) fn answer(interval: Option<(f64, f64)>, higher_is_better: bool) -> Answer {
    let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) else {
        return Answer::CantTell;
    };
    let matters = 1.0 + SMALLEST_CHANGE;
    if low > 1.0 / matters && high < matters {
        Answer::Same
    } else if low > 1.0 {
        if higher_is_better { Answer::Better } else { Answer::Worse }
    } else if high < 1.0 {
        if higher_is_better { Answer::Worse } else { Answer::Better }
    } else {
        Answer::CantTell
    }
}

/// The values of trials with the same replicate number, baseline first. A single trial is compared with the median of all
/// trials of the baseline, the one at the end included, so that its ratio is that of the values that a table shows.
fn pairs(
    baseline: &[&TrialResult],
    treatment: &[&TrialResult],
    value: &dyn Fn(&TrialResult) -> Option<f64>,
) -> Vec<(f64, f64)> {
    if let [one] = treatment {
        let before = median(&baseline.iter().filter_map(|other| value(other)).collect::<Vec<_>>());
        return before.zip(value(one)).into_iter().collect();
    }
    partners(baseline, treatment)
        .filter_map(|(before, trial)| Some((value(before)?, value(trial)?)))
        .collect()
}

/// The trials with the same replicate number, baseline first.
fn partners<'a>(
    baseline: &[&'a TrialResult],
    treatment: &[&'a TrialResult],
) -> impl Iterator<Item = (&'a TrialResult, &'a TrialResult)> {
    treatment.iter().filter_map(|trial| {
        let before = baseline.iter().find(|before| before.replicate == trial.replicate)?;
        Some((*before, *trial))
    })
}

/// The failed share with half a failure and one operation added, so that a ratio exists even without
/// failures.
fn failed_share(trial: &TrialResult) -> Option<f64> {
    let whole = trial.whole().filter(|whole| whole.judged() > 0)?;
    let (least, _) = whole.failed_share()?;
    let judged = whole.judged() as f64;
    Some((least * judged + 0.5) / (judged + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_the_whole_interval() {
        for (interval, higher_is_better, expected) in [
            (Some((1.05, 1.20)), true, Answer::Better),
            (Some((1.05, 1.20)), false, Answer::Worse),
            (Some((0.80, 0.95)), true, Answer::Worse),
            (Some((0.80, 0.95)), false, Answer::Better),
            (Some((0.98, 1.02)), true, Answer::Same),
            // Significantly different, but not relevant.
            (Some((1.005, 1.02)), true, Answer::Same),
            (Some((0.98, 1.05)), true, Answer::CantTell),
            (Some((0.5, 2.0)), true, Answer::CantTell),
            (Some((1.0, 1.5)), true, Answer::CantTell),
            (Some((f64::NAN, 1.5)), true, Answer::CantTell),
            (None, true, Answer::CantTell),
        ] {
            assert_eq!(answer(interval, higher_is_better), expected, "{interval:?}");
        }
    }
}
