//! Lasting changes of throughput during the measured time, and what the counters say about their cause.

use model::claim::ChangeCause;
use model::{Unit, metrics};

use super::generator::Shares;
use super::pauses::Pauses;
use crate::measured::{Measured, Window};
use crate::statistics::{change_points, mean, variance};

/// Limit of the windows of a series; longer ones are averaged before changes are detected.
const WINDOWS_MAX: usize = 120;
/// The smallest reported change between two stretches, as a share of the larger one.
const LEAST_CHANGE: f64 = 0.1;
/// The part of the entries after which an import has read its file.
const READ_SHARE: f64 = 0.98;
/// How closely the device's rate must follow the load's if the device sets the pace.
const FOLLOWS: f64 = 0.3;
/// Share of what was accepted faster than the device wrote that must be in memory if memory accepted it.
const HELD_SHARE: f64 = 0.5;
/// How much slower transfers of the destination must become, and how little slower those of the source may, if
/// the destination is the cause.
const SLOWER: f64 = 1.5;
const UNCHANGED: f64 = 1.2;

/// A stretch between two changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    /// Operations per second, or bytes per second for a load that transfers bytes.
    pub(crate) rate: f64,
    pub(crate) bytes_per_s: f64,
}

impl Stretch {
    pub(crate) fn length_s(&self) -> f64 {
        self.end_s - self.begin_s
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.bytes_per_s * self.length_s()
    }
}

/// Throughput over the measured time, cut where it changed.
pub(crate) struct Changes {
    pub(crate) windows: Vec<Stretch>,
    /// At least one, unless nothing was measured.
    pub(crate) stretches: Vec<Stretch>,
    /// Bytes per second, or operations per second.
    pub(crate) unit: Unit,
}

/// A value of a counter that explains a change.
pub(crate) struct Sample {
    pub(crate) metric: &'static str,
    pub(crate) unit: Unit,
    pub(crate) span_s: (f64, f64),
    pub(crate) value: f64,
}

impl Changes {
    pub(crate) fn of(measured: &Measured) -> Changes {
        let mut series = measured.series();
        // An import has a start, and works on after it has read its file: its phases show that.
        if measured.record.run.traits.grouped {
            let all: u64 = series.iter().map(|window| window.completed).sum();
            let mut done = 0;
            series.retain(|window| {
                let is_reading = done + window.completed > 0 && (done as f64) < READ_SHARE * all as f64;
                done += window.completed;
                is_reading
            });
        }
        // Pauses have a separate finding.
        if let Some(pauses) = Pauses::of(measured) {
            series.retain(|window| !pauses.blur() && !pauses.touch(window));
        }
        let in_bytes = measured.is_storage() && series.iter().any(|window| window.bytes_per_s > 0.0);
        let per_window = series.len().div_ceil(WINDOWS_MAX).max(1);
        // The last interval of work that ends by itself is shorter: it is weighted by its length.
        let windows: Vec<Stretch> =
            series.chunks(per_window).filter_map(|chunk| stretch(chunk, in_bytes)).collect();
        let rates: Vec<f64> = windows.iter().map(|window| window.rate).collect();
        let mut ends: Vec<usize> = change_points(&rates, LEAST_CHANGE, 0);
        if ends.is_empty() && measured.is_copy() {
            ends.extend(early_drop(&rates));
        }
        ends.push(windows.len());
        let mut begin = 0;
        let mut stretches = Vec::new();
        for end in ends {
            stretches.extend(joined(&windows[begin..end]));
            begin = end;
        }
        let unit = if in_bytes { Unit::BytesPerSecond } else { Unit::PerSecond };
        Changes { windows, stretches, unit }
    }

    /// The place of the stretch after the largest change; none if there is no change.
    pub(crate) fn sharpest(&self) -> Option<usize> {
        let sizes = self.stretches.windows(2).map(|pair| size(&pair[0], &pair[1])).enumerate();
        sizes.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at + 1)
    }

    /// Several stretches as one.
    pub(crate) fn together(&self, stretches: &[Stretch]) -> Option<Stretch> {
        let (first, last) = (stretches.first()?, stretches.last()?);
        let windows = self.windows.iter();
        let inside = windows.filter(|of| of.begin_s >= first.begin_s && of.end_s <= last.end_s);
        let (mut length_s, mut done, mut bytes) = (0.0, 0.0, 0.0);
        for window in inside {
            length_s += window.length_s();
            done += window.rate * window.length_s();
            bytes += window.bytes();
        }
        (length_s > 0.0).then_some(Stretch {
            begin_s: first.begin_s,
            end_s: last.end_s,
            rate: done / length_s,
            bytes_per_s: bytes / length_s,
        })
    }
}

/// The first windows of a copy that all lie above every window of its second half, if their mean is several times the mean
/// after them: an early drop that is too short, or too gradual, for the general test. In independent noise the first two of
/// ten windows lie above the last five in one of 21 series. A single window must stand out by far.
fn early_drop(rates: &[f64]) -> Option<usize> {
    const WINDOWS_MIN: usize = 10;
    const TIMES: f64 = 2.0;
    const DEVIATIONS_OF_ONE: f64 = 10.0;
    if rates.len() < WINDOWS_MIN {
        return None;
    }
    let (first_half, second_half) = rates.split_at(rates.len() / 2);
    let highest = second_half.iter().copied().fold(0.0, f64::max);
    let above = first_half.iter().take_while(|rate| **rate > highest).count();
    let (into, past) = (mean(&rates[..above])?, mean(&rates[above..])?);
    let stands_out = above > 1 || into - past >= DEVIATIONS_OF_ONE * variance(&rates[above..])?.sqrt();
    (stands_out && into >= TIMES * past).then_some(above)
}

/// The size of a change, as a share of the larger rate.
pub(crate) fn size(before: &Stretch, after: &Stretch) -> f64 {
    let (low, high) = (before.rate.min(after.rate), before.rate.max(after.rate));
    if high > 0.0 { 1.0 - low / high } else { 0.0 }
}

fn stretch(chunk: &[Window], in_bytes: bool) -> Option<Stretch> {
    let total_s: f64 = chunk.iter().map(Window::length_s).sum();
    let weighed = |value: fn(&Window) -> f64| {
        chunk.iter().map(|window| value(window) * window.length_s()).sum::<f64>() / total_s
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

/// The cause of a decrease, and the counters that show it.
///
/// The page cache: only if memory had dirty data up to the change, and no less after it, and the device then
/// wrote about as fast as the load. Copying in the kernel: if the threads of the load ran most of the time,
/// most of the CPU time was kernel time, and the device did not follow. A cache below the operating system: if
/// the device wrote as fast as the load before the change and after it, the threads of the load did not run
/// most of the time, and what was read did not become slower.
pub(crate) fn cause(measured: &Measured, before: &Stretch, after: &Stretch) -> (ChangeCause, Vec<Sample>) {
    let mut found = Vec::new();
    // The files of a load on several machines change at different times.
    let of_files = measured.of_files();
    let [measured] = of_files.as_slice() else { return (ChangeCause::NotShown, found) };
    let between = |metric: &str, instance: &str, stretch: &Stretch| {
        measured.mean_between(metric, instance, stretch.begin_s, stretch.end_s)
    };
    if after.rate >= before.rate || !measured.is_storage() {
        return (ChangeCause::NotShown, found);
    }
    let devices = measured.devices();
    let written = |stretch: &Stretch| {
        let rates =
            devices.iter().filter_map(|device| between(metrics::DISK_WRITE_BYTES_PER_S, device, stretch));
        rates.reduce(|sum, rate| sum + rate).or_else(|| written_around(measured, stretch))
    };
    let follows = |stretch: &Stretch| {
        written(stretch)
            .is_some_and(|written| (written - stretch.bytes_per_s).abs() <= FOLLOWS * stretch.bytes_per_s)
    };
    let span_s = (after.begin_s, after.end_s);
    let (unwritten_before, unwritten_after) = (unwritten(measured, before), unwritten(measured, after));
    if !measured.is_direct()
        && let Some(value) = unwritten_after
    {
        found.push(Sample { metric: metrics::MEMORY_DIRTY_BYTES, unit: Unit::Bytes, span_s, value });
    }
    if let Some(value) = written(after) {
        let (metric, unit) = (metrics::DISK_WRITE_BYTES_PER_S, Unit::BytesPerSecond);
        found.push(Sample { metric, unit, span_s, value });
    }
    let full = match measured.drain().and_then(|drain| drain.held) {
        // The copied files themselves had in memory what was accepted faster than it could be written.
        Some(held) => {
            let faster = (before.bytes_per_s - after.bytes_per_s) * before.length_s();
            held.most_bytes as f64 >= HELD_SHARE * faster
        }
        None => unwritten_before
            .zip(unwritten_after)
            .is_some_and(|(before, after)| before > 0.0 && after >= before),
    };
    // A share has no device: its dirty data is all that shows.
    let is_share = measured.fact("destination.medium").is_some();
    if !measured.is_direct() && full && (follows(after) || is_share) {
        return (ChangeCause::WriteBackCache, found);
    }
    let ran = Shares::of(measured.record).is_some_and(|shares| shares.ran >= 0.5);
    if !measured.is_direct() {
        let system = between(metrics::CPU_SYSTEM_SHARE, "", after);
        if let Some(value) = system {
            found.push(Sample { metric: metrics::CPU_SYSTEM_SHARE, unit: Unit::Share, span_s, value });
        }
        let mostly_kernel = system
            .zip(between(metrics::CPU_BUSY_SHARE, "", after))
            .is_some_and(|(system, busy)| system >= 0.5 * busy);
        if ran && mostly_kernel && !follows(after) {
            return (ChangeCause::Copying, found);
        }
    }
    let device_sets_the_pace = follows(before) && follows(after);
    let below = measured.is_copy()
        && !ran
        && (device_sets_the_pace || (is_share && measured.is_direct()))
        && !source_is_slower(measured, before, after);
    (if below { ChangeCause::CacheBelowSystem } else { ChangeCause::NotShown }, found)
}

/// Writes of the devices in a stretch that is shorter than a sample: of the samples around it, by their share in it.
fn written_around(measured: &Measured, stretch: &Stretch) -> Option<f64> {
    let (mut bytes, mut length_s) = (0.0, 0.0);
    for (begin_s, end_s, rate) in measured.writes_of(&measured.devices()) {
        let overlap_s = end_s.min(stretch.end_s) - begin_s.max(stretch.begin_s);
        if overlap_s > 0.0 {
            bytes += rate * overlap_s;
            length_s += overlap_s;
        }
    }
    (length_s > 0.0).then(|| bytes / length_s)
}

/// Whether the decrease may come from what was read: reads became slower, or it is not shown that writes did.
fn source_is_slower(measured: &Measured, before: &Stretch, after: &Stretch) -> bool {
    let Some(source) = measured.fact_text("source.device").filter(|source| *source != "generated") else {
        return measured.fact_text("source.device").is_none();
    };
    let factor = |metric: &str, device: &str| {
        let [before, after] =
            [before, after].map(|at| measured.mean_between(metric, device, at.begin_s, at.end_s));
        before.zip(after).filter(|(before, _)| *before > 0.0).map(|(before, after)| after / before)
    };
    let reads = factor(metrics::DISK_READ_S, measured.whole_disk(source));
    let writes = measured.devices().first().and_then(|device| factor(metrics::DISK_WRITE_S, device));
    !(reads.is_some_and(|reads| reads <= UNCHANGED) && writes.is_some_and(|writes| writes >= SLOWER))
}

/// Mean dirty and writeback memory over the samples that were taken in a stretch.
pub(crate) fn unwritten(measured: &Measured, stretch: &Stretch) -> Option<f64> {
    let values: Vec<f64> = measured
        .unwritten()
        .filter(|(at_s, _)| *at_s > stretch.begin_s && *at_s <= stretch.end_s)
        .map(|(_, bytes)| bytes)
        .collect();
    mean(&values)
}
