//! The `copy` workload: copies a file or a folder of files past the page cache, or through it, and ends by itself.
//!
//! One operation is one block, read and then written. A copy through the page cache is measured in full only once it is
//! on the device, so by default a flush of each file follows as operations of their own.

mod block;
mod calls;
mod failure;
mod place;
mod plan;
mod progress;
mod ring;
mod settings;
mod sizes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use engine::allowed::{Allowed, Opener, refusals};
use engine::workload::{
    Announce, Drain, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind, find,
};
use model::experiment::WorkloadInfo;
use model::run::{GeneratorRole, OperationUnit, WorkloadTraits};
use model::{Choice, Level, Problems, Settings, Shape, quantity};

use plan::Plan;
use progress::{Copied, Progress};
use settings::{BACK_END, BackEnd, CopySettings, Source};

/// The kind.
pub static COPY: CopyKind = CopyKind;

static OPERATIONS: &[&str] = &["copy", "sync"];

/// Place of a copied block in [`OPERATIONS`].
const KIND_COPY: u16 = 0;
/// Place of a flush in [`OPERATIONS`].
const KIND_SYNC: u16 = 1;

/// The `copy` workload's kind.
#[derive(Debug)]
pub struct CopyKind;

/// What sort of load it is.
static TRAITS: WorkloadTraits = WorkloadTraits {
    storage: true,
    ends_by_itself: true,
    unit: OperationUnit::Io,
    generator: GeneratorRole::DoesTheWork,
    load_settings: Cow::Borrowed(&[Cow::Borrowed("outstanding")]),
    supporting: Cow::Borrowed(&[Cow::Borrowed("sync")]),
    for_more_operations: Cow::Borrowed("copy more"),
    ..WorkloadTraits::NONE
};

impl WorkloadKind for CopyKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "copy",
            about: "Copies a file or a folder, by default past the page cache; throughput over time shows when a cache on the way is full.",
            settings: settings::SETTINGS,
            operations: OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        let (settings, announcements) = (CopySettings::read(settings)?, Arc::new(Unannounced));
        Ok(Box::new(Copy { settings, announcements, progress: None, copied: None }))
    }

    /// A copy is not reported from a file of the user's, and so never removed.
    fn remains(&self, made: &Made, _remove: bool) -> Remains {
        match find(made) {
            Err(remains) => remains,
            Ok((_, metadata)) => {
                let bytes = quantity::bytes(made.bytes);
                let there = match metadata.is_dir() {
                    true => format!("a copy of {bytes} into it was not completed"),
                    false => {
                        format!("a copy was not completed, {} of {bytes}", quantity::bytes(metadata.len()))
                    }
                };
                Remains::NotRemovable(format!("{there}: copy again with `--overwrite`, or remove it by hand"))
            }
        }
    }

    fn check_load(&self, settings: &Settings, shape: &Shape) -> Problems {
        CopySettings::check_load(settings, shape)
    }
}

struct Copy {
    settings: CopySettings,
    announcements: Arc<dyn Announce>,
    /// Since `prepare`, until the trial is over.
    progress: Option<Progress>,
    /// The copy of a trial that is over, or why it could not be cleaned up.
    copied: Option<Result<Copied, LoadError>>,
}

impl Copy {
    /// The back end that will be used: the requested one, or io_uring where the kernel permits it.
    fn rings(&self) -> bool {
        match self.settings.back_end {
            BackEnd::Auto => ring::permitted().is_ok(),
            BackEnd::IoUring => true,
            BackEnd::SystemCalls => false,
        }
    }
}

impl Workload for Copy {
    fn operations(&self) -> Vec<String> {
        OPERATIONS.iter().map(ToString::to_string).collect()
    }

    fn default_shape(&self) -> Shape {
        Shape::closed(u64::from(self.settings.outstanding))
    }

    /// A ring keeps any number of blocks in flight on one thread; a system call only one.
    fn workers(&self, shape: &Shape) -> u32 {
        match shape {
            _ if self.rings() => 1,
            Shape::Closed { users, .. } => (users.largest() as u32).clamp(1, settings::OUTSTANDING_MAX),
            Shape::Open { .. } => self.settings.outstanding,
        }
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn files(&self) -> Vec<PathBuf> {
        let source = match &self.settings.source {
            Source::Path(path) => Some(path.clone()),
            Source::Generated { .. } => None,
        };
        source.into_iter().chain([self.settings.destination.clone()]).collect()
    }

    fn limit_to(&mut self, allowed: &Arc<Allowed>) -> Problems {
        self.settings.opener = Opener::limited_to(allowed);
        refusals(self.files().iter().map(|file| allowed.file(file)))
    }

    fn check(&self) -> Problems {
        let mut problems = match Plan::make(&self.settings) {
            Ok(plan) => plan.check(&self.settings),
            Err(problems) => problems,
        };
        if self.settings.back_end == BackEnd::IoUring
            && let Err(error) = ring::permitted()
        {
            problems.push(
                model::Problem::new(
                    format!("io_uring cannot be used: {error}"),
                    "see /proc/sys/kernel/io_uring_disabled",
                )
                .about(&[&BACK_END])
                .or_set(&BACK_END, BackEnd::SystemCalls.level()),
            );
        }
        problems
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        let plan = Plan::make(&self.settings)
            .map_err(|problems| LoadError::new(problems.to_string(), "nothing was copied"))?;
        if !say(&format!("{} files, {} bytes to copy", plan.files.len(), plan.bytes)) {
            return Ok(());
        }
        let places = plan.make_folders(&self.settings)?;
        let progress = Progress::new(plan, places, &self.settings, seed);
        progress.begin_as_if_new()?;
        // It removes what it has made, however this ends.
        match self.progress.insert(progress).begin()? {
            Some(made) => self.announcements.announce(&made),
            None => Ok(()),
        }
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        let Some(progress) = &self.progress else {
            return Err(LoadError::new("the copy was not prepared", ""));
        };
        Ok(if self.rings() {
            Box::new(ring::RingWorker::new(progress, share.in_flight_max)?)
        } else {
            Box::new(calls::CallWorker::new(progress))
        })
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let mut facts = self.settings.facts();
        let back_end = if self.rings() { "io_uring" } else { "system-calls" };
        let (basis, reason) = match (self.settings.back_end, ring::permitted()) {
            (BackEnd::Auto, Ok(())) => ("rule", "the kernel permits it".into()),
            (BackEnd::Auto, Err(why)) => ("refused", format!("the kernel refuses io_uring ({why})")),
            _ => ("requested", "the experiment requests it".into()),
        };
        for (name, text) in [
            ("back_end", back_end.to_string()),
            ("back_end.basis", basis.into()),
            ("back_end.reason", reason),
        ] {
            facts.insert(name.into(), Level::Text(text));
        }
        if let Some(progress) = &self.progress {
            facts.extend(progress.facts());
        }
        facts
    }

    fn describe_failure(&self, code: u32) -> String {
        std::io::Error::from_raw_os_error(code.cast_signed()).to_string()
    }

    fn drain(&self) -> Option<Drain> {
        self.settings.drain()
    }

    fn unwritten_bytes(&self) -> Option<u64> {
        self.progress.as_ref()?.unwritten_bytes()
    }

    fn release(&mut self) {
        if let Some(progress) = self.progress.take() {
            self.copied = Some(progress.finish(self.settings.discard));
        }
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.release();
        self.copied.take().map_or(Ok(()), |copied| copied.map(Copied::hand_over))
    }
}

#[cfg(test)]
mod tests;
