//! Does a write-back cache cost more than none? Past a cache that is too small, a copy may be slower than without it.

use model::result::{Configuration, ResultDocument, TrialResult};
use model::{Claim, CopyResult, Detector, Estimate, Finding, FindingKind, Study, WriteCache};

use super::of_experiment;
use crate::configuration::levels_label;
use crate::statistics::{median, paired_ratio};

pub(super) fn detect(_study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let sides: Vec<Side> = document.configurations.iter().map(|of| Side::of(document, of)).collect();
    let with = sides.iter().filter(|side| !side.exhausted.is_empty());
    let without = || sides.iter().filter(|side| side.copies.iter().all(|(_, copy)| copy.cache.is_none()));
    with.flat_map(|with| without().filter_map(move |without| costs(with, without))).collect()
}

/// The copies of one configuration by replicate.
struct Side<'a> {
    /// The levels of what is varied, such as `cache=direct`, of the baseline too.
    label: String,
    copies: Vec<(u32, &'a CopyResult)>,
    /// Caches that were exhausted, with the rate past them. One that was not drained yet may hide the fall of the rate in one
    /// of several replicates.
    exhausted: Vec<(u32, WriteCache, f64)>,
}

impl<'a> Side<'a> {
    fn of(document: &'a ResultDocument, configuration: &Configuration) -> Side<'a> {
        let trials = document.trials.iter().filter(|trial| configuration.trials.contains(&trial.trial));
        let copy = |trial: &'a TrialResult| Some((trial.replicate, trial.copy.as_ref()?));
        let copies: Vec<(u32, &CopyResult)> = trials.filter_map(copy).collect();
        let exhausted = copies.iter().filter_map(|(replicate, copy)| {
            let cache = copy.shown_cache()?;
            Some((*replicate, cache, cache.past_bytes_per_s?.value))
        });
        let exhausted = exhausted.collect();
        Side { label: levels_label(&configuration.treatment), copies, exhausted }
    }
}

/// The claim, if the whole interval of the ratio is below 1.
fn costs(with: &Side, without: &Side) -> Option<Finding> {
    let pair = |(replicate, _, past): &(u32, WriteCache, f64)| {
        let (_, other) = without.copies.iter().find(|(of, _)| of == replicate)?;
        Some((other.mean_bytes_per_s.value, *past))
    };
    let pairs: Vec<(f64, f64)> = with.exhausted.iter().filter_map(pair).collect();
    let ratio = paired_ratio(&pairs)?;
    let (low, high) = ratio.interval.filter(|(_, high)| *high < 1.0)?;
    let of_cache = |value: fn(&WriteCache) -> f64| {
        median(&with.exhausted.iter().map(|(_, cache, _)| value(cache)).collect::<Vec<_>>())
    };
    let past_bytes_per_s = median(&with.exhausted.iter().map(|(.., past)| *past).collect::<Vec<_>>())?;
    let rates: Vec<f64> = without.copies.iter().map(|(_, copy)| copy.mean_bytes_per_s.value).collect();
    let without_bytes_per_s = median(&rates)?;
    let typical = WriteCache {
        into_bytes_per_s: of_cache(|cache| cache.into_bytes_per_s)?,
        past_bytes_per_s: Some(Estimate::exact(past_bytes_per_s)),
        accepted_bytes: Estimate::exact(of_cache(|cache| cache.accepted_bytes.value)?),
        ..with.exhausted.first()?.1
    };
    let claim = Claim::CacheCosts {
        configuration: with.label.clone(),
        without: without.label.clone(),
        past_bytes_per_s,
        without_bytes_per_s,
        ratio: Estimate { value: ratio.value, low, high },
        break_even_bytes: typical.break_even_bytes(without_bytes_per_s)?,
    };
    of_experiment(Detector::Steadiness, FindingKind::Observation, claim, Vec::new())
}
