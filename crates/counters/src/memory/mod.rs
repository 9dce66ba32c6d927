//! Main memory: usage, dirty pages, and signs of shortage.
//!
//! Low free memory has no meaning on Linux. Refaults (pages read again soon after they were reclaimed),
//! direct reclaim and allocation stalls show a shortage, as does the `pressure` source.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricKind::{Gauge, Rate};
use model::{MetricInfo, Nanos, Readings, Unit};

use crate::reader::{Buffer, KernelFile, named_numbers};
use crate::series::{Clock, Columns, Counters, metrics};

#[cfg(test)]
mod tests;

metrics! {
    Total => MetricInfo::new("memory.total_bytes", Unit::Bytes, Gauge, "Memory managed by the kernel."),
    Available => MetricInfo::new("memory.available_bytes", Unit::Bytes, Gauge,
        "Memory that programs can still allocate without swapping, estimated by the kernel.")
        .known_as(r"Memory\Available Bytes", "-r kbavail"),
    Free => MetricInfo::new("memory.free_bytes", Unit::Bytes, Gauge, "Unused memory.")
        .known_as(r"Memory\Free & Zero Page List Bytes", "-r kbmemfree"),
    Cached => MetricInfo::new("memory.cached_bytes", Unit::Bytes, Gauge,
        "Page cache, including shared memory and tmpfs.")
        .known_as(r"Memory\Cache Bytes", "-r kbcached"),
    Dirty => MetricInfo::new("memory.dirty_bytes", Unit::Bytes, Gauge,
        "Dirty pages: file data changed in memory and not yet being written.")
        .known_as(r"Memory\Modified Page List Bytes", "-r kbdirty"),
    Writeback => MetricInfo::new("memory.writeback_bytes", Unit::Bytes, Gauge,
        "File data that is being written to its device at this moment."),
    Slab => MetricInfo::new("memory.slab_bytes", Unit::Bytes, Gauge,
        "Memory of kernel objects, such as cached directory entries.")
        .known_as("", "-r ALL kbslab"),
    SwapUsed => MetricInfo::new("memory.swap_used_bytes", Unit::Bytes, Gauge, "Swap space in use.")
        .known_as("", "-S kbswpused"),
    MajorFaults => MetricInfo::new("memory.major_faults_per_s", Unit::PerSecond, Rate,
        "Major page faults: the page was read from a device.")
        .known_as(r"Memory\Page Reads/sec", "-B majflt/s"),
    PagedIn => MetricInfo::new("memory.paged_in_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes read from block devices into the page cache or from swap.")
        .known_as("", "-B pgpgin/s").quantum(1024.0),
    PagedOut => MetricInfo::new("memory.paged_out_bytes_per_s", Unit::BytesPerSecond, Rate,
        "Bytes written to block devices from the page cache or to swap.")
        .known_as("", "-B pgpgout/s").quantum(1024.0),
    SwapIns => MetricInfo::new("memory.swap_ins_per_s", Unit::PerSecond, Rate, "Pages read back from swap.")
        .known_as(r"Memory\Pages Input/sec", "-W pswpin/s"),
    SwapOuts => MetricInfo::new("memory.swap_outs_per_s", Unit::PerSecond, Rate, "Pages written to swap.")
        .known_as(r"Memory\Pages Output/sec", "-W pswpout/s"),
    BackgroundScans => MetricInfo::new("memory.background_scans_per_s", Unit::PerSecond, Rate,
        "Pages scanned in background reclaim, by the kernel thread kswapd.")
        .known_as("", "-B pgscank/s"),
    DirectScans => MetricInfo::new("memory.direct_scans_per_s", Unit::PerSecond, Rate,
        "Pages scanned in direct reclaim: the program that needs memory waits while it is reclaimed.")
        .known_as("", "-B pgscand/s"),
    Reclaimed => MetricInfo::new("memory.reclaimed_pages_per_s", Unit::PerSecond, Rate,
        "Pages reclaimed, of those that were scanned.")
        .known_as("", "-B pgsteal/s"),
    AllocationStalls => MetricInfo::new("memory.allocation_stalls_per_s", Unit::PerSecond, Rate,
        "Allocations that had to wait for direct reclaim."),
    Refaults => MetricInfo::new("memory.refaults_per_s", Unit::PerSecond, Rate,
        "Refaults: pages read again soon after they were reclaimed, because memory is smaller than the working set.")
        .known_as(r"Memory\Transition Pages RePurposed/sec", ""),
    OomKills => MetricInfo::new("memory.oom_kills_per_s", Unit::PerSecond, Rate,
        "Processes killed because memory was exhausted."),
}

/// The source `memory`.
pub const KIND: SourceKind = SourceKind {
    name: "memory",
    about: "Memory in use, dirty pages, and signs of memory shortage.",
    metrics: METRICS,
    selector: "",
    open,
};

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut memory = Memory {
        clock: Clock::default(),
        buffer: Buffer::new(),
        meminfo: KernelFile::new(root, "proc/meminfo"),
        vmstat: KernelFile::new(root, "proc/vmstat"),
        columns: Columns::new(""),
        counters: Counters::new(),
    };
    match memory.meminfo.read(&mut memory.buffer) {
        Some(_) => Ok(Box::new(memory)),
        None => Err(Unavailable("/proc/meminfo cannot be read; is /proc mounted?".into())),
    }
}

/// The counters of `/proc/vmstat` and the metric each feeds; several may feed one.
const COUNTERS: [Metric; 11] = [
    Metric::MajorFaults,
    Metric::PagedIn,
    Metric::PagedOut,
    Metric::SwapIns,
    Metric::SwapOuts,
    Metric::BackgroundScans,
    Metric::DirectScans,
    Metric::AllocationStalls,
    Metric::Refaults,
    Metric::OomKills,
    Metric::Reclaimed,
];

struct Memory {
    clock: Clock,
    buffer: Buffer,
    meminfo: KernelFile,
    vmstat: KernelFile,
    columns: Columns<Metric>,
    counters: Counters<{ COUNTERS.len() }>,
}

impl Source for Memory {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        let Some(text) = self.meminfo.read(&mut self.buffer) else {
            return Err(Unavailable("/proc/meminfo can no longer be read".into()));
        };
        let (mut swap_total, mut swap_free) = (f64::NAN, f64::NAN);
        for (name, kibibytes) in named_numbers(text) {
            let bytes = kibibytes as f64 * 1024.0;
            let metric = match name {
                b"MemTotal" => Metric::Total,
                b"MemAvailable" => Metric::Available,
                b"MemFree" => Metric::Free,
                b"Cached" => Metric::Cached,
                b"Dirty" => Metric::Dirty,
                b"Writeback" => Metric::Writeback,
                b"Slab" => Metric::Slab,
                b"SwapTotal" => {
                    swap_total = bytes;
                    continue;
                }
                b"SwapFree" => {
                    swap_free = bytes;
                    continue;
                }
                _ => continue,
            };
            self.columns.set(out, metric, bytes);
        }
        // The kernel does not take both at the same moment.
        let swap_used = swap_total - swap_free;
        self.columns.set(out, Metric::SwapUsed, if swap_used < 0.0 { 0.0 } else { swap_used });

        let Some(text) = self.vmstat.read(&mut self.buffer) else { return Ok(()) };
        let values = vmstat(text);
        let increases = self.counters.advance(&tick, values);
        for (metric, increase) in COUNTERS.into_iter().zip(increases) {
            let factor = match metric {
                Metric::PagedIn | Metric::PagedOut => 1024.0,
                _ => 1.0,
            };
            self.columns.set(out, metric, increase * factor / tick.seconds);
        }
        Ok(())
    }
}

/// The counters in the order of [`COUNTERS`]; what the kernel splits by zone or kind is added up.
fn vmstat(text: &[u8]) -> [Option<u64>; COUNTERS.len()] {
    let mut values = [None::<u64>; COUNTERS.len()];
    for (name, value) in named_numbers(text) {
        let index = match name {
            b"pgmajfault" => 0,
            b"pgpgin" => 1,
            b"pgpgout" => 2,
            b"pswpin" => 3,
            b"pswpout" => 4,
            // One line for each zone before Linux 4.8.
            _ if name.starts_with(b"pgscan_kswapd") => 5,
            b"pgscan_direct_throttle" => continue,
            _ if name.starts_with(b"pgscan_direct") => 6,
            _ if name.starts_with(b"allocstall") => 7,
            // Of files and of swapped memory since Linux 5.9, one line before.
            b"workingset_refault" | b"workingset_refault_anon" | b"workingset_refault_file" => 8,
            b"oom_kill" => 9,
            // By the kernel's thread and by programs; the kinds of pages (`_anon`, `_file`) are the same ones again.
            _ if name.starts_with(b"pgsteal_kswapd") || name.starts_with(b"pgsteal_direct") => 10,
            _ => continue,
        };
        values[index] = Some(values[index].unwrap_or(0).saturating_add(value));
    }
    values
}
