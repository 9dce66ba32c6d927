//! Doubts about the times in a record: missing intervals, and clock jumps.

use model::{Doubt, DoubtKind};

use crate::measured::Measured;
use crate::words;

/// Limit of the share of the time from begin to end that is in no interval.
const GAP_SHARE: f64 = 0.01;
/// Seconds by which an interval may begin before the end of the previous one: times are rounded.
const BACK_S: f64 = 1e-3;
/// An interval longer than this multiple of the configured length, and by more than a second, is not
/// explained by a late collector.
const LONG: f64 = 3.0;

/// Time of the measured phase that is in no interval.
pub(super) fn gaps(measured: &Measured) -> Option<Doubt> {
    let mut windows: Vec<(f64, f64)> = measured.windows().collect();
    windows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let missing = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].1).max(0.0);
    let missing_s: f64 = windows.windows(2).map(missing).sum();
    let from_s = measured.end_s - measured.begin_s;
    (missing_s > GAP_SHARE * from_s).then(|| {
        let text = format!(
            "{} of {} have no intervals: part of the record is lost, or the clock jumped; rates cover only the rest",
            words::seconds(missing_s),
            words::seconds(from_s)
        );
        Doubt::new(DoubtKind::Damaged, text, "")
    })
}

/// A clock that went backwards, or stopped for the program but not for others.
pub(super) fn jumps(measured: &Measured) -> Option<Doubt> {
    let windows: Vec<(f64, f64)> = measured.windows().collect();
    let back = windows.windows(2).map(|pair| pair[0].1 - pair[1].0).fold(0.0, f64::max);
    let asked_s = measured.record.run.load.interval as f64 / 1e9;
    let long_s = windows.iter().map(|(begin_s, end_s)| end_s - begin_s).fold(0.0, f64::max);
    let help = "rates and times of this run are invalid: measure again";
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
