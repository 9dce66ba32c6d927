//! Port 2: sources of counters.

use std::path::{Path, PathBuf};

use model::{MetricInfo, Nanos, Readings};

/// The root of a host's files: `/` for this machine, a folder for a fixture of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl HostRoot {
    /// This machine.
    pub fn live() -> Self {
        HostRoot(PathBuf::from("/"))
    }

    /// A folder with the structure of a machine: `proc/`, `sys/`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        HostRoot(root.into())
    }

    /// The path of a file relative to the root, for example `proc/stat`.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Whether this is the present machine; a source that needs system calls works only here.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// A kind of source: one static value per folder of the `counters` crate, registered in its `SOURCES`.
#[derive(Clone, Copy)]
pub struct SourceKind {
    /// Its name, for example `disk`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Every metric it may report.
    pub metrics: &'static [MetricInfo],
    /// The selector of an instance in `watch = [...]`, for example `process` in `process:slapd`; empty for a
    /// source of the host, which needs no selection; [`EXPORTER`] for exporters, each of which is a source of its own.
    pub selector: &'static str,
    /// Opens the source. `selected` has the texts after `selector:` in `watch`, in order; empty for sources
    /// of the host; for an exporter, its whole entry.
    pub open: OpenSource,
}

/// The selector of exporters of other hosts, whose entries have a URL.
pub const EXPORTER: &str = "://";

/// Opens a source on a host for the selected instances.
pub type OpenSource = fn(root: &HostRoot, selected: &[String]) -> Result<Box<dyn Source>, Unavailable>;

/// An open source.
pub trait Source: Send {
    /// Reads the counters and sets the columns of this sample. `now` is the time on the run's clock. Rates
    /// and means refer to the time since the previous read; the first read leaves them absent. A counter that
    /// decreased leaves its rates absent.
    fn read(&mut self, now: Nanos, out: &mut Readings) -> Result<(), Unavailable>;

    /// The limitation of this source, in a sentence such as "threads of 2 processes are sampled in turn";
    /// empty if there is none.
    fn limits(&self) -> String {
        String::new()
    }
}

/// Why a source cannot be read, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}
