//! The `disk` workload: reads and writes of files and block devices, as SQLIO, diskspd, Iometer and fio issue them.
//!
//! What operation number `i` does is a pure function of the trial's seed, `i` and the settings (`pattern`), so that a
//! load can be shared among threads without any two doing the same. Each thread drives its own io_uring (`ring`), or
//! makes one system call at a time (`calls`), whichever is faster here (`choice`).
//!
//! A sequential load is one stream: block after block in the order of operation numbers, whichever thread issues them.
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
    Announce, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind,
};
use model::experiment::WorkloadInfo;
use model::run::{OperationTransfer, OperationUnit, Transfer, WorkloadTraits};
use model::{DoubtKind, Level, Problems, Settings, Shape};

use choice::{BackEnd, Choice};
use content::Damage;
use own::OwnFile;
use prepare::Ready;
pub use probe::{Ground, probe_ground, probe_io_uring};
pub use profile::{PROFILES, Profile};
use settings::DiskPlan;
pub use settings::{OUTSTANDING, PATTERN, SETTINGS};

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
            operations: &["read", "write", "fsync"],
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        Ok(Box::new(Disk {
            plan: DiskPlan::read(settings)?,
            choice: OnceLock::new(),
            ready: None,
            made: Vec::new(),
            announcements: Arc::new(Unannounced),
            claims: Vec::new(),
            resident_before: None,
            registered: OnceLock::new(),
            driven: AtomicBool::new(false),
        }))
    }

    fn check_load(&self, settings: &Settings, shape: &Shape) -> Problems {
        settings::check_load(settings, shape)
    }

    fn remains(&self, made: &Made, remove: bool) -> Remains {
        own::remains(made, remove)
    }
}

/// A configured disk load.
struct Disk {
    plan: DiskPlan,
    /// How the trial's operations are issued, once its files are ready and its shape is known.
    choice: OnceLock<Choice>,
    ready: Option<Ready>,
    /// Files to remove or to mark in the end.
    made: Vec<OwnFile>,
    announcements: Arc<dyn Announce>,
    /// Block devices that stay claimed between the trials.
    claims: Vec<Arc<File>>,
    /// Share of the files in the page cache before the load.
    resident_before: Option<f64>,
    /// What the rings of the workers could register with the kernel, from the first one made.
    registered: OnceLock<Vec<&'static str>>,
    /// Set once a worker was made: facts asked for later are those after the load.
    driven: AtomicBool,
}

impl Disk {
    fn choose(&self, shape: &Shape) -> Choice {
        match &self.ready {
            Some(ready) => self.choice.get_or_init(|| choice::choose(&self.plan, Some(ready), shape)).clone(),
            None => choice::choose(&self.plan, None, shape),
        }
    }

    fn in_flight(&self) -> u64 {
        u64::from(self.plan.threads) * u64::from(self.plan.outstanding)
    }
}

impl Workload for Disk {
    fn operations(&self) -> Vec<String> {
        stream::Kinds::of(&self.plan).0
    }

    fn default_shape(&self) -> Shape {
        Shape::closed(self.in_flight())
    }

    /// Chooses the back end, as the shape of the load is known only here.
    fn workers(&self, shape: &Shape) -> u32 {
        self.choose(shape).back_end.workers(&self.plan, shape)
    }

    fn files(&self) -> Vec<PathBuf> {
        self.plan.files.clone()
    }

    fn check(&self) -> Problems {
        survey::check(&self.plan)
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        self.choice = OnceLock::new();
        self.ready = None;
        let ready = prepare::prepare(&self.plan, seed, (&mut self.made, &*self.announcements), say)?;
        self.resident_before = facts::resident_share(&self.plan, &ready);
        self.ready = Some(ready);
        self.driven.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        let Some(ready) = &self.ready else {
            return Err(LoadError::new("the files are not prepared", ""));
        };
        self.driven.store(true, Ordering::Relaxed);
        let back_end = self.choose(&self.default_shape()).back_end;
        if let BackEnd::IoUring(_) = back_end {
            let worker = ring::RingWorker::new(&self.plan, ready, share)?;
            self.registered.get_or_init(|| worker.registered());
            return Ok(Box::new(worker));
        }
        back_end.worker(&self.plan, ready, share)
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = match &self.ready {
            Some(ready) => facts::facts(&self.plan, ready),
            None => facts::unprepared(&self.plan),
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
        if self.driven.load(Ordering::Relaxed)
            && let Some(after) =
                self.ready.as_ref().and_then(|ready| facts::resident_share(&self.plan, ready))
        {
            set("resident_share.after", Level::Number(after));
        }
        facts
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
        let files = self.ready.take().map_or_else(Vec::new, |ready| ready.files);
        self.claims.extend(files.into_iter().filter_map(|file| file.claim));
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.ready = None;
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
