//! Doubts about the time of a record: intervals that are missing, and a clock that jumped.

use model::{Doubt, DoubtKind};

use crate::measured::Measured;
use crate::words;

/// Share of the time from begin to end that may lie in no interval.
const GAP_SHARE: f64 = 0.01;
/// Seconds that an interval may begin before the one before it ended: times are kept rounded.
const BACK_S: f64 = 1e-3;
/// An interval that is longer than this many of those asked for, and by more than a second, is no late collector.
const LONG: f64 = 3.0;

/// Time of the measured phase that lies in no interval.
pub(super) fn gaps(measured: &Measured) -> Option<Doubt> {
    let mut windows: Vec<(f64, f64)> = measured.windows().collect();
    windows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let missing = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].1).max(0.0);
    let missing_s: f64 = windows.windows(2).map(missing).sum();
    let from_s = measured.end_s - measured.begin_s;
    (missing_s > GAP_SHARE * from_s).then(|| {
        let text = format!(
            "{} of {} are in no interval: part of the record is lost, or the clock jumped; rates are those of the rest",
            words::seconds(missing_s),
            words::seconds(from_s)
        );
        Doubt::new(DoubtKind::Damaged, text, "")
    })
}

/// A clock that went backwards, or stood still for the program and went on for others.
pub(super) fn jumps(measured: &Measured) -> Option<Doubt> {
    let windows: Vec<(f64, f64)> = measured.windows().collect();
    let back = windows.windows(2).map(|pair| pair[0].1 - pair[1].0).fold(0.0, f64::max);
    let asked_s = measured.record.run.load.interval as f64 / 1e9;
    let long_s = windows.iter().map(|(begin_s, end_s)| end_s - begin_s).fold(0.0, f64::max);
    let help = "rates and times of this run are not to be trusted: measure again";
    let text = if back > BACK_S {
        format!("the clock went backwards by {}", words::seconds(back))
    } else if asked_s > 0.0 && long_s > LONG * asked_s && long_s > asked_s + 1.0 {
        format!(
            "an interval took {} instead of {}: the machine stalled, or the clock jumped",
            words::seconds(long_s),
            words::seconds(asked_s)
        )
    } else {
        return None;
    };
    Some(Doubt::new(DoubtKind::Clock, text, help))
}
