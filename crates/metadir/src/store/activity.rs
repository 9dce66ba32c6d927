//! What a process that runs steps is doing, for processes that only read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::StoreError;
use super::postgres::Postgres;

/// How long a start waits for a lock that a reader may hold for a moment.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How often it is tried.
const LOCK_EVERY: Duration = Duration::from_millis(20);
/// Limit of a text in a lock file, bytes.
const TEXT_BYTES: usize = 4096;
/// How often a step announces its progress.
const ANNOUNCED_EVERY: Duration = Duration::from_millis(500);

/// What a process that holds the store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Its process number, on its computer.
    pub process: u32,
    /// The run; empty if it runs none.
    pub run: String,
    /// The agent of the step.
    pub agent: String,
    /// The step.
    pub step: String,
    /// Number of objects that the step finished.
    pub objects: u64,
    /// When the step began, seconds since 1970.
    pub since_unix_s: u64,
}

/// Tells other processes what this one is doing.
#[derive(Default)]
pub struct Announcer {
    to: Option<Channel>,
    last: Option<Instant>,
}

enum Channel {
    File(File),
    Server(Box<Postgres>),
}

impl Announcer {
    pub(super) fn to_file(file: Option<File>) -> Announcer {
        Announcer { to: file.map(Channel::File), last: None }
    }

    pub(super) fn to_server(client: Postgres) -> Announcer {
        Announcer { to: Some(Channel::Server(Box::new(client))), last: None }
    }

    /// Tells an activity now. An error has no effect on the step: readers see an older activity.
    pub fn announce(&mut self, activity: &Activity) {
        self.last = Some(Instant::now());
        let text = text_of(activity);
        match &mut self.to {
            Some(Channel::File(file)) => {
                // One write of fixed length, so that a reader never sees two texts mixed.
                let text = format!("{text:<TEXT_BYTES$}");
                let _ = file.write_at(text.as_bytes().get(..TEXT_BYTES).unwrap_or_default(), 0);
            }
            Some(Channel::Server(client)) => {
                client.keep_activity(&text);
            }
            None => {}
        }
    }

    /// Tells an activity if the last one is older than a moment.
    pub fn progress(&mut self, activity: &Activity) {
        if self.last.is_none_or(|last| last.elapsed() >= ANNOUNCED_EVERY) {
            self.announce(activity);
        }
    }
}

/// The lock file of a store in a file.
pub(super) fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Takes the lock of a store in a file for the life of the returned file.
pub(super) fn lock(store: &Path) -> Result<File, StoreError> {
    let path = files::private::file(&lock_path(store)).map_err(StoreError::File)?;
    let file = File::options().read(true).write(true).open(path).map_err(StoreError::File)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::Error(error)) => return Err(StoreError::File(error)),
            Err(std::fs::TryLockError::WouldBlock) if begin.elapsed() > LOCK_WAIT => {
                return Err(StoreError::Busy);
            }
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_EVERY),
        }
    }
}

/// What the process that has the lock of a store in a file is doing; none if no process has it.
pub(super) fn of_file(store: &Path) -> Option<Activity> {
    let file = File::open(lock_path(store)).ok()?;
    match file.try_lock_shared() {
        // It ended, or it was killed.
        Ok(()) => None,
        Err(_) => {
            let mut text = vec![0; TEXT_BYTES];
            let count = file.read_at(&mut text, 0).ok()?;
            text.truncate(count);
            Some(of_text(&String::from_utf8_lossy(&text)))
        }
    }
}

fn text_of(activity: &Activity) -> String {
    let Activity { process, run, agent, step, objects, since_unix_s } = activity;
    let value = json!({
        "process": process,
        "run": run,
        "agent": agent,
        "step": step,
        "objects": objects,
        "since_unix_s": since_unix_s,
    });
    value.to_string()
}

/// The activity of a stored text; it is empty before the first step of a process.
pub(super) fn of_text(text: &str) -> Activity {
    let value: Value = serde_json::from_str(text.trim()).unwrap_or_default();
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let number = |key: &str| value[key].as_u64().unwrap_or_default();
    Activity {
        process: number("process") as u32,
        run: text("run"),
        agent: text("agent"),
        step: text("step"),
        objects: number("objects"),
        since_unix_s: number("since_unix_s"),
    }
}
