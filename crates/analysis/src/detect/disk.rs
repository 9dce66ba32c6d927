//! Did a disk limit? How busy it was does not tell: a device that serves many requests at once is "busy" long before it
//! is full. What tells is where the operations in flight were: in the device's queue, or somewhere else.

use model::result::{Curve, ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, Level, Study};

use super::{Claim, cpu_clause, evidence, gather, note_gains};
use crate::doubt::{ISSUED_SHARE, device_share};
use crate::measured::Measured;
use crate::words;

pub(super) const NAME: &str = "disk";

/// Share of the operations in flight that must be with the device for it to limit.
const AT_DEVICE: f64 = 0.8;
/// Share of the operations in flight below which the device is ruled out.
const ELSEWHERE: f64 = 0.3;
/// Through the page cache the device's queue fills behind the load's back: then tasks must also have stalled.
const STALLED_SHARE: f64 = 0.5;
/// The device moved this much more than the load: something else used it.
const SHARED_FACTOR: f64 = 1.2;
/// Share of a limit set on I/O from which it counts as reached.
const LIMIT_REACHED: f64 = 0.95;
/// Below this utilization and queue an open load did not fill the device.
const CALM_UTILIZATION: f64 = 0.5;
const CALM_QUEUE: f64 = 1.0;

// What administrators have gone by for a transfer and for a queue; shown beside the numbers, judging nothing.
const GOOD_TRANSFER_S: f64 = 0.010;
const MOST_TRANSFER_S: f64 = 0.020;
const QUEUE_PER_SPINDLE: f64 = 1.0;

pub(super) fn detect(study: &Study, document: &ResultDocument) -> Vec<Finding> {
    let mut findings = gather(NAME, study, document, claims);
    note_gains(&mut findings, document);
    if study.runs.iter().any(|record| Measured::of(record).is_storage()) {
        findings.extend(document.curves.iter().filter_map(block_size));
    }
    findings
}

fn claims(measured: &Measured, trial: &TrialResult) -> Vec<Claim> {
    if !measured.is_storage() {
        return Vec::new();
    }
    let mut claims: Vec<Claim> = shared(measured, trial).into_iter().collect();
    claims.extend(limit_reached(measured, trial).or_else(|| device(measured, trial)));
    claims
}

/// The device's own numbers over the measured phase; several devices together.
struct Device {
    name: String,
    queue: f64,
    transfer_s: Option<f64>,
    utilization: Option<f64>,
}

impl Device {
    fn of(measured: &Measured) -> Option<Device> {
        let devices = measured.devices();
        let queue = measured.sum("disk.queue_length", &devices)?;
        let largest =
            |metric: &str| devices.iter().filter_map(|device| measured.mean(metric, device)).reduce(f64::max);
        Some(Device {
            name: devices.join(", "),
            queue,
            transfer_s: largest("disk.transfer_s"),
            utilization: largest("disk.utilization_share"),
        })
    }

    fn evidence(&self, measured: &Measured, trial: &TrialResult) -> Vec<Evidence> {
        let title = |metric: &str| format!("{metric}{{{}}}", self.name);
        let mut found = vec![evidence(
            measured,
            trial,
            title("disk.queue_length"),
            self.queue,
            Some(Estimate { value: QUEUE_PER_SPINDLE, low: 0.0, high: QUEUE_PER_SPINDLE }),
            format!(
                "{} requests waited or were in service on average (rule of thumb: under 1 per spindle)",
                words::number(self.queue)
            ),
        )];
        if let Some(transfer_s) = self.transfer_s {
            found.push(evidence(
                measured,
                trial,
                title("disk.transfer_s"),
                transfer_s,
                Some(Estimate { value: GOOD_TRANSFER_S, low: 0.0, high: MOST_TRANSFER_S }),
                format!(
                    "a transfer took {} (rule of thumb: under 10 ms is good, 20 ms the most)",
                    words::ms(transfer_s * 1e3)
                ),
            ));
        }
        if let Some(utilization) = self.utilization {
            found.push(evidence(
                measured,
                trial,
                title("disk.utilization_share"),
                utilization,
                None,
                format!(
                    "the device had something to do {} of the time, which does not tell how much more it could do",
                    words::percent(utilization)
                ),
            ));
        }
        found
    }
}

fn device(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let device = Device::of(measured)?;
    let whole = trial.whole().filter(|whole| whole.completed > 0)?;
    let in_flight = whole.concurrency;
    let at_device = device.queue / in_flight;
    let kept_up = whole.completed as f64 >= ISSUED_SHARE * whole.offered as f64;
    let pressing = measured.is_closed() || (measured.is_open() && !kept_up);
    let stalled = measured.host_mean("pressure.io_some_share");
    let waited_for = measured.is_direct() || stalled.is_some_and(|stalled| stalled >= STALLED_SHARE);
    let took = match device.transfer_s {
        Some(transfer_s) => format!(" and a transfer took {}", words::ms(transfer_s * 1e3)),
        None => String::new(),
    };
    let queued = format!(
        "{} requests waited or were in service on average{took}; {} operations were in flight",
        words::number(device.queue),
        words::number(in_flight)
    );
    let mut found = device.evidence(measured, trial);
    found.push(evidence(
        measured,
        trial,
        "concurrency",
        in_flight,
        None,
        format!("{} operations were in flight on average", words::number(in_flight)),
    ));
    if let Some(stalled) = stalled {
        let text = format!("in {} of the time some task stalled for I/O", words::percent(stalled));
        found.push(evidence(measured, trial, "pressure.io_some_share", stalled, None, text));
    }
    let alone = moved_factor(measured, trial).is_none_or(|factor| factor < SHARED_FACTOR);
    let resource = format!("disk {}", device.name);
    let claim = |kind, text, strength| {
        Some(Claim { kind, resource: resource.clone(), text, strength, evidence: found, against: Vec::new() })
    };
    if pressing && waited_for && alone && at_device >= AT_DEVICE {
        // One at a time says nothing of how many a device could carry.
        let how = if in_flight < ONE_AT_A_TIME { " by its response time" } else { "" };
        let text = format!("The {resource} limited this run{how}: {queued}{}.", cpu_clause(measured));
        return claim(FindingKind::Limits, text, at_device);
    }
    let idle = device.queue < CALM_QUEUE
        && device.utilization.is_some_and(|share| share < CALM_UTILIZATION)
        && device.transfer_s.is_none_or(|transfer_s| transfer_s < GOOD_TRANSFER_S);
    if (pressing && at_device < ELSEWHERE) || (!pressing && idle) {
        let text = format!("The {resource} was not the limit: {queued}{}.", cpu_clause(measured));
        return claim(FindingKind::RuledOut, text, 1.0 - at_device);
    }
    None
}

/// A limit that the experiment itself set on I/O, and that was reached. The device's own counters cannot show it: what a
/// limit holds back never reaches the device's queue.
fn limit_reached(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let run = &measured.record.run;
    let whole = trial.whole()?;
    let (path, level) = run
        .in_force
        .iter()
        .chain(run.asked.iter().filter(|(path, _)| !run.in_force.contains_key(*path)))
        .find(|(path, level)| {
            path.contains("io_limit") && matches!(level, Level::Rate(_) | Level::BytesPerSecond(_))
        })?;
    let (limit, reached, metric, text) = match level {
        Level::Rate(limit) => (*limit, whole.rate_per_s, "rate_per_s", words::per_s(whole.rate_per_s)),
        Level::BytesPerSecond(limit) => {
            (*limit, whole.bytes_per_s, "bytes_per_s", words::bytes_per_s(whole.bytes_per_s))
        }
        _ => return None,
    };
    (limit > 0.0 && reached >= LIMIT_REACHED * limit).then(|| {
        let text = format!("The limit of {level} set on I/O ({path}) was reached: {text}.");
        let line = Some(Estimate { value: limit, low: LIMIT_REACHED * limit, high: limit });
        let found = evidence(measured, trial, metric, reached, line, text.clone());
        Claim {
            kind: FindingKind::Limits,
            resource: format!("I/O limit {path}"),
            text,
            strength: reached / limit,
            evidence: vec![found],
            against: Vec::new(),
        }
    })
}

/// How many times the load's bytes the devices moved, reads and writes together.
fn moved_factor(measured: &Measured, trial: &TrialResult) -> Option<f64> {
    let devices = measured.devices();
    let read = measured.sum("disk.read_bytes_per_s", &devices);
    let written = measured.sum("disk.write_bytes_per_s", &devices);
    let moved = read.unwrap_or(0.0) + written?;
    let load = trial.whole().map(|whole| whole.bytes_per_s).filter(|bytes| *bytes > 0.0)?;
    Some(moved / load)
}

/// Something else used the device. Told of direct I/O only: a page cache reads ahead and writes when it likes.
fn shared(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    device_share(measured, trial).filter(|_| measured.is_direct())?;
    let factor = moved_factor(measured, trial).filter(|factor| *factor >= SHARED_FACTOR)?;
    let devices = measured.devices().join(", ");
    let text = format!("{devices} moved {factor:.1} times the bytes of this load: something else used it.");
    let line = Some(Estimate::exact(1.0));
    let found = evidence(measured, trial, "disk bytes over load bytes", factor, line, text.clone());
    Some(Claim {
        kind: FindingKind::Observation,
        resource: format!("disk {devices}"),
        text,
        strength: factor,
        evidence: vec![found],
        against: Vec::new(),
    })
}

/// Operations in flight below which each waits for the one before.
const ONE_AT_A_TIME: f64 = 1.5;

/// What larger blocks bought and cost.
fn block_size(curve: &Curve) -> Option<Finding> {
    if curve.factor != "workload.block_size" {
        return None;
    }
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let gained = last.bytes_per_s[0] / first.bytes_per_s[0];
    let slower = last.mean_ms[0] / first.mean_ms[0];
    if !gained.is_finite() || !slower.is_finite() {
        return None;
    }
    let series = if curve.series.is_empty() { String::new() } else { format!(" ({})", curve.series) };
    let text = format!(
        "From {} to {} blocks{series}: {} to {} (x{gained:.1}), {} to {} operations, {} to {} each (x{slower:.1}).",
        first.label,
        last.label,
        words::bytes_per_s(first.bytes_per_s[0]),
        words::bytes_per_s(last.bytes_per_s[0]),
        words::per_s(first.rate_per_s[0]),
        words::per_s(last.rate_per_s[0]),
        words::ms(first.mean_ms[0]),
        words::ms(last.mean_ms[0])
    );
    Some(Finding {
        kind: FindingKind::Observation,
        detector: NAME.into(),
        resource: String::new(),
        text,
        evidence: Vec::new(),
        against: Vec::new(),
        trials: Vec::new(),
    })
}
