//! How long a copy of so many bytes takes, from the rates of a copy that was measured.

use model::copy_time::{COPY_TIME_FORMAT, CopyNote};
use model::result::{Configuration, ResultDocument};
use model::{BytesGoal, CachePlace, CopyResult, CopyTime, CopyTimeDocument, Estimate};

use crate::configuration::levels_label;
use crate::statistics::{CONFIDENCE, t_interval};

/// Trials from which on their differences give the interval.
const TRIALS_MIN: usize = 3;

/// Answers for each configuration. A record without a completed copy is refused.
pub fn copy_time(document: &ResultDocument, goal: &BytesGoal) -> CopyTimeDocument {
    let configurations: Vec<CopyTime> =
        document.configurations.iter().filter_map(|of| configuration(document, of, goal)).collect();
    let refusal = match configurations.is_empty() {
        false => String::new(),
        true => "no copy was completed; repeat the run, and let it end".into(),
    };
    CopyTimeDocument {
        format: COPY_TIME_FORMAT.into(),
        run: document.run.clone(),
        experiment: document.experiment.clone(),
        goal: goal.clone(),
        configurations,
        refusal,
    }
}

/// The copies of a configuration, from the fastest to the slowest.
fn configuration(document: &ResultDocument, of: &Configuration, goal: &BytesGoal) -> Option<CopyTime> {
    let trials = document.trials.iter().filter(|trial| of.trials.contains(&trial.trial));
    let mut copies: Vec<(&CopyResult, Estimate)> = trials
        .filter_map(|trial| {
            let copy = trial.copy.as_ref()?;
            let found = seconds(copy, trial.measured_s, goal.bytes);
            found.low.is_finite().then_some((copy, found)).filter(|(_, found)| found.high.is_finite())
        })
        .collect();
    // A copy without a fall of the rate says nothing about the rate past the cache of the others.
    let falls = |copy: &CopyResult| copy.cache.is_some_and(|cache| cache.past_bytes_per_s.is_some());
    if copies.iter().any(|(copy, _)| falls(copy)) {
        copies.retain(|(copy, _)| falls(copy));
    }
    copies.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (copy, middle) = *copies.get(copies.len() / 2)?;
    let logarithms: Vec<f64> = copies.iter().map(|(_, found)| found.value.ln()).collect();
    let between = t_interval(&logarithms, CONFIDENCE).filter(|_| copies.len() >= TRIALS_MIN);
    let seconds = match between {
        Some(between) => Estimate {
            value: middle.value,
            low: between.low.exp().min(middle.value),
            high: between.high.exp().max(middle.value),
        },
        None => Estimate {
            value: middle.value,
            low: copies.iter().map(|(_, found)| found.low).fold(middle.low, f64::min),
            high: copies.iter().map(|(_, found)| found.high).fold(middle.high, f64::max),
        },
    };
    let (assumptions, warnings) = notes(copy, goal.bytes, copies.len());
    Some(CopyTime {
        configuration: levels_label(&of.treatment),
        based_on: copy.clone(),
        trials: copies.len() as u32,
        seconds,
        extrapolated: goal.bytes > copy.bytes,
        assumptions,
        warnings,
    })
}

/// The time of one trial's rates: of both where a cache was full, otherwise of the mean, its final flush included.
fn seconds(copy: &CopyResult, measured_s: f64, bytes: f64) -> Estimate {
    if let Some(cache) = &copy.cache
        && let Some(past) = cache.past_bytes_per_s
    {
        let at = |past: f64| cache.seconds(bytes, Some(past)).unwrap_or(f64::NAN);
        return Estimate { value: at(past.value), low: at(past.high), high: at(past.low) };
    }
    let Estimate { value: mean, low, high } = copy.mean_bytes_per_s;
    let value = bytes / copy.bytes * measured_s.max(copy.accepted_s);
    Estimate { value, low: value * mean / high, high: value * mean / low }
}

fn notes(copy: &CopyResult, bytes: f64, trials: usize) -> (Vec<CopyNote>, Vec<CopyNote>) {
    let (mut assumptions, mut warnings) = (Vec::new(), Vec::new());
    let extrapolated = bytes > copy.bytes;
    match copy.cache.and_then(|cache| cache.past_bytes_per_s) {
        Some(past) => {
            if extrapolated {
                assumptions
                    .push(CopyNote::RateHolds { past_bytes_per_s: past.value, copied_bytes: copy.bytes });
            }
            match copy.shown_cache() {
                Some(_) => assumptions.push(CopyNote::CacheEmpty),
                None => warnings.push(CopyNote::CauseNotShown),
            }
        }
        None if extrapolated => {
            warnings.push(CopyNote::LargerCache { copied_bytes: copy.bytes });
            let in_memory = copy.cache.is_some_and(|cache| cache.place == CachePlace::PageCache);
            if let Some(rate) = copy.drain.and_then(|drain| drain.bytes_per_s).filter(|_| in_memory) {
                warnings.push(CopyNote::DrainRate { bytes_per_s: rate, seconds: bytes / rate });
            }
        }
        None => {}
    }
    if trials < TRIALS_MIN {
        warnings.push(CopyNote::FewTrials { trials: trials as u32 });
    }
    (assumptions, warnings)
}
