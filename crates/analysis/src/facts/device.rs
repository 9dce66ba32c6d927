//! The activity of the load's devices, according to their own counters.

use model::claim::SerialFlushes;
use model::result::{OperationResult, TrialResult};
use model::{Estimate, Evidence, metrics, neighbour};

use crate::measured::Measured;

/// If the device transferred this many times the bytes of the load, something else used it.
pub(crate) const SHARED_FACTOR: f64 = 1.2;
/// Operations in flight below which each waits for the previous one.
pub(crate) const ONE_AT_A_TIME: f64 = 1.5;

// Rules of thumb of administrators for a transfer and a queue; shown but not used for the judgement.
pub(crate) const GOOD_TRANSFER_S: f64 = 0.010;
const MOST_TRANSFER_S: f64 = 0.020;
const QUEUE_PER_SPINDLE: f64 = 1.0;

/// The device's own numbers over the measured phase; several devices combined.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) queue: f64,
    pub(crate) transfer_s: Option<f64>,
    pub(crate) utilization: Option<f64>,
    /// Mean size of a transfer, bytes.
    pub(crate) transfer_bytes: Option<f64>,
    pub(crate) flushes: Option<Flushes>,
}

/// Flushes of a device: their rate and duration.
#[derive(Clone, Copy)]
pub(crate) struct Flushes {
    pub(crate) per_s: f64,
    pub(crate) each_s: f64,
}

impl Flushes {
    /// The mean number in progress.
    pub(crate) fn under_way(&self) -> f64 {
        self.per_s * self.each_s
    }
}

impl Device {
    /// The devices of the load's files.
    pub(crate) fn of(measured: &Measured) -> Option<Device> {
        Device::of_all(measured, &measured.devices())
    }

    /// The device with the longest queue.
    pub(crate) fn busiest(measured: &Measured) -> Option<Device> {
        let queue = |disk: &&str| measured.mean(metrics::DISK_QUEUE_LENGTH, disk).unwrap_or(0.0);
        let disks = measured.instances(metrics::DISK_QUEUE_LENGTH);
        let busiest = disks.max_by(|a, b| queue(a).total_cmp(&queue(b)))?;
        Device::of_all(measured, &[busiest])
    }

    fn of_all(measured: &Measured, devices: &[&str]) -> Option<Device> {
        let queue = measured.sum(metrics::DISK_QUEUE_LENGTH, devices)?;
        let largest =
            |metric: &str| devices.iter().filter_map(|device| measured.mean(metric, device)).reduce(f64::max);
        let sum = |metric: &str| measured.sum(metric, devices);
        let bytes = sum(metrics::DISK_READ_BYTES_PER_S).zip(sum(metrics::DISK_WRITE_BYTES_PER_S));
        let transfers = sum(metrics::DISK_TRANSFERS_PER_S).filter(|transfers| *transfers > 0.0);
        let flushes = sum(metrics::DISK_FLUSHES_PER_S).zip(largest(metrics::DISK_FLUSH_S));
        Some(Device {
            transfer_bytes: bytes.zip(transfers).map(|((read, written), count)| (read + written) / count),
            flushes: flushes.map(|(per_s, each_s)| Flushes { per_s, each_s }),
            name: devices.join(", "),
            queue,
            transfer_s: largest(metrics::DISK_TRANSFER_S),
            utilization: largest(metrics::DISK_UTILIZATION_SHARE),
        })
    }

    /// Its flushes, if they are consecutive; none if several are in progress at once.
    pub(crate) fn serial_flushes(&self) -> Option<SerialFlushes> {
        let flushes = self.flushes.filter(|flushes| flushes.per_s > 0.0)?;
        let under_way = flushes.under_way();
        (under_way < ONE_AT_A_TIME).then(|| SerialFlushes {
            device: self.name.clone(),
            each_ms: flushes.each_s * 1e3,
            under_way,
        })
    }

    pub(crate) fn evidence(&self, measured: &Measured, trial: &TrialResult) -> Vec<Evidence> {
        let note = |metric: &str, value: f64| measured.evidence_of(trial, metric, &self.name, value);
        let spindle = Estimate { value: QUEUE_PER_SPINDLE, low: 0.0, high: QUEUE_PER_SPINDLE };
        let mut found = vec![note(metrics::DISK_QUEUE_LENGTH, self.queue).rule_of_thumb(spindle)];
        if let Some(transfer_s) = self.transfer_s {
            let good = Estimate { value: GOOD_TRANSFER_S, low: 0.0, high: MOST_TRANSFER_S };
            found.push(note(metrics::DISK_TRANSFER_S, transfer_s).rule_of_thumb(good));
        }
        if let Some(bytes) = self.transfer_bytes {
            found.push(note("disk.bytes_per_transfer", bytes));
        }
        if let Some(flushes) = self.flushes.filter(|flushes| flushes.per_s > 0.0) {
            found.push(note(metrics::DISK_FLUSHES_PER_S, flushes.per_s));
            found.push(note(metrics::DISK_FLUSH_S, flushes.each_s));
        }
        if let Some(utilization) = self.utilization {
            found.push(note(metrics::DISK_UTILIZATION_SHARE, utilization));
        }
        found
    }
}

/// Bytes transferred by the devices divided by those of the load, reads and writes together.
pub(crate) fn moved_factor(measured: &Measured, trial: &TrialResult) -> Option<f64> {
    let devices = measured.devices();
    let read = measured.sum(metrics::DISK_READ_BYTES_PER_S, &devices);
    let written = measured.sum(metrics::DISK_WRITE_BYTES_PER_S, &devices);
    let moved =
        read.unwrap_or(0.0) + written? - of_neighbour(measured, "read") - of_neighbour(measured, "write");
    let load = trial.whole().map(|whole| whole.bytes_per_s * measured.share_of_load());
    let load = load.filter(|bytes| *bytes > 0.0)?;
    // A copy within a device transfers each byte twice.
    Some(moved / (load * measured.moves_of_a_byte()))
}

/// The operations of a load that write to its devices, or those that read. A copy counts at its destination.
pub(crate) fn in_direction(trial: &TrialResult, writes: bool) -> impl Iterator<Item = &OperationResult> {
    let names: &[&str] = if writes { &["write", "copy"] } else { &["read"] };
    trial.operations.iter().filter(|operation| names.contains(&operation.name.as_str()))
}

/// Bytes per second of the load on this host, and bytes per second of the device: reads, then writes. None for a direction
/// that the load does not use.
pub(crate) fn moved(
    measured: &Measured,
    result: &TrialResult,
    direction: &str,
) -> Option<(f64, Option<f64>)> {
    let operations = in_direction(result, direction == "write");
    let bytes_per_s =
        measured.share_of_load() * operations.map(|operation| operation.bytes_per_s).sum::<f64>();
    if !(bytes_per_s > 0.0) {
        return None;
    }
    let metric = format!("disk.{direction}_bytes_per_s");
    let device = measured.sum(&metric, &measured.devices());
    Some((bytes_per_s, device.map(|device| device - of_neighbour(measured, direction))))
}

/// Bytes per second that a stated neighbour transferred on the devices of the load.
fn of_neighbour(measured: &Measured, direction: &str) -> f64 {
    let device = measured.fact_text(&format!("{}.{}", neighbour::FACTOR, neighbour::facts::DEVICE));
    let is_shared = device.is_some_and(|device| {
        measured.devices().iter().any(|known| *known == device || measured.whole_disk(known) == device)
    });
    if !is_shared {
        return 0.0;
    }
    let rates = neighbour::NeighbourRate::of_trial(&measured.record.run.facts);
    let of_direction = rates.iter().filter(|rate| rate.load == format!("disk {direction}"));
    of_direction.filter_map(neighbour::NeighbourRate::disk_bytes_per_s).sum()
}

/// The smaller share of the load's bytes that the device transferred, with its direction: `("read", 0.31)`.
pub(crate) fn device_share(measured: &Measured, result: &TrialResult) -> Option<(&'static str, f64)> {
    ["read", "write"]
        .into_iter()
        .filter_map(|direction| {
            let (load, device) = moved(measured, result, direction)?;
            Some((direction, device? / load))
        })
        .filter(|(_, share)| share.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1))
}
