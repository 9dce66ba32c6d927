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
//! Files that Plimsoll makes carry a mark (`mark`). They are used again without being rewritten, and only they may be
//! written without being named in `overwrite`, and only while their content is Plimsoll's. A file made without `keep` is
//! removed by `clean_up`; one that a killed run left only by a run that wrote to it.

mod backing;
mod buffer;
mod calls;
mod choice;
mod claim;
mod content;
mod contradictions;
pub mod diskspd;
mod facts;
mod failure;
pub mod fio;
mod flow;
mod grammar;
pub mod jobs;
mod mark;
pub mod missing;
mod nothing;
mod own;
pub mod pasted;
mod pattern;
mod prepare;
mod probe;
mod profile;
mod random;
mod ring;
mod sample;
mod settings;
mod sprandom;
mod spread;
pub mod sqlio;
mod stream;
mod survey;
mod target;
mod typed;
mod walk;
mod zones;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use engine::allowed::{Allowed, Opener, refusals};
use engine::workload::{
    Announce, Lane, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind,
};
use model::experiment::WorkloadInfo;
use model::run::{OperationTransfer, OperationUnit, Transfer, WorkloadTraits};
use model::{DoubtKind, Level, Problems, Settings, Shape};

use choice::{BackEnd, Choice};
use content::Damage;
use flow::Flow;
use jobs::Job;
use prepare::{Kept, Ready};
pub use probe::{Storage, probe_io_uring, probe_storage};
pub use profile::{PROFILES, Profile};
use settings::{BackEndChoice, CachedPages};
pub use settings::{
    JOBS, OUTSTANDING, OVERWRITE, OVERWRITE_SIGNATURE, PATTERN, SETTINGS, SIZE, adjusted_size,
};
pub use survey::held_by_overwritten;
use zones::Zones;

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
            kept: Kept::default(),
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
    kept: Kept,
    announcements: Arc<dyn Announce>,
    /// Block devices that stay claimed between the trials.
    claims: Vec<Arc<File>>,
    /// Set once a worker was made: facts read later are those after the load.
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

/// Jobs that verify the same files know of each other's writes.
fn share_ledgers(parts: &mut [Part]) {
    for at in 0..parts.len() {
        let files = &parts[at].job.plan.files;
        let verifies = |part: &Part| part.job.plan.verify && part.job.plan.files == *files;
        if !verifies(&parts[at]) || parts[at].ready.as_ref().is_none_or(|ready| ready.ledger.is_some()) {
            continue;
        }
        let together: Vec<usize> = (at..parts.len()).filter(|other| verifies(&parts[*other])).collect();
        let jobs: Vec<(u64, Vec<u64>)> = together
            .iter()
            .map(|other| &parts[*other])
            .map(|part| {
                (
                    part.job.plan.offset,
                    part.ready.iter().flat_map(|ready| &ready.files).map(|file| file.bytes).collect(),
                )
            })
            .collect();
        let ledger = Arc::new(prepare::Ledger::new(parts[at].job.plan.unit(), &jobs));
        for other in together {
            if let Some(ready) = &mut parts[other].ready {
                ready.ledger = Some(Arc::clone(&ledger));
            }
        }
    }
}

/// Jobs on the same file have the same zones, as far as they agree on their size.
fn share_zones(ready: &mut Ready, known: &mut Vec<(PathBuf, Arc<Zones>)>) {
    let (Some(zones), Some(file)) = (&ready.zones, ready.files.first()) else { return };
    let same = known.iter().find(|(path, other)| *path == file.path && other.bytes() == zones.bytes());
    match same {
        Some((_, other)) => ready.zones = Some(Arc::clone(other)),
        None => known.push((file.path.clone(), Arc::clone(zones))),
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
        // Without I/O no figure is a disk's.
        traits.storage &= self.parts.iter().any(|part| part.job.plan.back_end != BackEndChoice::Nothing);
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
        self.parts.iter().all(|part| part.job.plan.has_end())
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

    fn limit_to(&mut self, allowed: &Arc<Allowed>) -> Problems {
        for part in &mut self.parts {
            part.job.plan.opener = Opener::limited_to(allowed);
        }
        // It is asked again when they are opened: here, so that all of them are named.
        let mut files = self.files();
        files.extend(self.parts.iter().filter_map(|part| part.job.plan.compressible_like.clone()));
        refusals(files.iter().map(|file| allowed.file(file)))
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        let Disk { parts, kept, announcements, .. } = self;
        for part in parts.iter_mut() {
            part.choice = OnceLock::new();
            part.ready = None;
        }
        let mut zones = Vec::new();
        let mut flows: BTreeMap<u32, Arc<Flow>> = BTreeMap::new();
        for part in parts {
            let plan = &mut part.job.plan;
            if let Some(like) = plan.compressible_like.take() {
                let sample = sample::of_file(&plan.opener, &like)
                    .map_err(|error| failure::failed("sample", &like, &error))?;
                plan.compressible_percent = (sample.repeated_share * 100.0).round();
            }
            let mut ready = prepare::prepare(&part.job.plan, seed, (kept, &**announcements), say)?;
            share_zones(&mut ready, &mut zones);
            ready.flow =
                part.job.weight.map(|(weight, group)| (Arc::clone(flows.entry(group).or_default()), weight));
            part.resident_before = facts::resident_share(&part.job.plan, &ready);
            part.ready = Some(ready);
        }
        share_ledgers(&mut self.parts);
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
        if matches!(plan.cached_pages, CachedPages::Drop | CachedPages::DropEachPass) {
            ready.files.iter().for_each(prepare::ReadyFile::drop_cached_pages);
        }
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
        let mut facts = facts::together(
            self.parts.iter().map(|part| (part.job.name.as_str(), part.facts(driven))).collect(),
        );
        if !self.kept.preconditioned.is_empty() {
            let done = self.kept.preconditioned.values();
            let (bytes, s) = done.fold((0, 0.0), |(bytes, s), next| (bytes + next.bytes, s + next.s));
            facts.insert("precondition.written_bytes".into(), Level::Bytes(bytes));
            facts.insert("precondition.s".into(), Level::Number(s));
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
        for part in &mut self.parts {
            let files = part.ready.take().map_or_else(Vec::new, |ready| ready.files);
            self.claims.extend(files.into_iter().filter_map(|file| file.claim));
        }
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.parts.iter_mut().for_each(|part| part.ready = None);
        self.claims.clear();
        let mut result = Ok(());
        for file in self.kept.made.drain(..) {
            if let Err(error) = file.clean_up() {
                result = Err(error);
            }
        }
        result
    }
}

#[cfg(test)]
pub(crate) mod tests;
