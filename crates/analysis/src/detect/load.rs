//! Throughput at varied loads: where it stopped growing, and the response times at higher loads.

use model::claim::{LoadPoint, LoadSweep};
use model::result::{Curve, CurvePoint, ResultDocument};
use model::{Claim, Detector, Finding, FindingKind, Study};

use super::of_experiment;
use crate::curve::{gain, gain_between, load_curves};

/// Share of the highest throughput from which a load counts as having reached it.
const NEARLY_ALL: f64 = 0.9;

pub(super) fn detect(_: &Study, document: &ResultDocument) -> Vec<Finding> {
    load_curves(document).filter_map(sweep).collect()
}

fn sweep(curve: &Curve) -> Option<Finding> {
    let stopped_at = unanswered_at(curve);
    // What a system carries that does not answer says nothing about where throughput stops growing.
    let answered =
        Curve { points: curve.points[..stopped_at.unwrap_or(curve.points.len())].to_vec(), ..curve.clone() };
    let points = &answered.points;
    let (first, last) = (points.first()?, points.last()?);
    let rate = |point: &&CurvePoint| point.rate_per_s[0];
    let peak = points.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let reaches = |point: &&CurvePoint| rate(point) >= NEARLY_ALL * rate(&peak);
    let knee_at = points.iter().position(|point| reaches(&point));
    // If the last load increase still increased throughput, the knee is beyond the measured loads.
    let knee_at = knee_at.filter(|_| points.len() > 1 && !gain(&answered).is_some_and(|gain| gain.grew));
    let point = |of: &CurvePoint| LoadPoint {
        label: of.label.clone(),
        rate_per_s: of.rate_per_s[0],
        bytes_per_s: of.bytes_per_s[0],
        mean_ms: of.mean_ms[0],
        p99_ms: of.p99_ms[0],
        at_least: of.at_least,
    };
    if !(peak.rate_per_s[0] > 0.0) {
        return None;
    }
    let claim = Claim::LoadSweep(LoadSweep {
        factor: curve.factor.clone(),
        series: curve.series.clone(),
        first: point(first),
        last: point(last),
        peak: point(peak),
        knee: knee_at.map(|at| point(&points[at])),
        below_knee: knee_at.and_then(|at| at.checked_sub(1)).map(|at| point(&points[at])),
        stopped: stopped_at.map(|at| point(&curve.points[at])),
    });
    of_experiment(Detector::Load, FindingKind::Observation, claim, Vec::new())
}

/// The first load at which nothing was answered, or at which operations that never ended were a large part of those in flight
/// and throughput did not grow.
fn unanswered_at(curve: &Curve) -> Option<usize> {
    curve.points.iter().enumerate().position(|(at, point)| {
        let grew =
            || at > 0 && gain_between(curve, &curve.points[at - 1], point).is_some_and(|gain| gain.grew);
        let is_answered = point.rate_per_s[0] > 0.0;
        (!is_answered && (point.mean_ms[0].is_nan() || point.at_least.has("mean")))
            || (at > 0 && point.is_unanswered && !grew())
    })
}
