//! Changes of throughput inside the measured time, and what the counters say about why.

use model::claim::ChangeCause;
use model::result::{ResultDocument, TrialResult};
use model::{Claim, Detector, Evidence, Finding, FindingKind, Study, Unit, metrics};

use super::{Sign, gather};
use crate::facts::generator::Shares;
use crate::facts::launches::is_of_a_command;
use crate::facts::pauses::Pauses;
use crate::measured::{Measured, Window};
use crate::statistics::{change_points, mean};

/// Windows a series is averaged down to before changes are looked for.
const WINDOWS_MAX: usize = 120;
/// Smallest change between two stretches that is worth a word, as a share of the larger.
const LEAST_CHANGE: f64 = 0.1;
/// How closely the device's rate must follow the load's after a change, to say that the device now sets the pace.
const FOLLOWS: f64 = 0.3;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(Detector::Steadiness, study, document, signs)
}

/// A stretch between two changes.
#[derive(Clone, Copy)]
struct Stretch {
    begin_s: f64,
    end_s: f64,
    /// Operations per second, or bytes per second for a load that moves bytes.
    rate: f64,
    bytes_per_s: f64,
}

fn signs(measured: &Measured, trial: &TrialResult) -> Vec<Sign> {
    // The launches of a command are judged one by one, see the `launches` detector.
    if !measured.is_meant_steady() || is_of_a_command(measured) {
        return Vec::new();
    }
    let mut series = measured.series();
    // Pauses have a finding of their own.
    if let Some(pauses) = Pauses::of(measured) {
        series.retain(|window| !pauses.blur() && !pauses.touch(window));
    }
    let in_bytes = measured.is_storage() && series.iter().any(|window| window.bytes_per_s > 0.0);
    let per_window = series.len().div_ceil(WINDOWS_MAX).max(1);
    // The last interval of work that ends by itself is cut short: it counts by its length.
    let windows: Vec<Stretch> =
        series.chunks(per_window).filter_map(|chunk| stretch(chunk, in_bytes)).collect();
    let rates: Vec<f64> = windows.iter().map(|window| window.rate).collect();
    let changes = change_points(&rates, LEAST_CHANGE, 0);
    let mut ends: Vec<usize> = changes;
    ends.push(windows.len());
    let mut begin = 0;
    let mut stretches = Vec::new();
    for end in ends {
        stretches.extend(joined(&windows[begin..end]));
        begin = end;
    }
    let mut signs: Vec<Sign> = closing_flush(measured, trial).into_iter().collect();
    if stretches.len() >= 2 {
        signs.push(change(measured, trial, &stretches, in_bytes));
    }
    signs
}

/// What the flush at the end of a copy cost: until then part of the data is only in memory.
fn closing_flush(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let sync =
        trial.operations.iter().find(|operation| operation.name.is("sync") && operation.completed > 0)?;
    let flush_s = sync.completed as f64 * sync.service_ms.mean / 1e3;
    let (of_s, bytes_per_s) = (measured.length_s(), trial.whole()?.bytes_per_s);
    // A flush that takes no time changes no figure.
    if !(flush_s > 0.01 * of_s && flush_s < of_s) {
        return None;
    }
    let bytes_per_s_without = bytes_per_s * of_s / (of_s - flush_s);
    let claim = Claim::ClosingFlush { flush_s, of_s, bytes_per_s, bytes_per_s_without };
    let found = measured.evidence(trial, "sync_s", flush_s);
    Some(Sign::new(FindingKind::Observation, None, claim, flush_s / of_s).with([found]))
}

fn stretch(chunk: &[Window], in_bytes: bool) -> Option<Stretch> {
    let length_s = |window: &Window| window.end_s - window.begin_s;
    let total_s: f64 = chunk.iter().map(length_s).sum();
    let weighed = |value: fn(&Window) -> f64| {
        chunk.iter().map(|window| value(window) * length_s(window)).sum::<f64>() / total_s
    };
    let bytes_per_s = weighed(|window| window.bytes_per_s);
    let rate = if in_bytes { bytes_per_s } else { weighed(|window| window.rate_per_s) };
    let (first, last) = (chunk.first()?, chunk.last()?);
    (total_s > 0.0 && rate.is_finite()).then_some(Stretch {
        begin_s: first.begin_s,
        end_s: last.end_s,
        rate,
        bytes_per_s,
    })
}

fn joined(windows: &[Stretch]) -> Option<Stretch> {
    let average = |value: fn(&Stretch) -> f64| mean(&windows.iter().map(value).collect::<Vec<_>>());
    Some(Stretch {
        begin_s: windows.first()?.begin_s,
        end_s: windows.last()?.end_s,
        rate: average(|window| window.rate)?,
        bytes_per_s: average(|window| window.bytes_per_s)?,
    })
}

fn change(measured: &Measured, trial: &TrialResult, stretches: &[Stretch], in_bytes: bool) -> Sign {
    let unit = if in_bytes { Unit::BytesPerSecond } else { Unit::PerSecond };
    let metric = if in_bytes { "bytes_per_s" } else { "rate_per_s" };
    let of = |stretch: &Stretch| {
        Evidence::new(&trial.trial, metric, unit, (stretch.begin_s, stretch.end_s), stretch.rate)
    };
    let mut evidence: Vec<Evidence> = stretches.iter().map(of).collect();
    // The sharpest change is claimed; the others stand in the evidence.
    let size = |pair: &[Stretch]| {
        let (low, high) = (pair[0].rate.min(pair[1].rate), pair[0].rate.max(pair[1].rate));
        if high > 0.0 { 1.0 - low / high } else { 0.0 }
    };
    let sharpest = stretches.windows(2).max_by(|a, b| size(a).total_cmp(&size(b)));
    let (before, after) = match sharpest {
        Some(pair) => (pair[0], pair[1]),
        None => (stretches[0], stretches[0]),
    };
    let moved: f64 = stretches
        .iter()
        .filter(|stretch| stretch.end_s <= before.end_s)
        .map(|stretch| stretch.bytes_per_s * (stretch.end_s - stretch.begin_s))
        .sum();
    let cause = cause(measured, trial, &before, &after, &mut evidence);
    let claim = Claim::RateChanged {
        at_s: after.begin_s - measured.begin_s,
        before: before.rate,
        after: after.rate,
        unit,
        moved_bytes: in_bytes.then_some(moved),
        cause,
    };
    Sign::new(FindingKind::Observation, None, claim, size(&[before, after])).with(evidence)
}

/// Why throughput fell. The write-back cache only when memory held unwritten data up to the change, held no less
/// after it, and the device then wrote about as fast as the load; a kernel busy copying when the threads of the load
/// ran most of the time, most of the CPU time was the kernel's, and the device did not follow.
fn cause(
    measured: &Measured,
    trial: &TrialResult,
    before: &Stretch,
    after: &Stretch,
    evidence: &mut Vec<Evidence>,
) -> ChangeCause {
    let between = |metric: &str, instance: &str, stretch: &Stretch| {
        measured.mean_between(metric, instance, stretch.begin_s, stretch.end_s)
    };
    let mut note = |metric: &str, unit: Unit, stretch: &Stretch, value: f64| {
        let span_s = (stretch.begin_s, stretch.end_s);
        evidence.push(Evidence::new(&trial.trial, metric, unit, span_s, value));
    };
    if after.rate >= before.rate || measured.is_direct() || !measured.is_storage() {
        return ChangeCause::NotShown;
    }
    let unwritten = |stretch: &Stretch| {
        let dirty = between(metrics::MEMORY_DIRTY_BYTES, "", stretch)?;
        Some(dirty + between(metrics::MEMORY_WRITEBACK_BYTES, "", stretch).unwrap_or(0.0))
    };
    let device = |stretch: &Stretch| {
        let devices = measured.devices();
        let rates =
            devices.iter().filter_map(|device| between(metrics::DISK_WRITE_BYTES_PER_S, device, stretch));
        rates.reduce(|sum, rate| sum + rate)
    };
    let (held_before, held_after) = (unwritten(before), unwritten(after));
    let written_after = device(after);
    if let Some(held) = held_after {
        note(metrics::MEMORY_DIRTY_BYTES, Unit::Bytes, after, held);
    }
    if let Some(written) = written_after {
        note(metrics::DISK_WRITE_BYTES_PER_S, Unit::BytesPerSecond, after, written);
    }
    let follows = written_after
        .is_some_and(|written| (written - after.bytes_per_s).abs() <= FOLLOWS * after.bytes_per_s);
    let full = held_before.zip(held_after).is_some_and(|(before, after)| before > 0.0 && after >= before);
    if follows && full {
        return ChangeCause::WriteBackCache;
    }
    let system = between(metrics::CPU_SYSTEM_SHARE, "", after);
    if let Some(system) = system {
        note(metrics::CPU_SYSTEM_SHARE, Unit::Share, after, system);
    }
    let ran = Shares::of(measured.record).is_some_and(|shares| shares.ran >= 0.5);
    let mostly_kernel = system
        .zip(between(metrics::CPU_BUSY_SHARE, "", after))
        .is_some_and(|(system, busy)| system >= 0.5 * busy);
    if ran && mostly_kernel && !follows { ChangeCause::Copying } else { ChangeCause::NotShown }
}
