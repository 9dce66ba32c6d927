//! The host settings that Plimsoll varies, and how each change is undone. **Only this crate changes the
//! host**: all code that changes CPU settings, devices and cgroups is in this folder.
//!
//! Each factor is a module and one line in [`FACTORS`]. The rules for factors:
//!
//! - Opening and checking change nothing. A failed check names exactly what is missing: the file, the
//!   permission, the controller.
//! - The current setting is always read from the host, never assumed.
//! - The undo steps are plain data ([`engine::factor::Undo`]), written to the journal before the first
//!   change. [`undo::carry_out`] can execute them any number of times, in another process, after a `kill -9`.
//! - Every cgroup made here is named `plimsoll-...`, and only such a group is ever removed.
//!
//! | module | contents |
//! | --- | --- |
//! | [`cpus`] | `host.cpus`: which CPUs the target may use |
//! | [`cores`], [`threads_per_core`] | `host.cores`, `host.threads_per_core`: the same by cores and their siblings |
//! | [`cpu_mhz`], [`cpu_governor`] | `host.cpu_mhz`, `host.cpu_governor`: the clock of the CPUs |
//! | [`cpu_quota`] | `host.cpu_quota`: how much CPU time it may use |
//! | [`memory`] | `host.memory`: how much memory it may use |
//! | [`io_limit`] | `host.disk.io_limit`: its read and write rates on a device |
//! | [`disk_queue`] | `host.disk.scheduler`, `host.disk.write_cache`, `host.disk.read_ahead_kib`: the queue of a device |
//! | [`page_cache`] | `host.page_cache`: whether a trial begins with the files in the page cache |
//! | [`filesystem`] | `host.filesystem`: a file system that is made and mounted for one trial |
//! | [`layout`] | `host.layout`: a volume of several devices that is made and mounted for one trial |
//! | [`neighbour`] | `host.neighbour`: a second load beside the system, at a stated rate |
//! | [`config`] | `target.config`: a value in a file that the target reads when it starts |
//! | [`command`] | `target.command`: a setting that one command makes and another one undoes |
//! | [`delay`] | `network.delay`: how much longer a round trip to a dependency takes |
//! | [`target_group`] | a control group for the target alone, created when it is started |
//! | [`undo`] | the execution of undo steps |
//! | [`cgroup`] | the location of the controllers on this host (v1, v2 or both), and new groups |
//! | [`device`] | the block device of a path |
//! | [`process`] | threads, descendants and start times of processes |
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod command;
pub mod config;
pub mod cores;
pub mod cpu_governor;
pub mod cpu_mhz;
pub mod cpu_quota;
mod cpufreq;
pub mod cpus;
pub mod delay;
pub mod device;
pub mod disk_queue;
pub mod filesystem;
pub mod io_limit;
pub mod layout;
pub mod memory;
pub mod neighbour;
pub mod page_cache;
pub mod process;
pub mod target_group;
#[cfg(test)]
mod testing;
pub mod threads_per_core;
mod topology;
pub mod undo;

use engine::factor::FactorKind;

/// Every factor, in the order the handbook lists them.
pub static FACTORS: &[FactorKind] = &[
    cpus::CPUS,
    cores::CORES,
    threads_per_core::THREADS_PER_CORE,
    cpu_mhz::CPU_MHZ,
    cpu_governor::CPU_GOVERNOR,
    cpu_quota::CPU_QUOTA,
    memory::MEMORY_LIMIT,
    io_limit::IO_LIMIT,
    disk_queue::SCHEDULER,
    disk_queue::WRITE_CACHE,
    disk_queue::READ_AHEAD,
    page_cache::PAGE_CACHE,
    filesystem::FILE_SYSTEM,
    layout::LAYOUT,
    neighbour::NEIGHBOUR,
    config::CONFIG,
    command::COMMAND,
    delay::DELAY,
];
