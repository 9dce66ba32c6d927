//! Was memory short? Stalls say so; that much is free says little, as a cache uses what it can get.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Finding, FindingKind, Study};

use super::{Claim, evidence, gather};
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "memory";

/// Share of the time tasks stalled for memory, from which it limits.
const STALLED_SHARE: f64 = 0.2;
/// Share of the time tasks stalled for memory, below which it is ruled out.
const CALM_SHARE: f64 = 0.01;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, |measured, trial| claim(measured, trial).into_iter().collect())
}

fn claim(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let stalled = measured.host_mean("pressure.memory_some_share")?;
    let available = measured.host_mean("memory.available_bytes");
    let free = available.map(|bytes| format!("; {} were available", words::bytes(bytes))).unwrap_or_default();
    let stalls = format!("in {} of the time some task stalled for memory{free}", words::percent(stalled));
    let (kind, text) = if stalled >= STALLED_SHARE {
        (FindingKind::Limits, format!("Memory was short: {stalls}."))
    } else if stalled < CALM_SHARE {
        (FindingKind::RuledOut, format!("Memory was not the limit: {stalls}."))
    } else {
        (FindingKind::Observation, format!("Memory was at times short: {stalls}."))
    };
    let line = Some(Estimate { value: 0.0, low: 0.0, high: CALM_SHARE });
    let found = evidence(measured, trial, "pressure.memory_some_share", stalled, line, stalls);
    let resource = NAME.to_string();
    Some(Claim { kind, resource, text, strength: stalled, evidence: vec![found], against: Vec::new() })
}
