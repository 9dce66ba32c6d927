//! The run directory as a whole: its folders and the files that are written once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use model::{Host, Plan, ResultDocument};
use serde::Serialize;

use crate::{RecordError, TrialWriter};

/// How to read a run directory, for the person who finds one.
const README: &str = "\
This folder is one experiment, recorded by Plimsoll.

  experiment.toml   what was asked for
  plan.json         the trials in order, each with the reason it was chosen
  host.json         where it ran
  result.json       every number shown anywhere
  report.html       the report; open it in a browser, it needs nothing else
  target.log        what the system under test printed, if one was started
  trials/*/         one folder per trial:
    run.json          settings asked and in force, phases, sources, how it ended
    intervals.csv     per interval and operation: offered issued completed late failed, response times
    *.hlog            HdrHistogram logs (format 1.3, V2 encoding): response, service, lag; values in nanoseconds
    readings.csv      counters, one row per sample, one column per metric and instance
    metrics.json      what each of those columns means
    events.jsonl      dated facts
Once a trial is over readings.csv, and intervals.csv of a long trial, are compressed: NAME.gz.

All times are seconds since the start of the trial's warm-up. An empty cell was not measured; it is not zero.
  plimsoll show DIR      the result again      plimsoll report DIR    the report again
  plimsoll explain DIR   why                   plimsoll export DIR    CSV, JSON
";

/// A run directory that is being written.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes a new run directory. The folder may exist if it is empty; one that holds something is left alone.
    pub fn create(path: &Path, experiment_text: &str, host: &Host) -> Result<RunDirectory, RecordError> {
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(RecordError::malformed(
                path,
                "the folder is not empty; name another one with --run-dir",
            ));
        }
        let trials = path.join("trials");
        fs::create_dir_all(&trials).map_err(RecordError::io("create", &trials))?;
        let directory = RunDirectory { path: path.to_path_buf() };
        directory.write_text("README.txt", README)?;
        directory.write_text("experiment.toml", experiment_text)?;
        directory.write_json("host.json", host)?;
        Ok(directory)
    }

    /// Opens one to go on with an interrupted experiment.
    pub fn open(path: &Path) -> Result<RunDirectory, RecordError> {
        if !path.join("trials").is_dir() {
            return Err(RecordError::NotARun { path: path.to_path_buf() });
        }
        Ok(RunDirectory { path: path.to_path_buf() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a trial.
    pub fn trial_path(&self, id: &str) -> PathBuf {
        self.path.join("trials").join(id)
    }

    /// Writes or replaces `plan.json`.
    pub fn write_plan(&self, plan: &Plan) -> Result<(), RecordError> {
        self.write_json("plan.json", plan)
    }

    /// Writes or replaces `result.json`.
    pub fn write_result(&self, result: &ResultDocument) -> Result<(), RecordError> {
        self.write_json("result.json", result)
    }

    /// Writes or replaces a text file such as `report.html`, whole or not at all.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), RecordError> {
        write_whole(&self.path.join(name), text.as_bytes())
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), RecordError> {
        write_whole(&self.path.join(name), &to_json(&self.path.join(name), value)?)
    }

    /// Starts the folder of a trial.
    pub fn trial(&self, id: &str) -> Result<TrialWriter, RecordError> {
        TrialWriter::create(&self.trial_path(id))
    }
}

pub(crate) fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| RecordError::malformed(path, error))?;
    text.push(b'\n');
    Ok(text)
}

/// Replaces a file so that a reader, or a kill at any moment, finds the old text or the new one and nothing between.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let written = (|| {
        let mut file = fs::File::create(&fresh).map_err(RecordError::io("create", &fresh))?;
        file.write_all(bytes).map_err(RecordError::io("write", &fresh))?;
        fs::rename(&fresh, path).map_err(RecordError::io("replace", path))
    })();
    if written.is_err() {
        // Half a file helps nobody, and on a full disk its room does.
        let _ = fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_number_is_read_back_to_the_last_bit(number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
            let text = to_json(Path::new("result.json"), &number).unwrap();
            let again: f64 = serde_json::from_slice(&text).unwrap();
            proptest::prop_assert_eq!(again.to_bits(), number.to_bits());
        }
    }
}
