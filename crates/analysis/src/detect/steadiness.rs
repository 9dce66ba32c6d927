//! Changes of throughput during the measured time, and their cause according to the counters.

use model::claim::ChangeCause;
use model::result::{ResultDocument, TrialResult};
use model::{Claim, Detector, Evidence, Finding, FindingKind, Study, Unit};

use super::{Sign, gather};
use crate::facts::changes::{Changes, cause, size};
use crate::facts::launches::is_of_a_command;
use crate::measured::Measured;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Steadiness, study, document, signs)
}

fn signs(measured: &Measured, trial: &TrialResult) -> Vec<Sign> {
    // Launches of a command are judged individually, see the `launches` detector.
    if !measured.is_meant_steady() || is_of_a_command(measured) {
        return Vec::new();
    }
    let mut signs: Vec<Sign> = closing_flush(measured, trial).into_iter().collect();
    signs.extend(write_cache(measured, trial).or_else(|| change(measured, trial, &Changes::of(measured))));
    signs
}

/// The cache that a copy filled, which explains the change of its rate.
fn write_cache(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let copy = trial.copy.as_ref()?;
    let cache = copy.shown_cache()?;
    let mut evidence = vec![measured.evidence(trial, "into_cache_bytes_per_s", cache.into_bytes_per_s)];
    evidence.extend(
        cache.past_bytes_per_s.map(|past| measured.evidence(trial, "past_cache_bytes_per_s", past.value)),
    );
    if let Some(full_at_s) = cache.full_at_s {
        evidence[0].end_s = full_at_s;
        evidence.iter_mut().skip(1).for_each(|past| past.begin_s = full_at_s);
    }
    let changes = Changes::of(measured);
    if let Some(at) = changes.sharpest().filter(|_| cache.full_at_s.is_some()) {
        let (_, samples) = cause(measured, &changes.stretches[at - 1], &changes.stretches[at]);
        evidence.extend(
            samples.iter().map(|of| Evidence::new(&trial.trial, of.metric, of.unit, of.span_s, of.value)),
        );
    }
    if let Some(drain) = copy.drain.filter(|drain| drain.bytes > 0.0) {
        let span_s = (drain.begin_s, drain.end_s);
        evidence.push(Evidence::new(&trial.trial, "drained_bytes", Unit::Bytes, span_s, drain.bytes));
    }
    let slower = cache.past_bytes_per_s.map_or(0.0, |past| 1.0 - past.value / cache.into_bytes_per_s);
    let claim = Claim::WriteCache { cache, drain: copy.drain };
    Some(Sign::new(FindingKind::Observation, None, claim, slower).with(evidence))
}

/// The cost of the flush at the end of a copy: before it, part of the data is only in memory.
fn closing_flush(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let sync =
        trial.operations.iter().find(|operation| operation.name.is("sync") && operation.completed > 0)?;
    let flush_s = sync.completed as f64 * sync.service_ms.mean / 1e3;
    let (of_s, bytes_per_s) = (measured.length_s(), trial.whole()?.bytes_per_s);
    // A flush without duration changes no number.
    if !(flush_s > 0.01 * of_s && flush_s < of_s) {
        return None;
    }
    let bytes_per_s_without = bytes_per_s * of_s / (of_s - flush_s);
    let claim = Claim::ClosingFlush { flush_s, of_s, bytes_per_s, bytes_per_s_without };
    let found = measured.evidence(trial, "sync_s", flush_s);
    Some(Sign::new(FindingKind::Observation, None, claim, flush_s / of_s).with([found]))
}

fn change(measured: &Measured, trial: &TrialResult, changes: &Changes) -> Option<Sign> {
    let in_bytes = changes.unit == Unit::BytesPerSecond;
    let metric = if in_bytes { "bytes_per_s" } else { "rate_per_s" };
    let stretches = &changes.stretches;
    // The largest change is claimed; the others are in the evidence.
    let at = changes.sharpest()?;
    let (before, after) = (stretches[at - 1], stretches[at]);
    let moved: f64 = stretches[..at].iter().map(|stretch| stretch.bytes()).sum();
    let (cause, samples) = cause(measured, &before, &after);
    let of_rates = stretches.iter().map(|stretch| {
        Evidence::new(&trial.trial, metric, changes.unit, (stretch.begin_s, stretch.end_s), stretch.rate)
    });
    let of_counters = samples
        .iter()
        .filter(|_| cause != ChangeCause::NotShown || !measured.is_direct())
        .map(|of| Evidence::new(&trial.trial, of.metric, of.unit, of.span_s, of.value));
    let claim = Claim::RateChanged {
        at_s: after.begin_s - measured.begin_s,
        before: before.rate,
        after: after.rate,
        unit: changes.unit,
        moved_bytes: in_bytes.then_some(moved),
        cause,
    };
    let evidence: Vec<Evidence> = of_rates.chain(of_counters).collect();
    Some(Sign::new(FindingKind::Observation, None, claim, size(&before, &after)).with(evidence))
}
