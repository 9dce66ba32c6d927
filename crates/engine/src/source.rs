//! Port 2: what we read.

use std::path::{Path, PathBuf};

use model::{MetricInfo, Nanos, Readings};

/// Where a host's files are: `/` for the machine itself, a folder for a fixture of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl HostRoot {
    /// This machine.
    pub fn live() -> Self {
        HostRoot(PathBuf::from("/"))
    }

    /// A tree that looks like a machine: `proc/`, `sys/`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        HostRoot(root.into())
    }

    /// The path of a file given from the root, such as `proc/stat`.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// True for this machine; a source that needs a system call rather than a file works only here.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// A kind of source: one static value per folder of the `counters` crate, registered in its `SOURCES`.
#[derive(Clone, Copy)]
pub struct SourceKind {
    /// Its name, such as `disk`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Every metric it may report.
    pub metrics: &'static [MetricInfo],
    /// What selects an instance in `watch = [...]`, such as `process` in `process:slapd`; empty for a source of
    /// the host, which needs no selection.
    pub selector: &'static str,
    /// Opens it. `selected` holds what was written after `selector:` in `watch`, in order; empty for sources of the host.
    pub open: OpenSource,
}

/// Opens a source on a host for what was selected.
pub type OpenSource = fn(root: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable>;

/// An open source.
pub trait Source: Send {
    /// Reads once and sets the columns of this sample. `now` is the time on the run's clock. Rates and means are over
    /// the time since the previous read of this source; the first read leaves them absent. A counter that went
    /// backwards leaves its rates absent.
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable>;

    /// What this source leaves out, in a sentence, such as "threads of 2 processes are sampled in turn"; empty for
    /// nothing.
    fn limits(&self) -> String {
        String::new()
    }
}

/// Why a source cannot be read, in words with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}
