//! Watches connected systems, to begin a run soon after a change. A watcher reports only that something changed: what
//! changed is the task of an import.

mod file;
mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::{AgentConfig, Sql, SqlDatabase, System};

/// How often a thread looks whether it is to end.
const SLICE: Duration = Duration::from_millis(200);

/// How long the end of a watcher waits for its thread, and how often it looks.
const END_WAIT: Duration = Duration::from_secs(2);
const END_LOOK: Duration = Duration::from_millis(10);

/// What a watcher reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The system changed, or may have changed while it was not watched.
    Changed,
    /// The system is not watched any more, for this reason. It is tried again.
    Lost(String),
    /// The system is watched again. Something may have been missed.
    Restored,
}

/// Receives what a watcher reports, on its thread.
pub type WatchSink = Box<dyn Fn(WatchEvent) + Send>;

/// Watches a connected system on a thread, until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to watch the system of an agent. It reports only changes from now on.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn begin(agent: &AgentConfig, sink: WatchSink) -> std::io::Result<Watcher> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (agent, over) = (agent.clone(), Arc::clone(&is_over));
        let watch = move || {
            let end = End(over);
            match files(&agent.system) {
                Some(paths) => file::watch(&paths, &end, &sink),
                None => server::watch(&agent, &end, &sink),
            }
        };
        let thread = std::thread::Builder::new().name("watch-agent".into()).spawn(watch)?;
        Ok(Watcher { is_over, thread: Some(thread) })
    }

    /// Whether a change is complete only when the system is quiet: a file that is being written.
    pub fn must_be_quiet(agent: &AgentConfig) -> bool {
        files(&agent.system).is_some()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let begin = Instant::now();
        while !thread.is_finished() {
            // It may wait for a server that does not answer. It reports nothing any more, and ends by itself.
            if begin.elapsed() > END_WAIT {
                return;
            }
            std::thread::sleep(END_LOOK);
        }
        // A panic was reported already.
        let _ = thread.join();
    }
}

/// Whether a watcher is to end.
struct End(Arc<AtomicBool>);

impl End {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits, unless the watcher is to end.
    fn wait(&self, time: Duration) {
        let begin = Instant::now();
        while !self.is_over() {
            let left = time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }
}

/// The files of a system; none if it is a server.
fn files(system: &System) -> Option<Vec<PathBuf>> {
    match system {
        System::Delimited(system) => {
            let delta = system.delta.iter().map(|delta| delta.path.clone());
            Some(std::iter::once(system.path.clone()).chain(delta).collect())
        }
        System::FixedWidth(system) => Some(vec![system.path.clone()]),
        System::AttributeValue(system) => Some(vec![system.path.clone()]),
        System::Ldif(system) => Some(vec![system.path.clone()]),
        System::Sql(Sql { database: SqlDatabase::Sqlite(path), .. }) => {
            let mut log = path.clone().into_os_string();
            log.push("-wal");
            Some(vec![path.clone(), log.into()])
        }
        System::Sql(_) | System::Ldap(_) | System::Scim(_) | System::Given(_) => None,
    }
}
