//! Partitions and logical volumes: operations, bytes, response times and queues, from `/proc/diskstats`.
//!
//! A source of its own, because whatever is done on a volume is done on the disk below it once more: `disk` has whole devices,
//! and only those are added up, compared and judged. Device-mapper volumes (LVM, dm-crypt, multipath) stand here under the
//! name in `/dev/mapper`, and in `disk` under that of the kernel, such as `dm-0`. Flushes are not counted for a volume: the
//! kernel counts them for whole devices only.

use std::fs;

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::diskstats::{self, Activity, Diskstats, MILLISECOND_S, SECTOR_BYTES};
use crate::series::{Columns, metrics};

#[cfg(test)]
mod tests;

metrics! {
    Reads => MetricInfo::new("volume.reads_per_s", Unit::PerSecond, Rate,
        "Read operations completed on a partition or logical volume.")
        .known_as(r"LogicalDisk\Disk Reads/sec", ""),
    Writes => MetricInfo::new("volume.writes_per_s", Unit::PerSecond, Rate,
        "Write operations completed on a partition or logical volume.")
        .known_as(r"LogicalDisk\Disk Writes/sec", ""),
    Transfers => MetricInfo::new("volume.transfers_per_s", Unit::PerSecond, Rate,
        "Read and write operations completed on a partition or logical volume.")
        .known_as(r"LogicalDisk\Disk Transfers/sec", ""),
    ReadBytes => MetricInfo::new("volume.read_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read from a partition or logical volume.")
        .known_as(r"LogicalDisk\Disk Read Bytes/sec", "").quantum(SECTOR_BYTES),
    WriteBytes => MetricInfo::new("volume.write_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written to a partition or logical volume.")
        .known_as(r"LogicalDisk\Disk Write Bytes/sec", "").quantum(SECTOR_BYTES),
    ReadTime => MetricInfo::new("volume.read_s", Unit::Seconds, Mean,
        "The mean time of a read of a partition or logical volume, from when it was queued until it was done.")
        .known_as(r"LogicalDisk\Avg. Disk sec/Read", "").weighed_by("volume.reads_per_s").quantum(MILLISECOND_S),
    WriteTime => MetricInfo::new("volume.write_s", Unit::Seconds, Mean,
        "The mean time of a write to a partition or logical volume, from when it was queued until it was done.")
        .known_as(r"LogicalDisk\Avg. Disk sec/Write", "").weighed_by("volume.writes_per_s").quantum(MILLISECOND_S),
    TransferTime => MetricInfo::new("volume.transfer_s", Unit::Seconds, Mean,
        "The mean time of a read or write of a partition or logical volume, from when it was queued until it was done.")
        .known_as(r"LogicalDisk\Avg. Disk sec/Transfer", "")
        .weighed_by("volume.transfers_per_s").quantum(MILLISECOND_S),
    QueueLength => MetricInfo::new("volume.queue_length", Unit::Count, Mean,
        "Operations of a partition or logical volume waiting or in service, on average.")
        .known_as(r"LogicalDisk\Avg. Disk Queue Length", "").quantum(MILLISECOND_S),
    InFlight => MetricInfo::new("volume.in_flight_operations", Unit::Count, Gauge,
        "Operations of a partition or logical volume under way at this moment.")
        .known_as(r"LogicalDisk\Current Disk Queue Length", ""),
    Utilization => MetricInfo::new("volume.utilization_share", Unit::Share, Mean,
        "The share of time with at least one operation of a partition or logical volume under way: no sign of saturation.")
        .known_as(r"LogicalDisk\% Disk Time", "").quantum(MILLISECOND_S),
}

/// The source `volume`.
pub const KIND: SourceKind = SourceKind {
    name: "volume",
    about: "Operations, bytes, response times and queues of partitions and logical volumes.",
    metrics: METRICS,
    selector: "",
    open,
};

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    Ok(Box::new(Volumes { root: root.clone(), file: Diskstats::open(root)? }))
}

struct Volumes {
    root: HostRoot,
    /// Every device by the kernel's name; none for a whole disk.
    file: Diskstats<Option<Volume>>,
}

struct Volume {
    columns: Columns<Metric>,
    counters: diskstats::Device,
}

impl Source for Volumes {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let root = &self.root;
        self.file.read(now, |devices, tick, name, statistics| {
            let is_volume = is_mapped(name) || diskstats::is_partition(name, devices);
            let device = devices.entry(name, |name| {
                is_volume.then(|| Volume {
                    columns: Columns::new(&shown_name(root, name)),
                    counters: diskstats::Device::new(),
                })
            });
            let Some(Some(Volume { columns, counters })) = device else { return };
            let Some(activity) = counters.advance(tick, statistics) else { return };
            // A counter that restarts may be that of another volume, which got the number of one that was removed.
            if is_mapped(name) && activity.reads_per_s.is_nan() {
                let shown = shown_name(root, &String::from_utf8_lossy(name));
                if shown != columns.instance() {
                    *columns = Columns::new(&shown);
                }
            }
            set_activity(columns, out, &activity);
        })
    }

    fn limits(&self) -> String {
        self.file.limits()
    }
}

fn set_activity(columns: &mut Columns<Metric>, out: &mut Readings, activity: &Activity) {
    for (metric, value) in [
        (Metric::Reads, activity.reads_per_s),
        (Metric::Writes, activity.writes_per_s),
        (Metric::Transfers, activity.transfers_per_s),
        (Metric::ReadBytes, activity.read_bytes_per_s),
        (Metric::WriteBytes, activity.write_bytes_per_s),
        (Metric::ReadTime, activity.read_s),
        (Metric::WriteTime, activity.write_s),
        (Metric::TransferTime, activity.transfer_s),
        (Metric::QueueLength, activity.queue_length),
        (Metric::Utilization, activity.utilization_share),
    ] {
        columns.set(out, metric, value);
    }
    columns.set_count(out, Metric::InFlight, activity.in_flight);
}

/// Whether a device is one of the device mapper.
fn is_mapped(name: &[u8]) -> bool {
    name.strip_prefix(b"dm-").is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

/// The name in `/dev/mapper` of a device-mapper volume; of others, and where the kernel does not say it, the kernel's name.
fn shown_name(root: &HostRoot, name: &str) -> String {
    let path = root.join(format!("sys/block/{name}/dm/name"));
    match fs::read_to_string(path) {
        Ok(text) if is_mapped(name.as_bytes()) && !text.trim_end().is_empty() => text.trim_end().to_string(),
        _ => name.to_string(),
    }
}

/// Devices on top of devices: more than this is a loop in what the kernel says.
const DEPTH_MAX: u32 = 16;

/// The disk below a volume, by the name that the source `disk` has for it; of several the first. None when the kernel does not
/// say it.
pub fn disk_below(root: &HostRoot, volume: &str) -> Option<String> {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let whole = names("sys/block");
    let mapped = whole.iter().find(|name| is_mapped(name.as_bytes()) && shown_name(root, name) == volume);
    let mut name = mapped.cloned().unwrap_or_else(|| volume.to_string());
    for _ in 0..DEPTH_MAX {
        if is_mapped(name.as_bytes()) {
            name = names(&format!("sys/block/{name}/slaves")).into_iter().next()?;
        } else if whole.contains(&name) {
            return Some(name);
        } else {
            let disk = diskstats::disk_of_partition(name.as_bytes())?;
            name = whole.iter().find(|whole| whole.as_bytes() == disk)?.clone();
        }
    }
    None
}
