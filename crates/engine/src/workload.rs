//! Port 1: what we drive. Shaped like a submission and completion queue, one [`Worker`] per thread.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use files::Named;
use model::experiment::WorkloadInfo;
use model::launch::Usage;
use model::run::WorkloadTraits;
use model::{DoubtKind, Level, Nanos, Problems, Settings, Shape};
pub use record::Made;

/// A kind of workload: one static value per folder of the `workloads` crate, registered in its `KINDS`.
pub trait WorkloadKind: Sync {
    /// Its name, sentence, settings and operations.
    fn info(&self) -> WorkloadInfo;

    /// Makes a workload from its settings; every contradiction among them at once. Touches nothing.
    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems>;

    /// Which of its settings contradict a load that the experiment states. Touches nothing.
    fn check_load(&self, _settings: &Settings, _shape: &Shape) -> Problems {
        Problems::new()
    }

    /// What there is of something that a run of this kind announced and did not remove, as after a kill. With `remove` it is
    /// removed, but only while it is what was made. See [`find`].
    fn remains(&self, _made: &Made, _remove: bool) -> Remains {
        Remains::NotRemovable("this workload makes no files".into())
    }
}

/// Where a workload announces what it makes. What is announced is known after a kill.
pub trait Announce: Send + Sync {
    /// To be called before anything is written to what was made. Made anew at the same path, it is announced again.
    ///
    /// # Errors
    /// When it could not be written down; nothing must be written to it then.
    fn announce(&self, made: &Made) -> Result<(), LoadError>;
}

/// Does not write down anything: for a workload that is driven without a run.
#[derive(Debug)]
pub struct Unannounced;

impl Announce for Unannounced {
    fn announce(&self, _made: &Made) -> Result<(), LoadError> {
        Ok(())
    }
}

/// What there is of something that a run made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// Another file has its name.
    Replaced,
    /// It is there, and the run that made it, or a later one, was to keep it.
    Kept,
    /// It is there and may be removed. A file has so many bytes; of a folder they are not counted.
    Removable(Option<u64>),
    /// It was removed.
    Removed(Option<u64>),
    /// A run that has not ended uses it.
    InUse,
    /// It is there and is not removed: why.
    NotRemovable(String),
}

/// Finds what was made by its path, in which no link is followed.
///
/// # Errors
/// What there is instead.
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
    /// Names of the operations it reports; a [`Completion`] refers to them by place.
    fn operations(&self) -> Vec<String>;

    /// The load when the experiment states none, such as threads times outstanding operations.
    fn default_shape(&self) -> Shape;

    /// How many worker threads share a load of this shape. At least 1.
    fn workers(&self, shape: &Shape) -> u32;

    /// The lanes of a load of this shape: one for all workers, unless parts of the load have arrivals of their own, as several
    /// jobs at once have.
    fn lanes(&self, shape: &Shape) -> Vec<Lane> {
        vec![Lane { shape: shape.clone(), workers: self.workers(shape).max(1), delay: 0 }]
    }

    /// Adds to the traits of its kind what holds for the operations of this load, such as those named after jobs.
    fn describe_operations(&self, _traits: &mut WorkloadTraits) {}

    /// True for work that ends by itself, such as copying a file: it is then measured until it is done.
    fn ends_by_itself(&self) -> bool {
        false
    }

    /// True when its operations follow one another, as the steps of a run do, instead of mixing: the rate of each is then over
    /// the time in which it was the one at work.
    fn operations_in_turn(&self) -> bool {
        false
    }

    /// Files it works on, from which a factor finds the device to turn.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Is it permitted, and is what it needs there? Changes nothing.
    fn check(&self) -> Problems;

    /// Does the system under test answer? Changes nothing. Not asked where Plimsoll itself starts that system.
    fn reach(&self) -> Problems {
        Problems::new()
    }

    /// Where [`Workload::prepare`] is to announce the files and folders that it makes. Called before it.
    fn announce_to(&mut self, _announcements: &Arc<dyn Announce>) {}

    /// Makes data and payloads before the clock starts. `seed` is the trial's, as in [`Share`]. `say` takes progress in words, at most a few a second;
    /// it returns false when the user wants to stop, and then `prepare` returns early.
    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError>;

    /// A worker for one share of the load; called on the thread that will drive it.
    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError>;

    /// Facts about what is driven, such as `back_end` or `file.extents`. Asked after `prepare` and again after the
    /// measurement; the later ones win.
    fn facts(&self) -> BTreeMap<String, Level> {
        BTreeMap::new()
    }

    /// Words for the code of a failed operation.
    fn describe_failure(&self, code: u32) -> String {
        format!("failure {code}")
    }

    /// What a failure of this code makes doubtful: `Corrupted` when it means that other data was read back than was
    /// written.
    fn doubt_of_failure(&self, _code: u32) -> DoubtKind {
        DoubtKind::Failures
    }

    /// The trial is over. Closes and frees what only this trial needed: the workload itself lasts until the experiment ends, beside
    /// those of the other trials. What `clean_up` or a later trial needs stays.
    fn release(&mut self) {}

    /// Removes what `prepare` made and was not asked to keep. Called once, when the experiment ends.
    fn clean_up(&mut self) -> Result<(), LoadError> {
        Ok(())
    }
}

/// Drives operations on one thread. Timing is not its business: `drive` reads the clock around its calls.
pub trait Worker {
    /// Takes one operation. A blocking call completes inside and answers [`Admission::Completed`].
    fn submit(&mut self, operation: Operation) -> Admission;

    /// Appends completions to `done`, waiting for at least one until the time `until` on the run's clock (see
    /// [`crate::clock::Clock`]); `u64::MAX` waits as long as it takes, and a time that is over only looks, without giving up the
    /// CPU. Returns as soon as one is there, since `drive` reads the clock when this returns. It may return with none.
    fn reap(&mut self, until: Nanos, done: &mut Vec<Completion>) -> Result<(), LoadError>;

    /// What launched commands had used when they were done, by their ticket, for a worker that launches commands. Asked once
    /// before the first operation, and after each completion, when what is there is taken.
    fn usages(&mut self) -> Option<&mut Vec<(u32, Usage)>> {
        None
    }

    /// What this worker has to say since it was last asked, as dated facts of the record: a pass ended, a line appeared.
    /// Asked about once an interval; must be cheap.
    fn remarks(&mut self, _out: &mut Vec<String>) {}
}

/// One operation to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Comes back in its completion. Below the worker's limit of operations in flight, and unique among those.
    pub ticket: u32,
    /// Which operation of its lane this is: content and place are functions of (seed, lane, number), and
    /// the numbers of the lane's shares do not overlap.
    pub number: u64,
}

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// In flight; a completion will follow.
    Accepted,
    /// Done inside the call.
    Completed(Done),
    /// No room: reap first, then submit the same operation again.
    Busy,
    /// Not yet: the worker first has something to do that is no part of an operation, such as ending the command of
    /// the one before. Reap, then submit the same operation again. In a closed loop the user is taken to arrive when
    /// the operation is taken, so that no response time holds the preparation.
    Preparing,
    /// There is no more work; the operation was not taken.
    Exhausted,
}

/// An operation that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Place of its name in [`Workload::operations`].
    pub kind: u8,
    /// Well or failed.
    pub outcome: Outcome,
    /// Bytes moved.
    pub bytes: u32,
    /// How many operations are done together, such as the objects of one commit: they share the time evenly. 0 when there
    /// was nothing to do after all.
    pub count: u32,
}

/// Well or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Well,
    /// It failed; the workload knows words for the code.
    Failed(u32),
}

/// The completion of an accepted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation's ticket.
    pub ticket: u32,
    /// What became of it.
    pub done: Done,
}

/// A part of the load with arrivals and workers of its own. Its operations are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its arrivals.
    pub shape: Shape,
    /// How many worker threads share it. At least 1.
    pub workers: u32,
    /// How long after the start of the load it begins.
    pub delay: Nanos,
}

/// One worker's part of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which lane of [`Workload::lanes`], from 0.
    pub lane: u32,
    /// Which worker of the lane, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
    /// Most operations this worker will have in flight.
    pub in_flight_max: u32,
    /// The trial's seed.
    pub seed: u64,
}

/// Why load could not be driven: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What went wrong and where, as a sentence fragment.
    pub what: String,
    /// What to do; empty when nothing can be advised.
    pub help: String,
}

impl LoadError {
    /// An error with advice.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        LoadError { what: what.into(), help: help.into() }
    }

    /// What and what to do, as one line of a record or a report.
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
