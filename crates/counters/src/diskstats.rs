//! Block devices of `/proc/diskstats`: what their counters say about a window, and which of them are partitions.

use engine::source::{HostRoot, Unavailable};
use model::Nanos;

use crate::reader::{Buffer, KernelFile, fields, lines, numbers};
use crate::series::{Clock, Counters, Roster, Tick};

/// Times are kept in milliseconds.
pub(crate) const MILLISECOND_S: f64 = 0.001;
/// Sizes are kept in sectors, which are of 512 bytes here whatever the device's own are.
pub(crate) const SECTOR_BYTES: f64 = 512.0;

/// The numbers of a device, as the kernel's `iostats` document lists them.
pub(crate) type Statistics = [Option<u64>; 17];

/// `/proc/diskstats`, read again and again, with what a source keeps of each device.
pub(crate) struct Diskstats<T> {
    clock: Clock,
    buffer: Buffer,
    file: KernelFile,
    devices: Roster<T>,
}

impl<T> Diskstats<T> {
    /// Fails if the file cannot be read.
    pub(crate) fn open(root: &HostRoot) -> Result<Self, Unavailable> {
        let mut file = Diskstats {
            clock: Clock::default(),
            buffer: Buffer::new(),
            file: KernelFile::new(root, "proc/diskstats"),
            devices: Roster::new(),
        };
        match file.file.read(&mut file.buffer) {
            Some(_) => Ok(file),
            None => Err(Unavailable("/proc/diskstats cannot be read; is /proc mounted?".into())),
        }
    }

    /// Reads the file and gives each device to `each`, in the order of the kernel.
    pub(crate) fn read(
        &mut self,
        now: Nanos,
        mut each: impl FnMut(&mut Roster<T>, &Tick, &[u8], Statistics),
    ) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        let Some(text) = self.file.read(&mut self.buffer) else {
            return Err(Unavailable("/proc/diskstats can no longer be read".into()));
        };
        self.devices.rewind();
        for (name, statistics) in lines(text).filter_map(parse) {
            each(&mut self.devices, &tick, name, statistics);
        }
        Ok(())
    }

    /// What was left out, for the record.
    pub(crate) fn limits(&self) -> String {
        self.devices.limits("block devices")
    }
}

/// A line: the name of the device and its numbers.
fn parse(line: &[u8]) -> Option<(&[u8], Statistics)> {
    let mut fields = fields(line);
    let name = fields.nth(2)?;
    Some((name, numbers(fields)))
}

/// The numbers of one device in the text of the file.
pub(crate) fn statistics_of(text: &[u8], disk: &str) -> Option<Statistics> {
    lines(text).filter_map(parse).find(|(name, _)| *name == disk.as_bytes()).map(|(_, statistics)| statistics)
}

/// Whether this device is a partition of one that was seen: the kernel lists a disk before its partitions.
pub(crate) fn is_partition<T>(name: &[u8], seen: &Roster<T>) -> bool {
    disk_of_partition(name).is_some_and(|disk| seen.knows(disk))
}

/// The name the disk of a partition must have: `sda` of `sda1`, `nvme0n1` of `nvme0n1p2`. Whether it is one depends on
/// whether there is such a disk: `md127` and `xvda1` may well be disks themselves.
pub(crate) fn disk_of_partition(name: &[u8]) -> Option<&[u8]> {
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

/// The counters of one device.
pub(crate) struct Device(Counters<12>);

/// What a device did in a window. NaN is what is not known.
pub(crate) struct Activity {
    pub(crate) reads_per_s: f64,
    pub(crate) writes_per_s: f64,
    pub(crate) transfers_per_s: f64,
    pub(crate) read_bytes_per_s: f64,
    pub(crate) write_bytes_per_s: f64,
    pub(crate) read_s: f64,
    pub(crate) write_s: f64,
    pub(crate) transfer_s: f64,
    pub(crate) flushes_per_s: f64,
    pub(crate) flush_s: f64,
    pub(crate) queue_length: f64,
    pub(crate) utilization_share: f64,
    pub(crate) read_merges_per_s: f64,
    pub(crate) write_merges_per_s: f64,
    pub(crate) in_flight: Option<u64>,
}

impl Device {
    pub(crate) fn new() -> Self {
        Device(Counters::new())
    }

    /// Its activity since the previous read; none of a device that never did anything: loop, ram and zram devices exist by
    /// the dozen.
    pub(crate) fn advance(&mut self, tick: &Tick, statistics: Statistics) -> Option<Activity> {
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
        ] = self.0.advance(tick, counters);
        if matches!((reads, writes), (Some(0), Some(0))) {
            return None;
        }
        let transfers = reads_done + writes_done;
        let utilization = busy_ms / 1e3 / tick.seconds;
        Some(Activity {
            reads_per_s: reads_done / tick.seconds,
            writes_per_s: writes_done / tick.seconds,
            transfers_per_s: transfers / tick.seconds,
            read_bytes_per_s: read_sectors * SECTOR_BYTES / tick.seconds,
            write_bytes_per_s: write_sectors * SECTOR_BYTES / tick.seconds,
            read_s: read_ms / 1e3 / reads_done,
            write_s: write_ms / 1e3 / writes_done,
            transfer_s: (read_ms + write_ms) / 1e3 / transfers,
            flushes_per_s: flushes / tick.seconds,
            flush_s: flush_ms / 1e3 / flushes,
            queue_length: queue_ms / 1e3 / tick.seconds,
            // The kernel counts whole clock ticks as busy, so a share can come out a little over one.
            utilization_share: if utilization > 1.0 { 1.0 } else { utilization },
            read_merges_per_s: read_merges / tick.seconds,
            write_merges_per_s: write_merges / tick.seconds,
            in_flight,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions() {
        let cases: [(&str, Option<&str>); 8] = [
            ("sda", None),
            ("sda12", Some("sda")),
            ("nvme0n1", Some("nvme0n")),
            ("nvme0n1p2", Some("nvme0n1")),
            ("mmcblk0p1", Some("mmcblk0")),
            ("dm-0", Some("dm-")),
            ("sdp1", Some("sdp")),
            ("7", None),
        ];
        for (name, disk) in cases {
            assert_eq!(disk_of_partition(name.as_bytes()), disk.map(str::as_bytes), "{name}");
        }
    }
}
