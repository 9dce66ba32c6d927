//! The `sync` workload: runs the steps of a synchronization engine from outside, and counts objects as they are done.
//!
//! An operation is one object that one step has worked on. The engine is driven through its command line; lines of its
//! output say which step is at work and how many objects it has done so far. Objects that are reported together share the time since the
//! report before evenly. The last object of a step is done when the step is: what a step does after its objects belongs to it. What
//! lies between the steps, as the start of the engine, belongs to none.
//!
//! With `change` and `shows` it measures propagation instead: an operation is one change at the source, done once it shows at
//! the target.

mod folder;
mod kind;
mod lines;
mod paths;
mod process;
mod propagation;
mod settings;
mod worker;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use engine::workload::{
    Announce, LoadError, Made, Remains, Share, Unannounced, Worker, Workload, WorkloadKind,
};
use files::private::OwnFolder;
use model::experiment::WorkloadInfo;
use model::run::{GeneratorRole, OperationUnit, WorkloadTraits};
use model::{Level, Problems, Settings, Shape, quantity};

use kind::OPERATIONS;
use propagation::PropagationWorker;
use settings::SyncSettings;
use worker::SyncWorker;

use crate::own_folder::remains;

/// The kind.
pub static SYNC: SyncKind = SyncKind;

/// The `sync` workload's kind.
#[derive(Debug)]
pub struct SyncKind;

/// Its traits.
static TRAITS: WorkloadTraits = WorkloadTraits {
    ends_by_itself: true,
    unit: OperationUnit::Object,
    generator: GeneratorRole::Starts,
    for_more_operations: Cow::Borrowed("synchronize more users, or increase `changes`"),
    ..WorkloadTraits::NONE
};

impl WorkloadKind for SyncKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "sync",
            about: "Runs the steps of a synchronization engine and counts objects (staging, synchronization, export), or measures how long a change needs to propagate to the target.",
            settings: settings::SETTINGS,
            operations: OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        let settings = SyncSettings::read(settings)?;
        let announcements = Arc::new(Unannounced);
        Ok(Box::new(Sync { settings, announcements, folder: None, output: None, done: Mutex::default() }))
    }

    fn remains(&self, made: &Made, remove: bool) -> Remains {
        remains(made, remove, folder::MARK, folder::MARK_TEXT)
    }
}

/// A step that is over.
#[derive(Clone, Debug)]
struct StepDone {
    name: String,
    objects: u64,
    seconds: f64,
}

impl std::fmt::Display for StepDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let objects = quantity::thousands(self.objects as f64);
        write!(f, "{}: {objects} objects in {:.3} s", self.name, self.seconds)
    }
}

/// What a trial has done so far.
#[derive(Debug, Default)]
struct Progress {
    /// Times that all runs were begun.
    rounds: u64,
    /// Steps of the first round that are over. Those of later rounds are in the events.
    steps: Vec<StepDone>,
}

struct Sync {
    settings: SyncSettings,
    announcements: Arc<dyn Announce>,
    /// The folder, when this trial made it.
    folder: Option<OwnFolder>,
    /// Where the engine's output goes, since `prepare`.
    output: Option<File>,
    done: Mutex<Progress>,
}

impl Workload for Sync {
    fn operations(&self) -> Vec<String> {
        OPERATIONS.iter().map(ToString::to_string).collect()
    }

    fn default_shape(&self) -> Shape {
        Shape::closed(1)
    }

    /// An engine runs one step at a time.
    fn workers(&self, _shape: &Shape) -> u32 {
        1
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn operations_in_turn(&self) -> bool {
        self.settings.propagation.is_none()
    }

    fn check(&self) -> Problems {
        let mut problems = self.settings.check();
        if self.settings.template.is_some() {
            folder::check(&self.settings.directory, &mut problems);
        }
        problems
    }

    fn announce_to(&mut self, announcements: &Arc<dyn Announce>) {
        self.announcements = Arc::clone(announcements);
    }

    fn prepare(&mut self, _seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        let settings = &self.settings;
        let template = settings.template.as_deref().map(|text| (text, settings.config.as_str()));
        let announce = |made: &OwnFolder| {
            let folder = made.open().and_then(|folder| Made::new(made.path(), folder, 0, settings.keep));
            let looking = |error| LoadError::new(format!("{}: {error}", made.path().display()), "");
            self.announcements.announce(&folder.map_err(looking)?)
        };
        let mut made = folder::prepare(&settings.directory, template, announce)?;
        if settings.keep
            && let Some(made) = &mut made
        {
            made.keep();
        }
        self.folder = made;
        if let Some(path) = &self.settings.output {
            // Trial after trial goes into the same file.
            let file = files::Output::append(path, files::SHARED_FILE).map_err(|error| {
                LoadError::new(format!("the output cannot be written to `{}`: {error}", path.display()), "")
            })?;
            self.output = Some(file);
        }
        if let Some(script) = &self.settings.prepare {
            process::prepare(script, &self.settings, say)?;
        }
        Ok(())
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        Ok(match &self.settings.propagation {
            None => Box::new(SyncWorker::new(&self.settings, self.output.as_ref(), &self.done)?),
            Some(propagation) => Box::new(PropagationWorker::new(
                &self.settings,
                propagation,
                self.output.as_ref(),
                share.seed,
            )?),
        })
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let settings = &self.settings;
        let runs: Vec<&str> = settings.runs.iter().map(|run| run.command_line()).collect();
        let mut facts = paths::facts(&settings.paths);
        if !runs.is_empty() {
            facts.insert("commands".to_string(), Level::Text(runs.join("; ")));
        }
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, step) in done.steps.iter().enumerate() {
            facts.insert(format!("step.{}", at + 1), Level::Text(step.to_string()));
        }
        if done.rounds > 1 {
            facts.insert("rounds".into(), Level::Count(done.rounds));
        }
        facts
    }

    fn describe_failure(&self, code: u32) -> String {
        propagation::describe_failure(code)
    }

    fn release(&mut self) {
        self.output = None;
        self.done = Mutex::default();
    }

    fn clean_up(&mut self) -> Result<(), LoadError> {
        self.release();
        self.folder.take().map_or(Ok(()), |made| folder::finish(made, self.settings.keep))
    }
}

#[cfg(test)]
mod tests;
