//! Port 3: what we turn. The only port through which the host is changed.

use std::path::PathBuf;

use model::experiment::FactorInfo;
use model::{Level, Nanos};
use serde::{Deserialize, Serialize};

use crate::source::{HostRoot, Unavailable};

/// A kind of factor: one static value per folder of the `factors` crate, registered in its `FACTORS`.
#[derive(Clone, Copy)]
pub struct FactorKind {
    /// Its path, levels and sentence, as far as an experiment file is concerned.
    pub info: FactorInfo,
    /// Opens it for a target. Changes nothing.
    pub open: fn(&FactorTarget) -> Result<Box<dyn Factor>, Unavailable>,
}

/// What a factor acts on.
#[derive(Clone, Debug)]
pub struct FactorTarget {
    /// Where the host's files are.
    pub root: HostRoot,
    /// The processes whose resource is turned: the system under test, or this very process when the load itself
    /// uses the resource, as a disk load does.
    pub processes: Vec<u32>,
    /// The `on = "..."` of the experiment: a device, an address.
    pub on: Option<String>,
    /// Files the workload works on, from which a device can be found when `on` is absent.
    pub files: Vec<PathBuf>,
}

/// An open factor.
pub trait Factor: Send {
    /// Could this level be set here? Changes nothing. The answer names the missing right.
    fn check(&self, level: &Level) -> Result<(), Unavailable>;

    /// The level in force now, read from the host.
    fn read(&self) -> Result<Level, Unavailable>;

    /// How to return to the present state, as plain data: journaled and synced before the first `set`.
    fn undo(&self) -> Result<Vec<Undo>, Unavailable>;

    /// Puts a level in force, and says how long until it counts.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable>;
}

/// One step back, carried out in order. A step whose work is already done succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Write this text into a file.
    WriteFile {
        /// Which.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// Move every process of a cgroup into another one and remove it. Absent is fine.
    RemoveCgroup {
        /// The group's folder.
        path: PathBuf,
        /// Where its processes go.
        parent: PathBuf,
    },
    /// Let a process use these CPUs again, in the kernel's list form, such as `0-3,7`. A process that is gone is fine.
    Affinity {
        /// Process id; every thread of it.
        process: u32,
        /// Start time of the process in clock ticks since boot, so that a recycled id is left alone.
        started_ticks: u64,
        /// CPU list.
        cpus: String,
    },
}
