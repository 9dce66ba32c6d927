//! Watches connected systems, to begin a run soon after a change. A watcher reports only that something changed: what
//! changed is the task of an import.

mod file;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::Changes;
use crate::config::AgentConfig;

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
    must_be_quiet: bool,
}

impl Watcher {
    /// Begins to watch the system of an agent. It reports only changes from now on.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn begin(agent: &AgentConfig, sink: WatchSink) -> std::io::Result<Watcher> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (changes, over) = (agent.system.changes(), Arc::clone(&is_over));
        let must_be_quiet = matches!(changes, Changes::Files(_));
        let watch = move || {
            let end = End(over);
            match changes {
                Changes::Files(paths) => file::watch(&paths, &end, &sink),
                Changes::Reported(mut listener) => server::watch(listener.as_mut(), &end, &sink),
                // The configuration allows no other system to be watched.
                Changes::Unknown(..) => {}
            }
        };
        let thread = std::thread::Builder::new().name("watch-agent".into()).spawn(watch)?;
        Ok(Watcher { is_over, thread: Some(thread), must_be_quiet })
    }

    /// Whether a change is complete only when the system is quiet: a file that is being written.
    pub fn must_be_quiet(&self) -> bool {
        self.must_be_quiet
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
