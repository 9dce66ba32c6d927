//! The course of a load that another tool drove: what its means and percentiles leave out.

use model::audit::{AuditFinding, AuditKind, Severity};
use model::figure::{CORRECTED, Figure, Figures, Quantity, Span};
use model::result::TrialResult;
use model::{Profile, Shape};

use super::{finding, follows};
use crate::facts::changes::Changes;
use crate::measured::Measured;
use crate::statistics::median;

/// A shorter measurement shows no steady state.
const SHORT_S: f64 = 10.0;
/// The part at the begin of a measurement that may be its warm-up.
const WARM_UP_PART: f64 = 0.4;
/// Operations in a usual interval, so that one without any is no chance.
const USUAL_MIN: f64 = 10.0;
/// How much longer a percentile must become for an open load.
const LONGER: f64 = 2.0;

/// All findings about a trial.
pub(super) fn findings(measured: &Measured, trial: &TrialResult, found: &mut Vec<AuditFinding>) {
    let run = &measured.record.run;
    if run.traits.operations_apart || run.operations_in_turn {
        return;
    }
    let of = Figures { name: format!("trial {}", trial.trial), ..Figures::default() };
    let length = Figure::measured(Quantity::Elapsed, trial.measured_s, 0.0);
    if trial.measured_s > 0.0 && trial.measured_s < SHORT_S {
        found.push(finding(&of, AuditKind::Short, Severity::Doubtful, &[&length]));
    }
    let is_constant =
        run.load.shape.as_ref().is_none_or(|shape| matches!(shape.profile(), Profile::Constant(_)));
    if !is_constant {
        return;
    }
    let stall_s = stall(measured, &of, found);
    if stall_s.is_none() {
        warm_up(measured, &of, found);
    }
    hidden_waiting(measured, trial, stall_s, &of, found);
}

/// Nothing was completed in whole intervals, between others with many operations.
fn stall(measured: &Measured, of: &Figures, found: &mut Vec<AuditFinding>) -> Option<f64> {
    let windows = measured.series();
    let counts: Vec<f64> = windows.iter().map(|window| window.completed as f64).collect();
    if median(&counts).is_none_or(|usual| usual < USUAL_MIN) {
        return None;
    }
    let last = counts.iter().rposition(|count| *count > 0.0)?;
    let first = counts.iter().position(|count| *count > 0.0)?;
    let mut longest: Option<(f64, f64)> = None;
    let mut begin: Option<f64> = None;
    for (window, count) in windows.iter().zip(&counts).take(last + 1).skip(first) {
        match (*count > 0.0, begin) {
            (false, None) => begin = Some(window.begin_s),
            (true, Some(at)) => {
                if longest.is_none_or(|(begin_s, end_s)| end_s - begin_s < window.begin_s - at) {
                    longest = Some((at, window.begin_s));
                }
                begin = None;
            }
            _ => {}
        }
    }
    let (begin_s, end_s) = longest?;
    let time = |value: f64| Figure::measured(Quantity::Elapsed, value, 0.0);
    let (length, at) = (time(end_s - begin_s), time(begin_s - measured.begin_s));
    found.push(finding(of, AuditKind::Stall, Severity::Doubtful, &[&length, &at]));
    Some(end_s - begin_s)
}

/// The first stretch is short and has another rate than the rest.
fn warm_up(measured: &Measured, of: &Figures, found: &mut Vec<AuditFinding>) {
    let changes = Changes::of(measured);
    let Some((first, rest)) = changes.stretches.split_first() else { return };
    let (Some(rest), true) = (changes.together(rest), first.length_s() < WARM_UP_PART * measured.length_s())
    else {
        return;
    };
    let unit =
        if changes.unit == model::Unit::BytesPerSecond { Quantity::Throughput } else { Quantity::Rate };
    let figures = [
        Figure::measured(Quantity::Elapsed, first.length_s(), 0.0),
        Figure::measured(unit, first.rate, 0.0),
        Figure::measured(unit, rest.rate, 0.0),
    ];
    let figures: Vec<&Figure> = figures.iter().collect();
    found.push(finding(of, AuditKind::WarmUp, Severity::Doubtful, &figures));
}

/// A closed load issues nothing while it waits, so its percentiles have one long time for each user and stall. Arrivals of an
/// open load would have waited from the whole stall down to nothing: the share of them that waited more than x in a stall of
/// S, in a measurement of T, is (S - x) / T. Source: Tene, "How NOT to Measure Latency" (coordinated omission).
fn hidden_waiting(
    measured: &Measured,
    trial: &TrialResult,
    stall_s: Option<f64>,
    of: &Figures,
    found: &mut Vec<AuditFinding>,
) {
    let Some(whole) = trial.whole().filter(|_| !trial.facts.contains_key(CORRECTED)) else { return };
    let users = match &measured.record.run.load.shape {
        Some(Shape::Open { .. }) => return,
        Some(Shape::Closed { users: Profile::Constant(users), .. }) => Some(*users),
        _ => None,
    };
    let times = whole.response_ms;
    // With one user, its longest time was a stall of all.
    let of_one = (users == Some(1.0) && times.max.is_finite()).then_some(times.max / 1e3);
    let Some(stall_s) = of_one.into_iter().chain(stall_s).reduce(f64::max) else { return };
    // A stall of one part in a thousand, which p99.9 would show, is in almost every measurement.
    let waited_s = stall_s - 0.01 * trial.measured_s;
    if times.p99.is_finite() && waited_s > LONGER * times.p99 / 1e3 {
        let stated = Figure::measured(Quantity::Percentile(99.0), times.p99 / 1e3, 0.0);
        let stall = Figure::measured(Quantity::Max, stall_s, 0.0);
        let finding = finding(of, AuditKind::HiddenWaiting, Severity::Doubtful, &[&stall, &stated]);
        found.push(follows(finding, Quantity::Max, Span::new(waited_s, f64::INFINITY)));
    }
}
