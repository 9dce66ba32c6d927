//! Devices, limits on I/O, and the curves over block size and load.

use model::FindingKind;
use model::claim::{DeviceBound, DeviceClaim, LoadPoint, LoadSweep, ReachedLimit, SerialFlushes, SizePoint};

use super::{of_series, ratio};
use crate::labels;
use crate::text::{Quantity, capitalized, mean_and_p99, per_s, percent, things, time_ms, time_ms_bounded};

fn iops(value: f64) -> String {
    Quantity::Rate("IOPS").show(value)
}

fn moved(value: f64) -> String {
    Quantity::BytesPerSecond.show(value)
}

/// `399 of 400 allowed reads/s were used (host.disk.io_limit)`.
pub(super) fn reached(limit: &ReachedLimit) -> String {
    let ReachedLimit { setting, metric, limit, observed, .. } = limit;
    let shown = |value: f64| Quantity::BytesPerSecond.show(value);
    let what = match metric.rsplit_once('.').map_or(metric.as_str(), |(_, name)| name) {
        "read_bytes_per_s" => format!("reads used {} of {} allowed", shown(*observed), shown(*limit)),
        "write_bytes_per_s" => format!("writes used {} of {} allowed", shown(*observed), shown(*limit)),
        name => {
            let what = if name.contains("write") { "writes/s" } else { "reads/s" };
            format!("{} of {} allowed {what} were used", things(*observed), things(*limit))
        }
    };
    format!("{what} ({setting})")
}

/// ` Flushes of vda ran one at a time, ...`.
pub(super) fn serial_flushes(flushes: &SerialFlushes) -> String {
    format!(
        " The flushes of {} ran one at a time, {} each: faster flushes or more writes per flush help, more operations in flight do \
         not.",
        flushes.device,
        time_ms(flushes.each_ms)
    )
}

/// The queue of the load's requests at the device.
pub(super) fn device(kind: FindingKind, about: &str, claim: &DeviceClaim) -> String {
    let transfer = claim.transfer_ms.map_or(String::new(), |ms| format!(", {} per request", time_ms(ms)));
    let queued = format!(
        "average device queue {}{transfer}, {} operations in flight",
        things(claim.queue),
        things(claim.in_flight)
    );
    let name = capitalized(about);
    let claimed = match (kind, claim.one_at_a_time) {
        (FindingKind::Limits, true) => {
            let took = claim.transfer_ms.map_or(String::new(), |ms| format!(", {} per request", time_ms(ms)));
            match claim.in_flight < 1.5 {
                true => {
                    format!("Latency-bound at queue depth 1: {about} served one operation at a time{took}.")
                }
                false => format!(
                    "Latency-bound: of {} operations in flight, {about} received one at a time{took}. \
                    The others waited in the file system: most file systems serialize writes that extend \
                    a file.",
                    things(claim.in_flight)
                ),
            }
        }
        (FindingKind::Limits, false) => format!("{name} was saturated: {queued}."),
        (FindingKind::RuledOut, _) => format!("{name} was not the limit: {queued}."),
        (FindingKind::Observation, _) => format!("{name}: {queued}."),
    };
    let flushes = claim.flush_share.map_or(String::new(), |share| {
        format!(" Flushes took {} of the time of the operations.", percent(share))
    });
    let serial = claim.serial_flushes.as_ref().map_or(String::new(), serial_flushes);
    let bound = claim.bound.as_ref().map_or(String::new(), bound);
    let host = claim
        .host_cpu_share
        .map_or(String::new(), |share| format!(" The CPUs were {} busy.", percent(share)));
    format!("{claimed}{flushes}{serial}{bound}{host}")
}

fn bound(bound: &DeviceBound) -> String {
    match bound {
        DeviceBound::OverSizes { operations, bytes } => {
            let operations = operations.as_ref().map_or(String::new(), |(first, last)| {
                format!(
                    " Up to {} blocks IOPS are the limit: {} at {}, {} at {}.",
                    last.label,
                    iops(first.rate_per_s),
                    first.label,
                    iops(last.rate_per_s),
                    last.label
                )
            });
            let bytes = bytes.as_ref().map_or(String::new(), |(first, last)| {
                format!(
                    " From {} blocks on bandwidth is the limit: {} at {}, {} at {}.",
                    first.label,
                    moved(first.bytes_per_s),
                    first.label,
                    moved(last.bytes_per_s),
                    last.label
                )
            });
            format!("{operations}{bytes}")
        }
        DeviceBound::BySize { transfer_bytes, operations } => format!(
            " Deeper queues added little or no throughput. With requests of {} the limit is probably {}: vary `block_size` to confirm it.",
            Quantity::Bytes.show(*transfer_bytes),
            if *operations { "IOPS, not bandwidth" } else { "bandwidth, not IOPS" }
        ),
    }
}

/// The effect of larger blocks on throughput and response time.
pub(super) fn block_sizes(from: &SizePoint, to: &SizePoint, series: &str) -> String {
    format!(
        "Blocks of {} instead of {}{}: {} instead of {} ({}), {} instead of {}, mean response time {} instead of {} ({}).",
        to.label,
        from.label,
        of_series(series),
        moved(to.bytes_per_s),
        moved(from.bytes_per_s),
        ratio(to.bytes_per_s / from.bytes_per_s),
        iops(to.rate_per_s),
        iops(from.rate_per_s),
        time_ms_bounded(to.mean_ms, to.at_least.has("mean")),
        time_ms_bounded(from.mean_ms, from.at_least.has("mean")),
        match to.at_least.or(from.at_least).has("mean") {
            true => "can't tell".into(),
            false => ratio(to.mean_ms / from.mean_ms),
        }
    )
}

/// The throughput at a load: operations, and bytes if there are any.
fn carried(point: &LoadPoint) -> String {
    match point.bytes_per_s > 0.0 {
        true => format!("{} ({})", per_s(point.rate_per_s), moved(point.bytes_per_s)),
        false => per_s(point.rate_per_s),
    }
}

/// The load at which throughput stops growing, and the latency above it. `peak_is_known` where a sentence before it has the
/// figures of the peak.
pub(super) fn load_sweep(sweep: &LoadSweep, peak_is_known: bool) -> String {
    let LoadSweep { factor, series, first, last, peak, knee, below_knee, stopped } = sweep;
    let (factor, series) = (labels::setting(factor), of_series(series));
    let at = |point: &LoadPoint| format!("{factor} {}", labels::level_text(&point.label));
    let latency = |point: &LoadPoint| match mean_and_p99(point.mean_ms, point.p99_ms, point.at_least) {
        times if times.is_empty() => "no response times".into(),
        times => times,
    };
    let mean = |point: &LoadPoint| time_ms_bounded(point.mean_ms, point.at_least.has("mean"));
    let stopped = stopped.as_ref().map(|of| {
        let what =
            if of.rate_per_s > 0.0 { "Operations never ended" } else { "The system stopped answering" };
        format!("{what} at {}{series}: {}, {}.", at(of), carried(of), latency(of))
    });
    if let Some(text) = stopped.as_ref().filter(|_| first.label == last.label) {
        return format!("{text} At {}: {}, {}.", at(first), carried(first), latency(first));
    }
    let below_it = match (knee, below_knee) {
        // At the largest load it is not known whether throughput stops growing: only how little the last step added.
        (Some(knee), Some(below)) if knee.label == last.label => format!(
            "{} instead of {}{series} added only {}: {} instead of {}, mean {} instead of {}{}.",
            capitalized(&at(knee)),
            labels::level_text(&below.label),
            percent(knee.rate_per_s / below.rate_per_s - 1.0),
            carried(knee),
            carried(below),
            mean(knee),
            mean(below),
            match knee.at_least.or(below.at_least).has("mean") {
                true => String::new(),
                false => format!(" ({})", ratio(knee.mean_ms / below.mean_ms)),
            },
        ),
        (Some(knee), _) => {
            let peak = match peak.label == knee.label {
                true => String::new(),
                false => format!(" The peak is {} at {}.", carried(peak), at(peak)),
            };
            let cost = match last.label == knee.label {
                true => String::new(),
                false => format!(" More load only adds latency: {} at {}.", latency(last), at(last)),
            };
            let figures = match peak_is_known && peak.is_empty() {
                true => String::new(),
                false => format!(": {}, {}", carried(knee), latency(knee)),
            };
            format!("Throughput stops growing at {}{series}{figures}.{peak}{cost}", at(knee))
        }
        (None, _) => format!(
            "Throughput still grew {}{series}: {} at {}, {}; {} at {}, {}.",
            if stopped.is_some() { "below it" } else { "at the largest load" },
            carried(first),
            at(first),
            latency(first),
            carried(last),
            at(last),
            latency(last)
        ),
    };
    stopped.into_iter().chain([below_it]).collect::<Vec<String>>().join(" ")
}
