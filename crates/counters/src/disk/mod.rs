//! Block devices: operations, bytes, response times and queues, from `/proc/diskstats`.
//!
//! Device-mapper and md devices are reported beside the disks below them, so the same operation may be seen on
//! two levels. What the kernel holds back above the device (a throttled cgroup) is not seen here at all. Partitions are
//! in [`crate::volume`], so that what adds up or compares disks never meets the same operation there once more.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::diskstats::{self, Activity, Diskstats, MILLISECOND_S, SECTOR_BYTES};
use crate::series::{Columns, metrics};

#[cfg(test)]
mod tests;

metrics! {
    Reads => MetricInfo::new("disk.reads_per_s", Unit::PerSecond, Rate, "Read operations completed.")
        .known_as(r"PhysicalDisk\Disk Reads/sec", "-b rtps"),
    Writes => MetricInfo::new("disk.writes_per_s", Unit::PerSecond, Rate, "Write operations completed.")
        .known_as(r"PhysicalDisk\Disk Writes/sec", "-b wtps"),
    Transfers => MetricInfo::new("disk.transfers_per_s", Unit::PerSecond, Rate,
        "Read and write operations completed.")
        .known_as(r"PhysicalDisk\Disk Transfers/sec", "-d tps"),
    ReadBytes => MetricInfo::new("disk.read_bytes_per_s", Unit::BytesPerSecond, Rate, "Bytes read.")
        .known_as(r"PhysicalDisk\Disk Read Bytes/sec", "-d rkB/s").quantum(SECTOR_BYTES),
    WriteBytes => MetricInfo::new("disk.write_bytes_per_s", Unit::BytesPerSecond, Rate, "Bytes written.")
        .known_as(r"PhysicalDisk\Disk Write Bytes/sec", "-d wkB/s").quantum(SECTOR_BYTES),
    ReadTime => MetricInfo::new("disk.read_s", Unit::Seconds, Mean,
        "The mean time of a read, from when it was handed to the device's queue until it was done.")
        .known_as(r"PhysicalDisk\Avg. Disk sec/Read", "").weighed_by("disk.reads_per_s").quantum(MILLISECOND_S),
    WriteTime => MetricInfo::new("disk.write_s", Unit::Seconds, Mean,
        "The mean time of a write, from when it was handed to the device's queue until it was done.")
        .known_as(r"PhysicalDisk\Avg. Disk sec/Write", "").weighed_by("disk.writes_per_s").quantum(MILLISECOND_S),
    TransferTime => MetricInfo::new("disk.transfer_s", Unit::Seconds, Mean,
        "The mean time of a read or write, from when it was handed to the device's queue until it was done.")
        .known_as(r"PhysicalDisk\Avg. Disk sec/Transfer", "-d await")
        .weighed_by("disk.transfers_per_s").quantum(MILLISECOND_S),
    Flushes => MetricInfo::new("disk.flushes_per_s", Unit::PerSecond, Rate,
        "Requests to the device to put its write cache on the medium."),
    FlushTime => MetricInfo::new("disk.flush_s", Unit::Seconds, Mean, "The mean time of a flush.")
        .weighed_by("disk.flushes_per_s").quantum(MILLISECOND_S),
    QueueLength => MetricInfo::new("disk.queue_length", Unit::Count, Mean,
        "Operations waiting or in service, on average: the time of all operations over the time that passed.")
        .known_as(r"PhysicalDisk\Avg. Disk Queue Length", "-d aqu-sz").quantum(MILLISECOND_S),
    InFlight => MetricInfo::new("disk.in_flight_operations", Unit::Count, Gauge,
        "Operations handed to the device and not yet done at this moment.")
        .known_as(r"PhysicalDisk\Current Disk Queue Length", ""),
    Utilization => MetricInfo::new("disk.utilization_share", Unit::Share, Mean,
        "The share of time with at least one operation under way; on devices that serve many at once it is near one \
         long before the device is full, so it is no sign of saturation.")
        .known_as(r"PhysicalDisk\% Disk Time", "-d %util").quantum(MILLISECOND_S),
    ReadMerges => MetricInfo::new("disk.read_merges_per_s", Unit::PerSecond, Rate,
        "Reads joined to an adjacent one before they were handed to the device."),
    WriteMerges => MetricInfo::new("disk.write_merges_per_s", Unit::PerSecond, Rate,
        "Writes joined to an adjacent one before they were handed to the device."),
}

/// The source `disk`.
pub const KIND: SourceKind = SourceKind {
    name: "disk",
    about: "Operations, bytes, response times and queues of every block device.",
    metrics: METRICS,
    selector: "",
    open,
};

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    Ok(Box::new(Disks(Diskstats::open(root)?)))
}

struct Disks(Diskstats<Device>);

struct Device {
    columns: Columns<Metric>,
    counters: diskstats::Device,
    is_partition: bool,
}

impl Source for Disks {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        self.0.read(now, |devices, tick, name, statistics| {
            let is_partition = diskstats::is_partition(name, devices);
            let device = devices.entry(name, |instance| Device {
                columns: Columns::new(instance),
                counters: diskstats::Device::new(),
                is_partition,
            });
            if let Some(device) = device.filter(|device| !device.is_partition)
                && let Some(activity) = device.counters.advance(tick, statistics)
            {
                device.columns.set_activity(out, &activity);
            }
        })
    }

    fn limits(&self) -> String {
        self.0.limits()
    }
}

impl Columns<Metric> {
    fn set_activity(&mut self, out: &mut Readings, activity: &Activity) {
        for (metric, value) in [
            (Metric::Reads, activity.reads_per_s),
            (Metric::Writes, activity.writes_per_s),
            (Metric::Transfers, activity.transfers_per_s),
            (Metric::ReadBytes, activity.read_bytes_per_s),
            (Metric::WriteBytes, activity.write_bytes_per_s),
            (Metric::ReadTime, activity.read_s),
            (Metric::WriteTime, activity.write_s),
            (Metric::TransferTime, activity.transfer_s),
            (Metric::Flushes, activity.flushes_per_s),
            (Metric::FlushTime, activity.flush_s),
            (Metric::QueueLength, activity.queue_length),
            (Metric::Utilization, activity.utilization_share),
            (Metric::ReadMerges, activity.read_merges_per_s),
            (Metric::WriteMerges, activity.write_merges_per_s),
        ] {
            self.set(out, metric, value);
        }
        self.set_count(out, Metric::InFlight, activity.in_flight);
    }
}
