//! Port 3: what we turn. The only port through which the host is changed.

use std::collections::BTreeMap;
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
    /// Whether the target must be stopped before it is turned, and started after it. All others are turned while the
    /// target runs and the load's data is made.
    pub needs_restart: fn(&FactorTarget) -> bool,
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
    /// What else the experiment says, by the names of the factor's parameters.
    pub parameters: BTreeMap<String, String>,
    /// Files the workload works on, from which a device can be found when `on` is absent.
    pub files: Vec<PathBuf>,
    /// Where relative paths are meant from and commands run; empty is the present folder.
    pub folder: PathBuf,
    /// Whether the target can be stopped and started again.
    pub restartable: bool,
}

impl FactorTarget {
    /// Some processes of a host, and nothing else known.
    pub fn of(root: HostRoot, processes: Vec<u32>) -> Self {
        FactorTarget {
            root,
            processes,
            on: None,
            parameters: BTreeMap::new(),
            files: Vec::new(),
            folder: PathBuf::new(),
            restartable: false,
        }
    }
}

/// An open factor.
pub trait Factor: Send {
    /// Could this level be set here? Changes nothing. The answer names the missing right.
    fn check(&self, level: &Level) -> Result<(), Unavailable>;

    /// The level in force now, read from the host.
    fn read(&self) -> Result<Level, Unavailable>;

    /// How to return from this level to the present state, as plain data: journaled and synced before the level is set.
    fn undo(&self, level: &Level) -> Result<Vec<Undo>, Unavailable>;

    /// Puts a level in force, and says how long until it counts.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable>;

    /// The level that is this share of what is in force: a part of it, or with a share above 1 more, at most all that is
    /// there. Changes nothing.
    ///
    /// # Errors
    /// When there is no such level: why, and what would help.
    fn scaled(&self, _share: f64) -> Result<Level, Unavailable> {
        Err(Unavailable("it has no levels in between".into()))
    }

    /// What there is to know about how the level was set, for the record; empty for nothing.
    fn remark(&self) -> String {
        String::new()
    }
}

/// The environment variable by which the processes of a target are known.
pub const TARGET_VARIABLE: &str = "PLIMSOLL_TARGET";

/// One step back, carried out in order. A step whose work is already done succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Write this text into a control file of the kernel's, such as a limit of a control group. Absent is fine.
    WriteControl {
        /// Which.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// Put a value of a file back in place of the one that was written there, if the file is exactly as it was then. One
    /// that somebody edited since is left alone and reported.
    RestoreValue {
        /// Which file.
        path: PathBuf,
        /// What the value is, for messages: its key.
        key: String,
        /// The first byte of the value.
        at: u64,
        /// What stood there before.
        before: String,
        /// What was written there.
        written: String,
        /// Fingerprint of the whole file before the change.
        file_before: String,
        /// Fingerprint of the whole file after it.
        file_written: String,
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
    /// End a process that was started as a group of its own, with that group and whatever else descends from it: SIGTERM,
    /// then SIGKILL. One that is gone is fine.
    EndTarget {
        /// Process id, which is also the group's.
        process: u32,
        /// Start time of the process in clock ticks since boot, so that a recycled id is left alone.
        started_ticks: u64,
        /// A value of the environment variable [`TARGET_VARIABLE`] that no other process has: what the process started is
        /// known by it when the process itself is gone.
        mark: String,
        /// How long it may take to end after SIGTERM.
        within: Nanos,
    },
    /// Run a shell command. It must do no harm when it runs twice.
    Command {
        /// What.
        command: String,
        /// Where; empty is the present folder.
        folder: PathBuf,
        /// How long it may take.
        within: Nanos,
    },
}

impl Undo {
    /// Whether what it undoes is gone after the host was started again: processes, and what the kernel keeps in memory.
    pub fn ends_with_the_boot(&self) -> bool {
        match self {
            Undo::WriteControl { .. }
            | Undo::RemoveCgroup { .. }
            | Undo::Affinity { .. }
            | Undo::EndTarget { .. } => true,
            Undo::RestoreValue { .. } | Undo::Command { .. } => false,
        }
    }
}

impl std::fmt::Display for Undo {
    /// What it does, as a person would say it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::WriteControl { path, text } => write!(f, "write `{text}` into {}", path.display()),
            Undo::RestoreValue { path, key, before, written, .. } => {
                let key = if key.is_empty() { "the value" } else { key };
                write!(f, "set {key} in {} from `{written}` back to `{before}`", path.display())
            }
            Undo::RemoveCgroup { path, parent } => {
                write!(f, "move the processes of {} to {} and remove it", path.display(), parent.display())
            }
            Undo::Affinity { process, cpus, .. } => {
                write!(f, "let process {process} and its descendants use CPUs {cpus}")
            }
            Undo::EndTarget { process, .. } => write!(f, "end process {process} and what it started"),
            Undo::Command { command, folder, .. } if folder.as_os_str().is_empty() => {
                write!(f, "run `{command}`")
            }
            Undo::Command { command, folder, .. } => write!(f, "run `{command}` in {}", folder.display()),
        }
    }
}
