//! What Plimsoll turns, and how it is undone. **This is the only crate that changes the host**: whatever Plimsoll does
//! to CPUs, devices and cgroups is in this folder and nowhere else.
//!
//! Each factor is a module and one line in [`FACTORS`]. The rules they keep:
//!
//! - opening and checking change nothing, and a check names exactly what is missing: the file, the right, the controller;
//! - what is in force is read back from the host, never assumed;
//! - the way back is plain data ([`engine::factor::Undo`]), written to the journal before the first change, and
//!   [`undo::carry_out`] can do it any number of times, in another process, after a `kill -9`;
//! - every cgroup made here is named `plimsoll-...`, and only such a group is ever removed.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`cpus`] | `host.cpus`: which CPUs the target may use |
//! | [`cpu_quota`] | `host.cpu_quota`: how much processor time it may use |
//! | [`memory`] | `host.memory`: how much memory it may use |
//! | [`io_limit`] | `host.disk.io_limit`: how fast it may read and write a device |
//! | [`page_cache`] | `host.page_cache`: whether a trial finds the files in memory |
//! | [`config`] | `target.config`: a value in a file that the target reads when it starts |
//! | [`command`] | `target.command`: anything that a command sets and another undoes |
//! | [`target_group`] | a control group for the target alone, made when it is started |
//! | [`undo`] | the way back |
//! | [`cgroup`] | where the controllers are on this host (v1, v2 or both), and a group of our own |
//! | [`device`] | which device a path is on |
//! | [`process`] | threads, descendants and start times of processes |
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod command;
pub mod config;
pub mod cpu_quota;
pub mod cpus;
pub mod device;
pub mod io_limit;
pub mod memory;
pub mod page_cache;
pub mod process;
pub mod target_group;
#[cfg(test)]
mod testing;
pub mod undo;

use engine::factor::FactorKind;

/// Every factor, in the order the handbook lists them.
pub static FACTORS: &[FactorKind] = &[
    cpus::CPUS,
    cpu_quota::CPU_QUOTA,
    memory::MEMORY_LIMIT,
    io_limit::IO_LIMIT,
    page_cache::PAGE_CACHE,
    config::CONFIG,
    command::COMMAND,
];
