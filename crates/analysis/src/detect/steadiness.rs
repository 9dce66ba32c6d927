//! Changes of throughput inside the measured time, and what the counters say about why.

use model::result::{ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Study};

use super::pauses::Pauses;
use super::{Claim, gather};
use crate::measured::{Measured, Window};
use crate::statistics::{change_points, mean};
use crate::words;

pub(super) const NAME: &str = "steadiness";

/// Windows a series is averaged down to before changes are looked for.
const WINDOWS_MAX: usize = 120;
/// Smallest change between two stretches that is worth a word, as a share of the larger.
const LEAST_CHANGE: f64 = 0.1;
/// How closely the device's rate must follow the load's after a change, to say that the device now sets the pace.
const FOLLOWS: f64 = 0.3;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    gather(NAME, study, document, claims)
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

fn claims(measured: &Measured, trial: &TrialResult) -> Vec<Claim> {
    if !measured.is_meant_steady() {
        return Vec::new();
    }
    let mut series = measured.series();
    // Pauses are told for themselves.
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
    let mut claims: Vec<Claim> = closing_sync(measured, trial).into_iter().collect();
    if stretches.len() >= 2 {
        claims.push(claim(measured, trial, &stretches, in_bytes));
    }
    claims
}

/// What the flush at the end of a copy cost: until then part of the data is only in memory.
fn closing_sync(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let sync =
        trial.operations.iter().find(|operation| operation.name == "sync" && operation.completed > 0)?;
    let sync_s = sync.completed as f64 * sync.service_ms.mean / 1e3;
    let (length_s, bytes_per_s) = (measured.length_s(), trial.whole()?.bytes_per_s);
    // A flush that takes no time changes no figure.
    if !(sync_s > 0.01 * length_s && sync_s < length_s) {
        return None;
    }
    let without = bytes_per_s * length_s / (length_s - sync_s);
    let text = format!(
        "The closing flush took {} of {}: {} with it, {} without.",
        words::seconds(sync_s),
        words::seconds(length_s),
        words::bytes_per_s(bytes_per_s),
        words::bytes_per_s(without)
    );
    Some(Claim {
        kind: FindingKind::Observation,
        resource: String::new(),
        evidence: vec![Evidence {
            run: trial.trial.clone(),
            metric: "sync.service.mean".into(),
            begin_s: measured.begin_s,
            end_s: measured.end_s,
            observed: Estimate::exact(sync_s),
            expected: None,
            text: text.clone(),
        }],
        text,
        strength: sync_s / length_s,
        against: Vec::new(),
    })
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

fn claim(measured: &Measured, trial: &TrialResult, stretches: &[Stretch], in_bytes: bool) -> Claim {
    let word = |rate: f64| if in_bytes { words::bytes_per_s(rate) } else { words::per_s(rate) };
    let rates: Vec<Evidence> = stretches
        .iter()
        .map(|stretch| Evidence {
            run: trial.trial.clone(),
            metric: if in_bytes { "bytes_per_s" } else { "rate_per_s" }.into(),
            begin_s: stretch.begin_s,
            end_s: stretch.end_s,
            observed: Estimate::exact(stretch.rate),
            expected: None,
            text: format!(
                "{} from {} to {}",
                word(stretch.rate),
                words::seconds(stretch.begin_s - measured.begin_s),
                words::seconds(stretch.end_s - measured.begin_s)
            ),
        })
        .collect();
    // The sharpest change is told; the others stand in the evidence.
    let change = |pair: &[Stretch]| {
        let (low, high) = (pair[0].rate.min(pair[1].rate), pair[0].rate.max(pair[1].rate));
        if high > 0.0 { 1.0 - low / high } else { 0.0 }
    };
    let sharpest = stretches.windows(2).max_by(|a, b| change(a).total_cmp(&change(b)));
    let (before, after) = match sharpest {
        Some(pair) => (pair[0], pair[1]),
        None => (stretches[0], stretches[0]),
    };
    let after_s = after.begin_s - measured.begin_s;
    let moved: f64 = stretches
        .iter()
        .filter(|stretch| stretch.end_s <= before.end_s)
        .map(|stretch| stretch.bytes_per_s * (stretch.end_s - stretch.begin_s))
        .sum();
    let numbers = format!("{} before, {} after", word(before.rate), word(after.rate));
    let place = match in_bytes {
        true => format!("after {} and {}", words::seconds(after_s), words::bytes(moved)),
        false => format!("after {}", words::seconds(after_s)),
    };
    let mut evidence = rates;
    let text = match cause(measured, trial, &before, &after, &mut evidence) {
        Cause::WriteBackCache => format!("The write-back cache was exhausted {place}: {numbers}."),
        Cause::Copying => {
            format!(
                "Throughput changed {place}: {numbers}. The kernel's copying in memory took the CPU, not the disk."
            )
        }
        Cause::NotShown => format!("Throughput changed {place}: {numbers}. The counters do not show why."),
    };
    Claim {
        kind: FindingKind::Observation,
        resource: String::new(),
        text,
        strength: change(&[before, after]),
        evidence,
        against: Vec::new(),
    }
}

enum Cause {
    WriteBackCache,
    Copying,
    NotShown,
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
) -> Cause {
    let between = |metric: &str, instance: &str, stretch: &Stretch| {
        measured.mean_between(metric, instance, stretch.begin_s, stretch.end_s)
    };
    let mut note = |metric: &str, stretch: &Stretch, value: f64, text: String| {
        evidence.push(Evidence {
            run: trial.trial.clone(),
            metric: metric.into(),
            begin_s: stretch.begin_s,
            end_s: stretch.end_s,
            observed: Estimate::exact(value),
            expected: None,
            text,
        });
    };
    if after.rate >= before.rate || measured.is_direct() || !measured.is_storage() {
        return Cause::NotShown;
    }
    let unwritten = |stretch: &Stretch| {
        let dirty = between("memory.dirty_bytes", "", stretch)?;
        Some(dirty + between("memory.writeback_bytes", "", stretch).unwrap_or(0.0))
    };
    let device = |stretch: &Stretch| {
        let devices = measured.devices();
        let rates = devices.iter().filter_map(|device| between("disk.write_bytes_per_s", device, stretch));
        rates.reduce(|sum, rate| sum + rate)
    };
    let (held_before, held_after) = (unwritten(before), unwritten(after));
    let written_after = device(after);
    if let Some(held) = held_after {
        let text = format!("{} of written data waited in memory after the change", words::bytes(held));
        note("memory.dirty_bytes", after, held, text);
    }
    if let Some(written) = written_after {
        let text = format!("the device wrote {} after the change", words::bytes_per_s(written));
        note("disk.write_bytes_per_s", after, written, text);
    }
    let follows = written_after
        .is_some_and(|written| (written - after.bytes_per_s).abs() <= FOLLOWS * after.bytes_per_s);
    let full = held_before.zip(held_after).is_some_and(|(before, after)| before > 0.0 && after >= before);
    if follows && full {
        return Cause::WriteBackCache;
    }
    let system = between("cpu.system_share", "", after);
    if let Some(system) = system {
        let text = format!("the kernel took {} of the CPU time after the change", words::percent(system));
        note("cpu.system_share", after, system, text);
    }
    let ran = crate::doubt::generator_shares(measured.record).is_some_and(|(ran, _)| ran >= 0.5);
    let mostly_kernel =
        system.zip(between("cpu.busy_share", "", after)).is_some_and(|(system, busy)| system >= 0.5 * busy);
    if ran && mostly_kernel && !follows { Cause::Copying } else { Cause::NotShown }
}
