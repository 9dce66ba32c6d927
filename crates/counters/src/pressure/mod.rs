//! Pressure stall information: the share of time in which tasks stalled for CPU, memory or I/O.
//!
//! Taken from the kernel's running totals in microseconds, so that the window is the sample's own and not the
//! kernel's moving average over ten seconds. An I/O pressure of zero proves nothing: threads that wait for
//! asynchronous I/O sleep without being counted.

use engine::source::{HostRoot, Source, SourceKind, Unavailable};
use model::MetricInfo;
use model::MetricKind::Mean;
use model::{Nanos, Readings, Unit};

use crate::reader::{Buffer, KernelFile, fields, lines, number};
use crate::series::{Clock, Columns, Counters, MetricSet, Tick, metrics};

#[cfg(test)]
mod tests;

metrics! {
    CpuSome => MetricInfo::new("pressure.cpu_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread was ready to run but waited for a CPU.").saturated_at(1.0),
    CpuFull => MetricInfo::new("pressure.cpu_full_share", Unit::Share, Mean,
        "Share of time in which all threads that were ready to run waited for a CPU, as under a quota; always 0 for the whole host.")
        .saturated_at(1.0),
    MemorySome => MetricInfo::new("pressure.memory_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread waited for memory.").saturated_at(1.0),
    MemoryFull => MetricInfo::new("pressure.memory_full_share", Unit::Share, Mean,
        "Share of time in which all threads that were not idle waited for memory.").saturated_at(1.0),
    IoSome => MetricInfo::new("pressure.io_some_share", Unit::Share, Mean,
        "Share of time in which at least one thread waited for I/O.").saturated_at(1.0),
    IoFull => MetricInfo::new("pressure.io_full_share", Unit::Share, Mean,
        "Share of time in which all threads that were not idle waited for I/O.").saturated_at(1.0),
}

/// The source `pressure`.
pub const KIND: SourceKind = SourceKind {
    name: "pressure",
    about: "Share of time in which tasks waited for a CPU, memory or I/O (pressure stall information).",
    metrics: METRICS,
    selector: "",
    open,
};

fn open(root: &HostRoot, _selected: &[String]) -> Result<Box<dyn Source>, Unavailable> {
    let mut pressure = Pressure {
        clock: Clock::default(),
        buffer: Buffer::new(),
        columns: Columns::new(""),
        stalls: [
            Stall::new(KernelFile::new(root, "proc/pressure/cpu"), Metric::CpuSome, Metric::CpuFull),
            Stall::new(KernelFile::new(root, "proc/pressure/memory"), Metric::MemorySome, Metric::MemoryFull),
            Stall::new(KernelFile::new(root, "proc/pressure/io"), Metric::IoSome, Metric::IoFull),
        ],
    };
    let buffer = &mut pressure.buffer;
    match pressure.stalls.iter_mut().any(|stall| stall.file.read(buffer).is_some()) {
        true => Ok(Box::new(pressure)),
        false => Err(Unavailable(
            "the kernel keeps no pressure stall information: boot with psi=1, or use one built with CONFIG_PSI \
             (Linux 4.20 and later)"
                .into(),
        )),
    }
}

struct Pressure {
    clock: Clock,
    buffer: Buffer,
    columns: Columns<Metric>,
    stalls: [Stall<Metric>; 3],
}

impl Source for Pressure {
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable> {
        let tick = self.clock.tick(now);
        for stall in &mut self.stalls {
            stall.read(&tick, &mut self.buffer, &mut self.columns, out);
        }
        Ok(())
    }
}

/// One pressure file, of the host or of a cgroup, and the two metrics it feeds.
pub(crate) struct Stall<M> {
    file: KernelFile,
    totals: Counters<2>,
    some: M,
    full: M,
}

impl<M: MetricSet> Stall<M> {
    pub(crate) fn new(file: KernelFile, some: M, full: M) -> Self {
        Stall { file, totals: Counters::new(), some, full }
    }

    /// Sets both shares, as far as the kernel has them.
    pub(crate) fn read(
        &mut self,
        tick: &Tick,
        buffer: &mut Buffer,
        columns: &mut Columns<M>,
        out: &mut Readings,
    ) {
        let Some(text) = self.file.read(buffer) else { return };
        let [some, full] = self.totals.advance(tick, totals(text)).map(|us| us / 1e6 / tick.seconds);
        columns.set(out, self.some, at_most_one(some));
        columns.set(out, self.full, at_most_one(full));
    }
}

/// The kernel brings its totals up to date at its own moments, so a share can come out a little over one. NaN stays.
fn at_most_one(share: f64) -> f64 {
    if share > 1.0 { 1.0 } else { share }
}

/// The microseconds stalled so far, some and full. `full` is missing for the processors before Linux 5.13.
fn totals(text: &[u8]) -> [Option<u64>; 2] {
    let mut totals = [None; 2];
    for line in lines(text) {
        let mut fields = fields(line);
        let index = match fields.next() {
            Some(b"some") => 0,
            Some(b"full") => 1,
            _ => continue,
        };
        totals[index] = fields.find_map(|field| number(field.strip_prefix(b"total=")?));
    }
    totals
}
