//! The run directory: its folders and the files that are written once.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::{Directory, PRIVATE_FILE, PRIVATE_FOLDER};
use model::{Host, Plan};
use serde::Serialize;

use crate::{RecordError, TrialWriter};

/// Explains the run directory to users who find one.
const README: &str = "\
This folder is the record of one experiment, written by Plimsoll.

  experiment.toml   the experiment
  scenario.toml     the scenario of an HTTP load, without secrets
  plan.json         the trials in order, each with its reason
  host.json         the host
  result.json       every number and sentence shown anywhere
  report.html       the report for a browser, in one file
  target.log        output of the system under test, if Plimsoll started it
  unfinished.json   where the journal is, while the run is not complete
  trials/*/         one folder per trial:
    run.json          settings requested and in force, phases, sources, outcome
    intervals.csv     per interval and operation: offered issued completed late failed, response times
    *.hlog            HdrHistogram logs (format 1.3, V2 encoding): response, service, lag; values in nanoseconds
    readings.csv      counters, one row per sample, one column per metric and instance
    metrics.json      description of these columns
    events.jsonl      events with their times
Once a trial is over readings.csv, and intervals.csv of a long trial, are compressed: NAME.gz.

All times are seconds since the start of the trial's warm-up. An empty cell was not measured; it is not zero.
  plimsoll show DIR      the result            plimsoll report DIR    the report
  plimsoll explain DIR   the evidence          plimsoll export DIR    CSV, JSON
";

/// The largest text file that is read again: a scenario with its bodies.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// A run directory that is being written.
///
/// It and its folder of trials are open. So all writes are to these folders, even if their names change or
/// links are placed in them.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    folder: Arc<Directory>,
    trials: Arc<Directory>,
}

impl RunDirectory {
    /// Creates a new run directory. An existing folder must be empty. Only the owner can read what is
    /// created. Of several processes that create the same one, only the first succeeds.
    ///
    /// # Errors
    /// [`RecordError::Taken`] when it is not empty; and when it cannot be written.
    pub fn create(path: &Path, experiment_text: &str, host: &Host) -> Result<RunDirectory, RecordError> {
        let folder = make(path).map_err(RecordError::io("create", path))?;
        let taken = || RecordError::Taken { path: path.to_path_buf() };
        if !folder.names().map_err(RecordError::io("read", path))?.is_empty() {
            return Err(taken());
        }
        // Only one process creates this folder, and nothing is written before.
        let trials = folder.create_folder("trials", PRIVATE_FOLDER).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken(),
            _ => RecordError::io("create", &path.join("trials"))(error),
        })?;
        let directory =
            RunDirectory { path: path.to_path_buf(), folder: Arc::new(folder), trials: Arc::new(trials) };
        directory.write_text("README.txt", README)?;
        directory.write_text("experiment.toml", experiment_text)?;
        directory.write_json("host.json", host)?;
        Ok(directory)
    }

    /// Opens a run directory to resume an interrupted experiment, or to write its report again. A link
    /// instead of the folder of trials is refused.
    pub fn open(path: &Path) -> Result<RunDirectory, RecordError> {
        let (folder, trials) = open(path)?;
        Ok(RunDirectory { path: path.to_path_buf(), folder: Arc::new(folder), trials: Arc::new(trials) })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a trial's folder.
    pub fn trial_path(&self, id: &str) -> PathBuf {
        self.path.join("trials").join(id)
    }

    /// Writes or replaces `plan.json`.
    pub fn write_plan(&self, plan: &Plan) -> Result<(), RecordError> {
        self.write_json("plan.json", plan)
    }

    /// Writes or replaces `result.json` atomically. The caller provides its text, with the numbers and
    /// sentences of the result.
    pub fn write_result(&self, json: &str) -> Result<(), RecordError> {
        self.write_text("result.json", json)
    }

    /// Writes or replaces a text file such as `report.html` atomically.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), RecordError> {
        write_whole(&self.folder, name, text.as_bytes(), Durability::Written)
    }

    /// Reads a text file that [`RunDirectory::write_text`] wrote; none if there is none.
    pub fn read_text(&self, name: &str) -> Result<Option<String>, RecordError> {
        let path = self.path.join(name);
        match self.folder.read(name, TEXT_BYTES_MAX) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                text.map(Some).map_err(|_| RecordError::malformed(&path, "the file is not UTF-8"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordError::io("read", &path)(error)),
        }
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), RecordError> {
        write_whole(&self.folder, name, &to_json(&self.path.join(name), value)?, Durability::Written)
    }

    /// Creates the folder of a trial. A link with its name is refused.
    pub fn trial(&self, id: &str) -> Result<TrialWriter, RecordError> {
        TrialWriter::create(&self.trials, id)
    }
}

pub(crate) fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| RecordError::malformed(path, error))?;
    text.push(b'\n');
    Ok(text)
}

/// Opens the folder of a run and its folder of trials, which must not be a link.
pub(crate) fn open(path: &Path) -> Result<(Directory, Directory), RecordError> {
    let not_a_run = || RecordError::NotARun { path: path.to_path_buf() };
    let is_absent =
        |error: &std::io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let open = |opened: std::io::Result<Directory>, path: &Path| match opened {
        Ok(directory) => Ok(directory),
        Err(error) if is_absent(&error) => Err(not_a_run()),
        Err(error) => Err(RecordError::io("open", path)(error)),
    };
    let folder = open(Directory::open(path), path)?;
    let trials = open(folder.open_folder("trials"), &path.join("trials"))?;
    Ok((folder, trials))
}

/// Creates the folder of a run and its parents for this user only; an existing folder is opened unchanged.
fn make(path: &Path) -> std::io::Result<Directory> {
    if let Ok(directory) = Directory::open(path) {
        return Ok(directory);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(parent)?;
    }
    let (parent, name) = Directory::of_file(path)?;
    parent.make_folder(name, PRIVATE_FOLDER)
}

/// The durability of a written file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A reader finds the old text or the new one.
    Written,
    /// The same applies after a power failure.
    Synced,
}

/// Replaces a file atomically: a reader, or a kill at any moment, finds the old text or the new one. A link
/// with this name is itself replaced.
pub(crate) fn write_whole(
    directory: &Directory,
    name: &str,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), RecordError> {
    let write = || {
        let mut replacement = directory.replacement(name, PRIVATE_FILE)?;
        replacement.file().write_all(bytes)?;
        if durability == Durability::Synced {
            replacement.file().sync_all()?;
        }
        replacement.finish()
    };
    write().map_err(RecordError::io("write", &directory.path().join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_that_create_one_directory_one_succeeds() {
        let scratch = testkit::Scratch::new();
        for exists in [false, true] {
            let path = scratch.join(if exists { "empty" } else { "new" });
            if exists {
                std::fs::create_dir(&path).unwrap();
            }
            let begin = std::sync::Barrier::new(8);
            let create = || {
                begin.wait();
                RunDirectory::create(&path, "", &Host::default())
            };
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
            let is_taken = |result: &Result<_, _>| matches!(result, Err(RecordError::Taken { .. }));
            assert_eq!(results.iter().filter(|result| is_taken(result)).count(), 7, "{results:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_number_is_read_back_to_the_last_bit(number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
            let text = to_json(Path::new("result.json"), &number).unwrap();
            let again: f64 = serde_json::from_slice(&text).unwrap();
            proptest::prop_assert_eq!(again.to_bits(), number.to_bits());
        }
    }
}
