//! The `command` workload: launches a command again and again, and times each launch until it exits, a port answers, a
//! line appears, a web page is served or a window appears.
//!
//! An operation holds nothing but the launch. What comes before it and is not to be timed (ending the previous launch,
//! the `prepare` command, dropping the page cache) is done while the worker answers `Preparing`: the loop then reaps, the
//! reap prepares, and the launch happens in the submission that is accepted. The time an operation was issued is therefore
//! the time of its accepted submission.
//!
//! Every launch is a process group of its own, which is always ended as a whole: politely at first, and also when
//! Plimsoll itself is killed. Only a process that leaves its group, as a daemon does, escapes.

mod looks;
mod readiness;
mod settings;
mod usage;
mod window;
mod worker;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::clock::Clock;
use engine::workload::{Admission, Combined, LoadError, Operation, Share, Worker, Workload, WorkloadKind};
use model::experiment::WorkloadInfo;
use model::random::Random;
use model::run::{GeneratorRole, OperationUnit, WorkloadTraits};
use model::{Level, MILLISECOND, Nanos, Problems, Settings, Shape};

use readiness::Until;
use settings::CommandSettings;
use worker::{CommandWorker, Failure};

/// The kind.
pub static COMMAND: CommandKind = CommandKind;

static OPERATIONS: &[&str] = &["first", "later"];

/// How often progress is shown and an interruption is noticed during the launches of a warm-up.
const WARM_UP_LOOK: Nanos = 250 * MILLISECOND;

/// Most launches side by side.
const WORKERS_MAX: u32 = 256;

/// The `command` workload's kind.
#[derive(Debug)]
pub struct CommandKind;

/// What sort of load it is.
static TRAITS: WorkloadTraits = WorkloadTraits {
    ends_by_itself: true,
    operations_apart: true,
    unit: OperationUnit::Launch,
    generator: GeneratorRole::Starts,
    for_more_operations: Cow::Borrowed("launch it more often with `--repeat`"),
    ..WorkloadTraits::NONE
};

impl WorkloadKind for CommandKind {
    fn info(&self) -> WorkloadInfo {
        WorkloadInfo {
            name: "command",
            about: "Launches a command and times it until it exits, a port answers, a line appears, a web page is served or a window appears.",
            settings: settings::SETTINGS,
            operations: OPERATIONS,
            traits: &TRAITS,
        }
    }

    fn configure(&self, settings: &Settings) -> Result<Box<dyn Workload>, Problems> {
        let settings = CommandSettings::read(settings)?;
        Ok(Box::new(CommandLoad {
            settings,
            output: None,
            addresses: Vec::new(),
            launched: AtomicU64::new(0),
        }))
    }
}

struct CommandLoad {
    settings: CommandSettings,
    /// Where the command's output goes, since `prepare`.
    output: Option<File>,
    /// The address of the port or page, since `prepare`.
    addresses: Vec<std::net::SocketAddr>,
    /// Launches so far, of all workers.
    launched: AtomicU64,
}

impl CommandLoad {
    /// Launches what is not measured.
    fn warm_up(&self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        if self.settings.warmup == 0 {
            return Ok(());
        }
        let mut settings = self.settings.clone();
        settings.repeat = settings.warmup;
        let launched = AtomicU64::new(0);
        let random = Random::stream(seed, 0);
        let mut worker =
            CommandWorker::new(&settings, self.output.as_ref(), &self.addresses, &launched, random)?;
        let clock = Clock::get();
        let mut done = Vec::new();
        let mut say_at = clock.now();
        while worker.submit(Operation::new(0, 0)) != Admission::Exhausted {
            let now = clock.now();
            if now >= say_at {
                say_at = now.saturating_add(WARM_UP_LOOK);
                let number = launched.load(Ordering::Relaxed);
                if !say(&format!("warm-up: launch {number} of {}", settings.repeat)) {
                    return Ok(());
                }
            }
            worker.reap(say_at, &mut done)?;
            done.clear();
            if let Some(usages) = worker.usages() {
                usages.clear();
            }
        }
        Ok(())
    }
}

impl Workload for CommandLoad {
    fn operations(&self) -> Vec<String> {
        OPERATIONS.iter().map(ToString::to_string).collect()
    }

    fn default_shape(&self) -> Shape {
        Shape::closed(1)
    }

    /// One launch at a time for each virtual user. Arrivals of an open loop that come meanwhile wait, and are late.
    fn workers(&self, shape: &Shape) -> u32 {
        match shape {
            Shape::Closed { users, .. } => (users.largest() as u32).clamp(1, WORKERS_MAX),
            Shape::Open { .. } => 1,
        }
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn check(&self) -> Problems {
        self.settings.check()
    }

    fn prepare(&mut self, seed: u64, say: &mut dyn FnMut(&str) -> bool) -> Result<(), LoadError> {
        if let Some(host) = self.settings.until.host() {
            self.addresses = engine::readiness::resolve(host)
                .map_err(|error| LoadError::new(error, "is the name of the host right?"))?;
        }
        if let Some(path) = &self.settings.output {
            let file = files::Output::create(path, files::SHARED_FILE)
                .and_then(files::Output::into_file)
                .map_err(|error| {
                    LoadError::new(
                        format!("the output cannot be written to `{}`: {error}", path.display()),
                        "",
                    )
                })?;
            self.output = Some(file);
        }
        self.launched.store(0, Ordering::Relaxed);
        self.warm_up(seed, say)
    }

    fn release(&mut self) {
        self.output = None;
        self.addresses = Vec::new();
    }

    fn worker(&self, share: &Share) -> Result<Box<dyn Worker + '_>, LoadError> {
        Ok(Box::new(CommandWorker::new(
            &self.settings,
            self.output.as_ref(),
            &self.addresses,
            &self.launched,
            Random::stream(share.seed, u64::from(share.index)),
        )?))
    }

    fn facts(&self) -> BTreeMap<String, Level> {
        let settings = &self.settings;
        let mut facts = BTreeMap::from([
            ("command".into(), Level::Text(settings.command_line().into())),
            ("program".into(), Level::Text(settings.program())),
            ("until".into(), Level::Text(settings.until.to_string())),
            (
                "cache".into(),
                Level::Text(if settings.cold { "dropped before each launch" } else { "as it was" }.into()),
            ),
            ("launches".into(), Level::Count(self.launched.load(Ordering::Relaxed))),
        ]);
        if let Some(resolution) = settings.until.resolution() {
            facts.insert("resolution".into(), Level::Time(resolution));
        }
        facts
    }

    fn combined(&self, fact: &str) -> Combined {
        if fact == "launches" { Combined::Sum } else { Combined::Equal }
    }

    fn describe_failure(&self, code: u32) -> String {
        Failure::describe(code)
    }
}

impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Until::Exit => f.write_str("exit"),
            Until::Port(host) => write!(f, "port {host} answers"),
            Until::Line(pattern) => write!(f, "a line matches {pattern}"),
            Until::Http(page) => write!(f, "{page} is served"),
            Until::Window(title) => write!(f, "a window with `{title}` in its title appears"),
        }
    }
}

#[cfg(test)]
mod tests;
