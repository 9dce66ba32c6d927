//! Port 1: workloads. Their interface is a submission and completion queue, one [`Worker`] per thread.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::allowed::{Allowed, refusals};
use crate::inputs::Inputs;
use files::Named;
use model::experiment::WorkloadInfo;
use model::launch::Usage;
use model::run::WorkloadTraits;
use model::{DoubtKind, Level, Nanos, Problems, Settings, Shape, mask};
pub use record::{Made, OPERATIONS_MAX};
use serde::{Deserialize, Serialize};

/// How a fact that several machines know is one of the whole load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// It is a fact of the load if it is equal on all of them, and otherwise one of each machine.
    Equal,
    /// Counts are added. A machine without it has counted none.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// A kind of workload: one static value per folder of the `workloads` crate, registered in its `KINDS`.
pub trait WorkloadKind: Sync {
    /// Its name, description, settings and operations.
    fn info(&self) -> WorkloadInfo;

    /// Creates a workload from its settings, or reports all contradictions among them. Changes nothing.
    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems>;

    /// The same, with the files that it reads from `inputs`. For a workload that reads files which are sent to machines; the
    /// default is that of one that reads none.
    fn configure_with(&self, settings: &Settings, _inputs: &Inputs) -> Result<Box<dyn Workload>, Problems> {
        self.configure(settings)
    }

    /// The contradictions between its settings and a load in the experiment. Changes nothing.
    fn check_load(&self, _settings: &Settings, _shape: &Shape) -> Problems {
        Problems::new()
    }

    /// The present state of a file that a run of this kind recorded and did not remove, for example after a
    /// kill. If `remove` is set, it is removed, but only if it is the recorded file. See [`find`].
    fn remains(&self, _made: &Made, _remove: bool) -> Remains {
        Remains::NotRemovable("this workload creates no files".into())
    }
}

/// Records the files that a workload creates, so that they are known after a kill.
pub trait Announce: Send + Sync {
    /// Records a file before anything is written to it. If the file is created again at the same path, it is
    /// recorded again.
    ///
    /// # Errors
    /// When it could not be recorded; nothing may be written to it then.
    fn announce(&self, made: &Made) -> Result<(), LoadError>;
}

/// Records nothing: for a workload that is driven without a run.
#[derive(Debug)]
pub struct Unannounced;

impl Announce for Unannounced {
    fn announce(&self, _made: &Made) -> Result<(), LoadError> {
        Ok(())
    }
}

/// The present state of a file that a run created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remains {
    /// It does not exist.
    Nothing,
    /// Another file has its name.
    Replaced,
    /// It exists, and its run or a later one was to keep it.
    Kept,
    /// It exists and may be removed. Contains the size of a file; none for a folder.
    Removable(Option<u64>),
    /// It was removed.
    Removed(Option<u64>),
    /// An active run uses it.
    InUse,
    /// It exists and is not removed, for this reason.
    NotRemovable(String),
}

/// Finds a created file by its path, without following links.
///
/// # Errors
/// Its state, if it cannot be opened or is another file.
pub fn find(made: &Made) -> Result<(Named, Metadata), Remains> {
    let not_removable = |error: std::io::Error| Remains::NotRemovable(error.to_string());
    let named = match files::locate_exactly(&made.path) {
        Ok(named) => named,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Remains::Nothing),
        Err(error) => return Err(not_removable(error)),
    };
    let Some(found) = &named.found else { return Err(Remains::Nothing) };
    let metadata = found.try_clone().and_then(|found| File::from(found).metadata()).map_err(not_removable)?;
    if made.is(&metadata) { Ok((named, metadata)) } else { Err(Remains::Replaced) }
}

/// A configured workload.
pub trait Workload: Send + Sync {
    /// Names of the operations that it reports; a [`Completion`] refers to them by index.
    fn operations(&self) -> Vec<String>;

    /// The default load, for example threads times outstanding operations.
    fn default_shape(&self) -> Shape;

    /// Number of worker threads for a load of this shape, at least 1.
    fn workers(&self, shape: &Shape) -> u32;

    /// The lanes of a load of this shape: one for all workers, unless parts of the load have separate
    /// arrivals, for example several concurrent jobs.
    fn lanes(&self, shape: &Shape) -> Vec<Lane> {
        vec![Lane { shape: shape.clone(), workers: self.workers(shape).max(1), delay: 0 }]
    }

    /// The mean time that a user waits between the steps of one operation. Users who come together begin within this time,
    /// if the warm-up is that long: otherwise all of them would issue the same step at the same moment.
    fn think(&self) -> Nanos {
        0
    }

    /// Adds the traits of this load's operations to those of its kind, for example of operations with the
    /// names of jobs.
    fn describe_operations(&self, _traits: &mut WorkloadTraits) {}

    /// Whether the work ends by itself, for example copying a file: it is then measured until its end.
    fn ends_by_itself(&self) -> bool {
        false
    }

    /// Whether its operations are consecutive, like the steps of a run, instead of mixed. The rate of each
    /// then refers to the time in which it was active.
    fn operations_in_turn(&self) -> bool {
        false
    }

    /// Its files, which determine the device that a factor changes.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Limits what the load reaches, on an agent that was started with limits; returns what of it is refused. Called before
    /// `check`, `reach` and `prepare`. Names of hosts are compared with the limits when they are resolved.
    ///
    /// The default is that of a load that starts commands, which can reach anything.
    fn limit_to(&mut self, allowed: &Arc<Allowed>) -> Problems {
        refusals([allowed.commands()])
    }

    /// Checks permissions and requirements. Changes nothing.
    fn check(&self) -> Problems;

    /// Checks whether the system under test answers. Changes nothing. Not called if Plimsoll starts that
    /// system. `notes` receives what the load reaches, such as the addresses of a name, in one line each.
    fn reach(&self, _notes: &mut Vec<String>) -> Problems {
        Problems::new()
    }

    /// Sets where [`Workload::prepare`] records the files and folders that it creates. Called before it.
    fn announce_to(&mut self, _announcements: &Arc<dyn Announce>) {}

    /// Creates data and payloads before the clock starts. `seed` is that of the trial, as in [`Share`]. `say`
    /// receives progress in words, at most a few times per second. If it returns false, the user wants to
    /// stop, and `prepare` returns early.
    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError>;

    /// Whether a worker uses only descriptors that its thread opened, and no other thread uses these. Each thread then has a
    /// table of descriptors of its own, which makes every system call on one cheaper.
    fn has_own_descriptors(&self) -> bool {
        false
    }

    /// Creates a worker for one share of the load; called on its thread.
    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError>;

    /// Facts about the target, for example `back_end` or `file.extents`. Called after `prepare` and again
    /// after the measurement; the later facts override the earlier ones.
    fn facts(&self) -> BTreeMap<String, Level> {
        BTreeMap::new()
    }

    /// How such a fact of several machines that share the load is one of the whole load.
    fn combined(&self, _fact: &str) -> Combined {
        Combined::Equal
    }

    /// A description of the code of a failed operation.
    fn describe_failure(&self, code: u32) -> String {
        format!("failure {code}")
    }

    /// The doubt that follows from a failure with this code: `Corrupted` if the data that was read differs
    /// from the written data.
    fn doubt_of_failure(&self, _code: u32) -> DoubtKind {
        DoubtKind::Failures
    }

    /// The drain to watch after the load, before anything is released: writes that the load leaves behind in
    /// a cache.
    fn drain(&self) -> Option<Drain> {
        None
    }

    /// Bytes of its files in the page cache that no device has yet; none if that is not known. Called once per
    /// interval, and more often during a drain.
    fn unwritten_bytes(&self) -> Option<u64> {
        None
    }

    /// Texts that the experiment refers to, for the run directory: file names with their contents, without secrets. A
    /// resumed run must have the same.
    fn documents(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Releases data that only this trial needed. The workload itself exists until the experiment ends, like
    /// those of the other trials. Data for `clean_up` or a later trial is kept.
    fn release(&mut self) {}

    /// Removes what `prepare` created and was not to keep. Called once, at the end of the experiment.
    fn clean_up(&mut self) -> Result<(), LoadError> {
        Ok(())
    }
}

/// A drain to watch: data that a cache accepted, and that its device has not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long to watch it at most.
    pub at_most: Nanos,
    /// The kernel names of the devices whose writes are watched, as in the counters: the device of the files,
    /// or those below it.
    pub devices: Vec<String>,
    /// Whether there are devices below that of the files, which may hold a cache for each other.
    pub is_stacked: bool,
}

/// Drives operations on one thread. It does not measure time: `drive` reads the clock around its calls.
pub trait Worker {
    /// Submits one operation. A blocking call completes inside and returns [`Admission::Completed`].
    fn submit(&mut self, operation: Operation) -> Admission;

    /// Appends completions to `done`. It waits for at least one until the time `until` on the run's clock
    /// (see [`crate::clock::Clock`]). `u64::MAX` means without a timeout; a past time means a check without
    /// giving up the CPU. It returns as soon as there is a completion, because `drive` reads the clock
    /// afterwards. It may return without one.
    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError>;

    /// The resource use of completed launches by ticket, for a worker that launches commands. Called once
    /// before the first operation, and after each completion, when the entries are taken.
    fn usages(&mut self) -> Option<&mut Vec<(u32, Usage)>> {
        None
    }

    /// The parts of completed operations, for example the time until a connection was open. Taken after each
    /// completion; none for a worker that reports no parts.
    fn parts(&mut self) -> Option<&mut Vec<Part>> {
        None
    }

    /// The kind of an operation that has not completed, as in [`Done::kind`]: one that was accepted, or one that was never
    /// submitted, whose ticket means nothing. None if only its completion shows it.
    fn kind_of(&self, operation: Operation, accepted: bool) -> Option<u16>;

    /// Adds to [`Worker::parts`] what an operation that is given up has not ended of: the part that it waits for, if it was
    /// accepted, and those parts of each operation that it would have come to. Of these begin and end are when it was due.
    fn leave(&mut self, _operation: Operation, _accepted: bool, _due: Nanos) {}

    /// The kind of the whole that an operation in progress is a step of, if it is to end with [`Then::EndOf`]. It is then
    /// continued after the end of the load, so that its time is known.
    fn whole_of(&self, _operation: Operation) -> Option<u16> {
        None
    }

    /// The messages of this worker since the last call, which are recorded as events: a pass ended, a line
    /// appeared. Called about once per interval; must be cheap.
    fn remarks(&mut self, _out: &mut Vec<String>) {}
}

/// One operation to execute, or the next step of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Returned in its completion. It is below the worker's limit of operations in flight, and unique among
    /// them.
    pub ticket: u32,
    /// The number of the operation in its lane. Content and offset are functions of (seed, lane, number), and
    /// the shares of a lane have disjoint numbers.
    pub number: u64,
    /// 0 for a new operation. It counts up each time that the operation continues ([`Then::Next`]).
    pub step: u32,
    /// The virtual user, counted from 0 in this worker's share of a closed loop. None in an open loop, where each
    /// arrival is another user.
    pub user: Option<u32>,
}

impl Operation {
    /// A new operation of an open loop.
    pub const fn new(ticket: u32, number: u64) -> Operation {
        Operation { ticket, number, step: 0, user: None }
    }
}

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// In flight; a completion will follow.
    Accepted,
    /// Completed inside the call.
    Completed(Done),
    /// No capacity: reap first, then submit the same operation again.
    Busy,
    /// Not yet: the worker must first do something that does not belong to the operation, for example end the
    /// previous command. Reap, then submit the same operation again. In a closed loop, the arrival time is
    /// the time of acceptance, so that response times exclude the preparation.
    Preparing,
    /// There is no more work; the operation was not taken.
    Exhausted,
}

/// A completed operation, or a completed step of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Index of its name in [`Workload::operations`].
    pub kind: u16,
    /// Success or failure.
    pub outcome: Outcome,
    /// Transferred bytes.
    pub bytes: u32,
    /// Number of operations that completed together, for example the objects of one commit: they share the
    /// time evenly. 0 if there was nothing to do.
    pub count: u32,
    /// What follows.
    pub then: Then,
}

impl Done {
    /// An operation that has ended.
    pub const fn new(kind: u16, outcome: Outcome, bytes: u32) -> Done {
        Done { kind, outcome, bytes, count: 1, then: Then::End }
    }
}

/// What follows a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing: the operation has ended.
    End,
    /// The operation continues: its next step is submitted with the same ticket after this think time, at once if it
    /// is 0. Each step counts as an operation, with its own intended time.
    Next(Nanos),
    /// The operation has ended, and counts as a whole too, as an operation of this kind with the outcome of the last
    /// step. Its times are the sums of those of its steps, without think times.
    EndOf(u16),
}

/// A part of the time of an operation: between two instants on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of its name in [`Workload::operations`]; [`WorkloadTraits::derived`] has the name.
    pub kind: u16,
    /// When it began.
    pub begin: Nanos,
    /// When it ended, or when the wait for its end did.
    pub end: Nanos,
    /// Whether it has ended: otherwise it took longer.
    pub ended: bool,
}

/// Success or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Successful.
    Well,
    /// Failed; the workload describes the code.
    Failed(u32),
}

/// The completion of an accepted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation's ticket.
    pub ticket: u32,
    /// The result.
    pub done: Done,
    /// When the worker saw it; 0 for the moment at which [`Worker::reap`] returns.
    pub at: Nanos,
}

impl Completion {
    /// A completion that is seen now.
    pub fn new(ticket: u32, done: Done) -> Self {
        Completion { ticket, done, at: 0 }
    }
}

/// A part of the load with separate arrivals and workers. Its operations are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its arrivals.
    pub shape: Shape,
    /// Number of its worker threads, at least 1.
    pub workers: u32,
    /// The delay of its start after the start of the load.
    pub delay: Nanos,
}

/// One worker's part of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The index in [`Workload::lanes`], from 0.
    pub lane: u32,
    /// The index of the worker in the lane, from 0.
    pub index: u32,
    /// Number of workers in the lane.
    pub of: u32,
    /// Limit of this worker's operations in flight.
    pub in_flight_max: u32,
    /// Whether operations arrive at a rate, independent of the completion of others.
    pub is_open: bool,
    /// The trial's seed.
    pub seed: u64,
}

/// Why load could not be driven, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadError {
    /// The error and its place, as a sentence fragment.
    pub what: String,
    /// What to do; empty if there is no advice.
    pub help: String,
}

impl LoadError {
    /// An error with advice.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        LoadError { what: mask(&what.into()), help: mask(&help.into()) }
    }

    /// The error and the advice, as one line of a record or a report.
    pub fn in_line(&self) -> String {
        match self.help.is_empty() {
            true => self.what.clone(),
            false => format!("{}; {}", self.what, self.help),
        }
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if !self.help.is_empty() {
            write!(f, "\n  {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}
