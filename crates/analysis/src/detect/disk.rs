//! Was a disk the limit? Its utilization does not show this: a device that serves many requests concurrently
//! is "busy" long before it is saturated. The evidence is where the operations in flight were: in the
//! device's queue, or elsewhere.

use model::claim::{DeviceBound, DeviceClaim, SizePoint};
use model::result::{Curve, CurvePoint, ResultDocument, TrialResult};
use model::{
    Claim, Detector, Estimate, Evidence, Finding, FindingKind, Operation, Owner, Resource, ResourceClass,
    Study, Unit, metrics,
};

use super::{Sign, gather_steps, note_gains, of_experiment};
use crate::curve::{gain, load_curves};
use crate::facts::ISSUED_SHARE;
use crate::facts::device::{
    Device, GOOD_TRANSFER_S, ONE_AT_A_TIME, SHARED_FACTOR, device_share, moved_factor,
};
use crate::facts::io_limit::Reached;
use crate::facts::presses;
use crate::measured::Measured;

/// Share of the operations in flight that must be at the device if it is the limit.
const AT_DEVICE: f64 = 0.7;
/// Share of the operations in flight below which the device is ruled out.
const ELSEWHERE: f64 = 0.3;
/// A device that is busy for this share of the time, with at most this many requests meanwhile, receives one
/// request at a time.
const SERIAL_BUSY: f64 = 0.8;
const SERIAL_QUEUE: f64 = 1.25;
/// With the page cache, writeback fills the device's queue independently of the load: tasks must also have
/// stalled.
const STALLED_SHARE: f64 = 0.5;
/// Share of the time in flushes from which they are the limit.
const FLUSHING: f64 = 0.5;
/// Elasticity of bytes per second with respect to the block size up to which bytes are the limit, and from
/// which operations are.
const BYTES_FLAT: f64 = 0.2;
const OPERATIONS_FLAT: f64 = 0.8;
/// Transfer size up to which operations are probably the limit, and from which bytes are.
const SMALL_BYTES: f64 = 16384.0;
const LARGE_BYTES: f64 = 262_144.0;
/// With a lower utilization and queue, an open load did not saturate the device.
const CALM_UTILIZATION: f64 = 0.5;
const CALM_QUEUE: f64 = 1.0;

const BLOCK_SIZE: &str = "workload.block_size";

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings = gather_steps(Detector::Disk, study, document, signs);
    note_gains(&mut findings, document);
    findings.iter_mut().for_each(|finding| note_bound(finding, document));
    if study.runs.iter().any(|record| Measured::of(record).is_storage()) {
        findings.extend(document.curves.iter().filter_map(block_sizes));
    }
    findings
}

fn signs(measured: &Measured, trial: &TrialResult) -> Vec<Sign> {
    let of_files = if measured.is_storage() { measured.of_files() } else { Vec::new() };
    let has_no_files = |host: &&str| !of_files.iter().any(|of| of.host() == *host);
    let others = measured.hosts().into_iter().filter(has_no_files);
    let others = others.filter_map(|host| disk_of(&measured.on(host), trial));
    let mut signs: Vec<Sign> = Vec::new();
    for measured in &of_files {
        signs.extend(shared(measured, trial));
        signs.extend(limit_reached(measured, trial).or_else(|| device(measured, trial)));
    }
    signs.extend(others);
    signs
}

/// The busiest disk of another host. What its requests are of is not known: it is the limit if tasks of the host waited for
/// I/O, and as many requests were in its queue as operations in flight, or one at a time all the time.
fn disk_of(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let device = Device::busiest(measured)?;
    let in_flight = trial.whole().filter(|whole| whole.completed > 0).map(|_| trial.in_flight())?;
    let waited = measured.host_mean(metrics::PRESSURE_IO_SOME_SHARE);
    let busy = device.utilization;
    let at_device = device.queue / in_flight;
    let is_busy = busy.is_none_or(|busy| busy >= SERIAL_BUSY);
    let holds_them = at_device >= AT_DEVICE && waited.is_none_or(|waited| waited >= STALLED_SHARE);
    // Without the waits of its tasks, writeback could be all that it does.
    let one_at_a_time = busy.is_some_and(|busy| busy >= SERIAL_BUSY && device.queue <= SERIAL_QUEUE * busy)
        && waited.is_some_and(|waited| waited >= SERIAL_BUSY);
    let is_idle = busy.is_none_or(|busy| busy < CALM_UTILIZATION);
    let (kind, strength) = match () {
        () if presses(measured, trial) && is_busy && (holds_them || one_at_a_time) => {
            (FindingKind::Limits, busy.unwrap_or(at_device))
        }
        () if is_idle && device.queue < CALM_QUEUE => {
            (FindingKind::RuledOut, 1.0 - busy.unwrap_or(at_device))
        }
        () => return None,
    };
    let claim = Claim::HostDisk {
        queue: device.queue,
        in_flight,
        transfer_ms: device.transfer_s.map(|s| s * 1e3),
        busy_share: busy,
        waited_share: waited,
    };
    let mut found = device.evidence(measured, trial);
    if let Some(waited) = waited {
        found.push(measured.evidence(trial, metrics::PRESSURE_IO_SOME_SHARE, waited));
    }
    found.push(measured.on("").evidence(trial, "concurrency", in_flight));
    Some(Sign::new(kind, Some(Resource::disk(&device.name).on(measured.host())), claim, strength).with(found))
}

fn device(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    let device = Device::of(measured)?;
    let whole = trial.whole().filter(|whole| whole.completed > 0)?;
    // A machine may have none of a few users.
    let in_flight =
        Some(trial.in_flight() * measured.share_of_users()).filter(|in_flight| *in_flight > 0.0)?;
    let at_device = device.queue / in_flight;
    let kept_up = whole.offered.is_none_or(|offered| whole.completed as f64 >= ISSUED_SHARE * offered as f64);
    let pressing = measured.is_closed() || (measured.is_open() && !kept_up);
    let stalled = measured.host_mean(metrics::PRESSURE_IO_SOME_SHARE);
    let waited_for = measured.is_direct() || stalled.is_some_and(|stalled| stalled >= STALLED_SHARE);
    let mut found = device.evidence(measured, trial);
    found.push(measured.evidence(trial, "concurrency", in_flight));
    if let Some(stalled) = stalled {
        found.push(measured.evidence(trial, metrics::PRESSURE_IO_SOME_SHARE, stalled));
    }
    let alone = moved_factor(measured, trial).is_none_or(|factor| factor < SHARED_FACTOR);
    // Several operations were in flight, but only one at the device at any time: a layer above serializes
    // them, for example a file system that excludes concurrent writes of one file. The duration of each is
    // then the limit.
    let serial = in_flight >= ONE_AT_A_TIME
        && measured.is_direct()
        && device.utilization.is_some_and(|busy| busy >= SERIAL_BUSY && device.queue <= SERIAL_QUEUE * busy);
    let one_at_a_time = in_flight < ONE_AT_A_TIME || serial;
    let limits = pressing && waited_for && alone && (at_device >= AT_DEVICE || serial);
    let flush_share = flush_share(trial, &device).filter(|_| limits);
    let claim = Claim::Device(DeviceClaim {
        queue: device.queue,
        in_flight,
        transfer_ms: device.transfer_s.map(|s| s * 1e3),
        host_cpu_share: measured.host_mean(metrics::CPU_BUSY_SHARE),
        // Serialized requests do not show how many concurrent ones a device could serve.
        one_at_a_time,
        flush_share,
        serial_flushes: device.serial_flushes().filter(|_| flush_share.is_some()),
        bound: None,
    });
    let idle = device.queue < CALM_QUEUE
        && device.utilization.is_some_and(|share| share < CALM_UTILIZATION)
        && device.transfer_s.is_none_or(|transfer_s| transfer_s < GOOD_TRANSFER_S);
    let (kind, strength) = match () {
        () if limits => {
            (FindingKind::Limits, if serial { device.utilization.unwrap_or(at_device) } else { at_device })
        }
        () if (pressing && at_device < ELSEWHERE) || (!pressing && idle) => {
            (FindingKind::RuledOut, 1.0 - at_device)
        }
        () => return None,
    };
    Some(Sign::new(kind, Some(Resource::disk(&device.name).on(measured.host())), claim, strength).with(found))
}

/// Share of the time in which operations waited for flushes; none if it is not most of the time, or not
/// recorded.
fn flush_share(trial: &TrialResult, device: &Device) -> Option<f64> {
    let time_ms = |of: &[&str]| -> f64 {
        let chosen = trial.operations.iter().filter(|operation| operation.name != Operation::All);
        let chosen = chosen.filter(|operation| of.is_empty() || of.contains(&operation.name.as_str()));
        chosen.map(|operation| operation.completed as f64 * operation.service_ms.mean).sum()
    };
    let by_operations = time_ms(&["fsync", "sync"]) / time_ms(&[]);
    let by_device = device.flushes.map_or(f64::NAN, |flushes| flushes.under_way() / device.queue);
    let share = [by_operations, by_device].into_iter().find(|share| *share >= FLUSHING)?;
    Some(share.min(1.0))
}

/// Adds to a limiting disk whether operations or bytes are saturated, if the experiment shows it.
fn note_bound(finding: &mut Finding, document: &ResultDocument) {
    let Claim::Device(claim) = &mut finding.claim else { return };
    // Serialized operations are limited by their duration, for any size; and flushes have no size.
    if finding.kind != FindingKind::Limits || claim.one_at_a_time || claim.flush_share.is_some() {
        return;
    }
    let sweep = document.curves.iter().find(|curve| curve.factor == BLOCK_SIZE);
    if let Some((bound, found)) = sweep.and_then(bound_over_sizes) {
        claim.bound = Some(bound);
        finding.evidence.extend(found);
        return;
    }
    let no_more = load_curves(document).filter_map(gain).any(|gain| !gain.grew);
    let size =
        finding.evidence.iter().find(|evidence| evidence.metric.starts_with("disk.bytes_per_transfer"));
    let Some(transfer_bytes) = size.map(|size| size.observed.value).filter(|_| no_more) else { return };
    let operations = match transfer_bytes {
        size if size <= SMALL_BYTES => true,
        size if size >= LARGE_BYTES => false,
        _ => return,
    };
    claim.bound = Some(DeviceBound::BySize { transfer_bytes, operations });
}

fn size_point(point: &CurvePoint) -> SizePoint {
    SizePoint {
        label: point.label.clone(),
        rate_per_s: point.rate_per_s[0],
        bytes_per_s: point.bytes_per_s[0],
        mean_ms: point.mean_ms[0],
        at_least: point.at_least,
    }
}

/// Which rate does not change as blocks grow: operations per second, or bytes per second.
fn bound_over_sizes(curve: &Curve) -> Option<(DeviceBound, Vec<Evidence>)> {
    let steps: Vec<(f64, Evidence)> = curve
        .points
        .windows(2)
        .filter_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let elasticity =
                (after.bytes_per_s[0] / before.bytes_per_s[0]).ln() / (after.level / before.level).ln();
            let metric = "elasticity of bytes per second to block size";
            let evidence = Evidence {
                between: Some(model::finding::Levels {
                    factor: curve.factor.clone(),
                    from: before.label.clone(),
                    to: after.label.clone(),
                    series: curve.series.clone(),
                    throughput_ratio: after.rate_per_s[0] / before.rate_per_s[0],
                }),
                ..Evidence::new("", metric, Unit::Count, (0.0, 0.0), elasticity)
            };
            elasticity.is_finite().then_some((elasticity, evidence))
        })
        .collect();
    if steps.is_empty() || steps.len() + 1 != curve.points.len() {
        return None;
    }
    let small = steps.iter().take_while(|(elasticity, _)| *elasticity >= OPERATIONS_FLAT).count();
    let large = steps.iter().rev().take_while(|(elasticity, _)| *elasticity <= BYTES_FLAT).count();
    let range = |from: usize, to: usize| {
        Some((size_point(curve.points.get(from)?), size_point(curve.points.get(to)?)))
    };
    let operations = range(0, small).filter(|_| small > 0);
    let bytes = range(steps.len() - large, steps.len()).filter(|_| large > 0);
    (operations.is_some() || bytes.is_some()).then(|| {
        let found = steps.into_iter().map(|(_, evidence)| evidence).collect();
        (DeviceBound::OverSizes { operations, bytes }, found)
    })
}

/// An I/O limit of the experiment that was reached.
fn limit_reached(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    // It is set on the host of the experiment, not on machines.
    if !measured.host().is_empty() {
        return None;
    }
    let reached = Reached::by_load(measured, trial)?;
    let about = Resource {
        class: ResourceClass::IoLimit,
        of: Some(Owner::Setting(reached.path.into())),
        host: None,
        detail: None,
    };
    let claim = Claim::IoLimitReached(reached.claim());
    let sign = Sign::new(FindingKind::Limits, Some(about), claim, reached.used_share());
    Some(sign.with([reached.evidence(measured, trial)]))
}

/// Something else used the device. Claimed only for direct I/O, because a page cache reads ahead and writes
/// at any time.
fn shared(measured: &Measured, trial: &TrialResult) -> Option<Sign> {
    // A layout of several devices writes copies and parity, too.
    let has_copies = measured.fact("host.layout.device_bytes_used").is_some();
    device_share(measured, trial).filter(|_| measured.is_direct() && !has_copies)?;
    let factor = moved_factor(measured, trial).filter(|factor| *factor >= SHARED_FACTOR)?;
    let devices = measured.devices().join(", ");
    let found = measured.evidence(trial, "device bytes over load bytes", factor).threshold(Estimate {
        value: 1.0,
        low: 1.0,
        high: SHARED_FACTOR,
    });
    let claim = Claim::DeviceShared { factor };
    let about = Resource::disk(&devices).on(measured.host());
    Some(Sign::new(FindingKind::Observation, Some(about), claim, factor).with([found]))
}

/// The gain and the cost of larger blocks.
fn block_sizes(curve: &Curve) -> Option<Finding> {
    if curve.factor != BLOCK_SIZE {
        return None;
    }
    let (from, to) = (size_point(curve.points.first()?), size_point(curve.points.last()?));
    let moved = from.bytes_per_s > 0.0 && from.mean_ms > 0.0;
    let claim = Claim::BlockSizes { from, to, series: curve.series.clone() };
    of_experiment(Detector::Disk, FindingKind::Observation, claim, Vec::new()).filter(|_| moved)
}
