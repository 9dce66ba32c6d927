//! Block devices: operations, bytes, response times and queues, from `/proc/diskstats`.
//!
//! Device-mapper and md devices are reported beside the disks below them, so the same operation may be seen on
//! two levels. What the kernel holds back above the device (a throttled cgroup) is not seen here at all.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Mean, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::reader::{Buffer, KernelFile, fields, lines, numbers};
use crate::series::{Clock, Columns, Counters, Roster, Tick, metrics};

#[cfg(test)]
mod tests;

/// Times are kept in milliseconds.
const MILLISECOND_S: f64 = 0.001;
/// Sizes are kept in sectors, which are of 512 bytes here whatever the device's own are.
const SECTOR_BYTES: f64 = 512.0;

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
    let mut disks = Disks {
        clock: Clock::default(),
        buffer: Buffer::new(),
        file: KernelFile::new(root, "proc/diskstats"),
        devices: Roster::new(),
    };
    match disks.file.read(&mut disks.buffer) {
        Some(_) => Ok(Box::new(disks)),
        None => Err(Unavailable("/proc/diskstats cannot be read; is /proc mounted?".into())),
    }
}

struct Disks {
    clock: Clock,
    buffer: Buffer,
    file: KernelFile,
    devices: Roster<Device>,
}

struct Device {
    columns: Columns<Metric>,
    counters: Counters<12>,
    is_partition: bool,
}

impl Source for Disks {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        let Some(text) = self.file.read(&mut self.buffer) else {
            return Err(Unavailable("/proc/diskstats can no longer be read".into()));
        };
        self.devices.rewind();
        for line in lines(text) {
            let mut fields = fields(line);
            let Some(name) = fields.nth(2) else { continue };
            // The kernel lists a disk before its partitions.
            let is_partition = disk_of_partition(name).is_some_and(|disk| self.devices.knows(disk));
            let device = self.devices.entry(name, |instance| Device {
                columns: Columns::new(instance),
                counters: Counters::new(),
                is_partition,
            });
            match device {
                Some(device) if !device.is_partition => device.read(&tick, numbers(fields), out),
                _ => {}
            }
        }
        Ok(())
    }

    fn limits(&self) -> String {
        self.devices.limits("block devices")
    }
}

impl Device {
    /// `statistics` are the numbers after the device's name, as the kernel's `iostats` document lists them.
    fn read(&mut self, tick: &Tick, statistics: [Option<u64>; 17], out: &mut Readings) {
        let [
            reads,
            read_merges,
            read_sectors,
            read_ms,
            writes,
            write_merges,
            write_sectors,
            write_ms,
            in_flight,
            busy_ms,
            queue_ms,
            _discards,
            _discard_merges,
            _discard_sectors,
            _discard_ms,
            flushes,
            flush_ms,
        ] = statistics;
        let counters = [
            reads,
            read_merges,
            read_sectors,
            read_ms,
            writes,
            write_merges,
            write_sectors,
            write_ms,
            busy_ms,
            queue_ms,
            flushes,
            flush_ms,
        ];
        let [
            reads_done,
            read_merges,
            read_sectors,
            read_ms,
            writes_done,
            write_merges,
            write_sectors,
            write_ms,
            busy_ms,
            queue_ms,
            flushes,
            flush_ms,
        ] = self.counters.advance(tick, counters);
        // Loop, ram and zram devices exist by the dozen; one that never did anything is no device to speak of.
        if matches!((reads, writes), (Some(0), Some(0))) {
            return;
        }
        let transfers = reads_done + writes_done;
        let utilization = busy_ms / 1e3 / tick.seconds;
        for (metric, value) in [
            (Metric::Reads, reads_done / tick.seconds),
            (Metric::Writes, writes_done / tick.seconds),
            (Metric::Transfers, transfers / tick.seconds),
            (Metric::ReadBytes, read_sectors * SECTOR_BYTES / tick.seconds),
            (Metric::WriteBytes, write_sectors * SECTOR_BYTES / tick.seconds),
            (Metric::ReadTime, read_ms / 1e3 / reads_done),
            (Metric::WriteTime, write_ms / 1e3 / writes_done),
            (Metric::TransferTime, (read_ms + write_ms) / 1e3 / transfers),
            (Metric::Flushes, flushes / tick.seconds),
            (Metric::FlushTime, flush_ms / 1e3 / flushes),
            (Metric::QueueLength, queue_ms / 1e3 / tick.seconds),
            // The kernel counts whole clock ticks as busy, so a share can come out a little over one.
            (Metric::Utilization, if utilization > 1.0 { 1.0 } else { utilization }),
            (Metric::ReadMerges, read_merges / tick.seconds),
            (Metric::WriteMerges, write_merges / tick.seconds),
        ] {
            self.columns.set(out, metric, value);
        }
        self.columns.set_count(out, Metric::InFlight, in_flight);
    }
}

/// The name the disk of a partition must have: `sda` of `sda1`, `nvme0n1` of `nvme0n1p2`. Whether it is one depends on
/// whether there is such a disk: `md127` and `xvda1` may well be disks themselves.
fn disk_of_partition(name: &[u8]) -> Option<&[u8]> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let stem = &name[..name.len() - digits];
    if digits == 0 || stem.is_empty() {
        return None;
    }
    match stem.strip_suffix(b"p") {
        Some(disk) if disk.last().is_some_and(u8::is_ascii_digit) => Some(disk),
        _ => Some(stem),
    }
}
