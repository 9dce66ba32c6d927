//! The sources of counters: CPU, memory, pressure, disk, volume, network, process, cgroup, file system, the I/O of
//! operations, and exporters of other hosts.
//!
//! Each folder is one source behind [`engine::source`]: a table of metrics, a way to open it and a way to read it.
//! The crate reads and never writes, and it is made to be read ten times a second beside the load it observes: files
//! stay open, are read with one call each into one buffer, and memory is allocated only for new instances.
//! `cargo run --release -p plimsoll-counters --example cost` prints what that costs on this machine.
//!
//! An unreadable counter is absent, never zero. The trees in `fixtures/` are other hosts, read through
//! [`engine::source::HostRoot::at`].
// Only the system calls of kernel tracing allow it.
#![deny(unsafe_code)]

use engine::source::SourceKind;
use model::MetricInfo;

pub mod cgroup;
pub mod cpu;
pub mod disk;
pub mod filesystem;
pub mod memory;
pub mod network;
pub mod operation_io;
pub mod perfmon;
pub mod pressure;
pub mod process;
pub mod scrape;
pub mod volume;

mod diskstats;
mod host;
mod mounts;
mod reader;
mod series;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

pub use host::{HOST_FORMAT, host};

/// Every source, in the order they are read and shown.
pub static SOURCES: &[SourceKind] = &[
    cpu::KIND,
    pressure::KIND,
    memory::KIND,
    disk::KIND,
    volume::KIND,
    network::KIND,
    process::KIND,
    cgroup::KIND,
    filesystem::KIND,
    operation_io::KIND,
    scrape::KIND,
];

/// Every metric that may be reported, with the name of its source.
pub fn all_metrics() -> impl Iterator<Item = (&'static str, &'static MetricInfo)> {
    SOURCES.iter().flat_map(|source| source.metrics.iter().map(|metric| (source.name, metric)))
}
