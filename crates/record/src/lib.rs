//! The run directory: written as it happens, read back.
//!
//! ```text
//! experiment.toml  plan.json  host.json  result.json  report.html  README.txt
//! trials/003-host.cpus=2.r2/
//!   run.json  intervals.csv  response.hlog  service.hlog  lag.hlog  readings.csv  metrics.json  events.jsonl
//! ```
//!
//! Every file is a published text format, flushed once an interval: after a `kill -9` at any moment at most the last
//! interval is missing, and what is there can be read, judged and compared. `docs/formats/` describes each file.
//! A line that was cut short is left out on reading, and [`model::Study::damage`] says so.
//!
//! A run directory may have been handed over by somebody else. Links in it are not followed, only regular files are read,
//! and how much of them is read and kept in memory is limited.
#![forbid(unsafe_code)]

mod compress;
mod directory;
mod histogram_log;
mod interval_csv;
mod journal;
mod limits;
mod lines;
mod read;
#[doc(hidden)]
pub mod readers;
mod readings_csv;
mod row;
mod trial;

pub use directory::RunDirectory;
pub use histogram_log::OperationIntervals;
pub use journal::{
    Found, Header, Journal, JournalPlace, Made, Pending, PendingMade, STATE_VARIABLE, parse_pending,
    prepare_state_folder, state_folder,
};
pub use read::{PLAN_FORMAT, read, read_plan, read_trial};
pub use trial::TrialWriter;

use std::path::{Path, PathBuf};

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system said no.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried: "write", "read", "create".
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The record was written by a newer Plimsoll.
    #[error("{} has format {found}; this version reads {known} and older: use a Plimsoll that knows it", path.display())]
    TooNew {
        /// Which file.
        path: PathBuf,
        /// Its format word.
        found: String,
        /// Ours.
        known: &'static str,
    },
    /// The file is not what it should be.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is no private folder to keep a journal in.
    #[error("{why}")]
    NoJournal {
        /// Why, and what to do.
        why: String,
    },
    /// There is no record there.
    #[error("`{}` is not a run directory: it has no `trials` folder. `plimsoll runs` lists the runs", path.display())]
    NotARun {
        /// Which folder.
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

/// Refuses a format word of a newer major version: `plimsoll.run/2.0` where `known` is `plimsoll.run/1.0`.
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
