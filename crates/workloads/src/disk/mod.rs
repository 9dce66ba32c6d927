//! The `disk` workload: reads and writes of files and block devices, as SQLIO, diskspd, Iometer and fio issue them.
//!
//! What operation number `i` does is a pure function of the trial's seed, `i` and the settings (`pattern`), so that a
//! load can be shared among threads without any two doing the same. Each thread drives its own io_uring (`ring`), or
//! makes one system call at a time (`calls`), whichever is faster here (`choice`).
//!
//! A sequential load is one stream: block after block in the order of operation numbers, whichever thread issues them.
//!
//! Several loads at once are jobs (`jobs`), each with its own settings, files, arrivals and stream of operations.
//!
//! Files that Plimsoll makes carry a mark (`mark`). They are used again without being written anew, and only they may be
//! written without being named in `overwrite`, and only while their content is Plimsoll's. A file made without `keep` is
//! removed by `clean_up`; one that a killed run left only by a run that wrote to it.

mod backing;
mod buffer;
mod calls;
mod choice;
mod claim;
mod content;
mod facts;
mod failure;
pub mod fio;
mod grammar;
pub mod jobs;
mod mark;
mod own;
mod pattern;
mod prepare;
mod probe;
mod profile;
mod random;
mod ring;
mod sample;
mod settings;
pub mod sqlio;
mod stream;
mod survey;
mod target;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use engine::workload::{
    Announce, Lane, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind,
};
use model::experiment::WorkloadInfo;
use model::run::{OperationTransfer, OperationUnit, Transfer, WorkloadTraits};
use model::{DoubtKind, Level, Problems, Settings, Shape};

use choice::{BackEnd, Choice};
use content::Damage;
use jobs::Job;
use own::OwnFile;
use prepare::Ready;
pub use probe::{Ground, probe_ground, probe_io_uring};
pub use profile::{PROFILES, Profile};
pub use settings::{JOBS, OUTSTANDING, OVERWRITE, PATTERN, SETTINGS};

/// The kind.
pub struct DiskKind;

/// The kind, for registration.
pub static KIND: DiskKind = DiskKind;

/// What sort of load it is.
static TRAITS: WorkloadTraits = WorkloadTraits {
    storage: true,
    unit: OperationUnit::Io,
    load_settings: Cow::Borrowed(&[Cow::Borrowed("outstanding"), Cow::Borrowed("threads")]),
    distinct_loads: Cow::Borrowed(&[Cow::Borrowed("pattern")]),
    supporting: Cow::Borrowed(&[Cow::Borrowed("fsync")]),
    transfers: Cow::Borrowed(&[
        OperationTransfer::new("read", Transfer::Read),
        OperationTransfer::new("write", Transfer::Write),
        OperationTransfer::new("fsync", Transfer::Flush),
    ]),
    ..WorkloadTraits::NONE
};

impl WorkloadKind for DiskKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "disk",
            about: "Reads and writes files or block devices: random or sequential, any mix of sizes, any queue depth.",
            settings: SETTINGS,
            operations: &["read", "write", "trim", "fsync"],
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        Ok(Box::new(Disk {
            parts: jobs::read(settings)?.into_iter().map(Part::new).collect(),
            made: Vec::new(),
            announcements: Arc::new(Unannounced),
            claims: Vec::new(),
            driven: AtomicBool::new(false),
        }))
    }

    fn check_load(&self, settings: &Settings, shape: &Shape) -> Problems {
        jobs::check_load(settings, shape)
    }

    fn remains(&self, made: &Made, remove: bool) -> Remains {
        own::remains(made, remove)
    }
}

/// A configured disk load.
struct Disk {
    /// Its jobs; one where the load is not made of several.
    parts: Vec<Part>,
    /// Files to remove or to mark in the end.
    made: Vec<OwnFile>,
    announcements: Arc<dyn Announce>,
    /// Block devices that stay claimed between the trials.
    claims: Vec<Arc<File>>,
    /// Set once a worker was made: facts asked for later are those after the load.
    driven: AtomicBool,
}

/// A job and what a trial needs for it.
struct Part {
    job: Job,
    /// How the trial's operations are issued, once its files are ready and its shape is known.
    choice: OnceLock<Choice>,
    ready: Option<Ready>,
    /// Share of the files in the page cache before the load.
    resident_before: Option<f64>,
    /// What the rings of the workers could register with the kernel, from the first one made.
    registered: OnceLock<Vec<&'static str>>,
}

impl Part {
    fn new(job: Job) -> Self {
        Part { job, choice: OnceLock::new(), ready: None, resident_before: None, registered: OnceLock::new() }
    }

    /// The back end for lanes of this shape.
    fn choose(&self, shape: &Shape) -> Choice {
        let plan = &self.job.plan;
        match &self.ready {
            Some(ready) => self.choice.get_or_init(|| choice::choose(plan, Some(ready), shape)).clone(),
            None => choice::choose(plan, None, shape),
        }
    }

    fn lanes(&self, whole: &Shape) -> Vec<Lane> {
        let shape = self.job.shape(whole);
        // The first has the most users.
        let back_end = self.choose(&jobs::part(&shape, 0, self.job.plan.lanes)).back_end;
        self.job.lanes(&shape, |shape| back_end.workers(&self.job.plan, shape))
    }

    fn facts(&self, driven: bool) -> BTreeMap<String, Level> {
        let plan = &self.job.plan;
        let mut facts = match &self.ready {
            Some(ready) => facts::facts(plan, ready),
            None => facts::unprepared(plan),
        };
        let mut set = |name: &str, level: Level| facts.insert(name.into(), level);
        if let Some(choice) = self.choice.get() {
            choice.facts().into_iter().for_each(|(name, level)| drop(set(name, level)));
            if let BackEnd::IoUring(flags) = choice.back_end {
                let registered = self.registered.get().into_iter().flatten();
                let flags = flags.words().iter().chain(registered);
                set("io_uring.flags", Level::List(flags.map(|flag| Level::Text((*flag).into())).collect()));
            }
        }
        if let Some(before) = self.resident_before {
            set("resident_share.before", Level::Number(before));
        }
        if driven
            && let Some(after) = self.ready.as_ref().and_then(|ready| facts::resident_share(plan, ready))
        {
            set("resident_share.after", Level::Number(after));
        }
        facts
    }
}

impl Disk {
    /// The part that a lane belongs to.
    fn part_of(&self, lane: u32) -> Option<&Part> {
        let mut first = 0;
        self.parts.iter().find(|part| {
            first += part.job.plan.lanes;
            lane < first
        })
    }
}

impl Workload for Disk {
    fn operations(&self) -> Vec<String> {
        let mut names = Vec::new();
        for part in &self.parts {
            stream::Kinds::within(&part.job.plan, &part.job.name, &mut names);
        }
        names
    }

    fn default_shape(&self) -> Shape {
        match self.parts.as_slice() {
            [Part { job, .. }] if job.shape.is_none() => Shape::closed(job.plan.in_flight()),
            parts => jobs::whole_shape(&parts.iter().map(|part| part.job.clone()).collect::<Vec<_>>()),
        }
    }

    fn workers(&self, shape: &Shape) -> u32 {
        self.lanes(shape).iter().map(|lane| lane.workers).sum()
    }

    /// Chooses the back end, as the shape of the load is known only here.
    fn lanes(&self, shape: &Shape) -> Vec<Lane> {
        self.parts.iter().flat_map(|part| part.lanes(shape)).collect()
    }

    fn describe_operations(&self, traits: &mut WorkloadTraits) {
        let names = self.operations();
        let transfers = [("read", Transfer::Read), ("write", Transfer::Write), ("fsync", Transfer::Flush)];
        for (operation, transfer) in transfers {
            for name in names.iter().filter(|name| name.ends_with(&format!(":{operation}"))) {
                let named = OperationTransfer { operation: Cow::Owned(name.clone()), transfer };
                traits.transfers.to_mut().push(named);
                if transfer == Transfer::Flush {
                    traits.supporting.to_mut().push(Cow::Owned(name.clone()));
                }
            }
        }
    }

    /// Where each job states how many operations it has.
    fn ends_by_itself(&self) -> bool {
        self.parts.iter().all(|part| part.job.plan.operations.is_some())
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for file in self.parts.iter().flat_map(|part| &part.job.plan.files) {
            if !files.contains(file) {
                files.push(file.clone());
            }
        }
        files
    }

    fn check(&self) -> Problems {
        survey::check(
            &self.parts.iter().map(|part| (part.job.name.as_str(), &part.job.plan)).collect::<Vec<_>>(),
        )
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        let Disk { parts, made, announcements, .. } = self;
        for part in parts.iter_mut() {
            part.choice = OnceLock::new();
            part.ready = None;
        }
        for part in parts {
            let ready = prepare::prepare(&part.job.plan, seed, (made, &**announcements), say)?;
            part.resident_before = facts::resident_share(&part.job.plan, &ready);
            part.ready = Some(ready);
        }
        self.driven.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        let part = self.part_of(share.lane);
        let Some((part, ready)) = part.and_then(|part| Some((part, part.ready.as_ref()?))) else {
            return Err(LoadError::new("the files are not prepared", ""));
        };
        self.driven.store(true, Ordering::Relaxed);
        let plan = &part.job.plan;
        let back_end =
            part.choose(&jobs::part(&part.job.shape(&self.default_shape()), 0, plan.lanes)).back_end;
        if let BackEnd::IoUring(_) = back_end {
            let worker = ring::RingWorker::new(plan, ready, share)?;
            part.registered.get_or_init(|| worker.registered());
            return Ok(Box::new(worker));
        }
        back_end.worker(plan, ready, share)
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let driven = self.driven.load(Ordering::Relaxed);
        facts::together(self.parts.iter().map(|part| (part.job.name.as_str(), part.facts(driven))).collect())
    }

    fn describe_failure(&self, code: u32) -> String {
        match Damage::ALL.iter().find(|damage| damage.code() == code) {
            Some(damage) => damage.words().into(),
            None => format!("failure {code}"),
        }
    }

    fn doubt_of_failure(&self, code: u32) -> DoubtKind {
        match Damage::ALL.iter().any(|damage| damage.code() == code) {
            true => DoubtKind::Corrupted,
            false => DoubtKind::Failures,
        }
    }

    fn release(&mut self) {
        for part in &mut self.parts {
            let files = part.ready.take().map_or_else(Vec::new, |ready| ready.files);
            self.claims.extend(files.into_iter().filter_map(|file| file.claim));
        }
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.parts.iter_mut().for_each(|part| part.ready = None);
        self.claims.clear();
        let mut result = Ok(());
        for file in self.made.drain(..) {
            if let Err(error) = file.clean_up() {
                result = Err(error);
            }
        }
        result
    }
}

#[cfg(test)]
pub(crate) mod tests;
