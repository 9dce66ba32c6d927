//! Port 3: factors, which change the host. Only this port allows changes of the host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use model::experiment::FactorInfo;
use model::{ExchangeTrace, Level, Nanos, Secret, SecretParts};
use serde::{Deserialize, Serialize};

use crate::process_stat::started_ticks;
use crate::source::{HostRoot, Unavailable};

/// A kind of factor: one static value per folder of the `factors` crate, registered in its `FACTORS`.
#[derive(Clone, Copy)]
pub struct FactorKind {
    /// Its path, levels and description for the experiment file.
    pub info: FactorInfo,
    /// When it is set.
    pub moment: fn(&FactorTarget) -> Moment,
    /// Opens the factor for a target. Changes nothing.
    pub open: fn(&FactorTarget) -> Result<Box<dyn Factor>, Unavailable>,
}

/// When a factor is set, and how long it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// For one trial, while the target runs and the load's data exists.
    Prepared,
    /// The same, but set before the factors of [`Moment::Prepared`] and undone after them: what runs beside the target,
    /// and must not be subject to its limits.
    Beside,
    /// For one trial, while the target is stopped: it is started with the level.
    Stopped,
    /// For one trial, before the load's data exists: what holds this data. It is set before the factors of
    /// [`Moment::Stopped`]. The load releases its data before it is undone, so no later trial uses this data.
    BeforeData,
    /// Before the target starts, and until the experiment ends: what the target and the load connect to. Its level
    /// changes between trials, while the target may run.
    Lasting,
}

/// The target of a factor.
#[derive(Clone, Debug)]
pub struct FactorTarget {
    /// The root of the host's files.
    pub root: HostRoot,
    /// The processes whose resource is changed: the system under test, or this process if the load itself
    /// uses the resource, like a disk load.
    pub processes: Vec<u32>,
    /// The `on = "..."` of the experiment: a device or an address.
    pub on: Option<String>,
    /// Further parameters in the experiment, by name.
    pub parameters: BTreeMap<String, Secret>,
    /// Files of the workload, which determine the device if `on` is absent.
    pub files: Vec<PathBuf>,
    /// The working directory of commands and base of relative paths; if empty, that of Plimsoll.
    pub folder: PathBuf,
    /// Whether the target can be stopped and started again.
    pub restartable: bool,
}

impl FactorTarget {
    /// Processes of a host, without other data.
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
    /// Checks whether this level can be set here. Changes nothing. The error names the missing permission.
    fn check(&self, level: &Level) -> Result<(), Unavailable>;

    /// The current level, read from the host.
    fn read(&self) -> Result<Level, Unavailable>;

    /// The undo steps from this level to the present state, as plain data: they are journaled and synced
    /// before the level is set.
    fn undo(&self, level: &Level) -> Result<Vec<Undo>, Unavailable>;

    /// Sets a level, and returns the time until it takes effect.
    fn set(&mut self, level: &Level) -> Result<Nanos, Unavailable>;

    /// The level that is this share of the current one. A share above 1 means an increase, up to the
    /// available maximum. Changes nothing.
    ///
    /// # Errors
    /// When there is no such level: the reason, and what would help.
    fn scaled(&self, _share: f64) -> Result<Level, Unavailable> {
        Err(Unavailable("it cannot be reduced by a share".into()))
    }

    /// Undoes what is journaled elsewhere: on the machine of its target. Called before the undo steps of this host.
    ///
    /// # Errors
    /// What could not be undone.
    fn restore(&mut self) -> Result<(), Unavailable> {
        Ok(())
    }

    /// What it observed since the level was set, for the record: facts of the trial. Called after the measurement.
    fn facts(&mut self) -> BTreeMap<String, Level> {
        BTreeMap::new()
    }

    /// Where to connect to instead of to `on`, once a level is set; none if nothing has to.
    fn endpoint(&self) -> Option<SocketAddr> {
        None
    }

    /// The measured time of a trial begins. It must return at once.
    fn begin_measured(&mut self) {}

    /// The measured time ends. What the factor saw of exchanges in it; none if it sees none. It must return at once.
    fn end_measured(&mut self) -> Option<ExchangeTrace> {
        None
    }

    /// Information for the record about how the level was set; may be empty.
    fn remark(&self) -> String {
        String::new()
    }
}

/// The environment variable that identifies the processes of a target, or of a neighbour.
pub const TARGET_VARIABLE: &str = "PLIMSOLL_TARGET";

/// The environment variable that identifies the commands that make a change.
pub const COMMAND_VARIABLE: &str = "PLIMSOLL_COMMAND";

/// A unique value for [`TARGET_VARIABLE`] or [`COMMAND_VARIABLE`].
pub fn new_mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    let ticks = started_ticks(process).unwrap_or(0);
    format!("{process}-{ticks}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One undo step. Steps are executed in order; a step whose work is already done succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Write this text to a kernel control file, for example a limit of a control group. A missing file is
    /// not an error.
    WriteControl {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
    },
    /// Restore the previous value in a file, if the file is exactly as after the change. A file that somebody
    /// edited since is left unchanged and reported.
    RestoreValue {
        /// The file.
        path: PathBuf,
        /// The key of the value, for messages.
        key: String,
        /// The offset of the value.
        at: u64,
        /// The previous value.
        before: String,
        /// The written value.
        written: String,
        /// Fingerprint of the whole file before the change.
        file_before: String,
        /// Fingerprint of the whole file after it.
        file_written: String,
    },
    /// Move every process of a cgroup to another one and remove it. A missing group is not an error.
    RemoveCgroup {
        /// The group's folder.
        path: PathBuf,
        /// The destination of its processes.
        parent: PathBuf,
    },
    /// Allow a process to use these CPUs again, in the kernel's list format, for example `0-3,7`. An ended
    /// process is not an error.
    Affinity {
        /// Process id; all threads are included.
        process: u32,
        /// Start time of the process in clock ticks since boot, to detect a reused id.
        started_ticks: u64,
        /// CPU list.
        cpus: String,
    },
    /// End a process that is the leader of a process group, with the group and all its descendants: SIGTERM,
    /// then SIGKILL. An ended process is not an error.
    EndTarget {
        /// Process id, which is also the id of the group.
        process: u32,
        /// Start time of the process in clock ticks since boot, to detect a reused id.
        started_ticks: u64,
        /// A unique value of the environment variable [`TARGET_VARIABLE`]. It identifies descendants even
        /// after the process itself has ended.
        mark: String,
        /// The control group that was made for it alone: what is in there belongs to it, also if it has no such variable any
        /// more. Empty if it has none.
        #[serde(default)]
        group: PathBuf,
        /// Timeout of its end after SIGTERM.
        within: Nanos,
    },
    /// End every process of a neighbour with SIGKILL. Ended processes are not an error.
    EndNeighbour {
        /// A unique value of the environment variable [`TARGET_VARIABLE`] of these processes.
        mark: String,
    },
    /// Wait for the end of a command that makes the change and that a kill of Plimsoll left: it would go on after its change is
    /// undone. After a time, it gets SIGKILL with its process group. What it leaves in the background goes on.
    EndCommand {
        /// A unique value of the environment variable [`COMMAND_VARIABLE`].
        mark: String,
        /// How long it may go on.
        within: Nanos,
    },
    /// Unmount the file system with this UUID from a directory. Another file system there stays, and an image
    /// without a name that was below the file system ends with it.
    Unmount {
        /// The mount point, without links.
        point: PathBuf,
        /// The UUID of the file system, which the run chose.
        uuid: String,
    },
    /// Erase the file system with this UUID from a block device. Any other content stays.
    EraseFileSystem {
        /// The device.
        device: PathBuf,
        /// The UUID.
        uuid: String,
    },
    /// Remove an empty directory that was made with this time of modification. A directory with another time was
    /// used or made by others and stays.
    RemoveFolder {
        /// The directory.
        path: PathBuf,
        /// Its name until it was complete.
        made_as: PathBuf,
        /// Its time of modification, in seconds since 1970.
        modified_unix_s: i64,
    },
    /// Run a shell command. It must be idempotent.
    Command {
        /// The command.
        command: String,
        /// The working directory; if empty, that of Plimsoll.
        folder: PathBuf,
        /// Timeout of the command.
        within: Nanos,
    },
}

impl Undo {
    /// Whether a reboot undoes the change anyway: processes, and settings in the kernel's memory.
    pub fn ends_with_the_boot(&self) -> bool {
        match self {
            Undo::WriteControl { .. }
            | Undo::RemoveCgroup { .. }
            | Undo::Affinity { .. }
            | Undo::EndTarget { .. }
            | Undo::EndNeighbour { .. }
            | Undo::EndCommand { .. }
            | Undo::Unmount { .. } => true,
            Undo::RestoreValue { .. }
            | Undo::EraseFileSystem { .. }
            | Undo::RemoveFolder { .. }
            | Undo::Command { .. } => false,
        }
    }
}

impl std::fmt::Display for Undo {
    /// A description for users.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::WriteControl { path, text } => write!(f, "write `{text}` to {}", path.display()),
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
            Undo::EndTarget { process, .. } => write!(f, "stop process {process} and its child processes"),
            Undo::EndNeighbour { .. } => f.write_str("stop the process of the neighbour"),
            Undo::EndCommand { .. } => f.write_str("end the command that makes the change"),
            Undo::Unmount { point, uuid } => {
                write!(f, "unmount the file system {uuid} from {}", point.display())
            }
            Undo::EraseFileSystem { device, uuid } => {
                write!(f, "erase the file system {uuid} from {}", device.display())
            }
            Undo::RemoveFolder { path, .. } => write!(f, "remove the directory {}", path.display()),
            Undo::Command { command, folder, .. } => {
                let command = SecretParts::Command.hide(command);
                write!(f, "run `{command}`")?;
                if folder.as_os_str().is_empty() { Ok(()) } else { write!(f, " in {}", folder.display()) }
            }
        }
    }
}
