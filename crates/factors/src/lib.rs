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
//! | [`io_limit`] | `host.disk.io_limit`: how fast it may read and write a device |
//! | [`undo`] | the way back |
//! | [`cgroup`] | where the controllers are on this host (v1, v2 or both), and a group of our own |
//! | [`device`] | which device a path is on |
//! | [`process`] | threads, descendants and start times of processes |

pub mod cgroup;
pub mod cpus;
pub mod device;
pub mod io_limit;
pub mod process;
pub mod undo;

use engine::factor::FactorKind;

/// Every factor, in the order the handbook lists them.
pub static FACTORS: &[FactorKind] = &[cpus::CPUS, io_limit::IO_LIMIT];
