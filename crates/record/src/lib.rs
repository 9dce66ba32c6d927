//! The run directory: written during a run, and read afterwards.
//!
//! ```text
//! experiment.toml  plan.json  host.json  result.json  report.html  README.txt
//! trials/003-host.cpus=2.r2/
//!   run.json  intervals.csv  response.hlog  service.hlog  lag.hlog  readings.csv  metrics.json  events.jsonl
//! ```
//!
//! Every file has a published text format and is flushed once per interval. After a `kill -9` at any moment,
//! at most the last interval is missing, and the rest can be read, judged and compared. `docs/formats/`
//! describes each file. A truncated line is skipped on reading and reported in [`model::Study::damage`].
//!
//! A run directory may come from an untrusted source. Links in it are not followed, only regular files are
//! read, and the amount of data that is read and kept in memory is limited.
#![forbid(unsafe_code)]

mod compress;
mod directory;
mod histogram_log;
mod interval_csv;
mod journal;
mod limits;
mod lines;
mod log_copy;
mod memory;
mod mirror;
mod read;
#[doc(hidden)]
pub mod readers;
mod readings_csv;
mod row;
mod trial;
mod unended;

pub use directory::RunDirectory;
pub use histogram_log::{HistogramDecoder, OperationIntervals, encode_histogram};
pub use journal::{
    Bound, Elsewhere, Execution, FoundJournal, Header, Journal, JournalPlace, JournalState, Made, Pending,
    PendingMade, STATE_VARIABLE, elsewhere, parse_pending, prepare_state_folder, state_folder,
};
pub use limits::OPERATIONS_MAX;
pub use log_copy::{LogCopy, LogOf, copy_histogram_logs};
pub use mirror::WrittenReadings;
pub use read::{PLAN_FORMAT, read, read_every_sample, read_plan, read_trial, read_with};
pub use trial::TrialWriter;

use std::path::{Path, PathBuf};

/// An error of writing or reading a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system reported an error.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The operation: "write", "read", "create".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A newer version of Plimsoll wrote the record.
    #[error("{} has format {found}; this version reads {known} and older: use a newer version of Plimsoll", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format identifier.
        found: String,
        /// The supported format.
        known: &'static str,
    },
    /// The file is invalid.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        what: String,
    },
    /// A new run directory has content: that of another run, perhaps of one that began just now.
    #[error("{}: the folder is not empty, so another run may be using it; name another one with --run-dir", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// There is no private folder for a journal.
    #[error("{why}")]
    NoJournal {
        /// The reason, and what to do.
        why: String,
    },
    /// There is no record.
    #[error("`{}` is not a run directory: it has no `trials` folder. `plimsoll runs` lists the runs", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
}

impl RecordError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RecordError {
        let path = path.to_path_buf();
        move |source| RecordError::Io { action, path, source }
    }

    fn malformed(path: &Path, what: impl std::fmt::Display) -> RecordError {
        RecordError::Malformed { path: path.to_path_buf(), what: what.to_string() }
    }
}

/// Rejects a format identifier with a newer major version: `plimsoll.run/2.0` if `known` is
/// `plimsoll.run/1.0`.
fn check_format(path: &Path, found: &str, known: &'static str) -> Result<(), RecordError> {
    let split = |word: &str| -> Option<(String, u32)> {
        let (name, version) = word.split_once('/')?;
        let major = version.split('.').next()?.parse().ok()?;
        Some((name.to_string(), major))
    };
    match (split(found), split(known)) {
        (Some((name, major)), Some((known_name, known_major))) if name == known_name => {
            if major > known_major {
                return Err(RecordError::TooNew { path: path.to_path_buf(), found: found.into(), known });
            }
            Ok(())
        }
        _ => Err(RecordError::malformed(path, format!("format `{found}` where `{known}` was expected"))),
    }
}
