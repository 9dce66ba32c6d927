//! Did a disk limit? How busy it was does not tell: a device that serves many requests at once is "busy" long before it
//! is full. What tells is where the operations in flight were: in the device's queue, or somewhere else.

use model::result::{Curve, ResultDocument, TrialResult};
use model::{Estimate, Evidence, Finding, FindingKind, IoLimits, Level, Study};

use super::{Claim, cpu_clause, evidence, gain, gather, load_curves, note_gains};
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
/// The same from which something else moved it, past the limit.
const LIMIT_PASSED: f64 = 1.2;
/// Share of the time in flushes from which they are the limit.
const FLUSHING: f64 = 0.5;
/// Elasticity of bytes per second to the block size up to which bytes are the limit, and from which operations are.
const BYTES_FLAT: f64 = 0.2;
const OPERATIONS_FLAT: f64 = 0.8;
/// Bytes of a transfer up to which operations are mostly the limit, and from which bytes are.
const SMALL_BYTES: f64 = 16384.0;
const LARGE_BYTES: f64 = 262_144.0;
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
    findings.iter_mut().for_each(|finding| note_kind(finding, document));
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
    /// Mean bytes of a transfer.
    transfer_bytes: Option<f64>,
    flushes: Option<Flushes>,
}

/// Flushes of a device: how many a second, and how long each took.
struct Flushes {
    per_s: f64,
    each_s: f64,
}

impl Flushes {
    /// That they follow each other, in words; none when several are under way at once.
    fn one_by_one(&self) -> Option<String> {
        let under_way = self.per_s * self.each_s;
        (self.per_s > 0.0 && under_way < ONE_AT_A_TIME).then(|| {
            format!(
                ", {} each and one after another ({} under way): faster flushes or more writes to a flush help, more \
                 operations at once do not",
                words::ms(self.each_s * 1e3),
                words::number(under_way)
            )
        })
    }
}

impl Device {
    fn of(measured: &Measured) -> Option<Device> {
        Device::of_all(measured, &measured.devices())
    }

    fn of_all(measured: &Measured, devices: &[&str]) -> Option<Device> {
        let queue = measured.sum("disk.queue_length", devices)?;
        let largest =
            |metric: &str| devices.iter().filter_map(|device| measured.mean(metric, device)).reduce(f64::max);
        let sum = |metric: &str| measured.sum(metric, devices);
        let bytes = sum("disk.read_bytes_per_s").zip(sum("disk.write_bytes_per_s"));
        let transfers = sum("disk.transfers_per_s").filter(|transfers| *transfers > 0.0);
        let flushes = sum("disk.flushes_per_s").zip(largest("disk.flush_s"));
        Some(Device {
            transfer_bytes: bytes.zip(transfers).map(|((read, written), count)| (read + written) / count),
            flushes: flushes.map(|(per_s, each_s)| Flushes { per_s, each_s }),
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
        if let Some(bytes) = self.transfer_bytes {
            let text = format!("a transfer was {} on average", words::bytes(bytes));
            found.push(evidence(measured, trial, "disk bytes over transfers", bytes, None, text));
        }
        if let Some(flushes) = self.flushes.as_ref().filter(|flushes| flushes.per_s > 0.0) {
            let text = format!(
                "the device made {} flushes a second, each in {}",
                words::number(flushes.per_s),
                words::ms(flushes.each_s * 1e3)
            );
            found.push(evidence(measured, trial, title("disk.flush_s"), flushes.each_s, None, text));
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
        let flushing = flushing(trial, &device).unwrap_or_default();
        let text =
            format!("The {resource} limited this run{how}: {queued}{}.{flushing}", cpu_clause(measured));
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

/// That flushes are what the operations wait for; none when they are not, or it is not recorded.
fn flushing(trial: &TrialResult, device: &Device) -> Option<String> {
    let time_ms = |of: &[&str]| -> f64 {
        let chosen = trial.operations.iter().filter(|operation| operation.name != "all");
        let chosen = chosen.filter(|operation| of.is_empty() || of.contains(&operation.name.as_str()));
        chosen.map(|operation| operation.completed as f64 * operation.service_ms.mean).sum()
    };
    let by_operations = time_ms(&["fsync", "sync"]) / time_ms(&[]);
    let under_way = device.flushes.as_ref().map(|flushes| flushes.per_s * flushes.each_s);
    let by_device = under_way.map_or(f64::NAN, |under_way| under_way / device.queue);
    let one_by_one = device.flushes.as_ref().and_then(Flushes::one_by_one).unwrap_or_default();
    let share = [by_operations, by_device].into_iter().find(|share| *share >= FLUSHING)?;
    Some(format!(
        " Flushes were the limit: {} of the time went to them{one_by_one}.",
        words::percent(share.min(1.0))
    ))
}

/// Adds to a limiting disk whether operations or bytes are what it has no more of, where the experiment shows it.
fn note_kind(finding: &mut Finding, document: &ResultDocument) {
    if finding.kind != FindingKind::Limits || !finding.resource.starts_with("disk ") {
        return;
    }
    let trial = document.trials.iter().find(|trial| finding.trials.contains(&trial.trial));
    let at_once = trial.and_then(|trial| trial.whole()).map_or(0.0, |whole| whole.concurrency);
    // One at a time is held by the time each takes, whatever its size; and flushes have none.
    if at_once < ONE_AT_A_TIME || finding.text.contains("Flushes were the limit") {
        return;
    }
    let sweep = document.curves.iter().find(|curve| curve.factor == BLOCK_SIZE);
    if let Some((text, found)) = sweep.and_then(kind_over_sizes) {
        finding.text.push_str(&format!(" {text}"));
        finding.evidence.extend(found);
        return;
    }
    let no_more = load_curves(document).filter_map(gain).any(|(_, grew)| !grew);
    let size = finding.evidence.iter().find(|evidence| evidence.metric == "disk bytes over transfers");
    let Some(size) = size.map(|size| size.observed.value).filter(|_| no_more) else { return };
    let kind = match size {
        size if size <= SMALL_BYTES => "operations per second rather than bytes",
        size if size >= LARGE_BYTES => "bytes per second rather than operations",
        _ => return,
    };
    finding.text.push_str(&format!(
        " More in flight gave no more, and with transfers of {} that is mostly for want of {kind}; a sweep over \
         `{BLOCK_SIZE}` would show it.",
        words::bytes(size)
    ));
}

const BLOCK_SIZE: &str = "workload.block_size";

/// Which of the two stays the same as blocks grow: operations per second, or bytes.
fn kind_over_sizes(curve: &Curve) -> Option<(String, Vec<Evidence>)> {
    let steps: Vec<(f64, Evidence)> = curve
        .points
        .windows(2)
        .filter_map(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let elasticity =
                (after.bytes_per_s[0] / before.bytes_per_s[0]).ln() / (after.level / before.level).ln();
            let text = format!(
                "from {} to {} blocks: {} to {}, {} to {} operations",
                before.label,
                after.label,
                words::bytes_per_s(before.bytes_per_s[0]),
                words::bytes_per_s(after.bytes_per_s[0]),
                words::per_s(before.rate_per_s[0]),
                words::per_s(after.rate_per_s[0])
            );
            let evidence = Evidence {
                run: String::new(),
                metric: "elasticity of bytes per second to block size".into(),
                begin_s: 0.0,
                end_s: 0.0,
                observed: Estimate::exact(elasticity),
                expected: None,
                text,
            };
            elasticity.is_finite().then_some((elasticity, evidence))
        })
        .collect();
    if steps.is_empty() || steps.len() + 1 != curve.points.len() {
        return None;
    }
    let small = steps.iter().take_while(|(elasticity, _)| *elasticity >= OPERATIONS_FLAT).count();
    let large = steps.iter().rev().take_while(|(elasticity, _)| *elasticity <= BYTES_FLAT).count();
    let operations = (small > 0).then(|| {
        let last = &curve.points[small];
        format!(
            "operations per second are the limit up to {} blocks ({} at {}, {} at {})",
            last.label,
            words::per_s(curve.points[0].rate_per_s[0]),
            curve.points[0].label,
            words::per_s(last.rate_per_s[0]),
            last.label
        )
    });
    let bytes = (large > 0).then(|| {
        let (first, last) = (&curve.points[steps.len() - large], &curve.points[steps.len()]);
        format!(
            "bytes per second are the limit from {} blocks on ({} at {}, {} at {})",
            first.label,
            words::bytes_per_s(first.bytes_per_s[0]),
            first.label,
            words::bytes_per_s(last.bytes_per_s[0]),
            last.label
        )
    });
    let text = match (operations, bytes) {
        (None, None) => return None,
        (operations, bytes) => operations.into_iter().chain(bytes).collect::<Vec<String>>().join("; "),
    };
    Some((format!("Over block sizes, {text}."), steps.into_iter().map(|(_, evidence)| evidence).collect()))
}

/// A limit set on I/O that is reached, the one closest to what is allowed or most beyond it.
pub(super) struct Reached<'a> {
    pub(super) path: &'a str,
    level: &'a Level,
    metric: &'static str,
    limit: f64,
    moved: f64,
    /// What was moved, in words.
    pub(super) text: String,
}

impl<'a> Reached<'a> {
    /// Holds what the experiment allowed against what was moved, as `moved` answers it for a metric of a disk.
    pub(super) fn of(measured: &Measured<'a>, moved: impl Fn(&str) -> Option<f64>) -> Option<Self> {
        let run = &measured.record.run;
        let set =
            run.in_force.iter().chain(run.asked.iter().filter(|(path, _)| !run.in_force.contains_key(*path)));
        let limits = set
            .filter(|(path, _)| path.contains("io_limit"))
            .filter_map(|(path, level)| Some((path.as_str(), level, IoLimits::from_level(level)?)));
        let each = limits.flat_map(|(path, level, limits)| {
            [
                ("disk.reads_per_s", limits.reads_per_s),
                ("disk.writes_per_s", limits.writes_per_s),
                ("disk.read_bytes_per_s", limits.read_bytes_per_s),
                ("disk.write_bytes_per_s", limits.write_bytes_per_s),
            ]
            .map(|(metric, limit)| (path, level, metric, limit))
        });
        let reached = each.filter_map(|(path, level, metric, limit)| {
            let limit = limit.filter(|limit| *limit > 0.0)?;
            let moved = moved(metric)
                .filter(|moved| (LIMIT_REACHED * limit..LIMIT_PASSED * limit).contains(moved))?;
            let text = match metric {
                "disk.reads_per_s" => format!("{} reads/s", words::number(moved)),
                "disk.writes_per_s" => format!("{} writes/s", words::number(moved)),
                "disk.read_bytes_per_s" => format!("{} read", words::bytes_per_s(moved)),
                _ => format!("{} written", words::bytes_per_s(moved)),
            };
            Some(Reached { path, level, metric, limit, moved, text })
        });
        reached.max_by(|a, b| (a.moved / a.limit).total_cmp(&(b.moved / b.limit)))
    }

    /// "limit of 400/s set on I/O (host.disk.io_limit) was reached: 399 reads/s".
    pub(super) fn words(&self) -> String {
        format!("limit of {} set on I/O ({}) was reached: {}", self.level, self.path, self.text)
    }

    pub(super) fn evidence(&self, measured: &Measured, trial: &TrialResult) -> Evidence {
        let line = Some(Estimate { value: self.limit, low: LIMIT_REACHED * self.limit, high: self.limit });
        evidence(measured, trial, self.metric, self.moved, line, format!("the {}", self.words()))
    }
}

/// A limit that the experiment itself set on I/O, and that was reached. The device's own counters cannot show it: what a
/// limit holds back never reaches the device's queue.
fn limit_reached(measured: &Measured, trial: &TrialResult) -> Option<Claim> {
    let devices = measured.devices();
    // What others move is not held back by the limit; what the page cache answers never meets it.
    let alone = moved_factor(measured, trial).is_none_or(|factor| factor < SHARED_FACTOR);
    let of_load = |metric: &str| {
        let names: &[&str] = if metric.contains("write") { &["write", "copy"] } else { &["read"] };
        let operations = trial.operations.iter().filter(|operation| names.contains(&operation.name.as_str()));
        let bytes = metric.contains("bytes");
        Some(operations.map(|of| if bytes { of.bytes_per_s } else { of.rate_per_s }).sum())
            .filter(|_| measured.is_direct())
    };
    let moved = |metric: &str| {
        let by_device = measured.sum(metric, &devices).filter(|_| alone);
        by_device.into_iter().chain(of_load(metric)).reduce(f64::max)
    };
    let reached = Reached::of(measured, moved)?;
    Some(Claim {
        kind: FindingKind::Limits,
        resource: format!("I/O limit {}", reached.path),
        text: format!("The {}.", reached.words()),
        strength: reached.moved / reached.limit,
        evidence: vec![reached.evidence(measured, trial)],
        against: Vec::new(),
    })
}

/// The count of a service's own for what a metric counts of a disk.
fn own_metric(of_disk: &str) -> &'static str {
    match of_disk {
        "disk.reads_per_s" => "process.disk_reads_per_s",
        "disk.writes_per_s" => "process.disk_writes_per_s",
        "disk.read_bytes_per_s" => "process.read_bytes_per_s",
        _ => "process.write_bytes_per_s",
    }
}

/// Whether a service by its own count reached a limit that is set on its I/O.
pub(super) fn is_at_limit(measured: &Measured, service: &str) -> bool {
    Reached::of(measured, |metric| measured.mean(own_metric(metric), service)).is_some()
}

/// What the disks tell of a service whose threads wait for them: the limit in force that was reached, and how its flushes
/// went. A sentence or nothing, with evidence.
pub(super) fn behind_service(
    measured: &Measured,
    trial: &TrialResult,
    service: &str,
    flushes: bool,
) -> (String, Vec<Evidence>) {
    let disks = |metric: &str| {
        let all = measured.columns().filter(|(_, column)| column.metric.name == metric);
        all.map(|(_, column)| column.instance.as_str()).collect::<Vec<&str>>()
    };
    let most = |metric: &str| {
        disks(metric).into_iter().filter_map(|disk| measured.mean(metric, disk)).reduce(f64::max)
    };
    let (mut text, mut found) = (String::new(), Vec::new());
    // Outside a group of its own only the disk counts its operations, others' included.
    let moved = |metric: &str| measured.mean(own_metric(metric), service).or_else(|| most(metric));
    if let Some(reached) = Reached::of(measured, moved) {
        text = format!(" The {}.", reached.words());
        found.push(reached.evidence(measured, trial));
    }
    let queue = |disk: &&str| measured.mean("disk.queue_length", disk).unwrap_or(0.0);
    let busiest = disks("disk.queue_length").into_iter().max_by(|a, b| queue(a).total_cmp(&queue(b)));
    if let Some(device) = busiest.and_then(|disk| Device::of_all(measured, &[disk])) {
        if let Some(one_by_one) = device.flushes.as_ref().filter(|_| flushes).and_then(Flushes::one_by_one) {
            text.push_str(&format!(
                " The flushes of {} took{}.",
                device.name,
                one_by_one.trim_start_matches(',')
            ));
        }
        found.extend(device.evidence(measured, trial));
    }
    (text, found)
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
    if curve.factor != BLOCK_SIZE {
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
